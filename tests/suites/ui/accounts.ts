// SPDX-License-Identifier: Apache-2.0
// Signing in, invitations, people, keys: what browsers keep, and what ends a session.

import assert from 'node:assert/strict';
import { accessible, picture, type Case } from './case.ts';
import { PASSWORD, server, signIn } from './server.ts';

export const accountCases: Case[] = [
	{
		name: 'accounts: a person changes the own password; this browser goes on, another one ends',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada', 'user');
			const here = await w.window(), there = await w.window();
			await signIn(here, s, 'ada');
			await signIn(there, s, 'ada');
			await here.getByRole('button', { name: 'Change password' }).click();
			const dialog = here.getByRole('dialog'), save = dialog.getByRole('button', { name: 'Change password' });
			const fill = async (old: string, next: string, again: string): Promise<void> => {
				await dialog.getByLabel('Old password').fill(old);
				await dialog.getByLabel('New password', { exact: true }).fill(next);
				await dialog.getByLabel('New password again').fill(again);
				await save.click();
			};
			await fill(PASSWORD, 'staple donkey ocean', 'staple donkey lake');
			await dialog.getByText('The two new passwords differ.').waitFor();
			await fill('not that one', 'staple donkey ocean', 'staple donkey ocean');
			await dialog.getByText('the old password is wrong').waitFor();
			await accessible(here, 'the dialog of a new password');
			await fill(PASSWORD, 'staple donkey ocean', 'staple donkey ocean');
			await here.getByText('The password is changed').waitFor();
			await there.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
			assert.equal(await here.getByRole('dialog').count(), 0, 'this browser is signed in');
			await here.reload();
			await here.getByRole('button', { name: 'Change password' }).waitFor();
		},
	},
	{
		name: 'accounts: an administrator sees what everybody has, stops a run and deletes a sandbox; a person sees only the own',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada', 'admin');
			await s.person('kim');
			const key = await s.key('kim');
			const ask = async (method: string, what: string, body?: unknown): Promise<any> => {
				const r = await fetch(`${s.base}/api/v1${what}`, { method, headers: { 'x-api-key': key, 'content-type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body) });
				return r.status === 204 ? {} : r.json();
			};
			const { id } = await ask('POST', '/sandboxes', { name: 'of kim', memory_mb: 200 });
			const run = await ask('POST', `/sandboxes/${id}/runs`, { code: 'import time; time.sleep(100)' });
			await ask('POST', '/sandboxes', { kind: 'stored', name: 'kept by kim' });
			const admin = await w.window();
			await signIn(admin, s, 'ada');
			await admin.getByRole('link', { name: 'All sandboxes', exact: true }).click();
			const row = admin.getByRole('row').filter({ hasText: 'of kim' });
			await row.getByText('kim', { exact: true }).waitFor();
			await row.getByText('of 200 MB').or(row.getByText('of 200 MiB')).first().waitFor();
			await row.getByText('running').waitFor();
			await accessible(admin, 'the sandboxes of everybody');
			await picture(admin, 'everyone');
			await row.getByRole('button', { name: 'More: of kim' }).click();
			await admin.getByRole('menuitem', { name: 'Stop what runs' }).click();
			await row.getByText(/^idle/).waitFor();
			assert.equal((await ask('GET', `/runs/${run.id}`)).reason, 'cancelled');
			await row.getByRole('button', { name: 'More: of kim' }).click();
			await admin.getByRole('menuitem', { name: 'Delete' }).click();
			const dialog = admin.getByRole('dialog');
			await dialog.getByText('It belongs to kim.').waitFor();
			await dialog.getByRole('button', { name: 'Delete' }).click();
			await row.waitFor({ state: 'detached' });
			await admin.getByText('kept by kim').waitFor();
			assert.deepEqual((await ask('GET', '/sandboxes')).sandboxes.map((b: { name: string }) => b.name), ['kept by kim']);
			const adas = await s.key('ada', 'admin');
			const { id: ada } = await s.rest('GET', '/me', undefined, adas);
			const rows = (await s.rest('GET', '/audit', undefined, adas)).rows as Record<string, string>[];
			assert.deepEqual([run.id, id].map((object) => rows.find((r) => r.object === object && r.actor === ada)?.action), ['run.cancel', 'sandbox.delete']);
			// The twin: for kim there is no such page, and the address shows nothing of others.
			const person = await w.window();
			await signIn(person, s, 'kim');
			assert.equal(await person.getByRole('link', { name: 'All sandboxes', exact: true }).count(), 0);
			await person.goto(`${s.base}/#/everyone`);
			await person.getByText('kept by kim').or(person.getByRole('heading')).first().waitFor();
			assert.equal(await person.getByRole('heading', { name: 'All sandboxes' }).count(), 0);
		},
	},
	{
		name: 'accounts: an invitation becomes an account, which the administrator changes and ends',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada', 'admin');
			const admin = await w.window();
			await signIn(admin, s, 'ada');
			await admin.getByRole('link', { name: 'Invitations', exact: true }).click();
			await admin.getByText('No open invitations').waitFor();
			await admin.getByRole('button', { name: 'New invitation' }).click();
			await admin.getByLabel('For whom').fill('Kim');
			await admin.getByRole('button', { name: 'Make the link' }).click();
			const link = (await admin.getByLabel('Link', { exact: true }).textContent())!.trim();
			assert.ok(link.startsWith(`${s.base}/#/join/csi_`), link);
			await picture(admin, 'invitation');
			await admin.getByRole('button', { name: 'I have kept it' }).click();
			await admin.getByRole('cell', { name: 'Kim', exact: true }).waitFor();
			// the person, in a browser of their own
			const person = await w.window();
			await person.goto(link);
			await person.getByRole('heading', { name: 'You are invited' }).waitFor();
			await picture(person, 'invited');
			await accessible(person, 'the page of an invitation');
			await person.getByLabel('User name').fill('kim');
			await person.getByLabel('Password').fill('short');
			await person.getByRole('button', { name: 'Create account' }).click();
			assert.equal(await person.getByRole('heading', { name: 'Nothing runs here yet' }).count(), 0, 'a short password makes no account');
			await person.getByLabel('Password').fill(PASSWORD);
			await person.getByRole('button', { name: 'Create account' }).click();
			await person.getByRole('heading', { name: 'Nothing runs here yet' }).waitFor();
			assert.equal(await person.getByRole('link', { name: 'People', exact: true }).count(), 0, 'a person sees no pages of administrators');
			await person.goto(`${s.base}/#/people`);
			await person.getByText('There is no such page').waitFor();
			const [cookie] = await person.context().cookies();
			assert.deepEqual([cookie!.httpOnly, cookie!.sameSite, cookie!.path], [true, 'Strict', '/']);
			assert.equal(await person.evaluate(() => document.cookie), '');
			// the invitation makes one account
			const again = await w.window();
			await again.goto(link);
			await again.getByLabel('User name').fill('eve');
			await again.getByLabel('Password').fill(PASSWORD);
			await again.getByRole('button', { name: 'Create account' }).click();
			await again.getByRole('alert').waitFor();
			// quotas, then the end of the account
			await admin.getByRole('link', { name: 'People', exact: true }).click();
			await admin.getByRole('button', { name: 'More: kim' }).click();
			await admin.getByRole('menuitem', { name: 'Rights and quotas' }).click();
			await admin.getByLabel('Stored sandboxes').fill('3');
			await admin.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
			await admin.getByText('sandboxes 3').waitFor();
			await picture(admin, 'people');
			await accessible(admin, 'people');
			await person.goto(`${s.base}/#/`);
			await admin.getByRole('button', { name: 'More: kim' }).click();
			await admin.getByRole('menuitem', { name: 'Delete' }).click();
			await admin.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
			await admin.getByRole('cell', { name: /^kim/ }).waitFor({ state: 'detached' });
			await person.getByRole('heading', { name: 'Your session has ended' }).waitFor({ timeout: 30_000 });
			await picture(person, 'session-ended');
			await admin.getByRole('link', { name: 'Audit', exact: true }).click();
			await admin.getByRole('cell', { name: 'Person deleted' }).waitFor();
			await picture(admin, 'audit');
			await accessible(admin, 'audit');
		},
	},
	{
		name: 'accounts: a key that may only read; a key as a way in; requests of other pages',
		async run(w) {
			const s = await server(w, { auth: true });
			await s.person('ada');
			const full = await s.key('ada');
			const { id } = await s.rest('POST', '/sandboxes', { name: 'adas' }, full);
			await s.rest('POST', `/sandboxes/${id}/runs`, { code: 'print("seen")', wait: true }, full);
			const page = await w.window();
			await page.goto(`${s.base}/`);
			await page.getByRole('button', { name: 'Use a key instead' }).click();
			await page.getByLabel('Key').fill('csn_nothing');
			await page.getByRole('button', { name: 'Sign in' }).click();
			await page.getByRole('alert').waitFor();
			await page.getByLabel('Key').fill(await s.key('ada', 'read'));
			await page.getByRole('button', { name: 'Sign in' }).click();
			await page.getByRole('link', { name: /adas/ }).click();
			await page.locator('.cell-out').getByText('seen').waitFor();
			assert.equal(await page.getByRole('textbox', { name: 'Python code' }).count(), 0, 'who may only read has no editor');
			await page.goto(`${s.base}/#/`);
			await page.getByRole('heading', { name: 'Sandboxes' }).waitFor();
			assert.equal(await page.getByRole('button', { name: 'New sandbox' }).count(), 0);
			await picture(page, 'read-only');
			// The cookie alone changes nothing: another page can make the browser send simple requests.
			const status = await page.evaluate(async (sandbox) => {
				const r = await fetch(`/api/v1/sandboxes/${sandbox}/runs`, { method: 'POST', body: JSON.stringify({ code: '1' }) });
				return r.status;
			}, id);
			assert.ok([401, 403, 415].includes(status), String(status));
		},
	},
];
