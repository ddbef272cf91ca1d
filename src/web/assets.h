/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the page, as web/embed.py writes them into the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum web_form { WEB_PLAIN, WEB_GZIP, WEB_BROTLI, WEB_FORMS };

struct web_asset {
	const char *path; /* "/", "/assets/app-3f9a1c02.js" */
	const char *type;
	const char *digest; /* of the content */
	bool immutable;     /* its name has a hash of its content */
	struct {
		const unsigned char *data; /* NULL: this form would save nothing */
		size_t len;
	} forms[WEB_FORMS]; /* by enum web_form */
};

extern const struct web_asset web_assets[]; /* after the last one comes a row without a path */
extern const size_t web_n_assets;           /* 0: the page was left out of this build */
extern const char web_left_out[];           /* why; "" if it was not */

/* The page that shows results of tools inside MCP clients (MCP Apps). It is no file of the site: clients
 * read it as a resource. NULL if it was left out. */
extern const unsigned char *const web_results_view;
extern const size_t web_results_view_len;
