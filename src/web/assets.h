/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the page, as web/embed.py writes them into the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Once in the program: by gzip, unless that would save nothing. */
struct web_file {
	const unsigned char *data;
	size_t len;
	size_t plain_len; /* without gzip; equal to LEN: it is not packed */
};

struct web_asset {
	const char *path; /* "/", "/assets/app-3f9a1c02.js" */
	const char *type;
	const char *digest; /* of the content */
	bool immutable;     /* its name has a hash of its content */
	struct web_file file;
};

extern const struct web_asset web_assets[]; /* after the last one comes a row without a path */
extern const size_t web_n_assets;           /* 0: the page was left out of this build */
extern const char web_left_out[];           /* why; "" if it was not */

extern const struct web_file web_results; /* web/results_view.h; without data if it was left out */

/* The bytes of FILE, plain_len of them and a zero; owned. At most a few milliseconds for a megabyte. NULL: no memory. */
char *web_unpack(const struct web_file *file);
