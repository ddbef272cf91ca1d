/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of an image: NAME/manifest.json, written once when the image is made. The package
 * list is read from the image itself (dpkg's status file and the folders of Python distributions),
 * so imported images have one, too. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/def.h"
#include "image/image_store.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define MANIFEST_FORMAT   1
#define MANIFEST_FILE     "manifest.json"
#define IMAGE_ORIGIN_FILE "image.json" /* in /opt/caisson of the image */
#define MANIFEST_PRELOAD  "preload"
#define MANIFEST_FILE_MAX (4u << 20)
#define MANIFEST_PACKAGES 20000
#define IMAGE_WHEELS_FILE "wheels.json" /* in /opt/caisson of the image; wheels.py writes it */
#define MANIFEST_WHEELS   1000

struct image_manifest {
	json_t *json; /* owned; the whole document */
};

/* Borrowed; "" and 0 if the manifest does not have them. */
const char *image_manifest_str(const struct image_manifest *m, const char *key);
uint64_t image_manifest_u64(const struct image_manifest *m, const char *key);
size_t image_manifest_n_packages(const struct image_manifest *m);

void image_manifest_done(struct image_manifest *m);

/* Reads the manifest of image NAME. -ENOENT: no such image. An image without a manifest (made by
 * hand) gives an empty one with its name. */
int image_manifest_load(const struct image_store *s, const char *name, struct image_manifest *ret,
			struct err *e) MUST_CHECK;

/* Calls FN with the manifest (borrowed) of each image, sorted by name; others are not read. A negative result of FN ends
 * it. */
int image_manifest_each(const struct image_store *s, enum image_whose whose,
			int (*fn)(void *user, const struct image_manifest *m), void *user,
			struct err *e) MUST_CHECK;

/* What only the builder knows; the rest is read from the draft's root. */
struct image_facts {
	const char *name;
	const char *source;  /* "build", or what an import read: "registry", "tar" … */
	const char *origin;  /* the registry's or daemon's name of it; NULL or "" = none */
	const char *digest;  /* "sha256:…" of its manifest; NULL or "" = it had none */
	const char *created; /* when a container image says that it was made; NULL or "" = now */
	const char *description;
	const char *suite;
	const char *architecture; /* oci.h; NULL = this machine's */
	const json_t *note;       /* an object of whoever had it made; NULL = none */
	const char *definition;   /* digest of the definition; "" for imported images */
	char *const *preload;
	size_t n_preload;
	char *const *excludes;
	size_t n_excludes;
	bool release_was_stale;
	uint64_t
	    layer_bytes; /* of files that the image below it does not have; 0 = there is none */
	uint64_t folder_bytes; /* of an image with a layer: of its folders */
	uint64_t setid_dropped;
	uint64_t devices_dropped;
};

/* Writes manifest.json and preload into the draft. -ENOENT: its root has no python3, and no mark of that (python.h). */
int image_manifest_write(const struct image_draft *d, const struct image_facts *f,
			 struct image_manifest *ret, struct err *e) MUST_CHECK;

/* Writes the manifest of the image NAME anew, with NOTE. */
int image_manifest_note(const struct image_store *s, const char *name, const json_t *note,
			struct err *e) MUST_CHECK;

/* What a built image says about itself in /opt/caisson/image.json, so that the information survives
 * export and import. It comes with the image, so it is checked like a definition. */
struct image_origin {
	char description[IMAGE_DEF_VALUE_MAX + 1];
	char suite[IMAGE_DEF_VALUE_MAX + 1];
	char definition[65];
	struct image_words preload;
};

/* If there is no such file, everything is empty or 0. -EBADMSG: this program did not write it. */
int image_origin_read(int root, struct image_origin *ret) MUST_CHECK;
void image_origin_done(struct image_origin *o);
