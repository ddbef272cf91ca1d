/* SPDX-License-Identifier: Apache-2.0 */
/* JSON web tokens with HS256 only (RFC 7519, RFC 8725). The header must be exactly the one that we
 * write. The MAC is compared in constant time, before the claims are decoded. */
#pragma once

#include "base/attr.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define JWT_KEY_BYTES 32
#define JWT_MAX       2048 /* bytes of a token */

/* Writes CLAIMS as a token to RET (SIZE bytes). Returns 0, -ENOBUFS or -ENOMEM. */
int jwt_sign(const uint8_t key[JWT_KEY_BYTES], const json_t *claims, char *ret,
	     size_t size) MUST_CHECK;
/* Returns the claims (owned) of a token that was signed with KEY, without judging them; NULL for
 * any other token. */
json_t *jwt_open(const uint8_t key[JWT_KEY_BYTES], const char *token) MUST_CHECK;
