/* SPDX-License-Identifier: Apache-2.0 */
/* stat(2) and access(2) of the files that this library makes when a program opens them: many programs ask whether a file is
 * there before they open it. As with open(2), something happens only where the kernel does not know the file. */
#include "machine_files.h"

#include "old_libc.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* <sys/stat.h> has struct statx only for GNU, and other names for arguments that programs may leave out. */
#define PUBLIC     __attribute__((visibility("default")))
#define READABLE   (S_IFREG | 0444)
#define BLOCK_SIZE 4096

/* As proc(5) and sysfs(5) tell it of their files: the size is 0 whatever is in them. */
static int tell(struct stat *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->st_mode = READABLE;
	ret->st_nlink = 1;
	ret->st_blksize = BLOCK_SIZE;
	return 0;
}

static int stat_or_tell(int dir, const char *path, struct stat *ret, int flags)
{
	const int r = (int)syscall(SYS_newfstatat, dir, path, ret, flags);

	if (r == 0 || errno != ENOENT)
		return r;
	if (machine_makes(dir, path))
		return tell(ret);
	errno = ENOENT;
	return r;
}

PUBLIC int stat(const char *path, struct stat *ret)
{
	return stat_or_tell(AT_FDCWD, path, ret, 0);
}

PUBLIC int lstat(const char *path, struct stat *ret)
{
	return stat_or_tell(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
}

PUBLIC int fstatat(int dir, const char *path, struct stat *ret, int flags)
{
	return stat_or_tell(dir, path, ret, flags);
}

/* struct stat64 is struct stat on 64-bit machines. */
PUBLIC int stat64(const char *path, struct stat64 *ret)
{
	return stat_or_tell(AT_FDCWD, path, (struct stat *)ret, 0);
}

PUBLIC int lstat64(const char *path, struct stat64 *ret)
{
	return stat_or_tell(AT_FDCWD, path, (struct stat *)ret, AT_SYMLINK_NOFOLLOW);
}

PUBLIC int fstatat64(int dir, const char *path, struct stat64 *ret, int flags)
{
	return stat_or_tell(dir, path, (struct stat *)ret, flags);
}

/* What programs call that were linked before glibc 2.33. VERSION says which struct; 64-bit machines have one. */
int __xstat(int version, const char *path, struct stat *ret);
int __lxstat(int version, const char *path, struct stat *ret);
int __xstat64(int version, const char *path, struct stat64 *ret);
int __lxstat64(int version, const char *path, struct stat64 *ret);

PUBLIC int __xstat(int version, const char *path, struct stat *ret)
{
	(void)version;
	return stat(path, ret);
}

PUBLIC int __lxstat(int version, const char *path, struct stat *ret)
{
	(void)version;
	return lstat(path, ret);
}

PUBLIC int __xstat64(int version, const char *path, struct stat64 *ret)
{
	(void)version;
	return stat64(path, ret);
}

PUBLIC int __lxstat64(int version, const char *path, struct stat64 *ret)
{
	(void)version;
	return lstat64(path, ret);
}

PUBLIC int statx(int dir, const char *path, int flags, unsigned mask, struct statx *ret)
{
	const int r = (int)syscall(SYS_statx, dir, path, flags, mask, ret);

	if (r == 0 || errno != ENOENT)
		return r;
	if (!machine_makes(dir, path)) {
		errno = ENOENT;
		return r;
	}
	memset(ret, 0, sizeof(*ret));
	ret->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_SIZE;
	ret->stx_mode = READABLE;
	ret->stx_nlink = 1;
	ret->stx_blksize = BLOCK_SIZE;
	return 0;
}

static int access_or_tell(int dir, const char *path, int how, int r)
{
	if (r == 0 || errno != ENOENT)
		return r;
	if (!machine_makes(dir, path)) {
		errno = ENOENT;
		return r;
	}
	if ((how & (W_OK | X_OK)) == 0)
		return 0;
	errno = EACCES;
	return -1;
}

PUBLIC int access(const char *path, int how)
{
	return access_or_tell(AT_FDCWD, path, how,
			      (int)syscall(SYS_faccessat, AT_FDCWD, path, how));
}

/* The kernel knows flags from Linux 5.8 on. Before that the C library asks in other ways. */
PUBLIC int faccessat(int dir, const char *path, int how, int flags)
{
	if (flags == 0)
		return access_or_tell(dir, path, how, (int)syscall(SYS_faccessat, dir, path, how));
	int (*original)(int, const char *, int, int);
	void *found = dlsym(RTLD_NEXT, "faccessat");

	memcpy(&original, &found, sizeof(original));
	return access_or_tell(dir, path, how, original(dir, path, how, flags));
}
