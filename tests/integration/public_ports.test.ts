// SPDX-License-Identifier: Apache-2.0
// Public ports: what strangers reach at names of ports, where the operator and the owner permit it; and the names of sandboxes of the face e2b.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import * as http from 'node:http';
import { text as content } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { client } from '../lib/e2b.ts';
import { engineEnv, newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { WebSocketClient } from '../lib/websocket.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const REQUESTS = 8; // of strangers to one user's sandboxes at a time
const HTTP = 8000;
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';
const key = { 'x-api-key': ADMIN };
const text = fs.readFileSync(new URL('../lib/port_server.py', import.meta.url)), tls = fs.readFileSync(new URL('../lib/tls_server.py', import.meta.url));

/** Key and certificate of a server that nobody has heard of. */
function selfSigned(names = 1): string {
	const r = spawnSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj', '/CN=whoever', '-addext', `subjectAltName=${Array.from({ length: names }, (_, i) => `DNS:name-${i}.example`).join()}`, '-keyout', '-', '-out', '-'], { encoding: 'utf8' });
	assert.equal(r.status, 0, r.stderr);
	return r.stdout;
}

interface Said { status: number; headers: http.IncomingHttpHeaders; text: string }

describe('public ports', () => {
	let program: Program;
	let base: string;
	let port: number;
	let id: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_PUBLIC_PORTS: 'on', SANDBOX_FACES: 'e2b', SANDBOX_TRUSTED_PROXIES: '127.0.0.1', SANDBOX_BUDGETS: `public_requests=${REQUESTS}/${4 * REQUESTS}` };

	async function ask(method: string, path: string, json?: unknown, headers: Record<string, string> = key, of = base): Promise<{ status: number; body: Json; text: string }> {
		const r = await fetch(`${of}/api/v1${path}`, {
			method, headers: { ...headers, ...(json === undefined ? {} : { 'content-type': 'application/json' }) },
			body: json === undefined ? undefined : JSON.stringify(json),
		});
		const said = await r.text();
		return { status: r.status, body: said ? JSON.parse(said) : {}, text: said };
	}
	/** A request to a name, as a browser sends it that has nothing of ours. */
	async function named(sandbox: string, path: string, headers: Record<string, string> = {}, at = HTTP, method = 'GET'): Promise<Said> {
		const r = http.request({ host: '127.0.0.1', port, path, method, agent: false, headers: { host: `${at}-${sandbox}.localhost:${port}`, ...headers } });
		r.end();
		const [said] = await once(r, 'response') as [http.IncomingMessage];
		return { status: said.statusCode!, headers: said.headers, text: await content(said) };
	}
	/** An answer that does not end by itself; the status, and its end. */
	async function held(sandbox: string, headers: Record<string, string> = {}): Promise<{ status: number; response: http.IncomingMessage; leave: () => void }> {
		const r = http.request({ host: '127.0.0.1', port, path: '/chunks', agent: false, headers: { host: `${HTTP}-${sandbox}.localhost:${port}`, ...headers } });
		r.on('error', () => undefined);
		r.end();
		const [response] = await once(r, 'response') as [http.IncomingMessage];
		response.on('error', () => undefined).resume();
		return { status: response.statusCode!, response, leave: () => r.destroy() };
	}
	async function startServer(where: string, who: Record<string, string> = key): Promise<void> {
		const put = await fetch(`${base}/api/v1/sandboxes/${where}/files/server.py`, { method: 'PUT', headers: who, body: text });
		assert.equal(put.status, 201, await put.text());
		const started = await ask('POST', `/sandboxes/${where}/processes`, { command: `exec python3 server.py ${HTTP} 8001` }, who);
		assert.equal(started.status, 201, started.text);
		await until('the server', async () => (await ask('GET', `/sandboxes/${where}/processes/${started.body.id}`, undefined, who)).text.includes('serving'));
	}
	async function keyOf(name: string, ...args: string[]): Promise<string> {
		const e = { env: { ...env, SANDBOX_API_KEY: '' } };
		await caisson(['user', 'add', name, '--password', 'none'], e);
		return /csn_\S+/.exec((await caisson(['key', 'new', name, ...args], e)).stdout.toString())![0];
	}
	const used = async (): Promise<number> => (await ask('GET', '/stats')).body.budgets.public_requests.used as number;

	before(async () => {
		({ program, base, port } = await serve({ profile: 'full', env }));
		id = (await ask('POST', '/sandboxes', { public: true })).body.id;
		if (!gvisor)
			await startServer(id);
	});
	after(async () => {
		await program.end();
	});

	it('need the operator', async () => {
		const closed = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir() } });
		try {
			assert.equal((await ask('GET', '/policy', undefined, {}, closed.base)).body.public_ports, false);
			const made = await ask('POST', '/sandboxes', { public: true }, {}, closed.base);
			assert.deepEqual([made.status, made.body.code, made.body.member], [403, 'forbidden', 'public']);
			assert.match(made.text, /SANDBOX_PUBLIC_PORTS/);
			const own = (await ask('POST', '/sandboxes', { public: false }, {}, closed.base)).body;
			assert.equal(own.public, false);
			assert.equal((await ask('PATCH', `/sandboxes/${own.id}`, { public: true }, {}, closed.base)).status, 403);
		} finally {
			await closed.program.end();
		}
		assert.equal((await ask('GET', '/policy')).body.public_ports, true);
		const nameless = await caisson(['serve', '--listen', '127.0.0.1:0'], { env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_PUBLIC_PORTS: 'on', SANDBOX_PORT_DOMAIN: 'off' } });
		assert.match(nameless.stderr.toString(), /SANDBOX_PUBLIC_PORTS: .*SANDBOX_PORT_DOMAIN/);
	});

	if (gvisor)
		return;

	it('need the owner: what is closed and what is not there look the same', async () => {
		const closed = (await ask('POST', '/sandboxes', {})).body;
		assert.equal(closed.public, false);
		const [a, b] = [await named(closed.id, '/echo'), await named('sess_000000000000', '/echo')];
		assert.deepEqual([a.status, a.text], [401, b.text]);
		assert.equal((await named(closed.id, '/echo', { 'x-api-key': 'csn_wrong' })).text, b.text);
		for (const wrong of [2, 'maybe', null, {}])
			assert.equal((await ask('POST', '/sandboxes', { public: wrong })).status, 400, String(wrong));
		const reader = await keyOf('reader', '--scope', 'read');
		assert.equal((await ask('POST', '/sandboxes', { public: true }, { 'x-api-key': reader })).status, 403);
	});

	it('are there without a key, at their own name alone, with nothing of ours', async () => {
		const r = await named(id, '/echo?x=1', { 'x-api-key': 'of-somebody', cookie: 'own=1; caisson-port=1.2.3; caisson=x', 'e2b-traffic-access-token': 'x', authorization: 'Bearer of-its-own', 'x-forwarded-for': '6.6.6.6' });
		assert.equal(r.status, 200, r.text);
		const headers = Object.fromEntries((JSON.parse(r.text) as Json).headers.map(([k, v]: string[]) => [k!.toLowerCase(), v]));
		assert.deepEqual([headers['x-api-key'], headers['cookie'], headers['e2b-traffic-access-token'], headers['authorization'], headers['x-forwarded-for']], [undefined, 'own=1', undefined, 'Bearer of-its-own', '6.6.6.6']);
		assert.equal((await fetch(`${base}/p/${id}/${HTTP}/echo`)).status, 401);
		assert.equal((await named(id, '/echo', { origin: 'https://evil.example' })).status, 403);
		assert.equal((await named(id, '/api/v1/me')).text, 'no such page');
		assert.equal((await named(id, '/echo', {}, 9)).status, 502);
		assert.equal((await named(id, '/echo', {}, 3128)).status, 400);
		/* A pass that opens nothing here goes no further. */
		const passed = await named(id, '/echo?caisson-port=1.2.3&y=2');
		assert.deepEqual([passed.status, passed.headers.location, passed.headers['set-cookie']], [303, '/echo?y=2', undefined]);
		/* Keys of others, and keys that may do little, are no worse than none. */
		for (const other of [await keyOf('guest'), await keyOf('guest', '--scope', 'read')])
			assert.equal((await named(id, '/echo', { 'x-api-key': other })).status, 200);
	});

	it('end when the owner closes them, with what strangers have open', async () => {
		const own = (await ask('POST', '/sandboxes', {})).body.id as string;
		await startServer(own);
		assert.equal((await named(own, '/echo')).status, 401);
		assert.equal((await ask('PATCH', `/sandboxes/${own}`, { public: true })).body.public, true);
		assert.equal((await named(own, '/echo')).status, 200);
		const socket = await WebSocketClient.open(`${base}/ws`, { Host: `${HTTP}-${own}.localhost:${port}` });
		assert.ok(socket instanceof WebSocketClient, JSON.stringify(socket));
		const mine = await WebSocketClient.open(`${base}/ws`, { Host: `${HTTP}-${own}.localhost:${port}`, ...key });
		assert.ok(mine instanceof WebSocketClient, JSON.stringify(mine));
		const stream = await held(own), waits = named(own, '/sleep');
		await until('all three', async () => (await used()) === 3);
		assert.equal((await ask('PATCH', `/sandboxes/${own}`, { public: false })).body.public, false);
		await until('the end of the socket', () => socket.ended);
		await until('the end of the stream', () => stream.response.destroyed || stream.response.readableEnded);
		assert.equal((await waits).status, 401);
		assert.equal(await used(), 0);
		assert.equal((await named(own, '/echo')).status, 401);
		assert.equal(mine.ended, false);
		mine.close();
	});

	it('are no part of a fork, and not of a sandbox whose id somebody chose', async () => {
		const fork = (await ask('POST', `/sandboxes/${id}/forks`, {})).body.id;
		assert.equal((await ask('GET', `/sandboxes/${fork}`)).body.public, false);
		assert.equal((await named(fork, '/echo')).status, 401);
		let session: Record<string, string> = {};
		const call = async (method: string, params: Json): Promise<Response> => fetch(`${base}/mcp`, { method: 'POST', headers: { ...key, ...session, 'content-type': 'application/json', accept: 'application/json, text/event-stream' }, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }) });
		const first = await call('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } });
		session = { 'mcp-session-id': first.headers.get('mcp-session-id')! };
		await first.text();
		for (const chosen of ['chosen', 'sess_0123456789ab', 'i0123456789abcdefghi']) {
			const ran = await (await call('tools/call', { name: 'sandbox_run_shell', arguments: { session_id: chosen, command: 'true' } })).text();
			assert.match(ran, /"isError":false|exit_code\W+0/, ran);
			const r = await ask('PATCH', `/sandboxes/${chosen}`, { public: true });
			assert.deepEqual([r.status, r.body.member], [403, 'public'], r.text);
		}
	});

	it('of a stored sandbox: the mark stays, and no stranger makes it active', async () => {
		const e = { ...env, SANDBOX_STATE_DIR: newStateDir() };
		let own = '';
		for (const again of [false, true]) {
			const server = await serve({ profile: 'full', env: e });
			const to = (method: string, path: string, json?: unknown): Promise<{ status: number; body: Json }> => ask(method, path, json, key, server.base);
			const stranger = (): Promise<number> => new Promise((done) => http.get({ host: '127.0.0.1', port: server.port, headers: { host: `9-${own}.localhost:${server.port}` } }, (r) => done(r.resume().statusCode!)));
			try {
				own ||= (await to('POST', '/sandboxes', { kind: 'stored', public: true })).body.id;
				const { state, public: open } = (await to('GET', `/sandboxes/${own}`)).body;
				assert.deepEqual([state, open, await stranger()], again ? ['stored', true, 401] : ['active', true, 502]);
				assert.equal((await to('GET', `/sandboxes/${own}`)).body.state, state);
				assert.equal((await to('PATCH', `/sandboxes/${own}`, { public: false })).body.public, false);
				assert.equal((await to('PATCH', `/sandboxes/${own}`, { public: true })).body.public, true);
			} finally {
				await server.program.end();
			}
		}
	});

	it('strangers use up neither what the owner has, nor each other\'s part', async () => {
		const ann = { 'x-api-key': await keyOf('ann') };
		const id = (await ask('POST', '/sandboxes', { public: true }, ann)).body.id as string;
		await startServer(id, ann);
		const all = [];
		for (let i = 0; i < REQUESTS; i++) { // of one network at most a quarter
			const more = await held(id, { 'x-forwarded-for': `9.9.9.${Math.floor(i / 2)}` });
			assert.equal(more.status, 200, String(i));
			all.push(more);
			if (i % 2)
				assert.equal((await named(id, '/echo', { 'x-forwarded-for': `9.9.9.${Math.floor(i / 2)}` })).status, 429);
		}
		const over = await named(id, '/echo', { 'x-forwarded-for': '7.7.7.7' });
		assert.deepEqual([over.status, JSON.parse(over.text).code, over.headers['retry-after'] !== undefined], [429, 'budget_exceeded', true]);
		assert.equal((await named(id, '/echo', ann)).status, 200, 'the owner');
		assert.equal((await ask('GET', '/me', undefined, ann)).body.budgets.port_requests.used, 0);
		for (const one of all)
			one.leave();
		await until('nothing is left', async () => (await used()) === 0);
		assert.equal((await named(id, '/echo')).status, 200);
	});

	it('end with their owner', async () => {
		const dan = { 'x-api-key': await keyOf('dan') };
		const own = (await ask('POST', '/sandboxes', { public: true }, dan)).body.id as string;
		await startServer(own, dan);
		const stream = await held(own);
		assert.equal(stream.status, 200);
		const user = (await ask('GET', '/users')).body.users.find((u: Json) => u.name === 'dan').id;
		assert.equal((await ask('PATCH', `/users/${user}`, { active: false })).status, 200);
		await until('the end of the stream', () => stream.response.destroyed || stream.response.readableEnded);
		await until('nobody answers', async () => (await named(own, '/echo')).status === 401);
	});

	describe('of sandboxes of the face e2b', () => {
		const { make, control } = client(() => ({ base, port }));
		const say = (r: Said): Json => JSON.parse(r.text) as Json;

		it('tell a person at a browser in a page what programs are told in JSON', async () => {
			const box = await make(), closed = await make({ network: { allowPublicTraffic: false } });
			const person = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36' };
			const page = async (id: string, status: number, title: string): Promise<Said> => {
				const r = await named(id, '/', person);
				assert.deepEqual([r.status, r.headers['content-type'], /<title>(.*)<\/title>/.exec(r.text)?.[1]], [status, 'text/html; charset=utf-8', title], r.text);
				return r;
			};
			assert.match((await page(box.id, 502, 'Closed Port Error')).text, new RegExp(`${box.id}.* port \\d+\\. `));
			assert.equal((await page(closed.id, 403, 'Closed to Visitors')).text.includes(closed.traffic), false);
			await control('DELETE', `/sandboxes/${box.id}`);
			await page(box.id, 502, 'Sandbox Not Found');
			assert.equal(say(await named(box.id, '/', { 'user-agent': 'curl/8.0' })).message, 'The sandbox was not found');
		});

		it('are public, unless they say otherwise; then a token opens them', async () => {
			const box = await make(), closed = await make({ network: { allowPublicTraffic: false } });
			for (const b of [box, closed])
				await startServer(b.id);
			assert.equal((await named(box.id, '/echo')).status, 200);
			assert.equal((await named(box.id.toUpperCase(), '/echo')).status, 200);
			assert.equal((await ask('GET', `/sandboxes/${box.id}`)).body.public, true);
			assert.equal((await control('GET', `/sandboxes/${closed.id}`)).json.network.allowPublicTraffic, false);
			for (const wrong of ['', box.traffic, closed.token, `${closed.traffic}0`]) {
				const r = await named(closed.id, '/echo', { 'e2b-traffic-access-token': wrong });
				assert.deepEqual([r.status, say(r).sandboxId, say(r).code], [403, closed.id, 403], r.text);
			}
			const r = await named(closed.id, '/echo', { 'e2b-traffic-access-token': closed.traffic });
			assert.equal(r.status, 200);
			assert.ok(!r.text.includes(closed.traffic));
			assert.equal((await named(closed.id, '/echo', key)).status, 200, 'the owner');
			assert.equal((await named(closed.id, '/echo', { 'e2b-traffic-access-token': closed.traffic, 'e2b-sandbox-id': box.id })).status, 502);
			assert.equal((await control('PUT', `/sandboxes/${closed.id}/network`, { allowPublicTraffic: true })).status, 400);
			const fork = (await control('POST', `/sandboxes/${closed.id}/fork`, { count: 1 })).json[0].sandbox;
			assert.equal((await named(fork.sandboxID, '/')).status, 403);
		});

		it('are called to their servers as the sandbox says', async () => {
			const box = await make({ network: { maskRequestHost: 'made.up.example:${PORT}' } }), plain = await make();
			for (const b of [box, plain])
				await startServer(b.id);
			const heard = async (of: string): Promise<string[]> => {
				const r = await named(of, '/echo', { origin: `http://${HTTP}-${of}.localhost:${port}` });
				assert.equal(r.status, 200, r.text);
				const fields = new Map((say(r).headers as [string, string][]).map(([name, value]) => [name.toLowerCase(), value]));
				return [fields.get('host')!, fields.get('origin')!];
			};
			assert.deepEqual(await heard(box.id), [`made.up.example:${HTTP}`, `http://made.up.example:${HTTP}`]);
			assert.deepEqual(await heard(plain.id), [`localhost:${HTTP}`, `http://localhost:${HTTP}`]);
			assert.equal((await control('GET', `/sandboxes/${box.id}`)).json.network.maskRequestHost, 'made.up.example:${PORT}');
			const fork = (await control('POST', `/sandboxes/${box.id}/fork`, { count: 1 })).json[0].sandbox.sandboxID;
			assert.equal((await control('GET', `/sandboxes/${fork}`)).json.network.maskRequestHost, 'made.up.example:${PORT}');
			for (const wrong of ['a b', 'a\r\nx-evil: 1', 'a/b', '${HOST}', '$', 'é', 'a\0b', 'a'.repeat(256), 5, {}, []])
				assert.equal((await control('POST', '/v2/sandboxes', { templateID: 'base', network: { maskRequestHost: wrong } })).status, 400, JSON.stringify(wrong));
			assert.equal((await control('PUT', `/sandboxes/${box.id}/network`, { maskRequestHost: 'x' })).status, 400);
		});

		it('speak TLS to servers that serve it (https_ports), whatever their certificate', async () => {
			const TLS = 8443, HUGE = 8444, WIDE = 8445;
			const box = await make({ network: { httpsPorts: [TLS, HUGE, HTTP, WIDE], maskRequestHost: 'made.up.example:${PORT}' } }), plain = await make({ network: { httpsPorts: [TLS] } });
			const certificate = selfSigned(), wide = selfSigned(600);
			for (const b of [box, plain])
				for (const [name, body] of [['server.py', text], ['tls_server.py', tls], ['server.pem', certificate], ['wide.pem', wide]] as const)
					assert.equal((await fetch(`${base}/api/v1/sandboxes/${b.id}/files/${name}`, { method: 'PUT', headers: key, body })).status, 201);
			const started = async (where: string, command: string): Promise<void> => {
				const p = await ask('POST', `/sandboxes/${where}/processes`, { command });
				await until('the server', async () => {
					const now = (await ask('GET', `/sandboxes/${where}/processes/${p.body.id}`)).text;
					assert.doesNotMatch(now, /Traceback/);
					return now.includes('serving');
				});
			};
			for (const b of [box, plain])
				await started(b.id, `exec python3 tls_server.py ${TLS} ${HUGE} ${WIDE}`);
			const echo = await named(box.id, '/echo?x=1', { origin: `http://${TLS}-${box.id}.localhost:${port}` }, TLS, 'POST');
			assert.equal(echo.status, 200, echo.text);
			const heard = new Map((say(echo).headers as [string, string][]).map(([name, value]) => [name.toLowerCase(), value]));
			assert.deepEqual([say(echo).path, heard.get('host'), heard.get('origin')], ['/echo?x=1', `made.up.example:${TLS}`, `https://made.up.example:${TLS}`]);
			assert.deepEqual([(await named(box.id, '/name', {}, TLS)).text, (await named(plain.id, '/name', {}, TLS)).text], ['made.up.example', 'localhost']);
			const large = await named(box.id, `/bytes?n=${64 << 16}`, {}, TLS);
			assert.deepEqual([large.status, large.text.length], [200, 64 << 16]);
			assert.equal((await fetch(`${base}/p/${box.id}/${TLS}/echo`, { headers: key })).status, 200, 'at a path, too');
			assert.equal((await named(box.id, `/to?to=${encodeURIComponent(`https://localhost:${TLS}/there`)}`, {}, TLS)).headers.location, '/there');
			const socket = await WebSocketClient.open(`${base}/ws`, { Host: `${TLS}-${box.id}.localhost:${port}` });
			assert.ok(socket instanceof WebSocketClient, JSON.stringify(socket));
			socket.type('over TLS '.repeat(5000));
			await until('the echo', () => socket.text.length === 45_000);
			socket.close();
			await socket.end();
			/* A server that does not, one whose key would take minutes, and one with more names in its certificate than are read. */
			await started(box.id, `exec python3 server.py ${HTTP} 8001`);
			const began = performance.now();
			for (const at of [HTTP, HUGE, WIDE]) {
				const r = await named(box.id, '/echo', {}, at);
				assert.deepEqual([r.status, say(r).code], [502, 'bad_gateway'], r.text);
				assert.match(say(r).detail, new RegExp(`^port ${at} is one of the https_ports of the sandbox, and the server there does not speak TLS.*; let it serve HTTPS`));
			}
			assert.ok(performance.now() - began < 5000, `${performance.now() - began} ms`);
			assert.equal((await named(plain.id, '/echo', {}, HTTP)).status, 502, 'nobody listens');
			assert.deepEqual((await control('GET', `/sandboxes/${box.id}`)).json.network.httpsPorts, [TLS, HUGE, HTTP, WIDE]);
			const fork = (await control('POST', `/sandboxes/${plain.id}/fork`, { count: 1 })).json[0].sandbox.sandboxID;
			assert.deepEqual((await control('GET', `/sandboxes/${fork}`)).json.network.httpsPorts, [TLS]);
			for (const wrong of [[0], [65536], ['443'], [1.5], [null], 443, {}, [49983], [49999], Array.from({ length: 33 }, (_, i) => 9000 + i)]) {
				const r = await control('POST', '/v2/sandboxes', { templateID: 'base', network: { httpsPorts: wrong } });
				assert.equal(r.status, 400, JSON.stringify(wrong));
				assert.match(r.json.message, /httpsPorts: /);
			}
			assert.equal((await control('PUT', `/sandboxes/${box.id}/network`, { httpsPorts: [TLS] })).status, 400);
		});

		it('a port where nobody listens, and a sandbox that has ended, look as at E2B', async () => {
			const box = await make();
			for (const at of [9, 3128, 50005]) {
				const r = await named(box.id, '/', {}, at);
				assert.deepEqual([r.status, say(r)], [502, { sandboxId: box.id, message: 'The sandbox is running but port is not open', port: at, code: 502 }]);
			}
			assert.equal((await control('DELETE', `/sandboxes/${box.id}`)).status, 204);
			for (const id of [box.id, 'i0123456789abcdefghi']) {
				const r = await named(id, '/', key);
				assert.deepEqual([r.status, say(r)], [502, { sandboxId: id, message: 'The sandbox was not found', code: 502 }]);
			}
		});

		it('a request wakes a sandbox that is paused, if it says so', async () => {
			for (const enabled of [true, false]) {
				const box = await make({ autoResume: { enabled } });
				await startServer(box.id);
				assert.equal((await control('POST', `/sandboxes/${box.id}/pause`, {})).status, 204);
				const r = await named(box.id, '/echo');
				assert.equal(r.status, enabled ? 200 : 502, r.text);
				assert.equal((await control('GET', `/sandboxes/${box.id}`)).json.state, enabled ? 'running' : 'paused');
			}
			/* A stranger who may not come in wakes nobody. */
			const box = await make({ autoResume: { enabled: true }, network: { allowPublicTraffic: false } });
			assert.equal((await control('POST', `/sandboxes/${box.id}/pause`, {})).status, 204);
			assert.equal((await named(box.id, '/')).status, 403);
			assert.equal((await control('GET', `/sandboxes/${box.id}`)).json.state, 'paused');
		});

		it('end with the key that made the sandbox, until somebody connects again', async () => {
			const user = (await ask('GET', '/users')).body.users.find((u: Json) => u.name === 'guest');
			const first = (await ask('POST', `/keys?owner=${user.id}`, { name: 'first' })).body, second = (await ask('POST', `/keys?owner=${user.id}`, { name: 'second' })).body;
			const box = await make({}, first.key);
			await startServer(box.id, { 'x-api-key': second.key });
			const stream = await held(box.id);
			assert.equal(stream.status, 200);
			assert.equal((await ask('DELETE', `/keys/${first.id}?owner=${user.id}`)).status, 204);
			await until('the end of the stream', () => stream.response.destroyed || stream.response.readableEnded);
			await until('nobody answers', async () => (await named(box.id, '/echo')).status === 502);
			assert.equal((await control('POST', `/v2/sandboxes/${box.id}/connect`, { timeout: 60 }, second.key)).status, 200);
			assert.equal((await named(box.id, '/echo')).status, 200);
		});

		it('are closed where the operator permits none', async () => {
			const closed = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_FACES: 'e2b' } });
			const there = client(() => ({ base: closed.base, port: closed.port }));
			try {
				assert.equal((await there.control('POST', '/v2/sandboxes', { templateID: 'base', network: { allowPublicTraffic: true } })).status, 400);
				const box = await there.make();
				const at = (headers: Record<string, string>): Promise<number> => new Promise((done) => http.get({ host: '127.0.0.1', port: closed.port, headers: { host: `9-${box.id}.localhost:${closed.port}`, ...headers } }, (r) => done(r.resume().statusCode!)));
				assert.deepEqual([await at({}), await at({ 'e2b-traffic-access-token': box.traffic }), await at(key)], [403, 502, 502]);
			} finally {
				await closed.program.end();
			}
		});
	});
});
