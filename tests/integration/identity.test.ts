// SPDX-License-Identifier: Apache-2.0
// Identity, judged now and not when something was opened: what a key, a login or an administrator's right opened ends
// within a second of its end, and no session, stream or task lends its rights to a weaker key of the same user.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { after, before, describe, it } from 'node:test';
import { newStateDir, slowness } from '../lib/env.ts';
import { Stream } from '../lib/event-stream.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const password = 'correct horse battery';
const limitMs = 1000 + 1500 * (slowness - 1);

const accept = 'application/json, text/event-stream';
const init = (id = 1): Json => ({ jsonrpc: '2.0', id, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } });
const runCode = (id: number, code: string, more: Json = {}): Json => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { code }, ...more } });
const meta = (extra: Json = {}): Json => ({ 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': extra, 'io.modelcontextprotocol/clientInfo': { name: 't', version: '1' } });

describe('identity is judged now', () => {
	const state = newStateDir();
	const env = { SANDBOX_STATE_DIR: state, SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_TASK_AFTER_S: '1', SANDBOX_MAX_SESSIONS: '64' };
	let program: Program;
	let base: string;

	async function cli(...args: string[]): Promise<string> {
		const r = await caisson(args, { env, input: args[1] === 'passwd' ? `${password}\n` : undefined });
		assert.equal(r.code, 0, r.stderr.toString());
		return r.stdout.toString();
	}
	let n = 0;
	let root = '';
	/** A new user. */
	async function user(role = 'user'): Promise<{ name: string; id: string }> {
		const name = `u${++n}`;
		const r = await rest('POST', '/users', root, { name, role });
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return { name, id: r.body.id };
	}
	/** A new key of a user. */
	async function newKey(of: { id: string }, more: Json = {}): Promise<{ key: string; id: string; expires_at: string }> {
		const r = await rest('POST', `/keys?owner=${of.id}`, root, more);
		assert.equal(r.status, 201, JSON.stringify(r.body));
		return r.body as { key: string; id: string; expires_at: string };
	}
	const headers = (key: string, more: Record<string, string> = {}): Record<string, string> =>
		({ 'x-api-key': key, 'content-type': 'application/json', accept, ...more });
	const post = (path: string, key: string | undefined, body: unknown, more: Record<string, string> = {}): Promise<Response> =>
		fetch(base + path, { method: 'POST', headers: key === undefined ? { 'content-type': 'application/json', accept, ...more } : headers(key, more), body: JSON.stringify(body) });
	async function rest(method: string, path: string, key: string, json?: unknown): Promise<{ status: number; body: Json }> {
		const r = await fetch(`${base}/api/v1${path}`, { method, headers: headers(key), body: json === undefined ? undefined : JSON.stringify(json) });
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) : {} };
	}
	/** The answer to a POST of /mcp, from JSON or from an event stream. */
	async function rpc(key: string, body: Json, more: Record<string, string> = {}): Promise<{ status: number; body: Json; session: string | null }> {
		const r = await post('/mcp', key, body, more);
		const text = await r.text();
		const data = text.startsWith('{') ? text : [...text.matchAll(/^data: (\{.*)$/gm)].map((m) => m[1]!).find((t) => JSON.parse(t).id === body.id) ?? '{}';
		return { status: r.status, body: JSON.parse(data), session: r.headers.get('mcp-session-id') };
	}
	async function session(key: string): Promise<string> {
		const r = await rpc(key, init());
		assert.equal(r.status, 200);
		await rpc(key, { jsonrpc: '2.0', method: 'notifications/initialized' }, { 'mcp-session-id': r.session! });
		return r.session!;
	}
	/** Everything that a key can keep open, with its endpoint of /messages/. */
	async function openAll(key: string): Promise<{ streams: Record<string, Stream>; endpoint: string; run: string }> {
		const sse = await Stream.open(`${base}/sse`, { headers: headers(key) });
		const endpoint = (await sse.wait(/data: (\/messages\/\S+)/))[1]!;
		const id = await session(key);
		const get = await Stream.open(`${base}/mcp`, { headers: headers(key, { 'mcp-session-id': id }) });
		const made = await rest('POST', '/sandboxes', key, {});
		assert.equal(made.status, 201, JSON.stringify(made.body));
		const run = await rest('POST', `/sandboxes/${made.body.id}/runs`, key, { code: 'import time\nfor i in range(300): time.sleep(0.1); print(i, flush=True)' });
		assert.equal(run.status, 201);
		const events = await Stream.open(`${base}/api/v1/runs/${run.body.id}/events`, { headers: headers(key) });
		await events.wait(/stdout/);
		const listen = await Stream.open(`${base}/mcp`, {
			method: 'POST',
			headers: headers(key, { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' }),
			body: JSON.stringify({ jsonrpc: '2.0', id: 5, method: 'subscriptions/listen', params: { notifications: { resourcesListChanged: true }, _meta: meta() } }),
		});
		await listen.wait(/acknowledged/);
		// Its first line is progress. Without one, the head of the answer comes with the first keep-alive after 15 s.
		const call = await Stream.open(`${base}/mcp`, { method: 'POST', headers: headers(key, { 'mcp-session-id': id }), body: JSON.stringify(runCode(9, 'import time\nprint("on", flush=True)\ntime.sleep(25)\nprint("ran to its end")', { _meta: { progressToken: 1 } })) });
		return { streams: { sse, get, events, listen, call }, endpoint, run: run.body.id };
	}

	before(async () => {
		await cli('user', 'add', 'root', '--role', 'admin', '--password', 'none');
		root = (await cli('key', 'new', 'root', '--scope', 'admin')).trim();
		({ program, base } = await serve({ profile: 'full', env }));
	});
	after(async () => {
		await program.end();
	});

	const ends: [string, (who: { name: string; id: string }, key: string) => Promise<void>][] = [
		['a key revoked by another process', async (_who, id) => void await cli('key', 'revoke', id)],
		['a key revoked over HTTP', async (w, id) => assert.equal((await rest('DELETE', `/keys/${id}?owner=${w.id}`, root)).status, 204)],
		['a user deactivated', async (w) => assert.equal((await rest('PATCH', `/users/${w.id}`, root, { active: false })).status, 200)],
		['a user removed', async (w) => assert.equal((await rest('DELETE', `/users/${w.id}`, root)).status, 204)],
	];
	for (const [what, end] of ends)
		it(`${what}: all that its key opened ends within a second`, async () => {
			const who = await user();
			const key = await newKey(who);
			const twin = await user();
			const twinKey = await newKey(twin);
			const open = await openAll(key.key);
			const other = await Stream.open(`${base}/sse`, { headers: headers(twinKey.key) });
			const endpoint = (await other.wait(/data: (\/messages\/\S+)/))[1]!;
			await end(who, key.id);
			const at = performance.now();
			for (const [name, s] of Object.entries(open.streams)) {
				const took = (await s.end) - at;
				assert.ok(took < limitMs, `${name} ended after ${took} ms`);
			}
			assert.doesNotMatch(open.streams.call!.text, /ran to its end/);
			assert.equal((await post(open.endpoint, key.key, init())).status, 401);
			assert.equal((await post(open.endpoint, undefined, init())).status, 401);
			assert.ok(!other.closed, 'another user goes on');
			assert.equal((await post(endpoint, twinKey.key, init())).status, 202);
			await other.wait(/"protocolVersion"/);
			other.close();
			if (what === 'a user removed') { // also what waits for a next request, and holds subscriptions
				const used = (await rest('GET', '/stats', root)).body.budgets.mcp_sessions.by_user;
				assert.equal(used[who.id], undefined, JSON.stringify(used));
			}
			if (what.startsWith('a key')) { // what the key began was cancelled, and its user can see it
				const again = await newKey(who);
				let run = await rest('GET', `/runs/${open.run}`, again.key);
				await until('the end of the run', async () => (run = await rest('GET', `/runs/${open.run}`, again.key)).body.status === 'done', 10_000);
				assert.deepEqual([run.status, run.body.status, run.body.reason], [200, 'done', 'cancelled'], JSON.stringify(run.body));
			}
		});

	it('a stranger is refused before the body', async () => {
		const { host, hostname, port } = new URL(base);
		for (const [method, path, length] of [['POST', '/sandboxes/x/runs', 500_000], ['POST', '/keys', 200_000], ['GET', '/me', 60_000], ['GET', '/openapi.json', 500_000]] as const) {
			const socket = net.connect(Number(port), hostname);
			const answer = await new Promise<string>((resolve) => {
				socket.on('data', (data: Buffer) => resolve(data.toString('latin1')));
				socket.setTimeout(5000, () => resolve('the server waits for the body'));
				socket.write(`${method} /api/v1${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${length}\r\n\r\nx`);
			});
			socket.destroy();
			assert.match(answer, path === '/openapi.json' ? /^HTTP\/1\.1 413 / : /^HTTP\/1\.1 401 /, `${method} ${path}`);
		}
	});

	it('a request under way when its user is removed begins no session', async () => {
		const who = await user();
		const { key } = await newKey(who);
		const { host, hostname, port } = new URL(base);
		const socket = net.connect(Number(port), hostname);
		let text = '';
		const end = new Promise<void>((resolve) => socket.on('data', (data: Buffer) => (text += data.toString('latin1'))).on('error', resolve).on('close', () => resolve()));
		const body = JSON.stringify(init());
		socket.write(`POST /mcp HTTP/1.1\r\nHost: ${host}\r\nx-api-key: ${key}\r\ncontent-type: application/json\r\naccept: ${accept}\r\nexpect: 100-continue\r\ncontent-length: ${body.length}\r\n\r\n`);
		await until('the server to read', () => text.includes(' 100 '));
		assert.equal((await rest('DELETE', `/users/${who.id}`, root)).status, 204);
		socket.write(body);
		await Promise.race([end, until('an answer', () => /HTTP\/1\.1 [2-5]\d\d[^]*\r\n\r\n[^]/.test(text.slice(25)))]);
		socket.destroy();
		assert.doesNotMatch(text, /mcp-session-id/i);
		assert.equal((await rest('GET', '/stats', root)).body.budgets.mcp_sessions.by_user?.[who.id], undefined);
	});

	it('/messages/ wants the principal of its stream', async () => {
		const [a, b] = [await user(), await user()];
		const [key, same, other, reader] = [await newKey(a), await newKey(a), await newKey(b), await newKey(a, { scope: 'read' })];
		const sse = await Stream.open(`${base}/sse`, { headers: headers(key.key) });
		const endpoint = (await sse.wait(/data: (\/messages\/\S+)/))[1]!;
		assert.ok(!endpoint.includes('csn_'), 'a key from a header is in no URL');
		assert.equal((await post(endpoint, undefined, init())).status, 401);
		assert.equal((await post(endpoint, other.key, init())).status, 404);
		assert.equal((await post(endpoint, same.key, init())).status, 202);
		await sse.wait(/"protocolVersion"/);
		assert.equal((await post(endpoint, reader.key, runCode(2, 'print("by a read key")'))).status, 202);
		await sse.wait(/is not allowed/);
		assert.equal((await post(endpoint, key.key, runCode(3, 'print("by a full " + "key")'))).status, 202);
		await sse.wait(/by a full key/);
		sse.close();
		// A client that can only put its key into a URL is told one that has it.
		const url = await Stream.open(`${base}/sse?api_key=${key.key}`);
		const way = (await url.wait(/data: (\/messages\/\S+)/))[1]!;
		assert.equal((await post(way, undefined, init())).status, 202);
		await url.wait(/"protocolVersion"/);
		url.close();
	});

	it('(slow) a session lends its rights to no weaker key', async () => {
		const a = await user();
		const [full, reader, code] = [await newKey(a), await newKey(a, { scope: 'read' }), await newKey(a, { profile: 'classic' })];
		const id = await session(full.key);
		const at = { 'mcp-session-id': id };
		for (const weak of [reader, code]) {
			const r = await rpc(weak.key, runCode(2, 'print(1)'), at);
			assert.match(JSON.stringify(r.body), /is not allowed/);
			const tools = (await rpc(weak.key, { jsonrpc: '2.0', id: 3, method: 'tools/list' }, at)).body.result.tools.map((t: Json) => t.name);
			assert.ok(!tools.includes('sandbox_run_python'), tools.join());
		}
		assert.match(JSON.stringify((await rpc(code.key, { jsonrpc: '2.0', id: 4, method: 'resources/subscribe', params: { uri: 'sandbox://x' } }, at)).body), /may not do/);
		assert.match(JSON.stringify((await rpc(full.key, runCode(5, 'print(40 + 2)'), at)).body), /42/);
		// Nor may a read key end what a full key began in it.
		const call = rpc(full.key, runCode(6, 'import time; time.sleep(1.5); print("un" + "hurt")'), at);
		await new Promise((resolve) => setTimeout(resolve, 500));
		await rpc(reader.key, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 6 } }, at);
		assert.match(JSON.stringify((await call).body), /unhurt/);
	});

	it('(slow) tasks by scope', async () => {
		const a = await user();
		const [full, reader, classic] = [await newKey(a), await newKey(a, { scope: 'read' }), await newKey(a, { profile: 'classic' })];
		const modern = (method: string, name?: string): Record<string, string> => ({ 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...(name ? { 'mcp-name': name } : {}) });
		const tasks = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
		const begin = async (): Promise<string> => {
			const r = await rpc(full.key, {
				jsonrpc: '2.0', id: 1, method: 'tools/call',
				params: { name: 'sandbox_run_python', arguments: { code: 'import time; time.sleep(50)' }, _meta: meta(tasks) },
			}, modern('tools/call', 'sandbox_run_python'));
			assert.equal(r.body.result?.resultType, 'task', JSON.stringify(r.body));
			return r.body.result.taskId;
		};
		const ask = async (key: string, method: string, taskId: string): Promise<Json> =>
			(await rpc(key, { jsonrpc: '2.0', id: 2, method, params: { taskId, _meta: meta(tasks) } }, modern(method, taskId))).body;
		const task = await begin();
		assert.match(JSON.stringify(await ask(reader.key, 'tasks/cancel', task)), /may not change/);
		assert.match(JSON.stringify(await ask(classic.key, 'tasks/get', task)), /Unknown task/);
		assert.equal((await ask(reader.key, 'tasks/get', task)).result.status, 'working');
		await cli('key', 'revoke', full.id);
		await new Promise((resolve) => setTimeout(resolve, limitMs));
		assert.equal((await ask(reader.key, 'tasks/get', task)).result.status, 'cancelled', 'a revoked key\'s task goes with it');
	});

	it('(slow) an expired key, another password, a lost role', async () => {
		const boss = await user('admin');
		const admin = await newKey(boss, { scope: 'admin' });
		const who = await user();
		const short = await newKey(who, { expires_in_s: 2 });
		const sse = await Stream.open(`${base}/sse`, { headers: headers(short.key) });
		await sse.wait(/endpoint/);
		const expires = Date.parse(short.expires_at);
		await sse.end;
		assert.ok(Date.now() - expires < limitMs, `${Date.now() - expires} ms after its end`);

		await cli('user', 'passwd', who.name);
		const login = async (): Promise<string> => {
			const r = await fetch(`${base}/api/token`, { method: 'POST', body: new URLSearchParams({ username: who.name, password }) });
			assert.equal(r.status, 200);
			return (await r.json() as Json).access_token;
		};
		const byToken = await Stream.open(`${base}/sse`, { headers: { authorization: `Bearer ${await login()}` } });
		await byToken.wait(/endpoint/);
		await cli('user', 'passwd', who.name);
		let at = performance.now();
		assert.ok((await byToken.end) - at < limitMs, 'a login ends with its password');

		const asAdmin = await Stream.open(`${base}/sse`, { headers: headers(admin.key) });
		await asAdmin.wait(/endpoint/);
		await cli('user', 'role', boss.name, 'user');
		at = performance.now();
		assert.ok((await asAdmin.end) - at < limitMs, 'no stream keeps a role');
	});
});
