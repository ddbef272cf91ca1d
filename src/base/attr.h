/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes, and cleanups at the end of a scope. Every cleanup preserves errno and does nothing for
 * the empty value (NULL, -1). */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MUST_CHECK   __attribute__((warn_unused_result))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))
#define NORETURN     __attribute__((noreturn))
#define UNUSED       __attribute__((unused))
#define NONNULL      __attribute__((nonnull))
/* A variable whose only purpose is its end is not unused, though clang says so. */
#define _cleanup_(f) __attribute__((cleanup(f), unused))
/* The object of TYPE that PTR is the MEMBER of. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_SIZE(a)                   (sizeof(a) / sizeof((a)[0]))
/* Each argument is evaluated once. Not for constants of the compiler. The counter gives nested ones names of their own. */
#define MIN(a, b)                    PICK_NAMED_(a, <, b, __COUNTER__)
#define MAX(a, b)                    PICK_NAMED_(a, >, b, __COUNTER__)
#define PICK_NAMED_(a, better, b, n) PICK_(a, better, b, n)
#define PICK_(a, better, b, n)                                                                     \
	({                                                                                         \
		__auto_type a_##n = (a);                                                           \
		__auto_type b_##n = (b);                                                           \
		a_##n better b_##n ? a_##n : b_##n;                                                \
	})

/* Returns the value and leaves the empty value in the variable, so that its cleanup does nothing. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int taken_ = (fd);                                                                 \
		(fd) = -1;                                                                         \
		taken_;                                                                            \
	})

/* Closes FD if it is one and returns -1, so `fd = fd_close(fd)` reads as what it does. */
static inline int fd_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;
		(void)close(fd);
		errno = saved;
	}
	return -1;
}

static inline void cleanup_fd(int *fd)
{
	*fd = fd_close(*fd);
}

static inline void cleanup_free(void *p)
{
	int saved = errno;
	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_file(FILE **f)
{
	int saved = errno;
	if (*f)
		(void)fclose(*f);
	errno = saved;
}

static inline void cleanup_dir(DIR **d)
{
	int saved = errno;
	if (*d)
		(void)closedir(*d);
	errno = saved;
}

#define _cleanup_fd_   _cleanup_(cleanup_fd)
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_file_ _cleanup_(cleanup_file)
#define _cleanup_dir_  _cleanup_(cleanup_dir)

/* For bugs of our own code only. What a client, a file or the kernel can cause returns an error
 * instead. Aborts in release builds too. */
NORETURN void assert_failed(const char *expr, const char *file, int line);
#define ASSERT(e) ((e) ? (void)0 : assert_failed(#e, __FILE__, __LINE__))
