/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/router/place.h"

#include <sodium.h>
#include <string.h>

/* What a worker said a second ago may be wrong, so that it is full is a reason to ask others first, and none to ask nobody. */
static bool is_in(const struct fleet_candidate *c, bool full_too)
{
	return c->usable && (full_too || c->open < c->max);
}

/* The Kth of those that are in. */
static size_t find(const struct fleet_candidate *c, size_t n, bool full_too, size_t k)
{
	for (size_t i = 0; i < n; i++)
		if (is_in(&c[i], full_too) && k-- == 0)
			return i;
	return FLEET_NOBODY;
}

static size_t count(const struct fleet_candidate *c, size_t n, bool full_too)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += is_in(&c[i], full_too);
	return found;
}

static double fill(const struct fleet_candidate *c)
{
	return c->max > 0 ? (double)c->open / (double)c->max : 1.0;
}

size_t fleet_place_any(const struct fleet_candidate *c, size_t n, uint32_t a, uint32_t b)
{
	const size_t with_room = count(c, n, false);
	const bool full_too = with_room == 0;
	const size_t in = full_too ? count(c, n, true) : with_room;

	if (in == 0)
		return FLEET_NOBODY;
	const size_t i = a % in, others = MAX(in - 1, (size_t)1);
	const size_t one = find(c, n, full_too, i);
	const size_t other =
	    find(c, n, full_too, (i + 1 + b % others) % in); /* the same if it is alone */
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
