// SPDX-License-Identifier: Apache-2.0
// One allocation after the other fails, in every request that a client can make: each time the answer is a typed error or
// the end of the connection; the server goes on, and nothing of the request stays behind.

import { after, before, describe, it } from 'node:test';
import { mode, sanitized } from '../lib/env.ts';
import { call, initialize, json, rpc, Torture, type Answer } from '../lib/torture.ts';

const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };

describe('(slow) every allocation fails once', {
	skip: sanitized ? 'the sanitizers have an allocator of their own; test_mcp_torture runs under them'
		: mode === 'root' ? false : 'once is enough: the front is the same for everybody',
}, () => {
	const server = new Torture();

	before(() => server.start({}));
	after(() => server.end());

	const table: Array<[string, () => Promise<Answer | undefined>]> = [
		['ping', () => server.post(rpc('ping'))],
		['tools/list', () => server.post(rpc('tools/list'))],
		['prompts/get', () => server.post(rpc('prompts/get', { name: 'debug_error', arguments: { error: 'x' } }))],
		['resources/list', () => server.post(rpc('resources/list'))],
		['resources/read', () => server.post(rpc('resources/read', { uri: 'sandbox://torture/a.txt' }))],
		['a modern request', () => server.ask('POST', '/mcp', { ...json, 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/list' }, rpc('tools/list', { _meta: meta }))],
		['a long string', () => server.post(call('sandbox_upload_file', { session_id: 'torture', filename: 'b.bin', content_base64: 'QUJD'.repeat(50_000), overwrite: true }))],
		['list of artifacts', () => server.post(call('sandbox_list_artifacts', { session_id: 'torture' }))],
		['read of an artifact', () => server.post(call('sandbox_read_artifact', { session_id: 'torture', path: '/mnt/data/a.txt' }))],
		['edit of a file', () => server.post(call('sandbox_write_file', { session_id: 'torture', path: 'c.txt', content: 'text' }))],
		['info', () => server.post(call('sandbox_info', { session_id: 'torture' }))],
		['an artifact link', () => server.ask('GET', '/files/torture/a.txt', {})],
		['an event stream', () => server.ask('GET', '/sse', { Accept: 'text/event-stream' })],
		['rubbish', () => server.ask('POST', '/mcp', json, '{"jsonrpc":')],
	];
	for (const [name, request] of table)
		it(name, async (t) => t.diagnostic(await server.torture(request)));
	// Numbers and objects that are written as text are read with allocations, which may fail. The request is right all the same.
	const wrong = /invalid_argument|-32602|is not valid|must be|must have/;
	for (const [name, request] of [
		['a body with values as text', () => server.ask('PATCH', '/api/v1/sandboxes/torture', { 'Content-Type': 'application/json' }, JSON.stringify({ labels: '{"a": "b"}', timeout_s: '30' }))],
		['a query with a number', () => server.ask('GET', '/api/v1/runs?limit=5.0')],
		['arguments as text', () => server.post(rpc('tools/call', { name: 'sandbox_read_file', arguments: '{"session_id": "torture", "path": "a.txt", "start_line": "1"}' }))],
	] as Array<[string, () => Promise<Answer | undefined>]>)
		it(`${name} is never called wrong`, async (t) => t.diagnostic(await server.torture(request, { never: wrong })));
	// A session whose answer got lost stays until it has idled long enough.
	it('(slow) initialize', async (t) => t.diagnostic(await server.torture(() => server.ask('POST', '/mcp', json, initialize()), { spare: 1500 })));
	const run = call('sandbox_run_python', { session_id: 'torture', code: 'print(1)' });
	// SQLite keeps pages of a history that grows, until it has 2 MB of them.
	it('(slow) a run that becomes history', async (t) => t.diagnostic(await server.torture(() => server.post(run), { spare: 150 })));
	it('(slow) a run', async (t) => {
		const other = new Torture();
		await other.start({ env: { SANDBOX_HISTORY_CONTENT: 'off' } });
		try {
			t.diagnostic(await other.torture(() => other.post(run)));
		} finally {
			await other.end();
		}
	});
	it('(slow) a new sandbox, and its end', async (t) =>
		t.diagnostic(await server.torture(() => server.post(call('sandbox_write_file', { session_id: 'made', path: 'x', content: 'x' })),
			{ clean: () => server.post(call('sandbox_delete', { session_id: 'made' })) })));
});
