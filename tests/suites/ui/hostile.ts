// SPDX-License-Identifier: Apache-2.0
// Hostile texts in each place where one can appear. They must be texts: no script runs, no element appears, nothing is asked of another
// host (case.ts fails the case for these), and the page goes on.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { until } from '../../lib/wait.ts';
import { picture, type Case } from './case.ts';
import { hostileTexts } from './hostile_texts.ts';
import { server, signIn, type Server } from './server.ts';

/** Elements that no page of ours has: one of them came out of a text. */
export const FOREIGN = 'base, object, embed, meta[http-equiv], iframe:not([src="frame"]):not([src="frame/still"]), link:not([href^="assets/"]):not([href="favicon.svg"]):not([rel=icon]), script:not([src^="assets/"]), a[href^="javascript:"], a[href^="data:"], [onerror], [onload], [onclick]';

export async function calm(page: Page, where: string): Promise<void> {
	await until(`${where} has loaded`, async () => (await page.locator('main .spinner:visible').count()) === 0);
	assert.deepEqual(await page.locator(FOREIGN).evaluateAll((all) => all.map((e) => e.outerHTML.slice(0, 200))), [], where);
	assert.ok(await page.locator('.side').count(), `${where}: the page is still there`);
	assert.equal(await page.title().then((t) => t.includes('Caisson')), true, `${where}: the title`);
}

/** As a file name: without what no file name can have. */
export const asName = (text: string): string => text.replace(/[/\0\n\r]/g, '_').slice(0, 60).replace(/[\ud800-\udbff]$/, '') || '_';
export const one = (text: string): string => text.replace(/[\0-\x1f\x7f]/g, ' ').slice(0, 90).replace(/[\ud800-\udbff]$/, '');

/** Creates with as much of each text as the server accepts. A refusal is fine: then the text cannot appear. */
async function each(make: (text: string, i: number) => Promise<unknown>): Promise<number> {
	let n = 0;
	for (const [i, text] of hostileTexts.entries()) await make(text, i).then(() => n++, () => undefined);
	return n;
}

async function fill(s: Server, key: string): Promise<string> {
	const { id } = await s.rest('POST', '/sandboxes', { kind: 'stored', name: one(hostileTexts[0]!) }, key);
	const data = JSON.stringify(hostileTexts);
	const code = `import json, sys\ntexts = json.loads(${JSON.stringify(JSON.stringify(hostileTexts.map((t) => t.toWellFormed())))})\nfor t in texts:\n    print(t.encode("utf-8", "replace").decode())\n    print(t.encode("utf-8", "replace").decode(), file=sys.stderr)\n`;
	assert.ok(data.length > 1000);
	await s.rest('POST', `/sandboxes/${id}/runs`, { code: `${code}texts`, stateful: true, wait: true }, key);
	await s.rest('POST', `/sandboxes/${id}/runs`, { code: `${code}raise ValueError("".join(texts[:20]))`, wait: true }, key);
	await s.rest('POST', `/sandboxes/${id}/runs`, { command: `cat <<'EOF'\n${hostileTexts.slice(0, 20).join('\n')}\nEOF`, wait: true }, key);
	assert.ok(await each((t, i) => s.put(id, `${i}${asName(t)}.txt`, t, key)) > 25, 'files');
	await s.put(id, 'table.csv', `a,b\n${hostileTexts.map((t) => `"${t.replaceAll('"', '""')}",1`).join('\n')}\n`, key);
	await s.put(id, `${asName(hostileTexts[1]!)}.csv`, hostileTexts.map((t) => `"${t.replaceAll('"', '""')}"`).join(','), key);
	await s.put(id, 'hostile.json', JSON.stringify(Object.fromEntries(hostileTexts.map((t) => [t, t]))), key);
	await s.put(id, 'picture.svg', `<svg xmlns="http://www.w3.org/2000/svg" onload="caissonStruck('svg file')"><script>caissonStruck('svg script')</script><image href="http://192.0.2.1/x.png"/></svg>`, key);
	await s.put(id, 'fake.png', hostileTexts[0]!, key);
	return id;
}

export const hostileCases: Case[] = [
	{
		name: 'hostile: names, labels, output, files, tables',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada', 'admin');
			const key = await s.key('ada', 'admin');
			const id = await fill(s, key);
			for (let i = 0; i < hostileTexts.length; i += 4)
				await s.rest('POST', '/sandboxes', { name: one(hostileTexts[i]!), labels: { x: one(hostileTexts[i + 1] ?? '') } }, key).catch(() => undefined);
			const page = await w.window();
			await signIn(page, s, 'ada');
			await page.getByText('<script>').first().waitFor();
			await calm(page, 'home');
			await picture(page, 'hostile-home');
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			await page.locator('.cell.done').first().waitFor();
			await calm(page, 'notebook');
			await page.mouse.move(740, 250);
			for (let i = 0; i < 8; i++) { // only what can be seen is drawn
				await page.evaluate(() => {
					document.querySelectorAll<HTMLDetailsElement>('details.trace').forEach((d) => { d.open = true; });
					document.querySelectorAll('.output-window').forEach((o) => o.scrollBy(0, 300));
				});
				await page.mouse.wheel(0, i < 4 ? -900 : 900);
				await calm(page, `notebook, scrolled ${i}`);
			}
			await picture(page, 'hostile-notebook');
			await page.goto(`${s.base}/#/sandboxes/${id}/files`);
			await page.locator('.tree .entry-name').nth(10).waitFor();
			await calm(page, 'files');
			for (const name of ['table.csv', 'hostile.json', 'picture.svg', 'fake.png', `${asName(hostileTexts[1]!)}.csv`, `0${asName(hostileTexts[0]!)}.txt`, `6${asName(hostileTexts[6]!)}.txt`]) {
				await page.goto(`${s.base}/#/sandboxes/${id}/files/${encodeURIComponent(name)}`);
				await page.locator('.files-preview').getByText(name.slice(0, 8)).first().waitFor();
				await calm(page, `the file ${name}`);
			}
			await picture(page, 'hostile-files');
			for (const tab of ['packages', 'checkpoints', 'limits', 'terminal']) {
				await page.goto(`${s.base}/#/sandboxes/${id}/${tab}`);
				await calm(page, tab);
			}
			await page.goto(`${s.base}/#/sandboxes/${id}/packages`);
			await page.getByLabel('Packages to install').fill(one(hostileTexts[1]!));
			await page.getByRole('button', { name: 'Install' }).click();
			await page.getByRole('alert').or(page.locator('form .cell-error')).first().waitFor();
			await calm(page, 'a refused package');
			await page.goto(`${s.base}/#/sandboxes/${id}/terminal`);
			await page.locator('.terminal textarea').waitFor({ state: 'attached' });
			await page.locator('.terminal').click();
			await page.keyboard.type('ls 0*; cat [0-9]*.txt | head -c 4000\n');
			await page.waitForFunction(() => (document.querySelector('.terminal .xterm-rows')?.textContent ?? '').includes('caissonStruck'));
			await calm(page, 'terminal');
		},
	},
	{
		name: 'hostile: people, keys, invitations, history, audit, addresses',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada', 'admin');
			const key = await s.key('ada', 'admin');
			await each((t) => s.rest('POST', '/users', { name: one(t).slice(0, 60), password: t.length > 8 ? t.slice(0, 200) : undefined }, key));
			assert.ok(await each((t) => s.rest('POST', '/keys', { name: one(t) }, key)) > 25, 'keys');
			assert.ok(await each((t) => s.rest('POST', '/invitations', { note: one(t) }, key)) > 25, 'invitations');
			const id = (await s.rest('POST', '/sandboxes', {}, key)).id as string;
			for (const t of hostileTexts.slice(0, 12)) await s.rest('POST', `/sandboxes/${id}/runs`, { code: `# ${t.replaceAll(/[\r\n\u2028]/g, ' ')}\nprint(1)`, wait: true }, key);
			const page = await w.window();
			await signIn(page, s, 'ada');
			for (const [path, shows] of [['keys', 'onerror'], ['people', 'ada'], ['invitations', 'onerror'], ['audit', 'ada'], ['history', 'sess_'], [`history?q=${encodeURIComponent('<script>')}`, 'caissonStruck']] as const) {
				await page.goto(`${s.base}/#/${path}`);
				await page.locator('main').getByText(shows).and(page.locator(':not(option)')).first().waitFor();
				await calm(page, path);
			}
			await page.goto(`${s.base}/#/keys`);
			await page.getByRole('button', { name: /^Revoke <img/ }).first().click();
			await page.getByRole('dialog').waitFor();
			await calm(page, 'a dialog');
			await page.keyboard.press('Escape');
			for (const t of hostileTexts.slice(0, 29)) {
				for (const at of [encodeURIComponent(t), `sandboxes/${encodeURIComponent(t)}`, `sandboxes/${id}/files/${encodeURIComponent(t)}`, `history?q=${encodeURIComponent(t)}`, `join/${encodeURIComponent(t)}`])
					await page.evaluate((hash) => { location.hash = `#/${hash}`; }, at);
				await page.evaluate(() => { location.hash = '#/'; });
				await page.getByRole('heading', { name: 'Sandboxes' }).waitFor();
			}
			await calm(page, 'addresses');
		},
	},
	{
		name: 'hostile: HTML of a sandbox runs in a frame that can reach nothing',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada');
			const key = await s.key('ada');
			const { id } = await s.rest('POST', '/sandboxes', {}, key);
			const probe = `<!doctype html><body><ul id=o></ul><script>
const said = [];
const say = (what, value) => { said.push(what + '=' + value); document.getElementById('o').innerHTML += '<li>' + what + '=' + value + '</li>'; };
const tried = (what, fn) => { try { say(what, String(fn())); } catch (e) { say(what, 'refused'); } };
tried('ran', () => 'yes');
tried('parent', () => parent.document.title);
tried('cookie', () => document.cookie);
tried('storage', () => localStorage.length);
tried('top', () => { top.location = 'http://192.0.2.1/'; return 'moved'; });
tried('open', () => String(window.open('http://192.0.2.1/')));
tried('dialog', () => { alert('x'); return 'none'; });
tried('origin', () => self.origin);
fetch('${s.base}/api/v1/session').then(() => say('fetch', 'came'), () => say('fetch', 'refused'));
new Image().src = 'http://192.0.2.1/picture.png';
const w = new WebSocket('ws://192.0.2.1/'); w.onerror = () => say('socket', 'refused');
parent.postMessage({ caisson: 'size', height: 1e9 }, '*');
parent.postMessage({ caisson: 'ready' }, '*');
</script><img src="http://192.0.2.1/x.png"><iframe src="http://192.0.2.1/"></iframe><form action="http://192.0.2.1/"><button>x</button></form>`;
			await s.put(id, 'probe.html', probe, key);
			const page = await w.window();
			// What the frame's own policy refuses is said on the console: that is the wall at work, so here it is wanted. No request may leave.
			w.refusalsOfFrames = true;
			await signIn(page, s, 'ada');
			await page.goto(`${s.base}/#/sandboxes/${id}/files/probe.html`);
			const frame = page.frameLocator('iframe');
			await frame.locator('li', { hasText: 'ran=yes' }).waitFor();
			await frame.locator('li', { hasText: 'fetch=' }).waitFor();
			await frame.locator('li', { hasText: 'socket=' }).waitFor();
			const said = Object.fromEntries((await frame.locator('li').allTextContents()).map((l) => l.split(/=(.*)/s) as [string, string]));
			assert.deepEqual({ ...said, top: undefined, dialog: undefined }, { ran: 'yes', parent: 'refused', cookie: 'refused', storage: 'refused', top: undefined, open: 'null', dialog: undefined, origin: 'null', fetch: 'refused', socket: 'refused' });
			assert.equal(new URL(page.url()).origin, s.base, 'the page was not led away');
			const height = await page.locator('iframe').evaluate((f) => f.getBoundingClientRect().height);
			assert.ok(height < 5000, 'a frame cannot grow without end');
			await picture(page, 'hostile-frame');
		},
	},
];
