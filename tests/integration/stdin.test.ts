// SPDX-License-Identifier: Apache-2.0
// Standard input of runs: what a caller gives as `stdin` is what the program reads, and no other run reads it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newStateDir } from '../lib/env.ts';
import { facts, matrix, serve, type Json } from '../lib/session.ts';
import { ask } from '../lib/users.ts';

const LIMIT = 6 << 20;
const env = { SANDBOX_MAX_CODE_BYTES: String(LIMIT) };
const lines = 'first\nsecond é日😀\n\nlast, without an end';

matrix('stdin', { profile: 'full', env }, (s) => {
	const python = async (code: string, more: Json): Promise<Json> => {
		const r = await s().raw('sandbox_run_python', { code, ...more });
		assert.ok(!r.isError, JSON.stringify(r));
		return facts(r);
	};
	const shell = async (command: string, more: Json): Promise<Json> => {
		const r = await s().raw('sandbox_run_shell', { command, ...more });
		assert.ok(!r.isError, JSON.stringify(r));
		return facts(r);
	};
	const said = async (code: string, more: Json): Promise<string> => {
		const r = await python(code, more);
		assert.equal(r.exit_code, 0, r.stderr);
		return r.stdout;
	};

	for (const stateful of [false, true]) {
		const how = { session_id: stateful ? 'kept' : 'single', stateful };
		it(`(slow) input() takes it line by line, to its end: ${stateful ? 'a stateful run' : 'a run'}`, async () => {
			const code = 'while True:\n    try: print(ascii(input()))\n    except EOFError: break\nprint("end")';
			assert.equal(await said(code, { ...how, stdin: lines }), "'first'\n'second \\xe9\\u65e5\\U0001f600'\n''\n'last, without an end'\nend\n");
		});
		it(`sys.stdin, its buffer and descriptor 0 read it: ${stateful ? 'a stateful run' : 'a run'}`, async () => {
			assert.equal(await said('import sys; print([l for l in sys.stdin])', { ...how, stdin: 'a\nb' }), "['a\\n', 'b']\n");
			assert.equal(await said('import sys; print(sys.stdin.buffer.read())', { ...how, stdin: 'a\0b\r\n' }), "b'a\\x00b\\r\\n'\n");
			assert.equal(await said('import os; print(os.read(0, 100), os.read(0, 100))', { ...how, stdin: 'fd 0' }), "b'fd 0' b''\n");
			assert.equal(await said('import subprocess; print(subprocess.run(["cat"], capture_output=True).stdout)', { ...how, stdin: 'child' }), "b'child'\n");
		});
		it(`a run sees nothing of an earlier one's, read or not: ${stateful ? 'a stateful run' : 'a run'}`, async () => {
			await said('import sys; stdin = sys.stdin; print(input(), next(stdin))', { ...how, stdin: 'one\ntwo\nsecret\n' });
			const rest = stateful ? 'stdin.readline() + sys.stdin.read()' : 'sys.stdin.read()';
			assert.equal(await said(`import os, sys; print(repr(${rest}), os.read(0, 9))`, how), "'' b''\n");
			await said('1', { ...how, stdin: 'never read' });
			assert.equal(await said('print(input()); print(input())', { ...how, stdin: 'three\nfour' }), 'three\nfour\n');
			assert.equal(await said('import sys; print(repr(sys.stdin.read()))', { ...how, stdin: '' }), "''\n");
		});
		it(`some MiB: a program that reads it all, and one that reads nothing: ${stateful ? 'a stateful run' : 'a run'}`, async () => {
			const stdin = '0123456789abcde\n'.repeat(LIMIT >> 4);
			const code = 'import hashlib, sys\nt = sys.stdin.read()\nprint(len(t), t.count("\\n"), t == "0123456789abcde\\n" * (len(t) // 16))';
			assert.equal(await said(code, { ...how, stdin }), `${LIMIT} ${LIMIT >> 4} True\n`);
			assert.equal(await said('print("unread")', { ...how, stdin }), 'unread\n');
		});
	}

	it('a command reads it, a pipeline of commands, and a program of python3', async () => {
		assert.equal((await shell('sort | head -n 1; cat', { stdin: 'b\na\n' })).stdout, 'a\n');
		assert.equal((await shell('read x; echo "[$x]"; cat', { stdin: 'one\ntwo\n' })).stdout, '[one]\ntwo\n');
		assert.equal((await shell('cat /dev/stdin | wc -c', { stdin: 'x'.repeat(LIMIT) })).stdout.trim(), String(LIMIT));
		assert.equal((await shell('python3 -c "print(input() + input())"', { stdin: 'a\nb\n' })).stdout, 'ab\n');
		assert.deepEqual((({ exit_code, stdout, stderr }) => [exit_code, stdout, stderr])(await shell('true', { stdin: 'x'.repeat(LIMIT) })), [0, '', '']);
		assert.equal((await shell('wc -c', {})).stdout.trim(), '0');
		assert.equal((await shell('wc -c; printf "[%s]" "$(tr "\\0" 0)"', { stdin: 'a\0b' })).stdout.trim(), '3\n[]');
	});
	it('the program cannot write into it', async () => {
		const code = 'import os\nfor how in (lambda: os.write(0, b"x"), lambda: os.write(os.open("/proc/self/fd/0", os.O_RDWR), b"x"), lambda: os.ftruncate(0, 0)):\n    try: how(); print("written")\n    except OSError: print("no")';
		assert.equal(await said(code, { stdin: 'abc' }), 'no\nno\nno\n');
	});
	it('more than the limit is refused, with words about what to do; as much is not', async () => {
		for (const [tool, what] of [['sandbox_run_python', { code: 'print(1)' }], ['sandbox_run_shell', { command: 'wc -c' }]] as const) {
			const r = await s().raw(tool, { ...what, session_id: 'limit', stdin: 'x'.repeat(LIMIT + 1) });
			assert.deepEqual([r.isError, r.structuredContent!.error, r.structuredContent!.message], [true, 'stdin_too_large', `stdin is ${LIMIT + 1} bytes, the limit is ${LIMIT}.`]);
			assert.match(r.structuredContent!.hint as string, /sandbox_write_file/);
		}
		assert.equal((await shell('wc -c', { session_id: 'limit', stdin: 'é'.repeat(LIMIT / 2) })).stdout.trim(), String(LIMIT));
		assert.equal((await s().raw('sandbox_run_python', { code: '1', stdin: ['5'] })).isError, true);
	});
	it('a program that asks and was given nothing gets a hint; one that was given too little does not', async () => {
		for (const stateful of [false, true])
			assert.match((await python('input("name? ")', { stateful })).hint ?? '', /^Nobody answers input\(\) here: .*\bstdin\b/);
		assert.match((await shell('python3 -c "input()"', {})).hint ?? '', /\bstdin\b/);
		assert.equal((await python('input(); input()', { stdin: 'one\n' })).hint, undefined);
		assert.equal((await python('print(input())', { stdin: 'one\n' })).hint, undefined);
	});
});

describe('stdin over REST', () => {
	it('(slow) reaches the run, also one that has waited; the history does not keep it', async () => {
		const { program, base } = await serve({ profile: 'full', env: { SANDBOX_STATE_DIR: newStateDir(), SANDBOX_MAX_CODE_BYTES: '3000000' } });
		const api = `${base}/api/v1`;
		const post = async (to: string, json: Json, status = 201): Promise<Json> => {
			const r = await ask('POST', `${api}${to}`, { json });
			assert.equal(r.status, status, JSON.stringify(r.body).slice(0, 300));
			return r.body;
		};
		try {
			const { id } = await post('/sandboxes', { kind: 'stored', env: { TOKEN: 'correct-horse' } });
			const run = (json: Json, status?: number): Promise<Json> => post(`/sandboxes/${id}/runs`, { wait: true, ...json }, status);
			assert.equal((await run({ code: 'print(input(), input())', stdin: 'só\nwhat\n' })).stdout, 'só what\n');
			assert.equal((await run({ code: 'print(input())', stdin: 'kept\nrest\n', stateful: true })).stdout, 'kept\n');
			assert.equal((await run({ code: 'import sys; print(repr(sys.stdin.read()))', stateful: true })).stdout, "''\n");
			assert.equal((await run({ command: 'cat', stdin: 'a\nb' })).stdout, 'a\nb');
			assert.deepEqual((({ stdout, ended_cwd }) => [stdout, ended_cwd])(await run({ command: 'cat', cwd: '/tmp', stdin: 'in a folder' })), ['in a folder', '/tmp']);
			// "\n" and most of the other bytes take six in JSON
			assert.equal((await run({ command: 'wc -c', stdin: '\u0001'.repeat(3_000_000) })).stdout.trim(), '3000000');
			assert.deepEqual([(await run({ code: '1', stdin: 'x'.repeat(3_000_001) }, 413)).code], ['stdin_too_large']);
			assert.deepEqual([(await run({ code: '1', stdin: 'a\0b' }, 400)).code, (await run({ code: '1', stdin: 1 }, 400)).code], ['invalid_argument', 'invalid_argument']);

			// Runs that wait for their turn: each has its own, in any order of their ends.
			const first = await post(`/sandboxes/${id}/runs`, { command: 'until [ -e go ]; do sleep 0.05; done; cat', stdin: 'waited' });
			const others = ['x', 'y', 'z'].map((stdin) => run({ command: 'cat', stdin: `${stdin} correct-horse unkept` }));
			const none = run({ command: 'wc -c' });
			const put = await fetch(`${api}/sandboxes/${id}/files/go`, { method: 'PUT', body: '' });
			assert.equal(put.status, 201);
			assert.deepEqual((await Promise.all([...others, none])).map((r) => r.stdout.trim()), ['x correct-horse unkept', 'y correct-horse unkept', 'z correct-horse unkept', '0']);
			assert.equal((await ask('GET', `${api}/runs/${first.id}`)).body.stdout, 'waited');

			// A word that no program printed is nowhere in the history.
			await run({ code: 'print(len(input()))', stdin: 'wombat' });
			const found = await ask('GET', `${api}/history?q=wombat`);
			assert.equal(found.status, 200);
			assert.ok(!JSON.stringify(found.body).includes('len(input())'), JSON.stringify(found.body));
			assert.match(JSON.stringify((await ask('GET', `${api}/history?q=unkept`)).body), /unkept/, 'what a program prints of it is output');
			assert.ok(!JSON.stringify((await ask('GET', `${api}/notebooks/${id}`)).body).match(/wombat|correct-horse/));
			assert.equal((await ask('GET', `${api}/me`)).body.budgets.run_input.used, 0, 'nothing is held when all runs have ended');
		} finally {
			await program.end();
		}
	});
});
