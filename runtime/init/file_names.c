/* SPDX-License-Identifier: Apache-2.0 */
/* New folders, and new names for files and folders. */
#include "file_places.h"

#include "base/attr.h"
#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make(struct init *in, const char *path)
{
	const char *name;
	const int r = disk_admit(in, -1);
	_cleanup_fd_ int parent = r < 0 ? r : files_open_parent(in, path, true, &name);

	if (parent < 0)
		return parent == -EISDIR ? -EEXIST : parent;
	return mkdirat(parent, name, 0755) < 0 ? -errno : 0;
}

void files_make(struct init *in, const struct proto_init_file *f, int file UNUSED)
{
	const int r = make(in, f->path);

	disk_changed(in);
	files_answer(in, f->seq, r);
}

/* Is PATH in folder TOP? */
static bool is_below(const char *path, const char *top)
{
	const size_t len = strlen(top);

	return strncmp(path, top, len) == 0 && path[len] == '/';
}

/* Whether what ST tells of may get the name TO. No folder is made before this is sure. */
static int check_target(const struct init *in, const struct stat *st, const char *to,
			bool overwrite)
{
	const char *name;
	struct stat there;
	_cleanup_fd_ int parent = files_open_parent(in, to, false, &name);

	if (parent < 0)
		return parent == -ENOENT ? 0 : parent == -EISDIR ? -EEXIST : parent;
	if (fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	/* rename(2) replaces a file by a file, and an empty folder by a folder */
	return overwrite && S_ISDIR(st->st_mode) == S_ISDIR(there.st_mode) ? 0 : -EEXIST;
}

static int give_name(int from, const char *name, int to, const char *new_name, bool overwrite)
{
	int r = renameat2(from, name, to, new_name, overwrite ? 0 : RENAME_NOREPLACE);

	/* gVisor's kernel has this flag not for every kind of mount. The name was free a moment ago, and whoever takes it
	 * meanwhile is in the same sandbox. */
	if (r < 0 && !overwrite && (errno == EINVAL || errno == ENOSYS) &&
	    faccessat(to, new_name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = renameat(from, name, to, new_name);
	return r < 0 ? -errno : 0;
}

static int move(const struct init *in, const struct proto_init_move *m)
{
	const struct file_place from = place_of(in, m->from), to = place_of(in, m->to);
	const bool overwrite = m->flags & PROTO_FILE_OVERWRITE;
	const char *name, *new_name;
	struct stat st;
	_cleanup_fd_ int source = files_open_parent(in, m->from, false, &name);

	if (source < 0) /* a place itself, or a part that is no folder */
		return source == -EISDIR                        ? -EPERM
		       : source == -ENOTDIR || source == -EXDEV ? -ENOENT
								: source;
	if (fstatat(source, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!to.writable)
		return -EROFS;
	if (to.dir != from.dir)
		return -EXDEV;
	if (is_below(to.below, from.below))
		return -EINVAL;
	const int r = check_target(in, &st, m->to, overwrite);
	_cleanup_fd_ int target = r < 0 ? r : files_open_parent(in, m->to, true, &new_name);
	if (target < 0)
		return target == -EXDEV ? -ENOENT : target;
	return give_name(source, name, target, new_name, overwrite);
}

int files_move(struct init *in, const struct proto_init_move *m)
{
	if ((m->flags & ~(uint32_t)(PROTO_FILE_OVERWRITE | PROTO_FILE_USERS)) != 0 ||
	    !proto_path_ok(m->from, true) || !proto_path_ok(m->to, true))
		return -1;
	const int r = move(in, m);
	disk_changed(in);
	files_answer(in, m->seq, r);
	return 0;
}
