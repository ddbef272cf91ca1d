/* SPDX-License-Identifier: Apache-2.0 */
/* Stored workspaces: folders of the host that are mounted into the container. No file system limits
 * them, so init measures them (runtime/init/disk_use.c) and the limit is best effort. A lock file shows
 * that a workspace is in use, also to other servers with the same state folder. */
#include "base/fdio.h"
#include "engine/maker/common/folder.h"
#include "engine/maker/common/stored_folder.h"
#include "engine/maker/docker/keeper/keeper.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

void keep_path(const struct keeper *k, const char *key, const char *part, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s/stored/%s%s%s", k->folder, key, *part ? "/" : "", part);
}

static int open_root(const struct keeper *k)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/stored", k->folder);
	if (mkdir(path, 0711) < 0 && errno != EEXIST)
		return -errno;
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The lock, -EBUSY while somebody has the workspace open, or -errno. */
static int take_lock(int root, const char *key, int flags)
{
	char name[FOLDER_NAME_MAX];

	(void)snprintf(name, sizeof(name), "%s.lock", key);
	return folder_lock(root, name, flags);
}

int keep_open(struct keeper *k, struct docker_sandbox *b)
{
	const char *key = b->c.persist;
	uint32_t uid = KEEPER_UID;
	_cleanup_fd_ int root = open_root(k);

	if (root < 0)
		return root;
	int r = take_lock(root, key, O_RDWR | O_CREAT);
	if (r < 0)
		return stored_folder_damage(r);
	b->lock = r;
	r = 0;
	/* Not durable: the keeper has no process that could wait for a disk. */
	if (faccessat(root, key, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT ? stored_folder_make(root, key, uid, false) : -errno;
	if (r < 0)
		return r;
	_cleanup_fd_ int fd = stored_folder_open(root, key, &uid);
	r = fd < 0 ? fd : uid != KEEPER_UID ? -EPERM : 0;
	return stored_folder_damage(r);
}

/* The workspace gets another name, and a process of its own removes it: it may have any number of files. */
int keep_forget(struct keeper *k, const char *key)
{
	_cleanup_fd_ int root = open_root(k);
	const int r = root < 0 ? root : stored_folder_forget(root, key);

	if (r == 0)
		remover_start(&k->remover);
	return r;
}
