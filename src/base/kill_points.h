/* SPDX-License-Identifier: Apache-2.0 */
/* Points where a *test* build (meson setup -Dkill_points=true) can be killed or made to wait, one
 * at a time, so that a test sees what is left when a process ends exactly there. In every other
 * build KILL_POINT() is empty and the program has none of this; `make lint` checks that.
 *
 * The names are those of kill_points.tbl.h. The test gives the server a file (KILL_POINTS_VARIABLE)
 * that all its processes map. They inherit a descriptor, because most of them cannot see the path.
 * struct kill_control says which point is armed and which were passed. */
#pragma once

#ifdef CAISSON_KILL_POINTS
#include <stdint.h>

#define KILL_POINTS_VARIABLE "CAISSON_KILL_POINTS" /* path of the file, KILL_POINTS_BYTES long */
#define KILL_POINTS_FD       200                   /* in every process of the server except runs */
#define KILL_POINTS_BYTES    4096
#define KILL_POINTS_WAIT_MS  20000 /* then a process goes on, if the test has died */

enum kill_point {
	KILL_NONE,
#define K(name, who, what) KILL_##name,
#include "base/kill_points.tbl.h"
#undef K
	KILL_MAX_,
};

enum kill_act { KILL_ACT_DIE, KILL_ACT_WAIT };

/* Shared by all processes and the test; little-endian. */
struct kill_control {
	uint32_t armed;   /* enum kill_point */
	uint32_t act;     /* enum kill_act */
	uint32_t left;    /* how often it is passed first; 1 = stop at the next */
	uint32_t reached; /* 1 = the process is dead, or waits */
	uint32_t go;      /* 1 = the waiting process goes on */
	uint32_t passed[KILL_MAX_];
};
_Static_assert(sizeof(struct kill_control) <= KILL_POINTS_BYTES, "it fits");

/* Called by main(): maps the file that the environment names. */
void kill_points_open(void);
void kill_point_pass(enum kill_point p);
#define KILL_POINT(name) kill_point_pass(KILL_##name)
#else
#define KILL_POINT(name) ((void)0)
static inline void kill_points_open(void)
{
}
#endif
