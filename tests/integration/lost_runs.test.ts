// SPDX-License-Identifier: Apache-2.0
// A run that ends with its sandbox or its server is in the history all the same, once, as lost.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { initsOf, monitorOf } from '../lib/family.ts';
import { Census } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const waitMs = 30_000;
const burnedS = 1.5;
/** Says when it has used so much CPU time, and goes on. */
const burner = `import time\nwhile time.process_time() < ${burnedS}: pass\nopen("started", "w").close()\nwhile True: pass`;
const sleeper = 'open("started", "w").close()\nimport time\ntime.sleep(600)';

class Place {
	private readonly state = newStateDir();
	server!: Awaited<ReturnType<typeof serve>>;

	async start(more: Record<string, string> = {}): Promise<void> {
		this.server = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: this.state, SANDBOX_POOL: '0', SANDBOX_EXEC_TIMEOUT_S: '900', ...more } });
	}
	async ask(method: string, path: string, body?: Json): Promise<Json> {
		const r = await fetch(`${this.server.base}/api/v1/${path}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
		const text = await r.text();
		assert.ok(r.status < 300, `${method} ${path}: ${r.status} ${text}`);
		return text ? JSON.parse(text) as Json : {};
	}
	async sandbox(): Promise<string> {
		return (await this.ask('POST', 'sandboxes', {})).id as string;
	}
	/** Begins a run that does not end, and waits until it has begun. */
	async sleeper(id: string, code = sleeper): Promise<string> {
		const run = await this.ask('POST', `sandboxes/${id}/runs`, { code });
		await until('the run', async () => (await this.ask('GET', `sandboxes/${id}/files`)).files.length > 0, waitMs);
		return run.id as string;
	}
	/** Reasons of the rows of a run. */
	async reasons(id: string): Promise<string[]> {
		return (await this.ask('GET', 'runs')).runs.filter((r: Json) => r.id === id).map((r: Json) => r.reason as string);
	}
	async status(method: string, path: string, body: Json): Promise<[number, string]> {
		const r = await fetch(`${this.server.base}/api/v1/${path}`, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		return [r.status, (await r.json() as Json).code as string];
	}
	async kill(): Promise<void> {
		const census = new Census();
		census.take(this.server.program.pid);
		this.server.program.kill('SIGKILL');
		await this.server.program.exit;
		await census.gone(waitMs);
	}
}

async function at(body: (p: Place) => Promise<void>, env: Record<string, string> = {}): Promise<void> {
	const p = new Place();
	await p.start(env);
	try {
		await body(p);
	} finally {
		await p.server.program.end();
	}
}

describe('runs whose end nobody saw', { concurrency: 2 }, () => {
	it('the sandbox ends: the caller is told, and the row says lost', () => at(async (p) => {
		const id = await p.sandbox();
		const run = await p.sleeper(id);
		process.kill(initsOf(p.server.program.pid)[0]!.pid, 'SIGKILL');
		const end = await until('the end', async () => {
			const r = await p.ask('GET', `runs/${run}`);
			return r.status !== 'running' && r;
		}, waitMs);
		assert.deepEqual([end.status, end.error], ['failed', 'sandbox_lost']);
		assert.deepEqual(await p.reasons(run), ['lost']);
		assert.match(await (await fetch(`${p.server.base}/metrics`)).text(), /^caisson_runs_total\{reason="lost"\} 1$/m);
	}));

	// Else a quota of CPU time is evaded by ending the sandbox under each run.
	const ends: [string, string, (p: Place, id: string) => unknown][] = [
		['its owner ends the sandbox', 'cancelled', (p, id) => p.ask('DELETE', `sandboxes/${id}?force=true`)],
		['the sandbox is lost', 'lost', (p) => process.kill(initsOf(p.server.program.pid)[0]!.pid, 'SIGKILL')],
	];
	for (const [name, reason, end] of ends)
		it(`(slow) ${name}: what the run has used counts against the quota of the day`, () => at(async (p) => {
			const id = await p.sandbox();
			const run = await p.sleeper(id, burner);
			await end(p, id);
			const row = await until('the row', async () => (await p.ask('GET', 'runs')).runs.find((r: Json) => r.id === run && r.reason === reason) as Json, waitMs);
			assert.ok(row.cpu_us >= burnedS * 1e6, JSON.stringify(row));
			const next = await p.sandbox();
			assert.deepEqual(await p.status('POST', `sandboxes/${next}/runs`, { code: '1', wait: true }), [429, 'quota_exceeded']);
		}, { SANDBOX_USER_CPU_S_PER_DAY: '1' }));

	it('(slow) what a run leaves behind counts with it, whoever its parent was', () => at(async (p) => {
		const id = await p.sandbox();
		const leaver = [
			'import os, subprocess, sys, time',
			`child = subprocess.Popen([sys.executable, "-c", ${JSON.stringify(burner)}], start_new_session=True)`,
			'while not os.path.exists("started"): time.sleep(0.02)',
		].join('\n');
		const run = await p.ask('POST', `sandboxes/${id}/runs`, { code: leaver, wait: true });
		assert.deepEqual([run.status, run.exit_code], ['done', 0], JSON.stringify(run));
		const row = (await p.ask('GET', 'runs')).runs[0] as Json;
		assert.ok(row.cpu_us >= burnedS * 1e6, JSON.stringify(row));
	}));

	it('the monitor ends, and every sandbox with it', () => at(async (p) => {
		const runs = [await p.sleeper(await p.sandbox()), await p.sleeper(await p.sandbox())];
		process.kill(monitorOf(p.server.program.pid).pid, 'SIGKILL');
		for (const run of runs)
			await until('the row', async () => (await p.reasons(run))[0] === 'lost', waitMs);
	}));

	it('a server that is told not to wait writes them before it ends', () => at(async (p) => {
		const run = await p.sleeper(await p.sandbox());
		p.server.program.kill('SIGTERM');
		await until('the listener to close', () => fetch(`${p.server.base}/healthz`).then(() => false, () => true), waitMs);
		p.server.program.kill('SIGTERM');
		await p.server.program.exit;
		await p.start();
		assert.deepEqual(await p.reasons(run), ['lost']);
	}));

	it('(slow) a server that is killed: the next one finds what ran, and what had ended, once each', () => at(async (p) => {
		const id = await p.sandbox();
		const done: string[] = [];
		for (let i = 0; i < 5; i++)
			done.push((await p.ask('POST', `sandboxes/${id}/runs`, { code: 'print(1)', wait: true })).id as string);
		const run = await p.sleeper(await p.sandbox());
		const last = (await p.ask('POST', `sandboxes/${id}/runs`, { code: 'print(1)', wait: true })).id as string; // its row is not written yet
		await p.kill();
		for (let i = 0; i < 2; i++) { // the second start finds nothing more
			await p.start();
			assert.deepEqual(await p.reasons(run), ['lost']);
			for (const one of [...done, last])
				assert.deepEqual(await p.reasons(one), ['exited']);
			await p.kill();
		}
	}));
});
