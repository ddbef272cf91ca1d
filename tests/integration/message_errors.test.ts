// SPDX-License-Identifier: Apache-2.0
// The error of a message that cannot be read has the id of its request, wherever that can be found; else a client waits for it until its time is up.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Program } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const MARK = '\ufeff';
/** A call with these further members of its arguments, and the id before or behind them. */
const call = (more: string, id: string, behind = false): string =>
	`{"jsonrpc":"2.0",${behind ? '' : `"id":${id},`}"method":"tools/call","params":{"name":"sandbox_list","arguments":{${more}}}${behind ? `,"id":${id}` : ''}}`;
const deep = (n: number): string => '[ "]\\"", '.repeat(n) + ']'.repeat(n);

const faults: [string, string, number][] = [
	['half of a surrogate pair', '"a":"\\ud800"', -32700],
	['the other half', '"a":"x\\udc00y"', -32700],
	['two first halves', '"a":"\\ud800\\ud800"', -32700],
	['an integer beyond 2^63', '"a":9223372036854775808', -32600],
	['1e999', '"a":1e999', -32600],
	['deep nesting', `"a":${deep(100).replace(/, \]/, ']')}`, -32600],
	['very deep nesting', `"a":${'['.repeat(5000)}${']'.repeat(5000)}`, -32600],
	['a key twice', '"a":1,"a":2', -32600],
	['NUL in a key', '"a\\u0000b":1', -32600],
	['NUL in a string, as it is', '"a":"x\u0000y"', -32700],
	['a tab in a string, as it is', '"a":"x\ty"', -32700],
];

describe('ids of messages that cannot be read', () => {
	let client: RawClient, program: Program, base: string;
	before(async () => {
		client = new RawClient({}, ['stdio', '--profile', 'full']);
		await client.initialize('2025-06-18');
		({ program, base } = await serve({ profile: 'full' }));
	});
	after(async () => {
		await client.end();
		await program.end();
	});
	let next = 100;
	const post = async (body: string): Promise<{ status: number; body: Json }> => {
		const r = await fetch(`${base}/mcp`, { method: 'POST', body, headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' } });
		return { status: r.status, body: await r.json() as Json };
	};
	for (const [name, more, code] of faults)
		it(name, async () => {
			for (const behind of [false, true]) {
				const id = next++;
				await client.send(`${call(more, String(id), behind)}\n`);
				assert.equal((await client.answer(id)).error.code, code);
				const r = await post(call(more, '"over http"', behind));
				assert.deepEqual([r.status, r.body.id, r.body.error.code], [400, 'over http', code], JSON.stringify(r));
			}
			await client.alive();
		});
	it('bytes that are not UTF-8', async () => {
		const id = next++;
		await client.send(Buffer.from(`${call('"a":"\xff\xc3"', String(id), true)}\n`, 'latin1'));
		assert.equal((await client.answer(id)).error.code, -32700);
	});
	it('no JSON behind the id', async () => {
		for (const end of [',}', ' x', '', '\u0000}', '}{"jsonrpc":"2.0"}']) {
			const id = next++;
			await client.send(`{"jsonrpc":"2.0","id":${id},"method":"ping"${end === '' ? ',' : end}\n`);
			assert.equal((await client.answer(id)).error.code, -32700, end);
		}
	});
	it('two ids, or one that cannot be read, is none', async () => {
		for (const line of ['{"jsonrpc":"2.0","id":901,"id":902,"method":"ping"}', '{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', '{"jsonrpc":"2.0","id":903,"result":{"a":"\\ud800"}}']) {
			const had = client.lines.length;
			await client.send(`${line}\n`);
			const answer = await until('an answer', () => client.messages()[had]);
			assert.ok(answer.error && answer.id === undefined, JSON.stringify(answer));
		}
	});
	it('a byte order mark before a message or a body is skipped', async () => {
		const c = new RawClient({}, ['stdio', '--profile', 'full']);
		try {
			await c.send(`${MARK}{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"m","version":"1"}}}\n`);
			assert.equal((await c.answer(1)).result.protocolVersion, '2025-06-18');
		} finally {
			await c.end();
		}
		const r = await post(`${MARK}{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"m","version":"1"}}}`);
		assert.equal(r.body.result?.protocolVersion, '2025-06-18', JSON.stringify(r));
		const made = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', body: `${MARK}{}`, headers: { 'content-type': 'application/json' } });
		assert.equal(made.status, 201);
	});
});
