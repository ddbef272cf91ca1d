/* SPDX-License-Identifier: Apache-2.0 */
/* Dockerfiles, as the Dockerfile reference describes them: read, checked, and printed again for the builder with one line for each
 * step. All of it works on memory alone, except for names of hosts in ADD, which the caller judges.
 *
 * A Dockerfile may come from a stranger, so everything in it has a limit. Errors are ERR_INVALID_ARGUMENT and begin with the
 * name of the file and the number of the line. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/def.h"
#include "image/ignore.h"

#include <stdbool.h>
#include <stddef.h>

#define DOCKERFILE_BYTES_MAX (1u << 20) /* of the file */
#define DOCKERFILE_STEP_MAX                                                                        \
	(64u << 10) /* bytes of one instruction, its lines joined, without here-documents */
#define DOCKERFILE_STEPS_MAX    1000
#define DOCKERFILE_STAGES_MAX   64
#define DOCKERFILE_FLAGS_MAX    32 /* of one instruction */
#define DOCKERFILE_HERE_MAX     16 /* here-documents of one instruction */
#define DOCKERFILE_VARS_MAX     512
#define DOCKERFILE_NAME_MAX     128         /* bytes of the name of a variable or stage */
#define DOCKERFILE_DEPTH_MAX    8           /* ${a:-${b:-...}} */
#define DOCKERFILE_VALUE_MAX    (32u << 10) /* bytes of one word, its variables replaced */
#define DOCKERFILE_EXPANDED_MAX (4u << 20)  /* bytes of all of them */
#define DOCKERFILE_GLOBAL       UINT_MAX    /* the stage of what stands before the first FROM */
#define DOCKERFILE_HERE_FOLDER                                                                     \
	".caisson-here" /* in the build context: the here-documents of COPY and ADD */

enum dockerfile_kind {
#define I(name, least, most, traits, form) DOCKERFILE_##name,
#include "image/dockerfile.tbl.h"
#undef I
	DOCKERFILE_KINDS_,
};

struct dockerfile_here {
	char *name; /* owned: the word that ends it */
	char *text; /* owned: its lines, each with its newline */
	bool expands;
};

struct dockerfile_step {
	enum dockerfile_kind kind;
	unsigned line;  /* where it begins, from 1 */
	unsigned stage; /* from 0, or DOCKERFILE_GLOBAL */
	bool exec;      /* its operands are a list in JSON */
	struct image_words flags;
	char *text;               /* owned: what follows the flags, its lines joined */
	struct image_words words; /* the operands, without quotes and with variables replaced */
	struct dockerfile_here here[DOCKERFILE_HERE_MAX];
	size_t n_here;
};

struct dockerfile_stage {
	char *base; /* owned: an image, "scratch", or an earlier stage */
	char *name; /* owned; NULL = none */
};

struct dockerfile {
	char name[65]; /* of the file, for messages */
	char escape;   /* '\\' or '`' */
	bool in_sandbox;
	struct dockerfile_step *steps; /* owned */
	size_t n;
	struct dockerfile_stage stages[DOCKERFILE_STAGES_MAX];
	size_t n_stages;
	struct image_words images; /* which a registry must give, each once */
	struct image_words remote; /* addresses of ADD */
	struct image_words unused; /* names of build arguments that no ARG takes */
};

struct dockerfile_options {
	const char *name;               /* of the file, for messages */
	const struct image_words *args; /* NAME=VALUE for ARG; NULL = none */
	const char *target;             /* the stage to build; NULL = the last */
	bool no_network;                /* of steps: ADD of an address is refused */
	bool allow_inside;              /* ADD may name addresses of this machine (inside.h) */
	bool
	    in_sandbox; /* for dockerfile_plan_make(): variables that only the image sets are left to its shell */
};

/* What an instruction is called. */
const char *dockerfile_word(enum dockerfile_kind kind);

/* On failure *RET is as dockerfile_done() leaves it. */
int dockerfile_parse(const char *text, size_t len, const struct dockerfile_options *o,
		     struct dockerfile *ret, struct err *e) MUST_CHECK;
void dockerfile_done(struct dockerfile *d);

/* Whether the builder gets step I. */
bool dockerfile_is_printed(const struct dockerfile *d, size_t i);
/* The file for the builder. It knows no here-documents: those of RUN become arguments of the shell, those of COPY and ADD files
 * (dockerfile_here_path()). */
int dockerfile_print(const struct dockerfile *d, struct buf *out) MUST_CHECK;
/* Where the here-document HERE of step I is, inside the build context. */
void dockerfile_here_path(const struct dockerfile *d, size_t i, size_t here, char *ret,
			  size_t size);

/* ---- a build in sandboxes (dockerfile_script.c) ---- */

#define DOCKERFILE_RUNS_MAX   (2 * DOCKERFILE_STAGES_MAX)
#define DOCKERFILE_SCRIPT_MAX (8u << 20) /* bytes of all scripts */

/* One sandbox of a build: what is done in it, from an image on. It leaves files for later ones, or is the result. */
struct dockerfile_run {
	char *base;   /* owned: the image that it begins with; "scratch" is refused */
	int stage;    /* the last one that is done in it; -1 = none: its files are copied from */
	bool context; /* it copies from the build context */
	bool leaves;  /* later ones copy from it */
	char *script; /* owned: for /bin/sh, as root */
	unsigned from[DOCKERFILE_RUNS_MAX]; /* the runs whose files it needs */
	size_t n_from;
};

struct dockerfile_plan {
	struct dockerfile_run *runs; /* owned; in their order. The last one is the result */
	size_t n;
};

/* Where the files of a build are in the workspace of its sandbox. A script removes what it has read, and writes the archive
 * of what it leaves as the archive of its own number. */
#define DOCKERFILE_CONTEXT_TAR ".caisson-context.tar"
#define DOCKERFILE_FROM_TAR    ".caisson-from-%u.tar"

/* D was parsed with `in_sandbox`. Stages that the target does not need are left out; one that others begin with is done again for each.
 * IGNORE: of the build context; may be empty. */
int dockerfile_plan_make(const struct dockerfile *d, const char *target,
			 const struct ignore *ignore, struct dockerfile_plan *ret,
			 struct err *e) MUST_CHECK;
void dockerfile_plan_done(struct dockerfile_plan *p);
