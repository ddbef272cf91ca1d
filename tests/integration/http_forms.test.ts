// SPDX-License-Identifier: Apache-2.0
// What clients may say in HTTP: versions, Accept, event ids and how to resume, methods, chunk extensions and trailers, absolute targets.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { after, before, describe, it } from 'node:test';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';

const initialize = (version: unknown): Json => ({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: version, capabilities: {}, clientInfo: { name: 'forms', version: '1' } } });
const run = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { code: 'print(6 * 7)', session_id: 'h' } } };
const progress = { ...run, params: { ...run.params, _meta: { progressToken: 'p' } } };
const revisions = ['2025-03-26', '2025-06-18', '2025-11-25'];

interface Event { id?: string; event: string; data: string }
const eventsOf = (text: string): Event[] => text.split('\n\n').filter((e) => /^(id|data|event):/m.test(e)).map((e) => {
	const field = (name: string): string | undefined => new RegExp(`^${name}: ?(.*)$`, 'm').exec(e)?.[1];
	return { id: field('id'), event: field('event') ?? 'message', data: field('data') ?? '' };
});

describe('forms of HTTP', () => {
	let program: Program, base: string, port: number;
	before(async () => ({ program, base, port } = await serve({ profile: 'full' })));
	after(() => program.end());
	const post = (body: Json, headers: Record<string, string> = {}): Promise<Response> =>
		fetch(`${base}/mcp`, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers } });
	const session = async (revision: string): Promise<Record<string, string>> =>
		({ 'mcp-session-id': (await post(initialize(revision))).headers.get('mcp-session-id')!, 'mcp-protocol-version': revision });
	/** All that the server says to these bytes, until it closes the connection. */
	const raw = (bytes: string): Promise<string> => new Promise((resolve, reject) => {
		let said = '';
		const s = net.connect(port, '127.0.0.1', () => s.write(bytes));
		s.setEncoding('utf8').on('data', (d: string) => (said += d)).on('error', reject).on('close', () => resolve(said));
	});
	const head = (method: string, target: string): string => `${method} ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n`;

	for (const header of ['2099-01-01', '', 'newest', '2026-07-28', '2025-06-18'])
		it(`initialize with MCP-Protocol-Version: ${header}`, async () => {
			const r = await post(initialize('2025-06-18'), { 'mcp-protocol-version': header });
			assert.equal(((await r.json()) as Json).result?.protocolVersion, '2025-06-18');
			assert.ok(r.headers.get('mcp-session-id'));
		});
	it('the version in the parameters: unknown ones get the newest, no text is an error', async () => {
		for (const version of ['2099-01-01', ''])
			assert.equal(((await (await post(initialize(version))).json()) as Json).result.protocolVersion, '2025-11-25');
		for (const version of [5, null, [], undefined])
			assert.equal(((await (await post(initialize(version))).json()) as Json).error.code, -32602);
	});
	it('what is left out as PHP and others write it: [], null and an empty cursor; /mcp with a slash behind it', async () => {
		const begin = await post({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: [], clientInfo: { name: 't', version: '1' } } });
		const session = { 'mcp-session-id': begin.headers.get('mcp-session-id')!, 'mcp-protocol-version': '2025-06-18' };
		const ask = async (method: string, params: unknown, path = '/mcp'): Promise<Json> =>
			await (await fetch(`${base}${path}`, { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 2, method, params }),
				headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...session } })).json() as Json;
		for (const params of [[], null, { cursor: null }, { cursor: '' }])
			assert.ok((await ask('tools/list', params)).result?.tools?.length, JSON.stringify(params));
		assert.equal((await ask('tools/list', { cursor: 'x' })).error.code, -32602);
		for (const args of [[], null])
			assert.ok((await ask('tools/call', { name: 'sandbox_list', arguments: args }, '/mcp/')).result?.structuredContent, JSON.stringify(args));
		// the object as its JSON text
		const ran = await ask('tools/call', { name: 'sandbox_run_python', arguments: JSON.stringify({ code: 'print("as \\"text\\"")' }) });
		assert.match(ran.result.content[0].text, /as "text"/);
		assert.ok((await ask('tools/call', { name: 'sandbox_list', arguments: '{}' })).result?.structuredContent);
		for (const args of [[1], '{', '[1]', '1', 'x', 1, true])
			assert.equal((await ask('tools/call', { name: 'sandbox_list', arguments: args })).error?.code, -32602, JSON.stringify(args));
		for (const [labels, good] of [[[], true], ['{}', true], [[1], false]] as const)
			assert.equal((await ask('tools/call', { name: 'sandbox_create', arguments: { session_id: 'labels', labels } })).result.isError ?? false, !good, JSON.stringify(labels));
		const modern = async (capabilities: unknown): Promise<Json> => await (await fetch(`${base}/mcp`, { method: 'POST',
			body: JSON.stringify({ jsonrpc: '2.0', id: 3, method: 'tools/list', params: { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': capabilities } } }),
			headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' } })).json() as Json;
		assert.ok((await modern([])).result?.tools?.length);
		assert.equal((await modern([1])).error.code, -32602);
	});
	it('an empty version behind initialize counts as none, an unknown one does not', async () => {
		const s = await session('2025-06-18');
		const ping = { jsonrpc: '2.0', id: 3, method: 'ping' };
		assert.equal((await post(ping, { ...s, 'mcp-protocol-version': '' })).status, 200);
		assert.equal((await post(ping, { ...s, 'mcp-protocol-version': '2025-13-13' })).status, 400);
	});
	for (const revision of revisions) {
		it(`${revision}: Accept is honoured`, async () => {
			const s = await session(revision);
			for (const [accept, type] of [['text/event-stream', 'text/event-stream'], ['application/json', 'application/json'], ['application/json, text/event-stream', 'application/json'], ['*/*', 'application/json']])
				for (const call of [run, ...(type === accept ? [progress] : [])]) {
					const r = await post(call, { ...s, accept: accept! });
					assert.equal(r.headers.get('content-type'), type, accept);
					const text = await r.text();
					const answer = JSON.parse(type === 'application/json' ? text : eventsOf(text).at(-1)!.data) as Json;
					assert.equal(answer.result.structuredContent.result.stdout, '42\n', text);
				}
			const begin = await post(initialize(revision), { accept: 'text/event-stream' });
			assert.equal(begin.headers.get('content-type'), 'text/event-stream');
			assert.ok(begin.headers.get('mcp-session-id'));
			assert.equal((JSON.parse(eventsOf(await begin.text()).at(-1)!.data) as Json).result.protocolVersion, revision);
		});
		it(`${revision}: an id comes before the result, and leads to it again`, async () => {
			const s = await session(revision), other = await session(revision);
			await (await post(progress, other)).text(); // it has a stream of the same number
			for (const [call, accept] of [[progress, 'application/json, text/event-stream'], [run, 'text/event-stream']] as const) {
				const seen = eventsOf(await (await post(call, { ...s, accept })).text());
				assert.ok(seen.length >= 2 && seen[0]!.id && !seen[0]!.data.includes('"result"'), JSON.stringify(seen));
				assert.ok(seen.every((e) => e.event !== 'message' || e.data === '' || JSON.parse(e.data)));
				const resume = (headers: Record<string, string>, id: string): Promise<Response> => fetch(`${base}/mcp`, { headers: { accept: 'text/event-stream', ...headers, 'last-event-id': id } });
				const again = eventsOf(await (await resume(s, seen[0]!.id)).text());
				assert.deepEqual(again.at(-1), seen.at(-1));
				for (const foreign of [seen[0]!.id.replace(/^./, (c) => (c === '0' ? '1' : '0')), seen[0]!.id.replace(/\d+_\d+$/, '999_0'), 'nonsense', '1_1', '../x'])
					assert.equal((await resume(s, foreign)).status, 404, foreign);
				assert.equal((await resume(other, seen[0]!.id)).status, 404, 'an event of another session');
			}
		});
	}
	it('Allow is the same, however it comes about', async () => {
		const allow = 'GET, HEAD, POST, DELETE, OPTIONS';
		for (const [method, status] of [['PUT', 405], ['PATCH', 405], ['GET', 405], ['HEAD', 405], ['DELETE', 405], ['OPTIONS', 204]] as const) {
			const r = await fetch(`${base}/mcp`, { method, headers: { accept: 'text/event-stream' } });
			assert.deepEqual([method, r.status, r.headers.get('allow')], [method, status, allow]);
		}
	});
	it('chunk extensions and trailers are skipped, up to a limit', async () => {
		const body = JSON.stringify(initialize('2025-06-18'));
		const post = (extension: string, trailers: string): Promise<string> =>
			raw(`${head('POST', '/mcp')}Content-Type: application/json\r\nAccept: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}${extension}\r\n${body}\r\n0${extension}\r\n${trailers}\r\n`);
		for (const [extension, trailers] of [[';a=b', ''], [' ; a = "b;\\"c" ; d', ''], ['', 'X-Sum: 1\r\nY:\r\n'], [';a', `X: ${'y'.repeat(8000)}\r\n`]] as const)
			assert.match(await post(extension, trailers), /^HTTP\/1\.1 200 [^]*"protocolVersion":"2025-06-18"/);
		for (const [extension, trailers] of [[`;${'x'.repeat(20_000)}`, ''], ['', `X: ${'y'.repeat(20_000)}\r\n`], [' a', ''], [';a\u0000', ''], ['', ' X: folded\r\n'], ['', 'X: y\n']] as const)
			assert.match(await post(extension, trailers), /^HTTP\/1\.1 400 /);
	});
	it('a body that is announced gets a 100 before the answer, also an empty one: the client of Java 17 waits for it', async () => {
		await post(run, await session('2025-06-18'));
		for (const [i, [length, body]] of [['Content-Length: 0\r\n', ''], ['Transfer-Encoding: chunked\r\n', '0\r\n\r\n'], ['Content-Length: 2\r\n', 'hi']].entries()) {
			const put = head('PUT', `/api/v1/sandboxes/h/files/expected-${i}.txt`) + `${length}Expect: 100-Continue\r\n\r\n`;
			const s = net.connect(port, '127.0.0.1', () => s.write(put));
			let said = '', sent = false;
			for await (const d of s.setEncoding('utf8')) {
				said += d as string;
				if (!sent && said.startsWith('HTTP/1.1 100 Continue\r\n\r\n'))
					sent = s.write(body!) || true;
			}
			assert.match(said, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 2\d\d /, `${length}${said}`);
		}
	});
	it('an offer of HTTP/2 in plain text is answered in HTTP/1.1', async () => {
		const text = JSON.stringify(initialize('2025-06-18'));
		const said = await raw(`POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\n`
			+ `Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
		assert.match(said, /^HTTP\/1\.1 200 /);
		assert.match(said, /"protocolVersion":"2025-06-18"/);
	});
	it('absolute targets', async () => {
		for (const target of [`http://127.0.0.1:${port}/healthz`, `HTTP://localhost:${port}/healthz?x=1`])
			assert.match(await raw(`${head('GET', target)}\r\n`), /^HTTP\/1\.1 200 [^]*"ok"/);
	});
});
