// SPDX-License-Identifier: Apache-2.0
// Stateful runs of the profile `full`: variables persist, and an end that nothing survives leaves the state before the run.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { facts, matrix, using, type Json } from '../lib/session.ts';

matrix('stateful', { profile: 'full' }, (s) => {
	const run = async (session_id: string, code: string, more: Json = {}): Promise<Json> => {
		const r = await s().raw('sandbox_run_python', { code, session_id, stateful: true, ...more });
		const said = facts(r);
		assert.ok(!said.error, r.content[0]!.text);
		return said;
	};

	it('variables, imports and definitions persist; the last expression comes back', async () => {
		assert.deepEqual([(await run('keep', 'import math\nx = 40\ndef f(y): return x + y')).state, (await run('keep', 'f(2)')).result], ['kept', '42']);
		assert.equal((await run('keep', 'print(math.floor(2.5)); None')).stdout, '2\n');
		assert.equal((await run('keep', 'x = 1;')).result, undefined);
	});

	it('a stateless run neither sees nor changes the state', async () => {
		await run('apart', 'x = "mine"');
		const r = await s().call('sandbox_run_python', { code: 'print("x" in globals()); x = 2', session_id: 'apart' });
		assert.deepEqual([r.stdout, r.state], ['False\n', undefined]);
		assert.equal((await run('apart', 'x')).result, "'mine'");
	});

	const ends: [name: string, code: string, expect: Json, more?: Json][] = [
		['os._exit', 'x = 2\nimport os; os._exit(3)', { exit_code: 3, reason: 'exited' }],
		['a kill of itself', 'x = 2\nimport os; os.kill(os.getpid(), 9)', { exit_code: 137, reason: 'signaled' }],
		['a native crash', 'x = 2\nimport ctypes; ctypes.string_at(0)', { exit_code: 139, reason: 'signaled' }],
		['a timeout that ignores SIGINT', 'x = 2\nimport signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass', { exit_code: -1, reason: 'timeout' }, { timeout_s: 1 }],
	];
	for (const [name, code, expect, more] of ends)
		it(`${more ? '(slow) ' : ''}${name} leaves the state before the run`, async () => {
			await run('ends', 'x = 1');
			const r = await run('ends', code, more);
			assert.deepEqual({ exit_code: r.exit_code, reason: r.reason }, expect, JSON.stringify(r));
			assert.equal(r.state, 'unchanged');
			assert.equal((await run('ends', 'x')).result, '1');
		});

	it('an exception and sys.exit are returns of the code, as in a notebook: what went before them holds', async () => {
		await run('raise', 'x = 1');
		const r = await run('raise', 'x = 2\n1 / 0');
		assert.deepEqual([r.exit_code, r.reason, r.state], [1, 'exited', 'kept']);
		assert.match(r.stderr, /1 \/ 0\n.*\nZeroDivisionError/);
		assert.equal((await run('raise', 'x')).result, '2');
		assert.deepEqual([(await run('raise', 'x = 3\nimport sys; sys.exit(7)')).exit_code, (await run('raise', 'x')).result], [7, '3']);
		assert.deepEqual([(await run('raise', 'x = = 4')).exit_code, (await run('raise', 'x')).result], [1, '3']);
	});

	it('from __future__ holds for later cells, and ends with the run that it was in when that is undone', async () => {
		const code = 'def f(x: nothing_such): pass\nf.__annotations__["x"]';
		await run('future', 'import os');
		assert.equal((await run('future', 'from __future__ import annotations\nos._exit(1)')).state, 'unchanged');
		assert.equal((await run('future', 'import sys; sys._getframe().f_code.co_flags & 0x1000000')).result, '0');
		await run('future', 'from __future__ import annotations');
		assert.equal((await run('future', code)).result, "'nothing_such'");
		assert.equal((await run('future', 'sys._getframe().f_code.co_flags & 0x1000000')).result, '16777216');
	});

	it('a traceback shows the lines of the cells that the code is from', async () => {
		await run('lines', 'def first(x):\n    return 1 / x  # of the first');
		await run('lines', 'def second(x):\n    return first(x)  # of the second');
		const r = await run('lines', 'second(0)  # of the third');
		assert.deepEqual([...r.stderr.matchAll(/File "<cell (\d)>", line (\d).*\n {4}(.*)/g)].map((m) => m.slice(1)),
			[['3', '1', 'second(0)  # of the third'], ['2', '2', 'return first(x)  # of the second'], ['1', '2', 'return 1 / x  # of the first']]);
		assert.equal((await run('lines', 'import inspect\ninspect.getsource(first)')).result, "'def first(x):\\n    return 1 / x  # of the first\\n'");
	});

	it('a child that comes to the end of a cell ends there, and does not answer in the name of its parent', async () => {
		const r = await run('fork', 'import os\npid = os.fork()\nif pid == 0: print("child")\nelse: status = os.waitpid(pid, 0)[1]; v = 42; print("parent", status)\npid and "of the parent"');
		assert.deepEqual([r.stdout, r.result, r.state], ['child\nparent 0\n', "'of the parent'", 'kept']);
		assert.equal((await run('fork', 'v')).result, '42');
		const failed = await run('fork', 'pid = os.fork()\nif pid == 0: raise SystemExit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])');
		assert.equal(failed.result, '7');
	});

	it('OpenMP computes in every cell, and after a crash', async () => {
		const fit = 'm = H(max_iter=3).fit(X, y); n += 1; n';
		await run('openmp', 'import os; os.environ["OMP_NUM_THREADS"] = "4"\nimport numpy as np\nfrom sklearn.ensemble import HistGradientBoostingClassifier as H\nX = np.random.rand(3000, 6); y = (X[:, 0] > .5) * 1; n = 0');
		assert.equal((await run('openmp', fit, { timeout_s: 60 })).result, '1');
		assert.equal((await run('openmp', fit, { timeout_s: 60 })).result, '2');
		assert.equal((await run('openmp', 'os.abort()')).state, 'unchanged');
		assert.equal((await run('openmp', fit, { timeout_s: 60 })).result, '3');
	});

	it('a run that kills whatever it can reach never hangs and never lies', async () => {
		await run('kill', 'x = 1');
		const r = await run('kill', 'import os\nfor pid in range(1, 400):\n    if pid != os.getpid():\n        try: os.kill(pid, 9)\n        except OSError: pass\nx = 2');
		assert.ok(['kept', 'lost'].includes(r.state), JSON.stringify(r));
		const after = await run('kill', 'x');
		if (r.state === 'kept') assert.equal(after.result, '2');
		else assert.ok(r.hint);
	});

	it('(slow) a state that does not let itself be forked is lost, and the next run is told', async () => {
		// there is no backup of an earlier run that could take over
		for (const how of ['time.sleep(1000)', 'os._exit(1)']) {
			assert.equal((await run(`stuck-${how.length}`, `import os, time\nx = 1\nos.register_at_fork(before=lambda: ${how})`)).state, 'kept');
			const r = await run(`stuck-${how.length}`, '"x" in globals()');
			assert.deepEqual([r.result, r.state], ['False', 'lost'], how);
			assert.ok(r.hint, how);
			assert.equal((await run(`stuck-${how.length}`, '6 * 7')).result, '42');
		}
	});

	it('a timeout is an interrupt: what went before it holds', async () => {
		await run('timeout', 'x = 1');
		const r = await run('timeout', 'x = 2\nwhile True: pass', { timeout_s: 1 });
		assert.deepEqual([r.exit_code, r.reason, r.state], [-1, 'timeout', 'kept']);
		assert.equal((await run('timeout', 'x')).result, '2');
	});

	it('threads that a run leaves are told once, and go on', async () => {
		const r = await run('threads', 'import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()');
		assert.match(r.hint, /[Tt]hread/);
		assert.equal((await run('threads', '1')).hint, undefined);
	});

	it('files that a run saves are artifacts, and later runs see them', async () => {
		const r = await run('files', 'open("a.txt", "w").write("hello"); None');
		assert.deepEqual(r.artifacts.map((a: Json) => a.filename), ['a.txt']);
		assert.equal((await run('files', 'open("a.txt").read()')).result, "'hello'");
	});

	it('two sessions have nothing in common', async () => {
		await run('one', 'x = 1');
		const r = await run('two', 'x');
		assert.match(r.stderr, /NameError/);
	});
});

it('without warm interpreters the error names the setting, and a run without state works', () =>
	using('stdio', { profile: 'full', env: { SANDBOX_WARM: 'off', SANDBOX_POOL: '0' } }, async (s) => {
		const r = await s.raw('sandbox_run_python', { code: 'print(1)', session_id: 'cold', stateful: true });
		const text = r.content.map((c) => c.text).join('');
		assert.equal(facts(r).error, 'engine_unavailable', text);
		assert.match(text, /SANDBOX_WARM is off.*stateful=false.*SANDBOX_WARM=on/s);
		assert.doesNotMatch(text, /doctor|not supported/);
		assert.equal((await s.ok('print(1)', 'cold')).stdout, '1\n');
	}));
