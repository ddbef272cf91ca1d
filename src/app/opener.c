/* SPDX-License-Identifier: Apache-2.0 */
#include "app/opener.h"

#include "app/folder_names.h"
#include "base/fdio.h"
#include "base/list.h"
#include "base/log.h"
#include "base/parent.h"
#include "base/rand.h"
#include "base/reap.h"
#include "base/tenant_fd.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ROOTS_MAX   32
#define CHANNEL_FD  3
#define PENDING_MAX 64
#define END_WAIT_NS (2 * NS_PER_S)
#define GONE_TEXT   "the process that opens local files has ended; restart the server"

/* The first byte of a question; the path follows. */
#define ASK_FILE   'f'
#define ASK_FOLDER 'd' /* for the names of its files */

struct answer { /* a descriptor comes with it if errnum is 0 */
	int32_t errnum;
};

/* ---- the process ---- */

struct root {
	int fd;
	char path[PATH_MAX]; /* absolute; "" = any path */
};

struct helper {
	struct root roots[ROOTS_MAX];
	size_t n;
};

/* Adds the folder at PATH. If it cannot be opened, it is left out, and nothing below it can be read. */
static void add_root(struct helper *h, const char *path)
{
	struct root *r = &h->roots[h->n];

	r->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->fd >= 0 && realpath(path, r->path))
		h->n++;
	else
		r->fd = fd_close(r->fd);
}

static void add_roots(struct helper *h, const char *roots)
{
	char path[PATH_MAX];

	if (streq(roots, "*")) {
		add_root(h, ".");
		h->roots[0].path[0] = '\0';
		return;
	}
	while (*roots && h->n < ROOTS_MAX) {
		size_t len = strcspn(roots, ":");
		if (len > 0 && len < sizeof(path)) {
			memcpy(path, roots, len);
			path[len] = '\0';
			add_root(h, path);
		}
		roots += len + (roots[len] == ':');
	}
}

/* The part of PATH below ROOT; NULL: PATH is not below it. */
static const char *below(const struct root *root, const char *path, bool first)
{
	size_t len = strlen(root->path);

	if (path[0] != '/')
		return first ? path : NULL;
	if (len == 1) /* "/" */
		return path[1] ? path + 1 : ".";
	if (strncmp(path, root->path, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	path += len + strspn(path + len, "/");
	return *path ? path : ".";
}

/* Opens PATH without blocking and without getting a controlling terminal. Links are followed as far
 * as RESOLVE allows. Of a folder, returns the names of its files. */
static int open_from(char kind, int dir, const char *path, uint64_t resolve)
{
	struct open_how how = {
	    .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
	    .resolve = resolve | RESOLVE_NO_MAGICLINKS,
	};
	struct stat st;
	_cleanup_fd_ int fd = fd_openat2(dir, path, &how);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (kind == ASK_FOLDER)
		return S_ISDIR(st.st_mode) ? folder_names(TAKE_FD(fd)) : -ENOTDIR;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -ENXIO;
	return TAKE_FD(fd);
}

static int open_path(const struct helper *h, char kind, const char *path)
{
	if (h->n == 1 && h->roots[0].path[0] == '\0')
		return open_from(kind, h->roots[0].fd, path, 0);
	for (size_t i = 0; i < h->n; i++) {
		const char *rest = below(&h->roots[i], path, i == 0);
		if (rest)
			return open_from(kind, h->roots[i].fd, rest, RESOLVE_BENEATH);
	}
	return -EXDEV;
}

NORETURN static void serve(int channel, const char *roots)
{
	static struct helper h;
	char question[1 + PATH_MAX];
	int fds[FDIO_PASS_MAX];

	(void)prctl(PR_SET_NAME, "caisson-opener", 0, 0, 0);
	if (setsid() < 0 ||
	    (channel == CHANNEL_FD ? 0 : dup3(channel, CHANNEL_FD, O_CLOEXEC)) < 0 ||
	    syscall(SYS_close_range, CHANNEL_FD + 1, ~0U, 0) < 0)
		_exit(1);
	const int watch = parent_watch();
	add_roots(&h, roots);
	while (parent_wait(CHANNEL_FD, watch) == 0) {
		size_t n_fds = 0;
		ssize_t n = fd_recv(CHANNEL_FD, question, sizeof(question), fds, &n_fds, 0);
		fd_close_many(fds, n_fds);
		if (n <= 1 || question[n - 1] != '\0')
			break;
		_cleanup_fd_ int fd = open_path(&h, question[0], question + 1);
		struct answer a = {.errnum = fd < 0 ? -fd : 0};
		if (parent_send(CHANNEL_FD, watch, &a, sizeof(a), &fd, fd >= 0) < 0)
			break;
	}
	_exit(0);
}

/* ---- the program's side ---- */

struct question {
	struct list node; /* of the opener's questions */
	tools_local_fn cb;
	void *user;
	char path[];
};

struct opener {
	int fd;
	pid_t pid;
	sd_event_source *source;
	struct list questions; /* oldest first: answers come in this order */
	unsigned n;
};

int opener_start(const char *roots, struct opener **ret, struct err *e)
{
	int pair[2];

	*ret = NULL;
	if (!roots[0])
		return 0;
	struct opener *o = calloc(1, sizeof(*o));
	if (!o || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(o);
		return err_set(e, ERR_SYSTEM, errno, "the opener of local files");
	}
	pid_t pid = fork();
	if (pid == 0)
		serve(pair[1], roots);
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		free(o);
		return err_set(e, ERR_SYSTEM, errno, "the opener of local files");
	}
	o->fd = pair[0];
	o->pid = pid;
	list_init(&o->questions);
	*ret = o;
	return 0;
}

static void answer(struct opener *o, int fd, const struct err *e)
{
	struct question *q = list_pop_first(&o->questions, struct question, node);

	o->n--;
	q->cb(fd, e, q->user);
	free(q);
}

static void explain(struct err *e, int errnum, const char *path)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
		(void)err_set(e, ERR_NOT_FOUND, 0, "Local file not found: %s", path);
		break;
	case EXDEV:
		(void)err_set(e, ERR_FORBIDDEN, 0,
			      "%s is not in a folder that this server may read: name its folder in "
			      "upload.local_roots (SANDBOX_UPLOAD_LOCAL_ROOTS), or write the file "
			      "with code",
			      path);
		break;
	case EISDIR:
		(void)err_set(e, ERR_INVALID_PATH, 0,
			      "%s is a folder: upload its files, or one "
			      "archive of them",
			      path);
		e->errnum = EISDIR; /* for callers that can take a folder */
		break;
	case E2BIG:
		(void)err_set(
		    e, ERR_INVALID_PATH, 0,
		    "%s has more than %u files, or folders in more than %u others: upload "
		    "one archive of it",
		    path, FOLDER_FILES_MAX, FOLDER_DEPTH_MAX);
		break;
	default:
		(void)err_set(e, ERR_FORBIDDEN, errnum, "%s cannot be read", path);
		break;
	}
}

static void fail_all(struct opener *o, enum err_code code, const char *why)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, code, 0, "%s", why);
	while (!list_is_empty(&o->questions))
		answer(o, -1, &e);
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents UNUSED, void *user)
{
	struct opener *o = user;
	struct answer a;
	struct err e = ERR_INIT;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(fd, &a, sizeof(a), fds, &n_fds, MSG_DONTWAIT);

	if (n == -EAGAIN)
		return 0;
	const struct question *q = list_first(&o->questions, struct question, node);
	if (n != (ssize_t)sizeof(a) || !q || (a.errnum == 0) != (n_fds == 1)) {
		fd_close_many(fds, n_fds);
		LOG_ERROR("opener_lost", LOG_S("remedy", "restart the server"));
		fail_all(o, ERR_SYSTEM, GONE_TEXT);
		return sd_event_source_set_enabled(source, SD_EVENT_OFF);
	}
	if (a.errnum != 0)
		explain(&e, a.errnum, q->path);
	else
		tenant_fd_note(fds[0]);
	answer(o, a.errnum == 0 ? fds[0] : -1, a.errnum == 0 ? NULL : &e);
	return 0;
}

int opener_attach(struct opener *o, sd_event *loop)
{
	return o ? sd_event_add_io(loop, &o->source, o->fd, EPOLLIN, on_answer, o) : 0;
}

static int ask(struct opener *o, char kind, const char *path, tools_local_fn cb, void *user,
	       struct err *e)
{
	char question[1 + PATH_MAX];
	size_t len = strlen(path) + 1;

	if (len > PATH_MAX)
		return err_set(e, ERR_INVALID_PATH, ENAMETOOLONG, "the local path");
	if (o->n == PENDING_MAX)
		return err_set(e, ERR_SESSION_BUSY, 0, "%u local files are being opened already",
			       o->n);
	struct question *q = calloc(1, sizeof(*q) + len);
	if (!q)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a local file");
	q->cb = cb;
	q->user = user;
	memcpy(q->path, path, len);
	question[0] = kind;
	memcpy(question + 1, path, len);
	ssize_t n = fd_send(o->fd, question, 1 + len, NULL, 0, MSG_DONTWAIT);
	if (n < 0) {
		free(q);
		return err_set(e, ERR_SYSTEM, (int)-n, GONE_TEXT);
	}
	list_append(&o->questions, &q->node);
	o->n++;
	return 0;
}

int opener_open(void *opener, const char *path, tools_local_fn cb, void *user, struct err *e)
{
	return ask(opener, ASK_FILE, path, cb, user, e);
}

int opener_list(void *opener, const char *path, tools_local_fn cb, void *user, struct err *e)
{
	return ask(opener, ASK_FOLDER, path, cb, user, e);
}

struct opener *opener_free(struct opener *o)
{
	if (!o)
		return NULL;
	o->source = sd_event_source_disable_unref(o->source);
	fail_all(o, ERR_CANCELLED, "the server is about to end");
	o->fd = fd_close(o->fd);
	reap_child(o->pid, END_WAIT_NS); /* it may be opening a file of a slow network folder */
	free(o);
	return NULL;
}
