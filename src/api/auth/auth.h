/* SPDX-License-Identifier: Apache-2.0 */
/* The caller of a request and its rights. They belong to one request and to what that request began,
 * never to the process or to a session.
 *
 * A credential is looked for in this order: `Authorization: Bearer` (the token of a login, or a key),
 * `X-API-Key`, on some routes `?api_key=`, and on REST routes the cookie of a browser that has signed in. The first
 * one that is there decides. A browser adds the cookie by itself, so with the cookie a request that may change
 * something must come from a page of this server (http_request_is_same_origin()) and have the header
 * X-Caisson-Page; any other site is refused. The local user is
 * whoever has the static key of the server (SANDBOX_API_KEY), and everybody on a server that does not
 * require authentication.
 *
 * A worker of a fleet (auth_config.by_router) looks at none of these. A router has judged the credential and says who asks, in the header
 * Caisson-Caller (fleet/identity.h), which counts on the listener of members alone. */
#pragma once

#include "base/list.h"
#include "http/http.h"
#include "http/static_keys.h"
#include "store/store.h"

#define CALLER_PROFILE_SIZE STORE_WORD_SIZE

enum caller_how {
	CALLER_LOCAL, /* no credential, and none is required */
	CALLER_STATIC_KEY,
	CALLER_KEY,
	CALLER_TOKEN,
	CALLER_SIGNIN, /* a browser, by its cookie; its user gave the password */
};

/* A credential may end while something that it opened goes on. */
enum caller_end {
	CALLER_LIVE,
	CALLER_EXPIRED,
	CALLER_REVOKED, /* or has other rights now, or its user is gone or not active */
};

#define AUTH_VERSION_SIZE 17 /* of a password, as tokens name it */

struct caller {
	struct list live; /* of callers whose credential can end; else in no list */
	unsigned refs;
	enum caller_end ended; /* from then on it may do nothing more */
	enum caller_how how;
	bool
	    routed; /* a router of the fleet has judged it, so no row here says whether it still holds */
	uint64_t
	    end_name; /* auth_ended.c: of a routed one, what it and its rights are called; 0 = not known yet */
	char owner[STORE_OWNER_SIZE]; /* of sandboxes; "" = the local user */
	char name[STORE_NAME_SIZE];
	bool admin;                        /* may see and change everybody's */
	bool read_only;                    /* may change and run nothing */
	char profile[CALLER_PROFILE_SIZE]; /* "" = the server's */
	uint64_t expires_ms;               /* of its key; 0 = never */
	char key_id[STORE_ID_SIZE];        /* of CALLER_KEY */
	char signin[STORE_ID_SIZE];        /* id of the browser's sign-in; "" = no cookie */
	uint64_t until_ms;                 /* end of the credential, key or token; 0 = none */
	char version[AUTH_VERSION_SIZE];   /* of CALLER_TOKEN: the password it was given for */
	/* Of CALLER_TOKEN: what the login brought (store_check_fn), to show the page's key again. */
	uint8_t login[STORE_SECRET_BYTES];
	bool has_login;
};

struct auth;
struct fleet_identity;

struct auth_config {
	struct store *store;                 /* borrowed; NULL: there are no users */
	const struct http_keys *static_keys; /* borrowed; NULL: none */
	const char *
	    static_key; /* borrowed until auth_new() returns: the one key of the server; NULL: none */
	bool secure;    /* browsers reach this server by https */
	bool required; /* requests without a credential are refused */
	bool
	    by_router; /* a worker of a fleet: routers say who asks, and no credential is looked at */
	struct fleet_tally *elsewhere; /* borrowed, of a worker: gets what users have at others */
	const char *local_name;        /* borrowed; what the local user is called */
	uint64_t token_ns;             /* life of a token */
	sd_event *loop;                /* borrowed; NULL: what is open is not judged again */
	/* Called when credentials ended, at most a third of a second ago, to end what they have open.
	 * auth_has_ended() tells which. May be NULL. */
	void (*on_ended)(void *user);
	void *user;
};

int auth_new(const struct auth_config *config, struct auth **ret, struct err *e) MUST_CHECK;
struct auth *auth_free(struct auth *a); /* NULL is fine */

/* An http_auth_fn; USERDATA is a struct auth. Sets principal and caller of the request. */
bool auth_check(struct http_request *req, void *userdata);
/* Answers after auth_identify() returned NULL: 401, or why the credential could not be checked. */
void auth_refuse(const struct auth *a, struct http_request *req);
/* The same without an answer. UNAUTHORIZED: there is no credential, or it is not valid. */
void auth_why(const struct auth *a, const struct http_request *req, struct err *ret);
/* The caller, borrowed from the request, without answering: for routes that are public. NULL: a
 * credential is required and there is none, or it is not valid. */
const struct caller *auth_identify(struct auth *a, struct http_request *req);
/* The caller of REQ is OWNER, as something shows that this server gave to OWNER and that holds until UNTIL_MS: borrowed as above.
 * NULL: the user is gone or not active. */
const struct caller *auth_by_pass(struct auth *a, struct http_request *req, const char *owner,
				  uint64_t until_ms);
/* Would CREDENTIAL let somebody in here, or is it at least of the form of our keys? */
bool auth_is_credential(const struct auth *a, const char *credential);
/* The identity that auth_check() found, borrowed from the request. */
const struct caller *auth_caller(const struct http_request *req);
/* Adds a reference, which caller_unref() drops. */
struct caller *caller_ref(const struct caller *who);
void caller_unref(void *who);

/* CALLER is a struct caller. For http_server_end_callers(). */
bool auth_has_ended(const void *caller);
/* The user OWNER was removed: what has its requests under way has ended now, not at the next look, which comes too late
 * for what they are about to begin. */
void auth_forget(struct auth *a, const char *owner);

/* ---- credentials that end, in a fleet (fleet/identity.h) ---- */

/* A worker: calls FN for the credentials of what is open here, each once, in the order of a number that stands for it and its rights:
 * at most MAX of those behind *AFTER, which becomes the number of the last one. 1: there are more; 0; -ENOMEM. */
typedef void (*auth_credential_fn)(const struct fleet_identity *id, void *user);
int auth_each_routed(struct auth *a, uint64_t *after, unsigned max, auth_credential_fn fn,
		     void *user) MUST_CHECK;
/* Marks what is open with one of the N credentials and its rights, or of one of the N users, who are not active from now on (until a router
 * sends a request of that user again), as ended. They return how many callers that are; auth_tell_ended() then ends what they have open.
 * OWNERS is sorted afterwards. */
int auth_end_routed(struct auth *a, const struct fleet_identity *ids, size_t n) MUST_CHECK;
int auth_end_owners(struct auth *a, const char **owners, size_t n, struct err *e) MUST_CHECK;
void auth_tell_ended(struct auth *a, unsigned n);
/* A router: 1 if ID still has its rights, or is of nobody who is, or was within the last hour, a user of this server; 0 if not. */
int auth_judge_routed(struct auth *a, const struct fleet_identity *id, struct err *e) MUST_CHECK;
/* store_credentials_epoch() */
int auth_epoch(const struct auth *a, uint64_t *ret, struct err *e) MUST_CHECK;

/* May CALLER (a struct caller) use this tool? A key may be limited to reading or to one profile. For
 * mcp_server_config.may_call. */
bool auth_may_call(const void *caller, const char *tool, bool read_only);
/* The same for a method of MCP. For mcp_server_config.may_ask. */
bool auth_may_ask(const void *caller, const char *method);

/* A number of the rights of a key that is limited: keys with the same limits have the same. */
unsigned auth_rights(const struct caller *who);

/* May WHO do OPERATION (an operationId of the routes), which changes something over HTTP? */
bool auth_may_change(const struct caller *who, const char *operation);
/* False for a key that is limited to the tools of an exact profile. */
bool auth_has_all_tools(const struct caller *who);

/* ---- sign-in of browsers ---- */

/* Signs in the user ID, or with KEY whoever has that key; then the answer to REQ sets the cookie. The other one is NULL.
 * UNAUTHORIZED: the key is not valid. */
int auth_sign_in(struct auth *a, struct http_request *req, const char *id, const char *key,
		 uint64_t life_ns, struct err *e) MUST_CHECK;
/* A browser in which NAME gave the right password keeps a token for some months. It is no credential: it gives
 * the next login of NAME there a place of its own among those that wait (login_limits.h). */
#define AUTH_DEVICE_SIZE 32
void auth_set_device(const struct auth *a, struct http_request *req, const char *name);
/* RET gets what stands for the browser of REQ, "" if it has no token for NAME. */
void auth_device(const struct auth *a, const struct http_request *req, const char *name,
		 char ret[AUTH_DEVICE_SIZE]);
/* Ends the sign-in of WHO, or all of its user. The answer to REQ removes the cookie. */
int auth_sign_out(struct auth *a, struct http_request *req, const struct caller *who, bool all,
		  struct err *e) MUST_CHECK;
bool auth_is_required(const struct auth *a);

/* A token for the user U, whose LOGIN (store_check_fn) only the token's holder keeps. RET has
 * TOKEN_SIZE bytes. */
#define TOKEN_SIZE 1024
int auth_token(struct auth *a, const struct store_user *u, const uint8_t *login, char *ret,
	       struct err *e) MUST_CHECK;
