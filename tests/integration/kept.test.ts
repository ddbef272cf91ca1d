// SPDX-License-Identifier: Apache-2.0
// Sessions that hold something are kept longer than empty ones, their tools say so once, and they give way when there is no room.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { facts, open, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const minute = { SANDBOX_SESSION_TTL_M: '0', SANDBOX_CLEANUP_INTERVAL_M: '1' };

describe('sessions that hold something', { concurrency: 3 }, () => {
	it('(slow) an empty one is closed by the sweep; files, uploads and variables keep theirs', { timeout: 200_000 }, async () => {
		const s = await open('http', { profile: 'full', env: minute });
		try {
			const run = async (name: string, code: string, more: Json = {}): Promise<void> => {
				assert.equal(facts(await s.raw('sandbox_run_python', { code, session_id: name, ...more })).exit_code, 0);
			};
			await run('empty', 'print(1)');
			await run('file', 'open("f", "w").write("x")');
			await run('variable', 'x = 1', { stateful: true });
			const made = await (await fetch(`${s.base}/api/v1/sandboxes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })).json() as Json;
			assert.equal((await fetch(`${s.base}/api/v1/sandboxes/${made.id}/files/data.txt`, { method: 'PUT', body: 'x' })).status, 201);
			const there = async (): Promise<string[]> => {
				const list = await (await fetch(`${s.base}/api/v1/sandboxes`)).json() as Json;
				return list.sandboxes.map((b: Json) => b.id).sort();
			};
			await until('the sweep', async () => !(await there()).includes('empty'), 150_000);
			assert.deepEqual(await there(), ['file', made.id, 'variable'].sort());
			const limits = async (id: string): Promise<number> => (await (await fetch(`${s.base}/api/v1/sandboxes/${id}`)).json() as Json).limits.ttl_s;
			assert.equal(await limits('file'), 4 * 3600);
		} finally {
			await s.end();
		}
	});

	it('(slow) the profiles with exact contracts keep their time', { timeout: 200_000 }, async () => {
		const s = await open('http', { profile: 'code', env: minute });
		try {
			await s.ok('open("f", "w").close()', 'file');
			await until('the sweep', () => s.logLines().some((l) => /file/.test(l) && /session_ttl_expired/.test(l)), 150_000);
		} finally {
			await s.end();
		}
	});

	it('the first answer with files says how long they are kept, the next ones do not', async () => {
		const s = await open('http', { profile: 'full', env: { SANDBOX_SESSION_KEEP_M: '90' } });
		try {
			const run = async (code: string): Promise<[string, Json]> => {
				const r = await s.raw('sandbox_run_python', { code, session_id: 'told' });
				return [r.content.find((c) => c.type === 'text')!.text as string, facts(r)];
			};
			const [none, nothing] = await run('print(1)');
			assert.ok(!/are kept/.test(none) && !('kept_s' in nothing), none);
			const [first, told] = await run('open("a", "w").write("x")');
			assert.match(first, /The files of this session are kept until nobody has used it for 90 min\.\nNew or changed files:\n- \/mnt\/data\/a /);
			assert.equal(told.kept_s, 90 * 60);
			const [second, again] = await run('open("b", "w").write("x")');
			assert.ok(!/are kept/.test(second) && !('kept_s' in again), second);
		} finally {
			await s.end();
		}
	});

	it('without room the one that was unused for longest gives way, but none that was used lately', async () => {
		for (const [ttl, closed] of [['0', true], ['30', false]] as const) {
			const s = await open('http', { profile: 'full', env: { SANDBOX_SESSION_TTL_M: ttl, SANDBOX_MAX_SESSIONS: '2', SANDBOX_POOL: '0' } });
			try {
				for (const id of ['old', 'new'])
					await s.call('sandbox_run_python', { code: 'open("f", "w").write("x")', session_id: id });
				const r = await s.raw('sandbox_run_python', { code: 'print(1)', session_id: 'third' });
				assert.match(r.content[0]!.text, closed ? /^1\n/m : /^max_sessions/);
				const left = await s.call('sandbox_run_python', { code: 'print(open("f").read())', session_id: 'new' });
				assert.equal(left.stdout, 'x\n', JSON.stringify(left));
			} finally {
				await s.end();
			}
		}
	});
});
