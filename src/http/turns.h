/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: which of the connections that have something to do runs next. The payer whose connections have
 * used the least time of the loop lately goes first. So somebody who asks now and then does not wait for
 * users who keep the loop busy, and those get equal parts of it, however many connections each has.
 *
 * A payer is whoever a connection counts for: its user, and before that its network. Payers share a slot
 * if their hashes do: at worst two of them share their turns. The connections of one slot take turns in
 * the order in which they became ready. */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_PAYERS 256u

struct http_payer {
	struct list link;    /* of the turns, while somebody waits */
	struct list waiting; /* connections, by their ready_link */
	uint64_t used_ns;    /* lately: half of it is forgotten each second */
};

struct http_turns {
	struct list payers; /* with waiting connections */
	struct http_payer slots[HTTP_PAYERS];
	uint64_t aged_ns; /* when used_ns was halved last */
};

struct http_conn;

void turns_init(struct http_turns *t);
/* The slot of a payer's name. */
unsigned turns_slot(const char *who);
/* Adds C to those that wait, unless it is among them. Leaving is list_remove(&C->ready_link). */
void turns_add(struct http_turns *t, struct http_conn *c);
/* Takes the connection whose turn it is; NULL: nobody waits. */
struct http_conn *turns_next(struct http_turns *t);
bool turns_waiting(const struct http_turns *t);
/* The payer of SLOT has used NS of the loop. */
void turns_charge(struct http_turns *t, unsigned slot, uint64_t ns);
/* Forgets old use. To be called now and then. */
void turns_age(struct http_turns *t, uint64_t now);
