// SPDX-License-Identifier: Apache-2.0
// The way of an upload from the socket into the workspace: an upload that is broken off at any stage leaves nothing, neither a file nor a folder.

import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import * as net from 'node:net';
import { after, before, describe, it } from 'node:test';
import { mode, newStateDir } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const LIMIT = 3_000_000;

/** A client that sends what it is told to, when it is told to. */
class Sender {
	answer = '';
	closed = false;
	readonly socket: net.Socket;

	constructor(base: string) {
		const { hostname, port } = new URL(base);
		this.socket = net.connect(Number(port), hostname);
		this.socket.on('data', (data: Buffer) => (this.answer += data.toString('latin1')));
		this.socket.on('close', () => (this.closed = true));
		this.socket.on('error', () => undefined);
	}
	send(data: string | Buffer): Promise<void> {
		return new Promise((resolve) => this.socket.write(data, () => resolve()));
	}
	status(): Promise<number> {
		return until('an answer', () => {
			const match = /^HTTP\/1\.1 ([2-5]\d\d) [^]*\r\n\r\n/.exec(this.answer);
			return match && Number(match[1]);
		}, 20_000);
	}
	end(): void {
		this.socket.destroy();
	}
}

describe('uploads', () => {
	let program: Program;
	let base: string;
	let id: string;

	async function create(body: Json = {}): Promise<string> {
		const r = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		return ((await r.json()) as Json).id;
	}
	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_MAX_UPLOAD_BYTES: String(LIMIT), SANDBOX_WORKSPACE_LIMIT: '12m' } }));
		id = await create();
	});
	after(async () => {
		await program.end();
	});

	const files = (sandbox = id): string => `${base}/api/v1/sandboxes/${sandbox}/files`;
	const put = (path: string, body: string | Buffer, query = ''): Promise<Response> => fetch(`${files()}/${path}${query}`, { method: 'PUT', body: body as BodyInit });
	const text = async (path: string): Promise<string> => (await fetch(`${files()}/${path}`)).text();
	async function names(sandbox = id): Promise<string[]> {
		return ((await (await fetch(files(sandbox))).json()) as Json).files.map((f: Json) => f.name).toSorted();
	}
	const head = (path: string, framing: string, sandbox = id): string => `PUT /api/v1/sandboxes/${sandbox}/files/${path} HTTP/1.1\r\nHost: ${new URL(base).host}\r\n${framing}\r\n\r\n`;
	async function run(code: string): Promise<string> {
		const r = await fetch(`${base}/api/v1/sandboxes/${id}/runs`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ code, wait: true }) });
		return ((await r.json()) as Json).stdout;
	}
	/** Uploads that were broken off, as the audit log has them. */
	async function brokenOff(): Promise<number> {
		const rows = ((await (await fetch(`${base}/api/v1/audit?limit=500`)).json()) as Json).rows;
		return rows.filter((r: Json) => r.action === 'file.put' && r.result === 'cancelled').reduce((n: number, r: Json) => n + r.count, 0);
	}
	async function problem(r: Response, status: number, code: string): Promise<void> {
		const body = (await r.json()) as Json;
		assert.deepEqual([r.status, body.code], [status, code], JSON.stringify(body));
	}

	it('a client that leaves after any part of the request leaves nothing', async () => {
		const was = await names();
		const length = 'Content-Length: 200000';
		const chunked = 'Transfer-Encoding: chunked';
		const form = 'Content-Type: multipart/form-data; boundary=b0\r\nContent-Length: 200000';
		const part = (name: string): string => `--b0\r\nContent-Disposition: form-data; name="f"; filename="${name}"\r\n\r\n`;
		const post = (body: string): string => head('x', form).replace('PUT', 'POST').replace('/files/x', '/files?path=left/here') + body;
		const requests = [
			head('left/a', length),
			`${head('left/b', length)}x`,
			head('left/c', length) + 'x'.repeat(199_999),
			head('left/d', chunked),
			`${head('left/e', chunked)}10`,
			`${head('left/f', chunked)}10\r\n01234567`,
			`${head('left/g', chunked)}8\r\n01234567\r\n0\r\n`,
			post(part('h')),
			post(`${part('i')}data`),
			post(`${part('j')}data\r\n${part('k')}`),
			post(`${part('l')}data\r\n${part('m')}data\r\n--b0-`),
		];
		for (const [i, bytes] of requests.entries()) {
			const before = await brokenOff();
			const client = new Sender(base);
			await client.send(bytes);
			if (i % 2 === 0) // both before and after the server has seen the bytes
				await until('the server waits for more', async () => (await text('nothing')) !== '');
			client.end();
			await until(`request ${i} is in the audit log as broken off`, async () => (await brokenOff()) > before, 20_000);
			assert.deepEqual(await names(), was, `request ${i}`);
		}
	});

	it('a body that is no body is refused and leaves nothing', async () => {
		const was = await names();
		for (const body of ['zz\r\n', '5\r\n1234567\r\n0\r\n\r\n', '-1\r\n', '5\r\n12345\r\n5;x=y\n']) {
			const client = new Sender(base);
			await client.send(head('broken/file', 'Transfer-Encoding: chunked') + body);
			assert.equal(await client.status(), 400, body);
			await until('the end of the connection', () => client.closed, 20_000);
		}
		assert.deepEqual(await names(), was);
	});

	it('sizes at the limit, with a length and in chunks', async () => {
		const exact = Buffer.alloc(LIMIT, 'x');
		assert.equal((await put('limit/exact', exact)).status, 201);
		await problem(await put('limit/more', Buffer.alloc(LIMIT + 1)), 413, 'upload_too_large');
		assert.equal((await put('limit/none', '')).status, 201);
		for (const [extra, status] of [[0, 201], [1, 413]] as const) {
			const client = new Sender(base);
			await client.send(head(`limit/chunked${extra}`, 'Transfer-Encoding: chunked'));
			for (const n of [1, LIMIT - 1, extra])
				if (n > 0)
					await client.send(Buffer.concat([Buffer.from(`${n.toString(16)}\r\n`), Buffer.alloc(n, 'c'), Buffer.from('\r\n')]));
			await client.send('0\r\n\r\n');
			assert.equal(await client.status(), status);
			client.end();
		}
		assert.equal(await run('import os; print(sorted((n, os.path.getsize("limit/" + n)) for n in os.listdir("limit")))'),
			`[('chunked0', ${LIMIT}), ('exact', ${LIMIT}), ('none', 0)]\n`);
		await fetch(`${files()}/limit?recursive=true`, { method: 'DELETE' });
	});

	it('the head is judged before any byte of the body is read', async () => {
		await put('there', 'x');
		for (const [path, length, status] of [['there', 5, 409], ['large', LIMIT + 1, 413], ['there/below', 5, 404]] as const) {
			const client = new Sender(base);
			await client.send(head(path, `Content-Length: ${length}\r\nExpect: 100-continue`));
			assert.equal(await client.status(), status, `${path}: no 100 Continue comes first`);
			client.end();
		}
		const client = new Sender(base);
		await client.send(head('there?overwrite=true', 'Content-Length: 3\r\nExpect: 100-continue'));
		await until('100 Continue', () => client.answer === 'HTTP/1.1 100 Continue\r\n\r\n');
		client.answer = '';
		await client.send('new');
		assert.equal(await client.status(), 201);
		client.end();
		assert.equal(await text('there'), 'new');
	});

	it('a slow client holds nobody up, and the file has no name before its last byte', async () => {
		const was = await names();
		const client = new Sender(base);
		await client.send(`${head('slow/file', 'Content-Length: 8')}half`);
		assert.equal((await put('quick', 'q')).status, 201);
		assert.equal(await run('import os; print(os.path.exists("slow"))'), 'False\n');
		if (mode === 'root') {
			const open = readdirSync(`/proc/${program.pid}/fd`).map((fd) => {
				try {
					return readlinkSync(`/proc/${program.pid}/fd/${fd}`);
				} catch {
					return '';
				}
			});
			assert.deepEqual(open.filter((name) => name.startsWith('/tmp/#') || name.startsWith('/memfd:upload')), [], 'no copy on the way');
		}
		await client.send('done');
		assert.equal(await client.status(), 201);
		client.end();
		assert.equal(await text('slow/file'), 'halfdone');
		assert.deepEqual(await names(), [...was, 'quick', 'slow'].toSorted());
	});

	it('two uploads to one name do not mix: the first to be complete has it', async () => {
		for (const [query, second, content] of [['', 409, 'bbbb'], ['?overwrite=true', 201, 'aaaa']] as const) {
			const a = new Sender(base);
			const b = new Sender(base);
			const path = `both${query.length}`;
			await a.send(`${head(path + query, 'Content-Length: 4')}aa`);
			await b.send(`${head(path + query, 'Content-Length: 4')}bb`);
			await b.send('bb');
			assert.equal(await b.status(), 201);
			await a.send('aa');
			assert.equal(await a.status(), second);
			assert.equal(await text(path), content);
			a.end();
			b.end();
		}
	});

	it('requests that were sent behind an upload are answered after it', async () => {
		const client = new Sender(base);
		const get = `GET /api/v1/sandboxes/${id}/files/first HTTP/1.1\r\nHost: ${new URL(base).host}\r\n\r\n`;
		await client.send(`${head('first', 'Content-Length: 5')}12345${head('second', 'Transfer-Encoding: chunked')}3\r\nabc\r\n0\r\n\r\n${get}`);
		await until('three answers', () => client.answer.split('HTTP/1.1 ').length === 4 && client.answer.endsWith('\r\n\r\n12345'));
		assert.deepEqual(client.answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 201', 'HTTP/1.1 201', 'HTTP/1.1 200']);
		client.end();
		assert.equal(await text('second'), 'abc');
	});

	it('a workspace that is full ends the upload, and has room again afterwards', async () => {
		const sandbox = await create();
		const fill = (n: string): Promise<Response> => fetch(`${files(sandbox)}/${n}`, { method: 'PUT', body: Buffer.alloc(LIMIT - 100_000, 'f') as BodyInit });
		for (const name of ['1', '2', '3', '4'])
			assert.equal((await fill(name)).status, 201);
		await problem(await fill('5'), 507, 'no_space');
		assert.deepEqual(await names(sandbox), ['1', '2', '3', '4']);
		await fetch(`${files(sandbox)}/1`, { method: 'DELETE' });
		assert.equal((await fill('5')).status, 201);
	});

	it('uploads that are not complete take no more than the workspace may have, also where no file system counts', async () => {
		const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_MAX_UPLOAD_BYTES: String(LIMIT), SANDBOX_STORED_WORKSPACE_LIMIT: '12m', SANDBOX_ALLOW_WEAKER: 'disk' };
		const server = await serve({ profile: 'full', env });
		const clients: Sender[] = [];
		try {
			const made = await fetch(`${server.base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"kind":"stored"}' });
			assert.equal(made.status, 201);
			const sandbox = ((await made.json()) as Json).id;
			for (let i = 0; i < 6; i++) {
				const client = new Sender(server.base);
				clients.push(client);
				await client.send(`PUT /api/v1/sandboxes/${sandbox}/files/part${i} HTTP/1.1\r\nHost: ${new URL(server.base).host}\r\nContent-Length: ${LIMIT}\r\n\r\n`);
				await client.send(Buffer.alloc(LIMIT - 1, 'x'));
			}
			const refused = (): Sender[] => clients.filter((c) => /^HTTP\/1\.1 507 /.test(c.answer));
			await until('two have no room', () => refused().length >= 2, 20_000);
			for (const client of clients.filter((c) => !refused().includes(c)))
				client.end();
			await until('there is room again', async () =>
				(await fetch(`${server.base}/api/v1/sandboxes/${sandbox}/files/after`, { method: 'PUT', body: Buffer.alloc(LIMIT) as BodyInit })).status === 201, 20_000);
		} finally {
			for (const client of clients)
				client.end();
			await server.program.end();
		}
	});

	it('the sandbox is destroyed in the middle: a typed error at once, also for a client that sends nothing more', async () => {
		const sandbox = await create();
		const put = new Sender(base);
		const post = new Sender(base);
		await put.send(`${head('x', 'Content-Length: 8', sandbox)}half`);
		await post.send(head('', 'Content-Type: multipart/form-data; boundary=b0\r\nContent-Length: 1000', sandbox).replace('PUT', 'POST').replace('/files/', '/files') +
			'--b0\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\none\r\n--b0\r\nContent-Disposition: form-data; name="f"; filename="b"\r\n\r\ntw');
		await until('both have begun', async () => (await text('nothing')) !== '');
		assert.equal((await fetch(`${base}/api/v1/sandboxes/${sandbox}?force=true`, { method: 'DELETE' })).status, 204);
		for (const client of [put, post]) {
			assert.equal(await client.status(), 410, client.answer);
			assert.match(client.answer, /"code":"sandbox_lost"/);
			client.end();
		}
	});

	it('the server ends in the middle: a stored workspace has nothing of the upload', async () => {
		const env = { SANDBOX_STATE_DIR: newStateDir() };
		const first = await serve({ profile: 'full', env });
		const made = await fetch(`${first.base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"kind":"stored"}' });
		const sandbox = ((await made.json()) as Json).id;
		await fetch(`${first.base}/api/v1/sandboxes/${sandbox}/files/whole`, { method: 'PUT', body: 'x' });
		const client = new Sender(first.base);
		await client.send(`PUT /api/v1/sandboxes/${sandbox}/files/new/half HTTP/1.1\r\nHost: ${new URL(first.base).host}\r\nContent-Length: 8\r\n\r\nhalf`);
		await fetch(`${first.base}/api/v1/sandboxes/${sandbox}/files`);
		await first.program.end();
		client.end();
		const second = await serve({ profile: 'full', env });
		try {
			const list = (await (await fetch(`${second.base}/api/v1/sandboxes/${sandbox}/files`)).json()) as Json;
			assert.deepEqual(list.files.map((f: Json) => f.name), ['whole']);
		} finally {
			await second.program.end();
		}
	});
});

describe('the largest file that nobody has set', { concurrency: 2 }, () => {
	for (const [profile, most] of [['full', 500 << 20], ['code', 50 << 20], ['classic', 50 << 20]] as const)
		it(`(slow) ${profile}: ${most >> 20} MiB over REST`, async () => {
			const { program, base } = await serve({ profile, env: { SANDBOX_STATE_DIR: newStateDir() } });
			try {
				const made = (await (await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })).json()) as Json;
				const policy = (await (await fetch(`${base}/api/v1/policy`)).json()) as Json;
				assert.equal(policy.sessions.upload_bytes, most);
				for (const [more, status] of [[1, 413], [0, 0]] as const) { // what is not too large is waited for
					const client = new Sender(base);
					await client.send(`PUT /api/v1/sandboxes/${made.id}/files/f${more} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${most + more}\r\nExpect: 100-continue\r\n\r\n`);
					if (status)
						assert.equal(await client.status(), status);
					else
						await until('the server to go on', () => client.answer.startsWith('HTTP/1.1 100'), 20_000);
					client.end();
				}
				if (profile !== 'full')
					return;
				const body = Buffer.alloc(60 << 20, 'b');
				assert.equal((await fetch(`${base}/api/v1/sandboxes/${made.id}/files/large`, { method: 'PUT', body: body as BodyInit })).status, 201);
				assert.ok(Buffer.from(await (await fetch(`${base}/api/v1/sandboxes/${made.id}/files/large`)).arrayBuffer()).equals(body));
			} finally {
				await program.end();
			}
		});
});
