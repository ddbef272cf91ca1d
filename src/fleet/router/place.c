/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/router/place.h"

#include <sodium.h>
#include <string.h>

/* The Kth usable one. */
static size_t usable(const struct fleet_candidate *c, size_t n, size_t k)
{
	for (size_t i = 0; i < n; i++)
		if (c[i].usable && k-- == 0)
			return i;
	return FLEET_NOBODY;
}

static double fill(const struct fleet_candidate *c)
{
	return c->max > 0 ? (double)c->open / (double)c->max : 1.0;
}

size_t fleet_place_any(const struct fleet_candidate *c, size_t n, uint32_t a, uint32_t b)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += c[i].usable;
	if (count == 0)
		return FLEET_NOBODY;
	const size_t i = a % count, others = MAX(count - 1, (size_t)1);
	const size_t one = usable(c, n, i);
	const size_t other =
	    usable(c, n, (i + 1 + b % others) % count); /* the same if it is alone */
	return fill(&c[other]) < fill(&c[one]) ? other : one;
}

static uint64_t weight(const char *who, const char *worker)
{
	crypto_generichash_state state;
	uint64_t w;

	(void)crypto_generichash_init(&state, NULL, 0, crypto_generichash_BYTES_MIN);
	(void)crypto_generichash_update(&state, (const unsigned char *)worker, strlen(worker) + 1);
	(void)crypto_generichash_update(&state, (const unsigned char *)who, strlen(who));
	unsigned char hash[crypto_generichash_BYTES_MIN];
	(void)crypto_generichash_final(&state, hash, sizeof(hash));
	memcpy(&w, hash, sizeof(w));
	return w;
}

size_t fleet_place_home(const struct fleet_candidate *c, size_t n, const char *who)
{
	size_t best = FLEET_NOBODY;
	uint64_t most = 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t w = c[i].usable ? weight(who, c[i].worker) : 0;

		if (c[i].usable && (best == FLEET_NOBODY || w > most)) {
			best = i;
			most = w;
		}
	}
	return best;
}
