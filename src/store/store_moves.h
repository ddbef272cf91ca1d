/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of stored sandboxes that move between workers (docs/decisions/0055-moving-sandboxes.md): what a worker knows of its own, and what
 * routers know of all. Both wait for the database; a worker calls its part from the loop, as other rows of its SQLite file, and a router
 * calls its part from a helper thread with a store of its own.
 *
 * incarnation  32 hexadecimal digits, made with the row of a sandbox. Ids may come again, incarnations do not.
 * epoch        0 where it was made; one more each time when routers give the sandbox to a worker.
 * generation   of an order to save it, within an epoch, from 1. */
#pragma once

#include "store/store.h"

#define STORE_INCARNATION_SIZE 33u
#define STORE_WORKER_SIZE      4u  /* short id of a worker */
#define STORE_HASH_TEXT_SIZE   65u /* 32 bytes in hexadecimal */
#define STORE_OBJECTS_BYTES                                                                        \
	2056u                /* a bit for each object of a generation: blocks, and the manifest */
#define STORE_PROOF_SIZE 33u /* 16 bytes in hexadecimal */
#define STORE_EPOCH_MAX  (UINT32_C(1) << 31)

/* ---- at a worker ---- */

struct store_moving {
	char incarnation[STORE_INCARNATION_SIZE];
	char id[65];
	char owner[STORE_OWNER_SIZE];
	uint32_t epoch;
	uint64_t change; /* grows whenever it gets processes */
	uint64_t saved;  /* the change that is in the object store; 0: none */
	bool removed;    /* a tombstone: routers are still to hear that its owner has removed it */
	uint64_t disk_bytes;
	char proof
	    [STORE_PROOF_SIZE]; /* that a router has given this epoch to this worker; "": it has none */
};
typedef bool (*store_moving_fn)(const struct store_moving *m, void *user);

/* By its incarnation, also a tombstone. 1, 0: there is none, or negative. */
int store_moving_find(struct store *s, const char *incarnation, struct store_moving *ret,
		      struct err *e) MUST_CHECK;
/* The sandbox ID gets processes: what is saved is old from now on. Survives the end of the server, and does not wait for the disk. */
int store_moving_opened(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* A router has confirmed that CHANGE is saved. Nothing happens if the epoch is another one. */
int store_moving_saved(struct store *s, const char *incarnation, uint32_t epoch, uint64_t change,
		       struct err *e) MUST_CHECK;
/* What a router has given with EPOCH, so that it can be believed later. */
int store_moving_prove(struct store *s, const char *incarnation, uint32_t epoch, const char *proof,
		       struct err *e) MUST_CHECK;
/* A router has heard of the tombstone. */
int store_moving_forget(struct store *s, const char *incarnation, struct err *e) MUST_CHECK;
/* BOOT names the run of this machine's kernel; "" = not known. If it is another one than at the last call, power may have been lost, and
 * with it the last calls of store_moving_opened(): then nothing counts as saved. */
int store_moving_boot(struct store *s, const char *boot, struct err *e) MUST_CHECK;
/* MAX rows after *AFTER (0 at first), which becomes the place of the last one. UNSAVED: only tombstones, and those of which something is
 * not saved. FN returns false to end it. */
int store_moving_each(struct store *s, bool unsaved, uint64_t *after, unsigned max,
		      store_moving_fn fn, void *user, struct err *e) MUST_CHECK;
/* A sandbox has come from another worker: adds B as store_sandbox_add() does, with that incarnation and epoch, as saved. */
int store_moving_add(struct store *s, struct store_sandbox *b, const char *env,
		     const char *incarnation, uint32_t epoch, const struct store_room *room,
		     struct err *e) MUST_CHECK;
/* Another worker has the sandbox ID now: removes it without a tombstone. 1 or 0. */
int store_moving_leave(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* QUOTA_EXCEEDED if store_sandbox_add() would say so now. */
int store_sandbox_check(struct store *s, const struct store_sandbox *b,
			const struct store_room *room, struct err *e) MUST_CHECK;

/* ---- at routers ---- */

struct store_snapshot {
	char incarnation[STORE_INCARNATION_SIZE];
	char id[65];
	char owner[STORE_OWNER_SIZE];
	char worker[STORE_WORKER_SIZE];       /* "": none has it */
	bool loading;                         /* that worker is getting it */
	uint32_t epoch, generation;           /* the newest that were given away */
	uint32_t snap_epoch, snap_generation; /* of what is saved; generation 0: nothing is */
	char hash[STORE_HASH_TEXT_SIZE];      /* of its manifest */
	uint64_t disk_bytes;                  /* the most that its disk may be */
	uint64_t bytes;                       /* of its objects that are needed */
	uint64_t saved_ms, removed_ms;        /* since 1970; 0: never */
	uint64_t version; /* of this row: of two changes in the database the later one has more */
};
typedef bool (*store_snapshot_fn)(const struct store_snapshot *x, void *user);

/* A generation, and the objects of it that a manifest names: bit I of byte I / 8 for object I. */
struct store_objects {
	uint32_t epoch, generation;
	uint8_t bits[STORE_OBJECTS_BYTES];
};

/* 1, 0: there is none, or negative. FIND: of an id, if it was not removed. */
int store_snapshot_get(struct store *s, const char *incarnation, struct store_snapshot *ret,
		       struct err *e) MUST_CHECK;
int store_snapshot_find(struct store *s, const char *id, struct store_snapshot *ret,
			struct err *e) MUST_CHECK;
/* MAX rows that changed after VERSION, in the order of their versions, also removed ones. FN returns false to end it. If the database
 * has not come as far as VERSION, an older state of it was restored, and the rows come from the first one on. */
int store_snapshot_since(struct store *s, uint64_t version, unsigned max, store_snapshot_fn fn,
			 void *user, struct err *e) MUST_CHECK;
/* MAX rows of WORKER, by their incarnations, after AFTER ("" at first). */
int store_snapshot_of_worker(struct store *s, const char *worker, const char *after, unsigned max,
			     store_snapshot_fn fn, void *user, struct err *e) MUST_CHECK;
/* The next generation of X, of which incarnation, id, owner, worker, epoch and disk_bytes count; its row is made if there is none.
 * RET is the row afterwards. STORE_BUSY: the row has another epoch or worker, or was removed, or another incarnation has the id. */
int store_snapshot_begin(struct store *s, const struct store_snapshot *x,
			 struct store_snapshot *ret, struct err *e) MUST_CHECK;
/* QUOTA_EXCEEDED: with BYTES for X its owner would have more than OWNER_MAX, or all together more than ALL_MAX; 0 = no limit. */
int store_snapshot_fits(struct store *s, const struct store_snapshot *x, uint64_t bytes,
			uint64_t owner_max, uint64_t all_max, struct err *e) MUST_CHECK;
/* From now on there may be these objects of O->generation. To be called before anybody can store one. Those that no manifest names are
 * dead a while after the last such call. STORE_BUSY: the row has another epoch, or was removed. */
int store_snapshot_stored(struct store *s, const char *incarnation, const struct store_objects *o,
			  struct err *e) MUST_CHECK;
/* X (incarnation, epoch, generation, hash, bytes) is saved; its manifest names the objects KEEPS, and no others are needed. 1; 0: it is
 * not the newest any more, or not of this epoch. SNAPSHOT_INVALID: KEEPS has objects that store_snapshot_stored() was never told of. */
int store_snapshot_saved(struct store *s, const struct store_snapshot *x,
			 const struct store_objects *keeps, size_t n, struct err *e) MUST_CHECK;
/* WORKER shall have it: the epoch grows by one if it is EPOCH. 1: RET is the row; 0: somebody was faster. */
int store_snapshot_take(struct store *s, const char *incarnation, uint32_t epoch,
			const char *worker, struct store_snapshot *ret, struct err *e) MUST_CHECK;
/* Its worker has it. 1 or 0. */
int store_snapshot_here(struct store *s, const char *incarnation, uint32_t epoch,
			struct err *e) MUST_CHECK;
/* WORKER has a newer epoch than the row, since the database was restored. 1 or 0. */
int store_snapshot_raise(struct store *s, const char *incarnation, uint32_t epoch,
			 const char *worker, struct err *e) MUST_CHECK;
/* WORKER has it after all, with the epoch of the row, which names no worker or another one. 1 or 0. */
int store_snapshot_back(struct store *s, const char *incarnation, uint32_t epoch,
			const char *worker, struct err *e) MUST_CHECK;
/* Its worker has lost it. 1 or 0. */
int store_snapshot_nowhere(struct store *s, const char *incarnation, uint32_t epoch,
			   struct err *e) MUST_CHECK;
/* Its owner has removed it at WORKER, which has EPOCH of it. PROVEN: a router gave it this epoch, so it is believed if the row names no
 * worker, too. 1; 0: that is not so, or it was removed. The second one: at most MAX of the user OWNER, who was removed; how many.
 * The row stays, so that a worker that was away cannot come back with an old copy, and nobody takes that for a new sandbox. It goes with
 * the last object if no worker can have a copy, and else by store_snapshot_forget(). */
int store_snapshot_removed(struct store *s, const char *incarnation, uint32_t epoch,
			   const char *worker, bool proven, struct err *e) MUST_CHECK;
int store_snapshot_removed_of(struct store *s, const char *owner, unsigned max,
			      struct err *e) MUST_CHECK;
/* Deletes MAX rows that were removed before BEFORE_MS and have no objects. How many. */
int store_snapshot_forget(struct store *s, uint64_t before_ms, unsigned max,
			  struct err *e) MUST_CHECK;
/* MAX generations with objects that nobody has needed since BEFORE_MS. FN returns false to end it. */
typedef bool (*store_objects_fn)(const char *incarnation, const struct store_objects *o,
				 void *user);
int store_snapshot_dead(struct store *s, uint64_t before_ms, unsigned max, store_objects_fn fn,
			void *user, struct err *e) MUST_CHECK;
/* The objects O, which store_snapshot_dead() told, are deleted. Others that it told are still due; if O has none, because the object store
 * refuses, they wait as long again, so that they do not hold up what comes after them. */
int store_snapshot_deleted(struct store *s, const char *incarnation, const struct store_objects *o,
			   struct err *e) MUST_CHECK;
