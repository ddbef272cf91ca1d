// SPDX-License-Identifier: Apache-2.0
// REST as an HTTP client sees it: sandboxes, runs with their events, files, idempotency, problems, history, metrics.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as path from 'node:path';
import { engine, freePort, newStateDir, scratch, unlessEnforced } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';
import { wheel, wheelName } from '../lib/wheel.ts';

/** Names of an archive with what they are, modes and digests of files; it unpacks it with what Python has. */
const READ_ARCHIVE = `
import sys, json, tarfile, zipfile, hashlib
seen, name = {}, sys.argv[1]
def put(path, mode, data):
    assert path not in seen, path
    seen[path.rstrip("/")] = "folder" if data is None else f"file {mode & 0o7777:o} {hashlib.sha256(data).hexdigest()}"
if name.endswith(".tar"):
    with tarfile.open(name) as a:
        for m in a:
            assert m.isdir() or m.isreg(), m.name
            put(m.name, m.mode, None if m.isdir() else a.extractfile(m).read())
else:
    with zipfile.ZipFile(name) as a:
        assert a.testzip() is None
        for m in a.infolist():
            put(m.filename, m.external_attr >> 16, None if m.is_dir() else a.read(m))
print(json.dumps(seen))
`;

/** The bytes of one request, and what came back until the server closed or all of the body was there. */
async function answer(base: string, request: string): Promise<{ head: string; body: string }> {
	const sock = net.connect(Number(new URL(base).port), '127.0.0.1');
	let text = '';
	sock.on('error', () => undefined);
	try {
		await within('an answer', new Promise<void>((resolve) => {
			sock.on('close', () => resolve()).on('data', (b: Buffer) => {
				text += b.toString('latin1');
				const end = text.indexOf('\r\n\r\n');
				const length = /^Content-Length: (\d+)/m.exec(text);
				if (end >= 0 && length && text.length >= end + 4 + Number(length[1]))
					resolve();
			});
			sock.write(request);
		}), 20_000);
	} finally {
		sock.destroy();
	}
	const end = text.indexOf('\r\n\r\n');
	return { head: text.slice(0, end + 2), body: text.slice(end + 4) };
}

describe('REST', () => {
	let program: Program;
	let base: string;
	const state = newStateDir();
	const wheels = scratch('rest-wheels');
	const env = { SANDBOX_PIP_WHEEL_DIR: wheels, SANDBOX_NETWORK: 'allowlist', SANDBOX_NETWORK_ALLOW: 'example.org', SANDBOX_STATE_DIR: state, SANDBOX_MAX_SESSIONS: '40', SANDBOX_BUDGETS: 'kept_bytes=16777216/16777216', SANDBOX_MAX_UPLOAD_BYTES: '3000000', SANDBOX_MAX_CODE_BYTES: '5000' };

	before(async () => {
		fs.mkdirSync(wheels, { recursive: true });
		fs.chmodSync(wheels, 0o755);
		fs.writeFileSync(path.join(wheels, wheelName('gamma', '1.0')), wheel('gamma', '1.0', 'who = "gamma"', { requires: ['delta'] }));
		fs.writeFileSync(path.join(wheels, wheelName('delta', '1.0')), wheel('delta', '1.0', 'who = "delta"'));
		({ program, base } = await serve({ profile: 'full', env }));
	});
	after(async () => {
		await program.end();
	});

	async function ask(method: string, path: string, json?: unknown, headers: Record<string, string> = {}): Promise<{ status: number; body: Json; headers: Headers }> {
		const r = await fetch(`${base}/api/v1${path}`, {
			method,
			headers: json === undefined ? headers : { 'content-type': 'application/json', ...headers },
			body: json === undefined ? undefined : JSON.stringify(json),
		});
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) : {}, headers: r.headers };
	}

	async function box(kind = 'session'): Promise<string> {
		const r = await ask('POST', '/sandboxes', { kind });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body.id;
	}

	async function ran(id: string, json: Json): Promise<Json> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { wait: true, ...json });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body;
	}

	function problem(r: { status: number; body: Json; headers: Headers }, status: number, code: string): void {
		assert.deepEqual([r.status, r.body.status, r.body.code], [status, status, code], JSON.stringify(r.body));
		assert.equal(r.headers.get('content-type'), 'application/problem+json');
		for (const member of ['type', 'title', 'detail'])
			assert.equal(typeof r.body[member], 'string');
	}

	it('sandboxes: make, list, look, end', async () => {
		const id = await box();
		const stored = await ask('POST', '/sandboxes', { kind: 'stored', name: 'mine' });
		assert.deepEqual([stored.status, stored.body.kind, stored.body.name], [201, 'stored', 'mine']);
		const ids = (await ask('GET', '/sandboxes')).body.sandboxes.map((b: Json) => b.id);
		assert.ok(ids.includes(id) && ids.includes(stored.body.id));
		assert.equal((await ask('GET', `/sandboxes/${id}`)).body.state, 'active');
		for (const each of [id, stored.body.id]) {
			assert.equal((await ask('DELETE', `/sandboxes/${each}`)).status, 204);
			problem(await ask('GET', `/sandboxes/${each}`), 404, 'session_not_found');
			problem(await ask('DELETE', `/sandboxes/${each}`), 404, 'session_not_found');
		}
	});

	it('(slow) what ended runs printed is kept up to a bound, the latest first', async () => {
		const { id } = (await ask('POST', '/sandboxes', { kind: 'stored' })).body; // these keep 1 MiB of each stream
		const runs: string[] = [];
		for (let i = 0; i < 14; i++)
			runs.push((await ran(id, { code: 'import os\nfor fd in (1, 2):\n    for i in range(1200): os.write(fd, b"x" * 1000)' })).id);
		const kept = await Promise.all(runs.map(async (run) => (await ask('GET', `/runs/${run}`)).status));
		assert.deepEqual([kept[0], kept.at(-2), kept.at(-1)], [404, 200, 200], kept.join(' '));
		assert.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204);
	});

	it('(slow) answers of an Idempotency-Key are kept up to a bound; what was done is not done again', async () => {
		const { id } = (await ask('POST', '/sandboxes', { kind: 'stored' })).body;
		const code = 'import os\nopen("times", "a").write("x")\nfor fd in (1, 2):\n    for i in range(1200): os.write(fd, b"x" * 1000)';
		const run = (n: number): ReturnType<typeof ask> => ask('POST', `/sandboxes/${id}/runs`, { code, wait: true }, { 'idempotency-key': `bound-${n}` });
		for (let n = 0; n < 12; n++)
			assert.equal((await run(n)).status, 201);
		problem(await run(0), 409, 'already_exists');
		assert.equal((await run(11)).headers.get('idempotent-replayed'), 'true');
		assert.equal((await ran(id, { code: 'print(len(open("times").read()))' })).stdout, '12\n');
		assert.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204);
	});

	it('(slow) runs: result, failure, timeout, command, state', async () => {
		const id = await box();
		const r = await ran(id, { code: 'print("hé"); open("f.txt","w").write("1")' });
		assert.deepEqual([r.status, r.reason, r.exit_code, r.stdout], ['done', 'exited', 0, 'hé\n']);
		assert.deepEqual(r.artifacts, [{ name: 'f.txt', size: 1 }]);
		assert.equal((await ran(id, { code: 'import sys; sys.exit(3)' })).exit_code, 3);
		const late = await ran(id, { code: 'import time; print("in", flush=True); time.sleep(60)', timeout_s: 1 });
		assert.deepEqual([late.reason, late.exit_code, late.stdout], ['timeout', -1, 'in\n']);
		const command = await ran(id, { command: 'echo $((6*7)) | tee g.txt; ls' });
		assert.equal(command.stdout, '42\nf.txt\ng.txt\n');
		await ran(id, { code: 'x = 41', stateful: true });
		assert.equal((await ran(id, { code: 'x + 1', stateful: true })).value, '42');
		assert.deepEqual((await ask('GET', `/runs/${r.id}`)).body, r, 'a run can be asked for afterwards');
		problem(await ask('GET', '/runs/run_nothing'), 404, 'not_found');
	});

	it('a command in a chosen folder: where it ends is a member of its own, and the history has what was asked', async () => {
		const id = await box();
		const told = async (command: string, cwd: string, more: Json = {}): Promise<unknown[]> => {
			const r = await ran(id, { command, cwd, ...more });
			return [r.stdout, r.stderr, r.exit_code, r.value, r.ended_cwd];
		};
		assert.deepEqual(await told('mkdir -p "a \'b/c" && cd "a \'b" && pwd', '/mnt/data'), ["/mnt/data/a 'b\n", '', 0, '', "/mnt/data/a 'b"]);
		assert.deepEqual(await told('pwd; cd c; echo "$# [$1]"; false', "a 'b"), ["/mnt/data/a 'b\n0 []\n", '', 1, '', "/mnt/data/a 'b/c"]);
		assert.deepEqual(await told('echo $((6*7)); cd ..; exit 7', "/mnt/data/a 'b/c/"), ['42\n', '', 7, '', "/mnt/data/a 'b"]);
		assert.deepEqual((await told('cd /tmp', '.')).at(-1), '/tmp');
		assert.deepEqual((await told('(cd /)', '/usr/lib/..')).at(-1), '/usr');
		// What it tells is a path or nothing.
		for (const lie of ['kill -9 $$', 'exec true', 'trap - EXIT; printf "/a\\nb\\n" >&3', 'trap - EXIT; echo relative >&3'])
			assert.deepEqual((await told(lie, '.')).at(-1), undefined, lie);
		const { body } = await ask('POST', `/sandboxes/${id}/runs`, { command: 'echo out; cd /tmp', cwd: '.' });
		const events = await (await fetch(`${base}/api/v1/runs/${body.id}/events`)).text();
		assert.match(events, /^event: stdout\ndata: "out\\n"\n\nevent: end\n/m);
		assert.doesNotMatch(events, /event: value|\\u001e|cd --/);
		// No folder: a typed error, whether somebody waits or not, and nothing ran.
		await ran(id, { code: 'open("plain", "w")' });
		for (const [cwd, why] of [['missing', /^The folder cannot be entered, so nothing ran: No such file/], ['/mnt/data/plain', /Not a directory/], ['/nowhere/at/all', /No such/], ['x'.repeat(300), /name too long/]] as const) {
			problem(await ask('POST', `/sandboxes/${id}/runs`, { command: 'echo x > ran', cwd, wait: true }), 400, 'invalid_path');
			const { body: begun } = await ask('POST', `/sandboxes/${id}/runs`, { command: 'echo x > ran', cwd });
			await until('it has ended', async () => (await ask('GET', `/runs/${begun.id}`)).body.status === 'failed');
			const failed = (await ask('GET', `/runs/${begun.id}`)).body;
			assert.equal(failed.error, 'invalid_path');
			assert.match(failed.message, why);
		}
		for (const wrong of [{ command: 'ls', cwd: '' }, { command: 'ls', cwd: 'x'.repeat(5000) }, { command: 'ls', cwd: 7 }, { command: 'ls', cwd: 'a\0b' }, { code: '1', cwd: '.' }, { code: '1', stateful: true, cwd: '.' }])
			assert.equal((await ask('POST', `/sandboxes/${id}/runs`, { ...wrong, wait: true })).status, 400, JSON.stringify(wrong));
		assert.ok(!(await ask('GET', `/sandboxes/${id}/files?path=`)).body.files.some((f: Json) => f.name === 'ran'));
		const cells = (await ask('GET', `/notebooks/${id}`)).body.cells.filter((c: Json) => c.kind === 'command');
		assert.deepEqual([cells[0].code, cells[0].cwd, cells[0].ended_cwd, cells[0].value.text, cells[0].value.total], ['mkdir -p "a \'b/c" && cd "a \'b" && pwd', '/mnt/data', "/mnt/data/a 'b", '', 0]);
		assert.deepEqual([cells.at(-1).status, cells.at(-1).error.slice(0, 28)], ['failed', 'The folder cannot be entered']);
		assert.doesNotMatch(JSON.stringify(cells) + JSON.stringify((await ask('GET', `/notebooks/${id}/export?format=ipynb`)).body), /__command|u001e|>&3; \} 2/);
		assert.equal((await ran(id, { command: 'pwd' })).ended_cwd, undefined, 'only where a folder was chosen');
		const own = (await ask('POST', '/sandboxes', { workdir: 'project' })).body.id;
		assert.deepEqual((await ran(own, { command: 'pwd', cwd: '/mnt/data/project' })).stdout, '/mnt/data/project\n', 'the folder of the sandbox is made');
	});

	it('(slow) files of a run: in folders, after errors, of a run whose output was cut', async () => {
		const id = await box();
		const names = (r: Json): string[] => r.artifacts.map((a: Json) => a.name);
		const make = 'import os\nos.makedirs("out/deep", exist_ok=True)\nopen("out/deep/r.csv", "w").write("abc")\nopen("top.txt", "w").write("t")\n';
		const good = await ran(id, { code: make });
		assert.deepEqual(good.artifacts, [{ name: 'top.txt', size: 1 }, { name: 'out/deep/r.csv', size: 3 }]);
		assert.equal(good.artifacts_more, false);
		assert.deepEqual(names(await ran(id, { code: `${make}1/0` })), ['top.txt', 'out/deep/r.csv'], 'after an error');
		assert.deepEqual(names(await ran(id, { code: 'import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nraise ValueError("no")' })), ['figure-1.png'], 'a figure that was shown before the error');
		assert.deepEqual(names(await ran(id, { code: 'open("late.txt", "w").write("x"); import time; time.sleep(60)', timeout_s: 1 })), ['late.txt'], 'after a timeout');
		const cut = await ran(id, { code: 'print("x" * 3_000_000); open("own.txt", "w").write("1")' });
		assert.ok(cut.stdout_truncated && cut.stdout_file, 'the output was cut');
		assert.deepEqual(names(cut), ['own.txt']);
		assert.deepEqual(names(await ran(id, { code: 'pass' })), []);
		// The page and the history have the same files.
		const cells = (await ask('GET', `/notebooks/${id}`)).body.cells;
		const of = (run: string): string[] => cells.find((c: Json) => c.run === run).files.map((f: Json) => f.name);
		await until('the history', async () => (await ask('GET', `/notebooks/${id}`)).body.cells.some((c: Json) => c.run === good.id), 10_000);
		assert.deepEqual(of(good.id), ['top.txt', 'out/deep/r.csv']);
		assert.deepEqual(of(cut.id), ['own.txt']);
	});

	it('files of a run: not what was uploaded meanwhile, nor what only got other permissions or another name', async () => {
		const id = await box();
		const names = (r: Json): string[] => r.artifacts.map((a: Json) => a.name);
		const url = `${base}/api/v1/sandboxes/${id}/files`;
		await ran(id, { code: 'import os\nos.mkdir("d")\nfor n in ("old.txt", "older.txt", "d/deep.txt"): open(n, "w").write("1")' });
		const started = await ask('POST', `/sandboxes/${id}/runs`, { code: 'import os, time\nopen("began", "w")\nwhile not (os.path.exists("go") and os.path.exists("d/go")): time.sleep(0.01)\nopen("mine", "w")' });
		await until('the run', async () => (await ask('GET', `/sandboxes/${id}/files`)).body.files.some((f: Json) => f.name === 'began'), 10_000);
		for (const name of ['d/go', 'go'])
			assert.equal((await fetch(`${url}/${name}`, { method: 'PUT', body: 'x' })).status, 201);
		await until('its end', async () => (await ask('GET', `/runs/${started.body.id}`)).body.status === 'done', 10_000);
		assert.deepEqual(names((await ask('GET', `/runs/${started.body.id}`)).body), ['began', 'mine']);
		assert.deepEqual(names(await ran(id, { code: 'pass' })), [], 'nor are they files of the next run');
		assert.deepEqual(names(await ran(id, { command: 'chmod 600 old.txt d/deep.txt; ln older.txt another.txt; ln d/deep.txt d/twin.txt' })), ['another.txt', 'd/twin.txt']);
		assert.deepEqual(names(await ran(id, { command: 'echo 2 >> old.txt; touch d/deep.txt; mv d/twin.txt d/moved.txt; echo new > go' })), ['go', 'old.txt', 'd/deep.txt', 'd/moved.txt']);
	});

	it('runs go on without their request: events, cancel, busy', async () => {
		const id = await box();
		const started = await ask('POST', `/sandboxes/${id}/runs`, { code: 'import sys, time\nprint("é" * 3, flush=True)\nprint("e", file=sys.stderr, flush=True)\nwhile True: time.sleep(1)' });
		assert.deepEqual([started.status, started.body.status], [201, 'running']);
		problem(await ask('POST', `/sandboxes/${id}/runs`, { code: '1' }), 409, 'session_busy');
		problem(await ask('DELETE', `/sandboxes/${id}`), 409, 'session_busy');
		const stream = await fetch(`${base}/api/v1/runs/${started.body.id}/events`);
		assert.match(stream.headers.get('content-type')!, /^text\/event-stream/);
		let text = '';
		let cancelled = false;
		const decoder = new TextDecoder();
		for await (const piece of stream.body as unknown as AsyncIterable<Uint8Array>) {
			text += decoder.decode(piece, { stream: true });
			if (!cancelled && text.includes('event: stdout') && text.includes('event: stderr')) {
				cancelled = true;
				assert.equal((await ask('DELETE', `/runs/${started.body.id}`)).status, 202);
			}
		}
		assert.match(text, /event: stdout\ndata: "ééé\\n"\n\n/);
		assert.match(text, /event: stderr\ndata: "e\\n"\n\n/);
		const end = JSON.parse(/event: end\ndata: (.*)\n\n$/.exec(text)![1]!);
		assert.deepEqual([end.status, end.reason], ['done', 'cancelled']);
		// Who comes late sees the same.
		const again = await (await fetch(`${base}/api/v1/runs/${started.body.id}/events`)).text();
		assert.equal(again, text.slice(text.indexOf('event:')));
	});

	it('files: put, list, get with ranges, delete; names that lead out', async () => {
		const id = await box();
		const url = `${base}/api/v1/sandboxes/${id}/files`;
		const data = Buffer.alloc(2_000_000, 'abcdefghij');
		const put = await fetch(`${url}/sub/big%20one.bin`, { method: 'PUT', body: data });
		assert.deepEqual([put.status, await put.json()], [201, { path: 'sub/big one.bin', size: data.length }]);
		problem(await ask('PUT', `/sandboxes/${id}/files/sub/big%20one.bin`), 409, 'file_exists');
		assert.equal((await fetch(`${url}/sub/big%20one.bin?overwrite=true`, { method: 'PUT', body: 'xyz' })).status, 201);
		assert.equal(await (await fetch(`${url}/sub/big%20one.bin`)).text(), 'xyz');
		const part = await fetch(`${url}/sub/big%20one.bin`, { headers: { range: 'bytes=1-1' } });
		assert.deepEqual([part.status, await part.text()], [206, 'y']);
		assert.deepEqual((await ask('GET', `/sandboxes/${id}/files?path=sub`)).body.files.map((f: Json) => [f.name, f.type, f.size]), [['big one.bin', 'file', 3]]);
		assert.equal((await fetch(`${url}/large`, { method: 'PUT', body: Buffer.alloc(3_000_001) })).status, 413);
		await ran(id, { command: 'ln -s /etc/passwd link; mkdir -p d/e; echo 1 > d/e/f' });
		for (const name of ['link', 'nothing', 'd', 'd/e/f/g', '%2e%2e%2fx', 'a%2f..%2f..%2fetc%2fpasswd', 'x%00y', 'link%2fx', '%2fetc%2fpasswd', '%2fmnt%2fdata%2fd%2fe%2ff',
			'd%2fe%2f', 'd%2f%2fe%2ff', 'd%2f.%2fe%2ff', 'd%252fe%252ff', 'd%5ce%5cf', 'd%2fe%2ff%00', 'd%2fe%2f%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd']) {
			const r = await fetch(`${url}/${name}`);
			assert.equal(r.status, name.includes('%00') ? 400 : 404, name);
			assert.ok(!(await r.text()).includes('root:'), name);
		}
		for (const name of ['..%2fx', '%2e%2e%2f%2e%2e%2ftmp%2fx', '%2ftmp%2fx', 'd%2f..%2f..%2fx', 'link%2fx'])
			for (const [method, body] of [['PUT', 'x'], ['PATCH', '{"to":"y"}'], ['DELETE', undefined]] as const)
				assert.equal((await fetch(`${url}/${name}`, { method, body, headers: { 'content-type': method === 'PATCH' ? 'application/json' : 'application/octet-stream' } })).status, 404, `${method} ${name}`);
		// Generated clients encode the slashes of a path, too.
		assert.equal(await (await fetch(`${url}/d%2Fe%2ff`)).text(), '1\n');
		assert.deepEqual((await (await fetch(`${url}/d%2Fg/h%2fi`, { method: 'PUT', body: 'x' })).json()), { path: 'd/g/h/i', size: 1 });
		assert.equal((await ask('DELETE', `/sandboxes/${id}/files/d%2Fg%2Fh%2Fi`)).status, 204);
		problem(await ask('GET', `/sandboxes/${id}%2ffiles/d`), 404, 'not_found');
		problem(await ask('DELETE', `/sandboxes/${id}/files/nothing`), 404, 'not_found');
		assert.equal((await ask('DELETE', `/sandboxes/${id}/files/d?recursive=true`)).status, 204);
		assert.equal((await ask('DELETE', `/sandboxes/${id}/files/link`)).status, 204);
		assert.deepEqual((await ask('GET', `/sandboxes/${id}/files`)).body.files.map((f: Json) => f.name), ['sub']);
	});

	it('a folder as one archive: what is in it, and nothing else', async () => {
		const id = await box();
		const code = `
import os, hashlib
os.makedirs("d/e/empty"); os.makedirs("d/" + "long" * 40 + "/" + "name" * 40)
open("d/e/f é", "w").write("text"); open("d/big", "wb").write(bytes(range(256)) * 12000); open("d/none", "w")
open("d/" + "long" * 40 + "/" + "name" * 40 + "/x", "w").write("deep")
open("d/run.sh", "w").write("#!/bin/sh"); os.chmod("d/run.sh", 0o4777)
open(b"d/bad\\xff\\\\:\\x1b]0;x\\x07\\n\\x7fname", "w").write("bytes")
os.symlink("/etc/passwd", "d/link"); os.symlink("/", "d/e/up"); os.mkfifo("d/fifo")
import socket; socket.socket(socket.AF_UNIX).bind("d/socket")
for i in range(300): open(f"d/e/{i}", "w").write(str(i))
`;
		const made = await ran(id, { code });
		assert.equal(made.exit_code, 0, made.stderr);
		for (const [form, url] of [['tar', 'files/d?archive=tar'], ['zip', 'files?path=d&archive=zip']] as const) {
			const r = await fetch(`${base}/api/v1/sandboxes/${id}/${url}`);
			assert.deepEqual([r.status, r.headers.get('content-type'), r.headers.get('content-disposition')],
				[200, form === 'tar' ? 'application/x-tar' : 'application/zip', `attachment; filename="d.${form}"`]);
			const file = path.join(scratch('rest-archive'), `d.${form}`);
			fs.mkdirSync(path.dirname(file), { recursive: true });
			fs.writeFileSync(file, Buffer.from(await r.arrayBuffer()));
			const seen = JSON.parse(execFileSync('python3', ['-c', READ_ARCHIVE, file], { encoding: 'utf8' })) as Record<string, string>;
			assert.deepEqual(Object.keys(seen).filter((name) => name.includes('bad')), ['bad\ufffd___]0;x___name']);
			assert.equal(seen['big'], `file 644 ${createHash('sha256').update(Buffer.concat(Array<Buffer>(12000).fill(Buffer.from(Array.from({ length: 256 }, (_, i) => i))))).digest('hex')}`);
			assert.equal(seen['e/f é'], `file 644 ${createHash('sha256').update('text').digest('hex')}`);
			assert.match(seen['run.sh']!, /^file 755 /);
			assert.match(seen[`${'long'.repeat(40)}/${'name'.repeat(40)}/x`]!, /^file 644 /);
			assert.equal(seen['e/empty'], 'folder');
			assert.match(seen['e/299']!, /^file/);
			for (const name of ['link', 'e/up', 'fifo', 'socket'])
				assert.ok(!(name in seen), name);
			assert.equal(Object.keys(seen).length, 300 + 10, Object.keys(seen).slice(0, 20).join());
		}
		problem(await ask('GET', `/sandboxes/${id}/files/nothing?archive=tar`), 404, 'not_found');
		problem(await ask('GET', `/sandboxes/${id}/files/d/link?archive=tar`), 404, 'not_found');
		problem(await ask('GET', `/sandboxes/${id}/files?archive=rar`), 400, 'invalid_argument');
		assert.equal((await fetch(`${base}/api/v1/sandboxes/${id}/files?archive=zip`, { method: 'HEAD' })).status, 200);
	});

	it('(slow) a client that leaves ends its archive; a sandbox that goes cuts it off', async () => {
		const id = await box();
		await ran(id, { code: 'for i in range(4):\n\twith open(f"sparse{i}", "wb") as f: f.truncate(1 << 30)' });
		const url = `${base}/api/v1/sandboxes/${id}/files?archive=tar`;
		for (let i = 0; i < 20; i++) { // more than may be made at the same time
			const stop = new AbortController();
			const r = await fetch(url, { signal: stop.signal });
			if (r.status === 429) {
				await r.text();
				i--;
				continue;
			}
			assert.equal(r.status, 200);
			await r.body!.getReader().read();
			stop.abort();
		}
		await until('all of them have ended', async () => {
			const stop = new AbortController();
			const all = await Promise.all(Array.from({ length: 4 }, () => fetch(url, { signal: stop.signal })));
			stop.abort();
			return all.every((r) => r.status === 200);
		}, 20_000);
		const reader = (await fetch(url)).body!.getReader();
		await reader.read();
		assert.equal((await ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
		await assert.rejects(async () => {
			while (!(await reader.read()).done);
		});
	});

	it('a list of packages whose sandbox is deleted meanwhile says that the sandbox has ended', async () => {
		for (let round = 0; round < 5; round++) {
			const id = await box();
			const lists = [1, 2, 3].map(() => ask('GET', `/sandboxes/${id}/packages?all=true`));
			await ask('GET', `/sandboxes/${id}`); // answered after the lists have begun
			assert.equal((await ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
			for (const r of await Promise.all(lists))
				assert.ok(r.status === 200 || ['session_not_found', 'sandbox_lost'].includes(r.body.code), JSON.stringify(r.body));
		}
	});

	it('(slow) packages: install, status, list, uninstall', async () => {
		const id = await box();
		const listed = async (): Promise<string[]> => (await ask('GET', `/sandboxes/${id}/packages`)).body.packages.map((p: Json) => `${p.name}==${p.version}`);
		const begun = await ask('POST', `/sandboxes/${id}/packages`, { packages: 'gamma' });
		assert.deepEqual([begun.status, begun.body.status, begun.body.complete], [200, 'installing', false], JSON.stringify(begun.body));
		const done = await ask('GET', `/sandboxes/${id}/packages/gamma?wait=true`);
		assert.deepEqual([done.status, done.body.status, done.body.complete], [200, 'success', true], JSON.stringify(done.body));
		assert.deepEqual(done.body.installed.toSorted(), ['delta==1.0', 'gamma==1.0']);
		assert.deepEqual(await listed(), ['delta==1.0', 'gamma==1.0']);
		assert.equal((await ran(id, { code: 'import gamma, delta; print(gamma.who, delta.who)' })).stdout, 'gamma delta\n');
		assert.ok((await ask('GET', `/sandboxes/${id}/packages?all=true`)).body.packages.some((p: Json) => p.from_image));
		assert.equal((await ask('GET', `/sandboxes/${id}/packages/nothing-of-that-name`)).body.status, 'not_found');
		const failed = await ask('POST', `/sandboxes/${id}/packages`, { packages: 'nothing-of-that-name', wait: true });
		assert.deepEqual([failed.status, failed.body.status], [200, 'failed'], JSON.stringify(failed.body));
		assert.equal((await ask('DELETE', `/sandboxes/${id}/packages/gamma`)).body.status, 'success');
		assert.deepEqual(await listed(), ['delta==1.0']);
		for (const packages of ['--index-url http://127.0.0.1:1 gamma', '../gamma', ''])
			problem(await ask('POST', `/sandboxes/${id}/packages`, { packages }), 400, 'invalid_argument');
		problem(await ask('POST', '/sandboxes/nothing/packages', { packages: 'gamma' }), 404, 'session_not_found');
	});

	it('what leaves a sandbox, or may not, is in the audit log', async () => {
		const id = await box();
		const code = 'import urllib.request\nfor i in range(100):\n\ttry: urllib.request.urlopen("http://evil.example/")\n\texcept Exception: pass';
		assert.equal((await ran(id, { code })).exit_code, 0);
		const rows = (await ask('GET', '/audit?limit=1000')).body.rows.filter((r: Json) => r.action === 'egress.refuse' && r.object.startsWith(id));
		assert.equal(rows.length, 60, 'a flood is counted, not written');
		assert.deepEqual([rows[0].object, rows[0].result], [`${id} evil.example:80`, 'host_not_allowed']);
	});

	it('an Idempotency-Key makes one sandbox', async () => {
		const key = { 'idempotency-key': 'once' };
		const before = (await ask('GET', '/sandboxes')).body.sandboxes.length;
		const [a, b] = await Promise.all([ask('POST', '/sandboxes', { kind: 'session' }, key), ask('POST', '/sandboxes', { kind: 'session' }, key)]);
		assert.ok([a!.status, b!.status].includes(201));
		const c = await ask('POST', '/sandboxes', { kind: 'session' }, key);
		assert.deepEqual([c.status, c.headers.get('idempotent-replayed')], [201, 'true']);
		assert.equal((await ask('GET', '/sandboxes')).body.sandboxes.length, before + 1);
		problem(await ask('POST', '/sandboxes', { kind: 'stored' }, key), 409, 'already_exists');
		problem(await ask('POST', '/sandboxes', {}, { 'idempotency-key': 'x'.repeat(300) }), 400, 'invalid_argument');
	});

	it('what is not as described is refused', async () => {
		const id = await box();
		const bad: unknown[] = [{ kind: 'other' }, { kind: 1 }, { name: 5 }, { unknown: 1 }, { name: 'x'.repeat(201) }, { name: 'a\0b' }];
		for (const body of bad)
			problem(await ask('POST', '/sandboxes', body), 400, 'invalid_argument');
		for (const body of [{}, { code: '1', command: 'ls' }, { code: 1 }, { code: '1', timeout_s: 0 }, { code: '1', timeout_s: 1.5 }, { code: '1', wait: 'maybe' }])
			problem(await ask('POST', `/sandboxes/${id}/runs`, body), 400, 'invalid_argument');
		problem(await ask('POST', `/sandboxes/${id}/runs`, { code: '#'.repeat(5001) }), 413, 'code_too_large');
		for (const text of ['[]', '"x"', '{', '{"kind":"session","kind":"stored"}', '['.repeat(100000), 'null']) {
			const r = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: text });
			assert.equal(r.status, 400, text.slice(0, 40));
			await r.text();
		}
		const form = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'text/plain' }, body: '{}' });
		assert.equal(form.status, 400, 'a page of another site can send text/plain without asking');
		for (const query of ['limit=0', 'limit=x', 'limit=1001', 'before_ms=-1', 'all=maybe'])
			problem(await ask('GET', `/runs?${query}`), 400, 'invalid_argument');
		const cross = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { origin: 'https://evil.example', 'content-type': 'application/json' }, body: '{}' });
		assert.equal(cross.status, 403);
		assert.equal((await fetch(`${base}/api/v1/sandboxes`, { method: 'PATCH' })).status, 405);
	});
	it('every refusal is a problem, also of what no handler sees', async () => {
		const id = await box();
		const url = `/api/v1/sandboxes/${id}/files/large`;
		await ask('POST', `/sandboxes/${id}/runs`, { code: 'open("f", "w").write("x" * 10)', wait: true });
		const over = 'x'.repeat(3_000_001);
		const large = `Content-Length: ${over.length}\r\n\r\n${over}`, chunks = `Transfer-Encoding: chunked\r\n\r\n${over.length.toString(16)}\r\n${over}\r\n0\r\n\r\n`;
		const json = 'Content-Type: application/json\r\n';
		const cases: [what: string, request: string, status: number, code: string, header?: RegExp][] = [
			['a file over the limit', `PUT ${url} HTTP/1.1\r\nHost: localhost\r\n${large}`, 413, 'upload_too_large'],
			['the same in chunks', `PUT ${url} HTTP/1.1\r\nHost: localhost\r\n${chunks}`, 413, 'upload_too_large'],
			['a body over the limit', `POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n${json}${large}`, 413, 'body_too_large'],
			['the same in chunks', `POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n${json}${chunks}`, 413, 'body_too_large'],
			['an unknown path', 'GET /api/v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n', 404, 'not_found'],
			['a method that the path has not', 'PATCH /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n', 405, 'method_not_allowed', /^Allow: GET, HEAD, POST, OPTIONS\r$/m],
			['a range behind the end', `GET /api/v1/sandboxes/${id}/files/f HTTP/1.1\r\nHost: localhost\r\nRange: bytes=10-\r\n\r\n`, 416, 'range_not_satisfiable', /^Content-Range: bytes \*\/10\r$/m],
			['long headers', `GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nX-A: ${'a'.repeat(40_000)}\r\n\r\n`, 431, 'head_too_large'],
			['many headers', `GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\n${'X-A: a\r\n'.repeat(100)}\r\n`, 431, 'head_too_large'],
			['no head', 'GET /api/v1/me\r\n\r\n', 400, 'bad_request'],
			['a broken query', 'GET /api/v1/me?%zz HTTP/1.1\r\nHost: localhost\r\n\r\n', 400, 'bad_request'],
			['a broken body', `POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n${json}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, 400, 'bad_request'],
			['a compressed body', `POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n${json}Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\n{`, 415, 'content_encoding'],
			['an expectation', 'GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nExpect: wonders\r\n\r\n', 417, 'expectation_failed'],
			['an unknown method', 'BREW /api/v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n', 501, 'not_implemented'],
			['HTTP/2.0', 'GET /api/v1/me HTTP/2.0\r\nHost: localhost\r\n\r\n', 505, 'http_version'],
			['another Host', 'GET /api/v1/me HTTP/1.1\r\nHost: evil.example\r\n\r\n', 403, 'forbidden'],
			['another Origin', 'GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n', 403, 'forbidden'],
			['a key that is none', `GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer csn_${'x'.repeat(40)}\r\n\r\n`, 401, 'unauthorized', /^WWW-Authenticate: Bearer realm="caisson"\r$/m],
			['the same at the counters', `GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer csn_${'x'.repeat(40)}\r\n\r\n`, 401, 'unauthorized', /^WWW-Authenticate: Bearer realm="caisson"\r$/m],
			['a body that is no JSON', `POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n${json}Content-Length: 1\r\n\r\n{`, 400, 'invalid_argument'],
		];
		for (const [what, request, status, code, header] of cases) {
			const { head, body } = await answer(base, request);
			assert.equal(head.split('\r\n')[0]!.split(' ')[1], String(status), `${what}: ${head}`);
			assert.match(head, /^Content-Type: application\/problem\+json\r$/m, what);
			const { type, title, detail, ...rest } = JSON.parse(body);
			assert.deepEqual([type, title, typeof detail], ['about:blank', head.split('\r\n')[0]!.split(' ').slice(2).join(' '), 'string'], what);
			assert.deepEqual([rest.status, rest.code], [status, code], what);
			if (header)
				assert.match(head, header, what);
		}
		assert.deepEqual((await ask('GET', `/sandboxes/${id}/files?path=`)).body.files.map((f: Json) => f.name ?? f.path), ['f']);
	});

	it('history and counters see every run, by whatever way it came', async () => {
		const id = await box();
		await ran(id, { code: 'print("not kept")' });
		const rows = (await ask('GET', `/runs?sandbox=${id}`)).body.runs;
		assert.equal(rows.length, 1);
		assert.deepEqual([rows[0].reason, rows[0].exit_code, rows[0].kind, rows[0].output_bytes], ['exited', 0, 'code', 9]);
		assert.ok(!JSON.stringify(rows).includes('not kept'));
		assert.ok((await ask('GET', '/stats')).body.runs.exited >= 1);
		const r = await fetch(`${base}/metrics`);
		assert.match(r.headers.get('content-type')!, /^text\/plain; version=0\.0\.4/);
		const text = await r.text();
		const names = new Set<string>();
		for (const line of text.trimEnd().split('\n')) {
			assert.match(line, /^(# (HELP|TYPE) caisson_\w+ .+|caisson_\w+(\{\w+="[^"\\\n]*"(,\w+="[^"\\\n]*")*\})? -?[0-9.]+)$/, line);
			names.add(line.split(/[ {]/)[0]!);
		}
		assert.match(text, /^caisson_http_answer_seconds_total \d+$/m);
		const active = (await ask('GET', '/sandboxes?all=true')).body.sandboxes.filter((b: Json) => b.state === 'active');
		const promised = active.reduce((n: number, b: Json) => n + b.limits.memory_mb * 2 ** 20, 0);
		assert.deepEqual([promised > 0, Number(/^caisson_sandboxes_memory_limit_bytes (\d+)$/m.exec(text)?.[1])], [true, promised]);
		assert.match(text, /^caisson_runs_total\{reason="exited"\} [1-9]/m);
		const count = Number(/^caisson_run_seconds_count (\d+)$/m.exec(text)![1]);
		assert.equal(Number(/^caisson_run_seconds_bucket\{le="\+Inf"\} (\d+)$/m.exec(text)![1]), count);
		for (const path of ['/healthz', '/readyz', '/health'])
			assert.equal((await fetch(base + path)).status, 200, path);
	});

	it('the memory that sandboxes use is a metric', { skip: unlessEnforced('memory') }, async () => {
		const used = async (): Promise<number> => Number(/^caisson_sandboxes_memory_bytes (\d+)$/m.exec(await (await fetch(`${base}/metrics`)).text())![1]);
		const id = (await ask('POST', '/sandboxes', {})).body.id as string;
		const held = async (code: string): Promise<number> => {
			assert.equal((await ask('POST', `/sandboxes/${id}/runs`, { code, stateful: true, wait: true })).body.exit_code, 0);
			return (await Promise.all([used(), used(), used()]))[2]!; // one question may answer several
		};
		const before = await held('x = None');
		assert.ok(before > 0);
		const more = await held('x = b"x" * (150 << 20)') - before;
		assert.ok(more > 100 << 20 && more < 300 << 20, `${more >> 20} MiB more`);
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('caisson ps lists them, whatever their names are', async () => {
		const id = (await ask('POST', '/sandboxes', { kind: 'stored', name: 'mine \u001b[31m\u009b' })).body.id as string;
		const r = await caisson(['ps', '--listen', base.slice('http://'.length)]);
		assert.equal(r.code, 0, r.stderr.toString());
		const row = r.stdout.toString().split('\n').find((l) => l.startsWith(id));
		assert.match(row ?? '', /^\S+ +stored +active +\d+s +\d+s +mine \?\[31m\?$/);
		await ask('DELETE', `/sandboxes/${id}`);
		const none = await caisson(['ps', '--listen', `127.0.0.1:${await freePort()}`]);
		assert.match(none.stderr.toString(), /no server at/);
		assert.notEqual(none.code, 0);
	});
	it('caisson ps --health is what a health check of a container asks', async () => {
		const ready = await caisson(['ps', '--health', '--listen', base.slice('http://'.length)], { env: { SANDBOX_API_KEY: 'no key is needed' } });
		assert.deepEqual([ready.code, ready.stdout.toString()], [0, 'ready\n'], ready.stderr.toString());
		const none = await caisson(['ps', '--health', '--listen', `127.0.0.1:${await freePort()}`]);
		assert.deepEqual([none.code, none.stdout.toString()], [1, ''], none.stderr.toString());
		assert.match((await caisson(['ps', '--healthy'])).stderr.toString(), /--health/);
	});
	it('the policy says what holds', async () => {
		const r = await ask('GET', '/policy');
		assert.equal(r.status, 200, JSON.stringify(r.body));
		assert.deepEqual([r.body.network, r.body.engine, r.body.profile], ['allowlist', engine, 'full']);
	});

	it('the description names every route, and each of its references is there', async () => {
		const doc = (await ask('GET', '/openapi.json')).body;
		assert.equal(doc.openapi, '3.1.0');
		// Generators of clients drop a schema with a list of nothing, and have a class File of their own.
		const lists = (at: unknown, where: string): string[] => at === null || typeof at !== 'object' ? []
			: [...((at as Json).type === 'array' && !('items' in at) ? [where] : []), ...Object.entries(at).flatMap(([k, v]) => lists(v, `${where}/${k}`))];
		assert.deepEqual(lists(doc, ''), []);
		assert.equal('File' in doc.components.schemas, false);
		const text = JSON.stringify(doc);
		for (const [, name] of text.matchAll(/#\/components\/schemas\/(\w+)/g))
			assert.ok(doc.components.schemas[name!], name);
		const ids = new Set<string>();
		for (const [path, item] of Object.entries<Json>(doc.paths))
			for (const [method, op] of Object.entries<Json>(item)) {
				assert.ok(!ids.has(op.operationId), op.operationId);
				ids.add(op.operationId);
				// The server knows it: nothing answers 405, and 404 only as a problem of the thing that is asked for.
				const url = `${base}${path.replace(/\{\w+\}/g, 'nothing')}`;
				const r = await fetch(url, { method: method.toUpperCase(), headers: op.requestBody ? { 'content-type': 'application/json' } : {}, body: op.requestBody ? '{' : undefined });
				const endless = /^text\/event-stream/.test(r.headers.get('content-type') ?? '');
				const body = endless ? (await r.body!.cancel(), '') : await r.text();
				assert.ok(String(r.status) in op.responses, `${method} ${path}: ${r.status} ${body}`);
			}
		assert.ok(ids.size >= 25);
	});

	it('what was stored is there after SIGKILL', async () => {
		const id = await box('stored');
		await ran(id, { code: 'open("kept.txt","w").write("yes")' });
		program.kill('SIGKILL');
		await program.exit;
		({ program, base } = await serve({ profile: 'full', env }));
		assert.ok((await ask('GET', '/sandboxes')).body.sandboxes.some((b: Json) => b.id === id));
		await until('the sandbox is free again', async () => (await fetch(`${base}/api/v1/sandboxes/${id}/files/kept.txt`)).status === 200, 20_000);
		assert.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204);
	});
	it('a server that keeps results and answers of its users ends in good order', async () => {
		const id = await box('session');
		await ran(id, { code: 'print(1)' });
		await ask('POST', '/sandboxes', { kind: 'session' }, { 'idempotency-key': 'kept until the end' });
		program.kill('SIGTERM');
		const { code, signal, stderr } = await within('the end', program.exit, 20_000);
		assert.deepEqual([code, signal], [0, null], stderr.toString());
		({ program, base } = await serve({ profile: 'full', env }));
	});
});
