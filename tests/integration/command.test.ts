// SPDX-License-Identifier: Apache-2.0
// `caisson run FILE` as a person uses it in a terminal and in scripts.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { binary, newStateDir, scratch } from '../lib/env.ts';
import { Census, caisson, start } from '../lib/process.ts';
import { until } from '../lib/wait.ts';

function script(code: string): string {
	const file = path.join(scratch('script'), 'script.py');
	fs.writeFileSync(file, code, { mode: 0o644 });
	return file;
}

describe('caisson run', () => {
	it('signals that its parent ignores mean in the sandbox what they always do', async () => {
		const text = 'import subprocess\nprint(subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True).stdout)';
		for (const warm of ['on', 'off']) {
			const sh = spawnSync('sh', ['-c', `trap "" HUP INT QUIT TERM USR1 CHLD; exec "$0" "$@"`, binary, 'run', script(text)], { env: { ...process.env, SANDBOX_STATE_DIR: newStateDir(), SANDBOX_WARM: warm }, encoding: 'utf8' });
			assert.match(sh.stdout, /SigIgn:\s0+\n/, sh.stderr);
		}
	});

	it('help VERB is the help of the verb', async () => {
		for (const verb of ['run', 'image', 'help']) {
			const r = await caisson(['help', verb]);
			assert.deepEqual([r.code, r.stdout.toString()], [0, (await caisson([verb, '--help'])).stdout.toString()], verb);
		}
		for (const words of [['nosuch'], ['monitor'], ['run', 'image']]) {
			const r = await caisson(['help', ...words]);
			assert.deepEqual([r.code, r.stdout.toString()], [64, ''], words.join(' '));
		}
	});
	it('runs JavaScript and TypeScript, by the name of the file or by --language', async () => {
		const dir = scratch('js'), at = (name: string, text: string): string => (fs.writeFileSync(path.join(dir, name), text), path.join(dir, name));
		const of = async (words: string[], input?: string): Promise<unknown[]> => {
			const r = await caisson(['run', ...words], { input });
			return [r.code, r.stdout.toString(), r.stderr.toString()];
		};
		const program = 'console.log(process.argv.slice(2).join(), require("fs").readFileSync(0, "utf8")); process.exit(3)';
		for (const name of ['a.js', 'b.cjs', 'c.mjs'])
			assert.deepEqual(await of([at(name, program), 'one', '--language', 'two'], 'read'), [3, 'one,--language,two read\n', ''], name);
		for (const name of ['a.ts', 'b.mts', 'c.cts'])
			assert.deepEqual(await of([at(name, 'interface P { x: number }\nconst p: P = { x: 6 }\nconsole.log(p.x)')]), [0, '6\n', ''], name);
		assert.deepEqual(await of(['--language', 'js', '-'], 'console.log(typeof require)'), [0, 'function\n', '']);
		assert.deepEqual(await of(['--language=typescript', '-c', 'const n: number = 7; console.log(n)', 'x']), [0, '7\n', '']);
		assert.deepEqual(await of(['--language', 'python', at('odd.js', 'print("py")')]), [0, 'py\n', '']);
		const failed = await of([at('bad.js', 'let a = 1\nnull.x')]);
		assert.equal(failed[0], 1);
		assert.match(`${failed[2]}`, /TypeError/);
		for (const [words, says] of [[['--language', 'cobol', '-c', '1'], /--language: python, javascript or typescript, not 'cobol'/], [['--language', 'js', '-i'], /-i is a Python prompt/], [['-i', path.join(dir, 'a.js')], /-i is a Python prompt/],
			[['--language', 'js', '--', 'ls'], /--language is for a FILE or for -c/]] as const) {
			const r = await of([...words]);
			assert.equal(r[0], 64, `${words}: ${r[2]}`);
			assert.match(`${r[2]}`, says);
		}
	});
	it('passes output and status through', async () => {
		const r = await caisson(['run', script('import sys\nprint("out")\nprint("err", file=sys.stderr)\nsys.exit(7)')]);
		assert.equal(r.code, 7, r.stderr.toString());
		assert.equal(r.stdout.toString(), 'out\n');
		assert.equal(r.stderr.toString(), 'err\n');
	});
	it('output comes as it is made', async () => {
		const p = start(['run', script('import sys, time\nprint("first", flush=True)\ntime.sleep(300)')]);
		try {
			await until('the first line', () => p.stdout === 'first\n', 20_000);
		} finally {
			p.kill('SIGTERM');
			await p.exit;
		}
	});
	it('bytes stay bytes', async () => {
		const r = await caisson(['run', script('import sys\nsys.stdout.buffer.write(bytes(range(256)) * 4096)')]);
		assert.equal(r.code, 0);
		assert.ok(r.stdout.equals(Buffer.concat(Array.from({ length: 4096 }, () => Buffer.from(Array.from({ length: 256 }, (_, i) => i))))));
	});
	for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
		it(`${signal} kills the whole tree`, async () => {
			const p = start(['run', script([
				'import os, signal, subprocess, time',
				'signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)',
				'subprocess.Popen(["sleep", "400"], start_new_session=True)',
				'print("up", flush=True); time.sleep(400)',
			].join('\n'))]);
			await until('the script', () => p.stdout === 'up\n', 20_000);
			const census = new Census();
			census.take(p.pid);
			p.kill(signal);
			const exit = await p.exit;
			assert.ok(exit.signal === signal || (exit.code ?? 0) > 128 - 1, `${exit.code} ${exit.signal}`);
			await census.gone(10_000);
		});
	}
	it('--out saves the artifacts, and only those', async () => {
		const out = path.join(scratch('out'), 'here');
		const r = await caisson(['run', script([
			'import os',
			'open("a.txt", "w").write("A"); open("ü b.txt", "w").write("B")',
			'os.mkdir("sub"); open("sub/c.txt", "w").write("C")',
			'os.symlink("/etc/passwd", "link"); os.mkfifo("pipe")',
		].join('\n')), '--out', out]);
		assert.equal(r.code, 0, r.stderr.toString());
		assert.equal(fs.readFileSync(path.join(out, 'a.txt'), 'utf8'), 'A');
		assert.equal(fs.readFileSync(path.join(out, 'ü b.txt'), 'utf8'), 'B');
		assert.equal(fs.readFileSync(path.join(out, 'sub', 'c.txt'), 'utf8'), 'C');
		assert.ok(!fs.existsSync(path.join(out, 'link')) && !fs.existsSync(path.join(out, 'pipe')));
	});
	it('--out never follows a link that waits there', async () => {
		const dir = scratch('trap'), victim = path.join(scratch('victim'), 'v.txt');
		fs.writeFileSync(victim, 'precious');
		fs.symlinkSync(victim, path.join(dir, 'a.txt'));
		await caisson(['run', script('open("a.txt", "w").write("A")'), '--out', dir]);
		assert.equal(fs.readFileSync(victim, 'utf8'), 'precious');
		fs.symlinkSync(path.dirname(victim), path.join(dir, 'sub'));
		const r = await caisson(['run', script('import os; os.mkdir("sub"); open("sub/v.txt", "w").write("A")'), '--out', dir]);
		assert.notEqual(r.code, 0, 'a folder that is a link is not entered');
		assert.equal(fs.readFileSync(victim, 'utf8'), 'precious');
	});
	it('a missing file is an error of its own', async () => {
		const r = await caisson(['run', '/no/such/file.py']);
		assert.equal(r.code, 66);
		assert.match(r.stderr.toString(), /\/no\/such\/file\.py/);
		assert.equal(r.stdout.toString(), '');
	});
	it('a traceback shows the source', async () => {
		const r = await caisson(['run', script('def f():\n    return 1 / 0\nf()\n')]);
		assert.equal(r.code, 1);
		assert.match(r.stderr.toString(), /return 1 \/ 0[^]*ZeroDivisionError/);
	});
	it('a reader that goes away ends it', async () => {
		const p = start(['run', script('while True: print("x" * 1000)')]);
		await until('output', () => p.stdout.length > 10_000, 20_000);
		const census = new Census();
		census.take(p.pid);
		p.child.stdout!.destroy();
		await p.exit;
		await census.gone(10_000);
	});
});
