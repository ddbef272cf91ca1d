/* SPDX-License-Identifier: Apache-2.0 */
/* What the newest release is: a small JSON file at an address, and beside it, with RELEASE_SIGNATURE_SUFFIX at the end of its
 * name, a signature by one of the keys that sign images (signature.h, docs/decisions/0036-signed-images.md). A process
 * without rights fetches both (worker.h), over https; plain http is for loopback addresses. A redirect keeps the scheme. */
#pragma once

#include "image/image.h"
#include "image/signature.h"

#define RELEASE_FILE_MAX         (64u << 10) /* bytes */
#define RELEASE_FILES_MAX        32
#define RELEASE_NAME_MAX         200
#define RELEASE_VERSION_MAX      32
#define RELEASE_URL_MAX          1024
#define RELEASE_SIGNATURE_SUFFIX ".minisig"

struct release_file {
	char kind[16];         /* "deb", "wheel" */
	char architecture[16]; /* as images name it (oci.h), or "any" */
	char name[RELEASE_NAME_MAX + 1];
	char sha256[64 + 1];
	uint64_t size; /* bytes */
};

struct release {
	char version[RELEASE_VERSION_MAX + 1];
	struct release_file files[RELEASE_FILES_MAX];
	size_t n;
};

/* SETTING_INVALID: URL is none that is asked. CA_FILE: certificates to trust, PEM; NULL = the system's.
 * IMAGE_INVALID: what came is damaged, too large, or nobody with one of the keys has signed it. */
int release_fetch(const char *url, const char *ca_file, const struct signature_keys *keys,
		  const struct image_watch *w, struct release *ret, struct err *e) MUST_CHECK;
/* Works on memory and does nothing else. */
int release_parse(const char *text, size_t len, struct release *ret, struct err *e) MUST_CHECK;
/* Below, at or above 0 as A is older than B, the same, or newer: numbers with dots between them, and what follows a '-' is
 * before the version without it. */
int release_compare(const char *a, const char *b);
/* Where the file lies: in the folder of the file that names it. */
void release_file_url(const char *url, const struct release_file *f,
		      char ret[RELEASE_URL_MAX + RELEASE_NAME_MAX]);
