// SPDX-License-Identifier: Apache-2.0
// REST: checkpoints, branches and forks, the keys that may use them, and `caisson ps` with an administrator's key.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { asker } from '../lib/asker.ts';
import { newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';

const ADMIN = 'an-administrators-key-of-the-server';

describe('REST: checkpoints, branches, forks', () => {
	let program: Program;
	let base: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_MAX_CODE_BYTES: '2000', SANDBOX_MAX_TIMEOUT_S: '90', SANDBOX_STORED_EXEC_TIMEOUT_S: '30' };

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
	});
	after(async () => {
		await program.end();
	});

	const ask = asker(() => base, ADMIN);
	async function make(key = ADMIN): Promise<string> {
		const r = await ask('POST', '/sandboxes', {}, key);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	async function run(id: string, code: string): Promise<Json> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, { code, stateful: true, wait: true });
		assert.equal(r.status, 201, r.text);
		return r.body;
	}
	async function newKey(user: string, ...more: string[]): Promise<string> {
		const e = { env: { ...env, SANDBOX_API_KEY: '' } };
		await caisson(['user', 'add', user, '--password', 'none', ...(user === 'boss' ? ['--role', 'admin'] : [])], e);
		const r = await caisson(['key', 'new', user, ...more], e);
		assert.equal(r.code, 0, r.stderr.toString());
		return /csn_\S+/.exec(r.stdout.toString())![0];
	}

	it('a stateful run tells what became of the session, a checkpoint what it has not, and a restore what is gone', async () => {
		const id = await make();
		const r = await run(id, 'import os, socket\nx = 1; server = socket.create_server(("127.0.0.1", 0))');
		assert.deepEqual([r.state, r.gone], ['kept', undefined]);
		const made = (await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'open' })).body;
		assert.deepEqual([made.not_saved, made.gone], [['connections'], undefined]);
		const restored = (await ask('POST', `/sandboxes/${id}/checkpoints/open/restore`, {})).body;
		assert.deepEqual([restored.not_saved, restored.gone], [undefined, ['connections']]);
		await run(id, 'server = socket.create_server(("127.0.0.1", 0)); None');
		const crashed = await run(id, 'x = 2; os.abort()');
		assert.deepEqual([crashed.state, crashed.gone], ['unchanged', ['connections']]);
		assert.equal((await run(id, 'x')).value, '1');
		assert.equal((await ask('POST', `/sandboxes/${id}/runs`, { code: '1', wait: true })).body.state, undefined, 'of a stateless run');
		const cells = (await ask('GET', `/notebooks/${id}`)).body.cells as Json[];
		assert.deepEqual(cells.map((c) => c.state), ['kept', 'kept', 'unchanged', 'kept', undefined]);
		assert.deepEqual(cells[2]!.gone, ['connections']);
	});

	it('save, list, restore with and without variables, remove', async () => {
		const id = await make();
		await run(id, 'x = 1\nopen("a", "w").write("one")');
		const saved = await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'first' });
		assert.deepEqual([saved.status, saved.body.name, saved.body.state, saved.body.files], [201, 'first', 'kept', 1], saved.text);
		await run(id, 'x = 2\nopen("a", "w").write("two")\nopen("b", "w")');
		const back = await ask('POST', `/sandboxes/${id}/checkpoints/first/restore`, {});
		assert.deepEqual([back.status, back.body.state], [200, 'kept'], back.text);
		assert.equal((await run(id, 'import os; (x, open("a").read(), os.path.exists("b"))')).value, "(1, 'one', False)");
		const files = await ask('POST', `/sandboxes/${id}/checkpoints/first/restore`, { files_only: true });
		assert.equal(files.status, 200, files.text);
		assert.match((await run(id, 'x')).stderr, /NameError/);
		assert.deepEqual((await ask('GET', `/sandboxes/${id}/checkpoints`)).body.checkpoints.map((c: Json) => c.name), ['first']);
		assert.equal((await ask('DELETE', `/sandboxes/${id}/checkpoints/first`)).status, 204);
		const gone = await ask('POST', `/sandboxes/${id}/checkpoints/first/restore`, {});
		assert.deepEqual([gone.status, gone.body.code], [404, 'checkpoint_not_found'], gone.text);
		for (let i = 0; i < 8; i++)
			assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints`, { name: `c${i}` })).status, 201);
		const many = await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'c8' });
		assert.deepEqual([many.status, many.body.code], [429, 'too_many_checkpoints'], many.text);
		assert.ok(Number(many.headers.get('retry-after')) > 0);
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('branches run from the present state, and one of them is chosen', async () => {
		const id = await make();
		await run(id, 'x = 10');
		const r = await ask('POST', `/sandboxes/${id}/branches`, { branches: [{ name: 'plus', code: 'x += 1\nopen("plus", "w")\nx' }, { code: 'x *= 2; print(x)' }, { name: 'bad', code: 'import os; os._exit(3)' }], timeout_s: 20 });
		assert.equal(r.status, 200, r.text);
		assert.deepEqual(r.body.branches.map((b: Json) => [b.name, b.state, b.exit_code, b.value, b.stdout]),
			[['plus', 'kept', 0, '11', ''], ['branch-2', 'kept', 0, '', '20\n'], ['bad', 'unchanged', 3, '', '']]);
		assert.equal((await run(id, 'x')).value, '10');
		assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints/plus/restore`, {})).status, 200);
		assert.equal((await run(id, 'import os; (x, os.listdir())')).value, "(11, ['plus'])");
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('a fork has the files and the options, and no variables', async () => {
		const made = await ask('POST', '/sandboxes', { env: { WHO: 'me' }, labels: { a: 'b' } });
		const id = made.body.id as string;
		await run(id, 'x = 1\nopen("kept", "w").write("k")');
		const r = await ask('POST', `/sandboxes/${id}/forks`, { id: 'forked' });
		assert.deepEqual([r.status, r.body.id, r.body.forked_from, r.body.files], [201, 'forked', id, 1], r.text);
		assert.equal((await run('forked', 'import os; (open("kept").read(), "x" in globals(), os.environ["WHO"])')).value, "('k', False, 'me')");
		assert.deepEqual((await ask('GET', '/sandboxes/forked')).body.labels, { a: 'b' });
		for (const each of [id, 'forked'])
			await ask('DELETE', `/sandboxes/${each}`);
	});

	it('what is wrong is named', async () => {
		const id = await make();
		const rows: [string, unknown, string][] = [
			['checkpoints', { name: 'a/b' }, 'name'], ['checkpoints', {}, 'name'], ['checkpoints', { name: 'x'.repeat(65) }, 'name'],
			['checkpoints/a%20b/restore', {}, 'checkpoint'], ['checkpoints/a/restore', { files_only: 1 }, 'files_only'],
			['branches', { branches: [] }, 'branches'], ['branches', { branches: [{ name: 'x' }] }, 'branches'],
			['branches', { branches: [{ name: '../x', code: '1' }] }, 'branches'], ['branches', { branches: Array(9).fill({ code: '1' }) }, 'branches'],
			['forks', { id: 'a b' }, 'id'],
		];
		for (const [at, json, member] of rows) {
			const r = await ask('POST', `/sandboxes/${id}/${at}`, json);
			assert.deepEqual([r.status, r.body.member], [400, member], `${at} ${r.text}`);
		}
		assert.equal((await ask('POST', `/sandboxes/${id}/branches`, { branches: [{ code: 'x'.repeat(2001) }] })).status, 413);
		await ask('DELETE', `/sandboxes/${id}`);
		assert.equal((await ask('GET', `/sandboxes/${id}/checkpoints`)).status, 404);
		const document = (await ask('GET', '/openapi.json')).body;
		const operations = Object.values<Json>(document.paths).flatMap((p) => Object.values<Json>(p));
		const schema = operations.find((o) => o.operationId === 'tryBranches')!.requestBody.content['application/json'].schema.properties;
		assert.equal(schema.timeout_s.maximum, 90);
		const file = operations.find((o) => o.operationId === 'getFile')!.responses['200'].content;
		assert.deepEqual(file['application/octet-stream'].schema, { type: 'string', format: 'binary' });
	});

	it('keys: of others, for reading, for one profile, of an administrator', async () => {
		const ada = await newKey('ada'), bob = await newKey('bob'), reads = await newKey('ada', '--scope', 'read'), classic = await newKey('ada', '--for-profile', 'classic');
		const id = await make(ada);
		assert.equal((await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'a' }, ada)).status, 201);
		for (const [method, at, json] of [['GET', 'checkpoints', undefined], ['POST', 'checkpoints', { name: 'b' }], ['POST', 'forks', {}], ['POST', 'branches', { branches: [{ code: '1' }] }]] as const)
			assert.equal((await ask(method, `/sandboxes/${id}/${at}`, json, bob)).status, 404);
		assert.equal((await ask('GET', `/sandboxes/${id}/checkpoints`, undefined, reads)).body.checkpoints.length, 1);
		for (const key of [reads, classic])
			for (const [method, at, json] of [['POST', '/checkpoints', { name: 'b' }], ['DELETE', '/checkpoints/a', undefined], ['POST', '/forks', {}], ['PATCH', '', { name: 'x' }]] as const)
				assert.equal((await ask(method, `/sandboxes/${id}${at}`, json, key)).status, 403, `${method} ${at}`);
		assert.equal((await ask('POST', '/sandboxes', { memory_mb: 100 }, classic)).status, 403);
		const boss = await newKey('boss', '--scope', 'admin');
		const all = await caisson(['ps', '--listen', base.slice('http://'.length)], { env: { ...env, SANDBOX_API_KEY: boss } });
		assert.match(all.stdout.toString(), /OWNER/);
		assert.ok(all.stdout.toString().split('\n').some((l) => l.startsWith(`${id} `)), all.stdout.toString());
		const own = await caisson(['ps', '--listen', base.slice('http://'.length)], { env: { ...env, SANDBOX_API_KEY: bob } });
		assert.ok(!own.stdout.toString().includes(id), own.stdout.toString());
		assert.equal((await ask('DELETE', `/sandboxes/${id}`, undefined, ada)).status, 204);
	});
});
