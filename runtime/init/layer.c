/* SPDX-License-Identifier: Apache-2.0 */
/* What the root user has changed, as the layer of a container image: OCI image specification 1.1, "Image Layer Filesystem
 * Changeset". The form is that of tar(5), "ustar", with records of pax where a field is too short.
 *
 * The upper folder is that of an overlay (kernel: Documentation/filesystems/overlayfs.rst, "whiteouts and opaque directories",
 * "User xattr"): what is removed is a character device 0/0, and a folder that hides the lower one has an attribute. A program
 * of the sandbox cannot make either. What it can make is names, links and sizes, and whoever unpacks the layer judges those. */
#include "root_user.h"

#include "base/fdio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BLOCK       512u
#define PIECE_BYTES (128u << 10)
#define PATH_BYTES  4096u
#define RECORD_MAX  (PATH_BYTES + 32u) /* "LENGTH linkpath=…\n" */
#define SIZE_FIELD  077777777777       /* the largest number of its eleven digits */
#define MODE_BITS   01777u
#define OPAQUE      "user.overlay.opaque"
#define WHITEOUT    ".wh."
#define END         ".wh..wh..end" /* image/merge.h: MERGE_END */

/* tar(5), "POSIX ustar Archives". */
struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
	char type;
	char link[100], magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155];
	char pad[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a header is a block");

enum { TYPE_FILE = '0', TYPE_LINK = '1', TYPE_SYMLINK = '2', TYPE_FOLDER = '5', TYPE_PAX = 'x' };

struct link_row {
	ino_t ino;
	char *path;
};

struct layer {
	int out;
	struct tree_count *count;
	char path[PATH_BYTES]; /* of the entry; folders above it end with a slash */
	size_t len;            /* of the folder's part of PATH */
	struct link_row
	    links[TREE_LINKS_MAX]; /* by inode; after a collision the file is written again */
};

struct entry {
	char type;
	const char *path;
	const char *link; /* NULL = none */
	uint64_t size;
	const struct stat *st;
};

static const char zeros[BLOCK];
static char piece[PIECE_BYTES];

static int put(const struct layer *l, const void *data, size_t len)
{
	return fd_write_all(l->out, data, len);
}

static int pad(const struct layer *l, uint64_t size)
{
	const size_t over = (size_t)(size % BLOCK);

	return over ? put(l, zeros, BLOCK - over) : 0;
}

/* A field that is too short has 0: a record of pax says what is right. */
static void octal(char *field, size_t size, uint64_t value)
{
	char text[32];
	const int n =
	    snprintf(text, sizeof(text), "%0*llo", (int)size - 1, (unsigned long long)value);

	if (n != (int)size - 1)
		(void)snprintf(text, sizeof(text), "%0*u", (int)size - 1, 0u);
	memcpy(field, text, size);
}

/* What does not fit is in a record of pax. A field that is full has no NUL. */
static void cut(char *field, size_t size, const char *text)
{
	const size_t n = strlen(text);

	memcpy(field, text, n < size ? n : size);
}

static int put_header(const struct layer *l, const struct entry *e)
{
	struct ustar h = {.type = e->type, .magic = "ustar", .version = {'0', '0'}};
	unsigned sum = 0;

	cut(h.name, sizeof(h.name), e->path);
	cut(h.link, sizeof(h.link), e->link ? e->link : "");
	octal(h.mode, sizeof(h.mode), e->st->st_mode & MODE_BITS);
	octal(h.uid, sizeof(h.uid), e->st->st_uid);
	octal(h.gid, sizeof(h.gid), e->st->st_gid);
	octal(h.size, sizeof(h.size), e->size);
	octal(h.mtime, sizeof(h.mtime),
	      e->st->st_mtim.tv_sec < 0 ? 0 : (uint64_t)e->st->st_mtim.tv_sec);
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	(void)snprintf(h.checksum, sizeof(h.checksum), "%06o", sum);
	return put(l, &h, sizeof(h));
}

/* The length counts its own digits. */
static size_t add_record(char to[RECORD_MAX], const char *key, const char *value)
{
	const size_t rest = strlen(key) + strlen(value) + 3;
	size_t len = rest + 1;

	for (size_t digits = 1, bound = 10; len >= bound; bound *= 10)
		len = rest + ++digits;
	(void)snprintf(to, RECORD_MAX, "%zu %s=%s\n", len, key, value);
	return len;
}

/* The records of pax that an entry needs, if it does. */
static int put_records(const struct layer *l, const struct entry *e)
{
	static char records[3 * RECORD_MAX];
	static const struct stat plain = {.st_mode = S_IFREG | 0644};
	char size[32];
	size_t n = 0;

	if (strlen(e->path) > sizeof(((struct ustar *)0)->name))
		n += add_record(records + n, "path", e->path);
	if (e->link && strlen(e->link) > sizeof(((struct ustar *)0)->link))
		n += add_record(records + n, "linkpath", e->link);
	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)e->size);
	if (e->size > SIZE_FIELD)
		n += add_record(records + n, "size", size);
	if (n == 0)
		return 0;
	const struct entry head = {.type = TYPE_PAX, .path = "pax", .size = n, .st = &plain};
	int r = put_header(l, &head);

	r = r < 0 ? r : put(l, records, n);
	return r < 0 ? r : pad(l, n);
}

static int put_entry(const struct layer *l, const struct entry *e)
{
	const int r = put_records(l, e);

	return r < 0 ? r : put_header(l, e);
}

/* NAME in the current folder becomes the current entry. */
static int enter(struct layer *l, const char *name)
{
	const size_t n = strlen(name);

	if (l->len + n + 2 > sizeof(l->path)) /* and a slash */
		return -ENAMETOOLONG;
	memcpy(l->path + l->len, name, n + 1);
	return 0;
}

/* A file that says something of others: NAME is in the current folder. */
static int put_mark(struct layer *l, const char *prefix, const char *name)
{
	static const struct stat st = {.st_mode = S_IFREG | 0644};
	char mark[NAME_MAX + sizeof(WHITEOUT)];

	(void)snprintf(mark, sizeof(mark), "%s%s", prefix, name);
	const int r = enter(l, mark);
	const struct entry e = {.type = TYPE_FILE, .path = l->path, .st = &st};

	return r < 0 ? r : put_entry(l, &e);
}

/* The bytes that the header has announced, even if the file has become shorter. */
static int put_data(struct layer *l, int fd, uint64_t size)
{
	uint64_t left = size;

	while (left > 0) {
		const size_t want = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
		const ssize_t n = read(fd, piece, want);
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE;
		const int r = put(l, piece, (size_t)n);
		if (r < 0)
			return r;
		left -= (uint64_t)n;
	}
	l->count->bytes += size;
	return pad(l, size);
}

static struct link_row *row_of(struct layer *l, const struct stat *st)
{
	return st->st_nlink > 1 ? &l->links[st->st_ino % TREE_LINKS_MAX] : NULL;
}

static int put_file(struct layer *l, int dir, const char *name)
{
	_cleanup_fd_ int fd = fd_open_beneath(dir, name, O_RDONLY, 0);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	struct link_row *row = row_of(l, &st);
	const char *first = row && row->ino == st.st_ino ? row->path : NULL;
	const struct entry e = {.type = first ? TYPE_LINK : TYPE_FILE,
				.path = l->path,
				.link = first,
				.size = first ? 0 : (uint64_t)st.st_size,
				.st = &st};
	const int r = put_entry(l, &e);

	l->count->files++;
	if (row && !row->path && (row->path = strdup(l->path)))
		row->ino = st.st_ino;
	return r < 0 || first ? r : put_data(l, fd, e.size);
}

static int put_symlink(struct layer *l, int dir, const char *name, const struct stat *st)
{
	static char target[PATH_BYTES];
	const ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	const struct entry e = {.type = TYPE_SYMLINK, .path = l->path, .link = target, .st = st};

	return put_entry(l, &e);
}

static int put_content(struct layer *l, int folder, int depth);

static int put_folder(struct layer *l, int dir, const char *name, int depth)
{
	const size_t before = l->len;
	const size_t len = before + strlen(name);
	_cleanup_fd_ int fd = fd_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
	struct stat st;
	char opaque;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	if (depth == TREE_DEPTH_MAX)
		return -ELOOP;
	l->path[len] = '/';
	l->path[len + 1] = '\0';
	const struct entry e = {.type = TYPE_FOLDER, .path = l->path, .st = &st};
	int r = put_entry(l, &e);

	l->len = len + 1;
	if (r == 0 && fgetxattr(fd, OPAQUE, &opaque, 1) == 1 && opaque == 'y')
		r = put_mark(l, WHITEOUT WHITEOUT, ".opq");
	r = r < 0 ? r : put_content(l, fd, depth + 1);
	l->len = before;
	return r;
}

static int put_one(struct layer *l, int dir, const char *name, int depth)
{
	struct stat st;
	int r = enter(l, name);

	if (r < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return r < 0 ? r : -errno;
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return put_file(l, dir, name);
	case S_IFDIR:
		return put_folder(l, dir, name, depth);
	case S_IFLNK:
		return put_symlink(l, dir, name, &st);
	case S_IFCHR:
		if (st.st_rdev == makedev(0, 0))
			return put_mark(l, WHITEOUT, name);
		break;
	default:
		break;
	}
	l->count->skipped++;
	return 0;
}

static int put_content(struct layer *l, int folder, int depth)
{
	const int fd = fd_open_beneath(folder, ".", O_RDONLY | O_DIRECTORY, 0);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;
	int r = d ? 0 : -ENOMEM;

	if (!d && fd >= 0)
		(void)close(fd);
	while (r == 0 && (de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			r = put_one(l, folder, de->d_name, depth);
	return r;
}

int root_user_write_layer(int pipe, struct tree_count *count)
{
	struct layer *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	(void)signal(SIGPIPE, SIG_IGN); /* a reader that has ended is EPIPE */
	l->out = pipe;
	l->count = count;
	int r = put_content(l, root_user_upper(), 0);
	if (r == 0)
		r = put_mark(l, "", END);
	for (int i = 0; r == 0 && i < 2; i++)
		r = put(l, zeros, BLOCK);
	for (size_t i = 0; i < TREE_LINKS_MAX; i++)
		free(l->links[i].path);
	free(l);
	return r;
}
