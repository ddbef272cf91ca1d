// SPDX-License-Identifier: Apache-2.0
// Programs as in a textbook: worker processes, pickling, source of what the code defines, __file__.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { facts, using, type Json } from '../lib/session.ts';

const worker = 'def f(x): return x * x\n';
const guard = 'if __name__ == "__main__":\n    ';

/** What a program prints. */
const programs: [name: string, code: string, stdout: string][] = [
	['Pool', `from multiprocessing import Pool\n${worker}${guard}with Pool(2) as p: print(p.map(f, range(4)))`, '[0, 1, 4, 9]\n'],
	['Pool without a guard', `from multiprocessing import Pool\n${worker}with Pool(2) as p: print(p.map(f, range(4)))`, '[0, 1, 4, 9]\n'],
	['ProcessPoolExecutor', `from concurrent.futures import ProcessPoolExecutor\n${worker}${guard}with ProcessPoolExecutor(2) as p: print(list(p.map(f, range(4))))`, '[0, 1, 4, 9]\n'],
	['Process', 'from multiprocessing import Process\ndef f(n): print("hi", n)\np = Process(target=f, args=("x",)); p.start(); p.join(); print(p.exitcode)', 'hi x\n0\n'],
	['context spawn', `import multiprocessing as mp\ndef put(q): q.put("hello")\n${guard}c = mp.get_context("spawn"); q = c.Queue(); p = c.Process(target=put, args=(q,)); p.start(); print(q.get()); p.join()`, 'hello\n'],
	['context forkserver', `import multiprocessing as mp\ndef put(q): q.put("hello")\n${guard}c = mp.get_context("forkserver"); q = c.Queue(); p = c.Process(target=put, args=(q,)); p.start(); print(q.get()); p.join()`, 'hello\n'],
	['shared memory and a manager', 'from multiprocessing import Manager, shared_memory\ns = shared_memory.SharedMemory(create=True, size=9); s.buf[0] = 1; print(s.buf[0]); s.close(); s.unlink()\nm = Manager(); d = m.dict(); d[1] = 2; print(dict(d)); m.shutdown()', '1\n{1: 2}\n'],
	['a pickled dataclass', 'import pickle\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(pickle.loads(pickle.dumps(P(3))))', 'P(x=3)\n'],
	['source', 'import inspect\ndef g(a):\n    return a\nclass K:\n    def m(self): pass\nprint(inspect.getsource(g) + inspect.getsource(K) + inspect.getsource(K.m), end="")', 'def g(a):\n    return a\nclass K:\n    def m(self): pass\n    def m(self): pass\n'],
	['__file__', 'import os\nprint(__name__, os.path.isabs(__file__), os.path.exists(__file__))', '__main__ True True\n'],
];

describe('textbook programs', () => {
	for (const [name, env, more] of [['(slow) warm', {}, {}], ['cold', { SANDBOX_WARM: 'off' }, {}], ['stateful', {}, { stateful: true }]] as [string, Record<string, string>, Json][])
		it(name, () => using('stdio', { profile: 'full', env }, async (s) => {
			for (const again of name === 'stateful' ? [1, 2] : [1]) // a session's second pool has helpers of its own
				for (const [title, code, stdout] of programs) {
					const r = await s.raw('sandbox_run_python', { code, session_id: 'book', ...more });
					const said = facts(r);
					assert.deepEqual([title, again, said.stdout, said.exit_code], [title, again, stdout, 0], said.stderr);
				}
		}));
	it('in profile code the program is still named <string> in tracebacks', () => using('stdio', {}, async (s) => {
		const r = await s.run('def f():\n    return 1 / 0\nf()', 'named');
		assert.match(r.stderr, /File "<string>", line 3, in <module>\n    f\(\)\n/);
		assert.equal((await s.run('print(__file__ in open(__file__).read(), open(__file__).read()[:5])', 'named')).stdout, 'False print\n');
	}));
	it('(slow) files that a cell opened are open in the next', () => using('stdio', { profile: 'full' }, async (s) => {
		const run = async (code: string): Promise<Json> => facts(await s.raw('sandbox_run_python', { code, session_id: 'open', stateful: true }));
		await run('f = open("kept", "w"); f.write("a"); f.flush()');
		assert.equal((await run('f.write("b"); f.close(); print(open("kept").read())')).stdout, 'ab\n');
	}));
	it('(slow) in a session a worker that imports the program gets what cells have defined, and runs none of them', () => using('stdio', { profile: 'full' }, async (s) => {
		const run = async (code: string): Promise<Json> => facts(await s.raw('sandbox_run_python', { code, session_id: 'cells', stateful: true }));
		await run('import math; print("once")\nK = 3');
		await run('def root(x): return math.sqrt(x) * K');
		const r = await run('import multiprocessing as mp\nwith mp.get_context("spawn").Pool(1) as p: print(p.map(root, [4]))');
		assert.equal(r.stdout, '[6.0]\n', r.stderr);
	}));
});
