/* SPDX-License-Identifier: Apache-2.0 */
/* REST: users, keys, the audit log. */
#include "api/rest/rows.h"

#include "base/json_text.h"
#include "base/text.h"

#include <string.h>

#define TEXT_MAX 65536u /* of one row */
#define BY_ADMIN 0      /* administrators share one place in the queue of passwords */

/* ---- users ---- */

static const char *time_text(uint64_t ms, char *ret)
{
	return ms > 0 ? api_time(ms, ret) : NULL;
}

static int user_text(struct buf *b, const struct store_user *u)
{
	char at[API_TIME_SIZE];

	return json_text_object(b, "ssssbsiiii", "id", u->id, "name", u->name, "email", u->email,
				"role", store_role_name(u->role), "active", u->active, "created_at",
				time_text(u->created_ms, at), "max_sandboxes", u->quota.sandboxes,
				"max_cpu_s_per_day", u->quota.cpu_s_per_day, "max_disk_bytes",
				u->quota.disk_bytes, "max_runs_per_minute",
				u->quota.runs_per_minute);
}

static void reply_user(struct rest_call *c, int status, const struct store_user *u)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	if (user_text(&b, u) < 0)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else
		rest_reply_text(c, status, &b);
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

static bool add_user(const struct store_user *u, void *user)
{
	struct rows *r = user;

	return rows_begin(r) && rows_end(r, user_text(r->out, u));
}

static int each_user(struct rows *r, struct store *reading, struct err *e)
{
	return store_user_each(reading, &r->mark, add_user, r, e);
}

void rest_list_users(struct rest_call *c)
{
	rows_reply(c, rows_new(c, "users", each_user));
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
		reply_user(c, 200, &u);
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
		reply_user(c, 201, u);
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
		reply_user(c, 200, u);
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

static void removal_end(struct removal *r)
{
	struct rest_call *c = r->call;

	if (r->failed) {
		if (r->err.code == ERR_CANCELLED)
			c->action =
			    NULL; /* the store is being closed, and there is no manager any more */
		else
			manager_reopen_owner(c->api->config.manager, c->object);
		rest_fail(c, &r->err);
	} else {
		rest_forget_owner(c->api, c->object);
		rest_reply(c, 204, NULL);
	}
	json_decref(r->ids);
	free(r);
}

static void on_user_removed(bool found UNUSED, const struct err *e, void *user)
{
	struct removal *r = user;

	if (e) {
		r->failed = true;
		r->err = *e;
	}
	removal_end(r);
}

static void removal_step(struct removal *r)
{
	struct rest_call *c = r->call;

	if (--r->left > 0)
		return;
	if (!r->failed && store_user_remove_later(c->api->config.store, c->object, on_user_removed,
						  r, &r->err) < 0)
		r->failed = true;
	else if (!r->failed)
		return;
	removal_end(r);
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
	/* First, so that no request that was let in before makes one that nobody deletes. */
	r->failed = manager_close_owner(m, u.id, &r->err) < 0;
	manager_each(m, u.id, note_sandbox, r->ids);
	r->failed = r->failed || manager_each_stored(m, u.id, note_stored, r->ids, &r->err) < 0;
	json_array_foreach(r->ids, i, id) {
		struct err e = ERR_INIT;

		r->left++;
		if (manager_delete(m, u.id, json_string_value(id), true, on_deleted, r, &e) < 0)
			on_deleted(&e, r);
	}
	removal_step(r);
}

/* ---- keys ---- */

static int key_members(struct buf *b, const struct store_key *k)
{
	char created[API_TIME_SIZE], expires[API_TIME_SIZE], used[API_TIME_SIZE];

	return json_text_members(b, "sssssssss", "id", k->id, "user", k->user, "name", k->name,
				 "hint", k->hint, "scope", store_scope_name(k->scope), "profile",
				 k->profile, "created_at", time_text(k->created_ms, created),
				 "expires_at", time_text(k->expires_ms, expires), "used_at",
				 time_text(k->used_ms, used));
}

/* TEXT: the key itself; NULL: it is not shown. */
static int key_text(struct buf *b, const struct store_key *k, const char *text)
{
	int r = json_text_open(b);

	r = r < 0 ? r : key_members(b, k);
	r = r < 0 ? r : json_text_members(b, "t", "key", text);
	return r < 0 ? r : buf_add_char(b, '}');
}

static bool add_key(const struct store_key *k, void *user)
{
	struct rows *r = user;

	return rows_begin(r) && rows_end(r, key_text(r->out, k, NULL));
}

static int each_key(struct rows *r, struct store *reading, struct err *e)
{
	return store_key_each(reading, r->owner, &r->mark, add_key, r, e);
}

void rest_list_keys(struct rest_call *c)
{
	rows_reply(c, rows_new(c, "keys", each_key));
}

void rest_new_key(struct rest_call *c)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(TEXT_MAX);
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
	if (key_text(&answer, &k, text) < 0)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else
		rest_reply_text(c, 201, &answer);
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

static bool add_row(const struct store_audit *a, void *user)
{
	struct rows *r = user;
	char at[API_TIME_SIZE];

	if (!rows_begin(r))
		return false;
	r->before = a->id;
	r->left--;
	return rows_end(r, json_text_object(r->out, "isssssssi", "id", (int64_t)a->id, "at",
					    time_text(a->at_ms, at), "actor", a->actor, "action",
					    a->action, "object", a->object, "result", a->result,
					    "detail", a->detail, "peer", a->peer, "count",
					    (int64_t)a->count));
}

static int each_row(struct rows *r, struct store *reading, struct err *e)
{
	return store_audit_each(reading, r->text, r->before, (unsigned)r->left, add_row, r, e);
}

void rest_list_audit(struct rest_call *c)
{
	const char *actor = http_request_query(c->req, "actor");
	struct rows *r = rows_new(c, "rows", each_row);

	if (r) {
		r->before = (uint64_t)rest_query_int(c, "before_id", 0);
		r->text = actor ? strdup(actor) : NULL; /* "": the local user */
	}
	rows_reply(c, r);
}
