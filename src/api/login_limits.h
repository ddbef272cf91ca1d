/* SPDX-License-Identifier: Apache-2.0 */
/* How fast passwords may be guessed. Wrong ones count against the name that they were tried for and,
 * where it is known, against the network that they came from. Whoever is over a limit is not refused:
 * the next check waits, longer each time up to a maximum, and a right password is right after that.
 * Only if too many wait already is one refused at once.
 *
 * A network from which a name logged in before has a count of its own for that name, so that guesses
 * from elsewhere do not delay the person whose name it is.
 *
 * Counts are in small tables of fixed size, by keyed hash: a flood makes strangers share a count at
 * worst. They are forgotten when the server ends. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

struct login_limits;

struct login_limits *login_limits_new(void); /* NULL: no memory */
struct login_limits *login_limits_free(struct login_limits *l);

/* Who tries: NETWORK as http_request_network() says, "" = not known. */
struct login_source {
	const char *network;
	const char *name; /* in any case */
};

/* How long the check of one password has to wait, in ns; negative: too many wait, try later. Time is
 * set aside for it, so call it once a try. */
int64_t login_limits_wait(struct login_limits *l, const struct login_source *who, uint64_t now);
/* Is it over a limit, so that a wrong password is answered with 429? */
bool login_limits_over(struct login_limits *l, const struct login_source *who, uint64_t now);
/* How it ended. */
void login_limits_note(struct login_limits *l, const struct login_source *who, bool right,
		       uint64_t now);
/* Did this name log in before, from this network where that is known? */
bool login_limits_knows(struct login_limits *l, const struct login_source *who);
