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
	it('without warm interpreters there is no prompt, and the advice is for this command', async () => {
		const r = await caisson(['run', '-i'], { input: 'x = 1\n', env: { ...env, SANDBOX_WARM: 'off' } });
		assert.equal(r.code, 78);
		assert.match(r.stderr.toString(), /-i keeps the variables in a warm interpreter, and SANDBOX_WARM is off: leave that setting out, or give the code as a file/);
		assert.doesNotMatch(r.stderr.toString(), /stateful/);
	});
	for (const [args, says] of [[['-i', '-'], /standard input is the prompt's/], [['-i', 'a', 'b'], /no -c and no arguments/], [[], /no file \(see 'caisson run --help'\)/]] as const)
		it(`refuses ${JSON.stringify(args)}`, async () => {
			const r = await caisson(['run', ...args], { env });
			assert.equal(r.code, 64);
			assert.match(r.stderr.toString(), says);
		});
});

/** A prompt at a terminal, which script(1) gives it: it passes keys and screen on. */
async function atTerminal(more: Record<string, string | undefined>, use: (expect: (what: string) => Promise<true>, type: (keys: string) => void, p: Program) => Promise<void>, args: string[] = []): Promise<void> {
	const words = 'exec ' + asProductUser([binary, 'run', '-i', ...args]).map((w) => `'${w}'`).join(' ');
	const p = new Program(spawn('script', ['-qefc', words, '/dev/null'], { env: productEnv({ ...env, ...more }), stdio: ['pipe', 'pipe', 'pipe'] }));
	let seen = 0;
	const expect = (what: string): Promise<true> => until(what, () => {
		const at = p.stdout.indexOf(what, seen);
		seen = at < 0 ? seen : at + what.length;
		return at >= 0;
	}, patience);
	try {
		await use(expect, (keys) => void p.child.stdin!.write(keys), p);
	} finally {
		p.kill('SIGKILL');
	}
}

describe('caisson run -i, at a terminal', () => {
	for (const [what, TERM] of [['with a line editor', 'xterm'], ['that is dumb', 'dumb']] as const)
		it(`${what}: prompts, goes on, interrupts, ends`, () => atTerminal({ TERM, XDG_STATE_HOME: scratch('xdg') }, async (expect, type, p) => {
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
			await expect('7\r\n');
			await expect('>>> ');
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
			await expect('7\r\n');
			await expect('>>> ');
			type('\x04');
			assert.equal((await p.exit).code, 0);
		}));
});

describe('the line editor of caisson run -i', () => {
	const UP = '\x1b[A', LEFT = '\x1b[D';
	const kept = (folder: string): string => path.join(folder, 'caisson/python_history');

	it('arrow keys edit and bring lines back, also those of an earlier prompt; the file is the person\'s alone', async () => {
		const XDG_STATE_HOME = scratch('xdg');
		await atTerminal({ TERM: 'xterm', XDG_STATE_HOME }, async (expect, type, p) => {
			await expect('>>> ');
			type('print("é" + "on", 12)\n');
			await expect('éon 12\r\n');
			await expect('>>> ');
			type(`${UP}${LEFT}3\n`); // before the bracket
			await expect('éon 123\r\n');
			await expect('>>> ');
			type('half\x03'); // what is typed is forgotten
			await expect('KeyboardInterrupt');
			await expect('>>> ');
			type('if 1:\n');
			await expect('... ');
			type('\tprint("tab" + "bed")\n');
			await expect('... ');
			type('\n');
			await expect('tabbed\r\n');
			await expect('>>> ');
			type('exit()\n');
			assert.equal((await p.exit).code, 0);
		});
		const lines = ['print("é" + "on", 12)', 'print("é" + "on", 123)', 'if 1:', '\tprint("tab" + "bed")', 'exit()'];
		assert.deepEqual(fs.readFileSync(kept(XDG_STATE_HOME), 'utf8').split('\n'), [...lines, '']);
		assert.equal(fs.statSync(kept(XDG_STATE_HOME)).mode & 0o7777, 0o600);
		await atTerminal({ TERM: 'xterm', XDG_STATE_HOME }, async (expect, type, p) => {
			await expect('>>> ');
			type(`${UP.repeat(4)}\n`);
			await expect('éon 123\r\n');
			await expect('>>> ');
			type('\x04');
			assert.equal((await p.exit).code, 0);
		});
	});
	it('--no-history neither reads nor keeps lines', async () => {
		const XDG_STATE_HOME = scratch('xdg');
		const folder = path.dirname(kept(XDG_STATE_HOME));
		await atTerminal({ TERM: 'xterm', XDG_STATE_HOME }, async (expect, type, p) => {
			await expect('>>> ');
			type('print("an" + "swer")\n');
			await expect('answer\r\n');
			await expect('>>> ');
			type(`${UP}\n`); // those of this prompt are there
			await expect('answer\r\n');
			await expect('>>> ');
			type('\x04');
			assert.equal((await p.exit).code, 0);
		}, ['--no-history']);
		assert.ok(!fs.existsSync(folder));
	});
	it('a pipe leaves no history', async () => {
		const XDG_STATE_HOME = scratch('xdg');
		const r = await caisson(['run', '-i'], { input: 'print(1)\n', env: { ...env, TERM: 'xterm', XDG_STATE_HOME } });
		assert.deepEqual([r.code, r.stdout.toString()], [0, '1\n']);
		assert.deepEqual(fs.readdirSync(XDG_STATE_HOME), []);
	});
	it('the file is bounded, and one that is a link is left alone', async () => {
		const XDG_STATE_HOME = scratch('xdg');
		const other = path.join(scratch('xdg'), 'other');
		fs.mkdirSync(path.dirname(kept(XDG_STATE_HOME)), { recursive: true });
		fs.writeFileSync(kept(XDG_STATE_HOME), Array.from({ length: 3000 }, (_, i) => `print("old", ${i} * 1)\n`).join(''));
		fs.writeFileSync(other, 'untouched\n');
		const uid = fs.statSync(XDG_STATE_HOME).uid;
		for (const at of [path.dirname(kept(XDG_STATE_HOME)), kept(XDG_STATE_HOME), other])
			fs.chownSync(at, uid, uid);
		const session = (): Promise<void> => atTerminal({ TERM: 'xterm', XDG_STATE_HOME }, async (expect, type, p) => {
			await expect('>>> ');
			type('print("n" + "ew")\n');
			await expect('new\r\n');
			await expect('>>> ');
			type('\x04');
			assert.equal((await p.exit).code, 0);
		});
		await session();
		const lines = fs.readFileSync(kept(XDG_STATE_HOME), 'utf8').trimEnd().split('\n');
		assert.deepEqual([lines.length, lines[0], lines.at(-1)], [1001, 'print("old", 2000 * 1)', 'print("n" + "ew")']);
		assert.equal(fs.statSync(kept(XDG_STATE_HOME)).mode & 0o7777, 0o600);
		fs.rmSync(kept(XDG_STATE_HOME));
		fs.symlinkSync(other, kept(XDG_STATE_HOME));
		await session();
		assert.equal(fs.readFileSync(other, 'utf8'), 'untouched\n');
	});
});
