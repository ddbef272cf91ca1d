// SPDX-License-Identifier: Apache-2.0
// Sessions do not run out without a word: the default number of them, which one is closed for a new one, and what a caller is
// told about a session that has ended or never was. The exact profiles answer as their contracts say.

import assert from 'node:assert/strict';
import * as os from 'node:os';
import { describe, it } from 'node:test';
import { serve, using, type Json, type Session } from '../lib/session.ts';

const text = (r: Json): string => JSON.stringify(r);

async function ask(base: string, method: string, at: string, json?: unknown, key?: string): Promise<{ status: number; body: Json; headers: Headers }> {
	const r = await fetch(`${base}/api/v1${at}`, {
		method, headers: { ...(json === undefined ? {} : { 'content-type': 'application/json' }), ...(key ? { 'x-api-key': key } : {}) },
		body: json === undefined ? undefined : JSON.stringify(json),
	});
	const body = await r.text();
	return { status: r.status, body: body ? JSON.parse(body) : {}, headers: r.headers };
}

describe('sessions', () => {
	it('REST: at the cap an empty session makes room; full ones are listed', async () => {
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_MAX_SESSIONS: '2', SANDBOX_POOL: '0' } });
		try {
			const made: string[] = [];
			const run = (id: string, code: string): Promise<Json> => ask(base, 'POST', `/sandboxes/${id}/runs`, { code, wait: true });
			for (let i = 0; i < 2; i++)
				made.push((await ask(base, 'POST', '/sandboxes', {})).body.id);
			// nothing ran in them yet: they are about to be used
			const full = await ask(base, 'POST', '/sandboxes', {});
			assert.deepEqual([full.status, full.body.code], [429, 'max_sessions'], text(full.body));
			assert.ok(Number(full.headers.get('retry-after')) > 0);
			assert.deepEqual(full.body.sessions.map((s: Json) => s.id).sort(), [...made].sort());
			assert.equal(typeof full.body.sessions[0].idle_s, 'number');
			await run(made[0]!, 'open("kept", "w")');
			await run(made[1]!, 'print(1)');
			const third = await ask(base, 'POST', '/sandboxes', {});
			assert.equal(third.status, 201, text(third.body));
			const gone = await ask(base, 'GET', `/sandboxes/${made[1]}`);
			assert.deepEqual([gone.status, gone.body.code], [404, 'session_not_found']);
			assert.match(gone.body.detail, /held nothing and another one needed the room/);
			assert.equal((await ask(base, 'GET', `/sandboxes/${made[0]}`)).status, 200);
			await ask(base, 'DELETE', `/sandboxes/${made[0]}`);
			assert.match((await ask(base, 'POST', `/sandboxes/${made[0]}/runs`, { code: '1' })).body.detail, /was deleted, \d+ s ago/);
			assert.match((await ask(base, 'GET', '/sandboxes/never-was/files')).body.detail, /mistyped/);
			const last = (await ask(base, 'POST', '/sandboxes', {})).body.id as string;
			const fork = await ask(base, 'POST', `/sandboxes/${last}/forks`, {});
			assert.deepEqual([fork.status, fork.body.code, fork.body.sessions.length], [429, 'max_sessions', 2], text(fork.body));
		} finally {
			await program.end();
		}
	});

	it('the default follows the memory of the machine', async () => {
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_MEMORY_LIMIT: '64m', SANDBOX_ALLOW_WEAKER: 'memory' } });
		try {
			const { body } = await ask(base, 'GET', '/policy');
			const n = body.sessions.max;
			assert.ok(n > 10 && n <= Math.min(1000, Math.ceil(os.totalmem() / (64 << 20))), String(n));
		} finally {
			await program.end();
		}
		// Ten of them live at a time, also with gVisor, whose own kernel counts for the limit of each.
		await using('stdio', { profile: 'code', env: { SANDBOX_MEMORY_LIMIT: '160m', SANDBOX_ALLOW_WEAKER: 'memory', SANDBOX_POOL: '0' } }, async (s: Session) => {
			for (let i = 0; i < 10; i++)
				assert.equal((await s.run('1', `s${i}`)).exit_code, 0);
			const r = await s.call('sandbox_run_python', { code: '1' });
			assert.match(text(r), /Maximum 10 concurrent sessions reached\. Close an existing session first\./);
		});
	});

	it('(slow) a stateful run in a session that has ended, or with a mistyped id, says so', () => using('stdio', { profile: 'full' }, async (s: Session) => {
		const said = async (id: string): Promise<string> => text(await s.raw('sandbox_run_python', { code: 'x = 1', session_id: id, stateful: true }));
		assert.match(await said('work'), /There was no session work/);
		assert.doesNotMatch(await said('work'), /There was no session|earlier session/);
		await s.raw('sandbox_delete', { session_id: 'work' });
		assert.match(text(await s.raw('sandbox_info', { session_id: 'work' })), /Sandbox work was deleted/);
		assert.match(await said('work'), /The earlier session work was deleted, \d+ s ago: this is a new one/);
		assert.match(text(await s.raw('sandbox_info', { session_id: 'wrok' })), /mistyped/);
	}));
});
