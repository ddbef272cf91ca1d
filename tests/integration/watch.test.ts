// SPDX-License-Identifier: Apache-2.0
// GET /api/v1/sandboxes/{id}/events: what changes in a folder of a sandbox, whoever changes it, as events; and what hostile code can make of it.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { after, afterEach, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { engineEnv, newStateDir, slowness } from '../lib/env.ts';
import { Stream } from '../lib/event-stream.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { turnsOf } from '../lib/turns.ts';
import { until } from '../lib/wait.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const EACH = 12; // watches of one user
const OF_SANDBOX = 8; // PROTO_WATCHES_MAX
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';

interface Event { id: string; name: string; data: Json }

const eventsOf = (s: Stream): Event[] => s.text.split('\n\n').flatMap((block) => {
	const m = /^id: (\S+)\nevent: (\S+)\ndata: ([^\n]*)$/.exec(block);
	return m ? [{ id: m[1]!, name: m[2]!, data: JSON.parse(m[3]!) as Json }] : [];
});
/** "type path" of each change, folders with a slash behind them. */
const changesOf = (s: Stream): string[] => eventsOf(s).filter((e) => e.name === 'change').map((e) => `${e.data.type} ${e.data.path}${e.data.folder ? '/' : ''}`);

describe('watching the files of a sandbox', () => {
	let program: Program;
	let base: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_BUDGETS: `watchers=${EACH}/${4 * EACH}`, CAISSON_WATCH_TURNS: '5' };
	const streams: Stream[] = [];

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
	});
	/* A server of a plain user has 16 instances of inotify for all of its sandboxes. */
	afterEach(() => streams.splice(0).forEach((s) => s.close()));
	after(async () => {
		await program.end();
	});

	const ask = asker(() => base, ADMIN);
	async function make(key = ADMIN): Promise<string> {
		const r = await ask('POST', '/sandboxes', {}, key);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	async function run(id: string, code: string, key = ADMIN): Promise<Json> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code, wait: true, timeout_s: 300 }, key);
		assert.equal(r.status, 201, r.text);
		assert.equal(r.body.reason, 'exited', r.text);
		assert.equal(r.body.exit_code, 0, r.text);
		return r.body;
	}
	async function put(id: string, path: string, text = 'x', key = ADMIN): Promise<void> {
		const r = await fetch(`${base}/api/v1/sandboxes/${id}/files/${encodeURIComponent(path)}?overwrite=true`, { method: 'PUT', body: text, headers: { 'x-api-key': key } });
		assert.equal(r.status, 201, await r.text());
	}
	async function watch(id: string, query = '', key = ADMIN, headers: Record<string, string> = {}): Promise<Stream> {
		const s = await Stream.open(`${base}/api/v1/sandboxes/${id}/events${query}`, { headers: { 'x-api-key': key, ...headers } });
		streams.push(s);
		if (s.status === 200)
			await s.wait(/event: start\n/);
		return s;
	}
	const has = (s: Stream, ...wanted: string[]): Promise<unknown> => until(wanted.join(', '), async () => {
		const got = changesOf(s);
		assert.ok(!s.closed || wanted.every((w) => got.includes(w)), s.text);
		return wanted.every((w) => got.includes(w));
	});
	async function keyOf(name: string): Promise<string> {
		const e = { env: { ...env, SANDBOX_API_KEY: '' } };
		await caisson(['user', 'add', name, '--password', 'none'], e);
		return /csn_\S+/.exec((await caisson(['key', 'new', name], e)).stdout.toString())![0];
	}
	const used = async (): Promise<number> => (await ask('GET', '/stats')).body.budgets.watchers.used;
	const refused = (r: { status: number; body: Json; text: string }, status: number, code: string): void => assert.deepEqual([r.status, r.body.code], [status, code], r.text);

	it('tells what runs, commands and clients do: create, write, remove, rename, chmod', async () => {
		const id = await make();
		const s = await watch(id);
		const [start] = eventsOf(s);
		assert.deepEqual([start!.name, start!.data], ['start', { path: '', recursive: false }]);
		await run(id, 'open("a.txt", "w").write("1")');
		await has(s, 'create a.txt', 'write a.txt');
		await put(id, 'up.txt');
		await has(s, 'create up.txt');
		await run(id, 'import os\nos.chmod("a.txt", 0o600)\nos.rename("a.txt", "b.txt")\nos.remove("up.txt")\nos.mkdir("folder")');
		await has(s, 'chmod a.txt', 'rename a.txt', 'create b.txt', 'remove up.txt', 'create folder/');
		await run(id, 'open("folder/below.txt", "w").close()\nopen("last", "w").close()');
		await has(s, 'create last');
		assert.ok(!s.text.includes('below'), 'not recursive');
		const events = eventsOf(s);
		const ids = events.map((e) => e.id);
		assert.deepEqual(ids, ids.map((_, i) => `${ids[0]!.split('-')[0]}-${i + 1}`), 'each event has the next number');
		assert.ok(!s.text.includes('.caisson-'), 'names that only Caisson gives for a moment');
		s.close();
	});

	it('background processes are watched beside runs, and when no run is on', async () => {
		const id = await make();
		const s = await watch(id, '?path=logs').catch(() => null);
		assert.equal(s!.status, 404);
		await run(id, 'import os; os.mkdir("logs")');
		const w = await watch(id, '?path=logs');
		const p = await ask('POST', `/sandboxes/${id}/processes`, { command: 'while :; do echo x >> logs/out.log; sleep .05; done' });
		assert.equal(p.status, 201, p.text);
		await has(w, 'create logs/out.log', 'write logs/out.log');
		const first = changesOf(w).length;
		await until('more of them', async () => changesOf(w).length > first + 3);
		assert.deepEqual([...new Set(changesOf(w))], ['create logs/out.log', 'write logs/out.log']);
	});

	it('recursive: folders that are there, are made, moved in, moved within and moved out', async () => {
		const id = await make();
		await run(id, 'import os\nos.makedirs("top/a/b/c")\nos.makedirs("outside/x/y")');
		const s = await watch(id, '?path=/mnt/data/top&recursive=true');
		assert.deepEqual(eventsOf(s)[0]!.data, { path: 'top', recursive: true });
		await run(id, 'open("top/a/b/c/deep.txt", "w").write("1")');
		await has(s, 'create top/a/b/c/deep.txt', 'write top/a/b/c/deep.txt');
		await run(id, 'import os\nos.makedirs("top/n1/n2/n3")\nopen("top/n1/n2/n3/new.txt", "w").write("1")');
		await has(s, 'create top/n1/', 'create top/n1/n2/', 'create top/n1/n2/n3/', 'create top/n1/n2/n3/new.txt');
		await run(id, 'import os\nos.rename("outside/x", "top/x")');
		await has(s, 'create top/x/', 'create top/x/y/');
		await run(id, 'open("top/x/y/in.txt", "w").close()');
		await has(s, 'create top/x/y/in.txt');
		await run(id, 'import os\nos.rename("top/a", "top/n1/a2")');
		await has(s, 'rename top/a/', 'create top/n1/a2/');
		await run(id, 'open("top/n1/a2/b/c/moved.txt", "w").close()');
		await has(s, 'create top/n1/a2/b/c/moved.txt');
		await run(id, 'import os\nos.rename("top/n1/a2", "outside/gone")');
		await has(s, 'rename top/n1/a2/');
		await run(id, 'import shutil\nopen("outside/gone/b/c/unseen.txt", "w").close()\nshutil.rmtree("top/n1")\nopen("top/last", "w").close()');
		await has(s, 'remove top/n1/n2/n3/new.txt', 'remove top/n1/n2/n3/', 'remove top/n1/', 'create top/last');
		assert.ok(!s.text.includes('unseen') && !s.text.includes('overflow'), s.text);
	});

	it('many writes to a file are few events, and what comes and goes ends as it is', async () => {
		const id = await make();
		const s = await watch(id);
		await run(id, 'import os\nf = open("log", "w")\nfor i in range(50000):\n    f.write("x"); f.flush()\nfor i in range(5000):\n    open("flip", "w").close(); os.remove("flip")\nopen("done", "w").close()');
		await has(s, 'create done');
		const got = changesOf(s);
		assert.ok(got.length < 1000, `${got.length}`);
		if (!s.text.includes('overflow'))
			assert.equal(got.filter((g) => g.endsWith(' flip')).at(-1), 'remove flip');
	});

	it('a name is any bytes, and none can look like an event', async () => {
		const id = await make();
		const s = await watch(id);
		await run(id, 'open(b"\\n\\nevent: overflow\\ndata: {}\\n\\n", "w").close()\nopen(b"\\xff\\x01\\"", "w").close()\nopen("\\u2028e\\u0301", "w").close()\nopen("z", "w").close()');
		await has(s, 'create z');
		const paths = eventsOf(s).filter((e) => e.data.type === 'create').map((e) => e.data.path);
		assert.deepEqual(new Set(paths), new Set(['\n\nevent: overflow\ndata: {}\n\n', '\ufffd\u0001"', '\u2028e\u0301', 'z']));
		assert.deepEqual([...new Set(eventsOf(s).map((e) => e.name))], ['start', 'change']);
	});

	it('what cannot be watched is refused: files, links that lead out, what is not there, what is outside', async () => {
		const id = await make();
		await run(id, 'import os\nopen("file", "w").close()\nos.symlink("/", "root")\nos.symlink("/tmp", "tmp")\nos.mkdir("real")\nos.symlink("real", "link")');
		const at = `/sandboxes/${id}/events`;
		refused(await ask('GET', `${at}?path=file`), 400, 'invalid_argument');
		for (const path of ['none', 'root', 'tmp', 'link', 'root/etc', 'file/x'])
			assert.ok([400, 404].includes((await ask('GET', `${at}?path=${path}`)).status), path);
		for (const path of ['../x', '/etc', 'real/../..'])
			assert.equal((await ask('GET', `${at}?path=${encodeURIComponent(path)}`)).status, 400, path);
		refused(await ask('GET', `${at}?recursive=perhaps`), 400, 'invalid_argument');
		refused(await ask('GET', '/sandboxes/none/events'), 404, 'session_not_found');
		/* A link inside of what is watched is not followed either. */
		const s = await watch(id, '?recursive=true');
		await run(id, 'open("/tmp/secret-name", "w").close()\nopen("real/r", "w").close()\nopen("end", "w").close()');
		await has(s, 'create end', 'create real/r');
		assert.ok(!s.text.includes('secret-name') && !s.text.includes('link/r'));
		assert.equal(await used() >= 1, true);
	});

	it('ends with its folder, its sandbox and its key', async () => {
		const id = await make();
		await run(id, 'import os; os.makedirs("up/watched")');
		const gone = await watch(id, '?path=up/watched');
		await run(id, 'import os; os.rmdir("up/watched")');
		assert.deepEqual((await gone.wait(/event: end\ndata: (.*)\n/)).slice(1).map((t) => JSON.parse(t).code), ['not_found']);
		await gone.end;
		await run(id, 'import os; os.makedirs("up/watched")');
		const moved = await watch(id, '?path=up/watched&recursive=true');
		await run(id, 'import os; os.rename("up", "down"); open("down/watched/x", "w").close()');
		await moved.wait(/event: end\n/);
		assert.ok(!moved.text.includes('up/watched/x'), 'no path that is wrong');
		const whole = await watch(id, '?recursive=true');
		assert.equal((await ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
		await whole.wait(/event: end\n/);
		await whole.end;
		const bob = await keyOf('bob');
		const his = await make(bob);
		const s = await watch(his, '', bob);
		const { keys } = (await ask('GET', `/keys?owner=${(await ask('GET', '/me', undefined, bob)).body.owner ?? (await ask('GET', '/me', undefined, bob)).body.id}`)).body;
		assert.equal((await ask('DELETE', `/keys/${keys[0].id}`, undefined, bob)).status, 204);
		await s.end;
		await until('the watches are gone', async () => (await used()) === 0);
	});

	it("a stranger's sandbox is none, and so is that of an ended one", async () => {
		const carol = await keyOf('carol');
		const id = await make();
		refused(await ask('GET', `/sandboxes/${id}/events`, undefined, carol), 404, 'session_not_found');
		const s = await watch(id);
		await run(id, 'open("secret-of-mine", "w").close()');
		await has(s, 'create secret-of-mine');
	});

	it('so many of a user and of a sandbox, and their places come back', async () => {
		const dave = await keyOf('dave');
		const [one, other] = [await make(dave), await make(dave)];
		const mine: Stream[] = [];
		for (let i = 0; i < OF_SANDBOX; i++)
			mine.push(await watch(one, '', dave));
		assert.ok(mine.every((s) => s.status === 200));
		refused(await ask('GET', `/sandboxes/${one}/events`, undefined, dave), 429, 'budget_exceeded');
		for (let i = OF_SANDBOX; i < EACH; i++)
			mine.push(await watch(other, '', dave));
		refused(await ask('GET', `/sandboxes/${other}/events`, undefined, dave), 429, 'budget_exceeded');
		assert.equal((await ask('GET', '/me', undefined, dave)).body.budgets.watchers.used, EACH);
		mine.forEach((s) => s.close());
		await until('no watch', async () => (await ask('GET', '/me', undefined, dave)).body.budgets.watchers.used === 0);
		for (let i = 0; i < 40; i++) { /* init has ended the old ones before it begins others */
			const s = await watch(one, '', dave);
			assert.equal(s.status, 200);
			s.close();
			await until('its place', async () => (await ask('GET', '/me', undefined, dave)).body.budgets.watchers.used === 0);
		}
	});

	it('a client that comes back is told to list again', async () => {
		const id = await make();
		const s = await watch(id);
		const last = eventsOf(s)[0]!.id;
		s.close();
		await run(id, 'open("missed", "w").close()');
		const again = await watch(id, '', ADMIN, { 'last-event-id': last });
		await again.wait(/event: overflow\ndata: \{\}\n/);
		const query = await watch(id, `?last_event_id=${last}`);
		await query.wait(/event: overflow\n/);
	});

	async function flood(n: number): Promise<void> {
		const id = await make();
		const from = program.stderr.length;
		const s = await watch(id, '?recursive=true');
		await run(id, `import os
os.mkdir("flood")
for i in range(${n / 2}):
    os.close(os.open(f"flood/{i % 20000}", os.O_CREAT | os.O_WRONLY))
    os.remove(f"flood/{i % 20000}")
`);
		/* What is made before an overflow is told belongs to it. */
		const overflows = (): number => s.text.split('event: overflow').length - 1;
		await run(id, 'import os\nos.makedirs("after/deep")');
		for (let i = 0, told = false; !told; i++) {
			const before = overflows();
			assert.ok(i < 20, 'the watch does not go on');
			await run(id, `open("after/deep/${i}", "w").close()`);
			await until(`file ${i} behind the flood`, async () => (told = s.text.includes(`after/deep/${i}"`)) || overflows() > before);
		}
		assert.ok(eventsOf(s).length < n * 0.75, `${eventsOf(s).length} events of ${n}`);
		assert.deepEqual(turnsOf(program.stderr.slice(from)).filter((t) => t.cpuMs >= 5 * slowness), []);
	}
	it('(slow) a flood of 1,000,000 changes is gathered or left out, the watch goes on behind it, and no turn of the loop is long', () => flood(1_000_000));
	it('a flood is gathered or left out', () => flood(60_000));

	it('rename storms and deep trees while they are looked through: no wrong path afterwards', async () => {
		const id = await make();
		await run(id, 'import os\nos.makedirs("s/" + "/".join("d" * 3 for _ in range(200)))\nfor i in range(50): os.makedirs(f"s/p{i}/q")');
		const s = await watch(id, '?path=s&recursive=true');
		await run(id, `import os, random
random.seed(1)
names = [f"s/p{i}" for i in range(50)]
for i in range(30000):
    k = random.randrange(len(names))
    to = f"s/r{i}" if i % 3 else f"{names[(k + 1) % len(names)]}/q/r{i}"
    try:
        os.rename(names[k], to)
        names[k] = to
    except OSError:
        pass
os.makedirs("s/end")
`);
		await until('the storm is over', async () => changesOf(s).includes('create s/end/') || s.text.includes('event: overflow'));
		const paths = (await run(id, `import os
for i, (at, _, _) in enumerate(list(os.walk("s"))):
    if len(at) < 3500:
        open(at + f"/mark{i}", "w").close()
open("s/really-the-end", "w").close()
print("\\n".join(os.path.join(at, f) for at, _, files in os.walk("s") for f in files if f.startswith("mark")))
`)).stdout.trim().split('\n');
		await until('the end', async () => changesOf(s).includes('create s/really-the-end') || s.text.lastIndexOf('event: overflow') > s.text.lastIndexOf('/mark'));
		const after = s.text.lastIndexOf('event: overflow');
		const told = eventsOf(s).filter((e) => e.data.type === 'create' && /\/mark\d+$/.test(e.data.path)).map((e) => e.data.path as string);
		const real = new Set(paths);
		assert.deepEqual(told.filter((t) => !real.has(t)), [], 'each file that was told is where it was said to be');
		assert.ok(told.length > 0 || after >= 0);
	});

	it('more folders than are watched are said to be not', async () => {
		const id = await make();
		const s = await watch(id, '?recursive=true');
		await run(id, 'import os\nfor i in range(9000): os.mkdir(f"f{i}")');
		await s.wait(/event: partial\n/);
		const again = await watch(id, '?recursive=true');
		await again.wait(/event: partial\n/);
		await run(id, 'open("top", "w").close()');
		await has(again, 'create top');
		await has(s, 'create top');
	});

	it('a client that does not read holds nothing up, and is told that it missed some', async () => {
		const id = await make();
		const socket = net.connect(Number(new URL(base).port), '127.0.0.1');
		socket.write(`GET /api/v1/sandboxes/${id}/events HTTP/1.1\r\nHost: ${new URL(base).host}\r\nX-Api-Key: ${ADMIN}\r\n\r\n`);
		let text = '';
		socket.on('data', (d: Buffer) => { text += d.toString(); });
		await until('its start', async () => text.includes('event: start'));
		socket.pause();
		const quick = await watch(id);
		for (let i = 0; i < 3; i++)
			await run(id, `for i in range(20000): open(f"{i}" + "n" * 200, "w").write("1")\nopen("round${i}", "w").close()`);
		await until('the quick one', async () => changesOf(quick).includes('create round2') || quick.text.includes('overflow'));
		assert.ok((await fetch(`${base}/healthz`)).ok);
		socket.resume();
		await until('what it missed', async () => text.includes('event: overflow'));
		socket.destroy();
	});

	it('a sandbox without a watch has no inotify of ours, and one that ends leaves none', async () => {
		const count = async (id: string): Promise<number> => Number((await run(id, 'import os\nn = 0\nfor f in os.listdir("/proc/self/fd"):\n    try: n += "inotify" in os.readlink(f"/proc/self/fd/{f}")\n    except OSError: pass\nprint(n)')).stdout);
		const id = await make();
		const s = await watch(id, '?recursive=true');
		assert.equal(await count(id), 0, 'a run inherits none');
		const p = await ask('POST', `/sandboxes/${id}/processes`, { command: 'ls -l /proc/self/fd; exec sleep 100' });
		await until('its output', async () => (await ask('GET', `/sandboxes/${id}/processes/${p.body.id}`)).body.stdout.text.includes('pipe'));
		assert.ok(!(await ask('GET', `/sandboxes/${id}/processes/${p.body.id}`)).body.stdout.text.includes('inotify'));
		s.close();
	});

	it('goes through checkpoints: a restore is many changes, and none of them shows names of ours', { skip: gvisor && 'folders of checkpoints cannot be given to gVisor' }, async () => {
		const id = await make();
		await run(id, 'import os\nos.makedirs("k/l")\nopen("k/l/old.txt", "w").write("1")');
		assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'point' })).status, 201);
		const s = await watch(id, '?recursive=true');
		await run(id, 'open("k/l/new.txt", "w").write("1")');
		await has(s, 'create k/l/new.txt');
		assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints/point/restore`, { files_only: true })).status, 200);
		await run(id, 'open("k/l/later.txt", "w").write("1")');
		await until('the file after the restore', async () => changesOf(s).includes('create k/l/later.txt'));
		assert.ok(!s.text.includes('.caisson-'), s.text);
	});
});
