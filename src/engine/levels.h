/* SPDX-License-Identifier: Apache-2.0 */
/* Levels of isolation by name.
 *
 * The operator names levels and says which runtime of the container daemon makes the sandboxes of each
 * (SANDBOX_LEVELS). A client chooses a level by its name and never names a program, unless the operator
 * has given a level the name of one. The native engine has one level, `standard`. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_LEVELS_MAX   8
#define ENGINE_LEVEL_MAX    32         /* bytes of a name: [a-z][a-z0-9-]* */
#define ENGINE_RUNTIME_SIZE 64         /* bytes of a runtime's name with its NUL: [A-Za-z0-9._-]+ */
#define ENGINE_LEVEL_NAME   "standard" /* of the one level that there is without a setting */

struct engine_level {
	char name[ENGINE_LEVEL_MAX + 1];
	char runtime[ENGINE_RUNTIME_SIZE]; /* "" = the daemon's default, or the native engine */
};

struct engine_levels {
	unsigned n;        /* at least 1 */
	unsigned usual;    /* the one that sandboxes have if nobody chooses */
	uint32_t possible; /* bits 1 << index: those that the engine can make here. All, until the
			    * engine has looked */
	struct engine_level at[ENGINE_LEVELS_MAX];
};

/* Reads `NAME[=RUNTIME],...` from TEXT ("" = `standard`) and the name of the usual level from USUAL ("" =
 * the first). A level without a runtime gets RUNTIME ("" = the daemon's default). SETTING_INVALID names
 * the setting that is wrong. */
int engine_levels_read(const char *text, const char *usual, const char *runtime,
		       struct engine_levels *ret, struct err *e) MUST_CHECK;
/* The index of the level NAME; "" = the usual one. INVALID_ARGUMENT, with the member `level`: there is
 * no such level. LEVEL_UNAVAILABLE: the engine cannot make it here. Both name the levels that there are. */
int engine_levels_find(const struct engine_levels *l, const char *name, unsigned *ret,
		       struct err *e) MUST_CHECK;
