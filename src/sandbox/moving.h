/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sandboxes that leave this server, or come to it, while they are at rest (docs/decisions/0055-moving-sandboxes.md). The callers
 * are the orders of routers. As in sandbox.h: one loop, and a callback is called once and never before the call has returned. */
#pragma once

#include "sandbox/sandbox.h"

struct departure;
struct arrival;

#define MOVING_INCARNATION_SIZE 33           /* 32 hexadecimal digits in small letters, and NUL */
#define MOVING_TEXT_MAX         (256u << 10) /* bytes of manager_moving_text() */
#define MOVING_WAIT_S           10u          /* that an opener waits for the reader of a disk */

/* What moves need of the records. The functions get the USER of struct sandbox_records, and are called on the loop. */
struct moving_records {
	/* The sandbox ID is about to get processes, or its record is about to change: what was saved of it is not all of it any
	 * more. Safe against SIGKILL when it returns, without a wait for the disk. */
	int (*opened)(void *user, const char *id, struct err *e);
	/* Would add() of struct sandbox_records let the owner of R have it? QUOTA_EXCEEDED. Changes nothing. */
	int (*check)(void *user, const struct sandbox_record *r, struct err *e);
	/* Adds R, all of which is set, with the text of its environment ENV. On the disk after settle(). QUOTA_EXCEEDED;
	 * ALREADY_EXISTS: the id or the incarnation is here. */
	int (*arrive)(void *user, struct sandbox_record *r, const char *env,
		      const char *incarnation, uint32_t epoch, struct err *e);
	/* Removes the record and what is known of its moves: another server has the sandbox. On the disk after settle(). */
	int (*leave)(void *user, const char *id, struct err *e);
};

/* Another number whenever a stored sandbox came to rest or stopped resting, was changed, was removed, or arrived. It begins anew with the
 * manager. */
uint64_t manager_moving_version(const struct manager *m);
/* Has the sandbox no processes, and is nobody about to give it some, to read its disk, to bring it here or to delete it? Also true for an
 * id that is not here. */
bool manager_at_rest(struct manager *m, const char *owner, const char *id);

/* ---- reading the disk of one that rests ---- */

/* DISK is the callee's, who closes it before departure_end(). -1 with E. */
typedef void (*departure_fn)(int disk, const struct err *e, void *user);
/* Opens the disk of the stored sandbox ID to read it. Until departure_end() nobody else opens the sandbox: whoever wants to, waits
 * MOVING_WAIT_S at most, and then gets what the engine says of a disk in use. WANTED is called when somebody waits, or wants to delete the
 * sandbox; maybe several times, and always from the loop itself. The holder then calls departure_end() as soon as it can. RET: until
 * departure_end(), which the caller owes also after FN had an error. SANDBOX_IN_USE: it is not at rest; SESSION_NOT_FOUND; errors of
 * engine_disk_read(). If the manager is freed first, FN has CANCELLED, unless it was called. */
int manager_depart(struct manager *m, const char *owner, const char *id, departure_fn fn,
		   void (*wanted)(void *user), void *user, struct departure **ret,
		   struct err *e) MUST_CHECK;
/* FN and WANTED are not called any more; the engine is asked at once for whoever waits. NULL is fine; returns NULL. */
struct departure *departure_end(struct departure *d);
/* Appends what goes with the disk, MOVING_TEXT_MAX bytes at most: the record with the environment, which has secrets, as JSON. Only
 * manager_arrive() reads it. SESSION_NOT_FOUND; INVALID_ARGUMENT: its environment takes more as JSON. */
int manager_moving_text(struct manager *m, const char *owner, const char *id, struct buf *ret,
			struct err *e) MUST_CHECK;

/* ---- from elsewhere ---- */

/* The disk, an empty file to be written. It is the callee's, who closes it before arrival_keep() and arrival_end(). -1 with E. */
typedef void (*arrival_fn)(int disk, const struct err *e, void *user);
/* The sandbox ID of OWNER is to come here, with a disk that takes up to BYTES of this machine's. TEXT is what manager_moving_text() made
 * elsewhere, and EPOCH the one that this server gets. Before it was kept, the sandbox is not found here, and no other one of that id is
 * made (SESSION_BUSY). Options beyond this server's maxima are lowered whenever it is opened. ALREADY_EXISTS: there is a sandbox of that
 * id, or one arrives; QUOTA_EXCEEDED; SNAPSHOT_INVALID: TEXT is none; INVALID_ARGUMENT; errors of engine_disk_new(). RET: until
 * arrival_end() or the call of CB, and owed also after FN had an error. */
int manager_arrive(struct manager *m, const char *owner, const char *id, const char *incarnation,
		   uint32_t epoch, const char *text, size_t len, uint64_t bytes, arrival_fn fn,
		   void *user, struct arrival **ret, struct err *e) MUST_CHECK;
/* FN was called without an error, and the disk is whole and flushed with fsync(2). First it becomes a disk of this server, then the record
 * is added. CB without an error: both are on this machine's disk, and the sandbox is found. With an error nothing of it is left, unless the
 * server ends (CANCELLED): a disk without a record may be left then, and goes when the sandbox comes again. A is gone when CB is
 * called. */
void arrival_keep(struct arrival *a, sandbox_done_fn cb, void *user);
/* It does not come, and what there is of it goes. Also while arrival_keep() is under way: CB is not called then, and the sandbox
 * may have come. NULL is fine; returns NULL. */
struct arrival *arrival_end(struct arrival *a);

/* ---- to elsewhere ---- */

/* Another server has the sandbox ID: ends what it has here, removes its disk, then its record. Nobody is told that it was removed, so its
 * history stays. From this call on it is not found here. One that is being made goes as soon as it is made. SESSION_NOT_FOUND; CB may
 * get errors of engine_forget(), and then the sandbox is found as before. */
int manager_leave(struct manager *m, const char *owner, const char *id, sandbox_done_fn cb,
		  void *user, struct err *e) MUST_CHECK;
