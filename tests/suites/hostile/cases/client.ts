// SPDX-License-Identifier: Apache-2.0
// Rows 36-43: hostile clients, and code that wants out by name. A case without a program is the client's attack alone.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { mode } from '../../../lib/env.ts';
import { caisson } from '../../../lib/process.ts';
import { RawClient } from '../../../lib/raw.ts';
import { serve, type Json } from '../../../lib/session.ts';
import { askUnread } from '../../../lib/unread.ts';
import type { Case, Outside } from '../case.ts';

/** Bytes to a server of its own; what comes back until it closes or a second of silence. */
async function exchange(port: number, bytes: string): Promise<string> {
	return new Promise((resolve) => {
		const socket = net.connect(port, '127.0.0.1', () => socket.write(bytes));
		let text = '';
		socket.setTimeout(1500, () => socket.destroy());
		socket.on('data', (b) => (text += b.toString('latin1')));
		socket.on('error', () => {});
		socket.on('close', () => resolve(text));
	});
}

function statuses(text: string): string[] {
	return [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((m) => m[1]!);
}

async function withServer(o: Outside, body: (port: number) => Promise<void>, settings: Record<string, string> = {}): Promise<void> {
	const { program, port } = await serve({ env: { ...o.env, ...settings } });
	try {
		await body(port);
		assert.ok((await fetch(`http://127.0.0.1:${port}/healthz`)).ok, 'the server goes on');
	} finally {
		await program.end();
	}
}

/** For a planted twin: what C is said to have answered is changed. */
function changeAnswers(c: RawClient, how: (all: Json[]) => Json[]): void {
	const told = c.messages.bind(c);
	c.messages = () => how(told());
}

async function withRaw(o: Outside, body: (c: RawClient) => Promise<void>): Promise<void> {
	const c = new RawClient({ env: o.env });
	try {
		o.spoil?.(c);
		await c.initialize();
		await body(c);
		await c.alive();
	} finally {
		await c.end();
	}
}

export const clientCases: Case[] = [
	{
		id: '36a', without: { walls: ['net'] }, attack: 'metadata service and private networks by odd spellings', must: 'no network is there', held: 8,
		code: `
import socket
for host in ("169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "[::ffff:169.254.169.254]", "127.0.0.1.nip.io", "metadata.google.internal", "host.docker.internal", "0.0.0.0", "localhost"):
    def attempt():
        with socket.create_connection((host.strip("[]"), 80), timeout=2):
            return "connected"
    refused(host, attempt)`,
	},
	{
		id: '37a', without: { walls: ['net'] }, attack: 'talk to name servers directly', must: 'unreachable', held: 4,
		code: `
import socket
for addr in ("8.8.8.8", "1.1.1.1", "127.0.0.53", "9.9.9.9"):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
    def attempt():
        s.sendto(b"\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x07example\\x03org\\x00\\x00\\x01\\x00\\x01", (addr, 53))
        return s.recv(100)
    refused("dns " + addr, attempt)
    t = socket.socket(); t.settimeout(1)
    refused("tcp " + addr, lambda: t.connect((addr, 853)))`,
	},
	{
		id: '39a', without: { walls: ['single'] }, attack: 'two lengths, two hosts, broken framing', must: '400, and the rest is never read as a request', code: '', held: 0,
		after: (_r, o) => withServer(o, async (port) => {
			const second = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n';
			const host = `Host: 127.0.0.1:${port}\r\n`;
			for (const head of [
				`POST /mcp HTTP/1.1\r\n${host}Content-Length: 0\r\nContent-Length: 5\r\n\r\n`,
				`POST /mcp HTTP/1.1\r\n${host}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n`,
				`POST /mcp HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n`,
				`POST /mcp HTTP/1.1\r\n${host}Transfer-Encoding: xchunked\r\n\r\n`,
				`POST /mcp HTTP/1.1\r\n${host}Content-Length: +0\r\n\r\n`,
				`GET /healthz HTTP/1.1\r\n${host}Host: evil\r\n\r\n`,
				`GET /healthz HTTP/1.1\r\n${host}X: a\r\n b\r\n\r\n`,
				`GET /healthz HTTP/1.1\n${host}\n\n`,
				`GET /healthz HTTP/1.1\r\n${host}X\u0000: a\r\n\r\n`,
				`GET http://u@127.0.0.1/healthz HTTP/1.1\r\n${host}\r\n`,
			])
				assert.deepEqual(statuses(await exchange(port, head + second)), ['400'], JSON.stringify(head));
		}),
	},
	{
		id: '39b', without: { walls: ['origin'] }, attack: 'a page of another origin, another name for this host', must: '403 or 421', code: '', held: 0,
		after: (_r, o) => withServer(o, async (port) => {
			const body = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}';
			const own = `127.0.0.1:${port}`;
			for (const [host, origin, target = ''] of [[own, 'http://evil.example'], ['evil.example', ''], [`evil.example:${port}`, ''], [own, 'null'],
				[own, '', 'http://evil.example'], [own, `http://evil.example:${port}`, `http://evil.example:${port}`]])
				assert.match((await exchange(port, `POST ${target}/mcp HTTP/1.1\r\nHost: ${host}\r\n${origin ? `Origin: ${origin}\r\n` : ''}Content-Type: application/json\r\n` +
					`Accept: application/json, text/event-stream\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`)).slice(0, 12), /^HTTP\/1\.1 (403|421)/, `${host} ${origin} ${target}`);
		}),
	},
	{
		id: '42a', planted: { what: 'another sandbox has the file', by: async (_r, o) => void (await o.session.upload('secret.txt', 'secret', `${o.id}-b`)) }, attack: 'guess and reuse ids of sandboxes', must: 'session_not_found', held: 0,
		code: `open("secret.txt", "w").write("secret")`,
		after: async (_r, o) => {
			const gone = `${o.id}-gone`;
			await o.session.ok('open("x.txt", "w").write("x")', gone);
			await o.session.close(gone);
			for (const id of [gone, 'sess_000000000000', `${o.id}x`, o.id.slice(0, -1)]) {
				const r = await o.session.call('sandbox_list_artifacts', { session_id: id });
				assert.equal(r.error, 'session_not_found', id);
			}
			await o.session.ok('pass', `${o.id}-b`);
			const other = await o.session.call('sandbox_read_artifact', { session_id: `${o.id}-b`, path: '/mnt/data/secret.txt' });
			assert.equal(typeof other.error, 'string');
			await o.session.close(`${o.id}-b`);
		},
	},
	{
		id: '42b', without: { walls: ['ids'] }, attack: 'ids that are paths or odd bytes', must: 'invalid_session_id', code: '', held: 0,
		after: async (_r, o) => {
			for (const id of ['../x', 'a/b', '', '.', 'x'.repeat(65), 'a\n', 'ä', 'a b', '%2e%2e', 'a\0b', '-'.repeat(65)]) {
				const r = await o.session.call('sandbox_list_artifacts', { session_id: id });
				assert.equal(r.error, 'invalid_session_id', JSON.stringify(id));
			}
		},
	},
	{
		id: '42c', without: { settings: { SANDBOX_MAX_CODE_BYTES: '67108864', SANDBOX_MAX_UPLOAD_BYTES: '1073741824' } }, attack: 'code and files of hundreds of megabytes', must: 'refused; memory of the server as before', code: '', held: 0,
		after: async (_r, o) => {
			const big = 'A'.repeat(72 << 20);
			assert.equal((await o.session.call('sandbox_run_python', { code: big, session_id: o.id })).error, 'code_too_large');
			assert.equal((await o.session.call('sandbox_upload_file', { filename: 'x', content_base64: big, session_id: o.id })).error, 'upload_too_large');
			assert.ok(o.residentBytes() < 48 << 20, `the server has ${o.residentBytes() >> 20} MiB`);
			await withRaw(o, async (c) => {
				await c.send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${'A'.repeat(100 << 20)}"}}\n`);
				await c.alive();
			});
		},
	},
	{
		id: '42d', planted: { what: 'the server answers such a message', by: (_r, o) => void (o.spoil = (c) => changeAnswers(c, (all) => all.map((m) => (m.error ? { ...m, error: undefined, result: {} } : m)))) }, attack: 'JSON of a hundred thousand levels', must: 'an error, and the server goes on', code: '', held: 0,
		after: (_r, o) => withRaw(o, async (c) => {
			await c.send('['.repeat(100_000) + '\n');
			await c.send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}\n`);
			await c.send('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n');
			await c.send(Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d, 0x0a]));
			for (const depth of [65, 1000])
				await c.send(`{"jsonrpc":"2.0","id":"deep","method":"ping","params":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}\n`);
			await c.alive();
			const refused = c.messages().filter((m) => m.id === null || m.id === undefined || m.id === 'deep' || m.id === 1);
			assert.equal(refused.filter((m) => m.error).length, 6, JSON.stringify(refused));
			assert.ok(!refused.some((m) => m.result));
		}),
	},
	{
		id: '42e', planted: { what: 'one answer is missing', by: (_r, o) => void (o.spoil = (c) => changeAnswers(c, (all) => all.filter((m) => m.id !== 5000))) }, attack: 'ten thousand requests at once', must: 'all answered, none mixed up', code: '', held: 0,
		after: (_r, o) => withRaw(o, async (c) => {
			let all = '';
			for (let i = 0; i < 10_000; i++)
				all += `{"jsonrpc":"2.0","id":${i},"method":"ping"}\n`;
			await c.send(all);
			await c.answer(9999);
			assert.equal(new Set(c.messages().filter((m) => typeof m.id === 'number' && m.result).map((m) => m.id)).size, 10_000);
		}),
	},
	{
		id: '42f', without: { walls: ['evict'] }, attack: 'more slow heads than there may be connections', must: 'others are served meanwhile', code: '', held: 0,
		after: (_r, o) => withServer(o, async (port) => {
			const sockets = Array.from({ length: 300 }, () => {
				const s = net.connect(port, '127.0.0.1', () => s.write('GET /healthz HTTP/1.1\r\nX-A: '));
				s.on('error', () => {});
				return s;
			});
			await new Promise((resolve) => setTimeout(resolve, 300));
			const told = await exchange(port, 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
			assert.deepEqual(statuses(told), ['200']);
			sockets.forEach((s) => s.destroy());
		}, { SANDBOX_MAX_CONNECTIONS: '64' }),
	},
	{
		id: '42h', without: { walls: ['answers'] }, attack: '600 answers of a public route that nobody reads', must: 'what they hold is bound; the others get 429', code: '', held: 0,
		after: (_r, o) => withServer(o, async (port) => {
			const size = (await (await fetch(`http://127.0.0.1:${port}/openapi.json`)).text()).length;
			const all = await askUnread(`http://127.0.0.1:${port}`, Array.from({ length: 600 }, () => '/openapi.json'));
			try {
				assert.ok((all.statuses[200] ?? 0) * size <= 48 << 20, `${all.statuses[200]} answers of ${size} bytes`);
				assert.equal((all.statuses[200] ?? 0) + (all.statuses[429] ?? 0), 600);
			} finally {
				all.close();
			}
		}),
	},
	{
		id: '42j', without: { walls: ['counted'] }, attack: 'bury an action in the audit log under requests that fail', must: 'they are counted in few rows, and the action is still there', code: '', held: 0,
		after: (_r, o) => withServer(o, async (port) => {
			const api = `http://127.0.0.1:${port}/api/v1`;
			const send = async (method: string, path: string, body?: object): Promise<number> => {
				const r = await fetch(api + path, { method, headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' }, ...(body && { body: JSON.stringify(body) }) });
				await r.arrayBuffer();
				return r.status;
			};
			const rows = async (): Promise<Json[]> => ((await (await fetch(`${api}/audit?limit=1000`)).json()) as Json).rows;
			const failed = (all: Json[]): number => all.filter((r) => r.result !== 'ok').reduce((n, r) => n + r.count, 0);
			const before = await rows(); // of other cases with the same state folder
			assert.equal(await send('POST', '/sandboxes', {}), 201);
			for (let i = 0; i < 60; i++)
				assert.ok((await Promise.all(Array.from({ length: 50 }, async (_, k) => (k % 2 ? send('POST', '/session', { username: `x${i}` }) : send('DELETE', `/keys/${i}`))))).every((s) => s >= 400));
			const all = await rows();
			assert.ok(all.some((r) => r.action === 'sandbox.create' && r.result === 'ok'), 'the action is gone');
			assert.ok(all.length < before.length + 50, `${all.length} rows`);
			assert.equal(failed(all) - failed(before), 3000);
		}, { SANDBOX_HISTORY_AUDIT: '1000' }),
	},
	{
		id: '42i', without: { walls: ['answers'] }, attack: '60 exports of a long history that nobody reads', must: 'some are made, the others get 429', code: '', held: 0,
		after: (_r, o) => withServer(o, async (port) => {
			const api = `http://127.0.0.1:${port}/api/v1`;
			const post = async (path: string, body: Json): Promise<Json> =>
				(await fetch(`${api}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json() as Promise<Json>;
			const box = (await post('/sandboxes', {}))['id'] as string;
			for (let i = 0; i < 20; i++)
				assert.equal((await post(`/sandboxes/${box}/runs`, { code: `print("x" * 30000)${'#'.repeat(60_000)}`, wait: true }))['exit_code'], 0);
			const all = await askUnread(`http://127.0.0.1:${port}`, Array.from({ length: 60 }, () => `/api/v1/notebooks/${box}/export`));
			try {
				assert.ok((all.statuses[200] ?? 0) > 0 && (all.statuses[200] ?? 0) <= 48, JSON.stringify(all.statuses));
				assert.equal((all.statuses[200] ?? 0) + (all.statuses[429] ?? 0), 60);
			} finally {
				all.close();
			}
		}),
	},
	{
		id: '43a', planted: { what: 'a limit that does not hold here is dropped', by: (_r, o) => void (o.enforced = []) }, attack: 'a limit that was set and cannot be held', must: 'the start is refused, with the name of the setting', code: '', held: 0,
		after: async (_r, o) => {
			const limits: [string, string, string][] = [['memory', 'SANDBOX_MEMORY_LIMIT', '256m'], ['cpu', 'SANDBOX_CPU_LIMIT', '1']];
			for (const [word, name, value] of limits) {
				const r = await caisson(['run', '/dev/null'], { env: { [name]: value } });
				if (o.enforced.includes(word)) {
					assert.equal(r.code, 0, r.stderr.toString());
				} else {
					assert.notEqual(r.code, 0, `${name} was dropped silently (${mode})`);
					assert.match(r.stderr.toString(), new RegExp(name));
					const weaker = await caisson(['run', '/dev/null', '--allow-weaker', word], { env: { [name]: value } });
					assert.equal(weaker.code, 0, weaker.stderr.toString());
				}
				for (const wrong of ['walls', `${word},`.repeat(2) + 'x']) { // and only by its name
					const r2 = await caisson(['run', '/dev/null', '--allow-weaker', wrong], { env: { [name]: value } });
					assert.match(r2.stderr.toString(), /SANDBOX_ALLOW_WEAKER/);
				}
			}
		},
	},
	{
		id: '43b', without: { walls: ['strict'] }, attack: 'settings that mean something else than they say', must: 'the start is refused', code: '', held: 0,
		after: async (_r, o) => {
			for (const env of [{ SANDBOX_MEMORY_LIMIT: '256m; rm' }, { SANDBOX_MEMORY_LIMIT: '-1' }, { SANDBOX_PIDS_LIMIT: '0x40' }, { SANDBOX_EXEC_TIMEOUT_S: '1e9' }, { SANDBOX_IMAGE: '../../etc' },
				{ SANDBOX_IMAGE: '/etc' }, { SANDBOX_STATE_DIR: '/dev/null' }]) {
				const r = await caisson(['run', '/dev/null'], { env: { ...o.env, ...env } });
				assert.notEqual(r.code, 0, JSON.stringify(env));
				assert.ok(r.stderr.length > 0);
			}
		},
	},
	{
		id: '39c', without: { walls: ['chunk'] }, attack: 'chunks of odd sizes', must: '400, and the rest is never read as a request', code: '', held: 0,
		after: (_r, o) => withServer(o, async (port) => {
			const second = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n';
			const head = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n`;
			for (const body of ['-1\r\n', '0x2\r\n{}\r\n0\r\n\r\n', 'ffffffffffffffff1\r\n', '2 \r\n{}\r\n0\r\n\r\n', '2\n{}\n0\n\n', '2\r\n{}X\r\n0\r\n\r\n', '+2\r\n{}\r\n0\r\n\r\n', '\r\n2\r\n{}\r\n0\r\n\r\n', '7fffffffffffffff\r\n{}'])
				assert.ok(!statuses(await exchange(port, head + body + second)).includes('200'), JSON.stringify(body));
		}),
	},
	{
		id: '39d', without: { walls: ['version'] }, attack: 'other protocols on the same port', must: 'never an upgrade, a tunnel or another host', code: '', held: 0,
		after: (_r, o) => withServer(o, async (port) => {
			const host = `Host: 127.0.0.1:${port}\r\n`;
			for (const bytes of [`GET /mcp HTTP/1.1\r\n${host}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`,
				`GET /mcp HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
				`CONNECT 127.0.0.1:22 HTTP/1.1\r\n${host}\r\n`, `GET http://169.254.169.254/ HTTP/1.1\r\n${host}\r\n`, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', `TRACE /healthz HTTP/1.1\r\n${host}\r\n`,
				'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', `GET /healthz HTTP/9.9\r\n${host}\r\n`])
				for (const status of statuses(await exchange(port, bytes)))
					assert.match(status, /^[45]/, JSON.stringify(bytes));
		}),
	},
	{
		id: '42g', planted: { what: 'one request has two answers', by: (_r, o) => void (o.spoil = (c) => changeAnswers(c, (all) => [...all, ...all.filter((m) => m.id === 'x')])) }, attack: 'ids of requests: twice in flight, of odd kinds, and answers that nobody asked for', must: 'each has one answer; the server goes on', code: '', held: 0,
		after: (_r, o) => withRaw(o, async (c) => {
			await c.send('{"jsonrpc":"2.0","id":"x","method":"ping"}\n{"jsonrpc":"2.0","id":"x","method":"ping"}\n');
			await c.send('{"jsonrpc":"2.0","id":{},"method":"ping"}\n{"jsonrpc":"2.0","id":null,"method":"ping"}\n{"jsonrpc":"2.0","id":1e400,"method":"ping"}\n');
			await c.send('{"jsonrpc":"2.0","id":99,"result":{}}\n{"jsonrpc":"2.0","id":98,"error":{"code":1,"message":"x"}}\n{"jsonrpc":"1.0","id":97,"method":"ping"}\n');
			await c.alive();
			assert.equal(c.messages().filter((m) => m.id === 'x').length, 2);
			assert.ok(!c.messages().some((m) => m.result && [97, 98, 99].includes(m.id)));
		}),
	},
	{
		id: '43c', without: { walls: ['disk', 'filter'] }, attack: 'meet a weaker policy in one sandbox than in the next', must: 'made ahead or anew, all are the same', code: 'print(1)', held: 0,
		after: async (_r, o) => {
			const code = `
import os, resource
status = [l for l in open("/proc/self/status") if l.startswith(("Cap", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups"))]
limits = [resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n.startswith("RLIMIT_")]
mounts = sorted(" ".join(l.split()[4:6] + l.split("- ")[1].split()[:1]) for l in open("/proc/self/mountinfo"))
sizes = [(s.f_blocks, s.f_files, s.f_flag) for s in map(os.statvfs, ("/mnt/data", "/tmp", "/dev/shm", "/home/sandbox", "/"))]
print(status, limits, mounts, sizes)`;
			const seen = new Set<string>();
			for (let i = 0; i < 5; i++)
				seen.add((await o.session.ok(code, `${o.id}-${i}`)).stdout);
			for (let i = 0; i < 5; i++)
				await o.session.close(`${o.id}-${i}`);
			assert.equal(seen.size, 1, [...seen].join('\n'));
			const all = [...seen][0]!;
			assert.match(all, /'Seccomp:\\t2\\n'/);
			// A workspace on disk has fewer or smaller blocks than pages of memory.
			assert.match(all, /\[\(\d{4,5}, \d+, \d+\), \(4096, /, 'pages of /tmp, as set');
		},
	},
];
