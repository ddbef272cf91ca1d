/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsers for numbers, sizes and ids from outside. They take the whole string or fail:
 * -EINVAL = not of the form, -ERANGE = outside the bounds. Outputs are written on success only. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [0-9]+ without sign or blanks; leading zeros are fine. */
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret) MUST_CHECK;
int parse_u64_n(const char *s, size_t len, uint64_t min, uint64_t max, uint64_t *ret) MUST_CHECK;
/* Optional '-' or '+', then digits. */
int parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret) MUST_CHECK;
/* Decimal with optional fraction: "1", "0.5", ".5" -> thousandths; more than 3 digits after the
 * point are refused. */
int parse_milli(const char *s, uint64_t min, uint64_t max, uint64_t *ret) MUST_CHECK;
/* Docker's size grammar: digits, optional fraction, optional b k m g t (any case), optional
 * trailing b or ib: "512m", "1.5GB", "1073741824". Binary multiples. */
int parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret) MUST_CHECK;
/* true/false, yes/no, on/off, 1/0 in any case. */
int parse_bool(const char *s, bool *ret) MUST_CHECK;

/* The grammars of ids. They take a length, so that a NUL or newline at the end is a wrong byte. */
bool parse_is_session_id(const char *s, size_t len); /* [A-Za-z0-9_-]{1,64} */
bool parse_is_filename(const char *s,
		       size_t len); /* [A-Za-z0-9._-]{1,255}; `..` is not looked at */
bool parse_is_image_name(const char *s, size_t len); /* [a-z0-9][a-z0-9._-]{0,62} */
/* An image as container engines name it: [HOST[:PORT]/]PATH[:TAG][@sha256:HEX], at most 200 bytes. Only
 * letters, digits and ._-/:@, no empty, `.` or `..` part, so it is safe in the path of a URL. */
bool parse_is_image_ref(const char *s, size_t len);
/* HOST:PORT, [V6]:PORT or :PORT; HOST gets no brackets. Port 0-65535. */
int parse_host_port(const char *s, char *ret_host, size_t host_max, uint16_t *ret_port) MUST_CHECK;
