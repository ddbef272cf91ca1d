/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tenant_fd.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#define FDS_MAX (1 << 20) /* what has a higher number is not watched */

static atomic_uchar noted[FDS_MAX];
static _Thread_local bool on_loop;

static bool is_watched(int fd)
{
	return fd >= 0 && fd < FDS_MAX;
}

bool tenant_fd_is_noted(int fd)
{
	return is_watched(fd) && atomic_load_explicit(&noted[fd], memory_order_relaxed) != 0;
}

void tenant_fd_note(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		tenant_fd_set(fd, true);
}

void tenant_fd_set(int fd, bool yes)
{
	if (is_watched(fd))
		atomic_store_explicit(&noted[fd], yes ? 1 : 0, memory_order_relaxed);
}

void tenant_fd_allow(int fd)
{
	tenant_fd_set(fd, false);
}

void tenant_fd_on_loop(bool yes)
{
	on_loop = yes;
}

void tenant_fd_check(int fd, const char *call)
{
	if (on_loop && tenant_fd_is_noted(fd))
		assert_failed("a tenant's file is for threads alone", call, fd);
}
