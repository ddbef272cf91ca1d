// SPDX-License-Identifier: Apache-2.0
// The Inspector's two command lines: `--cli`, a process for every call, and `mcpdo`, which keeps a connection.

import * as fs from 'node:fs';
import * as path from 'node:path';
import { scratch } from '../../lib/env.ts';
import { within } from '../../lib/wait.ts';
import { clientEnv, node, npmPath, program, stdioCommand, stdioEnv, url, type Client, type Era, type Json, type Target, type ToolResult,
	type Transport } from './client.ts';

const CALL_MS = 90_000;
const LAUNCHER = npmPath('@modelcontextprotocol', 'inspector', 'clients', 'launcher', 'build', 'index.js');
const MCPDO = npmPath('@modelcontextprotocol', 'inspector', 'clients', 'mcpdo', 'build', 'mcp-bin.js');
/** A tool whose result is an error: the answer is printed all the same. */
const EXIT_TOOL_ERROR = 5;

async function output(argv: string[], env: Record<string, string>): Promise<Json> {
	const p = program([node, ...argv], env);
	const exit = await within('the Inspector', p.exit, CALL_MS).finally(() => p.end());
	if (exit.code !== 0 && exit.code !== EXIT_TOOL_ERROR)
		throw new Error(`the Inspector ended with ${exit.code}: ${exit.stderr.toString().slice(-1000)}`);
	const answer = JSON.parse(exit.stdout.toString()) as Json;
	return answer.result ?? answer;
}

/** A session file with the product as the server `caisson`. */
function sessionFile(transport: Transport, era: Era, target: Target): string {
	const file = path.join(scratch('inspector'), 'mcp.json');
	const [command, ...args] = stdioCommand(target);
	const server = transport === 'stdio'
		? { type: 'stdio', command, args, env: stdioEnv(target) }
		: { type: transport, url: url(target, transport), headers: target.headers };
	fs.writeFileSync(file, JSON.stringify({ mcpServers: { caisson: { ...server, protocolEra: era } } }));
	return file;
}

export async function inspector(transport: Transport, era: Era, target: Target): Promise<Client> {
	const env = clientEnv({ MCP_INSPECTOR_SECRET_STORE: 'memory' });
	const common = [LAUNCHER, '--cli', '--config', sessionFile(transport, era, target), '--server', 'caisson', '--format', 'json',
		'--stored-auth-only'];
	const listed = await output([...common, '--method', 'tools/list'], env);
	return {
		tools: listed.tools.map((t: Json) => t.name),
		call: async (name, args) => (await output([...common, '--method', 'tools/call', '--tool-name', name,
			'--tool-args-json', JSON.stringify(args)], env)) as ToolResult,
		close: async () => {},
	};
}

/** The Inspector's client that keeps its connection in a daemon of its own. */
export async function mcpdo(transport: Transport, era: Era, target: Target): Promise<Client> {
	const folder = scratch('mcpdo');
	const env = clientEnv({
		MCP_INSPECTOR_SECRET_STORE: 'memory',
		MCP_INSPECTOR_DAEMON_DIR: folder,
		MCP_INSPECTOR_DAEMON_TOKEN: 'caisson-interop',
	});
	const common = [MCPDO, '--format', 'json', '--config', sessionFile(transport, era, target), '--stored-auth-only'];
	const stop = async (): Promise<void> => {
		await output([...common, 'daemon', 'stop'], env);
	};
	try {
		await output([...common, 'connect', '--server', 'caisson'], env);
		const listed = await output([...common, '--connection', 'caisson', 'tools/list'], env);
		return {
			tools: listed.tools.map((t: Json) => t.name),
			call: async (name, args) => (await output([...common, '--connection', 'caisson', 'tools/call', '--tool-name', name,
				'--tool-args-json', JSON.stringify(args)], env)) as ToolResult,
			close: stop,
		};
	} catch (e) {
		await stop();
		throw e;
	}
}
