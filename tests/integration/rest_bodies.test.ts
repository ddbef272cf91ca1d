// SPDX-License-Identifier: Apache-2.0
// Bodies of REST: how much of them is read, and by whom. Many values cost more than many bytes, and before somebody is known little is read at all.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { newStateDir, slowness } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { turnsOf } from '../lib/turns.ts';

describe('bodies of REST', () => {
	let server: { program: Program; base: string };
	let box = '';

	const post = async (at: string, body: string, type = 'application/json'): Promise<{ status: number; body: Json }> => {
		const r = await fetch(`${server.base}/api/v1${at}`, { method: 'POST', headers: { 'content-type': type }, body });
		return { status: r.status, body: await r.json() as Json };
	};
	const refused = (r: { status: number; body: Json }, status: number, words: RegExp): void => {
		assert.equal(r.status, status, JSON.stringify(r.body));
		assert.match(r.body.detail as string, words);
	};
	before(async () => {
		server = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), CAISSON_WATCH_TURNS: '3' } });
		box = (await post('/sandboxes', '{}')).body.id as string;
	});
	after(() => server.program.end());

	it('4,096 values are read, more are refused; so is what is nested too deeply', async () => {
		refused(await post('/sandboxes', JSON.stringify({ x: Array(4090).fill(1) })), 400, /'x'/);
		refused(await post('/sandboxes', JSON.stringify({ x: Array(4096).fill(1) })), 400, /more than 4096 values/);
		refused(await post('/sandboxes', `{"x":${'['.repeat(40)}${']'.repeat(40)}}`), 400, /JSON object/);
		const text = JSON.stringify('[{,"\\'.repeat(2000)); // in a string they are no values
		assert.equal((await post(`/sandboxes/${box}/runs`, `{"code":"print(len(input()))","stdin":${text},"wait":true}`)).body.stdout, '10000\n');
	});

	it('a long body is the same as a short one', async () => {
		const text = 'ä"\\\n'.repeat(12_000);
		const r = await post(`/sandboxes/${box}/runs`, `\ufeff${JSON.stringify({ code: 'import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())', stdin: text, wait: true })}`);
		assert.equal(r.body.stdout, `${createHash('sha256').update(text).digest('hex')}\n`, JSON.stringify(r.body));
		const long = 'x'.repeat(60_000);
		refused(await post('/sandboxes', `{"name":"${long}"`), 400, /JSON object/);
		refused(await post('/sandboxes', `["${long}"]`), 400, /JSON object/);
		refused(await post('/sandboxes', `{"a":1,"a":"${long}"}`), 400, /JSON object/);
		refused(await post('/sandboxes', JSON.stringify({ strange: long })), 400, /'strange'/);
		refused(await post('/sandboxes', JSON.stringify({ name: long }), 'text/plain'), 400, /application\/json/);
	});

	it('who is not known yet may send 16 KiB', async () => {
		for (const at of ['/session', '/register'])
			refused(await post(at, JSON.stringify({ name: 'a', password: 'x'.repeat(16 << 10) })), 413, /body/);
		refused(await post('/session', JSON.stringify({ name: 'a', password: 'x'.repeat(15_000) })), 400, /password/);
	});

	it('(timing) no body keeps the loop', async () => {
		const from = server.program.stderr.length;
		const many = (n: number): Json => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, 1]));
		for (const n of [4000, 90_000])
			for (const body of [{ env: many(n) }, many(n), { x: Array(n).fill([]) }])
				assert.equal((await post('/sandboxes', JSON.stringify(body))).status, 400);
		for (const text of ['x', '\u0001', 'é', '"\\', '😀'])
			assert.ok((await post(`/sandboxes/${box}/runs`, JSON.stringify({ code: '1', stdin: text.repeat(400_000 / text.length), wait: true }))).status < 500);
		await fetch(`${server.base}/healthz`);
		assert.deepEqual(turnsOf(server.program.stderr.slice(from)).filter((t) => t.cpuMs >= 5 * slowness), []);
	});
});
