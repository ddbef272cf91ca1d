// SPDX-License-Identifier: Apache-2.0
// Clients that go away in the middle: of a run, of an upload, of a stream. Nothing of it stays.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { describe, it } from 'node:test';
import { Census, openDescriptors } from '../lib/process.ts';
import { RawClient } from '../lib/raw.ts';
import { open, serve, using, wires, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const sleeper = 'open("started", "w").close()\nimport time, subprocess\nsubprocess.Popen(["sleep", "500"])\ntime.sleep(500)';

/** POSTs to /mcp over a socket of our own, so that the test can drop it where it likes. */
function post(port: number, body: string, session?: string, length = Buffer.byteLength(body)): net.Socket {
	const socket = net.connect(port, '127.0.0.1');
	socket.on('error', () => {});
	socket.write([
		'POST /mcp HTTP/1.1', `Host: 127.0.0.1:${port}`, 'Content-Type: application/json', 'Accept: application/json, text/event-stream',
		...(session ? [`Mcp-Session-Id: ${session}`] : []), `Content-Length: ${length}`, '', body,
	].join('\r\n'));
	return socket;
}

const toolCall = (id: number, name: string, args: Json): string =>
	JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args } });

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
		await census.gone(2000);
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
		await census.gone(2000);
	});
	it('HTTP: a dropped upload creates no session, leaks no descriptor', async () => {
		const s = await open('http');
		try {
			await s.ok('pass', 'base');
			const port = Number(new URL(s.base!).port);
			await fetch(`${s.base}/healthz`);
			const fds = openDescriptors(s.pid);
			const sid = (s.client.transport as unknown as { sessionId: string }).sessionId;
			const body = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sandbox_upload_file","arguments":{"filename":"a","session_id":"dropped","content_base64":"' + 'A'.repeat(3 << 20);
			for (let i = 0; i < 10; i++) {
				const socket = post(port, body, sid, 8 << 20);
				await new Promise((resolve) => socket.once('drain', resolve));
				socket.destroy();
			}
			await until('descriptors as before', () => openDescriptors(s.pid) <= fds + 1, 5000);
			assert.equal((await s.call('sandbox_list_artifacts', { session_id: 'dropped' })).error, 'session_not_found');
		} finally {
			await s.end();
		}
	});
	it('HTTP: a dropped request cancels its run, the session lives', async () => {
		const s = await open('http', { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } });
		try {
			const port = Number(new URL(s.base!).port);
			const sid = (s.client.transport as unknown as { sessionId: string }).sessionId;
			const socket = post(port, toolCall(99, 'sandbox_run_python', { code: sleeper, session_id: 'left' }), sid);
			await until('the run', async () => ((await s.call('sandbox_list_artifacts', { session_id: 'left' })).artifacts?.length ?? 0) > 0, 30_000);
			const census = new Census();
			census.take(s.pid);
			socket.destroy();
			const r = await until('the session to be free', async () => {
				const x = await s.run('print("free")', 'left');
				return x.error !== 'session_busy' && x;
			}, 10_000);
			assert.equal(r.stdout, 'free\n');
			assert.ok((await s.list('left')).some((a) => a.filename === 'started'), 'files stay');
		} finally {
			await s.end();
		}
	});
	for (const wire of wires) {
		it(`cancelling a call kills its run (${wire})`, () => using(wire, { env: { SANDBOX_EXEC_TIMEOUT_S: '600' } }, async (s) => {
			const stop = new AbortController();
			const run = s.run(sleeper, 'c', { signal: stop.signal }).then(() => 'answered', () => 'cancelled');
			await until('the run', async () => ((await s.call('sandbox_list_artifacts', { session_id: 'c' })).artifacts?.length ?? 0) > 0, 30_000);
			stop.abort();
			assert.equal(await run, 'cancelled');
			const r = await until('the session to be free', async () => {
				const x = await s.run('print("free")', 'c');
				return x.error !== 'session_busy' && x;
			}, 10_000);
			assert.equal(r.stdout, 'free\n');
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
			assert.ok(performance.now() - t0 < 3000);
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
		await until('the run', async () => ((await s.call('sandbox_list_artifacts', { session_id: 'x' })).artifacts?.length ?? 0) > 0, 30_000);
		const census = new Census();
		census.take(s.pid);
		process.kill(s.pid, 'SIGTERM');
		await census.gone(8000);
		await s.end().catch(() => undefined);
	});
});
