// SPDX-License-Identifier: Apache-2.0
// Background processes on the page: start, output as it comes, input, signals, removal; whose they are; output that is hostile or long.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case } from './case.ts';
import { calm, one } from './hostile.ts';
import { hostileTexts } from './hostile_texts.ts';
import { server, signIn } from './server.ts';

/** Answers each line; after the end of its input it lives until SIGTERM. */
const TALKER = `echo ready; trap 'echo bye; exit 7' TERM; while read -r a; do echo "got <b>$a</b>"; done; echo closed; while :; do sleep 0.05; done`;

const button = (page: Page, name: string) => page.locator('.process-detail').getByRole('button', { name, exact: true });
const output = (page: Page, label = 'Output') => page.locator('.process-detail').getByRole('group', { name: label, exact: true }).first();
const shows = (page: Page, words: string): Promise<void> => output(page).getByText(words, { exact: true }).waitFor();

/** Requests about processes that PAGE has sent since. */
function asked(page: Page): string[] {
	const all: string[] = [];
	page.on('request', (r) => r.url().includes('/processes') && all.push(r.url()));
	return all;
}

export const processCases: Case[] = [{
	name: 'processes: start, output, input, signals, removal',
	async run(w) {
		const s = await server(w);
		const page = await w.window();
		const { id } = await s.rest('POST', '/sandboxes', { name: 'beside' });
		await page.goto(`${s.base}/#/sandboxes/${id}/processes`);
		await page.getByRole('heading', { name: 'No background process' }).waitFor();
		await picture(page, 'processes-none');
		await accessible(page, 'no process');
		await page.getByLabel('Name (if you like)').fill('talker');
		await page.getByLabel('Takes input').check();
		await page.getByLabel('Command to start').fill(TALKER);
		await page.keyboard.press('Enter');
		await shows(page, 'ready');
		await page.getByRole('link', { name: /talker/, expanded: true }).waitFor();
		await page.getByLabel('A line for its standard input').fill('hello');
		await page.keyboard.press('Enter');
		await shows(page, 'got <b>hello</b>');
		await picture(page, 'processes-running');
		await accessible(page, 'a process that runs');
		await button(page, 'Close the input').click();
		await shows(page, 'closed');
		await page.getByLabel('A line for its standard input').waitFor({ state: 'detached' });
		await button(page, 'Terminate').focus();
		await page.keyboard.press('Enter');
		await shows(page, 'bye');
		await page.locator('.process-link .tag.bad', { hasText: 'exit status 7' }).waitFor();
		await page.locator('.process-facts').getByText('CPU').waitFor();
		assert.equal(await button(page, 'Kill').count(), 0, 'what has ended gets no signal');
		assert.equal(await page.evaluate(() => document.activeElement!.getAttribute('aria-label')), 'Process talker', 'the button that was pressed is gone, the keyboard is still there');
		await picture(page, 'processes-ended');
		await accessible(page, 'a process that has ended');
		// one that somebody else starts
		await s.rest('POST', `/sandboxes/${id}/processes`, { command: 'echo beginning; exec sleep 1000', name: 'sleeper' });
		await page.getByRole('link', { name: /sleeper/ }).click();
		await shows(page, 'beginning');
		await button(page, 'Remove').click();
		await page.getByRole('dialog').getByText('It still runs.').waitFor();
		await page.keyboard.press('Escape');
		await button(page, 'Kill').click();
		await page.locator('.process-facts').getByText(/^killed|^ended by a signal/).waitFor();
		await button(page, 'Remove').click();
		await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
		await page.getByRole('link', { name: /sleeper/ }).waitFor({ state: 'detached' });
		const { processes } = await s.rest('GET', `/sandboxes/${id}/processes`);
		assert.deepEqual(processes.map((p: { name: string }) => p.name), ['talker']);
		// elsewhere nothing asks for processes
		await page.getByRole('link', { name: 'Limits' }).click();
		const all = asked(page);
		for (let i = 0; i < 2; i++)
			await page.waitForResponse((r) => r.url().includes('/usage'));
		assert.deepEqual(all, []);
	},
}, {
	name: 'processes: a server is opened in a tab of its own, which reaches nothing of this page',
	async run(w) {
		const s = await server(w, { auth: true });
		await s.person('ada');
		const key = await s.key('ada');
		const { id } = await s.rest('POST', '/sandboxes', { name: 'serves' }, key);
		const page = await w.window();
		await signIn(page, s, 'ada');
		await page.goto(`${s.base}/#/sandboxes/${id}/processes`);
		const html = `<h1>Served</h1><script>localStorage.x = 1; document.cookie = "own=1"; fetch("/api/v1/me").then(r => document.title = r.status + " " + location.host + " " + document.cookie + " " + !!opener)</script>`;
		await page.getByLabel('Command to start').fill(`echo '${html}' > index.html; exec python3 -m http.server 8000 --bind 127.0.0.1`);
		await page.keyboard.press('Enter');
		await page.getByRole('region', { name: 'Ports' }).getByText('python3 listens').waitFor();
		await picture(page, 'processes-ports');
		await accessible(page, 'a port');
		const opened = page.context().waitForEvent('page');
		await page.getByRole('button', { name: 'Open' }).click();
		const tab = await opened;
		await tab.getByRole('heading', { name: 'Served' }).waitFor();
		const host = `8000-${id}.localhost:${new URL(s.base).port}`;
		await until('the title', async () => (await tab.title()) === `404 ${host} own=1 false`);
		assert.equal(tab.url(), `http://${host}/`, 'the pass is not in the address');
		const other = await w.window(); // another browser
		const r = await other.goto(`http://${host}/`);
		assert.equal(r!.status(), 401);
		const besides = w.taken().filter((fault) => !fault.endsWith(`of another host: http://${host}/`) && !fault.endsWith(`to another host: http://${host}/`) && !fault.includes('401'));
		assert.deepEqual(besides, [], 'only the name of the port, by a tab of that name');
	},
}, {
	name: 'processes: a port that is new is offered on every part of its sandbox, once, and opened by nobody but the person',
	async run(w) {
		const s = await server(w);
		const { id } = await s.rest('POST', '/sandboxes', { name: 'serves' });
		const at = `/sandboxes/${id}/processes`;
		const listen = (...ports: number[]) => s.rest('POST', at, { command: `echo '<h1>Served</h1>' > index.html; ${ports.slice(1).map((p) => `python3 -m http.server ${p} --bind 127.0.0.1 & `).join('')}exec python3 -m http.server ${ports[0]} --bind 127.0.0.1` });
		const before = await listen(7000);
		await until('a server', async () => (await s.rest('GET', `/sandboxes/${id}/ports`)).ports.length === 1);
		const page = await w.window();
		const opened: unknown[] = [];
		page.context().on('page', (p) => opened.push(p));
		const follows = page.waitForResponse((r) => r.url().includes('/events?ports=true'));
		await page.goto(`${s.base}/#/sandboxes/${id}`);
		await follows;
		const offers = page.getByRole('region', { name: 'New ports' });
		const offer = (port: number) => offers.locator('.notice', { hasText: `python3 listens on port ${port}` });
		// in the notebook, without a reload; what was there before is nothing new
		const first = await listen(8000);
		await offer(8000).waitFor();
		assert.equal(await offers.locator('.notice').count(), 1);
		await picture(page, 'ports-offer');
		await accessible(page, 'an offer');
		await offer(8000).getByRole('button', { name: 'Close' }).click();
		await offer(8000).waitFor({ state: 'detached' });
		// again: it was offered already. A port that ends is not offered any more
		await s.rest('DELETE', `${at}/${first.id}`);
		await until('its end', async () => (await s.rest('GET', `/sandboxes/${id}/ports`)).ports.length === 1);
		await listen(8000);
		const second = await listen(8001);
		await offer(8001).waitFor();
		await page.getByRole('link', { name: 'Terminal' }).click();
		await offer(8001).waitFor();
		assert.equal(await offer(8000).count(), 0);
		await s.rest('DELETE', `${at}/${second.id}`);
		await offer(8001).waitFor({ state: 'detached' });
		// the person opens one
		await listen(8002);
		await offer(8002).waitFor();
		assert.deepEqual(opened, []);
		const tab = page.context().waitForEvent('page');
		await offer(8002).getByRole('button', { name: 'Open' }).click();
		await (await tab).getByRole('heading', { name: 'Served' }).waitFor();
		await offer(8002).waitFor({ state: 'detached' });
		// in the list they are there by themselves, and marked
		await page.bringToFront();
		await page.getByRole('link', { name: 'Processes' }).click();
		const list = page.getByRole('region', { name: 'Ports', exact: true });
		await list.getByText('8002').waitFor();
		await listen(8003);
		await list.getByRole('listitem').filter({ hasText: '8003' }).getByText('new', { exact: true }).waitFor();
		assert.equal(await list.getByRole('listitem').filter({ hasText: '7000' }).getByText('new', { exact: true }).count(), 0);
		assert.equal(await offers.count(), 0, 'the list offers it');
		await picture(page, 'ports-list');
		await accessible(page, 'ports that are new');
		await s.rest('DELETE', `${at}/${before.id}`);
		await list.getByText('7000').waitFor({ state: 'detached' });
		// many
		await page.getByRole('link', { name: 'Notebook' }).click();
		await listen(8104, 8103, 8102, 8101, 8100);
		await offers.getByRole('link', { name: '2 more ports are new' }).waitFor();
		await page.setViewportSize({ width: 390, height: 800 });
		await picture(page, 'ports-offers-small');
		assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than a phone');
		await page.setViewportSize({ width: 1280, height: 860 });
		await offers.getByRole('link', { name: '2 more ports are new' }).click();
		await list.getByText('8104').waitFor();
		await page.getByRole('link', { name: 'Notebook' }).click();
		await page.getByRole('textbox', { name: 'Python code' }).waitFor();
		assert.equal(await offers.locator('.notice').count(), 0, 'they were seen in the list');
		assert.equal(opened.length, 1);
		const host = `8002-${id}.localhost:${new URL(s.base).port}`;
		assert.deepEqual(w.taken().filter((fault) => !fault.includes(host)), []);
	},
}, {
	name: 'processes: of another person, with a key that only reads, removed elsewhere, asleep',
	async run(w) {
		const s = await server(w, { auth: true });
		await s.person('ada');
		await s.person('bob');
		const bob = await s.key('bob');
		const { id } = await s.rest('POST', '/sandboxes', { kind: 'stored', name: 'of bob' }, bob);
		const at = `/sandboxes/${id}/processes`;
		await s.rest('POST', at, { command: 'echo secret words; exec sleep 1000', input: true }, bob);
		const ada = await w.window();
		await signIn(ada, s, 'ada');
		await ada.goto(`${s.base}/#${at}/p1`);
		await until('it is refused', async () => (await ada.locator('main .spinner:visible').count()) === 0 && (await ada.locator('.sandbox-head').count()) === 1);
		assert.equal(await ada.getByRole('link', { name: 'Processes' }).count(), 0);
		const refused = await ada.evaluate(async (path) => Promise.all([['GET', ''], ['GET', '/p1'], ['DELETE', '/p1'], ['POST', '/p1/signal', '{"signal":"KILL"}'], ['POST', '/p1/input', '{"text":"x"}'], ['POST', '', '{"command":"true"}']]
			.map(([method, rest, body]) => fetch(`/api/v1${path}${rest}`, { method: method!, body: body ?? null, headers: { 'X-Caisson-Page': '1', 'Content-Type': 'application/json' } }).then((r) => r.status))), at);
		assert.deepEqual(refused, [404, 404, 404, 404, 404, 404]);
		assert.ok(!(await ada.content()).includes('secret words'));
		assert.equal((await s.rest('GET', `${at}/p1`, undefined, bob)).state, 'running');
		// bob, by a key that only reads
		const page = await w.window();
		await page.goto(`${s.base}/`);
		await page.getByRole('button', { name: 'Use a key instead' }).click();
		await page.getByLabel('Key').fill(await s.key('bob', 'read'));
		await page.getByRole('button', { name: 'Sign in' }).click();
		await page.locator('.side').waitFor({ state: 'attached' });
		await page.goto(`${s.base}/#${at}/p1`);
		await shows(page, 'secret words');
		assert.deepEqual(await page.locator('.pane').getByRole('button', { name: /Start|Send|Close|Interrupt|Terminate|Kill|Remove/ }).count(), 0);
		assert.equal(await page.locator('.pane input').count(), 0);
		await accessible(page, 'processes for who only reads');
		await s.rest('DELETE', `${at}/p1`, undefined, bob);
		await page.getByRole('heading', { name: 'This process is not there any more' }).waitFor();
		await picture(page, 'processes-gone');
		// asleep: a page that is open does not wake it up
		await s.rest('POST', at, { command: 'echo more words; exec sleep 1000' }, bob);
		await page.goto(`${s.base}/#${at}/p2`);
		await shows(page, 'more words');
		w.expected.push(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/);
		await s.stop();
		await s.start();
		await page.getByRole('heading', { name: 'The sandbox is asleep' }).waitFor();
		await picture(page, 'processes-asleep');
		assert.equal((await s.rest('GET', `/sandboxes/${id}`, undefined, bob)).state, 'stored');
	},
}, {
	name: 'processes: output with HTML and escape sequences stays text, a long one is bounded',
	async run(w) {
		const s = await server(w);
		const page = await w.window();
		const { id } = await s.rest('POST', '/sandboxes', { name: 'hostile' });
		await s.put(id, 'hostile.txt', `${hostileTexts.map((t) => t.toWellFormed()).join('\n')}\n\x1b[31mred\x1b[0m and plain\n`);
		await s.rest('POST', `/sandboxes/${id}/processes`, { command: `cat hostile.txt; cat hostile.txt >&2 # ${one(hostileTexts[1]!)}`, name: one(hostileTexts[0]!).slice(0, 60) });
		await page.goto(`${s.base}/#/sandboxes/${id}/processes/p1`);
		await output(page).waitFor();
		await output(page, 'Error output').waitFor();
		await calm(page, 'a hostile process');
		for (const label of ['Output', 'Error output']) {
			const group = output(page, label);
			if (await group.locator('.output-window').count())
				await group.locator('.output-window').evaluate((e) => e.scrollTo(0, e.scrollHeight));
			await group.locator('span', { hasText: /^red$/ }).first().waitFor();
			assert.match((await group.locator('span', { hasText: /^red$/ }).first().getAttribute('style'))!, /color/);
		}
		assert.ok(!(await page.locator('.process-detail').textContent())!.includes('\x1b'));
		await page.locator('.process-link').getByText('<script>').waitFor();
		await calm(page, 'a hostile process, at its end');
		await picture(page, 'processes-hostile');
		await page.getByLabel('Command to start').fill('seq 300000; exec sleep 1000');
		await page.getByRole('button', { name: 'Start', exact: true }).click();
		await page.getByText('Only the newest output is shown.').waitFor();
		await shows(page, '300000');
		assert.ok((await page.locator('.process-detail .line').count()) < 200, 'only what can be seen is drawn');
		await picture(page, 'processes-long');
		await button(page, 'Kill').click();
		await page.locator('.process-facts').getByText(/^killed|^ended by a signal/).waitFor();
	},
}];
