// SPDX-License-Identifier: Apache-2.0
// Every page, light, dark and narrow: nothing leaves the window, axe-core finds nothing, and a picture is kept.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { until } from '../../lib/wait.ts';
import { accessible, picture, type Case } from './case.ts';
import { server, signIn, type Server } from './server.ts';

const CODE = `import pandas as pd, matplotlib.pyplot as plt
df = pd.DataFrame({"month": ["Jan", "Feb", "Mar", "Apr"], "sales": [41, 38, 52, 67]})
df.to_csv("sales.csv", index=False)
open("report.html", "w").write("<h1>Report</h1><p>Four months.</p>")
open("notes.md", "w").write("# Notes\\n\\nA text.\\n")
print("\\x1b[32mgreen\\x1b[0m and \\x1b[1mbold\\x1b[0m")
df.plot.bar(x="month", y="sales", rot=0)
df.sales.mean()`;

interface Place { name: string; path: string; ready: (p: Page) => Promise<unknown> }

async function prepare(s: Server): Promise<{ id: string; places: Place[] }> {
	const key = await s.key('ada', 'admin');
	const { id } = await s.rest('POST', '/sandboxes', { kind: 'stored', name: 'Sales report', labels: { team: 'north' }, env: { TOKEN: 'secret value' } }, key);
	for (const body of [{ code: CODE, stateful: true, wait: true }, { command: 'ls -la', wait: true }, { code: 'df.sales[7]', stateful: true, wait: true }])
		await s.rest('POST', `/sandboxes/${id}/runs`, body, key);
	await s.rest('POST', `/sandboxes/${id}/checkpoints`, { name: 'before' }, key);
	await s.rest('POST', `/sandboxes/${id}/processes`, { command: 'echo done' }, key);
	await s.rest('POST', `/sandboxes/${id}/processes`, { command: 'printf "\\033[32mlistening\\033[0m on 127.0.0.1:8000\\n"; echo "a warning" >&2; exec sleep 10000', name: 'web server', input: true }, key);
	await s.rest('POST', '/invitations', { note: 'Kim from the lab' }, key);
	const text = (t: string | RegExp) => (p: Page) => p.getByText(t).first().waitFor();
	const at = `sandboxes/${id}`;
	return { id, places: [
		{ name: 'home', path: '', ready: text('Sales report') },
		{ name: 'connect', path: 'connect', ready: text('Claude Code') },
		{ name: 'notebook', path: at, ready: (p) => p.locator('.cell.done').last().waitFor() },
		{ name: 'files', path: `${at}/files/sales.csv`, ready: text('month') },
		{ name: 'file-html', path: `${at}/files/report.html`, ready: (p) => p.frameLocator('iframe').getByText('Four months.').waitFor() },
		{ name: 'file-text', path: `${at}/files/notes.md`, ready: text('A text.') },
		{ name: 'terminal', path: `${at}/terminal`, ready: (p) => p.locator('.terminal textarea').waitFor({ state: 'attached' }) },
		{ name: 'processes', path: `${at}/processes/p2`, ready: text('listening') },
		{ name: 'packages', path: `${at}/packages`, ready: text('pandas') },
		{ name: 'checkpoints', path: `${at}/checkpoints`, ready: text('before') },
		{ name: 'limits', path: `${at}/limits`, ready: text(/Memory|memory/) },
		{ name: 'history', path: 'history', ready: text('Sales report') },
		{ name: 'history-search', path: 'history?q=sales', ready: (p) => p.locator('mark').first().waitFor() },
		{ name: 'keys', path: 'keys', ready: (p) => p.getByRole('table', { name: 'Keys' }).waitFor() },
		{ name: 'everyone', path: 'everyone', ready: text('Sales report') },
		{ name: 'people', path: 'people', ready: (p) => p.getByRole('table', { name: 'People' }).waitFor() },
		{ name: 'invitations', path: 'invitations', ready: text('Kim from the lab') },
		{ name: 'audit', path: 'audit', ready: (p) => p.getByRole('table', { name: 'Audit' }).waitFor() },
		{ name: 'server', path: 'server', ready: (p) => p.locator('.plot canvas, .empty').first().waitFor() },
		{ name: 'server-images', path: 'server/images', ready: text('science') },
		{ name: 'server-doctor', path: 'server/doctor', ready: (p) => p.locator('.checks li').first().waitFor() },
		{ name: 'server-settings', path: 'server/settings', ready: text('SANDBOX_REQUIRE_AUTH') },
		{ name: 'nowhere', path: 'no/such/page', ready: text('There is no such page') },
	] };
}

const looks = [
	{ name: 'light', o: {} },
	{ name: 'dark', o: { colorScheme: 'dark' } },
	{ name: 'narrow', o: { viewport: { width: 390, height: 800 }, hasTouch: true } },
] as const;

export const shapeCases: Case[] = looks.map((look) => ({
	name: `shape: every page, ${look.name}`,
	async run(w) {
		const s = await server(w, { auth: true });
		await s.person('ada', 'admin');
		const { places } = await prepare(s);
		const page = await w.window(look.o);
		await signIn(page, s, 'ada');
		const wrong: string[] = [];
		for (const place of places) {
			try {
				await page.goto(`${s.base}/#/${place.path}`);
				await place.ready(page);
				await until('nothing loads', async () => (await page.locator('.spinner:visible').count()) === 0);
				await picture(page, `${look.name}-${place.name}`);
				await accessible(page, place.name);
				const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
				assert.ok(over <= 1, `${place.name} is ${over} pixels wider than the window`);
				w.check();
			} catch (e) {
				wrong.push(`${place.name}: ${(e as Error).message}`);
				await picture(page, `${look.name}-${place.name}`);
			}
		}
		assert.deepEqual(wrong, []);
	},
}));
