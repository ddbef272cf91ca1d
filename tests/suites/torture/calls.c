/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that take a descriptor or a watch of epoll fail when they are told to. CALLS_CONTROL names a file
 * of struct control, which the test writes and reads while the server runs. Only the thread that loaded
 * the library is hindered: the event loop. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { WATCHES = 1, ACCEPTS = 2, DESCRIPTORS = 4 }; /* bits of control.which */

struct control {
	int64_t fail_at; /* calls until one fails: 1 = the next; 0 = none will */
	int64_t fired;   /* failures so far */
	int64_t which;   /* the calls that count */
	int64_t go_on;   /* not 0: all calls after that one fail as well */
};

static struct control idle, *control = &idle;
static pid_t loop;

static void *find(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		abort();
	return p;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("CALLS_CONTROL");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	loop = gettid();
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (p != MAP_FAILED)
		control = p;
}

static int fails(int64_t kind, int error)
{
	int64_t at = __atomic_load_n(&control->fail_at, __ATOMIC_RELAXED);

	if (at <= 0 || !(__atomic_load_n(&control->which, __ATOMIC_RELAXED) & kind) ||
	    gettid() != loop)
		return 0;
	if (at > 1 || !__atomic_load_n(&control->go_on, __ATOMIC_RELAXED))
		at = __atomic_sub_fetch(&control->fail_at, 1, __ATOMIC_RELAXED);
	else
		at = 0;
	if (at != 0)
		return 0;
	(void)__atomic_add_fetch(&control->fired, 1, __ATOMIC_RELAXED);
	errno = error;
	return 1;
}

#define HOOK(type, name, params, args, hinders, error)                                             \
	EXPORT type name params                                                                    \
	{                                                                                          \
		static type(*real) params;                                                         \
                                                                                                   \
		if (!real)                                                                         \
			real = (type(*) params)find(#name);                                        \
		return fails(hinders, error) ? -1 : real args;                                     \
	}

HOOK(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *ev), (epfd, op, fd, ev),
     op == EPOLL_CTL_ADD ? WATCHES : 0, ENOSPC)
HOOK(int, accept4, (int fd, struct sockaddr *from, socklen_t *len, int flags),
     (fd, from, len, flags), ACCEPTS, ENFILE)
HOOK(int, memfd_create, (const char *name, unsigned flags), (name, flags), DESCRIPTORS, EMFILE)
HOOK(int, eventfd, (unsigned n, int flags), (n, flags), DESCRIPTORS, EMFILE)
HOOK(int, timerfd_create, (int id, int flags), (id, flags), DESCRIPTORS, EMFILE)
HOOK(int, inotify_init1, (int flags), (flags), DESCRIPTORS, EMFILE)
HOOK(int, pipe2, (int fds[2], int flags), (fds, flags), DESCRIPTORS, EMFILE)
HOOK(int, socket, (int domain, int type, int protocol), (domain, type, protocol), DESCRIPTORS,
     EMFILE)
HOOK(int, socketpair, (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds), DESCRIPTORS, ENFILE)

static int mode_of(int flags, va_list list)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;
}

EXPORT int open64(const char *path, int flags, ...)
{
	static int (*real)(const char *, int, ...);
	va_list list;

	va_start(list, flags);
	int mode = mode_of(flags, list);
	va_end(list);
	if (!real)
		real = (int (*)(const char *, int, ...))find("open64");
	return fails(DESCRIPTORS, EMFILE) ? -1 : real(path, flags, mode);
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
	static int (*real)(int, const char *, int, ...);
	va_list list;

	va_start(list, flags);
	int mode = mode_of(flags, list);
	va_end(list);
	if (!real)
		real = (int (*)(int, const char *, int, ...))find("openat64");
	return fails(DESCRIPTORS, EMFILE) ? -1 : real(dir, path, flags, mode);
}

EXPORT int fcntl64(int fd, int op, ...)
{
	static int (*real)(int, int, ...);
	va_list list;

	va_start(list, op);
	long arg = va_arg(list, long);
	va_end(list);
	if (!real)
		real = (int (*)(int, int, ...))find("fcntl64");
	return fails(op == F_DUPFD || op == F_DUPFD_CLOEXEC ? DESCRIPTORS : 0, EMFILE)
		   ? -1
		   : real(fd, op, arg);
}

EXPORT long syscall(long number, ...)
{
	static long (*real)(long, ...);
	va_list list;
	long arg[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(list, long);
	va_end(list);
	if (!real)
		real = (long (*)(long, ...))find("syscall");
	return fails(number == SYS_memfd_create || number == SYS_openat2 ? DESCRIPTORS : 0, EMFILE)
		   ? -1
		   : real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
