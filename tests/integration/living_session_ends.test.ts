// SPDX-License-Identifier: Apache-2.0
// Runs of a living session that are cancelled. Nobody reads their answers, so the next answer says what became of the variables.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Stream } from '../lib/event-stream.ts';
import { facts, matrix, type Json } from '../lib/session.ts';
import { ask } from '../lib/users.ts';
import { until } from '../lib/wait.ts';

const UNDONE = /^The cancelled run before this one was ended, and what it did to the variables was undone\./;
/** The signal is blocked before anybody sees the file: between that and the loop in C it would interrupt. */
const deaf = (more = ''): string => `${more}\nimport signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nopen('started', 'w').close(); x = 2; sum(range(10**13))`;

matrix('ends of a living session', { profile: 'all', env: { SANDBOX_EXEC_TIMEOUT_S: '300' } }, (s) => {
	let n = 0;
	const cell = async (session_id: string, code: string, more: Json = {}, signal?: AbortSignal): Promise<Json> =>
		facts(await s().raw('sandbox_run_python', { code, session_id, stateful: true, ...more }, signal && { signal }));

	const begun = (session_id: string): Promise<unknown> =>
		until('the run', async () => JSON.stringify(await s().raw('sandbox_list_files', { session_id })).includes('started'), 30_000);

	/** Starts CODE and cancels it when it has written its file. */
	const cancelled = async (session_id: string, code: string): Promise<void> => {
		const abort = new AbortController();
		const end = assert.rejects(cell(session_id, code, {}, abort.signal));
		await begun(session_id);
		abort.abort('enough');
		await end;
		await s().raw('sandbox_run_shell', { command: 'rm -f started', session_id });
	};

	it('(slow) the next answer says that a cancelled run was undone, and waits for its end', async () => {
		const id = `undone${++n}`;
		await cell(id, 'x = 1');
		const abort = new AbortController();
		const end = assert.rejects(cell(id, deaf(), {}, abort.signal));
		await begun(id);
		abort.abort('enough');
		await end;
		const r = await cell(id, 'x');
		assert.equal(r.result, '1', JSON.stringify(r));
		assert.equal(r.state, 'kept');
		assert.match(r.hint, UNDONE);
		assert.deepEqual(r.gone, ['last run']);
		const later = await cell(id, 'x');
		assert.equal(later.hint, undefined, JSON.stringify(later));
		assert.equal(later.gone, undefined);
	});

	it('(slow) what a cancelled run took with it, and one that is cancelled after it', async () => {
		const id = `undone${++n}`;
		await cell(id, "import threading, time, subprocess\nx = 1; p = subprocess.Popen(['sleep', '99']); threading.Thread(target=time.sleep, args=(99,), daemon=True).start()");
		await cancelled(id, deaf());
		await cancelled(id, deaf());
		const r = await cell(id, 'x, p.poll()');
		assert.equal(r.result, '(1, -9)', JSON.stringify(r));
		assert.match(r.hint, /undone\. The threads and processes of earlier runs were gone, too\./);
		assert.deepEqual(r.gone, ['last run', 'threads', 'processes']);
	});

	it('(slow) a cancelled run whose session is carried, and one whose session is lost', async () => {
		const id = `undone${++n}`;
		await cell(id, "import ctypes, os, socket\nctypes.CDLL(None).pthread_create(ctypes.byref(ctypes.c_ulong()), None, ctypes.CDLL(None).pause, None)\nx, con = 1, socket.socket()");
		await cancelled(id, deaf());
		const r = await cell(id, 'x');
		assert.equal(r.result, '1', JSON.stringify(r));
		assert.match(r.hint, /undone\. A new interpreter had \d variables? of the session, as they were before it\. Gone: con\./);
		assert.deepEqual(r.gone, ['last run', 'connections', 'con']);
		await cell(id, deaf('del x'), { timeout_s: 1 });
		const told = await cell(id, 'x = 1');
		assert.equal(told.hint, undefined, JSON.stringify(told));
		assert.equal(told.gone, undefined);
		const bare = `undone${++n}`;
		await cell(bare, "import os, signal\nx = 1\nos.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), 9))");
		await cancelled(bare, deaf());
		const lost = await cell(bare, "'x' in globals()");
		assert.equal(lost.result, 'False', JSON.stringify(lost));
		assert.equal(lost.state, 'lost');
		assert.match(lost.hint, /^The session's variables are gone: /);
		assert.equal((await cell(bare, '1')).state, 'kept');
	});

	it('(slow) a session that takes long to come back after a cancelled run is waited for', async () => {
		const id = `undone${++n}`; // longer than the front waits for other runs
		await cell(id, 'import ctypes, time\nctypes.CDLL(None).pthread_create(ctypes.byref(ctypes.c_ulong()), None, ctypes.CDLL(None).pause, None)\nclass D:\n    def __reduce__(self): return time.sleep, (8,)\nx, d = 1, D()');
		await cancelled(id, deaf());
		const r = await cell(id, 'x, d');
		assert.equal(r.result, '(1, None)', JSON.stringify(r));
		assert.match(r.hint, /undone\. A new interpreter had /);
	});

	it('(slow) checkpoints, branches and forks wait for the end of a cancelled run', async () => {
		const id = `undone${++n}`;
		const tool = async (name: string, more: Json): Promise<Json> => facts(await s().raw(name, { session_id: id, ...more }));
		/** Cancels a run that reacts to nothing, and calls ASK before it has ended. */
		const while_ending = async (ask: () => Promise<Json>): Promise<Json> => {
			const abort = new AbortController();
			const end = assert.rejects(cell(id, deaf(), {}, abort.signal));
			await begun(id);
			abort.abort('enough');
			await end;
			const r = await ask();
			assert.equal(r.error, undefined, JSON.stringify(r));
			await tool('sandbox_run_shell', { command: 'rm -f started' });
			return r;
		};
		await cell(id, 'x = 1');
		assert.equal((await while_ending(() => tool('sandbox_checkpoint', { name: 'one' }))).state, 'kept');
		await cell(id, 'x = 3');
		assert.equal((await while_ending(() => tool('sandbox_restore', { name: 'one' }))).state, 'kept');
		assert.equal((await cell(id, 'x')).result, '1');
		const [both, after] = await Promise.all([while_ending(() => tool('sandbox_branch', { branches: [{ name: 'b', code: 'x += 5\nx' }] })), (async () => {
			await until('the branch', async () => (await tool('sandbox_checkpoint', { name: 'two' })).error === 'session_busy');
			return true;
		})()]);
		assert.equal((both.branches as Json[])[0]!.result, '6', JSON.stringify(both));
		assert.ok(after);
		const told = await cell(id, 'x');
		assert.equal(told.result, '1', JSON.stringify(told));
		assert.match(told.hint, UNDONE);
		assert.equal((await while_ending(() => tool('sandbox_fork', {}))).state, 'fresh');
		assert.equal((await while_ending(() => tool('sandbox_checkpoint', { name: 'one', delete: true }))).status, 'deleted');
	});

	it('(slow) each client of a session is told what a cancelled run took', async (t) => {
		const id = `undone${++n}`;
		if (!s().base)
			return t.skip('two clients need HTTP');
		const other = async (code: string): Promise<Json> => {
			const r = await ask('POST', `${s().base}/api/v1/sandboxes/${id}/runs`, { json: { code, stateful: true, wait: true } });
			assert.equal(r.body.status, 'done', JSON.stringify(r.body));
			return r.body;
		};
		await cell(id, 'x = 1');
		assert.equal((await other('x')).value, '1');
		await cancelled(id, deaf());
		const first = await other('x');
		assert.deepEqual([first.value, first.gone], ['1', ['last run']], JSON.stringify(first));
		assert.equal((await other('y = 5; x')).gone, undefined);
		const r = await cell(id, 'x, y'); // it would go on with x = 2
		assert.equal(r.result, '(1, 5)', JSON.stringify(r));
		assert.match(r.hint, /^An earlier run was cancelled and ended, and what it did to the variables was undone\./);
		assert.deepEqual([r.state, r.gone], ['kept', undefined]);
		for (const again of [await cell(id, 'x'), await other('x')])
			assert.deepEqual([again.hint, again.gone], [undefined, undefined], JSON.stringify(again));
		await cancelled(id, deaf());
		await cell(id, 'x = 7', { restart: true });
		assert.equal((await other('x')).gone, undefined);
	});

	it('a cancelled run that reacts is kept, and a new interpreter is told of nothing', async () => {
		const id = `undone${++n}`;
		await cell(id, 'x = 1');
		await cancelled(id, "x = 2; open('started', 'w').close(); import time; time.sleep(300)");
		const r = await cell(id, 'x');
		assert.equal(r.result, '2', JSON.stringify(r));
		assert.equal(r.hint, undefined);
		await cancelled(id, "open('started', 'w').close(); import os, time\nwhile True:\n try: time.sleep(300)\n except BaseException: os._exit(3)");
		const again = await cell(id, '6 * 7', { restart: true });
		assert.equal(again.result, '42', JSON.stringify(again));
		assert.equal(again.hint, undefined);
		assert.equal(again.gone, undefined);
	});

	it('(slow) the end of an old interpreter with much memory is no process of the new one', async () => {
		const id = `undone${++n}`;
		for (let i = 0; i < 4; i++) {
			await cell(id, "x = b'a' * 200_000_000");
			const r = await cell(id, '6 * 7', { restart: true });
			assert.deepEqual([r.result, r.hint], ['42', undefined], JSON.stringify(r));
		}
	});

	it('a run that somebody else stops has an answer that says so, and the next one does not', async (t) => {
		const id = `undone${++n}`;
		if (!s().base)
			return t.skip('REST needs HTTP');
		await cell(id, 'x = 1');
		const events = await Stream.open(`${s().base}/api/v1/events`);
		await events.wait(/event: hello/);
		const answer = cell(id, "x = 2; print('on', flush=True); import os, time\nwhile True:\n try: time.sleep(300)\n except BaseException: os._exit(3)");
		const [, run] = await events.wait(/run\.output[^]*"run":"(\w+)"/);
		events.close();
		assert.equal((await ask('DELETE', `${s().base}/api/v1/runs/${run}`)).status, 202);
		const r = await answer;
		assert.deepEqual([r.reason, r.state, r.hint], ['cancelled', 'unchanged', 'The run was cancelled and ended; the variables are as before it.']);
		const next = await cell(id, 'x');
		assert.deepEqual([next.result, next.hint, next.gone], ['1', undefined, undefined], JSON.stringify(next));
	});
});
