// SPDX-License-Identifier: Apache-2.0
// `caisson run -i`: a Python prompt for people, and for what is piped into it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { asProductUser, binary, productEnv, scratch, slowness } from '../lib/env.ts';
import { Program, caisson, start } from '../lib/process.ts';
import { until } from '../lib/wait.ts';

const env = { SANDBOX_IMAGE: 'base' };
const patience = 30_000 * slowness;

function file(name: string, text: string): string {
	const at = path.join(scratch('prompt'), name);
	fs.writeFileSync(at, text, { mode: 0o644 });
	return at;
}

describe('caisson run -i, from a pipe', () => {
	const piped = async (input: string, args: string[] = []): Promise<[number | null, string, string]> => {
		const r = await caisson(['run', '-i', ...args], { input, env });
		return [r.code, r.stdout.toString(), r.stderr.toString()];
	};
	it('statements share their variables; values are printed, and nothing else is', async () => {
		assert.deepEqual(await piped('x = 40\ndef f(y):\n    return x + y\n\nf(2)\nprint("hi"); None\n"""a\nb"""\n_ * 2'),
			[0, "42\nhi\n'a\\nb'\n'a\\nba\\nb'\n", '']);
	});
	it('an error is told and does not end the session', async () => {
		const [code, out, err] = await piped('x = 1\n1 / 0\nx = (\nimport os\nx\n');
		assert.deepEqual([code, out], [0, '']);
		assert.match(err, /<cell 2>", line 1, in <module>\n {4}1 \/ 0\n[^]*ZeroDivisionError[^]*SyntaxError/);
	});
	it('what kills a statement leaves the variables before it', async () => {
		const [code, out, err] = await piped('x = 1\nx = 2; import os; os._exit(9)\nx\n');
		assert.deepEqual([code, out], [0, '1\n']);
		assert.match(err, /variables are as before/);
	});
	it('exit() ends with its status, exit and the end of input with 0', async () => {
		assert.deepEqual(await piped('print(1)\nexit(7)\nprint(2)\n'), [7, '1\n', '']);
		assert.deepEqual(await piped('quit\nprint(2)\n'), [0, '', '']);
		assert.deepEqual(await piped(''), [0, '', '']);
	});
	it('a file first, then the prompt; --out saves what both make', async () => {
		const out = path.join(scratch('out'), 'here');
		const script = file('first.py', 'x = 5\nopen("a.txt", "w").write("A")\nprint("file")');
		assert.deepEqual(await piped('x\nopen("b.txt", "w").write("BB")\n', [script, '--out', out]), [0, 'file\n5\n2\n', '']);
		assert.deepEqual(fs.readdirSync(out).sort(), ['a.txt', 'b.txt']);
	});
	it('standard input may be a file', async () => {
		const argv = asProductUser([binary, 'run', '-i']);
		const input = fs.openSync(file('input.py', 'x = 1\nx\n'), 'r');
		const p = new Program(spawn(argv[0]!, argv.slice(1), { env: productEnv(env), stdio: [input, 'pipe', 'pipe'] }));
		const r = await p.exit;
		assert.deepEqual([r.code, r.stdout.toString(), r.stderr.toString()], [0, '1\n', '']);
	});
	it('SIGINT interrupts what runs and keeps the state; output comes as it is made', async () => {
		const p = start(['run', '-i'], { input: 'x = 1\nimport time\nx = 2; print("on", flush=True); time.sleep(300)\n', keepInput: true, env });
		try {
			await until('the statement', () => p.stdout === 'on\n', patience);
			p.kill('SIGINT');
			await until('its end', () => /KeyboardInterrupt/.test(p.stderr), patience);
			p.child.stdin!.end('x\n');
			assert.deepEqual([(await p.exit).code, p.stdout], [0, 'on\n2\n']);
		} finally {
			p.kill('SIGTERM');
		}
	});
	for (const [args, says] of [[['-i', '-'], /standard input is the prompt's/], [['-i', 'a', 'b'], /no -c and no arguments/], [[], /no file \(see 'caisson run --help'\)/]] as const)
		it(`refuses ${JSON.stringify(args)}`, async () => {
			const r = await caisson(['run', ...args], { env });
			assert.equal(r.code, 64);
			assert.match(r.stderr.toString(), says);
		});
});

describe('caisson run -i, at a terminal', () => {
	it('prompts, goes on, interrupts, ends', async () => {
		// script(1) gives it a terminal and passes keys and screen on.
		const words = 'exec ' + asProductUser([binary, 'run', '-i']).map((w) => `'${w}'`).join(' ');
		const p = new Program(spawn('script', ['-qefc', words, '/dev/null'], { env: productEnv(env), stdio: ['pipe', 'pipe', 'pipe'] }));
		let seen = 0;
		const expect = (what: string): Promise<true> => until(what, () => {
			const at = p.stdout.indexOf(what, seen);
			seen = at < 0 ? seen : at + what.length;
			return at >= 0;
		}, patience);
		const type = (keys: string): void => void p.child.stdin!.write(keys);
		try {
			await expect('>>> ');
			type('x = 7\n');
			await expect('>>> ');
			type('def f():\n');
			await expect('... ');
			type('    return x\n');
			await expect('... ');
			type('\n');
			await expect('>>> ');
			type('f()\n');
			await expect('7\r\n>>> ');
			type('(1 +\n');
			await expect('... ');
			type('\x03');
			await expect('KeyboardInterrupt');
			await expect('>>> ');
			type('print("on", flush=True); import time; time.sleep(300)\n');
			await expect('\non\r\n');
			type('\x03');
			await expect('KeyboardInterrupt');
			await expect('>>> ');
			type('x\n');
			await expect('7\r\n>>> ');
			type('\x04');
			assert.equal((await p.exit).code, 0);
		} finally {
			p.kill('SIGKILL');
		}
	});
});
