// SPDX-License-Identifier: Apache-2.0
// Hostile but authorised tenants (hostile_tenants.ts) beside good ones: first the good ones alone, then all. What a good client waits, and the front's memory.

import * as os from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { newStateDir } from '../../lib/env.ts';
import { caisson, residentBytes } from '../../lib/process.ts';
import { serve, type Json } from '../../lib/session.ts';
import { until } from '../../lib/wait.ts';
import { HostileTenants, tenantKinds } from './hostile_tenants.ts';
import { quantile } from './users.ts';

const CEILING = 128 << 20;
const TAIL_GOAL = 3;
const LEAST_MS = 5; // a tail below what one turn of the loop may take is not judged by how it was calm
const GOOD = 4;
const THINK_MS = 40;

type Ask = (key: string, method: string, path: string, body?: Json) => Promise<{ status: number; body: Json }>;

/** What a good client does, and the status of a right answer. */
const work: [string, number, (ask: Ask, key: string, id: string, n: number) => ReturnType<Ask>][] = [
	['health', 200, (ask) => ask('', 'GET', '/healthz')],
	['look', 200, (ask, key, id) => ask(key, 'GET', `/api/v1/sandboxes/${id}`)],
	['upload', 201, (ask, key, id, n) => ask(key, 'PUT', `/api/v1/sandboxes/${id}/files/in.json?overwrite=true`, { n })],
	['download', 200, (ask, key, id) => ask(key, 'GET', `/api/v1/sandboxes/${id}/files/in.json`)],
	['print', 201, (ask, key, id, n) => ask(key, 'POST', `/api/v1/sandboxes/${id}/runs`, { code: `print(${n})`, wait: true })],
];

interface Sample { what: string; ms: number }

async function goodClient(ask: Ask, key: string, id: string, end: number, samples: Sample[], findings: string[]): Promise<void> {
	for (let n = 0; performance.now() < end; n++) {
		for (const [what, status, act] of work) {
			const t = performance.now();
			const r = await act(ask, key, id, n).catch((e: Error) => ({ status: 0, body: { message: e.message } as Json }));
			samples.push({ what, ms: performance.now() - t });
			if (r.status !== status)
				findings.push(`${what} of a good client: ${r.status} ${JSON.stringify(r.body).slice(0, 200)}`);
			await pause(THINK_MS);
		}
	}
}

/** CALM_S seconds of good clients alone, then SECONDS with the hostile tenants of KINDS; returns what went wrong. */
export async function hostileTenants(kinds: string[], calmS: number, seconds: number): Promise<string[]> {
	const findings: string[] = [];
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_REQUIRE_AUTH: 'on', SANDBOX_MAX_SESSIONS: '40', SANDBOX_CPU_LIMIT: '0.25', SANDBOX_MEMORY_LIMIT: '256m', SANDBOX_EXEC_TIMEOUT_S: '20' };
	const cli = async (...args: string[]): Promise<string> => (await caisson(args, { env })).stdout.toString().trim();
	const user = async (name: string, role = 'user'): Promise<string> => {
		await cli('user', 'add', name, '--role', role, '--password', 'none');
		return /csn_\S+/.exec(await cli('key', 'new', name))![0];
	};
	await user('root', 'admin');
	const admin = await cli('key', 'new', 'root', '--scope', 'admin');
	const good: { key: string; id: string }[] = [];
	const keys: Record<string, string> = {};
	for (let i = 0; i < GOOD; i++)
		good.push({ key: await user(`good${i}`), id: '' });
	for (const kind of kinds)
		keys[kind] = kind === 'signins' ? '' : await user(kind);
	const { program, base } = await serve({ profile: 'full', env });
	const ask: Ask = async (key, method, path, body) => {
		const r = await fetch(base + path, { method, headers: { ...(key ? { 'x-api-key': key } : {}), 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
		const text = await r.text();
		return { status: r.status, body: text.startsWith('{') ? JSON.parse(text) as Json : {} };
	};
	for (const g of good)
		g.id = (await ask(g.key, 'POST', '/api/v1/sandboxes', {})).body.id as string;
	// Without a warm interpreter a run takes seconds at this share of a core.
	await until('a warm interpreter', async () => {
		const t = performance.now();
		await ask(good[0]!.key, 'POST', `/api/v1/sandboxes/${good[0]!.id}/runs`, { code: '1', wait: true });
		return performance.now() - t < 100;
	}, 60_000);
	let peak = 0;
	const sampler = setInterval(() => (peak = Math.max(peak, residentBytes(program.pid))), 50);
	const phase = async (s: number): Promise<Sample[]> => {
		const samples: Sample[] = [];
		const end = performance.now() + s * 1000;
		await Promise.all(good.map((g) => goodClient(ask, g.key, g.id, end, samples, findings)));
		return samples;
	};
	// The good clients stand for other machines, so they do not wait for a processor of this one.
	if (process.getuid?.() === 0)
		os.setPriority(os.constants.priority.PRIORITY_HIGHEST / 2);
	await phase(2); // connections, first runs
	const calm = await phase(calmS);
	const calmLoad = os.loadavg()[0]!;
	const hostile = new HostileTenants(base, keys);
	await pause(2000);
	const mixed = await phase(seconds);
	clearInterval(sampler);
	os.setPriority(0);
	const metrics = await (await fetch(`${base}/metrics`, { headers: { 'x-api-key': admin } })).text();
	const taken = await hostile.end();
	const wrong = program.child.exitCode ?? program.child.signalCode;
	if (wrong !== null)
		findings.push(`the server ended: ${wrong}`);
	await program.end();

	console.log(`\n${GOOD} good clients beside ${kinds.join(', ')}`);
	console.log('work       calm p50    p99   mixed p50    p99   p99 ratio   answers');
	for (const what of [...work.map(([w]) => w), 'all']) {
		const of = (all: Sample[]): number[] => all.filter((s) => what === 'all' || s.what === what).map((s) => s.ms);
		const [a, b] = [of(calm), of(mixed)];
		const [before, now] = [quantile(a, 0.99), quantile(b, 0.99)];
		console.log(`${what.padEnd(9)} ${[quantile(a, 0.5), before, quantile(b, 0.5), now].map((v) => v.toFixed(1).padStart(9)).join(' ')} ${(now / before).toFixed(2).padStart(9)}   ${a.length} + ${b.length}`);
		if (now > TAIL_GOAL * Math.max(before, LEAST_MS))
			findings.push(`${what}: a good client's p99 went from ${before.toFixed(1)} to ${now.toFixed(1)} ms (at most ${TAIL_GOAL} times; ${kinds.join(', ')})`);
	}
	for (const kind of kinds)
		console.log(`${kind.padEnd(9)} ${Object.entries(taken[kind] ?? {}).map(([k, v]) => `${k}: ${v}`).join(', ')}`);
	const turns = [...metrics.matchAll(/^caisson_turn_seconds_bucket\{le="([^"]+)"\} (\d+)$/gm)].map((m) => `≤ ${m[1]} s ${m[2]}`);
	console.log(`turns of the loop: ${turns.join(', ') || 'not counted'}`);
	console.log(`front at most ${(peak / 1048576).toFixed(1)} MiB (ceiling ${CEILING >> 20}); load ${calmLoad.toFixed(1)} calm, ${os.loadavg()[0]!.toFixed(1)} at the end`);
	if (peak >= CEILING)
		findings.push(`the front took ${peak >> 20} MiB`);
	return findings.length > 20 ? [...findings.slice(0, 20), `and ${findings.length - 20} more`] : findings;
}

export { tenantKinds };
