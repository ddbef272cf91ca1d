// SPDX-License-Identifier: Apache-2.0
// What every client of the matrix looks like to the tests, and the helpers that all of them need.

import { spawn, type ChildProcess } from 'node:child_process';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { binary, freePort, productEnv } from '../../lib/env.ts';
import { Program, start } from '../../lib/process.ts';
import { until } from '../../lib/wait.ts';

export type Transport = 'stdio' | 'http' | 'sse';
/** `legacy` and `auto` as the clients mean them; `modern`: pinned to the newest revision. */
export type Era = 'legacy' | 'auto' | 'modern';
export type Profile = 'code' | 'classic' | 'full' | 'all';
export type Json = Record<string, any>;

export const MODERN = '2026-07-28';

export interface ToolResult {
	content: Json[];
	structuredContent?: Json;
	isError?: boolean;
}

/** A connected client. */
export interface Client {
	readonly tools: string[];
	/** The revision it speaks, where it tells. */
	readonly revision?: string;
	call(name: string, args: Json): Promise<ToolResult>;
	close(): Promise<void>;
}

/** Where a client finds the product. */
export interface Target {
	profile: Profile;
	base: string; // of the running server
	headers: Record<string, string>;
	sseQuery: string; // '' or '?api_key=…'
	socket?: string; // on which a server shares itself with `caisson stdio`
}

export const here = path.dirname(fileURLToPath(import.meta.url));
export const node = process.execPath;
export const clientInfo = { name: 'caisson-interop', version: '1.0.0' };

/** A path below node_modules of this folder. */
export function npmPath(...parts: string[]): string {
	return path.join(here, 'node_modules', ...parts);
}

export function url(target: Target, transport: Transport): string {
	return transport === 'sse' ? `${target.base}/sse${target.sseQuery}` : `${target.base}/mcp`;
}

/** The product's command line over stdio; its environment is that of `stdioEnv`. */
export function stdioCommand(target: Target): [string, ...string[]] {
	return [binary, 'stdio', '--profile', target.profile];
}

export function stdioEnv(target: Target): Record<string, string> {
	return productEnv({ SANDBOX_HTTP_PORT: '0', SANDBOX_SOCKET: target.socket ?? 'off' });
}

/** Starts another program of the matrix; its output is kept for the report of a failure. */
export function program(argv: string[], env: Record<string, string>, keepInput = false): Program {
	const child: ChildProcess = spawn(argv[0]!, argv.slice(1), { env, cwd: env.HOME, stdio: [keepInput ? 'pipe' : 'ignore', 'pipe', 'pipe'] });
	return new Program(child);
}

/** The environment of a client's own program: nothing of the caller's but the path. */
export function clientEnv(extra: Record<string, string> = {}): Record<string, string> {
	const { PATH, HOME } = productEnv();
	return { PATH: `${path.dirname(node)}:${PATH}`, HOME: HOME!, LANG: 'C.UTF-8', ...extra };
}

export interface Server {
	base: string;
	program: Program;
	stop(): Promise<void>;
}

const STOP_MS = 10_000;

/** Starts `caisson serve` on free ports of the loopback. */
export async function serve(profile: Profile, env: Record<string, string> = {}): Promise<Server> {
	const port = await freePort();
	const p = start(['serve', '--listen', `127.0.0.1:${port}`, '--profile', profile], { env: { SANDBOX_HTTP_PORT: '0', ...env } });
	const base = `http://127.0.0.1:${port}`;
	await until(`the server on port ${port}`, async () => {
		if (p.child.exitCode !== null)
			throw new Error(`serve ended with ${p.child.exitCode}: ${p.stderr}`);
		return fetch(`${base}/healthz`).then((r) => r.ok, () => false);
	}, STOP_MS);
	return {
		base,
		program: p,
		async stop() {
			p.kill('SIGTERM');
			const timer = setTimeout(() => p.kill('SIGKILL'), STOP_MS);
			await p.exit;
			clearTimeout(timer);
		},
	};
}
