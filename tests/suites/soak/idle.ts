// SPDX-License-Identifier: Apache-2.0
// What an idle sandbox costs: private memory and page tables of its processes, and what its control groups count for the kernel.
//   node tests/suites/soak/idle.ts [SANDBOXES]

import * as fs from 'node:fs';
import { initsOf, othersOf, zygotesOf } from '../../lib/family.ts';
import type { Ident } from '../../lib/process.ts';
import { using, type Session } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';

const n = Number(process.argv[2] ?? 20);
const restS = 6;

function kib(file: string, key: string): number {
	return Number(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(fs.readFileSync(file, 'latin1'))?.[1] ?? 0);
}

/** The group of a sandbox, by its init, once one of its processes was seen in it: init itself is outside. */
const groups = new Map<number, string>();

/** Memory of one sandbox in KiB. */
function costOf(init: Ident): Record<string, number> {
	const all = [init, ...othersOf(init)];
	const sum = (f: (p: Ident) => number): number => all.reduce((t, p) => t + f(p), 0);
	const own = (p: Ident): number => kib(`/proc/${p.pid}/smaps_rollup`, 'Private_Dirty') + kib(`/proc/${p.pid}/smaps_rollup`, 'Private_Clean');
	for (const p of all) {
		const at = /^\d+:memory:(.*\/s\d+)(?:\/run)?$/m.exec(fs.readFileSync(`/proc/${p.pid}/cgroup`, 'latin1'))?.[1];
		if (at)
			groups.set(init.pid, at);
	}
	const group = groups.get(init.pid);
	return {
		processes: all.length,
		'private': sum(own),
		'page tables': sum((p) => kib(`/proc/${p.pid}/status`, 'VmPTE')),
		'kernel, counted': group ? Number(fs.readFileSync(`/sys/fs/cgroup/memory${group}/memory.kmem.usage_in_bytes`, 'latin1')) / 1024 : 0,
	};
}

function print(what: string, inits: Ident[]): void {
	const costs = inits.map(costOf);
	const names = Object.keys(costs[0]!);
	const middle = (k: string): number => costs.map((c) => c[k]!).sort((a, b) => a - b)[costs.length >> 1]!;
	console.log(`${what.padEnd(34)} ${names.map((k) => `${k} ${middle(k).toFixed(0)}`).join(' · ')}`);
}

async function measure(name: string, code: string, stateful: boolean): Promise<void> {
	await using('stdio', { profile: 'all', env: { SANDBOX_POOL: '0', SANDBOX_MAX_SESSIONS: String(n + 1), SANDBOX_REST_S: String(restS) } }, async (s: Session) => {
		await s.raw('sandbox_run_python', { code: 'pass', session_id: 'first' });
		await until('the zygote', async () => zygotesOf(s.pid).length === 1 && (await s.call('sandbox_run_python', { code: 'import sys; print("numpy" in sys.modules)', session_id: 'first' })).stdout === 'True\n', 60_000);
		await s.raw('sandbox_close_session', { session_id: 'first' });
		for (let i = 0; i < n; i++)
			if (code)
				await s.raw('sandbox_run_python', { code, session_id: `s${i}`, ...(stateful ? { stateful } : {}) });
			else
				await s.upload('x', '', `s${i}`);
		const inits = initsOf(s.pid);
		await new Promise((resolve) => setTimeout(resolve, 500));
		print(`${name}, just used`, inits);
		await until('rest', () => inits.every((i) => othersOf(i).length === (stateful ? 1 : 0)), 60_000);
		print(`${name}, at rest`, inits);
		const times: number[][] = [[], []];
		for (let i = 0; i < n; i++)
			for (const t of times) { // from rest, then once more
				const started = performance.now();
				await s.raw('sandbox_run_python', { code: 'print(1)', session_id: `s${i}`, ...(stateful ? { stateful } : {}) });
				t.push(performance.now() - started);
				await new Promise((resolve) => setTimeout(resolve, 50));
			}
		const middle = (t: number[]): string => t.sort((a, b) => a - b)[t.length >> 1]!.toFixed(1);
		console.log(`${''.padEnd(34)} the next run ${middle(times[0]!)} ms, the one after it ${middle(times[1]!)} ms`);
	});
}

console.log(`KiB of one of ${n} sandboxes, the middle one`);
await measure('new', '', false);
await measure('after a stateless print(1)', 'print(1)', false);
await measure('after a stateful x = 1', 'x = 1', true);
await measure('after a stateful pandas frame', 'import pandas as pd\ndf = pd.DataFrame({"a": range(1000)})\ndf.a.sum()', true);
