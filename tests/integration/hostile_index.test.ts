// SPDX-License-Identifier: Apache-2.0
// An index that lies. An installation fails with a reason within its time, reaches nothing but the index, and the next one works.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import * as zlib from 'node:zlib';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { sanitized } from '../lib/env.ts';
import { facts, open, type Json, type Session } from '../lib/session.ts';
import { Canary, Index, wheel, wheelName } from '../lib/wheel.ts';

const install = async (s: Session, packages: string, session_id: string): Promise<Json> =>
	facts(await s.raw('sandbox_install_packages', { packages, session_id }));
const good = (name: string, requires: string[] = []): { file: string; body: Buffer } => ({ file: wheelName(name, '1.0'), body: wheel(name, '1.0', 'who = 1\n', { requires }) });
const sum = (body: Buffer): string => createHash('sha256').update(body).digest('hex');

type Page = http.RequestListener;
const html = (text: string): Page => (_q, r) => void r.writeHead(200, { 'content-type': 'text/html' }).end(text);
const json = (text: string): Page => (_q, r) => void r.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' }).end(text);
const to = (address: string): Page => (_q, r) => void r.writeHead(302, { location: address }).end();
const row = (name: string, more: Json): Page => json(JSON.stringify({ files: [{ filename: wheelName(name, '1.0'), url: `/files/${wheelName(name, '1.0')}`, hashes: { sha256: '0'.repeat(64) }, ...more }] }));

/** Writes as long as somebody reads. */
const endless = (head: http.OutgoingHttpHeaders, piece: Buffer): Page => (_q, r) => {
	r.writeHead(200, head);
	const more = (): void => { while (!r.destroyed) if (!r.write(piece)) return void r.once('drain', more); };
	more();
};

describe('a hostile index', () => {
	const index = new Index();
	const canary = new Canary();
	let s: Session;
	const bomb = zlib.gzipSync(Buffer.alloc(256 << 20));
	const bad = (): [string, Page][] => [
		['page-endless', endless({ 'content-type': 'text/html' }, Buffer.alloc(1 << 20, '<a href="x">y</a>'))],
		['page-bomb', (_q, r) => void r.writeHead(200, { 'content-type': 'text/html', 'content-encoding': 'gzip' }).end(bomb)],
		['page-drip', (_q, r) => { r.writeHead(200, { 'content-type': 'text/html' }); const t = setInterval(() => r.write('x'), 200); r.on('close', () => clearInterval(t)); }],
		['page-silent', () => {}],
		['page-short', (_q, r) => { r.writeHead(200, { 'content-type': 'text/html', 'content-length': '1000000' }); r.write('<a', () => r.destroy()); }],
		['page-deep', json('{"files":' + '['.repeat(200_000))],
		['page-nested', html('<div>'.repeat(100_000))],
		['page-base', html('<base href="http://127.0.0.1:1/"><a href="page_base-1.0-py3-none-any.whl">page_base-1.0-py3-none-any.whl</a>')],
		['page-types', json('{"files": {"a": 1}, "versions": 7}')],
		['page-odd', json(JSON.stringify({ files: [{ filename: 5 }, { filename: 'page_odd-1.0-py3-none-any.whl\n\u001b[31m', url: 7, hashes: [] }] }))],
		['page-500', (_q, r) => void r.writeHead(500, 'evil').end('\u001b[31mred'.repeat(1000))],
		['page-loop', (q, r) => void r.writeHead(302, { location: q.url! }).end()],
		['to-file', to('file:///etc/passwd')],
		['to-ftp', to(`ftp://127.0.0.1:${canary.port}/x`)],
		['to-metadata', to('http://169.254.169.254/latest/')],
		['to-local', to(`http://127.0.0.1:${canary.port}/`)],
		['to-mapped', to(`http://[::ffff:127.0.0.1]:${canary.port}/`)],
		['to-decimal', to(`http://2130706433:${canary.port}/`)],
		['link-file', row('link_file', { url: 'file:///etc/link_file-1.0-py3-none-any.whl' })],
		['link-local', row('link_local', { url: `http://127.0.0.1:${canary.port}/link_local-1.0-py3-none-any.whl` })],
		['link-up', row('link_up', { url: '/files/..%2f..%2flink_up-1.0-py3-none-any.whl' })],
		['name-up', row('name_up', { filename: '../../name_up-1.0-py3-none-any.whl' })],
		['hash-wrong', row('hash_wrong', {})],
		['size-lies', row('size_lies', { size: 3, 'core-metadata': true })],
		['yanked', row('yanked', { yanked: '\u001b[31m because' })],
	];

	before(async () => {
		await canary.open();
		for (const [name, page] of bad())
			index.pages.set(name, page);
		for (const name of ['hash_wrong', 'size_lies', 'link_file', 'name_up'])
			index.add(`unlisted-${name}`, good(name));
		index.add('circle-a', good('circle_a', ['circle-b']));
		index.add('circle-b', good('circle_b', ['circle-a>=1']));
		const many = good('many');
		index.pages.set('many', json(JSON.stringify({ files: [...Array.from({ length: 100_000 }, (_, i) => ({ filename: `many-0.${i}-py3-none-any.whl`, url: `/files/many-0.${i}-py3-none-any.whl`, hashes: { sha256: '0'.repeat(64) } })), { filename: many.file, url: `/files/${many.file}`, hashes: { sha256: sum(many.body) } }] })));
		index.add('unlisted-many', many);
		index.add('elsewhere', good('elsewhere', [`alpha @ http://127.0.0.1:${canary.port}/alpha-1.0-py3-none-any.whl`]));
		index.add('host', good('host', ['circle-a @ file:///etc/passwd']));
		index.add('thousands', good('thousands', Array.from({ length: 3000 }, (_, i) => `missing${i}`)));
		index.add('alpha', good('alpha'));
		await index.open();
		s = await open('stdio', { profile: 'all', env: { SANDBOX_PIP_INDEX_URL: index.url, SANDBOX_INSTALL_MAX_BYTES: '64m', SANDBOX_INSTALL_TIMEOUT_S: sanitized ? '120' : '40', SANDBOX_MAX_SESSIONS: '40' } });
	});
	after(async () => {
		await s.end();
		index.close();
		canary.close();
	});

	it('(slow) each lie fails with a reason, reaches nobody else, and installs nothing', async () => {
		const all = [...bad().map(([name]) => name), 'elsewhere', 'host', 'thousands'];
		const waiting = ['page-drip', 'page-silent', 'page-endless'];
		const hostile = async (name: string): Promise<void> => {
			const r = await install(s, name, `l-${name}`);
			assert.equal(r.error, 'package_failed', `${name}: ${JSON.stringify(r)}`);
			assert.doesNotMatch(r.message, /[\0-\x09\x0b-\x1f\x7f-\x9f]/, name);
			const listed = await s.call('sandbox_list_packages', { session_id: `l-${name}` });
			assert.deepEqual(listed.installed, [], name);
			await s.raw('sandbox_close_session', { session_id: `l-${name}` });
		};
		const slow = Promise.all(waiting.map(hostile));
		slow.catch(() => undefined);
		for (const name of all.filter((n) => !waiting.includes(n)))
			await hostile(name);
		await slow;
		assert.equal(canary.visits, 0);
		assert.equal((await install(s, 'alpha', 'after')).status, 'success', 'the next installation works');
	});
	it('(slow) circles and 100,000 versions are no obstacle', async () => {
		assert.deepEqual((await install(s, 'circle-a', 'circle')).installed.sort(), ['circle-a==1.0', 'circle-b==1.0'].map((n) => n.replace('-', '_')).sort());
		assert.deepEqual((await install(s, 'many', 'many')).installed, ['many==1.0']);
	});
	it('twin: the canary counts who comes', async () => {
		await fetch(`http://127.0.0.1:${canary.port}/`).catch(() => undefined);
		assert.ok(canary.visits > 0);
	});
});
