/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the Dockerfile parser share. */
#pragma once

#include "image/dockerfile.h"

enum dockerfile_trait {
	EXPANDS = 1,
	EXEC = 2,
	JSON = 4,
	WHOLE = 8,
	HERE = 16,
	PAIRS = 32,
	DROPPED = 64,
};

struct dockerfile_row {
	const char *word;
	unsigned least, most, traits;
	const char *form;
};
extern const struct dockerfile_row dockerfile_rows[DOCKERFILE_KINDS_];

/* "Dockerfile:12: ...". What it quotes may be anything: control characters become '?'. */
int dockerfile_fail(const struct dockerfile *d, unsigned line, struct err *e, const char *fmt, ...)
    PRINTF(4, 5);

/* Variables: those of ARG and ENV that hold at a line. */
struct dockerfile_vars {
	struct {
		char *name, *value; /* owned */
		bool env;           /* of ENV, which ARG does not change */
	} v[DOCKERFILE_VARS_MAX];
	size_t n;
};
/* -E2BIG: too many. */
int dockerfile_vars_set(struct dockerfile_vars *v, const char *name, const char *value,
			bool env) MUST_CHECK;
const char *dockerfile_vars_get(const struct dockerfile_vars *v,
				const char *name); /* NULL: not set */
void dockerfile_vars_clear(struct dockerfile_vars *v);

/* Around the name of a variable that the image may set. No Dockerfile that is read for a sandbox has these bytes. */
#define DOCKERFILE_OPEN '\x01'
#define DOCKERFILE_SHUT '\x02'

struct dockerfile_lexer {
	const struct dockerfile *d; /* for messages, and its escape */
	const struct dockerfile_vars *vars;
	unsigned line;
	uint64_t expanded; /* bytes so far */
	bool keeps;        /* what is not set becomes DOCKERFILE_OPEN NAME DOCKERFILE_SHUT */
	char unknown[DOCKERFILE_NAME_MAX +
		     1]; /* a variable that was read and never set; "" = none */
};

/* Appends the word S without its quotes and with its variables replaced. */
int dockerfile_expand(struct dockerfile_lexer *l, const char *s, struct buf *out,
		      struct err *e) MUST_CHECK;
/* The same for the lines of a here-document, where quotes mean nothing. */
int dockerfile_expand_here(struct dockerfile_lexer *l, const char *s, struct buf *out,
			   struct err *e) MUST_CHECK;
/* Words between blanks; with QUOTES, blanks inside quotes do not count. The words keep their quotes. */
int dockerfile_split(const char *s, char escape, bool quotes, struct image_words *ret) MUST_CHECK;
bool dockerfile_is_name(const char *s,
			size_t len); /* [A-Za-z_][A-Za-z0-9_]*, at most DOCKERFILE_NAME_MAX */

/* Judges the steps of D, replaces variables, and fills in stages, images and addresses. */
int dockerfile_check(struct dockerfile *d, const struct dockerfile_options *o,
		     struct err *e) MUST_CHECK;
/* The rules of one step's flags and operands: dockerfile_rules.c. */
int dockerfile_check_flags(const struct dockerfile *d, const struct dockerfile_step *s,
			   struct err *e) MUST_CHECK;
int dockerfile_check_sources(struct dockerfile *d, const struct dockerfile_step *s,
			     const struct dockerfile_options *o, const char *unknown,
			     struct err *e) MUST_CHECK;
/* The value of the flag NAME ("from"), or NULL. */
const char *dockerfile_flag(const struct dockerfile_step *s, const char *name);
/* The number of an earlier stage, before BEFORE, of that name; -1: none. */
int dockerfile_find_stage(const struct dockerfile *d, size_t before, const char *name);
/* The stage that --target names: its number, or -1. NULL: the last. */
int dockerfile_target(const struct dockerfile *d, const char *target);
/* The script of RUN with here-documents. */
int dockerfile_run_script(const struct dockerfile_step *s, struct buf *b) MUST_CHECK;
/* Whether the builder gets the flag, which was checked. */
bool dockerfile_flag_is_printed(const struct dockerfile_step *s, const char *flag);
