// SPDX-License-Identifier: Apache-2.0
// Arguments as models and workflow programs send them: numbers, booleans and lists in other forms, null for left out, members that no schema has.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Program } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { facts, matrix, serve, using, type Json } from '../lib/session.ts';

const n8n = { toolCallId: 'call_1', sessionId: 's', action: 'sendMessage', chatInput: 'Hello' };

matrix('arguments of tools', { profile: 'full' }, (s) => {
	/** A run of a session that shows what its argument did. */
	for (const [name, args] of Object.entries({ float: { timeout_s: 30.0 }, text: { timeout_s: '30' }, exponent: { timeout_s: '3e1' }, fraction: { timeout_s: '30.0' }, nothing: { timeout_s: null, stdin: null, stateful: null } }) as [string, Json][])
		it(`an integer as ${name}`, async () => {
			assert.equal(facts(await s().raw('sandbox_run_python', { code: 'print(6 * 7)', ...args })).stdout, '42\n');
		});
	for (const [value, why] of [[30.5, 'got a number with a fractional part'], ['thirty', 'unable to parse string as an integer'], ['30 s', 'unable to parse string as an integer'], ['1e999', 'unable to parse'], [1e30, 'beyond 2\\^53'], [true, 'Input should be a valid integer'], [[30], 'Input should be a valid integer']] as const)
		it(`no integer: ${JSON.stringify(value)}`, async () => {
			const r = await s().raw('sandbox_run_python', { code: 'print(6 * 7)', timeout_s: value });
			assert.equal(r.isError, true);
			assert.match(r.content[0]!.text, new RegExp(`timeout_s\n.*${why}`));
		});
	it('the bounds hold for all forms', async () => {
		for (const timeout_s of [0, '0', 0.0, '-3e1', '1e9'])
			assert.equal(facts(await s().raw('sandbox_run_python', { code: '', timeout_s })).error, 'invalid_argument', String(timeout_s));
	});
	it('booleans as text', async () => {
		for (const code of ['a = 41', 'print(a + 1)'])
			assert.doesNotMatch(facts(await s().raw('sandbox_run_python', { code, session_id: 'b', stateful: 'true' })).stderr, /NameError/);
		assert.match(facts(await s().raw('sandbox_run_python', { code: 'print(a)', session_id: 'b', stateful: 'False' })).stderr, /NameError/);
	});
	it('numbers, objects and null of a new sandbox', async () => {
		const r = facts(await s().raw('sandbox_create', { session_id: 'made', cpus: '0.5', memory_mb: '256', processes: 32.0, persistent: null, env: '{"COLOUR":"red"}', labels: null, domains: null }));
		assert.equal(r.session_id, 'made', JSON.stringify(r));
		assert.equal(facts(await s().raw('sandbox_run_shell', { command: 'echo $COLOUR', session_id: 'made' })).stdout, 'red\n');
	});
	it('numbers where a text belongs', async () => {
		assert.equal(facts(await s().raw('sandbox_run_python', { code: 'print(input())', session_id: 123, stdin: 4.5 })).stdout, '4.5\n');
		assert.equal(facts(await s().raw('sandbox_run_python', { code: '6 * 7', session_id: '123' })).result, '42');
	});
	it('JSON where the text of a file belongs', async () => {
		for (const [content, kind, text] of [[{ name: 'Zoë', list: [1, 2.5, null] }, 'an object', '{\n  "name": "Zoë",\n  "list": [\n    1,\n    2.5,\n    null\n  ]\n}'], [[], 'a list', '[]']] as const) {
			const r = await s().raw('sandbox_write_file', { session_id: 'json', path: 'a.json', content, ...n8n });
			assert.match(r.content.at(-1)!.text, new RegExp(`^Note: content was ${kind} and no text, so its JSON text was taken; [^.]*\\. sandbox_write_file does not have these`));
			assert.equal(facts(await s().raw('sandbox_run_python', { session_id: 'json', code: 'print(open("a.json").read())' })).stdout, `${text}\n`);
		}
		const no = await s().raw('sandbox_edit_file', { session_id: 'json', path: 'a.json', old_text: [], new_text: 'x' });
		assert.match(no.content[0]!.text, /old_text\n.*Input should be a valid string/);
	});
	it('lines of a file of Windows are found as a model writes them', async () => {
		await s().raw('sandbox_write_file', { session_id: 'crlf', path: 'a.txt', content: 'one\r\ntwo\r\nthree\r\n' });
		const edit = (old_text: string, new_text: string) => s().raw('sandbox_edit_file', { session_id: 'crlf', path: 'a.txt', old_text, new_text });
		const r = await edit('one\ntwo', 'uno\ndos\ny');
		assert.match(r.content.at(-1)!.text, /^Note: the lines of this file end with \\r\\n, and so do those of new_text now\.$/);
		const plain = await edit('three', '3');
		assert.doesNotMatch(plain.content.at(-1)!.text, /^Note/);
		assert.equal(facts(await s().raw('sandbox_run_python', { session_id: 'crlf', code: 'print(open("a.txt", "rb").read())' })).stdout, "b'uno\\r\\ndos\\r\\ny\\r\\n3\\r\\n'\n");
		assert.equal(facts(await edit('uno\nnot', 'x')).error, 'no_match');
	});
	it('lines behind the end of a file', async () => {
		await s().raw('sandbox_write_file', { session_id: 'short', path: 'a.txt', content: 'one\ntwo\n' });
		assert.match((await s().raw('sandbox_read_file', { session_id: 'short', path: 'a.txt', start_line: 5 })).content[0]!.text, /^\/mnt\/data\/a\.txt: it has no line 5, only 2, 8 bytes\n/);
	});
	it('an empty text for what is left out', async () => {
		const made = facts(await s().raw('sandbox_run_python', { code: 'print(6 * 7)', session_id: '', stdin: '' }));
		assert.deepEqual([made.stdout, /^sess_/.test(made.session_id)], ['42\n', true], JSON.stringify(made));
		for (const [path, content, encoded] of [['a', 'text', ''], ['b', '', 'dGV4dA==']])
			assert.equal(facts(await s().raw('sandbox_write_file', { session_id: 'empty', path, content, content_base64: encoded })).size_bytes, 4);
		assert.equal(facts(await s().raw('sandbox_write_file', { session_id: 'empty', path: 'c', content: 'x', content_base64: 'eA==' })).error, 'invalid_argument');
		assert.equal(facts(await s().raw('sandbox_read_file', { session_id: '', path: 'a' })).error, 'invalid_session_id');
	});
	it('lists as text', async () => {
		const r = facts(await s().raw('sandbox_branch', { session_id: 'b', branches: '[{"name":"one","code":"print(6 * 7)"}]' }));
		assert.equal(r.branches?.[0]?.stdout, '42\n', JSON.stringify(r));
		const no = await s().raw('sandbox_branch', { session_id: 'b', branches: 'print(6 * 7)' });
		assert.match(no.content[0]!.text, /branches\n.*Input should be a valid list/);
	});
	it('members that no schema has are ignored, and the answer says so', async () => {
		const r = await s().raw('sandbox_run_python', { code: 'print(6 * 7)', ...n8n, timeout: 5 });
		assert.equal(facts(r).stdout, '42\n');
		const note = 'Note: sandbox_run_python does not have these arguments, they were ignored: toolCallId, sessionId, action, chatInput, timeout (did you mean timeout_s?)';
		assert.deepEqual([r.content.at(-1)!.text, r.structuredContent!.note], [note, note]);
		const failed = await s().raw('sandbox_read_file', { session_id: 'none', path: 'a', ...n8n });
		assert.match(failed.content.at(-1)!.text, /^Note: .*toolCallId/);
		const plain = await s().raw('sandbox_run_python', { code: 'print(6 * 7)' });
		assert.deepEqual([plain.content.length, plain.structuredContent!.note], [1, undefined]);
	});
	it('those of the items of a list, too', async () => {
		const r = await s().raw('sandbox_branch', { session_id: 'b', branches: [{ code: 'print(6 * 7)', title: 'x' }] });
		assert.equal(facts(r).branches[0].stdout, '42\n');
		assert.match(r.content.at(-1)!.text, /branches\[0\]\.title$/);
	});
});

describe('arguments', () => {
	it('30.0 and 3e1 on the wire', async () => {
		const c = new RawClient({}, ['stdio', '--profile', 'full']);
		try {
			await c.initialize();
			for (const [id, seconds] of [[1, '30.0'], [2, '3e1']]) {
				await c.send(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"sandbox_run_python","arguments":{"code":"print(6 * 7)","timeout_s":${seconds}}}}\n`);
				assert.equal((await c.answer(id as number)).result.structuredContent.result?.stdout, '42\n');
			}
		} finally {
			await c.end();
		}
	});
	it("n8n's members alone are ignored in the two contracts, without a note", async () => {
		await using('stdio', { profile: 'both' }, async (s) => {
			const r = await s.raw('sandbox_run_python', { code: 'print(6 * 7)', ...n8n });
			assert.deepEqual([r.content.length, r.structuredContent!.result.stdout, r.structuredContent!.note], [1, '42\n', undefined]);
			assert.equal((await s.raw('list_sandboxes', n8n)).isError ?? false, false);
			for (const [tool, args] of [['sandbox_run_python', { code: '' }], ['list_sandboxes', {}]] as const)
				assert.match((await s.raw(tool, { ...args, other: 1 })).content[0]!.text, /other\n  Unexpected keyword argument/);
		});
	});
});

describe('bodies and queries of REST', () => {
	let program: Program, base: string;
	before(async () => ({ program, base } = await serve({ profile: 'full' })));
	after(() => program.end());
	const ask = async (method: string, path: string, body?: string): Promise<{ status: number; body: Json }> => {
		const r = await fetch(`${base}/api/v1/${path}`, { method, body, headers: body ? { 'content-type': 'application/json' } : {} });
		return { status: r.status, body: await r.json() as Json };
	};
	it('other forms of numbers, booleans and lists', async () => {
		const made = await ask('POST', 'sandboxes', '{"memory_mb":256.0,"processes":"64","cpus":"0.5","env":"{\\"A\\":\\"b\\"}"}');
		assert.deepEqual([made.status, made.body.limits?.memory_mb, made.body.limits?.processes, made.body.limits?.cpus], [201, 256, 64, 0.5], JSON.stringify(made));
		for (const [timeout, wait] of [['3e1', 'true'], ['"30"', '"true"'], ['30.0', '"True"']]) {
			const r = await ask('POST', `sandboxes/${made.body.id}/runs`, `{"code":"print(6 * 7)","timeout_s":${timeout},"wait":${wait}}`);
			assert.equal(r.body.stdout, '42\n', JSON.stringify(r));
		}
		for (const timeout of ['30.5', '"thirty"', '"0"', '1e300', 'null']) {
			const r = await ask('POST', `sandboxes/${made.body.id}/runs`, `{"code":"","timeout_s":${timeout}}`);
			assert.deepEqual([r.status, r.body.code], [400, 'invalid_argument'], timeout);
		}
		for (const limit of ['5', '5.0', '5e0'])
			assert.equal((await ask('GET', `audit?limit=${limit}`)).status, 200, limit);
		for (const limit of ['5.5', 'five', '0', '1e9'])
			assert.equal((await ask('GET', `audit?limit=${limit}`)).status, 400, limit);
	});
});
