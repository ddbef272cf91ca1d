/* SPDX-License-Identifier: Apache-2.0 */
#include "http/static_keys.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct key {
	uint8_t digest[crypto_generichash_BYTES];
	char principal[64];
};

struct http_keys {
	uint8_t salt[crypto_generichash_KEYBYTES];
	size_t n;
	struct key keys[];
};

static void digest(const struct http_keys *set, const char *key,
		   uint8_t ret[crypto_generichash_BYTES])
{
	(void)crypto_generichash(ret, crypto_generichash_BYTES, (const uint8_t *)key, strlen(key),
				 set->salt, sizeof(set->salt));
}

int http_keys_new(const char *const *keys, const char *const *principals, size_t n,
		  struct http_keys **ret)
{
	struct http_keys *set;

	if (sodium_init() < 0)
		return -ENOSYS;
	for (size_t i = 0; i < n; i++)
		if (*keys[i] == '\0' || strlen(keys[i]) > HTTP_KEY_BYTES_MAX)
			return -EINVAL;
	set = calloc(1, sizeof(*set) + n * sizeof(set->keys[0]));
	if (!set)
		return -ENOMEM;
	set->n = n;
	randombytes_buf(set->salt, sizeof(set->salt));
	for (size_t i = 0; i < n; i++) {
		struct key *k = &set->keys[i];

		digest(set, keys[i], k->digest);
		if (principals && principals[i])
			(void)snprintf(k->principal, sizeof(k->principal), "%s", principals[i]);
		else
			(void)snprintf(k->principal, sizeof(k->principal), "key-%zu", i + 1);
	}
	*ret = set;
	return 0;
}

struct http_keys *http_keys_free(struct http_keys *keys)
{
	if (keys)
		sodium_memzero(keys, sizeof(*keys) + keys->n * sizeof(keys->keys[0]));
	free(keys);
	return NULL;
}

const char *http_request_key(const struct http_request *req)
{
	const char *value = http_request_header(req, "authorization");

	if (value && strncasecmp(value, "bearer ", 7) == 0)
		return value + 7 + strspn(value + 7, " ");
	value = http_request_header(req, "x-api-key");
	if (value)
		return value;
	if (http_request_route_flags(req) & HTTP_ROUTE_QUERY_KEY)
		return http_request_query(req, "api_key");
	return NULL;
}

const char *http_keys_find(const struct http_keys *set, const char *key)
{
	uint8_t got[crypto_generichash_BYTES];
	const char *found = NULL;

	if (!set || strlen(key) > HTTP_KEY_BYTES_MAX)
		return NULL;
	digest(set, key, got);
	/* Always compares with every key, so that the time does not show which one matched. */
	for (size_t i = 0; i < set->n; i++)
		if (sodium_memcmp(got, set->keys[i].digest, sizeof(got)) == 0)
			found = set->keys[i].principal;
	return found;
}
