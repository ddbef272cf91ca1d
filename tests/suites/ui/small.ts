// SPDX-License-Identifier: Apache-2.0
// Where things are: scroll bars, menus, long names, what a form says; and what is said of time, memory and errors.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { mode } from '../../lib/env.ts';
import { until } from '../../lib/wait.ts';
import { accessible, launch, picture, World, type Case } from './case.ts';
import { type } from './person.ts';
import { server } from './server.ts';

const LONG = 'A-name-of-a-sandbox-that-nobody-would-type-'.repeat(3).slice(0, 100);

const box = async (page: Page, what: string): Promise<{ left: number; right: number; top: number; bottom: number }> =>
	page.locator(what).first().evaluate((e) => (({ left, right, top, bottom }) => ({ left, right, top, bottom }))(e.getBoundingClientRect()));

/** Nothing is wider than the window, and no text leaves its dialog. */
async function fits(page: Page, where: string): Promise<void> {
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 1, where);
	assert.deepEqual(await page.locator('dialog').evaluateAll((all) => all.filter((d) => d.scrollWidth > d.clientWidth + 1).length), 0, where);
}

export const smallCases: Case[] = [
	{
		name: 'small: bars, edges and long names',
		async run(w) {
			// Chromium without a window hides scroll bars, unless it is told not to.
			const browser = await launch(['--hide-scrollbars']);
			w.atEnd(() => browser.close());
			const own = new World(browser);
			w.atEnd(() => own.end());
			const s = await server(w, { env: { SANDBOX_NETWORK_MAX: 'packages' } });
			const page = await own.window({ viewport: { width: 1700, height: 620 }, locale: 'en-US' });
			const { id } = await s.rest('POST', '/sandboxes', { name: LONG });
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'for i in range(30): print(i)', wait: true });
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'for i in range(30): print(i)', wait: true });
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			await page.locator('.cell.done').last().waitFor();
			await page.getByRole('textbox', { name: 'Python code' }).waitFor();
			const cell = await box(page, '.cell-code pre');
			const editor = await box(page, '.composer-box');
			assert.ok(Math.abs(cell.left - editor.left) < 1 && Math.abs(cell.right - editor.right) < 1, JSON.stringify({ cell, editor }));
			const time = await page.locator('.cell-head time').first().textContent();
			assert.match(time!, /^\d\d:\d\d:\d\d$/, 'hours are counted to 24, as in logs and terminals');
			// The bar of what scrolls is at the edge of the window.
			for (const tab of ['Packages', 'Limits']) {
				await page.getByRole('navigation', { name: 'Parts of the sandbox' }).getByRole('link', { name: tab }).click();
				await page.locator('.pane h2', { hasText: tab === 'Limits' ? 'Walls' : 'Of the image' }).waitFor();
				assert.equal((await box(page, '.pane')).right, 1700, tab);
				await picture(page, `small-${tab.toLowerCase()}`);
			}
			assert.match((await page.locator('dd', { hasText: 'at most' }).first().textContent())!, /[KMG]iB/);
			await page.getByRole('button', { name: 'More actions of this sandbox' }).click();
			await page.getByRole('menuitem', { name: 'Delete' }).click();
			await fits(page, 'a long name in a question');
			await picture(page, 'small-long-name');
			await page.getByRole('button', { name: 'Cancel' }).click();
			await page.goto(`${s.base}/#/`);
			// A menu has its whole length in the window and does not lie on its button.
			await page.setViewportSize({ width: 1000, height: 220 });
			await page.getByRole('button', { name: `More: ${LONG}` }).click();
			const menu = await box(page, '.menu');
			const button = await box(page, '[aria-haspopup=menu][aria-expanded=true]');
			assert.ok(menu.top >= 0 && menu.bottom <= 220 && (menu.bottom <= button.top || menu.top >= button.bottom), JSON.stringify({ menu, button }));
			await page.keyboard.press('Escape');
			// A form that is longer than the window: what is wrong and what to do are in sight, and only what is permitted can be chosen.
			await page.setViewportSize({ width: 1000, height: 500 });
			await page.getByRole('button', { name: 'New sandbox' }).click();
			await page.getByText('Limits, image and network').click();
			const networks = page.getByLabel('Network', { exact: true });
			await until('the policy is here', async () => (await networks.locator('option').count()) > 1);
			assert.deepEqual(await networks.locator('option').evaluateAll((all) => all.map((o) => (o as HTMLOptionElement).value)), ['', 'none', 'packages']);
			assert.deepEqual(await page.getByLabel('Image', { exact: true }).evaluate((e) => [e.tagName, Array.from((e as HTMLSelectElement).options).map((o) => o.value)]), ['SELECT', ['', 'science']]);
			await page.getByLabel('Environment variables').fill('no equals sign');
			await page.getByRole('button', { name: 'Create' }).click();
			await page.getByRole('alert').waitFor();
			await page.locator('dialog').evaluate((d) => { d.scrollTop = 0; });
			for (const what of ['.dialog-end .problem', 'dialog .actions'])
				assert.ok((await box(page, what)).bottom <= 500, `${what} is in the window`);
			await picture(page, 'small-form');
			await accessible(page, 'a long form');
			await fits(page, 'a long form');
			own.check();
		},
	},
	{
		name: 'small: what a run lacked, code that cannot be read, times that go on',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			const { id } = await s.rest('POST', '/sandboxes', { memory_mb: 200, timeout_s: 20 });
			const said: string[] = [];
			page.on('console', (m) => void said.push(m.text()));
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			await type(page, 'x = = 1');
			const cell = page.locator('.cell').first();
			await cell.locator('.trace summary', { hasText: 'SyntaxError' }).waitFor();
			await cell.locator('.trace .output', { hasText: 'x = = 1' }).waitFor();
			await type(page, 'from IPython.display import HTML\nHTML("<b>bold</b>")');
			await page.frameLocator('.cell iframe').getByText('bold').waitFor();
			assert.deepEqual(said.filter((m) => /webrtc/.test(m)), [], 'a page without scripts says nothing on the console');
			await type(page, 'a = bytearray(1 << 30)\na[:] = b"x" * (1 << 30)\nwhile True: a += a');
			await page.locator('.tag.bad', { hasText: 'out of memory' }).or(page.getByText('MemoryError').last()).first().waitFor();
			await s.rest('POST', `/sandboxes/${id}/runs`, { command: 'python3 -c "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"', wait: true });
			await page.getByText(/^The memory of the sandbox \(200 MiB\) was not enough/).last().waitFor();
			await picture(page, 'small-memory');
			await accessible(page, 'a run that had too little memory');
			// A file that was not kept goes with its sandbox: then there is no link to it.
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'open("data.csv", "w").write("a,b\\n1,2\\n"); open("blob.bin", "wb").write(b"x" * 300000)', wait: true });
			await page.locator('.run-file', { hasText: 'blob.bin' }).getByRole('link', { name: 'Download' }).waitFor();
			await s.rest('POST', `/sandboxes/${id}/checkpoints`, { name: 'one' });
			await page.getByRole('navigation', { name: 'Parts of the sandbox' }).getByRole('link', { name: 'Checkpoints' }).click();
			await page.getByText(/^[2-9] s ago$/).waitFor();
			await page.getByRole('button', { name: 'Save a checkpoint' }).click();
			await page.getByLabel('Name').fill('with.dot');
			assert.equal(await page.getByLabel('Name').evaluate((i) => (i as HTMLInputElement).validity.patternMismatch), true, 'the server takes no dot');
			await page.getByRole('button', { name: 'Cancel' }).click();
			await s.rest('DELETE', `/sandboxes/${id}?force=true`);
			await page.getByText('This sandbox has ended.').waitFor();
			const gone = page.locator('.run-file', { hasText: 'blob.bin' });
			await gone.getByText('gone with the sandbox').waitFor();
			assert.equal(await gone.getByRole('link').count(), 0);
		},
	},
	{
		name: 'small: a session that ends soon is counted down, and can be kept',
		async run(w) {
			const s = await server(w, { env: { SANDBOX_SESSION_KEEP_M: '11', SANDBOX_SESSION_TTL_M: '11' } });
			const page = await w.window();
			const { id } = await s.rest('POST', '/sandboxes', { name: 'A small study', ttl_s: 604 });
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'x = 41\nopen("f", "w").write("kept")', stateful: true, wait: true });
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			const timer = page.getByRole('timer');
			const keep = page.getByRole('button', { name: 'Keep', exact: true });
			await page.locator('.cell.done').first().waitFor();
			await timer.filter({ hasText: /^ends in 9 min$/ }).waitFor();
			const memory = mode !== 'root';
			assert.equal(await keep.count(), memory ? 0 : 1, 'offered where it can be done');
			await picture(page, 'small-ends-soon');
			await accessible(page, 'a session that ends soon');
			// What was used elsewhere has more time, and the page finds out by itself.
			await s.rest('PATCH', `/sandboxes/${id}`, { ttl_s: 3 });
			await timer.filter({ hasText: /^ends (in \d s|at any moment)$/ }).waitFor();
			await s.rest('PATCH', `/sandboxes/${id}`, { ttl_s: 604 });
			await timer.waitFor({ state: 'detached' });
			await timer.filter({ hasText: /^ends in 9 min$/ }).waitFor();
			if (memory)
				return;
			await keep.click();
			await fits(page, 'the question');
			await picture(page, 'small-keep');
			await page.getByRole('dialog').getByRole('button', { name: 'Keep', exact: true }).click();
			await page.getByText('The sandbox stays until it is deleted.').waitFor();
			await timer.waitFor({ state: 'detached' });
			assert.equal(await keep.count(), 0);
			const now = await s.rest('GET', `/sandboxes/${id}`);
			assert.deepEqual([now.kind, now.name], ['stored', 'A small study']);
			const run = await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'print(x + 1, open("f").read())', stateful: true, wait: true });
			assert.equal(run.stdout, '42 kept\n');
		},
	},
];
