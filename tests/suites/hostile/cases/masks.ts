// SPDX-License-Identifier: Apache-2.0
// Row 3 of the list, for the server's own CPU time: secrets are looked for in what runs print, on the loop that serves everybody.

import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { newStateDir, slowness } from '../../../lib/env.ts';
import { serve, type Json } from '../../../lib/session.ts';
import type { Case, Outside } from '../case.ts';

const SECRETS = 64;
const COMMON = 700; // bytes; all values together are as long as an environment may be
const FLOOD_S = 4;
const MEDIAN_MAX_MS = 50; // it was 184 to 345 ms
const flood = `
import os, time
piece = (("p" * ${COMMON} + "-") * 90 + "p" * 300).encode()
end = time.time() + ${FLOOD_S}
while time.time() < end: os.write(1, piece)`;

/** The median of what somebody else waits for an answer while a run prints what is almost a secret, watched by its owner. */
async function victimsMedian(o: Outside): Promise<number> {
	const { program, base } = await serve({ profile: 'full', env: { ...o.env, SANDBOX_STATE_DIR: newStateDir() } });
	const watcher = new AbortController();
	const ask = async (path: string, body: Json): Promise<Json> => {
		const r = await fetch(`${base}/api/v1/${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		return await r.json() as Json;
	};
	const times: number[] = [];
	let ended = false;
	try {
		const env = Object.fromEntries(Array.from({ length: SECRETS }, (_, i) => [`S${i}`, `${'p'.repeat(COMMON)}${i}x`]));
		const box = await ask('sandboxes', { env });
		assert.ok(box.id, JSON.stringify(box));
		const events = await fetch(`${base}/api/v1/events`, { signal: watcher.signal });
		events.body!.pipeTo(new WritableStream()).catch(() => {}); // ended by us
		const run = ask(`sandboxes/${box.id}/runs`, { code: flood, wait: true }).finally(() => (ended = true));
		while (!ended) {
			const t = performance.now();
			const answer = fetch(`${base}/healthz`);
			await o.spoil?.(program);
			await (await answer).text();
			times.push(performance.now() - t);
			await pause(10);
		}
		assert.equal((await run).exit_code, 0);
	} finally {
		watcher.abort();
		await program.end();
	}
	assert.ok(times.length > 10, `only ${times.length} answers`);
	return times.sort((a, b) => a - b)[times.length >> 1]!;
}

export const maskCases: Case[] = [{
	id: '3i', attack: `${SECRETS} secrets that begin alike, and output that is almost one of them`, must: 'others are answered at once', code: '', held: 0,
	planted: {
		what: 'the front stands still for a while after each request', by: (_r, o) => void (o.spoil = async (p: { pid: number }) => {
			process.kill(p.pid, 'SIGSTOP');
			await pause(150);
			process.kill(p.pid, 'SIGCONT');
		}),
	},
	after: async (_r, o) => {
		const median = await victimsMedian(o);
		assert.ok(median <= MEDIAN_MAX_MS * slowness, `the median of the others' answers was ${median.toFixed(0)} ms`);
	},
}];
