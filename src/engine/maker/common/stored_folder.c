/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/common/stored_folder.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "engine/maker/common/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_MODE 0711u /* init is another user there */

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
		if (!S_ISDIR(st.st_mode))
			return -ENOTDIR;
		if ((st.st_mode & 07777u) == 0) {
			if (fchownat(fd, folders[i].name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0 ||
			    fchmodat(fd, folders[i].name, folders[i].mode, 0) < 0)
				return -errno;
			continue;
		}
		if (st.st_uid != uid)
			return -EPERM;
		/* A run may take the rights from its own folder. The next one shall be able to begin. */
		if ((st.st_mode & S_IRWXU) != S_IRWXU &&
		    fchmodat(fd, folders[i].name, (st.st_mode & 07777u) | S_IRWXU, 0) < 0)
			return -errno;
	}
	return 0;
}

/* What could not be finished, so that failures in a row (a full disk) leave nothing. */
static void unmake(int dir, const char *aside, int fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		(void)unlinkat(fd, folders[i].name, AT_REMOVEDIR);
	(void)unlinkat(dir, aside, AT_REMOVEDIR);
}

int stored_folder_make(int dir, const char *key, uint32_t uid, bool durable)
{
	char aside[FOLDER_NAME_MAX];

	/* Until it has its name, the lock keeps folder_sweep() from it. */
	_cleanup_fd_ int fd = folder_new(dir, aside, true);
	if (fd < 0)
		return fd;
	int r = fchmod(fd, FOLDER_MODE) < 0 ? -errno : make_folders(fd, uid);
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	KILL_POINT(STORED_ASIDE);
	if (r == 0 && renameat(dir, aside, dir, key) < 0)
		r = -errno;
	if (r < 0)
		unmake(dir, aside, fd);
	KILL_POINT(STORED_NAMED);
	if (r == 0 && durable && fsync(dir) < 0)
		r = -errno;
	return r;
}

/* Sets *UID to the uid that the folder got when it was made. An owner that has no id in Z cannot be told from one that
 * has the id for such owners, but by this: nobody in Z may change the folder. */
static int take_uid(int fd, uint32_t *uid)
{
	struct stat st;

	if (fstatat(fd, folders[0].name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (fchownat(fd, folders[0].name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -EPERM;
	*uid = st.st_uid;
	return 0;
}

int stored_folder_open(int dir, const char *key, uint32_t *uid)
{
	struct stat st;
	_cleanup_fd_ int fd = openat(dir, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & FOLDER_MODE) != FOLDER_MODE && fchmod(fd, FOLDER_MODE) < 0)
		return -errno;
	int r = take_uid(fd, uid);
	r = r < 0 ? r : make_folders(fd, *uid);
	return r < 0 ? r : TAKE_FD(fd);
}

int stored_folder_damage(int r)
{
	switch (r) {
	case -ENOENT:
	case -ENOTDIR:
	case -EISDIR:
	case -ELOOP:
	case -ENXIO:
	case -EACCES:
	case -EPERM:
		return -EUCLEAN;
	default:
		return r;
	}
}

/* ---- removal ---- */

/* The lock of a folder is a file beside it, which is removed last. A lock that was lost is made again: another server
 * may be about to open the folder. */
int stored_folder_forget(int dir, const char *key)
{
	char name[FOLDER_NAME_MAX];

	(void)snprintf(name, sizeof(name), "%s.lock", key);
	const bool there = faccessat(dir, key, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	_cleanup_fd_ int fd = folder_lock(dir, name, O_RDWR | (there ? O_CREAT : 0));
	if (fd < 0 && !folder_is_foreign(fd))
		return fd == -ENOENT ? 0 : fd;
	const int r = folder_set_aside(dir, key);
	if (r < 0)
		return r;
	if (fd < 0)
		return folder_set_aside(dir, name);
	return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}
