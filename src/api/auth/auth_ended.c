/* SPDX-License-Identifier: Apache-2.0 */
/* The end of credentials in a fleet. A worker knows what is open and a router knows what has ended, so the router asks the worker for
 * the credentials of what is open, judges them, and names those that have ended. */
#include "api/auth/auth_parts.h"

#include "base/log.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* ---- the worker ---- */

struct entry {
	uint64_t name; /* of the credential and its rights */
	const struct caller *who;
};

/* What the router's answer depends on. */
static uint64_t name_of(const struct auth *a, const struct caller *w)
{
	char text[512];
	uint8_t hash[crypto_shorthash_BYTES];
	uint64_t name;

	_Static_assert(sizeof(a->token_key) >= crypto_shorthash_KEYBYTES, "one key is enough");
	const int len =
	    snprintf(text, sizeof(text), "%u%u%u %s %s %s %s %s", (unsigned)w->how, w->admin,
		     w->read_only, w->owner, w->key_id, w->signin, w->version, w->profile);
	(void)crypto_shorthash(hash, (const uint8_t *)text, MIN((size_t)len, sizeof(text) - 1),
			       a->token_key);
	memcpy(&name, hash, sizeof(name));
	return name;
}

/* Has a router named W with something that it can judge? What is local never ends. Routers of an older version name neither tokens nor
 * sign-ins exactly enough. */
static bool can_end(const struct caller *w)
{
	if (!w->routed || w->ended != CALLER_LIVE || w->how == CALLER_LOCAL)
		return false;
	return (w->how != CALLER_TOKEN && w->how != CALLER_STATIC_KEY) || w->version[0];
}

static int by_name(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->name > y->name) - (x->name < y->name);
}

static void identity_of(const struct caller *w, struct fleet_identity *ret)
{
	*ret = (struct fleet_identity){
	    .admin = w->admin, .read_only = w->read_only, .how = caller_fleet_how(w)};
	memcpy(ret->owner, w->owner, sizeof(ret->owner));
	memcpy(ret->profile, w->profile, sizeof(ret->profile));
	memcpy(ret->key_id, w->key_id, sizeof(ret->key_id));
	memcpy(ret->signin, w->signin, sizeof(ret->signin));
	memcpy(ret->version, w->version, sizeof(ret->version));
}

int auth_each_routed(const struct auth *a, uint64_t *after, unsigned max, auth_credential_fn fn,
		     void *user)
{
	size_t n = 0, given = 0;

	list_for_each(l, &a->live)
		n += can_end(list_entry(l, struct caller, live));
	if (n == 0)
		return 0;
	_cleanup_free_ struct entry *all = calloc(n, sizeof(*all));
	if (!all)
		return -ENOMEM;
	n = 0;
	list_for_each(l, &a->live) {
		const struct caller *w = list_entry(l, struct caller, live);

		if (can_end(w))
			all[n++] = (struct entry){name_of(a, w), w};
	}
	qsort(all, n, sizeof(*all), by_name);
	for (size_t i = 0; i < n; i++) {
		struct fleet_identity id;

		if (all[i].name <= *after)
			continue;
		if (given++ == max)
			return 1;
		*after = all[i].name;
		identity_of(all[i].who, &id);
		fn(&id, user);
	}
	return 0;
}

unsigned auth_end_routed(struct auth *a, const struct fleet_identity *id)
{
	unsigned n = 0;

	list_for_each(l, &a->live) {
		struct caller *w = list_entry(l, struct caller, live);

		if (!can_end(w) || caller_fleet_how(w) != id->how || w->admin != id->admin ||
		    w->read_only != id->read_only || !streq(w->owner, id->owner) ||
		    !streq(w->profile, id->profile) || !streq(w->key_id, id->key_id) ||
		    !streq(w->signin, id->signin) || !streq(w->version, id->version))
			continue;
		w->ended = CALLER_REVOKED;
		n++;
	}
	return n;
}

int auth_end_owner(struct auth *a, const char *owner, struct err *e)
{
	struct store_user row;
	unsigned n = 0;
	int r = store_user_get(a->config.store, owner, &row, e);

	/* What a pass or a link opens counts on the row, as elsewhere. */
	if (r > 0 && row.active) {
		row.active = false;
		r = store_user_mirror(a->config.store, &row, e);
	}
	if (r < 0)
		return r;
	list_for_each(l, &a->live) {
		struct caller *w = list_entry(l, struct caller, live);

		if (!w->routed || w->ended != CALLER_LIVE || !streq(w->owner, owner))
			continue;
		w->ended = CALLER_REVOKED;
		n++;
	}
	return (int)n;
}

void auth_tell_ended(struct auth *a, unsigned n)
{
	if (n == 0)
		return;
	LOG_INFO("credentials_ended", LOG_U("callers", n));
	if (a->config.on_ended)
		a->config.on_ended(a->config.user);
}

/* ---- the router ---- */

int auth_epoch(const struct auth *a, uint64_t *ret, struct err *e)
{
	return a->config.store ? store_credentials_epoch(a->config.store, ret, e)
			       : err_set(e, ERR_STORE_FAILED, ENOENT, "there is no database");
}

/* Routers with databases of their own can have the same workers, and each knows its own users alone. */
static int is_ours(const struct auth *a, const struct fleet_identity *id, struct err *e)
{
	struct store_user u;

	if (!a->config.store)
		return 0;
	if (id->owner[0])
		return store_user_get(a->config.store, id->owner, &u, e);
	return id->signin[0] && a->static_digest[0] &&
	       strncmp(id->version, a->static_digest, AUTH_VERSION_SIZE - 1) == 0;
}

int auth_judge_routed(struct auth *a, const struct fleet_identity *id, struct err *e)
{
	struct caller w = {0};
	const int ours = is_ours(a, id, e);

	if (ours <= 0)
		return ours < 0 ? ours : 1;
	caller_take_identity(&w, id);
	const int r = auth_judge(a, &w);
	return r < 0 ? err_set(e, ERR_STORE_FAILED, EIO, "a credential cannot be judged") : r;
}
