// SPDX-License-Identifier: Apache-2.0
// Bad input on both wires: each gets its error, the server goes on, nothing is created.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { after, before, describe, it } from 'node:test';
import { slowness } from '../lib/env.ts';
import { isError } from '../lib/expect.ts';
import { residentBytes, type Program } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { serve, type Json } from '../lib/session.ts';
import { start } from '../lib/process.ts';
import { until } from '../lib/wait.ts';

/** Messages that are no requests, and the JSON-RPC code of the answer. */
const broken: [what: string, line: string | Buffer, codes: number[]][] = [
	['no JSON', 'hello', [-32700]],
	['half a document', '{"jsonrpc":"2.0","id":1,', [-32700]],
	['two documents', '{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}', [-32700]],
	['a bare number', '7', [-32600, -32700]],
	['a string', '"ping"', [-32600, -32700]],
	['null', 'null', [-32600, -32700]],
	['an empty batch', '[]', [-32600]],
	['an empty object', '{}', [-32600]],
	['no version', '{"id":90,"method":"ping"}', [-32600]],
	['another version', '{"jsonrpc":"1.0","id":91,"method":"ping"}', [-32600]],
	['a method that is a number', '{"jsonrpc":"2.0","id":92,"method":5}', [-32600]],
	['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"ping"}', [-32600]],
	['params that are a string', '{"jsonrpc":"2.0","id":93,"method":"tools/list","params":"x"}', [-32600, -32602]],
	['invalid UTF-8', Buffer.from('{"jsonrpc":"2.0","id":94,"method":"\xff\xfe"}', 'latin1'), [-32700]],
	['a lone surrogate', '{"jsonrpc":"2.0","id":95,"method":"\\ud800"}', [-32700, -32600, -32601]],
	['NaN', '{"jsonrpc":"2.0","id":NaN,"method":"ping"}', [-32700]],
	['depth 100,000', '['.repeat(100_000) + ']'.repeat(100_000), [-32700, -32600]],
	['a duplicate key', '{"jsonrpc":"2.0","id":96,"id":97,"method":"ping"}', [-32700, -32600]],
];

describe('stdio', () => {
	let c: RawClient;
	before(async () => {
		c = new RawClient();
		await c.initialize();
	});
	after(() => c.end());

	for (const [what, line, codes] of broken) {
		it(what, async () => {
			const seen = c.lines.length;
			await c.send(Buffer.concat([Buffer.from(line as string), Buffer.from('\n')]));
			const answer = await until('an error', () => c.messages().slice(seen).find((m) => m.error));
			assert.ok(codes.includes(answer.error.code), JSON.stringify(answer));
			await c.alive();
		});
	}
	it('unknown methods and calls without a name', async () => {
		assert.equal((await c.request('no/such/method')).error.code, -32601);
		assert.equal((await c.request('tools/call', {})).error.code, -32602);
		assert.equal((await c.request('tools/call', { name: 5 })).error.code, -32602);
		const shape = await c.request('tools/call', { name: 'sandbox_run_python', arguments: [1] });
		assert.ok(shape.error?.code === -32602 || shape.result?.isError === true, JSON.stringify(shape));
		await c.alive();
	});
	it('a notification with nonsense is not answered', async () => {
		const seen = c.lines.length;
		await c.sendJson({ jsonrpc: '2.0', method: 'notifications/unheard-of', params: { x: [1] } });
		await c.sendJson({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'nobody' } });
		await c.alive();
		assert.equal(c.lines.length, seen + 1);
	});
	it('CRLF and blank lines are fine', async () => {
		await c.send('\r\n\n{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n');
		assert.deepEqual((await c.answer('crlf')).result, {});
	});
	it('one message in many pieces, many messages in one piece', async () => {
		const text = '{"jsonrpc":"2.0","id":"pieces","method":"ping"}\n';
		for (const ch of text)
			await c.send(ch);
		assert.deepEqual((await c.answer('pieces')).result, {});
		await c.send(Array.from({ length: 50 }, (_, i) => `{"jsonrpc":"2.0","id":"m${i}","method":"ping"}\n`).join(''));
		for (let i = 0; i < 50; i++)
			await c.answer(`m${i}`);
	});
	it('an upload over the limit is refused in constant memory', async () => {
		const before = residentBytes(c.pid);
		await c.send('{"jsonrpc":"2.0","id":"huge","method":"tools/call","params":{"name":"sandbox_upload_file","arguments":{"session_id":"huge","filename":"a","content_base64":"');
		let peak = 0;
		const piece = Buffer.alloc(1 << 20, 'A');
		for (let i = 0; i < 150; i++) {
			await c.send(piece);
			peak = Math.max(peak, residentBytes(c.pid));
		}
		await c.send('"}}}\n');
		// A message over the limit of messages is given up before its id is known.
		const r = await until('an answer', () => c.messages().find((m) => m.id === 'huge' || m.error?.message === 'The message is too large'), 60_000);
		const code = r.error?.code ?? r.result.structuredContent?.result.error;
		assert.ok(code === 'upload_too_large' || code === -32600 || code === -32700 || code === -32602, JSON.stringify(r).slice(0, 300));
		assert.ok(peak - before < 120 << 20, `grew by ${(peak - before) >> 20} MiB`);
		isError(await c.tool('sandbox_close_session', { session_id: 'huge' }), 'session_not_found');
	});
	it('a line without end does not eat the memory', async () => {
		const d = new RawClient();
		try {
			await d.initialize();
			const piece = Buffer.alloc(1 << 20, 'x');
			let peak = 0;
			for (let i = 0; i < 300 && d.program.child.exitCode === null; i++) {
				await d.send(piece);
				peak = Math.max(peak, residentBytes(d.pid));
			}
			assert.ok(peak < 300 << 20, `${peak >> 20} MiB`);
			if (d.program.child.exitCode === null) {
				await d.send('\n');
				await d.alive();
			}
		} finally {
			await d.end();
		}
	});
	it('code with NUL, with a lone surrogate, with every control character', async () => {
		const nul = await c.tool('sandbox_run_python', { code: 'print(1)\u0000print(2)', session_id: 'ctl' });
		assert.ok(nul.exit_code !== 0 || nul.error, JSON.stringify(nul));
		const seen = c.lines.length;
		await c.send('{"jsonrpc":"2.0","id":"sur","method":"tools/call","params":{"name":"sandbox_run_python","arguments":{"code":"print(\\"\\ud800\\")","session_id":"ctl"}}}\n');
		await until('a refusal', () => c.messages().slice(seen).find((m) => m.error?.code === -32700));
		const all = String.fromCharCode(...Array.from({ length: 31 }, (_, i) => i + 1));
		const r = await c.tool('sandbox_run_python', { code: `import sys; sys.stdout.write(${JSON.stringify(all)})`, session_id: 'ctl' });
		assert.equal(r.stdout, all);
		await c.alive();
	});
	it('progress and log messages come before the answer, and only when asked for', async () => {
		const seen = c.lines.length;
		await c.sendJson({ jsonrpc: '2.0', id: 'p', method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { code: 'pass', session_id: 'prog' }, _meta: { progressToken: 'tok' } } });
		await c.answer('p');
		const m = c.messages().slice(seen);
		const progress = m.filter((x) => x.method === 'notifications/progress').map((x) => x.params);
		assert.deepEqual(progress.map((p) => [p.progressToken, p.progress, p.total]), [['tok', 0.1, 1], ['tok', 1, 1]]);
		const logs = m.filter((x) => x.method === 'notifications/message').map((x) => x.params);
		assert.ok(logs.length >= 2 && logs.every((l) => l.level === 'info'), JSON.stringify(logs));
		assert.equal(m.at(-1)!.id, 'p', 'the answer comes last');
		await c.tool('sandbox_run_python', { code: 'pass', session_id: 'prog' });
		assert.equal(c.messages().slice(seen).filter((x) => x.method === 'notifications/progress').length, 2);
	});
	it('everything on stdout was JSON-RPC', () => {
		for (const m of c.messages())
			assert.equal(m.jsonrpc, '2.0');
	});
	it('end of input ends the server with status 0', async () => {
		const d = new RawClient();
		await d.initialize();
		d.program.child.stdin!.end();
		const exit = await d.program.exit;
		assert.deepEqual([exit.code, exit.signal], [0, null], exit.stderr.toString());
	});
	it('end of input right after a request still answers it', async () => {
		const p = start(['stdio', '--profile', 'code'], {
			input: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n' +
				'{"jsonrpc":"2.0","method":"notifications/initialized"}\n{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n',
		});
		const exit = await p.exit;
		assert.equal(exit.code, 0);
		assert.deepEqual(exit.stdout.toString().trim().split('\n').map((l) => (JSON.parse(l) as Json).id), [1, 2]);
	});
	it('initialize waits for no engine (timing)', async () => {
		const times: number[] = [];
		// Spawning from Node on a busy machine is part of it: one quick answer shows that nothing slow stands before it.
		while (times.length < 40 && !times.some((ms) => ms < 150 * slowness)) {
			const t0 = performance.now();
			const d = new RawClient();
			await d.initialize();
			times.push(performance.now() - t0);
			d.program.child.stdin!.end();
			await d.program.exit;
		}
		assert.ok(Math.min(...times) < 150 * slowness, times.map(Math.round).join(' '));
	});
});

describe('Streamable HTTP', () => {
	let program: Program, port: number, base: string;
	const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
	before(async () => {
		({ program, port, base } = await serve());
	});
	after(async () => {
		program.kill('SIGTERM');
		await program.exit;
	});
	const post = (body: BodyInit, extra: Record<string, string> = {}): Promise<Response> =>
		fetch(`${base}/mcp`, { method: 'POST', headers: { ...headers, ...extra }, body });
	const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } } };
	async function session(): Promise<string> {
		const r = await post(JSON.stringify(initialize));
		assert.equal(r.status, 200);
		await r.text();
		return r.headers.get('mcp-session-id')!;
	}

	for (const [what, line, codes] of broken) {
		it(what, async () => {
			const id = await session();
			const r = await post(line as BodyInit, { 'mcp-session-id': id });
			const text = await r.text();
			assert.ok(r.status === 400 || r.status === 200, `${r.status} ${text}`);
			const json = JSON.parse(text.replace(/^[^{[]*data: /, '')) as Json;
			assert.ok(codes.includes(json.error.code), text);
		});
	}
	it('an unknown session is 404, none is 400', async () => {
		const list = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
		assert.equal((await post(list, { 'mcp-session-id': 'nobody' })).status, 404);
		assert.equal((await post(list)).status, 400);
	});
	it('GET is an event stream or 405, other paths 404, other methods 405', async () => {
		const id = await session();
		const stop = new AbortController();
		const get = await fetch(`${base}/mcp`, { headers: { accept: 'text/event-stream', 'mcp-session-id': id }, signal: stop.signal });
		assert.ok(get.status === 405 || (get.status === 200 && get.headers.get('content-type') === 'text/event-stream'), String(get.status));
		stop.abort();
		assert.equal((await fetch(`${base}/mcpx`, { method: 'POST', headers, body: '{}' })).status, 404);
		assert.equal((await fetch(`${base}/mcp`, { method: 'PUT', body: '{}' })).status, 405);
	});
	it('DELETE ends the session', async () => {
		const id = await session();
		const r = await fetch(`${base}/mcp`, { method: 'DELETE', headers: { 'mcp-session-id': id } });
		assert.ok(r.status === 200 || r.status === 204, String(r.status));
		assert.equal((await post('{"jsonrpc":"2.0","id":1,"method":"ping"}', { 'mcp-session-id': id })).status, 404);
	});
	it('a foreign Origin or Host is refused, our own is not', async () => {
		assert.equal((await post(JSON.stringify(initialize), { origin: 'http://evil.example.com' })).status, 403);
		assert.equal((await post(JSON.stringify(initialize), { origin: `http://localhost:${port}` })).status, 200);
		// A page that somebody else serves on this machine is foreign, too.
		assert.equal((await post(JSON.stringify(initialize), { origin: 'http://localhost:3000' })).status, 403);
		assert.equal((await fetch(`${base}/mcp`, { method: 'OPTIONS', headers: { origin: 'http://127.0.0.1:3000' } })).headers.get('access-control-allow-origin'), null);
		assert.equal((await raw(`POST /mcp HTTP/1.1\r\nHost: evil.example.com\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`)).slice(9, 12), '403');
	});
	function raw(bytes: string | Buffer, to = port): Promise<string> {
		return new Promise((resolve, reject) => {
			const socket = net.connect(to, '127.0.0.1', () => socket.write(bytes));
			let text = '';
			socket.setTimeout(15_000, () => socket.destroy(new Error(`no end after ${text.slice(0, 100)}`)));
			socket.on('data', (b) => (text += b.toString('latin1')));
			socket.on('error', (e: NodeJS.ErrnoException) => (e.code === 'ECONNRESET' ? resolve(text) : reject(e)));
			socket.on('close', () => resolve(text));
		});
	}
	const h = 'Host: localhost\r\n';
	const smuggled: [string, string][] = [
		['both lengths', `POST /mcp HTTP/1.1\r\n${h}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
		['two lengths', `POST /mcp HTTP/1.1\r\n${h}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef`],
		['two hosts', `GET / HTTP/1.1\r\n${h}Host: other\r\n\r\n`],
		['no host', 'GET / HTTP/1.1\r\n\r\n'],
		['a fold', `GET / HTTP/1.1\r\n${h}X-A: b\r\n c\r\n\r\n`],
		['a bare LF', `GET / HTTP/1.1\n${h}\n\n`],
		['a bare CR', `GET / HTTP/1.1\r\n${h}X-A: b\rc\r\n\r\n`],
		['a NUL', `GET / HTTP/1.1\r\n${h}X-A: b\u0000c\r\n\r\n`],
		['a blank before the colon', `GET / HTTP/1.1\r\n${h}X-A : b\r\n\r\n`],
		['a negative length', `POST /mcp HTTP/1.1\r\n${h}Content-Length: -1\r\n\r\n`],
		['a length with a plus', `POST /mcp HTTP/1.1\r\n${h}Content-Length: +5\r\n\r\nabcde`],
		['a bad chunk size', `POST /mcp HTTP/1.1\r\n${h}Transfer-Encoding: chunked\r\n\r\nzz\r\n`],
		['an absurd chunk size', `POST /mcp HTTP/1.1\r\n${h}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n`],
		['a head of 1 MB', `GET / HTTP/1.1\r\n${h}X-A: ${'a'.repeat(1 << 20)}\r\n\r\n`],
		['10,000 headers', `GET / HTTP/1.1\r\n${h}${'X-A: b\r\n'.repeat(10_000)}\r\n`],
		['a method of 10 KB', `${'G'.repeat(10_000)} / HTTP/1.1\r\n${h}\r\n`],
		['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'.padEnd(64, 'x') + '\r\n\r\n'],
	];
	for (const [what, bytes] of smuggled) {
		it(`refuses ${what} and closes`, async () => {
			const text = await raw(Buffer.from(bytes, 'latin1'));
			assert.match(text.slice(0, 13), /^HTTP\/1\.[01] (4\d\d|501)|^$/, text.slice(0, 80));
			assert.ok((text.match(/HTTP\/1\./g) ?? []).length <= 1, 'one answer at most');
			assert.equal((await fetch(`${base}/healthz`)).status, 200);
		});
	}
	const close = 'Connection: close\r\n\r\n';
	const targets: [what: string, bytes: string, status: number, code?: string][] = [
		['its host is ours, Host is not', `GET http://127.0.0.1/api/v1/server HTTP/1.1\r\nHost: evil.example.com\r\n${close}`, 200],
		['without a path', `GET http://localhost HTTP/1.1\r\n${h}${close}`, 200],
		['of HTTP/1.0', `GET http://localhost/api/v1/server HTTP/1.0\r\n\r\n`, 200],
		['its host is not ours', `GET http://evil.example.com/api/v1/server HTTP/1.1\r\n${h}${close}`, 403, 'forbidden'],
		['its host is not ours, HTTP/1.0', `GET http://evil.example.com/api/v1/server HTTP/1.0\r\n\r\n`, 403, 'forbidden'],
		['a page of the host that Host names', `GET http://localhost:1/api/v1/server HTTP/1.1\r\n${h}Origin: http://localhost\r\n${close}`, 403, 'forbidden'],
		['with a user', `GET http://u:p@localhost/healthz HTTP/1.1\r\n${h}${close}`, 400, 'bad_request'],
		['without a host', `GET http:///healthz HTTP/1.1\r\n${h}${close}`, 400, 'bad_request'],
		['a host of 300 bytes', `GET http://${'a'.repeat(300)}/healthz HTTP/1.1\r\n${h}${close}`, 400, 'bad_request'],
		['without Host', `GET http://localhost/healthz HTTP/1.1\r\n${close}`, 400, 'bad_request'],
		['https, which this port does not speak', `GET https://localhost/healthz HTTP/1.1\r\n${h}${close}`, 400, 'bad_request'],
		['another scheme', `GET ftp://localhost/healthz HTTP/1.1\r\n${h}${close}`, 400, 'bad_request'],
		['the form of CONNECT', `CONNECT localhost:443 HTTP/1.1\r\n${h}${close}`, 501, 'not_implemented'],
		['the form of CONNECT with GET', `GET localhost:443 HTTP/1.1\r\n${h}${close}`, 400, 'bad_request'],
		['OPTIONS *', `OPTIONS * HTTP/1.1\r\n${h}${close}`, 204],
		['OPTIONS of the whole server', `OPTIONS http://localhost HTTP/1.1\r\n${h}${close}`, 204],
		['* with GET', `GET * HTTP/1.1\r\n${h}${close}`, 400, 'bad_request'],
	];
	for (const [what, bytes, status, code] of targets) {
		it(`a target ${what}: ${status}`, async () => {
			const text = await raw(bytes);
			assert.equal(text.slice(9, 12), String(status), text.slice(0, 300));
			if (code)
				assert.equal((JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as Json).code, code);
		});
	}
	it('what never reached a route is counted and logged, a flood of it at most 60 times', async () => {
		const noisy = await serve({ env: { SANDBOX_LOG_LEVEL: 'debug' } });
		try {
			const counted = async (what: string): Promise<number> => {
				const text = await (await fetch(`${noisy.base}/metrics`)).text();
				return Number(new RegExp(`^${what} (\\d+)$`, 'm').exec(text)?.[1]);
			};
			const send = (bytes: string): Promise<string> => raw(bytes, noisy.port);
			const before = await counted('caisson_http_answers_total{class="4xx"}');
			for (let i = 0; i < 70; i++)
				assert.match(await send('hello\r\n\r\n'), /^HTTP\/1\.1 400 /);
			assert.match(await send(`GET / HTTP/1.1\r\n${h}X-A: ${'a'.repeat(40_000)}\r\n\r\n`), /^HTTP\/1\.1 431 /);
			assert.equal(await counted('caisson_http_refused_total{route="none",status="400"}'), 70);
			assert.equal(await counted('caisson_http_refused_total{route="none",status="431"}'), 1);
			assert.equal(await counted('caisson_http_answers_total{class="4xx"}'), before + 71);
			const lines = (): number => noisy.program.stderr.toString().split('\n').filter((l) => l.includes('http_refused')).length;
			await until('lines of the log', () => lines() === 60);
		} finally {
			noisy.program.kill('SIGTERM');
			await noisy.program.exit;
		}
	});
	it('an oversized body is 413 or a JSON-RPC error, without creating anything', async () => {
		const id = await session();
		const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sandbox_upload_file","arguments":{"filename":"a","session_id":"big","content_base64":"${'A'.repeat(150 << 20)}"}}}`;
		const before = residentBytes(program.pid);
		const r = await post(body, { 'mcp-session-id': id }).catch((e: Error) => e);
		if (r instanceof Response)
			assert.ok(r.status === 413 || r.status === 400 || (await r.text()).includes('upload_too_large'), String(r.status));
		assert.ok(residentBytes(program.pid) - before < 120 << 20);
		assert.equal((await fetch(`${base}/healthz`)).status, 200);
	});
});
