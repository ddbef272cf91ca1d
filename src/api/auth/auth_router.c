/* SPDX-License-Identifier: Apache-2.0 */
/* Callers of a worker: who they are a router says. */
#include "api/auth/auth_parts.h"

#include "base/text.h"
#include "fleet/identity.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SIZE_OF(field)        sizeof(((struct fleet_identity *)NULL)->field)
#define CALLER_SIZE_OF(field) sizeof(((struct caller *)NULL)->field)
#define USER_SIZE_OF(field)   sizeof(((struct store_user *)NULL)->field)

_Static_assert(SIZE_OF(owner) <= CALLER_SIZE_OF(owner), "ids fit");
_Static_assert(SIZE_OF(key_id) <= CALLER_SIZE_OF(key_id), "ids of keys fit");
_Static_assert(SIZE_OF(signin) <= CALLER_SIZE_OF(signin), "ids of sign-ins fit");
_Static_assert(SIZE_OF(version) <= CALLER_SIZE_OF(version), "versions fit");
_Static_assert(SIZE_OF(name) <= CALLER_SIZE_OF(name), "names fit");
_Static_assert(SIZE_OF(profile) <= CALLER_SIZE_OF(profile), "profiles fit");
_Static_assert(SIZE_OF(owner) <= USER_SIZE_OF(id), "ids fit into rows");
_Static_assert(SIZE_OF(name) <= USER_SIZE_OF(name), "names fit into rows");
_Static_assert(FLEET_LIMIT_DEFAULT + 1 == 0 && STORE_QUOTA_DEFAULT + 1 == 0,
	       "limits are copied as they are");

static const enum caller_how hows[FLEET_HOW_MAX_] = {
    [FLEET_HOW_LOCAL] = CALLER_LOCAL,   [FLEET_HOW_STATIC] = CALLER_STATIC_KEY,
    [FLEET_HOW_KEY] = CALLER_KEY,       [FLEET_HOW_TOKEN] = CALLER_TOKEN,
    [FLEET_HOW_SIGNIN] = CALLER_SIGNIN,
};

enum fleet_how caller_fleet_how(const struct caller *w)
{
	unsigned i = 0;

	while (i + 1 < FLEET_HOW_MAX_ && hows[i] != w->how)
		i++;
	return (enum fleet_how)i;
}

void caller_take_identity(struct caller *w, const struct fleet_identity *id)
{
	w->how = hows[id->how];
	w->admin = id->admin;
	w->read_only = id->read_only;
	w->expires_ms = id->expires_ms;
	w->until_ms = id->until_ms;
	memcpy(w->owner, id->owner, sizeof(id->owner));
	memcpy(w->name, id->name, sizeof(id->name));
	memcpy(w->profile, id->profile, sizeof(id->profile));
	memcpy(w->key_id, id->key_id, sizeof(id->key_id));
	memcpy(w->signin, id->signin, sizeof(id->signin));
	memcpy(w->version, id->version, sizeof(id->version));
}

/* The one header, or NULL with a->failed set. Of two, one would be a client's that a router did not remove. */
static const char *find_header(struct auth *a, const struct http_request *req)
{
	const char *name, *value, *found = NULL;
	unsigned n = 0;

	if (!http_request_is_by_member(req)) {
		(void)err_set(&a->failed, ERR_WORKER_ONLY, 0,
			      "this server is a worker of a fleet and serves routers alone");
		return NULL;
	}
	for (unsigned i = 0; http_request_field(req, i, &name, &value); i++)
		if (strcasecmp(name, FLEET_CALLER_HEADER) == 0) {
			found = value;
			n++;
		}
	if (n == 1)
		return found;
	if (n == 0)
		(void)err_set(&a->failed, ERR_IDENTITY_MISSING, 0,
			      "the router did not say who asks: the request has no %s",
			      FLEET_CALLER_HEADER);
	else
		(void)err_set(
		    &a->failed, ERR_IDENTITY_INVALID, 0,
		    "the request has %u headers %s; the router must remove those of clients", n,
		    FLEET_CALLER_HEADER);
	return NULL;
}

static bool same_row(const struct store_user *row, const struct store_user *u)
{
	return row->active == u->active && row->quota.sandboxes == u->quota.sandboxes &&
	       row->quota.cpu_s_per_day == u->quota.cpu_s_per_day &&
	       row->quota.disk_bytes == u->quota.disk_bytes &&
	       row->quota.runs_per_minute == u->quota.runs_per_minute;
}

/* What needs a row of the owner (quotas, stored sandboxes, history) finds one. The role is no part of it: a key may have fewer rights
 * than its user, and the row would change with each of its requests. */
static int keep_row(struct auth *a, const struct fleet_identity *id)
{
	struct store_user u = {.active = true,
			       .quota = {id->sandboxes, id->cpu_s_per_day, id->disk_bytes,
					 id->runs_per_minute}},
			  row;

	if (!id->owner[0])
		return 0;
	memcpy(u.id, id->owner, sizeof(id->owner));
	memcpy(u.name, id->name, sizeof(id->name));
	const int r = store_user_get(a->config.store, u.id, &row, &a->failed);
	if (r < 0 || (r > 0 && same_row(&row, &u)))
		return r < 0 ? r : 0;
	return store_user_mirror(a->config.store, &u, &a->failed);
}

/* The credential of W has other rights than before, so what it opened with those has ended, as it would where the credential is kept. */
static void end_older(struct auth *a, const struct caller *w)
{
	bool ended = false;

	list_for_each(l, &a->live) {
		struct caller *old = list_entry(l, struct caller, live);

		/* A pass (auth_by_pass) is no credential of a router, and its rights are never those of one. */
		if (!old->routed || old->ended != CALLER_LIVE || old->how != w->how ||
		    !streq(old->owner, w->owner) || !streq(old->key_id, w->key_id) ||
		    caller_has_rights_of(old, w))
			continue;
		old->ended = CALLER_REVOKED;
		ended = true;
	}
	if (ended && a->config.on_ended)
		a->config.on_ended(a->config.user);
}

struct caller *auth_by_router(struct auth *a, const struct http_request *req)
{
	const char *text = find_header(a, req);
	struct fleet_identity id;

	if (!text || fleet_identity_read(text, &id, &a->failed) < 0)
		return NULL;
	if (id.until_ms && id.until_ms <= store_now_ms()) {
		(void)err_set(&a->failed, ERR_UNAUTHORIZED, 0, "the credential has ended");
		return NULL;
	}
	if (keep_row(a, &id) < 0)
		return NULL;
	if (id.says_elsewhere && a->config.elsewhere)
		(void)!fleet_tally_set(a->config.elsewhere, id.owner, &id.elsewhere);
	struct caller *w = caller_new(a, hows[id.how]);
	if (!w)
		return NULL;
	w->routed = true;
	caller_take_identity(w, &id);
	end_older(a, w);
	auth_watch(a, w);
	return w;
}
