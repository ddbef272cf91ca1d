/* SPDX-License-Identifier: Apache-2.0 */
/* The end of credentials in a fleet. A worker knows what is open and a router knows what has ended, so the router asks the worker for
 * the credentials of what is open, judges them, and names those that have ended. */
#include "api/auth/auth_parts.h"

#include "base/log.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the worker ---- */

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
	return MAX(name, UINT64_C(1));
}

/* Rights of a caller never change, so this is computed once. */
static uint64_t end_name_of(const struct auth *a, struct caller *w)
{
	if (!w->end_name)
		w->end_name = name_of(a, w);
	return w->end_name;
}

/* Has a router named W with something that it can judge? What is local never ends. Routers of an older version name neither tokens nor
 * sign-ins exactly enough. */
static bool can_end(const struct caller *w)
{
	if (!w->routed || w->ended != CALLER_LIVE || w->how == CALLER_LOCAL)
		return false;
	return (w->how != CALLER_TOKEN && w->how != CALLER_STATIC_KEY) || w->version[0];
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

struct entry {
	uint64_t name;
	const struct caller *who;
};

/* The lowest names behind AFTER, in order, each once. There is room for one more than a page, which tells that there is another page. */
struct page {
	struct entry *all;
	size_t n, max;
};

static void page_add(struct page *p, const struct caller *w)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		const size_t at = low + (high - low) / 2;

		if (p->all[at].name == w->end_name)
			return;
		if (p->all[at].name < w->end_name)
			low = at + 1;
		else
			high = at;
	}
	if (low == p->max)
		return;
	p->n = MIN(p->n + 1, p->max);
	memmove(p->all + low + 1, p->all + low, (p->n - low - 1) * sizeof(*p->all));
	p->all[low] = (struct entry){w->end_name, w};
}

int auth_each_routed(struct auth *a, uint64_t *after, unsigned max, auth_credential_fn fn,
		     void *user)
{
	_cleanup_free_ struct entry *all = calloc((size_t)max + 1, sizeof(*all));
	struct page p = {.all = all, .max = (size_t)max + 1};

	if (!all)
		return -ENOMEM;
	list_for_each(l, &a->live) {
		struct caller *w = list_entry(l, struct caller, live);

		if (can_end(w) && end_name_of(a, w) > *after)
			page_add(&p, w);
	}
	for (size_t i = 0; i < MIN(p.n, (size_t)max); i++) {
		struct fleet_identity id;

		*after = all[i].name;
		identity_of(all[i].who, &id);
		fn(&id, user);
	}
	return p.n > max;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int auth_end_routed(struct auth *a, const struct fleet_identity *ids, size_t n)
{
	_cleanup_free_ uint64_t *names = n > 0 ? calloc(n, sizeof(*names)) : NULL;
	int ended = 0;

	if (n == 0 || !names)
		return n == 0 ? 0 : -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct caller w = {0};

		caller_take_identity(&w, &ids[i]);
		names[i] = name_of(a, &w);
	}
	qsort(names, n, sizeof(*names), by_number);
	list_for_each(l, &a->live) {
		struct caller *w = list_entry(l, struct caller, live);

		if (!can_end(w))
			continue;
		const uint64_t name = end_name_of(a, w);
		if (!bsearch(&name, names, n, sizeof(*names), by_number))
			continue;
		w->ended = CALLER_REVOKED;
		ended++;
	}
	return ended;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What a pass or a link opens counts on the row, as elsewhere. */
static int end_row(struct auth *a, const char *owner, struct err *e)
{
	struct store_user row;
	const int r = store_user_get(a->config.store, owner, &row, e);

	if (r <= 0 || !row.active)
		return r;
	row.active = false;
	return store_user_mirror(a->config.store, &row, e);
}

int auth_end_owners(struct auth *a, const char **owners, size_t n, struct err *e)
{
	int ended = 0;

	for (size_t i = 0; i < n; i++) {
		const int r = end_row(a, owners[i], e);

		if (r < 0)
			return r;
	}
	if (n == 0)
		return 0;
	qsort(owners, n, sizeof(*owners), by_text);
	list_for_each(l, &a->live) {
		struct caller *w = list_entry(l, struct caller, live);
		const char *owner = w->owner;

		if (!w->routed || w->ended != CALLER_LIVE ||
		    !bsearch(&owner, owners, n, sizeof(*owners), by_text))
			continue;
		w->ended = CALLER_REVOKED;
		ended++;
	}
	return ended;
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
	if (id->owner[0]) {
		bool left = false;
		int r = store_user_get(a->config.store, id->owner, &u, e);

		if (r != 0)
			return r;
		r = store_user_has_left(a->config.store, id->owner, &left, e);
		return r < 0 ? r : left;
	}
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
