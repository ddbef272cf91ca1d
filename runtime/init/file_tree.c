/* SPDX-License-Identifier: Apache-2.0 */
#include "file_tree.h"

#include "base/fdio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES (128u << 10)
#define PATH_BYTES  4096u
#define MODE_BITS   01777u /* set-uid and set-gid are not copied: they have no effect here */

struct link_row { /* a file with several names that was copied once */
	ino_t from;
	char *path; /* one name of its copy, relative to the root of the copy */
};

struct copy {
	struct tree_count *count;
	bool owners;
	int root;
	char path[PATH_BYTES]; /* of the current folder: "", or it ends with a slash */
	size_t len;
	struct link_row links[TREE_LINKS_MAX]; /* by inode; after a collision the file is copied */
};

static char piece[PIECE_BYTES];

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Opens a file or folder. If a run has removed its own right to read it, MODE is set first. */
static int open_own(int dir, const char *name, int flags, mode_t mode)
{
	int fd = fd_open_beneath(dir, name, flags, 0);

	if (fd != -EACCES)
		return fd;
	if (fchmodat(dir, name, mode, 0) < 0)
		return -EACCES;
	return fd_open_beneath(dir, name, flags, 0);
}

static DIR *open_list(int dir)
{
	int fd = fd_open_beneath(dir, ".", O_RDONLY | O_DIRECTORY, 0);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (!d && fd >= 0)
		(void)close(fd);
	return d;
}

/* ---- copy ---- */

static int copy_range(int in, int out, off_t at, off_t end, uint64_t *bytes)
{
	while (at < end) {
		size_t want = end - at < (off_t)PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
		ssize_t n = pread(in, piece, want, at);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		ssize_t w = pwrite(out, piece, (size_t)n, at);
		if (w <= 0)
			return w < 0 ? -errno : -EIO;
		at += w;
		*bytes += (uint64_t)w;
	}
	return 0;
}

static int copy_data(int in, int out, off_t size, uint64_t *bytes)
{
	off_t at = 0;
	int r = 0;

	if (ftruncate(out, size) < 0)
		return -errno;
	while (r == 0 && at < size) {
		off_t data = lseek(in, at, SEEK_DATA);
		if (data < 0)
			return errno == ENXIO ? 0 : -errno;
		off_t hole = lseek(in, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		r = copy_range(in, out, data, hole, bytes);
		at = hole;
	}
	return r;
}

/* Before the permissions are set, because chown(2) takes some away. */
static int keep_owner(const struct copy *c, int dir, const char *name, const struct stat *st)
{
	return c->owners && fchownat(dir, name, st->st_uid, st->st_gid,
				     AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0
		   ? -errno
		   : 0;
}

static int keep_times(int fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (fchmod(fd, st->st_mode & MODE_BITS) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* Makes NAME a hard link if its file has been copied already. True = done. */
static bool link_known(struct copy *c, int to, const char *name, const struct stat *st)
{
	const struct link_row *row = &c->links[st->st_ino % TREE_LINKS_MAX];

	return row->path && row->from == st->st_ino && linkat(c->root, row->path, to, name, 0) == 0;
}

static void remember_link(struct copy *c, const char *name, const struct stat *st)
{
	struct link_row *row = &c->links[st->st_ino % TREE_LINKS_MAX];
	size_t len = strlen(name);

	if (row->path || c->len + len + 1 > PATH_BYTES)
		return;
	row->path = malloc(c->len + len + 1);
	if (!row->path)
		return;
	row->from = st->st_ino;
	memcpy(row->path, c->path, c->len);
	memcpy(row->path + c->len, name, len + 1);
}

static int copy_file(struct copy *c, int from, int to, const char *name, const struct stat *st)
{
	struct stat now;

	if (st->st_nlink > 1 && link_known(c, to, name, st)) {
		c->count->files++;
		return 0;
	}
	_cleanup_fd_ int in = open_own(from, name, O_RDONLY, (st->st_mode & 0777u) | S_IRUSR);
	if (in < 0)
		return in;
	if (fstat(in, &now) < 0 || !S_ISREG(now.st_mode))
		return -ESTALE;
	_cleanup_fd_ int out = fd_open_beneath(to, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (out < 0)
		return out;
	int r = copy_data(in, out, now.st_size, &c->count->bytes);
	r = r < 0 ? r : keep_owner(c, out, "", st);
	r = r < 0 ? r : keep_times(out, st);
	if (now.st_mode != st->st_mode)
		(void)fchmod(in, st->st_mode & MODE_BITS);
	if (r == 0 && st->st_nlink > 1)
		remember_link(c, name, st);
	c->count->files++;
	return r;
}

/* For entries that are not opened. Lost times are no error. */
static int keep_rest_at(const struct copy *c, int to, const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	const int r = keep_owner(c, to, name, st);

	(void)utimensat(to, name, times, AT_SYMLINK_NOFOLLOW);
	return r;
}

static int copy_symlink(const struct copy *c, int from, int to, const char *name,
			const struct stat *st)
{
	char target[PATH_BYTES];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? -errno : keep_rest_at(c, to, name, st);
}

static int copy_fifo(const struct copy *c, int to, const char *name, const struct stat *st)
{
	if (mkfifoat(to, name, 0600) < 0 || fchmodat(to, name, st->st_mode & 0777u, 0) < 0)
		return -errno;
	return keep_rest_at(c, to, name, st);
}

static int copy_folder(struct copy *c, int from, int to, int depth);

static int copy_below(struct copy *c, int from, int to, const char *name, const struct stat *st,
		      int depth)
{
	size_t len = strlen(name);
	size_t old = c->len;

	if (depth == TREE_DEPTH_MAX)
		return -ELOOP;
	_cleanup_fd_ int in =
	    open_own(from, name, O_RDONLY | O_DIRECTORY, (st->st_mode & 0777u) | S_IRWXU);
	if (in < 0)
		return in;
	if (mkdirat(to, name, 0700) < 0)
		return -errno;
	_cleanup_fd_ int out = fd_open_beneath(to, name, O_RDONLY | O_DIRECTORY, 0);
	if (out < 0)
		return out;
	bool fits = old + len + 1 < PATH_BYTES; /* if not, hard links below it are not kept */
	if (fits) {
		memcpy(c->path + old, name, len);
		c->path[old + len] = '/';
		c->len = old + len + 1;
	} else {
		c->len = PATH_BYTES;
	}
	int r = copy_folder(c, in, out, depth + 1);
	c->len = old;
	r = r < 0 ? r : keep_owner(c, out, "", st);
	r = r < 0 ? r : keep_times(out, st);
	(void)fchmod(in, st->st_mode & MODE_BITS);
	return r;
}

static int copy_entry(struct copy *c, int from, int to, const char *name, int depth)
{
	struct stat st;
	int r;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		r = copy_file(c, from, to, name, &st);
		break;
	case S_IFDIR:
		r = copy_below(c, from, to, name, &st, depth);
		break;
	case S_IFLNK:
		r = copy_symlink(c, from, to, name, &st);
		break;
	case S_IFIFO:
		r = copy_fifo(c, to, name, &st);
		break;
	default:
		c->count->skipped++;
		return 0;
	}
	return r;
}

static int copy_folder(struct copy *c, int from, int to, int depth)
{
	_cleanup_dir_ DIR *d = open_list(from);
	const struct dirent *de;
	int r = d ? 0 : -ENOMEM;

	while (r == 0 && (de = readdir(d)))
		if (!is_dots(de->d_name))
			r = copy_entry(c, from, to, de->d_name, depth);
	return r;
}

int tree_copy(int from, int to, bool owners, struct tree_count *count)
{
	struct copy *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->count = count;
	c->owners = owners;
	c->root = to;
	int r = copy_folder(c, from, to, 0);
	for (size_t i = 0; i < TREE_LINKS_MAX; i++)
		free(c->links[i].path);
	free(c);
	return r;
}

/* ---- remove ---- */

struct removal {
	int top;        /* the folder that is being removed */
	unsigned moved; /* number of folders that were too deep and were moved to the top */
};

static int remove_folder(struct removal *m, int fd, int depth);

static int remove_entry(struct removal *m, int dir, const char *name, int depth)
{
	char moved[32];

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	_cleanup_fd_ int fd = open_own(dir, name, O_RDONLY | O_DIRECTORY, 0700);
	if (fd < 0)
		return fd;
	if (fchmod(fd, 0700) < 0) /* entries can be removed only from a writable folder */
		return -errno;
	if (depth == TREE_DEPTH_MAX) {
		do {
			(void)snprintf(moved, sizeof(moved), ".deep-%u", m->moved++);
		} while (faccessat(m->top, moved, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
		return renameat(dir, name, m->top, moved) < 0 ? -errno : 0;
	}
	int r = remove_folder(m, fd, depth + 1);
	if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

static int remove_folder(struct removal *m, int fd, int depth)
{
	_cleanup_dir_ DIR *d = open_list(fd);
	const struct dirent *de;
	int r = d ? 0 : -ENOMEM;

	while (r == 0 && (de = readdir(d)))
		if (!is_dots(de->d_name))
			r = remove_entry(m, fd, de->d_name, depth);
	return r;
}

int tree_remove(int parent, const char *name)
{
	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	_cleanup_fd_ int fd = open_own(parent, name, O_RDONLY | O_DIRECTORY, 0700);
	if (fd < 0)
		return fd;
	if (fchmod(fd, 0700) < 0)
		return -errno;
	struct removal m = {.top = fd};
	for (;;) {
		unsigned before = m.moved;
		int r = remove_folder(&m, fd, 0);
		if (r < 0)
			return r;
		if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
			return 0;
		if (errno != ENOTEMPTY || m.moved == before)
			return -errno;
	}
}

/* ---- aside and back ---- */

/* Moving a folder to another parent needs the right to write to it, rename(2). */
static int move(int from, int to, const char *name)
{
	struct stat st;

	if (renameat(from, name, to, name) == 0)
		return 0;
	if (errno != EACCES || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(st.st_mode))
		return -errno;
	if (fchmodat(from, name, (st.st_mode & 0777u) | S_IRWXU, 0) < 0 ||
	    renameat(from, name, to, name) < 0)
		return -errno;
	return fchmodat(to, name, st.st_mode & MODE_BITS, 0) < 0 ? -errno : 0;
}

static int move_all(int from, int to, const char *but)
{
	_cleanup_dir_ DIR *d = open_list(from);
	const struct dirent *de;
	int r = d ? 0 : -ENOMEM;

	while (r == 0 && (de = readdir(d)))
		if (!is_dots(de->d_name) && (!but || strcmp(de->d_name, but) != 0))
			r = move(from, to, de->d_name);
	return r;
}

int tree_set_aside(int dir, const char *name)
{
	_cleanup_fd_ int aside = fd_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);

	return aside < 0 ? aside : move_all(dir, aside, name);
}

int tree_clear(int dir, const char *but)
{
	_cleanup_dir_ DIR *d = open_list(dir);
	const struct dirent *de;
	int r = d ? 0 : -ENOMEM;

	while (r == 0 && (de = readdir(d)))
		if (!is_dots(de->d_name) && (!but || strcmp(de->d_name, but) != 0))
			r = tree_remove(dir, de->d_name);
	return r;
}

int tree_put_back(int dir, const char *name)
{
	_cleanup_fd_ int aside = fd_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);

	if (aside == -ENOENT)
		return 0;
	if (aside < 0)
		return aside;
	int r = tree_clear(dir, name);
	if (r == 0)
		r = move_all(aside, dir, NULL);
	if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}
