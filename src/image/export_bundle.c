/* SPDX-License-Identifier: Apache-2.0 */
/* Exports images as container images. The same image gives the same bytes: nothing of the export's time or user is in
 * them. Layers need digests before they can be put into the archive, so they are written to files beside it first. */
#include "image/export_bundle.h"

#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/text.h"
#include "image/export_layers.h"
#include "image/oci.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_SIZE (256u << 10)
#define ANNOTATION "org.opencontainers.image."

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
	oci_digest_end(&h, ret->digest);
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

/* A list of N values that OF makes. NULL: no memory. */
static json_t *list_of(const struct export_layers *l, json_t *(*of)(const struct export_layer *l))
{
	json_t *ret = json_array();

	for (size_t i = 0; ret && i < l->n; i++)
		if (json_array_append_new(ret, of(&l->v[i])) < 0) {
			json_decref(ret);
			return NULL;
		}
	return ret;
}

static json_t *diff_id(const struct export_layer *l)
{
	return json_string(l->diff_id);
}

static json_t *gzip_layer(const struct export_layer *l)
{
	return blob_json(OCI_TYPE_LAYER, &l->blob);
}

static json_t *zstd_layer(const struct export_layer *l)
{
	return blob_json(OCI_TYPE_LAYER_ZSTD, &l->blob);
}

static void blob_path(const struct oci_blob *b, char ret[OCI_DIGEST_LEN + 16])
{
	(void)snprintf(ret, OCI_DIGEST_LEN + 16, "blobs/sha256/%s", b->digest + strlen("sha256:"));
}

static json_t *layer_path(const struct export_layer *l)
{
	char path[OCI_DIGEST_LEN + 16];

	blob_path(&l->blob, path);
	return json_string(path);
}

/* Tools count the entries of the history: one for each layer. */
static json_t *config_json(const struct export_layers *l, const struct export_bundle *x)
{
	json_t *history = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(history,
					    json_pack("{s:s, s:s}", "created", x->created,
						      "created_by", "caisson image export"));
	return json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:o}, s:o}", "architecture", x->architecture,
			 "os", "linux", "created", x->created, "config",
			 x->start ? json_incref(x->start) : default_start(x), "rootfs", "type",
			 "layers", "diff_ids", list_of(l, diff_id), "history", history);
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

static void put_layer(struct bundle *b, const struct export_layer *l, char *block)
{
	char path[OCI_DIGEST_LEN + 16];

	blob_path(&l->blob, path);
	put_header(b, path, l->blob.size);
	if (lseek(l->fd, 0, SEEK_SET) < 0)
		b->r = -errno;
	while (b->r >= 0) {
		ssize_t n = read(l->fd, block, BLOCK_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			b->r = n < 0 ? -errno : 0;
			return;
		}
		if (archive_write_data(b->out, block, (size_t)n) < 0)
			b->r = -EIO;
	}
}

/* Equal layers are one blob. */
static bool is_repeated(const struct export_layers *l, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (streq(l->v[i].blob.digest, l->v[j].blob.digest))
			return true;
	return false;
}

static void put_layers(struct bundle *b, const struct export_layers *l)
{
	_cleanup_free_ char *block = malloc(BLOCK_SIZE);

	if (!block)
		b->r = -ENOMEM;
	for (size_t i = 0; b->r >= 0 && i < l->n; i++)
		if (!is_repeated(l, i))
			put_layer(b, &l->v[i], block);
}

static void put_all(struct bundle *b, const struct export_layers *l, const struct export_bundle *x)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	struct oci_blob config, manifest, ignored;
	char config_path[OCI_DIGEST_LEN + 16];

	put_layers(b, l);
	put_json(b, NULL, config_json(l, x), &config);
	put_json(b, NULL,
		 json_pack("{s:i, s:s, s:o, s:o, s:o}", "schemaVersion", 2, "mediaType",
			   OCI_TYPE_MANIFEST, "config", blob_json(OCI_TYPE_CONFIG, &config),
			   "layers", list_of(l, x->zstd ? zstd_layer : gzip_layer), "annotations",
			   annotations(x->start)),
		 &manifest);
	json_t *entry = blob_json(OCI_TYPE_MANIFEST, &manifest), *notes = annotations(x->start);

	(void)json_object_set_new(notes, ANNOTATION "ref.name", json_string(x->tag));
	(void)json_object_set_new(entry, "annotations", notes);
	(void)json_object_set_new(
	    entry, "platform",
	    json_pack("{s:s, s:s}", "os", "linux", "architecture", x->architecture));
	put_json(b, "index.json", json_pack("{s:i, s:[o]}", "schemaVersion", 2, "manifests", entry),
		 &ignored);
	put_text(b, "oci-layout", layout, strlen(layout));
	if (!x->docker)
		return;
	blob_path(&config, config_path);
	put_json(b, "manifest.json",
		 json_pack("[{s:s, s:[s], s:o}]", "Config", config_path, "RepoTags", x->tag,
			   "Layers", list_of(l, layer_path)),
		 &ignored);
}

int export_bundle(int fd, int root, const struct export_bundle *x, const struct image_watch *w,
		  struct err *e)
{
	_cleanup_free_ struct export_layers *l = calloc(1, sizeof(*l));
	struct bundle b = {0};

	if (!l)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "export");
	int r = export_layers_write(l, root, x->zstd, x->beside, w, e);

	b.out = archive_write_new();
	w->step(w->user, "writing the archive");
	if (r >= 0) {
		if (!b.out || archive_write_set_format_pax_restricted(b.out) != ARCHIVE_OK ||
		    archive_write_open_fd(b.out, fd) != ARCHIVE_OK)
			b.r = -ENOMEM;
		if (b.r >= 0)
			put_all(&b, l, x);
		if (b.r >= 0 && archive_write_close(b.out) != ARCHIVE_OK)
			b.r = -EIO;
		if (b.r < 0)
			r = err_set(e, ERR_SYSTEM, -b.r, "cannot write the archive");
	}
	(void)archive_write_free(b.out);
	export_layers_done(l);
	return r;
}
