/* SPDX-License-Identifier: Apache-2.0 */
/* Part of builds that watch files (base/tenant_fd.h). The other side of the linker's --wrap: where the code of the program
 * says X(), __wrap_X() is called, and __real_X() is X(). meson.build has the list. */
#include "base/tenant_fd.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/uio.h>
#include <unistd.h>

#define WRAP(type, name, params, args)                                                             \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		tenant_fd_check(fd, #name);                                                        \
		return __real_##name args;                                                         \
	}

WRAP(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
WRAP(ssize_t, __read_chk, (int fd, void *p, size_t n, size_t size), (fd, p, n, size))
WRAP(ssize_t, pread64, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(ssize_t, __pread64_chk, (int fd, void *p, size_t n, off_t at, size_t size),
     (fd, p, n, at, size))
WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(int, ftruncate64, (int fd, off_t size), (fd, size))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))

ssize_t __real_sendfile64(int to, int fd, off_t *at, size_t n);
ssize_t __wrap_sendfile64(int to, int fd, off_t *at, size_t n);
ssize_t __wrap_sendfile64(int to, int fd, off_t *at, size_t n)
{
	tenant_fd_check(fd, "sendfile");
	return __real_sendfile64(to, fd, at, n);
}

/* RWF_NOWAIT says what it is for. */
ssize_t __real_preadv64v2(int fd, const struct iovec *v, int n, off_t at, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *v, int n, off_t at, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	if (!(flags & RWF_NOWAIT))
		tenant_fd_check(fd, "preadv2");
	return __real_preadv64v2(fd, v, n, at, flags);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	tenant_fd_check(fd, "close");
	tenant_fd_set(fd, false);
	return __real_close(fd);
}

int __real_fcntl64(int fd, int what, ...);
int __wrap_fcntl64(int fd, int what, ...);
int __wrap_fcntl64(int fd, int what, ...)
{
	va_list more;

	va_start(more, what);
	void *arg = va_arg(more, void *);
	va_end(more);
	const int r = __real_fcntl64(fd, what, arg);
	if ((what == F_DUPFD || what == F_DUPFD_CLOEXEC) && r >= 0 && tenant_fd_is_noted(fd))
		tenant_fd_set(r, true);
	return r;
}
