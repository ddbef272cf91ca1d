/* SPDX-License-Identifier: Apache-2.0 */
#include "image/builder.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/tree.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define EXIT_STATUS   "exit status "
#define EMPTY_S       3600
#define LOOK_MS       200 /* between two looks at the clock and the disk */
#define PROCESSES_MAX 8192
#define ARGV_MAX      128
#define PATH_DEFAULT  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define LOG_MAX       (UINT64_C(64) << 20) /* bytes of a log */

bool image_has_buildah(void)
{
	const char *path = PATH_DEFAULT;
	char file[PATH_MAX];

	while (*path) {
		const size_t n = strcspn(path, ":");

		(void)snprintf(file, sizeof(file), "%.*s/" BUILDER, (int)n, path);
		if (access(file, X_OK) == 0)
			return true;
		path += n;
		path += *path == ':';
	}
	return false;
}

static const char *scratch_parent(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp && tmp[0] == '/' ? tmp : "/var/tmp";
}

/* What a plain user's build leaves belongs to the user's sub-uids, so only a space with these can remove it. */
static void remove_folder(const char *path)
{
	if (tree_remove(AT_FDCWD, path) >= 0 || geteuid() == 0)
		return;
	const char *const argv[] = {"rm", "-rf", path, NULL};
	const char *const env[] = {"PATH=" PATH_DEFAULT, NULL};
	const struct space_options o = {.env = env, .cwd = "/"};
	struct child c = CHILD_INIT;
	struct err ignored = ERR_INIT;
	char text[256];

	if (space_start(argv, &o, &c, &ignored) < 0)
		return;
	while (read(c.out, text, sizeof(text)) > 0)
		;
	int r UNUSED = child_wait(&c);

	child_done(&c);
	r = tree_remove(AT_FDCWD, path);
}

/* Folders of builds that were killed: nobody holds a lock on them. */
static void remove_left(const char *parent)
{
	_cleanup_dir_ DIR *dir = opendir(parent);
	struct stat st;

	if (!dir)
		return;
	for (struct dirent *de; (de = readdir(dir)) != NULL;) {
		char path[PATH_MAX];

		if (!text_starts_with(de->d_name, BUILDER_FOLDER))
			continue;
		_cleanup_fd_ int fd =
		    openat(dirfd(dir), de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		/* One without a folder in it may be of a build that is about to lock it. */
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
		    (st.st_nlink > 2 || st.st_mtime + EMPTY_S < time(NULL)) &&
		    flock(fd, LOCK_EX | LOCK_NB) == 0 &&
		    (size_t)snprintf(path, sizeof(path), "%s/%s", parent, de->d_name) <
			sizeof(path))
			remove_folder(path);
	}
}

static uint64_t disk_used(const struct builder *b, uint64_t *ret_free)
{
	struct statvfs v;

	*ret_free = UINT64_MAX;
	if (fstatvfs(b->dir, &v) < 0)
		return 0;
	*ret_free = (uint64_t)v.f_bavail * v.f_frsize;
	return (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize;
}

/* The steps of root's build are another account's, which must come to its folders. */
static int check_parent(const char *parent, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;

	if (geteuid() != 0)
		return 0;
	if (text_copy(path, sizeof(path), parent) < 0)
		return err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "TMPDIR");
	for (char *slash; (slash = strrchr(path, '/')) != NULL && slash > path; *slash = '\0')
		if (stat(path, &st) < 0 || !(st.st_mode & 0001))
			return err_set(
			    e, ERR_IMAGE_BUILD_FAILED, 0,
			    "%s cannot be entered by the account that does the steps; name "
			    "another folder in TMPDIR, or none for /var/tmp",
			    path);
	return 0;
}

int builder_open(struct builder *b, struct err *e)
{
	const char *parent = scratch_parent();
	uint64_t left;

	b->dir = -1;
	b->step = SIZE_MAX;
	if (check_parent(parent, e) < 0)
		return -EACCES;
	remove_left(parent);
	if ((size_t)snprintf(b->path, sizeof(b->path), "%s/" BUILDER_FOLDER "XXXXXX", parent) >=
		sizeof(b->path) - 64 ||
	    !mkdtemp(b->path)) {
		b->path[0] = '\0';
		return err_set(e, ERR_SYSTEM, errno, "cannot make a folder in %s (TMPDIR)", parent);
	}
	b->dir = open(b->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Its folders are the builder's, who must come to them. */
	if (b->dir < 0 || flock(b->dir, LOCK_EX | LOCK_NB) < 0 || fchmod(b->dir, 0711) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot prepare %s", b->path);
	b->used_before = disk_used(b, &left);
	return 0;
}

void builder_close(struct builder *b)
{
	if (b->path[0])
		remove_folder(b->path);
	b->path[0] = '\0';
	b->dir = fd_close(b->dir);
}

void builder_path(const struct builder *b, const char *name, char ret[PATH_MAX])
{
	(void)snprintf(ret, PATH_MAX, "%.*s/%.60s", PATH_MAX - 64, b->path, name);
}

int builder_folder(struct builder *b, const char *name, struct err *e)
{
	const uid_t owner = space_owner();

	if (mkdirat(b->dir, name, 0700) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot prepare %s", b->path);
	_cleanup_fd_ int fd = openat(b->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || (owner != (uid_t)-1 && fchown(fd, owner, owner) < 0))
		return err_set(e, ERR_SYSTEM, errno, "cannot prepare %s", b->path);
	return TAKE_FD(fd);
}

int builder_file(struct builder *b, const char *name, const char *text, size_t len, bool secret,
		 struct err *e)
{
	const uid_t owner = space_owner();
	_cleanup_fd_ int fd =
	    openat(b->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, len);

	if (r >= 0 && ((owner != (uid_t)-1 && fchown(fd, owner, owner) < 0) ||
		       fchmod(fd, secret ? 0400 : 0444) < 0))
		r = -errno;
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot write into %s", b->path) : 0;
}

/* "STEP 3/7: RUN make", with "[1/2] " before it where there are several stages. False: another line. */
static bool read_step(const struct builder *b, const char *s, size_t *ret)
{
	uint64_t stage = 1, number = 0;
	size_t n;

	if (*s == '[') {
		n = strspn(s + 1, "0123456789");
		if (parse_u64_n(s + 1, n, 1, DOCKERFILE_STAGES_MAX, &stage) < 0 || !strchr(s, ']'))
			return false;
		s = strchr(s, ']') + 1;
		s += *s == ' ';
	}
	if (!text_starts_with(s, "STEP "))
		return false;
	s += strlen("STEP ");
	n = strspn(s, "0123456789");
	if (s[n] != '/' || parse_u64_n(s, n, 1, DOCKERFILE_STEPS_MAX, &number) < 0)
		return false;
	for (size_t i = 0; i < b->d->n; i++)
		if (b->d->steps[i].stage == stage - 1 && dockerfile_is_printed(b->d, i) &&
		    --number == 0) {
			*ret = i;
			return true;
		}
	return false;
}

static void show_step(struct builder *b, size_t i)
{
	const struct dockerfile_step *s = &b->d->steps[i];
	char text[64];
	size_t n = 0, all = 0;

	for (size_t k = 0; k < b->d->n; k++) {
		const bool counts =
		    b->d->steps[k].stage != DOCKERFILE_GLOBAL && dockerfile_is_printed(b->d, k);

		all += counts;
		n += counts && k <= i;
	}
	(void)snprintf(text, sizeof(text), "%zu/%zu %s %.40s", n, all, dockerfile_word(s->kind),
		       s->text);
	text[text_utf8_cut(text, strlen(text), sizeof(text) - 2)] = '\0';
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	b->step = i;
	b->tail[0] = '\0';
	b->watch->step(b->watch->user, text);
}

/* Keeps the last lines of a step. */
static void keep(struct builder *b, const char *line)
{
	const size_t n = strlen(line) + 1;
	size_t have = strlen(b->tail);

	if (n >= IMAGE_STEP_TAIL)
		return;
	while (have + n > IMAGE_STEP_TAIL) {
		const char *nl = strchr(b->tail, '\n');
		const size_t cut = nl ? (size_t)(nl - b->tail) + 1 : have;

		memmove(b->tail, b->tail + cut, have - cut + 1);
		have -= cut;
	}
	(void)snprintf(b->tail + have, sizeof(b->tail) - have, "%s\n", line);
}

/* The builder's error has the step in it, with all the lines of its here-documents. What the step itself wrote may come after it. */
static bool repeats(const struct builder *b, const char *line)
{
	const struct dockerfile_step *s = b->step == SIZE_MAX ? NULL : &b->d->steps[b->step];
	const size_t n = strlen(line);

	for (size_t i = 0; s && i < s->n_here; i++) {
		const char *text = s->here[i].text;

		if (streq(s->here[i].name, line))
			return true;
		for (const char *at = text; (at = strstr(at, line)) != NULL;
		     at += MAX(n, (size_t)1))
			if ((at == text || at[-1] == '\n') && at[n] == '\n')
				return true;
	}
	return false;
}

static void end_line(struct builder *b)
{
	_cleanup_(buf_done) struct buf clean = BUF_INIT(8 * BUILDER_LINE);
	_cleanup_(buf_done) struct buf text = BUF_INIT(8 * BUILDER_LINE);
	size_t step;

	b->line[b->line_len] = '\0';
	if (text_add_utf8_lossy(&text, b->line, b->line_len) < 0 ||
	    text_add_line(&clean, buf_str(&text), text.len) < 0)
		return;
	b->line_len = 0;
	if (b->building && read_step(b, b->line, &step)) {
		show_step(b, step);
		return;
	}
	const char *error = strstr(b->line, "rror: "); /* "Error: ", or "error: " of older ones */

	/* It repeats the step, with all its lines, before it says how that ended. */
	if ((error && error - b->line <= 1) || (b->error[0] && strstr(b->line, EXIT_STATUS)))
		(void)snprintf(b->error, sizeof(b->error), "%.*s", BUILDER_LINE - 1,
			       buf_str(&clean));
	else if (!(b->error[0] && repeats(b, b->line)) &&
		 !text_starts_with(b->line, "subprocess exited with status "))
		keep(b, buf_str(&clean));
	b->watch->tick(b->watch->user, buf_str(&clean), 0, 0);
}

static void feed(struct builder *b, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n' || data[i] == '\r') {
			if (b->line_len > 0)
				end_line(b);
		} else if (b->line_len < sizeof(b->line) - 1) {
			b->line[b->line_len++] = data[i] ? data[i] : ' ';
		}
	}
}

/* Where the build is, for a message: "Dockerfile:12: RUN make". */
static void place(const struct builder *b, char *ret, size_t size)
{
	if (b->step == SIZE_MAX) {
		(void)snprintf(ret, size, "the build");
		return;
	}
	const struct dockerfile_step *s = &b->d->steps[b->step];
	_cleanup_(buf_done) struct buf text = BUF_INIT(1024);
	int r UNUSED = text_add_line(&text, s->text, text_utf8_cut(s->text, strlen(s->text), 100));

	(void)snprintf(ret, size, "%s:%u: %s %s%s", b->d->name, s->line, dockerfile_word(s->kind),
		       buf_str(&text), strlen(s->text) > 100 ? "…" : "");
}

/* The time, the disk, and a person who stops it. */
static int look(struct builder *b, struct err *e)
{
	const uint64_t most = b->options->max_bytes;
	char where[300];
	uint64_t left;

	if (image_cancelled(b->watch))
		return err_set(e, ERR_CANCELLED, ECANCELED, "stopped; nothing was changed");
	place(b, where, sizeof(where));
	if (now_ns() > b->deadline)
		return err_set(e, ERR_TIMEOUT, 0,
			       "%s: the build has lasted %" PRIu64 " s, which is its limit "
			       "(--timeout)",
			       where, b->options->timeout_s);
	const uint64_t used = disk_used(b, &left);

	if (used > b->used_before && used - b->used_before > most)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, 0,
			       "%s: the build needs more than %" PRIu64
			       " MiB of disk, which is its limit (--max-size)",
			       where, most >> 20);
	if (left < BUILDER_RESERVE)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, ENOSPC,
			       "%s: less than %" PRIu64
			       " MiB are left on the disk of %s; free some "
			       "space or name another folder in TMPDIR",
			       where, BUILDER_RESERVE >> 20, scratch_parent());
	return 0;
}

static int pump(struct builder *b, struct child *c, struct err *e)
{
	uint64_t logged = 0;
	char text[16384];
	int r = 0;

	while (r >= 0) {
		struct pollfd p[] = {{.fd = c->out, .events = POLLIN},
				     {.fd = b->watch->cancel_fd, .events = POLLIN}};
		const int n = poll(p, ARRAY_SIZE(p), LOOK_MS);

		if (n < 0 && errno != EINTR)
			return err_set(e, ERR_SYSTEM, errno, "cannot wait for " BUILDER);
		r = look(b, e);
		if (r < 0 || n <= 0 || !p[0].revents)
			continue;
		const ssize_t got = read(c->out, text, sizeof(text));

		if (got < 0 && errno != EINTR)
			return err_set(e, ERR_SYSTEM, errno, "cannot read what " BUILDER " says");
		if (got == 0)
			break;
		if (got > 0 && b->log >= 0 && logged < LOG_MAX &&
		    fd_write_all(b->log, text, (size_t)got) < 0)
			b->log = -1; /* if the disk is full, look() reports it */
		logged += got > 0 ? (uint64_t)got : 0;
		feed(b, text, got > 0 ? (size_t)got : 0);
	}
	if (b->line_len > 0)
		end_line(b);
	return r;
}

static int failed(struct builder *b, int status, struct err *e)
{
	const char *said = strstr(b->error, EXIT_STATUS);
	const bool step = b->building && b->step != SIZE_MAX;
	const size_t n = strlen(b->tail);
	char where[300];

	place(b, where, sizeof(where));
	if (!b->error[0] && n > 0) {
		const char *nl = memrchr(b->tail, '\n', n - 1);

		(void)snprintf(b->error, sizeof(b->error), "%.*s",
			       (int)(b->tail + n - 1 - (nl ? nl + 1 : b->tail)),
			       nl ? nl + 1 : b->tail);
	}
	if (step && said)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, 0, "%s: exit status %.*s", where,
			       (int)strspn(said + strlen(EXIT_STATUS), "0123456789"),
			       said + strlen(EXIT_STATUS));
	return err_set(e, step ? ERR_IMAGE_BUILD_FAILED : ERR_SOURCE_UNREACHABLE, 0, "%s%s%.300s",
		       step ? where : "", step ? ": " : "",
		       b->error[0]    ? b->error
		       : status > 128 ? "it was killed"
				      : "it failed");
}

static int add(struct buf *text, const char **list, size_t *n, const char *name, const char *value)
{
	const size_t at = text->len;

	if (!value || *n + 1 >= ARGV_MAX || buf_printf(text, "%s%s", name, value) < 0 ||
	    buf_add_char(text, '\0') < 0)
		return value ? -ENOMEM : 0;
	list[(*n)++] = (const char *)(uintptr_t)at; /* the buffer may move; resolve() */
	return 0;
}

static void resolve(const struct buf *text, const char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		list[i] = text->data + (uintptr_t)list[i];
	list[n] = NULL;
}

/* The variables of the builder: its folders and configuration are the scratch folder's, and the proxies are the operator's. */
static int fill_environment(const struct builder *b, struct buf *text, const char **env)
{
	static const char *const own[][2] = {{"HOME=", "home"},
					     {"XDG_RUNTIME_DIR=", "run"},
					     {"TMPDIR=", "tmp"},
					     {"CONTAINERS_CONF=", "containers.conf"},
					     {"CONTAINERS_STORAGE_CONF=", "storage.conf"},
					     {"CONTAINERS_REGISTRIES_CONF=", "registries.conf"}};
	static const char *const taken[] = {"http_proxy",   "https_proxy", "no_proxy",
					    "HTTP_PROXY",   "HTTPS_PROXY", "NO_PROXY",
					    "SSL_CERT_FILE"};
	char path[PATH_MAX];
	size_t n = 0;
	int r = add(text, env, &n, "PATH=", PATH_DEFAULT);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(own); i++) {
		builder_path(b, own[i][1], path);
		r = add(text, env, &n, own[i][0], path);
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(taken); i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "%s=", taken[i]);
		r = add(text, env, &n, name, getenv(taken[i]));
	}
	if (r >= 0)
		r = add(text, env, &n, "LC_ALL=", "C.UTF-8");
	if (r >= 0)
		r = add(text, env, &n, "BUILDAH_ISOLATION=", "chroot");
	if (r >= 0) /* the space is what it would make */
		r = add(text, env, &n, "_CONTAINERS_USERNS_CONFIGURED=", "done");
	if (r >= 0)
		resolve(text, env, n);
	return r;
}

static int fill_arguments(const struct builder *b, const char *const *more, struct buf *text,
			  const char **argv)
{
	char path[PATH_MAX];
	size_t n = 0;
	int r = add(text, argv, &n, BUILDER, "");

	builder_path(b, "storage", path);
	if (r >= 0)
		r = add(text, argv, &n, "--root=", path);
	builder_path(b, "run", path);
	if (r >= 0)
		r = add(text, argv, &n, "--runroot=", path);
	for (size_t i = 0; r >= 0 && more[i]; i++)
		r = add(text, argv, &n, "", more[i]);
	if (r >= 0)
		resolve(text, argv, n);
	return r;
}

int builder_run(struct builder *b, const char *const *more, bool no_network, struct err *e)
{
	_cleanup_(buf_done) struct buf texts = BUF_INIT(1u << 20);
	_cleanup_(buf_done) struct buf variables = BUF_INIT(1u << 20);
	_cleanup_(child_done) struct child c = CHILD_INIT;
	const char *argv[ARGV_MAX], *env[ARGV_MAX];
	const struct space_options o = {.env = env,
					.cwd = "/",
					.no_network = no_network,
					.file_max = b->options->max_bytes,
					.processes_max = PROCESSES_MAX};

	b->error[0] = b->tail[0] = '\0';
	b->line_len = 0;
	if (fill_environment(b, &variables, env) < 0 || fill_arguments(b, more, &texts, argv) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "preparing the build");
	int r = space_start(argv, &o, &c, e);

	if (r >= 0)
		r = pump(b, &c, e);
	if (r < 0)
		return r; /* the end of C ends everything in its space */
	r = child_wait(&c);
	return r == 0 ? 0 : failed(b, r, e);
}
