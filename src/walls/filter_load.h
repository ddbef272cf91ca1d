/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a prebuilt system call filter. For static programs that get the filter as bytes (init)
 * and for children between fork and exec: one raw call, async-signal-safe, nothing but kernel
 * headers.
 *
 * The caller has set no_new_privs before (the kernel answers -EACCES otherwise) and is
 * single-threaded. The filter is inherited by every later child and cannot be taken off again. */
#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NATIVE_FILTER_MAX 1024 /* instructions; the kernel's own bound is BPF_MAXINSNS = 4096 */

/* N instructions at INSN (aligned for struct sock_filter). Returns 0 or -errno. */
static inline int native_filter_load(const struct sock_filter *insn, uint16_t n)
{
	union { /* sock_fprog wants a pointer to non-const; the kernel only reads it */
		const struct sock_filter *in;
		struct sock_filter *out;
	} u = {.in = insn};
	struct sock_fprog prog = {.len = n, .filter = u.out};

	if (n == 0 || n > NATIVE_FILTER_MAX)
		return -EINVAL;
	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) != 0)
		return -errno;
	return 0;
}
