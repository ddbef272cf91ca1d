// SPDX-License-Identifier: Apache-2.0
// What is behind menus and dialogs: exports and the report alone, checkpoints, branches, forks, names, previews, the terminal.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Page } from 'playwright-core';
import { newStateDir } from '../../lib/env.ts';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case, type World } from './case.ts';
import { hostileTexts } from './hostile_texts.ts';
import { type } from './person.ts';
import { server, type Server } from './server.ts';

const PDF = `%PDF-1.1
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 144]>>endobj
trailer<</Root 1 0 R/Size 4>>
%%EOF`;
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="120" height="80"><rect width="120" height="80" fill="teal"/><script>caissonStruck('svg')</script><image href="http://192.0.2.1/x.png" width="9" height="9"/></svg>`;

const tab = (page: Page, name: string): Promise<void> => page.getByRole('navigation', { name: 'Parts of the sandbox' }).getByRole('link', { name, exact: true }).click();

async function more(page: Page, item: string): Promise<void> {
	await page.getByRole('button', { name: 'More actions of this sandbox' }).click();
	await page.getByRole('menuitem', { name: item }).click();
}

/** Chooses ITEM, which downloads; the file on this machine. */
async function download(page: Page, item: string): Promise<string> {
	const [file] = await Promise.all([page.waitForEvent('download'), more(page, item)]);
	const to = path.join(newStateDir(), file.suggestedFilename());
	await file.saveAs(to);
	return to;
}

/** The value that the session shows for CODE. */
async function shows(page: Page, code: string, value: string): Promise<void> {
	await type(page, code);
	await page.locator('.cell.done').last().locator('.value').getByText(value, { exact: true }).waitFor();
}

async function exported(w: World, s: Server, page: Page, id: string): Promise<void> {
	const texts = JSON.stringify(hostileTexts.map((t) => t.toWellFormed()));
	await s.rest('POST', `/sandboxes/${id}/runs`, { code: `import json, sys\nfor t in json.loads(${JSON.stringify(texts)}):\n    print(t); print(t, file=sys.stderr)\nopen("drawing.svg", "w").write(${JSON.stringify(SVG)})\n"${'<b>'}bold" # ${hostileTexts[0]}`, stateful: true, wait: true });
	await s.rest('POST', `/sandboxes/${id}/runs`, { command: `echo '${hostileTexts[1]}'`, wait: true });
	const notebook = JSON.parse(fs.readFileSync(await download(page, 'Export as notebook (.ipynb)'), 'utf8'));
	assert.deepEqual([notebook.nbformat, notebook.nbformat_minor], [4, 5]);
	const cells = notebook.cells as { source: string; outputs: { data?: Record<string, string>; text?: string }[] }[];
	assert.ok(cells.some((c) => c.source.includes('json.loads')) && cells.some((c) => c.source.startsWith('%%bash')));
	assert.ok(cells.some((c) => c.outputs.some((o) => o.data?.['image/png'])) && cells.some((c) => c.outputs.some((o) => o.data?.['image/svg+xml'])), 'pictures are in it');
	const report = await download(page, 'Export as report (HTML)');
	// The report alone, without the server: no request, no script, every picture.
	const alone = await w.window();
	const asked: string[] = [];
	alone.on('request', (r) => { if (!/^(data|file):/.test(r.url())) asked.push(r.url()); });
	await alone.goto(`file://${report}`);
	await alone.getByText('caissonStruck').first().waitFor();
	await until('its pictures', () => alone.evaluate(() => document.images.length >= 2 && Array.from(document.images).every((i) => i.complete && i.naturalWidth > 0)));
	assert.deepEqual(await alone.locator('script, iframe, form, base, link, object, embed, svg, a[href], [onerror], [onload]').evaluateAll((all) => all.map((e) => e.outerHTML.slice(0, 99))), []);
	assert.deepEqual(asked, []);
	await picture(alone, 'report');
	await accessible(alone, 'the report');
}

export const dialogCases: Case[] = [
	{
		name: 'dialogs: exports, and the report alone with hostile texts in it',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			await page.goto(`${s.base}/`);
			await page.getByRole('button', { name: 'Run an example' }).click();
			await page.locator('.cell.done img').waitFor();
			await exported(w, s, page, page.url().match(/#\/sandboxes\/([^/]+)/)![1]!);
		},
	},
	{
		name: 'dialogs: checkpoints, branches, forks, names',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			const { id } = await s.rest('POST', '/sandboxes', { name: 'first' });
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			await shows(page, 'a = 1\na', '1');
			await tab(page, 'Checkpoints');
			await page.getByText('No checkpoint').waitFor();
			await page.getByRole('button', { name: 'Save a checkpoint' }).click();
			await page.getByLabel('Name').fill('not a name!');
			await page.getByRole('button', { name: 'Save', exact: true }).click();
			assert.ok(await page.getByRole('dialog').isVisible(), 'a name of another form is not sent');
			await page.getByLabel('Name').fill('one');
			await page.getByRole('button', { name: 'Save', exact: true }).click();
			await page.locator('.checkpoint-name', { hasText: 'one' }).waitFor();
			await tab(page, 'Notebook');
			await page.getByText('Checkpoint one').waitFor();
			await shows(page, 'a = 2\na', '2');
			// back, from the cell
			await page.locator('.cell', { hasText: 'Checkpoint one' }).getByRole('button', { name: 'Go on from here' }).click();
			await page.getByText('The sandbox is at one again').waitFor();
			await shows(page, 'a + 100', '101');
			// back by the list: what was there is kept as a checkpoint of its own
			await tab(page, 'Checkpoints');
			await page.locator('.checkpoint', { hasText: 'before-one' }).getByRole('button', { name: 'Restore' }).click();
			await picture(page, 'restore');
			await accessible(page, 'the question before a checkpoint is restored');
			await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click();
			await page.getByText('The sandbox is at before-one again').waitFor();
			await tab(page, 'Notebook');
			await shows(page, 'a + 200', '202');
			// a branch
			await tab(page, 'Checkpoints');
			await page.getByRole('button', { name: 'More: one', exact: true }).click();
			await page.getByRole('menuitem', { name: 'Try something from here' }).click();
			await page.getByLabel('Name of the result').fill('tried');
			await page.getByRole('dialog').getByLabel('Python code').fill('a = 7\nprint("branch has", a)');
			await picture(page, 'branch');
			await accessible(page, 'the dialog of a branch');
			await page.getByRole('dialog').getByRole('button', { name: 'Run' }).click();
			await page.locator('.cell-out').getByText('branch has 7').waitFor();
			await tab(page, 'Checkpoints');
			await page.locator('.checkpoint', { hasText: 'tried' }).waitFor();
			await picture(page, 'checkpoints');
			await page.getByRole('button', { name: 'More: tried' }).click();
			await page.getByRole('menuitem', { name: 'Delete' }).click();
			await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
			await page.locator('.checkpoint', { hasText: 'tried' }).waitFor({ state: 'detached' });
			// a fork has the files, a name, and says where it came from
			await s.put(id, 'kept.txt', 'kept');
			await more(page, 'Fork');
			await page.getByLabel('Name of the copy').fill('second');
			await page.getByRole('dialog').getByRole('button', { name: 'Make a copy' }).click();
			await page.getByRole('heading', { name: 'second' }).waitFor();
			await shows(page, 'open("kept.txt").read()', `'kept'`);
			await tab(page, 'Limits');
			await page.locator('dt', { hasText: 'Copied from' }).waitFor();
			await page.getByRole('img', { name: /^Memory: now/ }).waitFor();
			await picture(page, 'use');
			await accessible(page, 'limits and use');
			// another limit, refused and taken
			const limits = page.getByRole('dialog');
			await page.getByRole('button', { name: 'Change limits' }).click();
			await limits.getByLabel('Memory (MiB)').fill('99999999');
			await limits.getByRole('button', { name: 'Save' }).click();
			await limits.getByRole('alert').waitFor();
			await limits.getByLabel('Memory (MiB)').fill('300');
			await limits.getByLabel('Processes').fill('33');
			await picture(page, 'change-limits');
			await accessible(page, 'the dialog of limits');
			await limits.getByRole('button', { name: 'Save' }).click();
			await page.locator('dd', { hasText: 'of at most 33' }).waitFor();
			await page.getByRole('link', { name: 'Sandboxes', exact: true }).first().click();
			await page.getByRole('button', { name: 'More: second' }).click();
			await page.getByRole('menuitem', { name: 'Rename' }).click();
			await page.getByRole('dialog').getByLabel('Name').fill('renamed');
			await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
			await page.getByRole('link', { name: /^renamed/ }).waitFor();
			const row = page.locator('.box', { hasText: 'renamed' });
			await row.locator('.figure', { hasText: 'Runs' }).getByText('1', { exact: true }).waitFor();
			await row.locator('.figure', { hasText: 'Memory' }).getByText(/\d/).waitFor();
		},
	},
	{
		name: 'dialogs: a frame that is ready before a busy page has painted',
		async run(w) {
			const s = await server(w);
			const { id } = await s.rest('POST', '/sandboxes', {});
			await s.put(id, 'drawn.html', '<!doctype html><p>It is drawn.</p>');
			const page = await w.window();
			// The page is so busy that what it does after painting comes long after the frame's first word, which is said once.
			await page.addInitScript(() => {
				if (window !== top)
					return;
				const later = window.setTimeout;
				window.requestAnimationFrame = (fn) => later(() => fn(performance.now()), 1000) as unknown as number;
				window.setTimeout = ((fn: () => void, ms?: number) => later(fn, (ms ?? 0) + 1000)) as typeof window.setTimeout;
			});
			await page.goto(`${s.base}/#/sandboxes/${id}/files/drawn.html`);
			await page.frameLocator('iframe').getByText('It is drawn.').waitFor();
		},
	},
	{
		name: 'dialogs: previews, the terminal',
		async run(w) {
			const s = await server(w);
			const page = await w.window();
			const { id } = await s.rest('POST', '/sandboxes', { name: 'files' });
			await s.put(id, 'paper.pdf', PDF);
			await s.put(id, 'drawing.svg', SVG);
			await page.goto(`${s.base}/#/sandboxes/${id}/files/drawing.svg`);
			await page.waitForFunction(() => Array.from(document.querySelectorAll<HTMLImageElement>('.files-preview img')).some((i) => i.complete && i.naturalWidth === 120));
			await page.getByRole('link', { name: /^paper\.pdf/ }).first().click();
			// Without a window system there is no viewer: then the page offers the file.
			if (await page.evaluate(() => navigator.pdfViewerEnabled)) {
				const source = await page.locator('.preview-body iframe').getAttribute('src');
				assert.match(source!, /^blob:/);
				assert.equal(await page.evaluate(async (u) => (await fetch(u)).text(), source!), PDF);
			} else {
				await page.getByText('This browser shows no PDF inside a page').waitFor();
			}
			await accessible(page, 'a PDF');
			const [file] = await Promise.all([page.waitForEvent('download'), page.locator('.preview-head').getByRole('link', { name: 'Download' }).click()]);
			assert.equal(fs.readFileSync((await file.path())!, 'utf8'), PDF);
			await tab(page, 'Terminal');
			await page.locator('.terminal textarea').waitFor({ state: 'attached' });
			await page.locator('.terminal').click();
			const screen = (text: string): Promise<unknown> => page.waitForFunction((t) => document.querySelector('.terminal .xterm-rows')?.textContent?.includes(t), text);
			await page.keyboard.type('mkdir deep && cd deep && x=kept && echo at-$((40+2))\n');
			await screen('at-42');
			await page.keyboard.type('echo "in $PWD $x $(tty | cut -c1-8) $(tput cols | wc -c)"; python3 -q\n');
			await screen('in /mnt/data/deep kept /dev/pts');
			await screen('>>>');
			await page.keyboard.type('input("who? ")\n');
			await screen('who?');
			await page.keyboard.type('me\n');
			await screen("'me'");
			await page.keyboard.press('Control+d');
			await page.keyboard.type('echo begun; sleep 1000\n');
			await screen('begun');
			await page.keyboard.press('Control+c');
			await page.keyboard.type('echo over-$((1+1))\n');
			await screen('over-2');
			// another tab, and back: the shell has gone on, and its screen is there
			await tab(page, 'Files');
			await tab(page, 'Terminal');
			await screen('over-2');
			await page.locator('.terminal').click();
			await page.keyboard.type('echo "still $x"\n');
			await screen('still kept');
			assert.equal((await s.rest('GET', `/sandboxes/${id}/terminals`)).terminals.length, 1);
			await page.keyboard.type('exit 3\n');
			await screen('ended with status 3');
			await page.keyboard.press('Enter');
			await page.keyboard.type('echo "new:$x:"\n');
			await screen('new::');
			await page.keyboard.type('exit\n');
			await screen('The shell has ended. Press Enter');
			// a small page that code made is shown no higher than it is
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'open("small.html", "w").write("<!doctype html><p>Small.</p>")', wait: true });
			await tab(page, 'Notebook');
			await page.frameLocator('.run-file iframe, .run-files iframe').getByText('Small.').waitFor();
			await until('the frame fits', async () => (await page.locator('.run-files iframe').boundingBox())!.height < 120);
		},
	},
];
