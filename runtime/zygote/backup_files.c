/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of a backup. A fork shares the open file descriptions of the session process: as long as the
 * backup had them, a pipe that the session closes would not end, a port would stay taken, and a lock of flock(2)
 * would stay locked. And what the lost cell had read would be read when the backup takes over. So a backup has
 * nothing of the session's own:
 *
 *   regular files, folders   opened anew through /proc/self/fd, with their flags and their position
 *   /dev/null, terminals     shared; there is nothing to close or to read twice
 *   pipes to the resource    shared: at the end of its pipe, a tracker removes the semaphores and the shared memory
 *   trackers of Python       that the variables of the backup name, and complains about them
 *   everything else          a dead end: a socket whose other end is closed. So the number stays taken, a read
 *                            is the end of the file, and a write fails with EPIPE.
 *
 * Databases become dead ends, too. SQLite, DuckDB and LMDB lock the file for their connection, and the lock is
 * not inherited: a connection that goes on without it could destroy the file.
 *
 * The rollback journal of SQLite is opened with O_PATH. A connection that is closed in the middle of a transaction rolls
 * it back and then removes the journal by its name, which by now may be the journal of the dead process. If the journal
 * cannot be read, SQLite leaves everything as it is. A dead end would look like a journal that is empty. */
#include "extension.h"

#include "old_libc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEPT_FLAGS (O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH)

#define LMDB_MAGIC                                                                                 \
	UINT32_C(                                                                                  \
	    0xbeefc0de) /* in the byte order of the machine, after the head of the first page */

/* What SQLite locks of a file (os.h of its sources: PENDING_BYTE, RESERVED_BYTE, SHARED_FIRST, SHARED_SIZE). A pager does so
 * before its first page is written, so a new file may be empty, or begin with nothing. */
#define SQLITE_LOCKS     0x40000000
#define SQLITE_LOCKS_LEN (2 + 510)

/* The locks of the session process are those of another process here. */
static bool is_locked_by_sqlite(int fd)
{
	struct flock lock = {.l_type = F_WRLCK,
			     .l_whence = SEEK_SET,
			     .l_start = SQLITE_LOCKS,
			     .l_len = SQLITE_LOCKS_LEN};

	return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK &&
	       lock.l_start >= SQLITE_LOCKS && lock.l_start < SQLITE_LOCKS + SQLITE_LOCKS_LEN;
}

static bool is_database(int fd)
{
	const uint32_t lmdb = LMDB_MAGIC;
	char head[20];

	if (is_locked_by_sqlite(fd))
		return true;
	return pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	       (memcmp(head, "SQLite format 3", 16) == 0 || memcmp(head + 8, "DUCK", 4) == 0 ||
		memcmp(head + 16, &lmdb, sizeof(lmdb)) == 0);
}

/* What PATH is named after: FILE-journal or FILE-wal. A journal that is written has no magic number yet. */
static bool belongs_to_database(const char *path)
{
	static const char *const ends[] = {"-journal", "-wal"};
	char file[PATH_MAX];
	const ssize_t len = readlink(path, file, sizeof(file) - 1);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const ssize_t base = len - (ssize_t)strlen(ends[i]);
		if (base <= 0 || memcmp(file + base, ends[i], strlen(ends[i])) != 0)
			continue;
		file[base] = '\0';
		const int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		const bool found = fd >= 0 && is_database(fd);
		if (fd >= 0)
			(void)close(fd);
		return found;
	}
	return false;
}

/* A descriptor of its own for the file behind FD, or -1. */
static int open_anew(int fd)
{
	char path[32];
	const off_t at = lseek(fd, 0, SEEK_CUR);

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const int flags = belongs_to_database(path) ? O_PATH : fcntl(fd, F_GETFL);
	int own = flags < 0 ? -1 : open(path, (flags & KEPT_FLAGS) | O_CLOEXEC);
	if (own >= 0 && !(flags & O_PATH) &&
	    (is_database(own) || (at > 0 && lseek(own, at, SEEK_SET) != at))) {
		(void)close(own);
		own = -1;
	}
	return own;
}

/* A socket of the network. One of AF_UNIX belongs to a process of the session, or to its loop, which is made anew. */
static bool is_connection(int fd)
{
	int family = 0;
	socklen_t len = sizeof(family);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 &&
	       (family == AF_INET || family == AF_INET6);
}

static bool is_tracker(int fd)
{
	return fd == zygote.trackers[0] || fd == zygote.trackers[1];
}

static int replace(int fd, int dead_end, uint32_t *connections)
{
	struct stat st;

	if (old_fstat(fd, &st) < 0 || S_ISCHR(st.st_mode))
		return 0; /* it was a descriptor of ours that is closed again */
	if (S_ISFIFO(st.st_mode) && is_tracker(fd))
		return 0;
	const bool file = S_ISREG(st.st_mode);
	const int own = file || S_ISDIR(st.st_mode) ? open_anew(fd) : -1;
	*connections += (file && own < 0 && is_database(fd)) || is_connection(fd);
	const int flags = fcntl(fd, F_GETFD);
	const int r = dup3(own >= 0 ? own : dead_end, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	if (own >= 0)
		(void)close(own);
	return r < 0 ? -errno : 0;
}

/* The number that a name in /proc/self/fd is; 0 for . and .. */
static int number_of(const char *name)
{
	int n = 0;

	for (; *name >= '0' && *name <= '9'; name++)
		n = n * 10 + (*name - '0');
	return n;
}

static int replace_all(int channel, int dead_end, uint32_t *connections)
{
	DIR *all = opendir("/proc/self/fd");
	const struct dirent *de;
	int r = 0;

	if (!all)
		return -errno;
	while (r == 0 && (de = readdir(all))) {
		const int fd = number_of(de->d_name);
		if (fd > 2 && fd != channel && fd != dead_end && fd != dirfd(all))
			r = replace(fd, dead_end, connections);
	}
	(void)closedir(all);
	return r;
}

int backup_files(int channel, uint32_t *ret_connections)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	(void)close(pair[1]);
	/* /proc/self/fd belongs to root while a process is not dumpable */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	*ret_connections = 0;
	const int r = replace_all(channel, pair[0], ret_connections);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)close(pair[0]);
	return r;
}
