/* SPDX-License-Identifier: Apache-2.0 */
/* One request on its way to a worker. Private to hop.c, hop_choose.c and hop_kept.c. */
#pragma once

#include "fleet/router/parts.h"

struct move_wait;

struct hop {
	struct relay relay;
	struct list node; /* of worker.hops; in no list before */
	const struct bound *bound;
	struct fleet_router *router;
	struct http_request *req; /* until the answer begins */
	struct caller *who;       /* reference; NULL: somebody with a link */
	struct worker *worker;    /* NULL: not chosen yet */
	struct link *link;        /* being made */
	enum place place;
	bool begun;  /* the relay has a connection */
	bool placed; /* it was for nobody in particular */
	bool reused; /* the connection */
	bool repeated;
	bool was_full;  /* a worker could have done it, but had no room */
	bool in_memory; /* the whole body is in BODY */
	struct buf body;
	struct budget_share share;   /* the memory of BODY */
	struct budget_share request; /* that it is under way */
	struct move_wait
	    *waiting; /* for its sandbox, which another worker gets; NULL = it does not */
	struct placing *placing; /* NULL: it makes no stored sandbox, as far as is known */
	char tried[FLEET_TRIES_MAX][FLEET_WORKER_SIZE];
	unsigned n_tried;
	char chosen[LINK_NAME_SIZE]; /* NAME, if a link has it */
	const char *
	    name; /* that the client has chosen, so its home gets it; NULL: none. Borrowed from REQ, or KEPT */
	char kept[FLEET_KEPT_SIZE]; /* name of a template or snapshot that workers are asked for */
	struct seek *seek;          /* that is under way */
	char unsure[8]; /* a worker that may have KEPT and says nothing; "" = nobody else has it */
};

/* Answers with an error; H is freed. */
void hop_refuse(struct hop *h, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
/* Sends H to a worker that place.h chooses. H may be freed. */
void hop_place(struct hop *h);
/* Sends H to WORKER, or refuses it while that is silent or lost. H may be freed. */
void hop_to_owner(struct hop *h, const char *worker);

/* ---- hop_kept.c ---- */

/* True: H is about a template or a snapshot, and goes to the worker that has it, or is refused. H may be freed. */
bool hop_by_kept(struct hop *h);

/* ---- hop_choose.c ---- */

/* What the client has named: a second worker would do it a second time. NULL: nothing. */
const char *hop_key_of(const struct hop *h);
/* The worker for what has none yet; NULL: there is none. */
struct worker *hop_choose(const struct hop *h);
