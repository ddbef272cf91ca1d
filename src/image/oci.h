/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of container images: indexes, manifests and configurations of the OCI image
 * specification 1.1 (and Docker's schema 2, which has the same members), and the manifest.json of a
 * Docker archive. They come from outside: every list, text and size has a limit, duplicate keys are
 * refused, and members that we do not know are ignored.
 *
 * All functions parse memory and do nothing else. Errors are ERR_IMAGE_INVALID or, where an image is
 * sound but does not fit this machine, ERR_IMAGE_UNSUITABLE. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCI_JSON_MAX      (4u << 20) /* bytes of one document */
#define OCI_LAYERS_MAX    128
#define OCI_MANIFESTS_MAX 256                  /* entries of an index */
#define OCI_DIGEST_LEN    (7 + 64)             /* "sha256:" and hex digits */
#define OCI_BLOB_MAX      (UINT64_C(16) << 30) /* bytes of one layer, as stored */
#define OCI_PATH_MAX      255
#define OCI_ENV_MAX       4096 /* bytes of PATH */
#define OCI_TIME_MAX      35

#define OCI_TYPE_INDEX       "application/vnd.oci.image.index.v1+json"
#define OCI_TYPE_MANIFEST    "application/vnd.oci.image.manifest.v1+json"
#define OCI_TYPE_CONFIG      "application/vnd.oci.image.config.v1+json"
#define OCI_TYPE_LAYER       "application/vnd.oci.image.layer.v1.tar+gzip"
#define OCI_TYPE_LAYER_ZSTD  "application/vnd.oci.image.layer.v1.tar+zstd"
#define DOCKER_TYPE_INDEX    "application/vnd.docker.distribution.manifest.list.v2+json"
#define DOCKER_TYPE_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"

struct oci_blob {
	char digest[OCI_DIGEST_LEN + 1]; /* "sha256:…", checked */
	uint64_t size;
};

struct oci_manifest {
	struct oci_blob config;
	struct oci_blob layers[OCI_LAYERS_MAX]; /* the lowest first */
	size_t n_layers;
};

struct oci_config {
	char diff_ids[OCI_LAYERS_MAX][OCI_DIGEST_LEN + 1]; /* of the uncompressed layers */
	size_t n_diff_ids;
	char path[OCI_ENV_MAX + 1];     /* PATH of its environment; "" = none */
	char created[OCI_TIME_MAX + 1]; /* RFC 3339; "" = it does not say, or oddly */
};

struct docker_archive {
	char config[OCI_PATH_MAX + 1]; /* names inside the archive */
	char layers[OCI_LAYERS_MAX][OCI_PATH_MAX + 1];
	size_t n_layers;
};

/* This machine, as images name it: "amd64", "arm64". */
const char *oci_architecture(void);
/* One that this program has images for. */
bool oci_is_architecture(const char *name);

bool oci_is_digest(const char *s);
/* Ends H, as "sha256:HEX". */
void oci_digest_end(crypto_hash_sha256_state *h, char ret[OCI_DIGEST_LEN + 1]);
/* "2026-01-31T12:00:00Z", with a fraction or an offset if it likes. Whether there is such a day is not looked at. */
bool oci_is_time(const char *s);

/* True if the text is an index, not a manifest: it has `manifests`. */
bool oci_is_index(const char *text, size_t len);
/* Chooses the manifest or nested index for this machine. TAG: only entries that
 * their annotations call so; NULL or "" = any. */
int oci_parse_index(const char *text, size_t len, const char *tag, struct oci_blob *ret,
		    struct err *e) MUST_CHECK;
int oci_parse_manifest(const char *text, size_t len, struct oci_manifest *ret,
		       struct err *e) MUST_CHECK;
int oci_parse_config(const char *text, size_t len, struct oci_config *ret,
		     struct err *e) MUST_CHECK;
/* TAG: the image with this name and tag; NULL or "": the only one. */
int oci_parse_docker(const char *text, size_t len, const char *tag, struct docker_archive *ret,
		     struct err *e) MUST_CHECK;
/* The token of an authorization server's answer. -EBADMSG: none, or one that no header can carry. */
int oci_parse_token(const char *text, size_t len, char *ret, size_t size) MUST_CHECK;
