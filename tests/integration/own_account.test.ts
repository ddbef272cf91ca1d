// SPDX-License-Identifier: Apache-2.0
// People change their own password; the operator sees and sets limits of a user on the command line.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { caisson, type Exit, type Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { ask, login, password, register, type Answer } from '../lib/users.ts';

const next = 'staple donkey ocean';

describe('an account of one\'s own', () => {
	const state = newStateDir();
	let program: Program, base: string;
	before(async () => {
		({ program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: state, SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_OPEN_REGISTRATION: 'on' } }));
	});
	after(() => program.end());

	const site = { 'sec-fetch-site': 'same-origin', 'x-caisson-page': '1' };
	const cookieOf = (a: Answer): string => a.headers.getSetCookie()[0]!.split(';')[0]!;
	const signIn = async (name: string, word = password): Promise<Answer> => ask('POST', `${base}/api/v1/session`, { json: { username: name, password: word }, headers: site });
	const me = async (cookie: string): Promise<number> => (await ask('GET', `${base}/api/v1/me`, { headers: { cookie, ...site } })).status;
	const change = (how: Parameters<typeof ask>[2], json: Json): Promise<Answer> => ask('POST', `${base}/api/v1/me/password`, { ...how, json });

	it('(slow) the old password is asked for; then every other sign-in and token ends, this browser goes on', async () => {
		await register(base, 'ada');
		const here = cookieOf(await signIn('ada')), there = cookieOf(await signIn('ada')), token = await login(base, 'ada');
		const from = { headers: { cookie: here, origin: base, ...site } };
		const wrong = await change(from, { password: 'not that one', new_password: next });
		assert.deepEqual([wrong.status, wrong.body.detail], [403, 'the old password is wrong'], 'not 401, or the page would say that the sign-in has ended');
		assert.equal((await change(from, { password, new_password: 'short' })).status, 400);
		assert.equal((await change({ headers: { cookie: here, origin: 'https://example.org', 'x-caisson-page': '1', 'sec-fetch-site': 'cross-site' } }, { password, new_password: next })).status, 403);
		assert.equal(await me(there), 200, 'nothing has changed');

		const done = await change(from, { password, new_password: next });
		assert.deepEqual([done.status, done.body.signed_in, done.body.me?.name], [200, true, 'ada'], JSON.stringify(done.body));
		assert.equal(await me(cookieOf(done)), 200);
		assert.deepEqual([await me(here), await me(there), (await ask('GET', `${base}/api/v1/me`, { token })).status], [401, 401, 401]);
		assert.equal((await signIn('ada')).status, 401);
		assert.equal((await signIn('ada', next)).status, 200);
	});

	it('keys: one that may only read, or of one profile, changes no password; a full one needs the old password', async () => {
		await register(base, 'bob');
		const token = await login(base, 'bob');
		const key = async (json: Json): Promise<string> => (await ask('POST', `${base}/api/v1/keys`, { token, json })).body.key as string;
		for (const weak of [await key({ scope: 'read' }), await key({ profile: 'code' })])
			assert.equal((await change({ key: weak }, { password, new_password: next })).status, 403);
		const full = await key({});
		assert.equal((await change({ key: full }, { password: next, new_password: next })).status, 403);
		assert.equal((await change({ key: full }, { password, new_password: next })).status, 200);
		assert.equal((await signIn('bob', next)).status, 200);
		assert.equal((await ask('GET', `${base}/api/v1/me`, { key: full })).status, 200, 'keys stay');

		const admin = await caisson(['user', 'add', 'root2', '--role', 'admin', '--password', 'none', '--state-dir', state]);
		assert.equal(admin.code, 0, admin.stderr.toString());
		const adminKey = (await caisson(['key', 'new', 'root2', '--scope', 'admin', '--state-dir', state])).stdout.toString().trim();
		const none = await change({ key: adminKey }, { password: 'x', new_password: next });
		assert.deepEqual([none.status, /no password/.test(none.body.detail)], [403, true]);
		const rows = (await ask('GET', `${base}/api/v1/audit?limit=100`, { key: adminKey })).body.rows as Json[];
		assert.ok(rows.some((r) => r.action === 'user.passwd' && r.result === 'ok'), 'it is in the audit log');
		assert.ok(!JSON.stringify(rows).includes(next));
	});

	it('caisson user limits shows and sets what a user may have', async () => {
		const limits = (...args: string[]): Promise<Exit> => caisson(['user', 'limits', ...args, '--state-dir', state]);
		const made = await register(base, 'eve');
		const shown = await limits('eve');
		assert.equal(shown.stdout.toString(), [
			'sandboxes         3  (the server\'s setting)', 'CPU s a day       no limit  (the server\'s setting)',
			'bytes of disk     no limit  (the server\'s setting)', 'runs a minute     no limit  (the server\'s setting)', ''].join('\n'));
		const set = await limits('eve', '--sandboxes', '7', '--runs-per-minute', '0');
		assert.match(set.stdout.toString(), /^sandboxes {9}7\n.*\n.*\nruns a minute {5}0\n$/);
		const key = (await caisson(['key', 'new', 'root2', '--scope', 'admin', '--state-dir', state])).stdout.toString().trim();
		const seen = (await ask('GET', `${base}/api/v1/users/${made.id}`, { key })).body;
		assert.deepEqual([seen.max_sandboxes, seen.max_runs_per_minute, seen.max_disk_bytes], [7, 0, -1]);
		assert.match((await limits('eve', '--sandboxes', 'default')).stdout.toString(), /^sandboxes {9}3 {2}\(the server's/);
		for (const [args, text] of [[['eve', '--sandboxes', '-1'], /from 0 .* to 1000000, or default/], [['eve', '--sandboxes', 'many'], /--sandboxes is a number/], [['eve', '--cpu', '1'], /not understood/]] as const) {
			const r = await limits(...args);
			assert.equal(r.code, 64, r.stderr.toString());
			assert.match(r.stderr.toString(), text);
		}
		assert.equal((await limits('nobody')).code, 66);
	});
});
