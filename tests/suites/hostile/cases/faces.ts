// SPDX-License-Identifier: Apache-2.0
// Row 54: public ports, and the face e2b: its frames, tokens, signatures, names and bounds. What single odd requests become is in tests/integration/e2b*.test.ts and
// public_ports.test.ts.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as http from 'node:http';
import * as net from 'node:net';
import { frame, frames } from '../../../lib/e2b.ts';
import type { Json } from '../../../lib/session.ts';
import { until } from '../../../lib/wait.ts';
import type { Case, Outside } from '../case.ts';
import { grown, live, said, type Served } from '../served.ts';

type Headers = Record<string, string>;
interface Box { id: string; token: string; traffic: string; key: string }
/** What was answered: its status stands before its text, so that a planted twin can change both. */
interface Said { status: number; text: string; json: Json; bytes: Buffer }

const FORM = 'multipart/form-data; boundary=b';
const form = (name: string, data: string): Buffer => Buffer.from(`--b\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\n\r\n${data}\r\n--b--\r\n`);
const CONNECT = { 'content-type': 'application/connect+json' };
const RPCS = ['process.Process/List', 'process.Process/SendInput', 'process.Process/SendSignal', 'process.Process/Update', 'process.Process/CloseStdin', 'filesystem.Filesystem/Stat', 'filesystem.Filesystem/ListDir',
	'filesystem.Filesystem/MakeDir', 'filesystem.Filesystem/Move', 'filesystem.Filesystem/Remove', 'filesystem.Filesystem/CreateWatcher', 'filesystem.Filesystem/GetWatcherEvents', 'filesystem.Filesystem/RemoveWatcher'];

export class Face {
	private boxes: Box[] = [];
	readonly s: Served;
	constructor(s: Served) {
		this.s = s;
	}
	/** A request as bytes, to any HOST. Whatever becomes of it: no answer is status 0. */
	ask(method: string, at: string, o: { headers?: Headers; body?: Json | Buffer; host?: string; prefix?: string } = {}): Promise<Said> {
		const raw = Buffer.isBuffer(o.body) || o.body === undefined ? o.body as Buffer | undefined : Buffer.from(JSON.stringify(o.body));
		return new Promise((done) => {
			const end = (status: number, bytes: Buffer): void => {
				const plain = `${status} ${bytes.toString()}`, text = this.s.change ? this.s.change(plain) : plain;
				let json: Json = {};
				try {
					json = JSON.parse(text.slice(4)) as Json;
				} catch {
					// no JSON
				}
				done({ status: Number(text.slice(0, 3)), text, json, bytes });
			};
			const req = http.request({ host: '127.0.0.1', port: this.s.port, method, path: `${o.prefix ?? '/faces/e2b'}${at}`, agent: false,
				headers: { ...(raw && !o.headers?.['content-type'] ? { 'content-type': 'application/json' } : {}), ...(raw ? { 'content-length': `${raw.length}` } : {}), ...o.headers, ...(o.host === undefined ? {} : { host: o.host }) } }, (res) => {
				const pieces: Buffer[] = [];
				res.on('data', (d: Buffer) => pieces.push(d)).on('error', () => end(res.statusCode!, Buffer.concat(pieces))).on('end', () => end(res.statusCode!, Buffer.concat(pieces)));
			});
			req.on('error', () => end(0, Buffer.alloc(0)));
			req.end(raw);
		});
	}
	control(method: string, at: string, body?: Json, key = this.s.alice): Promise<Said> {
		return this.ask(method, at, { headers: { 'x-api-key': key }, body });
	}
	async make(more: Json = {}, key = this.s.alice): Promise<Box> {
		const r = await this.control('POST', '/v2/sandboxes', { templateID: 'base', timeout: 600, ...more }, key);
		assert.equal(r.status, 201, r.text);
		const box = { id: r.json.sandboxID as string, token: r.json.envdAccessToken as string, traffic: r.json.trafficAccessToken as string, key };
		this.boxes.push(box);
		return box;
	}
	routed(box: Box, port = 49983): Headers {
		return { 'e2b-sandbox-id': box.id, 'e2b-sandbox-port': `${port}`, 'x-access-token': box.token };
	}
	rpc(box: Box, method: string, body: Json = {}, headers = this.routed(box)): Promise<Said> {
		return this.ask('POST', `/${method}`, { headers, body });
	}
	start(box: Box, command: string): Promise<Said> {
		return this.ask('POST', '/process.Process/Start', { headers: { ...this.routed(box), ...CONNECT }, body: frame({ process: { cmd: '/bin/bash', args: ['-c', command] }, stdin: false }) });
	}
	/** What COMMAND prints. */
	async prints(box: Box, command: string): Promise<string> {
		const r = await this.start(box, command);
		return frames(r.bytes).map((f) => Buffer.from(f.message.event?.data?.stdout ?? '', 'base64').toString()).join('');
	}
	read(box: Box, file: string): Promise<Said> {
		return this.ask('GET', `/files?path=${encodeURIComponent(file)}`, { headers: this.routed(box) });
	}
	/** A request to a name of a port, as a stranger sends it. */
	visit(id: string, port: number, headers: Headers = {}, at = '/echo'): Promise<Said> {
		return this.ask('GET', at, { host: `${port}-${id}.localhost:${this.s.port}`, headers, prefix: '' });
	}
	/** The servers of programs/servers.py in a sandbox of either kind. */
	async servers(id: string): Promise<void> {
		await this.s.upload(id, 'servers.py');
		await this.s.says(await this.s.process(id, { command: 'exec python3 servers.py' }), 'serving');
	}
	/** TEXT on a connection of which nothing is read but the first bytes. */
	deaf(text: string | Buffer): Promise<{ socket: net.Socket; first: string }> {
		return new Promise((resolve, reject) => {
			const socket = net.connect(this.s.port, '127.0.0.1', () => socket.write(text));
			socket.on('error', reject).once('data', (d) => {
				socket.off('error', reject).on('error', () => undefined).pause();
				resolve({ socket, first: d.toString('latin1') });
			});
		});
	}
	head(box: Box, method: string, at: string, more: Headers = {}): string {
		return `${method} /faces/e2b${at} HTTP/1.1\r\nHost: 127.0.0.1:${this.s.port}\r\n${Object.entries({ ...this.routed(box), ...more }).map(([k, v]) => `${k}: ${v}\r\n`).join('')}\r\n`;
	}
	async clear(): Promise<void> {
		this.s.change = undefined;
		for (const box of this.boxes)
			await this.control('DELETE', `/sandboxes/${box.id}`, undefined, box.key);
	}
}

export function faced(o: Outside, body: (f: Face, s: Served) => Promise<void>, server = o.served): Promise<void> {
	return live(o, async (s) => {
		const f = new Face(s);
		try {
			await body(f, s);
		} finally {
			await f.clear();
		}
	}, server);
}

const sign = (file: string, use: string, token: string, more = '', user = ''): string => `v1_${createHash('sha256').update(`${file}:${use}:${user}:${token}${more}`).digest('base64').replaceAll('=', '')}`;
/** For planted twins: what is refused is said to be granted. */
const granted = said('a refusal is an answer', (t) => t.replace(/^4\d\d /, '200 '));

export const faceCases: Case[] = [
	{
		id: '54a', without: { walls: ['marked'] }, attack: 'a stranger tries names of ports: of sandboxes that are not public, and of nobody', must: 'the same refusal for both, and nothing of what is inside', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const id = await s.make(), box = await f.make({ network: { allowPublicTraffic: false } });
			await f.servers(id);
			await f.servers(box.id);
			const nobody = await f.visit('sess_000000000000', 8000);
			assert.equal(nobody.status, 401);
			for (const name of [id, id.toUpperCase(), id.slice(0, -1), `${id}0`, id.replace('sess_', ''), '00000000-0000-4000-8000-000000000000', 'localhost', `${id}-8000`])
				for (const headers of [{}, { 'x-api-key': 'csn_wrong' }, { authorization: 'Bearer x' }, { cookie: 'caisson-port=1.2.3' }, { 'e2b-traffic-access-token': box.traffic }, { 'x-access-token': box.token }] as Headers[]) {
					const r = await f.visit(name, 8000, headers);
					assert.equal(r.text, nobody.text, `${name} ${JSON.stringify(headers)}`);
				}
			for (const token of ['', 'x', box.token, box.traffic.slice(1), `${box.traffic}0`, box.traffic.toUpperCase().replace(/[0-9]/g, 'A')]) {
				const r = await f.visit(box.id, 8000, { 'e2b-traffic-access-token': token });
				assert.equal(r.status, 403, r.text);
			}
			assert.equal((await f.visit(box.id, 8000, { 'e2b-traffic-access-token': box.traffic })).status, 200);
			for (const name of [`i${'0'.repeat(19)}`, box.id.slice(0, -1) + (box.id.endsWith('0') ? '1' : '0')])
				assert.equal((await f.visit(name, 8000)).status, 502);
		}),
	},
	{
		id: '54b', without: { walls: ['strangers'] }, attack: 'strangers open 100 endless answers of a public port', must: 'a bound of their own; the owner, and others, are served', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const id = await s.make({ public: true });
			await f.servers(id);
			const all = await Promise.all(Array.from({ length: 100 }, () => f.deaf(`GET / HTTP/1.1\r\nHost: 8002-${id}.localhost:${s.port}\r\n\r\n`)));
			const n = (status: string): number => all.filter((one) => one.first.startsWith(`HTTP/1.1 ${status} `)).length;
			assert.ok(n('200') > 0 && n('200') <= 64 && n('429') >= 36, `${n('200')} and ${n('429')}`); // the server inside may have no more threads for some
			assert.equal((await s.fetch(`/p/${id}/8000/echo`)).status, 200);
			assert.equal((await s.ask('GET', '/me')).body.budgets.port_requests.used, 0);
			for (const one of all)
				one.socket.destroy();
			await until('nothing is left', async () => (await s.ask('GET', '/me')).body.budgets.public_requests.used === 0);
			assert.equal((await f.visit(id, 8000)).status, 200);
		}),
	},
	{
		id: '54c', without: { walls: ['crossing'] }, attack: 'a public server looks for keys, tokens and cookies of people who visit it, and sets some of ours', must: 'none goes in, none comes out', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make();
			await f.servers(box.id);
			const sent = { 'x-api-key': s.bob, 'e2b-traffic-access-token': box.traffic, authorization: `Bearer ${s.bob}`, cookie: 'caisson=s1; caisson-port=s2; __Host-caisson-port=s3; own=mine', 'x-forwarded-for': '6.6.6.6' };
			const r = await f.visit(box.id, 8000, sent);
			assert.equal(r.status, 200, r.text);
			assert.match(r.text, /own=mine/);
			for (const secret of [s.bob, box.traffic, 's1', 's2', 's3', '6.6.6.6'])
				assert.ok(!r.text.includes(secret), secret);
			const answer = Buffer.from('HTTP/1.1 200 OK\r\nSet-Cookie: caisson-port=x\r\nStrict-Transport-Security: max-age=1\r\nX-Accel-Redirect: /x\r\nSet-Cookie: a=1; Domain=localhost\r\nContent-Length: 0\r\n\r\n').toString('hex');
			const heads = await s.exchange(`GET /${answer} HTTP/1.1\r\nHost: 8001-${box.id}.localhost:${s.port}\r\nConnection: close\r\n\r\n`);
			assert.match(heads, /^HTTP\/1.1 200 [^]*Set-Cookie: a=1\r\n/i);
			assert.doesNotMatch(heads, /caisson-port|strict-transport|x-accel|domain/i);
		}),
	},
	{
		id: '54d', without: { walls: ['agree'] }, attack: 'the name of the host is of one sandbox, the headers of another', must: '502: it is neither', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const one = await f.make(), two = await f.make();
			await f.servers(two.id);
			for (const [host, id] of [[one, two], [two, one]] as const)
				for (const token of [one, two]) {
					const headers = { 'e2b-sandbox-id': id.id, 'x-access-token': token.token, 'e2b-traffic-access-token': token.traffic };
					for (const [method, at, port] of [['POST', '/process.Process/List', 49983], ['GET', '/files?path=x', 49983], ['GET', '/contexts', 49999], ['GET', '/health', 49983], ['GET', '/echo', 8000]] as const) {
						const r = await f.ask(method, at, { headers, host: `${port}-${host.id}.localhost:${s.port}`, prefix: '', ...(method === 'POST' ? { body: {} } : {}) });
						assert.equal(r.status, 502, `${at} ${r.text}`);
					}
				}
			assert.equal((await f.visit(two.id, 8000, { 'e2b-sandbox-id': two.id })).status, 200);
		}),
	},
	{
		id: '54e', planted: said('a process has begun', (t) => t.replace('"processes":[]', '"processes":[1]')), attack: 'frames that lie about their length, claim to be compressed, are none, are several, or hold a bomb of JSON', must: 'a refusal, and no process', code: '', held: 0,
		after: (_r, o) => faced(o, async (f) => {
			const box = await f.make(), good = frame({ process: { cmd: 'sleep', args: ['1000'] } });
			const sized = (n: number, flags = 0): Buffer => {
				const b = Buffer.from(good);
				b[0] = flags;
				b.writeUInt32BE(n >>> 0, 1);
				return b;
			};
			const bombs = ['['.repeat(100_000), `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`, `{"process":{"cmd":"sleep","args":[${'"1",'.repeat(20_000)}"1"]}}`, '{"process":{"cmd":"sleep","args":["9"]},"process":{}}', '{"process":{"cmd":"sl\\u0000eep","args":["9"]}}', '{"process":{"cmd":"\\ud800"}}',
				'{"process":{"cmd":"sleep","args":["9"],"envs":{"A=B":"x"}}}', '{"process":{"cmd":7}}', '{"process":null}', 'null', '[]', '"x"', '1e999', `{"process":{"cmd":"${'x'.repeat(200_000)}"}}`, '{"process":{"cmd":"sleep","args":["9"],"cwd":"/no/such"}}', ''];
			for (const body of [sized(good.length), sized(good.length - 4), sized(0xffffffff), sized(0x80000000), sized(0), sized(1), sized(good.length - 5, 1), sized(good.length - 5, 0xff), good.subarray(0, 3), good.subarray(0, 20), Buffer.alloc(5), Buffer.alloc(0), Buffer.from([0, 0, 0, 0, 1, 0xff]),
				...bombs.map((text) => frame(text))]) {
				const r = await f.ask('POST', '/process.Process/Start', { headers: { ...f.routed(box), ...CONNECT }, body });
				assert.ok(r.status >= 400 || r.text.includes('"error"'), `${JSON.stringify(body.subarray(0, 60).toString('latin1'))}: ${r.text.slice(0, 200)}`);
			}
			assert.deepEqual((await f.rpc(box, 'process.Process/List')).json.processes, []);
		}),
	},
	{
		id: '54f', planted: grown, attack: 'a frame without end, in chunks, and with a length of 4 GiB', must: '413; the memory of the server is bounded', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make();
			await s.holds(12, async () => {
				for (const more of [{ 'transfer-encoding': 'chunked' }, { 'content-length': `${2 ** 32}` }] as Headers[]) {
					const all = await Promise.all(Array.from({ length: 8 }, () => new Promise<string>((done) => {
						const socket = net.connect(s.port, '127.0.0.1', () => socket.write(f.head(box, 'POST', '/process.Process/Start', { ...CONNECT, ...more })));
						let text = '', sent = 0;
						const piece = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(65536), Buffer.from('\r\n')]), plain = Buffer.alloc(65536);
						const go = (): void => {
							while (!socket.destroyed && sent < 64 << 20) {
								sent += 65536;
								if (!socket.write(more['content-length'] ? plain : piece))
									return void socket.once('drain', go);
							}
						};
						socket.on('data', (d) => (text += d.toString('latin1'))).on('error', () => undefined).on('close', () => done(text)).once('connect', go);
					})));
					assert.ok(all.every((t) => t === '' || / 413 /.test(t.slice(0, 20))) && all.some((t) => t), all.map((t) => t.slice(0, 40)).join()); // its reset may overtake the answer
				}
			});
		}),
	},
	{
		id: '54g', planted: grown, attack: '200 clients send half a frame, and no more', must: 'others are served; the memory of the server is bounded', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), sockets: net.Socket[] = [];
			try {
				await s.holds(24, async () => {
					for (let i = 0; i < 200; i++)
						sockets.push(net.connect(s.port, '127.0.0.1').on('error', () => undefined));
					await Promise.all(sockets.map((socket) => new Promise((done) => socket.write(f.head(box, 'POST', '/process.Process/Start', { ...CONNECT, 'content-length': '1000' }) + '\0\0\0\x03', done))));
					assert.equal((await f.rpc(box, 'process.Process/List')).status, 200);
					await s.neighbour();
				});
			} finally {
				for (const socket of sockets)
					socket.destroy();
			}
		}),
	},
	{
		id: '54h', without: { walls: ['tokens'] }, attack: 'a signature for another path, use, user or sandbox, changed, expired, or made without the token', must: '401', code: '', held: 0,
		after: (_r, o) => faced(o, async (f) => {
			const box = await f.make(), other = await f.make({}, f.s.bob);
			await f.start(box, 'echo secret > s.txt');
			const past = Math.floor(Date.now() / 1000) - 60, soon = past + 120, good = sign('s.txt', 'read', box.token);
			const at = (file: string, signature: string, more = ''): string => `/files?path=${encodeURIComponent(file)}&signature=${encodeURIComponent(signature)}${more}`;
			assert.equal((await f.ask('GET', at('s.txt', good), { prefix: '' })).text, '200 secret\n');
			for (const [why, target] of [
				['another path', at('t.txt', good)], ['the same path in other words', at('./s.txt', good)], ['absolute', at('/home/user/s.txt', good)], ['write', at('s.txt', sign('s.txt', 'write', box.token))], ['another user', at('s.txt', good, '&username=root')],
				['expired', at('s.txt', sign('s.txt', 'read', box.token, `:${past}`), `&signature_expiration=${past}`)], ['longer than signed', at('s.txt', sign('s.txt', 'read', box.token, `:${past}`), `&signature_expiration=${soon}`)], ['an end that was not signed', at('s.txt', good, `&signature_expiration=${soon}`)],
				['an end that is none', at('s.txt', sign('s.txt', 'read', box.token, ':x'), '&signature_expiration=x')], ['without a token', at('s.txt', sign('s.txt', 'read', ''))], ["another sandbox's token", `${at('s.txt', sign('s.txt', 'read', other.token))}`], ['the traffic token', at('s.txt', sign('s.txt', 'read', box.traffic))],
				['none', at('s.txt', '')], ['its beginning', at('s.txt', good.slice(0, -1))], ['more', at('s.txt', `${good}A`)], ['other letters', at('s.txt', good.toUpperCase())], ['long', at('s.txt', 'v1_'.padEnd(8000, 'A'))], ['without its version', at('s.txt', good.slice(3))],
			] as const) {
				const r = await f.ask('GET', target, { prefix: '', headers: { 'e2b-sandbox-id': box.id } });
				assert.equal(r.status, 401, `${why}: ${r.text}`);
			}
			assert.equal((await f.ask('GET', at('s.txt', good), { prefix: '', headers: { 'e2b-sandbox-id': other.id } })).status, 401);
			assert.equal((await f.ask('POST', at('s.txt', good), { prefix: '', headers: { 'content-type': FORM }, body: form('s.txt', 'changed') })).status, 401);
			assert.equal((await f.read(box, 's.txt')).text, '200 secret\n');
		}),
	},
	{
		id: '54i', without: { walls: ['owned'] }, attack: 'the sandboxes of another user on the control plane, by every route', must: '404, as for ids of nobody; lists do not have them', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make({ metadata: { mine: 'alice' } });
			for (const id of [box.id, `i${'0'.repeat(19)}`])
				for (const [method, at, body] of [['GET', ''], ['POST', '/connect', { timeout: 1 }], ['POST', '/timeout', { timeout: 0 }], ['POST', '/refreshes', { duration: 1 }], ['GET', '/metrics'], ['POST', '/pause', {}], ['POST', '/resume', { timeout: 1 }], ['POST', '/snapshots', {}], ['POST', '/fork', { count: 1 }],
					['PUT', '/network', {}], ['DELETE', '']] as [string, string, Json?][]) {
					const r = await f.control(method, `/sandboxes/${id}${at}`, body, s.bob);
					assert.equal(r.status, 404, `${method} ${at}: ${r.text}`);
					assert.ok(!r.text.includes('alice') && !r.text.includes(box.token));
				}
			for (const at of ['/v2/sandboxes', '/sandboxes', '/v2/sandboxes?metadata=mine%3Dalice', '/v2/sandboxes?nextToken=1&order=asc', `/sandboxes/metrics?sandbox_ids=${box.id}`, '/snapshots'])
				assert.ok(!(await f.control('GET', at, undefined, s.bob)).text.includes(box.id), at);
			assert.equal((await f.control('GET', `/sandboxes/${box.id}`)).json.state, 'running');
		}),
	},
	{
		id: '54j', without: { walls: ['tokens'] }, attack: 'envd and the code interpreter of another user: no token, that of one\'s own sandbox, a key, the traffic token', must: '401', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), own = await f.make({}, s.bob), at = { 'e2b-sandbox-id': box.id, 'e2b-sandbox-port': '49983' };
			await f.start(box, 'echo secret > s.txt');
			for (const token of [{}, { 'x-access-token': own.token }, { 'x-access-token': box.traffic }, { 'x-access-token': s.bob, 'x-api-key': s.bob }, { 'x-api-key': s.alice }, { 'x-access-token': '' }, { authorization: `Bearer ${box.token}` }, { 'e2b-traffic-access-token': own.traffic }] as Headers[]) {
				const headers = { ...at, ...token };
				for (const method of RPCS) {
					const r = await f.rpc(box, method, { path: 's.txt' }, headers);
					assert.equal(r.status, 401, `${method} ${JSON.stringify(token)}: ${r.text}`);
				}
				for (const [method, target, more, body] of [['POST', '/process.Process/Start', CONNECT, frame({ process: { cmd: 'true' } })], ['POST', '/filesystem.Filesystem/WatchDir', CONNECT, frame({ path: '.' })], ['GET', '/files?path=s.txt', {}, undefined], ['POST', '/files?path=s.txt', { 'content-type': FORM }, form('s.txt', 'x')],
					['POST', '/execute', {}, { code: '1' }], ['GET', '/contexts', {}, undefined], ['POST', '/contexts', {}, {}], ['POST', '/contexts/default/restart', {}, {}], ['DELETE', '/contexts/default', {}, undefined]] as [string, string, Headers, Json?][]) {
					const r = await f.ask(method, target, { headers: { ...headers, ...more }, body });
					assert.ok(r.status === 401 || (r.status === 200 && r.text.includes('unauthenticated')), `${target} ${JSON.stringify(token)}: ${r.text}`);
				}
			}
			assert.equal((await f.read(box, 's.txt')).text, '200 secret\n');
		}),
	},
	{
		id: '54k', without: { walls: ['owned'] }, attack: 'snapshots of another user: as a template, by id and by name; taken over, listed, deleted', must: 'they do not exist', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make();
			await f.start(box, 'echo secret > s.txt');
			const { snapshotID: id } = (await f.control('POST', `/sandboxes/${box.id}/snapshots`, { name: 'hers' })).json;
			assert.ok(id);
			try {
				for (const name of [id, 'hers', 'hers:default', 'HERS', '../hers', `${id}/..`]) {
					const r = await f.control('POST', '/v2/sandboxes', { templateID: name }, s.bob);
					assert.ok(r.status >= 400 && r.status < 500, `${name}: ${r.text}`);
					assert.ok((await f.control('DELETE', `/templates/${encodeURIComponent(name)}`, undefined, s.bob)).status >= 400, name);
				}
				assert.deepEqual((await f.control('GET', `/snapshots?sandboxID=${box.id}`, undefined, s.bob)).json, []);
				/* One of the same name is his own. */
				const his = await f.make({}, s.bob);
				await f.start(his, 'echo his > s.txt');
				assert.equal((await f.control('POST', `/sandboxes/${his.id}/snapshots`, { name: 'hers' }, s.bob)).status, 201);
				assert.equal(await f.prints(await f.make({ templateID: 'hers' }, s.bob), 'cat s.txt'), 'his\n');
				assert.equal(await f.prints(await f.make({ templateID: 'hers' }), 'cat s.txt'), 'secret\n');
			} finally {
				for (const key of [s.alice, s.bob])
					await f.control('DELETE', '/templates/hers', undefined, key);
			}
		}),
	},
	{
		id: '54l', without: { walls: ['origin'] }, attack: 'wildcard names with odd labels: numbers, dashes, dots, other domains, punycode, controls', must: 'none leads to a sandbox, or to this server by a name that is not ours', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), headers = { 'x-access-token': box.token, 'x-api-key': s.alice }, port = s.port;
			for (const host of [`0-${box.id}.localhost:${port}`, `65536-${box.id}.localhost:${port}`, `49983-${box.id}x.localhost:${port}`, `49983-.localhost:${port}`, `49983--${box.id}.localhost:${port}`, `-49983-${box.id}.localhost:${port}`, `49983_${box.id}.localhost:${port}`, `49983-${box.id}-49983.localhost:${port}`,
				`+49983-${box.id}.localhost:${port}`, `0xc33f-${box.id}.localhost:${port}`, `49983-${box.id}.evil.localhost:${port}`, `x.49983-${box.id}.localhost:${port}`, `49983-${box.id}.localhost.evil.example:${port}`, `49983-${box.id}.evil.example`, `49983-${box.id}.localhostx:${port}`, `49983-${box.id}@localhost:${port}`,
				`49983-${'i'.repeat(60)}.localhost:${port}`, `49983-xn--${box.id}.localhost:${port}`, `xn--49983-${box.id}.localhost:${port}`, `49983-${box.id}%2elocalhost:${port}`, `49983-${box.id}\\.localhost:${port}`, `49983-${box.id}.localhost:${port},evil`, `evil.example:${port}`, `api.evil.example`, `api.api.localhost:${port}`, `49983-${box.id}..localhost:${port}`])
				for (const [method, at] of [['POST', '/process.Process/List'], ['POST', '/faces/e2b/process.Process/List'], ['GET', '/v2/sandboxes'], ['GET', '/faces/e2b/v2/sandboxes']] as const) {
					const r = await f.ask(method, at, { headers, host, prefix: '', ...(method === 'POST' ? { body: {} } : {}) });
					assert.ok([400, 401, 403, 404, 502].includes(r.status), `${host} ${at}: ${r.text.slice(0, 100)}`);
				}
			assert.equal((await f.ask('POST', '/process.Process/List', { headers, host: `49983-${box.id}.localhost:${port}`, prefix: '', body: {} })).status, 200);
		}),
	},
	{
		id: '54m', planted: granted, attack: 'uploads and downloads by names with .., NUL, too long, absolute, of devices and of links', must: 'none outside; refused', code: '', held: 0,
		after: (_r, o) => faced(o, async (f) => {
			const box = await f.make(), up = '../'.repeat(20);
			await f.start(box, `ln -s /etc/passwd link; ln -s / all; ln -s ${up}etc up; mkfifo pipe; mkdir folder`);
			const put = (at: string, name: string): Promise<Said> => f.ask('POST', `/files${at}`, { headers: { ...f.routed(box), 'content-type': FORM }, body: form(name, 'mine') });
			/* The sandbox has a /tmp of its own; the file of the host's is looked at after each case. */
			for (const name of [`${up}${o.canary}`, o.canary])
				await put(`?path=${encodeURIComponent(name)}`, 'x');
			const names = [`/proc/1/root${o.canary}`, '/etc/passwd', `${up}etc/passwd`, '/proc/self/mem', '/proc/1/environ', '/dev/zero', '/dev/mem', '/sys/kernel/uevent_helper', 'all/etc/passwd', 'up/passwd', 'a\0b', `${'x'.repeat(300)}`, `${'y/'.repeat(3000)}z`, '.', '..', '/', 'folder', '/app/x', 'all/../../x'];
			for (const name of names) {
				const r = await put(`?path=${encodeURIComponent(name)}`, 'x');
				assert.ok(r.status >= 400 && r.status < 500, `${JSON.stringify(name.slice(0, 60))}: ${r.text.slice(0, 200)}`);
			}
			for (const name of ['/etc/passwd', 'a\0b', '..', 'x'.repeat(5000)])
				assert.ok((await put('', name)).status >= 400, name.slice(0, 40));
			for (const name of ['pipe', '', ...names].filter((n) => !/^\/etc\/passwd$|\/etc\/passwd$/.test(n))) {
				const r = await f.read(box, name);
				assert.ok(r.status >= 400 && r.status < 500, `${JSON.stringify(name.slice(0, 60))}: ${r.text.slice(0, 200)}`);
			}
			assert.equal(await f.prints(box, 'echo *'), 'all folder link pipe up\n');
		}),
	},
	{
		id: '54n', planted: granted, attack: 'headers of metadata: names of other attributes, blanks, controls, too long, too many', must: 'refused, and no file', code: '', held: 0,
		after: (_r, o) => faced(o, async (f) => {
			const box = await f.make();
			const put = (more: Headers): Promise<Said> => f.ask('POST', '/files?path=m', { headers: { ...f.routed(box), 'content-type': 'application/octet-stream', ...more }, body: Buffer.from('x') });
			for (const more of [{ 'x-metadata-': 'x' }, { [`x-metadata-${'k'.repeat(300)}`]: 'x' }, { 'x-metadata-a': 'v'.repeat(5000) }, Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`x-metadata-${i}`, 'v'.repeat(200)])), Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`x-metadata-${i}`, 'v']))] as Headers[]) {
				const r = await put(more);
				assert.ok(r.status >= 400 && r.status < 500, `${Object.keys(more)[0]!.slice(0, 40)}: ${r.text.slice(0, 200)}`);
				assert.equal((await f.read(box, 'm')).status, 404);
			}
			/* Names of other attributes are names below user.e2b. */
			for (const name of ['security.capability', 'trusted.x', 'system.posix_acl_access', 'user.x'])
				await put({ [`x-metadata-${name}`]: 'x' });
			assert.match(await f.prints(box, 'python3 -c "import os; print(all(n.startswith(\'user.e2b.\') for n in os.listxattr(\'m\')))"'), /^True\n$/);
		}),
	},
	{
		id: '54o', planted: grown, attack: 'clients that start processes which print for ever, and read nothing', must: 'the processes wait; the memory of the server is bounded; others are served', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), sockets: net.Socket[] = [];
			try {
				await s.holds(32, async () => {
					const body = frame({ process: { cmd: 'yes' } });
					for (let i = 0; i < 6; i++)
						sockets.push((await f.deaf(Buffer.concat([Buffer.from(f.head(box, 'POST', '/process.Process/Start', { ...CONNECT, 'content-length': `${body.length}` })), body]))).socket);
					/* They wait: no more of their CPU time passes. */
					let last: number[] = [];
					await until('all of them wait', async () => {
						last = [...last.slice(-9), (await s.look(`/sandboxes/${box.id}/usage`)).cpu_ms as number];
						return last.length === 10 && last.every((ms) => ms === last[0]);
					});
					await s.neighbour();
				});
			} finally {
				for (const socket of sockets)
					socket.destroy();
			}
		}),
	},
	{
		id: '54p', planted: grown, attack: 'clients that ask for a large file, and read nothing', must: 'the memory of the server is bounded; others are served', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), sockets: net.Socket[] = [];
			await f.start(box, 'head -c 40000000 /dev/zero > large');
			try {
				await s.holds(24, async () => {
					for (let i = 0; i < 16; i++)
						sockets.push((await f.deaf(f.head(box, 'GET', '/files?path=large'))).socket);
					await s.neighbour();
					assert.equal((await f.rpc(box, 'process.Process/List')).status, 200);
				});
			} finally {
				for (const socket of sockets)
					socket.destroy();
			}
		}),
	},
	{
		id: '54q', planted: granted, attack: '1,000 watchers of one sandbox, which nobody asks', must: 'a bound; another user watches meanwhile; all end with the sandbox', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), own = await f.make({}, s.bob);
			let made = 0, refused = 0;
			await s.holds(24, async () => {
				for (let i = 0; i < 20; i++)
					for (const r of await Promise.all(Array.from({ length: 50 }, () => f.rpc(box, 'filesystem.Filesystem/CreateWatcher', { path: '.', recursive: true })))) {
						made += r.status === 200 ? 1 : 0;
						refused += r.status === 429 ? 1 : 0;
					}
			});
			assert.ok(made > 0 && made <= 32 && made + refused === 1000, `${made} and ${refused}`);
			assert.equal((await f.rpc(own, 'filesystem.Filesystem/CreateWatcher', { path: '.' })).status, 200);
			await f.start(box, 'for i in $(seq 3000); do echo > f$i; done');
			await f.control('DELETE', `/sandboxes/${box.id}`);
			await until('nothing is left', async () => (await s.ask('GET', '/me')).body.budgets.watchers.used === 0);
		}),
	},
	{
		id: '54r', planted: said('its token goes on', (t) => t.replace(/^401 /, '200 ')), attack: 'a key is revoked while its sandbox has a stream, a stranger, and a watcher', must: 'what is open ends; tokens, ports and the key are refused', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const made = (await s.ask('POST', '/keys', { name: 'of an agent' })).body;
			assert.ok(made.key, JSON.stringify(made));
			const box = { ...await f.make({}, made.key), key: s.alice };
			await f.servers(box.id);
			const ended: Promise<unknown>[] = [];
			const open = async (text: string | Buffer): Promise<void> => {
				const { socket } = await f.deaf(text);
				ended.push(new Promise((done) => socket.on('close', done)));
				socket.resume();
			};
			const body = frame({ process: { cmd: 'sh', args: ['-c', 'echo begun; sleep 1000'] } });
			await open(Buffer.concat([Buffer.from(f.head(box, 'POST', '/process.Process/Start', { ...CONNECT, 'content-length': `${body.length}` })), body]));
			await open(`GET / HTTP/1.1\r\nHost: 8002-${box.id}.localhost:${s.port}\r\n\r\n`);
			assert.equal((await s.ask('DELETE', `/keys/${made.id}`)).status, 204);
			await Promise.all(ended);
			for (const r of [await f.rpc(box, 'process.Process/List'), await f.read(box, 'servers.py'), await f.ask('POST', '/execute', { headers: f.routed(box, 49999), body: { code: '1' } }), await f.control('GET', `/sandboxes/${box.id}`, undefined, made.key)])
				assert.equal(r.status, 401, r.text);
			assert.equal((await f.visit(box.id, 8000)).status, 502);
			assert.equal((await f.control('POST', `/v2/sandboxes/${box.id}/connect`, { timeout: 60 })).status, 200);
			assert.equal((await f.visit(box.id, 8000)).status, 200);
		}),
	},
	{
		id: '54s', planted: granted, attack: '200 contexts, and contexts with names of others, of paths and of nothing', must: 'a bound; names that are none are not found; the sandbox goes on', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), headers = f.routed(box, 49999);
			const all = await Promise.all(Array.from({ length: 200 }, () => f.ask('POST', '/contexts', { headers, body: { language: 'python' } })));
			const made = all.filter((r) => r.status < 300).length;
			assert.ok(made > 0 && made < 40, `${made} contexts`);
			for (const name of ['nobody', '..%2f..', '%00', 'x'.repeat(300), '%ff', '..', '*', 'default%20'])
				for (const [method, at] of [['DELETE', ''], ['POST', '/restart']] as const) {
					const r = await f.ask(method, `/contexts/${name}${at}`, { headers, ...(method === 'POST' ? { body: {} } : {}) });
					assert.ok(r.status >= 400 && r.status < 500, `${name}: ${r.text}`);
				}
			for (const context of ['nobody', '../x', 'x'.repeat(300), 'a\0b']) {
				const r = await f.ask('POST', '/execute', { headers, body: { code: '1', context_id: context } });
				assert.ok(r.status >= 400 && r.status < 500, `${JSON.stringify(context).slice(0, 40)}: ${r.text}`);
			}
			await s.neighbour();
			assert.match((await f.ask('POST', '/execute', { headers, body: { code: '1 + 1' } })).text, /"2"/);
		}),
	},
	{
		id: '54t', planted: grown, attack: 'bodies of JSON that are bombs: deep, wide, doubled, with variables that load libraries', must: '4xx; the memory of the server is bounded', code: '', held: 0,
		after: (_r, o) => faced(o, async (f, s) => {
			const box = await f.make(), wide = Object.fromEntries(Array.from({ length: 30_000 }, (_, i) => [`k${i}`, 'v']));
			await s.holds(24, async () => {
				const bodies = [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, `{"a":${'{"a":'.repeat(30_000)}1${'}'.repeat(30_001)}`, JSON.stringify({ code: '1', env_vars: wide }), '{"code":"1","code":"2"', '{"code":"1","env_vars":{"A=B":"x"}}', '{"code":"1","env_vars":{"":"x"}}', '{"code":7}', '{"code":null}', '[]', '{', '\0',
					`{"code":"1","env_vars":{"A":"${'x'.repeat(200_000)}"}}`];
				for (const body of bodies)
					for (const r of await Promise.all(Array.from({ length: 4 }, () => f.ask('POST', '/execute', { headers: { ...f.routed(box, 49999), 'content-type': 'application/json' }, body: Buffer.from(body) }))))
						assert.ok(r.status === 0 || (r.status >= 400 && r.status < 500), `${body.slice(0, 40)}: ${r.text.slice(0, 200)}`);
				for (const more of [{ metadata: wide }, { envVars: wide }, { envVars: { LD_PRELOAD: '/tmp/x.so' } }, { envVars: { PATH: '/tmp' } }, { envVars: { 'A=B': 'x' } }, { metadata: { a: 7 } }, { timeout: -1 }, { timeout: 1e9 }, { templateID: '../../x' }, { templateID: 'x'.repeat(5000) }, { network: { allowPublicTraffic: 'yes' } }]) {
					const r = await f.control('POST', '/v2/sandboxes', { templateID: 'base', ...more });
					assert.ok(r.status >= 400 && r.status < 500, `${JSON.stringify(more).slice(0, 60)}: ${r.text.slice(0, 200)}`);
				}
			});
			assert.match((await f.ask('POST', '/execute', { headers: f.routed(box, 49999), body: { code: '1 + 1' } })).text, /"2"/);
		}),
	},
];
