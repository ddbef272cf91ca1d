/* SPDX-License-Identifier: Apache-2.0 */
#include "image/export_layers.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_SIZE (256u << 10)
#define TICK_EVERY 256
#define ZSTD_LEVEL "9"  /* 15 takes six times as long for a twentieth of the size */
#define OWNER      1000 /* of the folders that a container writes: root.h */

/* A folder that is being walked, and those that it is in: a layer begins with them. */
struct frame {
	const struct frame *up;
	int dir; /* of the folder that it is in; borrowed */
	const char *name;
	const char *path; /* with a '/' at its end */
	const struct stat *st;
};

struct writer {
	struct export_layers *layers;
	const char *beside;
	bool zstd;
	const struct image_watch *watch;
	const struct frame *top; /* the innermost; NULL = the root */
	uint64_t entries;
	char *block; /* owned */
	/* The layer that is being written. */
	struct export_layer *layer;   /* one of LAYERS; NULL = none yet */
	struct archive *tar, *packer; /* owned */
	struct archive_entry_linkresolver *links;
	crypto_hash_sha256_state plain, packed;
	uint64_t room; /* bytes of files that it may still get */
};

static const char *const writable[] = {"mnt/data", "app/results", "home/sandbox", "home/user"};

static la_ssize_t take_plain(struct archive *a UNUSED, void *user, const void *data, size_t len)
{
	struct writer *l = user;

	(void)crypto_hash_sha256_update(&l->plain, data, len);
	return archive_write_data(l->packer, data, len) < 0 ? -1 : (la_ssize_t)len;
}

static la_ssize_t take_packed(struct archive *a, void *user, const void *data, size_t len)
{
	struct writer *l = user;

	(void)crypto_hash_sha256_update(&l->packed, data, len);
	l->layer->blob.size += len;
	int r = fd_write_all(l->layer->fd, data, len);

	if (r < 0)
		archive_set_error(a, -r, "%s", r == -ENOSPC ? "the disk is full" : "write error");
	return r < 0 ? -1 : (la_ssize_t)len;
}

/* The same bytes each time: no time of the day, one thread, one level. */
static bool choose_filter(struct writer *l)
{
	if (l->zstd)
		return archive_write_add_filter_zstd(l->packer) == ARCHIVE_OK &&
		       archive_write_set_filter_option(l->packer, "zstd", "compression-level",
						       ZSTD_LEVEL) == ARCHIVE_OK;
	return archive_write_add_filter_gzip(l->packer) == ARCHIVE_OK &&
	       archive_write_set_filter_option(l->packer, "gzip", "timestamp", NULL) == ARCHIVE_OK;
}

static int open_archives(struct writer *l)
{
	struct archive_entry *entry = archive_entry_new();

	l->tar = archive_write_new();
	l->packer = archive_write_new();
	/* A hard link to a file of a lower layer is one that container engines cannot follow, so each layer has its own. */
	l->links = archive_entry_linkresolver_new();
	(void)crypto_hash_sha256_init(&l->plain);
	(void)crypto_hash_sha256_init(&l->packed);
	bool good = entry && l->tar && l->packer && l->links;

	if (good) {
		archive_entry_linkresolver_set_strategy(l->links,
							ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
		archive_entry_set_filetype(entry, AE_IFREG);
		archive_entry_set_pathname(entry, "layer");
	}
	good = good && choose_filter(l) &&
	       /* Docker's reader takes padding behind the stream for damage. */
	       archive_write_set_bytes_in_last_block(l->packer, 1) == ARCHIVE_OK &&
	       archive_write_set_format_raw(l->packer) == ARCHIVE_OK &&
	       archive_write_open(l->packer, l, NULL, take_packed, NULL) == ARCHIVE_OK &&
	       archive_write_header(l->packer, entry) == ARCHIVE_OK &&
	       archive_write_set_format_pax_restricted(l->tar) == ARCHIVE_OK &&
	       archive_write_open(l->tar, l, NULL, take_plain, NULL) == ARCHIVE_OK;
	archive_entry_free(entry);
	return good ? 0 : -ENOMEM;
}

static int copy_content(struct writer *l, int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, l->block, BLOCK_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (archive_write_data(l->tar, l->block, (size_t)n) < 0)
			return -EIO;
	}
}

/* Files keep their time, because compiled Python files depend on it. */
static int describe(struct archive_entry *entry, int dir, const char *name, const char *path,
		    const struct stat *st)
{
	char target[PATH_MAX];

	archive_entry_copy_stat(entry, st);
	archive_entry_set_pathname(entry, path);
	archive_entry_unset_atime(entry);
	archive_entry_unset_ctime(entry);
	archive_entry_unset_birthtime(entry);
	archive_entry_set_mtime(entry, S_ISREG(st->st_mode) ? st->st_mtime : 0, 0);
	archive_entry_set_uid(entry, 0);
	archive_entry_set_gid(entry, 0);
	for (size_t i = 0; i < ARRAY_SIZE(writable); i++)
		if (streq(path, writable[i])) {
			archive_entry_set_uid(entry, OWNER);
			archive_entry_set_gid(entry, OWNER);
		}
	if (streq(
		path,
		"tmp")) /* runc and crun give what is mounted there the mode of the image's folder */
		archive_entry_set_perm(entry, 01777);
	if (!S_ISLNK(st->st_mode))
		return 0;
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	archive_entry_set_symlink(entry, target);
	return 0;
}

static int write_entry(struct writer *l, int dir, const char *name, const char *path,
		       const struct stat *st)
{
	struct archive_entry *entry = archive_entry_new();
	struct archive_entry *spare = NULL;
	int r = entry ? describe(entry, dir, name, path, st) : -ENOMEM;

	if (r >= 0) {
		if (S_ISREG(st->st_mode))
			archive_entry_linkify(l->links, &entry, &spare);
		if (archive_write_header(l->tar, entry) < ARCHIVE_WARN)
			r = -EIO;
		else if (S_ISREG(st->st_mode) && !archive_entry_hardlink(entry))
			r = copy_content(l, dir, name);
	}
	archive_entry_free(entry);
	archive_entry_free(spare);
	return r;
}

/* Container engines unpack each layer into a folder of its own and lay these over each other, so a folder's mode and owner are those of the
 * highest layer that has something in it. */
static int write_parents(struct writer *l, const struct frame *f)
{
	char path[PATH_MAX];
	const int r = f->up ? write_parents(l, f->up) : 0;

	(void)snprintf(path, sizeof(path), "%.*s", (int)strlen(f->path) - 1, f->path);
	return r < 0 ? r : write_entry(l, f->dir, f->name, path, f->st);
}

static int open_layer(struct writer *l)
{
	struct export_layer *next = &l->layers->v[l->layers->n];
	char part[PATH_MAX];
	char tail[2 * 4 + 1];

	rand_hex(tail, 4);
	if ((size_t)snprintf(part, sizeof(part), "%s.%s.layer", l->beside, tail) >= sizeof(part))
		return -ENAMETOOLONG;
	next->fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (next->fd < 0)
		return -errno;
	(void)unlink(part);
	l->layers->n++;
	l->layer = next;
	l->room = EXPORT_LAYER_BYTES;
	const int r = open_archives(l);

	return r < 0 || !l->top ? r : write_parents(l, l->top);
}

static void free_archives(struct writer *l)
{
	(void)archive_write_free(l->tar);
	(void)archive_write_free(l->packer);
	if (l->links)
		archive_entry_linkresolver_free(l->links);
	l->tar = l->packer = NULL;
	l->links = NULL;
}

static int close_layer(struct writer *l)
{
	if (archive_write_close(l->tar) != ARCHIVE_OK ||
	    archive_write_close(l->packer) != ARCHIVE_OK)
		return -EIO;
	oci_digest_end(&l->plain, l->layer->diff_id);
	oci_digest_end(&l->packed, l->layer->blob.digest);
	free_archives(l);
	return 0;
}

/* The next layer, if the file with ST is too large for this one and not the first in it. */
static int make_room(struct writer *l, const struct stat *st)
{
	const uint64_t size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
	int r = 0;

	if (size > l->room && l->room < EXPORT_LAYER_BYTES && l->layers->n < EXPORT_LAYERS_MAX) {
		r = close_layer(l);
		if (r >= 0)
			r = open_layer(l);
	}
	l->room -= MIN(size, l->room);
	return r;
}

static int add_entry(struct writer *l, int dir, const char *name, const char *path,
		     const struct stat *st)
{
	int r = make_room(l, st);

	if (r >= 0)
		r = write_entry(l, dir, name, path, st);
	if (++l->entries % TICK_EVERY == 0)
		l->watch->tick(l->watch->user, "files", l->entries, 0);
	return r < 0 ? r : image_cancelled(l->watch) ? -ECANCELED : 0;
}

/* By bytes, whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(struct writer *l, int dir, const char *prefix);

static int add_name(struct writer *l, int dir, const char *prefix, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if ((size_t)snprintf(path, sizeof(path), "%s%s", prefix, name) + 1 >= sizeof(path))
		return -ENAMETOOLONG;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	int r = add_entry(l, dir, name, path, &st);

	if (r < 0 || !S_ISDIR(st.st_mode))
		return r;
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const size_t n = strlen(path);

	path[n] = '/';
	path[n + 1] = '\0';
	if (fd < 0)
		return -errno;
	const struct frame frame = {
	    .up = l->top, .dir = dir, .name = name, .path = path, .st = &st};

	l->top = &frame;
	r = add_folder(l, fd, path);
	l->top = frame.up;
	return r;
}

/* Images are at most 64 folders deep (unpack.h). */
static int add_folder(struct writer *l, int dir, const char *prefix)
{
	struct dirent **names = NULL;
	int n = scandirat(dir, ".", &names, NULL, by_name);
	int r = n < 0 ? -errno : 0;

	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		if (r >= 0 && !streq(name, ".") && !streq(name, ".."))
			r = add_name(l, dir, prefix, name);
		free(names[i]);
	}
	free(names);
	return r;
}

int export_layers_write(struct export_layers *ret, int root, bool zstd, const char *beside,
			const struct image_watch *w, struct err *e)
{
	struct writer l = {
	    .layers = ret, .beside = beside, .zstd = zstd, .watch = w, .block = malloc(BLOCK_SIZE)};
	int r = l.block ? open_layer(&l) : -ENOMEM;

	if (r >= 0)
		r = add_folder(&l, root, "");
	if (r >= 0)
		r = close_layer(&l);
	free_archives(&l);
	free(l.block);
	if (r == -ECANCELED)
		return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot write a layer beside %s", beside) : 0;
}

void export_layers_done(struct export_layers *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->v[i].fd = fd_close(l->v[i].fd);
	l->n = 0;
}
