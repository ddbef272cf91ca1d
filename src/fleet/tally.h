/* SPDX-License-Identifier: Apache-2.0 */
/* What users have at the workers of a fleet, so that a quota counts in the whole of it.
 *
 * A worker keeps what each user has there, and says it to routers:
 *   GET /fleet/uses?after=VERSION   {"v":1, "version":"16 hexadecimal digits", "forgotten":"likewise", "more":false,
 *                                    "uses":[["UUID, or empty for the local user", sandboxes, disk_bytes, day, cpu_us, minute, runs]]}
 * These are the users for whom something has changed after VERSION (missing: all), those of the oldest changes first. With "more" the
 * next page comes after the version of this one. GET /fleet/state has the newest version, so that a router asks only when something has
 * changed. Versions begin anew with each start of the worker, as its epoch does.
 *
 * Of users who have nothing any more the worker remembers FLEET_TALLY_MAX. "forgotten" is the newest version of those that it has
 * dropped since. A router whose version is older, and which knew users then, asks for all anew.
 *
 * A router adds up what the other workers say, and tells the sum with each request (fleet/identity.h). The worker judges: what it has
 * itself and what the others have must be below the quota. */
#pragma once

#include "base/attr.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLEET_TALLY_MAX      16384u /* users of one worker */
#define FLEET_TALLY_PAGE     256u   /* users of one answer */
#define FLEET_USE_MAX        (UINT64_C(1) << 53)
#define FLEET_USE_SANDBOXES  UINT64_C(1000000)
#define FLEET_VERSION_DIGITS 16u
#define FLEET_VERSION_BUFFER (FLEET_VERSION_DIGITS + 1)

/* All zero: nothing. */
struct fleet_use {
	uint64_t sandboxes, disk_bytes; /* stored sandboxes, and the limits of their workspaces */
	uint64_t day, cpu_us;  /* days since 1970 (UTC), and CPU time of runs on that day */
	uint64_t minute, runs; /* minutes since 1970, and runs that began in that one */
};

uint64_t fleet_use_day(uint64_t wall_ms);
uint64_t fleet_use_minute(uint64_t wall_ms);
/* SUM = SUM + MORE, and back. Of two days or minutes the later one counts alone. */
void fleet_use_add(struct fleet_use *sum, const struct fleet_use *more);
void fleet_use_subtract(struct fleet_use *sum, const struct fleet_use *less);

struct fleet_tally;

/* Of at most MAX users who have something. If T is full and FORGETS, the user of the oldest change counts as having nothing from then on,
 * which is a change like any other; one without sandboxes if there is any. NULL: no memory. */
struct fleet_tally *fleet_tally_new(size_t max, bool forgets);
struct fleet_tally *fleet_tally_free(struct fleet_tally *t); /* NULL is fine */
/* What OWNER has. */
struct fleet_use fleet_tally_get(const struct fleet_tally *t, const char *owner);
/* Replaces it, and counts a version unless it was the same. False: T is full, or there is no memory. */
bool fleet_tally_set(struct fleet_tally *t, const char *owner, const struct fleet_use *use);
/* Takes a user out, and copies who that was; false: there is none. */
bool fleet_tally_pop(struct fleet_tally *t, char ret_owner[37], struct fleet_use *ret);

/* ---- the answer ---- */

void fleet_tally_version(const struct fleet_tally *t, char ret[FLEET_VERSION_BUFFER]);
bool fleet_is_version(const char *text);
/* AFTER: of fleet_is_version(), or NULL. A new reference; NULL: no memory. */
json_t *fleet_tally_answer(const struct fleet_tally *t, const char *after);
/* One element of "uses". NOW_MS: wall clock; a day or minute that has not come yet counts nothing. False: it is none. */
bool fleet_use_read(const json_t *row, uint64_t now_ms, const char **ret_owner,
		    struct fleet_use *ret) MUST_CHECK;
