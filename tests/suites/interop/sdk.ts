// SPDX-License-Identifier: Apache-2.0
// The TypeScript SDK of both generations.

import * as v2 from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as Sse1 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { clientInfo, MODERN, stdioCommand, stdioEnv, url, type Client, type Era, type Json, type Target, type ToolResult,
	type Transport } from './client.ts';

const TIMEOUT_MS = 90_000;

export interface Launch {
	command: string[];
	env: Record<string, string>;
}

function stdio({ command, env }: Launch) {
	return { command: command[0]!, args: command.slice(1), env, cwd: env.HOME, stderr: 'ignore' as const };
}

/** What can be said about one call. */
export interface CallOptions {
	signal?: AbortSignal;
	onprogress?: (p: { progress: number }) => void;
}

/** A client of either generation: they have the same methods. */
export interface SdkClient extends Client {
	readonly sdk: Client1 | v2.Client;
	call(name: string, args: Json, more?: CallOptions): Promise<ToolResult>;
}

/** Generation 1, to the product or to what stands before it (another address, another command). */
export async function sdk1(transport: Transport, target: Target, address?: string, launch?: Launch): Promise<SdkClient> {
	const at = new URL(address ?? url(target, transport));
	const requestInit = { headers: target.headers };
	const make = {
		stdio: () => new Stdio1(stdio(launch ?? { command: stdioCommand(target), env: stdioEnv(target) })),
		http: () => new Http1(at, { requestInit }),
		sse: () => new Sse1(at, { requestInit }),
	};
	const client = new Client1(clientInfo);
	const way = make[transport]();
	await client.connect(way, { timeout: TIMEOUT_MS });
	try {
		return {
			sdk: client,
			tools: (await client.listTools()).tools.map((t) => t.name),
			call: async (name, args, more) =>
				(await client.callTool({ name, arguments: args }, undefined, { timeout: TIMEOUT_MS, ...more })) as ToolResult,
			async close() {
				if (way instanceof Http1)
					await way.terminateSession();
				await client.close();
			},
		};
	} catch (e) {
		await client.close();
		throw e;
	}
}

/** Generation 2. */
export async function sdk2(transport: Transport, era: Era, target: Target): Promise<SdkClient> {
	const mode = era === 'modern' ? { pin: MODERN } : era;
	const client = new v2.Client(clientInfo, { versionNegotiation: { mode } });
	const way = transport === 'stdio'
		? new Stdio2(stdio({ command: stdioCommand(target), env: stdioEnv(target) }))
		: new v2.StreamableHTTPClientTransport(new URL(url(target, transport)), { requestInit: { headers: target.headers } });
	await client.connect(way, { timeout: TIMEOUT_MS });
	try {
		return {
			sdk: client,
			revision: client.getNegotiatedProtocolVersion(),
			tools: (await client.listTools()).tools.map((t) => t.name),
			call: async (name, args, more) =>
				(await client.callTool({ name, arguments: args }, { timeout: TIMEOUT_MS, ...more })) as ToolResult,
			close: () => client.close(),
		};
	} catch (e) {
		await client.close();
		throw e;
	}
}
