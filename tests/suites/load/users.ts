// SPDX-License-Identifier: Apache-2.0
// Greedy users (tests/lib/greedy.ts) beside a good one: the front has a ceiling of memory, and the good one is served.

import { setTimeout as pause } from 'node:timers/promises';
import { newStateDir } from '../../lib/env.ts';
import { Greedy } from '../../lib/greedy.ts';
import { caisson, residentBytes } from '../../lib/process.ts';
import { serve, type Json } from '../../lib/session.ts';

const CEILING = 128 << 20;
const TAIL_GOAL = 3;
const THINK_MS = 50;

export function quantile(values: number[], q: number): number {
	const sorted = [...values].sort((a, b) => a - b);
	return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? NaN;
}

/** N greedy users at once for so many seconds; returns what went wrong. */
export async function greedyUsers(n: number, seconds: number): Promise<string[]> {
	const findings: string[] = [];
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_POOL: '0', SANDBOX_MAX_SESSIONS: '24', SANDBOX_TASK_AFTER_S: '1', SANDBOX_CPU_LIMIT: '0.05' };
	const cli = async (...args: string[]): Promise<string> => (await caisson(args, { env })).stdout.toString().trim();
	await cli('user', 'add', 'root', '--role', 'admin', '--password', 'none');
	const admin = await cli('key', 'new', 'root', '--scope', 'admin');
	const { program, base } = await serve({ profile: 'full', env });
	const ask = async (key: string, method: string, path: string, body?: Json): Promise<{ status: number; body: Json }> => {
		const r = await fetch(base + path, { method, headers: { 'x-api-key': key, 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
		const text = await r.text();
		return { status: r.status, body: text ? JSON.parse(text) as Json : {} };
	};
	const user = async (name: string): Promise<string> => {
		const made = await ask(admin, 'POST', '/api/v1/users', { name });
		return (await ask(admin, 'POST', `/api/v1/keys?owner=${made.body.id}`, {})).body.key as string;
	};
	const good = await user('good');
	const box = (await ask(good, 'POST', '/api/v1/sandboxes', {})).body.id as string;
	const keys: string[] = [];
	for (let i = 0; i < n; i++)
		keys.push(await user(`greedy${i}`));
	const work = async (ms: number): Promise<number[]> => {
		const times: number[] = [];
		for (const end = performance.now() + ms; performance.now() < end; await pause(THINK_MS)) {
			const t = performance.now();
			const r = await ask(good, 'GET', `/api/v1/sandboxes/${box}`);
			times.push(performance.now() - t);
			if (r.status !== 200)
				findings.push(`the good user got ${r.status} ${r.body.code}`);
		}
		return times;
	};
	let peak = 0;
	const calm = await work(10_000);
	const greedy = new Greedy(base, keys);
	const sampler = setInterval(() => (peak = Math.max(peak, residentBytes(program.pid))), 50);
	await pause(5000);
	const mixed = await work(seconds * 1000);
	clearInterval(sampler);
	const stats = (await ask(admin, 'GET', '/api/v1/stats')).body.budgets as Record<string, Json>;
	const taken = await greedy.end();
	await program.end();
	for (const [what, b] of Object.entries(stats))
		console.log(`${what.padEnd(18)} ${String(b.used).padStart(12)} of ${String(b.total).padStart(12)}, refused ${b.refused}`);
	console.log(`answers by status: ${JSON.stringify(taken)}`);
	const tail = quantile(mixed, 0.99) / quantile(calm, 0.99);
	console.log(`${n} greedy users: front at most ${(peak / 1048576).toFixed(1)} MiB (ceiling ${CEILING >> 20}); a good one p50 ${quantile(calm, 0.5).toFixed(1)} -> ${quantile(mixed, 0.5).toFixed(1)} ms, p99 ${quantile(calm, 0.99).toFixed(1)} -> ${quantile(mixed, 0.99).toFixed(1)} ms, ${tail.toFixed(2)} times (goal ${TAIL_GOAL}): ${tail <= TAIL_GOAL ? 'reached' : 'missed'}`);
	if (peak >= CEILING)
		findings.push(`the front took ${peak >> 20} MiB`);
	return findings.slice(0, 20);
}
