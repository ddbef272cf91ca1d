// SPDX-License-Identifier: Apache-2.0
// What works through a proxy: packaging/proxy/README.md.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import * as tls from 'node:tls';
import { once } from 'node:events';
import { text as content } from 'node:stream/consumers';
import type { Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { WebSocketClient } from '../../lib/websocket.ts';
import type { Kind, Proxy } from './proxies.ts';

export const BOX = 'box.example.org', PORTS = 'ports.example.org', KEY = 'a-key-of-these-tests-of-proxies';
const SERVED = 8000, UPLOAD = 500 << 20, PIECE = Buffer.alloc(1 << 20, 'x');

interface Case {
	name: string;
	run(): Promise<void>;
}

interface Answer {
	status: number;
	headers: http.IncomingHttpHeaders;
	text: string;
}

/** Everything about one proxy, which CA trusts. */
class Client {
	readonly proxy: Proxy;
	private readonly below: string; // the path of the server at BOX
	private readonly ca: Buffer;

	constructor(proxy: Proxy, below: string, ca: Buffer) {
		this.proxy = proxy;
		this.below = below;
		this.ca = ca;
	}

	/** A request whose body the caller sends. AT: a path of the server, or a whole address. */
	begin(method: string, at: string, headers: http.OutgoingHttpHeaders = {}, host = BOX): http.ClientRequest {
		const path = host === BOX && !at.startsWith('https:') ? this.below + at : at.replace(/^https:\/\/[^/]+/, '');
		return https.request({ host: '127.0.0.1', port: this.proxy.place.port, servername: host, ca: this.ca, method, path, headers: { host, ...headers }, agent: false });
	}

	async ask(method: string, path: string, o: { headers?: http.OutgoingHttpHeaders; json?: unknown; host?: string; key?: boolean } = {}): Promise<Answer> {
		const r = this.begin(method, path, { ...(o.key === false ? {} : { authorization: `Bearer ${KEY}` }), ...(o.json === undefined ? {} : { 'content-type': 'application/json' }), ...o.headers }, o.host);
		r.end(o.json === undefined ? undefined : JSON.stringify(o.json));
		const [said] = await once(r, 'response') as [http.IncomingMessage];
		return { status: said.statusCode!, headers: said.headers, text: await content(said) };
	}

	async rest(method: string, path: string, json?: unknown): Promise<Json> {
		const r = await this.ask(method, `/api/v1${path}`, { json });
		assert.ok(r.status < 300, `${method} ${path}: ${r.status} ${r.text}`);
		return r.text === '' ? {} : JSON.parse(r.text) as Json;
	}

	async socket(host: string, path: string, headers: Record<string, string>): Promise<WebSocketClient> {
		const connected = tls.connect({ host: '127.0.0.1', port: this.proxy.place.port, servername: host, ca: this.ca, ALPNProtocols: ['http/1.1'] });
		await once(connected, 'secureConnect');
		const ws = await WebSocketClient.open(`https://${host}${host === BOX ? this.below : ''}${path}`, headers, connected);
		assert.ok(ws instanceof WebSocketClient, JSON.stringify(ws));
		return ws;
	}

	/** A stream of events, of which the first FIRST has come. The end of the stream is not awaited. */
	async stream(path: string, first: RegExp): Promise<string> {
		const r = this.begin('GET', path, { authorization: `Bearer ${KEY}`, accept: 'text/event-stream' });
		r.end();
		const [said] = await once(r, 'response') as [http.IncomingMessage];
		let text = '';
		said.setEncoding('utf8').on('data', (s: string) => (text += s)).on('error', () => undefined);
		await until(`${first} of ${path}`, () => first.test(text));
		r.destroy();
		return text;
	}
}

const newSandbox = async (c: Client): Promise<string> => (await c.rest('POST', '/sandboxes', {})).id as string;

/** What an MCP client reads when CODE has run. */
async function python(c: Client, code: string): Promise<string> {
	const headers = { accept: 'application/json, text/event-stream' };
	const hello = await c.ask('POST', '/mcp', { headers, json: { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'proxy', version: '1' } } } });
	assert.equal(hello.status, 200, hello.text);
	return (await c.ask('POST', '/mcp', { headers: { ...headers, 'mcp-session-id': hello.headers['mcp-session-id']!, 'mcp-protocol-version': '2025-06-18' },
		json: { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { code } } } })).text;
}

/** Starts tests/lib/port_server.py in a new sandbox. */
async function portServer(c: Client): Promise<string> {
	const box = await newSandbox(c);
	const upload = c.begin('PUT', `/api/v1/sandboxes/${box}/files/server.py`, { authorization: `Bearer ${KEY}` });
	upload.end(fs.readFileSync(new URL('../../lib/port_server.py', import.meta.url)));
	const [stored] = await once(upload, 'response') as [http.IncomingMessage];
	assert.ok(stored.statusCode! < 300, await content(stored));
	const started = await c.rest('POST', `/sandboxes/${box}/processes`, { command: `exec python3 server.py ${SERVED} ${SERVED + 1}` });
	await until('the server', async () => JSON.stringify(await c.rest('GET', `/sandboxes/${box}/processes/${started.id as string}`)).includes('serving'));
	return box;
}

export function casesOf(of: Kind, proxy: Proxy, ca: Buffer): Case[] {
	const c = new Client(proxy, of.path, ca);
	return [...common(of.name, c, of.path), ...(of.path === '' ? named(of.name, c) : belowPath(of.name, c, of.path)), largeUpload(of.name, c, proxy)];
}

function common(kind: string, c: Client, below: string): Case[] {
	return [
		{
			name: `${kind}: the page, and signing in with a cookie`,
			async run() {
				const page = await c.ask('GET', '/', { key: false });
				assert.deepEqual([page.status, /<title>/.test(page.text)], [200, true]);
				assert.equal((await c.ask('GET', '/api/v1/sandboxes', { key: false })).status, 401);
				const origin = { origin: `https://${BOX}` };
				const signed = await c.ask('POST', '/api/v1/session', { key: false, headers: origin, json: { key: KEY } });
				assert.equal(signed.status, 200, signed.text);
				const set = signed.headers['set-cookie']![0]!;
				assert.match(set, /; Secure/);
				assert.equal((await c.ask('GET', '/api/v1/sandboxes', { key: false, headers: { cookie: set.split(';')[0]! } })).status, 200);
			},
		},
		{
			name: `${kind}: MCP over HTTP`,
			async run() {
				assert.match(await python(c, 'print(6 * 7)'), /42/);
			},
		},
		{
			name: `${kind}: the first event of a stream comes while the stream is open`,
			async run() {
				assert.ok((await c.stream('/sse', /^event: endpoint/m)).includes(`data: ${below}/messages/`));
			},
		},
		{
			name: `${kind}: a terminal`,
			async run() {
				const box = await newSandbox(c), made = await c.rest('POST', `/sandboxes/${box}/terminals`, { command: 'cat' });
				const ws = await c.socket(BOX, `/api/v1/sandboxes/${box}/terminals/${made.id as string}`, { authorization: `Bearer ${KEY}` });
				ws.type('typed here\r');
				await ws.shows('typed here');
				ws.close();
				await ws.end();
			},
		},
	];
}

/** What needs names of its own. */
function named(kind: string, c: Client): Case[] {
	return [
		{
			name: `${kind}: a server in a sandbox by its name: requests, a stream, a WebSocket`,
			async run() {
				const box = await portServer(c);
				const url = new URL((await c.rest('POST', `/sandboxes/${box}/ports`, { port: SERVED })).url as string);
				assert.deepEqual([url.protocol, url.host], ['https:', `${SERVED}-${box}.${PORTS}`]);
				const first = await c.ask('GET', `/echo${url.search}`, { host: url.host, key: false });
				assert.equal(first.status, 303, first.text);
				const cookie = first.headers['set-cookie']![0]!.split(';')[0]!;
				const echo = JSON.parse((await c.ask('GET', '/echo', { host: url.host, key: false, headers: { cookie } })).text) as { headers: [string, string][] };
				const seen = Object.fromEntries(echo.headers.map(([k, v]) => [k.toLowerCase(), v]));
				assert.deepEqual([seen['x-forwarded-proto'], seen['x-forwarded-host']], ['https', url.host]);
				const r = c.begin('GET', '/chunks', { cookie }, url.host);
				r.end();
				const [chunks] = await once(r, 'response') as [http.IncomingMessage];
				let got = '';
				chunks.setEncoding('utf8').on('data', (s: string) => (got += s));
				await until('the first piece, before the server sends the second', () => got === 'first');
				assert.equal((await c.ask('GET', '/go', { host: url.host, key: false, headers: { cookie } })).status, 204);
				await until('the second piece', () => got === 'firstsecond');
				const ws = await c.socket(url.host, '/ws', { cookie, origin: `https://${url.host}` });
				ws.type('there and back');
				await ws.shows('there and back');
				ws.close();
				await ws.end();
				await c.rest('DELETE', `/sandboxes/${box}`);
			},
		},
		{
			name: `${kind}: E2B's names: a sandbox, a command whose output comes as it is written, a file, a cell`,
			async run() {
				const made = await c.ask('POST', '/v2/sandboxes', { host: `api.${PORTS}`, key: false, headers: { 'x-api-key': `e2b_${Buffer.from(KEY).toString('hex')}` }, json: { templateID: 'base' } });
				const box = JSON.parse(made.text) as Json, token = { 'x-access-token': box.envdAccessToken as string };
				assert.deepEqual([made.status, box.domain], [201, PORTS], made.text);
				const envd = `49983-${box.sandboxID as string}.${PORTS}`, message = JSON.stringify({ process: { cmd: '/bin/bash', args: ['-c', 'echo first; read more; echo second'] }, stdin: true });
				const r = c.begin('POST', '/process.Process/Start', { ...token, 'content-type': 'application/connect+json' }, envd), head = Buffer.alloc(5);
				head.writeUInt32BE(message.length, 1);
				r.end(Buffer.concat([head, Buffer.from(message)]));
				const [said] = await once(r, 'response') as [http.IncomingMessage];
				let got = '';
				said.setEncoding('latin1').on('data', (s: string) => (got += s));
				const b64 = (s: string): string => Buffer.from(s).toString('base64');
				await until('the first line', () => got.includes(b64('first\n')));
				const typed = await c.ask('POST', '/process.Process/SendInput', { host: envd, key: false, headers: token, json: { process: { pid: 1 }, input: { stdin: b64('go\n') } } });
				assert.equal(typed.status, 200, typed.text);
				await until('the second line', () => got.includes(b64('second\n')));
				assert.match((await c.ask('GET', '/files?path=/etc/passwd', { host: envd, key: false, headers: token })).text, /^user:/m);
				const cell = await c.ask('POST', '/execute', { host: `49999-${box.sandboxID as string}.${PORTS}`, key: false, headers: token, json: { code: '6 * 7' } });
				assert.match(cell.text, /"text":"42"/);
				const killed = await c.ask('DELETE', `/sandboxes/${box.sandboxID as string}`, { host: `api.${PORTS}`, key: false, headers: { 'x-api-key': KEY } });
				assert.equal(killed.status, 204);
				assert.equal((await c.ask('GET', '/health', { host: envd, key: false })).status, 502);
			},
		},
	];
}

/** What the path changes. */
function belowPath(kind: string, c: Client, below: string): Case[] {
	return [
		{
			name: `${kind}: the path without its slash leads to the page, which names nothing outside of the path`,
			async run() {
				const moved = await c.ask('GET', `https://${BOX}${below}`, { key: false });
				assert.ok([301, 302].includes(moved.status), String(moved.status));
				assert.equal(new URL(moved.headers.location!, `https://${BOX}${below}`).pathname, `${below}/`);
				const { text } = await c.ask('GET', '/', { key: false });
				const named = [...text.matchAll(/(?:src|href)="([^"]*)"/g)].map((m) => m[1]!);
				assert.ok(named.length >= 3, text);
				for (const one of named)
					assert.equal((await c.ask('GET', new URL(one, `https://${BOX}${below}/`).href, { key: false })).status, 200, one);
				assert.deepEqual(((JSON.parse((await c.ask('GET', '/openapi.json')).text) as Json).servers as Json[])[0]!.url, below);
			},
		},
		{
			name: `${kind}: links of files work as they are given`,
			async run() {
				const said = await python(c, 'open("a file.txt", "w").write("its words")');
				const link = new RegExp(`https://${BOX}${below}/files/[^\\s"\\\\]+`).exec(said);
				assert.ok(link, said);
				const got = await c.ask('GET', link[0], { key: false });
				assert.deepEqual([got.status, got.text], [200, 'its words']);
			},
		},
		{
			name: `${kind}: a server in a sandbox below the path, for programs: what is encoded stays so`,
			async run() {
				const box = await portServer(c);
				const echo = JSON.parse((await c.ask('GET', `/p/${box}/${SERVED}/echo/a%2Fb%20c?d=%2F`)).text) as Json;
				assert.equal(echo.path, '/echo/a%2Fb%20c?d=%2F');
				await c.rest('DELETE', `/sandboxes/${box}`);
			},
		},
	];
}

function largeUpload(kind: string, c: Client, proxy: Proxy): Case {
	return {
		name: `${kind}: an upload of 500 MB arrives, and the proxy keeps none of it`,
		async run() {
			const box = await newSandbox(c);
			const r = c.begin('PUT', `/api/v1/sandboxes/${box}/files/large`, { authorization: `Bearer ${KEY}`, 'content-length': UPLOAD });
			const answered = once(r, 'response') as Promise<[http.IncomingMessage]>;
			let most = 0;
			for (let sent = 0; sent < UPLOAD; sent += PIECE.length) {
				if (!r.write(PIECE))
					await Promise.race([once(r, 'drain'), answered]);
				most = Math.max(most, proxy.kept());
			}
			r.end();
			const [said] = await answered;
			const text = await content(said);
			assert.equal(said.statusCode, 201, text);
			assert.equal((JSON.parse(text) as Json).size, UPLOAD, text);
			assert.equal(most, 0, 'bytes in files of the proxy');
			await c.rest('DELETE', `/sandboxes/${box}`);
		},
	};
}
