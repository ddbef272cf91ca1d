// SPDX-License-Identifier: Apache-2.0
// What `caisson run` gives to a program: arguments, standard input, files, packages, variables and limits.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { describe, it } from 'node:test';
import { asProductUser, binary, productEnv, scratch } from '../lib/env.ts';
import { Program, caisson, start } from '../lib/process.ts';
import { until } from '../lib/wait.ts';
import { wheel, wheelName } from '../lib/wheel.ts';

/** A folder with these files, which everybody can read. */
function folder(files: Record<string, string>): string {
	const dir = scratch('in');
	fs.chmodSync(dir, 0o755);
	for (const [name, text] of Object.entries(files)) {
		fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
		fs.writeFileSync(path.join(dir, name), text, { mode: 0o644 });
	}
	return dir;
}

async function says(args: string[], o: Parameters<typeof caisson>[1] = {}): Promise<string> {
	const r = await caisson(['run', ...args], o);
	assert.equal(r.code, 0, r.stderr.toString());
	return r.stdout.toString();
}

describe('caisson run: what the program gets', () => {
	it('arguments; a script has __file__, its own sys.path and the modules beside it that it imports', async () => {
		const dir = folder({
			'main.py': 'import sys, helper\nfrom pkg import sub as s\nimport os\nprint(__file__, sys.argv[1:], sys.path[0], helper.x + s.y, sorted(f for f in os.listdir() if f[0] != "_"))',
			'helper.py': 'import json, second\nx = second.z', 'second.py': 'z = 1', 'unused.py': 'secret', 'pkg/__init__.py': '', 'pkg/sub.py': 'y = 2', 'pkg/data.txt': 'd',
		});
		assert.equal(await says([path.join(dir, 'main.py'), 'a', '--b', '--help', '--out']), "/mnt/data/main.py ['a', '--b', '--help', '--out'] /mnt/data 3 ['helper.py', 'main.py', 'pkg', 'second.py']\n");
		assert.equal(await says(['main.py', '--', '--memory', 'x'], { cwd: dir }), "/mnt/data/main.py ['--memory', 'x'] /mnt/data 3 ['helper.py', 'main.py', 'pkg', 'second.py']\n");
	});
	it('a traceback names the file, and worker processes find it', async () => {
		const dir = folder({ 'pool.py': 'import multiprocessing as m\ndef f(x): return x * x\nif __name__ == "__main__":\n    print(m.get_context("spawn").Pool(2).map(f, [1, 2, 3]))\n    1 / 0\n' });
		const r = await caisson(['run', path.join(dir, 'pool.py')]);
		assert.equal(r.code, 1);
		assert.equal(r.stdout.toString(), '[1, 4, 9]\n');
		assert.match(r.stderr.toString(), /File "\/mnt\/data\/pool\.py", line 5, in <module>\n +1 \/ 0/);
	});
	it('-c CODE, and a command with its exit status', async () => {
		assert.equal(await says(['-c', 'import sys; print(sys.argv)', 'a', '-c']), "['-c', 'a', '-c']\n");
		assert.equal(await says(['--', 'echo', '-n', 'a b']), 'a b');
		assert.equal((await caisson(['run', '--', 'sh', '-c', 'exit 7'])).code, 7);
		assert.equal((await caisson(['run', '--', 'no-such-program'])).code, 66);
	});
	it('standard input: a pipe with any bytes and no end in sight, a file, none', async () => {
		const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 256));
		const r = await caisson(['run', '--', 'cat'], { input: bytes });
		assert.ok(r.stdout.equals(bytes), `${r.stdout.length} bytes`);
		const code = 'import sys\nfor line in sys.stdin: print("got", line.strip())';
		const p = start(['run', '-c', code], { input: 'one\n', keepInput: true });
		try {
			await until('the first line', () => p.stdout === 'got one\n', 20_000);
			p.child.stdin!.end('two\n');
			assert.equal((await p.exit).stdout.toString(), 'got one\ngot two\n');
		} finally {
			p.kill('SIGTERM');
		}
		const file = fs.openSync(path.join(folder({ f: 'a\nb\n' }), 'f'), 'r');
		const argv = asProductUser([binary, 'run', '-c', code]);
		const q = await new Program(spawn(argv[0]!, argv.slice(1), { env: productEnv(), stdio: [file, 'pipe', 'pipe'] })).exit;
		assert.equal(q.stdout.toString(), 'got a\ngot b\n');
		assert.equal(await says(['-'], { input: 'import sys; print(sys.stdin.read() == "")' }), 'True\n');
		assert.equal((await caisson(['run', '--', 'true'], { input: bytes })).code, 0, 'nobody need read it');
	});
	it('standard input: a terminal', async () => {
		const words = 'exec ' + asProductUser([binary, 'run', '-c', 'print("hello " + input("name? "), __import__("sys").stdin.isatty())']).map((w) => `'${w.replaceAll("'", "'\\''")}'`).join(' ');
		const p = new Program(spawn('script', ['-qefc', words, '/dev/null'], { env: productEnv(), stdio: ['pipe', 'pipe', 'pipe'] }));
		try {
			await until('the question', () => /name\? /.test(p.stdout), 20_000);
			p.child.stdin!.write('ada\n');
			await until('the answer', () => /hello ada False/.test(p.stdout), 20_000);
			await p.exit;
		} finally {
			await p.end();
		}
	});
	it('files and folders of --in; links in them lead nowhere; too many are refused', async () => {
		const dir = folder({ 'd/a.txt': 'A', 'd/e/b c.txt': 'B', 'f.txt': 'F' });
		fs.symlinkSync('/etc/passwd', path.join(dir, 'd/link'));
		fs.symlinkSync('/etc', path.join(dir, 'd/folder'));
		const list = 'import pathlib; print(sorted(str(p) for p in pathlib.Path().rglob("*") if p.is_file()))';
		const r = await caisson(['run', '--in', path.join(dir, 'd'), '--in', path.join(dir, 'f.txt'), '-c', list]);
		assert.equal(r.stdout.toString(), "['d/a.txt', 'd/e/b c.txt', 'f.txt']\n");
		assert.match(r.stderr.toString(), /2 links and special files are not copied/);
		assert.equal(await says(['--in', path.join(dir, 'd/e') + '/', '-c', list]), "['b c.txt']\n");
		assert.equal((await caisson(['run', '--in', path.join(dir, 'none'), '-c', '1'])).code, 66);
		fs.truncateSync(path.join(dir, 'f.txt'), 3 << 20);
		const big = await caisson(['run', '--workspace-limit', '2m', '--in', path.join(dir, 'f.txt'), '-c', '1']);
		assert.notEqual(big.code, 0);
		assert.match(big.stderr.toString(), /more than 2 MiB \(see --workspace-limit\)/);
	});
	it('--out has what the run made, not what was copied in', async () => {
		const dir = folder({ 'main.py': 'open("new.txt", "w").write(open("old.txt").read())', 'old.txt': 'O' }), out = path.join(scratch('out'), 'o');
		await says(['--in', path.join(dir, 'old.txt'), '--out', out, path.join(dir, 'main.py')]);
		assert.deepEqual(fs.readdirSync(out), ['new.txt']);
	});
	it('(slow) packages of --with, variables of --env, limits', async () => {
		const wheels = scratch('wheels');
		fs.chmodSync(wheels, 0o755);
		fs.writeFileSync(path.join(wheels, wheelName('caisson_probe', '1.0')), wheel('caisson_probe', '1.0', 'answer = 42'));
		const env = { SANDBOX_PIP_WHEEL_DIR: wheels, TOKEN: 'secret' };
		assert.equal(await says(['--with', 'caisson-probe', '--env', 'A=b=c', '--env', 'TOKEN', '-c', 'import caisson_probe, os; print(caisson_probe.answer, os.environ["A"], os.environ["TOKEN"])'], { env }), '42 b=c secret\n');
		const none = await caisson(['run', '--with', 'no-such-package', '-c', '1'], { env });
		assert.notEqual(none.code, 0);
		assert.match(none.stderr.toString(), /caisson run: --with: /);
		assert.equal((await caisson(['run', '--with', '../x', '-c', '1'], { env })).code, 64);
		const late = await caisson(['run', '--timeout', '1', '-c', 'print("on", flush=True); import time; time.sleep(60)']);
		assert.deepEqual([late.code, late.stdout.toString()], [124, 'on\n']);
		assert.equal((await caisson(['run', '--cpus', 'many', '-c', '1'])).code, 78);
		assert.equal((await caisson(['run', '--network', 'some', '-c', '1'])).code, 78);
	});
});
