/* SPDX-License-Identifier: Apache-2.0 */
/* The routing table: the rows of all tables that were added, and the search for the row that fits a
 * request. */
#pragma once

#include "http/http.h"

struct http_routes; /* NULL: no rows */

struct http_match {
	const struct http_route *row; /* NULL: see ALLOW */
	void *userdata;
	unsigned allow; /* methods of rows whose path fits; 0: 404 */
	bool pages;     /* one of them has HTTP_ROUTE_PAGES */
	unsigned n_params;
	struct {
		const char *name; /* not terminated: "session}/{name}" ends at its brace */
		size_t name_len;
		char *value;
	} params[HTTP_PARAMS_MAX];
};

/* -EINVAL: the pattern is malformed; -ENOMEM. *ROUTES is reallocated. */
int http_routes_add(struct http_routes **routes, const struct http_route *rows, size_t n,
		    unsigned scopes, void *userdata) MUST_CHECK;
struct http_routes *http_routes_free(struct http_routes *routes);

/* SEGS are decoded segments, one behind the other in memory as http_uri_segments() leaves them. For
 * a `{name...}` their NULs are replaced by '/' in place. Segments with slashes inside fit only there,
 * and only if the row has HTTP_ROUTE_CODED_SLASHES. */
void http_routes_match(const struct http_routes *routes, unsigned scopes, enum http_method method,
		       char *const *segs, unsigned n_segs, struct http_match *ret);
