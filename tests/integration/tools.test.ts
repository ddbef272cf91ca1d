// SPDX-License-Identifier: Apache-2.0
// What a client sees of the five tools of the first family before it calls one.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { runKeys } from '../lib/expect.ts';
import { matrix, using, wires, type Json } from '../lib/session.ts';

interface Row {
	name: string;
	title: string;
	hints: [readOnly: boolean, destructive: boolean, idempotent: boolean];
	required: string[];
	properties: Json;
	success: string[];
}

const optionalString = { anyOf: [{ type: 'string' }, { type: 'null' }], default: null };

const contract: Row[] = [
	{
		name: 'sandbox_upload_file', title: 'Upload File to Sandbox', hints: [false, false, false],
		required: ['filename', 'content_base64'],
		properties: {
			filename: { type: 'string' }, content_base64: { type: 'string' }, session_id: optionalString,
			overwrite: { type: 'boolean', default: false },
		},
		success: ['session_id', 'path'],
	},
	{
		name: 'sandbox_run_python', title: 'Run Python in Sandbox', hints: [false, false, false],
		required: ['code'], properties: { code: { type: 'string' }, session_id: optionalString }, success: runKeys,
	},
	{
		name: 'sandbox_read_artifact', title: 'Read Artifact from Sandbox', hints: [true, false, true],
		required: ['session_id', 'path'], properties: { session_id: { type: 'string' }, path: { type: 'string' } },
		success: ['path', 'filename', 'mime_type', 'size_bytes', 'content_base64'],
	},
	{
		name: 'sandbox_list_artifacts', title: 'List Sandbox Artifacts', hints: [true, false, true],
		required: ['session_id'], properties: { session_id: { type: 'string' } }, success: ['artifacts'],
	},
	{
		name: 'sandbox_close_session', title: 'Close Sandbox Session', hints: [false, true, false],
		required: ['session_id'], properties: { session_id: { type: 'string' } }, success: ['status'],
	},
];

matrix('the tool list', {}, (s) => {
	it('has exactly the five tools, in a list of bounded size', async (t) => {
		const { tools, nextCursor } = await s().client.listTools();
		assert.deepEqual(tools.map((tool) => tool.name), contract.map((r) => r.name));
		assert.equal(nextCursor, undefined);
		const size = JSON.stringify(tools).length;
		t.diagnostic(`budget: tools/list of profile code takes ${size} of 12000 characters`);
		assert.ok(size < 12_000, `${size} characters`);
	});
	for (const row of contract) {
		it(`${row.name}: title, hints, input and output schema`, async () => {
			const tool = (await s().client.listTools()).tools.find((t) => t.name === row.name) as Json;
			assert.equal(tool.title, row.title);
			const [readOnlyHint, destructiveHint, idempotentHint] = row.hints;
			assert.deepEqual(tool.annotations, { title: row.title, readOnlyHint, destructiveHint, idempotentHint, openWorldHint: false });
			for (const argument of Object.keys(row.properties))
				assert.ok(tool.description.includes(argument), `the description explains ${argument}`);
			assert.equal(tool.inputSchema.type, 'object');
			assert.deepEqual(tool.inputSchema.properties, row.properties);
			assert.deepEqual(tool.inputSchema.required, row.required);
			assert.deepEqual(Object.keys(tool.inputSchema).sort(), ['properties', 'required', 'type']);
			const out = tool.outputSchema;
			assert.equal(out.type, 'object');
			assert.deepEqual(out.required, ['result']);
			assert.equal(out['x-fastmcp-wrap-result'], true);
			const options = out.properties.result.anyOf as Json[];
			assert.equal(options.length, 2);
			const [success, error] = options.map((o) => out.$defs[o.$ref.replace('#/$defs/', '')]);
			assert.deepEqual(Object.keys(success.properties), row.success);
			assert.deepEqual(Object.keys(error.properties), ['error', 'message', 'size_bytes', 'download_url']);
		});
	}
	it('the server names itself as the first family does', () => {
		assert.equal(s().client.getServerVersion()!.name, 'code_sandbox_mcp');
		assert.deepEqual(s().client.getServerCapabilities()!.tools, { listChanged: true });
	});
	it('prompts and resources are there and empty', async () => {
		assert.deepEqual((await s().client.listPrompts()).prompts, []);
		assert.deepEqual((await s().client.listResources()).resources, []);
		assert.deepEqual((await s().client.listResourceTemplates()).resourceTemplates, []);
	});
	it('answers ping', async () => {
		assert.deepEqual(await s().client.ping(), {});
	});
	it('reports progress when asked', async () => {
		const seen: Json[] = [];
		await s().run('print(1)', 'progress', { onprogress: (p) => seen.push(p) });
		// The client drops the last report when it arrives together with the answer; wire.test.ts sees all.
		assert.deepEqual([seen[0]!.progress, seen[0]!.total], [0.1, 1]);
	});
});

for (const wire of wires) {
	it(`the profile full has these five too, with the same arguments (${wire})`, () =>
		using(wire, { profile: 'all' }, async (s) => {
			const { tools } = await s.client.listTools();
			for (const row of contract) {
				const tool = tools.find((t) => t.name === row.name);
				assert.ok(tool, row.name);
				for (const required of row.required)
					assert.ok(required in tool.inputSchema.properties!);
			}
		}));
}
