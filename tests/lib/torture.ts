// SPDX-License-Identifier: Apache-2.0
// Allocations of a server that fail when a test says so (tests/suites/torture/enomem.c), and walks over those of one request.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as net from 'node:net';
import path from 'node:path';
import { binary, scratch } from './env.ts';
import { openDescriptors, type Program } from './process.ts';
import { serve, type Json, type OpenOptions } from './session.ts';
import { until } from './wait.ts';

export const library = path.join(path.dirname(binary), 'tests/suites/torture/enomem.so');
const roundsMax = 1500;
/** Of a request with more allocations than this each second one fails, or each third: an export has one for each cell that came before. */
const roundsFull = 1000;
/** CAISSON_TEST_FULL=1: each allocation of each request; else at most so many of them, evenly chosen. */
const full = process.env.CAISSON_TEST_FULL === '1';

/** struct control of enomem.c. */
export class Control {
	readonly file: string;
	private fd: number;
	constructor() {
		this.file = path.join(scratch('enomem'), 'control');
		fs.writeFileSync(this.file, Buffer.alloc(24));
		fs.chmodSync(this.file, 0o666);
		this.fd = fs.openSync(this.file, 'r+');
	}
	private get(at: number): bigint {
		const b = Buffer.alloc(8);
		fs.readSync(this.fd, b, 0, 8, at);
		return b.readBigInt64LE();
	}
	arm(n: number): void {
		const b = Buffer.alloc(8);
		b.writeBigInt64LE(BigInt(n));
		fs.writeSync(this.fd, b, 0, 8, 0);
	}
	get fired(): number {
		return Number(this.get(8));
	}
	/** Allocations of what BODY asks for. */
	async count(body: () => Promise<unknown>): Promise<number> {
		this.arm(1_000_000_000);
		await body();
		const left = Number(this.get(0));
		this.arm(0);
		return 1_000_000_000 - left;
	}
	get live(): number {
		return Number(this.get(16));
	}
	close(): void {
		fs.closeSync(this.fd);
	}
}

export interface Answer { status: number; headers: Record<string, string>; body: string }

/** One request on a connection of its own; undefined when the server closed it without a whole answer. */
export function ask(port: number, method: string, target: string, headers: Record<string, string>, body = ''): Promise<Answer | undefined> {
	return new Promise((resolve) => {
		let text = '';
		const socket = net.connect(port, '127.0.0.1', () =>
			socket.write(`${method} ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n` +
				Object.entries(headers).map(([k, v]) => `${k}: ${v}\r\n`).join('') + (body ? `Content-Length: ${Buffer.byteLength(body)}\r\n` : '') + `\r\n${body}`));
		socket.setEncoding('latin1').on('data', (s: string) => {
			text += s;
			if (/^HTTP\/1\.1 200 OK\r\n[^]*text\/event-stream[^]*\r\n\r\n[^]*data: /.test(text) && method === 'GET')
				socket.destroy();
		});
		socket.on('error', () => {});
		socket.setTimeout(30_000, () => socket.destroy(new Error('silence')));
		socket.on('close', () => {
			const head = /^HTTP\/1\.1 (\d+)[^]*?\r\n\r\n/.exec(text);
			if (!head) return resolve(undefined);
			const lines = head[0].split('\r\n').slice(1);
			resolve({
				status: Number(head[1]), body: text.slice(head[0].length),
				headers: Object.fromEntries(lines.map((l) => [l.split(':')[0]!.toLowerCase(), l.slice(l.indexOf(':') + 1).trim()])),
			});
		});
	});
}

export const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
let id = 0; // never the same: a request whose answer got lost may still be at work
export const rpc = (method: string, params: Json = {}): string => JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params });
export const call = (name: string, args: Json): string => rpc('tools/call', { name, arguments: args });
export const initialize = (): string => rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'torture', version: '1' } });

type Ask = () => Promise<Answer | undefined>;

/** A JSON-RPC answer, a typed error, or a refusal by HTTP. */
function typed(r: Answer, may?: number): void {
	assert.ok(r.status === may || [200, 201, 202, 204, 206, 400, 404, 405, 409, 410, 413, 422, 429, 431, 500, 503, 507].includes(r.status), `${r.status} ${r.body}`);
	if (r.headers['content-type'] === 'application/problem+json' && r.body)
		assert.equal(typeof (JSON.parse(r.body) as Json).code, 'string', r.body);
	if (r.status === 200 && r.headers['content-type'] === 'application/json' && /"jsonrpc"/.test(r.body)) {
		const o = JSON.parse(r.body) as Json;
		assert.ok(o.result !== undefined || typeof o.error?.code === 'number', r.body);
	}
}

/** A server with that allocator, and a session `torture` with a file. */
export class Torture {
	private program!: Program;
	port = 0;
	private control!: Control;
	private session: Record<string, string> = {};

	async start(o: OpenOptions): Promise<void> {
		this.control = new Control();
		({ program: this.program, port: this.port } = await serve({ profile: 'all', ...o, env: { LD_PRELOAD: library, ENOMEM_CONTROL: this.control.file, SANDBOX_MAX_SESSIONS: '50', SANDBOX_POOL: '0', ...o.env } }));
		await this.begin();
		await this.good(call('sandbox_run_python', { session_id: 'torture', code: 'open("a.txt", "w").write("a" * 1000)' }));
	}
	async end(): Promise<void> {
		this.program.kill('SIGTERM');
		await this.program.exit;
		this.control.close();
	}

	ask(method: string, target: string, headers: Record<string, string> = {}, body = ''): Promise<Answer | undefined> {
		return ask(this.port, method, target, headers, body);
	}
	private async begin(): Promise<void> {
		const r = await this.ask('POST', '/mcp', json, initialize());
		this.session = { ...json, 'Mcp-Session-Id': r!.headers['mcp-session-id']!, 'MCP-Protocol-Version': '2025-11-25' };
	}
	/** A message of the MCP session. */
	post(body: string): Promise<Answer | undefined> {
		return this.ask('POST', '/mcp', this.session, body);
	}
	async good(body: string): Promise<void> {
		const r = await this.post(body);
		assert.equal(r?.status, 200, JSON.stringify(r));
		assert.doesNotMatch(r!.body, /"isError":true|"error":\{/);
	}

	/** Blocks that the server holds when nothing goes on and the client's session has ended: the fewest for a while, or `enough` if they ever are that few. */
	private async blocksAtRest(request: () => Promise<unknown>, looks: number, enough = Number.POSITIVE_INFINITY): Promise<number> {
		await this.begin();
		await request();
		await this.ask('DELETE', '/mcp', this.session);
		let least = this.control.live;
		// What was cut off may still be at work, interpreters are made in the background.
		for (let i = 0; i < looks || (least > enough && i < 500); i++) {
			await new Promise((done) => setTimeout(done, 10));
			least = Math.min(least, this.control.live);
		}
		return least;
	}

	/** The N-th allocation of what `request` sends fails; false = there are not so many. */
	private async one(n: number, request: Ask, clean: () => Promise<unknown>, may?: number, never?: RegExp): Promise<boolean> {
		const fired = this.control.fired;
		this.control.arm(n);
		const r = await request();
		this.control.arm(0);
		assert.equal(this.program.child.exitCode ?? this.program.child.signalCode, null, `allocation ${n}: the server ended: ${this.program.stderr}`);
		if (r)
			typed(r, may);
		if (r && never)
			assert.doesNotMatch(r.body, never, `allocation ${n}`);
		await clean();
		return this.control.fired !== fired;
	}

	/** Each of them, or ROUNDS of them. How many failed. */
	private async pass(request: Ask, clean: () => Promise<unknown>, rounds: number, may?: number, never?: RegExp): Promise<[number, number]> {
		await this.begin();
		const all = await this.control.count(request);
		await clean();
		assert.ok(all > 0, 'nothing was allocated');
		const step = full ? Math.ceil(all / roundsFull) : Math.max(1, Math.floor(all / rounds));
		let tried = 0;
		for (let n = 1; n <= roundsMax && (step === 1 || n <= all); n += step) {
			if (await this.one(n, request, clean, may, never))
				tried++;
			else if (step === 1)
				break;
			assert.ok(step > 1 || n < roundsMax, `more than ${roundsMax} allocations`);
		}
		// The server serves as before.
		await this.good(call('sandbox_run_python', { session_id: 'torture', code: 'print(6*7)' }));
		await this.ask('DELETE', '/mcp', this.session);
		return [tried, Math.max(all, tried)];
	}

	/** What leaks, leaks in each pass; what a cache took, it takes once. MAY is a status that is right, beside the usual ones; NEVER is what no answer
	 * may say.
	 * KEEPS is how many answers to such requests the server keeps before each new one takes the place of the oldest; EACH is how many blocks
	 * one request may leave until the server ends. */
	async torture(request: Ask, o: { clean?: () => Promise<unknown>; spare?: number; rounds?: number; may?: number; never?: RegExp; keeps?: number; each?: number } = {}): Promise<string> {
		const { clean = async () => {}, rounds = roundsMax } = o;
		const least = o.spare !== undefined && !(full && o.keeps) ? o.spare : 8;
		if (full)
			for (let i = 0; i < (o.keeps ?? 0); i++)
				await request();
		const both = async (): Promise<unknown> => (await request(), await clean());
		const looks = rounds === roundsMax || full ? 20 : 5;
		await this.blocksAtRest(both, looks);
		const descriptors = openDescriptors(this.program.pid);
		let blocks = await this.blocksAtRest(both, looks), more = 0, n = 0, all = 0, spare = least;
		for (let passes = 0; passes < 3; passes++) {
			[n, all] = await this.pass(request, clean, rounds, o.may, o.never);
			spare = least + (o.each ?? 0) * n;
			const now = await this.blocksAtRest(both, looks, blocks + spare);
			more = now - blocks;
			blocks = now;
			if (more <= spare)
				break;
		}
		assert.ok(more <= spare, `${more} blocks more after each ${n} failures`);
		await until('descriptors to go', () => openDescriptors(this.program.pid) <= descriptors + 8);
		await this.begin();
		return `${n} of ${all} allocations failed, ${more} blocks more afterwards`;
	}
}
