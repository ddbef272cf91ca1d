// SPDX-License-Identifier: Apache-2.0
// A stdio client without manners: sends any bytes, sees every line that comes back.

import assert from 'node:assert/strict';
import { start, type Program, type StartOptions } from './process.ts';
import { until } from './wait.ts';
import type { Json } from './session.ts';

export class RawClient {
	readonly program: Program;
	readonly lines: string[] = [];
	private rest = '';
	private nextId = 1;

	constructor(o: StartOptions = {}, args: string[] = ['stdio', '--profile', 'code']) {
		this.program = start(args, { ...o, keepInput: true });
		const decoder = new TextDecoder();
		this.program.child.stdout!.on('data', (bytes: Buffer) => {
			const parts = (this.rest + decoder.decode(bytes, { stream: true })).split('\n');
			this.rest = parts.pop()!;
			this.lines.push(...parts);
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
		return this.lines.map((l) => JSON.parse(l) as Json);
	}
	answer(id: number | string | null, deadlineMs = 30_000): Promise<Json> {
		return until(`the answer to ${id}`, () => {
			if (this.program.child.exitCode !== null)
				throw new Error(`the server ended: ${this.program.stderr}`);
			return this.messages().find((m) => m.id === id && m.method === undefined);
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
		assert.doesNotMatch(this.program.stderr, /Sanitizer|runtime error/);
	}
}
