// SPDX-License-Identifier: Apache-2.0
// Images that an administrator makes in the page: from a Dockerfile among the files, and of a sandbox with a root user; and removing them.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { engine, mode } from '../../lib/env.ts';
import { stateOfItsOwn } from '../../lib/own-images.ts';
import type { Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case, type World } from './case.ts';
import { server, signIn, type Server } from './server.ts';

const possible = mode === 'root' && engine === 'native'; // elsewhere no sandbox can have a root user
const BUILD_MS = 60_000;
const PHONE = { width: 390, height: 800 };
const DESK = { width: 1280, height: 860 };

/** A server on which images can be made of sandboxes, where that is possible; ada, who administrates it, has the key. */
async function makes(w: World): Promise<{ s: Server; key: string; page: Page }> {
	const s = await server(w, { auth: true, env: { SANDBOX_STATE_DIR: stateOfItsOwn(), SANDBOX_IMAGE: 'base', SANDBOX_IMAGES: '*', ...(possible && { SANDBOX_ROOT: 'on' }) } });
	await s.person('ada', 'admin');
	const page = await w.window();
	await signIn(page, s, 'ada');
	return { s, key: await s.key('ada', 'admin'), page };
}

/** In light and dark, and as wide as a phone. */
async function looks(page: Page, name: string, what: string): Promise<void> {
	await picture(page, name);
	await accessible(page, what);
	await page.emulateMedia({ colorScheme: 'dark' });
	await picture(page, `${name}-dark`);
	await accessible(page, `${what}, dark`);
	await page.emulateMedia({ colorScheme: 'light' });
	await page.setViewportSize(PHONE);
	await picture(page, `${name}-narrow`);
	await accessible(page, `${what}, narrow`);
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 1, `${what} is not wider than the window`);
	await page.setViewportSize(DESK);
}

const dialog = (page: Page) => page.getByRole('dialog');
const state = (page: Page, words: string): Promise<void> => dialog(page).getByRole('status').getByText(words, { exact: true }).waitFor({ timeout: BUILD_MS });
const imagesOf = async (s: Server, key: string): Promise<Json[]> => (await s.rest('GET', '/images', undefined, key)).images;

async function items(page: Page, of: string): Promise<string[]> {
	await page.getByRole('button', { name: of, exact: true }).click();
	const all = await page.getByRole('menuitem').allTextContents();
	await page.keyboard.press('Escape');
	return all;
}

async function choose(page: Page, of: string, item: string): Promise<void> {
	await page.getByRole('button', { name: of, exact: true }).click();
	await page.getByRole('menuitem', { name: item }).click();
	await dialog(page).waitFor();
}

/** What COMMAND says in a new sandbox of IMAGE. */
async function inside(s: Server, key: string, image: string, command: string): Promise<string> {
	const { id } = await s.rest('POST', '/sandboxes', { image }, key);
	const { stdout } = await s.rest('POST', `/sandboxes/${id}/runs`, { command, wait: true }, key);
	await s.rest('DELETE', `/sandboxes/${id}?force=true`, undefined, key);
	return stdout;
}

async function refused(page: Page): Promise<void> {
	const name = dialog(page).getByLabel('Name of the image');
	assert.equal(await name.inputValue(), 'my-app', 'the name of the folder');
	for (const wrong of ['My-app', 't.app', '.app', 'a b'])
		assert.ok(await name.fill(wrong).then(() => name.evaluate((i) => (i as HTMLInputElement).validity.patternMismatch)), wrong);
	await name.fill('my-app');
	await dialog(page).getByText('Build arguments, stage').click();
	await dialog(page).getByLabel('Build arguments').fill('GREETING=hello you\nWHO');
	await dialog(page).getByRole('button', { name: 'Build', exact: true }).click();
	await dialog(page).getByRole('alert').getByText('Not NAME=value: WHO').waitFor();
}

async function fromFile(w: World): Promise<void> {
	const { s, key, page } = await makes(w);
	const { id } = await s.rest('POST', '/sandboxes', {}, key);
	const files: Record<string, string> = {
		'My App/Dockerfile': 'FROM base AS one\nARG GREETING\nCOPY note.txt /srv/note\nRUN echo "$GREETING" > /srv/greeting\nFROM one\nRUN exit 7\n',
		'My App/note.txt': 'a note', 'My App/Dockerfile.dockerignore': 'x', 'slow.Dockerfile': 'FROM base\nRUN echo some first words; sleep 600\n', 'Dockerfile.broken': 'FROM base\n\nRUN echo what it said; exit 3\n',
	};
	for (const [name, words] of Object.entries(files)) await s.put(id, name, words, key);
	await page.goto(`${s.base}/#/sandboxes/${id}/files`);
	await page.getByRole('button', { name: 'My App', exact: true }).click();
	await page.getByRole('link', { name: 'note.txt' }).waitFor();
	if (!possible) {
		assert.ok(!(await items(page, 'More: Dockerfile')).includes('Build an image …'), 'this server makes no images of sandboxes');
		return;
	}
	for (const other of ['More: note.txt', 'More: Dockerfile.dockerignore', 'More: My App'])
		assert.ok(!(await items(page, other)).includes('Build an image …'), other);

	// One that takes long: its output comes while it goes on, and it is cancelled.
	await choose(page, 'More: slow.Dockerfile', 'Build an image …');
	await dialog(page).getByLabel('Name of the image').fill('slow');
	await page.keyboard.press('Enter');
	await dialog(page).getByText('some first words', { exact: true }).waitFor({ timeout: BUILD_MS });
	await state(page, 'building');
	await looks(page, 'image-of-file-building', 'a build from a Dockerfile');
	// Whoever closes it ends nothing; another one is refused in the server's words.
	await page.keyboard.press('Escape');
	await choose(page, 'More: Dockerfile', 'Build an image …');
	await refused(page);
	await dialog(page).getByLabel('Build arguments').fill('GREETING=hello you\n');
	await dialog(page).getByLabel('Stage').fill('one');
	await dialog(page).getByRole('button', { name: 'Build', exact: true }).click();
	await dialog(page).getByRole('alert').getByText(/the image 'slow' is being built/).waitFor();
	await looks(page, 'image-of-file-refused', 'a build that was refused');
	const second = await w.tab(page);
	await second.goto(`${s.base}/#/server/images`);
	await second.getByRole('region', { name: 'Build of slow' }).getByRole('button', { name: 'Cancel the build' }).click();
	await second.getByRole('region', { name: 'Build of slow' }).getByText('cancelled', { exact: true }).waitFor();
	await second.close();
	// What was typed is still there, and now it is built.
	await dialog(page).getByRole('button', { name: 'Build', exact: true }).click();
	await state(page, 'done');
	await dialog(page).getByText('The image my-app is ready.').waitFor();
	await looks(page, 'image-of-file-done', 'a build that is done');
	await dialog(page).getByRole('button', { name: 'Close' }).click();
	assert.equal(await inside(s, key, 'my-app', 'cat /srv/note /srv/greeting'), 'a notehello you\n');

	// From the preview: cancelled in the dialog, and one that fails says why.
	await page.getByRole('link', { name: 'slow.Dockerfile' }).click();
	await page.getByRole('button', { name: 'Build an image …' }).click();
	assert.equal(await dialog(page).getByLabel('Name of the image').inputValue(), '', 'it is in no folder, and the sandbox has no name');
	await dialog(page).getByLabel('Name of the image').fill('slow');
	await looks(page, 'image-of-file', 'the question before a build');
	await dialog(page).getByRole('button', { name: 'Build', exact: true }).click();
	await dialog(page).getByText('some first words', { exact: true }).waitFor({ timeout: BUILD_MS });
	await dialog(page).getByRole('button', { name: 'Cancel the build' }).click();
	await state(page, 'cancelled');
	await page.keyboard.press('Escape');
	await choose(page, 'More: Dockerfile.broken', 'Build an image …');
	await dialog(page).getByLabel('Name of the image').fill('broken');
	await page.keyboard.press('Enter');
	await state(page, 'failed');
	await dialog(page).getByRole('paragraph').getByText('Dockerfile.broken:3: RUN echo what it said; exit 3: exit status 3').waitFor();
	await dialog(page).getByText('what it said', { exact: true }).waitFor();
	await looks(page, 'image-of-file-failed', 'a build that failed');
	assert.deepEqual((await imagesOf(s, key)).map((i) => [i.name, i.of_sandbox]), [['base', false], ['my-app', true]]);
}

const MORE = 'More actions of this sandbox';
const MAKE = 'Make an image of this sandbox …';

async function ofSandbox(w: World): Promise<void> {
	const { s, key, page } = await makes(w);
	await s.person('bob');
	if (!possible)
		return;
	const { id } = await s.rest('POST', '/sandboxes', { root: true, name: 'Drawing Tools' }, key);
	const plain = await s.rest('POST', '/sandboxes', {}, key);
	await s.rest('POST', `/sandboxes/${id}/runs`, { command: 'echo made by root > /srv/made; echo x > /mnt/data/of-workspace', user: 'root', wait: true }, key);
	await page.goto(`${s.base}/#/sandboxes/${plain.id}`);
	await page.getByRole('button', { name: MORE }).waitFor();
	assert.ok(!(await items(page, MORE)).includes(MAKE), 'a sandbox without a root user');
	const bobs = await s.rest('POST', '/sandboxes', { root: true }, await s.key('bob'));
	const other = await w.window();
	await signIn(other, s, 'bob');
	await other.goto(`${s.base}/#/sandboxes/${bobs.id}`);
	await other.getByRole('button', { name: MORE }).waitFor();
	assert.ok(!(await items(other, MORE)).includes(MAKE), 'bob is no administrator');
	await other.close();

	await page.goto(`${s.base}/#/sandboxes/${id}`);
	await until('the action', async () => (await items(page, MORE)).includes(MAKE));
	await choose(page, MORE, MAKE);
	const name = dialog(page).getByLabel('Name of the image');
	assert.equal(await name.inputValue(), 'drawing-tools');
	await dialog(page).getByText(/files of the workspace.* are not in it/).waitFor();
	await looks(page, 'image-of-sandbox', 'the question before an image of a sandbox');
	await name.fill('base');
	await page.keyboard.press('Enter');
	await dialog(page).getByText(/image 'base' was not made of a sandbox and is not replaced/).first().waitFor({ timeout: BUILD_MS });
	await picture(page, 'image-of-sandbox-refused');
	await page.keyboard.press('Escape');
	await choose(page, MORE, MAKE);
	await page.keyboard.press('Enter');
	await state(page, 'done');
	await looks(page, 'image-of-sandbox-done', 'an image of a sandbox');
	await page.keyboard.press('Escape');
	assert.equal(await inside(s, key, 'drawing-tools', 'cat /srv/made; ls'), 'made by root\n');

	// The list removes it, and nothing that was made in another way.
	await page.getByRole('link', { name: 'Server', exact: true }).click();
	await page.getByRole('link', { name: 'Images', exact: true }).click();
	const table = page.getByRole('table', { name: 'Images' });
	await table.getByText('of a sandbox', { exact: true }).waitFor();
	assert.equal(await table.getByRole('button', { name: /^Remove/ }).count(), 1);
	await looks(page, 'images', 'the list of images');
	await table.getByRole('button', { name: 'Remove the image drawing-tools' }).click();
	await looks(page, 'image-remove', 'the question before a removal');
	await dialog(page).getByRole('button', { name: 'Cancel' }).click();
	assert.equal((await imagesOf(s, key)).length, 2, 'nothing without a yes');
	await table.getByRole('button', { name: 'Remove the image drawing-tools' }).click();
	await dialog(page).getByRole('button', { name: 'Remove', exact: true }).click();
	await page.getByRole('region', { name: 'Removal of drawing-tools' }).getByText('done', { exact: true }).waitFor();
	await table.getByText('drawing-tools').waitFor({ state: 'detached' });
	await picture(page, 'image-removed');
	assert.deepEqual((await imagesOf(s, key)).map((i) => i.name), ['base']);
	await page.getByRole('link', { name: 'Audit', exact: true }).click();
	await page.getByRole('cell', { name: 'Image removed' }).waitFor();
	await page.getByRole('cell', { name: 'Image made of a sandbox' }).first().waitFor();
}

/** SANDBOX_ROOT is off: the server would refuse, so nothing is offered. */
async function off(w: World): Promise<void> {
	const s = await server(w, { env: { SANDBOX_IMAGE: 'base' } });
	const page = await w.window();
	const { id } = await s.rest('POST', '/sandboxes');
	await s.put(id, 'Dockerfile', 'FROM base\n');
	const asked = page.waitForResponse((r) => r.url().endsWith('/api/v1/images'));
	await page.goto(`${s.base}/#/sandboxes/${id}/files/Dockerfile`);
	assert.equal((await (await asked).json()).of_sandboxes, false);
	await page.getByText('FROM base').waitFor();
	assert.ok(!(await items(page, 'More: Dockerfile')).includes('Build an image …'));
	assert.equal(await page.getByRole('button', { name: 'Build an image …' }).count(), 0);
	assert.ok(!(await items(page, MORE)).includes(MAKE));
}

export const imageCases: Case[] = [
	{ name: 'images: one is built from a Dockerfile among the files', limitMs: 180_000, run: fromFile },
	{ name: 'images: one is made of a sandbox with a root user, and removed', limitMs: 180_000, run: ofSandbox },
	{ name: 'images: nothing is offered where SANDBOX_ROOT is off', run: off },
];
