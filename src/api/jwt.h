/* SPDX-License-Identifier: Apache-2.0 */
/* JSON web tokens, HS256 and nothing else (RFC 7519, RFC 8725): the header must say exactly that,
 * the MAC is compared in constant time and before anything of the claims is looked at. */
#pragma once

#include "base/attr.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define JWT_KEY_BYTES 32
#define JWT_MAX       2048 /* bytes of a token */

/* CLAIMS as a token in RET (SIZE bytes). -ENOBUFS, -ENOMEM. */
int jwt_sign(const uint8_t key[JWT_KEY_BYTES], const json_t *claims, char *ret,
	     size_t size) MUST_CHECK;
/* The claims (owned) of a token that KEY signed, whatever they say; NULL for anything else. */
json_t *jwt_open(const uint8_t key[JWT_KEY_BYTES], const char *token) MUST_CHECK;
