// SPDX-License-Identifier: Apache-2.0
// A person watches a model work: what an MCP client does is on the page while it happens, and the other way round.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case } from './case.ts';
import { type } from './person.ts';
import { python, server, words, type Server } from './server.ts';

/** Prints, then waits for the file `go`, then prints again: whoever sees the first line has seen it while the code ran. */
const STEPS = 'import os, time\nprint("first step", flush=True)\nwhile not os.path.exists("go"):\n    time.sleep(0.01)\nprint("second step")';

/** A stored sandbox and its terminal. */
async function terminal(page: Page, s: Server): Promise<void> {
	const { id } = await s.rest('POST', '/sandboxes', { kind: 'stored', name: 'stays' });
	await page.goto(`${s.base}/#/sandboxes/${id}/terminal`);
	await page.locator('.terminal textarea').waitFor({ state: 'attached' });
	await page.locator('.terminal').click();
}

/** The screen of the terminal has WORDS; its rows have nothing between them. */
const screen = (page: Page, words: string): Promise<unknown> =>
	page.waitForFunction((t) => document.querySelector('.terminal .xterm-rows')?.textContent?.replace(/\s+/g, ' ').includes(t), words);

export const watchCases: Case[] = [
	{
		name: 'watch: a model works through MCP, the page shows it as it happens, and stops it',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			await page.goto(`${s.base}/`);
			await page.getByRole('heading', { name: 'Nothing runs here yet' }).waitFor();
			const model = await s.client(w, 'claude-code');
			const run = python(model, STEPS, 'desk', { stateful: true });
			// the sandbox appears by itself, and it runs
			await page.getByRole('link', { name: /desk/ }).click();
			await page.locator('.cell-out').getByText('first step').waitFor();
			await page.locator('.cell.running').waitFor();
			assert.match((await page.locator('.cell-who').first().textContent())!, /claude-code/);
			await picture(page, 'watching');
			assert.equal(await page.getByText('second step').count(), 1, 'only in the code: the run still waits');
			await s.put('desk', 'go', '');
			await page.locator('.cell.done').getByText('second step').last().waitFor();
			assert.match(words(await run), /second step/);
			// the person goes on in the same state, and the model sees it
			await type(page, 'answer = 42\nprint("by hand")');
			await page.getByText('you, here').waitFor();
			await until('the run by hand', async () => (await page.locator('.cell.done').count()) === 2);
			assert.match(words(await python(model, 'print("model reads", answer)', 'desk', { stateful: true })), /model reads 42/);
			await page.getByText('model reads 42').waitFor();
			// the person stops the model
			const endless = python(model, 'print("endless", flush=True)\nwhile True: pass', 'desk', { stateful: true });
			await page.locator('.cell.running').getByRole('button', { name: 'Stop' }).click();
			assert.match(words(await endless), /cancelled/);
			await page.locator('.cell .tag.bad', { hasText: 'stopped' }).waitFor();
			// half a second is for a quiet machine; here only the order counts: each line was seen before the run could end
		},
	},
	{
		name: 'watch: two tabs show the same',
		async run(w) {
			const s = await server(w);
			const one = await w.window();
			await one.goto(`${s.base}/`);
			const two = await w.tab(one);
			await two.goto(`${s.base}/`);
			await one.getByRole('button', { name: 'New sandbox' }).click();
			await one.getByLabel('Name').fill('shared');
			await one.getByRole('button', { name: 'Create' }).click();
			await one.getByRole('textbox', { name: 'Python code' }).waitFor();
			await two.getByRole('link', { name: /shared/ }).click();
			await type(one, 'print("from tab one")');
			await two.locator('.cell-out').getByText('from tab one').waitFor();
			await type(two, 'print("from tab two")');
			await one.locator('.cell-out').getByText('from tab two').waitFor();
			await one.getByRole('button', { name: 'More actions of this sandbox' }).click();
			await one.getByRole('menuitem', { name: 'Rename' }).click();
			await one.getByRole('dialog').getByLabel('Name').fill('renamed');
			await one.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
			await two.getByRole('heading', { name: 'renamed' }).waitFor();
			await two.getByRole('button', { name: 'More actions of this sandbox' }).click();
			await two.getByRole('menuitem', { name: 'Delete' }).click();
			await two.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
			await one.getByText('This sandbox has ended.').waitFor();
		},
	},
	{
		name: 'watch: the server restarts while the page is open',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			w.expected.push(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/);
			const { id } = await s.rest('POST', '/sandboxes', { kind: 'stored', name: 'stays' });
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			await type(page, 'print("before the restart")');
			await page.locator('.cell-out').getByText('before the restart').waitFor();
			await page.getByRole('textbox', { name: 'Python code' }).click();
			await page.keyboard.insertText('print("typed, not run")');
			await s.stop();
			await page.getByText('The connection to the server is lost.').waitFor();
			await picture(page, 'lost');
			await s.start();
			await page.getByText('The connection to the server is lost.').waitFor({ state: 'detached', timeout: 40_000 });
			await page.locator('.cell-out').getByText('before the restart').waitFor();
			assert.match((await page.getByRole('textbox', { name: 'Python code' }).textContent())!, /typed, not run/, 'nothing that was typed is lost');
			await page.getByRole('textbox', { name: 'Python code' }).click();
			await page.keyboard.press('Control+Enter');
			await page.locator('.cell-out').getByText('typed, not run').waitFor();
		},
	},
	{
		name: 'watch: a flood in the terminal leaves the page alive, and the newest output is shown',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			await terminal(page, s);
			await page.keyboard.type('seq 4000000; echo over-$((40+2))\n');
			await screen(page, 'over-42');
			await page.keyboard.type('seq 3 | tac | tr "\\n" -\n');
			await screen(page, '3-2-1-');
			await picture(page, 'terminal-flood');
		},
	},
	{
		name: 'watch: the server dies while a terminal is open',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			w.expected.push(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|WebSocket connection|404/);
			await terminal(page, s);
			await page.keyboard.type('echo begun-$((40+2)); sleep 1000\n');
			await screen(page, 'begun-42');
			s.program.kill('SIGKILL');
			await s.program.exit;
			await s.start();
			await page.getByText('The connection to the server is lost.').waitFor({ state: 'detached', timeout: 40_000 });
			await screen(page, 'The shell is not there any more. Press Enter for a new shell.');
			await page.keyboard.press('Enter');
			await page.keyboard.type('echo again-$((40+2))\n');
			await screen(page, 'again-42');
			await picture(page, 'terminal-lost');
			await accessible(page, 'a terminal after the server died');
		},
	},
];
