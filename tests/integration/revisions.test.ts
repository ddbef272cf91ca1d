// SPDX-License-Identifier: Apache-2.0
// Every protocol revision through the official v2 client (both eras) and by hand: the same tools, the same results.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { describe, it } from 'node:test';
import { Client, StreamableHTTPClientTransport, type VersionNegotiationMode } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { asProductUser, binary, productEnv } from '../lib/env.ts';
import { RawClient } from '../lib/raw.ts';
import { serve, wires, type Json, type Wire } from '../lib/session.ts';

async function withClient(wire: Wire, mode: VersionNegotiationMode, body: (c: Client) => Promise<void>): Promise<void> {
	const client = new Client({ name: 'caisson-tests-v2', version: '1.0.0' }, { versionNegotiation: { mode } });
	if (wire === 'stdio') {
		const argv = asProductUser([binary, 'stdio', '--profile', 'code']);
		const env = productEnv();
		await client.connect(new StdioClientTransport({ command: argv[0]!, args: argv.slice(1), env, cwd: env.HOME, stderr: 'ignore' }));
		try {
			await body(client);
		} finally {
			await client.close();
		}
		return;
	}
	const { program, base } = await serve();
	try {
		await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`)));
		await body(client);
		await client.close();
	} finally {
		program.kill('SIGTERM');
		await program.exit;
	}
}

const modes: [string, VersionNegotiationMode, string][] = [
	['legacy', 'legacy', '2025-11-25'],
	['auto', 'auto', '2026-07-28'],
	['pinned', { pin: '2026-07-28' }, '2026-07-28'],
];

for (const wire of wires) {
	describe(`the v2 client over ${wire}`, () => {
		for (const [name, mode, version] of modes) {
			it(`${name} speaks ${version}`, () => withClient(wire, mode, async (c) => {
				assert.equal(c.getNegotiatedProtocolVersion(), version);
				const { tools } = await c.listTools();
				assert.equal(tools.length, 5);
				const r = (await c.callTool({ name: 'sandbox_run_python', arguments: { code: 'print(6*7)', session_id: 'v2' } })) as Json;
				assert.equal(r.structuredContent.result.stdout, '42\n');
				assert.equal(r.content[0].text, JSON.stringify(r.structuredContent.result));
				const wrong = (await c.callTool({ name: 'sandbox_close_session', arguments: { session_id: 'nobody' } })) as Json;
				assert.equal(wrong.structuredContent.result.error, 'session_not_found');
				const closed = (await c.callTool({ name: 'sandbox_close_session', arguments: { session_id: 'v2' } })) as Json;
				assert.deepEqual(closed.structuredContent.result, { status: 'closed' });
			}));
		}
	});
}

/** The tools of an exact profile, each as the newest revision lists it. */
function published(profile: string): string[] {
	return fs.readFileSync(new URL(`../lib/contracts/tools-${profile}.jsonl`, import.meta.url), 'utf8').trimEnd().split('\n');
}

/** The same tool without the members that came with a later revision. */
function asIn(version: string, tool: string): string {
	if (version >= '2025-06-18')
		return tool;
	const { title: _title, outputSchema: _schema, annotations, ...rest } = JSON.parse(tool) as Json;
	return JSON.stringify(version >= '2025-03-26' && annotations ? { ...rest, annotations } : rest);
}

describe('initialize by hand', () => {
	for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
		it(`${version} is taken as asked`, async () => {
			const c = new RawClient();
			try {
				const r = await c.initialize(version);
				assert.equal(r.result.protocolVersion, version);
				assert.equal(r.result.serverInfo.name, 'code_sandbox_mcp');
				const list = await c.request('tools/list');
				assert.equal(list.result.tools.length, 5);
				const run = await c.request('tools/call', { name: 'sandbox_run_python', arguments: { code: 'print(1)' } });
				assert.equal(JSON.parse(run.result.content[0].text).stdout, '1\n');
			} finally {
				await c.end();
			}
		});
	}
	for (const profile of ['code', 'classic', 'both']) {
		it(`tools/list of the exact profile ${profile} is what it always was, in every revision`, async () => {
			const tools = (profile === 'both' ? ['code', 'classic'] : [profile]).flatMap(published);
			for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
				const c = new RawClient({}, ['stdio', '--profile', profile]);
				try {
					await c.initialize(version);
					await c.request('tools/list');
					const want = tools.map((line) => asIn(version, line)).join(',');
					assert.equal(c.lines.at(-1), `{"jsonrpc":"2.0","id":"r2","result":{"tools":[${want}]}}`);
				} finally {
					await c.end();
				}
			}
		});
	}
	it('an unknown version gets the newest of its era', async () => {
		const c = new RawClient();
		try {
			assert.equal((await c.initialize('1999-01-01')).result.protocolVersion, '2025-11-25');
		} finally {
			await c.end();
		}
	});
	it('server/discover answers before and without initialize', async () => {
		const c = new RawClient();
		try {
			const meta = {
				'io.modelcontextprotocol/protocolVersion': '2026-07-28',
				'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
				'io.modelcontextprotocol/clientCapabilities': {},
			};
			const r = await c.request('server/discover', { _meta: meta });
			assert.ok(r.result, JSON.stringify(r));
			assert.ok(JSON.stringify(r.result).includes('2026-07-28'));
			const run = await c.request('tools/call', { name: 'sandbox_run_python', arguments: { code: 'print(1)' }, _meta: meta });
			assert.equal(run.result.structuredContent.result.stdout, '1\n');
		} finally {
			await c.end();
		}
	});
	it('two servers of one client start side by side', async () => {
		const a = new RawClient(), b = new RawClient();
		try {
			await Promise.all([a.initialize(), b.initialize()]);
			await Promise.all([a.tool('sandbox_run_python', { code: 'pass', session_id: 'x' }), b.tool('sandbox_run_python', { code: 'pass', session_id: 'x' })]);
		} finally {
			await a.end();
			await b.end();
		}
	});
});
