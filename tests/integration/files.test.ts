// SPDX-License-Identifier: Apache-2.0
// A16, A18–A23: files of a session, in and out, and their links.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { hasKeys, isArtifact, isError, readKeys } from '../lib/expect.ts';
import { sanitized } from '../lib/env.ts';
import { residentBytes } from '../lib/process.ts';
import { matrix, using, wires, type Json } from '../lib/session.ts';

const png = Buffer.from('iVBORw0KGgo=', 'base64');

matrix('files', {}, (s) => {
	it('A16 close says closed, and the session is gone', async () => {
		await s().upload('a.txt', 'x', 'gone');
		assert.deepEqual(await s().close('gone'), { status: 'closed' });
		const gone = 'No active session with id gone';
		isError(await s().close('gone'), 'session_not_found', gone);
		isError(await s().call('sandbox_list_artifacts', { session_id: 'gone' }), 'session_not_found', gone);
		isError(await s().call('sandbox_read_artifact', { session_id: 'gone', path: '/mnt/data/a.txt' }), 'session_not_found', gone);
	});
	it('A16 a closed id can be used again, and starts empty', async () => {
		await s().upload('a.txt', 'x', 'again');
		await s().close('again');
		await s().upload('b.txt', 'y', 'again');
		assert.deepEqual((await s().list('again')).map((a) => a.filename), ['b.txt']);
	});
	it('A18 upload, read it in code, refuse to overwrite, overwrite', async () => {
		assert.deepEqual(await s().upload('data.csv', 'a,b\n1,2\n', 'up'), { session_id: 'up', path: '/mnt/data/data.csv' });
		assert.equal((await s().ok('print(open("data.csv").read(), end="")', 'up')).stdout, 'a,b\n1,2\n');
		isError(await s().upload('data.csv', 'other', 'up'), 'file_exists', 'data.csv already exists. Set overwrite=true to replace.');
		isError(await s().upload('data.csv', 'other', 'up', false), 'file_exists');
		assert.equal((await s().ok('print(open("data.csv").read(), end="")', 'up')).stdout, 'a,b\n1,2\n');
		assert.equal((await s().upload('data.csv', 'new', 'up', true)).path, '/mnt/data/data.csv');
		assert.equal((await s().ok('print(open("data.csv").read(), end="")', 'up')).stdout, 'new');
	});
	it('A18 an uploaded file is the sandbox\'s own, of now', async () => {
		await s().upload('mine.txt', 'x', 'up');
		const r = await s().ok([
			'import os, time',
			'st = os.stat("mine.txt"); print(abs(time.time() - st.st_mtime) < 60, st.st_uid == os.getuid(), oct(st.st_mode))',
			'open("mine.txt", "a").write("y"); os.rename("mine.txt", "m2"); os.unlink("m2")',
		].join('\n'), 'up');
		assert.equal(r.stdout, 'True True 0o100644\n');
	});
	it('A18 a folder, link or pipe of that name is in the way too', async () => {
		await s().ok('import os; os.mkdir("d"); os.symlink("/etc/passwd", "l"); os.mkfifo("f")', 'way');
		for (const name of ['d', 'l', 'f'])
			isError(await s().upload(name, 'x', 'way'), 'file_exists');
		isError(await s().upload('d', 'x', 'way', true), 'file_exists', 'd is a folder. A file cannot replace it: choose another filename, or remove the folder with code.');
		const over = await s().upload('l', 'replaced', 'way', true);
		assert.equal(over.path, '/mnt/data/l');
		assert.equal((await s().ok('import os; print(os.path.islink("l"), open("l").read())', 'way')).stdout, 'False replaced\n');
	});
	it('A19 a saved picture is an artifact, an unchanged file is not', async () => {
		await s().upload('before.csv', 'a\n1\n', 'art');
		const r = await s().ok(`open("chart.png", "wb").write(bytes(${JSON.stringify([...png])}))`, 'art');
		assert.equal(r.artifacts.length, 1);
		isArtifact(r.artifacts[0]);
		assert.deepEqual({ ...r.artifacts[0], download_url: 0 }, {
			path: '/mnt/data/chart.png', filename: 'chart.png', size_bytes: 8, mime_type: 'image/png', download_url: 0,
		});
	});
	it('A19 a changed file is one, a failed run has none, its files stay listed', async () => {
		await s().ok('open("a.txt", "w").write("1")', 'diff');
		assert.deepEqual((await s().ok('open("a.txt", "a").write("2")', 'diff')).artifacts.map((a: Json) => a.filename), ['a.txt']);
		const failed = await s().run('open("b.txt", "w").write("3"); raise RuntimeError', 'diff');
		assert.deepEqual(failed.artifacts, []);
		assert.deepEqual((await s().ok('pass', 'diff')).artifacts, []);
		assert.deepEqual((await s().list('diff')).map((a) => a.filename).sort(), ['a.txt', 'b.txt']);
	});
	it('A20 lists regular files of the top folder, hidden ones included, and nothing else', async () => {
		await s().upload('.hidden', 'x', 'list');
		await s().ok('import os; os.mkdir("sub"); open("sub/n", "w"); os.symlink("a", "link"); os.mkfifo("pipe"); open("a", "w").write("12")', 'list');
		const l = await s().list('list');
		l.forEach(isArtifact);
		assert.deepEqual(l.map((a) => [a.filename, a.size_bytes]).sort(), [['.hidden', 1], ['a', 2]]);
	});
	it('A20 an empty session lists nothing', async () => {
		await s().ok('pass', 'empty');
		assert.deepEqual(await s().call('sandbox_list_artifacts', { session_id: 'empty' }), { artifacts: [] });
	});
	it('A21 reads identical bytes', async () => {
		const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, i) => (i * 7919) & 255));
		await s().upload('x.bin', bytes, 'read');
		const r = await s().call('sandbox_read_artifact', { session_id: 'read', path: '/mnt/data/x.bin' });
		hasKeys(r, readKeys);
		assert.deepEqual({ ...r, content_base64: 0 }, {
			path: '/mnt/data/x.bin', filename: 'x.bin', mime_type: 'application/octet-stream', size_bytes: bytes.length, content_base64: 0,
		});
		assert.ok(Buffer.from(r.content_base64, 'base64').equals(bytes));
	});
	it('A21 nested files can be read, and paths are made normal', async () => {
		await s().ok('import os; os.makedirs("sub/deep"); open("sub/deep/x.txt", "w").write("nested")', 'read');
		for (const path of ['/mnt/data/sub/deep/x.txt', '/mnt/data//sub/./deep/x.txt', '/mnt/data/sub/deep/x.txt/']) {
			const r = await s().call('sandbox_read_artifact', { session_id: 'read', path });
			assert.equal(r.path, '/mnt/data/sub/deep/x.txt');
			assert.equal(r.filename, 'x.txt');
			assert.equal(Buffer.from(r.content_base64, 'base64').toString(), 'nested');
		}
	});
	const refused: [string, string, string][] = [
		['relative', 'x.bin', 'Path must be absolute and within /mnt/data/'],
		['outside', '/etc/passwd', 'Path outside /mnt/data/'],
		['a sibling by prefix', '/mnt/database/x', 'Path outside /mnt/data/'],
		['the folder itself', '/mnt/data', 'Path must point to a file in /mnt/data/'],
		['the folder with a slash', '/mnt/data/', 'Path must point to a file in /mnt/data/'],
		['climbing', '/mnt/data/../../etc/passwd', 'Path traversal not allowed'],
		['climbing and back', '/mnt/data/sub/../x.bin', 'Path traversal not allowed'],
		['empty', '', 'Path must be absolute and within /mnt/data/'],
	];
	for (const [what, path, message] of refused) {
		it(`A21 refuses a path: ${what}`, async () => {
			await s().upload('x.bin', 'x', 'paths', true);
			isError(await s().call('sandbox_read_artifact', { session_id: 'paths', path }), 'invalid_path', message);
		});
	}
	it('A21 what is missing, a folder, a link or a pipe is not_found, at once', async () => {
		await s().ok('import os; os.mkdir("dir"); os.symlink("/etc/passwd", "link"); os.symlink("real", "inner"); open("real", "w"); os.mkfifo("pipe"); os.symlink("dir", "dl"); open("dir/f", "w")', 'odd');
		for (const name of ['missing.txt', 'dir', 'link', 'inner', 'pipe', 'dl/f', 'real/x', 'a\u0000b', 'x'.repeat(300)]) {
			const path = `/mnt/data/${name}`;
			isError(await s().call('sandbox_read_artifact', { session_id: 'odd', path }), 'not_found', `No artifact at ${path}`);
		}
	});
	it('A21 an unknown session comes before a bad path', async () => {
		isError(await s().call('sandbox_read_artifact', { session_id: 'nobody', path: 'x' }), 'session_not_found', 'No active session with id nobody');
	});
	it('A22 the whole pipeline', async () => {
		await s().upload('sales.csv', 'region,amount\nN,100\nS,200\nE,300\n', 'pipe');
		await s().ok([
			'import csv',
			'total = sum(int(r["amount"]) for r in csv.DictReader(open("sales.csv")))',
			'open("summary.txt", "w").write(f"Total sales: {total}")',
		].join('\n'), 'pipe');
		assert.deepEqual((await s().list('pipe')).map((a) => a.filename).sort(), ['sales.csv', 'summary.txt']);
		assert.equal((await s().read('pipe', '/mnt/data/summary.txt')).toString(), 'Total sales: 600');
	});
	it('A23 links of a run give the bytes with their type', async () => {
		const r = await s().ok(`open("out.txt", "w").write("hello"); open("p.png", "wb").write(bytes(${JSON.stringify([...png])}))`, 'links');
		const by = Object.fromEntries(r.artifacts.map((a: Json) => [a.filename, a]));
		assert.match(by['out.txt'].download_url, /\/files\/links\/out\.txt$/);
		const text = await fetch(by['out.txt'].download_url);
		assert.equal(text.status, 200);
		assert.equal(text.headers.get('content-type'), 'text/plain; charset=utf-8');
		assert.equal(text.headers.get('content-disposition'), 'inline; filename="out.txt"');
		assert.equal(await text.text(), 'hello');
		const image = await fetch(by['p.png'].download_url);
		assert.equal(image.headers.get('content-type'), 'image/png');
		assert.deepEqual(Buffer.from(await image.arrayBuffer()), png);
		const base = by['out.txt'].download_url.replace(/\/files\/.*/, '');
		assert.equal((await fetch(`${base}/files/nobody/out.txt`)).status, 404);
		assert.equal((await fetch(`${base}/files/links/none.txt`)).status, 404);
	});
	const types: [string, string][] = [
		['a.csv', 'text/csv'], ['a.tsv', 'text/tab-separated-values'], ['a.json', 'application/json'], ['a.png', 'image/png'],
		['a.gif', 'image/gif'], ['a.jpg', 'image/jpeg'], ['a.svg', 'image/svg+xml'], ['a.pdf', 'application/pdf'],
		['a.html', 'text/html'], ['a.txt', 'text/plain'], ['a.py', 'text/x-python'], ['a.js', 'text/javascript'],
		['a.zip', 'application/zip'], ['a.xls', 'application/vnd.ms-excel'], ['a.h5', 'application/x-hdf5'], ['a.mp4', 'video/mp4'],
		['a.csv.gz', 'text/csv'], ['a.tar.gz', 'application/x-tar'], ['a.tgz', 'application/x-tar'], ['a.gz', 'application/octet-stream'],
		['a.parquet', 'application/octet-stream'], ['noext', 'application/octet-stream'], ['a.PNG', 'image/png'],
	];
	it('types go by extension', async () => {
		await s().ok(`for n in ${JSON.stringify(types.map((t) => t[0]))}: open(n, "w").close()`, 'types');
		const l = await s().list('types');
		assert.deepEqual(l.map((a) => [a.filename, a.mime_type]).sort(), [...types].sort());
	});
	it('100 files at once', async () => {
		const r = await s().ok('for i in range(100): open(f"f{i}", "w").write(str(i))', 'many');
		assert.equal(r.artifacts.length, 100);
		assert.equal((await s().list('many')).length, 100);
	});
});

for (const wire of wires) {
	it(`too large to read: artifact_too_large with its size, and the link works where it may (${wire})`, () =>
		using(wire, { env: { SANDBOX_MAX_ARTIFACT_READ_BYTES: '8', SANDBOX_MAX_LINK_BYTES: '0' } }, async (s) => {
			const r = await s.ok('open("nine.txt", "w").write("123456789"); open("eight.txt", "w").write("12345678")', 'big');
			isError(await s.call('sandbox_read_artifact', { session_id: 'big', path: '/mnt/data/nine.txt' }), 'artifact_too_large',
				'nine.txt is 0MB, exceeds 0MB limit.', 9);
			assert.equal((await s.read('big', '/mnt/data/eight.txt')).toString(), '12345678');
			const link = r.artifacts.find((a: Json) => a.filename === 'nine.txt').download_url;
			assert.equal(await (await fetch(link)).text(), '123456789');
		}));
}

it('(slow) large answers leave no memory behind', { skip: sanitized && 'the sanitizer keeps what is freed' }, () => using('http', {}, async (s) => {
	await s.ok('import os\nopen("big.bin", "wb").write(os.urandom(9 << 20))\nopen("small.bin", "wb").write(b"x")', 'big');
	await s.read('big', '/mnt/data/small.bin');
	const before = residentBytes(s.pid);
	for (let i = 0; i < 4; i++)
		assert.equal((await s.read('big', '/mnt/data/big.bin')).length, 9 << 20);
	await s.read('big', '/mnt/data/small.bin');
	const kept = residentBytes(s.pid) - before;
	assert.ok(kept < 8 << 20, `${kept >> 20} MiB are kept`);
}));
