// SPDX-License-Identifier: Apache-2.0
// Servers in sandboxes, reached at /p/SANDBOX/PORT/…: what passes, in both directions, and what does not.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as net from 'node:net';
import { json, text as content } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { engineEnv, newStateDir } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';
import { frame, WebSocketClient } from '../lib/websocket.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const REQUESTS = 6; // of one user at a time
const HTTP = 8000, RAW = 8001;
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';
const key = { 'x-api-key': ADMIN };
const text = fs.readFileSync(new URL('../lib/port_server.py', import.meta.url));

/** What a process has computed so far, without its children. */
function cpuMs(pid: number): number {
	const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
	const [user, system] = stat.slice(stat.lastIndexOf(')') + 2).split(' ').slice(11);
	return (Number(user) + Number(system)) * 10;
}

describe('ports of a sandbox', () => {
	let program: Program;
	let base: string;
	let id: string;
	let at: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_BUDGETS: `port_requests=${REQUESTS}/${4 * REQUESTS}` };

	async function ask(method: string, path: string, json?: unknown, headers: Record<string, string> = key): Promise<{ status: number; body: Json; text: string }> {
		const r = await fetch(`${base}/api/v1${path}`, {
			method, headers: { ...headers, ...(json === undefined ? {} : { 'content-type': 'application/json' }) },
			body: json === undefined ? undefined : JSON.stringify(json),
		});
		const said = await r.text();
		return { status: r.status, body: said ? JSON.parse(said) : {}, text: said };
	}
	const get = (path: string, o: RequestInit = {}): Promise<Response> => fetch(`${at}${path}`, { redirect: 'manual', ...o, headers: { ...key, ...o.headers } });
	const problem = async (r: Response): Promise<[number, string]> => [r.status, ((await r.json()) as Json).code];
	/** What comes of the bytes of an answer, and the connection that they came on. */
	async function raw(answer: string, method = 'GET'): Promise<Response> {
		return await fetch(`${base}/p/${id}/${RAW}/${Buffer.from(answer).toString('hex')}`, { method, headers: key, redirect: 'manual' });
	}
	async function startServer(where: string, who: Record<string, string> = key): Promise<void> {
		const put = await fetch(`${base}/api/v1/sandboxes/${where}/files/server.py`, { method: 'PUT', headers: who, body: text });
		assert.equal(put.status, 201, await put.text());
		const started = await ask('POST', `/sandboxes/${where}/processes`, { command: `exec python3 server.py ${HTTP} ${RAW}` }, who);
		assert.equal(started.status, 201, started.text);
		await until('the server', async () => (await ask('GET', `/sandboxes/${where}/processes/${started.body.id}`, undefined, who)).text.includes('serving'));
	}

	async function keyOf(name: string, ...args: string[]): Promise<string> {
		const e = { env: { ...env, SANDBOX_API_KEY: '' } };
		await caisson(['user', 'add', name, '--password', 'none'], e);
		return /csn_\S+/.exec((await caisson(['key', 'new', name, ...args], e)).stdout.toString())![0];
	}

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
		id = (await ask('POST', '/sandboxes', {})).body.id;
		at = `${base}/p/${id}/${HTTP}`;
		if (!gvisor)
			await startServer(id);
	});
	after(async () => {
		await program.end();
	});

	if (gvisor) {
		it('are refused where no descriptor comes out of the sandbox', async () => {
			assert.deepEqual(await problem(await get('/')), [501, 'port_unavailable']);
		});
		return;
	}

	it('a request arrives as it was sent, without what is ours, and tells who asked', async () => {
		const headed = http.request(`${at}/echo/a%2Fb//c?x=1&y=%20`, { method: 'POST', headers: { ...key, cookie: 'caisson=1', 'x-own': 'kept', connection: 'keep-alive, x-hop', 'x-hop': '1', origin: base, 'x-forwarded-for': '6.6.6.6', 'content-length': 3 } });
		headed.end('abc');
		const [r] = await once(headed, 'response') as [http.IncomingMessage];
		assert.deepEqual([r.statusCode, r.headers['content-type']], [200, 'application/json']);
		const said = await json(r) as Json;
		const headers = Object.fromEntries(said.headers.map(([k, v]: string[]) => [k!.toLowerCase(), v]));
		assert.deepEqual([said.method, said.path, said.bytes], ['POST', '/echo/a%2Fb//c?x=1&y=%20', 3]);
		assert.deepEqual([headers.host, headers.origin, headers['x-own'], headers['x-forwarded-for'], headers['x-forwarded-prefix'], headers['x-forwarded-proto']],
			[`localhost:${HTTP}`, `http://localhost:${HTTP}`, 'kept', '127.0.0.1', `/p/${id}/${HTTP}`, 'http']);
		assert.equal(headers['x-forwarded-host'], new URL(base).host);
		for (const name of ['x-api-key', 'authorization', 'cookie', 'x-hop'])
			assert.equal(headers[name], undefined, name);
		const bearer = await (await fetch(`${at}/echo`, { headers: { authorization: `Bearer ${ADMIN}` } })).text();
		assert.ok(!bearer.includes(ADMIN), bearer);
	});

	it('every method; HEAD has the length and no body; the address without its last slash leads to it', async () => {
		for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])
			assert.equal(((await (await get('/echo', { method })).json()) as Json).method, method);
		const head = await get('/echo', { method: 'HEAD' });
		assert.ok(Number(head.headers.get('content-length')) > 100 && (await head.text()) === '');
		const bare = await get('');
		assert.deepEqual([bare.status, bare.headers.get('location')], [308, `/p/${id}/${HTTP}/`]);
		assert.equal((await get('/nothing')).status, 404);
	});

	it('large bodies pass whole both ways, with a length and in chunks', async () => {
		const body = Buffer.alloc(20 << 20, 'caisson-');
		const sha = createHash('sha256').update(body).digest('hex');
		for (const data of [body, new Blob([body]).stream()]) {
			const said = await (await get('/echo', { method: 'PUT', body: data, duplex: 'half' } as RequestInit)).json() as Json;
			assert.deepEqual([said.bytes, said.sha], [body.length, sha]);
		}
		const n = 64 << 20;
		const r = await get(`/bytes?n=${n}`);
		assert.equal(r.headers.get('content-length'), String(n));
		const got = Buffer.from(await r.arrayBuffer());
		assert.equal(got.length, n);
		for (let i = 0; i < n / 65536; i++)
			assert.equal(got[i * 65536 + 65535], i % 251);
	});

	it('an answer that is still being made passes piece by piece', async () => {
		const r = await get('/chunks');
		const reader = r.body!.getReader();
		assert.equal(Buffer.from((await reader.read()).value!).toString(), 'first');
		await get('/go');
		assert.equal(Buffer.from((await reader.read()).value!).toString(), 'second');
		assert.equal((await reader.read()).done, true);
	});

	it('a connection of a client serves one request after another', async () => {
		const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
		const ports = new Set<number>();
		for (const [method, path] of [['GET', '/echo'], ['GET', '/go'], ['HEAD', '/echo'], ['POST', '/echo'], ['GET', '/chunks'], ['HEAD', '/go'], ['GET', '/bytes?n=65536'], ['GET', '/nothing']]) {
			const r = http.request(at + path, { agent, method, headers: key });
			r.end();
			const [said] = await once(r, 'response') as [http.IncomingMessage];
			ports.add(said.socket.localPort!);
			await content(said);
		}
		agent.destroy();
		assert.equal(ports.size, 1);
	});

	it('addresses of its own lead to it; nothing of an answer acts on this server', async () => {
		for (const [to, location] of [['/login?a=1', `/p/${id}/${HTTP}/login?a=1`], [`http://localhost:${HTTP}/x`, `/p/${id}/${HTTP}/x`], [`http://127.0.0.1:${HTTP}`, `/p/${id}/${HTTP}/`],
			['sub/page', 'sub/page'], ['https://example.org/', 'https://example.org/'], ['//example.org/', '//example.org/'], [`http://localhost:${HTTP + 9}/x`, `http://localhost:${HTTP + 9}/x`]]) {
			const r = await get(`/to?to=${encodeURIComponent(to!)}`);
			assert.deepEqual([r.status, r.headers.get('location'), r.headers.get('x-own')], [302, location, 'kept']);
			for (const name of ['set-cookie', 'clear-site-data', 'service-worker-allowed', 'strict-transport-security'])
				assert.equal(r.headers.get(name), null, name);
			assert.match(r.headers.get('content-security-policy')!, /^sandbox allow-scripts/);
			assert.ok(!r.headers.get('content-security-policy')!.includes('allow-same-origin'));
		}
		assert.deepEqual(await problem(await get('/sw.js', { headers: { 'service-worker': 'script' } })), [403, 'forbidden']);
	});

	it('WebSockets pass, with the protocol that both chose', async () => {
		const c = await WebSocketClient.open(`${at}/ws`, { ...key, 'Sec-WebSocket-Protocol': 'vite-hmr' });
		assert.ok(c instanceof WebSocketClient, JSON.stringify(c));
		const all = Buffer.alloc(1 << 20, 'socket');
		for (let i = 0; i < all.length; i += 1 << 16)
			c.type(all.subarray(i, i + (1 << 16)));
		await until('all that was sent', () => c.bytes.length === all.length);
		assert.ok(c.bytes.equals(all));
		c.socket.write(frame(0x88, Buffer.from([3, 232])));
		await until('the end', () => c.ended || c.closed !== undefined);
		const not = await WebSocketClient.open(`${at}/echo`, key);
		assert.ok(!(not instanceof WebSocketClient) && not.status === 200, 'it was no WebSocket');
		assert.match(not.text, /"method": "GET"/);
	});

	it('answers of odd servers: what can be understood passes, the rest is told', async () => {
		const good: [string, number, string][] = [
			['HTTP/1.0 200 OK\r\n\r\nuntil the end', 200, 'until the end'],
			['HTTP/1.1 200\n\nbare line feeds', 200, 'bare line feeds'],
			['HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nokand more', 201, 'ok'],
			['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2;ext=1\r\nok\r\n0\r\nTrailer: 1\r\n\r\n', 200, 'ok'],
			['HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\nbad header\r\n: x\r\n\r\nok', 200, 'ok'],
			['HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nHTTP/', 204, ''],
			['HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n', 799, ''],
		];
		for (const [answer, status, body] of good) {
			const r = await raw(answer);
			assert.deepEqual([r.status, await r.text()], [status, body], answer);
		}
		for (const answer of ['', 'SSH-2.0-OpenSSH\r\n', 'HTTP/2 200\r\n\r\n', 'HTTP/1.1 20\r\n\r\n', 'HTTP/1.1 200 OK\r\nX: 1', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n',
			'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc', 'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n', `HTTP/1.1 200 OK\r\n${'A: b\r\n'.repeat(130)}\r\n`,
			'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n', 'HTTP/1.1 200 O\0K\r\n\r\n'])
			assert.deepEqual(await problem(await raw(answer)), [502, 'bad_gateway'], answer);
		// what ends before its end is never taken for whole
		for (const answer of ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'])
			await assert.rejects(async () => await (await raw(answer)).text(), answer);
		const head = await raw('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n', 'HEAD');
		assert.equal(head.headers.get('content-length'), '5');
	});

	it('a server that answers without end holds nobody up', async () => {
		const interim = await fetch(`${base}/p/${id}/${RAW}/${Buffer.from('HTTP/1.1 100 Continue\n\n').toString('hex')}/again`, { headers: key });
		assert.deepEqual(await problem(interim), [502, 'bad_gateway']);
		assert.equal((await get('/echo')).status, 200);
	});

	it('a server that leaves while its client does not read costs no time', async () => {
		const socket = net.connect(Number(new URL(base).port), '127.0.0.1');
		let said = '';
		socket.on('error', () => undefined).on('data', (d) => {
			said += d.toString('latin1');
			socket.pause();
		});
		socket.write(`GET /p/${id}/${RAW}/${Buffer.from('HTTP/1.1 200 OK\r\n\r\n').toString('hex')}/again HTTP/1.1\r\nHost: ${new URL(base).host}\r\nX-Api-Key: ${ADMIN}\r\n\r\n`);
		await until('the beginning', () => said.length > 0);
		assert.equal((await get('/ended')).status, 204);
		const before = cpuMs(program.pid);
		assert.equal((await get('/sleep?s=2')).status, 204);
		const used = cpuMs(program.pid) - before;
		assert.ok(used < 500, `${used} ms of the CPU in two seconds`);
		socket.destroy();
	});

	it('a server may take its time before it reads a request', async () => {
		const body = Buffer.alloc(24 << 20); // more than sockets hold
		const r = await get('/echo/late?s=12', { method: 'PUT', body });
		assert.deepEqual([r.status, ((await r.json()) as Json).bytes], [200, body.length]);
	});

	it('an upgrade that was not asked for is none', async () => {
		const answer = Buffer.from('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello').toString('hex');
		const host = new URL(base).host;
		for (const [head, why] of [
			['POST HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nabcde', 'with a body'],
			['POST HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n', 'with a body in chunks'],
			['GET HTTP/1.1\r\nUpgrade: websocket\r\n\r\n', 'without Connection'],
			['GET HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n', 'of HTTP/1.0'],
			['GET HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n', 'of another protocol'],
		]) {
			const socket = net.connect(Number(new URL(base).port), '127.0.0.1');
			const [method, rest] = [head!.slice(0, head!.indexOf(' ')), head!.slice(head!.indexOf(' ') + 1)];
			socket.end(`${method} /p/${id}/${RAW}/${answer} ${rest.replace('\r\n', `\r\nHost: ${host}\r\nX-Api-Key: ${ADMIN}\r\n`)}`);
			assert.match(await content(socket), /^HTTP\/1.1 502 /, why);
		}
		const odd = await WebSocketClient.open(`${at}/echo`, { ...key, Upgrade: 'h2c, websocket' });
		assert.ok(!(odd instanceof WebSocketClient));
		assert.match(odd.text, /"Upgrade", "websocket"/);
	});

	it('the answer to HEAD has no length that the server has not told', async () => {
		for (const head of ['Transfer-Encoding: chunked\r\n', '']) {
			const r = await raw(`HTTP/1.1 200 OK\r\n${head}\r\n`, 'HEAD');
			assert.deepEqual([r.status, r.headers.get('content-length')], [200, null], head);
		}
		for (const status of [204, 304])
			assert.equal((await raw(`HTTP/1.1 ${status} Odd\r\nContent-Length: 7\r\n\r\n`, 'HEAD')).status, status);
	});

	it('nothing steers a proxy before this server, or what a browser does with all of a host', async () => {
		const names = ['X-Accel-Redirect', 'x-accel-buffering', 'X-Sendfile', 'NEL', 'Report-To'];
		const r = await raw(`HTTP/1.1 200 OK\r\n${names.map((n) => `${n}: /api/v1/me\r\n`).join('')}X-Accel: kept\r\nContent-Length: 0\r\n\r\n`);
		for (const name of names)
			assert.equal(r.headers.get(name), null, name);
		assert.equal(r.headers.get('x-accel'), 'kept');
	});

	it('what tells that a head is too large has nothing of that head', async () => {
		const r = await get('/large');
		assert.deepEqual([r.status, r.headers.get('content-type'), r.headers.get('refresh'), r.headers.get('location')], [502, 'application/problem+json', null, null]);
	});

	it('the ports that are listened on, and who listens', async () => {
		const rows = (await ask('GET', `/sandboxes/${id}/ports`)).body.ports as Json[];
		assert.deepEqual(rows.map((r) => [r.port, r.path, r.program]), [HTTP, RAW].map((n) => [n, `/p/${id}/${n}/`, 'python3']));
		assert.ok(rows.every((r) => r.pid > 1), JSON.stringify(rows));
		const code = `import socket, threading
kept = []
for family, address, port in ((socket.AF_INET6, "::1", 7001), (socket.AF_INET6, "::", 7002), (socket.AF_INET, "0.0.0.0", 7003), (socket.AF_INET, "127.0.0.2", 7004), (socket.AF_INET, "127.0.0.1", 7005)):
    s = socket.socket(family); s.bind((address, port)); kept.append(s)
    if port != 7005: s.listen()
print(sorted(s.getsockname()[1] for s in kept))`;
		const other = (await ask('POST', '/sandboxes', {})).body.id;
		assert.deepEqual((await ask('GET', `/sandboxes/${other}/ports`)).body.ports, []);
		const run = await ask('POST', `/sandboxes/${other}/runs`, { code, stateful: true, wait: true });
		assert.equal(run.body.exit_code, 0, run.text);
		assert.deepEqual((await ask('GET', `/sandboxes/${other}/ports`)).body.ports.map((r: Json) => r.port), [7001, 7002, 7003]);
	});

	it('of many the smallest are listed, and a name is all of it', async () => {
		const many = (await ask('POST', '/sandboxes', {})).body.id;
		const code = `import ctypes, socket, time
ctypes.CDLL(None).prctl(15, b"two\\nlines\\n", 0, 0, 0)
kept = []
for port in [*range(30000, 30300), *range(20000, 20100)]:
    s = socket.socket(); s.bind(("127.0.0.1", port)); s.listen(); kept.append(s)
time.sleep(1000)`;
		const put = await fetch(`${base}/api/v1/sandboxes/${many}/files/many.py`, { method: 'PUT', headers: key, body: code });
		assert.equal(put.status, 201, await put.text());
		assert.equal((await ask('POST', `/sandboxes/${many}/processes`, { command: 'exec python3 many.py' })).status, 201);
		let rows: Json[] = [];
		// A list that is read while sockets come may lack some.
		await until('the last one, and all before it', async () => (rows = (await ask('GET', `/sandboxes/${many}/ports`)).body.ports).some((r: Json) => r.port === 20099) && rows.length === 256);
		assert.deepEqual(rows.map((r) => r.port), [...Array(100).keys()].map((n) => 20000 + n).concat([...Array(156).keys()].map((n) => 30000 + n)));
		assert.deepEqual([...new Set(rows.map((r) => r.program))], ['two\nlines\n']);
	});

	/** A request to a name of the port's alone, as browsers send it. */
	async function named(host: string, path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<{ status: number; headers: http.IncomingHttpHeaders; text: string }> {
		const r = http.request({ host: '127.0.0.1', port: new URL(base).port, path, method, headers: { host: `${host}:${new URL(base).port}`, ...headers } });
		r.end();
		const [said] = await once(r, 'response') as [http.IncomingMessage];
		return { status: said.statusCode!, headers: said.headers, text: await content(said) };
	}

	it('a name of its own for browsers: a pass becomes a cookie, and cookies and headers of the server count there', async () => {
		const made = await ask('POST', `/sandboxes/${id}/ports`, { port: HTTP });
		assert.equal(made.status, 201, made.text);
		const url = new URL(made.body.url), host = `${HTTP}-${id}.localhost`;
		assert.deepEqual([url.hostname, url.port, url.pathname], [host, new URL(base).port, '/']);
		assert.ok(Date.parse(made.body.expires_at) > Date.now() + 3600_000, made.text);
		const first = await named(host, `/echo${url.search}&x=1`);
		assert.deepEqual([first.status, first.headers.location, first.headers['referrer-policy']], [303, '/echo?x=1', 'no-referrer']);
		const set = first.headers['set-cookie']![0]!;
		assert.match(set, /^caisson-port=[^;]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Lax$/);
		const cookie = set.split(';')[0]!;
		const echo = await named(host, '/echo?x=1', { cookie: `own=1; ${cookie}; more=2`, origin: `http://${host}:${new URL(base).port}`, authorization: 'Bearer of-its-own' });
		assert.equal(echo.status, 200, echo.text);
		const headers = Object.fromEntries((JSON.parse(echo.text) as Json).headers.map(([k, v]: string[]) => [k!.toLowerCase(), v]));
		assert.deepEqual([headers.cookie, headers.host, headers.origin, headers['x-forwarded-prefix'], headers['x-forwarded-host']],
			['own=1; more=2', `localhost:${HTTP}`, `http://localhost:${HTTP}`, undefined, `${host}:${new URL(base).port}`]);
		assert.equal(headers.authorization, 'Bearer of-its-own');
		assert.ok(!(await named(host, '/echo', { cookie, authorization: `bearer  ${ADMIN}` })).text.includes(ADMIN));
		assert.equal(echo.headers['content-security-policy'], undefined);
		const to = await named(host, '/to?to=/login', { cookie });
		assert.deepEqual([to.headers.location, to.headers['set-cookie'], to.headers['service-worker-allowed'], to.headers['strict-transport-security']], ['/login', ['a=b; Path=/'], '/', undefined]);
		assert.equal((await named(host, `/to?to=${encodeURIComponent(`http://localhost:${HTTP}/x`)}`, { cookie })).headers.location, '/x');
		const odd = 'HTTP/1.1 200 OK\r\nSet-Cookie: x=1; Domain=localhost; Path=/\r\nSet-Cookie: caisson-port=stolen\r\nSet-Cookie: caisson-port =x\r\nSet-Cookie: =caisson-port=x\r\nSet-Cookie: domain=kept\r\nContent-Length: 0\r\n\r\n';
		const raws = await named(`${RAW}-${id}.localhost`, `/${Buffer.from(odd).toString('hex')}`, key);
		assert.deepEqual(raws.headers['set-cookie'], ['x=1; Path=/', 'domain=kept']);
		// for this port, this sandbox and its owner alone; nothing of our own is there
		for (const [wrong, why] of [[`${RAW}-${id}.localhost`, 'another port'], [`${HTTP}-sess_000000000000.localhost`, 'another sandbox']])
			assert.equal((await named(wrong!, '/echo', { cookie })).status, 401, why);
		for (const changed of [cookie.slice(0, -1), `${cookie}0`, cookie.replace('=1', '=2'), cookie.replace('..', '.eve.'), 'caisson-port=', 'caisson-port=..', `caisson-port=${'9'.repeat(300)}`])
			assert.equal((await named(host, '/echo', { cookie: changed })).status, 401, changed);
		assert.equal((await named(host, '/echo')).status, 401);
		assert.equal((await named(host, '/echo', { cookie, origin: base })).status, 403);
		assert.equal((await named(host, '/api/v1/me', { cookie })).text, 'no such page');
		assert.equal((await named(host, '/echo', key)).status, 200);
		for (const name of ['localhost.evil.example', `${HTTP}-${id}.evil.localhost`, `x${HTTP}-${id}.localhost`, `-${id}.localhost`])
			assert.equal((await named(name, '/echo', { cookie })).status, 403, name);
		assert.equal((await named(`70000-${id}.localhost`, '/echo', { cookie })).status, 404);
	});

	it('the domain of the names: another one, none, and one that cannot be', async () => {
		for (const [domain, pattern] of [['ports.example.org', /^http:\/\/8000-sess_\w+\.ports\.example\.org:\d+\/\?caisson-port=/], ['off', /^http:\/\/127\.0\.0\.1:\d+\/p\/sess_\w+\/8000\/$/]] as const) {
			const s = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_PORT_DOMAIN: domain } });
			const post = async (path: string, body: Json): Promise<Json> => await (await fetch(`${s.base}/api/v1${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json() as Json;
			const { id: own } = await post('/sandboxes', {});
			const { url } = await post(`/sandboxes/${own}/ports`, { port: 8000 });
			assert.match(url, pattern);
			const host = (name: string): Promise<number> => new Promise((done) => http.get({ host: '127.0.0.1', port: s.port, path: '/healthz', headers: { host: `8000-${own}.${name}` } }, (r) => done(r.resume().statusCode!)));
			assert.deepEqual([await host('ports.example.org'), await host('localhost')], domain === 'off' ? [200, 200] : [502, 200], 'names of no domain are names of nobody, and probes may come with any');
			await s.program.end();
		}
		for (const wrong of ['http://x', 'x:80', '*.x', 'a b', '[::1]'])
			assert.match((await caisson(['serve', '--listen', '127.0.0.1:0'], { env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_PORT_DOMAIN: wrong } })).stderr.toString(), /SANDBOX_PORT_DOMAIN: .* is no domain/);
	});

	it('a pass ends with its user, and so does what it has opened', async () => {
		const dan = { 'x-api-key': await keyOf('dan') };
		const own = (await ask('POST', '/sandboxes', {}, dan)).body.id;
		await startServer(own, dan);
		const url = new URL((await ask('POST', `/sandboxes/${own}/ports`, { port: HTTP }, dan)).body.url);
		const cookie = (await named(url.hostname, `/${url.search}`)).headers['set-cookie']![0]!.split(';')[0]!;
		assert.equal((await named(url.hostname, '/echo', { cookie })).status, 200);
		const open = await WebSocketClient.open(`${base}/ws`, { Host: url.host, Cookie: cookie });
		assert.ok(open instanceof WebSocketClient, JSON.stringify(open));
		const user = (await ask('GET', '/users')).body.users.find((u: Json) => u.name === 'dan').id;
		assert.equal((await ask('PATCH', `/users/${user}`, { active: false })).status, 200);
		await until('the end of what is open', () => open.ended);
		assert.equal((await named(url.hostname, '/echo', { cookie })).status, 401);
	});

	it('a second request in the body of the first is no request', async () => {
		const inner = `GET /p/${id}/${HTTP}/echo HTTP/1.1\r\nHost: x\r\n\r\n`;
		const socket = net.connect(Number(new URL(base).port), '127.0.0.1');
		let said = '';
		socket.on('data', (d) => { said += d.toString(); });
		socket.write(`POST /p/${id}/${HTTP}/echo HTTP/1.1\r\nHost: ${new URL(base).host}\r\nX-Api-Key: ${ADMIN}\r\nContent-Length: ${inner.length}\r\nConnection: close\r\n\r\n${inner}`);
		await new Promise((done) => socket.on('close', done));
		assert.equal(said.split('HTTP/1.1 200').length, 2, said);
		assert.match(said, new RegExp(`"bytes": ${inner.length}`));
	});

	it('who may: the owner alone, with a key that may run code; ports and sandboxes that are not there', async () => {
		const eve = await keyOf('eve'), reader = await keyOf('eve', '--scope', 'read');
		assert.deepEqual(await problem(await fetch(`${at}/echo`, { headers: { 'x-api-key': eve } })), [404, 'session_not_found']);
		assert.deepEqual(await problem(await fetch(`${at}/echo`, { headers: { 'x-api-key': reader } })), [403, 'forbidden']);
		assert.deepEqual(await problem(await fetch(`${at}/echo`)), [401, 'unauthorized']);
		assert.equal((await get('/echo', { headers: { origin: 'https://evil.example' } })).status, 403);
		assert.deepEqual(await problem(await fetch(`${base}/p/${id}/9/`, { headers: key })), [502, 'port_closed']);
		for (const port of ['0', '65536', 'x', '3128', '-1', '08000x'])
			assert.equal((await fetch(`${base}/p/${id}/${port}/`, { headers: key })).status, 400, port);
		assert.deepEqual(await problem(await fetch(`${base}/p/nobodys/${HTTP}/`, { headers: key })), [404, 'session_not_found']);
	});

	it('too many at once are refused; those whose client leaves cost nothing', async () => {
		const ann = { 'x-api-key': await keyOf('ann') };
		const own = (await ask('POST', '/sandboxes', {}, ann)).body.id;
		await startServer(own, ann);
		const to = (path: string, signal?: AbortSignal): Promise<Response> => fetch(`${base}/p/${own}/${HTTP}${path}`, { headers: ann, signal });
		const used = async (): Promise<Json> => (await ask('GET', '/me', undefined, ann)).body.budgets.port_requests;
		const gone = new AbortController();
		const open = Array.from({ length: REQUESTS }, () => to('/sleep', gone.signal).catch(() => undefined));
		await until('all of them', async () => (await used()).used === REQUESTS);
		assert.deepEqual(await problem(await to('/echo')), [429, 'budget_exceeded']);
		assert.equal((await get('/echo')).status, 200); // of another user
		gone.abort();
		await Promise.all(open);
		await until('nothing left', async () => (await used()).used === 0);
		assert.equal((await to('/echo')).status, 200);
	});

	it('a sandbox that ends takes its exchanges along', async () => {
		const other = (await ask('POST', '/sandboxes', {})).body.id;
		await startServer(other);
		const waits = fetch(`${base}/p/${other}/${HTTP}/sleep`, { headers: key });
		const socket = await WebSocketClient.open(`${base}/p/${other}/${HTTP}/ws`, key);
		assert.ok(socket instanceof WebSocketClient);
		assert.equal((await ask('DELETE', `/sandboxes/${other}?force=true`)).status, 204);
		assert.equal((await waits).status, 502);
		await until('the end of the socket', () => socket.ended);
	});
});
