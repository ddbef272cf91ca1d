/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the page: `/` and the files that it loads, from the program itself.
 *
 * Everything about the page that must not be forgotten is in its headers: no script, style or connection
 * of another host or inside the document, no frame around it, no sniffing of types, no referrer. All state is
 * fetched over /api/v1, so the files are the same for everybody and need no credential. */
#pragma once

#include "http/http.h"

struct site;

/* Adds the routes for listeners of SCOPES. Free *RET after http_server_free(). */
int site_new(struct http_server *http, unsigned scopes, struct site **ret,
	     struct err *e) MUST_CHECK;
/* S may be NULL. Returns NULL. */
struct site *site_free(struct site *s);

/* What `/` answers if the page was left out of this build: how to connect clients. BASE:
 * "http://127.0.0.1:8181". Call it before the first request. */
int site_set_address(struct site *s, const char *base, const char *profile, bool needs_key,
		     struct err *e) MUST_CHECK;
