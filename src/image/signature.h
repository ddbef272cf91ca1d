/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of images and of release files, in the format of minisign: whoever wants to check one by hand needs no program of
 * ours. Of an image one line is signed, NAME@DIGEST, so that a signed image cannot be passed off as another one. A registry has the
 * signature under the tag sha256-HEX.minisig of the image's repository (docs/decisions/0036-signed-images.md).
 *
 * All functions work on memory and do nothing else. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>

#define SIGNATURE_MAX      1024 /* bytes of a signature */
#define SIGNATURE_KEYS_MAX 4
#define SIGNATURE_ID_SIZE  8

struct signature_key {
	unsigned char id[SIGNATURE_ID_SIZE];
	unsigned char public[crypto_sign_PUBLICKEYBYTES];
};

struct signature_keys {
	struct signature_key keys[SIGNATURE_KEYS_MAX];
	size_t n; /* 0: nothing is checked */
};

/* TEXT: public keys as minisign prints them, separated by commas or blanks. SETTING_INVALID. */
int signature_parse_keys(const char *text, struct signature_keys *ret, struct err *e) MUST_CHECK;
/* Whether TEXT is a signature of NAME@DIGEST by one of the keys. IMAGE_INVALID: it is not. */
int signature_check(const struct signature_keys *keys, const char *text, size_t len,
		    const char *name, const char *digest, struct err *e) MUST_CHECK;
/* Whether TEXT is a signature of the file whose content is DATA. WHAT names that in errors. IMAGE_INVALID: it is not. */
int signature_check_file(const struct signature_keys *keys, const char *text, size_t len,
			 const char *data, size_t data_len, const char *what,
			 struct err *e) MUST_CHECK;
