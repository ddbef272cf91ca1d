/* SPDX-License-Identifier: Apache-2.0 */
/* Which route goes where. */
#include "fleet/router/parts.h"

#include "base/log.h"
#include "base/text.h"
#include "transport/cors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAGE_FILES "/assets/" /* names have digests, so they are in no table */
#define ANY        (HTTP_GET | HTTP_HEAD | HTTP_POST | HTTP_PUT | HTTP_DELETE | HTTP_PATCH | HTTP_OPTIONS)

static const struct {
	unsigned methods;
	const char *pattern;
	enum place place;
} table[] = {
#define R(methods, pattern, place) {methods, pattern, PLACE_##place},
#include "fleet/router/routes.tbl.h"
#undef R
};

#define E2B_PREFIX "/faces/e2b"

static const struct {
	unsigned methods;
	const char *pattern;
	enum place place;
} of_faces[] = {
#define E2B(methods, pattern, place) {methods, E2B_PREFIX pattern, PLACE_##place},
#include "fleet/router/faces.tbl.h"
#undef E2B
};

/* The answer of /readyz: is there a worker for what is new? */
static void respond_ready(struct fleet_router *f, struct http_request *req)
{
	unsigned usable = 0, all = 0;
	char text[64];

	list_for_each(node, &f->workers) {
		const struct worker *w = list_entry(node, struct worker, node);

		all += w->listed;
		usable += worker_is_usable(w);
	}
	(void)snprintf(text, sizeof(text), "%s: %u of %u workers\n",
		       usable > 0 ? "ready" : "not ready", usable, all);
	http_respond_text(req, usable > 0 ? 200 : 503, "text/plain", text);
}

static bool admit(struct http_request *req, void *user)
{
	const struct bound *b = user;

	return b->router->face->admit(req, b->face_row);
}

/* What needs no credential of ours has no caller, whatever credential it shows: the worker judges the token of the sandbox. */
static void on_face_request(struct http_request *req, const struct bound *b)
{
	const struct caller *who = b->place == PLACE_BOX ? NULL : auth_caller(req);
	char why[256];

	if (b->place == PLACE_LIST) {
		merge_begin(b, req, who);
		return;
	}
	if (b->place != PLACE_ABSENT) {
		hop_begin(b, req, who);
		return;
	}
	(void)snprintf(why, sizeof(why), "a fleet does not offer %s %s yet",
		       http_method_name(http_request_method(req)),
		       b->pattern + sizeof(E2B_PREFIX) - 1);
	hop_respond(b, req, ERR_INVALID_ARGUMENT, why);
}

static void on_request(struct http_request *req, void *user)
{
	struct bound *b = user;
	struct fleet_router *f = b->router;

	if (b->face_row) {
		on_face_request(req, b);
		return;
	}
	if (b->place == PLACE_READY) {
		respond_ready(f, req);
		return;
	}
	const bool is_link =
	    b->place == PLACE_LINK || b->place == PLACE_UPLOAD || b->place == PLACE_NAME;
	const struct caller *who = b->row.flags & HTTP_ROUTE_AUTH ? auth_caller(req)
				   : b->place == PLACE_UPLOAD     ? NULL
							      : auth_identify(f->config.auth, req);
	/* The judgement of passes may give the request another caller: hop_begin() needs this one. */
	struct caller *kept = who ? caller_ref(who) : NULL;
	if ((!who && !is_link) || (b->place == PLACE_NAME && !link_passes_hold(f, req, who)))
		auth_refuse(f->config.auth, req);
	else if (b->place == PLACE_ABSENT)
		http_respond_problem(req, ERR_NOT_IMPLEMENTED,
				     "a fleet does not have this yet: each worker has a part of it",
				     NULL);
	else if (b->place == PLACE_LIST)
		merge_begin(b, req, who);
	else if (b->place == PLACE_FEED)
		feed_begin(b, req, who);
	else
		hop_begin(b, req, who);
	caller_unref(kept);
}

static struct bound *bind_row(struct fleet_router *f, const struct http_route *row,
			      const char *pattern, enum place place)
{
	const unsigned flags = HTTP_ROUTE_STREAM_BODY | HTTP_ROUTE_CODED_BODY;
	struct bound *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->router = f;
	b->place = place;
	b->pattern = pattern;
	b->row = *row;
	b->row.handler = on_request;
	b->row.flags |= flags; /* workers judge bodies */
	list_append(&f->bounds, &b->node);
	return b;
}

void fleet_router_set_face(struct fleet_router *f, const struct fleet_face *face)
{
	if (f)
		f->face = face;
}

static const struct http_route *refuse_row(const struct http_route *row)
{
	LOG_ERROR("route_without_place", LOG_S("route", row->pattern));
	return NULL;
}

/* ROW has the prefix, or is of a name of the face. */
static const struct http_route *reroute_face(struct fleet_router *f, const struct http_route *row,
					     void **userdata)
{
	for (size_t i = 0; f->face && i < ARRAY_SIZE(of_faces); i++) {
		const char *pattern = of_faces[i].pattern;

		if ((!streq(pattern, row->pattern) &&
		     !streq(pattern + sizeof(E2B_PREFIX) - 1, row->pattern)) ||
		    (row->methods & ~of_faces[i].methods) != 0)
			continue;
		struct bound *b = bind_row(f, row, pattern, of_faces[i].place);
		if (!b)
			return NULL;
		b->face_row = *userdata;
		b->row.admit = admit;
		if (b->place == PLACE_BOX)
			b->row.flags &= ~(unsigned)HTTP_ROUTE_AUTH;
		*userdata = b;
		return &b->row;
	}
	return refuse_row(row);
}

const struct http_route *fleet_router_reroute(const struct http_route *row, void **userdata,
					      void *user)
{
	struct fleet_router *f = user;

	if (row->admit)
		return reroute_face(f, row, userdata);

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (!streq(table[i].pattern, row->pattern) ||
		    (row->methods & ~table[i].methods) != 0)
			continue;
		if (table[i].place == PLACE_HERE)
			return row;
		struct bound *b = bind_row(f, row, table[i].pattern, table[i].place);
		if (!b)
			return NULL;
		*userdata = b;
		return &b->row;
	}
	if (text_starts_with(row->pattern, PAGE_FILES))
		return row;
	return refuse_row(row);
}

/* The handlers of the others are never called: the rows pass fleet_router_reroute(). */
int fleet_router_add_routes(struct fleet_router *f, struct http_server *http, unsigned scopes)
{
	static const unsigned post = HTTP_ROUTE_AUTH | HTTP_ROUTE_STREAM_BODY;
	static const unsigned get = HTTP_GET | HTTP_HEAD;
	static const struct http_route rows[] = {
	    {HTTP_POST, "/mcp", on_request, post, UINT64_MAX},
	    {HTTP_GET, "/mcp", on_request, HTTP_ROUTE_AUTH, 0},
	    {HTTP_DELETE, "/mcp", on_request, HTTP_ROUTE_AUTH, 0},
	    {HTTP_OPTIONS, "/mcp", cors_options, 0, 0},
	    {HTTP_POST, "/mcp/", on_request, post, UINT64_MAX},
	    {HTTP_GET, "/mcp/", on_request, HTTP_ROUTE_AUTH, 0},
	    {HTTP_DELETE, "/mcp/", on_request, HTTP_ROUTE_AUTH, 0},
	    {HTTP_OPTIONS, "/mcp/", cors_options, 0, 0},
	    {HTTP_GET, "/sse", on_request, HTTP_ROUTE_AUTH | HTTP_ROUTE_QUERY_KEY, 0},
	    {HTTP_POST, "/messages", on_request, post | HTTP_ROUTE_QUERY_KEY, UINT64_MAX},
	    {HTTP_POST, "/messages/", on_request, post | HTTP_ROUTE_QUERY_KEY, UINT64_MAX},
	    {get, "/files/{session}/{name...}", on_request, HTTP_ROUTE_QUERY_KEY, 0},
	    {get, "/sandbox/file", on_request, HTTP_ROUTE_QUERY_KEY, 0},
	    {get, "/upload/{token}", on_request, 0, 0},
	    {HTTP_POST, "/upload/{token}", on_request, HTTP_ROUTE_STREAM_BODY, UINT64_MAX},
	    {HTTP_PUT, "/upload/{token}", on_request, HTTP_ROUTE_STREAM_BODY, UINT64_MAX},
	    {HTTP_PUT, "/upload/{token}/{name}", on_request, HTTP_ROUTE_STREAM_BODY, UINT64_MAX},
	};

	return http_server_add_routes(http, rows, ARRAY_SIZE(rows), scopes, f);
}
