/* SPDX-License-Identifier: Apache-2.0 */
/* Stored workspaces: folders of the host that are mounted into the container. No file system limits
 * them, so init measures them (runtime/init/disk_use.c) and the limit is best effort. A lock file shows
 * that a workspace is in use, also to other servers with the same state folder. */
#include "base/fdio.h"
#include "base/rand.h"
#include "engine/docker/keeper/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static const struct {
	const char *name;
	mode_t mode;
} folders[] = {{"data", 0755}, {"venv", 0755}, {"tmp", 01777}, {"home", 0700}};

void keep_path(const struct keeper *k, const char *key, const char *part, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s/stored/%s%s%s", k->folder, key, *part ? "/" : "", part);
}

/* 0 and the lock, -EBUSY while somebody has the workspace open, or -errno. */
static int take_lock(const struct keeper *k, const char *key)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/stored/%s.lock", k->folder, key);
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return TAKE_FD(fd);
}

static int make_folder(const char *path, mode_t mode)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid == KEEPER_UID)
		return 0;
	return lchown(path, KEEPER_UID, KEEPER_UID) < 0 || chmod(path, mode) < 0 ? -errno : 0;
}

int keep_open(struct keeper *k, struct cell *b)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/stored", k->folder);
	if (mkdir(path, 0711) < 0 && errno != EEXIST)
		return -errno;
	const int lock = take_lock(k, b->c.persist);
	if (lock < 0)
		return lock;
	b->lock = lock;
	keep_path(k, b->c.persist, "", path, sizeof(path));
	if (mkdir(path, 0711) < 0 && errno != EEXIST)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		keep_path(k, b->c.persist, folders[i].name, path, sizeof(path));
		int r = make_folder(path, folders[i].mode);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Removes what is in DIR. 1 and a name: this folder has something in it; 0: nothing is left. */
static int remove_entries(int dir, char ret[NAME_MAX + 1])
{
	const int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *list = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *de;

	if (!list) {
		const int saved = errno;
		(void)fd_close(copy);
		return -saved;
	}
	for (errno = 0; (de = readdir(list)); errno = 0) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
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

/* A run may have made any tree: so deep that no path of it is short enough, or with folders that nobody may enter. So
 * this goes down and up again by one name at a time, and needs neither paths nor a descriptor for each level. Links are
 * not followed, and no mount is entered. The container is gone, so nobody moves folders meanwhile. */
static int remove_tree(const char *path)
{
	char name[NAME_MAX + 1];
	struct stat top, st;
	_cleanup_fd_ int at = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (at < 0 || fstat(at, &top) < 0)
		return -errno;
	for (;;) {
		if (fstat(at, &st) < 0)
			return -errno;
		if (st.st_dev != top.st_dev)
			return -EXDEV;
		const int r = remove_entries(at, name);
		if (r < 0)
			return r;
		if (r == 0 && st.st_ino == top.st_ino)
			return rmdir(path) < 0 ? -errno : 0;
		const int next = openat(at, r > 0 ? name : "..",
					O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		(void)fd_close(at);
		at = next;
	}
}

int keep_forget(struct keeper *k, const char *key)
{
	char path[PATH_MAX];
	_cleanup_fd_ int lock = take_lock(k, key);

	if (lock == -ENOENT)
		return 0;
	if (lock < 0)
		return lock;
	keep_path(k, key, "", path, sizeof(path));
	int r = access(path, F_OK) < 0 && errno == ENOENT ? 0 : remove_tree(path);
	(void)snprintf(path, sizeof(path), "%s/stored/%s.lock", k->folder, key);
	if (r == 0)
		(void)unlink(path);
	return r;
}
