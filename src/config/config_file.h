/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: a strict reader of a subset of TOML 1.0.
 *
 * Read are: comments, `[table]` and `[table.sub]`, `key = value` with bare (also dotted) keys, and
 * as values "basic" and 'literal' strings on one line, integers, decimals, true and false. All else
 * (lists, inline tables, dates, quoted keys, long strings) is refused with its line number, and so
 * is a key that is unknown or given twice. The keys of the second family's config.toml that mean
 * nothing here are known and skipped. */
#pragma once

#include "config/settings.h"

#define CONFIG_FILE_MAX (64u << 10) /* bytes */

/* Parses TEXT; NAME is what messages call it. */
int config_file_parse(struct settings *s, const char *text, size_t len, const char *name,
		      struct err *e) MUST_CHECK;

/* Reads the file at PATH, which must exist. */
int config_file_read(struct settings *s, const char *path, struct err *e) MUST_CHECK;

/* Reads PATH if it exists, belongs to the caller and only the caller can write it. 1 when it was
 * read, 0 when there is none; when it is there and not to be trusted, 0 and *RET_REFUSED = true. */
int config_file_read_if_safe(struct settings *s, const char *path, bool *ret_refused,
			     struct err *e) MUST_CHECK;
