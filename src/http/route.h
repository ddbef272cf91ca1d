/* SPDX-License-Identifier: Apache-2.0 */
/* The routing table: rows of all tables that were added, and the search for the one that fits. */
#pragma once

#include "http/http.h"

struct http_routes; /* zero rows: NULL */

struct http_match {
	const struct http_route *row; /* NULL: see ALLOW */
	void *userdata;
	unsigned allow; /* methods of rows whose path fits; 0: 404 */
	unsigned n_params;
	struct {
		const char *name; /* with a length: "session}/{name}" goes up to its brace */
		size_t name_len;
		char *value;
	} params[HTTP_PARAMS_MAX];
};

/* -EINVAL: a pattern that is none; -ENOMEM. *ROUTES grows. */
int http_routes_add(struct http_routes **routes, const struct http_route *rows, size_t n,
		    unsigned scopes, void *userdata) MUST_CHECK;
struct http_routes *http_routes_free(struct http_routes *routes);

/* SEGS are decoded segments that lie one behind the other in memory, as http_uri_segments() leaves
 * them; a `{name...}` joins its ones with '/' in place. */
void http_routes_match(const struct http_routes *routes, unsigned scopes, enum http_method method,
		       char *const *segs, unsigned n_segs, struct http_match *ret);
