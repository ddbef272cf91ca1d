/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker gets a request that no id leads to one. */
#include "fleet/router/hop.h"

#include "base/rand.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static bool was_tried(const struct hop *h, const struct worker *w)
{
	for (unsigned i = 0; i < h->n_tried; i++)
		if (streq(h->tried[i], w->id))
			return true;
	return false;
}

const char *hop_key_of(const struct hop *h)
{
	return h->name ? h->name : http_request_header(h->req, "idempotency-key");
}

/* What has a name goes to its home, or is refused while that says nothing; until the home is lost, or ends, with what it has. */
static bool is_candidate(const struct hop *h, const struct worker *w, bool named)
{
	if (was_tried(h, w) || !worker_offers(w, h->bound))
		return false;
	return named ? w->listed && w->known && !w->refused && !w->draining &&
			   !hop_is_lost(h->router, w)
		     : worker_is_usable(w);
}

struct worker *hop_choose(const struct hop *h)
{
	struct fleet_candidate all[FLEET_MEMBERS_MAX];
	struct worker *workers[FLEET_MEMBERS_MAX] = {0};
	const char *key = hop_key_of(h);
	char who[STORE_OWNER_SIZE + 200];
	uint32_t random[2];
	size_t n = 0;

	rand_bytes(random, sizeof(random));

	list_for_each(node, &h->router->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (n == FLEET_MEMBERS_MAX || !is_candidate(h, w, key))
			continue;
		all[n] = (struct fleet_candidate){.open = w->open, .max = w->max, .usable = true};
		memcpy(all[n].worker, w->id, sizeof(all[n].worker));
		workers[n++] = w;
	}
	(void)snprintf(who, sizeof(who), "%.*s%s%.150s", STORE_OWNER_SIZE - 1,
		       hop_owner_of(h->req, h->who), key ? " " : "", key ? key : "");
	const size_t at = h->place == PLACE_HOME || key
			      ? fleet_place_home(all, n, who)
			      : fleet_place_any(all, n, random[0], random[1]);
	return at == FLEET_NOBODY ? NULL : workers[at];
}
