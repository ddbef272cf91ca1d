/* SPDX-License-Identifier: Apache-2.0 */
/* Removes a tree. Its contents may be hostile, so every step is relative to an open directory and
 * follows no link. It is iterative, so that depth costs descriptors instead of stack. */
#include "image/image_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define TREE_DEPTH_MAX 256

struct level {
	DIR *dir;
	char name[NAME_MAX + 1];
};

static DIR *open_dir(int at, const char *name)
{
	_cleanup_fd_ int fd =
	    openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return NULL;
	DIR *d = fdopendir(fd);

	if (d)
		(void)TAKE_FD(fd);
	return d;
}

/* Opens folder NAME to empty it. If its mode forbids that to its own owner, the mode is changed
 * first. */
static DIR *enter(int at, const char *name)
{
	DIR *d = open_dir(at, name);

	if (d) {
		struct stat st;

		if (fstat(dirfd(d), &st) == 0 && (st.st_mode & 0700) != 0700)
			(void)fchmod(dirfd(d), 0700);
		return d;
	}
	/* fchmodat(2) does not support AT_SYMLINK_NOFOLLOW. But the open with
	 * O_NOFOLLOW|O_DIRECTORY failed with EACCES, which shows that NAME is a folder and no link.
	 */
	if (errno != EACCES || fchmodat(at, name, 0700, 0) < 0)
		return NULL;
	return open_dir(at, name);
}

/* Removes entries until it meets a folder (returns 1 with its name in RET) or none is left (returns
 * 0). */
static int empty_files(DIR *dir, char ret[NAME_MAX + 1])
{
	struct dirent *de;

	rewinddir(dir);
	for (errno = 0; (de = readdir(dir)) != NULL; errno = 0) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		if (de->d_type != DT_DIR && unlinkat(dirfd(dir), de->d_name, 0) == 0)
			continue;
		if (de->d_type != DT_DIR && errno != EISDIR)
			return -errno;
		(void)snprintf(ret, NAME_MAX + 1, "%s", de->d_name);
		return 1;
	}
	return -errno;
}

static int walk(int at, struct level *stack, size_t *depth)
{
	while (*depth > 0) {
		struct level *top = &stack[*depth - 1];
		char name[NAME_MAX + 1];
		int r = empty_files(top->dir, name);

		if (r < 0)
			return r;
		if (r > 0) {
			if (*depth == TREE_DEPTH_MAX)
				return -ELOOP;
			DIR *d = enter(dirfd(top->dir), name);

			if (!d)
				return -errno;
			stack[*depth].dir = d;
			memcpy(stack[*depth].name, name, sizeof(name));
			(*depth)++;
			continue;
		}
		(void)closedir(top->dir);
		(*depth)--;
		int parent = *depth > 0 ? dirfd(stack[*depth - 1].dir) : at;

		if (unlinkat(parent, top->name, AT_REMOVEDIR) < 0)
			return -errno;
	}
	return 0;
}

int image_tree_remove(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	_cleanup_free_ struct level *stack = calloc(TREE_DEPTH_MAX, sizeof(*stack));

	if (!stack)
		return -ENOMEM;
	stack[0].dir = enter(dir, name);
	if (!stack[0].dir)
		return -errno;
	(void)snprintf(stack[0].name, sizeof(stack[0].name), "%s", name);
	size_t depth = 1;
	int r = walk(dir, stack, &depth);

	while (depth > 0)
		(void)closedir(stack[--depth].dir);
	return r;
}
