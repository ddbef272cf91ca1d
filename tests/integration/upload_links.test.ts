// SPDX-License-Identifier: Apache-2.0
// Links by which a person puts a file into a sandbox (sandbox_add_file): one file, once, for a while, with the rights of
// whoever made the link at the moment when it is used.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as path from 'node:path';
import { spawnSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { newStateDir, scratch } from '../lib/env.ts';
import { caisson, type Program } from '../lib/process.ts';
import { facts, matrix, serve, using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const LIMIT = 100_000;
const NAME = 'Größe 表 и.csv';

const link = async (s: Session, session_id: string, more: Json = {}): Promise<string> =>
	(await s.call('sandbox_add_file', { session_id, ...more })).upload_url;
const names = async (s: Session, session_id: string): Promise<string[]> =>
	(await s.call('sandbox_list_files', { session_id })).files.map((f: Json) => f.path.slice('/mnt/data/'.length));
const put = (url: string, body: string): Promise<Response> =>
	fetch(url, { method: 'PUT', body, headers: { connection: 'close' } });
/** Sends a body without a declared length until the server has had enough; gives back its answer. */
async function endless(url: URL): Promise<string> {
	const socket = net.connect(Number(url.port), url.hostname);
	let heard = '', closed = false;
	socket.on('data', (d) => (heard += d)).on('close', () => (closed = true)).on('error', () => (closed = true));
	socket.write(`PUT ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nTransfer-Encoding: chunked\r\n\r\n`);
	const timer = setInterval(() => closed || heard || socket.write(`2710\r\n${'x'.repeat(10_000)}\r\n`), 5);
	try {
		await until('the answer', async () => closed || heard.includes('\r\n\r\n'), 20_000);
	} finally {
		clearInterval(timer);
		socket.destroy();
	}
	return heard;
}
const form = (content: string, name: string, more?: string): FormData => {
	const f = new FormData();
	f.append('file', new Blob([content]), name);
	if (more !== undefined) f.append('file', new Blob([more]), 'second');
	return f;
};

matrix('an upload link', { profile: 'full', env: { SANDBOX_MAX_UPLOAD_BYTES: String(LIMIT) } }, (s) => {
	it('takes one file by curl -T, with any name, once', async () => {
		const r = await s().raw('sandbox_add_file', { session_id: 'curl' });
		const { upload_url, max_bytes, expires_in_s } = facts(r);
		assert.deepEqual([max_bytes, expires_in_s], [LIMIT, 900]);
		assert.match(upload_url, /^http:\/\/localhost:\d+\/upload\/[0-9a-f]{64}$/);
		assert.match(r.content[0]!.text, new RegExp(`${upload_url}\n.*curl -T FILE ${upload_url}/\n`));
		const file = path.join(scratch('upload'), NAME);
		fs.writeFileSync(file, 'a,b\n');
		const curl = (): string => spawnSync('curl', ['-s', '-T', file, `${upload_url}/`], { encoding: 'utf8' }).stdout;
		assert.equal(curl(), `Uploaded /mnt/data/${NAME} (4 bytes) to session curl.\n`);
		assert.match(curl(), /was used, has expired/);
		assert.deepEqual(await names(s(), 'curl'), [NAME]);
		assert.equal(await (await fetch((await s().call('sandbox_list_files', { session_id: 'curl' })).files[0].download_url)).text(), 'a,b\n');
	});
	it('is a form without scripts in a browser', async () => {
		const url = await link(s(), 'form', { path: 'in/data.csv' });
		const page = await fetch(url);
		assert.equal(page.status, 200);
		assert.match(page.headers.get('content-security-policy')!, /default-src 'none'.*form-action 'self'.*frame-ancestors 'none'/);
		assert.equal(page.headers.get('cache-control'), 'no-store');
		const html = await page.text();
		assert.match(html, /<form method=post enctype=multipart\/form-data>.*<input type=file name=file required>/);
		assert.doesNotMatch(html, /<script|https?:/);
		const r = await fetch(url, { method: 'POST', body: form('1,2\n', 'C:\\fakepath\\x.csv'), headers: { origin: new URL(url).origin } });
		assert.equal(r.status, 201);
		assert.match(await r.text(), /Uploaded \/mnt\/data\/in\/data.csv \(4 bytes\)/);
		assert.deepEqual(await names(s(), 'form'), ['in/data.csv']);
		assert.equal((await fetch(url)).status, 404);
		const kept = await link(s(), 'form');
		assert.equal((await fetch(kept, { method: 'POST', body: form('x', `dir/${NAME}`) })).status, 201);
		assert.ok((await names(s(), 'form')).includes(NAME), 'without the folder of the person\'s machine');
	});
	it('can be used again after a failure, and leaves nothing of it', async () => {
		const url = await link(s(), 'fails', { overwrite: false });
		assert.equal((await put(url, 'x')).status, 400, 'a name is missing');
		assert.equal((await put(`${url}/a.txt`, 'x'.repeat(LIMIT + 1))).status, 413, 'declared too large');
		assert.match(await endless(new URL(`${url}/a.txt`)), /^HTTP\/1\.1 413 /, 'too large, as it turns out');
		for (const [name, status] of [['..%2f..%2fetc%2fx', 404], ['%00', 400], ['%ff%fe', 400], ['a%2fb', 404]] as const)
			assert.equal((await put(`${url}/${name}`, 'x')).status, status, name);
		assert.equal((await fetch(url, { method: 'POST', body: form('a', 'one', 'b') })).status, 400, 'two files');
		assert.equal((await fetch(url, { method: 'POST', body: 'x', headers: { 'content-type': 'text/plain' } })).status, 400);
		assert.equal((await fetch(url, { method: 'POST', body: form('x', 'f'), headers: { origin: 'http://evil.example' } })).status, 403);
		await s().call('sandbox_write_file', { session_id: 'fails', path: 'there', content: '1' });
		assert.equal((await put(`${url}/there`, '2')).status, 409, 'overwrite is false');
		assert.deepEqual(await names(s(), 'fails'), ['there']);
		assert.equal((await put(`${url}/a.txt`, 'x')).status, 201);
		assert.deepEqual((await names(s(), 'fails')).sort(), ['a.txt', 'there']);
	});
	it('is for one upload at a time; one that is broken off leaves nothing and does not use it up', async () => {
		const url = new URL(await link(s(), 'slow'));
		const socket = net.connect(Number(url.port), url.hostname);
		socket.on('error', () => undefined);
		let heard = '';
		socket.on('data', (d) => (heard += d));
		socket.write(`PUT ${url.pathname}/slow.txt HTTP/1.1\r\nHost: ${url.host}\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n`);
		await until('the upload', async () => heard.includes('100 Continue'), 10_000);
		socket.write('half');
		assert.equal((await put(`${url}/other.txt`, 'x')).status, 409);
		socket.destroy();
		await until('its end', async () => (await put(`${url}/after.txt`, 'x')).status === 201, 10_000);
		assert.deepEqual(await names(s(), 'slow'), ['after.txt']);
	});
	it('ends with its session, even if there is another of that name', async () => {
		const url = await link(s(), 'again');
		await s().call('sandbox_delete', { session_id: 'again' });
		assert.equal((await put(`${url}/a`, 'x')).status, 404);
		await s().call('sandbox_write_file', { session_id: 'again', path: 'f', content: '' });
		assert.equal((await put(`${url}/a`, 'x')).status, 404);
		assert.deepEqual(await names(s(), 'again'), ['f']);
	});
	it('cannot be for a path with a NUL byte', async () => {
		const r = facts(await s().raw('sandbox_add_file', { session_id: 'nul', path: 'a\u0000b' }));
		assert.deepEqual([r.error, r.message], ['invalid_path', 'a path cannot hold a NUL byte'], JSON.stringify(r));
	});

	it('is one of 32 of a caller: the oldest one gives way', async () => {
		const urls: string[] = [];
		for (let i = 0; i < 33; i++) urls.push(await link(s(), 'many'));
		assert.equal((await fetch(urls[0]!)).status, 404);
		assert.equal((await fetch(urls[1]!)).status, 200);
		assert.equal((await fetch(`${urls[32]!.slice(0, -1)}0`)).status === 200 && !urls[32]!.endsWith('0'), false, 'a wrong token');
	});
});

describe('an upload link of a user', () => {
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_OPEN_REGISTRATION: 'off', SANDBOX_BUDGETS: 'upload_links=4/5' };
	let program: Program, base: string;
	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
		await cli('user', 'add', 'ada', '--password', 'none');
	});
	after(() => program.end());
	const cli = async (...args: string[]): Promise<string> => {
		const r = await caisson(args, { env });
		assert.equal(r.code, 0, r.stderr.toString());
		return r.stdout.toString().trim();
	};
	const client = async (key: string): Promise<Client> => {
		const c = new Client({ name: 'caisson-tests', version: '1.0.0' });
		await c.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { 'x-api-key': key } } }));
		return c;
	};
	const upload = async (c: Client, session_id: string): Promise<string> =>
		facts((await c.callTool({ name: 'sandbox_add_file', arguments: { session_id } })) as Json).upload_url;

	it('needs no key, and ends with the key that made it, also while it is used', async () => {
		const key = await cli('key', 'new', 'ada');
		const c = await client(key);
		assert.equal((await put(`${await upload(c, 'u')}/a.txt`, 'x')).status, 201);
		const before = await upload(c, 'u');
		const url = new URL(await upload(c, 'u'));
		const socket = net.connect(Number(url.port), url.hostname);
		socket.on('error', () => undefined);
		let heard = '', closed = false;
		socket.on('data', (d) => (heard += d)).on('close', () => (closed = true));
		socket.write(`PUT ${url.pathname}/slow.txt HTTP/1.1\r\nHost: ${url.host}\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n`);
		await until('the upload', async () => heard.includes('100 Continue'), 10_000);
		const list = await (await fetch(`${base}/api/v1/keys`, { headers: { 'x-api-key': key } })).json() as Json;
		await cli('key', 'revoke', list.keys[0].id);
		await until('the end of the link', async () => (await fetch(before)).status === 404, 10_000);
		assert.equal((await put(`${before}/b.txt`, 'x')).status, 404);
		socket.write('0123456789');
		await until('the end of the upload', async () => closed || /HTTP\/1.1 4/.test(heard), 10_000);
		assert.doesNotMatch(heard, /HTTP\/1\.1 201/);
		const other = await client(await cli('key', 'new', 'ada'));
		const { files } = facts((await other.callTool({ name: 'sandbox_list_files', arguments: { session_id: 'u' } })) as Json);
		assert.deepEqual(files.map((f: Json) => f.filename), ['a.txt']);
	});
	it('gives way to one of another user, if its owner has the most', async () => {
		await cli('user', 'add', 'bob', '--password', 'none');
		const [ada, bob] = [await client(await cli('key', 'new', 'ada')), await client(await cli('key', 'new', 'bob'))];
		const hers: string[] = [], his: string[] = [];
		for (let i = 0; i < 4; i++) hers.push(await upload(ada, 'box'));
		for (let i = 0; i < 2; i++) his.push(await upload(bob, 'box'));
		const works = async (urls: string[]): Promise<boolean[]> => Promise.all(urls.map(async (url) => (await fetch(url)).status === 200));
		assert.deepEqual([await works(hers), await works(his)], [[false, true, true, true], [true, true]]);
		his.push(await upload(bob, 'box'));
		assert.deepEqual([await works(hers), await works(his)], [[false, false, true, true], [true, true, true]]);
		await Promise.all([ada.close(), bob.close()]);
	});

	it('cannot be made with a key that only reads', async () => {
		const c = await client(await cli('key', 'new', 'ada', '--scope', 'read'));
		assert.equal(((await c.callTool({ name: 'sandbox_add_file', arguments: { session_id: 'u' } })) as Json).isError, true);
	});
});

describe('where links are off', () => {
	it('there are no upload links', () => using('stdio', { profile: 'full', env: { SANDBOX_HTTP_PORT: 'off' } }, async (s) => {
		const r = await s.raw('sandbox_add_file', {});
		assert.equal(r.isError, true);
		assert.match(r.content[0]!.text, /forbidden: This server serves no links \(SANDBOX_HTTP_PORT/);
	}));
});
