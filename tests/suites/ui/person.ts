// SPDX-License-Identifier: Apache-2.0
// The whole way of a new person: sign in, run the example, go on by hand, files, packages, terminal, a key, a client, delete, history.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { Index, wheel, wheelName } from '../../lib/wheel.ts';
import { accessible, picture, type Case, type World } from './case.ts';
import { PASSWORD, python, server, words, type Server } from './server.ts';

async function firstVisit(page: Page, s: Server): Promise<void> {
	await page.goto(`${s.base}/`);
	await page.getByRole('heading', { name: 'Sign in' }).waitFor();
	await picture(page, 'signin');
	await accessible(page, 'the sign-in');
	await page.getByLabel('User name').fill('ada');
	await page.getByLabel('Password').fill('not the password');
	await page.getByRole('button', { name: 'Sign in' }).click();
	await page.getByRole('alert').waitFor();
	await page.getByLabel('Password').fill(PASSWORD);
	await page.getByRole('button', { name: 'Sign in' }).click();
	await page.getByRole('heading', { name: 'Nothing runs here yet' }).waitFor();
	await picture(page, 'welcome');
	await accessible(page, 'the empty home page');
}

/** Runs the example; the id of its sandbox. */
async function example(page: Page): Promise<string> {
	await page.getByRole('button', { name: 'Run an example' }).click();
	await page.waitForURL(/#\/sandboxes\/./);
	await page.locator('.cell.done').waitFor();
	await page.waitForFunction(() => Array.from(document.querySelectorAll<HTMLImageElement>('.cell img')).some((i) => i.complete && i.naturalWidth > 200));
	await picture(page, 'notebook');
	await accessible(page, 'the notebook');
	return page.url().match(/#\/sandboxes\/([^/]+)/)![1]!;
}

/** Writes CODE into the editor and runs it with Ctrl-Enter; the cell of that run. */
export async function type(page: Page, code: string, language = 'Python'): Promise<void> {
	const editor = page.getByRole('textbox', { name: `${language} code` });
	await editor.click();
	await page.keyboard.insertText(code);
	await page.keyboard.press('Control+Enter');
}

const tab = (page: Page, name: string): Promise<void> => page.getByRole('navigation', { name: 'Parts of the sandbox' }).getByRole('link', { name }).click();

async function files(page: Page): Promise<void> {
	await tab(page, 'Files');
	await page.getByRole('link', { name: /^sales\.csv/ }).first().waitFor();
	const data = await page.evaluateHandle(() => {
		const d = new DataTransfer();
		d.items.add(new File(['city,people\nBerlin,3645000\nOslo,709000\n'], 'cities.csv', { type: 'text/csv' }));
		return d;
	});
	await page.dispatchEvent('.files', 'dragover', { dataTransfer: data });
	await page.dispatchEvent('.files', 'drop', { dataTransfer: data });
	await page.getByRole('link', { name: /^cities\.csv/ }).first().click();
	await page.getByText('Berlin').waitFor();
	await picture(page, 'files');
	await accessible(page, 'the files');
	await page.getByRole('link', { name: /^figure-1\.png/ }).first().click();
	await page.waitForFunction(() => Array.from(document.querySelectorAll<HTMLImageElement>('.files-preview img')).some((i) => i.complete && i.naturalWidth > 200));
}

async function packages(page: Page): Promise<void> {
	await tab(page, 'Packages');
	await page.getByLabel('Packages to install').fill('alpha');
	await page.getByRole('button', { name: 'Look up' }).click();
	await page.locator('.found').getByText('The first letter').waitFor({ timeout: 60_000 });
	await picture(page, 'package-found');
	await accessible(page, 'a package of the index');
	await page.locator('.found').getByRole('button', { name: '2.0' }).click();
	await page.getByRole('button', { name: 'Install', exact: true }).click();
	await page.locator('.package-list').getByText('alpha', { exact: true }).waitFor({ timeout: 60_000 });
	await picture(page, 'packages');
	await accessible(page, 'the packages');
	await tab(page, 'Notebook');
	await type(page, 'import alpha\nalpha.who');
	await page.getByText("'alpha 2'").waitFor();
}

async function terminal(page: Page): Promise<void> {
	await tab(page, 'Terminal');
	await page.locator('.terminal textarea').waitFor({ state: 'attached' });
	await page.locator('.terminal').click();
	await page.keyboard.type('ls\n');
	await page.waitForFunction(() => document.querySelector('.terminal .xterm-rows')?.textContent?.includes('cities.csv'));
	await picture(page, 'terminal');
	await accessible(page, 'the terminal');
}

/** Makes a key in the page, which is shown once, and uses it. */
async function key(w: World, page: Page, s: Server, id: string): Promise<void> {
	await page.getByRole('link', { name: 'Keys', exact: true }).click();
	await page.getByText('No keys yet').waitFor();
	await page.getByRole('button', { name: 'New key' }).click();
	await page.getByLabel('Name').fill('my laptop');
	await page.getByRole('button', { name: 'Make the key' }).click();
	const shown = page.getByLabel('Key', { exact: true });
	await shown.waitFor();
	await picture(page, 'key');
	await accessible(page, 'the new key');
	const text = (await shown.textContent())!.trim();
	assert.match(text, /^csn_[\w-]{30,}$/);
	await page.keyboard.press('Escape');
	assert.ok(await shown.isVisible(), 'Escape does not lose a key');
	await page.getByRole('button', { name: 'I have kept it' }).click();
	await page.getByRole('cell', { name: /^my laptop/ }).waitFor();
	assert.ok(!(await page.content()).includes(text), 'it is not shown again');
	const client = await s.client(w, 'laptop', text);
	assert.match(words(await python(client, 'print("by key")', id)), /by key/);
	await page.goto(`${s.base}/#/connect`);
	await page.getByRole('tab', { name: 'Cursor' }).click();
	await page.getByRole('tabpanel').getByRole('button', { name: 'Copy' }).click();
	const config = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
	assert.equal(config.mcpServers.caisson.url, `${s.base}/mcp`);
	const cursor = new URL((await page.getByRole('link', { name: 'Add to Cursor' }).getAttribute('href'))!);
	assert.deepEqual(JSON.parse(Buffer.from(cursor.searchParams.get('config')!, 'base64').toString()), config.mcpServers.caisson);
	await picture(page, 'connect');
	await page.getByRole('tab', { name: 'VS Code' }).click();
	const code = (await page.getByRole('link', { name: 'Add to VS Code' }).getAttribute('href'))!;
	assert.deepEqual(JSON.parse(decodeURIComponent(code.replace('vscode:mcp/install?', ''))), { name: 'caisson', ...config.mcpServers.caisson });
	await accessible(page, 'the page of clients');
	await page.getByRole('link', { name: 'Keys', exact: true }).click();
	await page.getByRole('button', { name: 'Revoke my laptop' }).click();
	await page.getByRole('button', { name: 'Revoke', exact: true }).click();
	await page.getByText('No keys yet').waitFor();
	await assert.rejects(python(client, 'print(1)', id), 'a revoked key is refused');
}

async function gone(page: Page, s: Server, id: string): Promise<void> {
	await page.getByRole('link', { name: 'Sandboxes', exact: true }).click();
	await picture(page, 'home');
	await accessible(page, 'the list of sandboxes');
	await page.getByRole('button', { name: 'More: Example' }).click();
	await page.getByRole('menuitem', { name: 'Delete' }).click();
	await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
	await page.getByRole('heading', { name: 'Nothing runs here yet' }).waitFor();
	await page.getByRole('link', { name: 'History', exact: true }).click();
	await page.getByRole('link', { name: /Example/ }).first().waitFor();
	await picture(page, 'history');
	await accessible(page, 'the history');
	await page.getByLabel('Search names, code and output').fill('sales.North');
	await page.locator('mark').first().waitFor();
	await picture(page, 'history-search');
	await accessible(page, 'the search in the history');
	await page.goto(`${s.base}/#/sandboxes/${id}`);
	await page.getByText('This sandbox has ended.').waitFor();
	await page.locator('.cell').first().waitFor();
	await picture(page, 'ended');
	await accessible(page, 'the notebook of a sandbox that has ended');
}

export const personCases: Case[] = [{
	name: 'person: from the first visit to the last click',
	async run(w) {
		const index = new Index();
		await index.open();
		w.atEnd(async () => index.close());
		index.add('alpha', { file: wheelName('alpha', '2.0'), body: wheel('alpha', '2.0', 'who = "alpha 2"', { summary: 'The first letter' }) });
		const s = await server(w, { auth: true, env: { SANDBOX_PIP_INDEX_URL: index.url } });
		await s.person('ada');
		const page = await w.window({ permissions: ['clipboard-read', 'clipboard-write'] });
		await firstVisit(page, s);
		const id = await example(page);
		await type(page, 'round(sales.North.max() - sales.North.max(), 1), "same state"');
		await page.getByText("'same state'").waitFor();
		await files(page);
		await packages(page);
		await terminal(page);
		await key(w, page, s, id);
		await gone(page, s, id);
		await page.getByRole('button', { name: 'Sign out ada' }).click();
		await page.getByRole('heading', { name: 'Sign in' }).waitFor();
		assert.deepEqual((await page.context().cookies()).filter((c) => !c.name.includes('-device')), [], 'signed out: the cookie is gone');
	},
}];
