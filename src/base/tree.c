/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include "base/fdio.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

/* Removes what is in DIR. 1 and a name: this folder has something in it; 0: nothing is left. */
static int remove_entries(int dir, char ret[NAME_MAX + 1])
{
	const int copy = openat(dir, ".", FOLDER);
	_cleanup_dir_ DIR *list = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *de;

	if (!list) {
		const int saved = errno;
		(void)fd_close(copy);
		return -saved;
	}
	for (errno = 0; (de = readdir(list)); errno = 0) {
		if (streq(de->d_name, ".") || streq(de->d_name, "..") ||
		    unlinkat(dir, de->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR)
			return -errno;
		if (unlinkat(dir, de->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			continue;
		if (errno != ENOTEMPTY)
			return -errno;
		(void)snprintf(ret, NAME_MAX + 1, "%s", de->d_name);
		return 1;
	}
	return -errno;
}

/* Opens folder NAME to empty it. If its mode forbids that to its own owner, the mode is changed first. */
static int enter(int at, const char *name)
{
	struct stat st;
	int fd = openat(at, name, FOLDER);

	/* fchmodat(2) does not support AT_SYMLINK_NOFOLLOW. But an open that failed with EACCES in spite of O_NOFOLLOW and
	 * O_DIRECTORY has shown that NAME is a folder and no link. */
	if (fd < 0 && errno == EACCES && fchmodat(at, name, 0700, 0) == 0)
		fd = openat(at, name, FOLDER);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		(void)fchmod(fd, 0700);
	return fd;
}

/* Goes down and up again by one name at a time, and needs neither paths nor a descriptor for each level. */
static int remove_folder(int dir, const char *name, int top)
{
	char below[NAME_MAX + 1];
	struct stat first, st;
	_cleanup_fd_ int at = top;

	if (fstat(at, &first) < 0)
		return -errno;
	for (;;) {
		if (fstat(at, &st) < 0)
			return -errno;
		if (st.st_dev != first.st_dev)
			return -EXDEV;
		const int r = remove_entries(at, below);
		if (r < 0)
			return r;
		if (r == 0 && st.st_ino == first.st_ino)
			return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
		const int next = r > 0 ? enter(at, below) : openat(at, "..", FOLDER);
		if (next < 0)
			return r > 0 ? next : -errno;
		(void)fd_close(at);
		at = next;
	}
}

int tree_remove(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	const int top = enter(dir, name);

	return top < 0 ? top : remove_folder(dir, name, top);
}
