// SPDX-License-Identifier: Apache-2.0
// Drives the fixture server with the official clients, over the transports and in the eras that each of them
// speaks: what the conformance suite does not cover (stdio, HTTP+SSE, a client that answers questions on its
// own). Prints a row for each combination; the last line is `N passed, N failed`.
//   node clients.mjs PORT SERVER
import assert from 'node:assert/strict';
import * as v2 from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as Sse1 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types1 from '@modelcontextprotocol/sdk/types.js';

const [port, server] = process.argv.slice(2);
const mcp = new URL(`http://127.0.0.1:${port}/mcp`);
const sse = new URL(`http://127.0.0.1:${port}/sse`);
const stdio = { command: server, args: ['--stdio'], stderr: 'inherit' };
const me = { name: 'caisson-clients', version: '1' };
const capabilities = { elicitation: {}, sampling: {}, roots: {} };

// What the person, the model and the roots answer.
const fill = (request) => {
	const content = {};
	for (const [key, schema] of Object.entries(request.params.requestedSchema.properties))
		content[key] = schema.type === 'boolean' ? true : schema.default ?? `my ${key}`;
	return { action: 'accept', content };
};
const sample = () => ({ role: 'assistant', model: 'none', content: { type: 'text', text: 'sampled' } });
const roots = () => ({ roots: [{ uri: 'file:///project' }] });

// The two generations differ in names alone.
function client1(transport) {
	const c = new Client1(me, { capabilities });
	c.setRequestHandler(types1.ElicitRequestSchema, async (r) => fill(r));
	c.setRequestHandler(types1.CreateMessageRequestSchema, async () => sample());
	c.setRequestHandler(types1.ListRootsRequestSchema, async () => roots());
	return {
		connect: () => c.connect(transport()),
		close: () => c.close(),
		call: (name, args = {}, options = {}) => c.callTool({ name, arguments: args }, undefined, options),
		client: c,
		era: 'legacy',
	};
}

function client2(transport, mode) {
	const c = new v2.Client(me, { capabilities, versionNegotiation: { mode } });
	c.setRequestHandler('elicitation/create', async (r) => fill(r));
	c.setRequestHandler('sampling/createMessage', async () => sample());
	c.setRequestHandler('roots/list', async () => roots());
	return {
		connect: () => c.connect(transport()),
		close: () => c.close(),
		call: (name, args = {}, options = {}) => c.callTool({ name, arguments: args }, options),
		client: c,
		era: mode === 'legacy' ? 'legacy' : 'modern',
	};
}

const rows = [
	['v1 http', () => client1(() => new Http1(mcp))],
	['v1 sse', () => client1(() => new Sse1(sse))],
	['v1 stdio', () => client1(() => new Stdio1(stdio))],
	['v2 http legacy', () => client2(() => new v2.StreamableHTTPClientTransport(mcp), 'legacy')],
	['v2 http auto', () => client2(() => new v2.StreamableHTTPClientTransport(mcp), 'auto')],
	['v2 http pinned', () => client2(() => new v2.StreamableHTTPClientTransport(mcp), { pin: '2026-07-28' })],
	['v2 stdio legacy', () => client2(() => new Stdio2(stdio), 'legacy')],
	['v2 stdio auto', () => client2(() => new Stdio2(stdio), 'auto')],
	['v2 stdio pinned', () => client2(() => new Stdio2(stdio), { pin: '2026-07-28' })],
];

const text = (result) => result.content[0].text;

const checks = {
	async lists({ client }) {
		assert.ok((await client.listTools()).tools.length > 30);
		assert.ok((await client.listPrompts()).prompts.length >= 4);
		assert.ok((await client.listResources()).resources.length >= 3);
		assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 1);
		assert.equal(client.getServerVersion().name, 'caisson-conformance');
	},
	async content({ call }) {
		assert.match(text(await call('test_simple_text')), /simple text/);
		assert.equal((await call('test_image_content')).content[0].mimeType, 'image/png');
		assert.equal((await call('test_multiple_content_types')).content.length, 3);
		assert.equal((await call('test_error_handling')).isError, true);
		await assert.rejects(async () => {
			const r = await call('no_such_tool');
			assert.ok(!r.isError);
		});
	},
	async progress({ call }) {
		const seen = [];
		const r = await call('test_tool_with_progress', {}, { onprogress: (p) => seen.push(p.progress) });
		assert.match(text(r), /complete/);
		// The clients drop one that arrives in the same piece as the answer.
		assert.deepEqual(seen.slice(0, 2), [0, 50]);
	},
	async questions({ call }) {
		assert.match(text(await call('test_elicitation', { message: 'Who?' })), /my username/);
		assert.match(text(await call('test_sampling', { prompt: 'x' })), /sampled/);
		assert.match(text(await call('test_input_required_result_list_roots')), /file:\/\/\/project/);
		assert.match(text(await call('test_input_required_result_multi_round')), /my name likes my color/);
		assert.match(text(await call('test_input_required_result_multiple_inputs')), /All three/);
	},
	async reading({ client, era }) {
		const r = await client.readResource({ uri: 'test://template/7/data' });
		assert.match(r.contents[0].text, /"id":"7"/);
		await assert.rejects(client.readResource({ uri: 'test://none' }), (e) => {
			// The second generation maps the old code to the new one.
			return e.code === -32602 || (era === 'legacy' && e.code === -32002);
		});
		const p = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } });
		assert.match(p.messages[0].content.text, /arg1='a', arg2='b'/);
		const c = await client.complete({
			ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
			argument: { name: 'arg1', value: 'te' },
		});
		assert.deepEqual(c.completion.values, ['test', 'testing', 'tester']);
	},
	async cancel({ call, client }) {
		const stop = new AbortController();
		const slow = call('slow_compute', { seconds: 20 }, { signal: stop.signal });
		setTimeout(() => stop.abort(), 100);
		await assert.rejects(slow);
		assert.match(text(await call('greet', { name: 'Ann' })), /Hello, Ann!/);
		assert.ok(client);
	},
	async many({ call }) {
		const all = Array.from({ length: 100 }, (_, i) => call('greet', { name: `n${i}` }));
		const texts = (await Promise.all(all)).map(text);
		assert.deepEqual(texts, texts.map((_, i) => `Hello, n${i}!`));
	},
	async large({ call }) {
		const name = 'x'.repeat(3 << 20);
		assert.match(text(await call('greet', { name })), /Hello/);
	},
};

let passed = 0;
let failed = 0;
for (const [name, make] of rows) {
	const bad = [];
	let good = 0;
	try {
		const c = make();
		await c.connect();
		for (const [check, run] of Object.entries(checks)) {
			try {
				await run(c);
				good++;
			} catch (e) {
				bad.push(`${check}: ${e.message}`);
			}
		}
		await c.close();
	} catch (e) {
		bad.push(`connect: ${e.message}`);
	}
	console.log(`${bad.length ? '✗' : '✓'} ${name}: ${good} passed, ${bad.length} failed`);
	for (const b of bad)
		console.log(`    ${b.split('\n').join('\n    ')}`);
	passed += good;
	failed += bad.length;
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
