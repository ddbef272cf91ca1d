// SPDX-License-Identifier: Apache-2.0
// A session becomes a stored sandbox where it is: nothing of it stops, and after the answer its files outlive every death.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { mode, newStateDir } from '../lib/env.ts';
import { caisson, Census } from '../lib/process.ts';
import { SmallDisk } from '../lib/small-disk.ts';
import { serve, type Json } from '../lib/session.ts';
import { ask, type Answer } from '../lib/users.ts';
import { until } from '../lib/wait.ts';

const notRoot = mode !== 'root' && 'the files of a plain user\'s sessions are in memory';
const waitMs = 30_000;

class Place {
	readonly state = newStateDir();
	readonly env: Record<string, string>;
	base = '';
	private server!: Awaited<ReturnType<typeof serve>>;

	constructor(env: Record<string, string> = {}) {
		this.env = env;
	}
	async start(): Promise<void> {
		this.server = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: this.state, SANDBOX_USER_SANDBOX_LIMIT: '100', ...this.env } });
		this.base = this.server.base;
	}
	async kill(): Promise<void> {
		const census = new Census();
		census.take(this.server.program.pid);
		for (const p of census.survivors())
			try {
				process.kill(p.pid, 'SIGKILL');
			} catch (e) { // it ended with another one
				assert.equal((e as NodeJS.ErrnoException).code, 'ESRCH');
			}
		await this.server.program.exit;
		await census.gone(waitMs);
	}
	async end(): Promise<void> {
		this.server.program.kill('SIGTERM');
		await this.server.program.exit;
	}
	rest(method: string, at: string, json?: unknown, key?: string): Promise<Answer> {
		return ask(method, `${this.base}/api/v1/sandboxes${at}`, { json, key });
	}
	async made(body: Json = {}): Promise<string> {
		const r = await this.rest('POST', '', body);
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body.id as string;
	}
	async run(id: string, code: string, stateful = false): Promise<string> {
		const r = await this.rest('POST', `/${id}/runs`, { code, stateful, wait: true });
		assert.equal(r.body.exit_code, 0, JSON.stringify(r.body));
		return r.body.stdout as string;
	}
	/** The files of stored workspaces that have a name. */
	disks(): string[] {
		return fs.readdirSync(path.join(this.state, 'workspaces')).filter((f) => f.endsWith('.img'));
	}
	async kinds(): Promise<Record<string, string>> {
		const list = (await this.rest('GET', '')).body.sandboxes as Json[];
		return Object.fromEntries(list.map((b) => [b.id, b.kind]));
	}
}

const at = async (env: Record<string, string>, fn: (p: Place) => Promise<void>): Promise<void> => {
	const p = new Place(env);
	await p.start();
	try {
		await fn(p);
	} finally {
		await p.end().catch(() => {});
	}
};

const tree = `
import os
os.makedirs("a/b"); open("a/b/deep", "w").write("deep"); os.symlink("a/b/deep", "link"); os.mkfifo("pipe")
open("only-mine", "w").write("mine"); os.chmod("only-mine", 0o600)
with open("big", "wb") as f:
    for i in range(64): f.write(i.to_bytes(1, "big") * (1 << 20))
`;
const check = `
import os
assert open("link").read() == "deep" and open("only-mine").read() == "mine"
assert oct(os.stat("only-mine").st_mode & 0o777) == "0o600", os.stat("only-mine")
assert all(os.lstat(n).st_uid == os.getuid() for n in os.listdir(".")), [(n, os.lstat(n)) for n in os.listdir(".")]
with open("big", "rb") as f:
    assert all(f.read(1 << 20) == i.to_bytes(1, "big") * (1 << 20) for i in range(64))
open("only-mine", "a").write("!"); os.remove("pipe"); os.makedirs("a/c")
print("whole")`;

describe('keeping a session', { skip: notRoot, concurrency: 2 }, () => {
	it('(slow) its id, files and variables stay, and the files outlive SIGKILL of everything', () => at({ SANDBOX_WORKSPACE_LIMIT: '300m', SANDBOX_STORED_WORKSPACE_LIMIT: '200m' }, async (p) => {
		const id = await p.made({ labels: { team: 'red' }, env: { WORD: 'word' } });
		await p.run(id, tree);
		await p.run(id, 'x = 41', true);
		assert.deepEqual([(await p.rest('GET', `/${id}`)).body.keepable, p.disks()], [true, []]);
		const r = await p.rest('POST', `/${id}/keep`, { name: 'my data' });
		assert.equal(r.status, 200, JSON.stringify(r.body));
		assert.equal(r.body.limits.ttl_s, 4 * 3600, 'its variables live as long as those of the session would have');
		assert.deepEqual([r.body.id, r.body.kind, r.body.name, r.body.state, r.body.labels, r.body.limits.disk_mb, 'keepable' in r.body], [id, 'stored', 'my data', 'active', { team: 'red' }, 300, false]);
		await p.kill();

		assert.equal(p.disks().length, 1);
		await p.start();
		for (let i = 0; i < 3; i++) // so that it gets another uid
			await p.run(await p.made(), 'print(1)');
		const row = (await p.rest('GET', `/${id}`)).body;
		assert.deepEqual([row.kind, row.name, row.state, row.runs, row.labels, row.limits.disk_mb], ['stored', 'my data', 'stored', 2, { team: 'red' }, 300]);
		assert.equal(await p.run(id, check), 'whole\n');
		assert.equal(await p.run(id, 'import os; print(os.environ["WORD"])'), 'word\n');
		assert.equal((await p.rest('PUT', `/${id}/files/new`)).status, 201);
		await p.kill();
		await p.start();
		assert.equal(await p.run(id, 'import os; print(open("only-mine").read(), os.path.exists("new"), os.path.isdir("a/c"))'), 'mine! True True\n');
		assert.equal((await p.rest('DELETE', `/${id}`)).status, 204);
		assert.deepEqual([p.disks(), Object.keys(await p.kinds())], [[], []]);
		assert.equal((await p.rest('GET', `/${id}`)).status, 404);
	}));

	it('variables go on, runs and uploads too, and a second time changes nothing', () => at({}, async (p) => {
		const id = await p.made({ name: 'first' });
		await p.run(id, 'x = 41', true);
		const going = p.run(id, 'import time\nfor i in range(40):\n open(f"r{i}", "w").write(str(i)); time.sleep(0.05)\nprint(x + i)', true);
		let give: (() => void) | undefined;
		const body = new ReadableStream({
			start: (c) => {
				c.enqueue(new Uint8Array(1 << 20).fill(7));
				give = () => { c.enqueue(new Uint8Array(1 << 20).fill(7)); c.close(); };
			},
		});
		const upload = fetch(`${p.base}/api/v1/sandboxes/${id}/files/up`, { method: 'PUT', body, duplex: 'half' } as RequestInit);
		await until('the run', async () => (await p.rest('GET', `/${id}`)).body.busy === true, waitMs);
		const [a, b] = await Promise.all([p.rest('POST', `/${id}/keep`), p.rest('POST', `/${id}/keep`)]);
		assert.deepEqual([a.status, b.status].sort(), a.status === b.status ? [200, 200] : [200, 409], JSON.stringify([a.body, b.body]));
		assert.deepEqual([p.disks().length, await p.kinds()], [1, { [id]: 'stored' }]);
		give!();
		assert.equal((await upload).status, 201);
		assert.equal(await going, '80\n');
		const again = await p.rest('POST', `/${id}/keep`, { name: 'other' });
		assert.deepEqual([again.status, again.body.name, again.body.runs], [200, 'first', 2]);
		assert.equal(await p.run(id, 'x += 1; print(x)', true), '42\n');
		assert.equal((await p.rest('GET', `/${id}`)).body.runs, 3);
		await p.kill();
		await p.start();
		const { runs } = (await p.rest('GET', `/${id}`)).body; // the newest may be missing after a kill
		assert.ok(runs >= 1 && runs <= 3, `${runs} runs`);
		assert.equal(await p.run(id, 'import os; print(os.path.getsize("up"), open("r39").read(), len(os.listdir(".")))'), `${2 << 20} 39 41\n`);
	}));

	it('a checkpoint ends with the processes and leaves nothing on the disk', () => at({}, async (p) => {
		const id = await p.made();
		await p.run(id, 'open("big", "wb").write(b"1" * (50 << 20))');
		assert.equal((await p.rest('POST', `/${id}/checkpoints`, { name: 'a' })).status, 201);
		assert.equal((await p.rest('POST', `/${id}/keep`)).status, 200);
		await p.run(id, 'open("big", "wb").write(b"2")');
		assert.equal((await p.rest('POST', `/${id}/checkpoints/a/restore`, {})).status, 200);
		assert.equal(await p.run(id, 'import os; print(os.path.getsize("big") >> 20); os.remove("big")'), '50\n');
		await p.kill();
		await p.start();
		assert.equal(await p.run(id, 'import os; s = os.statvfs("."); print((s.f_blocks - s.f_bfree) * s.f_frsize < 20 << 20)'), 'True\n');
		assert.deepEqual((await p.rest('GET', `/${id}/checkpoints`)).body.checkpoints, []);
	}));

	it('at the limit of stored sandboxes it stays a session, and can be kept when there is room', () => at({ SANDBOX_USER_SANDBOX_LIMIT: '1' }, async (p) => {
		const [one, two] = [await p.made(), await p.made()];
		assert.equal((await p.rest('POST', `/${one}/keep`)).status, 200);
		const r = await p.rest('POST', `/${two}/keep`);
		assert.deepEqual([r.status, r.body.code], [429, 'quota_exceeded'], JSON.stringify(r.body));
		assert.deepEqual([p.disks().length, await p.kinds()], [1, { [one]: 'stored', [two]: 'session' }]);
		await p.run(two, 'print(1)');
		assert.equal((await p.rest('DELETE', `/${one}`)).status, 204);
		assert.equal((await p.rest('POST', `/${two}/keep`)).status, 200);
		assert.equal(p.disks().length, 1);
	}));

	it('(slow) a deletion at the same time leaves neither a record nor a file', () => at({}, async (p) => {
		for (let i = 0; i < 6; i++) {
			const id = await p.made();
			await p.run(id, 'open("f", "wb").write(b"1" * (20 << 20))');
			const keep = p.rest('POST', `/${id}/keep`);
			if (i % 3 > 0)
				await new Promise((r) => setTimeout(r, i * 4));
			const gone = await p.rest('DELETE', `/${id}?force=true`);
			assert.equal(gone.status, 204, JSON.stringify(gone.body));
			const kept = await keep;
			assert.ok([200, 404, 410].includes(kept.status), JSON.stringify(kept.body));
			await until('the end of both', async () => p.disks().length === 0 && Object.keys(await p.kinds()).length === 0, waitMs);
			assert.equal((await p.rest('GET', `/${id}`)).status, 404);
		}
	}));

	it('ids are unique among the stored ones of all users: a user keeps those that the server made, and learns no others', async () => {
		const p = new Place({ SANDBOX_REQUIRE_AUTH: 'on' });
		const cli = async (...args: string[]): Promise<string> => {
			const r = await caisson(args, { env: { SANDBOX_STATE_DIR: p.state } });
			assert.equal(r.code, 0, r.stderr.toString());
			return r.stdout.toString().trim();
		};
		const keys: string[] = [];
		for (const name of ['alice', 'bob']) {
			await cli('user', 'add', name, '--password', 'none');
			keys.push(await cli('key', 'new', name));
		}
		const [alice, bob] = keys;
		await p.start();
		try {
			const id = (await p.rest('POST', '', {}, alice)).body.id as string;
			assert.equal((await p.rest('POST', `/${id}/forks`, { id: 'mine' }, alice)).status, 201);
			assert.equal((await p.rest('GET', '/mine', undefined, alice)).body.keepable, false);
			const named = await p.rest('POST', '/mine/keep', {}, alice);
			assert.deepEqual([named.status, named.body.code], [409, 'not_keepable'], JSON.stringify(named.body));
			assert.match(named.body.detail, /Fork it without an id/);
			const fork = (await p.rest('POST', '/mine/forks', {}, alice)).body.id as string;
			for (const one of [id, fork])
				assert.equal((await p.rest('POST', `/${one}/keep`, {}, alice)).status, 200);
			// bob cannot tell them from those that do not exist
			const none = await p.rest('POST', '/sess_000000000000/keep', {}, bob);
			const hers = await p.rest('POST', `/${id}/keep`, {}, bob);
			assert.deepEqual([hers.status, JSON.stringify(hers.body).replaceAll(id, 'ID')], [none.status, JSON.stringify(none.body).replaceAll('sess_000000000000', 'ID')]);
			assert.equal(hers.status, 404);
		} finally {
			await p.end();
		}
	});

	it('the local user keeps a session of any id', () => at({}, async (p) => {
		const id = await p.made();
		assert.equal((await p.rest('POST', `/${id}/forks`, { id: 'My_Data-1' })).status, 201);
		await p.run('My_Data-1', 'open("f", "w").write("x")');
		assert.equal((await p.rest('POST', '/My_Data-1/keep')).status, 200);
		await p.kill();
		await p.start();
		assert.deepEqual(await p.kinds(), { 'My_Data-1': 'stored' });
		assert.equal(await p.run('My_Data-1', 'print(open("f").read())'), 'x\n');
	}));

	it('the disk of the host is full: the answer says so or the files are kept, and nothing is lost', async () => {
		const d = new SmallDisk();
		await d.serveOnDisk('400m', { SANDBOX_WORKSPACE_LIMIT: '150m', SANDBOX_STORED_WORKSPACE_LIMIT: '150m' });
		const rest = (method: string, to: string, json?: unknown): Promise<Answer> => ask(method, `${d.base}/api/v1/sandboxes${to}`, { json });
		try {
			const id = (await rest('POST', '', {})).body.id as string;
			const run = async (code: string): Promise<Json> => (await rest('POST', `/${id}/runs`, { code, wait: true })).body;
			await run('import os; f = open("f", "wb"); f.write(b"7" * (30 << 20)); f.flush(); os.fsync(f.fileno())');
			d.fill();
			const r = await rest('POST', `/${id}/keep`);
			assert.ok(r.status === 200 || ['host_disk_full', 'store_full'].includes(r.body.code), JSON.stringify(r.body));
			assert.equal((await run('print(open("f", "rb").read() == b"7" * (30 << 20))')).stdout, 'True\n');
			fs.rmSync(d.file('fill'), { force: true });
			for (const f of fs.readdirSync(d.file('.')).filter((n) => n.startsWith('fill')))
				fs.rmSync(d.file(f), { force: true });
			// A file system that could not write its journal while there was no room takes no more changes: then the files can be read still.
			let last: Answer | undefined;
			await until('it to be kept, or never', async () => (last = await rest('POST', `/${id}/keep`)).status === 200 || /download its files/.test(last.body.detail), waitMs);
			assert.equal((await rest('GET', `/${id}`)).body.kind, last!.status === 200 ? 'stored' : 'session');
			assert.equal((await run('print(open("f", "rb").read() == b"7" * (30 << 20))')).stdout, 'True\n');
		} finally {
			d.program.kill('SIGTERM');
			await d.program.exit;
		}
	});
});

describe('where files of sessions are in memory', () => {
	it('nothing is kept, nothing is changed, and the answer says what to do', () => at(mode === 'root' ? { SANDBOX_WORKSPACE: 'memory' } : {}, async (p) => {
		const id = await p.made();
		await p.run(id, 'open("f", "w").write("x")');
		assert.equal((await p.rest('GET', `/${id}`)).body.keepable, false);
		const r = await p.rest('POST', `/${id}/keep`);
		assert.deepEqual([r.status, r.body.code], [409, 'not_keepable'], JSON.stringify(r.body));
		assert.match(r.body.detail, /Make a stored sandbox and copy them: download the archive of its folder/);
		assert.deepEqual(await p.kinds(), { [id]: 'session' });
		assert.equal(await p.run(id, 'print(open("f").read())'), 'x\n');
		const stored = await p.made({ kind: 'stored' });
		assert.equal((await p.rest('POST', `/${stored}/keep`)).status, 200);
	}));
});
