// SPDX-License-Identifier: Apache-2.0
// The router of a fleet, in front of workers that only look like ones: what it sends where, what it keeps to itself, and what it says
// when a worker is full or gone.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as path from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { newStateDir, scratch } from '../lib/env.ts';
import { Authority, FakeWorker, idsOf, routerUid, underRouter } from '../lib/fake-workers.ts';
import { caisson, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const dir = scratch('router'), list = path.join(dir, 'workers'), keyFile = path.join(dir, 'fleet.key');
const KEY = 'k'.repeat(40);
const owned = (...files: string[]): void => files.forEach((f) => fs.chownSync(f, routerUid, routerUid));

function newList(...at: string[]): void {
	fs.writeFileSync(`${list}.new`, `# the fleet\n\n${at.map((a) => `  ${a}  # one\n`).join('')}`);
	owned(`${list}.new`);
	fs.renameSync(`${list}.new`, list);
}

describe('router', () => {
	let program: Program, base: string, one: FakeWorker, two: FakeWorker, mcpIds: string[];
	let routerFiles: { cert: string; key: string }, workerFiles: { cert: string; key: string }, authority: Authority, env: Record<string, string>;

	const call = (method: string, where: string, o: { body?: Json | Buffer; headers?: Record<string, string> } = {}): Promise<Response> => fetch(base + where, {
		method, headers: { 'x-api-key': KEY, ...(o.body && !Buffer.isBuffer(o.body) ? { 'content-type': 'application/json' } : {}), ...o.headers },
		...(o.body === undefined ? {} : { body: Buffer.isBuffer(o.body) ? new Uint8Array(o.body) : JSON.stringify(o.body) }),
	});
	const json = async (r: Response): Promise<Json> => await r.json() as Json;
	const make = async (): Promise<Json> => {
		const r = await call('POST', '/api/v1/sandboxes', { body: {} });
		assert.equal(r.status, 201, await r.clone().text());
		return json(r);
	};
	const workerOf = (made: Json): FakeWorker => made.worker === one.id ? one : two;
	const usable = (n: number): Promise<unknown> => until(`${n} workers are ready`, async () => (await (await fetch(`${base}/readyz`)).text()).includes(`: ${n} of`), 8_000);
	const memory = (): number => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${program.pid}/status`, 'utf8'))![1]) / 1024;

	before(async () => {
		fs.chmodSync(path.dirname(dir), 0o711); // the router is another user than the tests
		authority = new Authority(dir);
		routerFiles = authority.certificate('router');
		workerFiles = authority.certificate('worker');
		fs.writeFileSync(keyFile, randomBytes(32));
		one = await new FakeWorker('ab3', workerFiles, authority.ca, idsOf(keyFile, 'ab3', 60)).listen();
		two = await new FakeWorker('zz9', workerFiles, authority.ca, idsOf(keyFile, 'zz9', 60)).listen();
		mcpIds = idsOf(keyFile, 'zz9', 2, 'mcp');
		newList(one.at, two.at);
		const state = newStateDir();
		owned(keyFile, routerFiles.cert, routerFiles.key, authority.ca, dir, state);
		env = {
			SANDBOX_STATE_DIR: state, SANDBOX_ROLE: 'router', SANDBOX_FLEET_WORKERS: list, SANDBOX_FLEET_KEY: keyFile, SANDBOX_FLEET_CA: authority.ca,
			SANDBOX_FLEET_CERTIFICATE: routerFiles.cert, SANDBOX_FLEET_CERTIFICATE_KEY: routerFiles.key, SANDBOX_API_KEY: KEY,
			SANDBOX_BUDGETS: 'port_requests=4',
		};
		({ program, base } = await serve({ profile: 'full', env, under: underRouter }));
		await usable(2);
	});
	after(async () => {
		one?.close();
		two?.close();
		program?.kill('SIGTERM');
		assert.equal((await program?.exit).code, 0, program?.stderr);
	});

	// What a case that failed has left would be the answer to all that follow.
	afterEach(() => {
		for (const worker of [one, two])
			worker.raw = undefined;
	});

	it('makes a sandbox on a worker, finds it again by its id, and ends it', async () => {
		const made = await make(), at = workerOf(made);
		const got = await call('GET', `/api/v1/sandboxes/${made.id}?usage=1`);
		assert.deepEqual([got.status, (await json(got)).worker], [200, made.worker]);
		assert.equal(at.heard.at(-1)!.url, `/api/v1/sandboxes/${made.id}?usage=1`);
		assert.equal((await call('DELETE', `/api/v1/sandboxes/${made.id}`)).status, 204);
		assert.equal((await call('GET', `/api/v1/sandboxes/${made.id}`)).status, 404);
		assert.equal((await call('HEAD', `/api/v1/sandboxes/${made.id}`)).status, 404);
	});

	it('is not root, whoever has started it', () => {
		assert.match(fs.readFileSync(`/proc/${program.pid}/status`, 'utf8'), /^Uid:\t[1-9]/m);
	});

	it('spreads new sandboxes over both workers, with few connections', async () => {
		const before = one.connections + two.connections;
		const made = [];
		for (let i = 0; i < 24; i++)
			made.push(await make());
		assert.deepEqual([...new Set(made.map((m) => m.worker))].sort(), ['ab3', 'zz9']);
		assert.ok(one.connections + two.connections - before <= 4, `${one.connections + two.connections - before} connections`);
		for (const m of made)
			assert.equal((await call('DELETE', `/api/v1/sandboxes/${m.id}`)).status, 204);
	});

	it('tells a worker who asks, and neither the key nor what clients say in its place', async () => {
		const made = await make(), at = workerOf(made);
		const r = await call('GET', `/api/v1/sandboxes/${made.id}/files?path=a%20b&api_key=${KEY}&api%5Fkey=${KEY}&list=1`, { headers: {
			'authorization': `Bearer ${KEY}`, 'cookie': `caisson=${KEY}`, 'caisson-caller': 'e30', 'Caisson-Other': 'x', 'x-forwarded-for': '8.8.8.8', 'x-forwarded-prefix': '/evil', 'forwarded': 'for=8.8.8.8', 'x-real-ip': '8.8.8.8',
			'origin': base, 'accept-language': 'de',
		} });
		await r.text();
		const heard = at.heard.at(-1)!;
		assert.equal(heard.url, `/api/v1/sandboxes/${made.id}/files?path=a%20b&list=1`);
		assert.ok(!JSON.stringify(heard.headers).includes(KEY), 'no credential');
		for (const name of ['authorization', 'x-api-key', 'cookie', 'caisson-other', 'forwarded', 'x-real-ip', 'x-forwarded-prefix', 'origin'])
			assert.equal(heard.headers[name], undefined, name);
		assert.equal(heard.headers['x-forwarded-for'], '127.0.0.1');
		assert.equal(heard.headers['accept-language'], 'de');
		const { name, limits, ...rest } = heard.caller!;
		assert.deepEqual(rest, { v: 1, owner: '', admin: true, read_only: false, profile: '', key_id: '', signin: '', version: '', how: 'static', until_ms: 0, expires_ms: 0 });
		assert.equal(typeof name, 'string');
		assert.deepEqual(Object.keys(limits as Json).sort(), ['cpu_s_per_day', 'disk_bytes', 'runs_per_minute', 'sandboxes']);
	});

	it('keeps users, keys and sign-in to itself, and a user of it is one to the worker', async () => {
		const heard = (): number => one.heard.length + two.heard.length;
		const before = heard();
		const user = await call('POST', '/api/v1/users', { body: { name: 'ada', password: 'correct horse battery' } });
		assert.equal(user.status, 201, await user.clone().text());
		const id = (await json(user)).id as string;
		const key = await call('POST', `/api/v1/keys?owner=${id}`, { body: { name: 'k', scope: 'read' } });
		assert.equal(key.status, 201, await key.clone().text());
		for (const where of ['/api/v1/me', '/api/v1/session', '/api/v1/keys', '/api/v1/audit', '/api/v1/invitations', '/api/v1/openapi.json', '/metrics', '/healthz'])
			assert.equal((await call('GET', where)).status, 200, where);
		assert.doesNotMatch(await (await call('GET', '/metrics')).text(), /caisson_sandboxes_(max|claimed)/, 'a router has no places');
		assert.equal(heard(), before, 'workers have heard nothing of it');
		const made = await make();
		await call('GET', `/api/v1/sandboxes/${made.id}`, { headers: { 'x-api-key': (await json(key)).key as string } });
		const caller = workerOf(made).heard.at(-1)!.caller!;
		assert.deepEqual([caller.owner, caller.name, caller.how, caller.read_only, caller.admin], [id, 'ada', 'key', true, false]);
		const nobody = await fetch(`${base}/api/v1/sandboxes/${made.id}`);
		assert.equal(nobody.status, 401);
		let busy = true;
		two.handler = (_, res) => two.say(res, busy ? 503 : 204, undefined);
		one.handler = (_, res) => one.say(res, 204, undefined);
		assert.equal((await call('DELETE', `/api/v1/users/${id}`)).status, 204);
		const told = (w: FakeWorker): number => w.heard.filter((h) => h.method === 'DELETE' && h.url === `/api/v1/users/${id}` && h.caller!.admin === true && h.caller!.how === 'local').length;
		await until('the other worker is told again', () => told(two) >= 2, 5_000);
		busy = false;
		const times = told(two);
		await until('and again', () => told(two) === times + 1, 5_000);
		one.handler = two.handler = undefined;
		assert.equal(told(one), 1);
	});

	it('answers forged ids itself', async () => {
		const made = await make(), before = one.heard.length + two.heard.length, id = made.id as string;
		const forged = [...'0123456789abcdef'].filter((c) => c !== id[10]).map((c) => id.slice(0, 10) + c + id.slice(11));
		for (const f of [...forged, `sess_${'0'.repeat(20)}`, '00000000-0000-4000-8000-000000000000'])
			assert.deepEqual([(await call('GET', `/api/v1/sandboxes/${f}`)).status, one.heard.length + two.heard.length], [404, before], f);
		const mcp = await call('POST', '/mcp', { body: { jsonrpc: '2.0', id: 1, method: 'ping' }, headers: { 'mcp-session-id': 'f'.repeat(32) } });
		assert.deepEqual([mcp.status, ((await json(mcp)).error as Json).data, one.heard.length + two.heard.length], [404, { code: 'session_not_found' }, before]);
		for (const where of ['/fleet/state', '/FLEET/state', '/fleet/state/'])
			assert.equal((await call('GET', where)).status, 404);
	});

	it('merges lists, and names a worker that does not tell its part', async () => {
		const made = [await make(), await make(), await make(), await make()];
		const all = await json(await call('GET', '/api/v1/sandboxes'));
		for (const m of made)
			assert.ok((all.sandboxes as Json[]).some((s) => s.id === m.id), String(m.id));
		assert.equal(all.workers_missing, undefined);
		const odd: [number, Json][] = [
			[500, { code: 'internal_error' }],
			[401, { code: 'identity_missing' }], // of this router, not of the client
			[404, { code: 'not_found' }],
			[200, { sandboxes: 'x' }],
			[200, { sandboxes: Array.from({ length: 9000 }, () => ({})) }], // too many values for one turn
			[200, { sandboxes: ['x'.repeat(400_000)] }],
		];
		for (const [status, body] of odd) {
			two.handler = (_, res) => two.say(res, status, body);
			const r = await call('GET', '/api/v1/sandboxes'), part = await json(r);
			two.handler = undefined;
			assert.deepEqual([r.status, part.workers_missing], [200, ['zz9']], JSON.stringify(body).slice(0, 40));
			assert.ok((part.sandboxes as Json[]).every((s) => one.sandboxes.has(s.id as string)));
		}
	});

	it('asks the next worker when one is full, and says when all are', async () => {
		const full = (w: FakeWorker) => (_: unknown, res: http.ServerResponse): void => w.say(res, 429, { status: 429, code: 'max_sessions', detail: 'full' });
		one.handler = full(one);
		for (let i = 0; i < 6; i++)
			assert.equal((await make()).worker, 'zz9');
		two.handler = full(two);
		const r = await call('POST', '/api/v1/sandboxes', { body: { name: 'x' } });
		assert.deepEqual([r.status, r.headers.get('retry-after'), (await json(r)).code], [503, '2', 'fleet_full']);
		assert.deepEqual([one.heard.at(-1)!.body.toString(), two.heard.at(-1)!.body.toString()], ['{"name":"x"}', '{"name":"x"}']);
		/* What all lack is no want of room; what one lacks, another one has. */
		const lacks = (w: FakeWorker) => (_: unknown, res: http.ServerResponse): void => w.say(res, 503, { status: 503, code: 'engine_unavailable', detail: 'no loop devices' });
		one.handler = lacks(one);
		for (let i = 0; i < 4; i++)
			assert.deepEqual((await json(await call('POST', '/api/v1/sandboxes', { body: {} }))).code, 'fleet_full', 'the other one has them, and is full');
		two.handler = lacks(two);
		const heard = one.heard.length + two.heard.length, none = await call('POST', '/api/v1/sandboxes', { body: {} }), said = await json(none);
		assert.deepEqual([none.status, said.code, said.detail, one.heard.length + two.heard.length - heard], [503, 'engine_unavailable', 'no loop devices', 2]);
		two.handler = undefined;
		for (let i = 0; i < 4; i++)
			assert.equal((await make()).worker, 'zz9');
		/* A quota is the caller's, wherever it asks. */
		one.handler = two.handler = (_, res) => one.say(res, 429, { status: 429, code: 'quota_exceeded', detail: 'yours' });
		const before = one.heard.length + two.heard.length;
		const quota = await call('POST', '/api/v1/sandboxes', { body: {} });
		one.handler = two.handler = undefined;
		assert.deepEqual([quota.status, (await json(quota)).code, one.heard.length + two.heard.length - before], [429, 'quota_exceeded', 1]);
	});

	it('sends what has no id to the home of its owner, and the same Idempotency-Key to the same worker', async () => {
		const homes = new Set<string>();
		for (const w of [one, two])
			w.handler = (_, res) => w.say(res, 200, { worker: w.id });
		for (let i = 0; i < 6; i++)
			homes.add((await json(await call('GET', '/api/v1/policy'))).worker as string);
		assert.equal(homes.size, 1);
		const seen = new Map<string, Set<string>>();
		for (let i = 0; i < 24; i++) {
			const key = `key-${i % 8}`;
			const r = await json(await call('POST', '/api/v1/sandboxes', { body: {}, headers: { 'idempotency-key': key } }));
			seen.set(key, (seen.get(key) ?? new Set()).add(r.worker as string));
		}
		one.handler = two.handler = undefined;
		assert.ok([...seen.values()].every((s) => s.size === 1));
	});

	it('passes 64 MiB up and down without keeping them, also to a reader that is slow', async () => {
		const made = await make(), at = workerOf(made), size = 64 << 20;
		let got = 0, most = 0;
		const watch = setInterval(() => { most = Math.max(most, memory()); }, 20), before = memory();
		at.raw = (req, res) => {
			if (req.method === 'PUT') {
				req.on('data', (b: Buffer) => { got += b.length; }).on('end', () => at.say(res, 201, { path: 'x' }));
				return;
			}
			res.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': size });
			const piece = Buffer.alloc(1 << 20, 7);
			let left = size;
			const push = (): void => {
				while (left > 0) {
					left -= piece.length;
					if (!res.write(piece)) {
						res.once('drain', push);
						return;
					}
				}
				res.end();
			};
			push();
		};
		const put = await call('PUT', `/api/v1/sandboxes/${made.id}/files/x`, { body: Buffer.alloc(size, 7), headers: { 'content-type': 'application/octet-stream' } });
		assert.deepEqual([put.status, got], [201, size]);
		const down = await new Promise<number>((resolve, reject) => {
			http.get(`${base}/api/v1/sandboxes/${made.id}/files/x`, { headers: { 'x-api-key': KEY } }, (r) => {
				let n = 0, waited = false;
				r.on('data', (b: Buffer) => {
					n += b.length;
					if (!waited) {
						waited = true;
						r.pause();
						setTimeout(() => r.resume(), 600);
					}
				}).on('end', () => resolve(n)).on('error', reject);
			}).on('error', reject);
		});
		clearInterval(watch);
		at.raw = undefined;
		assert.equal(down, size);
		assert.ok(most - before < 24, `memory grew by ${(most - before).toFixed(1)} MiB`);
	});

	it('ends an upload that a worker does not read (slow)', async () => {
		const made = await make(), at = workerOf(made), began = Date.now();
		at.raw = (req) => req.pause();
		const put = await call('PUT', `/api/v1/sandboxes/${made.id}/files/x`, { body: Buffer.alloc(32 << 20), headers: { 'content-type': 'application/octet-stream' } });
		at.raw = undefined;
		at.cut();
		assert.deepEqual([put.status, (await json(put)).code], [504, 'gateway_timeout']);
		assert.ok(Date.now() - began > 55_000 && Date.now() - began < 90_000, `${Date.now() - began} ms`);
	});

	it('streams events as they come, holds 200 idle streams, and the worker hears of clients that leave', async () => {
		const made = await make(), at = workerOf(made), open = new Set<http.ServerResponse>();
		at.raw = (_, res) => {
			res.writeHead(200, { 'content-type': 'text/event-stream' });
			res.write('data: hello\n\n');
			open.add(res);
			res.on('close', () => open.delete(res));
		};
		const before = memory(), abort = new AbortController();
		try {
			// Twenty at a time: this process is the worker, too, and makes each connection with it.
			for (let i = 0; i < 200; i += 20)
				await Promise.all(Array.from({ length: 20 }, async () => {
					const r = await fetch(`${base}/api/v1/sandboxes/${made.id}/events`, { headers: { 'x-api-key': KEY }, signal: abort.signal });
					const { value } = await r.body!.getReader().read();
					assert.equal(new TextDecoder().decode(value), 'data: hello\n\n');
				}));
			assert.equal(open.size, 200);
			assert.ok(memory() - before < 48, `${(memory() - before).toFixed(1)} MiB for 200 streams`);
		} finally {
			abort.abort();
			at.raw = undefined;
		}
		await until('the worker has lost its 200 clients', () => open.size === 0, 5_000);
	});

	it('ends what is open when the credential is revoked', async () => {
		const made = await make(), at = workerOf(made);
		let open = 0;
		at.raw = (_, res) => {
			open++;
			res.writeHead(200, { 'content-type': 'text/event-stream' });
			res.write('data: hello\n\n');
			res.on('close', () => open--);
		};
		const user = await json(await call('POST', '/api/v1/users', { body: { name: 'bob', password: 'correct horse battery' } }));
		const key = await json(await call('POST', `/api/v1/keys?owner=${user.id}`, { body: { name: 'short' } }));
		const stream = await call('GET', `/api/v1/sandboxes/${made.id}/events`, { headers: { 'x-api-key': key.key as string } });
		const reader = stream.body!.getReader();
		await reader.read();
		assert.equal((await call('DELETE', `/api/v1/keys/${key.id}?owner=${user.id}`)).status, 204);
		await assert.rejects(async () => {
			while (!(await reader.read()).done)
				;
		});
		await until('the worker has lost its client', () => open === 0, 3_000);
		at.raw = undefined;
	});

	it('lets a user have so many requests under way, of which a list is one for each worker', async () => {
		const made = await make(), at = workerOf(made), abort = new AbortController();
		const user = await json(await call('POST', '/api/v1/users', { body: { name: 'eve', password: 'correct horse battery' } }));
		const key = (await json(await call('POST', `/api/v1/keys?owner=${user.id}`, { body: { name: 'k' } }))).key as string;
		at.raw = (_, res) => {
			res.writeHead(200, { 'content-type': 'text/event-stream' });
			res.write('data: hello\n\n');
		};
		const ask = (where: string): Promise<Response> => fetch(base + where, { headers: { 'x-api-key': key }, signal: abort.signal });
		for (let i = 0; i < 3; i++)
			assert.equal((await ask(`/api/v1/sandboxes/${made.id}/events`)).status, 200);
		const over = await ask('/api/v1/sandboxes');
		assert.deepEqual([over.status, (await json(over)).code], [429, 'budget_exceeded']);
		assert.equal((await ask(`/api/v1/sandboxes/${made.id}/events`)).status, 200);
		assert.equal((await ask(`/api/v1/sandboxes/${made.id}/events`)).status, 429);
		abort.abort();
		at.raw = undefined;
		await until('nothing is counted any more', async () => (await fetch(`${base}/api/v1/sandboxes`, { headers: { 'x-api-key': key } })).status === 200, 5_000);
	});

	it('passes a WebSocket on, both ways', async () => {
		const made = await make(), at = workerOf(made);
		at.onUpgrade = (req, socket) => {
			assert.equal(req.headers['x-api-key'], undefined);
			assert.ok(req.headers['caisson-caller']);
			socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n');
			socket.on('data', (b: Buffer) => socket.write(b.toString().toUpperCase())).on('error', () => undefined);
		};
		const said = await new Promise<string>((resolve, reject) => {
			http.get(`${base}/api/v1/sandboxes/${made.id}/terminals/t1`, { headers: { 'x-api-key': KEY, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' } })
				.on('upgrade', (r, socket) => {
					assert.equal(r.headers['sec-websocket-accept'], 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=');
					socket.on('data', (b: Buffer) => {
						resolve(b.toString());
						socket.destroy();
					}).on('error', reject);
					socket.write('hello');
				}).on('response', (r) => reject(new Error(`status ${r.statusCode}`))).on('error', reject);
		});
		assert.equal(said, 'HELLO');
	});

	it('sends messages of MCP to the worker of their session', async () => {
		two.handler = one.handler = (req, res, body) => two.say(res, 200, { jsonrpc: '2.0', id: 1, result: { method: (JSON.parse(body.toString() || '{}') as Json).method as string } }, { 'mcp-session-id': req.headers['mcp-session-id'] ?? mcpIds[0]! });
		const first = await call('POST', '/mcp', { body: { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} } });
		assert.equal(first.headers.get('mcp-session-id'), mcpIds[0]);
		const before = two.heard.length;
		for (const session of mcpIds)
			assert.equal((await call('POST', '/mcp', { body: { jsonrpc: '2.0', id: 1, method: 'ping' }, headers: { 'mcp-session-id': session } })).status, 200);
		assert.equal((await call('POST', `/messages/?session_id=${mcpIds[1]}`, { body: { jsonrpc: '2.0', id: 1, method: 'ping' } })).status, 200);
		assert.equal(two.heard.length - before, 3);
		one.handler = two.handler = undefined;
	});

	it('repeats only what may be repeated when a kept connection was closed', async () => {
		const made = await make(), at = workerOf(made);
		assert.equal((await call('GET', `/api/v1/sandboxes/${made.id}`)).status, 200);
		let times = 0;
		at.handler = (req, res) => {
			if (++times === 1)
				req.socket.destroy();
			else
				at.answer(req, res);
		};
		assert.deepEqual([(await call('GET', `/api/v1/sandboxes/${made.id}`)).status, times], [200, 2]);
		times = 0;
		const run = await call('POST', `/api/v1/sandboxes/${made.id}/runs`, { body: { code: '1' } });
		assert.deepEqual([run.status, (await json(run)).code, times], [503, 'node_unreachable', 1]);
		at.handler = (_, res) => at.say(res, 401, { status: 401, code: 'identity_missing' });
		const ours = await call('GET', `/api/v1/sandboxes/${made.id}`);
		assert.deepEqual([ours.status, (await json(ours)).code], [502, 'node_refuses']);
		at.handler = (req, res) => {
			res.setHeader('set-cookie', 'caisson=stolen');
			res.setHeader('caisson-secret', 'x');
			at.answer(req, res);
		};
		const headers = (await call('GET', `/api/v1/sandboxes/${made.id}`)).headers;
		at.handler = undefined;
		assert.deepEqual([headers.get('set-cookie'), headers.get('caisson-secret')], [null, null]);
	});

	it('lets no answer of a worker act as the router, or lead a client away with its key', async () => {
		const preflight = await fetch(`${base}/mcp`, { method: 'OPTIONS', headers: { 'origin': base, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type,mcp-param-region, X-Evil' } });
		assert.match(preflight.headers.get('access-control-allow-headers')!, /mcp-session-id,.*mcp-name, mcp-param-region$/);
		assert.deepEqual([preflight.status, preflight.headers.get('access-control-allow-methods')], [204, 'GET, POST, DELETE, OPTIONS']);
		const made = await make(), at = workerOf(made), policy = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads';
		let status = 302, to = '/api/v1/users/x';
		at.handler = (_, res) => {
			res.writeHead(status, { 'location': to, 'content-type': 'text/html', 'refresh': '0; url=/', 'www-authenticate': 'Basic', 'clear-site-data': '"*"', 'x-content-type-options': 'x' });
			res.end('<script>1</script>');
		};
		const get = async (where: string): Promise<Headers> => {
			const r = await fetch(base + where, { headers: { 'x-api-key': KEY }, redirect: 'manual' });
			await r.text();
			assert.equal(r.headers.get('content-security-policy'), policy);
			for (const name of ['refresh', 'www-authenticate', 'clear-site-data'])
				assert.equal(r.headers.get(name), null, name);
			return r.headers;
		};
		const api = await get(`/api/v1/sandboxes/${made.id}`);
		assert.deepEqual([api.get('location'), api.get('x-content-type-options')], [null, 'nosniff']);
		status = 201;
		assert.equal((await get(`/api/v1/sandboxes/${made.id}`)).get('location'), to);
		status = 303;
		const port = `/p/${made.id}/8000/`;
		for (const within of [`${port}a?next=../b`, 'a/b', `${port}#x`, `${base}${port}c`]) {
			to = within;
			assert.equal((await get(`${port}start`)).get('location'), within.replace(base, ''), within);
		}
		for (const beyond of ['/api/v1/users/x', `/p/${made.id}/8001/`, '//example.org/', 'https://example.org/', `${port}../../x`, `${port}%2E%2e/x`, `${port}.\t./x`, '..', 'x\\..\\y', 'javascript:1', `${base}/api/v1/me`, `${base}.example.org${port}`]) {
			to = beyond;
			assert.equal((await get(`${port}start`)).get('location'), null, beyond);
		}
		at.handler = undefined;
	});

	it('takes nothing that code in a sandbox answers for a word of the worker, and keeps Authorization for it', async () => {
		const made = await make(), at = workerOf(made), where = `/p/${made.id}/8000/x`;
		at.handler = (_, res) => at.say(res, 401, { code: 'identity_missing' });
		assert.deepEqual(await json(await call('GET', where)), { code: 'identity_missing' });
		const heard = async (authorization: string): Promise<string | undefined> => {
			await (await call('GET', where, { headers: { authorization } })).text();
			return at.heard.at(-1)!.headers.authorization;
		};
		assert.deepEqual([await heard('Basic dTpw'), await heard(`bearer ${KEY}`)], ['Basic dTpw', undefined]);
		at.handler = undefined;
		await call('GET', `/api/v1/sandboxes/${made.id}`, { headers: { authorization: 'Basic dTpw' } });
		assert.equal(at.heard.at(-1)!.headers.authorization, undefined);
	});

	it('believes no worker without the name of one', async () => {
		const other = new Authority(scratch('router-other'), 'other');
		const bad = [
			await new FakeWorker('bad', routerFiles, authority.ca, []).listen(), // the certificate of a router
			await new FakeWorker('bae', other.certificate('worker'), authority.ca, []).listen(), // of another authority
		];
		newList(one.at, two.at, ...bad.map((b) => b.at));
		await until('the list is read', async () => (await (await fetch(`${base}/readyz`)).text()).includes('of 4'), 5_000);
		await until('they have been asked', () => /certificate is not one of a worker[\s\S]*certificate is not one of a worker/.test(program.stderr), 5_000);
		assert.match(await (await fetch(`${base}/readyz`)).text(), /^ready: 2 of 4/);
		assert.deepEqual((await json(await call('GET', '/api/v1/sandboxes'))).workers_missing, ['unknown', 'unknown']);
		bad.forEach((b) => b.close());
		newList(one.at, two.at);
	});

	it('keeps a list of workers that can be read when the new one cannot', async () => {
		newList(one.at, 'worker..example.org:8443');
		await until('the log says so', () => program.stderr.includes('is neither a numeric address nor a DNS name'), 5_000);
		assert.equal((await make()).worker !== undefined, true);
		newList(one.at, two.at);
	});

	it('sends nothing new to a worker that drains, and says what it cannot reach', async () => {
		one.draining = true;
		await usable(1);
		for (let i = 0; i < 4; i++)
			assert.equal((await make()).worker, 'zz9');
		one.draining = false;
		await usable(2);
		const lost = [...one.sandboxes][0]!;
		const named = async (key: string): Promise<Json> => json(await call('POST', '/api/v1/sandboxes', { body: {}, headers: { 'idempotency-key': key } }));
		const keys = Array.from({ length: 8 }, (_, i) => `again-${i}`), homes = await Promise.all(keys.map(named));
		one.close();
		const began = Date.now();
		await usable(1);
		assert.ok(Date.now() - began < 3000, `${Date.now() - began} ms`);
		for (let i = 0; i < 4; i++)
			assert.equal((await make()).worker, 'zz9');
		const r = await call('GET', `/api/v1/sandboxes/${lost}`);
		assert.deepEqual([r.status, r.headers.get('retry-after'), (await json(r)).code], [503, '2', 'node_unreachable']);
		const all = await json(await call('GET', '/api/v1/sandboxes'));
		assert.deepEqual(all.workers_missing, ['ab3']);
		/* What was perhaps done there is not done a second time elsewhere. */
		for (const [i, key] of keys.entries()) {
			const { worker, code } = await named(key);
			assert.deepEqual([worker, code], homes[i]!.worker === 'zz9' ? ['zz9', undefined] : [undefined, 'node_unreachable'], key);
		}
		const claimer = await new FakeWorker('ab3', workerFiles, authority.ca, []).listen();
		newList(one.at, two.at, claimer.at);
		await until('the id of a silent worker is not given to another one', () => program.stderr.includes('worker_refused'), 5_000);
		assert.equal((await json(await call('GET', `/api/v1/sandboxes/${lost}`))).code, 'node_unreachable');
		assert.equal(claimer.heard.length, 0);
		claimer.close();
		two.close();
		await usable(0);
		const none = await call('POST', '/api/v1/sandboxes', { body: {} });
		assert.deepEqual([none.status, (await json(none)).code, (await fetch(`${base}/readyz`)).status], [503, 'fleet_empty', 503]);
	});

	it('says at its start what it lacks', async () => {
		const say = async (change: Record<string, string | undefined>): Promise<string> => {
			const r = await caisson(['serve', '--listen', '127.0.0.1:0'], { env: { ...env, ...change }, under: underRouter });
			assert.equal(r.code, 78, r.stderr.toString());
			return r.stderr.toString();
		};
		assert.match(await say({ SANDBOX_FLEET_WORKERS: undefined }), /SANDBOX_ROLE=router needs SANDBOX_FLEET_WORKERS/);
		assert.match(await say({ SANDBOX_FLEET_WORKERS: '/nowhere' }), /SANDBOX_FLEET_WORKERS: cannot read/);
		assert.match(await say({ SANDBOX_ROLE: undefined }), /SANDBOX_FLEET_CA is for members of a fleet/);
		assert.match(await say({ SANDBOX_FACES: 'other' }), /SANDBOX_FACES: e2b is the only one/);
		assert.match(await say({ SANDBOX_OBJECTS_BUCKET: 'snapshots' }), /SANDBOX_OBJECTS_BUCKET needs SANDBOX_OBJECTS_ENDPOINT, too/);
		assert.match(await say({ SANDBOX_OBJECTS_BUCKET: 'snapshots', SANDBOX_OBJECTS_CREDENTIALS: '/f', SANDBOX_OBJECTS_ENDPOINT: 'https://h/snapshots' }), /SANDBOX_OBJECTS_ENDPOINT: give https:/);
		assert.match(await say({ SANDBOX_FLEET_CERTIFICATE_KEY: authority.ca }), /certificate or its key cannot be used/);
	});
});
