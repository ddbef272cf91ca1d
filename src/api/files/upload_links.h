/* SPDX-License-Identifier: Apache-2.0 */
/* Links by which a person puts one file into a sandbox: GET, POST and PUT /upload/{token}.
 *
 * A browser that opens the link gets a form without scripts. `curl -T FILE LINK/` works as well: with
 * the slash curl adds the name of the file. A link is for one file: it ends when that file is complete. If an upload fails or is broken off, the
 * link can be used again until it expires.
 *
 * The token of 256 random bits is the only credential. A link may do what the caller who made it may
 * do at the moment when it is used: if the key was revoked or the user is gone, the link is gone. Links
 * live in memory and end with the server. */
#pragma once

#include "api/auth/auth.h"
#include "http/http.h"
#include "sandbox/sandbox.h"

#define UPLOAD_LINK_PATH_SIZE 96 /* "/upload/", the token and NUL */

struct upload_links;
struct fleet_member;

struct upload_links_config {
	struct manager *manager; /* borrowed */
	struct budgets *budgets; /* borrowed: how many links there may be */
	uint64_t max_bytes;      /* of one file */
	uint64_t life_ns;        /* of a link */
	const struct fleet_member
	    *fleet; /* whose tokens name it; borrowed; NULL: this server is of no fleet */
};

struct upload_links *upload_links_new(const struct upload_links_config *config);
struct upload_links *upload_links_free(struct upload_links *l); /* NULL is accepted */
int upload_links_add_routes(struct upload_links *l, struct http_server *http,
			    unsigned scopes) MUST_CHECK;

/* Ends the links of OWNER that nobody uses. */
void upload_links_forget(struct upload_links *l, const char *owner);

/* Makes a link to S. CALLER is a struct caller, or NULL: the local user, who has no credential. PATH
 * is in the engine's form; "": the person's file keeps its name. RET has UPLOAD_LINK_PATH_SIZE bytes. */
int upload_links_make(struct upload_links *l, const void *caller, const struct sandbox *s,
		      const char *path, bool overwrite, char *ret, struct err *e) MUST_CHECK;
