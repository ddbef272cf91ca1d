// SPDX-License-Identifier: Apache-2.0
// Work in a notebook: interrupt and stop, again, a new interpreter, Markdown, contents and find.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import type { Page } from 'playwright-core';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case } from './case.ts';
import { type } from './person.ts';
import { python, server, words } from './server.ts';

const last = (page: Page, text: string): Promise<void> => page.locator('.cell.done').last().locator('.cell-out').getByText(text, { exact: true }).waitFor();

export const notebookCases: Case[] = [{
	name: 'notebook: the language of a cell',
	async run(w) {
		const s = await server(w);
		const page = await w.window();
		const { id } = await s.rest('POST', '/sandboxes', { name: 'languages' });
		await page.goto(`${s.base}/#/sandboxes/${id}`);
		const languages = page.getByRole('combobox', { name: 'Language of the code' });
		await languages.selectOption('JavaScript');
		await type(page, 'const a = [1, 2]\na.length + 40', 'JavaScript');
		await last(page, '42');
		await languages.selectOption('TypeScript');
		await type(page, 'const b: number = a.length + 5; b', 'TypeScript');
		await last(page, '7');
		await languages.selectOption('Shell');
		await type(page, 'echo "from $0"', 'Shell');
		await last(page, 'from sh');
		await languages.selectOption('Python');
		await type(page, '"a" in dir()');
		await last(page, 'False');
		assert.deepEqual(await page.locator('.cell-head').evaluateAll((all) => all.map((h) => /JavaScript|TypeScript/.exec(h.textContent ?? '')?.[0])), ['JavaScript', 'TypeScript', undefined, undefined]);
		// again, and changed, in its own language
		await page.locator('.cell', { hasText: 'const b' }).getByRole('button', { name: 'Run it again' }).click();
		await until('it ran again', async () => (await page.locator('.cell.done').count()) === 5);
		await last(page, '7');
		await page.locator('.cell', { hasText: 'const a' }).first().getByRole('button', { name: 'Edit' }).click();
		assert.equal(await languages.inputValue(), 'javascript');
		await picture(page, 'notebook-languages');
		await accessible(page, 'a notebook with several languages');
		await page.getByRole('textbox', { name: 'JavaScript code' }).click();
		await page.keyboard.press('Control+Enter');
		await until('the changed one ran', async () => (await page.locator('.cell.done').count()) === 6);
		await last(page, '42');
	},
}, {
	name: 'notebook: interrupt, stop, again, restart, contents',
	async run(w) {
		const s = await server(w);
		const page = await w.window();
		const { id } = await s.rest('POST', '/sandboxes', { name: 'work' });
		await page.goto(`${s.base}/#/sandboxes/${id}`);
		await type(page, 'from IPython.display import Markdown\nMarkdown("## A head\\n\\n- *first*\\n- <b>second</b>")');
		await page.locator('.cell .markdown').getByRole('heading', { name: 'A head' }).waitFor();
		await page.locator('.cell .markdown li', { hasText: '<b>second</b>' }).waitFor();
		// an interrupt keeps what the run had made so far, and so does a stop that the run reacts to
		await type(page, '# endless work\nkept = 1\nwhile True: pass');
		await page.locator('.cell.running').getByRole('button', { name: 'Interrupt' }).click();
		await page.locator('.cell').last().locator('.trace summary', { hasText: 'KeyboardInterrupt' }).waitFor();
		await picture(page, 'notebook-interrupted');
		await type(page, 'kept + 41');
		await last(page, '42');
		await type(page, 'kept = 7\nprint("began", flush=True)\nwhile True: pass');
		await page.locator('.cell.running .cell-out').getByText('began').waitFor();
		await page.locator('.cell.running').getByRole('button', { name: 'Stop' }).click();
		await page.locator('.cell').last().getByText('What it did before that is kept.').waitFor();
		await type(page, 'kept + 99');
		await last(page, '106');
		// a crash takes it back, and what it took besides is named
		await type(page, 'import os, socket\nserver = socket.create_server(("127.0.0.1", 0))\nopened = "yes"');
		await type(page, 'kept = 8\nos.abort()');
		await page.locator('.cell').last().getByText('The variables are what they were before this run; files that it wrote are there. Gone: connections.').waitFor();
		await picture(page, 'notebook-crashed');
		await type(page, 'kept + 99');
		await last(page, '106');
		// a run of a model is interrupted in the same way, and the model sees why it ended
		const model = await s.client(w, 'claude-code');
		const run = python(model, 'by_model = 1\nprint("model", flush=True)\nwhile True: pass', id, { stateful: true });
		await page.locator('.cell.running .cell-out').getByText('model', { exact: true }).waitFor();
		await page.locator('.cell.running').getByRole('button', { name: 'Interrupt' }).click();
		assert.match(words(await run), /KeyboardInterrupt/);
		// once more
		const cells = await page.locator('.cell').count();
		await page.locator('.cell', { hasText: 'kept + 99' }).last().getByRole('button', { name: 'Run it again' }).click();
		await until('it ran again', async () => (await page.locator('.cell.done').count()) === cells + 1);
		await last(page, '106');
		// contents and find
		await page.getByRole('button', { name: 'Contents, find' }).click();
		const contents = page.getByRole('region', { name: 'Contents, find' });
		await contents.getByRole('button', { name: /endless work/ }).waitFor();
		await picture(page, 'notebook-contents');
		await accessible(page, 'the contents of a notebook');
		await contents.getByRole('searchbox').fill('KEPT + 41');
		await until('one is found', async () => (await contents.locator('li').count()) === 1);
		await contents.locator('li button').click();
		await page.locator('.cell', { hasText: 'kept + 41' }).first().waitFor();
		await contents.getByRole('searchbox').fill('nowhere to be found');
		await contents.getByText('No run has these words.').waitFor();
		await page.keyboard.press('Escape');
		await contents.waitFor({ state: 'detached' });
		// a new interpreter, and the way back
		await page.getByRole('button', { name: 'More actions of this sandbox' }).click();
		await page.getByRole('menuitem', { name: 'Restart Python' }).click();
		await picture(page, 'notebook-restart');
		await accessible(page, 'the question before a restart');
		await page.getByRole('dialog').getByRole('button', { name: 'Restart Python' }).click();
		await page.getByText('are in the checkpoint before-restart').waitFor();
		await type(page, '"kept" in globals()');
		await last(page, 'False');
		await s.rest('POST', `/sandboxes/${id}/checkpoints/before-restart/restore`, {});
		await type(page, 'kept + by_model');
		await last(page, '8');
	},
}, {
	name: 'notebook: numbers of cells, exporting some, deleting one',
	async run(w) {
		const s = await server(w);
		const page = await w.window();
		const { id } = await s.rest('POST', '/sandboxes', { name: 'numbers' });
		await page.goto(`${s.base}/#/sandboxes/${id}`);
		await type(page, 'def share(x):\n    return 1 / x');
		await page.locator('.cell.done').waitFor();
		await type(page, 'share(0)');
		const cell = page.getByRole('article', { name: 'Run 2 of' });
		await cell.locator('.trace summary').click();
		await cell.getByText('File "<cell 1>", line 2, in share').waitFor();
		await page.getByRole('article', { name: 'Run 1 of' }).getByText('[1]', { exact: true }).waitFor();
		await cell.getByText('[2]', { exact: true }).waitFor();
		await picture(page, 'notebook-numbers');
		await accessible(page, 'numbers of cells');
		// some are exported alone
		await page.setViewportSize({ width: 390, height: 800 });
		await page.getByRole('button', { name: 'Select cells' }).click();
		await page.getByLabel('Select cell [2]').check();
		const bar = page.getByRole('region', { name: 'Select cells' });
		await bar.getByText('1 cell selected').waitFor();
		assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
		await picture(page, 'notebook-select');
		const [height, line] = await bar.evaluate((b) => [b.clientHeight, b.querySelector('.button')!.clientHeight]);
		assert.ok(height! < 4 * line!, `the bar is ${height} px high, one line ${line}`);
		await accessible(page, 'selected cells');
		const saved = page.waitForEvent('download');
		await bar.getByRole('link', { name: 'Export as notebook' }).click();
		const book = JSON.parse(fs.readFileSync(await (await saved).path(), 'utf8')) as { cells: { source: string }[] };
		assert.deepEqual(book.cells.map((c) => c.source), ['share(0)']);
		await bar.getByRole('button', { name: 'Close' }).click();
		await bar.waitFor({ state: 'detached' });
		await page.setViewportSize({ width: 1280, height: 860 });
		// one is deleted, after a question
		await page.getByRole('article', { name: 'Run 1 of' }).getByRole('button', { name: 'Delete this cell' }).click();
		await page.getByRole('dialog', { name: 'Delete cell [1]?' }).waitFor();
		await picture(page, 'notebook-delete-cell');
		await accessible(page, 'the question before a cell is deleted');
		const other = await w.window();
		await other.goto(`${s.base}/#/sandboxes/${id}`);
		await other.getByRole('article', { name: 'Run 1 of' }).waitFor();
		await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
		for (const one of [page, other])
			await one.getByRole('article', { name: 'Run 1 of' }).waitFor({ state: 'detached' });
		await page.reload();
		await page.getByRole('article', { name: 'Run 2 of' }).waitFor();
		assert.equal(await page.locator('.cell').count(), 1);
	},
}, {
	name: 'notebook: texts in Markdown',
	async run(w) {
		const s = await server(w);
		const page = await w.window();
		const other = await w.window();
		const { id } = await s.rest('POST', '/sandboxes', { name: 'texts' });
		for (const one of [page, other])
			await one.goto(`${s.base}/#/sandboxes/${id}`);
		await type(page, '40 + 2');
		await last(page, '42');
		const write = async (name: string, text: string): Promise<void> => {
			await page.getByRole('dialog', { name }).getByLabel('Text').fill(text);
			await picture(page, `notebook-${name.replaceAll(' ', '-').toLowerCase()}`);
			await accessible(page, name);
			await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
			await page.getByRole('dialog').waitFor({ state: 'detached' });
		};
		await page.getByRole('button', { name: 'Add text' }).click();
		await write('Add text', '## What it means\n\n* the **answer**\n* <img src=x onerror="document.title=1">');
		for (const one of [page, other]) {
			await one.getByRole('heading', { name: 'What it means' }).waitFor();
			await one.locator('.cell strong', { hasText: 'answer' }).waitFor();
			assert.equal(await one.locator('.cell img').count(), 0);
		}
		await picture(page, 'notebook-text');
		await accessible(page, 'a text in the notebook');
		const cell = page.getByRole('article', { name: 'Text' });
		await cell.getByRole('button', { name: 'Edit the text' }).click();
		assert.match(await page.getByRole('dialog').getByLabel('Text').inputValue(), /^## What/);
		await write('Edit the text', '## Why');
		for (const one of [page, other])
			await one.getByRole('heading', { name: 'Why' }).waitFor();
		await type(page, '40 + 3');
		await last(page, '43');
		await page.reload();
		await page.getByRole('heading', { name: 'Why' }).waitFor();
		assert.deepEqual(await page.locator('.notebook article').evaluateAll((all) => all.map((a) => a.getAttribute('aria-label')!.slice(0, 4))), ['Run ', 'Text', 'Run ']);
		// a text between older cells, on both pages; `other` has them by events alone
		const order = (one: Page): Promise<string[]> => one.locator('.notebook article').evaluateAll((all) => all.map((a) => a.querySelector('pre, .markdown')!.textContent!.trim()));
		const beside = async (of: string, side: 'Above' | 'Below', text: string): Promise<void> => {
			await page.locator('.cell', { hasText: of }).getByRole('button', { name: 'Insert text' }).click();
			await page.getByRole('dialog').getByRole('radio', { name: side }).check();
			await write('Insert text', text);
			for (const one of [page, other])
				await one.locator('.cell').getByText(text, { exact: true }).waitFor();
		};
		await beside('40 + 3', 'Above', 'over 43');
		await beside('40 + 2', 'Above', 'over 42');
		await beside('over 43', 'Below', 'under that');
		const wanted = ['over 42', '40 + 2', 'Why', 'over 43', 'under that', '40 + 3'];
		for (const one of [page, other])
			assert.deepEqual(await order(one), wanted);
		await picture(page, 'notebook-texts-between');
		await other.reload();
		await other.locator('.cell').getByText('under that', { exact: true }).waitFor();
		assert.deepEqual(await order(other), wanted);
		await page.setViewportSize({ width: 390, height: 800 });
		assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
		await picture(page, 'notebook-text-phone');
		await cell.filter({ hasText: 'Why' }).getByRole('button', { name: 'Delete this cell' }).click();
		await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
		for (const one of [page, other])
			await one.getByRole('heading', { name: 'Why' }).waitFor({ state: 'detached' });
	},
}];
