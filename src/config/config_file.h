/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: a strict reader of a subset of TOML 1.0.
 *
 * It reads comments, `[table]` and `[table.sub]`, and `key = value` with bare keys, which may have
 * dots. Values are "basic" and 'literal' strings on one line, integers, decimals, true and false.
 * Anything else (lists, inline tables, dates, quoted keys, long strings) is an error with its line
 * number, and so is a key that is unknown or given twice. In a config.toml of the second tool family
 * (classic_keys.h) an unknown key is a warning. */
#pragma once

#include "config/settings.h"

#define CONFIG_FILE_MAX (64u << 10) /* bytes */

/* Parses TEXT. Messages call it NAME. */
int config_file_parse(struct settings *s, const char *text, size_t len, const char *name,
		      struct err *e) MUST_CHECK;

/* Opens the file at PATH. SAFE: only if it belongs to the caller, is no link, and nobody else can
 * write it (-EPERM otherwise). A descriptor, or a negative errno. */
int config_file_open(const char *path, bool safe) MUST_CHECK;

/* Reads an open file. Messages call it PATH. */
int config_file_read_fd(struct settings *s, int fd, const char *path, struct err *e) MUST_CHECK;

/* Reads the file at PATH, which must exist. */
int config_file_read(struct settings *s, const char *path, struct err *e) MUST_CHECK;

/* Reads PATH if it belongs to the caller and nobody else can write it. 1: it was read. 0: there is
 * no such file, or it cannot be trusted, and then *RET_REFUSED is true. */
int config_file_read_if_safe(struct settings *s, const char *path, bool *ret_refused,
			     struct err *e) MUST_CHECK;
