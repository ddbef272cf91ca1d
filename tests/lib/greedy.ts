// SPDX-License-Identifier: Apache-2.0
// Users who take everything that a server gives: streams, sessions, subscriptions, unfinished messages, followers, tasks, sandboxes, keys, answers that
// nobody reads. A process of its own (`node greedy.ts BASE KEY...`), so that its work does not delay the clients that are measured. It prints one line of JSON
// at its end: how many answers had which status, by what was taken.

import * as net from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { spawn, type ChildProcess } from 'node:child_process';

type Json = Record<string, any>;

const PAUSE_MS = 30;
const HELD_SOCKETS = 8; // of each kind that holds a connection, for each user
const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'greedy', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } } };

export interface Taken {
	[what: string]: Record<string, number>;
}

/** The process with all greedy users. */
export class Greedy {
	private readonly child: ChildProcess;
	private text = '';

	constructor(base: string, keys: string[]) {
		this.child = spawn(process.execPath, [fileURLToPath(import.meta.url), base, ...keys], { stdio: ['pipe', 'pipe', 'inherit'] });
		this.child.stdout!.setEncoding('utf8').on('data', (t: string) => (this.text += t));
	}

	/** Lets go of everything; what was taken. */
	async end(): Promise<Taken> {
		const gone = new Promise((resolve) => this.child.on('close', resolve));
		this.child.stdin!.end();
		await gone;
		return JSON.parse(this.text) as Taken;
	}
}

class User {
	private readonly url: URL;
	private readonly base: string;
	private readonly key: string;
	private readonly taken: Taken;
	private readonly sockets: net.Socket[] = [];
	private ending = false;
	private box = '';
	private run = '';

	constructor(base: string, key: string, taken: Taken) {
		this.base = base;
		this.url = new URL(base);
		this.key = key;
		this.taken = taken;
	}

	private count(what: string, status: string | number): void {
		const row = (this.taken[what] ??= {});
		row[status] = (row[status] ?? 0) + 1;
	}

	private async ask(what: string, method: string, path: string, body?: Json, more: Record<string, string> = {}): Promise<{ body: Json; headers: Headers }> {
		const r = await fetch(this.base + path, { method, headers: { 'x-api-key': this.key, 'content-type': 'application/json', 'accept': 'application/json, text/event-stream', ...more }, body: body && JSON.stringify(body) });
		const text = await r.text();
		const data = /^data: (.*)$/m.exec(text)?.[1] ?? text;
		let json: Json = {};
		try {
			json = JSON.parse(data) as Json;
		} catch {
			// an answer without a body
		}
		this.count(what, json.error?.code === -32003 ? 'over' : r.status);
		return { body: json, headers: r.headers };
	}

	/** A connection that is held open; its head, and bytes of a body that never ends. */
	private async hold(what: string, head: string, body: string | Buffer = ''): Promise<void> {
		await new Promise<void>((resolve) => {
			const s = net.connect(Number(this.url.port), this.url.hostname, () => {
				s.write(`${head}\r\nHost: ${this.url.host}\r\nX-Api-Key: ${this.key}\r\n\r\n`);
				s.write(body);
			});
			this.sockets.push(s);
			s.once('data', (b: Buffer) => {
				this.count(what, b.toString('latin1', 9, 12));
				s.pause(); // an answer that nobody reads
				resolve();
			});
			s.on('error', () => this.count(what, 'reset')).on('close', resolve);
			setTimeout(resolve, 300);
		});
		while (this.sockets.length > 6 * HELD_SOCKETS)
			this.sockets.shift()!.destroy();
	}

	private async loops(): Promise<(() => Promise<unknown>)[]> {
		const stuff = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping', params: { x: Array.from({ length: 60_000 }, () => 'abcdefghijklmnopqrstuvwxyz') } }).slice(0, 1_500_000);
		const long = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"code":"${'x'.repeat(4 << 20)}`;
		let n = 0;
		const session = async (): Promise<string> =>
			(await this.ask('mcp_sessions', 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'g', version: '1' } } })).headers.get('mcp-session-id') ?? '';
		const mine = await session();
		return [
			session,
			() => this.hold('streams', 'GET /sse HTTP/1.1'),
			() => this.ask('subscriptions', 'POST', '/mcp', { jsonrpc: '2.0', id: 2, method: 'resources/subscribe', params: { uri: `sandbox://${this.box}/${'a'.repeat(200)}/${++n}` } }, { 'mcp-session-id': mine }),
			() => this.hold('message_memory', 'POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 3000000', stuff),
			() => this.hold('message_files', 'POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 60000000', long),
			() => this.hold('followers', `GET /api/v1/runs/${this.run}/events HTTP/1.1`),
			() => this.ask('tasks', 'POST', '/mcp', { jsonrpc: '2.0', id: 3, method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { session_id: this.box, code: 'import time; time.sleep(60)' }, _meta: meta } }, { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'sandbox_run_python' }),
			() => this.ask('sandboxes', 'POST', '/api/v1/sandboxes', {}, { 'idempotency-key': `k${++n}` }),
			() => this.ask('keys', 'POST', '/api/v1/keys', { name: 'more' }),
			() => this.hold('answer_memory', 'GET /api/v1/openapi.json HTTP/1.1'),
		];
	}

	async start(): Promise<void> {
		const made = await this.ask('sandboxes', 'POST', '/api/v1/sandboxes', {});
		this.box = made.body.id ?? 'none';
		const run = await this.ask('runs', 'POST', `/api/v1/sandboxes/${this.box}/runs`, { code: 'import time\nfor i in range(900): print("x" * 2000, flush=True); time.sleep(0.2)' });
		this.run = run.body.id ?? 'none';
		for (const turn of await this.loops())
			void (async () => {
				while (!this.ending) {
					await turn().catch((e: Error) => this.ending || this.count('failed', (e.cause as { code?: string } | undefined)?.code ?? e.message));
					await pause(PAUSE_MS + Math.random() * PAUSE_MS);
				}
			})();
	}

	end(): void {
		this.ending = true;
		for (const s of this.sockets)
			s.destroy();
	}
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const [base, ...keys] = process.argv.slice(2);
	const taken: Taken = {};
	const users = keys.map((key) => new User(base!, key, taken));
	process.stdin.resume().on('end', () => {
		for (const u of users)
			u.end();
		process.stdout.write(JSON.stringify(taken), () => process.exit(0));
	});
	for (const u of users)
		u.start().catch((e: Error) => console.error(`greedy: ${e.message}`));
}
