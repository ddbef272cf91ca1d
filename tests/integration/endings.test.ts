// SPDX-License-Identifier: Apache-2.0
// How runs end that do not want to: floods, bombs, full disks, memory, signals. The server stays, and stays small.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sanitized, slowness, unlessEnforced } from '../lib/env.ts';
import { openDescriptors, residentBytes } from '../lib/process.ts';
import { using } from '../lib/session.ts';
import { until, within } from '../lib/wait.ts';

const cold = process.env.CAISSON_TEST_COLD === '1';
const deadline = { SANDBOX_EXEC_TIMEOUT_S: String(20 * slowness) };
const memory = { ...deadline, SANDBOX_MEMORY_LIMIT: '160m' };
const pids = { SANDBOX_EXEC_TIMEOUT_S: String(4 * slowness), SANDBOX_PIDS_LIMIT: '64' };
const disk = { ...deadline, SANDBOX_WORKSPACE_LIMIT: '16m', SANDBOX_WORKSPACE_FILES: '500' };

describe('endings', () => {
	it('signals show as 128 + n', () => using('stdio', { env: deadline }, async (s) => {
		for (const [name, n] of [['SIGKILL', 9], ['SIGSEGV', 11], ['SIGTERM', 15], ['SIGABRT', 6]] as const) {
			const r = await s.run(`import os, signal; os.kill(os.getpid(), signal.${name})`, 'sig');
			assert.deepEqual([r.exit_code, r.reason], [128 + n, 'signaled'], name);
		}
		assert.equal((await s.ok('print(1)', 'sig')).stdout, '1\n');
	}));
	it('what a run held at its end is free when its end is told', () => using('stdio', { env: deadline }, async (s) => {
		const code = [
			'import builtins, fcntl, socket',
			'builtins.kept = socket.create_server(("127.0.0.1", 8099)), open("lock", "w")',
			'fcntl.lockf(kept[1], fcntl.LOCK_EX | fcntl.LOCK_NB)',
			'print(len(kept))',
		].join('\n');
		for (let i = 0; i < 25; i++)
			assert.equal((await s.ok(code, 'held')).stdout, '2\n');
	}));
	it('statuses, children and threads at the end, told as by exit', () => using('stdio', { env: deadline }, async (s) => {
		const ends: [string, number][] = [
			['import sys; print("x"); sys.exit(7)', 7],
			['print("x"); raise SystemExit(300)', 44],
			['import os; print("x", flush=True); os.fork() or os._exit(3); os.wait()', 0],
			['import os\nif os.fork() == 0: raise SystemExit(5)\nprint("x"); raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))', 5],
			['import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); print("x")', 0],
			['import ctypes; ctypes.CDLL(None).prctl(15, b":00900000000001", 0, 0, 0); print("x")', 0],
		];
		for (const [code, status] of ends) {
			const r = await s.run(code, 'told');
			assert.deepEqual([r.exit_code, r.reason, r.stdout], [status, 'exited', 'x\n'], code + r.stderr);
		}
	}));
	it('(slow) a run that says itself that it is over gets what os._exit gives', { skip: cold && 'a cold run is over when it exits' },
		() => using('stdio', { env: deadline }, async (s) => {
			await s.ok('print(1)', 'said');
			await until('warm runs', async () => (await s.ok('import sys; print("random" in sys.modules)', 'said')).stdout === 'True\n', 60_000);
			const r = await s.run([
				'import ctypes, os, signal',
				'if os.fork() == 0:',
				'    import time; time.sleep(1000)',
				'print("before", flush=True)',
				'ctypes.CDLL(None).prctl(15, b":00700000000001", 0, 0, 0)',
				'os.kill(os.getpid(), signal.SIGSTOP)',
				'print("after", flush=True)',
			].join('\n'), 'said');
			assert.deepEqual([r.exit_code, r.reason, r.stdout], [7, 'exited', 'before\n']);
			assert.equal((await s.ok('print(1)', 'said')).stdout, '1\n');
		}));
	it('(slow) the end of a run of one line is told before its memory is freed', { skip: cold && 'a cold run is over when it exits' },
		() => using('stdio', { env: { ...deadline, SANDBOX_LOG_FORMAT: 'json' } }, async (s) => {
			await s.ok('print(1)', 'quick');
			let before = 1; // runs; the log may be behind
			await until('warm runs', async () => before++ && (await s.ok('import sys; print("random" in sys.modules)', 'quick')).stdout === 'True\n', 60_000);
			const ends = () => s.logLines().map((l) => JSON.parse(l)).filter((l) => l.event === 'container_exec_done');
			for (let i = 0; i < 10; i++)
				await s.ok(`print(${i})`, 'quick');
			const rows = await until('ten more ends', () => ends().length >= before + 10 && ends().slice(before));
			// One may be an ordinary end, when its middle process was slow to go.
			assert.ok(rows.filter((r) => r.warm && r.named_end).length >= 3, JSON.stringify(rows));
			await s.run('import os; os._exit(3)', 'quick');
			const last = await until('one more', () => ends().length >= before + 11 && ends().at(-1));
			assert.deepEqual([last.exit_code, last.named_end], [3, false]);
		}));
	it('out of memory kills the run, not the session', { skip: unlessEnforced('memory') }, () => using('stdio', { env: memory }, async (s) => {
		const r = await s.run('b = bytearray(400 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1', 'oom');
		assert.deepEqual([r.exit_code, r.reason], [137, 'oom'], r.stderr);
		assert.match(r.stderr, /\nThe sandbox ran out of memory$/);
		assert.equal((await s.ok('print(1)', 'oom')).stdout, '1\n');
	}));
	it('out of memory in many processes', { skip: unlessEnforced('memory') }, () => using('stdio', { env: memory }, async (s) => {
		const r = await s.run([
			'import os',
			'for i in range(20):',
			'    if os.fork() == 0:',
			'        b = bytearray(40 << 20)',
			'        for j in range(0, len(b), 4096): b[j] = 1',
			'        import time; time.sleep(100)',
			'b = bytearray(200 << 20)',
			'for j in range(0, len(b), 4096): b[j] = 1',
		].join('\n'), 'oom2');
		assert.notEqual(r.exit_code, 0);
		assert.equal((await s.ok('print(1)', 'oom2')).stdout, '1\n');
	}));
	it('(slow) a fork bomb is stopped, and others hardly notice', { skip: unlessEnforced('pids') }, () => using('stdio', { env: pids }, async (s) => {
		await s.ok('pass', 'calm');
		const bomb = s.run('import os\nwhile True:\n    try: os.fork()\n    except OSError: pass', 'bomb');
		await s.client.ping();
		const calm = await within('a run beside the bomb', s.ok('print("fine")', 'calm'), 15_000);
		assert.equal(calm.stdout, 'fine\n');
		assert.equal((await bomb).exit_code, -1);
		assert.equal((await s.ok('print(1)', 'bomb')).stdout, '1\n');
	}));
	it('(slow) a fork that the kernel completes while the run is being killed', { skip: cold && 'there is no session' }, () => using('stdio', { profile: 'full', env: { SANDBOX_EXEC_TIMEOUT_S: String(5 * slowness) } }, async (s) => {
		// Copying 100 MB takes the kernel so long that the end of the run often comes meanwhile, and those that wait are killed first.
		const code = [
			'import os, time',
			'for i in range(60):',
			'    if os.fork() == 0: time.sleep(1000)',
			'm = bytearray(100 << 20)',
			'for i in range(0, len(m), 4096): m[i] = 1',
			'for i in range(3):',
			'    if os.fork() == 0:',
			'        while True:',
			'            p = os.fork()',
			'            if p == 0: time.sleep(1000)',
			'            os.kill(p, 9)',
			'            os.waitpid(p, 0)',
			'time.sleep(0.5)',
			'os._exit(3)',
		].join('\n');
		for (let i = 0; i < 10; i++) {
			await s.raw('sandbox_run_python', { code: 'n = 1', session_id: 'late', stateful: true });
			const r = await s.call('sandbox_run_python', { code, session_id: 'late', stateful: i % 2 === 0 });
			assert.deepEqual([r.exit_code, r.reason], [3, 'exited'], JSON.stringify(r));
		}
	}));
	it('a full disk is ENOSPC inside, and the session can be cleaned', { skip: unlessEnforced('disk') }, () => using('stdio', { env: disk }, async (s) => {
		const r = await s.run('f = open("big", "wb")\nwhile True: f.write(b"x" * (1 << 20))', 'disk');
		assert.match(r.stderr, /OSError: \[Errno 28\] No space left on device/);
		const up = await s.upload('more.bin', Buffer.alloc(4 << 20), 'disk');
		assert.ok(up.error !== undefined && up.path === undefined, JSON.stringify(up));
		await s.client.ping();
		await s.ok('import os; os.unlink("big")', 'disk');
		assert.equal((await s.upload('more.bin', Buffer.alloc(4 << 20), 'disk')).path, '/mnt/data/more.bin');
	}));
	it('so is a full table of inodes', { skip: unlessEnforced('disk') }, () => using('stdio', { env: disk }, async (s) => {
		const r = await s.run('for i in range(10000): open(f"f{i}", "w").close()', 'inodes');
		assert.match(r.stderr, /No space left on device/);
		assert.equal((await s.upload('x.txt', 'x', 'inodes')).path, undefined);
		assert.ok((await s.list('inodes')).length <= 500 + 16 + 8, 'a disk has whole blocks of inodes');
		assert.deepEqual(await s.close('inodes'), { status: 'closed' });
	}));
	it('/tmp has its own limit', () => using('stdio', { env: deadline }, async (s) => {
		const r = await s.run('f = open("/tmp/big", "wb")\nfor i in range(200): f.write(b"x" * (1 << 20))', 'tmp');
		assert.match(r.stderr, /No space left on device/);
		assert.equal((await s.ok('open("fine", "w").write("x" * 1000)', 'tmp')).artifacts.length, 1);
	}));
	it('(slow) a flood of output: memory of the server constant, the run goes on', () => using('stdio', { env: deadline }, async (s) => {
		await s.ok('pass', 'flood');
		const before = residentBytes(s.pid);
		let peak = 0;
		const watch = setInterval(() => (peak = Math.max(peak, residentBytes(s.pid))), 20);
		try {
			const r = await s.ok([
				'import os',
				'b = b"y" * (1 << 16)',
				'for i in range(3000): os.write(1, b)',
				'for i in range(1000): os.write(2, b)',
			].join('\n'), 'flood');
			assert.equal(r.stdout.length, 102_400);
			assert.equal(r.stderr.length, 102_400);
			assert.deepEqual([r.stdout_truncated, r.stderr_truncated], [true, true]);
		} finally {
			clearInterval(watch);
		}
		assert.ok(peak - before < 8 << 20, `grew by ${(peak - before) >> 10} KiB`);
	}));
	it('a flood that passes the stop limit is ended there, and says so', () => using('stdio', { env: { ...deadline, SANDBOX_OUTPUT_STOP_BYTES: '1000000' } }, async (s) => {
		const r = await s.run('import sys\nwhile True: sys.stdout.write("x" * 65536)', 'stop');
		assert.deepEqual([r.exit_code, r.reason, r.stdout_truncated, r.stdout.length], [137, 'output_limit', true, 102400], JSON.stringify({ ...r, stdout: '' }));
		assert.deepEqual([(await s.ok('import sys; sys.stderr.write("y" * 900000)', 'stop')).reason], ['exited']);
	}));
	it('an endless flood is ended at its limit', () => using('stdio', { env: { ...deadline, SANDBOX_OUTPUT_STOP_BYTES: '10000000' } }, async (s) => {
		const r = await s.run('import os\nwhile True: os.write(1, b"z" * 65536)', 'endless');
		assert.deepEqual([r.exit_code, r.reason, r.stdout_truncated], [137, 'output_limit', true]);
		assert.equal((await s.ok('print(1)', 'endless')).stdout, '1\n');
	}));
	it('(slow) without that limit it ends at the deadline', () => using('stdio', { env: { SANDBOX_EXEC_TIMEOUT_S: String(2 * slowness), SANDBOX_OUTPUT_STOP_BYTES: '0' } }, async (s) => {
		const r = await s.run('import os\nwhile True: os.write(1, b"z" * 65536)', 'endless');
		assert.deepEqual([r.exit_code, r.reason, r.stdout_truncated], [-1, 'timeout', true]);
		assert.ok(r.duration_ms < 5000 * slowness);
	}));
	it('standard input is empty, not a wait', () => using('stdio', { env: deadline }, async (s) => {
		const r = await s.run('input("name? ")', 'stdin');
		assert.match(r.stderr, /EOFError/);
		assert.ok(r.duration_ms < 10_000 * slowness);
	}));
	it('closing its own descriptors hurts nobody', () => using('stdio', { env: deadline }, async (s) => {
		const r = await s.run('import os\nos.closerange(0, 1024)\nos._exit(5)', 'fds');
		assert.equal(r.exit_code, 5);
		const half = await s.run('import os, time\nos.write(1, b"before")\nos.close(1); os.close(2)\ntime.sleep(0.2); os._exit(6)', 'fds');
		assert.deepEqual([half.exit_code, half.stdout], [6, 'before']);
	}));
	it('killing every process in sight ends only the run', () => using('stdio', { env: deadline }, async (s) => {
		const r = await s.run('import os\nfor sig in (15, 19, 9):\n    try: os.kill(-1, sig)\n    except OSError: pass\nos.kill(os.getpid(), 9)', 'killer');
		assert.ok(r.exit_code !== 0 || r.error);
		assert.equal((await within('the next run', s.run('print(1)', 'killer'), 20_000)).stdout, '1\n');
	}));
	it('(slow) a hundred runs leave no descriptor and no growth behind', () => using('stdio', { env: { ...deadline, SANDBOX_POOL: '0', SANDBOX_POOL_MAX: '0' } }, async (s) => {
		for (let i = 0; i < 5; i++)
			await s.ok(`open("f${i}", "w").close()`, 'leak');
		const fds = openDescriptors(s.pid), rss = residentBytes(s.pid);
		for (let i = 0; i < 60; i++)
			await s.ok('pass', 'leak');
		for (let i = 0; i < 20; i++) {
			await s.upload('u.txt', 'x', 'leak2');
			await s.close('leak2');
		}
		for (let i = 0; i < 20; i++)
			await s.read('leak', '/mnt/data/f0');
		await until('descriptors as before', () => openDescriptors(s.pid) <= fds, 2000);
		if (!sanitized) // freed memory stays in quarantine there
			assert.ok(residentBytes(s.pid) - rss < 4 << 20, `grew by ${(residentBytes(s.pid) - rss) >> 10} KiB`);
	}));
});

describe('limits that cannot be enforced', () => {
	for (const [limit, name, value] of [['memory', 'SANDBOX_MEMORY_LIMIT', '160m'], ['pids', 'SANDBOX_PIDS_LIMIT', '64'], ['cpu', 'SANDBOX_CPU_LIMIT', '0.5']] as const) {
		const holds = unlessEnforced(limit) === false;
		it(`${name} set explicitly is ${holds ? 'taken' : 'refused, not dropped'}`, async () => {
			const ran = await using('stdio', { env: { [name]: value } }, async (s) => {
				let r = await s.run('print(1)');
				for (let i = 0; i < 2 && r.error; i++) { // every call says the same
					assert.match(r.message, new RegExp(`${name}.*enforce`));
					r = await s.run('print(1)');
				}
				return r.error === undefined;
			}).catch((e: Error) => {
				assert.match(e.message, /enforce/);
				return false;
			});
			assert.equal(ran, holds);
		});
	}
});
