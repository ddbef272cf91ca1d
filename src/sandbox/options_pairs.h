/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about options share; for this folder only. */
#pragma once

#include "sandbox/sandbox_options.h"

/* Sets NAME to VALUE: replaces the line of that name, or appends one. -ENOMEM. */
int pairs_set(struct sandbox_pairs *p, const char *name, const char *value) MUST_CHECK;
void pairs_remove(struct sandbox_pairs *p, const char *name);
/* Appends a copy of LINE, unless it is there. The oldest go while there are more than MAX lines or BYTES. */
int pairs_keep(struct sandbox_pairs *p, const char *line, size_t max, size_t bytes) MUST_CHECK;
/* Overwrites every line before it is freed. */
void pairs_done(struct sandbox_pairs *p);
int pairs_copy(const struct sandbox_pairs *from, struct sandbox_pairs *ret) MUST_CHECK;
size_t pairs_bytes(const struct sandbox_pairs *p); /* with a NUL after each line */
/* Adds each name of P to OBJECT; the value is a text. */
int pairs_add_json(const struct sandbox_pairs *p, json_t *object) MUST_CHECK;
/* An array of the names. */
json_t *pairs_names(const struct sandbox_pairs *p);

/* options_read.c: reads one member. -ENOMEM or INVALID_ARGUMENT. */
int sandbox_option_read(enum sandbox_option x, json_t *v, bool change, struct sandbox_options *o,
			struct err *e) MUST_CHECK;
/* INVALID_ARGUMENT if there are too many variables, or too many bytes of them. */
int sandbox_options_check_env(const struct sandbox_pairs *env, struct err *e) MUST_CHECK;
