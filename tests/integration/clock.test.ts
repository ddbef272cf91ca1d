// SPDX-License-Identifier: Apache-2.0
// The wall clock jumps by hours while runs and sandboxes live: durations do not care, dates follow, nothing ends early or never.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { hour, noClock, WallClock } from '../lib/clock.ts';
import { serve, type Json } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';

const waitMs = 30_000;

describe('the wall clock jumps', { skip: noClock }, () => {
	const clock = new WallClock();
	const jump = (ms: number): void => clock.jump(ms);
	let server: Awaited<ReturnType<typeof serve>>;

	async function ask(method: string, target: string, body?: Json, headers: Record<string, string> = {}): Promise<{ status: number; date: number; body: Json }> {
		const r = await fetch(`${server.base}/api/v1/${target}`, { method, headers: { ...(body ? { 'content-type': 'application/json' } : {}), ...headers }, body: body && JSON.stringify(body) });
		const text = await r.text();
		return { status: r.status, date: Date.parse(r.headers.get('date')!), body: text ? JSON.parse(text) as Json : {} };
	}
	async function good(method: string, target: string, body?: Json): Promise<Json> {
		const r = await ask(method, target, body);
		assert.ok(r.status < 300, JSON.stringify(r));
		return r.body;
	}
	const end = (run: string): Promise<Json> => within('the end of the run', until('it', async () => {
		const r = await good('GET', `runs/${run}`);
		return r.status !== 'running' && r;
	}, waitMs), waitMs);
	const sandbox = async (): Promise<string> => (await good('POST', 'sandboxes', {})).id as string;
	/** Begins a run, and jumps while it goes on: far ahead, far back, and home. */
	async function jumpingRun(id: string, body: Json): Promise<Json> {
		const run = await good('POST', `sandboxes/${id}/runs`, body);
		for (const ms of [6 * hour, -12 * hour, 0]) {
			jump(ms);
			await good('GET', `runs/${run.id as string}`);
			await new Promise((done) => setTimeout(done, 100));
		}
		return end(run.id as string);
	}

	before(async () => {
		server = await serve({ profile: 'full', env: { ...clock.env, SANDBOX_POOL: '0', SANDBOX_SESSION_TTL_M: '1', SANDBOX_CLEANUP_INTERVAL_M: '1' } });
	});
	after(async () => {
		server.program.kill('SIGTERM');
		await server.program.exit;
	});

	it('is seen to jump', async () => {
		for (const ms of [6 * hour, -6 * hour, 0]) {
			jump(ms);
			const { date } = await ask('GET', 'me');
			assert.ok(Math.abs(date - Date.now() - ms) < 10 * 60_000, `${date}`);
		}
	});

	it('(slow) a run takes as long as it takes', async () => {
		const r = await jumpingRun(await sandbox(), { code: 'import time; time.sleep(1); print(1)' });
		assert.deepEqual([r.reason, r.stdout], ['exited', '1\n'], JSON.stringify(r));
		assert.ok(r.duration_ms >= 900 && r.duration_ms < waitMs, JSON.stringify(r));
	});

	it('(slow) a time limit is neither met at once nor never', async () => {
		const r = await jumpingRun(await sandbox(), { code: 'import time; time.sleep(600)', timeout_s: 2 });
		assert.equal(r.reason, 'timeout', JSON.stringify(r));
		assert.ok(r.duration_ms >= 1900 && r.duration_ms < waitMs, JSON.stringify(r));
	});

	it('sandboxes do not grow old, nor young', async () => {
		const id = await sandbox();
		for (const ms of [48 * hour, -48 * hour, 0]) {
			jump(ms);
			const s = await good('GET', `sandboxes/${id}`);
			assert.ok(s.age_s >= 0 && s.age_s < 50 && s.idle_s >= 0 && s.idle_s < 50, JSON.stringify(s));
		}
	});

	it('a key ends by the date, and by no other measure', async () => {
		const user = (await good('POST', 'users', { name: 'ada' })).id as string;
		const key = (await good('POST', `keys?owner=${user}`, { name: 'k', expires_in_s: 3600 })).key as string;
		const status = async (ms: number): Promise<number> => {
			jump(ms);
			return (await ask('GET', 'me', undefined, { 'x-api-key': key })).status;
		};
		assert.deepEqual([await status(0), await status(2 * hour), await status(-2 * hour), await status(0)], [200, 401, 200, 200]);
	});

	it('history keeps the order in which runs ended, and has them all', async () => {
		const id = await sandbox();
		const runs: string[] = [];
		for (const ms of [5 * hour, -5 * hour, 0]) {
			jump(ms);
			runs.unshift((await good('POST', `sandboxes/${id}/runs`, { code: 'pass', wait: true })).id as string);
		}
		await until('the rows', async () => (await good('GET', `runs?sandbox=${id}`)).runs.length === 3, waitMs);
		const rows = (await good('GET', `runs?sandbox=${id}`)).runs as Json[];
		assert.deepEqual(rows.map((r) => r.id), runs);
		assert.ok(rows.every((r) => r.duration_ms < waitMs));
		assert.ok(Date.parse(rows[2]!.started_at) - Date.parse(rows[1]!.started_at) > 9 * hour);
	});
});
