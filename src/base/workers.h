/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the front. The event loop must never wait, so what can wait (for a disk, for the lock of a file
 * that a sandbox is truncating) or computes for long runs here. There is one pool in a process.
 *
 *	struct look { int fd; struct stat st; int error; struct owner *owner; };
 *	static void look_at(void *user)  { … fstat(look->fd, &look->st) … }      on a thread
 *	static void on_looked(void *user) { … look->owner … ; free(look); }      on the loop
 *	r = workers_run(who, look_at, on_looked, look);
 *
 * FN runs on a thread, maybe before workers_run() has returned. It may use what USER points to, and nothing that the loop
 * uses meanwhile: no log, no budget, no sd-event, no list of the owner; so the loop does not keep the return value of
 * workers_run() in a member that FN writes. DONE runs on the loop, always and exactly once, also at the end of the server.
 * It may be NULL: then nobody waits for the job, and FN frees USER.
 * A job cannot be cancelled: an owner that goes away marks the job (`look->owner = NULL`), and DONE frees it.
 *
 * WHO is the principal that pays, the owner of the files in question; "" is the server itself. At most WORKERS_EACH
 * jobs of one WHO run at once, and those with waiting jobs take turns. So a disk that hangs for one WHO holds two
 * threads, and nobody else waits. Jobs of one WHO may run at the same time and end in any order.
 *
 * Threads are made when jobs wait, at most WORKERS_MAX, and end after WORKERS_IDLE_S without a job. They block all
 * signals, have the rights that the process has when they are made, and give way to the loop (base/slice.h).
 *
 * All functions are for the thread of the loop. Without a pool (verbs of the command line, unit tests, after
 * workers_end()) everything happens at once: FN and DONE have run when workers_run() returns. Callers must be ready
 * for that. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WORKERS_MAX        32u    /* threads */
#define WORKERS_EACH       2u     /* jobs of one WHO that run at once */
#define WORKERS_QUEUE_EACH 1024u  /* jobs of one WHO that wait or run */
#define WORKERS_QUEUE      16384u /* of all */
#define WORKERS_IDLE_S     30
#define WORKERS_WHO_SIZE   128u /* bytes of WHO that count, with the NUL */

/* Makes the pool; no thread yet. Returns a descriptor that becomes readable when jobs have ended: the loop then calls
 * workers_deliver(). It belongs to the pool. Or -errno. */
int workers_begin(void) MUST_CHECK;
/* Calls the DONE of jobs that have ended, for a millisecond; the descriptor stays readable if there are more. */
void workers_deliver(void);
/* Waits until every job has run, also those that DONE functions add meanwhile, and delivers them. Ends all threads
 * and the pool. A job that hangs in the kernel would also delay the exit of the process. */
void workers_end(void);

/* -EBUSY: too many jobs of WHO, or of all, wait. -ENOMEM: no memory, or not even one thread. On an error neither
 * function is called, and USER stays with the caller. */
int workers_run(const char *who, void (*fn)(void *user), void (*done)(void *user),
		void *user) MUST_CHECK;
/* The same without the bounds on waiting jobs, so never -EBUSY: for jobs whose number has a bound already, as one for
 * each connection. */
int workers_run_counted(const char *who, void (*fn)(void *user), void (*done)(void *user),
			void *user) MUST_CHECK;
/* The typed error for R of workers_run(). Returns R. */
int workers_refused(int r, struct err *e);
/* Closes FD (below 0: nothing) on a thread. The last close of a file without a name frees all its blocks, which takes
 * seconds for a file in many pieces. Never fails; counts for no bound, since the number of descriptors has one. */
void workers_close(const char *who, int fd);
/* Reads LEN bytes of FD from OFF on a thread, fewer at the end of the file, and closes FD there. CB is called once, on
 * the loop, maybe before this returns: DATA has N bytes and a NUL behind them, and is the callback's to free; NULL and
 * a negative errno if they cannot be read. The caller has bounded LEN. */
typedef void (*workers_read_fn)(char *data, ssize_t n, void *user);
void workers_read(const char *who, int fd, uint64_t off, size_t len, workers_read_fn cb,
		  void *user);
/* The same, and FD stays open and the caller's. It must not be closed before CB is called. */
void workers_read_some(const char *who, int fd, uint64_t off, size_t len, workers_read_fn cb,
		       void *user);
/* free(3) of P. Returning many megabytes to the kernel takes milliseconds: LEN of WORKERS_FREE_MIN bytes or more is
 * freed on a thread. */
#define WORKERS_FREE_MIN (1u << 20)
void workers_free_memory(const char *who, void *p, size_t len);

struct workers_counts {
	unsigned threads, running, waiting; /* now */
	uint64_t done;                      /* jobs since the start */
};
void workers_count(struct workers_counts *ret);
