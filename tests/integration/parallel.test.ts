// SPDX-License-Identifier: Apache-2.0
// Runs that execute beside the one that is on, where a client asks for it.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { asker } from '../lib/asker.ts';
import { engineEnv, newStateDir } from '../lib/env.ts';
import { initsOf } from '../lib/family.ts';
import type { Program } from '../lib/process.ts';
import { matrix, serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const ADMIN = 'an-administrators-key-of-the-server';
const MOST = 3;
/** A process under gVisor is six or seven on the host, and the control group counts those. */
const gvisor = engineEnv.SANDBOX_RUNTIME === 'runsc';

describe('parallel runs', () => {
	let program: Program;
	let base: string;
	const env = { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_API_KEY: ADMIN, SANDBOX_PARALLEL_RUNS: `${MOST}`, ...(gvisor ? { SANDBOX_MAX_PIDS_LIMIT: '1024' } : {}) };

	before(async () => {
		({ program, base } = await serve({ profile: 'full', env }));
	});
	after(async () => {
		await program.end();
	});

	const ask = asker(() => base, ADMIN);
	async function make(): Promise<string> {
		const r = await ask('POST', '/sandboxes', {});
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	async function start(id: string, json: Json): Promise<string> {
		const r = await ask('POST', `/sandboxes/${id}/runs`, json);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	const beside = (id: string, json: Json): Promise<string> => start(id, { ...json, parallel: true });
	const end = (run: string): Promise<Json> => until(`the end of ${run}`, async () => {
		const r = await ask('GET', `/runs/${run}`);
		assert.equal(r.status, 200, r.text);
		return r.body.status !== 'running' && r.body;
	});
	const refused = (r: { status: number; body: Json; text: string }, status: number, code: string): void => assert.deepEqual([r.status, r.body.code], [status, code], r.text);
	/** Says its name and goes on when the other has. */
	const meets = (own: string, other: string): string => `import os, time\nopen(${JSON.stringify(own)}, "w")\nwhile not os.path.exists(${JSON.stringify(other)}): time.sleep(0.01)\nprint(${JSON.stringify(own)}, "met", ${JSON.stringify(other)})`;
	const FOREVER = 'while [ ! -e go ]; do sleep 0.02; done';

	it('code, commands and a cell execute at once', async () => {
		const id = await make();
		const cell = await start(id, { code: `x = 1\n${meets('cell', 'a')}`, stateful: true });
		const a = await beside(id, { code: meets('a', 'b') }), b = await beside(id, { command: 'touch b; while [ ! -e cell ]; do sleep 0.02; done; echo b met cell; exit 3' });
		assert.equal((await end(a)).stdout, 'a met b\n');
		const sh = await end(b);
		assert.deepEqual([sh.stdout, sh.exit_code, sh.artifacts], ['b met cell\n', 3, []]);
		assert.equal((await end(cell)).stdout, 'cell met a\n');
		assert.equal((await end(await start(id, { code: 'x', stateful: true }))).value, '1');
		const cells = (await ask('GET', `/notebooks/${id}`)).body.cells as Json[];
		assert.deepEqual([...new Set(cells.map((c) => c.run))].filter((r) => [cell, a, b].includes(r)).length, 3, JSON.stringify(cells.map((c) => c.run)));
	});

	it('what a run has, it has: value, pictures, input, errors, its own processes', async () => {
		const id = await make();
		const first = await start(id, { command: FOREVER });
		assert.equal((await end(await beside(id, { code: 'a = 6\na * 7' }))).value, '42');
		assert.equal((await end(await beside(id, { code: 'print(input())', stdin: 'typed\n' }))).stdout, 'typed\n');
		const failed = await end(await beside(id, { code: '1 / 0' }));
		assert.equal(failed.exit_code, 1);
		assert.match(failed.stderr, /ZeroDivisionError/);
		const left = await end(await beside(id, { code: 'import subprocess\np = subprocess.Popen(["sleep", "1000"], start_new_session=True)\nprint(p.pid)' }));
		assert.equal((await end(await beside(id, { command: `kill -0 ${left.stdout.trim()}` }))).exit_code, 1, 'what it started has ended with it');
		const late = await end(await beside(id, { code: 'import time\ntime.sleep(1000)', timeout_s: 1 }));
		assert.equal(late.reason, 'timeout');
		assert.equal((await ask('GET', `/runs/${first}`)).body.status, 'running');
		await beside(id, { command: 'touch go' });
		assert.equal((await end(first)).exit_code, 0);
	});

	it('there are as many as the server permits', async () => {
		const id = await make();
		const runs = [await start(id, { command: FOREVER })];
		for (let i = 0; i < MOST; i++)
			runs.push(await beside(id, { command: FOREVER }));
		refused(await ask('POST', `/sandboxes/${id}/runs`, { code: '1', parallel: true }), 409, 'session_busy');
		assert.equal((await ask('DELETE', `/runs/${runs[1]}`)).status, 202);
		assert.equal((await end(runs[1]!)).reason, 'cancelled');
		runs.push(await beside(id, { command: 'touch go' }));
		for (const r of runs)
			await end(r);
		const again = await end(await beside(id, { code: 'print("alone")' }));
		assert.equal(again.stdout, 'alone\n');
	});

	it('it is no part of a session, and a checkpoint waits for it', async () => {
		const id = await make();
		refused(await ask('POST', `/sandboxes/${id}/runs`, { code: '1', parallel: true, stateful: true }), 400, 'invalid_argument');
		refused(await ask('POST', `/sandboxes/${id}/runs`, { code: '1', parallel: true, context: 'b' }), 400, 'invalid_argument');
		const run = await beside(id, { command: FOREVER });
		refused(await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'p' }), 409, 'session_busy');
		refused(await ask('DELETE', `/sandboxes/${id}`), 409, 'session_busy');
		await beside(id, { command: 'touch go' });
		await end(run);
		await until('a checkpoint', async () => (await ask('POST', `/sandboxes/${id}/checkpoints`, { name: 'p' })).status === 201);
	});

	it('after the last one init sleeps', { skip: Object.keys(engineEnv).length > 0 && 'init is in a container' }, async () => {
		const id = await make();
		const ticks = (): number => initsOf(program.pid).flatMap((p) => fs.readFileSync(`/proc/${p.pid}/stat`, 'latin1').split(') ')[1]!.split(' ').slice(11, 13)).reduce((n, t) => n + Number(t), 0);
		await end(await beside(id, { command: 'true' }));
		const before = ticks();
		await setTimeout(2000); // a span to measure
		assert.ok(ticks() - before < 30, `${ticks() - before} ticks of 10 ms in 2 s`);
	});

	it('all end with the sandbox', async () => {
		const id = await make();
		const runs = [await beside(id, { command: FOREVER }), await beside(id, { code: 'import time\ntime.sleep(1000)' })];
		assert.equal((await ask('DELETE', `/sandboxes/${id}?force=true`)).status, 204);
		for (const r of runs)
			assert.notEqual((await end(r)).exit_code, 0);
	});
});

// What programs give the tools, and models do not see.
matrix('contexts and parallel runs of the tools', { profile: 'full' }, (s) => {
	it('a context of its own, and a run beside another', async () => {
		const id = 'tools-beside';
		const python = (args: Json): Promise<Json> => s().call('sandbox_run_python', { session_id: id, ...args });
		assert.equal((await python({ code: 'x = 1', stateful: true })).state, 'kept');
		assert.equal((await python({ code: 'x = 2\nx', context: 'b' })).result, '2');
		assert.equal((await python({ code: 'x', stateful: true })).result, '1');
		const waits = s().call('sandbox_run_shell', { session_id: id, command: 'touch on; while [ ! -e go ]; do sleep 0.02; done; echo went' });
		const goes = async (): Promise<boolean> => (await python({ code: 'import os\nprint(os.path.exists("on"))', parallel: true })).stdout === 'True\n';
		await until('the run that waits', goes);
		await s().call('sandbox_run_shell', { session_id: id, command: 'touch go', parallel: true });
		assert.equal((await waits).stdout, 'went\n');
		const r = await s().raw('sandbox_run_python', { session_id: id, code: '1', context: 'a b' });
		assert.equal(r.isError, true);
		assert.equal(r.structuredContent?.error, 'invalid_argument');
	});
});
