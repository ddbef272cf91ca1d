/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include "base/fdio.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Opens folder NAME to empty it, on the device DEV (0: on any). If its mode forbids that to its own owner, the mode is
 * changed first. */
static int enter(int at, const char *name, dev_t dev)
{
	struct stat st;
	int fd = openat(at, name, FOLDER);

	/* fchmodat(2) does not support AT_SYMLINK_NOFOLLOW. But an open that failed with EACCES in spite of O_NOFOLLOW and
	 * O_DIRECTORY has shown that NAME is a folder and no link. */
	if (fd < 0 && errno == EACCES && fchmodat(at, name, 0700, 0) == 0)
		fd = openat(at, name, FOLDER);
	if (fd < 0)
		return -errno;
	int r = fstat(fd, &st) < 0 ? -errno : dev != 0 && st.st_dev != dev ? -EXDEV : 0;
	if (r == 0 && (st.st_mode & 0700) != 0700 && fchmod(fd, 0700) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	(void)fd_close(fd);
	return r;
}

/* The folders that are open in thought: each by its inode, so that ".." leads to no other one. */
struct way {
	ino_t *inodes;
	size_t n, room;
};

static int way_add(struct way *w, int fd, dev_t *ret_dev)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (w->n == w->room) {
		const size_t room = w->room > 0 ? 2 * w->room : 64;
		ino_t *more = reallocarray(w->inodes, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		w->inodes = more;
		w->room = room;
	}
	w->inodes[w->n++] = st.st_ino;
	*ret_dev = st.st_dev;
	return 0;
}

/* The folder above AT, which is the last of W. */
static int leave(struct way *w, int at, dev_t dev)
{
	struct stat st;

	if (!w->inodes || w->n < 2)
		return -ESTALE;
	const int fd = openat(at, "..", FOLDER);
	if (fd < 0)
		return -errno;
	w->n--;
	if (fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == w->inodes[w->n - 1])
		return fd;
	(void)fd_close(fd);
	return -ESTALE;
}

/* Goes down and up again by one name at a time, and needs neither paths nor a descriptor for each level. */
static int empty(struct way *w, int top)
{
	char below[NAME_MAX + 1];
	_cleanup_fd_ int at = top;
	dev_t dev = 0;
	int r = way_add(w, at, &dev);

	while (r >= 0) {
		r = remove_entries(at, below);
		if (r < 0 || (r == 0 && w->n == 1))
			return r;
		const bool down = r > 0;
		const int next = down ? enter(at, below, dev) : leave(w, at, dev);
		if (next < 0)
			return next;
		(void)fd_close(at);
		at = next;
		r = down ? way_add(w, at, &dev) : 0;
	}
	return r;
}

int tree_remove(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	const int top = enter(dir, name, 0);
	if (top < 0)
		return top;
	struct way w = {0};
	const int r = empty(&w, top);
	free(w.inodes);
	return r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : r;
}
