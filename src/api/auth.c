/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth.h"

#include "api/jwt.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>

#define TRIES_SLOTS     1024u
#define TRIES_PAIR_MAX  5u  /* failures of one name from one address in a window */
#define TRIES_ADDR_MAX  30u /* of one address */
#define TRIES_WINDOW_NS (60 * NS_PER_S)
#define VERSION_HEX     16

struct tries {
	uint64_t since_ns;
	unsigned n;
};

struct auth {
	struct auth_config config;
	uint8_t token_key[JWT_KEY_BYTES];
	uint8_t tries_key[crypto_shorthash_KEYBYTES];
	struct tries tries[TRIES_SLOTS];
	struct err failed; /* why the last credential could not be looked at; ERR_NONE: it was */
};

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

	if (w && --w->refs == 0)
		free(w);
}

static struct caller *caller_new(struct auth *a, enum caller_how how)
{
	struct caller *w = calloc(1, sizeof(*w));

	if (!w) {
		(void)err_set(&a->failed, ERR_OUT_OF_MEMORY, 0, "no memory");
		return NULL;
	}
	w->refs = 1;
	w->how = how;
	w->admin = true; /* the local user; others are cut down by take_user() */
	(void)snprintf(w->name, sizeof(w->name), "%s", a->config.local_name);
	return w;
}

static void take_user(struct caller *w, const struct store_user *u)
{
	memcpy(w->owner, u->id, sizeof(u->id));
	memcpy(w->name, u->name, sizeof(w->name));
	w->admin = u->role == STORE_ROLE_ADMIN;
}

static void take_key(struct caller *w, const struct store_key *k)
{
	w->admin = w->admin && k->scope == STORE_SCOPE_ADMIN;
	w->read_only = k->scope == STORE_SCOPE_READ;
	memcpy(w->profile, k->profile, sizeof(w->profile));
	w->expires_ms = k->expires_ms;
	memcpy(w->key_id, k->id, sizeof(w->key_id));
}

/* The tools of the exact profiles; `full` has all. */
static const struct {
	const char *profile;
	const char *tool;
} profile_tools[] = {
    {"code", "sandbox_upload_file"},
    {"code", "sandbox_run_python"},
    {"code", "sandbox_read_artifact"},
    {"code", "sandbox_list_artifacts"},
    {"code", "sandbox_close_session"},
    {"classic", "create_sandbox"},
    {"classic", "list_sandboxes"},
    {"classic", "execute_python_code"},
    {"classic", "install_package_in_sandbox"},
    {"classic", "check_package_installation_status"},
    {"classic", "execute_terminal_command"},
    {"classic", "upload_file_to_sandbox"},
};

bool auth_may_call(const void *caller, const char *tool, bool read_only)
{
	const struct caller *w = caller;

	if (w->read_only && !read_only)
		return false;
	if (!w->profile[0] || streq(w->profile, "full"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(profile_tools); i++)
		if (streq(profile_tools[i].tool, tool))
			return streq(w->profile, "both") ||
			       streq(w->profile, profile_tools[i].profile);
	return false;
}

/* What changes something over HTTP, by its operationId, and a tool of each profile that does the
 * same. None of theirs removes a stored sandbox, or makes or ends a key. */
static const struct {
	const char *operation;
	const char *tool;
} same_as[] = {
    {"createSandbox", "create_sandbox"},     {"startRun", "sandbox_run_python"},
    {"startRun", "execute_python_code"},     {"cancelRun", "sandbox_run_python"},
    {"cancelRun", "execute_python_code"},    {"postFiles", "sandbox_upload_file"},
    {"postFiles", "upload_file_to_sandbox"}, {"putFile", "sandbox_upload_file"},
    {"putFile", "upload_file_to_sandbox"},   {"installPackages", "install_package_in_sandbox"},
};

bool auth_may_change(const struct caller *who, const char *operation)
{
	if (who->read_only)
		return false;
	if (!who->profile[0] || streq(who->profile, "full"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(same_as); i++)
		if (streq(same_as[i].operation, operation) &&
		    auth_may_call(who, same_as[i].tool, false))
			return true;
	return false;
}

/* ---- tokens ---- */

/* Tokens end with the password that they were given for. */
static void version_of(const struct auth *a, const struct store_user *u, char ret[VERSION_HEX + 1])
{
	uint8_t hash[crypto_generichash_BYTES_MIN];

	(void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)u->hash, strlen(u->hash),
				 a->token_key, sizeof(a->token_key));
	text_hex(hash, VERSION_HEX / 2, ret);
}

int auth_token(struct auth *a, const struct store_user *u, char *ret, struct err *e)
{
	json_int_t now = (json_int_t)(now_wall_ns() / NS_PER_S);
	json_int_t life = (json_int_t)(a->config.token_ns / NS_PER_S);
	char version[VERSION_HEX + 1];

	version_of(a, u, version);
	json_t *claims = json_pack("{s:s, s:s, s:s, s:I, s:I}", "sub", u->name, "uid", u->id, "v",
				   version, "iat", now, "exp", now + life);
	int r = claims ? jwt_sign(a->token_key, claims, ret, TOKEN_SIZE) : -ENOMEM;
	json_decref(claims);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "a token") : 0;
}

static bool check_token(struct auth *a, const char *token, struct store_user *ret)
{
	char version[VERSION_HEX + 1];
	json_t *claims = jwt_open(a->token_key, token);
	const char *uid = json_string_value(json_object_get(claims, "uid"));
	const char *v = json_string_value(json_object_get(claims, "v"));
	json_int_t until = json_integer_value(json_object_get(claims, "exp"));
	bool good = uid && v && until > (json_int_t)(now_wall_ns() / NS_PER_S) &&
		    store_user_get(a->config.store, uid, ret, &a->failed) == 1 && ret->active;

	if (good) {
		version_of(a, ret, version);
		good = streq(version, v);
	}
	json_decref(claims);
	return good;
}

/* ---- credentials ---- */

static struct caller *by_store(struct auth *a, const char *credential)
{
	struct store_user u;
	struct store_key k;
	struct caller *w = NULL;

	if (!a->config.store)
		return NULL;
	int r = store_key_check(a->config.store, credential, &k, &u, &a->failed);
	if (r < 0)
		LOG_WARNING("key_check_failed", LOG_S("error", a->failed.text));
	if (r > 0) {
		w = caller_new(a, CALLER_KEY);
		if (w) {
			take_user(w, &u);
			take_key(w, &k);
		}
	} else if (r == 0 && check_token(a, credential, &u)) {
		w = caller_new(a, CALLER_TOKEN);
		if (w)
			take_user(w, &u);
	}
	return w;
}

/* What can only be meant for us, so that a wrong one is told even where nothing is asked for. */
static bool looks_like_ours(const char *credential)
{
	return text_starts_with(credential, "csn_") || text_starts_with(credential, "eyJ");
}

const struct caller *auth_identify(struct auth *a, struct http_request *req)
{
	const char *credential = http_request_key(req);
	struct caller *w = http_request_caller(req);

	if (w)
		return w;
	a->failed = ERR_INIT;
	if (credential && http_keys_find(a->config.static_keys, credential))
		w = caller_new(a, CALLER_STATIC_KEY);
	else if (credential)
		w = by_store(a, credential);
	if (!w && !a->config.required && !(credential && looks_like_ours(credential)))
		w = caller_new(a, CALLER_LOCAL);
	if (!w)
		return NULL;
	http_request_set_principal(req, w->owner);
	http_request_set_caller(req, w, caller_unref);
	return w;
}

void auth_refuse(const struct auth *a, struct http_request *req)
{
	/* A good key that cannot be looked up now is not a wrong one. */
	if (a->failed.code != ERR_NONE) {
		http_respond_problem(req, a->failed.code, a->failed.text, NULL);
		return;
	}
	http_respond_problem(
	    req, ERR_UNAUTHORIZED,
	    http_request_key(req) ? "The API key is not valid" : "Authentication required", NULL);
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

/* ---- logins that fail ---- */

static struct tries *slot_of(struct auth *a, struct http_request *req, const char *name)
{
	char text[64 + STORE_NAME_SIZE], *port;
	uint8_t hash[crypto_shorthash_BYTES];
	uint32_t index;
	char peer[64];

	(void)snprintf(peer, sizeof(peer), "%s", http_request_peer(req));
	port = strrchr(peer, ':');
	if (port)
		*port = '\0';
	(void)snprintf(text, sizeof(text), "%s/%s", peer, name);
	(void)crypto_shorthash(hash, (const uint8_t *)text, strlen(text), a->tries_key);
	memcpy(&index, hash, sizeof(index));
	struct tries *t = &a->tries[index % TRIES_SLOTS];
	if (now_ns() - t->since_ns > TRIES_WINDOW_NS)
		*t = (struct tries){.since_ns = now_ns()};
	return t;
}

bool auth_may_try(struct auth *a, struct http_request *req, const char *name)
{
	return slot_of(a, req, name)->n < TRIES_PAIR_MAX && slot_of(a, req, "")->n < TRIES_ADDR_MAX;
}

void auth_failed(struct auth *a, struct http_request *req, const char *name)
{
	slot_of(a, req, name)->n++;
	slot_of(a, req, "")->n++;
}

/* ---- life ---- */

int auth_new(const struct auth_config *config, struct auth **ret, struct err *e)
{
	struct auth *a = calloc(1, sizeof(*a));

	if (!a)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "users");
	a->config = *config;
	rand_bytes(a->tries_key, sizeof(a->tries_key));
	int r = config->store ? store_secret(config->store, "jwt", a->token_key, e) : 0;
	if (r < 0) {
		free(a);
		return r;
	}
	*ret = a;
	return 0;
}

struct auth *auth_free(struct auth *a)
{
	if (a)
		sodium_memzero(a, sizeof(*a));
	free(a);
	return NULL;
}
