// SPDX-License-Identifier: Apache-2.0
// Both bridges against servers that do what Caisson does not do, or seldom does.

import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { Json } from '../../lib/session.ts';
import { Stub, type Seen } from './stub.ts';
import { client, ends, newcomer, type Case, type Launcher, type World } from './world.ts';

const answerTo = (m: Json, result: Json): string => JSON.stringify({ jsonrpc: '2.0', id: m.id, result });
const json = (r: ServerResponse, m: Json, result: Json, headers = {}): void => void r.writeHead(200, { 'content-type': 'application/json', ...headers }).end(answerTo(m, result));
const stream = (r: ServerResponse, headers = {}): ServerResponse => r.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...headers });

type Answer = (q: Seen, r: ServerResponse) => boolean | void;
interface Row {
	name: string;
	/** True: it has answered. */
	answer: Answer;
	check(ask: (method: string, params?: Json) => Promise<Json>, seen: Seen[], messages: () => Json[]): Promise<void>;
}

const rows: Row[] = [
	{
		name: 'initialize may be answered with a stream; session and revision are sent with all that follows',
		answer(q, r) {
			if (q.message.method !== 'initialize')
				return false;
			stream(r, { 'mcp-session-id': 'own' }).end(`: hello\r\nevent: message\r\nid: 1\r\ndata: ${answerTo(q.message, { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 's', version: '1' } })}\r\n\r\n`);
			return true;
		},
		async check(ask, seen) {
			await ask('ping');
			const ping = seen.find((q) => q.message.method === 'ping')!;
			assert.equal(ping.headers['mcp-session-id'], 'own');
			assert.equal(ping.headers['mcp-protocol-version'], '2025-06-18');
			assert.ok(seen.some((q) => q.method === 'GET' && q.headers['mcp-session-id'] === 'own'));
		},
	},
	{
		name: 'a message of several lines becomes one',
		answer(q, r) {
			if (q.message.method !== 'lines')
				return false;
			stream(r).end(`data: {"jsonrpc":"2.0","id":${JSON.stringify(q.message.id)},\ndata: "result":\ndata:{"a":"b"}}\n\n`);
			return true;
		},
		async check(ask) {
			assert.deepEqual((await ask('lines')).result, { a: 'b' });
		},
	},
	{
		name: 'an event that broke off is asked for again',
		answer(q, r) {
			const last = q.headers['last-event-id'];
			if (q.message.method === 'broken')
				stream(r).write(`retry: 10\nid: 1\ndata: \n\nid: 2\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\nid: 3\ndata: {"jsonrpc":"2.0","id":"`, () => r.destroy());
			else if (last === '2')
				stream(r).end(`id: 3\ndata: ${answerTo({ id: 'broken' }, { whole: true })}\n\n`);
			else
				return false;
			return true;
		},
		async check(ask, seen, messages) {
			assert.deepEqual((await ask('broken')).result, { whole: true });
			assert.equal(messages().filter((m) => m.method === 'notifications/x').length, 1);
			assert.ok(seen.some((q) => q.headers['last-event-id'] === '2'));
		},
	},
	{
		name: 'a stream that ends again and again without an answer is an error at last',
		answer(q, r) {
			if (q.message.method === 'never')
				stream(r).end('retry: 1\nid: 7\ndata: \n\n');
			else if (q.headers['last-event-id'] === '7')
				stream(r).end();
			else
				return false;
			return true;
		},
		async check(ask) {
			assert.match((await ask('never')).error.message, /cannot be had any more/);
		},
	},
	{
		name: 'a stream without ids that breaks, an empty answer, a redirection, a refusal in words: each is an error with the id',
		answer(q, r) {
			const { method } = q.message;
			if (method === 'noids')
				stream(r).end(': nothing\n\n');
			else if (method === 'empty')
				r.writeHead(202).end();
			else if (method === 'moved')
				r.writeHead(308, { location: 'https://other.example.org/mcp' }).end();
			else if (method === 'busy')
				r.writeHead(429, { 'content-type': 'application/json' }).end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"too many"}}');
			else if (method === 'html')
				r.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad</h1>');
			else
				return false;
			return true;
		},
		async check(ask) {
			assert.match((await ask('noids')).error.message, /broke before the answer/);
			assert.match((await ask('empty')).error.message, /gave no answer/);
			assert.match((await ask('moved')).error.message, /answered 308: https:\/\/other\.example\.org\/mcp/);
			assert.match((await ask('busy')).error.message, /answered 429: too many/);
			assert.match((await ask('html')).error.message, /answered 502: Bad Gateway/);
		},
	},
	{
		name: 'a refusal that is an answer to the request goes through as it is',
		answer(q, r) {
			if (q.message.method !== 'wrong')
				return false;
			r.writeHead(400, { 'content-type': 'application/json' }).end(`{"jsonrpc":"2.0","id":${JSON.stringify(q.message.id)},"error":{"code":-32602,"message":"own words","data":1.0}}`);
			return true;
		},
		async check(ask) {
			assert.equal((await ask('wrong')).error.code, -32602);
		},
	},
	{
		name: 'a message of the modern era has its headers and no session; its names are encoded',
		answer: () => false,
		async check(ask, seen) {
			const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
			await ask('tools/call', { name: 'plain', _meta });
			await ask('resources/read', { uri: 'é', _meta });
			const [one, two] = seen.slice(-2);
			assert.equal(one!.headers['mcp-protocol-version'], '2026-07-28');
			assert.equal(one!.headers['mcp-method'], 'tools/call');
			assert.equal(one!.headers['mcp-name'], 'plain');
			assert.equal(one!.headers['mcp-session-id'], undefined);
			assert.equal(two!.headers['mcp-name'], '=?base64?w6k=?=');
		},
	},
];

async function check(row: Row, l: Launcher): Promise<void> {
	const stub = await Stub.start((q, r) => {
		if (row.answer(q, r))
			return;
		if (q.method === 'GET')
			r.writeHead(405).end();
		else if (q.method !== 'POST' || q.message.id === undefined)
			r.writeHead(202).end();
		else
			json(r, q.message, q.message.method === 'initialize' ? { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 's', version: '1' } } : {},
				q.message.method === 'initialize' ? { 'mcp-session-id': 's1' } : {});
	});
	const c = client(l, { ...newcomer().env, CAISSON_BRIDGE: '1', CAISSON_URL: stub.url });
	try {
		await c.initialize();
		await c.request('ping');
		await row.check(async (method, params) => {
			await c.sendJson({ jsonrpc: '2.0', id: method, method, ...(params ? { params } : {}) });
			return c.answer(method, 60_000);
		}, stub.seen, () => c.messages());
		await ends(c);
		assert.ok(stub.seen.some((q) => q.method === 'DELETE'));
	} finally {
		await c.end();
		stub.stop();
	}
}

export const stubCases = (w: World): Case[] =>
	w.bridges.flatMap((l) => rows.map((row): Case => ({ name: `${l.name} bridge: ${row.name}`, run: () => check(row, l) })));
