// SPDX-License-Identifier: Apache-2.0
// The TypeScript SDK of April 2025, which many programs still have: the first with Streamable HTTP (revision 2025-03-26).

import { Client as SdkClient } from 'sdk-1.10/client/index.js';
import { SSEClientTransport } from 'sdk-1.10/client/sse.js';
import { StdioClientTransport } from 'sdk-1.10/client/stdio.js';
import { StreamableHTTPClientTransport } from 'sdk-1.10/client/streamableHttp.js';
import { clientInfo, stdioCommand, stdioEnv, url, type Client, type Target, type ToolResult, type Transport } from './client.ts';

const TIMEOUT_MS = 90_000;

export async function older(transport: Transport, target: Target): Promise<Client> {
	const at = new URL(url(target, transport)), requestInit = { headers: target.headers };
	// It sends the headers of requestInit with its messages, but not with the request for the stream.
	const eventSourceInit = { fetch: (to: string | URL, init?: RequestInit) => fetch(to, { ...init, headers: { ...init?.headers as Record<string, string>, ...target.headers } }) };
	const [command, ...args] = stdioCommand(target);
	const client = new SdkClient(clientInfo);
	await client.connect(transport === 'sse' ? new SSEClientTransport(at, { requestInit, eventSourceInit })
		: transport === 'http' ? new StreamableHTTPClientTransport(at, { requestInit })
			: new StdioClientTransport({ command, args, env: stdioEnv(target), stderr: 'ignore' }));
	try {
		return {
			tools: (await client.listTools()).tools.map((t) => t.name),
			call: async (name, args) => (await client.callTool({ name, arguments: args }, undefined, { timeout: TIMEOUT_MS })) as ToolResult,
			close: () => client.close(),
		};
	} catch (e) {
		await client.close();
		throw e;
	}
}
