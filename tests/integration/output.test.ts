// SPDX-License-Identifier: Apache-2.0
// Output is never late and never lost: a printed line is seen at once, and is in the result whatever ends the run.

import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { slowness } from '../lib/env.ts';
import type { Program } from '../lib/process.ts';
import { facts, serve, using, type Json, type Session } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

/** Ways to run a piece of Python, each with what its server needs. */
const ways: { name: string; env: Record<string, string>; more: Json; wrap?: (code: string) => string }[] = [
	{ name: 'warm', env: {}, more: {} },
	{ name: 'stateful', env: {}, more: { stateful: true } },
	{ name: 'cold', env: { SANDBOX_WARM: 'off' }, more: {} },
	{ name: 'a python3 started by name', env: {}, more: {}, wrap: (code) => `import subprocess, sys\nsys.exit(subprocess.run(["python3", "-c", ${JSON.stringify(code)}]).returncode % 256)` },
];

/** code that ends badly, and what it prints before */
const ends: [name: string, code: string, stdout: string][] = [
	['os._exit', 'print("a")\nprint("b", end=" ")\nprint("c", end="")\nimport os; os._exit(3)', 'a\nb c'],
	['SIGKILL', 'print("a")\nprint("b", end=" ")\nimport os; os.kill(os.getpid(), 9)', 'a\nb '],
	['SIGTERM', 'print("a")\nprint("b", end=" ")\nimport os; os.kill(os.getpid(), 15)', 'a\nb '],
	['an interrupt', 'print("a")\nprint("b", end=" ")\nimport os; os.kill(os.getpid(), 2)\nimport time; time.sleep(9)', 'a\nb '],
	['a crash', 'for i in range(1000): print(i)\nprint("end", end=" ")\nimport ctypes; ctypes.string_at(0)', [...Array(1000).keys()].join('\n') + '\nend '],
	['a thread that waits for ever', 'print("a")\nimport os, threading\nthreading.Timer(0.2, os._exit, (3,)).start()\nthreading.Event().wait()', 'a\n'],
];

async function ran(s: Session, code: string, more: Json): Promise<Json> {
	const r = await s.raw('sandbox_run_python', { code, session_id: 'out', ...more });
	const said = facts(r);
	assert.equal(said.error, undefined, r.content[0]!.text);
	return said;
}

describe('output is not lost', () => {
	for (const { name, env, more, wrap = (code: string) => code } of ways)
		it(name, () => using('stdio', { profile: 'full', env }, async (s) => {
			await ran(s, 'print(1)', more);
			for (const [end, code, stdout] of ends) {
				const r = await ran(s, wrap(code), more);
				assert.deepEqual([end, r.stdout], [end, stdout]);
				assert.notEqual(r.exit_code, 0, end);
			}
			const others = await ran(s, wrap('import sys, _interpreters as m\nprint("a")\nfor n in "bc":\n    i = m.create("legacy"); m.exec(i, f"print(\'{n}\')"); m.destroy(i)\nprint("d"); sys.stdout.flush(); sys.stdout.write("e\\n")'), more);
			assert.deepEqual([others.stdout, others.stderr], ['a\nb\nc\nd\ne\n', '']);
			const encoded = await ran(s, wrap('import os, subprocess; print(subprocess.run(["python3", "-c", "print(chr(233))"], env={**os.environ, "PYTHONIOENCODING": "latin-1"}, capture_output=True).stdout)'), more);
			assert.deepEqual([encoded.stdout, encoded.stderr], ["b'\\xe9\\n'\n", '']);
			const late = await ran(s, wrap('print("a")\nprint("b", end=" ")\nwhile True: pass'), { ...more, timeout_s: 1 });
			assert.deepEqual([late.stdout, late.reason], ['a\nb ', 'timeout']);
		}));
	it('(slow) of text that no pipe was read for, of several threads, in one order with children', () => using('stdio', { profile: 'full', env: { SANDBOX_RESULT_CHARS: '40000' } }, async (s) => {
		for (const more of [{}, { stateful: true }]) {
			const mixed = await ran(s, [
				'import os, subprocess, sys',
				'print("a"); print("b", end=" ")',
				'subprocess.run(["echo", "c"])',
				'print("d"); os.system("echo e"); print("f")',
				'if os.fork() == 0:',
				'    print("g"); os._exit(0)',
				'os.wait(); print("h"); sys.stdout.buffer.write(b"i\\n"); print("j")',
			].join('\n'), more);
			assert.equal(mixed.stdout, 'a\nb c\nd\ne\nf\ng\nh\ni\nj\n');
			// Always a warm run: in a cold one a line and its end are two writes.
			const threads = await ran(s, [
				'import threading, time',
				'def work(n):',
				'    for i in range(500): print("line", n, i)',
				'all = [threading.Thread(target=work, args=(n,)) for n in range(4)]',
				'[t.start() for t in all]; [t.join() for t in all]; None',
			].join('\n'), { stateful: true });
			const lines = threads.stdout.split('\n').filter(Boolean);
			assert.deepEqual([lines.length, new Set(lines).size], [2000, 2000]);
			const redirected = await ran(s, [
				'import os, sys, time',
				'print("before"); print("too"); sys.stdout.flush()',
				'keep, file = os.dup(1), os.open("/tmp/caught", os.O_RDWR | os.O_CREAT | os.O_TRUNC)',
				'os.dup2(file, 1)',
				'print("caught"); print("both"); time.sleep(0.1); sys.stdout.flush()',
				'os.dup2(keep, 1)',
				'print("after", open("/tmp/caught").read().split())',
			].join('\n'), more);
			assert.equal(redirected.stdout, "before\ntoo\nafter ['caught', 'both']\n");
		}
	}));
	it('(slow) a run that writes nonsense into the shared memory harms its own output alone', () => using('stdio', { profile: 'full' }, async (s) => {
		for (const [state, at, len] of [[0, 0, 0xffffffff], [1, 0xffffffff, 0xffffffff], [1, 0, 65_521], [2, 7, 65_520], [9, 65_520, 65_520], [1, 0, 65_520]]) {
			const r = await ran(s, [
				'import ctypes, os, time',
				'print("a"); print("b")',
				'place = next(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "memfd:output" in line)',
				`(ctypes.c_uint32 * 3).from_address(place)[:] = [${state}, ${at}, ${len}]`,
				'time.sleep(0.1); os._exit(3)',
			].join('\n'), { stateful: true }); // which is never cold
			assert.deepEqual([r.exit_code, r.stdout.startsWith('a\n')], [3, true]);
			assert.equal((await ran(s, 'print("good"); print("again")', { stateful: true })).stdout, 'good\nagain\n');
		}
	}));
	it('a program started by name writes a line and its end with one call, unless it wants a buffer', () => using('stdio', { profile: 'full' }, async (s) => {
		// Each read of a pipe with O_DIRECT returns what one write(2) wrote.
		const r = await ran(s, [
			'import os, subprocess',
			'def pieces(*program, **env):',
			'    r, w = os.pipe2(os.O_DIRECT)',
			'    code = "import sys; print(1, None, \'é\', sep=\'-\'); print(\'end\'); print(type(sys.stdout).__name__, sys.stdout, file=sys.stderr)"',
			'    child = subprocess.run([*program, "-c", code], stdout=w, stderr=subprocess.PIPE, env={**os.environ, **env})',
			'    os.close(w)',
			'    got = []',
			'    while piece := os.read(r, 100): got.append(piece.decode())',
			'    os.close(r)',
			'    return got, child.stderr.decode()',
			'print(pieces("python3"))',
			'print(pieces("python3", PYTHONUNBUFFERED=""))',
			'print(pieces("python3", "-S")[0] == ["1", "-", "None", "-", "é", "\\n", "end", "\\n"])',
			'print([name for name in __import__("sys").modules if "caisson" in name], os.path.exists("/usr/local/lib/caisson/output.so"))',
		].join('\n'), {});
		const said = `"TextIOWrapper <_io.TextIOWrapper name='<stdout>' mode='w' encoding='utf-8'>\\n"`;
		assert.equal(r.stdout, `(['1-None-é\\n', 'end\\n'], ${said})\n(['1-None-é\\nend\\n'], ${said})\nTrue\n[] True\n`, r.stderr);
	}));
	it('print is still print', () => using('stdio', { profile: 'full' }, async (s) => {
		const r = await ran(s, [
			'import contextlib, inspect, io, pickle, sys',
			'print(1, 2.5, None, True, "é€𝄞", [1], sep="|", end="!\\n", flush=True)',
			'print(*"abc", sep=None, end=None); print(); print("x" * 9000 == "x" * 9000)',
			'for words in {"sep": 1}, {"end": b""}, {"no": 1}:',
			'    try: print("never", **words)',
			'    except TypeError as e: print(e)',
			'caught = io.StringIO()',
			'with contextlib.redirect_stdout(caught): print("in", "side", sep="-")',
			'print(repr(caught.getvalue()), pickle.loads(pickle.dumps(print)) is print, repr(print), inspect.signature(print))',
			'class Loud:',
			'    def __str__(self): print("[loud]"); return "str"',
			'print("one", Loud(), "two")',
			'print(isinstance(sys.stdout, io.TextIOWrapper), sys.stdout)',
		].join('\n'), {});
		assert.equal(r.stdout, [
			'1|2.5|None|True|é€𝄞|[1]!', 'a b c', '', 'True',
			'sep must be None or a string, not int', 'end must be None or a string, not bytes', "print() got an unexpected keyword argument 'no'",
			"'in-side\\n' True <built-in function print> (*args, sep=' ', end='\\n', file=None, flush=False)",
			'one [loud]', 'str two', "True <_io.TextIOWrapper name='<stdout>' mode='w' encoding='utf-8'>", '',
		].join('\n'), r.stderr);
	}));
});

describe('output is not late', () => {
	let program: Program;
	let base: string;
	const servers: Program[] = [];

	after(async () => {
		for (const p of servers) {
			p.kill('SIGTERM');
			await p.exit;
		}
	});

	/** Milliseconds from each print to the event that has its line. */
	async function delays(code: string, more: Json): Promise<number[]> {
		const post = async (path: string, body: Json): Promise<Json> => (await (await fetch(`${base}/api/v1${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json()) as Json;
		const id = (await post('/sandboxes', {})).id as string;
		await post(`/sandboxes/${id}/runs?wait=1`, { code: 'print(1)', ...more });
		await until('the sandbox is free', async () => {
			const r = await post(`/sandboxes/${id}/runs`, { code, ...more });
			return r.id && (started = r.id as string);
		}, 20_000);
		const stream = await fetch(`${base}/api/v1/runs/${started}/events`);
		const found: number[] = [];
		const decoder = new TextDecoder();
		let text = '';
		for await (const piece of stream.body as unknown as AsyncIterable<Uint8Array>) {
			const now = Date.now();
			text += decoder.decode(piece, { stream: true });
			const lines = text.split('event: end')[0]!; // which has all of it once more
			for (const m of [...lines.matchAll(/at (\d+)\\n/g)].slice(found.length))
				found.push(now - Number(m[1]));
		}
		return found;
	}
	let started = '';

	const printing = 'import time\nfor i in range(6):\n    for k in range(3): print(f"at {time.time_ns() // 1000000}\\n", end="")\n    time.sleep(0.3)\n';
	for (const { name, env, more, wrap = (code: string) => code } of ways)
		it(`(slow) ${name}: a line is seen within 50 ms (time)`, async () => {
			({ program, base } = await serve({ profile: 'full', env }));
			servers.push(program);
			const found = (await delays(wrap(printing), more)).sort((a, b) => a - b);
			assert.equal(found.length, 18, String(found));
			assert.ok(found[9]! <= 50 * slowness, `milliseconds: ${found}`);
		});
});
