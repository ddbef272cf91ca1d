/* SPDX-License-Identifier: Apache-2.0 */
#include "image/scratch.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"
#include "base/tree.h"
#include "image/child.h"
#include "image/image.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define SCRIPTS_MAX 64

int scratch_check_space(const char *path, uint64_t bytes, struct err *e)
{
	struct statvfs v;

	if (statvfs(path, &v) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot look at %s", path);
	uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;

	if (left >= bytes)
		return 0;
	return err_set(e, ERR_IMAGE_BUILD_FAILED, ENOSPC,
		       "%s has %" PRIu64 " MiB free and %" PRIu64
		       " MiB are needed; free some space or move "
		       "the state directory (--state-dir)",
		       path, left >> 20, bytes >> 20);
}

static int copy_script(int from, int to, const char *name)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_DEF_SCRIPT_MAX);
	_cleanup_fd_ int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (in < 0 || fstat(in, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || text_ends_with(name, ".conf"))
		return 0;
	int r = fd_read_file(in, &text);

	if (r < 0)
		return r;
	_cleanup_fd_ int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (out < 0 || fchmod(out, (st.st_mode & 0100) ? 0755 : 0644) < 0)
		return -errno;
	return fd_write_all(out, buf_str(&text), text.len);
}

static int copy_scripts(const char *scripts, int to)
{
	_cleanup_dir_ DIR *dir = opendir(scripts);
	unsigned n = 0;

	if (!dir)
		return -errno;
	for (struct dirent *de; (de = readdir(dir)) != NULL;) {
		if (de->d_name[0] == '.')
			continue;
		int r = ++n > SCRIPTS_MAX ? -E2BIG : copy_script(dirfd(dir), to, de->d_name);

		if (r < 0)
			return r;
	}
	return 0;
}

static int make_folder(const struct image_store *s, const struct image_draft *d, struct scratch *t)
{
	if (geteuid() == 0) {
		if ((size_t)snprintf(t->path, sizeof(t->path), "%s/%s/work", s->path, d->name) >=
		    sizeof(t->path))
			return -ENAMETOOLONG;
		return mkdirat(d->dir, "work", 0755) < 0 ? -errno : 0;
	}
	const char *tmp = getenv("TMPDIR");

	if ((size_t)snprintf(t->path, sizeof(t->path), "%s/caisson-image-XXXXXX",
			     tmp && tmp[0] == '/' ? tmp : "/var/tmp") >= sizeof(t->path))
		return -ENAMETOOLONG;
	return mkdtemp(t->path) ? 0 : -errno;
}

int scratch_make(const struct image_store *s, const struct image_draft *d, const char *scripts,
		 struct scratch *ret, struct err *e)
{
	struct scratch t = {0};
	int r = make_folder(s, d, &t);
	_cleanup_fd_ int fd =
	    r >= 0 ? open(t.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;

	if (r >= 0 && (fd < 0 || fchmod(fd, 0755) < 0))
		r = -errno;
	if (r >= 0)
		r = copy_scripts(scripts, fd);
	if (r < 0)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, -r,
			       "cannot prepare the working folder %s", t.path);
	*ret = t;
	return scratch_check_space(ret->path, IMAGE_BUILD_SPACE, e);
}

void scratch_remove(struct scratch *t)
{
	if (!t->path[0])
		return;
	/* What a stopped build of a plain user left belongs to that user's sub-uids, so only a user
	 * namespace with these can remove it. */
	if (tree_remove(AT_FDCWD, t->path) < 0 && geteuid() != 0) {
		const char *const argv[] = {"mmdebstrap", "--unshare-helper", "rm", "-rf", t->path,
					    NULL};
		_cleanup_(buf_done) struct buf out = BUF_INIT(4096);
		int r UNUSED = child_output(argv, &out);

		r = tree_remove(AT_FDCWD, t->path);
	}
	t->path[0] = '\0';
}
