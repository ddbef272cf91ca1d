/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sandboxes that move between workers (docs/decisions/0055-moving-sandboxes.md): the router's part. It has workers save what rests
 * (moves_look.c), gives what a lost worker had to another one when somebody asks for it (moves_load.c), and deletes objects that no row
 * names (moves_rows.c). Rows are in the database of the routers, which is read and written on threads.
 *
 * Private to src/fleet/router. All of it is for the loop, but the `fn` of a struct job. */
#pragma once

#include "fleet/router/parts.h"
#include "objects/sign.h"
#include "snapshot/snapshot.h"
#include "store/store_moves.h"

#include <pthread.h>

#define MOVES_OF_WORKER 2u    /* orders under way at one worker */
#define MOVES_WANTS     1024u /* known of one worker to be saved */
#define MOVES_WAITERS   1000u
#define MOVES_WAIT_NS   (25 * NS_PER_S)         /* that a request waits for its sandbox */
#define MOVES_RETRY_NS  (30 * NS_PER_S)         /* after a failure */
#define MOVES_STUCK_NS  (120 * NS_PER_S)        /* an order without progress */
#define MOVES_SECONDS   (OBJECTS_CLOCK_S + 60u) /* that an address is good */
#define MOVES_BUCKETS   4096u
#define MOVES_RECENT    1024u /* sandboxes that are not saved for a while, after a failure */

/* A sandbox whose id does not name the worker that has it. */
struct moved {
	struct list node; /* of moves.table */
	char id[65];
	char worker[FLEET_WORKER_SIZE]; /* "" = none, or it is on its way */
};

struct move;
struct load;

/* Something for a thread. FN has the job alone, with M's config and rows; DONE is called on the loop, and frees it. CLOSED: the
 * router has ended. */
struct job {
	struct moves *m;
	void (*fn)(struct job *j);
	void (*done)(struct job *j, bool closed);
	struct err e;
	int r;
};

#define MOVE_WANTS 64u /* addresses that are made at once */

/* An order under way. A job has it alone but for M. */
struct move {
	struct list node; /* of moves.moves */
	struct moves *m;  /* NULL: over; only a job holds it */
	bool save;
	char worker[FLEET_WORKER_SIZE];
	char order[17]; /* as the worker calls it; "" = it has not begun */
	struct store_snapshot row;
	uint64_t change;   /* of a save */
	struct load *load; /* of a load; NULL: nobody waits any more */
	struct fetch *fetch;
	uint64_t progress_ns;
	uint64_t bytes;     /* of a save: what it will have, as the worker says or as was signed */
	uint64_t put_bytes; /* for which addresses were made */
	struct job job;
	bool works; /* JOB is on its way */
	void (*next)(struct move *x);
	unsigned n_wants;
	struct snapshot_place wants[MOVE_WANTS];
	struct store_objects *keeps; /* owned; of a save that is done */
	size_t n_keeps;
};

enum move_outcome { MOVE_DONE, MOVE_FAILED, MOVE_PUT_OFF, MOVE_OUTCOMES };

/* What waits at a worker. */
struct want {
	struct list node; /* of moves_worker.wants */
	struct store_moving row;
};

struct moves_worker {        /* of a worker that moves sandboxes; worker.moves */
	struct list node;    /* of moves.workers */
	struct moves *moves; /* NULL: over; only a job holds it */
	struct worker *worker;
	char said[17], seen[17];      /* versions of its list */
	char start[FLEET_EPOCH_SIZE]; /* of the worker, when all was read last */
	bool all;                     /* the list that is being read is whole */
	bool
	    compares; /* what it has is compared with the rows: no order is given before that has ended */
	bool lost;         /* it was silent for long: all is read again */
	uint64_t again_ns; /* when it is read again in any case */
	struct fetch *look;
	uint64_t after;
	uint64_t version; /* of the rows, when the list was asked for */
	json_t *told;     /* of a whole list, so far: rows */
	struct list wants;
	unsigned n_wants, n_moves, n_jobs;
	char last_owner[STORE_OWNER_SIZE];
};

struct recent { /* not before UNTIL */
	char incarnation[STORE_INCARNATION_SIZE];
	char worker
	    [FLEET_WORKER_SIZE]; /* others that have it are not held up by what this one says */
	uint64_t until_ns;
};

struct moves {
	struct fleet_router *router; /* NULL: closed */
	struct fleet_moves_config config;
	unsigned n_jobs;
	pthread_mutex_t lock; /* of the next one */
	struct store *store;  /* opened by the first job */
	uint8_t secret[32];   /* of the keys */
	struct list table[MOVES_BUCKETS], workers, moves, loads, tellings;
	uint64_t version; /* of the rows that were read */
	bool reads, cleans;
	uint64_t clean_ns;
	sd_event_source *fast; /* while orders are under way */
	unsigned n_waiters;
	struct recent recent[MOVES_RECENT];
	unsigned last_recent;
	uint64_t outcomes[2][MOVE_OUTCOMES]; /* of loads, and of saves */
	uint64_t deleted;                    /* objects */
};

/* ---- moves.c: called by the rest of the router ---- */

int moves_begin(struct fleet_router *f, struct err *e) MUST_CHECK;
void moves_done(struct fleet_router *f);
void moves_tick(struct fleet_router *f);
/* W has told its state; VERSION of what is stored there, NULL: it moves nothing. */
void moves_heard(struct worker *w, const char *version);
/* W is being freed. */
void moves_worker_gone(struct worker *w);
void moves_forget_owner(struct fleet_router *f, const char *owner);
int moves_metrics(const struct fleet_router *f, struct buf *b) MUST_CHECK;
/* Does another worker have the sandbox ID than its id says? "": none has it now. */
bool moves_where(const struct fleet_router *f, const char *id, char ret[FLEET_WORKER_SIZE]);

/* Takes a row as it is now. False: no memory. */
bool moves_note_row(struct moves *m, const struct store_snapshot *row) MUST_CHECK;
void moves_release(struct moves *m);

/* ---- moves_load.c ---- */

struct move_wait;
/* WORKER has it; or NULL, and CODE and WHY. */
typedef void (*move_fn)(const char *worker, enum err_code code, const char *why, void *user);
/* The worker of the stored sandbox ID is lost: another one gets it. FN is called once, later. NULL: nothing moves here, or too many wait. */
struct move_wait *moves_want(struct fleet_router *f, const struct caller *who, const char *id,
			     move_fn fn, void *user);
/* FN is not called any more. NULL is fine. */
void moves_unwant(struct move_wait *w);
void loads_tick(struct moves *m);
void loads_done(struct moves *m);
/* The order of L is over. R: < 0 with E. */
void load_ended(struct load *l, int r, const struct err *e);

/* ---- moves_look.c ---- */

void looks_of_moves(struct moves *m);
void moves_worker_free(struct moves_worker *w);

/* ---- moves_request.c ---- */

/* Only routers can make it: that EPOCH of the sandbox was given to WORKER. */
void moves_proof(const struct moves *m, const char *incarnation, uint32_t epoch, const char *worker,
		 char ret[STORE_PROOF_SIZE]);

/* Takes BODY. NULL: there is no such worker, or no memory. */
struct fetch *moves_request(struct moves *m, const char *worker, const char *method,
			    const char *path, json_t *body, fetch_fn fn, void *user);

/* ---- moves_order.c: one order at a worker ---- */

/* Saves what W wants. */
void move_save(struct moves_worker *w, const struct store_moving *row);
/* Gives the snapshot of ROW, which was taken for WORKER, to it. 0 or -errno. */
int move_load(struct moves *m, const struct store_snapshot *row, const char *worker,
	      struct load *load) MUST_CHECK;
void moves_step(struct moves *m);
void move_drop(struct move *x);
/* Not before MOVES_RETRY_NS is the sandbox saved again. */
void moves_note_recent(struct moves *m, const char *incarnation, const char *worker);
bool moves_is_recent(const struct moves *m, const char *incarnation, const char *worker);
/* A POST without an answer that matters. */
void moves_tell(struct moves *m, const char *worker, const char *path, json_t *body);
void moves_tell_none(struct moves *m); /* the router ends */

/* ---- moves_rows.c: jobs ---- */

/* Runs J on a thread. < 0: DONE is not called. */
int moves_run(struct moves *m, struct job *j) MUST_CHECK;
/* For FN: the rows, until moves_store_end(). NULL: J->e says why. */
struct store *moves_store_begin(struct job *j);
void moves_store_end(struct job *j);
void moves_read_rows(struct moves *m);
void moves_clean(struct moves *m);
/* Appends the signed address of an object. */
int moves_sign(const struct moves *m, const char *method, const char *incarnation, uint32_t epoch,
	       uint32_t generation, uint32_t index, uint64_t length, struct buf *ret,
	       struct err *e) MUST_CHECK;
