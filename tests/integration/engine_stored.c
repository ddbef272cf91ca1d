/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine's way out, helpers and stored workspaces, through engine.h.
 *
 *   engine_stored [--as UID] [--state-dir DIR] [--image NAME] [--only CASE]
 *
 * TAP on stdout. As UID: gives up root first and so tests what a plain user gets. Images are taken
 * from the state folder; stored workspaces go to one of its own below /tmp. */
#include "engine/disks.h"
#include "engine_client.h"
#include "state_dir.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "walls/privileges.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct options {
	const char *state_dir;
	const char *image;
	const char *only;
	uint64_t as;
} options = {.image = "science"};

static struct outcome o;     /* of the call at hand */
static struct client second; /* another engine with the same state folder */

static void on_done(const struct err *e, void *user)
{
	struct outcome *f = user;

	f->done = true;
	if (e)
		f->e = *e;
}

/* Waits for the answer to a creation like WANT. */
static struct engine_sandbox *make(struct client *c, struct engine_create *want)
{
	(void)!text_copy(want->image, sizeof(want->image), options.image);
	want->limits = default_limits;
	return create_sandbox(c, want, &o);
}

static struct engine_sandbox *need(struct client *c, struct engine_create *want)
{
	struct engine_sandbox *s = make(c, want);

	EXPECT_OF(&o, s != NULL);
	return s;
}

static void python(struct client *c, struct engine_sandbox *s, const char *code, const char *out)
{
	run_python(c, s, code, 60000, &o);
	EXPECT_OF(&o, o.have_result && o.result.exit_code == 0 && streq(o.out, out));
}

/* ---- the way out ---- */

static const char ask_front[] = "import socket\n"
				"s = socket.create_connection(('127.0.0.1', 3128), 20)\n"
				"s.sendall(b'ping')\n"
				"print(s.recv(16).decode())\n";

/* Answers the first connection, however long the interpreter takes to come. */
static void answer_one(struct client *c, int listener, struct engine_sandbox *s)
{
	struct engine_run_spec spec = {.kind = ENGINE_RUN_PYTHON,
				       .code = ask_front,
				       .code_len = sizeof(ask_front) - 1,
				       .stdin_fd = -1,
				       .timeout_ns = 60 * NS_PER_S};
	uint64_t end = now_ns() + 60 * NS_PER_S;
	char text[8] = "";
	int fd = -1;

	(void)start_run(s, &spec, &o);
	while (fd < 0) {
		EXPECT(now_ns() < end && sd_event_run(c->loop, 10000) >= 0);
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	}
	EXPECT(recv(fd, text, 4, MSG_WAITALL) == 4 && streq(text, "ping"));
	EXPECT(send(fd, "pong", 4, MSG_NOSIGNAL) == 4);
	turn_until(c, &o.done, 60000);
	(void)close(fd);
	EXPECT_OF(&o, o.have_result && o.result.exit_code == 0 && streq(o.out, "pong\n"));
}

static void case_egress(struct client *c)
{
	struct engine_sandbox *closed = need(c, &(struct engine_create){0});
	struct engine_sandbox *open = need(c, &(struct engine_create){.egress = true});
	int listener = engine_take_egress(open);

	EXPECT(listener >= 0 && engine_take_egress(open) == -1);
	EXPECT(engine_take_egress(closed) == -1);
	answer_one(c, listener, open);
	python(c, closed,
	       "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 3128), 5)\n"
	       "except ConnectionRefusedError:\n    print('refused')\n",
	       "refused\n");
	/* nobody inside can take the place of the front */
	python(c, open,
	       "import socket\ns = socket.socket()\n"
	       "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
	       "try:\n    s.bind(('127.0.0.1', 3128))\nexcept OSError as e:\n    print(e.errno)\n",
	       "98\n");
	(void)close(listener);
	end_sandbox(c, open);
	end_sandbox(c, closed);
}

/* ---- helpers ---- */

static void on_lost(struct engine_sandbox *s UNUSED, const char *why UNUSED, void *user)
{
	*(bool *)user = true;
}

static void case_helper(struct client *c)
{
	bool lost = false;
	struct engine_sandbox *s = need(c, &(struct engine_create){0});
	python(c, s, "import os\nprint(os.listdir('/app/.venv'))\nopen('secret', 'w').write('x')\n",
	       "[]\n");
	struct engine_sandbox *h = need(c, &(struct engine_create){.egress = true, .helper_of = s});
	python(c, h,
	       "import os\nprint(os.listdir('/mnt/data'))\nos.mkdir('/app/.venv/bin')\n"
	       "open('/app/.venv/bin/tool', 'w').write('#!/bin/sh\\necho made\\n')\n"
	       "os.chmod('/app/.venv/bin/tool', 0o755)\n",
	       "[]\n");
	python(c, s,
	       "import subprocess, os\nprint(subprocess.run(['/app/.venv/bin/tool'],\n"
	       "      capture_output=True, text=True).stdout, end='')\n"
	       "print(os.stat('/app/.venv/bin/tool').st_uid)\n"
	       "for p in ('bin/tool', 'new'):\n    try:\n        open('/app/.venv/' + p, 'a')\n"
	       "    except OSError as e:\n        print(e.errno)\n",
	       "made\n1000\n30\n30\n"); /* EROFS: only helpers write there */
	/* what a helper installs counts against its parent's limit (64 MiB) */
	python(c, h,
	       "try:\n    with open('/app/.venv/big', 'wb', 0) as f:\n"
	       "        for i in range(80): f.write(bytes(1 << 20))\n"
	       "except OSError as e:\n    print(e.errno)\n",
	       "28\n");
	/* a helper of a helper is none, and it does not outlive its parent */
	EXPECT(make(c, &(struct engine_create){.helper_of = h}) == NULL);
	EXPECT_OF(&o, o.e.code == ERR_SANDBOX_LOST);
	engine_on_lost(h, on_lost, &lost);
	end_sandbox(c, s);
	turn_until(c, &lost, 60000);
	end_sandbox(c, h);
}

static void on_helper(struct engine_sandbox *s, const struct engine_policy *p UNUSED,
		      const struct err *e, void *user)
{
	struct outcome *h = user;

	h->sandbox = s;
	h->e = e ? *e : ERR_INIT;
	h->done = true;
}

/* Whatever step its making has reached when the sandbox that it helps ends: that is the reason that is told. */
static void case_helper_of_ending(struct client *c)
{
	static struct outcome h, ended;

	for (unsigned i = 0; i < 20; i++) {
		struct engine_sandbox *s = need(c, &(struct engine_create){0});
		struct engine_create create = {.helper_of = s, .limits = default_limits};
		const uint64_t until = now_ns() + i * NS_PER_MS;

		h = ended = (struct outcome){.fd = -1};
		(void)!text_copy(create.image, sizeof(create.image), options.image);
		/* More than 8 MiB: only then its file system is shut at once. */
		python(c, s,
		       "with open('/mnt/data/f', 'wb', 0) as f:\n"
		       "    for i in range(9): f.write(bytes(1 << 20))\n",
		       "");
		EXPECT(engine_create(c->engine, &create, on_helper, &h, &h.e) == 0);
		while (!h.done && now_ns() < until)
			(void)sd_event_run(c->loop, 100);
		engine_destroy(s, on_done, &ended);
		turn_until(c, &h.done, 60000);
		turn_until(c, &ended.done, 60000);
		EXPECT_OF(&h, h.sandbox || h.e.code == ERR_SANDBOX_LOST);
		if (h.sandbox)
			end_sandbox(c, h.sandbox);
	}
}

/* ---- stored workspaces ---- */

static struct engine_sandbox *activate(struct client *c, const char *key)
{
	return need(c, &(struct engine_create){.persist_id = key});
}

static enum err_code forget(struct client *c, const char *key)
{
	static struct outcome f;

	f = (struct outcome){0};
	if (engine_forget(c->engine, key, on_done, &f, &f.e) < 0)
		return f.e.code;
	turn_until(c, &f.done, 60000);
	return f.e.code;
}

static void case_stored(struct client *c)
{
	struct engine_sandbox *s = activate(c, "first");

	python(c, s,
	       "import os\nopen('kept', 'w').write('here')\nos.mkdir('sub')\n"
	       "os.chmod('kept', 0o640)\n",
	       "");
	struct engine_sandbox *h = need(c, &(struct engine_create){.helper_of = s});
	python(c, h, "open('/app/.venv/pyvenv.cfg', 'w').write('x')\n", "");
	end_sandbox(c, h);
	EXPECT(put_text(c, s, "put", "from outside", false) == ERR_NONE);
	end_sandbox(c, s);
	/* another uid outside, the same one inside */
	struct engine_sandbox *other = activate(c, "second");
	s = activate(c, "first");
	python(c, s,
	       "import os\nprint(sorted(os.listdir('.')), open('kept').read())\n"
	       "st = os.stat('kept')\nprint(st.st_uid, st.st_gid, oct(st.st_mode))\n"
	       "open('kept', 'a').write('!')\nprint(open('/app/results/kept').read())\n"
	       "print(open('put').read(), os.listdir('/app/.venv'))\n"
	       "print(os.stat('/mnt/data').st_uid, os.path.ismount('/app/.venv'))\n",
	       "['kept', 'put', 'sub'] here\n1000 1000 0o100640\nhere!\n"
	       "from outside ['pyvenv.cfg']\n1000 True\n");
	python(c, other, "import os\nprint(os.listdir('.'))\n", "[]\n");
	EXPECT(forget(c, "first") == ERR_SANDBOX_IN_USE);
	end_sandbox(c, s);
	EXPECT(forget(c, "first") == ERR_NONE && forget(c, "first") == ERR_NONE);
	s = activate(c, "first");
	python(c, s, "import os\nprint(os.listdir('.'), os.listdir('/app/.venv'))\n", "[] []\n");
	end_sandbox(c, s);
	end_sandbox(c, other);
	EXPECT(forget(c, "first") == ERR_NONE && forget(c, "second") == ERR_NONE);
	EXPECT(forget(c, "../first") == ERR_INVALID_ARGUMENT && forget(c, "") != ERR_NONE);
}

static void case_in_use(struct client *c)
{
	struct engine_sandbox *s = activate(c, "mine");

	EXPECT(make(&second, &(struct engine_create){.persist_id = "mine"}) == NULL);
	EXPECT_OF(&o, o.e.code == ERR_SANDBOX_IN_USE);
	EXPECT(make(c, &(struct engine_create){.persist_id = "mine"}) == NULL);
	EXPECT_OF(&o, o.e.code == ERR_SANDBOX_IN_USE);
	EXPECT(forget(&second, "mine") == ERR_SANDBOX_IN_USE);
	python(c, s, "open('x', 'w').write('1')\n", "");
	end_sandbox(c, s);
	s = activate(&second, "mine");
	python(&second, s, "print(open('x').read())\n", "1\n");
	end_sandbox(&second, s);
	EXPECT(forget(c, "mine") == ERR_NONE);
}

static void case_stored_limits(struct client *c)
{
	struct engine_create want = {.persist_id = "full"};
	struct engine_sandbox *s = need(c, &want);
	bool hard = o.policy.enforced & ENGINE_CAP_DISK;

	EXPECT(hard == ((engine_caps(c->engine) & ENGINE_CAP_PERSISTENT) != 0));
	EXPECT(hard || (o.policy.best_effort & ENGINE_CAP_DISK));
	/* 64 MiB: one file cannot be larger, and on a disk all together cannot be much larger. In a folder a file of
	 * that size and the folder itself are over the limit: init may see it before the run ends on its own. */
	run_python(c, s,
		   "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nn = 0\n"
		   "try:\n    with open('big', 'wb', 0) as f:\n"
		   "        for i in range(80): n += f.write(bytes(1 << 20)) >> 20\n"
		   "except OSError as e:\n    print(e.errno in (27, 28), 60 <= n <= 72)\n",
		   60000, &o);
	EXPECT_OF(&o, o.have_result);
	if (hard || o.result.end != ENGINE_END_DISK)
		EXPECT_OF(&o, o.result.exit_code == 0 && streq(o.out, "True True\n"));
	usage_of(c, s, &o);
	EXPECT_OF(&o, o.usage.workspace_bytes > (UINT64_C(60) << 20) &&
			  o.usage.workspace_bytes < (UINT64_C(72) << 20));
	if (hard)
		python(c, s,
		       "import os\nos.unlink('big')\nn = 0\ntry:\n    for i in range(8000):\n"
		       "        open(f'f{i}', 'w').close()\n        n += 1\n"
		       "except OSError as e:\n    print(e.errno, 4000 <= n <= 4600)\n",
		       "28 True\n");
	end_sandbox(c, s);
	want.limits.explicit_mask = ENGINE_CAP_DISK;
	EXPECT(forget(c, "full") == ERR_NONE);
}

/* A helper of a stored one, and what it leaves is stored. */
static void case_stored_helper(struct client *c)
{
	struct engine_sandbox *s = activate(c, "helped");
	struct engine_sandbox *h = need(c, &(struct engine_create){.helper_of = s});

	python(c, h, "open('/app/.venv/installed', 'w').write('yes')\n", "");
	python(c, s, "print(open('/app/.venv/installed').read())\n", "yes\n");
	end_sandbox(c, h);
	end_sandbox(c, s);
	s = activate(c, "helped");
	python(c, s, "print(open('/app/.venv/installed').read())\n", "yes\n");
	end_sandbox(c, s);
	EXPECT(forget(c, "helped") == ERR_NONE);
}

/* ---- their files ---- */

static int file; /* that the last answer came with */

static void on_disk(int fd, const struct err *e, void *user)
{
	on_done(e, user);
	file = fd;
}

enum disk_call { READ, NEW, KEEP, DROP };

static enum err_code disk(struct client *c, enum disk_call what, const char *key, uint64_t bytes)
{
	static struct outcome f;
	int r = 0;

	f = (struct outcome){0};
	file = -1;
	if (what == READ)
		r = engine_disk_read(c->engine, key, on_disk, &f, &f.e);
	else if (what == NEW)
		r = engine_disk_new(c->engine, key, bytes, on_disk, &f, &f.e);
	else if (what == KEEP)
		r = engine_disk_keep(c->engine, key, on_done, &f, &f.e);
	else
		r = engine_disk_drop(c->engine, key, &f.e);
	if (r == 0 && what != DROP)
		turn_until(c, &f.done, 60000);
	return f.e.code;
}

static void copy_all(int from, int to)
{
	static char buf[1 << 20];
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0)
		EXPECT(write(to, buf, (size_t)n) == n);
	EXPECT(n == 0 && fsync(to) == 0);
}

/* What is read from one and written to another is the same workspace. */
static void case_disks(struct client *c)
{
	struct engine_sandbox *s = activate(c, "moved");
	int from;

	if (!(engine_caps(c->engine) & ENGINE_CAP_PERSISTENT)) { /* folders */
		EXPECT(disk(c, READ, "moved", 0) == ERR_ENGINE_NOT_BUILT_IN);
		EXPECT(disk(c, NEW, "other", 1) == ERR_ENGINE_NOT_BUILT_IN);
		end_sandbox(c, s);
		EXPECT(forget(c, "moved") == ERR_NONE);
		return;
	}
	python(c, s, "open('kept', 'w').write('here')\n", "");
	EXPECT(disk(c, READ, "moved", 0) == ERR_SANDBOX_IN_USE);
	end_sandbox(c, s);
	EXPECT(disk(c, READ, "never", 0) == ERR_NOT_FOUND);
	EXPECT(disk(c, READ, "moved", 0) == ERR_NONE && file >= 0);
	from = file;
	EXPECT((fcntl(from, F_GETFL) & O_ACCMODE) == O_RDONLY);
	/* nobody else has it meanwhile */
	EXPECT(disk(c, READ, "moved", 0) == ERR_SANDBOX_IN_USE);
	EXPECT(make(c, &(struct engine_create){.persist_id = "moved"}) == NULL);
	EXPECT_OF(&o, o.e.code == ERR_SANDBOX_IN_USE);
	EXPECT(forget(c, "moved") == ERR_SANDBOX_IN_USE);

	EXPECT(disk(c, NEW, "moved", 1) == ERR_ALREADY_EXISTS);
	EXPECT(disk(c, NEW, "arrived", UINT64_C(64) << 20) == ERR_NONE && file >= 0);
	const int to = file;
	copy_all(from, to);
	(void)close(from);
	EXPECT(disk(c, NEW, "arrived", 1) == ERR_ALREADY_EXISTS);
	EXPECT(disk(c, READ, "arrived", 0) == ERR_NOT_FOUND);
	EXPECT(disk(c, KEEP, "arrived", 0) == ERR_NONE);
	(void)close(to);
	EXPECT(disk(c, KEEP, "arrived", 0) == ERR_NOT_FOUND);
	s = activate(c, "arrived");
	python(c, s, "import os\nprint(open('kept').read(), os.stat('kept').st_uid)\n",
	       "here 1000\n");
	end_sandbox(c, s);
	EXPECT(forget(c, "arrived") == ERR_NONE && forget(c, "moved") == ERR_NONE);
}

/* What is not kept goes; only some are made at a time, and none that the host has no room for. */
static void case_disks_dropped(struct client *c)
{
	char key[8];
	int files[ENGINE_DISKS_NEW_MAX];

	if (!(engine_caps(c->engine) & ENGINE_CAP_PERSISTENT))
		return;
	for (unsigned i = 0; i < ENGINE_DISKS_NEW_MAX; i++) {
		(void)snprintf(key, sizeof(key), "n%u", i);
		EXPECT(disk(c, NEW, key, 4096) == ERR_NONE);
		files[i] = file;
	}
	EXPECT(disk(c, NEW, "more", 4096) == ERR_SERVER_BUSY);
	for (unsigned i = 0; i < ENGINE_DISKS_NEW_MAX; i++) {
		(void)snprintf(key, sizeof(key), "n%u", i);
		(void)close(files[i]);
		EXPECT(disk(c, DROP, key, 0) == ERR_NONE);
	}
	EXPECT(disk(c, DROP, "never", 0) == ERR_NONE);
	EXPECT(disk(c, KEEP, "n0", 0) == ERR_NOT_FOUND);
	EXPECT(disk(c, NEW, "huge", UINT64_MAX) == ERR_HOST_DISK_FULL);
	EXPECT(disk(c, NEW, "n0", 4096) == ERR_NONE);
	(void)close(file);
	EXPECT(disk(c, DROP, "n0", 0) == ERR_NONE);
	EXPECT(disk(c, READ, "../x", 0) == ERR_INVALID_ARGUMENT);
}

static const struct {
	const char *name;
	void (*fn)(struct client *c);
} cases[] = {
    {"egress", case_egress},
    {"helper", case_helper},
    {"helper_of_ending", case_helper_of_ending},
    {"stored", case_stored},
    {"in_use", case_in_use},
    {"stored_limits", case_stored_limits},
    {"stored_helper", case_stored_helper},
    {"disks", case_disks},
    {"disks_dropped", case_disks_dropped},
};

static void parse_options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (streq(argv[i], "--as"))
			EXPECT(parse_u64(argv[i + 1], 1, 1 << 30, &options.as) == 0);
		else if (streq(argv[i], "--state-dir"))
			options.state_dir = argv[i + 1];
		else if (streq(argv[i], "--image"))
			options.image = argv[i + 1];
		else if (streq(argv[i], "--only"))
			options.only = argv[i + 1];
		else
			EXPECT(!"usage");
	}
}

/* A state folder of our own, whose images are those of the given one. */
static void make_state(char path[4096])
{
	char images[4096];
	char link[4200];

	(void)snprintf(path, 4096, "/tmp/caisson-stored-XXXXXX");
	EXPECT(mkdtemp(path) != NULL);
	(void)snprintf(images, sizeof(images), "%s/images", options.state_dir);
	(void)snprintf(link, sizeof(link), "%s/images", path);
	EXPECT(symlink(images, link) == 0);
}

/* This process goes on as a child; its parent keeps the rights to clean up. */
static void remove_afterwards(const char *state)
{
	int status;
	pid_t child = fork();

	EXPECT(child >= 0);
	if (child == 0)
		return;
	EXPECT(waitpid(child, &status, 0) == child);
	pid_t rm = fork();
	if (rm == 0)
		(void)execl("/bin/rm", "rm", "-rf", state, NULL);
	(void)waitpid(rm, NULL, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void open_clients(struct client *first, const char *state)
{
	const struct engine_config config = {.state_dir = state, .max_sandboxes = 8, .moves = true};
	struct client *clients[2] = {first, &second};
	struct err e = ERR_INIT;
	sd_event *loop = NULL;
	uid_t uid;
	gid_t gid;

	int r = engine_begin("native", &config, &first->engine, &e);
	r = r < 0 ? r : engine_begin("native", &config, &second.engine, &e);
	r = r < 0 ? r : engine_front_ids(first->engine, &uid, &gid, &e);
	r = r < 0 ? r : privileges_drop(uid, gid, &e);
	if (r == 0 && sd_event_new(&loop) < 0)
		r = -ENOMEM;
	for (int i = 0; i < 2 && r == 0; i++) {
		clients[i]->loop = i == 0 ? loop : sd_event_ref(loop);
		r = engine_open(clients[i]->engine, loop, &e);
	}
	o.e = e;
	EXPECT_OF(&o, r == 0);
}

int main(int argc, char **argv)
{
	struct client c = {0};
	char state[4096];
	int number = 0;

	if (argc > 1 && streq(argv[1], "monitor"))
		return cmd_monitor(argc - 1, argv + 1);
	options.state_dir = test_state_dir();
	parse_options(argc, argv);
	if (!begin_tests(options.state_dir, options.image, options.as))
		return 0;
	make_state(state);
	remove_afterwards(state);
	open_clients(&c, state);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (options.only && !streq(options.only, cases[i].name))
			continue;
		cases[i].fn(&c);
		(void)printf("ok %d - %s\n", ++number, cases[i].name);
		(void)fflush(stdout);
	}
	engine_close(c.engine);
	engine_close(second.engine);
	(void)sd_event_unref(second.loop);
	(void)sd_event_unref(c.loop);
	(void)printf("1..%d\n", number);
	return 0;
}
