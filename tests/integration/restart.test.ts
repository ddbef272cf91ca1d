// SPDX-License-Identifier: Apache-2.0
// A server that ends while a run goes on: the notebook has the run, in its place, with what it had written, and says what is lost.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { Census } from '../lib/process.ts';
import { serve, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const waitMs = 30_000;
const draftMs = 2500; // an output of now is in the draft by then
const grows = 'import time\nprint("first", flush=True)\ntime.sleep(1)\nprint("second", flush=True)\ntime.sleep(600)';

class Place {
	private readonly state = newStateDir();
	server!: Awaited<ReturnType<typeof serve>>;

	async start(): Promise<void> {
		this.server = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: this.state, SANDBOX_POOL: '0', SANDBOX_EXEC_TIMEOUT_S: '900' } });
	}
	async ask(method: string, path: string, body?: Json): Promise<Json> {
		const r = await fetch(`${this.server.base}/api/v1/${path}`, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
		const text = await r.text();
		assert.ok(r.status < 300, `${method} ${path}: ${r.status} ${text}`);
		return text ? JSON.parse(text) as Json : {};
	}
	async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
		const census = new Census();
		census.take(this.server.program.pid);
		this.server.program.kill(signal);
		await this.server.program.exit;
		await census.gone(waitMs);
	}
	async cells(id: string): Promise<Json[]> {
		return (await this.ask('GET', `notebooks/${id}`)).cells as Json[];
	}
}

describe('a restart during a run', { concurrency: 2 }, () => {
	const lost = {
		session: 'The server ended during this run. The rest of its output and the sandbox, with its variables and files, are lost.',
		stored: 'The server ended during this run. The rest of its output and all variables of the sandbox are lost; its files are still there.',
		waits: 'The server ended before this run began.',
	};
	for (const signal of ['SIGTERM', 'SIGKILL'] as const)
		for (const kind of ['session', 'stored'] as const)
			it(`(slow) ${signal}, ${kind}`, async () => {
				const p = new Place();
				await p.start();
				try {
					const id = (await p.ask('POST', 'sandboxes', kind === 'stored' ? { kind: 'stored', name: 'kept' } : {})).id as string;
					for (const code of ['x = 1', 'print(x)'])
						await p.ask('POST', `sandboxes/${id}/runs`, { code, stateful: true, wait: true });
					await p.ask('POST', `sandboxes/${id}/runs`, { code: grows, stateful: true });
					const waits = kind === 'stored' ? ['print("waits")'] : []; // in a session runs do not wait
					for (const code of waits)
						await p.ask('POST', `sandboxes/${id}/runs`, { code, stateful: true });
					await until('the output', async () => (await p.cells(id)).some((c) => c.stdout.text === 'first\nsecond\n'), waitMs);
					await new Promise((r) => setTimeout(r, draftMs));
					assert.deepEqual((await p.cells(id)).map((c) => c.status), ['done', 'done', 'running', ...waits.map(() => 'queued')]);
					await p.end(signal);
					for (let i = 0; i < 2; i++) { // the second start finds nothing more
						await p.start();
						const cells = await p.cells(id);
						assert.deepEqual(cells.map((c) => [c.code, c.status, c.reason, c.error && !c.error.endsWith('has ended')]), [
							['x = 1', 'done', 'exited', null],
							['print(x)', 'done', 'exited', null],
							[grows, 'failed', 'lost', true],
							...waits.map((code) => [code, 'failed', 'lost', signal === 'SIGKILL']),
						]);
						const [cut, waited] = cells.slice(2) as [Json, Json?];
						assert.equal(cut.error, lost[kind]);
						if (signal === 'SIGKILL' && waited)
							assert.equal(waited.error, lost.waits);
						assert.equal(cut.stdout.text, 'first\nsecond\n');
						assert.equal(cut.exit_code, 137);
						assert.ok(cut.duration_ms >= 1000 && cut.duration_ms < 2 * waitMs, `${cut.duration_ms} ms`);
						assert.ok(cells.every((c, n) => n === 0 || c.seq > cells[n - 1]!.seq));
						await p.end('SIGKILL');
					}
				} finally {
					await p.server.program.end();
				}
			});

	it('cells come in the order in which they began, however long their files take', async () => {
		const p = new Place();
		await p.start();
		try {
			const id = (await p.ask('POST', 'sandboxes', { kind: 'stored' })).id as string;
			const draws = 'import os\nfor i in range(8): open(f"{i}.png", "wb").write(os.urandom(20_000))';
			for (let i = 0; i < 5; i++) {
				await p.ask('POST', `sandboxes/${id}/runs`, { code: draws });
				await p.ask('POST', `sandboxes/${id}/runs`, { code: '1', wait: true });
			}
			await until('the history', async () => (await p.cells(id)).every((c) => c.seq !== null), waitMs);
			assert.deepEqual((await p.cells(id)).map((c) => c.code === draws), Array.from({ length: 10 }, (_, i) => i % 2 === 0));
		} finally {
			await p.server.program.end();
		}
	});

	it('a run that has ended is there once', async () => {
		const p = new Place();
		await p.start();
		try {
			const id = (await p.ask('POST', 'sandboxes', {})).id as string;
			await p.ask('POST', `sandboxes/${id}/runs`, { code: 'import time\nprint(1, flush=True)\ntime.sleep(1.5)\nprint(2)', wait: true }); // it had a draft
			assert.equal((await p.cells(id)).length, 1);
			await p.end('SIGKILL');
			await p.start();
			assert.deepEqual((await p.cells(id)).map((c) => [c.status, c.stdout.text]), [['done', '1\n2\n']]);
		} finally {
			await p.server.program.end();
		}
	});
});
