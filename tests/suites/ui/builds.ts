// SPDX-License-Identifier: Apache-2.0
// Images: an administrator builds one, reads its output as it comes, cancels one, and reads why one failed.

import assert from 'node:assert/strict';
import { Builds } from '../../lib/builds.ts';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case } from './case.ts';
import { server, signIn } from './server.ts';

export const buildCases: Case[] = [{
	name: 'builds: an image is built, cancelled, and fails, with its output',
	async run(w) {
		const builds = new Builds();
		const s = await server(w, { auth: true, env: builds.env, under: builds.under });
		await s.person('ada', 'admin');
		const page = await w.window();
		await signIn(page, s, 'ada');
		await page.getByRole('link', { name: 'Server', exact: true }).click();
		await page.getByRole('link', { name: 'Images', exact: true }).click();
		await page.getByText('the image broken').waitFor();
		const choose = async (name: string): Promise<void> => {
			await page.getByLabel('Definition').selectOption(name);
			await page.getByRole('button', { name: /^Build( again)?$/ }).click();
		};
		const build = (name: string) => page.getByRole('region', { name: `Build of ${name}` });
		const state = (name: string, words: string) => build(name).getByRole('status').getByText(words, { exact: true }).waitFor({ timeout: 60_000 });

		await choose('slow');
		await build('slow').getByText(/installing packages/).waitFor();
		await state('slow', 'building');
		assert.ok(await page.getByRole('button', { name: 'Build', exact: true }).isDisabled(), 'one at a time');
		await picture(page, 'image-build');
		await accessible(page, 'a build under way');
		await page.emulateMedia({ colorScheme: 'dark' });
		await picture(page, 'image-build-dark');
		await page.emulateMedia({ colorScheme: 'light' });
		const small = await w.tab(page);
		await small.setViewportSize({ width: 390, height: 800 });
		await small.goto(`${s.base}/#/server/images`);
		await small.getByText(/installing packages/).waitFor();
		await picture(small, 'image-build-narrow');
		await accessible(small, 'a build under way, narrow');
		assert.ok(await small.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 1, 'it is not wider than the window');
		await small.close();
		await build('slow').getByRole('button', { name: 'Cancel the build' }).click();
		await state('slow', 'cancelled');

		await choose('broken');
		await state('broken', 'failed');
		await build('broken').getByText(/lacks a package/).first().waitFor();
		await picture(page, 'image-build-failed');
		await accessible(page, 'a build that failed');

		await choose('slow');
		await build('slow').getByText(/installing packages/).waitFor();
		builds.goOn();
		await state('slow', 'done');
		await page.getByRole('table', { name: 'Images' }).getByText('slow', { exact: true }).waitFor();
		await page.getByRole('button', { name: 'Build again' }).waitFor();
		await picture(page, 'image-built');
		await page.getByRole('link', { name: 'Audit', exact: true }).click();
		await page.getByRole('cell', { name: 'Build of an image cancelled' }).waitFor();
		await until('three builds in the audit log', async () => await page.getByRole('cell', { name: 'Build of an image begun' }).count() === 3);
	},
}];
