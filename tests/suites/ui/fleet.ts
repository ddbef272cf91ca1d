// SPDX-License-Identifier: Apache-2.0
// The page at the router of a fleet: everything that it shows of sandboxes comes from two workers.

import assert from 'node:assert/strict';
import { startFleet } from '../../lib/real-fleet.ts';
import { until } from '../../lib/wait.ts';
import { picture, type Case } from './case.ts';
import { Server, signIn } from './server.ts';

export const fleetCases: Case[] = [{
	name: 'fleet: the page of a router',
	async run(w) {
		const fleet = await startFleet('ui-fleet', { router: { SANDBOX_REQUIRE_AUTH: 'on' } });
		w.atEnd(() => fleet.end());
		const s = new Server(fleet.base, fleet.port, fleet.env.SANDBOX_STATE_DIR!, fleet.router, fleet.env);
		await s.person('ada', 'admin');
		const key = await s.key('ada'), ids: string[] = [];
		const worker = (id: string): string => id.slice(5, 9);
		const page = await w.window();
		await signIn(page, s, 'ada');
		while (ids.length < 20 && new Set(ids.map(worker)).size < 2)
			ids.push((await s.rest('POST', '/sandboxes', { name: `box ${ids.length}` }, key)).id as string);
		/* The home page hears of sandboxes of both workers, without a reload. */
		for (let i = 0; i < ids.length; i++)
			await page.getByText(`box ${i}`, { exact: true }).first().waitFor();
		await picture(page, 'fleet-home');

		for (const id of [ids[0]!, ids.at(-1)!]) {
			const at = (tab: string): Promise<unknown> => page.goto(`${s.base}/#/sandboxes/${id}/${tab}`);
			await page.goto(`${s.base}/#/sandboxes/${id}`);
			await page.getByRole('textbox', { name: 'Python code' }).waitFor();
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'import matplotlib.pyplot as p\np.plot([1, 3, 2])\np.show()\nprint("from the", 6 * 7)\nopen("made.txt", "w").write("file of a run")', wait: true }, key);
			await page.locator('.cell.done', { hasText: 'from the 42' }).waitFor();
			await page.locator('.cell.done img').first().waitFor();
			await picture(page, `fleet-notebook-${worker(id)}`);
			await at('files');
			await page.getByText('made.txt').first().waitFor();
			await at('files/made.txt');
			await page.getByText('file of a run').first().waitFor();
			await at('terminal');
			await page.locator('.terminal textarea').waitFor({ state: 'attached' });
			await page.locator('.terminal').click();
			await page.keyboard.type('echo $((40 + 2))x\n');
			await page.waitForFunction(() => document.querySelector('.terminal .xterm-rows')?.textContent?.includes('42x'));
			await s.rest('POST', `/sandboxes/${id}/processes`, { command: 'python3 -m http.server 8000' }, key);
			await at('ports');
			await page.getByText('8000').first().waitFor();
			await picture(page, `fleet-ports-${worker(id)}`);
		}

		await page.getByRole('link', { name: 'History', exact: true }).click();
		await until('both notebooks are there', async () => await page.locator('.past-row').count() >= 2, 10_000);
		await page.getByRole('searchbox').fill('matplotlib');
		await page.locator('.hit').nth(1).waitFor();
		await picture(page, 'fleet-history');
		await page.getByRole('link', { name: 'Keys', exact: true }).click();
		await page.getByRole('heading', { name: 'Keys' }).waitFor();
		await page.getByRole('link', { name: 'People', exact: true }).click();
		await page.getByText('ada@example.org').first().waitFor();
		await page.getByRole('link', { name: 'Server', exact: true }).click();
		await page.getByText(/worker \w{3} of the fleet/).waitFor();
		await page.getByRole('link', { name: 'Images', exact: true }).click();
		await page.getByText(/each worker of a fleet has images of its own/).waitFor();
		assert.equal(await page.getByRole('button', { name: /^Build/ }).count(), 0);
		await picture(page, 'fleet-images');
	},
}];
