/* SPDX-License-Identifier: Apache-2.0 */
/* What init watches for the front, as the rest of init sees it: watch.c, and watch_ports.c for ports. */
#pragma once

#include "engine/protocol/proto.h"

struct init;
struct watch; /* of a folder: watch.h */
struct tree;

#define WATCH_TREES 4 /* one for each place of files (file_places.h) */

struct port_watch {
	uint32_t number; /* the front's; 0 = this place is free */
	bool asked;      /* the front waits for an answer */
	uint32_t told;   /* the version of the list that it was told last */
};

struct init_port_watches {
	struct port_watch all[PROTO_WATCHES_MAX];
	uint64_t
	    due; /* when the ports are looked at; 0 = nothing has happened since the last time */
	uint64_t next;    /* not before */
	uint32_t version; /* of the list below: counts its changes */
	bool more;        /* there are others */
	uint32_t n;
	struct proto_port ports[PROTO_PORTS_MAX];
};

struct init_watches {
	struct init_port_watches ports;
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

/* port.c */
/* The ports that are listened on, smallest first, and their number. *RET_MORE: there are more than PROTO_PORTS_MAX. */
uint32_t ports_read(const struct init *in, struct proto_port ret[PROTO_PORTS_MAX], bool *ret_more);

/* watch_ports.c */
int watch_ports_begin(struct init *in, uint32_t number); /* 0, and it is answered; or -EAGAIN */
struct port_watch *watch_ports_find(struct init *in, uint32_t number); /* NULL = there is none */
void watch_ports_work(struct init *in); /* call in every turn of the loop, after everything else */
