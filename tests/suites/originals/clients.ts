// SPDX-License-Identifier: Apache-2.0
// The two originals' clients: the first's over stdio, the second's over HTTP+SSE.

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { newStateDir } from '../../lib/env.ts';
import type { Program } from '../../lib/process.ts';
import { open, requestTimeoutMs, serve, type Json, type Session, type ToolResult } from '../../lib/session.ts';

export type Env = Record<string, string | undefined>;

/** A server of the first family for the duration of BODY. */
export async function first(env: Env, body: (s: Session) => Promise<void>): Promise<void> {
	const s = await open('stdio', { profile: 'code', env });
	try {
		await body(s);
	} finally {
		await s.end();
	}
}

export class Second {
	readonly program: Program;
	readonly base: string;
	readonly client = new Client({ name: 'originals', version: '1' });

	constructor(program: Program, base: string) {
		this.program = program;
		this.base = base;
	}

	async raw(name: string, args: Json = {}): Promise<ToolResult> {
		return (await this.client.callTool({ name, arguments: args }, undefined, { timeout: requestTimeoutMs })) as ToolResult;
	}

	/** Every tool of the family answers with one text of JSON, indented by two; an empty list is no text at all. */
	async call(name: string, args: Json = {}): Promise<any> {
		const r = await this.raw(name, args);
		assert.equal(r.isError, false, JSON.stringify(r));
		if (r.content.length === 0)
			return [];
		const value = JSON.parse(r.content[0]!.text);
		assert.equal(r.content[0]!.text, JSON.stringify(value, null, 2));
		return value;
	}

	async create(name?: string): Promise<string> {
		const made = await this.call('create_sandbox', name === undefined ? {} : { name });
		assert.ok(made.sandbox_id, JSON.stringify(made));
		return made.sandbox_id as string;
	}

	python(sandbox_id: string, code: string): Promise<Json> {
		return this.call('execute_python_code', { sandbox_id, code });
	}

	terminal(sandbox_id: string, command: string): Promise<Json> {
		return this.call('execute_terminal_command', { sandbox_id, command });
	}

	async end(): Promise<void> {
		await this.client.close();
		await this.program.end();
	}
}

export interface SecondOptions {
	env?: Env;
	args?: string[];
	cwd?: string;
	/** The key in the address of the event stream, as the second original's page shows it. */
	key?: string;
}

export async function openSecond(o: SecondOptions = {}): Promise<Second> {
	const { program, base } = await serve({ profile: 'classic', ...o, env: { SANDBOX_STATE_DIR: newStateDir(), ...o.env } });
	const s = new Second(program, base);
	try {
		await s.client.connect(new SSEClientTransport(new URL(`${base}/sse${o.key ? `?api_key=${o.key}` : ''}`)));
	} catch (e) {
		await program.end();
		throw e;
	}
	return s;
}

/** A server of the second family for the duration of BODY. */
export async function second(o: SecondOptions, body: (s: Second) => Promise<void>): Promise<void> {
	const s = await openSecond(o);
	try {
		await body(s);
	} finally {
		await s.end();
	}
}
