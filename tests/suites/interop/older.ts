// SPDX-License-Identifier: Apache-2.0
// The TypeScript SDK of April 2025, which many programs still have: the first with Streamable HTTP (revision 2025-03-26).

import { clientInfo, stdioCommand, stdioEnv, url, type Client, type Target, type ToolResult, type Transport } from './client.ts';

const TIMEOUT_MS = 90_000;

/** A part of that SDK, with the types of today's: the packages of this suite are not there when types are checked. */
const part = async <T>(name: string): Promise<T> => await import(`sdk-1.10/client/${name}.js`) as T;
const { Client: SdkClient } = await part<typeof import('@modelcontextprotocol/sdk/client/index.js')>('index');
const { SSEClientTransport } = await part<typeof import('@modelcontextprotocol/sdk/client/sse.js')>('sse');
const { StdioClientTransport } = await part<typeof import('@modelcontextprotocol/sdk/client/stdio.js')>('stdio');
const { StreamableHTTPClientTransport } = await part<typeof import('@modelcontextprotocol/sdk/client/streamableHttp.js')>('streamableHttp');

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
