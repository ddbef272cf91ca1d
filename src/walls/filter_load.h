/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a compiled system call filter (filter.h). It is also for static programs that get the filter
 * as bytes (init) and for children between fork and exec: one raw system call, async-signal-safe,
 * and no headers but the kernel's.
 *
 * The caller must be single-threaded and must have set no_new_privs, without which the kernel
 * answers EACCES. Every later child inherits the filter, and nothing removes it. */
#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILTER_MAX 1024 /* instructions; the kernel takes at most BPF_MAXINSNS = 4096 */

/* N instructions at INSN (aligned for struct sock_filter). Returns 0 or -errno. */
static inline int filter_load(const struct sock_filter *insn, uint16_t n)
{
	union { /* sock_fprog wants a pointer to non-const; the kernel only reads it */
		const struct sock_filter *in;
		struct sock_filter *out;
	} u = {.in = insn};
	struct sock_fprog prog = {.len = n, .filter = u.out};

	if (n == 0 || n > FILTER_MAX)
		return -EINVAL;
	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) != 0)
		return -errno;
	return 0;
}
