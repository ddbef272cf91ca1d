// SPDX-License-Identifier: Apache-2.0
// Clients that go away in the middle: of a run, of an upload, of a stream. Nothing of it stays.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as net from 'node:net';
import { describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { productEnv } from '../lib/env.ts';
import { Census, openDescriptors } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { open, serve, using, wires, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const sleeper = 'open("started", "w").close()\nimport time, subprocess\nsubprocess.Popen(["sleep", "500"])\ntime.sleep(500)';

/** POSTs to /mcp over a socket of our own, so that the test can drop it where it likes. */
function post(port: number, body: string, headers: Record<string, string> = {}, length = Buffer.byteLength(body)): net.Socket {
	const socket = net.connect(port, '127.0.0.1');
	socket.on('error', () => {});
	socket.write([
		'POST /mcp HTTP/1.1', `Host: 127.0.0.1:${port}`, 'Content-Type: application/json', 'Accept: application/json, text/event-stream',
		...Object.entries(headers).map(([k, v]) => `${k}: ${v}`), `Content-Length: ${length}`, '', body,
	].join('\r\n'));
	return socket;
}

const revision = '2026-07-28';
const meta = {
	'io.modelcontextprotocol/protocolVersion': revision,
	'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
	'io.modelcontextprotocol/clientCapabilities': {},
};

/** A run in each era: body and headers. Only the stateless era says that a dropped request is a cancelled one. */
function runRequest(era: 'legacy' | 'modern', session: string, mcpSession: string): [string, Record<string, string>] {
	const params = { name: 'sandbox_run_python', arguments: { code: sleeper, session_id: session } };
	return era === 'legacy'
		? [JSON.stringify({ jsonrpc: '2.0', id: 99, method: 'tools/call', params }), { 'Mcp-Session-Id': mcpSession }]
		: [JSON.stringify({ jsonrpc: '2.0', id: 99, method: 'tools/call', params: { ...params, _meta: meta } }),
			{ 'MCP-Protocol-Version': revision, 'Mcp-Method': 'tools/call', 'Mcp-Name': 'sandbox_run_python' }];
}

function mcpSessionOf(s: Session): string {
	return (s.client.transport as unknown as { sessionId: string }).sessionId;
}

async function started(s: Session, session_id: string): Promise<void> {
	await until('the run', async () => ((await s.call('sandbox_list_artifacts', { session_id })).artifacts?.length ?? 0) > 0, 30_000);
}

async function isFree(s: Session, session_id: string): Promise<void> {
	const r = await until('the session to be free', async () => {
		const x = await s.run('print("free")', session_id);
		return x.error !== 'session_busy' && x;
	}, 10_000);
	assert.equal(r.stdout, 'free\n');
}

describe('clients that go away', () => {
	it('stdio: end of input during a run ends everything', async () => {
		const c = new RawClient({ env: { SANDBOX_EXEC_TIMEOUT_S: '600' } });
		await c.initialize();
		void c.sendJson({ jsonrpc: '2.0', id: 'x', method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { code: sleeper, session_id: 'a' } } });
		await until('the run', async () => ((await c.tool('sandbox_list_artifacts', { session_id: 'a' })).artifacts?.length ?? 0) > 0, 30_000);
		const census = new Census();
		census.take(c.pid);
		c.program.child.stdin!.destroy();
		c.program.child.stdout!.destroy();
		const exit = await c.program.exit;
		assert.equal(exit.signal, null);
		await census.gone(10_000);
	});
	it('(slow) stdio: the log says that the end of the input left a call without an answer', async () => {
		const log = `${productEnv().HOME}/unanswered.log`;
		const c = new RawClient({ env: { SANDBOX_EXEC_TIMEOUT_S: '600', SANDBOX_LOG_FILE: log } });
		await c.initialize();
		void c.sendJson({ jsonrpc: '2.0', id: 'x', method: 'tools/call', params: { name: 'sandbox_run_python', arguments: { code: sleeper, session_id: 'a' } } });
		await until('the run', async () => ((await c.tool('sandbox_list_artifacts', { session_id: 'a' })).artifacts?.length ?? 0) > 0, 30_000);
		c.program.child.stdin!.end();
		await c.program.exit;
		assert.match(fs.readFileSync(log, 'utf8'), /calls_not_answered .*calls=1/);
	});
	it('(slow) stdio: ends with its sandboxes when the process that started it is gone, although somebody holds its pipes', async () => {
		// The server's parent is a shell; we hold the other ends of the pipes.
		const c = new RawClient({ under: ['sh', '-c', 'exec 3<&0; "$@" <&3 & wait', 'sh'] });
		await c.initialize();
		await c.tool('sandbox_run_python', { code: 'pass', session_id: 'a' });
		const census = new Census();
		census.take(c.pid);
		process.kill(c.pid, 'SIGKILL');
		await census.gone(20_000);
	});
	it('stdio: end of input in the middle of an upload leaves nothing', async () => {
		const c = new RawClient();
		await c.initialize();
		await c.send('{"jsonrpc":"2.0","id":"u","method":"tools/call","params":{"name":"sandbox_upload_file","arguments":{"filename":"a","session_id":"u","content_base64":"' + 'A'.repeat(4 << 20));
		const census = new Census();
		census.take(c.pid);
		c.program.child.stdin!.end();
		const exit = await c.program.exit;
		assert.deepEqual([exit.code, exit.signal], [0, null], exit.stderr.toString());
		await census.gone(10_000);
	});
	it('HTTP: a dropped upload creates no session, leaks no descriptor', async () => {
		const s = await open('http', { env: { SANDBOX_POOL: '0', SANDBOX_POOL_MAX: '0' } }); // a pool that is filled meanwhile has descriptors, too
		try {
			await s.ok('pass', 'base');
			const port = Number(new URL(s.base!).port);
			await fetch(`${s.base}/healthz`);
			const fds = openDescriptors(s.pid);
			const sid = mcpSessionOf(s);
			const body = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sandbox_upload_file","arguments":{"filename":"a","session_id":"dropped","content_base64":"' + 'A'.repeat(3 << 20);
			for (let i = 0; i < 10; i++) {
				const socket = post(port, body, { 'Mcp-Session-Id': sid }, 8 << 20);
				await new Promise((resolve) => socket.once('drain', resolve));
				socket.destroy();
			}
			await until('descriptors as before', () => openDescriptors(s.pid) <= fds + 1, 30_000);
			assert.equal((await s.call('sandbox_list_artifacts', { session_id: 'dropped' })).error, 'session_not_found');
		} finally {
			await s.end();
		}
	});
	it('HTTP, stateless: a dropped request cancels its run, the session and its files stay', () =>
		using('http', { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } }, async (s) => {
			const socket = post(Number(new URL(s.base!).port), ...runRequest('modern', 'left', mcpSessionOf(s)));
			await started(s, 'left');
			socket.destroy();
			await isFree(s, 'left');
			assert.ok((await s.list('left')).some((a) => a.filename === 'started'));
		}));
	it('(slow) HTTP: a client that shuts down its side gets the answer of a run that takes a while, and a stream', () =>
		using('http', {}, async (s) => {
			const port = Number(new URL(s.base!).port);
			const ask = async (version: string, method: string, path: string, body = ''): Promise<string> => {
				const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
				let text = '';
				socket.on('data', (b) => (text += b.toString()));
				const end = new Promise((resolve, reject) => socket.on('end', resolve).on('error', reject));
				socket.end(`${method} /api/v1${path} HTTP/${version}\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\nContent-Type: application/json\r\n` +
					`Content-Length: ${body.length}\r\n\r\n${body}`);
				await end;
				socket.destroy();
				assert.match(text, /^HTTP\/1\.1 20\d /);
				return text;
			};
			const json = (text: string): { id: string } => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as { id: string };
			const { id } = json(await ask('1.1', 'POST', '/sandboxes', '{}'));
			const code = 'import time\nprint("one")\ntime.sleep(2.5)\nprint("two")';
			for (const version of ['1.1', '1.0'])
				assert.match(await ask(version, 'POST', `/sandboxes/${id}/runs`, JSON.stringify({ code, wait: true })), /one\\ntwo\\n/);
			const run = json(await ask('1.1', 'POST', `/sandboxes/${id}/runs`, JSON.stringify({ code })));
			assert.match(await ask('1.1', 'GET', `/runs/${run.id}/events`), /one[^]*two[^]*0\r\n\r\n$/);
		}));
	for (const ms of [0, 300]) {
		it(`HTTP, stateless: a client that shuts down its side and leaves ${ms} ms later cancels its run`, () =>
			using('http', { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } }, async (s) => {
				const socket = post(Number(new URL(s.base!).port), ...runRequest('modern', 'half', mcpSessionOf(s)));
				await started(s, 'half');
				socket.end();
				await new Promise((resolve) => setTimeout(resolve, ms));
				socket.destroy();
				await isFree(s, 'half');
			}));
	}
	it('HTTP, with a session: a dropped request goes on, the end of the session ends it', () =>
		using('http', { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } }, async (s) => {
			const other = new Client({ name: 'other', version: '1' });
			const transport = new StreamableHTTPClientTransport(new URL(`${s.base}/mcp`));
			await other.connect(transport);
			const socket = post(Number(new URL(s.base!).port), ...runRequest('legacy', 'kept', transport.sessionId!));
			await started(s, 'kept');
			socket.destroy();
			await transport.terminateSession();
			await other.close();
			await isFree(s, 'kept');
		}));
	for (const wire of wires) {
		it(`cancelling a call kills its run (${wire})`, () => using(wire, { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } }, async (s) => {
			const stop = new AbortController();
			const run = s.run(sleeper, 'c', { signal: stop.signal }).then(() => 'answered', () => 'cancelled');
			await started(s, 'c');
			stop.abort();
			assert.equal(await run, 'cancelled');
			await isFree(s, 'c');
		}));
	}
	it('HTTP: a client that reads its answer slowly holds up nobody', async () => {
		const { program, port, base } = await serve();
		try {
			const slow = net.connect(port, '127.0.0.1');
			slow.on('error', () => {});
			slow.write('GET / HTTP/1.1\r\nHost: localhost\r\n'); // never finished
			const half = net.connect(port, '127.0.0.1');
			half.on('error', () => {});
			half.write('POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{');
			const t0 = performance.now();
			for (let i = 0; i < 20; i++)
				assert.equal((await fetch(`${base}/healthz`)).status, 200);
			assert.ok(performance.now() - t0 < 10_000, 'they wait for the others'); // whose heads have 15 s
			slow.destroy();
			half.destroy();
		} finally {
			program.kill('SIGTERM');
			const exit = await program.exit;
			assert.equal(exit.code, 0, exit.stderr.toString());
		}
	});
	it('SIGTERM during a run ends a server in an orderly way', async () => {
		const s = await open('http', { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } });
		void s.run(sleeper, 'x').catch(() => undefined);
		await started(s, 'x');
		const census = new Census();
		census.take(s.pid);
		process.kill(s.pid, 'SIGTERM');
		await census.gone(20_000);
		await s.end().catch(() => undefined);
	});
});
