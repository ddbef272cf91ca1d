/* SPDX-License-Identifier: Apache-2.0 */
/* The extension is loaded into the Python of any image, whose C library may be older than that of the
 * build: Debian 11 has 2.31. Functions that got a new symbol version or became functions later are named
 * here by what every version has. tests/suites/runtime checks the versions that the extension needs.
 *
 * dlopen(3), dlsym(3) and dlclose(3) moved into libc.so.6 in 2.34 and have a second version since then. stat(2) and
 * fstat(2) are functions since 2.33; struct stat is the kernel's on 64-bit machines. */
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dlclose, dlclose@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlopen, dlopen@GLIBC_2.17");
__asm__(".symver dlsym, dlsym@GLIBC_2.17");
__asm__(".symver dlclose, dlclose@GLIBC_2.17");
#endif

static inline int old_stat(const char *path, struct stat *ret)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
}

static inline int old_fstat(int fd, struct stat *ret)
{
	return (int)syscall(SYS_fstat, fd, ret);
}
