// SPDX-License-Identifier: Apache-2.0
// The page at `/` as a browser gets it: headers, compressed forms, validators, names of other hosts. A build without the
// web part shows another page, with the same walls around it.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { gunzipSync } from 'node:zlib';
import { after, before, describe, it } from 'node:test';
import type { Program } from '../lib/process.ts';
import { serve } from '../lib/session.ts';

interface Answer { status: number; headers: http.IncomingHttpHeaders; body: Buffer }

describe('the page', () => {
	let program: Program;
	let port = 0;

	const get = (path: string, headers: Record<string, string> = {}): Promise<Answer> =>
		new Promise((resolve, reject) => {
			const parts: Buffer[] = [];
			http.get({ host: '127.0.0.1', port, path, headers }, (r) => {
				r.on('data', (b: Buffer) => parts.push(b));
				r.on('end', () => resolve({ status: r.statusCode!, headers: r.headers, body: Buffer.concat(parts) }));
			}).on('error', reject);
		});
	/** The directives of a policy by name. */
	const policy = (a: Answer): Map<string, string> =>
		new Map(String(a.headers['content-security-policy']).split(';').map((d) => d.trim()).filter(Boolean)
			.map((d) => [d.split(' ')[0]!, d.split(' ').slice(1).join(' ')]));
	const bundled = (html: string): string[] => [...html.matchAll(/(?:src|href)="\/?(assets\/[^"]+)"/g)].map((m) => `/${m[1]!}`);

	before(async () => {
		({ program, port } = await serve({ profile: 'full' }));
	});
	after(async () => {
		await program.end();
	});

	it('has a policy that permits nothing but its own files', async (t) => {
		const page = await get('/');
		assert.equal(page.status, 200);
		assert.match(String(page.headers['content-type']), /^text\/html/);
		assert.equal(page.headers['x-content-type-options'], 'nosniff');
		assert.equal(page.headers['referrer-policy'], 'no-referrer');
		assert.equal(page.headers['cross-origin-opener-policy'], 'same-origin');
		const p = policy(page);
		assert.equal(p.get('default-src'), "'none'");
		assert.equal(p.get('frame-ancestors'), "'none'");
		if (bundled(page.body.toString()).length === 0) { // the page without the web part has no script at all
			assert.match(page.body.toString(), /left out[^]*\/mcp/);
			t.skip('this build has no web part');
			return;
		}
		assert.equal(p.get('script-src'), "'self'");
		assert.equal(p.get('style-src'), "'self'");
		assert.equal(p.get('connect-src'), "'self'");
		assert.equal(p.get('base-uri'), "'none'");
		assert.equal(p.get('form-action'), "'self'");
		assert.doesNotMatch(String(page.headers['content-security-policy']), /unsafe|https?:|\*/);
		assert.doesNotMatch(page.body.toString(), /<script(?![^>]*src=)|<style|\sstyle=|\son\w+=/i, 'the policy would refuse it');
	});

	it('serves each file compressed, for ever, and again only if it changed', async (t) => {
		const page = await get('/');
		const files = bundled(page.body.toString());
		if (files.length === 0)
			return t.skip('the web part was left out of this build');
		assert.equal(page.headers['cache-control'], 'no-cache');
		for (const file of files) {
			const plain = await get(file);
			assert.equal(plain.status, 200, file);
			assert.equal(plain.headers['content-encoding'], undefined);
			assert.match(String(plain.headers['cache-control']), /immutable/);
			assert.equal(plain.headers['vary'], 'Accept-Encoding');
			const packed = await get(file, { 'accept-encoding': 'gzip' });
			if (packed.headers['content-encoding'] === 'gzip') {
				assert.deepEqual(gunzipSync(packed.body), plain.body);
				assert.notEqual(packed.headers.etag, plain.headers.etag);
			}
			assert.equal((await get(file, { 'if-none-match': String(plain.headers.etag) })).status, 304);
			assert.equal((await get(file, { 'if-none-match': '"other"' })).status, 200);
		}
	});

	it('has nothing at other names', async () => {
		for (const path of ['/assets/', '/assets/nothing-00000000.js', '/index.html', '/assets/../index.html', '/assets/%2e%2e/index.html', '/app/x'])
			assert.equal((await get(path)).status, 404, path);
	});

	it('is not there under the name of another host', async () => {
		for (const path of ['/', '/frame', '/api/v1/me', ...bundled((await get('/')).body.toString())]) {
			const a = await get(path, { host: 'evil.example' });
			assert.equal(a.status, 403, path);
			assert.doesNotMatch(a.body.toString(), /<html/i);
		}
	});

	it('gives frames an origin of their own and no network', async () => {
		const frame = await get('/frame');
		const p = policy(frame);
		assert.equal(p.get('sandbox'), 'allow-scripts');
		assert.equal(p.get('default-src'), "'none'");
		assert.equal(p.get('frame-ancestors'), "'self'");
		assert.doesNotMatch(String(frame.headers['content-security-policy']), /'self'.*script|https?:/);
		for (const name of ['script-src', 'connect-src', 'img-src', 'style-src'])
			assert.doesNotMatch(p.get(name) ?? '', /'self'|\*/, name);
	});
});
