// SPDX-License-Identifier: Apache-2.0
// Users, keys and tokens as HTTP clients see them: the second family's user routes in their exact shapes, keys with scopes
// and ends, quotas, and that nobody reaches what is another's, by any route or tool.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { newStateDir, slowness } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { ask, login, password, register, type Answer } from '../lib/users.ts';

async function mcp(base: string, key: string): Promise<Client> {
	const client = new Client({ name: 'caisson-tests', version: '1.0.0' });
	await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { 'x-api-key': key } } }));
	return client;
}

async function call(client: Client, name: string, args: Json): Promise<Json> {
	const r = (await client.callTool({ name, arguments: args })) as Json;
	return r.structuredContent?.result ?? r.structuredContent ?? r;
}

describe('the user routes of the second family', () => {
	const state = newStateDir();
	let program: Program;
	let base: string;
	before(async () => {
		({ program, base } = await serve({ profile: 'all', env: { SANDBOX_STATE_DIR: state } }));
	});
	after(async () => {
		await program.end();
	});

	it('figures of the pool: a sandbox came from it, or found none', async () => {
		assert.equal((await ask('POST', `${base}/api/v1/sandboxes`, { json: {} })).status, 201);
		const text = await (await fetch(`${base}/metrics`)).text();
		const figure = (name: string): number => Number(new RegExp(`^caisson_pool_${name} (\\d+)$`, 'm').exec(text)![1]);
		assert.ok(figure('ready') >= 0 && figure('fill_failures_total') >= 0);
		assert.ok(figure('claimed_total') + figure('cold_total') >= 1, text);
	});

	it('register, login, me, key, regenerate (B13)', async () => {
		const user = await register(base, 'ada');
		assert.deepEqual(Object.keys(user).sort(), ['api_key', 'created_at', 'email', 'id', 'is_active', 'username']);
		assert.match(user.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
		assert.match(user.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+$/, 'local ISO, no zone');
		assert.ok(user.api_key.length >= 36);

		const rows: [Json, number, string][] = [
			[{ username: 'ADA', email: 'other@example.org', password }, 400, 'Username already registered'],
			[{ username: 'other', email: 'ada@EXAMPLE.org', password }, 400, 'Email already registered'],
		];
		for (const [json, status, detail] of rows) {
			const r = await ask('POST', `${base}/api/register`, { json });
			assert.deepEqual([r.status, r.body], [status, { detail }]);
		}
		for (const bad of [{}, { username: 'x' }, { username: 'x', email: 'no at', password }, { username: 'x', email: 'a@b.c', password: 'short' }, { username: 'a@b', email: 'a@b.c', password }])
			assert.equal((await ask('POST', `${base}/api/register`, { json: bad })).status, 422, JSON.stringify(bad));

		const wrong = await ask('POST', `${base}/api/token`, { form: { username: 'ada', password: 'not that one' } });
		assert.deepEqual([wrong.status, wrong.body], [401, { detail: 'Incorrect username or password' }]);
		assert.equal(wrong.headers.get('www-authenticate'), 'Bearer');
		const unknown = await ask('POST', `${base}/api/token`, { form: { username: 'nobody', password } });
		assert.deepEqual(unknown.body, wrong.body, 'a name that nobody has is not told apart');

		const r = await ask('POST', `${base}/api/token`, { form: { username: 'Ada', password } });
		assert.deepEqual(Object.keys(r.body), ['access_token', 'token_type']);
		const token = r.body.access_token;
		const me = await ask('GET', `${base}/api/users/me`, { token });
		assert.deepEqual(me.body, { ...user, api_key: null }, 'the key was shown once');
		assert.equal((await ask('GET', `${base}/api/users/me/api-key`, { key: user.api_key })).status, 404, 'a key shows no other key');
		const fresh = await ask('POST', `${base}/api/users/me/api-key/regenerate`, { token });
		assert.notEqual(fresh.body.api_key, user.api_key);
		assert.equal((await ask('GET', `${base}/api/users/me`, { key: fresh.body.api_key })).status, 200);
		assert.equal((await ask('GET', `${base}/api/users/me`, { key: user.api_key })).status, 401, 'the old key is dead at once');
		assert.equal((await ask('GET', `${base}/health`, { key: user.api_key })).status, 401, 'and is not taken for nobody\'s');
	});

	it('(slow) the page sees its key again at each login, also after a restart, until it is made anew', async () => {
		const user = await register(base, 'paige');
		const shown = async (at = base): Promise<string> => {
			const r = await ask('GET', `${at}/api/users/me/api-key`, { token: await login(at, 'paige') });
			assert.equal(r.status, 200, JSON.stringify(r.body));
			return r.body.api_key;
		};
		const key = await shown();
		assert.match(key, /^csn_/);
		assert.equal(await shown(), key);
		for (const k of [key, user.api_key])
			assert.equal((await ask('GET', `${base}/api/users/me`, { key: k })).status, 200, 'the key of the registration is another one, and works');
		const database = fs.readFileSync(path.join(state, 'caisson.db')).toString('latin1') + fs.readFileSync(path.join(state, 'caisson.db-wal')).toString('latin1');
		assert.ok(database.includes('paige') && !database.includes(key.slice(14)), 'nothing on disk has the key');
		await program.end();
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state } }));
		assert.equal(await shown(), key);
		const fresh = await ask('POST', `${base}/api/users/me/api-key/regenerate`, { token: await login(base, 'paige') });
		assert.equal(await shown(), fresh.body.api_key);
		for (const k of [key, user.api_key])
			assert.equal((await ask('GET', `${base}/api/users/me`, { key: k })).status, 401, 'all older keys of these routes end');
		// A new password is another login: the key that the old one showed ends.
		const changed = await caisson(['user', 'passwd', 'paige'], { env: { SANDBOX_STATE_DIR: state }, input: 'another password\n' });
		assert.equal(changed.code, 0, changed.stderr.toString());
		const token = (await ask('POST', `${base}/api/token`, { form: { username: 'paige', password: 'another password' } })).body.access_token;
		const last = await ask('GET', `${base}/api/users/me/api-key`, { token });
		assert.notEqual(last.body.api_key, fresh.body.api_key);
		assert.equal((await ask('GET', `${base}/api/users/me`, { key: fresh.body.api_key })).status, 401);
	});

	it('errors have a text that a page can show; 422 has the list beside it', async () => {
		for (const [json, detail] of [
			[{ username: 'x', email: 'no at', password }, 'email: value is not a valid email address'],
			[{ username: 'x', email: 'x@example.org', password: 'seven77' }, 'password: 8 to 256 bytes'],
		] as const) {
			const r = await ask('POST', `${base}/api/register`, { json });
			assert.deepEqual([r.status, r.body.detail], [422, detail]);
			assert.equal(r.body.errors[0].loc[0], 'body');
		}
	});

	it('/docs, /redoc and /openapi.json load nothing from anywhere', async () => {
		for (const at of ['/docs', '/redoc']) {
			const r = await fetch(base + at);
			const text = await r.text();
			assert.equal(r.status, 200);
			assert.match(r.headers.get('content-security-policy')!, /^default-src 'none'/);
			assert.ok(!/<script|https?:/.test(text));
			assert.match(text, /\/api\/users\/me\/sandboxes\/\{id\}/);
		}
		const doc = (await (await fetch(`${base}/openapi.json`)).json()) as Json;
		assert.match(doc.openapi, /^3\.1/);
		for (const at of ['/api/register', '/api/token', '/api/users/me/api-key', '/api/v1/sandboxes'])
			assert.ok(doc.paths[at], at);
	});

	it('tokens that are not ours', async () => {
		await register(base, 'tom');
		const token = await login(base, 'tom');
		const [head, claims, mac] = token.split('.') as [string, string, string];
		const encode = (o: Json): string => Buffer.from(JSON.stringify(o)).toString('base64url');
		const said = JSON.parse(Buffer.from(claims, 'base64url').toString());
		const forged = [
			`${encode({ alg: 'none', typ: 'JWT' })}.${claims}.`,
			`${encode({ alg: 'none', typ: 'JWT' })}.${claims}.${mac}`,
			`${head}.${encode({ ...said, sub: 'ada' })}.${mac}`,
			`${head}.${encode({ ...said, exp: said.exp + 1 })}.${mac}`,
			`${head}.${claims}.`,
			`${head}.${claims}`,
			`${head}.${claims}.${mac}x`,
			`${head}.${claims}.${mac.slice(0, -1)}`,
			...[0, 1, 20, mac.length - 1].map((i) => `${head}.${claims}.${mac.slice(0, i)}${mac[i] === 'A' ? 'B' : 'A'}${mac.slice(i + 1)}`),
			`.${claims}.${mac}`,
			'a.b.c',
			'eyJ',
		];
		for (const t of forged)
			assert.equal((await ask('GET', `${base}/api/users/me`, { token: t })).status, 401, t);
		assert.equal((await ask('GET', `${base}/api/users/me`, { token })).status, 200);
		assert.deepEqual((await ask('GET', `${base}/api/users/me`)).body, { detail: 'Not authenticated' });
	});

	it('(slow) a flood of wrong passwords is slowed down, and others still come in', async () => {
		await register(base, 'zoe');
		let refused = 0;
		for (let i = 0; i < 12; i++)
			refused += (await ask('POST', `${base}/api/token`, { form: { username: 'mallory', password: `wrong password ${i}` } })).status === 429 ? 1 : 0;
		assert.ok(refused > 0, 'told to wait');
		assert.equal((await fetch(`${base}/healthz`)).status, 200);
		await login(base, 'zoe');
	});

	it('(slow) whatever others try, a right password is let in', async () => {
		await register(base, 'wanda');
		const wrong = (username: string): Promise<Answer> => ask('POST', `${base}/api/token`, { form: { username, password: 'a wrong password' } });
		// Names that nobody has lock out nobody.
		for (let i = 0; i < 40; i += 8)
			await Promise.all([...Array(8).keys()].map((k) => wrong(`nobody-${i + k}`)));
		await login(base, 'wanda');
		// Wrong ones for her own name delay her, and no more.
		const tried = await Promise.all([...Array(20).keys()].map(() => wrong('Wanda')));
		assert.ok(tried.filter((r) => r.status === 429).length >= 10, tried.map((r) => r.status).join());
		await login(base, 'wanda');
	});

	it('(slow) a browser in which she signed in before has a place of its own, whatever others try from her network', async () => {
		const names = ['ursula', 'urban'];
		for (const name of names)
			await register(base, name);
		const right = (cookie: string): Promise<Answer> => ask('POST', `${base}/api/token`, { form: { username: 'Ursula', password }, headers: cookie ? { cookie } : {} });
		const [hers, his] = await Promise.all(names.map(async (username) => {
			const r = await ask('POST', `${base}/api/token`, { form: { username, password } });
			assert.equal(r.status, 200);
			return /caisson-device-\d+=[^;]+/.exec(r.headers.get('set-cookie') ?? '')![0];
		}));
		// Wrong ones, until all places are taken for longer than this test needs: each that waits delays the next one.
		const wrong = (): Promise<Answer> => ask('POST', `${base}/api/token`, { form: { username: 'ursula', password: 'a wrong password' } });
		for (let i = 0; i < 8; i++)
			await wrong();
		const flood = [...Array(30).keys()].map(wrong);
		const refused = await Promise.race(flood);
		assert.equal(refused.status, 429, 'the flood fills its places');
		const end = hers!.length - 3;
		const others: [string, string][] = [['no token', ''], ['the token of another one', his!], ['a forged token', `${hers!.slice(0, end)}${hers![end] === 'A' ? 'B' : 'A'}${hers!.slice(end + 1)}`], ['a longer one', `${hers!}x`]];
		const without = others.map(([, cookie]) => [...Array(5).keys()].map(() => right(cookie)));
		assert.equal((await right(hers!)).status, 200);
		for (const [i, [what]] of others.entries()) // a place becomes free every two seconds
			assert.ok((await Promise.all(without[i]!)).some((r) => r.status === 429), what);
		assert.ok((await Promise.all(flood)).every((r) => r.status === 429 || r.status === 401));
		// The token is for a place, not for the password.
		assert.equal((await ask('POST', `${base}/api/token`, { form: { username: 'ursula', password: 'a wrong password' }, headers: { cookie: hers! } })).status, 401);
	});

	it('(slow) registrations have a queue of their own', async () => {
		await register(base, 'xena');
		const flood = [...Array(60).keys()].map((i) => ask('POST', `${base}/api/register`, { json: { username: `flood${i}`, email: `flood${i}@example.org`, password } }));
		await login(base, 'xena');
		assert.ok((await Promise.all(flood)).some((r) => r.status === 429), 'it was a flood');
	});

	it('another\'s sandbox is 404 (B15)', async () => {
		await register(base, 'una');
		const token = await login(base, 'una');
		const own = await ask('POST', `${base}/api/v1/sandboxes`, { token, json: { kind: 'stored' } });
		assert.equal(own.status, 201, JSON.stringify(own.body));
		await register(base, 'vic');
		const other = await login(base, 'vic');
		const url = `${base}/api/users/me/sandboxes`;
		assert.deepEqual((await ask('GET', url, { token: other })).body, { sandboxes: [] });
		assert.equal((await ask('DELETE', `${url}/${own.body.id}`, { token: other })).status, 404);
		const list = (await ask('GET', url, { token })).body.sandboxes;
		assert.deepEqual(Object.keys(list[0]).sort(), ['created_at', 'docker_container_id', 'id', 'name', 'user_id']);
		assert.deepEqual((await ask('DELETE', `${url}/${own.body.id}`, { token })).body, { message: 'Sandbox deleted successfully' });
		assert.deepEqual((await ask('GET', url, { token })).body, { sandboxes: [] });
	});
});

describe('a server that asks who it is', () => {
	const state = newStateDir();
	const env = { SANDBOX_STATE_DIR: state, SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_OPEN_REGISTRATION: 'off' };
	let program: Program;
	let base: string;
	const keys: Record<string, string> = {};
	const ids: Record<string, string> = {};

	async function cli(...args: string[]): Promise<string> {
		const r = await caisson(args, { env });
		assert.equal(r.code, 0, r.stderr.toString());
		return r.stdout.toString();
	}

	before(async () => {
		for (const name of ['alice', 'bob']) {
			const text = await cli('user', 'add', name, '--password', 'none');
			ids[name] = /^id\s+(\S+)$/m.exec(text)![1]!;
			keys[name] = (await cli('key', 'new', name)).trim();
		}
		await cli('user', 'add', 'root', '--role', 'admin', '--password', 'none');
		keys.admin = (await cli('key', 'new', 'root', '--scope', 'admin')).trim();
		keys.plain = (await cli('key', 'new', 'root')).trim();
		keys.reader = (await cli('key', 'new', 'alice', '--scope', 'read')).trim();
		({ program, base } = await serve({ profile: 'all', env }));
	});
	after(async () => {
		await program.end();
	});

	it('refuses who shows nothing, or something wrong', async () => {
		for (const path of ['/health', '/metrics', '/api/v1/sandboxes', '/api/v1/me', '/sse', '/mcp'])
			for (const key of [undefined, 'csn_wrong', 'x', ''])
				assert.equal((await ask('GET', base + path, { key })).status, 401, `${path} ${key}`);
		assert.equal((await ask('POST', `${base}/api/register`, { json: { username: 'x', email: 'x@example.org', password } })).status, 403);
		assert.equal((await fetch(`${base}/healthz`)).status, 200);
		assert.equal((await fetch(`${base}/sse?api_key=${keys.alice}`).then(async (r) => (await r.body!.cancel(), r.status))), 200);
		assert.equal((await fetch(`${base}/api/v1/me?api_key=${keys.alice}`)).status, 401, 'keys in a URL only where a client has no other way');
	});

	it('nobody reaches another\'s by REST', async () => {
		const alice = { key: keys.alice! };
		const made = await ask('POST', `${base}/api/v1/sandboxes`, { ...alice, json: {} });
		const id = made.body.id;
		const run1 = await ask('POST', `${base}/api/v1/sandboxes/${id}/runs`, { ...alice, json: { code: 'open("s.txt","w").write("mine")', wait: true } });
		assert.equal(run1.body.exit_code, 0, JSON.stringify(run1.body));
		const doors: [string, string, unknown?][] = [
			['GET', `/sandboxes/${id}`], ['DELETE', `/sandboxes/${id}`], ['GET', `/sandboxes/${id}/packages`],
			['POST', `/sandboxes/${id}/runs`, { code: '1' }], ['GET', `/runs/${run1.body.id}`], ['DELETE', `/runs/${run1.body.id}`],
			['GET', `/runs/${run1.body.id}/events`], ['GET', `/sandboxes/${id}/files`], ['GET', `/sandboxes/${id}/files/s.txt`],
			['PUT', `/sandboxes/${id}/files/t.txt`], ['DELETE', `/sandboxes/${id}/files/s.txt`],
		];
		for (const who of ['bob', 'admin'])
			for (const [method, path, json] of doors) {
				const r = await ask(method, `${base}/api/v1${path}`, { key: keys[who]!, json });
				assert.equal(r.status, 404, `${who} ${method} ${path}`);
			}
		// A plain user cannot name another owner, an administrator can.
		for (const [method, path, json] of doors)
			assert.equal((await ask(method, `${base}/api/v1${path}?owner=${ids.alice}`, { key: keys.bob!, json })).status, 404, `${method} ${path}`);
		assert.equal((await ask('GET', `${base}/api/v1/sandboxes/${id}?owner=${ids.alice}`, { key: keys.admin! })).status, 200);
		assert.equal((await ask('GET', `${base}/api/v1/sandboxes?all=true`, { key: keys.bob! })).body.sandboxes.length, 0);
		assert.ok((await ask('GET', `${base}/api/v1/sandboxes?all=true`, { key: keys.admin! })).body.sandboxes.length > 0);
		assert.deepEqual((await ask('GET', `${base}/api/v1/runs?all=true`, { key: keys.bob! })).body.runs, []);
		assert.equal((await ask('GET', `${base}/api/v1/sandboxes/${id}/files/s.txt`, alice)).body.text, 'mine');
	});

	it('nobody reaches another\'s by a tool, a session or a link', async () => {
		const alice = await mcp(base, keys.alice!);
		const bob = await mcp(base, keys.bob!);
		try {
			const mine = await call(alice, 'sandbox_run_python', { code: 'open("secret.txt","w").write("x")', session_id: 'shared-name' });
			assert.equal(mine.exit_code, 0, JSON.stringify(mine));
			const tools = (await bob.listTools()).tools.filter((t) => /^sandbox_(read|list|close)/.test(t.name) && t.inputSchema.properties?.session_id);
			assert.deepEqual(tools.map((t) => t.name).filter((name) => /_(artifact|session)$/.test(name)), ['sandbox_read_artifact', 'sandbox_close_session']);
			for (const { name, inputSchema } of tools) {
				// An argument that a tool does not know is refused before anything else.
				const args = inputSchema.properties?.path ? { session_id: 'shared-name', path: '/mnt/data/secret.txt' } : { session_id: 'shared-name' };
				assert.match(JSON.stringify(await bob.callTool({ name, arguments: args })), /session_not_found/, name);
			}
			// The same name is another sandbox for another user.
			const theirs = await call(bob, 'sandbox_run_python', { code: 'import os; print(os.listdir("."))', session_id: 'shared-name' });
			assert.equal(theirs.stdout, '[]\n', JSON.stringify(theirs));
			const list = await call(alice, 'sandbox_list_artifacts', { session_id: 'shared-name' });
			assert.equal(list.artifacts.length, 1);
			// Links carry a signature, which is the owner's.
			const link = list.artifacts[0].download_url;
			assert.equal((await fetch(link)).status, 200);
			assert.equal((await fetch(link.split('?')[0])).status, 403);
			assert.ok((await alice.listResources()).resources.some((r) => r.name.includes('secret.txt')));
			assert.deepEqual((await bob.listResources()).resources.length, 0);
			// Another user's MCP session is unknown.
			const transport = alice.transport as StreamableHTTPClientTransport;
			const r = await ask('POST', `${base}/mcp`, {
				key: keys.bob!,
				headers: { 'mcp-session-id': transport.sessionId!, accept: 'application/json, text/event-stream' },
				json: { jsonrpc: '2.0', id: 1, method: 'ping' },
			});
			assert.equal(r.status, 404);
		} finally {
			await alice.close();
			await bob.close();
		}
	});

	it('scopes', async () => {
		const reader = { key: keys.reader! };
		assert.deepEqual((await ask('GET', `${base}/api/v1/me`, reader)).body.read_only, true);
		assert.equal((await ask('GET', `${base}/api/v1/sandboxes`, reader)).status, 200);
		assert.equal((await ask('POST', `${base}/api/v1/sandboxes`, { ...reader, json: {} })).status, 403);
		assert.equal((await ask('POST', `${base}/api/v1/keys`, { ...reader, json: {} })).status, 403);
		// An administrator's everyday key is no administrator.
		for (const [key, status] of [[keys.plain, 403], [keys.alice, 403], [keys.admin, 200]] as const)
			for (const path of ['/users', '/audit', '/stats'])
				assert.equal((await ask('GET', `${base}/api/v1${path}`, { key: key! })).status, status, path);
		assert.equal((await ask('GET', `${base}/metrics`, { key: keys.alice! })).status, 403);
		assert.equal((await ask('POST', `${base}/api/v1/keys`, { key: keys.plain!, json: { scope: 'admin' } })).status, 403);
	});

	it('a key for a profile does over HTTP what its tools do, and no more', async () => {
		const alice = { key: keys.alice! };
		const code = (await cli('key', 'new', 'alice', '--for-profile', 'code')).trim();
		const classic = (await cli('key', 'new', 'alice', '--for-profile', 'classic')).trim();
		const full = (await cli('key', 'new', 'alice', '--for-profile', 'full')).trim();
		const other = await ask('POST', `${base}/api/v1/keys`, { ...alice, json: { name: 'other' } });
		const made = await ask('POST', `${base}/api/v1/sandboxes`, { ...alice, json: {} });
		const stored = await ask('POST', `${base}/api/v1/sandboxes`, { key: classic, json: { kind: 'stored' } });
		assert.deepEqual([made.status, stored.status], [201, 201]);
		const at = `/sandboxes/${made.body.id}`;
		const none = { json: { code: 'print(1)', wait: true } };
		const tries: [string, string, { json?: Json }, number, number][] = [
			['GET', at, {}, 200, 200],
			['POST', `${at}/runs`, none, 201, 201],
			['POST', '/sandboxes', { json: { name: 'more' } }, 403, 201],
			['POST', `${at}/packages`, { json: { packages: '../no' } }, 403, 400],
			['DELETE', `${at}/packages/x`, {}, 403, 403],
			['POST', '/keys', { json: {} }, 403, 403],
			['DELETE', `/keys/${other.body.id}`, {}, 403, 403],
			['DELETE', `/sandboxes/${stored.body.id}`, {}, 403, 403],
		];
		for (const [method, path, o, ofCode, ofClassic] of tries)
			for (const [key, status] of [[code, ofCode], [classic, ofClassic]] as const)
				assert.equal((await ask(method, `${base}/api/v1${path}`, { key, ...o })).status, status, `${method} ${path} ${key === code ? 'code' : 'classic'}`);
		assert.equal((await ask('DELETE', `${base}/api/users/me/sandboxes/${stored.body.id}`, { key: code })).status, 403);
		// One for the profile `full`, and one for none, may all of that.
		assert.equal((await ask('DELETE', `${base}/api/v1/keys/${other.body.id}`, { key: full })).status, 204);
		for (const s of (await ask('GET', `${base}/api/v1/sandboxes`, alice)).body.sandboxes)
			assert.equal((await ask('DELETE', `${base}/api/v1/sandboxes/${s.id}?force=true`, alice)).status, 204);
	});

	it('an Idempotency-Key is one for each owner that an administrator names', async () => {
		const made = await Promise.all([ids.alice, ids.bob].map((owner) =>
			ask('POST', `${base}/api/v1/sandboxes?owner=${owner}`, { key: keys.admin!, json: {}, headers: { 'idempotency-key': 'one' } })));
		assert.deepEqual(made.map((r) => [r.status, r.body.owner]), [[201, ids.alice], [201, ids.bob]]);
		for (const [i, key] of [keys.alice, keys.bob].entries())
			assert.equal((await ask('DELETE', `${base}/api/v1/sandboxes/${made[i]!.body.id}`, { key: key! })).status, 204);
	});

	it('a key that only reads runs no tool that changes', async () => {
		const reader = await mcp(base, keys.reader!);
		try {
			const r = (await reader.callTool({ name: 'sandbox_run_python', arguments: { code: 'print(1)' } })) as Json;
			assert.equal(r.isError, true, JSON.stringify(r));
			assert.match(r.content[0].text, /only read/);
			const list = (await reader.callTool({ name: 'sandbox_list_artifacts', arguments: { session_id: 'nothing' } })) as Json;
			assert.match(JSON.stringify(list), /session_not_found/, 'looking is allowed');
		} finally {
			await reader.close();
		}
	});

	it('keys end: revoked, expired, their user inactive', async () => {
		const admin = { key: keys.admin! };
		const alice = { key: keys.alice! };
		const made = await ask('POST', `${base}/api/v1/keys`, { ...alice, json: { name: 'temp', expires_in_s: 3600 } });
		assert.equal(made.status, 201);
		assert.equal((await ask('GET', `${base}/api/v1/me`, { key: made.body.key })).status, 200);
		// It makes none that lives longer than itself.
		const child = await ask('POST', `${base}/api/v1/keys`, { key: made.body.key, json: {} });
		assert.equal(child.body.expires_at, made.body.expires_at);
		assert.equal((await ask('POST', `${base}/api/users/me/api-key/regenerate`, { key: made.body.key })).status, 403);
		const list = (await ask('GET', `${base}/api/v1/keys`, alice)).body.keys;
		assert.ok(list.every((k: Json) => !('key' in k)), 'shown once');
		assert.equal((await ask('DELETE', `${base}/api/v1/keys/${made.body.id}`, { key: keys.bob! })).status, 404);
		assert.equal((await ask('DELETE', `${base}/api/v1/keys/${made.body.id}`, alice)).status, 204);
		assert.equal((await ask('GET', `${base}/api/v1/me`, { key: made.body.key })).status, 401);
		const off = await ask('PATCH', `${base}/api/v1/users/${ids.bob}`, { ...admin, json: { active: false } });
		assert.equal(off.body.active, false);
		assert.equal((await ask('GET', `${base}/api/v1/me`, { key: keys.bob! })).status, 401);
		await ask('PATCH', `${base}/api/v1/users/${ids.bob}`, { ...admin, json: { active: true } });
		assert.equal((await ask('GET', `${base}/api/v1/me`, { key: keys.bob! })).status, 200);
	});

	it('quotas', async () => {
		const admin = { key: keys.admin! };
		const made = await ask('POST', `${base}/api/v1/users`, { ...admin, json: { name: 'carl', max_runs_per_minute: 2, max_sandboxes: 1 } });
		assert.equal(made.status, 201);
		const k = await ask('POST', `${base}/api/v1/keys?owner=${made.body.id}`, { ...admin, json: {} });
		const carl = { key: k.body.key as string };
		const box = await ask('POST', `${base}/api/v1/sandboxes`, { ...carl, json: {} });
		for (const status of [201, 201, 429]) {
			const r = await ask('POST', `${base}/api/v1/sandboxes/${box.body.id}/runs`, { ...carl, json: { code: '1', wait: true } });
			assert.equal(r.status, status, JSON.stringify(r.body));
		}
		assert.equal((await ask('POST', `${base}/api/v1/sandboxes`, { ...carl, json: { kind: 'stored' } })).status, 201);
		const more = await ask('POST', `${base}/api/v1/sandboxes`, { ...carl, json: { kind: 'stored' } });
		assert.deepEqual([more.status, more.body.code], [429, 'quota_exceeded']);
		// With the user go keys and sandboxes.
		assert.equal((await ask('DELETE', `${base}/api/v1/users/${made.body.id}`, admin)).status, 204);
		assert.equal((await ask('GET', `${base}/api/v1/me`, carl)).status, 401);
		const left = (await ask('GET', `${base}/api/v1/sandboxes?all=true`, admin)).body.sandboxes;
		assert.ok(left.every((b: Json) => b.owner !== made.body.id));
	});

	it('who did what is written down, and no secret', async () => {
		// Objects that a stranger chose: a name that is cut within a character, an id that is no text.
		const name = `mallory${'é'.repeat(60)}`;
		assert.equal((await ask('POST', `${base}/api/v1/session`, { json: { username: name, password: 'wrong' }, headers: { origin: base, 'sec-fetch-site': 'same-origin' } })).status, 401);
		assert.equal((await ask('POST', `${base}/api/v1/sandboxes/mallory%ff/runs`, { key: keys.alice!, json: { code: '1' } })).status, 404);
		const rows = (await ask('GET', `${base}/api/v1/audit?limit=1000`, { key: keys.admin! })).body.rows;
		for (const action of ['user.add', 'key.new', 'key.revoke', 'user.change', 'user.remove', 'sandbox.create', 'run.start'])
			assert.ok(rows.some((r: Json) => r.action === action), action);
		assert.equal(rows.filter((r: Json) => r.object.startsWith('mallory')).length, 2, JSON.stringify(rows.slice(0, 5)));
		const text = JSON.stringify(rows) + program.stderr;
		for (const key of Object.values(keys))
			assert.ok(!text.includes(key));
		assert.ok(!text.includes('secret.txt","w"'), 'no code');
	});
});

describe('registration where the server asks who it is', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_PUBLIC_URL: 'https://box.example.org', SANDBOX_ALLOWED_HOSTS: 'box.example.org' };
	let program: Program;
	let base: string;
	let admin: string;

	async function cli(...args: string[]): Promise<string> {
		const r = await caisson(args, { env });
		assert.equal(r.code, 0, r.stderr.toString());
		return r.stdout.toString().trim();
	}
	const join = (username: string, invitation?: unknown): Promise<Answer> =>
		ask('POST', `${base}/api/register`, { json: { username, email: `${username}@example.org`, password, ...(invitation === undefined ? {} : { invitation }) } });

	before(async () => {
		await cli('user', 'add', 'root', '--role', 'admin', '--password', 'none');
		admin = await cli('key', 'new', 'root', '--scope', 'admin');
		({ program, base } = await serve({ profile: 'all', env }));
	});
	after(async () => {
		await program.end();
	});

	it('nobody makes an account, unless he was invited', async () => {
		assert.equal((await join('mallory')).status, 403);
		for (const wrong of ['', 'csi_', 'csi_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', admin, 'x'.repeat(5000)])
			assert.equal((await join('mallory', wrong)).status, 403, wrong.slice(0, 20));
		const shown = await caisson(['user', 'invite', '--note', 'for Ada'], { env: { ...env, SANDBOX_PUBLIC_URL: '' } }); // the running server knows its address
		const invitation = shown.stdout.toString().trim();
		assert.match(`${shown.stdout}${shown.stderr}`, /^(csi_\S{43})\n[^]*\n {2}https:\/\/box\.example\.org\/#\/join\/\1\n$/, 'the link that the page makes');
		assert.match(await cli('user', 'invitations'), /user +expires .* for Ada$/);
		assert.equal((await ask('POST', `${base}/api/register`, { json: { username: 'ada', invitation } })).status, 422, 'what is not well-formed uses nothing up');
		const both = await Promise.all(['ada', 'eve'].map((name) => join(name, invitation)));
		assert.deepEqual(both.map((r) => r.status).sort(), [200, 403], 'it is good for one');
		const made = both.find((r) => r.status === 200)!.body;
		assert.equal((await ask('GET', `${base}/api/v1/me`, { key: made.api_key })).body.admin, false);
		assert.equal((await join('bob', invitation)).status, 403);
		assert.equal(await cli('user', 'invitations'), '');
	});

	it('over HTTP, by administrators alone', async () => {
		const user = (await join('carl', await cli('user', 'invite'))).body.api_key;
		for (const [method, path, json] of [['GET', '/invitations'], ['POST', '/invitations', {}], ['DELETE', '/invitations/x']] as const)
			assert.equal((await ask(method, `${base}/api/v1${path}`, { key: user, json })).status, 403);
		const made = await ask('POST', `${base}/api/v1/invitations`, { key: admin, json: { role: 'admin', note: 'a colleague', expires_in_s: 60 } });
		assert.deepEqual([made.status, made.body.role], [201, 'admin'], JSON.stringify(made.body));
		const list = (await ask('GET', `${base}/api/v1/invitations`, { key: admin })).body.invitations;
		assert.deepEqual(list.map((i: Json) => [i.id, i.note, i.invitation]), [[made.body.id, 'a colleague', undefined]]);
		assert.equal((await ask('DELETE', `${base}/api/v1/invitations/${made.body.id}`, { key: admin })).status, 204);
		assert.equal((await ask('DELETE', `${base}/api/v1/invitations/${made.body.id}`, { key: admin })).status, 404);
		assert.equal((await join('dora', made.body.invitation)).status, 403, 'withdrawn');
		const rows = (await ask('GET', `${base}/api/v1/audit`, { key: admin })).body.rows.map((r: Json) => r.action);
		for (const action of ['user.invite', 'user.uninvite', 'user.register'])
			assert.ok(rows.includes(action), action);
	});
});

describe('behind a proxy that is trusted', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_OPEN_REGISTRATION: 'on', SANDBOX_TRUSTED_PROXIES: '127.0.0.1, 10.0.0.0/8' };
	let program: Program;
	let base: string;
	let admin: string;
	before(async () => {
		await caisson(['user', 'add', 'root', '--role', 'admin', '--password', 'none'], { env });
		admin = (await caisson(['key', 'new', 'root', '--scope', 'admin'], { env })).stdout.toString().trim();
		({ program, base } = await serve({ profile: 'all', env }));
	});
	after(async () => {
		await program.end();
	});
	const token = (username: string, word: string, headers: Record<string, string>): Promise<Answer> =>
		ask('POST', `${base}/api/token`, { form: { username, password: word }, headers });

	it('(slow) the address is the client\'s, as the last proxy saw it', async () => {
		const rows: [Record<string, string>, RegExp][] = [
			[{ 'x-forwarded-for': '203.0.113.9' }, /^203\.0\.113\.9$/],
			[{ 'x-forwarded-for': '198.51.100.1, 203.0.113.10, 10.1.2.3' }, /^203\.0\.113\.10$/],
			[{ forwarded: 'for=198.51.100.1, for="[2001:db8:1:2::7]:4711";proto=https' }, /^\[2001:db8:1:2::7\]$/],
			[{ forwarded: 'for=203.0.113.11', 'x-forwarded-for': '203.0.113.11' }, /^203\.0\.113\.11$/],
			[{ 'x-forwarded-for': `${'198.51.100.1, '.repeat(700)}203.0.113.12` }, /^203\.0\.113\.12$/], // a long list hides nobody
			[{ 'x-forwarded-for': 'nonsense' }, /^127\.0\.0\.1:\d+$/],
			[{}, /^127\.0\.0\.1:\d+$/],
		];
		for (const [headers, peer] of rows) {
			const name = `seen${rows.findIndex((r) => r[0] === headers)}`;
			await token(name, 'a wrong password', headers);
			const all = (await ask('GET', `${base}/api/v1/audit`, { key: admin })).body.rows;
			// A second one of the same network is counted in the row of the first.
			const row = all.find((r: Json) => r.object === name) ?? all.find((r: Json) => r.count === 2 && r.detail === 'and others');
			assert.match(row.peer, peer, JSON.stringify(headers).slice(0, 200));
		}
		const two = await token('seen', 'a wrong password', { forwarded: 'for=198.51.100.1', 'x-forwarded-for': '203.0.113.11' });
		assert.equal(two.status, 400, 'one of them is invented');
	});

	it('(slow) a flood of refused sign-ins and of failing calls is counted, and displaces nothing', async () => {
		const from = { 'x-forwarded-for': '203.0.113.77', origin: base, 'sec-fetch-site': 'same-origin' };
		const before = (await ask('GET', `${base}/api/v1/audit?limit=1000`, { key: admin })).body.rows;
		for (let i = 0; i < 40; i++)
			await Promise.all(Array.from({ length: 50 }, async () => ask('POST', `${base}/api/v1/session`, { json: { username: 'x' }, headers: from })));
		await Promise.all(Array.from({ length: 50 }, async () => ask('DELETE', `${base}/api/v1/keys/none`, { key: admin })));
		const rows = (await ask('GET', `${base}/api/v1/audit?limit=1000`, { key: admin })).body.rows as Json[];
		const seen = new Set(before.map((r: Json) => r.id));
		const signIns = rows.filter((r) => r.action === 'user.login' && r.peer === '203.0.113.77');
		const calls = rows.filter((r) => r.action === 'key.revoke' && r.result === 'not_found');
		assert.deepEqual([signIns.reduce((n, r) => n + r.count, 0), calls.reduce((n, r) => n + r.count, 0)], [2000, 50]);
		assert.ok(rows.filter((r) => !seen.has(r.id)).length <= 6, 'one row of each kind and minute');
		assert.ok(rows.filter((r) => seen.has(r.id)).length === before.length, 'what was there is there');
		const metrics = await (await fetch(`${base}/metrics`, { headers: { authorization: `Bearer ${admin}` } })).text();
		assert.ok(Number(/^caisson_requests_refused_total (\d+)$/m.exec(metrics)![1]) >= 2050);
	});

	it('(slow) guesses from elsewhere do not delay the person whose name it is', async () => {
		await register(base, 'yara');
		const home = { 'x-forwarded-for': '198.51.100.7' };
		assert.equal((await token('yara', password, home)).status, 200);
		const statuses: number[] = [];
		const guesses = [...Array(30).keys()].map(async (i) => {
			statuses.push((await token('yara', 'a wrong password', { 'x-forwarded-for': `198.51.100.7, 203.0.113.${i}` })).status);
		});
		const computed = (): number => statuses.filter((s) => s !== 429).length;
		await until('all guesses to be refused, or to wait', () => statuses.length - computed() >= 20, 30_000 * slowness);
		const before = computed();
		assert.equal((await token('yara', password, home)).status, 200);
		assert.ok(computed() - before <= 3, `${computed() - before} guesses were computed before it`);
		assert.ok(statuses.length < guesses.length, 'others wait still');
		await Promise.all(guesses);
		assert.ok(statuses.filter((s) => s === 429).length >= 20, statuses.join());
	});
});
