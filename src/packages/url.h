/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of indexes: only their scheme, host and port matter here. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct url {
	bool https;
	char host[256]; /* as written, brackets and userinfo removed */
	uint16_t port;
};

/* http:// or https://, printable ASCII, no fragment. INVALID_ARGUMENT. */
int url_parse(const char *text, struct url *ret, struct err *e) MUST_CHECK;
/* Whether TEXT has a user part or a query. */
bool url_has_credentials(const char *text);
/* Whether a part of TEXT's path may be a token: anything but words (14 letters at most), numbers (8
 * digits) and short mixtures of both (6), with one of -_.+~ between them. */
bool url_may_hold_token(const char *text);
/* The last part of the path of a wheel's address, percent-decoded: a plain file name that ends in
 * .whl. RET has 256 bytes. False: none. */
bool url_wheel_name(const char *text, char *ret);
