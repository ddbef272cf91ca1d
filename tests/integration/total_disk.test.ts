// SPDX-License-Identifier: Apache-2.0
// SANDBOX_TOTAL_DISK: what all stored sandboxes may hold together, whoever makes them and in however many servers.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { mode, slowness } from '../lib/env.ts';
import { caisson } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';

const MiB = 1 << 20;
const env = { SANDBOX_TOTAL_DISK: '80m', SANDBOX_STORED_WORKSPACE_LIMIT: '20m', SANDBOX_STORED_WORKSPACE_FILES: '500', SANDBOX_USER_SANDBOX_LIMIT: '0', SANDBOX_POOL: '0' };

async function ask(base: string, method: string, path: string, body?: Json): Promise<{ status: number; body: Json }> {
	const r = await fetch(`${base}/api/v1${path}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
	const text = await r.text();
	return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
}

/** One is filled to the last byte and the last name; its neighbour and the server's own records go on. */
async function fullHarmsNobody(base: string): Promise<void> {
	const create = async (): Promise<string> => {
		const r = await ask(base, 'POST', '/sandboxes', { kind: 'stored' });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body.id as string;
	};
	const run = async (id: string, ...code: string[]): Promise<Json> => (await ask(base, 'POST', `/sandboxes/${id}/runs`, { code: code.join('\n'), wait: true })).body;
	const [full, other] = [await create(), await create()];
	const filled = await run(full, 'import itertools', 'try:', '    for i in itertools.count():', '        with open(f"f{i % 8}", "ab", buffering=0) as f: f.write(bytes(1 << 20))', 'except OSError as e: print(e.errno)');
	assert.ok(/^2[78]\n/.test(filled.stdout) || filled.reason === 'disk_limit', JSON.stringify(filled));
	await run(full, 'import itertools', 'try:', '    for i in itertools.count(): open(f"n{i}", "w").close()', 'except OSError: pass');
	const good = await run(other, 'open("mine", "w").write("x" * 1000000)', 'print(len(open("mine").read()))');
	assert.equal(good.stdout, '1000000\n', JSON.stringify(good));
	for (const id of [full, other, await create()]) // the store has room for one more, and to forget all
		assert.equal((await ask(base, 'DELETE', `/sandboxes/${id}`)).status, 204);
}

describe('the disk of all stored sandboxes', () => {
	const servers: Awaited<ReturnType<typeof serve>>[] = [];
	before(async () => {
		servers.push(await serve({ profile: 'full', env }), await serve({ profile: 'full', env })); // with one state folder
	});
	after(async () => {
		for (const s of servers)
			await s.program.end();
	});
	const create = (n: number): ReturnType<typeof ask> => ask(servers[n % 2]!.base, 'POST', '/sandboxes', { kind: 'stored' });

	it('as a plain user none is made, for nothing holds their limits hard', { skip: mode === 'root' && 'root has disks' }, async () => {
		const r = await create(0);
		assert.ok(r.status >= 400, JSON.stringify(r.body));
		assert.match(JSON.stringify(r.body), /cannot be limited hard/);
	});
	it('one that is full harms no other, nor the records', { skip: mode !== 'root' && 'a plain user has no disks' }, () => fullHarmsNobody(servers[0]!.base));
	it('of many at once, in two servers, exactly those are made that fit', { skip: mode !== 'root' && 'a plain user has no disks' }, async () => {
		const all = await Promise.all(Array.from({ length: 10 }, (_, n) => create(n)));
		const made = all.filter((r) => r.status < 300);
		assert.equal(made.length, 4, JSON.stringify(all.map((r) => r.body)));
		for (const r of all.filter((k) => k.status >= 300))
			assert.match(JSON.stringify(r.body), /SANDBOX_TOTAL_DISK.*"quota_exceeded"/);
		const metrics = await (await fetch(`${servers[0]!.base}/metrics`)).text();
		assert.match(metrics, new RegExp(`^caisson_stored_bytes ${80 * MiB}$`, 'm'));
		const policy = (await ask(servers[0]!.base, 'GET', '/policy')).body;
		assert.deepEqual([policy.total.disk_bytes, policy.stored.disk], [80 * MiB, 'enforced']);
		const maker = servers[all.indexOf(made[0]!) % 2]!; // the other one does not have it open
		assert.equal((await ask(maker.base, 'DELETE', `/sandboxes/${made[0]!.body.id as string}`)).status, 204);
		assert.ok((await create(0)).status < 300, 'room that was given back');
		assert.ok((await create(1)).status >= 400);
	});
});

// A plain user's are folders, which no file system limits. Whoever permits that has them counted while runs go on.
describe("a plain user's stored sandboxes, where less than a hard limit is permitted", { skip: mode === 'root' && 'root has disks' }, () => {
	const env = {
		SANDBOX_TOTAL_DISK: '80m', SANDBOX_STORED_WORKSPACE_LIMIT: '20m', SANDBOX_STORED_WORKSPACE_FILES: '500', SANDBOX_ALLOW_WEAKER: 'disk',
		SANDBOX_USER_SANDBOX_LIMIT: '0', SANDBOX_POOL: '0', SANDBOX_STORED_EXEC_TIMEOUT_S: String(60 * slowness),
	};
	const most = 1024 * MiB; // what looks can miss on a busy machine: far below what each program would write
	let server: Awaited<ReturnType<typeof serve>>;
	let id = '';
	before(async () => {
		server = await serve({ profile: 'full', env });
		const r = await ask(server.base, 'POST', '/sandboxes', { kind: 'stored' });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		id = r.body.id as string;
	});
	after(() => server.program.end());
	const run = async (...code: string[]): Promise<Json> => {
		const r = await ask(server.base, 'POST', `/sandboxes/${id}/runs`, { code: code.join('\n'), wait: true });
		assert.ok(r.status < 300, JSON.stringify(r.body));
		return r.body;
	};
	const put = async (name: string, bytes: number): Promise<number> =>
		(await fetch(`${server.base}/api/v1/sandboxes/${id}/files/${name}`, { method: 'PUT', body: Buffer.alloc(bytes, 'x') })).status;
	const clear = 'import glob, os\nfor f in glob.glob("/mnt/data/*"): os.unlink(f)';

	for (const [what, ...code] of [
		['files', 'for i in range(4096):', '    with open(f"f{i % 400}", "ab") as f: f.write(b"x" * (4 << 20))'],
		['names', 'import itertools', 'for i in itertools.count(): open(f"n{i}", "w").close()'],
		['a file without a name', 'import os', 'keep = []', 'while True:', '    f = open("gone", "wb"); os.unlink("gone"); keep.append(f)', '    for i in range(4): f.write(b"x" * (1 << 20)); f.flush()'],
	] as [string, ...string[]][])
		it(`a run that passes the limit is ended: ${what}`, async () => {
			const r = await run(...code);
			assert.deepEqual([r.reason, r.exit_code], ['disk_limit', 137], JSON.stringify(r));
			const left = await run('import os', 'print(sum(os.stat(f).st_blocks * 512 for f in os.listdir(".")))', 'for f in os.listdir("."): os.unlink(f)');
			assert.equal(left.reason, 'exited', JSON.stringify(left));
			assert.ok(Number(left.stdout) < most, `${left.stdout} bytes were left`);
		});
	it('what fits does not end a run, also where much comes and goes', async () => {
		const r = await run('import os', 'for i in range(60):', '    with open("t", "wb") as f: f.write(b"x" * (8 << 20))', '    os.unlink("t")', 'print("good")');
		assert.equal(r.stdout, 'good\n', JSON.stringify(r));
	});
	it('uploads are refused at the limit, and taken again when there is room', async () => {
		await run(clear);
		assert.equal(await put('a', 12 * MiB), 201);
		assert.equal(await put('b', 12 * MiB), 507);
		const usage = await ask(server.base, 'GET', `/sandboxes/${id}/files`);
		assert.deepEqual((usage.body.files as Json[]).map((f) => f.name), ['a'], JSON.stringify(usage.body));
		await ask(server.base, 'DELETE', `/sandboxes/${id}/files/a`);
		assert.equal(await put('b', 12 * MiB), 201);
	});
	it('one that is full harms no other, nor the records', () => fullHarmsNobody(server.base));
	it('the policy and doctor say that it is best effort', async () => {
		const policy = (await ask(server.base, 'GET', '/policy')).body;
		assert.equal(policy.stored.disk, 'best_effort');
		const said = (env: Record<string, string>): Promise<Json> => caisson(['doctor', '--json'], { env }).then((r) => (JSON.parse(r.stdout.toString()).rows as Json[]).find((k) => k.id === 'persistent')!);
		assert.match((await said(env)).value, /^best effort/);
		assert.match((await said({ ...env, SANDBOX_ALLOW_WEAKER: '' })).value, /^none is made/);
	});
	it('all of them together hold, by their limits, what SANDBOX_TOTAL_DISK says', async () => {
		const all = await Promise.all([1, 2, 3, 4].map(() => ask(server.base, 'POST', '/sandboxes', { kind: 'stored' })));
		assert.equal(all.filter((r) => r.status < 300).length, 3, JSON.stringify(all.map((r) => r.body)));
		for (const r of all.filter((k) => k.status >= 300))
			assert.match(JSON.stringify(r.body), /SANDBOX_TOTAL_DISK.*"quota_exceeded"/);
	});
});
