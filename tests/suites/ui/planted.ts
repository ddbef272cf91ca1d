// SPDX-License-Identifier: Apache-2.0
// Hostile texts that come by another way than a form: the name of an MCP client, the package index, links that people open, addresses that a page repeats, exported
// histories and files that are shown. The twin shows that each text is noticed where a page does not escape it.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { facts } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { Index, wheel, wheelName } from '../../lib/wheel.ts';
import type { Case, World } from './case.ts';
import { asName, calm, FOREIGN, one } from './hostile.ts';
import { hostileTexts } from './hostile_texts.ts';
import { python, server, signIn } from './server.ts';

/** Those that start something by themselves where they are HTML. */
const active = hostileTexts.filter((t) => /^['">]*<(script|img|svg|iframe|style|link|meta|\/title)/i.test(t));

/** Serves PAGE as a file without any policy; its address. */
async function shown(w: World, page: () => string): Promise<string> {
	const host = http.createServer((_req, res) => void res.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page()));
	await new Promise<void>((done) => host.listen(0, '127.0.0.1', () => done()));
	w.atEnd(async () => void host.close());
	return `http://127.0.0.1:${(host.address() as AddressInfo).port}/`;
}

/** Nothing of a text became an element on a page that is not the application. */
async function plain(page: Page, where: string, may = ''): Promise<void> {
	const found = await page.locator('script, iframe, object, embed, base, link, svg, form, a, img, meta[http-equiv=refresh], [onerror], [onload]').evaluateAll((all) => all.map((e) => e.outerHTML.slice(0, 120)));
	assert.deepEqual(found.filter((f) => !may || !f.startsWith(may)), [], where);
}

export const plantedCases: Case[] = [
	{
		name: 'planted: the detector sees every text that is not escaped',
		async run(w) {
			let body = '';
			const other = w.beside();
			const at = await shown(w, () => `<!doctype html><title>x</title><body>${body}`);
			assert.ok(active.length >= 10, String(active.length));
			for (const t of active) {
				body = t;
				const page = await other.window();
				await page.goto(at);
				const faults: string[] = [];
				await until(`what ${t} does`, () => (faults.push(...other.taken()), faults.length > 0));
				assert.match(faults.join('\n'), /a hostile text became a script|a request to another host/);
				// A text that leads away may be on its way: then there is no document to look at, and its request has been seen.
				const leads = faults.some((f) => f.startsWith('a request to another host')) && /http-equiv\s*=\s*["']?refresh/i.test(t);
				assert.ok(leads || await page.locator(FOREIGN).or(page.locator('style, svg')).count() > 0, `${t} is seen as an element`);
				await page.context().close();
			}
			body = hostileTexts.map((t) => t.replaceAll('&', '&amp;').replaceAll('<', '&lt;')).join('<br>');
			const page = await other.window();
			await page.goto(at);
			await plain(page, 'escaped');
			assert.deepEqual(other.taken(), []);
		},
	},
	{
		name: 'planted: clients, packages, notebooks, links, addresses, exports',
		limitMs: 150_000,
		async run(w) {
			const index = new Index();
			await index.open();
			w.atEnd(async () => index.close());
			for (const [i, t] of active.entries()) index.add(`evil${i}`, { file: wheelName(`evil${i}`, '1.0'), body: wheel(`evil${i}`, '1.0', '', { summary: one(t) }) });
			index.pages.set('broken', (_q, r) => void r.writeHead(500, 'no').end(active.join('\n')));
			const s = await server(w, { auth: true, env: { SANDBOX_PIP_INDEX_URL: index.url } });
			await s.person('ada', 'admin');
			const key = await s.key('ada', 'admin');
			const { id } = await s.rest('POST', '/sandboxes', {}, key);
			for (const t of active) {
				const client = await s.client(w, t, key);
				await python(client, 'print(1)', id);
			}
			// Files whose names and contents are hostile, as runs leave them: kept pictures, pages, notes, notebooks.
			const svg = (i: number): string => `<svg xmlns='http://www.w3.org/2000/svg' onload="caissonStruck('svg ${i}')" width='9' height='9'><script>caissonStruck('script ${i}')</script></svg>`;
			const files: Record<string, string> = Object.fromEntries(active.flatMap((t, i) => [[`${asName(t)}.svg`, svg(i)], [`${asName(t)}.md`, t], [`${asName(t)}.json`, JSON.stringify({ [t]: t })]]));
			files['note.ipynb'] = JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: { title: active[0] }, cells: active.map((t) => ({ cell_type: 'markdown', source: t, metadata: {}, id: t, outputs: [{ output_type: 'display_data', data: { 'text/html': t, 'text/plain': t } }] })) });
			for (let i = 0; i < active.length; i += 2) {
				const some = Object.fromEntries(Object.entries(files).slice(i * 3, i * 3 + 6));
				await s.rest('POST', `/sandboxes/${id}/runs`, { code: `import json\nfor name, text in json.loads(${JSON.stringify(JSON.stringify(some))}).items():\n    open(name, "w").write(text)\nraise type(${JSON.stringify(active[i])}, (Exception,), {})(${JSON.stringify(active[i])})`, wait: true }, key);
			}
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: `open("note.ipynb", "w").write(${JSON.stringify(files['note.ipynb'])})`, wait: true }, key);
			const page = await w.window();
			await signIn(page, s, 'ada');
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			await page.locator('.cell.done').first().waitFor();
			await page.mouse.move(740, 250);
			for (let i = 0; i < 10; i++) {
				await page.evaluate(() => document.querySelectorAll<HTMLDetailsElement>('details').forEach((d) => { d.open = true; }));
				await calm(page, `the notebook of hostile clients, ${i}`);
				await page.mouse.wheel(0, i < 5 ? -900 : 900);
			}
			for (const name of ['note.ipynb', ...Object.keys(files).slice(0, 6)]) {
				await page.goto(`${s.base}/#/sandboxes/${id}/files/${encodeURIComponent(name)}`);
				await page.locator('.files-preview').getByText(name.slice(0, 8)).first().waitFor();
				await calm(page, `the file ${name}`);
			}
			await page.goto(`${s.base}/#/sandboxes/${id}/packages`);
			for (const name of ['evil0', 'evil1', 'evil5', 'broken']) {
				await page.getByLabel('Packages to install').fill(name);
				await page.getByRole('button', { name: 'Look up' }).click();
				await (name === 'broken' ? page.getByText('the package index cannot be asked') : page.locator('.found', { hasText: one(active[Number(name.slice(4))]!).trim().slice(0, 20) })).first().waitFor();
				await calm(page, `the package ${name}`);
			}
			await page.getByLabel('Packages to install').fill('evil0');
			await page.getByRole('button', { name: 'Install' }).click();
			await page.locator('li', { hasText: 'evil0' }).first().waitFor();
			await calm(page, 'packages');
			for (const path of ['history', 'audit', `history?q=${encodeURIComponent('caissonStruck')}`, 'server', 'server/images', 'server/settings', 'server/doctor']) {
				await page.goto(`${s.base}/#/${path}`);
				await page.locator('main h1, main h2').first().waitFor();
				await calm(page, path);
			}
			// A link by which somebody uploads: the path of the file stands on it.
			const client = await s.client(w, 'links', key);
			for (const t of active.slice(0, 5)) {
				const link = facts(await client.callTool({ name: 'sandbox_add_file', arguments: { session_id: id, path: asName(t) } }) as never).upload_url as string;
				await page.goto(link);
				await page.getByRole('heading', { name: 'Upload a file' }).waitFor();
				await plain(page, 'an upload link', '<form method="post" enctype="multipart/form-data">');
				assert.ok((await page.textContent('p'))!.includes(asName(t)), 'the path is a text');
			}
			// Addresses that an answer could repeat.
			for (const t of active)
				for (const at of ['', 'files/x/', 'files/', 'api/v1/', 'api/v1/sandboxes/', 'u/', 'docs/', 'frame/', 'assets/', `api/v1/sandboxes/${id}/files/`, 'api/v1/history?q=']) {
					await page.goto(`${s.base}/${at}${encodeURIComponent(t)}`).catch((e: Error) => assert.match(e.message, /Download is starting|ERR_ABORTED/));
					if (page.url().startsWith(s.base)) await plain(page, `the address ${at}${t}`, at === '' ? '<' : '<meta name');
				}
			// The history as a page, without the policy that it carries: nothing but the escaping is left.
			const report = await (await fetch(`${s.base}/api/v1/sandboxes/${id}/export?format=html`, { headers: { 'x-api-key': key } })).text();
			const policy = /<meta http-equiv="Content-Security-Policy"[^>]*>/;
			assert.match(report, policy);
			const alone = await w.window();
			await alone.goto(await shown(w, () => report.replace(policy, '')));
			await alone.getByText('caissonStruck').first().waitFor();
			await plain(alone, 'the exported page', '<img alt="" src="data:image/');
			w.check();
			const other = w.beside();
			const naked = await other.window(); // the twin: the same page with one text that is not escaped
			await naked.goto(await shown(w, () => report.replace(policy, '').replace('</main>', `${active[1]}</main>`)));
			await until('the script', () => other.taken().some((f) => f.includes('became a script')));
			const book = await (await fetch(`${s.base}/api/v1/sandboxes/${id}/export?format=ipynb`, { headers: { 'x-api-key': key } })).json() as { cells: { outputs?: { data?: Record<string, string> }[] }[] };
			const kinds = new Set(book.cells.flatMap((c) => c.outputs ?? []).flatMap((o) => Object.keys(o.data ?? {})));
			assert.deepEqual([...kinds].filter((k) => !['text/plain', 'image/svg+xml', 'image/png'].includes(k)), [], 'a notebook holds no HTML that another program would run');
		},
	},
	{
		name: 'planted: a link to a page that code made reaches nothing of the person who opens it',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada');
			const key = await s.key('ada');
			const client = await s.client(w, 'links', key);
			const probe = (end: string): string => `const said = {};
const tried = (what, fn) => { try { said[what] = String(fn()); } catch (e) { said[what] = 'refused'; } };
tried('origin', () => self.origin); tried('cookie', () => document.cookie); tried('storage', () => localStorage.length); tried('opener', () => opener === null);
const asked = ['/api/v1/session', '/api/v1/sandboxes'].map((at) => fetch('${s.base}' + at, { credentials: 'include' }).then((r) => r.text(), () => 'refused'));
Promise.all(asked).then((all) => { said.asked = all.join(); ${end} });`;
			const html = `<!doctype html><body><p id=o></p><script>${probe("document.getElementById('o').textContent = JSON.stringify(said); document.getElementById('o').className = 'done';")}</script>`;
			const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text id="o"></text><script><![CDATA[${probe("document.getElementById('o').textContent = JSON.stringify(said); document.getElementById('o').setAttribute('class', 'done');")}]]></script></svg>`;
			const made = facts(await python(client, `open("a.html", "w").write(${JSON.stringify(html)})\nopen("b.svg", "w").write(${JSON.stringify(svg)})\nopen("c.xhtml", "w").write(${JSON.stringify(html)})`, 'linked') as never);
			const links = (made.artifacts as { download_url: string }[]).map((a) => a.download_url);
			assert.equal(links.length, 3);
			const page = await w.window();
			w.refusalsOfFrames = true; // its policy refuses what it tries, and says so on the console
			await signIn(page, s, 'ada');
			for (const link of links.filter((l) => !/xhtml/.test(l))) {
				await page.goto(link).catch((e: Error) => assert.match(e.message, /Download is starting|ERR_ABORTED/));
				if (new URL(page.url()).pathname !== new URL(link).pathname) continue; // it is saved, not shown
				const done = page.locator('#o.done');
				const ran = await done.waitFor({ state: 'attached', timeout: 5000 }).then(() => true, () => false);
				if (!ran) continue; // no script ran at all
				const said = JSON.parse((await done.textContent())!);
				assert.deepEqual(said, { origin: 'null', cookie: 'refused', storage: 'refused', opener: 'true', asked: 'refused,refused' }, link);
			}
		},
	},
];
