// SPDX-License-Identifier: Apache-2.0
// Limits of a sandbox that lives: memory, CPU and processes change at once and for a session that goes on; memory is
// never lowered below what is in use; what cannot be changed is refused with an error that says so.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { asker } from '../lib/asker.ts';
import { engineEnv, newStateDir, slowness, unlessEnforced } from '../lib/env.ts';
import { descendants, type Program } from '../lib/process.ts';
import { serve, using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

interface Answer { status: number; body: Json; text: string }

const HOLD = 'import mmap\ndef hold(mb):\n    m = mmap.mmap(-1, mb << 20)\n    for at in range(0, mb << 20, 4096): m[at] = 1\n    return m\n';
const COUNT = 'import threading\ndef count(n):\n    stop, made = threading.Event(), []\n    try:\n        for i in range(n):\n            t = threading.Thread(target=stop.wait); t.start(); made.append(t)\n    except RuntimeError: pass\n    stop.set(); [t.join() for t in made]\n    return len(made)\n';
/** On containers memory is lowered between runs only, and init and the interpreters that wait count as processes, too. */
const contained = Object.keys(engineEnv).length > 0;
function read(file: string): string {
	try {
		return fs.readFileSync(file, 'utf8').trim();
	} catch {
		return ''; // no such file, or its process ended
	}
}
const lacking = unlessEnforced('memory', 'cpu');

/** Reads quota and burst, in microseconds, of the control group of a sandbox below the process PID whose quota is 0.4 of a core. */
function cpuGroup(pid: number): (() => [number, number]) | undefined {
	for (const p of descendants(pid))
		for (const line of read(`/proc/${p.pid}/cgroup`).split('\n')) {
			const [, controllers, at] = line.split(':');
			const v2 = controllers === '';
			if (!v2 && !controllers?.split(',').includes('cpu'))
				continue;
			const dir = v2 ? path.dirname(`/sys/fs/cgroup${at}`) : `/sys/fs/cgroup/cpu${at}`;
			const quota = (): number => Number(read(`${dir}/${v2 ? 'cpu.max' : 'cpu.cfs_quota_us'}`).split(' ')[0]);
			const burst = (): string => read(`${dir}/${v2 ? 'cpu.max.burst' : 'cpu.cfs_burst_us'}`);
			if (quota() === 40_000 && burst() !== '')
				return () => [quota(), Number(burst())];
		}
	return undefined;
}

describe('limits of a sandbox that lives', () => {
	let program: Program;
	let base: string;
	const env = {
		SANDBOX_STATE_DIR: newStateDir(), SANDBOX_MAX_SESSIONS: '20', SANDBOX_MAX_MEMORY_LIMIT: '1g', SANDBOX_MAX_CPU_LIMIT: '2', SANDBOX_MAX_PIDS_LIMIT: '300',
	};

	async function begin(): Promise<void> {
		({ program, base } = await serve({ profile: 'full', env }));
	}
	before(begin);
	after(() => program.end());

	const ask = asker(() => base);
	async function make(json: Json): Promise<string> {
		const r = await ask('POST', '/sandboxes', json);
		assert.equal(r.status, 201, r.text);
		return r.body.id;
	}
	const change = (id: string, json: Json): Promise<Answer> => ask('PATCH', `/sandboxes/${id}`, json);
	async function changed(id: string, json: Json): Promise<Json> {
		const r = await change(id, json);
		assert.equal(r.status, 200, r.text);
		return r.body.limits;
	}
	const run = async (id: string, json: Json): Promise<Json> => (await ask('POST', `/sandboxes/${id}/runs`, { wait: true, ...json })).body;
	async function out(id: string, json: Json): Promise<string> {
		const r = await run(id, json);
		assert.equal(r.exit_code, 0, JSON.stringify(r));
		return `${r.stdout}${r.value ?? ''}`.trim();
	}
	const limits = async (id: string): Promise<Json> => (await ask('GET', `/sandboxes/${id}`)).body.limits;

	it('(slow) more memory: the session goes on, has it, and is told of it', { skip: lacking }, async () => {
		const id = await make({ memory_mb: 200 });
		assert.equal(await out(id, { code: `${HOLD}x = 41`, stateful: true }), '');
		const small = await run(id, { code: 'hold(400)', stateful: true });
		assert.notEqual(small.exit_code, 0, JSON.stringify(small));
		const l = await changed(id, { memory_mb: 700, name: 'larger' });
		assert.equal(l.memory_mb, 700);
		assert.equal(await out(id, { code: 'len(hold(400)) >> 20, x', stateful: true }), '(400, 41)');
		assert.match(await out(id, { command: 'free -m' }), /^Mem: +700 /m);
		assert.match(await out(id, { code: 'import subprocess; print(subprocess.run(["free", "-m"], capture_output=True, text=True).stdout)', stateful: true }), /^Mem: +700 /m);
		const shown = (await ask('GET', `/sandboxes/${id}`)).body;
		assert.deepEqual([shown.limits.memory_mb, shown.name], [700, 'larger']);
		assert.match((await ask('GET', '/audit')).text, new RegExp(`${id} memory_mb 700`));
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('more processes and fewer: also for an interpreter that lives', { skip: unlessEnforced('memory', 'pids') }, async () => {
		const id = await make({ processes: 20 });
		const few = Number(await out(id, { code: `${COUNT}count(100)`, stateful: true }));
		assert.ok(few >= 10 && few < (contained ? 28 : 20), String(few));
		assert.equal((await changed(id, { processes: 200 })).processes, 200);
		assert.equal(await out(id, { code: 'count(100)', stateful: true }), '100');
		await changed(id, { processes: 30 });
		const again = Number(await out(id, { code: 'count(100)', stateful: true }));
		assert.ok(again >= 15 && again < (contained ? 38 : 30), String(again));
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('(slow) CPU time: the run that goes on gets the new share', { skip: lacking || (os.cpus().length < 2 && 'one processor') }, async () => {
		const id = await make({ cpus: 2 });
		assert.equal((await changed(id, { cpus: 0.1 })).cpus, 0.1);
		assert.equal(await out(id, { command: 'nproc' }), '1');
		const spin = 'import time\nbegin, cpu = time.monotonic(), time.process_time()\nwhile time.monotonic() - begin < 2: pass\nprint((time.process_time() - cpu) / (time.monotonic() - begin))';
		const share = Number(await out(id, { code: spin }));
		assert.ok(share < 0.3, String(share));
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('CPU time: what a rest left over may be used later, one period at most', { skip: lacking || (contained && 'the daemon sets no bursts') }, async (t) => {
		const id = await make({ cpus: 0.4 });
		assert.equal(await out(id, { code: 'print(1)', stateful: true }), '1'); // a process in the group that stays
		const found = cpuGroup(program.pid);
		if (!found)
			return t.skip('a kernel without bursts (before 5.14)');
		assert.deepEqual(found(), [40_000, 40_000]);
		for (const cpus of [0.1, 0.3]) { // a burst above the new quota would be refused
			await changed(id, { cpus });
			assert.deepEqual(found(), [cpus * 100_000, cpus * 100_000]);
		}
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('less memory than is in use is refused, and kills nothing; when it is free, it goes', { skip: lacking }, async () => {
		const id = await make({ memory_mb: 600 });
		assert.equal(await out(id, { code: `${HOLD}y = hold(300); z = 7`, stateful: true }), '');
		const before = await limits(id);
		const no = await change(id, { memory_mb: 150, processes: 25, name: 'not' });
		assert.deepEqual([no.status, no.body.code, no.body.member], [409, 'limit_below_use', 'memory_mb'], no.text);
		assert.match(no.body.detail, /uses [3-5]\d\d MiB/);
		assert.ok(no.body.hint.length > 0);
		assert.deepEqual(await limits(id), before);
		assert.equal((await ask('GET', `/sandboxes/${id}`)).body.name, '');
		assert.equal(await out(id, { code: 'len(y) >> 20, z', stateful: true }), '(300, 7)');
		assert.equal(await out(id, { code: 'y.close()', stateful: true }), '');
		// the kernel frees the memory of the interpreter that the run has replaced a moment later
		await until('the memory is free', async () => (await change(id, { memory_mb: 150 })).status === 200, 20_000);
		assert.equal((await limits(id)).memory_mb, 150);
		const much = await run(id, { code: 'hold(300)', stateful: true });
		assert.notEqual(much.exit_code, 0, JSON.stringify(much));
		assert.equal(await out(id, { code: 'z', stateful: true }), '7');
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('during a run: it goes on, whether memory is raised, refused or lowered', { skip: lacking }, async () => {
		const id = await make({ memory_mb: 400 });
		const code = `${HOLD}import os, time\nm = hold(150)\nopen("/mnt/data/on", "w").close()\nwhile not os.path.exists("/mnt/data/more"): time.sleep(0.02)\nn = hold(400)\nprint(len(m) + len(n) >> 20)`;
		const started = await ask('POST', `/sandboxes/${id}/runs`, { code });
		const listed = async (): Promise<string> => (await ask('GET', `/sandboxes/${id}/files`)).text;
		await until('the run holds its memory', async () => /"on"/.test(await listed()), 30_000);
		assert.equal((await change(id, { memory_mb: 100 })).body.code, contained ? 'session_busy' : 'limit_below_use');
		const lower = await change(id, { memory_mb: 350 });
		assert.equal(lower.body.code ?? lower.status, contained ? 'session_busy' : 200, lower.text);
		await changed(id, { memory_mb: 800 });
		assert.equal((await ask('PUT', `/sandboxes/${id}/files/more`)).status, 201);
		const end = await until('the end', async () => {
			const r = (await ask('GET', `/runs/${started.body.id}`)).body;
			return r.exit_code !== undefined && r.exit_code !== null && r;
		}, 60_000 * slowness);
		assert.deepEqual([end.exit_code, end.stdout.trim()], [0, '550'], JSON.stringify(end));
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('two requests at once: what is answered holds', { skip: lacking }, async () => {
		const id = await make({});
		const asked: Json[] = [{ memory_mb: 300 }, { cpus: 0.7 }, { processes: 50 }, { memory_mb: 310 }];
		const answers = await Promise.all(asked.map((json) => change(id, json)));
		const now = await limits(id);
		assert.ok(answers.some((a) => a.status === 200));
		for (const [i, a] of answers.entries())
			assert.ok(a.status === 200 || a.body.code === 'session_busy', JSON.stringify([asked[i], a.text]));
		for (const member of ['cpus', 'processes'] as const) {
			const i = asked.findIndex((json) => member in json);
			assert.equal(now[member] === asked[i]![member], answers[i]!.status === 200, member);
		}
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('beyond the maxima, and what is fixed: refused with the reason', async () => {
		const id = await make({});
		const before = await limits(id);
		const rows: [Json, number, string, string, RegExp][] = [
			[{ memory_mb: 1025 }, 400, 'invalid_argument', 'memory_mb', /at most 1024.*SANDBOX_MAX_MEMORY_LIMIT/],
			[{ processes: 900000 }, 400, 'invalid_argument', 'processes', /SANDBOX_MAX_PIDS_LIMIT/],
			[{ cpus: 2.5 }, 400, 'invalid_argument', 'cpus', /SANDBOX_MAX_CPU_LIMIT/],
			[{ memory_mb: 5 }, 400, 'invalid_argument', 'memory_mb', /from 6/],
			[{ memory_mb: null }, 400, 'invalid_argument', 'memory_mb', /memory/],
			[{ disk_mb: 50 }, 409, 'limit_not_changeable', 'disk_mb', /cannot be changed/],
			[{ image: 'base' }, 400, 'invalid_argument', 'image', /Make a new sandbox/],
		];
		for (const [json, status, code, member, says] of rows) {
			const r = await change(id, json);
			assert.deepEqual([r.status, r.body.code, r.body.member], [status, code, member], r.text);
			assert.match(r.body.detail, says);
		}
		assert.deepEqual(await limits(id), before);
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('a host that cannot change them says so, and changes nothing', { skip: !lacking && 'this host can' }, async () => {
		const id = await make({});
		const before = await limits(id);
		for (const json of [{ memory_mb: 250 }, { cpus: 0.5, name: 'x' }]) {
			const r = await change(id, json);
			assert.deepEqual([r.status, r.body.code], [409, 'limit_not_changeable'], r.text);
			assert.match(r.body.detail, /cannot change/);
		}
		assert.deepEqual([await limits(id), (await ask('GET', `/sandboxes/${id}`)).body.name], [before, '']);
		await ask('DELETE', `/sandboxes/${id}`);
	});

	it('a stored sandbox keeps them, changed while it is active and while it is not', { skip: lacking }, async () => {
		const id = await make({ kind: 'stored', memory_mb: 200 });
		await changed(id, { memory_mb: 500 });
		await program.end();
		await begin();
		assert.equal((await limits(id)).memory_mb, 500);
		assert.equal((await changed(id, { processes: 60 })).processes, 60);
		assert.equal(await out(id, { code: `${HOLD}print(len(hold(350)) >> 20)` }), '350');
		assert.deepEqual([(await limits(id)).memory_mb, (await limits(id)).processes], [500, 60]);
		assert.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204);
	});

	it('(slow) a model changes them with sandbox_create, and reads them with sandbox_info', { skip: lacking }, () => using('stdio', { profile: 'full', env }, async (s: Session) => {
		const call = async (name: string, args: Json): Promise<Json> => {
			const r = await s.raw(name, args);
			return { ...(r.structuredContent?.result ?? r.structuredContent ?? {}), failed: r.isError ?? false, text: JSON.stringify(r.content) };
		};
		const { session_id: id } = await call('sandbox_create', { memory_mb: 200 });
		await call('sandbox_run_python', { session_id: id, code: `${HOLD}x = hold(100)`, stateful: true });
		const done = await call('sandbox_create', { session_id: id, memory_mb: 400, processes: 77 });
		assert.deepEqual([done.failed, done.status, done.memory_mb, done.processes], [false, 'changed', 400, 77], done.text);
		const info = await call('sandbox_info', { session_id: id });
		assert.deepEqual([info.limits.memory_bytes >> 20, info.limits.processes], [400, 77]);
		const no = await call('sandbox_create', { session_id: id, memory_mb: 60 });
		assert.deepEqual([no.failed, no.error], [true, 'limit_below_use'], no.text);
		assert.match(no.text, /Free memory/);
		const disk = await call('sandbox_create', { session_id: id, disk_mb: 60 });
		assert.deepEqual([disk.failed, disk.error], [true, 'limit_not_changeable'], disk.text);
		assert.match((await call('sandbox_run_python', { session_id: id, code: 'print(len(x) >> 20)', stateful: true })).text, /100/);
	}));

	it('(slow) more processes for a sandbox from the pool', { skip: unlessEnforced('memory', 'pids') || (process.env.CAISSON_TEST_COLD === '1' && 'the pool is off without warm starts') }, async () => {
		const few = { ...env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_PIDS_LIMIT: '36' };
		const s = await serve({ profile: 'full', env: few });
		const figure = async (name: string): Promise<number> => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await (await fetch(`${s.base}/metrics`)).text())![1]);
		const send = async (method: string, at: string, json: Json): Promise<Json> =>
			(await fetch(`${s.base}/api/v1${at}`, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(json) })).json() as Promise<Json>;
		try {
			// The server fills its pool at its start, before anybody asks for anything.
			await send('POST', '/sandboxes', {});
			await until('a sandbox that waits', async () => await figure('caisson_pool_ready') > 0);
			const claimed = await figure('caisson_pool_claimed_total');
			const { id } = await send('POST', '/sandboxes', {});
			assert.equal(await figure('caisson_pool_claimed_total'), claimed + 1);
			const run = (code: string): Promise<Json> => send('POST', `/sandboxes/${id}/runs`, { code, stateful: true, wait: true });
			assert.equal((await run(COUNT)).exit_code, 0);
			assert.equal((await send('PATCH', `/sandboxes/${id}`, { processes: 200 })).limits.processes, 200);
			const r = await run('print(count(100))');
			assert.equal(r.stdout, '100\n', JSON.stringify(r));
		} finally {
			await s.program.end();
		}
	});
});
