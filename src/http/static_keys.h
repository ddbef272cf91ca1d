/* SPDX-License-Identifier: Apache-2.0 */
/* Static API keys: who knows one of a fixed list passes. User accounts are another hook's work.
 *
 * A key travels as `Authorization: Bearer KEY`, as `x-api-key: KEY`, or, on routes with
 * HTTP_ROUTE_QUERY_KEY, as `?api_key=KEY` (event stream clients cannot set headers). Compared by
 * digest in constant time, so neither length nor content shows in the time an answer takes. */
#pragma once

#include "http/http.h"

#define HTTP_KEY_BYTES_MAX 512

struct http_keys; /* opaque: digests */

/* KEYS: N plain keys (copied as digests) and the principals they stand for (borrowed; NULL:
 * "key-1", "key-2", …). -EINVAL: an empty or overlong key. */
int http_keys_new(const char *const *keys, const char *const *principals, size_t n,
		  struct http_keys **ret) MUST_CHECK;
struct http_keys *http_keys_free(struct http_keys *keys);

/* The principal that KEY stands for, borrowed; NULL: none of SET (which may be NULL). */
const char *http_keys_find(const struct http_keys *set, const char *key);

/* The key that the request carries, where its route allows it; NULL: none. For other hooks. */
const char *http_request_key(const struct http_request *req);
