// SPDX-License-Identifier: Apache-2.0
// The error of a message that cannot be read has the id of its request, wherever that can be found; else a client waits for it until its time is up.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Stream } from '../lib/event-stream.ts';
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
	// A reader that makes doubles of numbers would not see what was sent: texts are compared.
	const odd = ['1.0', '-0', '1e0', '2.50', '18446744073709551615', '340282366920938463463374607431768211456'];
	const same = (text: string, id: string): boolean => text.includes(`"id":${id},`);
	const lineWith = (...parts: string[]): Promise<string> =>
		until(`a line with ${parts}`, () => client.lines.find((l) => parts.every((p) => l.includes(p))));
	for (const id of odd)
		it(`an id or token ${id} comes back as it was written`, async () => {
			const from = client.lines.length;
			const next = (): Promise<string> => until('an answer', () => client.lines.slice(from).find((l) => same(l, id)));
			await client.send(`{"jsonrpc":"2.0","id":${id},"method":"ping"}\n`);
			assert.match(await next(), /"result":\{\}/);
			for (const [body, want] of [[`{"jsonrpc":"2.0","method":"nothing","id":${id}}`, -32601], [call('"a":1e999', id), -32600], [call('"a":"\\ud800"', id, true), -32700]] as const) {
				const had = client.lines.length;
				await client.send(`${body}\n`);
				const line = await until('an error', () => client.lines.slice(had).find((l) => same(l, id)));
				assert.equal(JSON.parse(line).error.code, want, line);
			}
			const r = await fetch(`${base}/mcp`, { method: 'POST', body: call('"a":1e999', id), headers: { 'content-type': 'application/json', accept: 'application/json' } });
			const text = await r.text();
			assert.ok(r.status === 400 && same(text, id), text);
			const began = await fetch(`${base}/mcp`, { method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json' },
				body: `{"jsonrpc":"2.0","id":${id},"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"m","version":"1"}}}` });
			const first = await began.text();
			assert.ok(began.status === 200 && same(first, id), first);

			// Progress has the token, and a cancellation finds its call.
			await client.send(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"sandbox_run_python","arguments":{"code":"while True: pass"},"_meta":{"progressToken":${id}}}}\n`);
			await lineWith(`"progressToken":${id},`);
			await client.send(`{"jsonrpc":"2.0","id":${id},"method":"ping"}\n`);
			await lineWith(`"id":${id},`, 'in flight');
			await client.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id}}}\n`);
			const had = client.lines.length;
			await client.send(`{"jsonrpc":"2.0","id":${id},"method":"ping"}\n`);
			assert.match(await until('the answer', () => client.lines.slice(had).find((l) => same(l, id))), /"result":\{\}/);
		});
	it('the same over HTTP+SSE', async () => {
		const stream = await Stream.open(`${base}/sse`);
		const endpoint = base + (await stream.wait(/data: (\/messages\/\S+)/))[1]!;
		const sent = async (body: string): Promise<number> => {
			const r = await fetch(endpoint, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
			await r.text();
			return r.status;
		};
		for (const id of odd) {
			assert.equal(await sent(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`), 202);
			await until('the answer', () => stream.text.includes(`"id":${id},"result":{}`));
		}
		// Its clients wait for an event with the id, whatever the POST says.
		for (const [name, more, code] of faults)
			for (const behind of [false, true]) {
				const id = next++;
				assert.equal(await sent(call(more, String(id), behind)), 202, name);
				await until(`the error of ${name}`, () => stream.text.includes(`"id":${id},"error":{"code":${code},`));
			}
		assert.equal(await sent('{"jsonrpc":"2.0","id":null,"method":"ping"}'), 400);
		stream.close();
	});
	it('numbers that differ in their text only are different ids', async () => {
		await client.send('{"jsonrpc":"2.0","id":7.0,"method":"tools/call","params":{"name":"sandbox_run_python","arguments":{"code":"while True: pass"}}}\n');
		const had = client.lines.length;
		await client.send('{"jsonrpc":"2.0","id":"7.0","method":"ping"}\n');
		assert.deepEqual((await client.answer('7.0')).result, {});
		assert.equal(client.lines.slice(had).filter((l) => same(l, '7.0')).length, 0);
		await client.send('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7.0}}\n');
		await client.alive();
	});
	it('a number of more than 160 bytes is no id', async () => {
		const had = client.lines.length;
		await client.send(`{"jsonrpc":"2.0","id":1.${'0'.repeat(160)},"method":"ping"}\n`);
		const answer = await until('an answer', () => client.messages()[had]);
		assert.ok(answer.error?.code === -32600 && answer.id === undefined, JSON.stringify(answer));
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
