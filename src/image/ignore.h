/* SPDX-License-Identifier: Apache-2.0 */
/* .dockerignore: which files of a build context the build does not get. The rules are Docker's: lines in order, the last that
 * matches a path or one of its folders counts; `!` takes back; `*` and `?` stay within a name, `**` is any number of folders. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IGNORE_BYTES_MAX (256u << 10) /* of the file */
#define IGNORE_RULES_MAX 1000
#define IGNORE_RULE_MAX  1024                 /* bytes of a line */
#define IGNORE_WORK_MAX  UINT64_C(2000000000) /* comparisons of all paths: a few seconds */

struct ignore_rule {
	char *text; /* owned: without '!' and slashes at its ends */
	bool back;  /* '!' */
};

struct ignore {
	struct ignore_rule *rules; /* owned */
	size_t n;
	bool back; /* some rule begins with '!' */
	uint64_t work;
};

/* NAME: of the file, for messages. On failure *RET is empty. */
int ignore_parse(const char *name, const char *text, size_t len, struct ignore *ret,
		 struct err *e) MUST_CHECK;
void ignore_done(struct ignore *g);
/* PATH: "a/b", without "." and "..". 1: left out; 0: not; -E2BIG: the rules and the paths need more than IGNORE_WORK_MAX. */
int ignore_match(struct ignore *g, const char *path) MUST_CHECK;
/* The same rules as a program for awk, which reads paths, one a line, and prints those that are left out. -ENOTSUP: a class with a
 * backslash or a slash in it, which awk cannot be told in every version. */
int ignore_print_awk(const struct ignore *g, struct buf *out) MUST_CHECK;
