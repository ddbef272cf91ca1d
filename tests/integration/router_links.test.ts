// SPDX-License-Identifier: Apache-2.0
// Links to artifacts and links for uploads, through the router of a fleet: where they lead, and what a worker hears of who has one.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { FakeFleet, json, KEY } from '../lib/fake-fleet.ts';
import { idsOf, type FakeWorker } from '../lib/fake-workers.ts';
import { until } from '../lib/wait.ts';

/** The id with another digit in the place of its tag. */
const forged = (id: string, at: number): string => id.slice(0, at) + (id[at] === '0' ? '1' : '0') + id.slice(at + 1);

describe('links of a router', () => {
	const fleet = new FakeFleet();
	let one: FakeWorker, two: FakeWorker;

	before(async () => {
		await fleet.begin('router-links');
		({ one, two } = fleet);
	});
	after(() => fleet.end());

	it('lead to the worker that the sandbox, or the signature, names', async () => {
		const heard = (): number => one.heard.length + two.heard.length;
		for (const w of [one, two])
			w.handler = (_, res) => {
				res.writeHead(200, { 'content-type': 'text/html', 'content-security-policy': "sandbox allow-scripts; default-src 'none'", 'set-cookie': 'caisson=evil', 'content-length': 4 });
				res.end('made');
			};
		const id = two.ids[0]!, signature = idsOf(fleet.keyFile, 'ab3', 1, 'mcp')[0]!;
		for (const [where, w] of [
			[`/files/${id}/a%20b/c.txt?e=0&s=${'0'.repeat(32)}`, two], [`/sandbox/file?sandbox_id=${id}&file_path=c.txt`, two],
			...['0'.repeat(32), '0'.repeat(64), '00000000-0000-4000-8000-000000000000'].map((name) => [`/files/${name}/c.txt?e=5&s=${signature}`, one] as const), // names that look like ids
			[`/files/mine/c.txt?e=5&s=${signature}`, one], [`/sandbox/file?sandbox_id=mine&file_path=c.txt&e=5&s=${signature}`, one],
		] as const) {
			const before = heard(), r = await fleet.call('GET', where, { range: 'bytes=0-3', cookie: `caisson=${KEY}` });
			assert.deepEqual([r.status, await r.text(), heard() - before], [200, 'made', 1], where);
			const last = w.heard.at(-1)!;
			assert.deepEqual([last.url, last.headers.range, last.caller, last.headers.cookie], [where, 'bytes=0-3', undefined, undefined], 'nobody is known, so nobody is named');
			assert.equal(r.headers.get('set-cookie'), null);
			assert.match(r.headers.get('content-security-policy')!, /^sandbox allow-scripts[^,]*, sandbox allow-scripts; default-src 'none'$/);
		}
		const keyed = await fleet.call('GET', `/files/${id}/c.txt?api_key=${KEY}&x=1`, {});
		assert.equal(keyed.status, 200);
		assert.deepEqual([two.heard.at(-1)!.url, two.heard.at(-1)!.caller!.how], [`/files/${id}/c.txt?x=1`, 'static']);
		assert.equal((await fleet.call('GET', `/files/mine/c.txt`)).status, 200, 'its own by name, with a key');
		const before = heard();
		for (const where of [`/files/${forged(id, 10)}/c.txt`, `/files/mine/c.txt?s=${forged(signature, 5)}`, '/files/mine/c.txt', '/sandbox/file?file_path=x', `/files/${one.ids[0]!.toUpperCase()}/c.txt`]) {
			const r = await fleet.call('GET', where, {});
			assert.equal(r.status, 404, where);
		}
		assert.equal(heard(), before, 'no worker has heard of them');
		one.handler = two.handler = undefined;
	});

	it('take a file, by a form of the router and by the body', async () => {
		const token = idsOf(fleet.keyFile, 'zz9', 1, 'upload')[0]!, link = `/upload/${token}`;
		two.handler = (req, res, body) => {
			if (req.method === 'GET') {
				res.writeHead(200, { 'content-type': 'text/html' }).end('<script>alert(1)</script>');
				return;
			}
			res.writeHead(201, { 'content-type': 'text/html' }).end(`<p>${body.length} bytes</p>`);
		};
		const form = await fleet.call('GET', link, {}), page = await form.text();
		assert.equal(form.status, 200);
		assert.match(page, /<form method=post enctype=multipart\/form-data>/);
		assert.doesNotMatch(page, /script/, 'nothing of the worker is in it');
		assert.match(form.headers.get('content-security-policy')!, /^default-src 'none';.*form-action 'self'/);
		assert.equal(two.heard.at(-1)!.caller, undefined);
		const data = new FormData();
		data.append('file', new Blob(['x'.repeat(3 << 20)]), 'a.txt');
		const posted = await fetch(fleet.base + link, { method: 'POST', body: data, headers: { origin: fleet.base } });
		assert.equal(posted.status, 201);
		assert.match(posted.headers.get('content-security-policy')!, /^sandbox /);
		assert.deepEqual([two.heard.at(-1)!.headers.origin, two.heard.at(-1)!.body.length > 3 << 20], [undefined, true]);
		const put = await fetch(`${fleet.base}${link}/name.bin`, { method: 'PUT', body: Buffer.alloc(100_000), headers: { 'x-api-key': KEY } });
		assert.deepEqual([put.status, await put.text()], [201, '<p>100000 bytes</p>']);
		assert.deepEqual([two.heard.at(-1)!.url, two.heard.at(-1)!.caller], [`${link}/name.bin`, undefined], 'the token says who may');
		two.handler = (_, res) => {
			res.writeHead(404, { 'content-type': 'text/html' }).end('it has expired');
		};
		const gone = await fleet.call('GET', link, {});
		assert.deepEqual([gone.status, await gone.text()], [404, 'it has expired']);
		const before = one.heard.length + two.heard.length;
		for (const wrong of [forged(token, 6), token.slice(1), two.ids[0]!, idsOf(fleet.keyFile, 'zz9', 1, 'mcp')[0]!])
			for (const method of ['GET', 'PUT']) {
				const r = await fleet.call(method, `/upload/${wrong}`, {});
				assert.deepEqual([r.status, (await json(r)).code], [404, 'not_found'], wrong);
			}
		assert.equal(one.heard.length + two.heard.length, before);
		two.handler = undefined;
	});

	it('and the page of a browser, which signs in at the router', async () => {
		const page = await fleet.call('GET', '/', {}), html = await page.text();
		assert.equal(page.status, 200);
		assert.match(page.headers.get('content-security-policy')!, /^default-src 'none'/);
		for (const [, file] of html.matchAll(/(?:src|href)="\/?(assets\/[^"]+)"/g))
			assert.equal((await fleet.call('GET', `/${file}`, {})).status, 200, file);
		assert.equal((await fleet.call('GET', '/frame', {})).headers.get('content-security-policy')!.startsWith('sandbox allow-scripts;'), true);
		const own = { 'content-type': 'application/json', 'origin': fleet.base, 'x-caisson-page': '1' };
		const post = (where: string, body: unknown, headers: Record<string, string>): Promise<Response> => fetch(fleet.base + where, { method: 'POST', body: JSON.stringify(body), headers });
		assert.equal((await post('/api/v1/users', { name: 'ada', password: 'correct horse battery' }, { 'x-api-key': KEY, 'content-type': 'application/json' })).status, 201);
		const signed = await post('/api/v1/session', { username: 'ada', password: 'correct horse battery' }, own);
		assert.equal(signed.status, 200, await signed.clone().text());
		const cookie = signed.headers.get('set-cookie')!.split(';')[0]!;
		const made = await post('/api/v1/sandboxes', {}, { ...own, cookie });
		assert.equal(made.status, 201);
		const { id, worker } = await json(made), at = worker === one.id ? one : two;
		assert.deepEqual([at.heard.at(-1)!.caller!.name, at.heard.at(-1)!.caller!.how, at.heard.at(-1)!.headers.cookie], ['ada', 'signin', undefined]);
		const before = at.heard.length;
		for (const more of [{ origin: 'https://elsewhere.example.org' }, { origin: fleet.base }, { 'origin': 'null', 'x-caisson-page': '1' }] as Record<string, string>[]) {
			const r = await fetch(`${fleet.base}/api/v1/sandboxes/${String(id)}`, { method: 'DELETE', headers: { cookie, ...more } });
			assert.ok([401, 403].includes(r.status), `${more.origin}: ${r.status}`);
		}
		assert.equal(at.heard.length, before);
	});

	it('end with a sentence when their worker is away', async () => {
		one.close();
		await until('it is away', async () => (await (await fetch(`${fleet.base}/readyz`)).text()).includes(': 1 of'), 8_000);
		for (const where of [`/files/${one.ids[0]}/c.txt`, `/upload/${idsOf(fleet.keyFile, 'ab3', 1, 'upload')[0]}`]) {
			const r = await fleet.call('GET', where, {});
			assert.deepEqual([r.status, (await json(r)).code], [503, 'node_unreachable'], where);
		}
	});
});

describe('a router with a public address', () => {
	const fleet = new FakeFleet();

	before(() => fleet.begin('router-public', { SANDBOX_PUBLIC_URL: 'https://box.example.org:8443/tools' }));
	after(() => fleet.end());

	it('tells it to workers, whose answers have links', async () => {
		assert.equal((await fleet.call('GET', `/api/v1/sandboxes/${fleet.one.ids[0]}`)).status, 404);
		const { headers } = fleet.one.heard.at(-1)!;
		assert.deepEqual(['x-forwarded-host', 'x-forwarded-proto', 'x-forwarded-prefix'].map((n) => headers[n]), ['box.example.org:8443', 'https', '/tools']);
	});
});
