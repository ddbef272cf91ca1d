/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of indexes: only their scheme, host and port matter here. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct url {
	bool https;
	char host[256]; /* as written, without brackets and user part */
	uint16_t port;
};

/* http:// or https://, printable ASCII, no fragment. INVALID_ARGUMENT. */
int url_parse(const char *text, struct url *ret, struct err *e) MUST_CHECK;
/* The path of TEXT, which url_parse() took; "" if there is none. */
const char *url_path(const char *text);
/* Whether TEXT has a user part or a query. */
bool url_has_credentials(const char *text);
/* May a part of TEXT's path be a token? Only words (14 letters at most), numbers (8 digits) and
 * short mixtures of both (6), joined by one of -_.+~, are taken for harmless. */
bool url_may_hold_token(const char *text);
/* Gets the file name of a wheel's address: the last part of its path, percent-decoded, a plain
 * name that ends in .whl. RET has 256 bytes. False: there is none. */
bool url_wheel_name(const char *text, char *ret);
