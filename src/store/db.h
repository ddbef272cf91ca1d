/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/store: connections, statements, the queue of the helper thread.
 *
 * There are two connections to one file: `db` belongs to the caller's thread, `helper.db` to the
 * helper thread. The threads share only `helper`, under its lock. */
#pragma once

#include "base/list.h"
#include "base/text.h"
#include "budget/budgets.h"
#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>

enum statement {
#define Q(name, sql) Q_##name,
#include "store/statements.tbl.h"
#undef Q
	STATEMENT_MAX_,
};

struct db {
	sqlite3 *handle;
	unsigned busy_ms;
	bool later; /* store_later() */
	bool owes;  /* a durable change is not on the disk yet */
	sqlite3_stmt *statements[STATEMENT_MAX_];
};

/* ---- connections, statements (db.c) ---- */

/* The error code that tells a person what the errno of a file of the store means. */
enum err_code store_err_of(int errnum);
int db_open(struct db *db, const char *path, const struct store_config *config,
	    struct err *e) MUST_CHECK;
void db_close(struct db *db);
/* Sets E from SQLite's result RC, with the text "WHAT: what SQLite says". Returns a negative errno. */
int db_fail(const struct db *db, int rc, const char *what, struct err *e);
/* Binds the parameters of the statement. TYPES has one letter for each: t text (may be NULL), i
 * int64_t, b blob (pointer, size_t). The values must stay valid until db_end(). NULL: failed. */
sqlite3_stmt *db_begin(struct db *db, enum statement id, struct err *e, const char *types, ...);
/* Returns 1: there is a row, 0: no more rows, negative: failed. */
int db_step(struct db *db, sqlite3_stmt *st, struct err *e) MUST_CHECK;
void db_end(sqlite3_stmt **st); /* _cleanup_(db_end) */
/* Runs a statement that returns no rows. *RET_CHANGES (may be NULL) is the number of changed rows. */
int db_run(struct db *db, enum statement id, int *ret_changes, struct err *e, const char *types,
	   ...) MUST_CHECK;
/* Begins a transaction. DURABLE: its commit waits for the disk. */
int db_transaction(struct db *db, bool durable, struct err *e) MUST_CHECK;
/* Commits if R >= 0, else rolls back. Returns R, or the error of the commit. */
int db_finish(struct db *db, bool durable, int r, struct err *e) MUST_CHECK;
/* db_run() in a durable transaction. Returns 1 if it changed something, else 0. */
int db_change(struct db *db, enum statement id, struct err *e, const char *types, ...) MUST_CHECK;
/* *RET is the first column of the first row, or 0 if there is no row. */
int db_number(struct db *db, uint64_t *ret, sqlite3_stmt *st, struct err *e) MUST_CHECK;

/* Read columns. A text that does not fit into SIZE is cut at a character. */
void column_text(sqlite3_stmt *st, int column, char *ret, size_t size);
uint64_t column_u64(sqlite3_stmt *st, int column);
/* Copies FROM (NULL: "") and cuts it at a character. */
void copy_text(char *ret, size_t size, const char *from);

/* Makes a key or an invitation: PREFIX (4 bytes) and 256 random bits as text. */
void store_random_text(const char *prefix, char ret[STORE_KEY_SIZE]);
/* The keyed digest that the database keeps of such a text. */
int store_digest(struct store *s, const char *text, uint8_t ret[STORE_SECRET_BYTES],
		 struct err *e) MUST_CHECK;
/* store_user_add() for callers that have a transaction open. */
int user_insert(struct store *s, struct store_user *u, struct err *e) MUST_CHECK;

/* cell_rows.c: adds the cell and makes room for it. */
int cell_write(struct db *db, const struct store_config *config, const struct store_cell *c,
	       struct err *e) MUST_CHECK;

/* ---- what the helper does (queue.c, password.c) ---- */

enum note_kind {
	NOTE_RUN,
	NOTE_AUDIT,
	NOTE_SANDBOX_USED,
	NOTE_SANDBOX_RUN,
	NOTE_KEY_USED,
	NOTE_CELL,
};

struct note {
	struct list node; /* of a struct notes */
	enum note_kind kind;
	uint32_t ticket; /* of a run */
	uint64_t at_ms;
	union {
		struct store_run run;
		struct store_audit audit;
		char id[STORE_ID_SIZE];
		struct store_cell *cell; /* owned */
	};
};

struct notes {
	struct list list; /* oldest first */
	uint64_t n;
};

struct hash_job {
	struct list node; /* in helper.jobs or helper.done */
	char password[STORE_PASSWORD_MAX + 1];
	char hash[STORE_HASH_SIZE];        /* to compare with, or the result */
	struct store_user user;            /* of a check */
	uint8_t login[STORE_SECRET_BYTES]; /* of a check that succeeded */
	enum store_lane lane;
	uint64_t from; /* who asks: a hash */
	bool check;
	bool ok;
	bool refused; /* it has lost its place */
	store_hash_fn on_hash;
	store_check_fn on_check;
	void *arg;
};

struct helper {
	pthread_mutex_t lock; /* protects all members below, except db */
	pthread_cond_t work;
	pthread_cond_t idle;
	pthread_t thread;
	bool started;
	bool stop;
	bool flush;
	bool writing;
	uint64_t cell_bytes; /* of the cells that wait */
	uint64_t kept;       /* rows of a failed batch, to be tried again */
	/* Numbers of rows: of the newest in the queue, the last of the batch, the last that was written. */
	uint64_t queued_seq, batch_seq, written_seq;
	unsigned readers; /* who wait for rows, to be woken after a batch */
	struct notes notes;
	struct list jobs[STORE_LANE_MAX_]; /* oldest first */
	struct list done;
	struct list settling, settled;       /* who waits for the disk, and who has waited */
	int wal;                             /* read-only, for fdatasync(2) */
	uint64_t last_from[STORE_LANE_MAX_]; /* of the job that was taken last */
	unsigned n_jobs[STORE_LANE_MAX_];    /* counted until they are answered */
	unsigned turn;                       /* the lane whose job is next */
	struct store_counts counts;
	struct err trouble; /* why the last batch failed; ERR_NONE: it was written */
	bool told;          /* on_trouble was called for it */
	struct db db;       /* used by the helper thread alone once that runs */
	uint64_t since_prune;
	int event_fd; /* wakes the loop: there are answers */
};

#define RUNNING_SLOTS 2048u

/* Runs that have not ended (running.c). */
struct running {
	int fd; /* -1: they are not recorded */
	unsigned region;
	uint64_t used[RUNNING_SLOTS / 64]; /* protected by the helper's lock */
};

struct store {
	struct db db;
	struct helper helper;
	struct running running;
	char *path; /* of the database */
	struct store_config config;
	uint8_t pepper[STORE_SECRET_BYTES]; /* of keys */
	bool has_pepper;
	sd_event_source *answers;
	struct list readers;         /* of the loop alone */
	store_trouble_fn on_trouble; /* may be NULL */
	void *trouble_user;
};

int helper_open(struct store *s, const char *path, struct err *e) MUST_CHECK;
void helper_close(struct store *s);
/* Starts the thread if it does not run. Call it with the lock held. -EAGAIN …: it cannot be started. */
int helper_start(struct store *s) MUST_CHECK;
/* Hashes or checks the password of JOB; on the helper thread. */
void hash_job_run(struct hash_job *job);
void note_push(struct store *s, const struct note *n);
/* Adds R to the history, and its CPU time to the usage of the UTC day that DAY_OF_MS is in. */
int run_write(struct db *db, const struct store_run *r, uint64_t day_of_ms,
	      struct err *e) MUST_CHECK;
/* Frees the slot of TICKET, whose row is in the history or will never be. Call it with the helper's
 * lock held. TICKET may be 0. */
void running_free(struct store *s, uint32_t ticket);
/* The server ends: gives back its part of the file. */
void running_close(struct store *s);
/* Calls the callbacks of finished jobs; on the caller's thread. */
void hash_answers(struct store *s);
/* readers.c; readers_note() is called with the lock held, when N has joined the queue. */
void readers_note(struct store *s, const struct note *n);
void readers_answers(struct store *s);
void readers_cancel(struct store *s);
/* settle.c */
int settle_open(struct helper *h, const char *path, struct err *e) MUST_CHECK;
void settle_some(struct helper *h);
void settle_answers(struct store *s);
void settle_cancel(struct store *s);
void hash_cancel(struct store *s);
