/* SPDX-License-Identifier: Apache-2.0 */
#include "image/context.h"

#include "base/fdio.h"
#include "base/text.h"
#include "base/walls.h"

#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BLOCK (8u << 20) /* between two looks at whether the build was stopped */
#define PACK_BLOCK (256u << 10)

static int take_folder(struct context *c, int from, int to, char *path, size_t len, unsigned depth,
		       struct err *e);

static int failed(const char *path, struct err *e)
{
	const int saved = errno;
	char shown[200];

	(void)snprintf(shown, sizeof(shown), "%s", path);
	return err_set(e, ERR_SYSTEM, saved, "cannot copy '%s' of the build context",
		       image_is_text(shown, strlen(shown)) ? shown : "?");
}

static int own(const struct context *c, int fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_mtim, st->st_mtim};

	if (c->owner != (uid_t)-1 && fchown(fd, c->owner, c->owner) < 0)
		return -errno;
	if (fchmod(fd, (st->st_mode & 0777) | 0400) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int copy_bytes(const struct context *c, int in, int out, uint64_t size, const char *path,
		      struct err *e)
{
	while (size > 0) {
		const size_t block = (size_t)MIN(size, (uint64_t)COPY_BLOCK);
		ssize_t n = copy_file_range(in, NULL, out, NULL, block, 0);

		if (image_cancelled(c->watch))
			return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
		if (n < 0 && errno != EINTR) /* between some file systems there is no other way */
			n = sendfile(out, in, NULL, block);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(path, e);
		if (n == 0)
			return 0; /* it has become shorter */
		size -= (uint64_t)n;
	}
	return 0;
}

/* ---- into an archive ---- */

static int archive_failed(const struct context *c, const char *path, struct err *e)
{
	errno = archive_errno(c->tar);
	return failed(path, e);
}

static int pack_head(struct context *c, const char *path, const struct stat *st, const char *target,
		     struct err *e)
{
	struct archive_entry *entry = archive_entry_new();

	if (!entry)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the build context");
	archive_entry_set_pathname(entry, path);
	archive_entry_set_filetype(entry, st->st_mode & S_IFMT);
	archive_entry_set_perm(entry, (st->st_mode & 0777) | (S_ISLNK(st->st_mode) ? 0 : 0400));
	archive_entry_set_size(entry, S_ISREG(st->st_mode) ? st->st_size : 0);
	archive_entry_set_mtime(entry, st->st_mtim.tv_sec, 0);
	if (target)
		archive_entry_set_symlink(entry, target);
	const int r = archive_write_header(c->tar, entry);

	c->packed++;
	archive_entry_free(entry);
	return r < ARCHIVE_WARN ? archive_failed(c, path, e) : 0;
}

/* A file that has become shorter ends with zeros, one that has grown is cut: the head has said how long it is. */
static int pack_file(struct context *c, int in, const struct stat *st, const char *path,
		     struct err *e)
{
	static char block[PACK_BLOCK];
	int r = pack_head(c, path, st, NULL, e);

	for (uint64_t left = (uint64_t)st->st_size; r >= 0 && left > 0;) {
		const ssize_t n = read(in, block, (size_t)MIN(left, (uint64_t)sizeof(block)));

		if (image_cancelled(c->watch))
			return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(path, e);
		if (n == 0)
			return 0;
		left -= (uint64_t)n;
		if (archive_write_data(c->tar, block, (size_t)n) < 0)
			r = archive_failed(c, path, e);
	}
	return r;
}

/* ---- entries ---- */

static int take_file(struct context *c, int from, int to, const char *name, const char *path,
		     struct err *e)
{
	_cleanup_fd_ int in =
	    openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (in < 0 || fstat(in, &st) < 0)
		return failed(path, e);
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL; /* it was another one a moment ago */
		return failed(path, e);
	}
	c->bytes += (uint64_t)st.st_size;
	if (c->bytes > c->bytes_max && wall_stands(WALL_CONTEXT))
		return err_set(
		    e, ERR_INVALID_ARGUMENT, 0,
		    "the build context has more than %" PRIu64
		    " MiB; leave files out with .dockerignore, or raise the limit with --max-size",
		    c->bytes_max >> 20);
	if (c->tar)
		return pack_file(c, in, &st, path, e);
	if (to < 0)
		return 0;
	_cleanup_fd_ int out =
	    openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (out < 0)
		return failed(path, e);
	int r = copy_bytes(c, in, out, (uint64_t)st.st_size, path, e);

	if (r < 0)
		return r;
	r = own(c, out, &st);
	errno = -r;
	return r < 0 ? failed(path, e) : 0;
}

static int take_link(struct context *c, int from, int to, const char *name, const char *path,
		     const struct stat *st, struct err *e)
{
	char target[PATH_MAX];

	if (to < 0 && !c->tar)
		return 0;
	const ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return failed(path, e);
	target[n] = '\0';
	if (c->tar)
		return pack_head(c, path, st, target, e);
	if (symlinkat(target, to, name) < 0 ||
	    (c->owner != (uid_t)-1 &&
	     fchownat(to, name, c->owner, c->owner, AT_SYMLINK_NOFOLLOW) < 0))
		return failed(path, e);
	return 0;
}

static int enter(struct context *c, int from, int to, const char *name, char *path, size_t len,
		 unsigned depth, const struct stat *st, bool out, struct err *e)
{
	_cleanup_fd_ int sub = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (sub < 0 || (to >= 0 && mkdirat(to, name, 0700) < 0))
		return failed(path, e);
	_cleanup_fd_ int made =
	    to < 0 ? -1 : openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (to >= 0 && made < 0)
		return failed(path, e);
	const uint64_t before = c->packed;
	int r = c->tar && !out ? pack_head(c, path, st, NULL, e) : 0;

	r = r < 0 ? r : take_folder(c, sub, made, path, len, depth + 1, e);
	/* A folder that is out itself is there if something in it is. Whoever unpacks gives it its mode at the end. */
	if (r >= 0 && out && c->packed != before)
		r = pack_head(c, path, st, NULL, e);
	if (r < 0 || to < 0)
		return r;
	if (out && unlinkat(to, name, AT_REMOVEDIR) == 0)
		return 0; /* '!' took nothing in it back */
	r = own(c, made, st);
	errno = -r;
	return r < 0 ? failed(path, e) : 0;
}

static int take_entry(struct context *c, int from, int to, const char *name, char *path, size_t len,
		      unsigned depth, struct err *e)
{
	const int out = ignore_match(c->ignore, path);
	struct stat st;

	if (out < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       ".dockerignore: its patterns and the files of the build context are "
			       "too many together");
	if (out && !c->ignore->back)
		return 0;
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : failed(path, e);
	if (out && !S_ISDIR(st.st_mode))
		return 0;
	if (++c->entries > CONTEXT_ENTRIES_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the build context has more than %" PRIu64
			       " files and folders; leave some out with .dockerignore",
			       CONTEXT_ENTRIES_MAX);
	if (S_ISDIR(st.st_mode))
		return enter(c, from, to, name, path, len, depth, &st, out, e);
	if (S_ISREG(st.st_mode))
		return take_file(c, from, to, name, path, e);
	if (S_ISLNK(st.st_mode))
		return take_link(c, from, to, name, path, &st, e);
	if (S_ISSOCK(st.st_mode)) {
		c->sockets++;
		return 0;
	}
	if (!wall_stands(WALL_CONTEXT))
		return 0;
	const char *what = S_ISFIFO(st.st_mode) ? "a pipe" : "a device";

	return err_set(e, ERR_INVALID_ARGUMENT, 0,
		       "'%.200s' of the build context is %s; leave it out with .dockerignore",
		       image_is_text(path, strlen(path)) ? path : "?", what);
}

static int take_folder(struct context *c, int from, int to, char *path, size_t len, unsigned depth,
		       struct err *e)
{
	int fd = fd_dup(from);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		(void)fd_close(fd);
		return failed(len ? path : ".", e);
	}
	if (depth > CONTEXT_DEPTH_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the build context has folders more than %d deep",
			       CONTEXT_DEPTH_MAX);
	for (struct dirent *de; (de = readdir(dir)) != NULL;) {
		if (streq(de->d_name, ".") || streq(de->d_name, ".."))
			continue;
		const size_t n = strlen(de->d_name);

		if (len + n + 2 > PATH_MAX)
			return err_set(e, ERR_INVALID_ARGUMENT, ENAMETOOLONG,
				       "a path of the build context");
		if (image_cancelled(c->watch))
			return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
		(void)snprintf(path + len, PATH_MAX - len, "%s%s", len ? "/" : "", de->d_name);
		int r = take_entry(c, from, to, de->d_name, path, len + n + (len > 0), depth, e);

		path[len] = '\0';
		if (r < 0)
			return r;
	}
	return 0;
}

int context_take(struct context *c, struct err *e)
{
	char path[PATH_MAX] = "";

	return take_folder(c, c->from, c->to, path, 0, 0, e);
}
