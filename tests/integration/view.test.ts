// SPDX-License-Identifier: Apache-2.0
// MCP Apps: clients that announce the extension learn of the page for results and can read it; all others see what they saw before.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { asProductUser, binary, freePort, productEnv } from '../lib/env.ts';
import { serve, type Json } from '../lib/session.ts';

const EXTENSION = 'io.modelcontextprotocol/ui';
const TYPE = 'text/html;profile=mcp-app';
const URI = 'ui://caisson/results';
const SHOWN = ['sandbox_run_python', 'sandbox_run_shell', 'sandbox_list_files', 'sandbox_read_file'];
const able = { extensions: { [EXTENSION]: { mimeTypes: [TYPE] } } };

/** Without npm the page is left out of the build, and then nothing is declared. Its files are packed in the program; their names are not. */
const leftOut = !fs.readFileSync(binary).includes('/assets/app-');
const skip = leftOut && 'this build has no page (npm was not at hand)';

async function list(profile: string, capabilities: Json, more: Record<string, string> = {}): Promise<{ tools: Json[]; text: string; caps: Json; read: () => Promise<Json>; listed: () => Promise<string[]>; end: () => Promise<void> }> {
	const argv = asProductUser([binary, 'stdio', '--profile', profile]);
	const client = new Client({ name: 'view-test', version: '1' }, { capabilities });
	await client.connect(new StdioClientTransport({ command: argv[0]!, args: argv.slice(1), env: productEnv({ SANDBOX_HTTP_PORT: String(await freePort()), ...more }), stderr: 'ignore' }));
	const { tools } = await client.listTools();
	return {
		tools, text: JSON.stringify(tools), caps: client.getServerCapabilities() as Json, read: () => client.readResource({ uri: URI }) as Promise<Json>,
		listed: async () => (await client.listResources()).resources.map((r) => r.uri), end: () => client.close(),
	};
}

describe('the page for results', () => {
	it('is declared to a client that can show it, on four tools of full', { skip }, async () => {
		const plain = await list('full', {});
		const c = await list('full', able);
		assert.deepEqual(c.tools.filter((t) => t._meta).map((t) => t.name), SHOWN);
		for (const t of c.tools.filter((x) => x._meta)) assert.deepEqual(t._meta, { ui: { resourceUri: URI } });
		assert.deepEqual(c.caps.extensions, { [EXTENSION]: {} });
		assert.ok(c.text.length * 0.235 <= 3500, `the budget holds: ${c.text.length} characters`);
		assert.equal(JSON.stringify(c.tools.map(({ _meta, ...t }) => t)), plain.text, 'nothing else differs');
		assert.equal(plain.caps.extensions, undefined);
		await Promise.all([plain.end(), c.end()]);
	});
	it('keeps the list of tools within its budget, also where a person may allow hosts', { skip }, async (t) => {
		const c = await list('full', able, { SANDBOX_NETWORK_ASK: 'on' });
		assert.equal(c.tools.length, 17);
		assert.deepEqual(c.tools.filter((x) => x._meta).map((x) => x.name), SHOWN);
		t.diagnostic(`budget: the fullest tools/list has ${c.text.length} characters, about ${Math.round(c.text.length * 0.235)} of 3500 tokens`);
		assert.ok(c.text.length * 0.235 <= 3500, `${c.text.length} characters`);
		await c.end();
	});
	it('is one document that needs no other host', { skip }, async () => {
		const c = await list('full', able);
		const [content] = (await c.read()).contents as Json[];
		assert.deepEqual([content!.uri, content!.mimeType], [URI, TYPE]);
		assert.match(content!.text, /^<!doctype html>/);
		assert.doesNotMatch(content!.text, /<(script|link|img)[^>]*\s(src|href)=/, 'nothing is loaded');
		assert.equal(content!._meta.ui.csp, undefined, 'no host is asked for');
		assert.ok(!(await c.listed()).includes(URI), 'it is found by the tools alone');
		await c.end();
	});
	for (const [name, capabilities] of [['nothing', {}], ['another extension', { extensions: { 'x/y': {} } }], ['no types', { extensions: { [EXTENSION]: {} } }],
		['another type', { extensions: { [EXTENSION]: { mimeTypes: ['text/uri-list', 7, null] } } }], ['types that are no list', { extensions: { [EXTENSION]: { mimeTypes: TYPE } } }]] as [string, Json][])
		it(`is not declared to a client that announces ${name}`, async () => {
			const c = await list('full', capabilities);
			assert.doesNotMatch(c.text, /"_meta"|ui:\/\//);
			assert.equal(c.caps.extensions, undefined);
			await c.end();
		});
	for (const profile of ['code', 'classic', 'both', 'all'])
		it(`changes nothing in the profile ${profile}`, async () => {
			const [plain, c] = await Promise.all([list(profile, {}), list(profile, able)]);
			assert.equal(c.text, plain.text);
			assert.deepEqual(c.caps, plain.caps);
			await Promise.all([plain.end(), c.end()]);
		});
	it('is known to stateless clients, too', { skip }, async () => {
		const server = await serve({ profile: 'full' });
		const ask = async (method: string, caps: Json, params: Json = {}): Promise<Json> => {
			const name: Record<string, string> = params.uri ? { 'mcp-name': params.uri } : {};
			const r = await fetch(`${server.base}/mcp`, { method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...name },
				body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': caps } } }) });
			const text = await r.text();
			return JSON.parse(text.startsWith('{') ? text : text.match(/^data: (.*)$/m)![1]!).result;
		};
		assert.deepEqual(Object.keys((await ask('server/discover', able)).capabilities.extensions), ['io.modelcontextprotocol/tasks', EXTENSION]);
		assert.deepEqual(Object.keys((await ask('server/discover', {})).capabilities.extensions), ['io.modelcontextprotocol/tasks']);
		assert.deepEqual((await ask('tools/list', able)).tools.filter((t: Json) => t._meta).map((t: Json) => t.name), SHOWN);
		assert.doesNotMatch(JSON.stringify((await ask('tools/list', {})).tools), /ui:\/\//, 'one client does not change what the next one sees');
		assert.equal((await ask('resources/read', able, { uri: URI })).contents[0].mimeType, TYPE);
		await server.program.end();
	});
});
