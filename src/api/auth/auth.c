/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth/auth_parts.h"

#include "api/auth/jwt.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>

#define WATCH_NS       (250 * NS_PER_MS) /* between two checks of open credentials */
#define WATCH_SLACK_US (50 * 1000)
#define DAY_S          (24 * 3600)
#define LOGIN_VARIANT  sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define LOGIN_TEXT     sodium_base64_ENCODED_LEN(STORE_SECRET_BYTES, LOGIN_VARIANT)

/* ---- identities ---- */

struct caller *caller_ref(const struct caller *who)
{
	struct caller *mut = (struct caller *)(uintptr_t)who;

	mut->refs++;
	return mut;
}

void caller_unref(void *who)
{
	struct caller *w = who;

	if (!w || --w->refs > 0)
		return;
	list_remove(&w->live);
	sodium_memzero(w->login, sizeof(w->login));
	free(w);
}

struct caller *caller_new(struct auth *a, enum caller_how how)
{
	struct caller *w = calloc(1, sizeof(*w));

	if (!w) {
		(void)err_set(&a->failed, ERR_OUT_OF_MEMORY, 0, "no memory");
		return NULL;
	}
	w->refs = 1;
	list_init(&w->live);
	w->how = how;
	w->admin = true; /* the local user; others are cut down by caller_take_user() */
	(void)snprintf(w->name, sizeof(w->name), "%s", a->config.local_name);
	return w;
}

void caller_take_user(struct caller *w, const struct store_user *u)
{
	memcpy(w->owner, u->id, sizeof(u->id));
	memcpy(w->name, u->name, sizeof(w->name));
	w->admin = u->role == STORE_ROLE_ADMIN;
}

void caller_take_key(struct caller *w, const struct store_key *k)
{
	w->admin = w->admin && k->scope == STORE_SCOPE_ADMIN;
	w->read_only = k->scope == STORE_SCOPE_READ;
	memcpy(w->profile, k->profile, sizeof(w->profile));
	w->expires_ms = k->expires_ms;
	memcpy(w->key_id, k->id, sizeof(w->key_id));
}

/* ---- tokens ---- */

/* A token names the version of the password it was made for, and ends when the password changes. */
static void version_of(const struct auth *a, const struct store_user *u,
		       char ret[AUTH_VERSION_SIZE])
{
	uint8_t hash[crypto_generichash_BYTES_MIN];

	(void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)u->hash, strlen(u->hash),
				 a->token_key, sizeof(a->token_key));
	text_hex(hash, (AUTH_VERSION_SIZE - 1) / 2, ret);
}

int auth_token(struct auth *a, const struct store_user *u, const uint8_t *login, char *ret,
	       struct err *e)
{
	json_int_t now = (json_int_t)(now_wall_ns() / NS_PER_S);
	json_int_t life = (json_int_t)(a->config.token_ns / NS_PER_S);
	char version[AUTH_VERSION_SIZE], encoded[LOGIN_TEXT];

	version_of(a, u, version);
	(void)sodium_bin2base64(encoded, sizeof(encoded), login, STORE_SECRET_BYTES, LOGIN_VARIANT);
	json_t *claims = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "sub", u->name, "uid", u->id,
				   "v", version, "iat", now, "exp", now + life, "login", encoded);
	int r = claims ? jwt_sign(a->token_key, claims, ret, TOKEN_SIZE) : -ENOMEM;
	json_decref(claims);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "a token") : 0;
}

/* Tokens of older versions bring no login. */
static void read_login(const json_t *claims, struct caller *ret)
{
	const char *text = json_string_value(json_object_get(claims, "login"));
	size_t len = 0;

	ret->has_login = text &&
			 sodium_base642bin(ret->login, sizeof(ret->login), text, strlen(text), NULL,
					   &len, NULL, LOGIN_VARIANT) == 0 &&
			 len == sizeof(ret->login);
}

/* Fills in the user and, of RET_CALLER, what the token says about itself. A token that was made a day or more in the
 * future was made while the clock was wrong; it could be valid for years. */
static bool check_token(struct auth *a, const char *token, struct store_user *ret,
			struct caller *ret_caller)
{
	char version[AUTH_VERSION_SIZE];
	json_t *claims = jwt_open(a->token_key, token);
	const char *uid = json_string_value(json_object_get(claims, "uid"));
	const char *v = json_string_value(json_object_get(claims, "v"));
	json_int_t until = json_integer_value(json_object_get(claims, "exp"));
	json_int_t made = json_integer_value(json_object_get(claims, "iat"));
	const json_int_t now = (json_int_t)(now_wall_ns() / NS_PER_S);
	bool good = uid && v && until > now && made < now + DAY_S &&
		    store_user_get(a->config.store, uid, ret, &a->failed) == 1 && ret->active;

	if (good) {
		version_of(a, ret, version);
		good = streq(version, v);
		ret_caller->until_ms = (uint64_t)until * 1000;
		memcpy(ret_caller->version, version, sizeof(version));
		read_login(claims, ret_caller);
	}
	json_decref(claims);
	return good;
}

/* ---- credentials that end while something is open ----
 *
 * Each request is checked when it arrives. What stays open after that (streams, calls of sessions,
 * tasks, runs) holds a reference to its caller. Four times a second the store is asked whether any
 * credential may have ended. If so, all callers that are still referenced are checked again. A caller
 * whose credential ended or changed its rights is marked, and on_ended() ends what it has open. */

bool caller_has_rights_of(const struct caller *a, const struct caller *b)
{
	return streq(a->owner, b->owner) && a->admin == b->admin && a->read_only == b->read_only &&
	       streq(a->profile, b->profile);
}

/* The sign-in of a browser: does it still hold, besides what it stands for? */
static int judge_signin(const struct auth *a, const struct caller *w, struct err *e)
{
	struct store_signin i;

	return w->signin[0] ? store_signin_get(a->config.store, w->signin, &i, e) : 1;
}

int auth_judge(const struct auth *a, const struct caller *w)
{
	struct caller now = {.admin = true};
	char version[AUTH_VERSION_SIZE];
	struct err e = ERR_INIT;
	struct store_user u;
	struct store_key k;
	int r = judge_signin(a, w, &e);

	if (r <= 0 || w->how == CALLER_STATIC_KEY)
		return r;
	r = w->how == CALLER_KEY ? store_key_get(a->config.store, w->key_id, &k, &u, &e)
				 : store_user_get(a->config.store, w->owner, &u, &e);

	if (r <= 0)
		return r;
	caller_take_user(&now, &u);
	if (w->how == CALLER_KEY) {
		caller_take_key(&now, &k);
		return caller_has_rights_of(w, &now);
	}
	if (w->how == CALLER_SIGNIN)
		return u.active && caller_has_rights_of(w, &now);
	version_of(a, &u, version);
	return u.active && streq(version, w->version) && caller_has_rights_of(w, &now);
}

/* AWAY: the database has not answered for so long that the store is not read. Returns how many ended. *RET_DONE is false if the store failed for one of them. */
static unsigned judge_all(struct auth *a, bool changed, bool away, bool *ret_done)
{
	uint64_t now_ms = store_now_ms();
	unsigned n = 0;

	*ret_done = true;
	list_for_each(l, &a->live) {
		struct caller *w = list_entry(l, struct caller, live);
		int r = changed && w->ended == CALLER_LIVE && !w->routed ? auth_judge(a, w) : 1;

		if (w->ended != CALLER_LIVE)
			continue;
		if (w->until_ms && w->until_ms <= now_ms)
			w->ended = CALLER_EXPIRED;
		else if (r == 0)
			w->ended = CALLER_REVOKED;
		else if (r < 0 && away) /* nobody can say whether it was revoked */
			w->ended = CALLER_EXPIRED;
		else if (r < 0)
			*ret_done = false;
		n += w->ended != CALLER_LIVE;
	}
	return n;
}

static int on_watch(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct auth *a = user;
	uint64_t epoch = a->epoch;
	struct err e = ERR_INIT;
	bool done;

	loop_work("timer", "credentials");
	if (list_is_empty(&a->live)) {
		a->watching = false;
		return 0;
	}
	const int r = store_credentials_epoch(a->config.store, &epoch, &e);
	/* Of a PostgreSQL server, and after a minute. */
	const bool away = r < 0 && e.code == ERR_STORE_UNREACHABLE;
	if (r < 0)
		LOG_WARNING("credentials_not_judged", LOG_S("error", e.text));
	unsigned n = judge_all(a, away || epoch != a->epoch, away, &done);
	if (done)
		a->epoch = epoch;
	if (n > 0)
		LOG_INFO("credentials_ended", LOG_U("callers", n));
	if (n > 0 && a->config.on_ended)
		a->config.on_ended(a->config.user);
	(void)sd_event_source_set_time_relative(source, WATCH_NS / NS_PER_US);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

void auth_watch(struct auth *a, struct caller *w)
{
	list_append(&a->live, &w->live);
	if (a->watching || !a->watch)
		return;
	a->watching = true;
	(void)sd_event_source_set_time_relative(a->watch, WATCH_NS / NS_PER_US);
	(void)sd_event_source_set_enabled(a->watch, SD_EVENT_ONESHOT);
}

void auth_forget(struct auth *a, const char *owner)
{
	list_for_each(l, &a->live) {
		struct caller *w = list_entry(l, struct caller, live);

		if (w->ended == CALLER_LIVE && streq(w->owner, owner))
			w->ended = CALLER_REVOKED;
	}
	if (a->config.on_ended)
		a->config.on_ended(a->config.user);
}

bool auth_has_ended(const void *caller)
{
	return ((const struct caller *)caller)->ended != CALLER_LIVE;
}

/* ---- credentials ---- */

static struct caller *by_store(struct auth *a, const char *credential)
{
	struct store_user u;
	struct store_key k;
	struct caller *w = NULL, token = {0};

	if (!a->config.store)
		return NULL;
	int r = store_key_check(a->config.store, credential, &k, &u, &a->failed);
	if (r < 0)
		LOG_OFTEN(LOG_LEVEL_WARNING, "key_check_failed", LOG_S("error", a->failed.text));
	if (r > 0) {
		w = caller_new(a, CALLER_KEY);
		if (w) {
			caller_take_user(w, &u);
			caller_take_key(w, &k);
			w->until_ms = k.expires_ms;
		}
	} else if (r == 0 && check_token(a, credential, &u, &token)) {
		w = caller_new(a, CALLER_TOKEN);
		if (w) {
			caller_take_user(w, &u);
			memcpy(w->version, token.version, sizeof(w->version));
			memcpy(w->login, token.login, sizeof(w->login));
			w->has_login = token.has_login;
			w->until_ms = token.until_ms;
		}
		sodium_memzero(token.login, sizeof(token.login));
	}
	if (w)
		auth_watch(a, w);
	return w;
}

bool auth_is_required(const struct auth *a)
{
	return a->config.required;
}

/* Credentials in our own format. A wrong one is rejected even where authentication is optional. */
static bool looks_like_ours(const char *credential)
{
	return text_starts_with(credential, "csn_") || text_starts_with(credential, "eyJ");
}

/* Clients of E2B's API insist on keys of the form "e2b_" and hexadecimal digits. Those are the bytes of a key of this server,
 * which RET (HTTP_KEY_BYTES_MAX + 1 bytes) gets. Everything else stays as it is. */
static const char *plain_key(const char *credential, char *ret)
{
	static const char prefix[] = "e2b_";
	size_t len = 0;

	if (!credential || !text_starts_with(credential, prefix))
		return credential;
	const char *hex = credential + sizeof(prefix) - 1;
	if (sodium_hex2bin((unsigned char *)ret, HTTP_KEY_BYTES_MAX, hex, strlen(hex), NULL, &len,
			   NULL) < 0 ||
	    strlen(hex) != 2 * len || memchr(ret, '\0', len))
		return credential;
	ret[len] = '\0';
	return ret;
}

const struct caller *auth_identify(struct auth *a, struct http_request *req)
{
	char plain[HTTP_KEY_BYTES_MAX + 1];
	const char *credential = plain_key(http_request_key(req), plain);
	struct caller *w = http_request_caller(req);

	if (w)
		return w;
	a->failed = ERR_INIT;
	if (a->config.by_router)
		w = auth_by_router(a, req);
	else if (credential && http_keys_find(a->config.static_keys, credential))
		w = caller_new(a, CALLER_STATIC_KEY);
	else if (credential)
		w = by_store(a, credential);
	else
		w = auth_by_cookie(a, req);
	if (!w && a->failed.code == ERR_FORBIDDEN)
		return NULL; /* a foreign site, on an open server too */
	if (!w && !a->config.required && !a->config.by_router &&
	    !(credential && looks_like_ours(credential)))
		w = caller_new(a, CALLER_LOCAL);
	if (!w)
		return NULL;
	http_request_set_principal(req, w->owner);
	http_request_set_caller(req, w, caller_unref);
	return w;
}

const struct caller *auth_by_pass(struct auth *a, struct http_request *req, const char *owner,
				  uint64_t until_ms)
{
	struct store_user u;
	struct caller *w;

	a->failed = ERR_INIT;
	if (owner[0] && (!a->config.store ||
			 store_user_get(a->config.store, owner, &u, &a->failed) != 1 || !u.active))
		return NULL;
	w = caller_new(a, owner[0] ? CALLER_SIGNIN : CALLER_LOCAL);
	if (!w)
		return NULL;
	if (owner[0]) {
		caller_take_user(w, &u);
		w->until_ms = until_ms;
		auth_watch(a, w);
	}
	http_request_set_principal(req, w->owner);
	http_request_set_caller(req, w, caller_unref);
	return w;
}

bool auth_is_credential(const struct auth *a, const char *given)
{
	char plain[HTTP_KEY_BYTES_MAX + 1];
	const char *credential = plain_key(given, plain);
	json_t *claims =
	    text_starts_with(credential, "eyJ") ? jwt_open(a->token_key, credential) : NULL;
	const bool is_token = claims != NULL;

	json_decref(claims);
	return is_token || text_starts_with(credential, "csn_") ||
	       http_keys_find(a->config.static_keys, credential);
}

void auth_why(const struct auth *a, const struct http_request *req, struct err *ret)
{
	/* If the store failed, the key may be right: 401 would be a lie. */
	if (a->failed.code != ERR_NONE)
		*ret = a->failed;
	else
		(void)err_set(ret, ERR_UNAUTHORIZED, 0, "%s",
			      http_request_key(req) ? "The API key is not valid"
						    : "Authentication required");
}

void auth_refuse(const struct auth *a, struct http_request *req)
{
	struct err why = ERR_INIT;

	auth_why(a, req, &why);
	http_respond_problem(req, why.code, why.text, NULL);
}

bool auth_check(struct http_request *req, void *userdata)
{
	struct auth *a = userdata;

	if (auth_identify(a, req))
		return true;
	auth_refuse(a, req);
	return false;
}

const struct caller *auth_caller(const struct http_request *req)
{
	return http_request_caller(req);
}

/* ---- life ---- */

/* Keyed, so that the database does not help to guess the key. */
static void digest_static_key(struct auth *a, const char *key)
{
	uint8_t digest[crypto_generichash_BYTES_MIN];

	(void)crypto_generichash(digest, sizeof(digest), (const uint8_t *)key, strlen(key),
				 a->token_key, sizeof(a->token_key));
	text_hex(digest, sizeof(digest), a->static_digest);
}

int auth_new(const struct auth_config *config, struct auth **ret, struct err *e)
{
	struct auth *a = calloc(1, sizeof(*a));

	if (!a)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "users");
	a->config = *config;
	list_init(&a->live);
	int r = config->store ? store_secret(config->store, "jwt", a->token_key, e) : 0;
	if (r == 0 && config->static_key)
		digest_static_key(a, config->static_key);
	a->config.static_key = NULL;
	if (r == 0 && config->store && config->loop) {
		r = sd_event_add_time(config->loop, &a->watch, CLOCK_MONOTONIC, 0, WATCH_SLACK_US,
				      on_watch, a);
		r = r < 0 ? r : sd_event_source_set_enabled(a->watch, SD_EVENT_OFF);
		if (r < 0)
			(void)err_set(e, ERR_SYSTEM, -r, "the event loop");
	}
	if (r < 0) {
		(void)auth_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

struct auth *auth_free(struct auth *a)
{
	if (!a)
		return NULL;
	(void)sd_event_source_disable_unref(a->watch);
	/* Callers that are still referenced must not point to this list when they are freed. */
	list_for_each(l, &a->live)
		list_remove(l);
	sodium_memzero(a, sizeof(*a));
	free(a);
	return NULL;
}
