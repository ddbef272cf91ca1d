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
/* The last part of the path of a wheel's address, percent-decoded: a plain file name that ends in
 * .whl. RET has 256 bytes. False: none. */
bool url_wheel_name(const char *text, char *ret);
