/* SPDX-License-Identifier: Apache-2.0 */
/* The unix socket that `caisson stdio` finds the server by: who may listen, and who removes it.
 *
 * A server holds a lock on a file beside the socket. A socket without a lock holder is left over from
 * a dead server and is replaced. A server that root started cannot remove the file after it gave up
 * its privileges. So it forks a remover before, which waits for the end of a pipe, removes the file,
 * and then releases the lock. */
#include "bridge/bridge.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "config/paths.h"

#include <fcntl.h>
#include <libgen.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#define BACKLOG     128
#define LOCK_SUFFIX ".lock"
#define LINKS_MAX   40

/* ---- the folder ---- */

/* Whether nobody but root and UID can put something else in the place of what is in the folder ST. */
static bool is_safe_folder(const struct stat *st, uid_t uid)
{
	const bool group = (st->st_mode & S_IWGRP) && st->st_gid != 0 && st->st_gid != getegid();

	return (st->st_uid == uid || st->st_uid == 0) &&
	       ((st->st_mode & S_ISVTX) || (!group && !(st->st_mode & S_IWOTH)));
}

/* Puts what the link FD says before REST. */
static int follow(int fd, char *rest, size_t size)
{
	char target[PATH_MAX];
	const ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	const size_t len = strlen(rest);
	if ((size_t)n + 1 + len >= size)
		return -ENAMETOOLONG;
	memmove(rest + n + 1, rest, len + 1);
	memcpy(rest, target, (size_t)n);
	rest[n] = '/';
	return 0;
}

/* Opens PATH, an absolute one, part by part. Each folder on the way, and each symbolic link, must be such that no other
 * user can lead us elsewhere: who owns one of them could let root make files where it does not want any. */
static int open_safely(const char *path, uid_t uid)
{
	char rest[2 * PATH_MAX];
	int links = 0;
	struct stat st;
	_cleanup_fd_ int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (text_copy(rest, sizeof(rest), path) < 0)
		return -ENAMETOOLONG;
	while (dir >= 0 && rest[strspn(rest, "/")]) {
		char part[PATH_MAX];
		const char *from = rest + strspn(rest, "/");
		const size_t n = strcspn(from, "/");
		if (n >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, from, n);
		part[n] = '\0';
		memmove(rest, from + n, strlen(from + n) + 1);
		_cleanup_fd_ int fd = openat(dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fstat(dir, &st) < 0)
			return -errno;
		if (!is_safe_folder(&st, uid))
			return -EPERM;
		if (fstat(fd, &st) < 0)
			return -errno;
		if (st.st_uid != uid && st.st_uid != 0)
			return -EPERM;
		if (!S_ISLNK(st.st_mode)) {
			(void)fd_close(dir);
			dir = TAKE_FD(fd);
			continue;
		}
		const int r = ++links > LINKS_MAX ? -ELOOP : follow(fd, rest, sizeof(rest));
		if (r < 0)
			return r;
		if (rest[0] == '/') {
			(void)fd_close(dir);
			dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		}
	}
	return dir < 0 ? -errno : TAKE_FD(dir);
}

/* Makes FOLDER, of a default socket. Its parent is a runtime folder, which is there, or the state folder. The front may write in
 * it, so it is not the state folder itself. */
static int make_folder(const char *folder, const struct app *a, struct err *e)
{
	const size_t n = strlen(a->state_dir);
	const bool in_state = strncmp(folder, a->state_dir, n) == 0 && streq(folder + n, "/run");
	int r = in_state ? fd_make_dirs(a->state_dir, 0755) : 0;

	if (r == 0 && mkdir(folder, 0700) < 0 && errno != EEXIST)
		r = -errno;
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "'%s'", folder) : 0;
}

/* Opens the folder of the socket and checks that no other user can replace files in it, nor the folder itself. Makes
 * it only if it is the default folder. */
static int open_folder(struct bridge_socket *s, const struct app *make, struct err *e)
{
	char copy[PATH_MAX];
	struct stat st;

	if (text_copy(copy, sizeof(copy), s->path) < 0)
		return -ENAMETOOLONG;
	const char *folder = dirname(copy);
	const int made = make ? make_folder(folder, make, e) : 0;
	if (made < 0)
		return made;
	s->dir = open_safely(folder, s->uid);
	if (s->dir == -EPERM)
		return err_set(e, ERR_SYSTEM, EPERM,
			       "'%s' must be a folder that nobody else can write to, and so must "
			       "be all folders and "
			       "links that lead to it",
			       folder);
	if (s->dir < 0 || fstat(s->dir, &st) < 0)
		return err_set(e, ERR_SYSTEM, s->dir < 0 ? -s->dir : errno, "'%s'", folder);
	if (!S_ISDIR(st.st_mode) || (st.st_uid != s->uid && st.st_uid != 0) ||
	    (st.st_mode & 022) != 0)
		return err_set(e, ERR_SYSTEM, EPERM,
			       "'%s' must be a folder that nobody else can write to", folder);
	return 0;
}

/* ---- the lock ---- */

static int take_lock(struct bridge_socket *s, struct err *e)
{
	char name[NAME_MAX + sizeof(LOCK_SUFFIX) + 1];

	(void)snprintf(name, sizeof(name), "%s%s", s->name, LOCK_SUFFIX);
	s->lock = openat(s->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s%s'", s->path, LOCK_SUFFIX);
	if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, ERR_SYSTEM, errno == EWOULDBLOCK ? 0 : errno,
			       "another server listens on '%s'", s->path);
	return 0;
}

/* We hold the lock, so no server of ours listens. A file that something else listens on is left
 * alone. */
static int remove_dead(const struct bridge_socket *s, const struct sockaddr_un *addr, struct err *e)
{
	struct stat st;
	_cleanup_fd_ int fd = -1;

	if (fstatat(s->dir, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_set(e, ERR_SYSTEM, errno, "'%s'", s->path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_SYSTEM, EEXIST, "'%s'", s->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "socket");
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno != ECONNREFUSED)
		return err_set(e, ERR_SYSTEM, EADDRINUSE, "'%s'", s->path);
	if (unlinkat(s->dir, s->name, 0) < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s'", s->path);
	return 0;
}

static int bind_and_listen(struct bridge_socket *s, struct err *e)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct stat st;

	/* In the folder that was checked, whatever its path means by now. Clients use the path. */
	char path[PATH_MAX];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", s->dir, s->name);
	if (text_copy(addr.sun_path, sizeof(addr.sun_path), path) < 0)
		return err_set(e, ERR_SYSTEM, ENAMETOOLONG, "'%s'", s->path);
	int r = remove_dead(s, &addr, e);
	if (r < 0)
		return r;
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "socket");
	/* The umask gives the file its mode when it is made, so others can never connect. */
	const mode_t old = umask(0177);
	r = bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	(void)umask(old);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "bind '%s'", s->path);
	if (fstatat(s->dir, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, ERR_SYSTEM, errno, "listen on '%s'", s->path);
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	s->fd = TAKE_FD(fd);
	return 0;
}

/* ---- cleaning up ---- */

/* Removes the file only if it is ours. */
static void remove_file(const struct bridge_socket *s)
{
	struct stat st;

	if (fstatat(s->dir, s->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == s->dev &&
	    st.st_ino == s->ino)
		(void)unlinkat(s->dir, s->name, 0);
}

/* The remover. It holds only the folder, the lock and the pipe, and ends when the server ends, also if
 * that is killed. */
NORETURN static void wait_and_remove(const struct bridge_socket *s, int pipe_fd)
{
	char byte;
	sigset_t all;
	int dir, lock, end;

	/* Its own session and no signals: Ctrl-C on a terminal is for the server only. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)setsid();
	(void)prctl(PR_SET_NAME, "caisson-socket");
	dir = fcntl(s->dir, F_DUPFD, 16);
	lock = fcntl(s->lock, F_DUPFD, 16);
	end = fcntl(pipe_fd, F_DUPFD, 16);
	if (dir < 0 || lock < 0 || end < 0 || syscall(SYS_close_range, 0, 15, 0) < 0)
		_exit(1);
	const unsigned last = (unsigned)MAX(MAX(dir, lock), end);
	if (syscall(SYS_close_range, last + 1, ~0U, 0) < 0 || chdir("/") < 0)
		_exit(1);
	while (read(end, &byte, 1) < 0 && errno == EINTR) {
	}
	struct bridge_socket own = *s;
	own.dir = dir;
	remove_file(&own);
	_exit(0);
}

static int start_remover(struct bridge_socket *s, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, ERR_SYSTEM, errno, "pipe");
	const pid_t pid = fork();
	if (pid == 0) {
		(void)fd_close(ends[1]);
		wait_and_remove(s, ends[0]);
	}
	(void)fd_close(ends[0]);
	if (pid < 0) {
		(void)fd_close(ends[1]);
		return err_set(e, ERR_SYSTEM, errno, "fork");
	}
	s->remover = ends[1];
	s->remover_pid = pid;
	return 0;
}

/* ---- both ---- */

/* MAKE: the folder is made if it is missing; NULL: it is not. */
static int open_all(struct bridge_socket *s, const struct app *make, struct err *e)
{
	int r = open_folder(s, make, e);

	r = r < 0 ? r : take_lock(s, e);
	r = r < 0 ? r : bind_and_listen(s, e);
	return r < 0 || s->uid != 0 ? r : start_remover(s, e);
}

int bridge_socket_open(struct bridge_socket *s, const struct app *a, char *why, struct err *e)
{
	const bool named = settings_is_explicit(&a->settings, SETTING_ID_socket);
	struct err said = ERR_INIT;
	char copy[PATH_MAX];

	*s = BRIDGE_SOCKET_NONE;
	why[0] = '\0';
	int r = config_socket_path(&a->settings, s->path, sizeof(s->path), e);
	if (r < 0 || !s->path[0])
		return r;
	(void)snprintf(copy, sizeof(copy), "%s", s->path);
	if (text_copy(s->name, sizeof(s->name) - sizeof(LOCK_SUFFIX), basename(copy)) < 0)
		return err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "SANDBOX_SOCKET");
	s->uid = geteuid();
	r = open_all(s, a->settings.socket[0] ? NULL : a, &said);
	if (r >= 0)
		return 0;
	bridge_socket_close(s);
	if (named) {
		*e = said;
		return err_wrap(e, "SANDBOX_SOCKET");
	}
	(void)snprintf(why, ERR_TEXT_MAX, "%s", said.text);
	return 0;
}

void bridge_socket_close(struct bridge_socket *s)
{
	if (s->fd >= 0 && s->remover_pid == 0)
		remove_file(s);
	s->fd = fd_close(s->fd);
	s->remover = fd_close(s->remover);
	s->lock = fd_close(s->lock);
	s->dir = fd_close(s->dir);
	if (s->remover_pid > 0)
		(void)waitpid(s->remover_pid, NULL, 0);
	s->remover_pid = 0;
}
