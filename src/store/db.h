/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/store: connections, statements, the queue of the helper thread.
 *
 * Two connections to one file: `db` belongs to the caller's thread, `helper.db` to the helper.
 * Nothing but `helper` is shared between them, and that under its lock. */
#pragma once

#include "base/list.h"
#include "base/text.h"
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
	sqlite3_stmt *statements[STATEMENT_MAX_];
};

/* ---- connections, statements (db.c) ---- */

/* What the errno of a file of the store means to a person. */
enum err_code store_err_of(int errnum);
int db_open(struct db *db, const char *path, const struct store_config *config,
	    struct err *e) MUST_CHECK;
void db_close(struct db *db);
/* Sets what RC means, "WHAT: sqlite's text"; returns a negative errno. */
int db_fail(const struct db *db, int rc, const char *what, struct err *e);
/* The statement with its parameters bound, one letter of TYPES each: t text (NULL is NULL), i
 * int64_t, b blob (pointer, size_t). NULL: failed. Texts stay valid until db_end(). */
sqlite3_stmt *db_begin(struct db *db, enum statement id, struct err *e, const char *types, ...);
/* 1: a row, 0: the end, negative: failed. */
int db_step(struct db *db, sqlite3_stmt *st, struct err *e) MUST_CHECK;
void db_end(sqlite3_stmt **st); /* _cleanup_(db_end) */
/* One statement without rows; *RET_CHANGES (may be NULL) is what it changed. */
int db_run(struct db *db, enum statement id, int *ret_changes, struct err *e, const char *types,
	   ...) MUST_CHECK;
/* One transaction; DURABLE: commit waits for the disk. */
int db_transaction(struct db *db, bool durable, struct err *e) MUST_CHECK;
/* Commits when R >= 0, else rolls back; returns R, or what the commit said. */
int db_finish(struct db *db, bool durable, int r, struct err *e) MUST_CHECK;
/* db_run() in a durable transaction; returns 1 when it changed something, else 0. */
int db_change(struct db *db, enum statement id, struct err *e, const char *types, ...) MUST_CHECK;
/* The first column of the first row; 0 when there is none. */
int db_number(struct db *db, uint64_t *ret, sqlite3_stmt *st, struct err *e) MUST_CHECK;

/* Columns; texts are cut to SIZE at a character. */
void column_text(sqlite3_stmt *st, int column, char *ret, size_t size);
uint64_t column_u64(sqlite3_stmt *st, int column);
/* Copies FROM (NULL: "") and cuts it at a character. */
void copy_text(char *ret, size_t size, const char *from);

/* PREFIX (4 bytes) and 256 random bits as text: a key, an invitation. */
void store_random_text(const char *prefix, char ret[STORE_KEY_SIZE]);
/* What is kept of such a text. */
int store_digest(struct store *s, const char *text, uint8_t ret[STORE_SECRET_BYTES],
		 struct err *e) MUST_CHECK;
/* store_user_add() inside of a transaction that is open. */
int user_insert(struct store *s, struct store_user *u, struct err *e) MUST_CHECK;

/* ---- what the helper does (queue.c, password.c) ---- */

enum note_kind {
	NOTE_RUN,
	NOTE_AUDIT,
	NOTE_SANDBOX_USED,
	NOTE_KEY_USED,
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
	};
};

struct notes {
	struct list list; /* oldest first */
	uint64_t n;
};

struct hash_job {
	struct list node; /* of the helper: jobs or done */
	char password[STORE_PASSWORD_MAX + 1];
	char hash[STORE_HASH_SIZE]; /* to compare with, or what came out */
	struct store_user user;     /* of a check */
	enum store_lane lane;
	bool check;
	bool ok;
	store_hash_fn on_hash;
	store_check_fn on_check;
	void *arg;
};

struct helper {
	pthread_mutex_t lock; /* over all that follows but db */
	pthread_cond_t work;
	pthread_cond_t idle;
	pthread_t thread;
	bool started;
	bool stop;
	bool flush;
	bool writing;
	uint64_t kept; /* rows of a batch that failed */
	struct notes notes;
	struct list jobs[STORE_LANE_MAX_]; /* oldest first */
	struct list done;
	unsigned n_jobs[STORE_LANE_MAX_]; /* until they are answered */
	unsigned turn;                    /* lane that is looked at first */
	struct store_counts counts;
	struct err trouble; /* of the last batch; ERR_NONE: it is written */
	bool told;          /* of trouble */
	struct db db;       /* of the thread alone once it is started */
	uint64_t since_prune;
	int event_fd; /* answers are there */
};

#define RUNNING_SLOTS 2048u

/* Runs under way (running.c). */
struct running {
	int fd; /* -1: they are not noted */
	unsigned region;
	uint64_t used[RUNNING_SLOTS / 64]; /* under the helper's lock */
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
	store_trouble_fn on_trouble; /* may be NULL */
	void *trouble_user;
};

int helper_open(struct store *s, const char *path, struct err *e) MUST_CHECK;
void helper_close(struct store *s);
/* Starts the thread at its first need; under the lock. -EAGAIN …: there is none. */
int helper_start(struct store *s) MUST_CHECK;
/* The thread's part of passwords: does JOB. */
void hash_job_run(struct hash_job *job);
void note_push(struct store *s, const struct note *n);
/* Adds R to the history, and its CPU time to the usage of the day of DAY_OF_MS. */
int run_write(struct db *db, const struct store_run *r, uint64_t day_of_ms,
	      struct err *e) MUST_CHECK;
/* Under the helper's lock: the row of TICKET is in the history, or will never be. 0 is fine. */
void running_free(struct store *s, uint32_t ticket);
/* Tells the askers; on the caller's thread. */
void hash_answers(struct store *s);
void hash_cancel(struct store *s);
