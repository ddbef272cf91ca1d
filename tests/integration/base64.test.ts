// SPDX-License-Identifier: Apache-2.0
// Base64 as clients write it: lines, the URL-safe alphabet, no padding, blanks for `+`, the head of a data: URL. The first family stays strict.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { facts, matrix, using, type Json, type Session } from '../lib/session.ts';

/** Every byte, so that all letters come; long ones are decoded while they arrive. */
const short = Buffer.from(Array.from({ length: 1000 }, (_, i) => (i * 7 + (i >> 8)) & 255));
const long = Buffer.concat(Array(120).fill(short), 120_000);
const lines = (text: string, end: string): string => text.replace(/.{76}/g, `$&${end}`);

const forms: [string, (text: string) => string][] = [
	['as the standard says', (t) => t],
	['in lines of 76', (t) => lines(t, '\r\n')],
	['in indented lines with an end', (t) => `\n  ${lines(t, '\n  ')} \n`],
	['url-safe', (t) => t.replaceAll('+', '-').replaceAll('/', '_')],
	['without padding', (t) => t.replace(/=+$/, '')],
	['with blanks for +', (t) => t.replaceAll('+', ' ')],
	['as a data: URL', (t) => `data:application/octet-stream;base64,${t}`],
	['as a data: URL with a character set, url-safe, in lines, without padding', (t) => `data:text/plain;charset=utf-8;base64,${lines(t.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''), '\n')}`],
];

matrix('base64 from clients', { profile: 'full', env: { SANDBOX_MAX_UPLOAD_BYTES: '120000' } }, (s) => {
	const write = (text: string): Promise<Json> => s().raw('sandbox_write_file', { session_id: 'b', path: 'f', content_base64: text });
	const digest = async (): Promise<string> => facts(await s().raw('sandbox_read_file', { session_id: 'b', path: 'f', base64: true })).content_base64;
	for (const [name, form] of forms)
		it(`${name}`, async () => {
			for (const bytes of [short, long, short.subarray(0, 999), short.subarray(0, 998), Buffer.from('data'), Buffer.from('data', 'base64')]) {
				const r = facts(await write(form(bytes.toString('base64'))));
				assert.equal(r.size_bytes, bytes.length, JSON.stringify(r));
				assert.equal(await digest(), bytes.toString('base64'));
			}
		});
	for (const [text, at] of [['aGVsbG8*', 8], ['aGVs\nbG8{', 9], ['data:text/plain,hello', 16], ['aGVsbG8=aGVs', 9], ['aGVsb', 5], ['é', 1], ['aGVsbG8\u0000', 8]] as const)
		it(`rubbish: ${JSON.stringify(text)}`, async () => {
			for (const much of ['', 'aGVs'.repeat(20_000)]) {
				if (much && text.startsWith('data:'))
					continue;
				const r = facts(await write(much + text));
				assert.equal(r.error, 'invalid_content', JSON.stringify(r));
				assert.match(r.message, new RegExp(`wrong at character ${much.length + at} of ${much.length + Buffer.byteLength(text)}$`));
			}
		});
	it('the limit counts bytes of the file', async () => {
		for (const form of [forms[0]![1], forms[2]![1], forms[4]![1]]) {
			assert.equal(facts(await write(form(long.toString('base64')))).size_bytes, 120_000);
			const r = facts(await write(form(Buffer.concat([long, Buffer.from('x')]).toString('base64'))));
			assert.deepEqual([r.error, r.message], ['upload_too_large', 'The content is 120001 bytes, the limit is 120000']);
		}
	});
});

it('the first family takes the standard alone', () => using('stdio', { profile: 'code' }, async (s: Session) => {
	for (const bytes of [short.subarray(0, 998), long.subarray(0, 99_998)])
		for (const [name, form] of forms) {
			const r = await s.call('sandbox_upload_file', { filename: 'f', session_id: 'b', overwrite: true, content_base64: form(bytes.toString('base64')) });
			assert.equal(r.error, name === forms[0]![0] ? undefined : 'invalid_content', `${name}: ${JSON.stringify(r)}`);
		}
}));
