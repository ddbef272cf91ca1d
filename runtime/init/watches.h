/* SPDX-License-Identifier: Apache-2.0 */
/* What init watches for the front, as the rest of init sees it: watch.c. */
#pragma once

#include "engine/protocol/proto.h"

struct init;
struct watch; /* of a folder: watch.h */
struct tree;

#define WATCH_TREES 4 /* one for each place of files (file_places.h) */

struct init_watches {
	struct watch *folders[PROTO_WATCHES_MAX]; /* NULL = free */
	struct tree *trees[WATCH_TREES];          /* NULL = no folder of it is watched */
};

int watch_handle(struct init *in,
		 const struct proto_init_watch *f); /* -1 = not a possible request */
int watch_fd(const struct init *in,
	     size_t i); /* what is to be polled for the tree I; -1 = nothing */
void watch_events(struct init *in, size_t i); /* it can be read */
uint64_t watch_next(const struct init *in);   /* when watch_work() is due; 0 = not by time */
bool watch_pending(const struct init *in);    /* a slice of work is due */
void watch_work(struct init *in);
