/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox was made with, or is changed to: limits, environment, name, labels. REST, the tools and the
 * command line read the same members with the same function, so they refuse the same things with
 * the same words. sandbox_options.tbl.h is the table of the members.
 *
 * Values of `env` are secrets. They go to the sandbox and into the record of a stored sandbox, and
 * nowhere else: sandbox_options_json() shows names only, and no error text has a value. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "engine/engine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct manager;

#define SANDBOX_PULLED_IMAGE                                                                       \
	"pulled." /* begins the names of images that builds have downloaded: IMAGE_PULL_PREFIX */
#define SANDBOX_OWN_IMAGE       "t." /* begins the names of images that are one owner's */
#define SANDBOX_NAME_MAX        200  /* bytes */
#define SANDBOX_WORKDIR_MAX     512
#define SANDBOX_MB_MAX          (INT64_C(16) << 20) /* 16 TiB */
#define SANDBOX_LABELS_MAX      16
#define SANDBOX_LABEL_NAME_MAX  63 /* [A-Za-z0-9][A-Za-z0-9._/-]* */
#define SANDBOX_LABEL_VALUE_MAX 128
#define SANDBOX_ENV_MAX         64
#define SANDBOX_ENV_NAME_MAX    128 /* [A-Za-z_][A-Za-z0-9_]* */
#define SANDBOX_ENV_VALUE_MAX   16384
#define SANDBOX_ENV_BYTES_MAX                                                                      \
	49152 /* all names and values; a run takes RT_ENV_MAX, ours included */
/* Bytes of sandbox_options_text() without the environment, NUL included. */
#define SANDBOX_OPTIONS_TEXT_MAX 8192
/* Bytes of the text of the environment: JSON writes a control character as six. */
#define SANDBOX_ENV_TEXT_MAX (6 * SANDBOX_ENV_BYTES_MAX + 8 * SANDBOX_ENV_MAX)

enum sandbox_option {
#define O(NAME, member, TYPE, min, max, LATER, setting, doc) SANDBOX_OPTION_##NAME,
#include "sandbox/sandbox_options.tbl.h"
#undef O
	SANDBOX_OPTION_MAX_,
};

enum sandbox_option_type {
	SANDBOX_OPTION_TYPE_BOOL,
	SANDBOX_OPTION_TYPE_INT,
	SANDBOX_OPTION_TYPE_NUMBER,
	SANDBOX_OPTION_TYPE_TEXT,
	SANDBOX_OPTION_TYPE_PAIRS,
};

struct sandbox_option_row {
	const char *member;
	enum sandbox_option_type type;
	int64_t min, max;
	bool later;
	const char *setting;
	const char *doc;
};
extern const struct sandbox_option_row sandbox_option_rows[SANDBOX_OPTION_MAX_];

/* NAME=VALUE, in the order in which they were given. */
struct sandbox_pairs {
	char **list; /* owned; NULL after the last; NULL if there are none */
	size_t n;
};

struct sandbox_options {
	uint32_t given; /* bits 1 << enum sandbox_option */
	/* No member: its network may be changed as long as it lives, so it gets a way out, whatever it may reach at first. Not for a
	 * server that permits no network, and not in a record. */
	bool way_out;
	/* No member: the image was made for this owner, so the operator's list does not matter. */
	bool own_image;
	/* INT, BOOL: the value; NUMBER: in thousandths. Others are unused. */
	int64_t number[SANDBOX_OPTION_MAX_];
	char name[SANDBOX_NAME_MAX + 1];
	char image[ENGINE_NAME_MAX];
	char level[ENGINE_LEVEL_MAX + 1];
	char workdir[SANDBOX_WORKDIR_MAX + 1]; /* absolute */
	struct sandbox_pairs labels, env;
	/* Names that a change removes from labels and env, as NAME= lines. */
	struct sandbox_pairs gone_labels, gone_env;
};

static inline bool sandbox_option_given(const struct sandbox_options *o, enum sandbox_option x)
{
	return o->given >> x & 1;
}

/* Reads the members of OBJECT that are options, and no others. INVALID_ARGUMENT names the member.
 * CHANGE: for a sandbox that exists, so members that cannot be changed later are refused, and null removes
 * a label or a variable. RET is to be freed with sandbox_options_done() after success. */
int sandbox_options_read(const json_t *object, bool change, struct sandbox_options *ret,
			 struct err *e) MUST_CHECK;
/* Overwrites the environment before it frees it. */
void sandbox_options_done(struct sandbox_options *o);
int sandbox_options_copy(const struct sandbox_options *from,
			 struct sandbox_options *ret) MUST_CHECK;
/* Applies CHANGE to O. INVALID_ARGUMENT if there were too many labels or variables afterwards: then O
 * is as before. */
int sandbox_options_merge(struct sandbox_options *o, const struct sandbox_options *change,
			  struct err *e) MUST_CHECK;

/* What was given, as a new object for clients: `env` is an array of names. Without `public`: what holds is sandbox_is_public().
 * NULL without memory. */
json_t *sandbox_options_json(const struct sandbox_options *o);
/* For the record of a stored sandbox: TEXT has everything but name, image and environment, ENV the
 * environment with its values ("" = none). Both may be appended to. */
int sandbox_options_text(const struct sandbox_options *o, struct buf *text,
			 struct buf *env) MUST_CHECK;
/* The same back. Members that this version does not know or that are not valid any more are left out.
 * RET is to be freed with sandbox_options_done(). */
int sandbox_options_parse(const char *text, const char *env,
			  struct sandbox_options *ret) MUST_CHECK;

/* The names of the levels of isolation that can be had, as a new list. */
json_t *manager_level_names(const struct manager *m);
/* The images that may be asked for, as a new list of names; "*" stands for any. */
json_t *manager_image_names(const struct manager *m);
/* Whether clients may choose IMAGE. */
bool manager_permits_image(const struct manager *m, const char *image);
/* The most that may be asked for of each limit, by the members of options, as a new object. */
json_t *manager_option_maxima(const struct manager *m);
/* The level of a sandbox with the options O, which need not exist. Borrowed from M or O. */
const char *manager_level_name(const struct manager *m, const struct sandbox_options *o);
