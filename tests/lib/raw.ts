// SPDX-License-Identifier: Apache-2.0
// A stdio client without manners: sends any bytes, sees every line that comes back.

import assert from 'node:assert/strict';
import { start, type Program, type StartOptions } from './process.ts';
import { until } from './wait.ts';
import type { Json } from './session.ts';

export class RawClient {
	readonly program: Program;
	readonly lines: string[] = [];
	private rest: string[] = []; // of a line that has not ended
	private parsed: Json[] = []; // of lines, as far as somebody has asked
	private nextId = 1;

	constructor(o: StartOptions = {}, args: string[] = ['stdio', '--profile', 'code']) {
		this.program = start(args, { ...o, keepInput: true });
		const decoder = new TextDecoder();
		this.program.child.stdout!.on('data', (bytes: Buffer) => {
			// A line of megabytes comes in hundreds of pieces: none is looked at twice.
			const parts = decoder.decode(bytes, { stream: true }).split('\n');
			if (parts.length > 1)
				this.lines.push(this.rest.splice(0).join('') + parts.shift()!, ...parts.splice(0, parts.length - 1));
			this.rest.push(parts[0]!);
		});
	}
	get pid(): number {
		return this.program.pid;
	}
	send(bytes: string | Buffer): Promise<void> {
		return new Promise((resolve) => this.program.child.stdin!.write(bytes, () => resolve()));
	}
	sendJson(o: unknown): Promise<void> {
		return this.send(JSON.stringify(o) + '\n');
	}
	messages(): Json[] {
		while (this.parsed.length < this.lines.length)
			this.parsed.push(JSON.parse(this.lines[this.parsed.length]!) as Json);
		return [...this.parsed];
	}
	answer(id: number | string | null, deadlineMs = 30_000): Promise<Json> {
		return until(`the answer to ${id}`, () => {
			const { exitCode, stdout } = this.program.child;
			const all = exitCode !== null && stdout!.readableEnded; // before the look: its last lines may come after its end
			const found = this.messages().find((m) => m.id === id && m.method === undefined);
			if (!found && all)
				throw new Error(`the server ended: ${this.program.stderr}`);
			return found;
		}, deadlineMs);
	}
	async request(method: string, params?: Json, deadlineMs?: number): Promise<Json> {
		const id = `r${this.nextId++}`;
		await this.sendJson({ jsonrpc: '2.0', id, method, ...(params ? { params } : {}) });
		return this.answer(id, deadlineMs);
	}
	async initialize(version = '2025-11-25'): Promise<Json> {
		const r = await this.request('initialize', { protocolVersion: version, capabilities: {}, clientInfo: { name: 'raw', version: '1' } });
		await this.sendJson({ jsonrpc: '2.0', method: 'notifications/initialized' });
		return r;
	}
	/** tools/call of the first family; the object inside. */
	async tool(name: string, args: Json, deadlineMs?: number): Promise<Json> {
		const r = await this.request('tools/call', { name, arguments: args }, deadlineMs);
		assert.ok(r.result, JSON.stringify(r));
		return r.result.structuredContent?.result ?? r.result;
	}
	/** Proves that the server still serves. */
	async alive(): Promise<void> {
		assert.deepEqual((await this.request('ping')).result, {});
	}
	async end(): Promise<void> {
		await this.program.end();
		assert.doesNotMatch(this.program.stderr, /Sanitizer|runtime error|broken promise/);
	}
}
