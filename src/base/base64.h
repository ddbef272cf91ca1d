/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, RFC 4648 §4: standard alphabet, padding required, nothing else allowed (no blanks, no
 * line breaks). Bits of the last character that belong to no byte are ignored, as Python does.
 * Works in pieces and in constant memory. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base64_decoder { /* all zero = at the beginning */
	uint32_t bits;
	unsigned n_chars; /* of the unfinished group of four */
	unsigned n_pad;
};

/* Room that base64_decode() needs for LEN more characters. */
#define BASE64_DECODED_MAX(len) (((len) + 3) / 4 * 3)
#define BASE64_ENCODED_LEN(len) (((len) + 2) / 3 * 4)

/* Decodes TEXT into RET, which has BASE64_DECODED_MAX(len) bytes; *RET_LEN gets the bytes written.
 * RET NULL: checks only. -EINVAL: not base64. */
int base64_decode(struct base64_decoder *d, const char *text, size_t len, uint8_t *ret,
		  size_t *ret_len) MUST_CHECK;
/* -EINVAL when the text ended inside a group. */
int base64_decode_end(const struct base64_decoder *d) MUST_CHECK;

/* Writes BASE64_ENCODED_LEN(len) characters and no NUL. Pieces of a longer text must have a
 * multiple of three bytes. */
void base64_encode(const uint8_t *data, size_t len, char *ret);
