// SPDX-License-Identifier: Apache-2.0
// The page without a mouse.

import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { type Case } from './case.ts';
import { PASSWORD, server } from './server.ts';

const STOPS = 60; // presses of Tab until something must have been reached

/** Presses Tab until the control called NAME has the focus, which must be visible. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
	const seen: string[] = [];
	for (let i = 0; i < STOPS; i++) {
		await page.keyboard.press('Tab');
		const at = await page.evaluate(() => {
			let e = document.activeElement as HTMLElement;
			while (e.shadowRoot?.activeElement) e = e.shadowRoot.activeElement as HTMLElement; // the editor lives in one
			const label = e.getAttribute('aria-label') || (e.id && document.querySelector(`label[for="${CSS.escape(e.id)}"]`)?.textContent) || e.textContent || '';
			const box = e.getBoundingClientRect();
			return { label: label.trim().slice(0, 60), shown: box.width > 0 && box.bottom > 0 && getComputedStyle(e).outlineStyle !== 'none' || e.matches('.cm-content, textarea') };
		});
		seen.push(at.label);
		if (name.test(at.label)) {
			assert.ok(at.shown, `the focus on ${at.label} can be seen`);
			return;
		}
	}
	assert.fail(`Tab never reaches ${name}: ${seen.join(' | ')}`);
}

export const keyboardCases: Case[] = [{
	name: 'keyboard: sign in, run, write, menus, dialogs, tree',
	async run(w) {
		const s = await server(w, { auth: true });
		await s.person('ada');
		const page = await w.window();
		await page.goto(`${s.base}/`);
		await page.getByLabel('User name').waitFor();
		if (await page.evaluate(() => document.activeElement === document.body)) await tabTo(page, /User name/);
		await page.keyboard.type('ada');
		await tabTo(page, /^Password/);
		await page.keyboard.type(PASSWORD);
		await page.keyboard.press('Enter');
		await page.getByRole('heading', { name: 'Nothing runs here yet' }).waitFor();
		await tabTo(page, /Skip to the content/);
		await page.keyboard.press('Enter');
		await tabTo(page, /Run an example/);
		await page.keyboard.press('Enter');
		await page.locator('.cell.done').waitFor();
		await tabTo(page, /Python code/);
		await page.keyboard.type('1 + 41');
		await page.keyboard.press('Control+Enter');
		await page.locator('.cell .value').getByText('42').waitFor();
		await page.keyboard.press('Escape');
		await page.keyboard.press('Tab');
		assert.ok(await page.evaluate(() => document.activeElement!.shadowRoot === null && document.activeElement !== document.body), 'Escape, then Tab, leaves the editor');
		// a menu: arrow keys and Escape
		await page.getByRole('button', { name: 'More actions of this sandbox' }).focus();
		await page.keyboard.press('Enter');
		const focusOn = (text: string): Promise<unknown> => page.waitForFunction((t) => document.activeElement?.textContent === t, text);
		await focusOn('Rename');
		await page.keyboard.press('ArrowDown');
		await focusOn('Restart Python');
		await page.keyboard.press('Escape');
		await page.getByRole('menu').waitFor({ state: 'detached' });
		await page.keyboard.press('Enter');
		await focusOn('Rename');
		await page.keyboard.press('Enter');
		await page.getByRole('dialog').waitFor();
		for (let i = 0; i < 12; i++) { // the focus stays in the dialog
			await page.keyboard.press('Tab');
			assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement!.closest('dialog') !== null));
		}
		await page.keyboard.press('Escape');
		await page.getByRole('dialog').waitFor({ state: 'detached' });
		// the tree of files
		await page.getByRole('link', { name: 'Files', exact: true }).press('Enter');
		await page.locator('.tree .entry-name').nth(1).waitFor();
		await page.locator('.tree .entry-name').first().focus();
		await page.keyboard.press('ArrowDown');
		await page.waitForFunction(() => document.activeElement === document.querySelectorAll('.tree .entry-name')[1]);
		await page.keyboard.press('Enter');
		await page.waitForURL(/\/files\/.+/);
	},
}];
