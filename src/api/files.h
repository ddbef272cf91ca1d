/* SPDX-License-Identifier: Apache-2.0 */
/* Artifact links: GET and HEAD /files/{session}/{name...}, and for the second family
 * /sandbox/file?sandbox_id=ID&file_path=PATH.
 *
 * A link works from the moment when it is made, because its listener is bound then. If the port is
 * taken, a free port is used and the link names that one. If callers must authenticate, links carry
 * a signature that expires, because a browser sends no key. */
#pragma once

#include "base/err.h"
#include "http/http.h"
#include "sandbox/sandbox.h"

struct links;

#define LINKS_PORT_OFF (-1)

struct links_config {
	sd_event *loop;          /* borrowed */
	struct manager *manager; /* borrowed */
	/* Borrowed. If it is NULL, the first link creates a server. */
	struct http_server *http;
	const char *host;       /* host of the listener for links; borrowed */
	int port;               /* 0 = any free one; LINKS_PORT_OFF = no links */
	const char *public_url; /* if not empty, the base of all links; borrowed */
	bool sign;              /* links carry a signature, and requests need it */
};

int links_new(const struct links_config *config, struct links **ret, struct err *e) MUST_CHECK;
struct links *links_free(struct links *l); /* L may be NULL; call it before the server is freed */

/* Adds the routes to HTTP for listeners of SCOPES. */
int links_add_routes(struct links *l, struct http_server *http, unsigned scopes,
		     struct err *e) MUST_CHECK;
/* Binds the listener now instead of at the first link. */
int links_listen(struct links *l, struct err *e) MUST_CHECK;
/* Returns "http://localhost:8080"; NULL if links are off or no port can be bound. For tools_config.
 */
const char *links_base(void *links);
/* Sets the base URL of the main server. Links of the second family use it. */
void links_set_main(struct links *l, const char *base);
/* Returns that URL, or else links_base(). */
const char *links_main_base(void *links);
/* Writes what follows the path of a link to PATH in a sandbox: "" or "?e=...&s=...". RET has
 * LINKS_QUERY_SIZE bytes. For tools_config. */
#define LINKS_QUERY_SIZE 80
void links_query(void *links, const char *owner, const char *session, const char *path, char *ret);

/* Answers with the file FD, which it closes: type by the file's name, ranges, ETag. Headers keep
 * content that a sandbox wrote from acting as a page of this server. */
void files_respond(struct http_request *req, int fd, const struct engine_file *info);
