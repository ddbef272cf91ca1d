// SPDX-License-Identifier: Apache-2.0
// A09, A13–A15, A17, A24–A26, A28: running code, its limits and its walls, as the first family shows them.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isError, isRun, sessionIdPattern } from '../lib/expect.ts';
import { engine, slowness } from '../lib/env.ts';
import { matrix, using, wires } from '../lib/session.ts';

matrix('runs', {}, (s) => {
	it('A13 print(2+2)', async () => {
		const r = await s().run('print(2+2)');
		isRun(r);
		assert.match(r.session_id, sessionIdPattern);
		assert.deepEqual({ ...r, session_id: 0, run_id: 0, duration_ms: 0 }, {
			session_id: 0, run_id: 0, exit_code: 0, stdout: '4\n', stderr: '', stdout_truncated: false,
			stderr_truncated: false, artifacts: [], duration_ms: 0, reason: 'exited',
		});
		await s().close(r.session_id);
	});
	it('A14 a traceback names the type, the message and the source line', async () => {
		const r = await s().run('x = 1\nraise ValueError("broken " + str(x))', 'trace');
		isRun(r);
		assert.equal(r.exit_code, 1);
		assert.match(r.stderr, /^Traceback \(most recent call last\):/);
		assert.match(r.stderr, /line 2/);
		assert.match(r.stderr, /raise ValueError\("broken " \+ str\(x\)\)/);
		assert.match(r.stderr, /ValueError: broken 1\n$/);
		assert.deepEqual(r.artifacts, []);
	});
	it('A14 a syntax error shows its line', async () => {
		const r = await s().run('a = 1\nb = = 2\n', 'trace');
		assert.equal(r.exit_code, 1);
		assert.match(r.stderr, /line 2[^]*b = = 2[^]*SyntaxError/);
	});
	it('the status of the script is the exit code', async () => {
		for (const [code, status] of [['import sys; sys.exit(3)', 3], ['import os; os._exit(250)', 250], ['raise SystemExit("bye")', 1]] as const) {
			const r = await s().run(code, 'status');
			isRun(r);
			assert.equal(r.exit_code, status);
		}
	});
	it('A15 a session keeps files and nothing else', async () => {
		await s().ok('open("kept.txt", "w").write("from the first run"); y = 5', 'share');
		const r = await s().ok('print(open("/mnt/data/kept.txt").read()); print("y" in globals())', 'share');
		assert.equal(r.stdout, 'from the first run\nFalse\n');
	});
	it('runs in /mnt/data as __main__ with the code as it was sent', async () => {
		const r = await s().ok('import os, sys\nprint(os.getcwd(), __name__, sys.stdin.read() == "")\nprint("é日本😀\\u0000end".encode())', 'cwd');
		assert.equal(r.stdout, `/mnt/data __main__ True\n${"b'\\xc3\\xa9\\xe6\\x97\\xa5\\xe6\\x9c\\xac\\xf0\\x9f\\x98\\x80\\x00end'"}\n`);
	});
	it('empty code is a run that does nothing', async () => {
		const r = await s().ok('', 'cwd');
		assert.equal(r.stdout + r.stderr, '');
	});
	it('output that is no UTF-8 becomes replacement characters', async () => {
		const r = await s().ok('import sys; sys.stdout.buffer.write(b"a\\xff\\xfeb\\xc3")', 'cwd');
		assert.equal(r.stdout, 'a\ufffd\ufffdb\ufffd');
	});
	it('A17 no address outside is reachable', async () => {
		const r = await s().run([
			'import urllib.request, socket',
			'for target in ("http://93.184.216.34/", "http://169.254.169.254/", "http://[2606:2800:220:1::1]/"):',
			'    try:',
			'        urllib.request.urlopen(target, timeout=5)',
			'        print("reached", target)',
			'    except OSError as e:',
			'        print(type(e).__name__)',
			'try:',
			'    socket.getaddrinfo("example.org", 80)',
			'    print("resolved")',
			'except OSError as e:',
			'    print(type(e).__name__)',
		].join('\n'), 'net');
		assert.equal(r.exit_code, 0, r.stderr);
		assert.equal(r.stdout, 'URLError\nURLError\nURLError\ngaierror\n');
	});
	it('A17 nothing of this machine listens inside', async () => {
		const r = await s().ok([
			'import socket',
			'for port in (22, 80, 8080, 8181):',
			'    c = socket.socket(); c.settimeout(2)',
			'    print(c.connect_ex(("127.0.0.1", port)) != 0)',
			'import fcntl, struct',
			'b = bytearray(4096)',
			'import ctypes; a = (ctypes.c_char * 4096).from_buffer(b)',
			'n = struct.unpack("iL", fcntl.ioctl(c, 0x8912, struct.pack("iL", 4096, ctypes.addressof(a))))[0]  # SIOCGIFCONF',
			'print([bytes(b[i:i+16]).rstrip(bytes(1)).decode() for i in range(0, n, 40)])',
		].join('\n'), 'net');
		assert.equal(r.stdout, 'True\nTrue\nTrue\nTrue\n[\'lo\']\n');
	});
	it('A17 loopback inside works', async () => {
		const r = await s().ok([
			'import socket',
			'a = socket.create_server(("127.0.0.1", 0)); b = socket.create_connection(a.getsockname())',
			'c, _ = a.accept(); b.sendall(b"hello"); print(c.recv(9))',
		].join('\n'), 'net');
		assert.equal(r.stdout, "b'hello'\n");
	});
	it('A28 writable: /mnt/data and /tmp; nothing else', async () => {
		const r = await s().ok([
			'import os',
			'def can(p):',
			'    try:',
			'        open(os.path.join(p, "probe"), "w").close(); os.unlink(os.path.join(p, "probe")); return True',
			'    except OSError: return False',
			'print([p for p in ("/mnt/data", "/tmp") if not can(p)])',
			'skip = ("/mnt/data", "/tmp", "/proc", "/app/results", "/dev/shm", "/home/sandbox", "/home/user")',
			'bad = [d for d, _, _ in os.walk("/") if not d.startswith(skip) and can(d)]',
			'print(bad)',
		].join('\n'), 'walls');
		assert.equal(r.stdout, '[]\n[]\n');
	});
	it('A28 /app/results is /mnt/data', async () => {
		const r = await s().ok('open("/app/results/both.txt", "w").write("x"); print(open("/mnt/data/both.txt").read())', 'walls');
		assert.equal(r.stdout, 'x\n');
		assert.deepEqual(r.artifacts.map((a: { filename: string }) => a.filename), ['both.txt']);
	});
	it('/home/user is /mnt/data, and the home of the account user', async () => {
		const r = await s().ok([
			'import os, pwd, grp, subprocess',
			'open("/home/user/home.txt", "w").write("x")',
			'print(open("/mnt/data/home.txt").read())',
			'print(subprocess.run("cd /home/user; pwd; python3 -c \'import os; print(os.getcwd())\'", shell=True, capture_output=True, text=True).stdout)',
			'print(pwd.getpwnam("user")[2:], grp.getgrnam("user").gr_gid, pwd.getpwuid(1000).pw_name, grp.getgrgid(1000).gr_name)',
			'print(os.path.expanduser("~user"), os.path.expanduser("~"))',
		].join('\n'), 'walls');
		assert.equal(r.stdout, "x\n/home/user\n/home/user\n\n(1000, 1000, 'user', '/home/user', '/bin/bash') 1000 sandbox sandbox\n/home/user /home/sandbox\n");
		assert.deepEqual(r.artifacts.map((a: { filename: string }) => a.filename), ['home.txt']);
	});
	it('the user is not root and has no way up', async () => {
		const r = await s().ok([
			'import os, re',
			'print(os.getuid() != 0, os.geteuid() != 0, os.getgid() != 0)',
			't = open("/proc/self/status").read()',
			'print(set(re.findall(r"^Cap(?:Inh|Prm|Eff|Bnd|Amb):\\s+0*([0-9a-f]+)$", t, re.M)))',
			'print(re.search(r"NoNewPrivs:\\s+(\\d)", t).group(1), re.search(r"Seccomp:\\s+(\\d)", t).group(1))',
			'print(sorted(int(f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f))[:3])',
		].join('\n'), 'walls');
		assert.equal(r.stdout, "True True True\n{'0'}\n1 2\n[0, 1, 2]\n");
	});
	it('no descriptor but the three is open', async () => {
		const r = await s().ok([
			'import os',
			'n = []',
			'for fd in range(3, 1024):',
			'    try: os.fstat(fd); n.append((fd, os.readlink(f"/proc/self/fd/{fd}")))',
			'    except OSError: pass',
			'print(n)',
		].join('\n'), 'walls');
		assert.equal(r.stdout, '[]\n');
	});
	it('nothing of the host shows: processes, environment, mounts, host name', { skip: engine === 'docker' && 'a container engine mounts by paths of the host; suites/hostile/cases/containers.ts has 13c' }, async () => {
		const r = await s().ok([
			'import os, socket',
			'pids = [p for p in os.listdir("/proc") if p.isdigit()]',
			'print(len(pids) < 10)',
			'print([k for k, v in os.environ.items() if k.startswith(("SANDBOX_", "ASAN", "XDG_", "NODE")) and v != "verify_asan_link_order=0"])', // that is ours
			'print([l for l in open("/proc/self/mountinfo") if "/var/lib/caisson" in l or "/tmp/caisson" in l or "/images/" in l])',
			'print(os.path.exists("/sys/kernel"), os.path.exists("/proc/kcore"))',
		].join('\n'), 'walls');
		assert.equal(r.stdout, 'True\n[]\n[]\nFalse False\n');
	});
	it('nothing that a run started survives it', async () => {
		const r = await s().ok([
			'import subprocess, os',
			'subprocess.Popen(["sleep", "300"], start_new_session=True)',
			'if os.fork() == 0:',
			'    os.setsid()',
			'    if os.fork() == 0:',
			'        open("/mnt/data/daemon", "w").write(str(os.getpid()))',
			'        os.execvp("sleep", ["sleep", "300"])',
			'    os._exit(0)',
			'import time',
			'while not os.path.exists("/mnt/data/daemon"): time.sleep(0.01)',
		].join('\n'), 'orphans');
		assert.ok(r.duration_ms < 30_000);
		const left = await s().ok([
			'import os',
			'names = []',
			'for p in os.listdir("/proc"):',
			'    if p.isdigit():',
			'        try: names.append(open(f"/proc/{p}/comm").read().strip())',
			'        except OSError: pass',
			'print("sleep" in names)',
		].join('\n'), 'orphans');
		assert.equal(left.stdout, 'False\n');
	});
	it('A26 a busy session refuses a second run and a close; the first completes', async () => {
		const first = s().run([
			'import os, time',
			'open("started", "w").close()',
			'while not os.path.exists("go"): time.sleep(0.01)',
			'print("done")',
		].join('\n'), 'busy');
		for (;;) { // the run has begun when its file is there
			const l = await s().call('sandbox_list_artifacts', { session_id: 'busy' });
			if (l.artifacts?.some((a: { filename: string }) => a.filename === 'started'))
				break;
		}
		isError(await s().run('print(1)', 'busy'), 'session_busy',
			'Session busy is already executing code. Wait or use a different session.');
		isError(await s().close('busy'), 'session_busy',
			'Session busy is currently executing code. Wait for completion before closing.');
		assert.equal((await s().upload('go', 'now', 'busy')).path, '/mnt/data/go'); // uploads do not wait
		const r = await first;
		assert.equal(r.exit_code, 0, r.stderr);
		assert.equal(r.stdout, 'done\n');
		assert.deepEqual(await s().close('busy'), { status: 'closed' });
	});
});

matrix('A24 timeouts', { env: { SANDBOX_EXEC_TIMEOUT_S: String(3 * slowness), SANDBOX_KILL_GRACE_MS: '500' } }, (s) => {
	const limit = 3 * slowness;
	const note = `\nExecution timed out after ${limit}s`;
	it('sleep(120) ends at the deadline with what it had written', async () => {
		const r = await s().run('import time; print("begun", flush=True); time.sleep(120)', 'late');
		isRun(r);
		assert.deepEqual([r.exit_code, r.reason], [-1, 'timeout']);
		assert.equal(r.stdout, 'begun\n');
		assert.ok(r.stderr.endsWith(note), r.stderr);
		assert.ok(r.duration_ms >= limit * 1000 && r.duration_ms < limit * 1000 + 2500 * slowness, `${r.duration_ms} ms`);
	});
	it('code that ignores SIGTERM is killed after the grace', async () => {
		const r = await s().run('import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(120)', 'late');
		assert.equal(r.exit_code, -1);
		assert.ok(r.stderr.endsWith(note));
		assert.ok(r.duration_ms < limit * 1000 + 2500 * slowness, `${r.duration_ms} ms`);
	});
	it('(slow) SIGTERM at the deadline can be used to save something', async () => {
		const r = await s().run([
			'import signal, sys, time',
			'def save(*_):',
			'    open("saved.txt", "w").write("just in time"); sys.exit(0)',
			'signal.signal(signal.SIGTERM, save)',
			'time.sleep(120)',
		].join('\n'), 'late');
		assert.equal(r.exit_code, -1);
		assert.equal((await s().read('late', '/mnt/data/saved.txt')).toString(), 'just in time');
	});
	it('the session goes on, and status 124 is just a status', async () => {
		const r = await s().run('import sys; sys.exit(124)', 'late');
		assert.deepEqual([r.exit_code, r.reason], [124, 'exited']);
		assert.equal(r.stderr, '');
	});
	it('a grandchild that holds the pipes does not delay the end (timing)', async () => {
		const r = await s().ok('import subprocess; subprocess.Popen(["sleep", "60"]); print("parent done")', 'pipes');
		assert.equal(r.stdout, 'parent done\n');
		assert.ok(r.duration_ms < 2900 * slowness, `${r.duration_ms} ms`);
	});
});

matrix('A25 output', { env: { SANDBOX_MAX_OUTPUT_BYTES: '100' } }, (s) => {
	it('keeps the first 100 bytes of stdout and says so', async () => {
		const r = await s().ok('print("a" * 500)', 'cut');
		isRun(r);
		assert.equal(r.stdout, 'a'.repeat(100));
		assert.deepEqual([r.stdout_truncated, r.stderr_truncated], [true, false]);
	});
	it('and of stderr', async () => {
		const r = await s().ok('import sys; sys.stderr.write("b" * 500)', 'cut');
		assert.equal(r.stderr, 'b'.repeat(100));
		assert.deepEqual([r.stdout_truncated, r.stderr_truncated], [false, true]);
	});
	it('exactly at the limit nothing is cut', async () => {
		const r = await s().ok('import sys; sys.stdout.write("c" * 100)', 'cut');
		assert.equal(r.stdout, 'c'.repeat(100));
		assert.equal(r.stdout_truncated, false);
	});
	it('normal output has both flags false', async () => {
		const r = await s().ok('print("short")', 'cut');
		assert.deepEqual([r.stdout, r.stdout_truncated, r.stderr_truncated], ['short\n', false, false]);
	});
	it('a character cut in the middle becomes U+FFFD', async () => {
		const r = await s().ok('import sys; sys.stdout.buffer.write(b"x" + "é".encode() * 80)', 'cut');
		assert.equal(r.stdout, `x${'é'.repeat(49)}\ufffd`);
		assert.equal(r.stdout_truncated, true);
	});
});

describe('A09 the cap on sessions', () => {
	for (const wire of wires) {
		it(`names the number, and never counts a session that is there (${wire})`, () =>
			using(wire, { env: { SANDBOX_MAX_SESSIONS: '2' } }, async (s) => {
				await s.upload('a', 'x', 'one');
				await s.ok('pass', 'two');
				const full = /^Maximum 2 concurrent sessions reached\. Close an existing session first\.$/;
				isError(await s.run('pass', 'three'), 'max_sessions', full);
				isError(await s.upload('a', 'x'), 'max_sessions', full);
				await s.ok('pass', 'one');
				await s.upload('b', 'x', 'two');
				isError(await s.close('three'), 'session_not_found', 'No active session with id three');
				await s.close('one');
				await s.ok('pass', 'three');
			}));
		it(`holds when many come at once (${wire})`, () =>
			using(wire, { env: { SANDBOX_MAX_SESSIONS: '2' } }, async (s) => {
				const all = await Promise.all([1, 2, 3, 4, 5, 6].map((i) => s.upload('a', 'x', `s${i}`)));
				assert.equal(all.filter((r) => r.path).length, 2);
				assert.equal(all.filter((r) => r.error === 'max_sessions').length, 4);
			}));
		it(`two first calls with one new id make one session (${wire})`, () =>
			using(wire, { env: { SANDBOX_MAX_SESSIONS: '1' } }, async (s) => {
				const all = await Promise.all(['a', 'b', 'c', 'd'].map((n) => s.upload(n, n, 'same')));
				assert.deepEqual(all.map((r) => r.path), ['/mnt/data/a', '/mnt/data/b', '/mnt/data/c', '/mnt/data/d']);
				assert.deepEqual((await s.list('same')).map((a) => a.filename).sort(), ['a', 'b', 'c', 'd']);
			}));
	}
});
