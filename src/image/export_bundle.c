/* SPDX-License-Identifier: Apache-2.0 */
/* Exports images as container images of one layer. The same image gives the same bytes: entries are
 * sorted, and nothing of the export's time or user is in them. The layer needs a digest before it can
 * be put into the archive, so it is written to a file beside the archive first. */
#include "image/export_bundle.h"

#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "image/oci.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_SIZE (256u << 10)
#define TICK_EVERY 256
#define ZSTD_LEVEL "9"  /* 15 takes six times as long for a twentieth of the size */
#define OWNER      1000 /* of the folders that a container writes: root.h */
#define ANNOTATION "org.opencontainers.image."

struct layer {
	int fd;                       /* owned: the compressed file */
	struct archive *tar, *packer; /* owned */
	struct archive_entry_linkresolver *links;
	crypto_hash_sha256_state plain, packed;
	uint64_t size; /* bytes, compressed */
	uint64_t entries;
	bool zstd;
	const struct image_watch *watch;
	char *block; /* owned */
	char diff_id[OCI_DIGEST_LEN + 1];
	struct oci_blob blob;
};

static const char *const writable[] = {"mnt/data", "app/results", "home/sandbox"};

static void digest_text(crypto_hash_sha256_state *h, char ret[OCI_DIGEST_LEN + 1])
{
	unsigned char sum[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(sum) + 1];

	(void)crypto_hash_sha256_final(h, sum);
	text_hex(sum, sizeof(sum), hex);
	(void)snprintf(ret, OCI_DIGEST_LEN + 1, "sha256:%s", hex);
}

static la_ssize_t take_plain(struct archive *a UNUSED, void *user, const void *data, size_t len)
{
	struct layer *l = user;

	(void)crypto_hash_sha256_update(&l->plain, data, len);
	return archive_write_data(l->packer, data, len) < 0 ? -1 : (la_ssize_t)len;
}

static la_ssize_t take_packed(struct archive *a, void *user, const void *data, size_t len)
{
	struct layer *l = user;

	(void)crypto_hash_sha256_update(&l->packed, data, len);
	l->size += len;
	int r = fd_write_all(l->fd, data, len);

	if (r < 0)
		archive_set_error(a, -r, "%s", r == -ENOSPC ? "the disk is full" : "write error");
	return r < 0 ? -1 : (la_ssize_t)len;
}

/* The same bytes each time: no time of the day, one thread, one level. */
static bool choose_filter(struct layer *l)
{
	if (l->zstd)
		return archive_write_add_filter_zstd(l->packer) == ARCHIVE_OK &&
		       archive_write_set_filter_option(l->packer, "zstd", "compression-level",
						       ZSTD_LEVEL) == ARCHIVE_OK;
	return archive_write_add_filter_gzip(l->packer) == ARCHIVE_OK &&
	       archive_write_set_filter_option(l->packer, "gzip", "timestamp", NULL) == ARCHIVE_OK;
}

static int open_layer(struct layer *l)
{
	struct archive_entry *entry = archive_entry_new();

	l->tar = archive_write_new();
	l->packer = archive_write_new();
	l->links = archive_entry_linkresolver_new();
	l->block = malloc(BLOCK_SIZE);
	(void)crypto_hash_sha256_init(&l->plain);
	(void)crypto_hash_sha256_init(&l->packed);
	bool good = entry && l->tar && l->packer && l->links && l->block;

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

static int copy_content(struct layer *l, int dir, const char *name)
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

static int add_entry(struct layer *l, int dir, const char *name, const char *path,
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
	if (++l->entries % TICK_EVERY == 0)
		l->watch->tick(l->watch->user, "files", l->entries, 0);
	return r < 0 ? r : image_cancelled(l->watch) ? -ECANCELED : 0;
}

/* By bytes, whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(struct layer *l, int dir, const char *prefix);

static int add_name(struct layer *l, int dir, const char *prefix, const char *name)
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
	return fd < 0 ? -errno : add_folder(l, fd, path);
}

/* Images are at most 64 folders deep (unpack.h). */
static int add_folder(struct layer *l, int dir, const char *prefix)
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

static void close_layer(struct layer *l)
{
	(void)archive_write_free(l->tar);
	(void)archive_write_free(l->packer);
	if (l->links)
		archive_entry_linkresolver_free(l->links);
	free(l->block);
	l->fd = fd_close(l->fd);
}

static int write_layer(struct layer *l, int root, struct err *e)
{
	int r = open_layer(l);

	if (r >= 0)
		r = add_folder(l, root, "");
	if (r >= 0 && (archive_write_close(l->tar) != ARCHIVE_OK ||
		       archive_write_close(l->packer) != ARCHIVE_OK))
		r = -EIO;
	if (r == -ECANCELED)
		return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "cannot write the layer");
	digest_text(&l->plain, l->diff_id);
	digest_text(&l->packed, l->blob.digest);
	l->blob.size = l->size;
	return 0;
}

/* The archive and what it has so far. */
struct bundle {
	struct archive *out;
	int r;
};

static void put_header(struct bundle *b, const char *name, uint64_t size)
{
	struct archive_entry *entry = archive_entry_new();

	if (entry) {
		archive_entry_set_pathname(entry, name);
		archive_entry_set_filetype(entry, AE_IFREG);
		archive_entry_set_perm(entry, 0644);
		archive_entry_set_mtime(entry, 0, 0);
		archive_entry_set_size(entry, (int64_t)size);
	}
	if (!entry || archive_write_header(b->out, entry) < ARCHIVE_WARN)
		b->r = -EIO;
	archive_entry_free(entry);
}

static void put_text(struct bundle *b, const char *name, const char *text, size_t len)
{
	put_header(b, name, len);
	if (b->r >= 0 && archive_write_data(b->out, text, len) < 0)
		b->r = -EIO;
}

/* Adds JSON (consumed) as NAME, or as a blob if NAME is NULL; RET: its digest and size. */
static void put_json(struct bundle *b, const char *name, json_t *json, struct oci_blob *ret)
{
	char path[OCI_DIGEST_LEN + 16];
	crypto_hash_sha256_state h;
	size_t len = 0;
	_cleanup_free_ char *text = jsonio_text(json, JSON_COMPACT | JSON_SORT_KEYS, &len);

	json_decref(json);
	*ret = (struct oci_blob){0}; /* put_all() names it also after a failure */
	if (!text)
		b->r = b->r < 0 ? b->r : -ENOMEM;
	if (b->r < 0)
		return;
	(void)crypto_hash_sha256_init(&h);
	(void)crypto_hash_sha256_update(&h, (const unsigned char *)text, len);
	digest_text(&h, ret->digest);
	ret->size = len;
	(void)snprintf(path, sizeof(path), "blobs/sha256/%s", ret->digest + strlen("sha256:"));
	put_text(b, name ? name : path, text, len);
}

static json_t *blob_json(const char *type, const struct oci_blob *blob)
{
	return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", blob->digest, "size",
			 (json_int_t)blob->size);
}

/* What a container starts as, if nobody said: as a sandbox finds the image. */
static json_t *default_start(const struct export_bundle *x)
{
	json_t *preload = *x->preload ? json_sprintf("CAISSON_PRELOAD=%s", x->preload) : NULL;

	return json_pack("{s:[s], s:[s,s,o*], s:s, s:s}", "Cmd", "python3", "Env",
			 "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			 "LANG=C.UTF-8", preload, "User", "1000:1000", "WorkingDir", "/mnt/data");
}

static json_t *config_json(const struct layer *l, const struct export_bundle *x)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:[s]}, s:[{s:s, s:s}]}", "architecture",
			 oci_architecture(), "os", "linux", "created", x->created, "config",
			 x->start ? json_incref(x->start) : default_start(x), "rootfs", "type",
			 "layers", "diff_ids", l->diff_id, "history", "created", x->created,
			 "created_by", "caisson image export");
}

/* The labels that OCI defines as annotations, too: registries show annotations, and open no
 * configuration. */
static json_t *annotations(const json_t *start)
{
	const char *key;
	json_t *value, *ret = json_object();

	json_object_foreach(json_object_get(start, "Labels"), key, value) {
		if (ret && text_starts_with(key, ANNOTATION) &&
		    json_object_set(ret, key, value) < 0) {
			json_decref(ret);
			return NULL;
		}
	}
	return ret;
}

static void put_layer(struct bundle *b, struct layer *l)
{
	char path[OCI_DIGEST_LEN + 16];

	(void)snprintf(path, sizeof(path), "blobs/sha256/%s", l->blob.digest + strlen("sha256:"));
	put_header(b, path, l->size);
	if (lseek(l->fd, 0, SEEK_SET) < 0)
		b->r = -errno;
	while (b->r >= 0) {
		ssize_t n = read(l->fd, l->block, BLOCK_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			b->r = n < 0 ? -errno : 0;
			return;
		}
		if (archive_write_data(b->out, l->block, (size_t)n) < 0)
			b->r = -EIO;
	}
}

static void put_all(struct bundle *b, struct layer *l, const struct export_bundle *x)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	struct oci_blob config, manifest, ignored;
	char config_path[OCI_DIGEST_LEN + 16], layer_path[OCI_DIGEST_LEN + 16];

	put_layer(b, l);
	put_json(b, NULL, config_json(l, x), &config);
	put_json(b, NULL,
		 json_pack("{s:i, s:s, s:o, s:[o], s:o}", "schemaVersion", 2, "mediaType",
			   OCI_TYPE_MANIFEST, "config", blob_json(OCI_TYPE_CONFIG, &config),
			   "layers",
			   blob_json(x->zstd ? OCI_TYPE_LAYER_ZSTD : OCI_TYPE_LAYER, &l->blob),
			   "annotations", annotations(x->start)),
		 &manifest);
	json_t *entry = blob_json(OCI_TYPE_MANIFEST, &manifest), *notes = annotations(x->start);

	(void)json_object_set_new(notes, ANNOTATION "ref.name", json_string(x->tag));
	(void)json_object_set_new(entry, "annotations", notes);
	(void)json_object_set_new(
	    entry, "platform",
	    json_pack("{s:s, s:s}", "os", "linux", "architecture", oci_architecture()));
	put_json(b, "index.json", json_pack("{s:i, s:[o]}", "schemaVersion", 2, "manifests", entry),
		 &ignored);
	put_text(b, "oci-layout", layout, strlen(layout));
	if (!x->docker)
		return;
	(void)snprintf(config_path, sizeof(config_path), "blobs/sha256/%s", config.digest + 7);
	(void)snprintf(layer_path, sizeof(layer_path), "blobs/sha256/%s", l->blob.digest + 7);
	put_json(b, "manifest.json",
		 json_pack("[{s:s, s:[s], s:[s]}]", "Config", config_path, "RepoTags", x->tag,
			   "Layers", layer_path),
		 &ignored);
}

int export_bundle(int fd, int root, const struct export_bundle *x, const struct image_watch *w,
		  struct err *e)
{
	char part[PATH_MAX];
	char tail[2 * 4 + 1];
	struct layer l = {.watch = w, .zstd = x->zstd};
	struct bundle b = {.out = archive_write_new()};

	rand_hex(tail, 4);
	if ((size_t)snprintf(part, sizeof(part), "%s.%s.layer", x->beside, tail) >= sizeof(part))
		b.r = -ENAMETOOLONG;
	l.fd = b.r < 0 ? -1 : open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l.fd >= 0)
		(void)unlink(part);
	int r = l.fd < 0 ? err_set(e, ERR_SYSTEM, errno, "cannot make %s", part)
			 : write_layer(&l, root, e);

	w->step(w->user, "writing the archive");
	if (r >= 0) {
		if (!b.out || archive_write_set_format_pax_restricted(b.out) != ARCHIVE_OK ||
		    archive_write_open_fd(b.out, fd) != ARCHIVE_OK)
			b.r = -ENOMEM;
		if (b.r >= 0)
			put_all(&b, &l, x);
		if (b.r >= 0 && archive_write_close(b.out) != ARCHIVE_OK)
			b.r = -EIO;
		if (b.r < 0)
			r = err_set(e, ERR_SYSTEM, -b.r, "cannot write the archive");
	}
	(void)archive_write_free(b.out);
	close_layer(&l);
	return r;
}
