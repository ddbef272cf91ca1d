// SPDX-License-Identifier: Apache-2.0
// One allocation after the other fails, in every request that a client can make: each time the answer is a typed error or
// the end of the connection; the server goes on, and nothing of the request stays behind.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as net from 'node:net';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { binary, mode, sanitized, scratch } from '../lib/env.ts';
import { openDescriptors, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const library = path.join(path.dirname(binary), 'tests/torture/enomem.so');
const roundsMax = 1500;

/** struct control of enomem.c. */
class Control {
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
	get live(): number {
		return Number(this.get(16));
	}
	close(): void {
		fs.closeSync(this.fd);
	}
}

interface Answer { status: number; headers: Record<string, string>; body: string }

/** One request on a connection of its own; undefined when the server closed it without a whole answer. */
function ask(port: number, method: string, target: string, headers: Record<string, string>, body = ''): Promise<Answer | undefined> {
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

const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
let id = 0; // never the same: a request whose answer got lost may still be at work
const rpc = (method: string, params: Json = {}) => JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params });
const call = (name: string, args: Json) => rpc('tools/call', { name, arguments: args });
const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
const initialize = () => rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'torture', version: '1' } });

describe('every allocation fails once', {
	skip: sanitized ? 'the sanitizers have an allocator of their own; test_mcp_torture runs under them'
		: mode === 'root' ? false : 'once is enough: the front is the same for everybody',
}, () => {
	let program: Program, port: number, control: Control, session: Record<string, string>;

	before(async () => {
		control = new Control();
		({ program, port } = await serve({ profile: 'full', env: { LD_PRELOAD: library, ENOMEM_CONTROL: control.file, SANDBOX_MAX_SESSIONS: '50', SANDBOX_POOL: '0' } }));
		await begin();
		await good(call('sandbox_run_python', { session_id: 'torture', code: 'open("a.txt", "w").write("a" * 1000)' }));
	});
	after(async () => {
		program.kill('SIGTERM');
		await program.exit;
		control.close();
	});

	async function begin(): Promise<void> {
		const r = await ask(port, 'POST', '/mcp', json, initialize());
		session = { ...json, 'Mcp-Session-Id': r!.headers['mcp-session-id']!, 'MCP-Protocol-Version': '2025-11-25' };
	}
	const post = (body: string) => ask(port, 'POST', '/mcp', session, body);
	async function good(body: string): Promise<void> {
		const r = await post(body);
		assert.equal(r?.status, 200, JSON.stringify(r));
		assert.doesNotMatch(r!.body, /"isError":true|"error":\{/);
	}

	/** Blocks that the server holds when nothing goes on and the client's session has ended: the fewest for a while, or `enough` if they ever are that few. */
	async function blocksAtRest(request: () => Promise<unknown>, enough = Number.POSITIVE_INFINITY): Promise<number> {
		await begin();
		await request();
		await ask(port, 'DELETE', '/mcp', session);
		let least = control.live;
		// What was cut off may still be at work, interpreters are made in the background.
		for (let i = 0; i < 20 || (least > enough && i < 500); i++) {
			await new Promise((done) => setTimeout(done, 10));
			least = Math.min(least, control.live);
		}
		return least;
	}

	/** Fails the first allocation of what `request` sends, then the second, and so on until none fails any more. */
	async function pass(request: () => Promise<Answer | undefined>, clean: () => Promise<unknown>): Promise<number> {
		await begin();
		for (let n = 1; n <= roundsMax; n++) {
			const fired = control.fired;
			control.arm(n);
			const r = await request();
			control.arm(0);
			assert.equal(program.child.exitCode ?? program.child.signalCode, null, `allocation ${n}: the server ended: ${program.stderr}`);
			if (r)
				typed(r);
			await clean();
			if (control.fired === fired) {
				assert.ok(n > 1, 'nothing was allocated');
				// The server serves as before.
				await good(call('sandbox_run_python', { session_id: 'torture', code: 'print(6*7)' }));
				await ask(port, 'DELETE', '/mcp', session);
				return n - 1;
			}
		}
		throw new Error(`more than ${roundsMax} allocations`);
	}

	/** What leaks, leaks in each pass; what a cache took, it takes once. */
	async function torture(request: () => Promise<Answer | undefined>, clean: () => Promise<unknown> = async () => {}, spare = 8): Promise<string> {
		const both = async () => (await request(), await clean());
		await blocksAtRest(both);
		const descriptors = openDescriptors(program.pid);
		let blocks = await blocksAtRest(both), more = 0, n = 0;
		for (let passes = 0; passes < 3; passes++) {
			n = await pass(request, clean);
			const now = await blocksAtRest(both, blocks + spare);
			more = now - blocks;
			blocks = now;
			if (more <= spare)
				break;
		}
		assert.ok(more <= spare, `${more} blocks more after each ${n} failures`);
		await until('descriptors to go', () => openDescriptors(program.pid) <= descriptors + 8);
		await begin();
		return `${n} allocations failed, ${more} blocks more afterwards`;
	}
	/** A JSON-RPC answer, a typed error, or a refusal by HTTP. */
	function typed(r: Answer): void {
		assert.ok([200, 202, 400, 404, 405, 413, 431, 500, 503].includes(r.status), `${r.status} ${r.body}`);
		if (r.status === 200 && r.headers['content-type'] === 'application/json' && r.body) {
			const o = JSON.parse(r.body) as Json;
			assert.ok(o.result !== undefined || typeof o.error?.code === 'number', r.body);
		}
	}

	const table: Array<[string, () => Promise<Answer | undefined>]> = [
		['ping', () => post(rpc('ping'))],
		['tools/list', () => post(rpc('tools/list'))],
		['prompts/get', () => post(rpc('prompts/get', { name: 'debug_error', arguments: { error: 'x' } }))],
		['resources/list', () => post(rpc('resources/list'))],
		['resources/read', () => post(rpc('resources/read', { uri: 'sandbox://torture/a.txt' }))],
		['a modern request', () => ask(port, 'POST', '/mcp', { ...json, 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/list' }, rpc('tools/list', { _meta: meta }))],
		['a long string', () => post(call('sandbox_upload_file', { session_id: 'torture', filename: 'b.bin', content_base64: 'QUJD'.repeat(50_000), overwrite: true }))],
		['list of artifacts', () => post(call('sandbox_list_artifacts', { session_id: 'torture' }))],
		['read of an artifact', () => post(call('sandbox_read_artifact', { session_id: 'torture', path: '/mnt/data/a.txt' }))],
		['edit of a file', () => post(call('sandbox_write_file', { session_id: 'torture', path: 'c.txt', content: 'text' }))],
		['info', () => post(call('sandbox_info', { session_id: 'torture' }))],
		['an artifact link', () => ask(port, 'GET', '/files/torture/a.txt', {})],
		['an event stream', () => ask(port, 'GET', '/sse', { Accept: 'text/event-stream' })],
		['rubbish', () => ask(port, 'POST', '/mcp', json, '{"jsonrpc":')],
	];
	for (const [name, request] of table)
		it(name, async (t) => t.diagnostic(await torture(request)));
	// A session whose answer got lost stays until it has idled long enough.
	it('initialize', async (t) => t.diagnostic(await torture(() => ask(port, 'POST', '/mcp', json, initialize()), undefined, 1500)));
	it('a run', async (t) =>
		t.diagnostic(await torture(() => post(call('sandbox_run_python', { session_id: 'torture', code: 'print(1)' })))));
	it('a new sandbox, and its end', async (t) =>
		t.diagnostic(await torture(() => post(call('sandbox_write_file', { session_id: 'made', path: 'x', content: 'x' })),
			() => post(call('sandbox_delete', { session_id: 'made' })))));
});
