/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine's way out, helpers and stored workspaces, through engine.h.
 *
 *   engine_stored [--as UID] [--state-dir DIR] [--image NAME] [--only CASE]
 *
 * TAP on stdout. As UID: gives up root first and so tests what a plain user gets. Images are taken
 * from the state folder; stored workspaces go to one of its own below /tmp. */
#include "engine_client.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "engine/native/native.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct options {
	const char *state_dir;
	const char *image;
	const char *only;
	uint64_t as;
} options = {.state_dir = "/var/lib/caisson", .image = "science"};

static struct outcome o; /* of the call at hand */

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
	int listener = c->engine->ops->take_egress(open);

	EXPECT(listener >= 0 && c->engine->ops->take_egress(open) == -1);
	EXPECT(c->engine->ops->take_egress(closed) == -1);
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
	       "print(os.stat('/app/.venv/bin/tool').st_uid)\nopen('/app/.venv/bin/tool', 'a')\n",
	       "made\n1000\n");
	/* what a helper installs counts against its parent's limit (64 MiB) */
	python(c, h,
	       "try:\n    with open('/app/.venv/big', 'wb', 0) as f:\n"
	       "        for i in range(80): f.write(bytes(1 << 20))\n"
	       "except OSError as e:\n    print(e.errno)\n",
	       "28\n");
	/* a helper of a helper is none, and it does not outlive its parent */
	EXPECT(make(c, &(struct engine_create){.helper_of = h}) == NULL);
	EXPECT_OF(&o, o.e.code == ERR_SANDBOX_LOST);
	c->engine->ops->on_lost(h, on_lost, &lost);
	end_sandbox(c, s);
	turn_until(c, &lost, 60000);
	end_sandbox(c, h);
}

static const struct {
	const char *name;
	void (*fn)(struct client *c);
} cases[] = {
    {"egress", case_egress},
    {"helper", case_helper},
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

static void become_plain(void)
{
	if (options.as == 0 || geteuid() != 0)
		return;
	EXPECT(setgroups(0, NULL) == 0 &&
	       setresgid((gid_t)options.as, (gid_t)options.as, (gid_t)options.as) == 0 &&
	       setresuid((uid_t)options.as, (uid_t)options.as, (uid_t)options.as) == 0);
}

static void open_client(struct client *c)
{
	struct native_monitor_config m = {.state_dir = options.state_dir, .max_sandboxes = 8};
	struct engine_config config = {.state_dir = options.state_dir, .max_sandboxes = 8};
	struct err e = ERR_INIT;

	int r = native_monitor_start(&m, &config.monitor_fd, &e);
	if (r == 0)
		r = native_drop_front_privileges(config.monitor_fd, &e);
	if (r == 0 && sd_event_new(&c->loop) < 0)
		r = -ENOMEM;
	if (r == 0)
		r = engine_open("native", c->loop, &config, &c->engine, &e);
	o.e = e;
	EXPECT_OF(&o, r == 0);
}

int main(int argc, char **argv)
{
	struct client c = {0};
	char root[4096];
	struct stat st;
	int number = 0;

	if (argc > 1 && streq(argv[1], "monitor"))
		return cmd_monitor(argc - 1, argv + 1);
	parse_options(argc, argv);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)snprintf(root, sizeof(root), "%s/images/%s/root", options.state_dir, options.image);
	if (stat(root, &st) < 0) {
		(void)printf("1..0 # SKIP the image '%s' is not built\n", options.image);
		return 0;
	}
	become_plain();
	open_client(&c);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (options.only && !streq(options.only, cases[i].name))
			continue;
		cases[i].fn(&c);
		(void)printf("ok %d - %s\n", ++number, cases[i].name);
		(void)fflush(stdout);
	}
	c.engine->ops->close(c.engine);
	(void)sd_event_unref(c.loop);
	(void)printf("1..%d\n", number);
	return 0;
}
