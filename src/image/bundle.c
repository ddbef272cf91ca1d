/* SPDX-License-Identifier: Apache-2.0 */
#include "image/bundle.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_SIZE  (256u << 10)
#define INDEX_DEPTH 3 /* indexes within indexes */

/* Opens a file of the bundle. Docker's older archives have links to other layers, so links are
 * followed, inside the folder only. */
static int open_part(int folder, const char *path, struct err *e)
{
	const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
				     .resolve =
					 RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
	int fd = fd_openat2(folder, path, &how);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	int saved = fd < 0 ? -fd : EINVAL;

	(void)fd_close(fd);
	return err_set(e, ERR_IMAGE_INVALID, saved, "the image lacks '%.200s'", path);
}

static int read_part(int folder, const char *path, struct buf *b, struct err *e)
{
	_cleanup_fd_ int fd = open_part(folder, path, e);

	if (fd < 0)
		return fd;
	int r = fd_read_file(fd, b);

	return r < 0 ? err_set(e, ERR_IMAGE_INVALID, -r, "cannot read '%.200s' of the image", path)
		     : 0;
}

static int mismatch(struct err *e, const char *wanted, const char *found)
{
	return err_set(e, ERR_IMAGE_INVALID, EBADMSG,
		       "the image is damaged: %.19s… was announced and %.19s… is there", wanted,
		       found);
}

static void blob_path(const char *digest, char ret[OCI_DIGEST_LEN + 16])
{
	(void)snprintf(ret, OCI_DIGEST_LEN + 16, "blobs/sha256/%s", digest + strlen("sha256:"));
}

/* A document, whole and with the right digest. */
static int read_blob(int folder, const struct oci_blob *blob, struct buf *b, struct err *e)
{
	char path[OCI_DIGEST_LEN + 16];
	char found[OCI_DIGEST_LEN + 1];
	crypto_hash_sha256_state h;

	blob_path(blob->digest, path);
	buf_reset(b);
	int r = read_part(folder, path, b, e);

	if (r < 0)
		return r;
	(void)crypto_hash_sha256_init(&h);
	(void)crypto_hash_sha256_update(&h, (const unsigned char *)buf_str(b), b->len);
	oci_digest_end(&h, found);
	if (!streq(found, blob->digest) || b->len != blob->size)
		return mismatch(e, blob->digest, found);
	return 0;
}

/* Opens a layer after its whole file has been compared with its digest. */
static int open_layer(int folder, const struct oci_blob *blob, const struct image_watch *w,
		      struct err *e)
{
	char path[OCI_DIGEST_LEN + 16];
	char found[OCI_DIGEST_LEN + 1];
	crypto_hash_sha256_state h;
	uint64_t size = 0;
	_cleanup_free_ unsigned char *block = malloc(BLOCK_SIZE);

	blob_path(blob->digest, path);
	_cleanup_fd_ int fd = open_part(folder, path, e);

	if (fd < 0)
		return fd;
	if (!block)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading a layer");
	(void)crypto_hash_sha256_init(&h);
	for (;;) {
		ssize_t n = read(fd, block, BLOCK_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, ERR_SYSTEM, errno, "cannot read a layer");
		if (n == 0)
			break;
		(void)crypto_hash_sha256_update(&h, block, (size_t)n);
		size += (uint64_t)n;
		if (image_cancelled(w))
			return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	}
	oci_digest_end(&h, found);
	if (!streq(found, blob->digest) || size != blob->size)
		return mismatch(e, blob->digest, found);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot read a layer");
	return TAKE_FD(fd);
}

/* A file, decompressed and hashed on its way to the reader of tar. */
struct stream {
	struct archive *raw;
	crypto_hash_sha256_state hash;
	uint64_t out;
	bool bomb;
	bool ended;
};

static la_ssize_t read_stream(struct archive *a, void *user, const void **ret)
{
	struct stream *s = user;
	size_t len = 0;
	int64_t offset = 0;

	*ret = NULL;
	if (s->ended)
		return 0;
	int r = archive_read_data_block(s->raw, ret, &len, &offset);

	if (r == ARCHIVE_EOF) {
		s->ended = true;
		return 0;
	}
	const int64_t in = archive_filter_bytes(s->raw, -1);

	s->out += len;
	s->bomb =
	    s->out > UNPACK_BYTES_MAX + (UNPACK_BYTES_MAX >> 3) ||
	    (in > 0 && s->out > UNPACK_RATIO_FREE && s->out / (uint64_t)in > UNPACK_RATIO_MAX);
	if (r != ARCHIVE_OK || s->bomb) {
		archive_set_error(a, EBADMSG, "%s",
				  s->bomb ? "it grows too much when it is unpacked"
					  : "damaged compression");
		return -1;
	}
	(void)crypto_hash_sha256_update(&s->hash, *ret, len);
	return (la_ssize_t)len;
}

static int open_stream(struct stream *s, int fd, struct err *e)
{
	struct archive_entry *entry;

	s->raw = archive_read_new();
	(void)crypto_hash_sha256_init(&s->hash);
	if (!s->raw || archive_read_support_format_raw(s->raw) != ARCHIVE_OK ||
	    archive_read_support_format_empty(s->raw) != ARCHIVE_OK ||
	    archive_read_support_filter_gzip(s->raw) < ARCHIVE_WARN ||
	    archive_read_support_filter_zstd(s->raw) < ARCHIVE_WARN ||
	    archive_read_support_filter_xz(s->raw) < ARCHIVE_WARN)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "preparing to unpack");
	if (archive_read_open_fd(s->raw, fd, BLOCK_SIZE) != ARCHIVE_OK)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "this is no tar, tar.gz, tar.zst or tar.xz file");
	int r = archive_read_next_header(s->raw, &entry);

	s->ended = r == ARCHIVE_EOF;
	return r < ARCHIVE_WARN ? err_set(e, ERR_INVALID_ARGUMENT, 0,
					  "this is no tar, tar.gz, tar.zst or tar.xz file")
				: 0;
}

/* Hashes what follows the end of the archive, such as padding. */
static int drain(struct archive *a, struct stream *s, struct err *e)
{
	const void *block;
	la_ssize_t n;

	while ((n = read_stream(a, s, &block)) > 0)
		;
	return n < 0 ? err_set(e, ERR_IMAGE_INVALID, EBADMSG, "cannot read a layer (%.100s)",
			       archive_error_string(a))
		     : 0;
}

/* NOTES: see image_unpack_noted(); -1 = none are made. */
static int unpack_stream(struct stream *s, bool layer, int root, int notes,
			 const struct image_watch *w, struct unpack_stats *stats, struct err *e)
{
	struct archive *a = archive_read_new();
	int r = 0;

	if (!a || archive_read_support_format_tar(a) != ARCHIVE_OK ||
	    archive_read_support_format_empty(a) != ARCHIVE_OK)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "preparing to unpack");
	else if (archive_read_open(a, s, NULL, read_stream, NULL) != ARCHIVE_OK)
		r = err_set(e, ERR_INVALID_ARGUMENT, 0,
			    "this is no tar, tar.gz, tar.zst or tar.xz file");
	if (r >= 0)
		r = layer        ? image_unpack_layer(a, root, w, stats, e)
		    : notes >= 0 ? image_unpack_noted(a, root, notes, w, stats, e)
				 : image_unpack(a, root, w, stats, e);
	if (r >= 0 && layer)
		r = drain(a, s, e);
	(void)archive_read_free(a);
	return r;
}

int bundle_unpack_file(int fd, const char *diff_id, bool layer, int root,
		       const struct image_watch *w, struct unpack_stats *stats, struct err *e)
{
	struct stream s = {0};
	char found[OCI_DIGEST_LEN + 1];
	int r = open_stream(&s, fd, e);

	if (r >= 0)
		r = unpack_stream(&s, layer, root, -1, w, stats, e);
	oci_digest_end(&s.hash, found);
	(void)archive_read_free(s.raw);
	if (r >= 0 && diff_id && !streq(diff_id, found))
		r = mismatch(e, diff_id, found);
	return r;
}

int bundle_unpack_noted(int fd, int root, int notes, const struct image_watch *w,
			struct unpack_stats *stats, struct err *e)
{
	struct stream s = {0};
	int r = open_stream(&s, fd, e);

	if (r >= 0)
		r = unpack_stream(&s, false, root, notes, w, stats, e);
	(void)archive_read_free(s.raw);
	return r;
}

static bool is_file(int folder, const char *name)
{
	struct stat st;

	return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

enum bundle_kind bundle_kind_of(int folder)
{
	struct stat st;

	/* A root file system may have files of these names, too. */
	if (fstatat(folder, "usr", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return BUNDLE_NONE;
	if (is_file(folder, "oci-layout") && is_file(folder, "index.json"))
		return BUNDLE_OCI;
	return is_file(folder, "manifest.json") ? BUNDLE_DOCKER : BUNDLE_NONE;
}

/* A layer of either kind: its file, open, and what its content must be. */
struct layer_source {
	int folder;
	const struct oci_manifest *manifest;  /* of an OCI layout, or NULL */
	const struct docker_archive *archive; /* of a Docker archive, or NULL */
	const struct oci_config *config;
	const struct bundle_arrival *arrival;
};

static int arrive(const struct bundle_arrival *a, size_t part, struct err *e)
{
	return a ? a->wait(a->user, part, e) : 0;
}

static int unpack_layers(const struct layer_source *l, size_t n, int root,
			 const struct image_watch *w, struct bundle_facts *ret, struct err *e)
{
	int r = 0;

	if (n != l->config->n_diff_ids)
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG,
			       "the image has %zu layers and names %zu", n, l->config->n_diff_ids);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		char step[64];

		r = arrive(l->arrival, i, e);
		if (r < 0)
			break;
		(void)snprintf(step, sizeof(step), "unpacking layer %zu of %zu", i + 1, n);
		w->step(w->user, step);
		_cleanup_fd_ int fd = l->manifest
					  ? open_layer(l->folder, &l->manifest->layers[i], w, e)
					  : open_part(l->folder, l->archive->layers[i], e);

		r = fd < 0 ? fd
			   : bundle_unpack_file(fd, l->config->diff_ids[i], true, root, w,
						&ret->stats, e);
	}
	(void)snprintf(ret->path, sizeof(ret->path), "%.1023s", l->config->path);
	(void)snprintf(ret->created, sizeof(ret->created), "%s", l->config->created);
	return r;
}

static int unpack_oci(const struct bundle_source *s, int root, const struct image_watch *w,
		      struct bundle_facts *ret, struct err *e)
{
	const int folder = s->folder;
	_cleanup_(buf_done) struct buf b = BUF_INIT(OCI_JSON_MAX);
	_cleanup_free_ struct oci_manifest *manifest = calloc(1, sizeof(*manifest));
	_cleanup_free_ struct oci_config *config = calloc(1, sizeof(*config));
	struct oci_blob blob;

	if (!manifest || !config)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading the image");
	int r = arrive(s->arrival, BUNDLE_DOCUMENTS, e);

	if (r >= 0)
		r = read_part(folder, "index.json", &b, e);
	if (r >= 0)
		r = oci_parse_index(buf_str(&b), b.len, s->tag, &blob, e);
	if (r >= 0 && s->digest && s->digest[0] && !streq(s->digest, blob.digest))
		r = mismatch(e, s->digest, blob.digest);
	for (int depth = 0; r >= 0; depth++) {
		r = read_blob(folder, &blob, &b, e);
		if (r < 0 || !oci_is_index(buf_str(&b), b.len))
			break;
		r = depth < INDEX_DEPTH
			? oci_parse_index(buf_str(&b), b.len, NULL, &blob, e)
			: err_set(e, ERR_IMAGE_INVALID, ELOOP, "the image's indexes are nested");
	}
	if (r >= 0)
		r = oci_parse_manifest(buf_str(&b), b.len, manifest, e);
	if (r >= 0)
		r = read_blob(folder, &manifest->config, &b, e);
	if (r >= 0)
		r = oci_parse_config(buf_str(&b), b.len, config, e);
	if (r < 0)
		return r;
	(void)snprintf(ret->digest, sizeof(ret->digest), "%s", blob.digest);
	const struct layer_source l = {
	    .folder = folder, .manifest = manifest, .config = config, .arrival = s->arrival};

	return unpack_layers(&l, manifest->n_layers, root, w, ret, e);
}

/* Docker names the configuration after its digest: HEX.json, later blobs/sha256/HEX. */
static bool is_wrong_name(const char *path, const char *digest)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const size_t n = strspn(name, "0123456789abcdef");

	return n == 64 && (!name[n] || streq(name + n, ".json")) &&
	       strncmp(name, digest + strlen("sha256:"), n) != 0;
}

static int unpack_docker(int folder, const char *tag, int root, const struct image_watch *w,
			 struct bundle_facts *ret, struct err *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(OCI_JSON_MAX);
	_cleanup_free_ struct docker_archive *archive = calloc(1, sizeof(*archive));
	_cleanup_free_ struct oci_config *config = calloc(1, sizeof(*config));
	crypto_hash_sha256_state h;

	if (!archive || !config)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading the image");
	int r = read_part(folder, "manifest.json", &b, e);

	if (r >= 0)
		r = oci_parse_docker(buf_str(&b), b.len, tag, archive, e);
	buf_reset(&b);
	if (r >= 0)
		r = read_part(folder, archive->config, &b, e);
	if (r >= 0)
		r = oci_parse_config(buf_str(&b), b.len, config, e);
	if (r < 0)
		return r;
	(void)crypto_hash_sha256_init(&h);
	(void)crypto_hash_sha256_update(&h, (const unsigned char *)buf_str(&b), b.len);
	oci_digest_end(&h, ret->digest);
	if (is_wrong_name(archive->config, ret->digest))
		return mismatch(e, archive->config, ret->digest);
	const struct layer_source l = {.folder = folder, .archive = archive, .config = config};

	return unpack_layers(&l, archive->n_layers, root, w, ret, e);
}

int bundle_unpack(const struct bundle_source *source, int root, const struct image_watch *w,
		  struct bundle_facts *ret, struct err *e)
{
	ASSERT(source->kind != BUNDLE_NONE);
	return source->kind == BUNDLE_OCI
		   ? unpack_oci(source, root, w, ret, e)
		   : unpack_docker(source->folder, source->tag, root, w, ret, e);
}
