// SPDX-License-Identifier: Apache-2.0
// What runs show besides text: pictures, tables, HTML, in the order in which they were shown; and that HTML with scripts does nothing there.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case } from './case.ts';
import { calm } from './hostile.ts';
import { hostileTexts } from './hostile_texts.ts';
import { server, signIn } from './server.ts';

const light = 'from IPython.display import HTML, Image, Markdown, JSON, SVG, clear_output\n';
const many = `${light}import pandas as pd
print("sales of the year")
display(pd.DataFrame({"city": ["Rome", "Oslo", None, "Bern"], "sold": [30, 4, 11, 7]}))
print("and as a page:")
display(HTML("<style>b { color: rgb(0, 90, 40) }</style><p id='own'>bold: <b>words</b></p>"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' width='90' height='30'><rect width='90' height='30' fill='#4a7'/></svg>"), JSON({"a": [1, 2]}))
print("at the end")
pd.DataFrame({"n": range(5000), "half": [i / 2 for i in range(5000)]})`;

export const richCases: Case[] = [
	{
		name: 'rich: tables that can be sorted, pages, pictures, in their order',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada');
			const key = await s.key('ada');
			const { id } = await s.rest('POST', '/sandboxes', {}, key);
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: many, stateful: true, wait: true }, key);
			const page = await w.window();
			await signIn(page, s, 'ada');
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			const cell = page.locator('.cell.done');
			await cell.locator('.sheet').nth(1).waitFor();
			await cell.frameLocator('iframe').locator('#own').waitFor();
			assert.equal(await cell.locator('iframe').getAttribute('src'), 'frame/still');
			assert.equal(await cell.frameLocator('iframe').locator('b').evaluate((b) => getComputedStyle(b).color), 'rgb(0, 90, 40)');
			const order = await cell.locator('.cell-out > *').evaluateAll((all) => all.map((e) => (e as any).innerText.trim().split('\n')[0].slice(0, 20) || (e.querySelector('img, iframe')?.tagName ?? '')));
			assert.deepEqual(order.slice(0, 4), ['sales of the year', '4 rows, 2 columns', 'and as a page:', 'IFRAME'], order.join());
			assert.ok(!(await cell.innerText()).includes('IPython.core.display'), 'the text of what is shown is not there twice');
			assert.ok(await cell.locator('img').evaluate((i: any) => i.complete && i.naturalWidth === 90));
			const first = cell.locator('.sheet').first();
			const column = async (sheet = first, n = 1): Promise<string[]> => sheet.locator('tbody tr:not([aria-hidden])').evaluateAll((rows, k) => rows.map((r: any) => r.children[k].textContent), n);
			assert.deepEqual((await column()).filter((_, i) => i !== 2), ['Rome', 'Oslo', 'Bern'], 'as they came');
			await picture(page, 'rich');
			await first.getByRole('button', { name: 'Sort by city' }).click();
			await until('it is sorted', async () => (await column())[0] === 'Bern');
			assert.deepEqual((await column()).slice(0, 3), ['Bern', 'Oslo', 'Rome']);
			assert.equal(await first.locator('th[aria-sort=ascending]').count(), 1);
			await first.getByRole('button', { name: 'Sort by sold' }).click();
			await until('it is sorted by numbers', async () => (await column(first, 2)).join() === '4,7,11,30');
			await first.getByRole('button', { name: 'Sort by sold' }).click();
			await until('and the other way', async () => (await column(first, 2)).join() === '30,11,7,4');
			const second = cell.locator('.sheet').nth(1);
			await second.scrollIntoViewIfNeeded();
			await cell.getByText('The first 1,000 of 5,000 rows are kept.').waitFor();
			assert.ok(await second.locator('tbody tr').count() < 60, 'only rows that can be seen are in the document');
			await second.getByRole('button', { name: 'Sort by n' }).click();
			await second.getByRole('button', { name: 'Sort by n' }).click();
			await until('the last one is first', async () => (await column(second))[0] === '999');
			await second.locator('.sheet-box').evaluate((b) => { b.scrollTop = b.scrollHeight; });
			await until('the first one is last', async () => (await column(second)).at(-1) === '0');
			await picture(page, 'rich-table');
			await accessible(page, 'what a run showed');
			// The same from the history, after the sandbox has ended.
			await s.rest('DELETE', `/sandboxes/${id}`, undefined, key);
			await page.reload();
			await page.locator('.cell.done .sheet').first().waitFor();
		},
	},
	{
		name: 'rich: HTML with scripts does nothing, and reaches nobody',
		limitMs: 120_000,
		async run(w) {
			const active = hostileTexts.filter((t) => /</.test(t));
			assert.ok(active.length >= 10);
			const more = [
				`<script>caissonStruck('plain')</script>`, `<img src=x onerror="caissonStruck('handler')">`, `<svg onload="caissonStruck('svg')"></svg>`,
				`<a href="javascript:caissonStruck('link')" id="go">x</a>`, `<form action="http://192.0.2.1/"><button id="send">x</button></form>`, `<iframe srcdoc="<script>parent.caissonStruck('srcdoc')</script>"></iframe>`,
				`<img src="http://192.0.2.1/x.png"><link rel=stylesheet href="http://192.0.2.1/x.css"><style>@import "http://192.0.2.1/y.css"</style>`, `<base href="http://192.0.2.1/"><script src="x.js"></script>`,
				`<meta http-equiv="refresh" content="0;url=http://192.0.2.1/">`, `<object data="http://192.0.2.1/"></object><embed src="http://192.0.2.1/">`, `<script src="data:text/javascript,caissonStruck('data')"></script>`,
			];
			const all = [...active, ...more];
			const s = await server(w, { auth: true });
			await s.person('ada');
			const key = await s.key('ada');
			const { id } = await s.rest('POST', '/sandboxes', {}, key);
			const texts = JSON.stringify(JSON.stringify(all.map((t) => t.toWellFormed())));
			const code = `${light}import json, pandas as pd\ntexts = json.loads(${texts})\nfor t in texts[START:START + 12]:\n    display(HTML(t), Markdown(t), SVG(t), JSON({t: t}), pd.DataFrame({t: [t]}))`;
			for (let at = 0; at < all.length; at += 12)
				await s.rest('POST', `/sandboxes/${id}/runs`, { code: code.replaceAll('START', String(at)), wait: true }, key);
			w.refusalsOfFrames = true; // their policy refuses what they try, and says so on the console
			w.expected.push(/./);
			const page = await w.window();
			const sent: string[] = [];
			page.on('response', (r) => void sent.push(r.url()));
			await signIn(page, s, 'ada');
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			await page.locator('.cell.done iframe').first().waitFor({ state: 'attached' });
			await page.mouse.move(640, 400);
			for (let i = 0; i < 14; i++) {
				await calm(page, `what hostile code shows, ${i}`);
				await page.mouse.wheel(0, i < 7 ? -1200 : 1200);
			}
			for (const f of page.frames().slice(1)) { // what a person may click
				await f.locator('#go, #send').first().click({ timeout: 1000 }).catch(() => undefined);
				assert.ok(/^(about|chrome-error):|\/frame\/still$/.test(f.url()), f.url());
			}
			await picture(page, 'rich-hostile');
			assert.deepEqual(sent.filter((u) => u.includes('192.0.2.1')), []);
			assert.ok(page.url().startsWith(s.base));
			w.check();
			// The twin: the same texts without the frame.
			const host = http.createServer((_q, r) => void r.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(`<!doctype html><body>${more[0]}${more[1]}${more[6]}`));
			await new Promise<void>((done) => host.listen(0, '127.0.0.1', () => done()));
			w.atEnd(async () => void host.close());
			const other = w.beside();
			const naked = await other.window();
			await naked.goto(`http://127.0.0.1:${(host.address() as AddressInfo).port}/`);
			const seen: string[] = [];
			await until('each of them is noticed', () => (seen.push(...other.taken()), ['plain', 'handler', 'another host'].every((word) => seen.some((f) => f.includes(word)))));
		},
	},
];
