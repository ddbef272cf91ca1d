// SPDX-License-Identifier: Apache-2.0
// Checkpoints, restore, branches and forks of the profile `all`.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { facts, matrix, type Json } from '../lib/session.ts';
import { until } from '../lib/wait.ts';

matrix('branches', { profile: 'all', env: { SANDBOX_MEMORY_LIMIT: '512m', SANDBOX_WORKSPACE_LIMIT: '48m', SANDBOX_ALLOW_WEAKER: 'memory' } }, (s) => {
	let serial = 0;
	/** Each test has a sandbox of its own and gives it back. */
	const inside = (name: string, fn: (id: string) => Promise<void>): void => {
		it(name, async () => {
			const id = `p${process.pid}-${serial++}`;
			await fn(id);
			await ask('sandbox_delete', { session_id: id });
		});
	};
	const ask = async (tool: string, more: Json): Promise<Json> => facts(await s().raw(tool, more));
	const good = async (tool: string, more: Json): Promise<Json> => {
		const said = await ask(tool, more);
		assert.ok(!said.error, `${tool}: ${JSON.stringify(said)}`);
		return said;
	};
	const bad = async (tool: string, more: Json, code: string): Promise<Json> => {
		const said = await ask(tool, more);
		assert.equal(said.error, code, `${tool}: ${JSON.stringify(said)}`);
		return said;
	};
	const run = (session_id: string, code: string, more: Json = {}): Promise<Json> => good('sandbox_run_python', { code, session_id, stateful: true, ...more });
	const value = async (id: string, code: string): Promise<string> => (await run(id, code)).result as string;
	const shell = async (session_id: string, command: string): Promise<string> => {
		const r = await good('sandbox_run_shell', { command, session_id });
		assert.equal(r.exit_code, 0, JSON.stringify(r));
		return r.stdout as string;
	};
	const save = (session_id: string, name: string): Promise<Json> => good('sandbox_checkpoint', { session_id, name });
	const back = (session_id: string, name: string, more: Json = {}): Promise<Json> => good('sandbox_restore', { session_id, name, ...more });

	inside('(slow) variables and files are what they were, and can be gone back to again and again', async (id) => {
		await run(id, 'import os\nx = [1]\ndef f(): return sum(x)\nopen("a.txt", "w").write("one"); None');
		const kept = await save(id, 'first');
		assert.deepEqual([kept.state, kept.files, kept.bytes, kept.name, kept.session_id], ['kept', 1, 3, 'first', id]);
		for (const other of ['two', 'three']) {
			await run(id, `x.append(5)\nopen("a.txt", "w").write("${other}")\nopen("b-${other}.txt", "w").write("new"); None`);
			assert.equal(await value(id, 'f()'), '6');
			const r = await back(id, 'first');
			assert.deepEqual([r.state, r.files, r.bytes], ['kept', 1, 3]);
			assert.equal(await value(id, '(f(), sorted(os.listdir()), open("a.txt").read())'), "(1, ['a.txt'], 'one')");
		}
	});

	inside('a checkpoint between two others, in any order', async (id) => {
		for (const n of [1, 2, 3]) {
			await run(id, `n = ${n}; open("n", "w").write("${n}"); None`);
			await save(id, `at-${n}`);
		}
		for (const n of [1, 3, 2, 1]) {
			await back(id, `at-${n}`);
			assert.equal(await value(id, 'n, open("n").read()'), `(${n}, '${n}')`);
		}
		assert.deepEqual((await good('sandbox_info', { session_id: id })).checkpoints.map((c: Json) => [c.name, c.state, c.files]), [['at-1', 'kept', 1], ['at-2', 'kept', 1], ['at-3', 'kept', 1]]);
	});

	inside('without stateful runs files alone are kept, and the state is fresh', async (id) => {
		await shell(id, 'echo one >a');
		assert.equal((await save(id, 'plain')).state, 'fresh');
		await run(id, 'x = 1; open("a", "w").write("two"); None');
		const r = await back(id, 'plain');
		assert.deepEqual([r.state, typeof r.hint], ['fresh', 'string']);
		assert.match((await run(id, 'x')).stderr, /NameError/);
		assert.equal(await shell(id, 'cat a'), 'one\n');
	});

	inside('files_only leaves the variables behind', async (id) => {
		await run(id, 'x = 1; open("a", "w").write("one"); None');
		await save(id, 'both');
		await shell(id, 'echo two >a');
		assert.equal((await back(id, 'both', { files_only: true })).state, 'fresh');
		assert.match((await run(id, 'x')).stderr, /NameError/);
		assert.equal((await back(id, 'both')).state, 'kept');
		assert.equal(await value(id, 'x, open("a").read()'), "(1, 'one')");
	});

	inside('what files are: links, modes, times, holes, names and folders come back as they were', async (id) => {
		const look = `import os, stat
def look():
    seen = []
    for folder, dirs, files in os.walk('.'):
        for name in dirs + files:
            p = os.path.join(folder, name)
            st = os.lstat(p)
            text = os.readlink(p) if stat.S_ISLNK(st.st_mode) else ''
            seen.append((os.fsencode(p), st.st_mode, st.st_size, st.st_mtime_ns, st.st_nlink, text))
    return sorted(seen)
`;
		await run(id, `${look}
os.makedirs('d/e/f'); os.makedirs('empty'); os.makedirs('shut/in')
open('d/e/f/x', 'w').write('deep'); open('shut/in/y', 'w').write('y')
os.symlink('/etc/passwd', 'out'); os.symlink('nowhere', 'dangling'); os.symlink('d', 'folder')
os.mkfifo('pipe'); open('plain', 'w').write('p'); os.link('plain', 'd/hard'); os.link('plain', 'd/e/hard')
open(b'\\xff\\n name', 'w').write('odd'); open('mode', 'w').write('m'); os.chmod('mode', 0o4751 & 0o777)
open('secret', 'w').write('s'); os.chmod('secret', 0); os.chmod('shut/in', 0o111); os.chmod('shut', 0o555)
f = open('holes', 'wb'); f.seek(1 << 40); f.write(b'end'); f.close()
os.utime('plain', (1, 2)); os.utime('d', (3, 4))
import socket; k = socket.socket(socket.AF_UNIX); k.bind('socket'); k.close()
before = look()
(len(before), os.stat('holes').st_blocks < 100)`);
		const kept = await save(id, 'all');
		assert.equal(kept.skipped, 1, 'the socket');
		await shell(id, 'chmod -R u+rwx . ; rm -rf ./* ; mkdir d; echo other >plain');
		await back(id, 'all');
		await run(id, 'after = look()\nwas = [b for b in before if b[0] != b"./socket"]');
		assert.equal(await value(id, '[p for p in zip(was, after) if p[0] != p[1]][:2], len(was) == len(after)'), '([], True)');
		assert.equal(await value(id, 'os.path.samefile("plain", "d/e/hard"), open("holes", "rb").seek(1 << 40), os.stat("holes").st_blocks < 100'), '(True, 1099511627776, True)');
		await shell(id, 'chmod -R u+rwx .');
	});

	inside('nobody inside sees, changes or reaches the kept files, and no name leads out of them', async (id) => {
		await run(id, 'x = 1; open("a", "w").write("KEPT-MARK"); None');
		await save(id, 'hidden');
		const seen = await shell(id, 'rm a; ln -s / root; ln -s .. up; cat /proc/self/mountinfo /proc/mounts; ls -laR /mnt /tmp /app/results; for p in /proc/[0-9]*; do ls -l $p/fd $p/cwd $p/root 2>/dev/null; done; grep -rs KEPT-MARK /mnt /tmp /home /app /dev/shm /run || true');
		assert.doesNotMatch(seen, /KEPT-MARK/);
		assert.doesNotMatch(seen, /aside|caisson-[0-9a-f]{16}/);
		await back(id, 'hidden');
		assert.equal(await shell(id, 'ls -A; cat a'), 'a\nKEPT-MARK');
	});

	inside('nested deeper than can be copied is an error, and going back removes it all the same', async (id) => {
		await run(id, 'import os\nx = 1; open("a", "w").write("a"); None');
		await save(id, 'flat');
		await run(id, 'for i in range(700): os.mkdir("d"); os.chdir("d")\nos.chdir("/mnt/data")');
		await bad('sandbox_checkpoint', { session_id: id, name: 'deep' }, 'invalid_path');
		assert.equal(await value(id, 'x'), '1');
		await back(id, 'flat');
		assert.equal(await value(id, 'x, os.listdir()'), "(1, ['a'])");
		assert.deepEqual((await good('sandbox_info', { session_id: id })).checkpoints.length, 1);
	});

	inside('branches start from one state, do not see each other, and leave the session as it was', async (id) => {
		await run(id, 'import os\nx = 1\nopen("base", "w").write("b"); None');
		const tries = ['x += 1; open("two", "w").write("2"); (x, sorted(os.listdir()))', 'x += 10; os.remove("base"); (x, sorted(os.listdir()))', 'x += 100\n1 / 0', 'x = 0\nos._exit(3)'];
		const r = await good('sandbox_branch', { session_id: id, branches: [{ name: 'add', code: tries[0] }, { code: tries[1] }, { name: 'raises', code: tries[2] }, { name: 'exits', code: tries[3] }] });
		assert.deepEqual(r.branches.map((b: Json) => [b.name, b.state, b.exit_code, b.result, b.files]), [
			['add', 'kept', 0, "(2, ['base', 'two'])", 2],
			['branch-2', 'kept', 0, "(11, [])", 0],
			['raises', 'kept', 1, undefined, 1],
			['exits', 'unchanged', 3, undefined, undefined],
		]);
		assert.match(r.branches[2].stderr, /ZeroDivisionError/);
		assert.deepEqual(r.branches[0].new_files, ['two']);
		assert.equal(await value(id, 'x, sorted(os.listdir())'), "(1, ['base'])");
		await back(id, 'branch-2');
		assert.equal(await value(id, 'x, os.listdir()'), '(11, [])');
		await back(id, 'add');
		assert.equal(await value(id, 'x, open("two").read()'), "(2, '2')");
		await back(id, 'raises');
		assert.equal(await value(id, 'x'), '101');
		assert.deepEqual((await good('sandbox_info', { session_id: id })).checkpoints.map((c: Json) => c.name).sort(), ['add', 'branch-2', 'raises']);
	});

	const living = `import os, socket, subprocess, threading, time
x, n = 1, 0
def count():
    global n
    while True:
        n += 1
        time.sleep(0.005)
threading.Thread(target=count, daemon=True).start()
cat = subprocess.Popen(['cat'], stdin=-1, stdout=-1, text=True, bufsize=1)
near, far = socket.socketpair()
open('base', 'w').write('b')
pid = os.getpid()`;

	inside('threads, processes and connections of the session go on after its branches, in the same process', async (id) => {
		await run(id, living);
		const r = await good('sandbox_branch', { session_id: id, branches: [
			{ name: 'other', code: 'x += 1; open("base", "w").write("changed"); (x, os.getpid() != pid, threading.active_count())' },
			{ name: 'dies', code: 'x = 9; os.abort()' },
			{ name: 'third', code: '(x, open("base").read())' },
		] });
		assert.deepEqual(r.branches.map((b: Json) => [b.state, b.result]), [['kept', '(2, True, 1)'], ['unchanged', undefined], ['kept', "(1, 'b')"]]);
		const after = await run(id, 'a = n; time.sleep(0.2); cat.stdin.write("hi\\n"); far.send(b"yes"); (x, os.getpid() == pid, n > a, cat.stdout.readline(), near.recv(3), open("base").read())');
		assert.deepEqual([after.result, after.gone], ["(1, True, True, 'hi\\n', b'yes', 'b')", undefined]);
		await back(id, 'other');
		assert.equal(await value(id, '(x, os.getpid() == pid, open("base").read())'), "(2, False, 'changed')");
	});

	inside('a branch that kills the session which is set aside: its variables and files come back', async (id) => {
		await run(id, living);
		const r = await good('sandbox_branch', { session_id: id, branches: [{ name: 'kills', code: 'import signal\nos.kill(pid, signal.SIGKILL); x = 5; open("base", "w").write("c"); None' }, { name: 'next', code: '(x, open("base").read())' }] });
		assert.deepEqual(r.branches.map((b: Json) => [b.state, b.result]), [['kept', undefined], ['kept', "(1, 'b')"]]);
		assert.equal(await value(id, '(x, os.getpid() == pid, open("base").read())'), "(1, False, 'b')");
		assert.equal(await shell(id, 'pgrep -c cat || true'), '0\n', 'its processes ended with it');
	});

	inside('a branch that kills whatever it can reach: told, never a hang, and the files can be had again', async (id) => {
		await run(id, living);
		const said = await ask('sandbox_branch', { session_id: id, branches: [{ name: 'kills', code: 'import signal\nfor p in range(2, 400):\n    if p != os.getpid():\n        try: os.kill(p, 9)\n        except OSError: pass\nopen("base", "w").write("c"); None' }, { name: 'next', code: 'x' }] });
		if (said.error) {
			assert.equal(said.error, 'checkpoint_lost', JSON.stringify(said));
			await back(id, 'before-branch', { files_only: true });
			await run(id, 'x = 1');
		}
		assert.equal(await value(id, '(x, open("base").read())'), "(1, 'b')");
	});

	inside('what a checkpoint cannot have is named when it is made, when it is restored, and after a crash', async (id) => {
		const open = `${living}\nimport sqlite3\nserver = socket.create_server(('127.0.0.1', 0)); None`;
		await run(id, 'x = 1');
		const plain = await save(id, 'plain');
		assert.deepEqual([plain.not_saved, plain.hint], [undefined, undefined]);
		await run(id, open);
		const made = await save(id, 'living');
		assert.deepEqual(made.not_saved, ['threads', 'processes', 'connections']);
		assert.match(made.hint, /also has threads, processes and connections; they go on here, and a restore will not bring them back/);
		const r = await good('sandbox_branch', { session_id: id, branches: [{ code: 'x' }] });
		assert.match(r.hint, /Its threads, processes and connections rested meanwhile/);
		const restored = await back(id, 'living');
		assert.deepEqual(restored.gone, ['threads', 'processes', 'connections']);
		assert.match(restored.hint, /had threads, processes and connections; they ended/);
		await run(id, 'db = sqlite3.connect("a.db"); db.execute("create table t(x)"); None');
		const crashed = await run(id, 'os.abort()');
		assert.deepEqual([crashed.state, crashed.gone], ['unchanged', ['connections']]);
		assert.match(crashed.hint, /the connections of earlier runs are gone/);
	});

	inside('a branch of a branch, and a branch that times out', async (id) => {
		await run(id, 'x = 1');
		await good('sandbox_branch', { session_id: id, branches: [{ name: 'one', code: 'x = 2' }] });
		await back(id, 'one');
		const r = await good('sandbox_branch', { session_id: id, timeout_s: 1, branches: [{ name: 'slow', code: 'x = 9\nwhile True: pass' }, { name: 'two', code: 'x += 1; x' }] });
		assert.deepEqual(r.branches.map((b: Json) => [b.reason, b.state, b.result]), [['timeout', 'kept', undefined], ['exited', 'kept', '3']]);
		assert.equal(await value(id, 'x'), '2');
	});

	inside('random numbers go on from the kept state in every branch', async (id) => {
		await run(id, 'import random; random.seed(7); random.random(); None');
		const r = await good('sandbox_branch', { session_id: id, branches: [{ code: 'random.random()' }, { code: 'random.random()' }] });
		assert.equal(r.branches[0].result, r.branches[1].result);
		assert.equal(await value(id, 'random.random()'), r.branches[0].result);
	});

	inside('no more than eight checkpoints; a used name is replaced, a deleted one makes room', async (id) => {
		await run(id, 'x = 0');
		for (let n = 1; n <= 8; n++) {
			await run(id, `x = ${n}`);
			await save(id, `c${n}`);
		}
		const r = await bad('sandbox_checkpoint', { session_id: id, name: 'c9' }, 'too_many_checkpoints');
		assert.ok(r.hint);
		await bad('sandbox_branch', { session_id: id, branches: [{ name: 'c9', code: '1' }] }, 'too_many_checkpoints');
		await run(id, 'x = 88');
		await save(id, 'c8');
		assert.equal((await good('sandbox_checkpoint', { session_id: id, name: 'c1', delete: true })).status, 'deleted');
		await bad('sandbox_restore', { session_id: id, name: 'c1' }, 'checkpoint_not_found');
		await bad('sandbox_checkpoint', { session_id: id, name: 'c1', delete: true }, 'checkpoint_not_found');
		await save(id, 'c9');
		await back(id, 'c2');
		assert.equal(await value(id, 'x'), '2');
		await back(id, 'c8');
		assert.equal(await value(id, 'x'), '88');
	});

	it('what cannot be asked for is refused by name', async () => {
		await run('asks', 'x = 1');
		for (const name of ['', '.', '..', 'a/b', 'a b', 'x'.repeat(65), 'ä'])
			await bad('sandbox_checkpoint', { session_id: 'asks', name }, 'invalid_argument');
		await bad('sandbox_restore', { session_id: 'asks', name: 'none' }, 'checkpoint_not_found');
		await bad('sandbox_restore', { session_id: 'nobody-there', name: 'none' }, 'session_not_found');
		for (const branches of [[], Array(9).fill({ code: '1' }), [{ name: 'a' }], ['x'], [{ name: 'a', code: '1' }, { name: 'a', code: '2' }], [{ name: '../a', code: '1' }], [{ code: ['1'] }]])
			await bad('sandbox_branch', { session_id: 'asks', branches }, 'invalid_argument');
		await bad('sandbox_branch', { session_id: 'asks', branches: [{ code: '1' }], timeout_s: 0 }, 'invalid_argument');
		assert.match((await s().raw('sandbox_branch', { session_id: 'asks', branches: 'x' })).content[0]!.text, /valid list/);
		await bad('sandbox_fork', { session_id: 'asks', new_session_id: 'asks' }, 'invalid_argument');
		await bad('sandbox_fork', { session_id: 'asks', new_session_id: '../x' }, 'invalid_session_id');
		assert.equal(await value('asks', 'x'), '1');
		await ask('sandbox_delete', { session_id: 'asks' });
	});

	inside('files that do not fit beside each other: no_space, and nothing is lost', async (id) => {
		// on disk, checkpoints take their space from the workspace; in memory they have as much again
		await run(id, 'pass');
		const [one, two] = (await good('sandbox_info', { session_id: id })).workspace === 'disk' ? [20, 26] : [30, 40];
		await run(id, `import os\nx = 1; open("big", "wb").write(os.urandom(${one} << 20)); None`);
		await save(id, 'large');
		await bad('sandbox_checkpoint', { session_id: id, name: 'again' }, 'no_space');
		assert.equal(await value(id, 'x, os.path.getsize("big") >> 20'), `(1, ${one})`);
		// the old and the kept files do not fit beside each other: the old ones go first
		await run(id, `open("big", "wb").write(os.urandom(${two} << 20)); x = 2; None`);
		await back(id, 'large');
		assert.equal(await value(id, 'x, os.listdir(), os.path.getsize("big") >> 20'), `(1, ['big'], ${one})`);
	});

	inside('a run that kills whatever it can reach: the loss is told, never a hang or a wrong answer', async (id) => {
		await run(id, 'x = 1; open("a", "w").write("a"); None');
		await save(id, 'kept');
		const r = await run(id, 'import os, signal\nfor pid in range(2, 400):\n    if pid != os.getpid():\n        try: os.kill(pid, 9)\n        except OSError: pass\nx = 2');
		assert.ok(['kept', 'lost'].includes(r.state), JSON.stringify(r));
		const said = await ask('sandbox_restore', { session_id: id, name: 'kept' });
		if (said.error) {
			assert.deepEqual([said.error, typeof said.hint], ['checkpoint_lost', 'string']);
			assert.equal((await back(id, 'kept', { files_only: true })).state, 'fresh');
			await run(id, 'x = 1');
		}
		assert.equal(await value(id, 'x, open("a").read()'), "(1, 'a')");
	});

	inside('stopping, waking and tracing a kept interpreter changes nothing in it', async (id) => {
		await run(id, 'x = 1');
		await save(id, 'kept');
		await run(id, `import os, signal, ctypes
libc = ctypes.CDLL(None, use_errno=True)
for pid in range(2, 300):
    if pid != os.getpid():
        for sig in (signal.SIGCONT, signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR2 if False else 0):
            try: os.kill(pid, sig)
            except OSError: pass
        for name in ('mem', 'environ', 'fd', 'cwd'):
            try: os.listdir('/proc/%d/%s' % (pid, name)) if name == 'fd' else open('/proc/%d/%s' % (pid, name), 'r+b')
            except OSError: pass
x = 2`);
		await back(id, 'kept');
		assert.equal(await value(id, 'x'), '1');
	});

	inside('a handler that a session left behind does not speak for a kept state', async (id) => {
		await run(id, `import signal, os, sys
signal.signal(signal.SIGALRM, lambda *a: os._exit(9))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
x = 1`);
		const said = await ask('sandbox_checkpoint', { session_id: id, name: 'armed' });
		assert.ok(['kept', 'lost'].includes(said.state), JSON.stringify(said));
		const r = await ask('sandbox_restore', { session_id: id, name: 'armed' });
		assert.ok(['kept', 'fresh'].includes(r.state) || r.error === 'checkpoint_lost', JSON.stringify(r));
		const after = await run(id, 'signal.setitimer(signal.ITIMER_REAL, 0); x');
		assert.ok(after.result === '1' || after.state === 'lost' || /NameError/.test(after.stderr), JSON.stringify(after));
	});

	it('while it is at work the sandbox is busy; deleted in the middle it ends, and the id is free', async () => {
		const id = `doomed-${process.pid}`;
		await run(id, 'x = 1');
		const long = ask('sandbox_branch', { session_id: id, branches: [{ code: 'import time; time.sleep(600)' }, { code: '1' }] });
		await until('the branch is at work', async () => (await ask('sandbox_info', { session_id: id })).status === 'running', 30_000);
		await bad('sandbox_checkpoint', { session_id: id, name: 'now' }, 'session_busy');
		await bad('sandbox_restore', { session_id: id, name: 'now' }, 'session_busy');
		await bad('sandbox_branch', { session_id: id, branches: [{ code: '1' }] }, 'session_busy');
		await bad('sandbox_run_python', { session_id: id, code: '1' }, 'session_busy');
		await bad('sandbox_write_file', { session_id: id, path: 'f', content: 'x' }, 'session_busy');
		await bad('sandbox_fork', { session_id: id }, 'session_busy');
		assert.equal((await good('sandbox_delete', { session_id: id })).status, 'deleted');
		assert.ok(['sandbox_lost', 'cancelled'].includes((await long).error));
		assert.match((await run(id, 'x')).stderr, /NameError/);
		await ask('sandbox_delete', { session_id: id });
	});

	inside('a fork has the files, a fresh session and walls of its own', async (id) => {
		await run(id, 'import os\nx = 1\nos.makedirs("d/e")\nopen("d/e/f", "w").write("deep"); open("a", "w").write("a")\nopen("none", "w"); os.symlink("a", "l"); None');
		const r = await good('sandbox_fork', { session_id: id, new_session_id: `${id}-fork` });
		assert.deepEqual([r.session_id, r.forked_from, r.state, r.files, r.bytes, r.skipped], [`${id}-fork`, id, 'fresh', 3, 5, 1]);
		const other = r.session_id as string;
		assert.match((await run(other, 'x')).stderr, /NameError/);
		assert.equal(await shell(other, 'cat d/e/f a none; echo changed >a'), 'deepa');
		assert.equal(await value(id, 'x, open("a").read()'), "(1, 'a')");
		const info = await good('sandbox_info', { session_id: other });
		assert.deepEqual([info.forked_from, info.checkpoints], [id, undefined]);
		await good('sandbox_delete', { session_id: other });
		const random = await good('sandbox_fork', { session_id: id });
		assert.match(random.session_id, /^sess_/);
		await good('sandbox_delete', { session_id: random.session_id });
	});

	inside('an interpreter that outgrows the memory of its sandbox ends the branch, not the session', async (id) => {
		await run(id, 'x = bytearray(20 << 20); x[0] = 7; None');
		await save(id, 'small');
		const r = await good('sandbox_branch', { session_id: id, branches: [{ name: 'huge', code: 'y = [bytearray(b"x" * (64 << 20)) for i in range(40)]' }, { name: 'next', code: 'x[0]' }] });
		assert.notEqual(r.branches[0].exit_code, 0, JSON.stringify(r));
		assert.equal(r.branches[1].result, '7', JSON.stringify(r));
		assert.equal(await value(id, 'x[0]'), '7');
	});
});
