/* SPDX-License-Identifier: Apache-2.0 */
/* Static API keys: whoever knows one of a fixed list may pass. User accounts have a hook of their
 * own.
 *
 * A key is sent as `Authorization: Bearer KEY`, as `x-api-key: KEY`, or, on routes with
 * HTTP_ROUTE_QUERY_KEY, as `?api_key=KEY` (clients of event streams cannot set headers). Keys are
 * compared by digest in constant time, so the time of an answer shows neither their length nor
 * their content. */
#pragma once

#include "http/http.h"

#define HTTP_KEY_BYTES_MAX 512

struct http_keys; /* opaque: digests */

/* KEYS has N plain keys, which are stored as digests. PRINCIPALS has the names that they stand for
 * (borrowed; NULL: "key-1", "key-2", …). -EINVAL: a key is empty or too long. */
int http_keys_new(const char *const *keys, const char *const *principals, size_t n,
		  struct http_keys **ret) MUST_CHECK;
struct http_keys *http_keys_free(struct http_keys *keys);

/* The principal that KEY stands for (borrowed), or NULL if SET does not have it. SET may be NULL.
 */
const char *http_keys_find(const struct http_keys *set, const char *key);

/* The key that the request carries in a place that its route allows, or NULL. For other auth hooks.
 */
const char *http_request_key(const struct http_request *req);
