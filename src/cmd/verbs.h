/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs. Help, suggestions for mistyped words, shell completion and the manual page are made
 * from it. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct verb_option {
	const char *name;  /* "--out", "-i" */
	const char *value; /* what follows it, such as "DIR"; NULL: nothing */
	const char *help;
};

struct verb {
	const char *name;
	int (*fn)(int argc, char **argv);
	const char *help;      /* NULL: not shown */
	const char *arguments; /* of its usage line, without settings; lines are separated by \n */
	/* The usage line of command I ("rm NAME"), or NULL after the last one; NULL: no commands. */
	const char *(*command)(size_t i);
	const struct verb_option *options; /* the last one has no name; NULL: none */
	bool heavy; /* makes sandboxes or images: limits of the shell may be too low for it */
	bool talks; /* its answer is not what it prints: a closed standard output is no failure */
};

extern const struct verb verbs[]; /* the last one has no name */

/* NULL: there is no such verb. */
const struct verb *verb_find(const char *name);
/* The usage lines of V. */
void verb_usage(FILE *f, const struct verb *v);
/* Calls FN for each option of V and of its commands. VALUE is NULL if nothing follows it. */
typedef void (*verb_word_fn)(const char *word, const char *value, const char *help, void *user);
void verb_each_option(const struct verb *v, verb_word_fn fn, void *user);
/* The text of `caisson VERB --help`. */
int verb_help(const struct verb *v);
/* manual.c: 0 or -EIO. */
int manual_write(FILE *f);
