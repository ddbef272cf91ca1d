// SPDX-License-Identifier: Apache-2.0
// Files as multipart/form-data: what fetch sends, and what nobody sends by accident. A form writes all of a file or nothing of it.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import * as net from 'node:net';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const LIMIT = 3_000_000;

describe('forms', () => {
	let program: Program;
	let base: string;
	let id: string;

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_MAX_UPLOAD_BYTES: String(LIMIT) } }));
		const r = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
		id = ((await r.json()) as Json).id;
	});
	after(async () => {
		await program.end();
	});

	const files = (): string => `${base}/api/v1/sandboxes/${id}/files`;

	async function post(body: FormData | string | Buffer, query = '', type?: string): Promise<{ status: number; type: string; body: Json }> {
		const r = await fetch(`${files()}${query}`, { method: 'POST', body: body as BodyInit, headers: type ? { 'content-type': type } : {} });
		return { status: r.status, type: r.headers.get('content-type')!, body: (await r.json()) as Json };
	}

	function form(...parts: [string, string | Uint8Array][]): FormData {
		const all = new FormData();
		for (const [name, data] of parts)
			all.append('file', new File([data as BlobPart], name));
		return all;
	}

	/** A body by hand: each part is its head (without the blank line) and its data. */
	function raw(...parts: [string, string][]): string {
		return parts.map(([head, data]) => `--b0\r\n${head}\r\n\r\n${data}\r\n`).join('') + '--b0--\r\n';
	}
	const named = (name: string): string => `Content-Disposition: form-data; name="f"; filename="${name}"`;
	const hand = (body: string | Buffer, type = 'multipart/form-data; boundary=b0'): ReturnType<typeof post> => post(body, '', type);

	async function names(folder = ''): Promise<string[]> {
		const r = (await (await fetch(`${files()}?path=${folder}`)).json()) as Json;
		return r.files.map((f: Json) => f.name).toSorted();
	}
	const text = async (path: string): Promise<string> => (await fetch(`${files()}/${path}`)).text();

	function problem(r: Awaited<ReturnType<typeof post>>, status: number, code: string, what?: RegExp): void {
		assert.deepEqual([r.status, r.body.status, r.body.code, r.type], [status, status, code, 'application/problem+json'], JSON.stringify(r.body));
		if (what)
			assert.match(r.body.detail, what);
	}

	it('several files of one form: names, bytes, folders, an answer that lists them', async () => {
		const big = randomBytes(1_500_000);
		const crlf = Buffer.from('a\r\n--\r\n-\r\r\n'.repeat(20_000));
		const r = await post(form(['a.txt', 'one'], ['empty', ''], ['sub/big.bin', big], ['h\u00e9 "1"\n%22.csv', 'x,y\r\n'], ['crlf', crlf]));
		assert.deepEqual([r.status, r.type], [201, 'application/json'], JSON.stringify(r.body));
		// A form escapes " CR LF and not %, so that a literal %22 comes out as a quote: the standard of forms is so.
		assert.deepEqual(r.body.files, [{ path: 'a.txt', size: 3 }, { path: 'empty', size: 0 }, { path: 'sub/big.bin', size: big.length }, { path: 'h\u00e9 "1"\n".csv', size: 5 }, { path: 'crlf', size: crlf.length }]);
		assert.equal(await text('a.txt'), 'one');
		assert.equal(await text('empty'), '');
		assert.equal(await text(encodeURIComponent('h\u00e9 "1"\n".csv')), 'x,y\r\n');
		for (const [path, data] of [['sub/big.bin', big], ['crlf', crlf]] as const)
			assert.equal(createHash('sha256').update(Buffer.from(await (await fetch(`${files()}/${path}`)).arrayBuffer())).digest('hex'), createHash('sha256').update(data).digest('hex'));
		const into = await post(form(['in.txt', '1'], ['/mnt/data/root.txt', '2']), '?path=new/folder');
		assert.deepEqual(into.body.files, [{ path: 'new/folder/in.txt', size: 1 }, { path: 'new/folder/root.txt', size: 1 }]);
		assert.deepEqual(await names('new/folder'), ['in.txt', 'root.txt']);
		const run = await fetch(`${base}/api/v1/sandboxes/${id}/runs`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ code: 'print(open("new/folder/in.txt").read())', wait: true }) });
		assert.equal(((await run.json()) as Json).stdout, '1\n');
	});

	it('filename* is understood, and goes before filename', async () => {
		const ext = (value: string): string => `Content-Disposition: form-data; name="f"; filename="plain"; filename*=${value}`;
		const r = await hand(raw([ext(`UTF-8''na%C3%AFve%20%E2%82%AC.txt`), '1'], [ext(`iso-8859-1'en'%e9t%E9.csv`), '2']));
		assert.deepEqual([r.status, r.body.files], [201, [{ path: 'na\u00efve \u20ac.txt', size: 1 }, { path: '\u00e9t\u00e9.csv', size: 1 }]], JSON.stringify(r.body));
	});
	it('a file that is there stays, unless it is to be replaced; of a form that is refused nothing is written', async () => {
		await post(form(['old', 'old']));
		const was = (await names()).filter((n) => n.startsWith('new'));
		const r = await post(form(['new1', '1'], ['old', 'new'], ['new2', '2']));
		problem(r, 409, 'file_exists', /old/);
		assert.equal(r.body.files, undefined);
		assert.equal(await text('old'), 'old');
		assert.deepEqual((await names()).filter((n) => n.startsWith('new')), was);
		assert.equal((await post(form(['new1', '11'], ['old', 'new']), '?overwrite=true')).status, 201);
		assert.deepEqual([await text('new1'), await text('old')], ['11', 'new']);
		await fetch(`${files()}/folder/x`, { method: 'PUT', body: 'x' });
		assert.notEqual((await post(form(['folder', 'x']), '?overwrite=true')).status, 201, 'a folder is not replaced');
	});

	it('names that lead out, that are none, that are there twice: nothing is written', async () => {
		const was = await names();
		for (const name of ['../../x', 'a/../../x', '..', '/etc/passwd', '/mnt/data/../x', '/mnt/data', '.', '/'])
			problem(await hand(raw([named('first'), '1'], [named(name), '2'])), 400, 'invalid_path');
		problem(await hand(raw([named('first'), '1'], [named(''), '2'])), 400, 'invalid_argument', /no filename/);
		problem(await hand(raw([named('first'), '1'], ['Content-Disposition: form-data; name="plain"', '2'])), 400, 'invalid_argument', /'plain' has no filename/);
		problem(await hand(raw([named('first'), '1'], ['Content-Disposition: form-data; filename="x"', '2'])), 400, 'invalid_argument', /no name/);
		problem(await hand(raw([named('first'), '1'], [named('./first'), '2'])), 400, 'invalid_argument', /twice/);
		problem(await hand(raw([named(`${'n'.repeat(250)}/`.repeat(20)), '2'])), 404, 'not_found', /the path is too long/);
		assert.equal((await hand(raw([named('n'.repeat(300)), '2']))).status, 400);
		assert.deepEqual(await names(), was);
		for (const path of ['..', '/etc'])
			problem(await post(form(['x', '1']), `?path=${path}`), 400, 'invalid_path');
		assert.equal((await post(form(['x', '1']), '?overwrite=maybe')).status, 400);
	});

	it('what is no good form is refused, and nothing of it is written', async () => {
		const was = await names();
		const good = raw([named('half'), 'data']);
		const bodies: [string, string][] = [
			['zero parts', '--b0--\r\n'],
			['no body', ''],
			['no end', good.slice(0, -8)],
			['half an end', good.slice(0, -4)],
			['another boundary', good.replaceAll('b0', 'b1')],
			['a boundary that goes on', good.replace('--b0--', '--b00--')],
			['no head', '--b0\r\n\r\ndata\r\n--b0--'],
			['a huge head', raw([`${named('half')}\r\nX: ${'x'.repeat(9000)}`, 'data'])],
			['two names', raw([`${named('half')}; filename="y"`, 'data'])],
			['two dispositions', raw([`${named('half')}\r\n${named('y')}`, 'data'])],
			['filename* without a language', raw([`Content-Disposition: form-data; name=f; filename*=utf-8'half`, 'data'])],
			['filename* in another charset', raw([`Content-Disposition: form-data; name=f; filename*=utf-16''half`, 'data'])],
			['filename* that is no UTF-8', raw([`Content-Disposition: form-data; name=f; filename*=utf-8''%ff`, 'data'])],
			['name*', raw([`Content-Disposition: form-data; name*=utf-8''f; filename=half`, 'data'])],
			['base64', raw([`${named('half')}\r\nContent-Transfer-Encoding: base64`, 'ZGF0YQ=='])],
			['bare LF', good.replaceAll('\r\n', '\n')],
		];
		for (const [what, body] of bodies) {
			const r = await hand(body);
			assert.deepEqual([r.status, r.body.code, r.type], [400, 'invalid_argument', 'application/problem+json'], `${what}: ${JSON.stringify(r.body)}`);
		}
		for (const type of ['multipart/form-data', 'multipart/mixed; boundary=b0', 'application/json', 'multipart/form-data; boundary=b0; boundary=b1', `multipart/form-data; boundary=${'b'.repeat(71)}`])
			problem(await hand(good, type), 400, 'invalid_argument');
		assert.deepEqual(await names(), was);
		assert.equal((await fetch(`${base}/api/v1/sandboxes/nothing/files`, { method: 'POST', body: form(['x', 'y']) })).status, 404);
		const cross = await fetch(files(), { method: 'POST', headers: { origin: 'https://evil.example' }, body: form(['x', 'y']) });
		assert.equal(cross.status, 403, 'a form of a page of another site needs no permission to be sent');
		assert.deepEqual(await names(), was);
	});

	it('limits: bytes of all files together, parts, bytes that are no file', async () => {
		const was = await names();
		const half = 'x'.repeat(LIMIT / 2);
		assert.equal((await post(form(['l1', half], ['l2', half]), '?path=exact')).status, 201);
		problem(await post(form(['m1', half], ['m2', `${half}x`])), 413, 'upload_too_large', /3000000 bytes/);
		const many = Array.from({ length: 101 }, (_, i): [string, string] => [`n${i}`, '']);
		problem(await post(form(...many)), 413, 'upload_too_large', /100 parts/);
		assert.equal((await post(form(...many.slice(1)), '?path=hundred')).status, 201);
		problem(await hand('x'.repeat(4_500_000)), 413, 'upload_too_large');
		problem(await hand(`${raw([named('half'), 'data'])}${'x'.repeat(1_000_000)}`), 413, 'upload_too_large', /no file/);
		assert.deepEqual(await names(), [...was, 'exact', 'hundred'].toSorted());
	});

	it('a client that leaves in the middle leaves nothing; slow pieces are as good as one', async () => {
		const { hostname, port } = new URL(base);
		const body = raw([named('slow.txt'), 'slow data']);
		const head = `POST /api/v1/sandboxes/${id}/files HTTP/1.1\r\nHost: ${hostname}:${port}\r\nContent-Type: multipart/form-data; boundary=b0\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
		const gone = net.connect(Number(port), hostname);
		await new Promise((resolve) => gone.write(head + body.slice(0, -6), resolve));
		gone.destroy();
		const slow = net.connect(Number(port), hostname);
		slow.setNoDelay(true);
		let answer = '';
		slow.on('data', (data: Buffer) => (answer += data.toString()));
		const closed = new Promise((resolve) => slow.once('close', resolve));
		for (const c of head + body) // one by one; whether they arrive so is the kernel's to say
			await new Promise((resolve) => slow.write(c, resolve));
		await closed;
		assert.match(answer, /^HTTP\/1\.1 201 /);
		assert.match(answer, /\{"files":\[\{"path":"slow\.txt","size":9\}\]\}$/);
		await until('the first one is in the audit log as broken off', async () => {
			const rows = ((await (await fetch(`${base}/api/v1/audit?limit=50`)).json()) as Json).rows;
			return rows.some((r: Json) => r.action === 'file.put' && r.result === 'cancelled');
		}, 20_000);
		assert.equal(await text('slow.txt'), 'slow data');
	});

	it('(slow) a sandbox that is deleted while the files of a form get their names ends the form, not the server', async () => {
		const parts = Array.from({ length: 99 }, (_, i): [string, string] => [`n${i}`, `${i}`]);
		const ends = new Set<number>();
		for (let round = 0; round < 12; round++) {
			const made = await fetch(`${base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
			const url = `${base}/api/v1/sandboxes/${((await made.json()) as Json).id}`;
			const posted = fetch(`${url}/files`, { method: 'POST', body: form(...parts) });
			// The first file that is seen has its name, so the others are getting theirs.
			const first = Math.floor((99 * round) / 12);
			while (((await (await fetch(`${url}/files`)).json()) as Json).files.length <= first)
				;
			assert.equal((await fetch(`${url}?force=true`, { method: 'DELETE' })).status, 204);
			const r = await posted;
			ends.add(r.status);
			const body = (await r.json()) as Json;
			assert.ok(r.status === 201 || (body.code === 'sandbox_lost' && r.status < 500), JSON.stringify([r.status, body]));
		}
		assert.equal((await fetch(`${base}/healthz`)).status, 200);
		assert.ok(ends.size > 0);
	});

	it('a workspace that is full says so and has no half file', async () => {
		const small = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_WORKSPACE_LIMIT: '1m', SANDBOX_MAX_UPLOAD_BYTES: '8000000' } });
		try {
			const made = await fetch(`${small.base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
			const url = `${small.base}/api/v1/sandboxes/${((await made.json()) as Json).id}/files`;
			const r = await fetch(url, { method: 'POST', body: form(['fits', 'x'], ['big', 'x'.repeat(4_000_000)]) });
			const body = (await r.json()) as Json;
			assert.deepEqual([r.status, body.code, body.files], [507, 'no_space', undefined], JSON.stringify(body));
			assert.deepEqual(((await (await fetch(url)).json()) as Json).files, []);
		} finally {
			await small.program.end();
		}
	});
});
