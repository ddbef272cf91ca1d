/* SPDX-License-Identifier: Apache-2.0 */
/* What the files auth*.c share. */
#pragma once

#include "api/auth/auth.h"
#include "api/auth/jwt.h"
#include "fleet/identity.h"

struct auth {
	struct auth_config config;
	struct list live; /* callers whose credential can end, all that anybody holds */
	sd_event_source *watch;
	uint64_t epoch; /* of the store's credentials, when the live ones were judged last */
	bool watching;
	uint8_t token_key[JWT_KEY_BYTES];
	char
	    static_digest[STORE_KEY_SIZE]; /* of the server's key, as sign-ins name it; "" = none */
	struct err failed;                 /* of the last look-up; ERR_NONE: it worked */
};

/* One reference; NULL with a->failed set: no memory. It has all rights until caller_take_*() narrows them. */
struct caller *caller_new(struct auth *a, enum caller_how how);
void caller_take_user(struct caller *w, const struct store_user *u);
void caller_take_key(struct caller *w, const struct store_key *k);
/* From now on W is judged again when credentials may have ended. */
void auth_watch(struct auth *a, struct caller *w);
bool caller_has_rights_of(const struct caller *w, const struct caller *other);
/* auth_router.c: the caller that a router names in REQ, or NULL with a->failed set. */
struct caller *auth_by_router(struct auth *a, const struct http_request *req);
void caller_take_identity(struct caller *w, const struct fleet_identity *id);
enum fleet_how caller_fleet_how(const struct caller *w);
/* Does the credential of W still have its rights? 1, 0, or negative if the store fails. */
int auth_judge(const struct auth *a, const struct caller *w);
/* auth_browser.c: the caller that the cookie of REQ stands for, or NULL; with a->failed FORBIDDEN if the cookie is good
 * but another site sent the request. */
struct caller *auth_by_cookie(struct auth *a, const struct http_request *req);
