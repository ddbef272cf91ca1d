/* SPDX-License-Identifier: Apache-2.0 */
/* Finds I/O that would hold the event loop. Files of tenants are read, written and closed by threads (base/workers.h),
 * because their disk may be slow, their owner may be cutting them, and the last close frees all blocks. Whoever receives
 * a descriptor of such a file says so, and builds that look (with sanitizers, or with -Dremovable_walls=true) abort when
 * the loop reads, writes, flushes, cuts or closes it. The linker leads those calls there (--wrap), so code needs nothing
 * else. In other builds nothing of this exists. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>

#ifdef CAISSON_WATCH_FILES
/* FD came from a sandbox, or from whoever opened a file for a client. What is no regular file is left alone: it frees
 * nothing, and no code of ours waits for it. Until FD is closed. */
void tenant_fd_note(int fd);
/* FD is known to be in memory, and small: the loop may read it. */
void tenant_fd_allow(int fd);
/* This thread runs the loop, from now on or no more. */
void tenant_fd_on_loop(bool yes);
/* For tenant_calls.c. */
void tenant_fd_set(int fd, bool yes);
bool tenant_fd_is_noted(int fd);
void tenant_fd_check(int fd, const char *call);
#else
static inline void tenant_fd_note(int fd UNUSED)
{
}
static inline void tenant_fd_allow(int fd UNUSED)
{
}
static inline void tenant_fd_on_loop(bool yes UNUSED)
{
}
#endif
