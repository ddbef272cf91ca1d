/* SPDX-License-Identifier: Apache-2.0 */
/* REST: how a browser signs in and out, and makes an account. The cookie stands for a row of the store; auth.h says what
 * it may do. Login limits are those of POST /api/token. */
#include "api/rest/rest.h"

#include "api/auth/login_limits.h"
#include "base/text.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* ---- what a browser is told ---- */

static const char *registration_of(const struct api *a)
{
	if (!a->config.store)
		return "off";
	return a->config.open_registration ? "open" : "invitation";
}

/* REQ: NULL if its client has left. */
static json_t *session_json(struct api *a, const struct http_request *req, const struct caller *who)
{
	static const char *const keeps[] = {
	    [CELLS_KEEP_NOTHING] = "off", [CELLS_KEEP_CODE] = "code", [CELLS_KEEP_ALL] = "on"};
	const struct api_config *config = &a->config;
	json_t *me = who ? rest_me_json(a, who) : NULL;
	json_t *how = me ? json_object_get(me, "how") : NULL;
	char base[HTTP_BASE_SIZE];

	if (!req || !http_request_base(req, base))
		(void)snprintf(base, sizeof(base), "%s", config->base ? config->base : "");

	return json_pack("{s:b, s:b, s:O?, s:[s,s], s:s, s:b, s:s, s:s, s:s, s:s, s:i, s:o?}",
			 "required", auth_is_required(config->auth), "signed_in",
			 who && who->signin[0], "how", how, "methods", "password", "key",
			 "registration", registration_of(a), "loopback", config->loopback,
			 "version", config->version, "profile",
			 config->profile ? config->profile : "", "base", base, "history",
			 keeps[cells_kept(config->cells)], "password_min",
			 config->store ? (int)store_password_min(config->store) : 0, "me", me);
}

void rest_get_session(struct rest_call *c)
{
	rest_reply(c, 200, session_json(c->api, c->req, c->who));
}

/* ---- sign in ---- */

/* The request of C becomes that of the user, and is answered with STATUS. NAME is for a sign-in with a password. */
static void finish(struct rest_call *c, int status, const char *id, const char *name,
		   const char *key)
{
	struct auth *auth = c->api->config.auth;
	struct err e = ERR_INIT;

	if (!c->req) {
		rest_refuse(c, ERR_CANCELLED, "the client has left");
		return;
	}
	if (auth_sign_in(auth, c->req, id, key, c->api->config.signin_ns, &e) < 0) {
		rest_fail(c, &e);
		return;
	}
	if (name)
		auth_set_device(auth, c->req, name);
	caller_unref(c->who);
	c->who = caller_ref(auth_caller(c->req));
	rest_reply(c, status, session_json(c->api, c->req, c->who));
}

static void on_login(const struct store_user *u, const struct err *e, void *user)
{
	struct rest_call *c = user;

	store_owes_nothing(c->api->config.store);
	if (e && e->code == ERR_CANCELLED)
		c->action = NULL; /* the server ends, and the store may have ended */
	if (e)
		rest_fail(c, e);
	else
		finish(c, 200, u->id, u->name, NULL);
}

/* A sign-in brings a new credential into a browser, so no other site may cause one. */
static bool may_sign_in(struct rest_call *c)
{
	const char *site = http_request_header(c->req, "sec-fetch-site");

	if (!site || streq(site, "same-origin") || streq(site, "none"))
		return true;
	rest_refuse(c, ERR_FORBIDDEN, "this request does not come from the page of this server");
	return false;
}

void rest_sign_in(struct rest_call *c)
{
	const char *name = rest_text(c, "username", NULL), *key = rest_text(c, "key", NULL);
	const char *password = rest_text(c, "password", NULL);

	if (!may_sign_in(c))
		return;
	c->action = "user.login";
	(void)snprintf(c->object, sizeof(c->object), "%.64s", name ? name : "");
	if (key && !name && !password)
		finish(c, 200, NULL, NULL, key);
	else if (name && password && !key)
		api_login(c->api, c->req, name, password, on_login, c);
	else
		rest_refuse(c, ERR_INVALID_ARGUMENT,
			    "give username and password, or key, one of them");
}

void rest_sign_out(struct rest_call *c)
{
	bool all = rest_query_bool(c, "all");
	struct err e = ERR_INIT;

	/* Everybody may end their own sign-in. That of others is a change. */
	if (all && !auth_may_change(c->who, c->route->id)) {
		rest_refuse(c, ERR_FORBIDDEN, "this key may not end other sign-ins");
		return;
	}
	c->action = "user.logout";
	if (auth_sign_out(c->api->config.auth, c->req, c->who, all, &e) < 0)
		rest_fail(c, &e);
	else
		rest_reply(c, 204, NULL);
}

/* ---- a new password ---- */

struct renewal {
	struct rest_call *call;
	char id[STORE_ID_SIZE], name[STORE_NAME_SIZE];
	char password[STORE_PASSWORD_MAX + 1]; /* the new one */
};

static void renewal_end(struct renewal *n, const struct err *e)
{
	struct rest_call *c = n->call;
	const bool browser = c->who->signin[0] != '\0';

	if (e && e->code == ERR_CANCELLED)
		c->action = NULL; /* the server ends, and the store may have ended */
	if (e)
		rest_fail(c, e);
	else if (browser)
		finish(c, 200, n->id, n->name, NULL); /* its sign-in has ended with the old one */
	else
		rest_reply(c, 200, session_json(c->api, c->req, c->who));
	sodium_memzero(n, sizeof(*n));
	free(n);
}

static void on_new_hash(const char *hash, const struct err *failed, void *user)
{
	struct renewal *n = user;
	struct store *store = n->call->api->config.store;
	struct store_user u;
	struct err e = failed ? *failed : ERR_INIT;
	store_owes_nothing(store);
	int r = failed ? -EIO : store_user_get(store, n->id, &u, &e);

	if (r > 0) {
		(void)snprintf(u.hash, sizeof(u.hash), "%s", hash);
		r = store_user_update(store, &u, &e);
	}
	if (r == 0)
		r = err_set(&e, ERR_NOT_FOUND, 0, "There is no such user");
	renewal_end(n, r < 0 ? &e : NULL);
}

static void on_old_password(const struct store_user *u, const struct err *failed, void *user)
{
	struct renewal *n = user;
	struct api *a = n->call->api;
	const struct login_source who = {.network = "", .name = n->name, .device = ""};
	struct err e = failed ? *failed : ERR_INIT;
	int r = failed ? -EIO : 0;

	/* The caller's own credential is good, so this is no 401: a browser would ask to sign in again. */
	if (r < 0 ? e.code == ERR_UNAUTHORIZED : !streq(u->id, n->id))
		r = err_set(&e, ERR_FORBIDDEN, 0, "the old password is wrong");
	r = r < 0 ? r
		  : store_hash_password(a->config.store, n->password, STORE_LANE_KNOWN,
					login_limits_from(a->login_limits, &who, true), on_new_hash,
					n, &e);
	if (r < 0)
		renewal_end(n, &e);
}

/* Asks for the old password again: a key or an open browser must not be enough to take an account over. */
void rest_change_password(struct rest_call *c)
{
	struct store_user u;
	struct err e = ERR_INIT;

	if (!may_sign_in(c))
		return;
	c->action = "user.passwd";
	(void)snprintf(c->object, sizeof(c->object), "%s", c->who->owner);
	int r = c->who->owner[0] ? store_user_get(c->api->config.store, c->who->owner, &u, &e) : 0;
	if (r < 0) {
		rest_fail(c, &e);
		return;
	}
	if (r == 0 || !u.hash[0]) {
		rest_refuse(c, ERR_FORBIDDEN,
			    "this account has no password; an administrator can give it one");
		return;
	}
	struct renewal *n = calloc(1, sizeof(*n));
	if (!n) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	n->call = c;
	(void)snprintf(n->id, sizeof(n->id), "%s", u.id);
	(void)snprintf(n->name, sizeof(n->name), "%s", u.name);
	(void)snprintf(n->password, sizeof(n->password), "%s", rest_text(c, "new_password", ""));
	api_login(c->api, c->req, n->name, rest_text(c, "password", ""), on_old_password, n);
}

/* ---- register ---- */

struct joining {
	struct rest_call *call;
	struct store_user user;
	char invitation[STORE_KEY_SIZE];
};

static void on_hash(const char *hash, const struct err *failed, void *user)
{
	struct joining *j = user;
	struct rest_call *c = j->call;
	struct store *store = c->api->config.store;
	struct store_user u = j->user;
	struct err e = failed ? *failed : ERR_INIT;
	int r = failed ? -EIO : 0;

	store_owes_nothing(store);
	if (r == 0) {
		(void)snprintf(u.hash, sizeof(u.hash), "%s", hash);
		r = j->invitation[0] ? store_user_join(store, &u, j->invitation, &e)
				     : store_user_add(store, &u, &e);
	}
	sodium_memzero(j, sizeof(*j));
	free(j);
	if (r < 0)
		rest_fail(c, &e);
	else
		finish(c, 201, u.id, u.name, NULL);
}

/* May this caller make an account? Answers if not. */
static bool may_register(struct rest_call *c, const char *invitation)
{
	struct store_invitation found;
	struct err e = ERR_INIT;
	int r = invitation ? store_invitation_find(c->api->config.store, invitation, &found, &e)
			   : c->api->config.open_registration;

	if (r > 0)
		return true;
	if (r < 0)
		rest_fail(c, &e);
	else
		rest_refuse(c, ERR_FORBIDDEN, "%s",
			    invitation ? "This invitation is not valid any more"
				       : "Registration is closed; ask the administrator of this "
					 "server for an invitation");
	return false;
}

/* An e-mail address is optional; if there is one, it has one @ with something around it. */
static bool check_names(struct rest_call *c, const char *name, const char *email)
{
	struct err e = ERR_INIT;
	const char *at = strchr(email, '@');
	const char *wrong = strchr(name, '@') ? "username" : NULL;

	if (!wrong && *email &&
	    (!at || at == email || !at[1] || strchr(at + 1, '@') ||
	     strcspn(email, " \t\r\n<>,;\"") != strlen(email)))
		wrong = "email";
	if (!wrong)
		return true;
	(void)err_set(&e, ERR_INVALID_ARGUMENT, 0, "%s",
		      *wrong == 'u' ? "a username has no @" : "this is no e-mail address");
	(void)err_set_member(&e, wrong);
	rest_fail(c, &e);
	return false;
}

void rest_register(struct rest_call *c)
{
	const char *name = rest_text(c, "username", ""), *email = rest_text(c, "email", "");
	const char *invitation = rest_text(c, "invitation", NULL);
	char network[HTTP_NETWORK_TEXT];
	const struct login_source who = {.network = network, .name = "", .device = ""};
	struct err e = ERR_INIT;

	if (!may_sign_in(c) || !check_names(c, name, email) || !may_register(c, invitation))
		return;
	c->action = "user.register";
	(void)snprintf(c->object, sizeof(c->object), "%.64s", name);
	struct joining *j = calloc(1, sizeof(*j));
	if (!j) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	j->call = c;
	j->user = (struct store_user){.active = true, .quota = STORE_QUOTA_DEFAULTS};
	(void)snprintf(j->user.name, sizeof(j->user.name), "%s", name);
	(void)snprintf(j->user.email, sizeof(j->user.email), "%s", email);
	(void)snprintf(j->invitation, sizeof(j->invitation), "%s", invitation ? invitation : "");
	if (!http_request_network(c->req, network))
		network[0] = '\0';
	if (store_hash_password(c->api->config.store, rest_text(c, "password", ""), STORE_LANE_NEW,
				login_limits_from(c->api->login_limits, &who, false), on_hash, j,
				&e) < 0) {
		free(j);
		rest_fail(c, &e);
	}
}
