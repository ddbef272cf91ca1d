/* SPDX-License-Identifier: Apache-2.0 */
/* A stored workspace as a folder, for a plain user, who may not mount a file system from a file. The
 * kernel counts nothing here, so init watches the limits of bytes and inodes; they are best effort. */
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/text.h"
#include "engine/native/monitor/workspace_store.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* What init binds into the sandbox. Folders of older workspaces lack the last two. */
static const struct {
	const char *name;
	mode_t mode;
} folders[] = {{"data", 0755}, {"venv", 0755}, {"tmp", 01777}, {"home", 0700}};

static int make_folders(int fd, uint32_t uid)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		/* A sandbox cannot write into FD. So a folder that is there is ours; if its mode is
		 * none, its maker was killed before it was finished. */
		struct stat st;

		if (mkdirat(fd, folders[i].name, 0) < 0 && errno != EEXIST)
			return -errno;
		if (fstatat(fd, folders[i].name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if ((st.st_mode & 07777u) != 0)
			continue;
		if (fchownat(fd, folders[i].name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0 ||
		    fchmodat(fd, folders[i].name, folders[i].mode, 0) < 0)
			return -errno;
	}
	return 0;
}

static int fill_folder(int dir, const char *aside, uint32_t uid)
{
	_cleanup_fd_ int fd = openat(dir, aside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	int r = make_folders(fd, uid);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

/* The caller holds the lock of KEY, so no other process makes the folder. */
static int make_folder(int dir, const char *key, uint32_t uid)
{
	char aside[WORKSPACE_PATH_MAX];

	workspace_aside_name(aside, WORKSPACE_NEW);
	if (mkdirat(dir, aside, 0711) < 0)
		return -errno;
	int r = fill_folder(dir, aside, uid);
	KILL_POINT(STORED_ASIDE);
	if (r == 0 && renameat(dir, aside, dir, key) < 0)
		r = -errno;
	KILL_POINT(STORED_NAMED);
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	return r;
}

/* Sets *UID to the uid that the folder got when it was made. */
static int take_uid(int fd, uint32_t *uid)
{
	struct stat st;

	if (fstatat(fd, folders[0].name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*uid = st.st_uid;
	return 0;
}

/* Copies the folder FD as a mount. A process may copy mounts only in a mount namespace that belongs to its
 * user namespace. So it makes one; its working folder leads to the folder there. */
static int cut_tree(int fd)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

	if (fchdir(fd) < 0 || unshare(CLONE_NEWNS) < 0)
		return -errno;
	_cleanup_fd_ int tree = open_tree(AT_FDCWD, ".", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return TAKE_FD(tree);
}

int workspace_open_folder(const char *state_dir, const char *key, uint32_t *uid, int *ret_tree,
			  int *ret_lock)
{
	char name[WORKSPACE_PATH_MAX];
	_cleanup_fd_ int dir = workspace_root(state_dir);

	if (dir < 0)
		return dir;
	(void)snprintf(name, sizeof(name), "%s.lock", key);
	_cleanup_fd_ int lock = workspace_lock(dir, name, O_RDWR | O_CREAT);
	if (lock < 0)
		return lock;
	KILL_POINT(STORED_LOCKED);
	int r = 0;
	if (faccessat(dir, key, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT ? make_folder(dir, key, *uid) : -errno;
	if (r < 0)
		return r;
	_cleanup_fd_ int fd = openat(dir, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = take_uid(fd, uid);
	r = r < 0 ? r : make_folders(fd, *uid);
	if (r < 0)
		return r;
	int tree = cut_tree(fd);
	if (tree < 0)
		return tree;
	KILL_POINT(STORED_MOUNTED);
	*ret_tree = tree;
	*ret_lock = TAKE_FD(lock);
	return 0;
}
