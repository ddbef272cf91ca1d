/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/outdir.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTDIR_NAME_SIZE 4096 /* ENGINE_PATH_MAX */

struct request {
	/* "" = create a temporary file; else the final name of the last one. */
	char name[OUTDIR_NAME_SIZE];
};

struct reply {
	int error; /* errno, 0 = done */
};

struct outdir {
	int sock;
	pid_t pid;
};

/* ---- the process with the user's rights ---- */

struct writer {
	int dir;
	int sock;
	char temporary[32]; /* "" = none */
};

static int writer_create(struct writer *k)
{
	char random[17];

	if (k->temporary[0])
		(void)unlinkat(k->dir, k->temporary, 0);
	rand_hex(random, 8);
	(void)snprintf(k->temporary, sizeof(k->temporary), ".caisson-%s", random);
	int fd = fd_open_beneath(k->dir, k->temporary, O_WRONLY | O_CREAT | O_EXCL, 0644);
	if (fd < 0)
		k->temporary[0] = '\0';
	return fd;
}

static bool is_name(const char *part)
{
	return part[0] && !streq(part, ".") && !streq(part, "..");
}

/* Makes the folders of PATH and returns a descriptor of the last one. *RET_NAME is the last part of PATH.
 * fd_open_beneath() follows no link, so every part is a folder below k->dir. */
static int writer_folder(const struct writer *k, char *path, char **ret_name)
{
	int dir = fcntl(k->dir, F_DUPFD_CLOEXEC, 0);

	if (dir < 0)
		return -errno;
	for (char *slash; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		*slash = '\0';
		if (!is_name(path) || (mkdirat(dir, path, 0755) < 0 && errno != EEXIST)) {
			const int r = is_name(path) ? -errno : -EINVAL;
			(void)close(dir);
			return r;
		}
		const int next = fd_open_beneath(dir, path, O_RDONLY | O_DIRECTORY, 0);
		(void)close(dir);
		dir = next;
	}
	*ret_name = path;
	return dir;
}

static int writer_place(struct writer *k, char *path)
{
	char *name = path;

	if (!k->temporary[0])
		return -EINVAL;
	_cleanup_fd_ int dir = writer_folder(k, path, &name);
	if (dir < 0)
		return dir;
	/* rename(2) replaces a symbolic link instead of following it, and refuses a folder. */
	if (!is_name(name))
		return -EINVAL;
	if (renameat(k->dir, k->temporary, dir, name) < 0)
		return -errno;
	k->temporary[0] = '\0';
	return 0;
}

NORETURN static void writer_main(struct writer *k)
{
	struct request q;
	int fds[FDIO_PASS_MAX];
	size_t n_fds;

	/* Ctrl-C goes to the whole process group, but this process must end only with the front. */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	while (fd_recv(k->sock, &q, sizeof(q), fds, &n_fds, 0) == (ssize_t)sizeof(q)) {
		struct reply reply = {0};
		_cleanup_fd_ int fd = -1;

		q.name[sizeof(q.name) - 1] = '\0';
		if (q.name[0])
			reply.error = -writer_place(k, q.name);
		else if ((fd = writer_create(k)) < 0)
			reply.error = -fd;
		if (fd_send(k->sock, &reply, sizeof(reply), &fd, fd >= 0 ? 1 : 0, 0) < 0)
			break;
	}
	if (k->temporary[0])
		(void)unlinkat(k->dir, k->temporary, 0);
	_exit(0);
}

/* ---- the front's side ---- */

int outdir_open(const char *dir, struct outdir **ret, struct err *e)
{
	int sockets[2];
	int r = fd_make_dirs(dir, 0755);

	if (r < 0)
		return err_set(e, ERR_USAGE, -r, "--out: cannot make %s", dir);
	_cleanup_fd_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, ERR_USAGE, errno, "--out: cannot open %s", dir);
	_cleanup_free_ struct outdir *o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "--out");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_set(e, ERR_SYSTEM, errno, "--out: socketpair");
	o->sock = sockets[0];
	o->pid = fork();
	if (o->pid == 0) {
		(void)fd_close(sockets[0]);
		struct writer k = {.dir = fd, .sock = sockets[1]};
		writer_main(&k);
	}
	r = -errno;
	(void)fd_close(sockets[1]);
	if (o->pid < 0) {
		(void)fd_close(sockets[0]);
		return err_set(e, ERR_SYSTEM, -r, "--out: fork");
	}
	*ret = TAKE_PTR(o);
	return 0;
}

static int ask(struct outdir *o, const char *name, int *ret_fd, struct err *e)
{
	struct request q = {0};
	struct reply reply = {0};
	int fds[FDIO_PASS_MAX];
	size_t n = 0;

	if (text_copy(q.name, sizeof(q.name), name) < 0)
		return err_set(e, ERR_INVALID_FILENAME, ENAMETOOLONG, "--out");
	ssize_t sent = fd_send(o->sock, &q, sizeof(q), NULL, 0, 0);
	ssize_t got = sent < 0 ? sent : fd_recv(o->sock, &reply, sizeof(reply), fds, &n, 0);
	bool complete = got == (ssize_t)sizeof(reply) && reply.error == 0;
	if (complete && n == (ret_fd ? 1 : 0)) {
		if (ret_fd)
			*ret_fd = fds[0];
		return 0;
	}
	fd_close_many(fds, n);
	return err_set(e, ERR_SYSTEM, reply.error ? reply.error : EPIPE,
		       "--out: cannot write a file");
}

int outdir_create(struct outdir *o, int *ret_fd, struct err *e)
{
	return ask(o, "", ret_fd, e);
}

int outdir_place(struct outdir *o, const char *name, struct err *e)
{
	return *name ? ask(o, name, NULL, e) : -EINVAL;
}

struct outdir *outdir_close(struct outdir *o)
{
	if (!o)
		return NULL;
	(void)fd_close(o->sock);
	while (waitpid(o->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(o);
	return NULL;
}
