/* SPDX-License-Identifier: Apache-2.0 */
/* A stored workspace as a folder, for a plain user, who may not mount a file system from a file. The
 * kernel counts nothing here, so init watches the limits of bytes and inodes; they are best effort. */
#include "base/fdio.h"
#include "base/kill_points.h"
#include "engine/maker/common/stored_folder.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

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

int workspace_open_folder(const char *state_dir, const char *key, bool may_make, uint32_t *uid,
			  int *ret_tree, int *ret_lock)
{
	char name[WORKSPACE_PATH_MAX];
	_cleanup_fd_ int dir = workspace_root(state_dir);

	if (dir < 0)
		return dir;
	(void)snprintf(name, sizeof(name), "%s.lock", key);
	_cleanup_fd_ int lock = workspace_lock(dir, name, O_RDWR | O_CREAT);
	if (lock < 0)
		return stored_folder_damage(lock);
	KILL_POINT(STORED_LOCKED);
	int r = 0;
	if (faccessat(dir, key, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno != ENOENT ? -errno
		    : may_make      ? stored_folder_make(dir, key, *uid, true)
				    : -ENOSPC;
	if (r < 0)
		return r;
	_cleanup_fd_ int fd = stored_folder_open(dir, key, uid);
	if (fd < 0)
		return stored_folder_damage(fd);
	int tree = cut_tree(fd);
	if (tree < 0)
		return tree;
	KILL_POINT(STORED_MOUNTED);
	*ret_tree = tree;
	*ret_lock = TAKE_FD(lock);
	return 0;
}
