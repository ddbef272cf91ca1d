/* SPDX-License-Identifier: Apache-2.0 */
/* Points where a *test* build (meson setup -Dkill_points=true) can be killed or made to wait, one
 * at a time, so that a test sees what is left when a process ends exactly there. In every other
 * build KILL_POINT() is nothing and nothing of this is in the program: `make lint` looks.
 *
 * The names are those of kill_points.tbl.h. The test gives the server a file (KILL_POINTS_VARIABLE)
 * which all its processes map, by a descriptor that is handed down, because most of them cannot see
 * the file: struct kill_control says what is armed, and what was passed. */
#pragma once

#ifdef CAISSON_KILL_POINTS
#include <stdint.h>

#define KILL_POINTS_VARIABLE "CAISSON_KILL_POINTS" /* path of the file, KILL_POINTS_BYTES long */
#define KILL_POINTS_FD       200                   /* in every process of the server but runs */
#define KILL_POINTS_BYTES    4096
#define KILL_POINTS_WAIT_MS  20000 /* a test that has died holds nobody for longer */

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
	uint32_t left;    /* passings until then; 1 = the next */
	uint32_t reached; /* 1 = it is dead, or waits */
	uint32_t go;      /* 1 = who waits goes on */
	uint32_t passed[KILL_MAX_];
};
_Static_assert(sizeof(struct kill_control) <= KILL_POINTS_BYTES, "it fits");

/* In main(): takes the file of the environment. */
void kill_points_open(void);
void kill_point_pass(enum kill_point p);
#define KILL_POINT(name) kill_point_pass(KILL_##name)
#else
#define KILL_POINT(name) ((void)0)
static inline void kill_points_open(void)
{
}
#endif
