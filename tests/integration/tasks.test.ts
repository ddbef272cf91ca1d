// SPDX-License-Identifier: Apache-2.0
// A run that takes long becomes a background task for clients that know tasks (2026-07-28), and stays a call for all others.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RawClient } from '../lib/raw.ts';
import { facts, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

const prefix = 'io.modelcontextprotocol/';
const envelope = (tasks: boolean): Json => ({
	[`${prefix}protocolVersion`]: '2026-07-28',
	[`${prefix}clientCapabilities`]: tasks ? { extensions: { [`${prefix}tasks`]: {} } } : {},
});

async function using(body: (ask: (method: string, params: Json, tasks?: boolean) => Promise<Json>) => Promise<void>): Promise<void> {
	const client = new RawClient({ env: { SANDBOX_TASK_AFTER_S: '1' } }, ['stdio', '--profile', 'full']);
	try {
		await body(async (method, params, tasks = true) => {
			const r = await client.request(method, { ...params, _meta: envelope(tasks) }, 60_000);
			return r.result ?? { error: r.error };
		});
	} finally {
		await client.program.end();
	}
}

const run = (code: string, session_id: string): Json => ({ name: 'sandbox_run_python', arguments: { code, session_id } });
const text = (result: Json): Json => facts(result);

describe('tasks', () => {
	it('(slow) a short run is answered at once, a long one as a task that ends with the same result', () => using(async (ask) => {
		const short = await ask('tools/call', run('print(1)', 'a'));
		assert.deepEqual([short.resultType, text(short).stdout], ['complete', '1\n']);
		const long = await ask('tools/call', run('import time\nfor i in range(3): print(i, flush=True); time.sleep(0.8)', 'a'));
		assert.deepEqual([long.resultType, long.status], ['task', 'working'], JSON.stringify(long));
		assert.ok(Number.isInteger(long.ttlMs) && Number.isInteger(long.pollIntervalMs) && Date.parse(long.createdAt));
		const end = await until('the task', async () => {
			const t = await ask('tasks/get', { taskId: long.taskId });
			return t.status === 'working' ? undefined : t;
		}, 30_000);
		assert.equal(end.status, 'completed');
		assert.deepEqual([text(end.result).stdout, text(end.result).exit_code], ['0\n1\n2\n', 0]);
	}));
	it('cancelling the task kills the run and frees the session', () => using(async (ask) => {
		const long = await ask('tools/call', run('while True: pass', 'b'));
		assert.equal(long.resultType, 'task');
		await ask('tasks/cancel', { taskId: long.taskId });
		assert.equal((await ask('tasks/get', { taskId: long.taskId })).status, 'cancelled');
		const next = await until('the session', async () => {
			const r = text(await ask('tools/call', run('print(7)', 'b')));
			return r.error === 'session_busy' ? undefined : r;
		}, 15_000);
		assert.equal(next.stdout, '7\n');
		assert.equal((await ask('tasks/get', { taskId: 'f'.repeat(32) })).error.code, -32602);
	}));
	it('(slow) a client without the extension waits for the result', () => using(async (ask) => {
		const r = await ask('tools/call', run('import time; time.sleep(1.5); print("done")', 'c'), false);
		assert.deepEqual([r.resultType, text(r).stdout], ['complete', 'done\n']);
		assert.equal((await ask('tasks/get', { taskId: 'x' }, false)).error.code, -32021);
	}));
});
