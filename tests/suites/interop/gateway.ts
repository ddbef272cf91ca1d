// SPDX-License-Identifier: Apache-2.0
// supergateway between the first generation's client and the product, in both directions, and mcp-remote, which speaks stdio to the client.

import { freePort, scratch } from '../../lib/env.ts';
import { until } from '../../lib/wait.ts';
import { clientEnv, node, npmPath, program, stdioCommand, stdioEnv, url, type Client, type Target, type Transport } from './client.ts';
import { sdk1 } from './sdk.ts';

const START_MS = 20_000;
const SUPERGATEWAY = npmPath('supergateway', 'dist', 'index.js');
const MCP_REMOTE = npmPath('mcp-remote', 'dist', 'proxy.js');
const PATHS = { sse: '/sse', http: '/mcp' } as const;

/** The product over stdio behind a gateway that offers another transport. A gateway without state starts a product for
 * every request, which no sandbox outlives: so with state. */
export async function fromStdio(offered: 'sse' | 'http', target: Target): Promise<Client> {
	const port = await freePort();
	const how = offered === 'sse' ? ['--outputTransport', 'sse'] : ['--outputTransport', 'streamableHttp', '--stateful'];
	const p = program([node, SUPERGATEWAY, '--stdio', stdioCommand(target).join(' '), '--port', String(port), '--healthEndpoint', '/healthz', ...how],
		{ ...clientEnv(), ...stdioEnv(target) });
	try {
		const base = `http://127.0.0.1:${port}`;
		await until('the gateway', () => fetch(`${base}/healthz`).then((r) => r.ok, () => false), START_MS);
		const client = await sdk1(offered, target, base + PATHS[offered]);
		return {
			...client,
			async close() {
				await client.close();
				p.kill('SIGTERM');
				await p.exit;
			},
		};
	} catch (e) {
		p.kill('SIGTERM');
		await p.exit;
		throw new Error(`${(e as Error).message}\n${p.stderr.slice(-1000)}`);
	}
}

/** The product's server behind a gateway that speaks stdio. */
export function toStdio(spoken: 'sse' | 'http', target: Target): Promise<Client> {
	const option = spoken === 'sse' ? '--sse' : '--streamableHttp';
	const headers = Object.entries(target.headers).flatMap(([name, value]) =>
		value.startsWith('Bearer ') ? ['--oauth2Bearer', value.slice('Bearer '.length)] : ['--header', `${name}: ${value}`]);
	const transport: Transport = 'stdio';
	return sdk1(transport, target, undefined, {
		command: [node, SUPERGATEWAY, option, url(target, spoken), ...headers],
		env: clientEnv(),
	});
}

/** The product's server behind mcp-remote. Nobody logs in, so it is for servers without a key. */
export function remote(spoken: 'sse' | 'http', target: Target): Promise<Client> {
	return sdk1('stdio', target, undefined, {
		command: [node, MCP_REMOTE, url(target, spoken), '--transport', `${spoken}-only`],
		env: clientEnv({ MCP_REMOTE_CONFIG_DIR: scratch('mcp-remote') }),
	});
}
