/* SPDX-License-Identifier: Apache-2.0 */
/* The user routes of the second family, in its shapes: {"detail": TEXT} for errors, 200 for a new
 * user, one key for each user that can be regenerated. Its page shows that key at each visit, but the
 * store has only digests of keys. So the page has a key of its own, which is derived from what a login
 * with the password brings (docs/decisions/0008-page-key.md). Any other key is shown when it is made
 * and never again. */
#include "api/api_state.h"

#include "api/auth/login_limits.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>

#define KEY_NAME      "api-key"  /* a key that these routes make and show once */
#define PAGE_KEY_NAME "page-key" /* a key that they show to its user again */
#define USERNAME_MAX  64
#define NEED_TOKEN    "Not authenticated"
#define BAD_TOKEN     "Could not validate credentials"
#define KEY_NOT_SHOWN                                                                              \
	"API key not found: it is shown to a login with a password only; log in, or regenerate it"

/* ---- shapes ---- */

static json_t *user_json(const struct store_user *u, const char *key)
{
	char time[API_TIME_SIZE];

	/* ISO 8601 without a time zone, as the original writes it. */
	(void)api_time(u->created_ms, time);
	time[strlen(time) - 1] = '\0';
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s?}", "email", u->email, "username", u->name,
			 "id", u->id, "created_at", time, "is_active", u->active, "api_key", key);
}

/* Accepts one @ with something before it and a dot inside the part after it; no blanks. */
static bool is_email(const char *s)
{
	const char *at = strchr(s, '@');

	return at && at > s && !strchr(at + 1, '@') && strcspn(s, " \t\r\n<>,;\"") == strlen(s) &&
	       strchr(at + 1, '.') && at[1] != '.' && s[strlen(s) - 1] != '.';
}

/* Answers 422: a field of the body is not valid. The original's `detail` is a list here, which its own
 * page cannot show; the list is in `errors`. */
void api_invalid(struct http_request *req, const char *field, const char *why)
{
	char detail[ERR_TEXT_MAX];

	(void)snprintf(detail, sizeof(detail), "%s%s%s", field, *field ? ": " : "", why);
	api_json(req, 422,
		 json_pack("{s:s, s:[{s:s, s:[s,s], s:s}]}", "detail", detail, "errors", "type",
			   "value_error", "loc", "body", field, "msg", why));
}

/* ---- answers after a change ---- */

struct settled {
	struct api *api;
	struct http_request *req; /* NULL: the client has left */
	json_t *body;
	struct caller *who; /* reference; may be NULL */
	const char *action; /* for the audit log; NULL: it is not a change */
	char object[STORE_NAME_SIZE];
};

static void settled_gone(void *user)
{
	struct settled *x = user;

	x->req = NULL;
}

static void settled_end(struct settled *x, const struct err *e)
{
	/* Once the store is being closed its log is, too. */
	if (x->action && (!e || e->code != ERR_CANCELLED))
		api_audit(x->api, x->req, x->who, x->action, x->object,
			  e ? err_code_name(e->code) : "ok");
	if (x->req && e)
		api_detail(x->req, err_code_http(e->code), e->text);
	else if (x->req)
		api_json(x->req, 200, json_incref(x->body));
	json_decref(x->body);
	caller_unref(x->who);
}

static void on_settled(const struct err *e, void *user)
{
	struct settled *x = user;

	if (x->req)
		http_request_on_gone(x->req, NULL, NULL);
	settled_end(x, e);
	free(x);
}

/* Answers with X->body once the database has what was changed. */
static void answer_settled(const struct settled *what)
{
	struct store *store = what->api->config.store;
	struct err e = ERR_INIT;
	struct settled *x = store_owes(store) ? malloc(sizeof(*x)) : NULL;

	if (!x) {
		if (store_owes(store))
			(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "no memory");
		struct settled now = *what;
		settled_end(&now, store_owes(store) ? &e : NULL);
		return;
	}
	*x = *what;
	if (x->req)
		http_request_on_gone(x->req, settled_gone, x);
	const int r = store_settle(store, on_settled, x, &e);
	if (r != 0)
		on_settled(r < 0 ? &e : NULL, x);
}

/* As answer_settled(), if R >= 0; else E is the answer. WHAT->req may be NULL. */
static void answer_change(struct settled *what, const char *name, int r, const struct err *e)
{
	(void)snprintf(what->object, sizeof(what->object), "%s", name);
	if (r < 0)
		settled_end(what, e);
	else
		answer_settled(what);
}

/* Makes the page's key if LOGIN is there (auth.h), else one that is shown once. The older one of that
 * name is revoked. */
static int fresh_key(struct api *a, const char *user, const uint8_t *login, char *ret,
		     struct err *e)
{
	struct store_key k = {.scope = STORE_SCOPE_FULL};

	(void)snprintf(k.user, sizeof(k.user), "%s", user);
	(void)snprintf(k.name, sizeof(k.name), "%s", login ? PAGE_KEY_NAME : KEY_NAME);
	int r = store_key_revoke_named(a->config.store, user, k.name, e);
	return r < 0 ? r : store_key_add_shown(a->config.store, &k, login, ret, e);
}

/* ---- register ---- */

static void finish_register(struct api_wait *w, const char *hash, const struct err *failed)
{
	struct store *store = w->api->config.store;
	struct store_user u = w->user;
	char key[STORE_KEY_SIZE];
	struct err e = failed ? *failed : ERR_INIT;
	int r = failed ? -EIO : 0;

	store_owes_nothing(store);
	if (r == 0) {
		(void)snprintf(u.hash, sizeof(u.hash), "%s", hash);
		r = w->text[0] ? store_user_join(store, &u, w->text, &e)
			       : store_user_add(store, &u, &e);
	}
	if (r == 0)
		r = fresh_key(w->api, u.id, NULL, key, &e);
	if (r == -EEXIST || r == -EALREADY) {
		api_audit(w->api, w->req, NULL, "user.register", u.name, err_code_name(e.code));
		if (w->req)
			api_detail(w->req, 400,
				   r == -EEXIST ? "Username already registered"
						: "Email already registered");
		return;
	}
	struct settled x = {.api = w->api,
			    .req = w->req,
			    .body = r == 0 ? user_json(&u, key) : NULL,
			    .action = "user.register"};
	answer_change(&x, u.name, r, &e);
}

static void on_registered(const char *hash, const struct err *e, void *user)
{
	finish_register(user, hash, e);
	api_wait_free(user);
}

/* Checks the three texts of BODY. Returns false after it has answered. */
static bool read_registration(struct api *a, struct http_request *req, const json_t *body,
			      struct store_user *u, const char **ret_password)
{
	const char *name = json_string_value(json_object_get(body, "username"));
	const char *email = json_string_value(json_object_get(body, "email"));
	const char *password = json_string_value(json_object_get(body, "password"));
	const unsigned min = store_password_min(a->config.store);

	if (!name || !*name || strlen(name) > USERNAME_MAX || strchr(name, '@'))
		api_invalid(req, "username", "1 to 64 bytes without @");
	else if (!email || strlen(email) >= STORE_EMAIL_SIZE || !is_email(email))
		api_invalid(req, "email", "value is not a valid email address");
	else if (!password || strlen(password) < min || strlen(password) > STORE_PASSWORD_MAX) {
		char why[64];

		(void)snprintf(why, sizeof(why), "%u to %d bytes", min, STORE_PASSWORD_MAX);
		api_invalid(req, "password", why);
	} else {
		*u = (struct store_user){.active = true, .quota = STORE_QUOTA_DEFAULTS};
		(void)snprintf(u->name, sizeof(u->name), "%s", name);
		(void)snprintf(u->email, sizeof(u->email), "%s", email);
		*ret_password = password;
		return true;
	}
	return false;
}

/* May this caller make an account? INVITATION may be NULL. Returns false after it has answered. */
static bool may_register(struct api *a, struct http_request *req, const char *invitation)
{
	struct store_invitation found;
	struct err e = ERR_INIT;
	int r = invitation ? store_invitation_find(a->config.store, invitation, &found, &e) : 0;

	if (r > 0 || (!invitation && a->config.open_registration))
		return true;
	if (r < 0)
		api_detail(req, err_code_http(e.code), e.text);
	else if (invitation)
		api_detail(req, 403, "This invitation is not valid any more");
	else
		api_detail(req, 403,
			   "Registration is closed; ask the administrator of this server for an "
			   "invitation");
	return false;
}

static void register_user(struct api *a, struct http_request *req, const json_t *body)
{
	const char *invitation = json_string_value(json_object_get(body, "invitation"));
	const char *password;
	char network[HTTP_NETWORK_TEXT];
	struct login_source who = {.network = network, .name = "", .device = ""};
	struct err e = ERR_INIT;
	struct store_user u;

	if (!may_register(a, req, invitation) || !read_registration(a, req, body, &u, &password))
		return;
	struct api_wait *w = api_wait_new(a, req, NULL);
	if (!w)
		return;
	w->user = u;
	(void)snprintf(w->text, sizeof(w->text), "%s", invitation ? invitation : "");
	if (!http_request_network(req, network))
		network[0] = '\0';
	if (store_hash_password(a->config.store, password, STORE_LANE_NEW,
				login_limits_from(a->login_limits, &who, false), on_registered, w,
				&e) < 0) {
		api_detail(req, err_code_http(e.code), e.text);
		api_wait_free(w);
	}
}

static void post_register(struct http_request *req, void *user)
{
	struct err e = ERR_INIT;
	json_t *body = api_body(req, &e);

	if (body)
		register_user(user, req, body);
	else
		api_invalid(req, "", e.text);
	json_decref(body);
}

/* ---- routes that need a login ---- */

/* Returns the caller and its user; NULL after it has answered. */
static const struct caller *need_user(struct api *a, struct http_request *req,
				      struct store_user *ret)
{
	const struct caller *who = auth_identify(a->config.auth, req);
	struct err e = ERR_INIT;

	store_owes_nothing(a->config.store);
	int r = who && who->owner[0] ? store_user_get(a->config.store, who->owner, ret, &e) : 0;

	if (r == 1)
		return who;
	if (r < 0) {
		http_respond_problem(req, e.code, e.text, NULL);
		return NULL;
	}
	api_detail(req, 401, who || !http_request_key(req) ? NEED_TOKEN : BAD_TOKEN);
	return NULL;
}

static void get_me(struct http_request *req, void *user)
{
	struct store_user u;

	if (need_user(user, req, &u))
		api_json(req, 200, user_json(&u, NULL));
}

/* Shows the page's key, and makes one if there is none that this login can show. */
static void get_key(struct http_request *req, void *user)
{
	struct api *a = user;
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;
	struct store_user u;
	const struct caller *who = need_user(a, req, &u);

	if (!who)
		return;
	if (!who->has_login) {
		api_detail(req, 404, KEY_NOT_SHOWN);
		return;
	}
	int r = store_key_show(a->config.store, u.id, PAGE_KEY_NAME, who->login, key, &e);
	struct settled x = {.api = a, .req = req};
	if (r == 0) {
		r = fresh_key(a, u.id, who->login, key, &e);
		x.who = caller_ref(who);
		x.action = "key.page";
	}
	x.body = r < 0 ? NULL : json_pack("{s:s}", "api_key", key);
	answer_change(&x, u.name, r, &e);
	sodium_memzero(key, sizeof(key));
}

static void post_regenerate(struct http_request *req, void *user)
{
	struct api *a = user;
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;
	struct store_user u;
	const struct caller *who = need_user(a, req, &u);

	if (!who)
		return;
	/* The new key has all rights and never expires, so the key that asks for it must be such a
	 * key, too. */
	if (who->read_only || who->profile[0] || who->expires_ms) {
		api_detail(req, 403, "This key may not make another one");
		return;
	}
	/* Every key that these routes made ends, whoever has it. */
	int r = store_key_revoke_named(a->config.store, u.id,
				       who->has_login ? KEY_NAME : PAGE_KEY_NAME, &e);
	r = r < 0 ? r : fresh_key(a, u.id, who->has_login ? who->login : NULL, key, &e);
	struct settled x = {.api = a,
			    .req = req,
			    .body = r < 0 ? NULL : json_pack("{s:s}", "api_key", key),
			    .who = caller_ref(who),
			    .action = "key.regenerate"};
	answer_change(&x, u.name, r, &e);
	sodium_memzero(key, sizeof(key));
}

/* ---- sandboxes ---- */

static void add_sandbox(const struct sandbox_record *b, void *arg)
{
	char time[API_TIME_SIZE];

	(void)api_time(b->created_ms, time);
	time[strlen(time) - 1] = '\0';
	/* The engine's id stays inside: in the original it was a way around the owner. */
	(void)json_array_append_new(arg, json_pack("{s:s, s:s, s:s, s:s, s:n}", "id", b->id,
						   "user_id", b->owner, "name", b->name,
						   "created_at", time, "docker_container_id"));
}

static void get_sandboxes(struct http_request *req, void *user)
{
	struct api *a = user;
	struct err e = ERR_INIT;
	struct store_user u;

	if (!need_user(a, req, &u))
		return;
	json_t *list = json_array();
	if (manager_each_stored(a->config.manager, u.id, add_sandbox, list, &e) < 0) {
		json_decref(list);
		api_detail(req, err_code_http(e.code), e.text);
		return;
	}
	api_json(req, 200, json_pack("{s:o}", "sandboxes", list));
}

static void on_deleted(const struct err *e, void *user)
{
	struct api_wait *w = user;

	api_audit(w->api, w->req, w->who, "sandbox.delete", w->text,
		  e ? err_code_name(e->code) : "ok");
	if (w->req && e)
		api_detail(w->req, err_code_http(e->code), e->text);
	else if (w->req)
		api_json(w->req, 200,
			 json_pack("{s:s}", "message", "Sandbox deleted successfully"));
	api_wait_free(w);
}

static void delete_sandbox(struct http_request *req, void *user)
{
	struct api *a = user;
	const char *id = http_request_param(req, "id");
	struct err e = ERR_INIT;
	struct store_user u;
	const struct caller *who = need_user(a, req, &u);

	if (!who)
		return;
	if (!auth_may_change(who, "deleteStored")) {
		api_detail(req, 403,
			   who->read_only ? "This key may only read"
					  : "This key is for the tools of one profile");
		return;
	}
	if (manager_get_stored(a->config.manager, u.id, id, NULL, &e) != 1) {
		api_detail(req, 404, "Sandbox not found");
		return;
	}
	struct api_wait *w = api_wait_new(a, req, who);
	if (!w)
		return;
	(void)snprintf(w->text, sizeof(w->text), "%s", id);
	if (manager_delete(a->config.manager, u.id, id, true, on_deleted, w, &e) < 0) {
		api_detail(req, err_code_http(e.code), e.text);
		api_wait_free(w);
	}
}

static void get_health(struct http_request *req, void *user UNUSED)
{
	http_respond_text(req, 200, "application/json", "{\"status\":\"healthy\"}");
}

static const struct http_route routes[] = {
    {HTTP_GET, "/health", get_health, HTTP_ROUTE_AUTH | HTTP_ROUTE_QUERY_KEY | HTTP_ROUTE_PAGES, 0},
    {HTTP_POST, "/api/register", post_register, HTTP_ROUTE_PAGES, API_STRANGER_BODY_MAX},
    {HTTP_POST, "/api/token", classic_post_token, HTTP_ROUTE_PAGES, API_STRANGER_BODY_MAX},
    {HTTP_GET, "/api/users/me", get_me, HTTP_ROUTE_PAGES, 0},
    {HTTP_GET, "/api/users/me/api-key", get_key, HTTP_ROUTE_PAGES, 0},
    {HTTP_POST, "/api/users/me/api-key/regenerate", post_regenerate, HTTP_ROUTE_PAGES, 0},
    {HTTP_GET, "/api/users/me/sandboxes", get_sandboxes, HTTP_ROUTE_PAGES, 0},
    {HTTP_DELETE, "/api/users/me/sandboxes/{id}", delete_sandbox, HTTP_ROUTE_PAGES, 0},
};

/* Logins and keys are kept by the routers of a fleet; the sandboxes of a user are here. */
static const struct http_route of_router[] = {
    {HTTP_GET, "/health", get_health, HTTP_ROUTE_AUTH, 0},
    {HTTP_POST, "/api/register", api_of_router, 0, API_STRANGER_BODY_MAX},
    {HTTP_POST, "/api/token", api_of_router, 0, API_STRANGER_BODY_MAX},
    {HTTP_GET, "/api/users/me/sandboxes", get_sandboxes, 0, 0},
    {HTTP_DELETE, "/api/users/me/sandboxes/{id}", delete_sandbox, 0, 0},
    {HTTP_GET, "/api/users/{rest...}", api_of_router, 0, 0},
    {HTTP_POST, "/api/users/{rest...}", api_of_router, 0, 0},
    {HTTP_DELETE, "/api/users/{rest...}", api_of_router, 0, 0},
};

/* Without a store there are no users, and so none of their routes. */
int users_add_routes(struct api *a, struct http_server *http, unsigned scopes)
{
	const size_t n = a->config.store ? ARRAY_SIZE(routes) : 1;

	if (a->config.worker)
		return http_server_add_routes(http, of_router, ARRAY_SIZE(of_router), scopes, a);
	return http_server_add_routes(http, routes, n, scopes, a);
}
