/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that a process cannot close. Programs close everything that they do not know: os.closerange(), closefrom(3),
 * a loop over close(2), as code does that makes itself a daemon. The process of a session would lose the channel on which
 * its next cell comes. So the session names its own descriptors here (runtime/zygote/kept_files.c), and these functions
 * of the C library act as if those were not there. A child that it forks may close them: it has another process id.
 *
 * The system calls themselves still close them. That harms nobody but the session. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC       __attribute__((visibility("default")))
#define KEPT_MAX     16
#define ONLY_CLOEXEC 4u /* CLOSE_RANGE_CLOEXEC: nothing is closed now */

static struct {
	int fds[KEPT_MAX]; /* from the lowest */
	size_t n;
	pid_t keeper;
} kept;

void caisson_keep(const int *fds, size_t n);
void closefrom(int first);
int close_range(unsigned first, unsigned last, int flags);

static bool is_keeper(void)
{
	return kept.n > 0 && (pid_t)syscall(SYS_getpid) == kept.keeper;
}

static bool is_kept(int fd)
{
	for (size_t i = 0; i < kept.n; i++)
		if (kept.fds[i] == fd)
			return is_keeper();
	return false;
}

/* Those before are not kept any more. Negative numbers are left out. */
PUBLIC void caisson_keep(const int *fds, size_t n)
{
	size_t all = 0;

	kept.n = 0;
	kept.keeper = (pid_t)syscall(SYS_getpid);
	for (size_t i = 0; i < n && all < KEPT_MAX; i++) {
		size_t at = all;
		if (fds[i] < 0)
			continue;
		for (; at > 0 && kept.fds[at - 1] > fds[i]; at--)
			kept.fds[at] = kept.fds[at - 1];
		kept.fds[at] = fds[i];
		all++;
	}
	kept.n = all;
}

PUBLIC int close(int fd)
{
	if (is_kept(fd)) {
		errno = EBADF;
		return -1;
	}
	return (int)syscall(SYS_close, fd);
}

PUBLIC int close_range(unsigned first, unsigned last, int flags)
{
	if (((unsigned)flags & ONLY_CLOEXEC) || !is_keeper())
		return (int)syscall(SYS_close_range, first, last, flags);
	for (size_t i = 0; i < kept.n; i++) {
		const unsigned fd = (unsigned)kept.fds[i];
		if (fd < first || fd > last)
			continue;
		if (fd > first && syscall(SYS_close_range, first, fd - 1, flags) < 0)
			return -1;
		if (fd == last)
			return 0;
		first = fd + 1;
	}
	return (int)syscall(SYS_close_range, first, last, flags);
}

PUBLIC void closefrom(int first)
{
	const int start = first > 0 ? first : 0;

	if (close_range((unsigned)start, UINT_MAX, 0) == 0)
		return;
	for (long fd = start; fd < sysconf(_SC_OPEN_MAX); fd++) /* before Linux 5.9 */
		(void)close((int)fd);
}

PUBLIC int dup3(int from, int to, int flags)
{
	if (from != to && is_kept(to)) {
		errno = EBUSY;
		return -1;
	}
	return (int)syscall(SYS_dup3, from, to, flags);
}

PUBLIC int dup2(int from, int to)
{
	if (from == to)
		return fcntl(from, F_GETFD) < 0 ? -1 : to;
	return dup3(from, to, 0);
}
