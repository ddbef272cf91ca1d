/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fdio.h"

#include "base/kill_points.h"
#include "base/walls.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define OPEN_TRIES_MAX 64

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			struct pollfd wait = {.fd = fd, .events = POLLOUT};
			(void)poll(&wait, 1, -1);
			continue;
		}
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_exact(int fd, void *ret, size_t len)
{
	char *p = ret;

	while (len > 0) {
		ssize_t n = read(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

bool fd_read_last_words(int fd, char *ret, size_t size)
{
	struct stat st;
	const bool any = fd >= 0 && fstat(fd, &st) == 0;
	const off_t room = (off_t)size - 1;
	ssize_t n = any ? pread(fd, ret, size - 1, MAX(st.st_size - room, (off_t)0)) : 0;

	while (n > 0 && ret[n - 1] == '\n')
		n--;
	ret[MAX(n, (ssize_t)0)] = '\0';
	return n > 0;
}

int fd_read_file(int fd, struct buf *b)
{
	for (;;) {
		char piece[16384];
		ssize_t n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		int r = buf_add(b, piece, (size_t)n);
		if (r < 0)
			return r;
	}
}

static int change_flag(int fd, int get, int set, int flag, bool on)
{
	int flags = fcntl(fd, get);

	if (flags < 0)
		return -errno;
	int wanted = on ? flags | flag : flags & ~flag;
	if (wanted != flags && fcntl(fd, set, wanted) < 0)
		return -errno;
	return 0;
}

int fd_set_nonblock(int fd, bool on)
{
	return change_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, bool on)
{
	return change_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int fd_dup(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return copy < 0 ? -errno : copy;
}

void fd_close_many(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fds[i] = fd_close(fds[i]);
}

int fd_close_from(unsigned first)
{
#ifdef CAISSON_KILL_POINTS
	if (syscall(SYS_close_range, first, KILL_POINTS_FD - 1U, 0) < 0)
		return -errno;
	first = KILL_POINTS_FD + 1;
#endif
	return syscall(SYS_close_range, first, ~0U, 0) < 0 ? -errno : 0;
}

union control {
	char bytes[CMSG_SPACE(sizeof(int) * FDIO_PASS_MAX)];
	struct cmsghdr align;
};

ssize_t fd_send(int sock, const void *data, size_t len, const int *fds, size_t n, int flags)
{
	union control control = {0};
	struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &piece, .msg_iovlen = 1};

	if (n > FDIO_PASS_MAX)
		return -E2BIG;
	if (n > 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	for (;;) {
		ssize_t sent = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
		if (sent >= 0)
			return sent;
		if (errno != EINTR)
			return -errno;
	}
}

ssize_t fd_recv(int sock, void *ret, size_t len, int fds[FDIO_PASS_MAX], size_t *ret_n, int flags)
{
	size_t n = 0;
	const ssize_t got = fd_recv_all(sock, ret, len, fds, &n, flags);

	if (got < 0)
		fd_close_many(fds, n);
	else
		*ret_n = n;
	return got;
}

ssize_t fd_recv_all(int sock, void *ret, size_t len, int fds[FDIO_PASS_MAX], size_t *ret_n,
		    int flags)
{
	union control control = {0};
	struct iovec piece = {.iov_base = ret, .iov_len = len};
	struct msghdr msg = {.msg_iov = &piece,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	size_t count = 0;
	ssize_t got;

	*ret_n = 0;
	do
		got = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < here && count < FDIO_PASS_MAX; i++)
			memcpy(&fds[count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
	*ret_n = count;
	return msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC) ? -EPROTO : got;
}

/* The tries are bounded, because a lease on the file gives the same error for as long as its owner likes. */
int fd_openat2(int dir, const char *path, const struct open_how *how)
{
	for (int tries = 0;; tries++) {
		const long fd = syscall(SYS_openat2, dir, path, how, sizeof(*how));

		if (fd >= 0)
			return (int)fd;
		if ((errno != EINTR && errno != EAGAIN) || tries >= OPEN_TRIES_MAX)
			return -errno;
	}
}

/* Whether FD is in file system DEV. */
static int check_walked(int fd, dev_t dev)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_dev == dev ? 0 : -EXDEV;
}

static bool is_link(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* The same for a kernel without openat2(2): gVisor's. One part after the other, so a folder that is renamed
 * meanwhile is followed to where it is now, and no link is. */
static int walk_beneath(int dir, const char *path, int flags, mode_t mode)
{
	char part[NAME_MAX + 1];
	struct stat top;
	_cleanup_fd_ int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (at < 0 || fstat(at, &top) < 0)
		return -errno;
	if (*path == '\0')
		return -ENOENT;
	if (*path == '/')
		return -EXDEV;
	for (;;) {
		const size_t len = strcspn(path, "/");
		const bool last = path[len + strspn(path + len, "/")] == '\0';
		if (len >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, path, len);
		part[len] = '\0';
		if (strcmp(part, "..") == 0)
			return -EXDEV;
		_cleanup_fd_ int next =
		    last ? openat(at, part, flags, mode)
			 : openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int r = next < 0 ? -errno : check_walked(next, top.st_dev);
		if (r == -ENOTDIR && is_link(at, part))
			r = -ELOOP;
		if (r < 0)
			return r;
		if (last)
			return TAKE_FD(next);
		(void)close(at);
		at = TAKE_FD(next);
		path += len + strspn(path + len, "/");
	}
}

int fd_open_beneath(int dir, const char *path, int flags, mode_t mode)
{
	/* openat2(2) refuses O_PATH together with anything that O_PATH would ignore. */
	int added = (flags & O_PATH) ? O_CLOEXEC | O_NOFOLLOW
				     : O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
	struct open_how how = {
	    .flags = (uint64_t)(unsigned)(flags | added),
	    .mode = (flags & O_CREAT) ? mode : 0,
	    .resolve =
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};

	if (!wall_stands(WALL_BENEATH)) {
		how.resolve = 0;
		how.flags &= ~(uint64_t)O_NOFOLLOW;
	}
	if (!wall_stands(WALL_NONBLOCK))
		how.flags &= ~(uint64_t)O_NONBLOCK;

	const int fd = fd_openat2(dir, path, &how);

	return fd == -ENOSYS ? walk_beneath(dir, path, flags | added, mode) : fd;
}

int fd_make_dirs(const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *p = copy + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, mode) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(copy, mode) < 0 && errno != EEXIST ? -errno : 0;
}

int fd_sealed_memfd(const char *name, const void *data, size_t len)
{
	_cleanup_fd_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	int r = fd_write_all(fd, data, len);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static bool stdout_was_closed;

void fd_open_standard(void)
{
	int fd;

	stdout_was_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;

	/* open(2) takes the lowest number that is free. Without /dev/null any folder will do: reading and writing
	 * fail there. */
	do {
		fd = open("/dev/null", O_RDWR); /* without CLOEXEC: children need them as well */
		if (fd < 0)
			fd = open("/", O_PATH);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		(void)close(fd);
}

bool fd_stdout_was_closed(void)
{
	return stdout_was_closed;
}

void fd_raise_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= r.rlim_max)
		return;
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
}

bool fd_folder_allocates(const char *path)
{
	const off_t size = 1 << 16;
	_cleanup_fd_ int fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return true;
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, size) < 0)
		return errno != EOPNOTSUPP;
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size) == 0 ||
	       errno != EOPNOTSUPP;
}
