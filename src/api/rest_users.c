/* SPDX-License-Identifier: Apache-2.0 */
/* REST: users, keys, the audit log. */
#include "api/rest.h"

#include "base/text.h"

#include <string.h>

#define BY_ADMIN 0 /* administrators share one place in the queue of passwords */

/* ---- users ---- */

static json_t *time_json(uint64_t ms)
{
	char text[API_TIME_SIZE];

	return ms > 0 ? json_string(api_time(ms, text)) : json_null();
}

static json_t *user_json(const struct store_user *u)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:I, s:I, s:I, s:I}", "id", u->id, "name",
			 u->name, "email", u->email, "role", store_role_name(u->role), "active",
			 u->active, "created_at", time_json(u->created_ms), "max_sandboxes",
			 (json_int_t)u->quota.sandboxes, "max_cpu_s_per_day",
			 (json_int_t)u->quota.cpu_s_per_day, "max_disk_bytes",
			 (json_int_t)u->quota.disk_bytes, "max_runs_per_minute",
			 (json_int_t)u->quota.runs_per_minute);
}

json_t *rest_me_json(struct api *a, const struct caller *w)
{
	static const char *const hows[] = {
	    [CALLER_LOCAL] = "open",  [CALLER_STATIC_KEY] = "server_key", [CALLER_KEY] = "key",
	    [CALLER_TOKEN] = "token", [CALLER_SIGNIN] = "cookie",
	};

	return json_pack("{s:s, s:s, s:s, s:b, s:b, s:o}", "id", w->owner, "name", w->name, "how",
			 w->signin[0] ? "cookie" : hows[w->how], "admin", w->admin, "read_only",
			 w->read_only, "budgets", budget_figures_own(a, w->owner));
}

void rest_me(struct rest_call *c)
{
	rest_reply(c, 200, rest_me_json(c->api, c->who));
}

static void add_user(const struct store_user *u, void *user)
{
	(void)json_array_append_new(user, user_json(u));
}

void rest_list_users(struct rest_call *c)
{
	json_t *list = json_array();
	struct err e = ERR_INIT;

	if (store_user_each(c->api->config.store, add_user, list, &e) < 0) {
		json_decref(list);
		rest_fail(c, &e);
		return;
	}
	rest_reply(c, 200, json_pack("{s:o}", "users", list));
}

/* Reads the user {user}. Returns false after it has answered. */
static bool need_user(struct rest_call *c, struct store_user *ret)
{
	const char *id = http_request_param(c->req, "user");
	struct err e = ERR_INIT;
	int r = store_user_get(c->api->config.store, id, ret, &e);

	if (r > 0) {
		(void)snprintf(c->object, sizeof(c->object), "%s", ret->id);
		return true;
	}
	if (r == 0)
		rest_refuse(c, ERR_NOT_FOUND, "There is no such user");
	else
		rest_fail(c, &e);
	return false;
}

void rest_get_user(struct rest_call *c)
{
	struct store_user u;

	if (need_user(c, &u))
		rest_reply(c, 200, user_json(&u));
}

static void take_fields(const struct rest_call *c, struct store_user *u)
{
	u->quota.sandboxes = rest_int(c, "max_sandboxes", u->quota.sandboxes);
	u->quota.cpu_s_per_day = rest_int(c, "max_cpu_s_per_day", u->quota.cpu_s_per_day);
	u->quota.disk_bytes = rest_int(c, "max_disk_bytes", u->quota.disk_bytes);
	u->quota.runs_per_minute = rest_int(c, "max_runs_per_minute", u->quota.runs_per_minute);
	if (rest_has(c, "role"))
		u->role =
		    streq(rest_text(c, "role", ""), "admin") ? STORE_ROLE_ADMIN : STORE_ROLE_USER;
	if (rest_has(c, "active"))
		u->active = rest_bool(c, "active");
	if (rest_has(c, "email"))
		(void)snprintf(u->email, sizeof(u->email), "%s", rest_text(c, "email", ""));
}

struct pending {
	struct rest_call *call;
	struct store_user user;
	void (*go_on)(struct rest_call *c, struct store_user *u);
};

static void on_hash(const char *hash, const struct err *e, void *user)
{
	struct pending *p = user;

	if (e) {
		rest_fail(p->call, e);
	} else {
		(void)snprintf(p->user.hash, sizeof(p->user.hash), "%s", hash);
		p->go_on(p->call, &p->user);
	}
	free(p);
}

/* Calls GO_ON with the hash of the body's password; at once if the body has no password. */
static void with_password(struct rest_call *c, struct store_user *u,
			  void (*go_on)(struct rest_call *c, struct store_user *u))
{
	struct err e = ERR_INIT;
	struct pending *p;

	if (!rest_has(c, "password")) {
		go_on(c, u);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	*p = (struct pending){.call = c, .user = *u, .go_on = go_on};
	if (store_hash_password(c->api->config.store, rest_text(c, "password", ""),
				STORE_LANE_KNOWN, BY_ADMIN, on_hash, p, &e) < 0) {
		free(p);
		rest_fail(c, &e);
	}
}

static void finish_add(struct rest_call *c, struct store_user *u)
{
	struct err e = ERR_INIT;

	if (store_user_add(c->api->config.store, u, &e) < 0)
		rest_fail(c, &e);
	else
		rest_reply(c, 201, user_json(u));
}

void rest_add_user(struct rest_call *c)
{
	struct store_user u = {.active = true, .quota = STORE_QUOTA_DEFAULTS};

	c->action = "user.add";
	(void)snprintf(u.name, sizeof(u.name), "%s", rest_text(c, "name", ""));
	(void)snprintf(c->object, sizeof(c->object), "%.64s", u.name);
	take_fields(c, &u);
	with_password(c, &u, finish_add);
}

static void finish_change(struct rest_call *c, struct store_user *u)
{
	struct err e = ERR_INIT;
	int r = store_user_update(c->api->config.store, u, &e);

	if (r < 0)
		rest_fail(c, &e);
	else if (r == 0)
		rest_refuse(c, ERR_NOT_FOUND, "There is no such user");
	else
		rest_reply(c, 200, user_json(u));
}

void rest_change_user(struct rest_call *c)
{
	struct store_user u;

	c->action = "user.change";
	if (!need_user(c, &u))
		return;
	take_fields(c, &u);
	with_password(c, &u, finish_change);
}

/* ---- removal: the sandboxes first ---- */

struct removal {
	struct rest_call *call;
	json_t *ids; /* of the sandboxes to delete */
	unsigned left;
	bool failed;
	struct err err;
};

static void removal_step(struct removal *r)
{
	struct rest_call *c = r->call;

	if (--r->left > 0)
		return;
	if (!r->failed && store_user_remove(c->api->config.store, c->object, &r->err) < 0)
		r->failed = true;
	if (r->failed)
		rest_fail(c, &r->err);
	else
		rest_reply(c, 204, NULL);
	json_decref(r->ids);
	free(r);
}

static void on_deleted(const struct err *e, void *user)
{
	struct removal *r = user;

	if (e && e->code != ERR_CANCELLED && e->code != ERR_SESSION_NOT_FOUND) {
		r->failed = true;
		r->err = *e;
	}
	removal_step(r);
}

static void note_sandbox(struct sandbox *s, void *user)
{
	if (!sandbox_is_stored(s))
		(void)json_array_append_new(user, json_string(sandbox_id(s)));
}

static void note_stored(const struct sandbox_record *b, void *user)
{
	(void)json_array_append_new(user, json_string(b->id));
}

void rest_remove_user(struct rest_call *c)
{
	struct manager *m = c->api->config.manager;
	struct removal *r;
	struct store_user u;
	json_t *id;
	size_t i;

	c->action = "user.remove";
	if (!need_user(c, &u))
		return;
	r = calloc(1, sizeof(*r));
	if (!r) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	*r = (struct removal){.call = c, .ids = json_array(), .left = 1};
	manager_each(m, u.id, note_sandbox, r->ids);
	r->failed = manager_each_stored(m, u.id, note_stored, r->ids, &r->err) < 0;
	json_array_foreach(r->ids, i, id) {
		struct err e = ERR_INIT;

		r->left++;
		if (manager_delete(m, u.id, json_string_value(id), true, on_deleted, r, &e) < 0)
			on_deleted(&e, r);
	}
	removal_step(r);
}

/* ---- keys ---- */

static json_t *key_json(const struct store_key *k)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "id", k->id, "user",
			 k->user, "name", k->name, "hint", k->hint, "scope",
			 store_scope_name(k->scope), "profile", k->profile, "created_at",
			 time_json(k->created_ms), "expires_at", time_json(k->expires_ms),
			 "used_at", time_json(k->used_ms));
}

static void add_key(const struct store_key *k, void *user)
{
	(void)json_array_append_new(user, key_json(k));
}

void rest_list_keys(struct rest_call *c)
{
	json_t *list = json_array();
	struct err e = ERR_INIT;

	if (store_key_each(c->api->config.store, c->owner, add_key, list, &e) < 0) {
		json_decref(list);
		rest_fail(c, &e);
		return;
	}
	rest_reply(c, 200, json_pack("{s:o}", "keys", list));
}

void rest_new_key(struct rest_call *c)
{
	struct store_key k = {.scope = STORE_SCOPE_FULL};
	int64_t life = rest_int(c, "expires_in_s", 0);
	char text[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	c->action = "key.new";
	if (!c->owner[0]) {
		rest_refuse(c, ERR_NOT_FOUND,
			    "The local user has no keys; name a user with ?owner=");
		return;
	}
	if (store_scope_parse(rest_text(c, "scope", "full"), &k.scope) < 0)
		k.scope = STORE_SCOPE_READ;
	if (k.scope == STORE_SCOPE_ADMIN && !c->who->admin) {
		rest_refuse(c, ERR_FORBIDDEN, "only administrators may do that");
		return;
	}
	/* A key cannot make a key that has more rights, or a longer life, than itself. */
	(void)snprintf(k.user, sizeof(k.user), "%.36s", c->owner);
	(void)snprintf(k.name, sizeof(k.name), "%s", rest_text(c, "name", ""));
	(void)snprintf(k.profile, sizeof(k.profile), "%s",
		       c->who->profile[0] ? c->who->profile : rest_text(c, "profile", ""));
	k.expires_ms = life > 0 ? store_now_ms() + (uint64_t)life * 1000 : 0;
	if (c->who->expires_ms && (!k.expires_ms || k.expires_ms > c->who->expires_ms))
		k.expires_ms = c->who->expires_ms;
	if (store_key_add(c->api->config.store, &k, text, &e) < 0) {
		rest_fail(c, &e);
		return;
	}
	(void)snprintf(c->object, sizeof(c->object), "%s", k.id);
	json_t *answer = key_json(&k);
	(void)json_object_set_new(answer, "key", json_string(text));
	rest_reply(c, 201, answer);
}

void rest_revoke_key(struct rest_call *c)
{
	const char *id = http_request_param(c->req, "key");
	struct err e = ERR_INIT;

	c->action = "key.revoke";
	int r = text_is_utf8(id, strlen(id))
		    ? store_key_revoke(c->api->config.store, c->owner, id, &e)
		    : 0;
	if (r < 0) {
		rest_fail(c, &e);
	} else if (r == 0) {
		rest_refuse(c, ERR_NOT_FOUND, "There is no such key");
	} else {
		(void)snprintf(c->object, sizeof(c->object), "%s", id);
		rest_reply(c, 204, NULL);
	}
}

/* ---- audit ---- */

static void add_row(const struct store_audit *a, void *user)
{
	/* The object may be what a stranger sent, cut somewhere: a text that is not UTF-8 would hide the row. */
	(void)json_array_append_new(
	    user, json_pack("{s:I, s:o, s:s, s:s, s:o, s:s, s:o, s:s}", "id", (json_int_t)a->id,
			    "at", time_json(a->at_ms), "actor", a->actor, "action", a->action,
			    "object", rest_name(a->object), "result", a->result, "detail",
			    rest_name(a->detail), "peer", a->peer));
}

void rest_list_audit(struct rest_call *c)
{
	struct store *store = c->api->config.store;
	json_t *list = json_array();
	struct err e = ERR_INIT;

	int r = store_audit_each(
	    store, http_request_query(c->req, "actor"), (uint64_t)rest_query_int(c, "before_id", 0),
	    (unsigned)rest_query_int(c, "limit", REST_LIMIT_DEFAULT), add_row, list, &e);
	if (r < 0) {
		json_decref(list);
		rest_fail(c, &e);
		return;
	}
	rest_reply(c, 200, json_pack("{s:o}", "rows", list));
}
