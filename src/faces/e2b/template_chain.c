/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of a build: after each step, a hash of all that came before it. */
#include "faces/e2b/templates.h"

#include "base/jsonio.h"
#include "base/text.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* Another number: what a step does here has changed, and no build goes on from older ones. */
#define BUILDER "caisson steps 1"

static void end_key(crypto_hash_sha256_state *hash, char ret[E2B_KEY_SIZE])
{
	unsigned char sum[crypto_hash_sha256_BYTES];

	(void)crypto_hash_sha256_final(hash, sum);
	text_hex(sum, sizeof(sum), ret);
}

/* With its NUL, so that two texts are never one. */
static void add(crypto_hash_sha256_state *hash, const char *text)
{
	(void)crypto_hash_sha256_update(hash, (const unsigned char *)text, strlen(text) + 1);
}

static void add_text(crypto_hash_sha256_state *hash, const json_t *step, const char *member)
{
	const char *text = json_string_value(json_object_get(step, member));

	add(hash, text ? text : "");
}

static int add_step(const char *before, const json_t *step, char ret[E2B_KEY_SIZE])
{
	const json_t *given = json_object_get(step, "args");
	json_t *args =
	    json_is_array(given) ? json_incref((json_t *)(uintptr_t)given) : json_array();
	size_t len;
	_cleanup_free_ char *text = args ? jsonio_text(args, JSON_COMPACT, &len) : NULL;
	crypto_hash_sha256_state hash;

	json_decref(args);
	if (!text)
		return -ENOMEM;
	(void)crypto_hash_sha256_init(&hash);
	add(&hash, before);
	add_text(&hash, step, "type");
	add(&hash, text);
	add_text(&hash, step, "filesHash");
	end_key(&hash, ret);
	return 0;
}

char (*e2b_chain(const char *base, const json_t *steps))[E2B_KEY_SIZE]
{
	char(*keys)[E2B_KEY_SIZE] = calloc(json_array_size(steps) + 1, sizeof(*keys));
	crypto_hash_sha256_state hash;
	const json_t *step;
	size_t i;

	if (!keys)
		return NULL;
	(void)crypto_hash_sha256_init(&hash);
	add(&hash, BUILDER);
	add(&hash, base);
	end_key(&hash, keys[0]);
	json_array_foreach(steps, i, step)
		if (add_step(keys[i], step, keys[i + 1]) < 0) {
			free(keys);
			return NULL;
		}
	return keys;
}

size_t e2b_unforced(const json_t *steps)
{
	const json_t *step;
	size_t i;

	json_array_foreach(steps, i, step)
		if (json_is_true(json_object_get(step, "force")))
			return i;
	return json_array_size(steps);
}
