/* SPDX-License-Identifier: Apache-2.0 */
/* Artifact links: GET and HEAD /files/{session}/{name...}, and for the second family
 * /sandbox/file?sandbox_id=ID&file_path=PATH.
 *
 * A link is never dead: its base is a listener that is bound when the link is made. A taken port
 * means a free one, which the link then names. Where callers must authenticate, links carry a
 * signature that expires instead, because a browser sends no key. */
#pragma once

#include "base/err.h"
#include "http/http.h"
#include "sandbox/sandbox.h"

struct links;

#define LINKS_PORT_OFF (-1)

struct links_config {
	sd_event *loop;          /* borrowed */
	struct manager *manager; /* borrowed */
	/* Borrowed, or NULL: then a server is made at the first link. */
	struct http_server *http;
	const char *host;       /* of the listener for links; borrowed */
	int port;               /* 0 = any free one; LINKS_PORT_OFF = no links */
	const char *public_url; /* base of all links when not empty; borrowed */
	bool sign;              /* links carry a signature, and the handler wants it */
};

int links_new(const struct links_config *config, struct links **ret, struct err *e) MUST_CHECK;
struct links *links_free(struct links *l); /* NULL is fine; before the server's own end */

/* Registers the route on HTTP for listeners of SCOPES. */
int links_add_routes(struct links *l, struct http_server *http, unsigned scopes,
		     struct err *e) MUST_CHECK;
/* Binds the listener now instead of at the first link. */
int links_listen(struct links *l, struct err *e) MUST_CHECK;
/* "http://localhost:8080", or NULL when links are off or nothing can be bound. For tools_config. */
const char *links_base(void *links);
/* Where the main server is reached, for links of the second family, which belong to it. */
void links_set_main(struct links *l, const char *base);
/* That address, or else links_base(). */
const char *links_main_base(void *links);
/* What follows the path of a link to PATH in a sandbox: "" or "?e=...&s=...". RET has
 * LINKS_QUERY_SIZE bytes. For tools_config. */
#define LINKS_QUERY_SIZE 80
void links_query(void *links, const char *owner, const char *session, const char *path, char *ret);

/* Answers with the file FD (taken) as links do: type by its name, ranges, ETag, and nothing that a
 * sandbox wrote acts as a page of this server. */
void files_respond(struct http_request *req, int fd, const struct engine_file *info);
