/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, RFC 4648 §4: standard alphabet, padding required, nothing else allowed (no blanks, no
 * line breaks). Bits of the last character that belong to no byte are ignored, as Python does.
 * Works in pieces and in constant memory.
 *
 * A lax decoder also takes what programs make of it: the URL-safe alphabet, no padding, line breaks, blanks in place of
 * `+` (which a form's decoding makes), and the head of a data: URL. */
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
	bool lax;         /* set by the caller */
	bool irregular;   /* what a decoder that is not lax refuses was there */
	uint64_t n_seen;  /* characters; after a refusal the last one is the wrong one */
	unsigned head;    /* lax: how far the head of a data: URL was found, see base64.c */
	unsigned n_tail;  /* lax: how much of ";base64" was found last */
	unsigned n_blank; /* lax: blanks that are pluses or the end of a line */
	bool in_line;     /* lax: something of this line was there */
};

/* Room that base64_decode() needs for LEN more characters. Those that a lax decoder holds back may come with them. */
#define BASE64_HELD_MAX         8
#define BASE64_DECODED_MAX(len) (((len) + BASE64_HELD_MAX + 3) / 4 * 3)
#define BASE64_ENCODED_LEN(len) (((len) + 2) / 3 * 4)

/* Decodes TEXT into RET, which has BASE64_DECODED_MAX(len) bytes; *RET_LEN gets the bytes written.
 * RET NULL: checks only. -EINVAL: not base64. */
int base64_decode(struct base64_decoder *d, const char *text, size_t len, uint8_t *ret,
		  size_t *ret_len) MUST_CHECK;
/* The end of the text: writes up to BASE64_END_MAX more bytes to RET, which may be NULL; *RET_LEN gets their number.
 * -EINVAL: it ended inside a group. */
#define BASE64_END_MAX 3
int base64_decode_end(struct base64_decoder *d, uint8_t *ret, size_t *ret_len) MUST_CHECK;

/* Writes BASE64_ENCODED_LEN(len) characters and no NUL. Pieces of a longer text must have a
 * multiple of three bytes. */
void base64_encode(const uint8_t *data, size_t len, char *ret);
