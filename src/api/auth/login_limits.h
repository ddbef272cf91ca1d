/* SPDX-License-Identifier: Apache-2.0 */
/* Limits how fast passwords can be guessed. A wrong password counts against its user name and, if the
 * client's network is known, against that network. A login over a limit is not refused: its check
 * waits, longer each time up to a maximum, and a right password is then accepted. If too many checks wait
 * already, a login is refused at once, unless it is the first one for its name from its network for some
 * time: wrong passwords from other networks lock out nobody.
 *
 * A network from which a name logged in before has a separate count for that name. So guesses from
 * elsewhere do not delay the owner of the name. A browser in which the name logged in before has a count
 * and a place of its own (auth_device()): so do not those from its own network, whatever name they try.
 *
 * Counts are in small tables of fixed size, indexed by a keyed hash: at worst a flood makes strangers
 * share a count. They are lost when the server ends. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

struct login_limits;

struct login_limits *login_limits_new(void); /* NULL: no memory */
struct login_limits *login_limits_free(struct login_limits *l);

/* Where a login comes from. NETWORK is from http_request_network(); "" = not known. */
struct login_source {
	const char *network;
	const char *name;   /* in any case */
	const char *device; /* the browser, if NAME logged in there before; else "" */
};

/* Returns how many ns the check of one password must wait; negative: too many wait, try later. It
 * reserves the time, so call it once for each login. */
int64_t login_limits_wait(struct login_limits *l, const struct login_source *who, uint64_t now);
/* True if the source is over a limit, so that a wrong password is answered with 429. */
bool login_limits_over(struct login_limits *l, const struct login_source *who, uint64_t now);
/* Notes whether the password was right. */
void login_limits_note(struct login_limits *l, const struct login_source *who, bool right,
		       uint64_t now);
/* Who asks, for turns in the queue of checks: the network of a login of a strange name, the name of a known
 * one, the browser of one that has a token. */
uint64_t login_limits_from(const struct login_limits *l, const struct login_source *who,
			   bool known);
/* True if this name logged in before; if the network is known, from this network; or in this browser. */
bool login_limits_knows(struct login_limits *l, const struct login_source *who);
