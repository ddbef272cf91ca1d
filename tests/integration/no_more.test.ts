// SPDX-License-Identifier: Apache-2.0
// Watches of epoll and descriptors run out, at every call of the front that takes one: what it has goes on, what is new is refused with a
// typed error, and when there are some again it serves as before.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as http from 'node:http';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { binary, sanitized, scratch, unlessEnforced } from '../lib/env.ts';
import { openDescriptors, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const WATCHES = 1, ACCEPTS = 2, DESCRIPTORS = 4;
const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** struct control of tests/suites/torture/calls.c. */
class Control {
	readonly file = path.join(scratch('calls'), 'control');
	private fd: number;
	constructor() {
		fs.writeFileSync(this.file, Buffer.alloc(32));
		fs.chmodSync(this.file, 0o666);
		this.fd = fs.openSync(this.file, 'r+');
	}
	private put(at: number, n: number): void {
		const b = Buffer.alloc(8);
		b.writeBigInt64LE(BigInt(n));
		fs.writeSync(this.fd, b, 0, 8, at);
	}
	private get(at: number): number {
		const b = Buffer.alloc(8);
		fs.readSync(this.fd, b, 0, 8, at);
		return Number(b.readBigInt64LE());
	}
	/** The N-th call of WHICH fails, and with ON all after it. */
	arm(which: number, n: number, on = false): void {
		this.put(0, 0);
		this.put(16, which);
		this.put(24, on ? 1 : 0);
		this.put(0, n);
	}
	get fired(): number {
		return this.get(8);
	}
	get left(): number {
		return this.get(0);
	}
	close(): void {
		fs.closeSync(this.fd);
	}
}

describe('no more watches and descriptors', { skip: sanitized ? 'the library is made for servers without sanitizers' : false }, () => {
	const control = new Control();
	let program: Program, base: string;
	let stream: http.IncomingMessage, streamEnded = false;

	/** A connection that was there before; it must outlive everything. */
	const kept = new http.Agent({ keepAlive: true, maxSockets: 1 });
	interface Answer { status: number; body: string; socket: object }
	const ask = (agent: http.Agent | undefined, method: string, target: string, body?: Json, ms = 10_000): Promise<Answer | undefined> =>
		new Promise((resolve) => {
			const r = http.request(base + target, { agent: agent ?? new http.Agent(), method, headers: { ...json, ...(agent ? {} : { connection: 'close' }) }, timeout: ms }, (m) => {
				let text = '';
				m.setEncoding('utf8').on('data', (d: string) => (text += d)).on('end', () => resolve({ status: m.statusCode!, body: text, socket: r.socket! })).on('error', () => resolve(undefined));
			});
			r.on('error', () => resolve(undefined)).on('timeout', () => r.destroy());
			r.end(body && JSON.stringify(body));
		});
	const api = (method: string, target: string, body?: Json): Promise<Answer | undefined> => ask(undefined, method, `/api/v1${target}`, body);
	const run = (agent: http.Agent | undefined, code: string): Promise<Answer | undefined> =>
		ask(agent, 'POST', `/api/v1/sandboxes/${here}/runs`, { code, wait: true });
	const alive = async (what: string): Promise<void> => {
		assert.equal(program.child.exitCode ?? program.child.signalCode, null, `${what}: the server ended: ${program.stderr}`);
		assert.equal(streamEnded, false, `${what}: the stream was cut`);
		const r = await ask(kept, 'GET', '/healthz');
		assert.deepEqual([r?.status, r?.socket === socket], [200, true], `${what}: the connection that existed`);
	};
	let socket: object, here: string;

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { LD_PRELOAD: path.join(path.dirname(binary), 'tests/suites/torture/calls.so'), CALLS_CONTROL: control.file, SANDBOX_POOL: '0', SANDBOX_MAX_SESSIONS: '50' } }));
		here = JSON.parse((await api('POST', '/sandboxes', {}))!.body).id;
		const r = await run(undefined, 'open("a.txt", "w").write("a" * 1000)');
		assert.equal(r!.status, 201, r!.body);
		stream = await new Promise((resolve, reject) => http.get(`${base}/sse`, { agent: new http.Agent(), headers: { accept: 'text/event-stream' } }, resolve).on('error', reject));
		stream.on('close', () => (streamEnded = true)).resume();
		socket = (await ask(kept, 'GET', '/healthz'))!.socket;
	});
	after(async () => {
		stream.destroy();
		kept.destroy();
		control.arm(0, 0);
		await program.end();
		control.close();
	});

	let made = 0;
	const requests: [string, () => Promise<Answer | undefined>, ((r: Answer) => unknown)?][] = [
		['a page', () => ask(undefined, 'GET', '/healthz')],
		['a run', () => run(kept, 'print(6*7)')],
		['a file', () => ask(kept, 'GET', `/api/v1/sandboxes/${here}/files/content?path=a.txt`)],
		['an upload', () => ask(undefined, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'sandbox_write_file', arguments: { session_id: here, path: 'b.txt', content: 'b'.repeat(2_000_000) }, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } } })],
		['an archive', () => ask(undefined, 'GET', `/api/v1/sandboxes/${here}/files/content?path=.&archive=tar`)],
		['a checkpoint', () => ask(undefined, 'POST', `/api/v1/sandboxes/${here}/checkpoints`, { name: `c${++made}` })],
		['a sandbox', () => ask(undefined, 'POST', '/api/v1/sandboxes', {}), (r) => r.status === 201 && api('DELETE', `/sandboxes/${JSON.parse(r.body).id}`)],
		['a list of packages', () => ask(undefined, 'GET', `/api/v1/sandboxes/${here}/packages`)],
		['a login', () => ask(undefined, 'POST', '/api/token', { username: 'x', password: 'yyyyyyyyyyyy' })],
	];

	for (const [name, request, clean] of requests)
		it(`(slow) each one of ${name} fails once`, async () => {
			const descriptors = openDescriptors(program.pid);
			control.arm(WATCHES | ACCEPTS | DESCRIPTORS, 1_000_000);
			const first = await request();
			assert.ok(first, 'an answer');
			const all = 1_000_000 - control.left;
			control.arm(0, 0);
			await clean?.(first);
			for (let n = 1; n <= Math.min(all + 2, 60); n++) {
				control.arm(WATCHES | ACCEPTS | DESCRIPTORS, n);
				const r = await request();
				control.arm(0, 0);
				if (r && r.status >= 400 && /^\{/.test(r.body))
					assert.ok(r.status !== 500 || /"code"|"detail"|"error"/.test(r.body), `${n}: ${r.status} ${r.body}`);
				await alive(`call ${n} of ${name}`);
				if (r)
					await clean?.(r);
			}
			const works = await run(undefined, 'print(6*7)');
			assert.match(works?.body ?? 'none', /42/);
			await until('descriptors to go', () => openDescriptors(program.pid) <= descriptors + 12);
		});

	it('the policy says whether sandboxes have watches of their own', async () => {
		const r = await ask(undefined, 'GET', '/api/v1/policy');
		assert.equal(JSON.parse(r!.body).server.watches, unlessEnforced('own_uid') ? 'shared' : 'own');
	});

	for (const [name, which] of [['watches', WATCHES], ['descriptors', DESCRIPTORS | ACCEPTS]] as const)
		it(`(slow) none of all ${name} for a while`, async () => {
			control.arm(which, 1, true);
			const fired = control.fired;
			const answers: (number | undefined)[] = [];
			for (let i = 0; i < 6; i++) {
				answers.push((await ask(undefined, 'GET', '/healthz', undefined, 300))?.status);
				for (const [what, request] of requests.slice(1, 3)) {
					const r = await request(); // of those on the connection that exists
					assert.ok(r && (r.status < 300 || /"code"/.test(r.body)), `${what}: ${r?.status} ${r?.body}`);
					await alive(`${name}, ${what}`);
				}
			}
			assert.ok(control.fired > fired, 'something failed');
			assert.ok(answers.every((status) => status !== 200), `new connections: ${answers}`);
			control.arm(0, 0);
			await until('new connections', async () => (await ask(undefined, 'GET', '/healthz'))?.status === 200);
			const works = await run(undefined, 'print(6*7)');
			assert.match(works?.body ?? 'none', /42/);
			assert.equal((await api('POST', '/sandboxes', {}))?.status, 201);
		});
});
