/* SPDX-License-Identifier: Apache-2.0 */
/* What init watches for the front, as the rest of init sees it: watch.c. */
#pragma once

#include "engine/protocol/proto.h"

struct init;
struct watch; /* of a folder: watch.h */
struct tree;

struct init_watches {
	struct watch *folders[PROTO_WATCHES_MAX]; /* NULL = free */
	struct tree *tree;                        /* NULL = no folder is watched */
};

int watch_handle(struct init *in,
		 const struct proto_init_watch *f); /* -1 = not a possible request */
int watch_fd(const struct init *in);        /* what is to be polled for them; -1 = nothing */
void watch_events(struct init *in);         /* it can be read */
uint64_t watch_next(const struct init *in); /* when watch_work() is due; 0 = not by time */
bool watch_pending(const struct init *in);  /* a slice of work is due */
void watch_work(struct init *in);
