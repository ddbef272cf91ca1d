/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine through engine.h: every promise of the interface, seen from inside and outside.
 *
 *   engine_native [--as UID] [--state-dir DIR] [--image NAME] [--only CASE] [--bench N] [--code
 * PYTHON]
 *                 [--hold N] [--warm 0|1] [--pool N]
 *
 * TAP on stdout. As UID: gives up root first and so tests what a plain user gets. The program is
 * its own monitor (engine_begin() executes /proc/self/exe). --hold: N sandboxes with a run
 * each, then waits to be killed (engine_deaths.c). */
#include "engine_client.h"
#include "outside.h"
#include "state_dir.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "walls/privileges.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BENCH_PAUSE_US 20000
#define BENCH_FILL_MS  150
#define WARM_UP_NS     (30 * NS_PER_S)
#define REAPED_NS      (5 * NS_PER_S)
#define FORGED_WAIT_NS (12 * NS_PER_S) /* a holder that does not answer ends before */

static struct options {
	const char *state_dir;
	const char *image;
	const char *only;
	const char *code;
	uint64_t bench;
	uint64_t hold;
	uint64_t scale;
	uint64_t as;
	uint64_t warm;
	uint64_t pool;
} options = {.image = "science"};

static struct outcome o; /* of the call at hand */

/* ---- what must be the same before and after ---- */

struct counts {
	size_t processes, groups, mounts, fds;
};

static char
    own_groups[64]; /* name of our monitor's groups; others may be at work on this machine */

/* The front is not dumpable any more: only the process itself may look. */
static size_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	EXPECT(d != NULL);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static size_t count_mounts(void)
{
	_cleanup_file_ FILE *f = fopen("/proc/self/mountinfo", "re");
	size_t n = 0;
	int c;

	EXPECT(f != NULL);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	return n;
}

static struct counts count(void)
{
	pid_t tree[256];

	return (struct counts){
	    .processes = outside_tree(getpid(), tree, ARRAY_SIZE(tree)),
	    .groups = outside_groups_below(own_groups),
	    .mounts = count_mounts(),
	    .fds = count_fds(),
	};
}

/* Fewer is right, too: what ended late was counted before. */
static bool is_calm(const struct counts *c, const struct counts *before)
{
	return c->processes <= before->processes && c->groups <= before->groups &&
	       c->mounts <= before->mounts && c->fds <= before->fds;
}

/* What there is when everything has gone that will. A fork that was on its way into a sandbox which
 * ended is reaped by its zygote, of whom nobody waits for that. */
static struct counts count_again(const struct counts *before)
{
	const struct timespec moment = {.tv_nsec = NS_PER_MS};
	uint64_t end = now_ns() + REAPED_NS;
	struct counts c = count();

	for (; !is_calm(&c, before) && now_ns() < end; c = count())
		(void)nanosleep(&moment, NULL);
	return c;
}

static struct engine_sandbox *sandbox(struct client *c)
{
	struct engine_sandbox *s = make_sandbox(c, options.image, &default_limits, &o);

	EXPECT_OF(&o, s != NULL);
	return s;
}

/* ---- cases ---- */

static void case_hello(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);

	run_python(c, s, "import sys\nprint('hello', file=sys.stderr)\nprint(6*7)\nsys.exit(3)\n",
		   60000, &o);
	EXPECT_OF(&o,
		  o.have_result && o.result.end == ENGINE_END_EXITED && o.result.exit_code == 3);
	EXPECT_OF(&o, streq(o.out, "42\n") && streq(o.err, "hello\n"));
	EXPECT_OF(&o, o.result.output_total[ENGINE_STDOUT] == 3 && o.result.duration_ns > 0 &&
			  o.result.cpu_ns > 0);
	EXPECT_OF(&o, o.result.peak_bytes > 1 << 20);
	run_python(c, s, "raise ValueError('x')\n", 60000, &o);
	EXPECT_OF(&o, o.result.exit_code == 1 && strstr(o.err, "ValueError: x"));
	end_sandbox(c, s);
}

/* What a run sees of the place it is in. */
static void case_inside(struct client *c)
{
	static const char code[] =
	    "import os, socket, resource, stat\n"
	    "assert os.getuid() == os.getgid() == 1000, os.getuid()\n"
	    "assert os.getgroups() in ([], [1000], [65534]), os.getgroups()\n"
	    "assert os.getcwd() == '/mnt/data'\n"
	    "assert socket.gethostname() == 'sandbox'\n"
	    "st = dict(l.split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)\n"
	    "for k in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'):\n"
	    "    assert int(st[k], 16) == 0, (k, st[k])\n"
	    "assert st['NoNewPrivs'].strip() == '1' and st['Seccomp'].strip() == '2'\n"
	    "assert set(os.listdir('/proc/self/fd')) <= {'0', '1', '2', '3'}, "
	    "os.listdir('/proc/self/fd')\n"
	    "assert not [p for p in os.listdir('/proc') if not p.isdigit() and p not in\n"
	    "            ('self', 'thread-self')], os.listdir('/proc')\n"
	    "for name in ('environ', 'maps', 'mem', 'fd/0', 'ns/net'):\n"
	    "    try:\n"
	    "        open('/proc/1/' + name, 'rb').read(1)\n"
	    "        raise SystemExit('read /proc/1/' + name)\n"
	    "    except OSError:\n"
	    "        pass\n"
	    "assert os.listdir('/sys') == []\n"
	    "for path in ('/', '/usr', '/etc', '/dev', '/proc', '/proc/self', '/home', '/mnt', "
	    "'/app'):\n"
	    "    try:\n"
	    "        open(path + '/x', 'w')\n"
	    "        raise SystemExit('wrote below ' + path)\n"
	    "    except OSError:\n"
	    "        pass\n"
	    "for path in ('/mnt/data', '/app/results', '/home/user', '/tmp', '/home/sandbox', "
	    "'/dev/shm'):\n"
	    "    open(path + '/x', 'w').write('x')\n"
	    "assert os.stat('/mnt/data/x').st_ino == os.stat('/app/results/x').st_ino\n"
	    "assert os.stat('/mnt/data/x').st_ino == os.stat('/home/user/x').st_ino\n"
	    "info = open('/proc/self/mountinfo').read()\n"
	    "assert 'caisson' not in info and '/var/lib' not in info and '/new' not in info, info\n"
	    "for line in info.splitlines():\n"
	    "    where, how = line.split()[4:6]\n"
	    "    assert 'nosuid' in how.split(','), line\n"
	    "    assert where.startswith('/dev') or 'nodev' in how.split(','), line\n"
	    "groups = open('/proc/self/cgroup').read()\n"
	    "assert 'caisson' not in groups, groups\n"
	    "assert resource.getrlimit(resource.RLIMIT_CORE) == (1, 1)\n"
	    "assert os.environ == {'PATH': '/usr/local/bin:/usr/bin:/bin', 'HOME': "
	    "'/home/sandbox', 'USER': 'sandbox',\n"
	    "    'LOGNAME': 'sandbox', 'LANG': 'C.UTF-8', 'MPLBACKEND': 'Agg',\n"
	    "    'MPLCONFIGDIR': '/tmp/.config/matplotlib', 'PYTHONUNBUFFERED': '1', "
	    "'TERM': 'dumb', 'PIP_RETRIES': '0', 'ASAN_OPTIONS': 'verify_asan_link_order=0', 'A': "
	    "'b'} | "
	    "({'PYTHON_CPU_COUNT': '1', 'OMP_NUM_THREADS': '1'} "
	    "if len(os.sched_getaffinity(0)) > 1 else {}), os.environ\n"
	    "old = os.umask(0); assert old == 0o22, old\n"
	    "for n in ('null', 'zero', 'full', 'random', 'urandom', 'tty'):\n"
	    "    assert stat.S_ISCHR(os.stat('/dev/' + n).st_mode), n\n"
	    "open('/dev/null', 'w').write('x'); open('/dev/stdout', 'w').write('by name\\n')\n"
	    "a, b = os.openpty(); os.close(a); os.close(b)\n"
	    "l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(); "
	    "socket.create_connection(l.getsockname())\n"
	    "try:\n"
	    "    socket.create_connection(('1.1.1.1', 80), 0.2); raise SystemExit('network')\n"
	    "except OSError:\n"
	    "    pass\n"
	    "assert os.read(0, 1) == b''\n"
	    "print('ok')\n";
	static const char *const env[] = {"A=b", NULL};
	struct engine_sandbox *s = sandbox(c);
	struct engine_run_spec spec = {.kind = ENGINE_RUN_PYTHON,
				       .code = code,
				       .code_len = sizeof(code) - 1,
				       .env = env,
				       .stdin_fd = -1};

	EXPECT(start_run(s, &spec, &o) != NULL);
	turn_until(c, &o.done, 60000);
	EXPECT_OF(&o, o.have_result && o.result.exit_code == 0 && streq(o.out, "by name\nok\n"));
	end_sandbox(c, s);
}

static void case_commands(struct client *c)
{
	static const char *const good[] = {"sh", "-c", "echo \"$0\" $1 x$2; cat; exit 7", "one two",
					   NULL};
	static const char *const missing[] = {"no-such-program", NULL};
	static const char *const env[] = {"PATH=/usr/bin", NULL};
	struct engine_sandbox *s = sandbox(c);
	int p[2];
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_ARGV, .argv = good, .env = env, .cwd = "/tmp"};

	EXPECT(pipe2(p, O_CLOEXEC) == 0);
	EXPECT(write(p[1], "from stdin", 10) == 10);
	(void)close(p[1]);
	spec.stdin_fd = p[0];
	EXPECT(start_run(s, &spec, &o) != NULL);
	(void)close(p[0]);
	turn_until(c, &o.done, 60000);
	EXPECT_OF(&o, o.result.exit_code == 7 && streq(o.out, "one two x\nfrom stdin"));
	run_argv(c, s, missing, &o);
	EXPECT_OF(&o, !o.have_result && o.e.code == ERR_NOT_FOUND);
	spec = (struct engine_run_spec){
	    .kind = ENGINE_RUN_ARGV, .argv = good, .cwd = "/no/such", .stdin_fd = -1};
	EXPECT(start_run(s, &spec, &o) != NULL);
	turn_until(c, &o.done, 60000);
	EXPECT_OF(&o, !o.have_result && o.e.code == ERR_NOT_FOUND);
	end_sandbox(c, s);
}

/* How long an interpreter takes to start here: under emulation that is seconds. */
static uint64_t start_ms(struct client *c, struct engine_sandbox *s)
{
	run_python(c, s, "pass", 0, &o);
	return o.result.duration_ns / NS_PER_MS;
}

static void case_timeout(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);
	uint64_t ms = 600 + 4 * start_ms(c, s);

	run_python(c, s, "print('a', flush=True)\nimport time\ntime.sleep(1000)\n", ms, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_TIMEOUT && o.result.signal == SIGTERM &&
			  streq(o.out, "a\n"));
	EXPECT_OF(&o, o.result.duration_ns >= ms * NS_PER_MS &&
			  o.result.duration_ns < (ms + 400) * NS_PER_MS);
	run_python(
	    c, s,
	    "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('a', flush=True)\n"
	    "while True: time.sleep(1)\n",
	    ms, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_TIMEOUT && o.result.signal == SIGKILL &&
			  streq(o.out, "a\n"));
	EXPECT_OF(&o, o.result.duration_ns >= (ms + 500) * NS_PER_MS &&
			  o.result.duration_ns < (ms + 1000) * NS_PER_MS);
	/* a run that stops itself gets the KILL all the same */
	run_python(c, s, "import os\nos.kill(os.getpid(), 19)\n", ms, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_TIMEOUT && o.result.signal == SIGKILL);
	run_python(c, s, "print(1)", 0, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_EXITED && streq(o.out, "1\n"));
	end_sandbox(c, s);
}

static void case_ends(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_PYTHON,
	    .code = "import time\nprint(1,flush=True)\nwhile True: time.sleep(0.05)",
	    .stdin_fd = -1};

	run_python(c, s, "import os\nos.abort()\n", 60000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_SIGNALED && o.result.signal == SIGABRT &&
			  o.result.exit_code == 134);
	/* what a run left behind is killed, and pipes that it holds open delay nothing */
	run_python(c, s,
		   "import os, time\n"
		   "for i in range(3):\n"
		   "    if os.fork() == 0:\n"
		   "        os.setsid()\n"
		   "        if os.fork() == 0: time.sleep(60)\n"
		   "        os._exit(0)\n"
		   "time.sleep(0.2)\nprint('left')\n",
		   60000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_EXITED && streq(o.out, "left\n") &&
			  o.result.killed == 3);
	EXPECT_OF(&o, o.result.duration_ns < 5 * NS_PER_S);
	/* neither init nor what waits is to be seen */
	run_python(c, s,
		   "import os\nprint([int(p) for p in os.listdir('/proc') if p.isdigit()] == "
		   "[os.getpid()])",
		   60000, &o);
	EXPECT_OF(&o, streq(o.out, "True\n"));
	spec.code_len = strlen(spec.code);
	struct engine_run *r = start_run(s, &spec, &o);
	EXPECT(r != NULL);
	while (o.out_len == 0)
		EXPECT(sd_event_run(c->loop, 100000) >= 0);
	EXPECT(engine_signal(r, SIGINT) == 0);
	turn_until(c, &o.done, 60000);
	EXPECT_OF(&o, o.result.end == ENGINE_END_SIGNALED && o.result.signal == SIGINT &&
			  strstr(o.err, "KeyboardInterrupt"));
	r = start_run(s, &spec, &o);
	EXPECT(r != NULL);
	struct err e = ERR_INIT;
	struct engine_run *second;
	EXPECT(engine_run(s, &spec, &second, &e) == -EBUSY && e.code == ERR_SESSION_BUSY);
	EXPECT(engine_signal(r, SIGKILL) == 0);
	turn_until(c, &o.done, 60000);
	EXPECT_OF(&o, o.result.end == ENGINE_END_KILLED);
	/* destroying a sandbox ends its run first */
	EXPECT(start_run(s, &spec, &o) != NULL);
	end_sandbox(c, s);
	EXPECT_OF(&o, o.done && o.have_result && o.result.end == ENGINE_END_KILLED);
}

static void case_init_is_safe(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);

	run_python(
	    c, s,
	    "import os, resource, signal\n"
	    "for n in range(1, 65):\n"
	    "    try: os.kill(1, n)\n"
	    "    except OSError: pass\n"
	    "for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS):\n"
	    "    try: resource.prlimit(1, what, (0, 0))\n"
	    "    except OSError: pass\n"
	    "try: os.kill(-1, 9)\n"
	    "except OSError: pass\n"
	    "print('alive')\n",
	    60000, &o);
	EXPECT_OF(&o, streq(o.out, "alive\n"));
	run_python(
	    c, s,
	    "import os\ntry: os.kill(1, 0)\nexcept PermissionError: pass\nprint(os.getppid())\n"
	    "open('/mnt/data/f','w').write('x')\n",
	    60000, &o);
	EXPECT_OF(&o, streq(o.out, "1\n"));
	int fd = open_path(c, s, "f", &o);
	EXPECT_OF(&o, fd >= 0);
	(void)close(fd);
	end_sandbox(c, s);
}

static void case_output(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);
	static const char code[] =
	    "import sys\nfor i in range(500): sys.stdout.write('x' * 100000)\n"
	    "sys.stderr.write('e' * 1000)\n";
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_PYTHON, .code = code, .code_len = sizeof(code) - 1, .stdin_fd = -1};

	spec.output_max[ENGINE_STDOUT] = 1000;
	spec.output_max[ENGINE_STDERR] = 1000;
	EXPECT(start_run(s, &spec, &o) != NULL);
	turn_until(c, &o.done, 30000);
	EXPECT_OF(&o, o.result.exit_code == 0 && o.out_len == 1000 && o.err_len == 1000);
	EXPECT_OF(&o, o.result.output_total[ENGINE_STDOUT] == 50000000 &&
			  o.result.output_total[ENGINE_STDERR] == 1000);
	end_sandbox(c, s);
}

static bool has_cap(const struct client *c, enum engine_cap cap)
{
	return engine_caps(c->engine) & (uint32_t)cap;
}

static void case_memory(struct client *c)
{
	struct engine_limits l = default_limits;

	l.memory_bytes = UINT64_C(96) << 20;
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, s != NULL);
	run_python(c, s,
		   "a = [bytearray(1 << 20) for i in range(4000)]\nimport time; time.sleep(5)",
		   60000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_OOM && o.result.exit_code == 137);
	run_python(c, s, "print(1)", 60000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_EXITED && streq(o.out, "1\n"));
	if (has_cap(c, ENGINE_CAP_MEMORY)) { /* polling counts tmpfs too, but ends a run instead of
						failing a write */
		run_python(
		    c, s,
		    "import subprocess, sys\n"
		    "r = subprocess.run([sys.executable, '-c', 'a = bytearray(400 << 20)'])\n"
		    "print(r.returncode)\n",
		    60000, &o);
		/* warm: the kernel counts shared pages too when it chooses, so it may choose the
		 * parent */
		bool parent = want_warm && o.result.end == ENGINE_END_OOM;
		EXPECT_OF(&o,
			  parent || (o.result.end == ENGINE_END_EXITED && streq(o.out, "-9\n")));
	}
	run_python(c, s, "import os\nos.kill(os.getpid(), 9)\n", 60000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_SIGNALED && o.result.signal == SIGKILL);
	end_sandbox(c, s);
}

static void case_pids(struct client *c)
{
	struct engine_limits l = default_limits;

	l.pids = 20;
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, s != NULL);
	run_python(c, s,
		   "import os, time\nn = 0\n"
		   "try:\n"
		   "    while n < 200:\n"
		   "        if os.fork() == 0: time.sleep(60)\n"
		   "        n += 1\n"
		   "except OSError: pass\n"
		   "print(n)\n",
		   60000, &o);
	EXPECT_OF(&o, o.out_len > 0 && o.out[0] != '0' && strlen(o.out) <= 3 &&
			  strcmp(o.out, "29\n") < 0);
	/* a bomb that never stops: the deadline ends it, and everything of it */
	run_python(c, s, "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n",
		   500 + 4 * start_ms(c, s), &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_TIMEOUT);
	run_python(c, s, "print(1)", 60000, &o);
	EXPECT_OF(&o, streq(o.out, "1\n"));
	end_sandbox(c, s);
}

static void on_changed(const struct err *e, void *user)
{
	struct outcome *out = user;

	if (e)
		out->e = *e;
	out->done = true;
}

static enum err_code change(struct client *c, struct engine_sandbox *s,
			    const struct engine_limits *l)
{
	o = (struct outcome){.fd = -1};
	if (engine_change(s, l, on_changed, &o, &o.e) == 0)
		turn_until(c, &o.done, 20000);
	return o.e.code;
}

/* Starts as many threads as it may, at most 100. */
static int threads_of(struct client *c, struct engine_sandbox *s)
{
	run_python(c, s,
		   "import threading\nstop, n = threading.Event(), 0\n"
		   "try:\n"
		   "    while n < 100: threading.Thread(target=stop.wait).start(); n += 1\n"
		   "except RuntimeError: pass\n"
		   "stop.set(); print(n)\n",
		   60000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_EXITED && o.result.exit_code == 0);
	uint64_t n = 0;
	EXPECT_OF(&o, parse_u64_n(o.out, strcspn(o.out, "\n"), 1, 100, &n) == 0);
	return (int)n;
}

static void case_limits(struct client *c)
{
	static const char large[] = "a = bytearray(200 << 20); print(len(a) >> 20)";
	struct engine_limits l = default_limits;

	l.memory_bytes = UINT64_C(320) << 20;
	l.pids = 20;
	l.pids_most = 200;
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, s != NULL);
	l.memory_bytes = UINT64_C(100) << 20;
	if (!has_cap(c, ENGINE_CAP_MEMORY)) {
		EXPECT_OF(&o, change(c, s, &l) == ERR_LIMIT_NOT_CHANGEABLE);
		end_sandbox(c, s);
		return;
	}
	/* what is in use cannot be taken away, and nobody is killed for it */
	run_python(c, s, "open('/dev/shm/x', 'wb').write(bytes(130 << 20))", 60000, &o);
	EXPECT_OF(&o, o.result.exit_code == 0);
	EXPECT_OF(&o, change(c, s, &l) == ERR_LIMIT_BELOW_USE);
	EXPECT_OF(&o, strstr(o.e.text, "uses 1") || strstr(o.e.text, "uses 2"));
	run_python(c, s,
		   "import os; print(os.stat('/dev/shm/x').st_size >> 20); os.unlink('/dev/shm/x')",
		   60000, &o);
	EXPECT_OF(&o, streq(o.out, "130\n"));
	EXPECT_OF(&o, change(c, s, &l) == ERR_NONE);
	run_python(c, s, large, 60000, &o);
	EXPECT_OF(&o, o.result.exit_code != 0);
	l.memory_bytes = UINT64_C(320) << 20;
	EXPECT_OF(&o, change(c, s, &l) == ERR_NONE);
	run_python(c, s, large, 60000, &o);
	EXPECT_OF(&o, streq(o.out, "200\n"));
	/* a limit that is refused changes none of the others */
	run_python(c, s, "open('/dev/shm/x', 'wb').write(bytes(60 << 20))", 60000, &o);
	EXPECT(threads_of(c, s) < 20);
	l.memory_bytes = UINT64_C(40) << 20;
	l.pids = 150;
	EXPECT_OF(&o, change(c, s, &l) != ERR_NONE);
	EXPECT(threads_of(c, s) < 20);
	l.memory_bytes = UINT64_C(320) << 20;
	EXPECT_OF(&o, change(c, s, &l) == ERR_NONE);
	EXPECT(threads_of(c, s) == 100);
	l.memory_bytes = 1;
	EXPECT_OF(&o, change(c, s, &l) != ERR_NONE);
	end_sandbox(c, s);
}

static void case_disk(struct client *c)
{
	struct engine_limits l = default_limits;

	l.workspace_bytes = 1 << 20;
	l.workspace_inodes = 64;
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, s != NULL);
	run_python(c, s,
		   "import errno\n"
		   "try: open('big', 'wb').write(bytes(2 << 20))\n"
		   "except OSError as e: print(errno.errorcode[e.errno])\n"
		   "import os; os.remove('big')\n"
		   "try:\n"
		   "    for i in range(100): open('f%d' % i, 'w')\n"
		   "except OSError as e: print(errno.errorcode[e.errno])\n",
		   60000, &o);
	EXPECT_OF(&o, streq(o.out, "ENOSPC\nENOSPC\n"));
	usage_of(c, s, &o);
	EXPECT(o.usage.workspace_inodes >= 60 &&
	       o.usage.workspace_inodes <= 64 + 24); /* a disk has whole blocks of inodes */
	if (has_cap(c, ENGINE_CAP_MEMORY))
		EXPECT(o.usage.memory_bytes > 0);
	end_sandbox(c, s);
}

static void case_files(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);
	char text[64] = "";

	EXPECT(put_text(c, s, "a/b/c.txt", "hello", false) == ERR_NONE);
	EXPECT(put_text(c, s, "a/b/c.txt", "again", false) == ERR_FILE_EXISTS);
	EXPECT(put_text(c, s, "a/b/c.txt", "again", true) == ERR_NONE);
	EXPECT(put_text(c, s, "a/b", "folder", true) == ERR_FILE_EXISTS);
	int fd = open_path(c, s, "a/b/c.txt", &o);
	EXPECT_OF(&o, fd >= 0 && read(fd, text, sizeof(text) - 1) == 5 && streq(text, "again"));
	(void)close(fd);
	run_python(
	    c, s,
	    "import os, socket, stat\n"
	    "st = os.stat('a/b/c.txt')\n"
	    "assert st.st_uid == 1000 and stat.S_IMODE(st.st_mode) == 0o644 and st.st_nlink == 1, "
	    "st\n"
	    "os.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'dirlink'); os.mkfifo('fifo')\n"
	    "socket.socket(socket.AF_UNIX).bind('socket')\n"
	    "open('secret', 'w').write('s'); os.chmod('secret', 0o400)\n"
	    "open(b'\\xff\\n', 'w').close()\n"
	    "os.truncate(os.open('sparse', os.O_CREAT | os.O_WRONLY), 1 << 43)\n",
	    60000, &o);
	EXPECT_OF(&o, o.result.exit_code == 0);
	static const char *const bad[] = {"link", "dirlink/passwd", "fifo",       "socket",
					  "a",    "nothing",        "a/b/c.txt/x"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_OF(&o, open_path(c, s, bad[i], &o) < 0 && o.e.code == ERR_NOT_FOUND);
	}
	static const char *const impossible[] = {"",     "/",   "//etc/passwd", "../x", "a/../x",
						 "a//b", "./a", "a/.",          "a/"};
	for (size_t i = 0; i < ARRAY_SIZE(impossible); i++) {
		EXPECT_OF(&o,
			  open_path(c, s, impossible[i], &o) < 0 && o.e.code == ERR_INVALID_PATH);
	}
	fd = open_path(c, s, "secret", &o);
	EXPECT_OF(&o, fd >= 0);
	(void)close(fd);
	list_path(c, s, "", &o);
	EXPECT_OF(&o, o.n_files == 8 && !o.more);
	for (size_t i = 0; i < o.n_files; i++)
		if (streq(o.files[i].name, "sparse"))
			EXPECT(o.files[i].size == UINT64_C(1) << 43 && S_ISREG(o.files[i].mode));
	list_path(c, s, "dirlink", &o);
	EXPECT_OF(&o, o.e.code == ERR_NOT_FOUND);
	EXPECT(remove_path(c, s, "a", false) == ERR_FILE_EXISTS);
	EXPECT(remove_path(c, s, "a", true) == ERR_NONE);
	EXPECT(remove_path(c, s, "a", true) == ERR_NOT_FOUND);
	EXPECT(remove_path(c, s, "link", false) == ERR_NONE);
	end_sandbox(c, s);
}

static void case_many_files(struct client *c)
{
	struct engine_limits l = default_limits;

	l.workspace_inodes = 20000;
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, s != NULL);
	run_python(c, s,
		   "import os\nos.mkdir('d')\nfor i in range(12000): os.close(os.open('d/%d' % i, "
		   "os.O_CREAT))\n",
		   30000, &o);
	EXPECT_OF(&o, o.result.exit_code == 0);
	list_path(c, s, "d", &o);
	EXPECT_OF(&o, o.n_files == ENGINE_FILES_MAX && o.more);
	EXPECT(remove_path(c, s, "d", true) == ERR_NONE);
	list_path(c, s, "", &o);
	EXPECT_OF(&o, o.n_files == 0);
	end_sandbox(c, s);
}

static void case_refusals(struct client *c)
{
	struct engine_limits l = default_limits;

	EXPECT(make_sandbox(c, "no-such-image", &default_limits, &o) == NULL);
	EXPECT_OF(&o, o.e.code == ERR_IMAGE_MISSING);
	EXPECT(make_sandbox(c, "../science", &default_limits, &o) == NULL);
	EXPECT_OF(&o, o.e.code == ERR_INVALID_ARGUMENT);
	l.memory_bytes = 1;
	EXPECT(make_sandbox(c, options.image, &l, &o) == NULL);
	EXPECT_OF(&o, o.e.code == ERR_INVALID_ARGUMENT);
	l = default_limits;
	l.explicit_mask = ENGINE_CAP_MEMORY | ENGINE_CAP_CPU | ENGINE_CAP_PIDS | ENGINE_CAP_DISK;
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);
	if ((engine_caps(c->engine) & l.explicit_mask) == l.explicit_mask) {
		EXPECT_OF(&o, s != NULL && o.policy.enforced & ENGINE_CAP_MEMORY);
		end_sandbox(c, s);
	} else {
		EXPECT_OF(&o, s == NULL && o.e.code == ERR_LIMIT_NOT_ENFORCEABLE);
	}
}

/* No host helper runs for a crash, whatever core_pattern says: see runtime/init/run_child.c. */
static void case_core(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);

	run_python(
	    c, s,
	    "import resource, os, ctypes\n"
	    "for r in ((0, 0), (0, 1)):\n"
	    "    try:\n"
	    "        resource.setrlimit(resource.RLIMIT_CORE, r); raise SystemExit('changed')\n"
	    "    except (ValueError, OSError): pass\n"
	    "ctypes.string_at(0)\n",
	    60000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_SIGNALED && o.result.signal == SIGSEGV);
	list_path(c, s, "", &o);
	EXPECT_OF(&o, o.n_files == 0);
	end_sandbox(c, s);
}

static void case_many(struct client *c)
{
	static struct outcome made[40];
	struct engine_create create = {.limits = default_limits};
	struct err e = ERR_INIT;
	size_t n = ARRAY_SIZE(made);

	EXPECT(text_copy(create.image, sizeof(create.image), options.image) == 0);
	for (size_t i = 0; i < n; i++) {
		made[i].sandbox = make_sandbox(c, options.image, &default_limits, &made[i]);
		EXPECT_OF(&made[i], made[i].sandbox != NULL);
	}
	EXPECT(engine_create(c->engine, &create, NULL, NULL, &e) < 0 && e.code == ERR_MAX_SESSIONS);
	for (size_t i = 0; i < n; i++)
		end_sandbox(c, made[i].sandbox);
}

/* Two sandboxes of one image: neither locks on files of the image nor watches of its folders reach
 * over. */
static void case_apart(struct client *c)
{
	static struct outcome first;
	static const char watch[] =
	    "import ctypes, fcntl, os, select, sys\n"
	    "libc = ctypes.CDLL(None, use_errno=True)\n"
	    "f = open('/etc/hosts'); fcntl.flock(f, fcntl.LOCK_EX)\n"
	    "fd = libc.inotify_init1(os.O_NONBLOCK)\n"
	    "watched = [libc.inotify_add_watch(fd, p.encode(), 0x20) >= 0 for p in "
	    "os.environ['WATCH'].split()]\n"
	    "print(fd >= 0 and all(watched), flush=True)\n"
	    "sys.stdin.read()\n"
	    "print(len(select.select([fd], [], [], 0)[0]) if fd >= 0 else 0)\n";
	struct engine_sandbox *a = sandbox(c);
	struct engine_sandbox *b = sandbox(c);
	/* a plain user's sandboxes share the device nodes of the host (devices.h) */
	const char *const env[] = {
	    options.as ? "WATCH=/usr/bin /etc" : "WATCH=/usr/bin /etc /dev /dev/null", NULL};
	int p[2];
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_PYTHON, .code = watch, .code_len = sizeof(watch) - 1, .env = env};

	EXPECT(pipe2(p, O_CLOEXEC) == 0);
	spec.stdin_fd = p[0];
	EXPECT(start_run(a, &spec, &first) != NULL);
	(void)close(p[0]);
	while (first.out_len < 5)
		EXPECT(sd_event_run(c->loop, 100000) >= 0);
	run_python(
	    c, b,
	    "import fcntl\nf = open('/etc/hosts')\nfcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
	    "open('/usr/bin/env', 'rb').read(1); open('/dev/null', 'rb').read(1)\nprint('ok')\n",
	    60000, &o);
	EXPECT_OF(&o, streq(o.out, "ok\n"));
	(void)close(p[1]);
	turn_until(c, &first.done, 60000);
	EXPECT_OF(&first, first.result.exit_code == 0 && strstr(first.out, "\n0\n"));
	end_sandbox(c, a);
	end_sandbox(c, b);
}

/* One cell: exit status 0 and this result, or the end that is expected. */
static void expect_cell(struct client *c, struct engine_sandbox *s, const char *code,
			const char *value)
{
	run_cell(c, s, code, 10000, &o);
	EXPECT_OF(&o,
		  o.have_result && o.result.end == ENGINE_END_EXITED && o.result.exit_code == 0);
	EXPECT_OF(&o, streq(o.value, value) && !o.result.state_lost);
}

/* Turns the loop for a while. */
static void rest(struct client *c, uint64_t ms)
{
	uint64_t end = now_ns() + ms * NS_PER_MS;

	for (uint64_t now; (now = now_ns()) < end;)
		EXPECT(sd_event_run(c->loop, (end - now) / NS_PER_US) >= 0);
}

/* A sandbox of the pool is one that was made for this request: nothing about it is weaker. */
static void case_pool(struct client *c)
{
	static const char probe[] =
	    "import os, resource\n"
	    "keep = ('Cap', 'Seccomp', 'NoNewPrivs', 'Uid', 'Gid')\n"
	    "print([l for l in open('/proc/self/status') if l.startswith(keep)])\n"
	    "print([(n, resource.getrlimit(getattr(resource, n))) for n in dir(resource) if "
	    "n.startswith('RLIMIT')])\n"
	    "print([tuple(os.statvfs(p))[:6] for p in ('/', '/tmp', '/mnt/data', "
	    "'/home/sandbox')])\n"
	    "print([l.split()[4:6] for l in open('/proc/self/mountinfo')], "
	    "os.listdir('/mnt/data'))\n";
	static char made[TEXT_MAX];
	struct engine_limits l = default_limits;

	if (!options.pool)
		return;
	struct engine_sandbox *first = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, first != NULL);
	struct engine_policy policy = o.policy;
	run_python(c, first, probe, 10000, &o);
	EXPECT_OF(&o, o.result.exit_code == 0 && text_copy(made, sizeof(made), o.out) == 0);
	rest(c, 500);
	uint64_t start = now_ns();
	struct engine_sandbox *second = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, second != NULL && now_ns() - start < NS_PER_MS);
	EXPECT(o.policy.enforced == policy.enforced && o.policy.best_effort == policy.best_effort);
	EXPECT(memcmp(&o.policy.limits, &policy.limits, sizeof(l)) == 0);
	run_python(c, second, probe, 10000, &o);
	EXPECT_OF(&o, o.result.exit_code == 0 && streq(o.out, made));
	end_sandbox(c, first);
	/* another request: what is there does not answer it */
	l.pids -= 1;
	first = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, first != NULL && o.policy.limits.pids == l.pids);
	end_sandbox(c, first);
	end_sandbox(c, second);
}

static void case_state(struct client *c)
{
	static const struct {
		const char *code;
		enum engine_end end;
		int exit_code;
		bool kept; /* by itself, after an interrupt */
	} ends[] = {
	    {"x = 99; import os; os._exit(5)", ENGINE_END_EXITED, 5},
	    {"x = 99; import os; os._exit(0)", ENGINE_END_EXITED, 0},
	    {"x = 99; import os; os.abort()", ENGINE_END_SIGNALED, 134},
	    {"x = 99; import time; time.sleep(60)", ENGINE_END_TIMEOUT, 1, true},
	    {"x = 99; import os, time\nos.closerange(3, 1000); time.sleep(60)", ENGINE_END_TIMEOUT,
	     1, true},
	    {"x = 99; import ctypes, time\nctypes.CDLL(None).syscall(436, 3, 1000, 0); "
	     "time.sleep(60)",
	     ENGINE_END_TIMEOUT, 1},
	    {"x = 99; import signal, time\nsignal.signal(2, signal.SIG_IGN); time.sleep(60)",
	     ENGINE_END_TIMEOUT, 137},
	    {"x = 99; a = [bytearray(1 << 20) for i in range(9000)]", ENGINE_END_OOM, 137},
	};
	struct engine_limits l = default_limits;

	if (!want_warm)
		return;
	l.memory_bytes = UINT64_C(256) << 20;
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);
	EXPECT_OF(&o, s != NULL);
	expect_cell(c, s, "x = 41\ndef f(): return x + 1", "");
	expect_cell(c, s, "f()", "42");
	expect_cell(c, s, "x += 1; import os; os.chdir('/tmp')", "");
	expect_cell(c, s, "(x, os.getcwd(), _)", "(42, '/tmp', 42)");
	expect_cell(c, s, "print('seen'); 'text'", "'text'");
	EXPECT_OF(&o, streq(o.out, "seen\n"));
	expect_cell(c, s, "f();", "");
	run_cell(c, s, "y = 7\n1/0", 10000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_EXITED && o.result.exit_code == 1);
	EXPECT_OF(&o, strstr(o.err, "1/0") && strstr(o.err, "ZeroDivisionError") &&
			  !strstr(o.err, "exec("));
	expect_cell(c, s, "y", "7");
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		run_cell(c, s, ends[i].code, 1000, &o);
		EXPECT_OF(&o, o.have_result && o.result.end == ends[i].end);
		EXPECT_OF(&o, o.result.exit_code == ends[i].exit_code && !o.result.state_lost);
		EXPECT_OF(&o, o.result.state_kept == ends[i].kept);
		expect_cell(c, s, "x", ends[i].kept ? "99" : "42");
		expect_cell(c, s, "x = 42", "");
	}
	run_python(c, s, "print('x' in globals())", 10000, &o); /* a stateless run beside it */
	EXPECT_OF(&o, streq(o.out, "False\n"));
	run_cell(c, s,
		 "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()",
		 10000, &o);
	EXPECT_OF(&o, o.result.end == ENGINE_END_EXITED && o.result.left.rests);
	expect_cell(c, s, "import subprocess; p = subprocess.Popen(['sleep', '60']); x", "42");
	expect_cell(c, s, "p.poll() is None", "True");
	/* on purpose: everybody else in the sandbox, so the backup where the kernel lets it; no
	 * hang, no lie */
	run_cell(c, s, "x = 99\nimport os\ntry: os.kill(-1, 9)\nexcept OSError: pass\nos._exit(0)",
		 10000, &o);
	bool lost = o.result.state_lost;
	run_cell(c, s, "x", 40000, &o);
	lost |= o.result.state_lost; /* it may still have been dying when its killer ended: then
					this run says so */
	EXPECT_OF(&o, lost ? o.result.exit_code == 1 && strstr(o.err, "NameError")
			   : streq(o.value, "42"));
	run_cell(c, s, "1 + 1", 10000, &o);
	EXPECT_OF(&o, streq(o.value, "2"));
	end_sandbox(c, s);
}

/* A hostile cell finds its channel to init and says itself that it is done, so that it becomes the
 * holder with its own code still in it. That is the same sandbox's loss alone, but nothing of it
 * may run on between runs for long, and the session must go on. */
static void case_forged(struct client *c)
{
	static const char forge[] =
	    "import os, socket, struct, time\n"
	    "fd = [int(f) for f in os.listdir('/proc/self/fd') if 'socket:' in "
	    "os.path.realpath('/proc/self/fd/' + f)][0]\n"
	    "s = socket.socket(fileno=fd)\n"
	    "def tick():\n"
	    "    with open('/mnt/data/ticks', 'ab', 0) as f:\n"
	    "        while True: f.write(b'.'); time.sleep(0.005)\n"
	    "%s"
	    "s.send(struct.pack('<IiiIQQ', 9, 0, 0, 0, 0, 0))\n"
	    "%s"
	    "tick()\n";
	static const struct {
		const char *before, *after;
	} kinds[] = {
	    {"", ""},
	    /* answers the question for a fork by hand: a child of init's that goes on by itself,
	     * and another that nobody asked for */
	    {"", "m, a, f, w = socket.recv_fds(s, 4096, 16)\n"
		 "n = socket.socket(fileno=a[0])\n"
		 "if os.fork() == 0:\n"
		 "    if os.fork() > 0: os._exit(0)\n"
		 "    if os.fork() == 0: tick()\n"
		 "    socket.send_fds(n, [struct.pack('<Ii', 6, 0)], [0])\n"
		 "    tick()\n"},
	};
	char code[2048];

	if (!want_warm)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct engine_sandbox *s = sandbox(c);
		size_t size[2] = {0};
		(void)snprintf(code, sizeof(code), forge, kinds[i].before, kinds[i].after);
		expect_cell(c, s, "x = 42; x", "42");
		run_cell(c, s, code, 5000, &o);
		EXPECT_OF(&o, o.have_result);
		for (size_t k = 0; k < ARRAY_SIZE(size); k++) {
			uint64_t until = now_ns() + (k == 0 ? FORGED_WAIT_NS : NS_PER_S / 2);
			while (now_ns() < until)
				EXPECT(sd_event_run(c->loop, 100000) >= 0);
			list_path(c, s, "", &o);
			for (size_t f = 0; f < o.n_files; f++)
				if (streq(o.files[f].name, "ticks"))
					size[k] = (size_t)o.files[f].size;
		}
		(void)printf("# forged %zu: %zu ticks, then %zu\n", i, size[0], size[1]);
		EXPECT(size[0] == size[1]);
		run_cell(c, s, "1 + 1", 40000, &o);
		run_cell(c, s, "1 + 1", 40000, &o);
		EXPECT_OF(&o, streq(o.value, "2"));
		end_sandbox(c, s);
	}
}

static const struct {
	const char *name;
	void (*fn)(struct client *c);
} cases[] = {
    {"hello", case_hello},       {"inside", case_inside}, {"commands", case_commands},
    {"timeout", case_timeout},   {"ends", case_ends},     {"init_is_safe", case_init_is_safe},
    {"output", case_output},     {"memory", case_memory}, {"pids", case_pids},
    {"disk", case_disk},         {"files", case_files},   {"many_files", case_many_files},
    {"refusals", case_refusals}, {"state", case_state},   {"pool", case_pool},
    {"forged", case_forged},     {"core", case_core},     {"many", case_many},
    {"apart", case_apart},       {"limits", case_limits},
};

/* ---- measuring ---- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(const char *what, uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	(void)printf("# %-28s best %8.3f ms   p50 %8.3f ms   p99 %8.3f ms   (n=%zu)\n", what,
		     (double)v[0] / 1e6, (double)v[n / 2] / 1e6,
		     (double)v[MIN(n - 1, n * 99 / 100)] / 1e6, n);
}

static void bench(struct client *c, size_t n)
{
	enum { CREATE, FIRST, END, AGAIN, AGAIN_END, DESTROY, KINDS };
	static const char *const names[KINDS] = {"create",          "print(1) to first byte",
						 "print(1) to end", "again, to first byte",
						 "again, to end",   "destroy"};
	uint64_t *v[KINDS];

	for (size_t k = 0; k < KINDS; k++)
		EXPECT((v[k] = calloc(n, sizeof(uint64_t))) != NULL);
	end_sandbox(c, sandbox(c)); /* makes the template */
	for (size_t i = 0; i < n; i++) {
		uint64_t t0 = now_ns();
		struct engine_sandbox *s = sandbox(c);
		uint64_t t1 = now_ns();
		run_python(c, s, "print(1)", 60000, &o);
		uint64_t t2 = now_ns();
		EXPECT_OF(&o, o.first_ns > 0);
		v[FIRST][i] = o.first_ns - t1;
		(void)usleep(BENCH_PAUSE_US); /* somebody reads the result */
		uint64_t t3 = now_ns();
		run_python(c, s, "print(1)", 10000, &o);
		v[AGAIN][i] = o.first_ns - t3;
		v[AGAIN_END][i] = now_ns() - t3;
		uint64_t t4 = now_ns();
		end_sandbox(c, s);
		v[DESTROY][i] = now_ns() - t4;
		if (options.pool) /* until the pool is full again */
			rest(c, BENCH_FILL_MS);
		v[CREATE][i] = t1 - t0;
		v[END][i] = t2 - t1;
	}
	for (size_t k = 0; k < KINDS; k++) {
		report(names[k], v[k], n);
		free(v[k]);
	}
}

/* One run by hand, twice in one sandbox: the second shows what the first did to it. */
static void try_code(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);

	for (int i = 0; i < 2; i++) {
		run_python(c, s, options.code, 30000, &o);
		(void)printf("%s%s# end %d exit %d signal %d killed %u peak %llu: %s\n", o.out,
			     o.err, (int)o.result.end, o.result.exit_code, o.result.signal,
			     o.result.killed, (unsigned long long)o.result.peak_bytes, o.e.text);
	}
	end_sandbox(c, s);
}

static uint64_t status_kb(const char *path, const char *key)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	char line[256];
	uint64_t kb = 0;

	while (f && fgets(line, sizeof(line), f)) {
		const char *at = line + strcspn(line, "0123456789");
		if (text_starts_with(line, key) &&
		    parse_u64_n(at, strcspn(at, " "), 0, UINT64_MAX, &kb) == 0)
			break;
	}
	return kb;
}

/* N sandboxes at once: what one costs must not depend on how many there are. */
static void scale(struct client *c)
{
	size_t n = options.scale;
	struct engine_sandbox **s = calloc(n, sizeof(*s));
	uint64_t *v = calloc(n, sizeof(*v));
	char path[64];
	size_t part = n < 100 ? n : 100;

	EXPECT(s && v);
	uint64_t before = status_kb("/proc/meminfo", "MemAvailable:");
	for (size_t i = 0; i < n; i++) {
		uint64_t t = now_ns();
		s[i] = sandbox(c);
		v[i] = now_ns() - t;
	}
	uint64_t after = status_kb("/proc/meminfo", "MemAvailable:");
	(void)snprintf(path, sizeof(path), "/proc/%d/status",
		       outside_child(getpid(), "caisson-mon"));
	(void)printf("# memory of the machine %llu KiB each; front %llu KiB and %zu descriptors, "
		     "monitor %llu KiB\n",
		     (unsigned long long)(before > after ? (before - after) / n : 0),
		     (unsigned long long)status_kb("/proc/self/status", "VmRSS:"), count_fds(),
		     (unsigned long long)status_kb(path, "VmRSS:"));
	report("create, the first", v, part);
	report("create, the last", v + n - part, part);
	for (size_t i = 0; i < part; i++) {
		uint64_t t = now_ns();
		run_python(c, s[n - 1 - i], "print(1)", 0, &o);
		v[i] = now_ns() - t;
	}
	report("print(1) among them", v, part);
	for (size_t i = 0; i < n; i++) {
		uint64_t t = now_ns();
		end_sandbox(c, s[i]);
		v[i] = now_ns() - t;
	}
	report("destroy", v, n);
	free(s);
	free(v);
}

static void on_lost(struct engine_sandbox *s UNUSED, const char *why, void *user)
{
	struct outcome *run = user;

	(void)printf("lost: run %s, %s\n",
		     run->done && run->result.end == ENGINE_END_LOST ? "lost" : "?", why);
	(void)fflush(stdout);
}

static void hold(struct client *c)
{
	static struct outcome runs[16];
	static const char code[] = "import os, time\nfor i in range(2): os.fork()\nprint(1, "
				   "flush=True)\ntime.sleep(1000)\n";
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_PYTHON, .code = code, .code_len = sizeof(code) - 1, .stdin_fd = -1};

	for (uint64_t i = 0; i < options.hold; i++) {
		struct engine_sandbox *s = sandbox(c);
		engine_on_lost(s, on_lost, &runs[i]);
		EXPECT(start_run(s, &spec, &runs[i]) != NULL);
		while (runs[i].out_len < 8)
			EXPECT(sd_event_run(c->loop, 100000) >= 0);
	}
	(void)printf("holding %s\n", own_groups);
	(void)fflush(stdout);
	for (;;)
		EXPECT(sd_event_run(c->loop, UINT64_MAX) >= 0);
}

/* ---- main ---- */

static void parse_options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *value = argv[i + 1];
		if (streq(argv[i], "--state-dir"))
			options.state_dir = value;
		else if (streq(argv[i], "--image"))
			options.image = value;
		else if (streq(argv[i], "--only"))
			options.only = value;
		else if (streq(argv[i], "--code"))
			options.code = value;
		else if (streq(argv[i], "--scale"))
			EXPECT(parse_u64(value, 1, 10000, &options.scale) == 0);
		else if (streq(argv[i], "--hold"))
			EXPECT(parse_u64(value, 1, 16, &options.hold) == 0);
		else if (streq(argv[i], "--as"))
			EXPECT(parse_u64(value, 1, 65533, &options.as) == 0);
		else if (streq(argv[i], "--pool"))
			EXPECT(parse_u64(value, 0, 16, &options.pool) == 0);
		else if (streq(argv[i], "--warm"))
			EXPECT(parse_u64(value, 0, 1, &options.warm) == 0);
		else if (streq(argv[i], "--bench"))
			EXPECT(parse_u64(value, 1, 100000, &options.bench) == 0);
		else
			EXPECT(!"option");
	}
}

/* Until the image's zygote answers: a new sandbox's first run is then a warm one. */
static void warm_up(struct client *c)
{
	uint64_t end = now_ns() + WARM_UP_NS;

	want_warm = true;
	do {
		struct engine_sandbox *s = sandbox(c);
		run_python(c, s, "import time; time.sleep(0.2)", 60000, &o);
		end_sandbox(c, s);
		EXPECT_OF(&o, now_ns() < end);
	} while (!o.result.warm);
}

static void open_client(struct client *c)
{
	uint32_t max = options.scale ? (uint32_t)options.scale : 40;
	const struct engine_config config = {
	    .state_dir = options.state_dir,
	    .max_sandboxes = max,
	    .warm = options.warm,
	    .pool = (uint32_t)options.pool,
	};
	struct err e = ERR_INIT;
	uid_t uid;
	gid_t gid;

	int r = engine_begin("native", &config, &c->engine, &e);
	r = r < 0 ? r : engine_front_ids(c->engine, &uid, &gid, &e);
	r = r < 0 ? r : privileges_drop(uid, gid, &e);
	if (r == 0 && sd_event_new(&c->loop) < 0)
		r = -ENOMEM;
	r = r < 0 ? r : engine_open(c->engine, c->loop, &e);
	o.e = e;
	EXPECT_OF(&o, r == 0);
}

int main(int argc, char **argv)
{
	struct client c = {0};
	int number = 0;

	if (argc > 1 && streq(argv[1], "monitor"))
		return cmd_monitor(argc - 1, argv + 1);
	options.state_dir = test_state_dir();
	parse_options(argc, argv);
	if (!begin_tests(options.state_dir, options.image, options.as))
		return 0;
	outside_groups_before();
	open_client(&c);
	outside_groups_after(own_groups);
	if (options.hold)
		hold(&c);
	if (options.warm)
		warm_up(&c);
	if (options.bench || options.code || options.scale) {
		if (options.scale)
			scale(&c);
		else if (options.bench)
			bench(&c, options.bench);
		else
			try_code(&c);
		engine_close(c.engine);
		return 0;
	}
	case_hello(&c); /* the loop makes its timer when it needs the first */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (options.only && !streq(options.only, cases[i].name))
			continue;
		struct counts before = count();
		cases[i].fn(&c);
		struct counts after = options.pool ? count() : count_again(&before);
		(void)printf(
		    "# processes %zu->%zu groups %zu->%zu mounts %zu->%zu descriptors %zu->%zu\n",
		    before.processes, after.processes, before.groups, after.groups, before.mounts,
		    after.mounts, before.fds, after.fds);
		EXPECT(options.pool || is_calm(&after, &before));
		(void)printf("ok %d - %s\n", ++number, cases[i].name);
		(void)fflush(stdout);
	}
	uint64_t start = now_ns();
	engine_close(c.engine);
	EXPECT(now_ns() - start < 2 * NS_PER_S);
	(void)sd_event_unref(c.loop);
	(void)printf("ok %d - close\n1..%d\n", number + 1, number + 1);
	return 0;
}
