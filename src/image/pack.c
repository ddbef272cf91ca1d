/* SPDX-License-Identifier: Apache-2.0 */
/* Exports images as one compressed tar file. */
#include "image/image.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "image/def.h"
#include "image/export_bundle.h"
#include "image/manifest.h"
#include "image/oci.h"
#include "image/ref.h"
#include "image/start.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_SIZE (256u << 10)
#define TICK_EVERY 256

static int add_filter(struct archive *a, const char *file)
{
	static const struct {
		const char *suffix;
		int (*add)(struct archive *a);
	} filters[] = {
	    {".tar", archive_write_add_filter_none},
	    {".tar.gz", archive_write_add_filter_gzip},
	    {".tgz", archive_write_add_filter_gzip},
	    {".tar.zst", archive_write_add_filter_zstd},
	};

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		if (text_ends_with(file, filters[i].suffix))
			return filters[i].add(a) == ARCHIVE_OK ? 0 : -ENOMEM;
	return -EINVAL;
}

static int copy_file(struct archive *out, int root, const char *path, char *block)
{
	_cleanup_fd_ int fd = fd_open_beneath(root, path, O_RDONLY, 0);

	if (fd < 0)
		return fd;
	for (;;) {
		ssize_t n = read(fd, block, BLOCK_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (archive_write_data(out, block, (size_t)n) < 0)
			return -EIO;
	}
}

/* Makes a name inside the tree from a name that libarchive built from TOP. */
static int strip_top(const char *full, const char *top, char ret[PATH_MAX])
{
	if (!text_starts_with(full, top))
		return -EINVAL;
	full += strlen(top);
	full += strspn(full, "/");
	return text_copy(ret, PATH_MAX, full);
}

/* Writes one entry of the tree. In the file everything belongs to root, whoever built the image. */
static int write_entry(struct archive *out, int root, struct archive_entry *entry, const char *top,
		       char *block)
{
	char path[PATH_MAX];
	int r = strip_top(archive_entry_pathname(entry), top, path);

	if (r < 0)
		return r;
	if (!path[0])
		return 0;
	archive_entry_set_pathname(entry, path);
	archive_entry_set_uid(entry, 0);
	archive_entry_set_gid(entry, 0);
	archive_entry_set_uname(entry, NULL);
	archive_entry_set_gname(entry, NULL);
	const char *link = archive_entry_hardlink(entry);

	if (link) {
		char target[PATH_MAX];

		r = strip_top(link, top, target);
		if (r < 0)
			return r;
		archive_entry_set_hardlink(entry, target);
	}
	if (archive_write_header(out, entry) < ARCHIVE_WARN)
		return -EIO;
	if (archive_entry_filetype(entry) == AE_IFREG && !link && archive_entry_size(entry) > 0)
		return copy_file(out, root, path, block);
	return 0;
}

static int write_tree(struct archive *disk, struct archive *out, int root, const char *top,
		      const struct image_watch *w, struct err *e)
{
	_cleanup_free_ char *block = malloc(BLOCK_SIZE);
	struct archive_entry_linkresolver *links = archive_entry_linkresolver_new();
	int r = block && links ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "preparing the archive");
	uint64_t n = 0;

	if (links)
		archive_entry_linkresolver_set_strategy(links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
	while (r >= 0) {
		struct archive_entry *entry = archive_entry_new();
		struct archive_entry *spare = NULL;
		int ar = entry ? archive_read_next_header2(disk, entry) : ARCHIVE_FATAL;

		if (ar == ARCHIVE_OK || ar == ARCHIVE_WARN) {
			(void)archive_read_disk_descend(disk);
			archive_entry_linkify(links, &entry, &spare);
			r = entry ? write_entry(out, root, entry, top, block) : 0;
			if (r < 0)
				r = err_set(e, ERR_SYSTEM, -r, "cannot write the archive (%.200s)",
					    archive_error_string(out) ? archive_error_string(out)
								      : "");
			if (++n % TICK_EVERY == 0)
				w->tick(w->user, "files", n, 0);
			if (r >= 0 && image_cancelled(w))
				r = err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
		}
		archive_entry_free(entry);
		archive_entry_free(spare);
		if (ar == ARCHIVE_EOF)
			break;
		if (ar < ARCHIVE_WARN)
			r = err_set(e, ERR_SYSTEM, EIO, "cannot read the image");
	}
	if (links)
		archive_entry_linkresolver_free(links);
	return r;
}

static int export_to(int fd, int root, const char *file, const struct image_watch *w, struct err *e)
{
	struct archive *out = archive_write_new();
	struct archive *disk = archive_read_disk_new();
	char top[64];
	int r = out && disk ? add_filter(out, file) : -ENOMEM;

	(void)snprintf(top, sizeof(top), "/proc/self/fd/%d", root);
	if (r == -EINVAL)
		r = err_set(e, ERR_INVALID_ARGUMENT, 0,
			    "the file's name must end in .tar, .tar.gz, .tgz or .tar.zst");
	else if (r < 0 || archive_write_set_format_pax_restricted(out) != ARCHIVE_OK ||
		 archive_write_open_fd(out, fd) != ARCHIVE_OK ||
		 archive_read_disk_set_symlink_hybrid(disk) != ARCHIVE_OK ||
		 archive_read_disk_set_behavior(
		     disk, ARCHIVE_READDISK_NO_XATTR | ARCHIVE_READDISK_NO_ACL |
			       ARCHIVE_READDISK_NO_FFLAGS) != ARCHIVE_OK ||
		 archive_read_disk_open(disk, top) != ARCHIVE_OK)
		r = err_set(e, ERR_SYSTEM, EIO, "cannot prepare the archive");
	if (r >= 0)
		r = write_tree(disk, out, root, top, w, e);
	if (r >= 0 && archive_write_close(out) != ARCHIVE_OK)
		r = err_set(e, ERR_SYSTEM, EIO, "cannot write %s (%.200s)", file,
			    archive_error_string(out) ? archive_error_string(out) : "");
	(void)archive_write_free(out);
	(void)archive_read_free(disk);
	return r;
}

/* The format, or a plain tar if nobody said: "tar", "docker", "oci". */
static int check_options(const struct image_export_options *o, const char *file, struct err *e)
{
	const char *format = o->format ? o->format : "tar";

	if (!streq(format, "tar") && !streq(format, "docker") && !streq(format, "oci"))
		return err_set(e, ERR_USAGE, 0, "--format is tar, docker or oci");
	if (o->compression && !streq(o->compression, "gzip") && !streq(o->compression, "zstd"))
		return err_set(e, ERR_USAGE, 0, "--compression is gzip or zstd");
	if (o->compression && !streq(format, "oci"))
		return err_set(e, ERR_USAGE, 0, "--compression needs --format oci");
	if (streq(format, "tar"))
		return o->start ? err_set(e, ERR_USAGE, 0, "--start needs --format docker or oci")
				: 0;
	if (!text_ends_with(file, ".tar"))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "the file's name must end in .tar");
	if (o->tag && !image_ref_is_tagged(o->tag))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "--tag is NAME:TAG, as in llm-sandbox:latest");
	return 0;
}

static int write_bundle(int fd, int root, const struct image_manifest *m, const char *file,
			const struct image_export_options *o, const struct image_watch *w,
			struct err *e)
{
	char tag[IMAGE_NAME_MAX + 16];
	json_t *start = NULL;
	/* Of an image from elsewhere, that of the image and not of its import: so what is exported again is the same. */
	const char *since = image_manifest_str(m, "created");
	const char *machine = image_manifest_str(m, "architecture");
	const char *created = since[0] ? since : image_manifest_str(m, "built_at");

	(void)snprintf(tag, sizeof(tag), "%.63s:latest", image_manifest_str(m, "name"));
	struct image_origin origin;
	int r = o->start ? image_start_read(o->start, &start, e) : 0;

	if (r < 0)
		return r;
	/* A record that another program wrote names no modules. */
	(void)!image_origin_read(root, &origin);
	_cleanup_free_ char *preload = image_words_join(&origin.preload, ' ');
	image_origin_done(&origin);
	if (!preload) {
		json_decref(start);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "export");
	}
	const struct export_bundle x = {.tag = o->tag ? o->tag : tag,
					.created = created[0] ? created : "1970-01-01T00:00:00Z",
					.architecture = machine[0] ? machine : oci_architecture(),
					.beside = file,
					.docker = streq(o->format, "docker"),
					.zstd = o->compression && streq(o->compression, "zstd"),
					.preload = preload,
					.start = start};

	r = export_bundle(fd, root, &x, w, e);
	json_decref(start);
	return r;
}

int image_export(const struct image_store *s, const char *name, const char *file,
		 const struct image_export_options *o, const struct image_watch *w, struct err *e)
{
	char part[PATH_MAX];
	char tail[2 * 4 + 1];
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	int r = check_options(o, file, e);

	if (r >= 0)
		r = image_manifest_load(s, name, &m, e);
	if (r < 0)
		return r;
	_cleanup_fd_ int dir = openat(s->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int root =
	    dir >= 0 ? openat(dir, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (root < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot open image '%s'", name);
	rand_hex(tail, 4);
	if ((size_t)snprintf(part, sizeof(part), "%s.%s.part", file, tail) >= sizeof(part))
		return err_set(e, ERR_INVALID_ARGUMENT, ENAMETOOLONG, "%s", file);
	_cleanup_fd_ int fd =
	    open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot make %s", part);
	w->step(w->user, "packing");
	r = o->format && !streq(o->format, "tar") ? write_bundle(fd, root, &m, file, o, w, e)
						  : export_to(fd, root, file, w, e);
	if (r >= 0 && rename(part, file) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "cannot make %s", file);
	if (r < 0)
		(void)unlink(part);
	return r;
}
