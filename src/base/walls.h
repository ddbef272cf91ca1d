/* SPDX-License-Identifier: Apache-2.0 */
/* Walls that a *test* build can leave out, one by one (meson setup -Dremovable_walls=true). It shows
 * that an attack succeeds without the wall that it is about. In every other build wall_stands() is
 * true at compile time and the program has none of this; `make lint` checks that.
 *
 * The table is walls.tbl.h; cases of tests/suites/hostile use its names in `without`. A process is
 * told by its environment, which is otherwise empty in the monitor and in init. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum wall {
#define W(NAME, name, what) WALL_##NAME,
#include "base/walls.tbl.h"
#undef W
};

#ifdef CAISSON_REMOVABLE_WALLS
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WALLS_VARIABLE "CAISSON_WITHOUT_WALLS=" /* names separated by commas */

/* The variable, for the environment of a child; NULL when no wall is to be left out. */
static inline char *walls_variable(void)
{
	for (char **v = environ; v && *v; v++)
		if (strncmp(*v, WALLS_VARIABLE, strlen(WALLS_VARIABLE)) == 0)
			return *v;
	return NULL;
}

static inline bool wall_stands(enum wall wall)
{
	static const char *const names[] = {
#define W(NAME, name, what) [WALL_##NAME] = name,
#include "base/walls.tbl.h"
#undef W
	};
	const char *name = names[wall];
	const char *variable = walls_variable();
	const char *at = variable ? variable + strlen(WALLS_VARIABLE) : "";

	while (*at != '\0') {
		size_t len = strcspn(at, ",");

		if (len == strlen(name) && strncmp(at, name, len) == 0)
			return false;
		at += len + (at[len] == ',');
	}
	return true;
}
#else
static inline char *walls_variable(void)
{
	return NULL;
}

static inline bool wall_stands(enum wall wall)
{
	(void)wall;
	return true;
}
#endif
