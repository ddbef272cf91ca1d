// SPDX-License-Identifier: Apache-2.0
// A server for a case, people on it, and MCP clients beside the page.

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Page } from 'playwright-core';
import { freePort, newStateDir } from '../../lib/env.ts';
import { caisson, start, type Program } from '../../lib/process.ts';
import type { Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import type { World } from './case.ts';

export const PASSWORD = 'correct horse battery';

export class Server {
	readonly base: string;
	readonly port: number;
	readonly state: string;
	program: Program;
	private readonly env: Record<string, string>;
	private readonly under?: string[];

	constructor(base: string, port: number, state: string, program: Program, env: Record<string, string>, under?: string[]) {
		this.base = base;
		this.port = port;
		this.state = state;
		this.program = program;
		this.env = env;
		this.under = under;
	}

	/** `caisson user add NAME` on the command line. */
	async person(name: string, role: 'user' | 'admin' = 'user'): Promise<void> {
		const r = await caisson(['user', 'add', name, '--role', role, '--email', `${name}@example.org`], { env: this.env, input: `${PASSWORD}\n` });
		assert.equal(r.code, 0, r.stderr.toString());
	}

	/** A new key of a person, made on the command line. */
	async key(name: string, scope = 'full'): Promise<string> {
		const r = await caisson(['key', 'new', name, '--scope', scope], { env: this.env });
		assert.equal(r.code, 0, r.stderr.toString());
		return r.stdout.toString().match(/csn_[\w-]+/)![0];
	}

	async rest(method: string, path: string, body?: unknown, key?: string): Promise<Json> {
		const r = await fetch(`${this.base}/api/v1${path}`, { method, headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...(key && { 'x-api-key': key }) }, body: body === undefined ? undefined : JSON.stringify(body) });
		const text = await r.text();
		assert.ok(r.ok, `${method} ${path}: ${r.status} ${text}`);
		return text ? JSON.parse(text) : {};
	}

	async put(id: string, path: string, content: string | Buffer, key?: string): Promise<void> {
		const r = await fetch(`${this.base}/api/v1/sandboxes/${id}/files/${path.split('/').map(encodeURIComponent).join('/')}?overwrite=true`, { method: 'PUT', body: content as BodyInit, headers: key ? { 'x-api-key': key } : {} });
		assert.ok(r.ok, `PUT ${path}: ${r.status} ${await r.text()}`);
	}

	/** An MCP client that calls itself NAME. */
	async client(w: World, name: string, key?: string): Promise<Client> {
		const client = new Client({ name, version: '1' });
		await client.connect(new StreamableHTTPClientTransport(new URL(`${this.base}/mcp`), key ? { requestInit: { headers: { authorization: `Bearer ${key}` } } } : {}));
		w.atEnd(() => client.close());
		return client;
	}

	async stop(): Promise<void> {
		this.program.kill('SIGTERM');
		await this.program.exit;
	}

	/** Starts it again on the same port, with the same state. */
	async start(): Promise<void> {
		this.program = await began(this.port, this.env, this.under);
	}
}

async function began(port: number, env: Record<string, string>, under?: string[]): Promise<Program> {
	const program = start(['serve', '--listen', `127.0.0.1:${port}`, '--profile', 'full'], { env, under });
	await until(`the server on port ${port}`, async () => {
		if (program.child.exitCode !== null) throw new Error(`serve ended: ${program.stderr}`);
		return fetch(`http://127.0.0.1:${port}/healthz`).then((r) => r.ok, () => false);
	}, 20_000);
	return program;
}

/** AUTH: everybody must sign in. UNDER: the command that starts it. */
export async function server(w: World, o: { auth?: boolean; env?: Record<string, string>; under?: string[] } = {}): Promise<Server> {
	const state = o.env?.SANDBOX_STATE_DIR ?? newStateDir();
	const env = { SANDBOX_STATE_DIR: state, SANDBOX_HISTORY_CONTENT: 'on', SANDBOX_MAX_SESSIONS: '60', SANDBOX_HTTP_PORT: String(await freePort()), ...(o.auth && { SANDBOX_REQUIRE_AUTH: 'on' }), ...o.env };
	const port = await freePort();
	const made = new Server(`http://127.0.0.1:${port}`, port, state, await began(port, env, o.under), env, o.under);
	w.atEnd(async () => {
		await made.stop();
		assert.doesNotMatch(made.program.stderr, /Sanitizer|runtime error|broken promise/);
	});
	return made;
}

/** Opens the page and signs in as a person would. */
export async function signIn(page: Page, s: Server, name: string): Promise<void> {
	await page.goto(`${s.base}/`);
	await page.getByLabel('User name').fill(name);
	await page.getByLabel('Password').fill(PASSWORD);
	await page.getByRole('button', { name: 'Sign in' }).click();
	await page.locator('.side').waitFor({ state: 'attached' });
}

/** The words that a tool answered. */
export const words = (r: Json): string => (r.content as Json[]).map((c) => c.text ?? '').join('\n');

export function python(client: Client, code: string, session_id: string, more: Json = {}): Promise<Json> {
	const answer = client.callTool({ name: 'sandbox_run_python', arguments: { code, session_id, ...more } }, undefined, { timeout: 90_000 }) as Promise<Json>;
	answer.catch(() => undefined); // a case that fails earlier does not wait for it
	return answer;
}
