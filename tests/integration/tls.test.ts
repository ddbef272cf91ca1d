// SPDX-License-Identifier: Apache-2.0
// The listener with TLS: everything of the plain one by https, what speaks something else, and certificates that are renewed.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as https from 'node:https';
import * as net from 'node:net';
import * as path from 'node:path';
import * as tls from 'node:tls';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { freePort, newStateDir, productUid, scratch } from '../lib/env.ts';
import { caisson, descendants, type Program } from '../lib/process.ts';
import { facts, serve, type Json } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';
import { WebSocketClient } from '../lib/websocket.ts';

interface Answer { status: number; headers: NodeJS.Dict<string | string[]>; bytes: Buffer; json: Json }

const dir = scratch('tls'), certificate = path.join(dir, 'cert.pem'), key = path.join(dir, 'key.pem');
const sha = (b: Buffer): string => createHash('sha256').update(b).digest('hex');

function plainHeaders(of: RequestInit['headers']): Record<string, string> {
	const all: Record<string, string> = {};
	new Headers(of).forEach((value, name) => { all[name] = value; });
	return all;
}

/** A certificate that signs itself, so it is its own root. */
function renew(kind: 'ec' | 'rsa', days = 2): void {
	const how = kind === 'ec' ? ['ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'] : ['rsa:2048'];
	const r = spawnSync('openssl', ['req', '-x509', '-newkey', ...how, '-nodes', '-days', String(days), '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,DNS:box.example.org,IP:127.0.0.1',
		'-keyout', key, '-out', certificate], { encoding: 'utf8' });
	assert.equal(r.status, 0, r.stderr);
	for (const file of [certificate, key])
		fs.chownSync(file, productUid, productUid);
}

describe('TLS', () => {
	let program: Program, plain: string, port: number, log: () => string;

	const ask = (method: string, where: string, o: { body?: Buffer | Json; headers?: Record<string, string>; agent?: https.Agent; host?: string; slow?: boolean } = {}): Promise<Answer> => new Promise((resolve, reject) => {
		const bytes = o.body === undefined || Buffer.isBuffer(o.body) ? o.body : Buffer.from(JSON.stringify(o.body));
		const req = https.request({
			host: '127.0.0.1', servername: 'localhost', port, method, path: where, agent: o.agent ?? false, ca: fs.readFileSync(certificate),
			headers: { host: o.host ?? `localhost:${port}`, ...(bytes ? { 'content-type': Buffer.isBuffer(o.body) ? 'application/octet-stream' : 'application/json', 'content-length': String(bytes.length) } : {}), ...o.headers },
		}, (r) => {
			const got: Buffer[] = [];
			r.on('data', (b: Buffer) => {
				got.push(b);
				if (o.slow) {
					r.pause();
					setTimeout(() => r.resume(), 2);
				}
			}).on('error', reject).on('end', () => {
				const all = Buffer.concat(got);
				resolve({ status: r.statusCode!, headers: r.headers, bytes: all, json: r.headers['content-type']?.includes('json') ? JSON.parse(all.toString()) as Json : {} });
			});
		}).on('error', reject);
		req.end(bytes);
	});
	const make = async (): Promise<string> => {
		const r = await ask('POST', '/api/v1/sandboxes', { body: {} });
		assert.equal(r.status, 201, r.bytes.toString());
		return r.json.id as string;
	};
	const connect = (o: tls.ConnectionOptions = {}): Promise<tls.TLSSocket> => new Promise((resolve, reject) => {
		const s = tls.connect({ host: '127.0.0.1', port, servername: 'localhost', ca: fs.readFileSync(certificate), ...o }, () => resolve(s));
		s.once('error', reject);
	});
	/** All that a peer without TLS hears until its end. */
	const raw = (bytes: Buffer | string): Promise<string> => new Promise((resolve) => {
		let heard = '';
		const s = net.connect(port, '127.0.0.1', () => s.write(bytes));
		s.on('data', (b) => { heard += b.toString('latin1'); }).on('error', () => undefined).on('close', () => resolve(heard)).setTimeout(20_000, () => s.destroy());
	});
	const serial = async (): Promise<string> => {
		const s = await connect({ rejectUnauthorized: false });
		const of = s.getPeerCertificate().serialNumber;
		s.destroy();
		return of;
	};

	before(async () => {
		renew('ec');
		port = await freePort();
		const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_TLS_LISTEN: `127.0.0.1:${port}`, SANDBOX_TLS_CERTIFICATE: certificate, SANDBOX_TLS_KEY: key, SANDBOX_ALLOWED_HOSTS: 'box.example.org', SANDBOX_HEAD_TIMEOUT_S: '2' };
		({ program, base: plain } = await serve({ profile: 'full', env }));
		log = () => program.stderr;
	});
	after(() => program?.end());

	it('serves REST, runs with their events, the page, MCP and WebSockets', async () => {
		const page = await ask('GET', '/');
		assert.equal(page.status, 200);
		assert.match(page.bytes.toString(), /<!doctype html>/i);
		const id = await make();
		const run = await ask('POST', `/api/v1/sandboxes/${id}/runs`, { body: { code: 'import time\nfor i in range(3): print(i, flush=True); time.sleep(0.05)' } });
		const events = await ask('GET', `/api/v1/runs/${run.json.id}/events`);
		assert.match(events.bytes.toString(), /data: "0\\n"[^]*data: "2\\n"[^]*event: end/);
		const hello = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } };
		const mcp = await ask('POST', '/mcp', { body: hello, headers: { accept: 'application/json, text/event-stream' } });
		assert.equal(mcp.status, 200, mcp.bytes.toString());
		assert.match(mcp.bytes.toString(), /"serverInfo"/);
		/* A terminal: frames both ways through one connection. */
		const made = await ask('POST', `/api/v1/sandboxes/${id}/terminals`, { body: { command: 'cat' } });
		assert.equal(made.status, 201, made.bytes.toString());
		const s = await connect();
		const ws = await WebSocketClient.open(`https://localhost:${port}/api/v1/sandboxes/${id}/terminals/${made.json.id}`, {}, s);
		assert.ok(ws instanceof WebSocketClient, 'it is a WebSocket');
		ws.type('over TLS\n');
		await ws.shows(/over TLS[^]*over TLS/);
		s.destroy();
	});

	it('names its own address in links, and knows that it is https', async () => {
		for (const host of [`localhost:${port}`, `box.example.org:${port}`]) {
			const client = new Client({ name: 'tls', version: '1' });
			const through = async (url: string | URL, init?: RequestInit): Promise<Response> => {
				if (init?.method === 'GET')
					return new Response(null, { status: 405 }); // no stream of its own
				const r = await ask(init!.method!, new URL(url).pathname, { host, body: Buffer.from(init!.body as string), headers: plainHeaders(init!.headers) });
				return new Response(r.bytes.length ? r.bytes.toString() : null, { status: r.status, headers: Object.entries(r.headers).map(([k, v]): [string, string] => [k, String(v)]) });
			};
			await client.connect(new StreamableHTTPClientTransport(new URL(`https://${host}/mcp`), { fetch: through }));
			const call = async (name: string, args: Json): Promise<Json> => facts(await client.callTool({ name, arguments: { session_id: 'links', ...args } }) as Json);
			await call('sandbox_run_python', { code: 'open("a.txt", "w").write("made")' });
			const link = String((await call('sandbox_list_files', {})).files[0].download_url);
			assert.ok(link.startsWith(`https://${host}/files/`), link);
			const got = await ask('GET', new URL(link).pathname, { host });
			assert.equal(got.bytes.toString(), 'made');
			await client.close();
		}
		/* A page of http may be anybody's in the network. Its twin of https is ours. */
		const from = (origin: string): Promise<Answer> => ask('GET', '/api/v1/me', { headers: { origin, 'sec-fetch-site': 'same-origin' } });
		assert.equal((await from(`https://localhost:${port}`)).status, 200);
		assert.equal((await from(`http://localhost:${port}`)).status, 403);
		assert.equal((await ask('GET', '/healthz', { host: 'evil.example.org' })).status, 200, 'as on the plain address');
		assert.equal((await ask('GET', '/api/v1/me', { host: 'evil.example.org' })).status, 403);
	});

	it('moves much in both directions, by slow readers and on one connection', async () => {
		const id = await make(), where = `/api/v1/sandboxes/${id}/files/big`;
		const bytes = randomBytes(12 << 20), agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
		assert.equal((await ask('PUT', where, { body: bytes, agent })).status, 201);
		for (const o of [{ agent }, { slow: true }, { agent, headers: { range: 'bytes=1000000-1099999' } }]) {
			const got = await ask('GET', where, o);
			const want = o.headers ? bytes.subarray(1_000_000, 1_100_000) : bytes;
			assert.equal(sha(got.bytes), sha(want));
		}
		/* Small answers after each other, and several requests in one record. */
		for (let i = 0; i < 50; i++)
			assert.equal((await ask('GET', '/healthz', { agent })).status, 200);
		agent.destroy();
		const s = await connect();
		let heard = '';
		s.on('data', (b: Buffer) => { heard += b.toString(); });
		s.write(`GET /healthz HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`.repeat(20));
		await until('20 answers', () => heard.split('HTTP/1.1 200 OK').length === 21);
		s.destroy();
	});

	it('lets go of clients that have left, while an answer is under way', async () => {
		const id = await make();
		const run = await ask('POST', `/api/v1/sandboxes/${id}/runs`, { body: { code: 'import time; print("go", flush=True); time.sleep(50)' } });
		/* The server's ends of connections that are open (01), or that their clients have closed (08): proc_net_tcp. */
		const at = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
		const open = (): number => fs.readFileSync('/proc/net/tcp', 'utf8').split('\n').filter((l) => {
			const [, local, , state] = l.trim().split(/\s+/);
			return local === at && (state === '01' || state === '08');
		}).length;
		const follow = (n: number): Promise<tls.TLSSocket[]> => Promise.all(Array.from({ length: n }, async () => {
			const s = await connect();
			let heard = '';
			s.on('error', () => undefined).on('data', (b: Buffer) => { heard += b.toString(); });
			s.write(`GET /api/v1/runs/${run.json.id}/events HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`);
			await until('what the run has printed', () => heard.includes('data: "go'));
			return s;
		}));
		const clients = await follow(30);
		assert.ok(open() >= 30, `${open()} of 30`);
		clients.forEach((s, i) => i % 2 ? s.destroy() : s.end());
		await until('no connection is left', () => open() === 0);
		assert.equal((await ask('DELETE', `/api/v1/runs/${run.json.id}`)).status, 202);
	});

	it('tells a client of http what is wrong, and others nothing', async () => {
		const told = await raw('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
		assert.match(told, /^HTTP\/1\.1 426 Upgrade Required\r\n[^]*"code":"https_required"[^]*https:\/\//);
		assert.match(await raw('POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello'), /^HTTP\/1\.1 426 /);
		for (const bytes of ['\0', '\x80\x2e\x01\x03\x01', 'get / http', '\x16\x03\x01\xff\xff' + 'x'.repeat(70_000), '\x15\x03\x01\0\x02\x02\x28'])
			assert.doesNotMatch(await raw(Buffer.from(bytes, 'latin1')), /HTTP/, JSON.stringify(bytes.slice(0, 10)));
		await assert.rejects(connect({ maxVersion: 'TLSv1.1', minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' }), 'TLS 1.1 is no more');
		(await connect({ maxVersion: 'TLSv1.2' })).destroy();
		/* A hundred that begin and say no more are no hindrance. */
		const idle = Array.from({ length: 100 }, () => net.connect(port, '127.0.0.1').on('error', () => undefined));
		for (const s of idle)
			s.write(Buffer.from('\x16\x03\x01', 'latin1'));
		assert.equal((await within('an answer beside them', ask('GET', '/healthz'), 10_000)).status, 200);
		idle.forEach((s) => s.destroy());
		assert.equal((await fetch(`${plain}/healthz`)).status, 200);
	});

	it('holds no memory for a greeting that says it is long', async () => {
		const memory = (): number => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${program.pid}/status`, 'utf8'))![1]);
		/* A ClientHello of 16 MB, in whole records. */
		const record = Buffer.alloc(5 + 16384);
		record.write('\x16\x03\x01\x40\x00', 'latin1');
		const first = Buffer.from(record);
		first.write('\x01\xfe\xd2\x20\x03\x03', 5, 'latin1');
		const all = Buffer.concat([first, ...Array.from({ length: 300 }, () => record)]), before = memory();
		const clients = await Promise.all(Array.from({ length: 20 }, () => new Promise<net.Socket>((resolve) => {
			const s = net.connect(port, '127.0.0.1', () => s.write(all, () => resolve(s)));
			s.on('error', () => resolve(s)).on('close', () => resolve(s));
		})));
		const grown = memory() - before;
		clients.forEach((s) => s.destroy());
		assert.ok(grown < 20_000, `${grown} KiB more`);
		assert.equal((await ask('GET', '/healthz')).status, 200);
	});

	it('gives files of this machine to nobody if others can reach it', async () => {
		for (const [host, opens] of [['0.0.0.0', false], ['127.0.0.1', true]] as const) {
			const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: 'a key of at least sixteen', SANDBOX_UPLOAD_LOCAL_ROOTS: dir, SANDBOX_TLS_LISTEN: `${host}:0`, SANDBOX_TLS_CERTIFICATE: certificate, SANDBOX_TLS_KEY: key };
			const other = await serve({ profile: 'full', env });
			assert.equal(descendants(other.program.pid).some((p) => p.name === 'caisson-opener'), opens, host);
			await other.program.end();
		}
	});

	it('takes a renewed certificate on SIGHUP, and keeps the old one if the new one is wrong', async () => {
		const first = await serial(), open = await connect();
		let heard = '';
		open.on('data', (b: Buffer) => { heard += b.toString(); });
		renew('rsa');
		program.kill('SIGHUP');
		await until('the next certificate', async () => (await serial()) !== first);
		const second = await serial();
		open.write(`GET /healthz HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`);
		await until('an answer on the connection of before', () => heard.includes('200 OK'));
		open.destroy();
		/* A key of another certificate, no key, a folder. */
		const good = fs.readFileSync(key);
		const wrong: (() => void)[] = [() => { renew('ec'); fs.writeFileSync(key, good); }, () => fs.writeFileSync(key, ''), () => { fs.rmSync(key); fs.mkdirSync(key); }];
		for (const spoil of wrong) {
			const errors = log().split('certificate_not_read').length;
			spoil();
			program.kill('SIGHUP');
			await until('the log says so', () => log().split('certificate_not_read').length > errors);
			assert.equal(await serial(), second);
		}
		fs.rmdirSync(key);
		renew('ec');
		program.kill('SIGHUP');
		await until('the last certificate', async () => (await serial()) !== second);
	});

	it('takes a renewed certificate without a signal, as Secrets of Kubernetes change, and keeps the old one while the pair is wrong (slow)', async () => {
		const figure = async (name: string): Promise<number> => Number(new RegExp(`^caisson_certificate_${name}\\{use="listener"\\} (\\d+)$`, 'm').exec(await (await fetch(`${plain}/metrics`)).text())![1]);
		const data = path.join(dir, '..data'), names = ['cert.pem', 'key.pem'];
		/** What is in both files moves to a folder of its own, to which the link leads from now on. */
		const swap = (folder: string, fill: () => void): void => {
			fill();
			const to = path.join(dir, folder);
			fs.mkdirSync(to);
			names.forEach((n) => fs.renameSync(path.join(dir, n), path.join(to, n)));
			fs.symlinkSync(folder, `${data}.next`);
			fs.renameSync(`${data}.next`, data);
			names.forEach((n) => fs.symlinkSync(`..data/${n}`, path.join(dir, n)));
		};
		const errors = log().split('certificate_not_read').length, first = await serial(), reads = (): number => log().split('certificate_read').length, before = reads();
		assert.equal(await figure('refused'), 0);
		swap('..1', () => renew('ec', 3));
		await until('the certificate of the first link', async () => (await serial()) !== first);
		const second = await serial(), days = (await figure('end_timestamp_seconds') - Date.now() / 1000) / 86_400;
		assert.ok(days > 2.9 && days <= 3, `${days} days`);
		/* The next folder has the key of the one before. */
		names.forEach((n) => fs.rmSync(path.join(dir, n)));
		swap('..2', () => { renew('ec'); fs.copyFileSync(path.join(dir, '..1/key.pem'), key); });
		await until('the pair is refused', () => log().split('certificate_not_read').length > errors);
		assert.deepEqual([await serial(), await figure('refused')], [second, 1]);
		assert.ok((await figure('end_timestamp_seconds') - Date.now() / 1000) / 86_400 > 2.9, 'the one in use');
		names.forEach((n) => fs.rmSync(path.join(dir, n)));
		renew('rsa');
		await until('the last certificate', async () => (await serial()) !== second);
		assert.equal(await figure('refused'), 0);
		assert.equal(reads(), before + 2, 'each is read once');
		assert.doesNotMatch(log().slice(log().lastIndexOf('certificate_not_read')), /reloaded/, 'settings are not read');
	});

	it('does not start with half of it, or open to everybody', async () => {
		const state = newStateDir(), whole = { SANDBOX_STATE_DIR: state, SANDBOX_TLS_LISTEN: '127.0.0.1:0', SANDBOX_TLS_CERTIFICATE: certificate, SANDBOX_TLS_KEY: key };
		const cases: [Record<string, string | undefined>, RegExp][] = [
			[{ SANDBOX_TLS_KEY: undefined }, /SANDBOX_TLS_LISTEN needs SANDBOX_TLS_CERTIFICATE and SANDBOX_TLS_KEY/],
			[{ SANDBOX_TLS_LISTEN: 'no port' }, /SANDBOX_TLS_LISTEN/],
			[{ SANDBOX_TLS_LISTEN: '0.0.0.0:0' }, /SANDBOX_TLS_LISTEN: '0\.0\.0\.0' can be reached from other machines/],
			[{ SANDBOX_TLS_KEY: certificate }, /the certificate or its key cannot be used/],
			[{ SANDBOX_TLS_CERTIFICATE: path.join(dir, 'none') }, /SANDBOX_TLS_CERTIFICATE: cannot read .*none/],
		];
		for (const [env, why] of cases) {
			const r = await caisson(['serve', '--listen', '127.0.0.1:0'], { env: { ...whole, SANDBOX_HTTP_PORT: String(await freePort()), ...env } });
			assert.notEqual(r.code, 0);
			assert.match(r.stderr.toString(), why);
			assert.doesNotMatch(r.stderr.toString(), /BEGIN/);
		}
	});
});
