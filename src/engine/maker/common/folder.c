/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/common/folder.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* NONBLOCK: if something made a pipe of a workspace's file, opening it must not wait for a writer. */
#define LOCK_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define LOCK_TRIES 100 /* the file was replaced each time */
#define SWEEP_MAX  100000

/* "PREFIX" and 16 random digits. */
static void name_aside(char ret[FOLDER_NAME_MAX], const char *prefix)
{
	char random[17];

	rand_hex(random, 8);
	(void)snprintf(ret, FOLDER_NAME_MAX, "%s%s", prefix, random);
}

/* Whether FD is still the file NAME: who had the lock may have removed it before we got it. */
static bool is_still(int dir, const char *name, int fd)
{
	struct stat a;
	struct stat b;

	return fstat(fd, &a) == 0 && fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* A file of ours that we may not open has lost its rights to a wrong hand. It may be locked all the same. A link is no
 * such file: it gives ELOOP. */
static int open_file(int dir, const char *name, int flags)
{
	const int fd = openat(dir, name, flags | LOCK_FLAGS, 0600);

	if (fd >= 0 || errno != EACCES)
		return fd;
	if (fchmodat(dir, name, 0700, 0) < 0) {
		errno = EACCES;
		return -1;
	}
	return openat(dir, name, flags | LOCK_FLAGS, 0600);
}

bool folder_is_foreign(int r)
{
	return r == -ELOOP || r == -EISDIR || r == -ENXIO || r == -EACCES;
}

int folder_lock(int dir, const char *name, int flags)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		_cleanup_fd_ int fd = open_file(dir, name, flags);
		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			return errno == EWOULDBLOCK ? -EBUSY : -errno;
		if (is_still(dir, name, fd))
			return TAKE_FD(fd);
	}
	return -EBUSY;
}

int folder_new_lock(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
		return -errno;
	return st.st_nlink > 0 ? TAKE_FD(fd) : -EAGAIN;
}

static int make_new(int dir, const char *name, bool folder)
{
	const int flags = folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_EXCL;

	if (folder && mkdirat(dir, name, 0700) < 0)
		return -errno;
	_cleanup_fd_ int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return is_still(dir, name, fd) ? TAKE_FD(fd) : -EAGAIN;
}

int folder_new(int dir, char ret_name[FOLDER_NAME_MAX], bool folder)
{
	int fd = -EAGAIN;

	for (int i = 0; i < LOCK_TRIES && fd == -EAGAIN; i++) {
		name_aside(ret_name, FOLDER_NEW);
		fd = make_new(dir, ret_name, folder);
	}
	return fd;
}

int folder_set_aside(int dir, const char *name)
{
	char aside[FOLDER_NAME_MAX];

	name_aside(aside, FOLDER_DEAD);
	return renameat(dir, name, dir, aside) < 0 && errno != ENOENT ? -errno : 0;
}

/* ---- removal ---- */

/* The sandbox is gone, so nobody moves folders meanwhile. What cannot be removed is tried again by the next sweep. */
static void remove_aside(int dir, const char *name)
{
	_cleanup_fd_ int lock = folder_lock(dir, name, O_RDONLY);

	if (lock < 0 && !folder_is_foreign(lock))
		return;
	const int r UNUSED = tree_remove(dir, name);
}

/* Skips workspaces that are being made: their makers hold the lock. */
void folder_sweep(int dir)
{
	const int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;
	int seen = 0;

	while (d && seen++ < SWEEP_MAX && (de = readdir(d)))
		if (text_starts_with(de->d_name, FOLDER_NEW) ||
		    text_starts_with(de->d_name, FOLDER_DEAD))
			remove_aside(dir, de->d_name);
}
