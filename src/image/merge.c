/* SPDX-License-Identifier: Apache-2.0 */
#include "image/merge.h"

#include "base/fdio.h"
#include "base/text.h"
#include "image/notes.h"
#include "image/unpack.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_EVERY 1024 /* entries */
#define WHITEOUT   ".wh."
#define OPAQUE     ".wh..wh..opq"
#define COPY_PIECE (1u << 20)
/* What is unpacked is less deep, but a base may be a merged one. */
#define DEPTH_MAX (2 * UNPACK_DEPTH_MAX)

struct merge {
	const struct image_watch *watch;
	uint64_t entries;
	struct merge_size size;
};

static int merge_folder(struct merge *m, int base, int layer, int out, unsigned depth);

static DIR *open_list(int folder)
{
	const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		(void)fd_close(fd);
	return d;
}

static bool is_mark(const char *name)
{
	return text_starts_with(name, WHITEOUT);
}

/* A file of several names counts in parts. */
static int count_file(struct merge *m, int out, const char *name)
{
	struct stat st;

	if (fstatat(out, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	m->size.files += MERGE_ENTRY_BYTES + (uint64_t)st.st_size / MAX(st.st_nlink, (nlink_t)1);
	return 0;
}

/* Once its entries are there: those of a large folder take space of their own. */
static int count_folder(struct merge *m, int folder)
{
	struct stat st;

	if (fstat(folder, &st) < 0)
		return -errno;
	m->size.folders += MAX((uint64_t)st.st_size, (uint64_t)MERGE_ENTRY_BYTES);
	return 0;
}

static bool has(int folder, const char *name)
{
	struct stat st;

	return folder >= 0 && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether LAYER says that NAME of the base is gone, or has its own. */
static bool hides(int layer, const char *name)
{
	char mark[NAME_MAX + sizeof(WHITEOUT)];

	(void)snprintf(mark, sizeof(mark), WHITEOUT "%s", name);
	return has(layer, name) || has(layer, mark);
}

static int open_sub(int folder, const char *name)
{
	const int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* OUT gets what the folder FROM has; times are of no use here: they change with every entry. */
static int like(int from, int out)
{
	struct stat st;

	if (fstat(from, &st) < 0)
		return -errno;
	if ((st.st_uid || st.st_gid) &&
	    fchown(out, foreign_id(st.st_uid), foreign_id(st.st_gid)) < 0 && geteuid() == 0)
		return -errno;
	return fchmod(out, st.st_mode & NOTE_MODES) < 0 ? -errno : 0;
}

/* BASE or LAYER may be -1. The folder that is seen is the layer's. */
static int make_folder(struct merge *m, int base, int layer, int out, const char *name,
		       unsigned depth)
{
	if (depth == DEPTH_MAX)
		return -ELOOP;
	if (mkdirat(out, name, 0700) < 0)
		return -errno;
	_cleanup_fd_ int to = open_sub(out, name);

	if (to < 0)
		return to;
	int r = merge_folder(m, base, layer, to, depth + 1);

	r = r < 0 ? r : count_folder(m, to);
	return r < 0 ? r : like(layer >= 0 ? layer : base, to);
}

static int copy_file(struct merge *m, int base, const char *name, int out, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	_cleanup_fd_ int from = openat(base, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_fd_ int to =
	    openat(out, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	ssize_t n;

	if (from < 0 || to < 0)
		return -errno;
	while ((n = sendfile(to, from, NULL, COPY_PIECE)) > 0)
		;
	if (n < 0 || fchown(to, foreign_id(st->st_uid), foreign_id(st->st_gid)) < 0 ||
	    fchmod(to, st->st_mode & 01777) < 0 || futimens(to, times) < 0)
		return -errno;
	return count_file(m, out, name);
}

/* An entry of the base that the layer has nothing to say of. */
static int take_base(struct merge *m, int base, int out, const char *name, unsigned depth)
{
	struct stat st;

	if (fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		_cleanup_fd_ int from = open_sub(base, name);

		return from < 0 ? from : make_folder(m, from, -1, out, name, depth);
	}
	const bool own = st.st_uid != foreign_id(st.st_uid) || st.st_gid != foreign_id(st.st_gid);

	if (own && S_ISREG(st.st_mode) && geteuid() == 0)
		return copy_file(m, base, name, out, &st);
	if (linkat(base, name, out, name, 0) == 0)
		return 0;
	/* A file system has a limit of names for one file. */
	return errno == EMLINK && S_ISREG(st.st_mode) ? copy_file(m, base, name, out, &st) : -errno;
}

static int take_layer(struct merge *m, int base, int layer, int out, const char *name,
		      unsigned depth)
{
	_cleanup_fd_ int from = open_sub(layer, name);

	if (from == -ENOTDIR || from == -ELOOP)
		return renameat(layer, name, out, name) < 0 ? -errno : count_file(m, out, name);
	if (from < 0)
		return from;
	/* -ENOENT, or no folder in the base: nothing shows through. */
	_cleanup_fd_ int below = base >= 0 && !has(from, OPAQUE) ? open_sub(base, name) : -1;

	return make_folder(m, below, from, out, name, depth);
}

static int tick(struct merge *m)
{
	if (++m->entries > 2 * UNPACK_ENTRIES_MAX)
		return -E2BIG;
	if (m->entries % TICK_EVERY == 0)
		m->watch->tick(m->watch->user, "files", m->entries, 0);
	return image_cancelled(m->watch) ? -ECANCELED : 0;
}

static int each(struct merge *m, int base, int layer, int out, bool of_base, unsigned depth)
{
	_cleanup_dir_ DIR *d = open_list(of_base ? base : layer);
	const struct dirent *de;
	int r = d ? 0 : -errno;

	while (r == 0 && (de = readdir(d))) {
		const char *name = de->d_name;

		if (streq(name, ".") || streq(name, "..") || is_mark(name) ||
		    (of_base && layer >= 0 && hides(layer, name)))
			continue;
		r = tick(m);
		if (r == 0)
			r = of_base ? take_base(m, base, out, name, depth)
				    : take_layer(m, base, layer, out, name, depth);
	}
	return r;
}

/* The base first: what is moved out of the layer hides no more. */
static int merge_folder(struct merge *m, int base, int layer, int out, unsigned depth)
{
	int r = base >= 0 ? each(m, base, layer, out, true, depth) : 0;

	return r == 0 && layer >= 0 ? each(m, base, layer, out, false, depth) : r;
}

int image_merge(int base, int layer, int out, const struct image_watch *w, struct merge_size *ret,
		struct err *e)
{
	struct merge m = {.watch = w};

	if (!has(layer, MERGE_END))
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG,
			       "the layer is not complete: its sandbox has ended");
	const int r = merge_folder(&m, base, layer, out, 0);

	*ret = m.size;
	if (r == -ECANCELED)
		return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, -r, "the disk is full; free some space");
	return r < 0 ? err_set(e, ERR_IMAGE_BUILD_FAILED, -r, "cannot put the layer over the image")
		     : 0;
}
