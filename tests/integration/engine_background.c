/* SPDX-License-Identifier: Apache-2.0 */
/* Background processes of the native engine, through engine.h.
 *
 *   engine_background [--as UID] [--state-dir DIR] [--image NAME] [--only CASE] [--warm]
 *
 * TAP on stdout. As UID: gives up root first and so tests what a plain user gets. */
#include "engine_client.h"
#include "state_dir.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "walls/privileges.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 60000
#define MOST    32         /* PROTO_BACKGROUND_MAX */
#define MARK    "31415926" /* in the arguments of processes that are counted */

static struct options {
	const char *state_dir;
	const char *image;
	const char *only;
	uint64_t as;
	bool warm;
} options = {.image = "science"};

static struct outcome o;       /* of the run at hand */
static struct outcome b[MOST]; /* of background processes */

static struct engine_sandbox *need(struct client *c)
{
	struct engine_limits l = default_limits;
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);

	EXPECT_OF(&o, s != NULL);
	return s;
}

static struct engine_run *begin(struct engine_sandbox *s, const char *const *argv,
				uint64_t timeout_ms, int stdin_fd, struct outcome *ret)
{
	struct engine_run_spec spec = {.kind = ENGINE_RUN_BACKGROUND,
				       .argv = argv,
				       .stdin_fd = stdin_fd,
				       .timeout_ns = timeout_ms * NS_PER_MS,
				       .grace_ns = 200 * NS_PER_MS};

	*ret = (struct outcome){0};
	return start_run(s, &spec, ret);
}

static struct engine_run *shell(struct engine_sandbox *s, const char *command, struct outcome *ret)
{
	const char *const argv[] = {"sh", "-c", command, NULL};

	return begin(s, argv, 0, -1, ret);
}

static struct engine_run *python_process(struct engine_sandbox *s, const char *code,
					 struct outcome *ret)
{
	const char *const argv[] = {"python3", "-u", "-c", code, MARK, NULL};

	return begin(s, argv, 0, -1, ret);
}

static void until_it_says(struct client *c, const struct outcome *p, const char *text)
{
	const uint64_t end = now_ns() + WAIT_MS * NS_PER_MS;

	while (!strstr(p->out, text))
		EXPECT_OF(p, !p->done && now_ns() < end && sd_event_run(c->loop, 10000) >= 0);
}

static void until_done(struct client *c, struct outcome *p)
{
	turn_until(c, &p->done, WAIT_MS);
	EXPECT_OF(p, p->have_result);
}

static void run_says(struct client *c, struct engine_sandbox *s, const char *command,
		     const char *out)
{
	const char *const argv[] = {"sh", "-c", command, NULL};

	run_argv(c, s, argv, &o);
	EXPECT_OF(&o, o.have_result && streq(o.out, out));
}

/* A run does not see the processes of others, so they are counted from outside: those with MARK among their arguments that
 * are called NAME. */
static size_t count(const char *name)
{
	DIR *all = opendir("/proc");
	const struct dirent *de;
	char path[300];
	char text[4096];
	size_t n = 0;

	EXPECT(all != NULL);
	while ((de = readdir(all))) {
		(void)snprintf(path, sizeof(path), "/proc/%s/cmdline", de->d_name);
		FILE *f = *de->d_name >= '1' && *de->d_name <= '9' ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		const size_t len = fread(text, 1, sizeof(text) - 1, f);
		(void)fclose(f);
		text[len] = '\0';
		n += streq(text, name) && memmem(text, len, MARK, sizeof(MARK) - 1);
	}
	(void)closedir(all);
	return n;
}

/* Ends that nobody tells about take a moment. */
static void until_count(struct client *c, const char *name, size_t n)
{
	const uint64_t end = now_ns() + WAIT_MS * NS_PER_MS;

	while (count(name) != n)
		EXPECT(now_ns() < end && sd_event_run(c->loop, 10000) >= 0);
}

static void kill_it(struct client *c, struct engine_run *r, struct outcome *p)
{
	EXPECT(engine_signal(r, SIGKILL) == 0);
	until_done(c, p);
	EXPECT_OF(p, p->result.end == ENGINE_END_KILLED);
}

/* ---- cases ---- */

static void case_beside(struct client *c)
{
	struct engine_sandbox *s = need(c);
	struct engine_run *r = shell(
	    s, "echo on; while [ ! -e stop ]; do sleep .01; done; echo off; echo oh >&2; exit 3",
	    &b[0]);

	until_it_says(c, &b[0], "on\n");
	run_says(c, s, "echo run; sleep " MARK " & setsid sleep " MARK " &", "run\n");
	EXPECT(count("sleep") == 0);
	EXPECT_OF(&b[0], !b[0].done && r);
	run_says(c, s, "touch stop", "");
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], b[0].result.end == ENGINE_END_EXITED && b[0].result.exit_code == 3 &&
			     streq(b[0].out, "on\noff\n") && streq(b[0].err, "oh\n") &&
			     b[0].result.duration_ns > 0);
	end_sandbox(c, s);
}

static void case_signals(struct client *c)
{
	struct engine_sandbox *s = need(c);
	struct engine_run *r = shell(s,
				     "trap 'echo hup' HUP; trap 'echo term; exit 5' TERM; echo on; "
				     "while :; do sleep .01; done",
				     &b[0]);

	until_it_says(c, &b[0], "on\n");
	EXPECT(engine_signal(r, 0) < 0 && engine_signal(r, 64) < 0);
	EXPECT(engine_signal(r, SIGHUP) == 0);
	until_it_says(c, &b[0], "hup\n");
	EXPECT(engine_signal(r, SIGTERM) == 0);
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], b[0].result.end == ENGINE_END_EXITED && b[0].result.exit_code == 5);
	/* a signal that comes before the program has begun */
	r = shell(s, "sleep 300", &b[0]);
	EXPECT(engine_signal(r, SIGTERM) == 0);
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], b[0].result.end == ENGINE_END_SIGNALED && b[0].result.signal == SIGTERM);
	r = shell(s, "trap '' TERM INT HUP; echo on; while :; do sleep .01; done", &b[0]);
	until_it_says(c, &b[0], "on\n");
	kill_it(c, r, &b[0]);
	end_sandbox(c, s);
}

static void case_deadline(struct client *c)
{
	static const char *const gentle[] = {
	    "sh", "-c", "trap 'echo bye; exit 0' TERM; while :; do sleep .01; done", NULL};
	static const char *const deaf[] = {"sh", "-c", "trap '' TERM; while :; do sleep .01; done",
					   NULL};
	struct engine_sandbox *s = need(c);

	(void)begin(s, gentle, 500, -1, &b[0]);
	(void)begin(s, deaf, 500, -1, &b[1]);
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], b[0].result.end == ENGINE_END_TIMEOUT && streq(b[0].out, "bye\n"));
	until_done(c, &b[1]);
	EXPECT_OF(&b[1], b[1].result.end == ENGINE_END_TIMEOUT && b[1].result.signal == SIGKILL);
	end_sandbox(c, s);
}

static void case_input(struct client *c)
{
	static const char *const cat[] = {"cat", NULL};
	struct engine_sandbox *s = need(c);
	int p[2];

	EXPECT(pipe(p) == 0);
	(void)begin(s, cat, 0, p[0], &b[0]);
	(void)close(p[0]);
	EXPECT(write(p[1], "one\n", 4) == 4);
	until_it_says(c, &b[0], "one\n");
	EXPECT(write(p[1], "two\n", 4) == 4);
	until_it_says(c, &b[0], "two\n");
	(void)close(p[1]);
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], b[0].result.exit_code == 0 && b[0].result.end == ENGINE_END_EXITED);
	end_sandbox(c, s);
}

/* Whatever it does to leave its family: all of it ends with its first process, and before that no end of a run takes it. */
static void case_daemons(struct client *c)
{
	static const char daemons[] = "import os, sys, time\n"
				      "for i in range(3):\n"
				      "    if os.fork() == 0:\n"
				      "        os.setsid()\n"
				      "        if os.fork(): os._exit(0)\n"
				      "        if os.fork() == 0: time.sleep(3000)\n"
				      "        time.sleep(3000)\n"
				      "print('on')\n"
				      "while not os.path.exists('stop'): time.sleep(.01)\n";
	struct engine_sandbox *s = need(c);
	(void)python_process(s, daemons, &b[0]);

	until_it_says(c, &b[0], "on\n");
	until_count(c, "python3", 7);
	run_says(c, s, "setsid sh -c 'setsid sleep " MARK " & exit' & sleep .1", "");
	EXPECT(count("python3") == 7 && count("sleep") == 0);
	run_says(c, s, "touch stop", "");
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], b[0].result.exit_code == 0 && b[0].result.killed >= 6);
	EXPECT(count("python3") == 0);
	end_sandbox(c, s);
}

static void case_many(struct client *c)
{
	struct engine_sandbox *s = need(c);
	struct engine_run *r[MOST];
	struct outcome more = {0};

	for (size_t i = 0; i < MOST; i++)
		r[i] = shell(s, "echo on; exec sleep " MARK, &b[i]);
	for (size_t i = 0; i < MOST; i++)
		until_it_says(c, &b[i], "on\n");
	(void)shell(s, "true", &more);
	turn_until(c, &more.done, WAIT_MS);
	EXPECT_OF(&more, !more.have_result && more.e.code == ERR_BUDGET_EXCEEDED);
	kill_it(c, r[7], &b[7]);
	r[7] = shell(s, "echo on; exec sleep " MARK, &b[7]);
	until_it_says(c, &b[7], "on\n");
	until_count(c, "sleep", MOST);
	for (size_t i = 0; i < MOST; i += 2)
		kill_it(c, r[i], &b[i]);
	run_says(c, s, "echo on", "on\n");
	EXPECT(count("sleep") == MOST / 2);
	end_sandbox(c, s); /* with the others */
	for (size_t i = 1; i < MOST; i += 2)
		EXPECT_OF(&b[i], b[i].done && b[i].result.end == ENGINE_END_KILLED);
}

/* What a session has started rests between its cells; a background process does not. */
static void case_session(struct client *c)
{
	struct engine_sandbox *s = need(c);

	if (!options.warm) {
		end_sandbox(c, s);
		return;
	}
	(void)shell(s, "n=0; while :; do n=$((n+1)); echo $n; sleep .01; done", &b[0]);
	run_cell(c, s, "import subprocess\nx = 1; child = subprocess.Popen(['sleep', '" MARK "'])",
		 0, &o);
	EXPECT_OF(&o, o.have_result && o.result.state_kept);
	const size_t before = b[0].out_len;
	while (b[0].out_len < before + 60)
		EXPECT(sd_event_run(c->loop, 1000000) >= 0);
	run_cell(c, s, "x += 1; child.poll(), x", 0, &o);
	EXPECT_OF(&o, streq(o.value, "(None, 2)"));
	EXPECT(count("sleep") == 1);
	run_cell(c, s, "import os; os.abort()", 0, &o);
	run_cell(c, s, "x", 0, &o);
	EXPECT_OF(&o, streq(o.value, "2") && !b[0].done);
	const size_t after = b[0].out_len;
	while (b[0].out_len < after + 60)
		EXPECT(sd_event_run(c->loop, 1000000) >= 0);
	end_sandbox(c, s);
	EXPECT_OF(&b[0], b[0].done);
}

/* Landlock refuses that the program kills the process that keeps it together. Where it cannot, that is the program's end. */
static void case_reaper(struct client *c)
{
	struct engine_sandbox *s = need(c);
	struct engine_run *other = shell(s, "echo on; exec sleep " MARK, &b[1]);
	struct engine_run *r = shell(s,
				     "setsid sleep " MARK " & sleep " MARK
				     " & kill -9 $PPID || echo refused; exec sleep " MARK,
				     &b[0]);

	until_it_says(c, &b[1], "on\n");
	while (!b[0].done && !strstr(b[0].out, "refused\n"))
		EXPECT(sd_event_run(c->loop, 10000) >= 0);
	if (b[0].done)
		EXPECT_OF(&b[0],
			  b[0].result.end == ENGINE_END_SIGNALED && b[0].result.signal == SIGKILL);
	else
		kill_it(c, r, &b[0]);
	run_says(c, s, "true", "");
	EXPECT(count("sleep") == 1 && !b[1].done);
	kill_it(c, other, &b[1]);
	EXPECT(count("sleep") == 0);
	end_sandbox(c, s);
}

static void case_bomb(struct client *c)
{
	struct engine_sandbox *s = need(c);
	struct engine_run *r = shell(s, "echo on; b() { b | b & }; b; sleep 3000; : " MARK, &b[0]);

	until_it_says(c, &b[0], "on\n");
	EXPECT(engine_signal(r, SIGKILL) == 0);
	until_done(c, &b[0]); /* a shell that cannot fork any more ends by itself */
	EXPECT(count("sh") == 0);
	/* A run that is one ends beside a background process, too. */
	r = shell(s, "echo on; exec sleep " MARK, &b[0]);
	until_count(c, "sleep", 1);
	run_says(c, s, "echo 1; b() { b | b & }; b; : " MARK, "1\n");
	EXPECT(count("sh") == 0 && count("sleep") == 1);
	kill_it(c, r, &b[0]);
	end_sandbox(c, s);
}

static void case_memory(struct client *c)
{
	struct engine_sandbox *s = need(c);

	(void)python_process(s, "b = []\nwhile True: b.append(bytearray(20_000_000))", &b[0]);
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], b[0].result.end == ENGINE_END_OOM || b[0].result.exit_code == 1);
	run_says(c, s, "echo on", "on\n");
	end_sandbox(c, s);
}

static void case_refused(struct client *c)
{
	static const char *const none[] = {"no-such-program", NULL};
	struct engine_sandbox *s = need(c);

	(void)begin(s, none, 0, -1, &b[0]);
	turn_until(c, &b[0].done, WAIT_MS);
	EXPECT_OF(&b[0], !b[0].have_result && b[0].e.code == ERR_NOT_FOUND);
	run_says(c, s, "echo on", "on\n");
	end_sandbox(c, s);
}

static struct engine_run *terminal(struct engine_sandbox *s, const char *command, int *ret_input,
				   struct outcome *ret)
{
	const char *const argv[] = {"sh", "-c", command, NULL};
	struct engine_run_spec spec = {
	    .kind = ENGINE_RUN_BACKGROUND, .argv = argv, .rows = 24, .columns = 80};
	int pipes[2];

	EXPECT(pipe2(pipes, O_CLOEXEC) == 0);
	*ret = (struct outcome){0};
	spec.stdin_fd = pipes[0];
	struct engine_run *r = start_run(s, &spec, ret);
	(void)close(pipes[0]);
	*ret_input = pipes[1];
	return r;
}

static void type(int fd, const char *text)
{
	EXPECT_OF(&b[0], write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void case_terminal(struct client *c)
{
	struct engine_sandbox *s = need(c);
	int input, other;
	/* a shell's read ends at a signal that it has a trap for, Python's goes on */
	struct engine_run *r =
	    terminal(s,
		     "exec python3 -uc \"import os, signal, sys\n"
		     "def size(*_): print('%d %d' % os.get_terminal_size()[::-1])\n"
		     "print(os.ttyname(0)); size(); signal.signal(signal.SIGWINCH, size)\n"
		     "open('/dev/tty', 'w').write('on\\n')\n"
		     "for line in sys.stdin: print('<' + line.strip() + '>')\n"
		     "sys.exit(sys.stderr.write('end\\n') and 3)\"",
		     &input, &b[0]);

	until_it_says(c, &b[0], "on\r\n");
	EXPECT_OF(&b[0], strstr(b[0].out, "/dev/pts/") == b[0].out);
	EXPECT_OF(&b[0], strstr(b[0].out, "\r\n24 80\r\n"));
	type(input, "hello\n");
	until_it_says(c, &b[0], "hello\r\n<hello>\r\n");
	EXPECT(engine_resize(r, 50, 100) == 0);
	type(input, "more\n");
	until_it_says(c, &b[0], "50 100\r\n");
	until_it_says(c, &b[0], "<more>");
	type(input, "\4"); /* ^D */
	until_done(c, &b[0]);
	EXPECT_OF(&b[0],
		  b[0].result.exit_code == 3 && strstr(b[0].out, "end\r\n") && !b[0].err_len);
	(void)close(input);
	/* ^C is for the group in the foreground; what is left ends with the first process, in groups of its own too */
	(void)terminal(s,
		       "trap 'echo int' INT; echo on; sleep " MARK "; set -m; sleep " MARK
		       " & setsid sleep " MARK " & echo two; read -r x",
		       &input, &b[0]);
	until_it_says(c, &b[0], "on\r\n");
	until_count(c, "sleep", 1);
	type(input, "\3");
	until_it_says(c, &b[0], "int\r\n");
	until_it_says(c, &b[0], "two\r\n");
	until_count(c, "sleep", 2);
	/* another one beside it, which prints more than a pipe holds and ends at once: nothing of it is lost */
	(void)terminal(s, "seq 10000", &other, &b[1]);
	until_done(c, &b[1]);
	EXPECT_OF(&b[1], b[1].out_len == 58894 && strstr(b[1].out, "\r\n10000\r\n"));
	(void)close(other);
	type(input, "\n");
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], b[0].result.exit_code == 0 && b[0].result.killed >= 2);
	EXPECT(count("sleep") == 0);
	(void)close(input);
	run_says(c, s, "echo on", "on\n");
	end_sandbox(c, s);
}

/* What a hostile program may do with its terminal. */
static void case_terminal_abused(struct client *c)
{
	struct engine_sandbox *s = need(c);
	int input;
	/* a program that gives up all of it goes on, and nobody is woken */
	struct engine_run *r = terminal(
	    s, "echo on; exec </dev/null >/dev/null 2>&1; exec sleep " MARK, &input, &b[0]);

	until_count(c, "sleep", 1);
	until_it_says(c, &b[0], "on\r\n");
	type(input, "to nobody\n");
	EXPECT(engine_resize(r, 1, 1000) == 0);
	kill_it(c, r, &b[0]);
	EXPECT(count("sleep") == 0);
	(void)close(input);
	/* the relay is killed, where that is possible */
	r = terminal(s, "kill -9 $PPID || echo refused; exec sleep " MARK, &input, &b[0]);
	while (!b[0].done && !strstr(b[0].out, "refused\r\n"))
		EXPECT(sd_event_run(c->loop, 10000) >= 0);
	if (!b[0].done)
		kill_it(c, r, &b[0]);
	(void)close(input);
	/* somebody else has all terminals that there are */
	r = python_process(s,
			   "import os, time\nl = []\ntry:\n    while True: l.append(os.openpty())\n"
			   "except OSError: print('all', flush=True)\ntime.sleep(3000)",
			   &b[1]);
	until_it_says(c, &b[1], "all\n");
	(void)terminal(s, "echo on", &input, &b[0]);
	turn_until(c, &b[0].done, WAIT_MS);
	EXPECT_OF(&b[0], !b[0].have_result && b[0].e.code == ERR_BUDGET_EXCEEDED);
	(void)close(input);
	kill_it(c, r, &b[1]);
	(void)terminal(s, "echo on", &input, &b[0]);
	until_done(c, &b[0]);
	EXPECT_OF(&b[0], streq(b[0].out, "on\r\n"));
	(void)close(input);
	end_sandbox(c, s);
}

static const struct {
	const char *name;
	void (*fn)(struct client *c);
} cases[] = {
    {"terminal", case_terminal}, {"terminal_abused", case_terminal_abused},
    {"beside", case_beside},     {"signals", case_signals},
    {"deadline", case_deadline}, {"input", case_input},
    {"daemons", case_daemons},   {"many", case_many},
    {"session", case_session},   {"reaper", case_reaper},
    {"bomb", case_bomb},         {"memory", case_memory},
    {"refused", case_refused},
};

static void parse_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const bool more = i + 1 < argc;
		if (streq(argv[i], "--warm"))
			options.warm = want_warm = true;
		else if (more && streq(argv[i], "--as"))
			EXPECT(parse_u64(argv[++i], 1, 1 << 30, &options.as) == 0);
		else if (more && streq(argv[i], "--state-dir"))
			options.state_dir = argv[++i];
		else if (more && streq(argv[i], "--image"))
			options.image = argv[++i];
		else if (more && streq(argv[i], "--only"))
			options.only = argv[++i];
		else
			EXPECT(!"usage");
	}
}

static void open_client(struct client *c)
{
	const struct engine_config config = {
	    .state_dir = options.state_dir, .max_sandboxes = 4, .warm = options.warm};
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
	open_client(&c);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (options.only && !streq(options.only, cases[i].name))
			continue;
		cases[i].fn(&c);
		(void)printf("ok %d - %s\n", ++number, cases[i].name);
		(void)fflush(stdout);
	}
	engine_close(c.engine);
	(void)sd_event_unref(c.loop);
	(void)printf("1..%d\n", number);
	return 0;
}
