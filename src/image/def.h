/* SPDX-License-Identifier: Apache-2.0 */
/* Image definitions: NAME.conf, a file of `key = value` lines.
 *
 *   # a whole line after '#' is a comment
 *   suite    = forky
 *   packages = python3 python3-numpy
 *   packages = python3-pandas            (keys with lists add up)
 *
 * def.c has a table of the keys. Everything is checked against a narrow grammar, because the words
 * become arguments of a program that runs as root: no word can start with '-' or be an apt pattern.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define IMAGE_NAME_MAX       63
#define IMAGE_DEF_FILE_MAX   (256u << 10) /* bytes of a definition */
#define IMAGE_DEF_WORD_MAX   200          /* bytes of one word of a list */
#define IMAGE_DEF_VALUE_MAX  200          /* bytes of a plain value */
#define IMAGE_DEF_SCRIPT_MAX (1u << 20)   /* bytes of a script beside it */
#define IMAGE_DEF_PACKAGES   500
#define IMAGE_DEF_INDEX      200
#define IMAGE_DEF_EXCLUDES   300
#define IMAGE_DEF_PRELOADS   200
#define IMAGE_DEF_COMPONENTS 8

struct image_words {
	char **v; /* owned, each owned */
	size_t n;
};

struct image_def {
	char name[IMAGE_NAME_MAX + 1];
	char description[IMAGE_DEF_VALUE_MAX + 1];
	char suite[IMAGE_DEF_VALUE_MAX + 1];
	char variant[IMAGE_DEF_VALUE_MAX + 1];
	char hook[IMAGE_DEF_VALUE_MAX + 1];   /* file beside the definition; "" = none */
	char wheels[IMAGE_DEF_VALUE_MAX + 1]; /* list of wheels beside the definition; "" = none */
	struct image_words components;
	struct image_words packages;
	struct image_words index;    /* packages of the package index, without a hash */
	struct image_words excludes; /* globs of paths that are never unpacked */
	struct image_words preloads; /* modules that the warm interpreter imports */
	char digest[65]; /* hex; of the definition and its scripts; "" if parsed from memory */
	char *folder;    /* owned: the folder of the definition; NULL if parsed from memory */
};

/* Parses TEXT. On failure *RET is as image_def_done() leaves it, and the message names the line. */
int image_def_parse(const char *name, const char *text, size_t len, struct image_def *ret,
		    struct err *e) MUST_CHECK;
/* Reads FOLDER/NAME.conf. */
int image_def_load(const char *folder, const char *name, struct image_def *ret,
		   struct err *e) MUST_CHECK;
/* What somebody adds to a definition on the command line; NULL = nothing. */
struct image_def_more {
	const char *name;    /* of the new image */
	const char *index;   /* words: packages of the package index */
	const char *debian;  /* words: Debian packages */
	const char *preload; /* words: modules that the warm interpreter imports as well */
};
/* Makes D, which was loaded, the definition of another image that has MORE. */
int image_def_extend(struct image_def *d, const struct image_def_more *more,
		     struct err *e) MUST_CHECK;
/* Fills in the digest. image_def_load() does that, too. */
int image_def_digest(const char *folder, struct image_def *d) MUST_CHECK;
/* Adds the lists of packages to the digest, for a definition that was extended. */
int image_def_digest_words(struct image_def *d) MUST_CHECK;
void image_def_done(struct image_def *d);

/* Grammars that other files need, too. */
bool image_is_module(const char *s, size_t len); /* a.b.c */
bool image_is_text(const char *s, size_t len);   /* UTF-8 without control characters */

void image_words_done(struct image_words *w);
int image_words_add(struct image_words *w, const char *word, size_t len) MUST_CHECK; /* -ENOMEM */
/* All words with SEP between them; owned; NULL: no memory. */
char *image_words_join(const struct image_words *w, char sep);
