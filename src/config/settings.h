/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: defaults < file < environment < flags. The table is settings.tbl.h.
 *
 * A wrong value stops the start: settings_*() fails with ERR_SETTING_INVALID and one line that names
 * where the value came from, the value, and what is allowed. Each value remembers its source: the
 * server refuses to start if a limit that was set explicitly cannot be enforced, but not if a default
 * cannot. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/suggest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The form of each type of value. Blanks around a value are ignored, except in texts. */
enum setting_type {
	SETTING_STR,    /* text */
	SETTING_PATH,   /* text without NUL */
	SETTING_INT,    /* optional sign, digits */
	SETTING_SIZE,   /* docker's sizes: 512m, 1.5g, 1048576 */
	SETTING_MILLI,  /* decimal with up to three digits after the point, kept in thousandths */
	SETTING_BOOL,   /* on/off, true/false, yes/no, 1/0 */
	SETTING_PORT,   /* 0-65535, or `off` = SETTING_PORT_OFF */
	SETTING_ADDR,   /* HOST:PORT or [V6]:PORT */
	SETTING_CHOICE, /* one of the words of the row, exactly */
	SETTING_SECRET, /* text that is never shown */
};

#define SETTING_PORT_OFF (-1)

enum setting_source {
	SETTING_FROM_DEFAULT,
	SETTING_FROM_FILE,
	SETTING_FROM_ENV,
	SETTING_FROM_FLAG,
};

enum setting_id {
#define S(type, field, needs, key, env, def, min, max, allowed, doc) SETTING_ID_##field,
#include "config/settings.tbl.h"
#undef S
	SETTING_ID_MAX_,
};

#define SETTING_C_STR    char *
#define SETTING_C_PATH   char *
#define SETTING_C_INT    int64_t
#define SETTING_C_SIZE   uint64_t
#define SETTING_C_MILLI  uint64_t
#define SETTING_C_BOOL   bool
#define SETTING_C_PORT   int
#define SETTING_C_ADDR   char *
#define SETTING_C_CHOICE char *
#define SETTING_C_SECRET char *

struct settings { /* texts are owned and never NULL after settings_init() */
#define S(type, field, needs, key, env, def, min, max, allowed, doc) SETTING_C_##type field;
#include "config/settings.tbl.h"
#undef S
	enum setting_source source[SETTING_ID_MAX_];
	struct buf warnings; /* of settings_warn(), one line each */
	char *file;          /* the file that was read; owned; NULL: none */
	bool file_named;     /* by --config, and not found in the working folder */
};

/* Which sandboxes a setting is about, where a maker of sandboxes must enforce it. */
enum setting_of {
	SETTING_OF_NONE = 0, /* nothing that a maker must enforce */
	SETTING_OF_SESSION = 1 << 0,
	SETTING_OF_STORED = 1 << 1,
	SETTING_OF_SERVER = 1 << 2,
};

enum setting_cap { /* enum engine_cap, for the table */
#define C(name, bit, native, docker, needs) SETTING_CAP_##name = 1 << (bit),
#include "engine/protocol/caps.tbl.h"
#undef C
};

struct setting_needs {
	unsigned of;  /* enum setting_of bits */
	uint32_t cap; /* one bit of enum setting_cap; 0: SETTING_OF_NONE */
	const char
	    *value; /* SETTING_OF_SERVER: the value that needs it; "" = any but the default */
};

struct setting_row {
	const char *field;
	const char *key; /* in the file */
	const char *env;
	const char *def;
	const char *allowed;
	const char *doc;
	int64_t min;
	int64_t max;
	size_t offset;
	enum setting_type type;
	struct setting_needs needs;
};

extern const struct setting_row setting_rows[SETTING_ID_MAX_];

/* Fills in the defaults. -ENOMEM. */
int settings_init(struct settings *s) MUST_CHECK;
void settings_done(struct settings *s); /* cleanup: _cleanup_(settings_done) */

/* Takes the settings from ENVIRONMENT. Names may be in upper or lower case; the upper-case name takes
 * precedence. An empty value counts as none, unless the setting may be empty and its default is not. */
int settings_read_env(struct settings *s, char *const *environment, struct err *e) MUST_CHECK;
/* The limits of ENVIRONMENT that are empty, as the first tool family read them: no limit. */
int settings_read_empty_limits(struct settings *s, char *const *environment,
			       struct err *e) MUST_CHECK;

/* Looks for variables that begin with SANDBOX_ and are no setting: somebody mistyped one and believes
 * that it holds. REFUSE: the first one is an error. Otherwise each is a warning. */
int settings_check_env(struct settings *s, char *const *environment, bool refuse,
		       struct err *e) MUST_CHECK;

/* Removes every `--name VALUE` and `--name=VALUE` that is a setting from ARGV, from index 1 up to
 * `--`, and adjusts *ARGC. The rest is for the verb. */
int settings_read_flags(struct settings *s, int *argc, char **argv, struct err *e) MUST_CHECK;

/* Sets one value from its text. WHERE names it in a refusal ("SANDBOX_IMAGE", "--image",
 * "config.toml:3: session.image"). A value from a lower source never replaces one from a higher
 * source. */
int settings_set(struct settings *s, enum setting_id id, const char *text,
		 enum setting_source source, const char *where, struct err *e) MUST_CHECK;

/* Remembers one line for the person who starts the program; whoever read the settings prints it. */
void settings_warn(struct settings *s, const char *fmt, ...) PRINTF(2, 3);

#define SETTING_FLAG_SIZE 64
/* "--memory-limit" */
void settings_flag(enum setting_id id, char ret[SETTING_FLAG_SIZE]);
/* Offers the flags of all settings. */
void settings_suggest_flag(struct suggest *near);

bool settings_is_explicit(const struct settings *s, enum setting_id id);

/* Row with this KEY of the file, or SETTING_ID_MAX_. */
enum setting_id settings_find_key(const char *key, size_t len);

/* The value as a user would write it; secrets are "(set)" or "". Cut to SIZE. */
void settings_format(const struct settings *s, enum setting_id id, char *ret, size_t size);
const char *setting_source_name(enum setting_source source);

/* docs/configuration.md; a test compares it with the file. */
int settings_write_markdown(FILE *out) MUST_CHECK;
