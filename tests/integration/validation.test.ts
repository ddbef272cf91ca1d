// SPDX-License-Identifier: Apache-2.0
// A01–A06, A08: what may be said to the tools of the first family, and the errors for the rest.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { errorKeys, hasKeys, isError, isRun, sessionIdPattern } from '../lib/expect.ts';
import { matrix, type Json } from '../lib/session.ts';

const b64 = (s: string): string => Buffer.from(s).toString('base64');

matrix('A01-A02 session ids', { env: { SANDBOX_MAX_SESSIONS: '20' } }, (s) => {
	for (const id of ['abc', 'sess_a1b2c3d4e5f6', 'my-session', 'my_session', 'A'.repeat(64), '0']) {
		it(`accepts ${id.slice(0, 20)} (${id.length})`, async () => {
			const r = await s().upload('a.txt', 'x', id);
			hasKeys(r, ['session_id', 'path']);
			assert.equal(r.session_id, id);
			assert.equal(r.path, '/mnt/data/a.txt');
			assert.deepEqual(await s().close(id), { status: 'closed' });
		});
	}
	it('accepts null and makes one up', async () => {
		const r = await s().call('sandbox_upload_file', { filename: 'a.txt', content_base64: b64('x'), session_id: null });
		assert.match(r.session_id, sessionIdPattern);
		await s().close(r.session_id);
	});
	const bad = ['', 'A'.repeat(65), 'a b', 'a/b', 'a@b', 'a!b', 'a;b', 'abc\n', '../x', 'é', 'a\u0000b'];
	for (const id of bad) {
		it(`refuses ${JSON.stringify(id).slice(0, 20)} in every tool`, async () => {
			const calls: [string, Json][] = [
				['sandbox_upload_file', { filename: 'a.txt', content_base64: b64('x'), session_id: id }],
				['sandbox_run_python', { code: 'pass', session_id: id }],
				['sandbox_read_artifact', { session_id: id, path: '/mnt/data/a.txt' }],
				['sandbox_list_artifacts', { session_id: id }],
				['sandbox_close_session', { session_id: id }],
			];
			for (const [tool, args] of calls) {
				isError(await s().call(tool, args), 'invalid_session_id',
					`Invalid session_id '${id}'. Must be 1-64 characters: letters, numbers, hyphens, underscores.`);
			}
		});
	}
	it('checks the id before everything else', async () => {
		const r = await s().call('sandbox_upload_file', { filename: '', content_base64: '%', session_id: '' });
		isError(r, 'invalid_session_id');
	});
});

matrix('A03-A04 filenames', {}, (s) => {
	for (const name of ['data.csv', 'report.pdf', 'chart-v2.png', 'my_file.txt', 'a', 'a'.repeat(255), '.hidden']) {
		it(`accepts ${name.slice(0, 20)} (${name.length})`, async () => {
			const r = await s().upload(name, 'x', 'names');
			assert.deepEqual(r, { session_id: 'names', path: `/mnt/data/${name}` });
		});
	}
	const shape = (v: string): string => `Invalid filename '${v}'. Only letters, numbers, dots, hyphens, and underscores allowed.`;
	for (const name of ['', 'a'.repeat(256), 'a b', 'a/b', 'a@b', '../dir/file', 'a\n', 'a.txt\u0000', '日本.csv', '-\u007f']) {
		it(`refuses ${JSON.stringify(name).slice(0, 20)}`, async () => {
			isError(await s().upload(name, 'x'), 'invalid_filename', shape(name));
		});
	}
	for (const name of ['..hidden', 'foo..bar', '..']) {
		it(`refuses to climb with ${name}`, async () => {
			isError(await s().upload(name, 'x'), 'invalid_path', 'Path traversal not allowed');
		});
	}
});

matrix('A05 code size', { env: { SANDBOX_MAX_CODE_BYTES: '10' } }, (s) => {
	it('runs code under and exactly at the limit', async () => {
		isRun(await s().ok('a=1', 'size'));
		isRun(await s().ok('abcdefg=12', 'size'));
	});
	it('refuses one byte more and names the size', async () => {
		isError(await s().run('abcdefg=123', 'size'), 'code_too_large', 'Code is 11 bytes, exceeds 10 byte limit.');
	});
	it('counts bytes, not characters', async () => {
		isError(await s().run('😀😀😀', 'size'), 'code_too_large', 'Code is 12 bytes, exceeds 10 byte limit.');
	});
	it('creates nothing', async () => {
		isError(await s().run('abcdefg=123', 'never'), 'code_too_large');
		isError(await s().close('never'), 'session_not_found');
	});
});

matrix('A06 upload size', { env: { SANDBOX_MAX_UPLOAD_BYTES: '10' } }, (s) => {
	it('takes what fits', async () => {
		assert.equal((await s().upload('a', '0123456789', 'up')).path, '/mnt/data/a');
	});
	it('tests the text before it decodes, also before the name', async () => {
		const r = await s().call('sandbox_upload_file', { filename: '', content_base64: 'A'.repeat(100), session_id: 'up2' });
		isError(r, 'upload_too_large', 'Upload exceeds 0MB limit.');
		isError(await s().close('up2'), 'session_not_found');
	});
	it('length limit is floor(limit * 4 / 3) + 4', async () => {
		assert.notEqual((await s().call('sandbox_upload_file', { filename: 'b', content_base64: 'A'.repeat(17), session_id: 'up' })).error, 'upload_too_large');
		isError(await s().call('sandbox_upload_file', { filename: 'b', content_base64: 'A'.repeat(18), session_id: 'up' }), 'upload_too_large');
	});
});

matrix('A18 base64', {}, (s) => {
	const long = 'QUJD'.repeat(50_000); // decoded on another way than short ones
	const bad = ['%%%%', 'YWJj\n', 'YWJ j', 'YWI', 'YWI==', 'YW-_', '=', 'YQ=a', 'YR==\r\n', 'YQ==YQ==', 'é', `${long}!`, `!${long}`, `${long}Q`, `${long}QQ==QQ==`, `${long}\n`];
	for (const text of bad) {
		it(`refuses ${JSON.stringify(text.slice(-12))} of ${text.length} characters and creates no session`, async () => {
			const r = await s().call('sandbox_upload_file', { filename: 'a.txt', content_base64: text, session_id: 'b64' });
			isError(r, 'invalid_content', 'content_base64 is not valid base64');
			isError(await s().close('b64'), 'session_not_found', 'No active session with id b64');
		});
	}
	it('takes a long file', async () => {
		await s().upload('long', 'ABC'.repeat(50_000), 'b64ok');
		assert.equal((await s().read('b64ok', '/mnt/data/long')).toString(), 'ABC'.repeat(50_000));
	});
	it('takes an empty file', async () => {
		await s().upload('empty', '', 'b64ok');
		assert.equal((await s().read('b64ok', '/mnt/data/empty')).length, 0);
	});
	it('keeps every byte value', async () => {
		const all = Buffer.from(Array.from({ length: 1024 }, (_, i) => i & 255));
		await s().upload('all.bin', all, 'b64ok');
		assert.deepEqual(await s().read('b64ok', '/mnt/data/all.bin'), all);
	});
});

matrix('argument shapes', {}, (s) => {
	const rows: [string, string, Json | undefined, RegExp][] = [
		['missing', 'sandbox_run_python', {}, /code/],
		['no arguments at all', 'sandbox_run_python', undefined, /code/],
		['a number for a string', 'sandbox_run_python', { code: 5 }, /code/],
		['null for a string', 'sandbox_run_python', { code: null }, /code/],
		['an array for a string', 'sandbox_read_artifact', { session_id: ['a'], path: '/mnt/data/a' }, /session_id/],
		['an extra key', 'sandbox_run_python', { code: 'pass', colour: 'red' }, /colour/],
		['a string for a boolean', 'sandbox_upload_file', { filename: 'a', content_base64: '', overwrite: 'maybe' }, /overwrite/],
		['a number for an optional string', 'sandbox_run_python', { code: 'pass', session_id: 7 }, /session_id/],
		['missing second', 'sandbox_read_artifact', { session_id: 'a' }, /path/],
	];
	for (const [what, tool, args, named] of rows) {
		it(`${what} is an isError that names tool and argument`, async () => {
			const r = await s().raw(tool, args);
			assert.equal(r.isError, true);
			assert.equal(r.content.length, 1);
			assert.match(r.content[0]!.text, named);
			assert.match(r.content[0]!.text, new RegExp(tool));
		});
	}
	it('an unknown tool is an error, and the server goes on', async () => {
		// As the originals answered; the newest revision and the other profiles have a JSON-RPC error.
		assert.deepEqual(await s().raw('sandbox_fly', {}), { content: [{ type: 'text', text: 'Unknown tool: sandbox_fly' }], isError: true });
		await s().client.ping();
	});
	it('errors have exactly the four keys', async () => {
		hasKeys(await s().close('nobody'), errorKeys);
	});
});
