// SPDX-License-Identifier: Apache-2.0
// Files on the page: names, folders, order, what is shown of each kind, another text, what is too large.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case } from './case.ts';
import { server } from './server.ts';

const NOTE = '# The report\n\nSome *words*, `code` and a [link](https://example.org/).\n\n- one\n- two\n\n| city | sold |\n|---|---|\n| Rome | 30 |\n\n```python\nx = 1\n```\n<script>caissonStruck("note")</script> [no](javascript:caissonStruck())\n';
const MAKE = `import wave, zipfile, time, os
with wave.open("tone.wav", "wb") as w:
    w.setnchannels(1); w.setsampwidth(2); w.setframerate(8000); w.writeframes(bytes(16000))
with zipfile.ZipFile("data.zip", "w") as z:
    z.writestr("inner/table.csv", "a,b")
with zipfile.ZipFile("letter.docx", "w") as z:
    z.writestr("word/document.xml", '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>A letter</w:t></w:r></w:p><w:p><w:r><w:t>Dear reader</w:t></w:r></w:p></w:body></w:document>')
f = "http://schemas.openxmlformats.org/"
with zipfile.ZipFile("talk.pptx", "w") as z:
    z.writestr("ppt/presentation.xml", '<p:presentation xmlns:p="%spresentationml/2006/main" xmlns:r="%sofficeDocument/2006/relationships"><p:sldIdLst><p:sldId id="1" r:id="a"/><p:sldId id="2" r:id="b"/></p:sldIdLst></p:presentation>' % (f, f))
    z.writestr("ppt/_rels/presentation.xml.rels", '<Relationships xmlns="%spackage/2006/relationships"><Relationship Id="a" Target="slides/s1.xml"/><Relationship Id="b" Target="/ppt/slides/s2.xml"/></Relationships>' % f)
    for i, title in (1, "A talk"), (2, "&lt;img src=x onerror=caissonStruck()&gt;"):
        z.writestr("ppt/slides/s%d.xml" % i, '<p:sld xmlns:p="%spresentationml/2006/main" xmlns:a="%sdrawingml/2006/main"><p:sp><p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>%s</a:t></a:r></a:p></p:txBody></p:sp><p:sp><p:txBody><a:p><a:r><a:t>Words of slide %d</a:t></a:r></a:p></p:txBody></p:sp></p:sld>' % (f, f, title, i))
os.makedirs(".output", exist_ok=True)
open(".output/all.txt", "w").write("all")
open("broken.mp4", "w").write("no film")
open("aaa-old.txt", "w").write("old"); os.utime("aaa-old.txt", (1, 1))`;

const names = (page: Page): Promise<string[]> => page.locator('.tree > ul > li > .entry .entry-name').allTextContents();
const more = async (page: Page, of: string, item: string): Promise<void> => {
	await page.getByRole('button', { name: `More: ${of}`, exact: true }).click();
	await page.getByRole('menuitem', { name: item }).click();
};

export const fileCases: Case[] = [{
	name: 'files: names, folders, order, texts, previews, limits',
	async run(w) {
		const s = await server(w, { env: { SANDBOX_MAX_UPLOAD_BYTES: '2097152' } });
		const page = await w.window();
		const { id } = await s.rest('POST', '/sandboxes', { name: 'files' });
		await s.rest('POST', `/sandboxes/${id}/runs`, { code: MAKE, wait: true });
		await s.put(id, 'note.md', NOTE);
		const files = `${s.base}/#/sandboxes/${id}/files`;
		await page.goto(`${files}/note.md`);
		// Markdown
		const note = page.locator('.markdown');
		await note.getByRole('heading', { name: 'The report' }).waitFor();
		assert.deepEqual([await note.locator('em').textContent(), await note.locator('td').allTextContents(), await note.locator('a').count()], ['words', ['Rome', '30'], 1]);
		await note.getByText('<script>').waitFor();
		await picture(page, 'files-note');
		await accessible(page, 'a note');
		// order and hidden files
		await until('the list is here', async () => (await names(page)).length > 5);
		assert.ok((await names(page))[0] === 'aaa-old.txt' && !(await names(page)).includes('.output'), (await names(page)).join());
		await page.getByLabel('Order').selectOption('newest');
		await until('the oldest is last', async () => (await names(page)).at(-1) === 'aaa-old.txt');
		await page.getByLabel('Order').selectOption('size');
		await until('the largest is first', async () => (await names(page))[0] === 'tone.wav');
		await page.getByLabel('Hidden files').check();
		await until('hidden ones are shown', async () => (await names(page))[0] === '.output');
		await page.getByLabel('Hidden files').uncheck();
		await page.getByLabel('Order').selectOption('name');
		// by name, in all folders
		await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'import os\nos.makedirs("deep/er/.hidden"); open("deep/er/Needle <b>.txt", "w").write("1"); open("deep/er/.hidden/needle", "w")\nfor i in range(230): os.makedirs("many/%03d" % i)', wait: true });
		const find = page.getByRole('searchbox', { name: 'Find by name, in all folders' });
		await find.fill('nEEdle');
		await page.getByText('1 name found. The workspace is larger than a search looks through (200 folders').waitFor();
		await page.locator('.tree a', { hasText: 'Needle <b>.txt deep/er' }).click();
		await page.getByRole('heading', { name: 'Needle <b>.txt' }).waitFor();
		await picture(page, 'files-found');
		await accessible(page, 'found files');
		await find.fill('nothing has it');
		await page.getByText('No name has these words.').waitFor();
		await s.rest('DELETE', `/sandboxes/${id}/files/many?recursive=true`);
		await find.fill('needle');
		await page.getByText('1 name found.', { exact: true }).waitFor();
		await page.setViewportSize({ width: 390, height: 800 });
		await page.goto(files);
		await find.fill('needle');
		await page.locator('.tree a', { hasText: 'Needle <b>.txt' }).waitFor();
		assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
		await picture(page, 'files-found-phone');
		await page.setViewportSize({ width: 1280, height: 860 });
		await find.fill('');
		// previews
		for (const [name, sign] of [['letter.docx', () => page.locator('.preview-body').getByRole('heading', { name: 'A letter' })], ['talk.pptx', () => page.getByRole('heading', { name: 'Slide 2' })], ['data.zip', () => page.getByText('inner/table.csv')], ['tone.wav', () => page.locator('audio[controls]')], ['broken.mp4', () => page.getByText('The browser cannot play this file')]] as const) {
			await page.getByRole('link', { name, exact: true }).click();
			await sign().waitFor();
			await picture(page, `files-${name.replace('.', '-')}`);
		}
		await page.getByRole('link', { name: 'tone.wav', exact: true }).click();
		await page.waitForFunction(() => { const a = document.querySelector('audio'); return a !== null && a.duration > 0.9; });
		// another text
		await page.getByRole('link', { name: 'note.md', exact: true }).click();
		await page.getByRole('button', { name: 'Edit', exact: true }).click();
		await page.getByLabel('Text of note.md').fill('# Other words\n');
		await s.put(id, 'note.md', '# By a run\n');
		await page.getByRole('button', { name: 'Save', exact: true }).click();
		await page.getByText('The file has changed since you began.').waitFor();
		await picture(page, 'files-edit');
		await accessible(page, 'a text that is edited');
		await page.getByRole('button', { name: 'Save', exact: true }).click();
		await note.getByRole('heading', { name: 'Other words' }).waitFor();
		// folders and names
		await page.getByRole('button', { name: 'New folder' }).click();
		await page.getByRole('dialog').getByLabel('Name').fill('in/side');
		await picture(page, 'files-folder');
		await page.getByRole('dialog').getByRole('button', { name: 'Make it' }).click();
		await page.getByRole('button', { name: 'in', exact: true }).waitFor();
		await more(page, 'note.md', 'Rename');
		await page.getByRole('dialog').getByLabel('Name').fill('data.zip');
		await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
		await page.getByRole('dialog').getByText('there is something of the name data.zip already').waitFor();
		await page.getByRole('dialog').getByLabel('Name').fill('in/side/note.md');
		await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
		await page.waitForURL(/\/files\/in\/side\/note\.md$/);
		await note.getByRole('heading', { name: 'Other words' }).waitFor();
		await more(page, 'in', 'Delete');
		await accessible(page, 'a folder that is to be deleted');
		await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
		await page.getByRole('button', { name: 'in', exact: true }).waitFor({ state: 'detached' });
		// too large: said before it is sent, with the limit, and without a button that would not help
		await page.goto(files);
		await page.locator('input[type=file]').setInputFiles({ name: 'large.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(3 << 20) });
		await page.getByText('It has 3.0 MiB; this server takes files of at most 2.0 MiB.').waitFor();
		assert.equal(await page.locator('.upload').getByRole('button', { name: 'Try again' }).count(), 0);
		await picture(page, 'files-too-large');
		await accessible(page, 'an upload that is too large');
	},
}];
