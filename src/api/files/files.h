/* SPDX-License-Identifier: Apache-2.0 */
/* Artifact links: GET and HEAD /files/{session}/{name...}, and for the second family
 * /sandbox/file?sandbox_id=ID&file_path=PATH.
 *
 * A link works from the moment when it is made, because its listener is bound then. If the port is
 * taken, a free port is used and the link names that one. If callers must authenticate, links carry
 * a signature, because a browser sends no key. A client that does send the owner's key needs none. */
#pragma once

#include "api/auth/auth.h"
#include "base/err.h"
#include "http/http.h"
#include "sandbox/sandbox.h"

struct links;
struct fleet_member;

#define LINKS_PORT_OFF (-1)

struct links_config {
	sd_event *loop;          /* borrowed */
	struct manager *manager; /* borrowed */
	/* Borrowed. If it is NULL, the first link creates a server. */
	struct http_server *http;
	const char *host;       /* host of the listener for links; borrowed */
	int port;               /* 0 = any free one; LINKS_PORT_OFF = no links */
	const char *public_url; /* if not empty, the base of all links; borrowed */
	bool sign;              /* all links carry a signature; requests need it or a key. Else only
				 * links of users do, not those of the local user */
	struct store *store;    /* borrowed; NULL: no users, and links end with this process */
	uint64_t life_s;        /* of links to sandboxes that are not stored */
	uint64_t stored_life_s; /* of links to stored sandboxes; 0 = as long as the file is there */
	uint64_t max_bytes;     /* larger files are refused at /files/; UINT64_MAX = any size */
	uint64_t upload_max_bytes; /* of a file that comes by an upload link (upload_links.h) */
	uint64_t upload_life_s;    /* of an upload link */
	struct budgets *budgets;   /* borrowed */
	/* Of a worker of a fleet: signatures and tokens name it, so that a router can tell where a link leads. Borrowed; NULL: of none. */
	const struct fleet_member *fleet;
};

int links_new(const struct links_config *config, struct links **ret, struct err *e) MUST_CHECK;
/* OWNER was removed: its upload links end, unless a file is arriving. */
void links_forget(struct links *l, const char *owner);
struct links *links_free(struct links *l); /* L may be NULL; call it before the server is freed */

/* Adds the routes to HTTP for listeners of SCOPES. */
int links_add_routes(struct links *l, struct http_server *http, unsigned scopes,
		     struct err *e) MUST_CHECK;
/* From now on a request with a key or a token may have the files of its caller without a signature.
 * AUTH is borrowed. */
void links_set_auth(struct links *l, struct auth *auth);
/* Binds the listener now instead of at the first link. */
int links_listen(struct links *l, struct err *e) MUST_CHECK;
/* Links are served where links_add_routes() has put them and nowhere else: no listener is bound, now or later. BASE: of URLs, if
 * there is no public one. */
void links_stay(struct links *l, const char *base);
/* Returns "http://localhost:8080"; NULL if links are off or no port can be bound. For tools_config.
 */
const char *links_base(void *links);
/* Sets the base URL of the main server. Links of the second family use it. */
void links_set_main(struct links *l, const char *base);
/* Returns that URL, or else links_base(). */
const char *links_main_base(void *links);
/* When links to files of a sandbox end, for links_query(). False: they need no signature. Asks the store.
 * For tools_config. */
bool links_expire(void *links, const char *owner, const char *session, uint64_t *ret);
/* Writes what follows the path of a link to PATH in a sandbox, "?e=...&s=...". RET has LINKS_QUERY_SIZE
 * bytes. Any thread may call it. For tools_config. */
#define LINKS_QUERY_SIZE 80
void links_query(const void *links, uint64_t expires, const char *owner, const char *session,
		 const char *path, char *ret);

/* Writes a link to RET (SIZE bytes) by which a person puts one file into S; upload_links.h says what
 * the arguments are. BASE: where the person finds the server; NULL: links_base(). FORBIDDEN if this server serves no links. For tools_config. */
int links_upload(void *links, const void *caller, const char *base, const struct sandbox *s,
		 const char *path, bool overwrite, char *ret, size_t size,
		 struct err *e) MUST_CHECK;

/* Answers with the file FD of OWNER, which it closes: type by the file's name, ranges, ETag. Headers keep
 * content that a sandbox wrote from acting as a page of this server. */
void files_respond(struct http_request *req, int fd, const struct engine_file *info,
		   const char *owner);
/* Those headers, for an answer of TYPE whose bytes a sandbox wrote. Nothing for types that cannot act. */
void files_add_policy(struct http_request *req, const char *type);
