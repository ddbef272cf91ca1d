/* SPDX-License-Identifier: Apache-2.0 */
/* Files anywhere in a sandbox, through engine.h, on every engine: what paths lead to, what is refused, names, watches.
 *
 *   engine_places [--as UID] [--image NAME] [--daemon ADDRESS [--runtime NAME]]
 *
 * TAP on stdout. Without an address the engine is the native one. The program is its own monitor or keeper. */
#include "engine_client.h"
#include "state_dir.h"

#include "base/attr.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "engine/engine_names.h"
#include "walls/privileges.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct options {
	const char *image;
	const char *daemon;
	const char *runtime;
	uint64_t as;
} options = {.image = "base"};

static struct outcome o; /* of the call at hand */

static struct engine_sandbox *sandbox(struct client *c)
{
	struct engine_limits l = default_limits;

	if (options
		.runtime) { /* its kernel is a process of the container, with memory and threads */
		l.memory_bytes = UINT64_C(2) << 30;
		l.cpu_milli = 2000;
		l.pids = 512;
	}
	struct engine_sandbox *s = make_sandbox(c, options.image, &l, &o);

	EXPECT_OF(&o, s != NULL);
	return s;
}

static void expect_text(struct client *c, struct engine_sandbox *s, const char *path,
			const char *want)
{
	char text[64] = "";
	const int fd = open_path(c, s, path, &o);

	EXPECT_OF(&o, fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0);
	EXPECT(strncmp(text, want, strlen(want)) == 0);
	(void)close(fd);
}

static void expect_lists(struct client *c, struct engine_sandbox *s)
{
	list_path(c, s, "/", &o);
	EXPECT_OF(&o, o.n_files > 8);
	list_path(c, s, "/home", &o);
	EXPECT_OF(&o, o.n_files == 2 && streq(o.files[1].name, "user"));
	list_path(c, s, "/tmp/a", &o);
	EXPECT_OF(&o, o.n_files == 1 && streq(o.files[0].name, "t") && o.files[0].size == 3);
	list_path(c, s, "/proc", &o);
	EXPECT_OF(&o, o.e.code == ERR_NOT_FOUND);
}

/* Files outside of the workspace. */
static void case_places(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);
	static const char *const hidden[] = {"/proc/self/environ",
					     "/proc/1/environ",
					     "/proc/self/root/etc/passwd",
					     "/proc/self/cwd/x",
					     "/dev/null",
					     "/dev/fd/0",
					     "/dev/shm/x",
					     "/dev/stdin",
					     "/sys/kernel/notes",
					     "/tmp/proc/self/environ",
					     "/tmp/etc/passwd",
					     "/var/tmp/x",
					     "/home/user/up/passwd",
					     "/nothing"};
	static const char *const fixed[] = {"/etc/passwd", "/etc/x",   "/x",        "/home/x",
					    "/mnt/x",      "/dev/x",   "/proc/x",   "/tmpx",
					    "/root/x",     "/usr/x/y", "/dev/shm/y"};
	static const char *const tops[] = {"/tmp", "/home/user", "/mnt/data", "/app/results",
					   "/home/sandbox"};

	EXPECT(put_text(c, s, "/tmp/a/t", "tmp", false) == ERR_NONE);
	EXPECT(put_text(c, s, "/tmp/a/t", "tmp", false) == ERR_FILE_EXISTS);
	EXPECT(put_text(c, s, "/home/sandbox/.rc", "home", false) == ERR_NONE);
	EXPECT(put_text(c, s, "/home/user/w", "workspace", false) == ERR_NONE);
	run_python(
	    c, s,
	    "import os\n"
	    "print(open('/tmp/a/t').read(), open('/home/sandbox/.rc').read(), open('w').read(), "
	    "os.stat('/tmp/a/t').st_uid)\n"
	    "open('/dev/shm/x', 'w').write('x')\n"
	    "for name in 'proc', 'etc': os.symlink('/' + name, '/tmp/' + name)\n"
	    "os.symlink('/etc', 'up')\n",
	    60000, &o);
	EXPECT_OF(&o, streq(o.out, "tmp home workspace 1000\n"));
	expect_text(c, s, "/tmp/a/t", "tmp");
	expect_text(c, s, "/app/results/w", "workspace");
	expect_text(c, s, "w", "workspace");
	expect_text(c, s, "/etc/debian_version", "");
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		EXPECT_OF(&o, open_path(c, s, hidden[i], &o) < 0 && o.e.code == ERR_NOT_FOUND);
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
		EXPECT(put_text(c, s, fixed[i], "x", true) == ERR_FORBIDDEN);
		EXPECT(remove_path(c, s, fixed[i], true) == ERR_FORBIDDEN);
	}
	for (size_t i = 0; i < ARRAY_SIZE(tops); i++) {
		EXPECT(put_text(c, s, tops[i], "x", true) == ERR_FILE_EXISTS);
		EXPECT(remove_path(c, s, tops[i], true) == ERR_FORBIDDEN);
	}
	expect_lists(c, s);
	EXPECT(remove_path(c, s, "/tmp/a", true) == ERR_NONE);
	EXPECT(remove_path(c, s, "/home/user/w", false) == ERR_NONE);
	list_path(c, s, "", &o);
	EXPECT_OF(&o, o.n_files == 1);
	end_sandbox(c, s);
}

static struct engine_stat known;

static void on_stat(const struct engine_stat *st, const struct err *e, void *user)
{
	struct outcome *x = user;

	x->done = true;
	if (e)
		x->e = *e;
	else
		known = *st;
}

static enum err_code look(struct client *c, struct engine_sandbox *s, const char *path)
{
	o = (struct outcome){.fd = -1};
	memset(&known, 0, sizeof(known));
	if (engine_stat_file(s, path, on_stat, &o, &o.e) == 0)
		turn_until(c, &o.done, 60000);
	return o.e.code;
}

static void on_named(const struct err *e, void *user)
{
	struct outcome *x = user;

	x->done = true;
	if (e)
		x->e = *e;
}

static enum err_code folder(struct client *c, struct engine_sandbox *s, const char *path)
{
	o = (struct outcome){.fd = -1};
	if (engine_make_folder(s, path, 0, on_named, &o, &o.e) == 0)
		turn_until(c, &o.done, 60000);
	return o.e.code;
}

static enum err_code move(struct client *c, struct engine_sandbox *s, const char *from,
			  const char *to, bool overwrite)
{
	o = (struct outcome){.fd = -1};
	if (engine_move_file(s, from, to, overwrite, on_named, &o, &o.e) == 0)
		turn_until(c, &o.done, 60000);
	return o.e.code;
}

/* Names: what they are, new folders, other names; in the workspace and elsewhere. */
static void case_names(struct client *c)
{
	struct engine_sandbox *s = sandbox(c);

	EXPECT(folder(c, s, "a/b") == ERR_NONE);
	EXPECT(folder(c, s, "a/b") == ERR_ALREADY_EXISTS);
	EXPECT(folder(c, s, "/tmp/a/b") == ERR_NONE);
	EXPECT(folder(c, s, "/home/user") == ERR_ALREADY_EXISTS);
	EXPECT(folder(c, s, "/etc/a") == ERR_FORBIDDEN);
	EXPECT(folder(c, s, "/a") == ERR_FORBIDDEN);
	EXPECT(folder(c, s, "../a") == ERR_INVALID_PATH);
	EXPECT(put_text(c, s, "a/f", "text", false) == ERR_NONE);
	EXPECT(folder(c, s, "a/f/x") == ERR_INVALID_ARGUMENT);
	run_python(c, s,
		   "import os\nos.symlink('/etc/passwd', 'link'); os.symlink('f', 'a/near')\n"
		   "os.symlink('gone', 'dead'); os.symlink('/proc/1/environ', 'odd')\n"
		   "os.chmod('a/f', 0o751)\n",
		   60000, &o);
	EXPECT_OF(&o, o.result.exit_code == 0);
	EXPECT(look(c, s, "a/f") == ERR_NONE);
	EXPECT(known.file.mode == (S_IFREG | 0751) && known.file.size == 4 &&
	       known.file.uid == 1000 && known.file.gid == 1000 && known.target[0] == '\0' &&
	       streq(known.file.name, "f"));
	EXPECT(look(c, s, "/home/user/link") == ERR_NONE);
	EXPECT(S_ISLNK(known.file.mode) && streq(known.target, "/etc/passwd") &&
	       S_ISREG(known.target_mode) && known.target_size > 100);
	EXPECT(look(c, s, "a/near") == ERR_NONE);
	EXPECT(streq(known.target, "f") && known.target_mode == (S_IFREG | 0751) &&
	       known.target_size == 4);
	EXPECT(look(c, s, "dead") == ERR_NONE && known.target_mode == 0);
	EXPECT(look(c, s, "odd") == ERR_NONE && known.target_mode == 0);
	EXPECT(look(c, s, "") == ERR_NONE && S_ISDIR(known.file.mode) &&
	       known.file.name[0] == '\0');
	EXPECT(look(c, s, "/tmp") == ERR_NONE && known.file.mode == (S_IFDIR | 01777));
	EXPECT(look(c, s, "/etc/passwd") == ERR_NONE && S_ISREG(known.file.mode));
	EXPECT(look(c, s, "/proc/1/environ") == ERR_NOT_FOUND);
	EXPECT(look(c, s, "a/f/x") == ERR_NOT_FOUND && look(c, s, "link/x") == ERR_NOT_FOUND);
	EXPECT(move(c, s, "a/f", "/home/user/n/m/f", false) == ERR_NONE);
	EXPECT(move(c, s, "a/f", "x", false) == ERR_NOT_FOUND);
	expect_text(c, s, "n/m/f", "text");
	EXPECT(put_text(c, s, "other", "other", false) == ERR_NONE);
	EXPECT(move(c, s, "other", "n/m/f", false) == ERR_ALREADY_EXISTS);
	EXPECT(move(c, s, "other", "n/m", true) == ERR_ALREADY_EXISTS);
	EXPECT(move(c, s, "other", "n/m/f", true) == ERR_NONE);
	expect_text(c, s, "n/m/f", "other");
	EXPECT(move(c, s, "n", "n/m/n", false) == ERR_INVALID_ARGUMENT);
	EXPECT(move(c, s, "n", "a/f/x", false) == ERR_NONE); /* a/f is free again */
	EXPECT(move(c, s, "a", "/tmp/a2", false) == ERR_NOT_IMPLEMENTED);
	EXPECT_OF(&o, strstr(o.e.text, "'a' to '/tmp/a2': ") == o.e.text);
	EXPECT(move(c, s, "/tmp/a", "/tmp/z/a", false) == ERR_NONE);
	EXPECT(look(c, s, "/tmp/z/a/b") == ERR_NONE && S_ISDIR(known.file.mode));
	EXPECT(move(c, s, "a", "/usr/a", false) == ERR_FORBIDDEN);
	EXPECT(move(c, s, "/etc/passwd", "p", false) == ERR_FORBIDDEN);
	EXPECT(move(c, s, "/tmp", "t", false) == ERR_FORBIDDEN);
	end_sandbox(c, s);
}

/* What a watch has told: the paths, each after a blank. */
struct told {
	char paths[512];
	bool called;
	struct err e;
};

static void on_news(const struct engine_news *news, const struct err *e, void *user)
{
	struct told *t = user;

	t->called = true;
	if (e)
		t->e = *e;
	for (size_t i = 0; news && i < news->n_changes; i++)
		(void)snprintf(t->paths + strlen(t->paths), sizeof(t->paths) - strlen(t->paths),
			       " %s", news->changes[i].path);
}

static struct engine_watch *watch(struct client *c, struct engine_sandbox *s, const char *path,
				  struct told *t)
{
	struct engine_watch *w = NULL;
	struct err e = ERR_INIT;

	*t = (struct told){0};
	EXPECT(engine_watch(s, path, true, on_news, t, &w, &e) == 0);
	turn_until(c, &t->called, 10000);
	t->called = false;
	return w;
}

static void expect_told(struct client *c, struct engine_watch *w, struct told *t, const char *path)
{
	while (!strstr(t->paths, path)) {
		t->called = false;
		engine_watch_next(w);
		turn_until(c, &t->called, 10000);
	}
}

/* Watches in several places at once: each tells its own files, by the names that it was asked by. */
static void case_watched_places(struct client *c)
{
	static struct told workspace, tmp, user, root, no;
	struct engine_sandbox *s = sandbox(c);
	struct engine_watch *in_workspace = watch(c, s, "", &workspace);
	struct engine_watch *in_tmp = watch(c, s, "/tmp", &tmp);
	struct engine_watch *in_user = watch(c, s, "/home/user/a", &no);

	EXPECT(no.e.code == ERR_NOT_FOUND);
	EXPECT(put_text(c, s, "a/b", "x", false) == ERR_NONE);
	in_user = watch(c, s, "/home/user/a", &user);
	EXPECT(user.e.code == ERR_NONE);
	struct engine_watch *in_root = watch(c, s, "/home", &root);
	EXPECT(root.e.code == ERR_NONE);
	(void)watch(c, s, "/proc", &no);
	EXPECT(no.e.code == ERR_NOT_FOUND);
	run_python(c, s,
		   "import os\nos.makedirs('/tmp/n/m')\nopen('/tmp/n/m/t', 'w').close()\n"
		   "open('a/c', 'w').close()\n",
		   60000, &o);
	EXPECT_OF(&o, o.result.exit_code == 0);
	expect_told(c, in_workspace, &workspace, " a/c");
	expect_told(c, in_user, &user, " /home/user/a/c");
	expect_told(c, in_tmp, &tmp, " /tmp/n/m/t");
	EXPECT(!strstr(workspace.paths, "/tmp") && !strstr(tmp.paths, "a/c"));
	engine_unwatch(in_workspace);
	engine_unwatch(in_root);
	EXPECT(put_text(c, s, "/tmp/n/later", "x", false) == ERR_NONE);
	expect_told(c, in_tmp, &tmp, " /tmp/n/later");
	engine_unwatch(in_tmp);
	engine_unwatch(in_user);
	end_sandbox(c, s);
}

static void parse_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		char *value = i + 1 < argc ? argv[i + 1] : NULL;

		EXPECT(value != NULL);
		if (streq(argv[i], "--image"))
			options.image = value;
		else if (streq(argv[i], "--daemon"))
			options.daemon = value;
		else if (streq(argv[i], "--runtime"))
			options.runtime = value;
		else if (streq(argv[i], "--as"))
			EXPECT(parse_u64(value, 1, 65533, &options.as) == 0);
		else
			EXPECT(!"option");
	}
}

static void open_client(struct client *c)
{
	const struct engine_config config = {
	    .state_dir = test_state_dir(),
	    .max_sandboxes = 4,
	    .docker = {.host = options.daemon, .runtime = options.runtime},
	};
	uid_t uid;
	gid_t gid;

	int r = engine_begin(options.daemon ? "docker" : "native", &config, &c->engine, &o.e);
	r = r < 0 ? r : engine_front_ids(c->engine, &uid, &gid, &o.e);
	r = r < 0 ? r : privileges_drop(uid, gid, &o.e);
	if (r == 0 && sd_event_new(&c->loop) < 0)
		r = -ENOMEM;
	r = r < 0 ? r : engine_open(c->engine, c->loop, &o.e);
	EXPECT_OF(&o, r == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(struct client *);
		bool watches; /* gVisor's kernel tells less of its changes */
	} cases[] = {
	    {"places", case_places},
	    {"names", case_names},
	    {"watched places", case_watched_places, true},
	};
	struct client c = {0};
	int number = 0;

	if (argc > 1 && streq(argv[1], "monitor"))
		return cmd_monitor(argc - 1, argv + 1);
	if (argc > 1 && streq(argv[1], "keeper"))
		return cmd_keeper(argc - 1, argv + 1);
	parse_options(argc, argv);
	if (!begin_tests(test_state_dir(), options.daemon ? "base" : options.image, options.as))
		return 0;
	open_client(&c);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (options.runtime && cases[i].watches)
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
