/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/store: connections, statements, the queue of the helper thread.
 *
 * There are two connections to one database: `db` belongs to the caller's thread, `helper.db` to the
 * helper thread. The threads share only `helper`, under its lock. */
#pragma once

#include "base/list.h"
#include "base/text.h"
#include "budget/budgets.h"
#include "store/store.h"

#include <pthread.h>
#include <stdarg.h>

enum statement {
#define Q(name, sql) Q_##name,
#define L            Q
#include "store/statements.tbl.h"
#undef L
#undef Q
	STATEMENT_MAX_,
};

/* A parameter of a statement. */
struct value {
	char type; /* a letter of db_begin() */
	int64_t number;
	const void *data; /* a text, or LEN bytes; NULL: the value is NULL */
	size_t len;
};
#define VALUES_MAX 16u

struct db;
/* A statement that runs, and its row. */
struct cursor {
	struct db *db;
	enum statement id;
	void *own; /* of the kind of database; it may outlive the run */
};

enum dialect {
	DIALECT_SQLITE,
	DIALECT_POSTGRESQL,
};

/* What a kind of database does: SQLite (db_sqlite.c), PostgreSQL (db_postgresql.c). All else of this room is the same for both. */
struct db_kind {
	enum dialect dialect;
	const char *versions; /* makes the table of the migrations, if there is none */
	void (*close)(struct db *db);
	/* Prepares the statement when it is first used, and binds its parameters; see db_begin(). */
	int (*begin)(struct cursor *c, const struct value *values, unsigned n, struct err *e);
	int (*step)(struct cursor *c, struct err *e);
	void (*end)(struct cursor *c);
	int (*changes)(const struct db *db);     /* rows that the last statement changed */
	int64_t (*last_id)(const struct db *db); /* number of the row that was added last */
	bool (*in_transaction)(const struct db *db);
	/* WAITS: its commit waits for the disk. */
	int (*transaction)(struct db *db, bool waits, struct err *e);
	int (*commit)(struct db *db, struct err *e);
	void (*rollback)(struct db *db);
	/* The number of the transaction whose commit was sent and not answered, once; 0: the last one has an outcome. NULL: each has. */
	uint64_t (*unsure)(struct db *db);
	/* What became of it: 1 it was committed, 0 it was not, or negative: that cannot be known yet. */
	int (*outcome)(struct db *db, uint64_t transaction, struct err *e);
	void (*durable_end)(struct db *db); /* no commit waits any longer; NULL: nothing to do */
	/* Runs statements that have neither parameters nor rows. */
	int (*script)(struct db *db, const char *sql, const char *what, struct err *e);
	void (*batch_end)(struct db *db); /* NULL: nothing to do */
	/* No call of any thread waits any longer than until then; NULL: none waits for long. */
	void (*end_by)(struct db *db, uint64_t ns);
	unsigned (*server)(const struct db *db); /* its version; NULL: there is none */
	int64_t (*number)(const struct cursor *c, int column);
	const char *(*text)(const struct cursor *c, int column); /* NULL: the value is NULL */
	const void *(*blob)(const struct cursor *c, int column, size_t *ret_len);
	int (*columns)(const struct cursor *c);
};

struct db {
	const struct db_kind *kind; /* NULL: not open */
	void *handle;               /* of the kind */
	unsigned busy_ms;
	bool later;              /* store_later() */
	const char *by;          /* store_changes_by() */
	bool owes;               /* a durable change is not on the disk yet */
	bool waits;              /* every commit waits for the disk, whatever is later */
	bool durable;            /* the transaction that runs */
	struct replica *replica; /* it is the loop's copy of another database; else NULL */
	struct cursor cursors[STATEMENT_MAX_];
};

/* ---- connections, statements (db.c) ---- */

/* The newest version of the tables that this program knows (migrate.c). */
unsigned store_version_known(void);
/* STORE_FAILED if tables of this VERSION are newer than this program. */
int store_check_version(uint64_t version, struct err *e) MUST_CHECK;
/* Brings the tables up to date. PATH: of the file, which is copied before it is changed; NULL: there is none. */
int store_migrate(struct db *db, const char *path, const struct store_config *config,
		  struct err *e) MUST_CHECK;
/* The error code that tells a person what the errno of a file of the store means. */
enum err_code store_err_of(int errnum);
/* PATH: of the SQLite file; not used with config->address. */
int db_open(struct db *db, const char *path, const struct store_config *config,
	    struct err *e) MUST_CHECK;
void db_close(struct db *db); /* one that is not open is fine */
/* Binds the parameters of the statement. TYPES has one letter for each: t text (may be NULL), i
 * int64_t, b blob (pointer, size_t). The values must stay valid until db_end(). NULL: failed. */
struct cursor *db_begin(struct db *db, enum statement id, struct err *e, const char *types, ...);
struct cursor *db_begin_with(struct db *db, enum statement id, const struct value *values,
			     unsigned n, struct err *e);
/* Returns 1: there is a row, 0: no more rows, negative: failed. */
int db_step(struct db *db, struct cursor *st, struct err *e) MUST_CHECK;
void db_end(struct cursor **st); /* _cleanup_(db_end) */
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
int db_number(struct db *db, uint64_t *ret, struct cursor *st, struct err *e) MUST_CHECK;
/* As db_number(). The caller looks only whether the number is below LIMIT: others may change it meanwhile. */
int db_count_below(struct db *db, uint64_t limit, uint64_t *ret, struct cursor *st,
		   struct err *e) MUST_CHECK;
/* RET is the text of the first column of the first row. 1, or 0: there is no row. */
int db_text(struct db *db, struct cursor *st, char *ret, size_t size, struct err *e) MUST_CHECK;

/* Read columns. A text that does not fit into SIZE is cut at a character. */
void column_text(struct cursor *st, int column, char *ret, size_t size);
int64_t column_i64(const struct cursor *st, int column);
/* Borrowed until the next step. */
const char *column_borrow(const struct cursor *st, int column);
const void *column_blob(const struct cursor *st, int column, size_t *ret_len);
/* The two parameters of a list that goes on behind a mark (NULL: the first row). */
int64_t mark_ms(const struct store_mark *mark);
int64_t mark_row(const struct store_mark *mark);
/* FN has taken the row of ST, whose last column is its rowid. */
void mark_set(struct store_mark *mark, uint64_t created_ms, struct cursor *st);
uint64_t column_u64(struct cursor *st, int column);
/* Copies FROM (NULL: "") and cuts it at a character. */
void copy_text(char *ret, size_t size, const char *from);

/* Makes a key or an invitation: PREFIX (4 bytes) and 256 random bits as text. */
void store_random_text(const char *prefix, char ret[STORE_KEY_SIZE]);
/* The keyed digest that the database keeps of such a text. */
int store_digest(struct store *s, const char *text, uint8_t ret[STORE_SECRET_BYTES],
		 struct err *e) MUST_CHECK;
/* store_user_add() for callers that have a transaction open. */
int user_insert(struct store *s, struct store_user *u, struct err *e) MUST_CHECK;

/* store_sandbox_add() for callers that have a transaction open. */
int sandbox_insert(struct store *s, struct store_sandbox *b, const char *env,
		   const struct store_room *room, struct err *e) MUST_CHECK;

/* cell_rows.c: says what C costs. */
void cell_charge(struct store_cell *c);
/* Adds the cell, in the place of its draft, and makes room for it. */
int cell_write(struct db *db, const struct store_config *config, const struct store_cell *c,
	       struct err *e) MUST_CHECK;
/* places.c: a text between A and B, which is greater. "" as A: none is smaller. -ENOSPC: it would be too long. */
int place_between(const char *a, const char *b, char ret[static STORE_CELL_PLACE_SIZE]) MUST_CHECK;
/* Places C, which is not written yet. */
int place_beside(struct db *db, const struct store_beside *beside, struct store_cell *c,
		 struct err *e) MUST_CHECK;
int draft_write(struct db *db, unsigned region, const struct store_cell *c,
		struct err *e) MUST_CHECK;
/* Makes history of the drafts of REGION, whose server is dead. */
int drafts_recover(struct db *db, unsigned region, struct err *e) MUST_CHECK;

/* ---- what the helper does (queue.c), and passwords (password.c) ---- */

enum note_kind {
	NOTE_RUN,
	NOTE_AUDIT,
	NOTE_SANDBOX_USED,
	NOTE_SANDBOX_RUN,
	NOTE_KEY_USED,
	NOTE_CELL,
	NOTE_DRAFT,    /* of a cell */
	NOTE_NAME,     /* of a notebook */
	NOTE_REFUSALS, /* rows of refusals.c wait; the note has no content */
};

struct note {
	struct list node; /* of a struct notes */
	enum note_kind kind;
	bool aside;      /* it can never be written */
	uint32_t ticket; /* of a run */
	uint64_t at_ms;
	union {
		struct store_run run;
		struct store_audit audit;
		char id[STORE_ID_SIZE];
		struct store_cell *cell; /* owned */
		struct {
			char owner[STORE_OWNER_SIZE];
			char sandbox[STORE_OWNER_SIZE + 1];
			char name[STORE_NAME_SIZE];
		} notebook;
	};
};

static inline bool note_has_cell(const struct note *n)
{
	return n->kind == NOTE_CELL || n->kind == NOTE_DRAFT;
}

struct notes {
	struct list list; /* oldest first */
	uint64_t n;
};

/* What one user has of the things that all share: rows and bytes of cells in the queue, slots of runs. */
struct row_share {
	uint64_t rows, cell_bytes, slots;
};
#define ROW_SHARES 1024u

struct hash_job {
	struct list node;    /* in the queue of its lane */
	struct store *store; /* NULL: it was closed */
	char password[STORE_PASSWORD_MAX + 1];
	char hash[STORE_HASH_SIZE];        /* to compare with, or the result */
	struct store_user user;            /* of a check */
	uint8_t login[STORE_SECRET_BYTES]; /* of a check that succeeded */
	enum store_lane lane;
	uint64_t from; /* who asks: a hash */
	bool check;
	bool ok;
	store_hash_fn on_hash;
	store_check_fn on_check;
	void *arg;
};

/* Passwords that wait for a thread; of the loop. */
struct hashes {
	struct list jobs[STORE_LANE_MAX_];   /* oldest first */
	uint64_t last_from[STORE_LANE_MAX_]; /* of the job that was taken last */
	unsigned n_jobs[STORE_LANE_MAX_];    /* counted until they are answered */
	unsigned turn;                       /* the lane whose job is next */
	struct hash_job *running;            /* the one that a thread has; NULL: none */
	uint64_t done;
	bool ended;
};

/* A row of what failed, that is counted. */
struct refusal {
	uint64_t kind; /* hash of what is counted together; 0: the slot is free */
	uint64_t who;  /* hash of who is limited */
	uint64_t since_ns;
	uint64_t written;       /* its count in the database */
	uint64_t in_flight;     /* the count that the helper is writing; 0 = it is not */
	int64_t id, flight_id;  /* of its row; 0 = it has none yet. Of the helper thread alone. */
	struct store_audit row; /* with the count of now */
};

struct refusals { /* protected by the helper's lock */
	uint8_t secret[16];
	bool unwritten; /* something was counted that is not in the database */
	bool noted;     /* a NOTE_REFUSALS is in the queue */
	uint64_t noted_ns;
	uint64_t counted;
	struct refusal failed[STORE_AUDIT_KINDS_ALL + 1], refused[STORE_AUDIT_KINDS_ALL + 1];
};

struct helper {
	pthread_mutex_t lock; /* protects all members below, except db */
	pthread_cond_t work;
	pthread_cond_t idle;
	pthread_t thread;
	bool started;
	bool stop;
	bool flush;
	bool sweep; /* there may be rows of removed users */
	bool writing;
	uint64_t cell_bytes; /* of the cells that wait */
	uint64_t kept;       /* rows of a failed batch, to be tried again */
	struct row_share
	    shares[ROW_SHARES]; /* by a keyed hash of the user: at worst strangers share one */
	/* Numbers of rows: of the newest in the queue, the last of the batch, the last that was written. */
	uint64_t queued_seq, batch_seq, written_seq;
	unsigned readers; /* who wait for rows, to be woken after a batch */
	struct notes notes;
	struct list settling, settled; /* who waits for the disk, and who has waited */
	int wal;                       /* read-only, for fdatasync(2) */
	struct store_counts counts;
	struct err trouble;  /* why the last batch failed; ERR_NONE: it was written */
	bool told;           /* on_trouble was called for it */
	uint64_t aside_told; /* of counts.aside: on_aside was called for them */
	char aside_what[STORE_OBJECT_SIZE]; /* the last row that was put aside */
	struct err aside_why;
	struct db db;    /* used by the helper thread alone once that runs, like what follows */
	uint64_t unsure; /* the transaction of the kept batch, if it may have been committed */
	uint64_t since_prune;
	struct refusals refusals;
	int event_fd; /* wakes the loop: there are answers */
};

#define RUNNING_SLOTS 2048u

/* Runs that have not ended (running.c). */
struct running {
	int fd; /* -1: they are not recorded */
	unsigned region;
	/* protected by the helper's lock */
	uint64_t used[RUNNING_SLOTS / 64];
	unsigned n_used;
	uint16_t whose[RUNNING_SLOTS]; /* number of the share */
};

struct reads;
struct replica;

struct store {
	struct db db;
	struct replica *replica; /* whose copy `db` is; NULL: it is none (replica.h) */
	struct helper helper;
	struct hashes hashes;
	struct running running;
	char *path; /* of the database */
	struct store_config config;
	uint8_t pepper[STORE_SECRET_BYTES]; /* of keys */
	bool has_pepper;
	sd_event_source *answers;
	struct list readers; /* of the loop alone */
	struct reads *reads;
	store_trouble_fn on_trouble; /* may be NULL */
	void *trouble_user;
	store_aside_fn on_aside; /* may be NULL */
	void *aside_user;
};

int helper_open(struct store *s, const char *path, struct err *e) MUST_CHECK;
void helper_close(struct store *s);
/* Starts the thread if it does not run. Call it with the lock held. -EAGAIN …: it cannot be started. */
int helper_start(struct store *s) MUST_CHECK;
/* The share of WHO. With the lock held, like what follows. */
struct row_share *share_of(struct helper *h, const char *who);
/* Whether one who has HAVE may take WANT more while so many are FREE. */
bool share_fits(uint64_t have, uint64_t want, uint64_t free);
/* False: the queue is full, at least for that user, or has no thread; the row is counted as lost. */
bool note_push(struct store *s, const struct note *n);
/* batch.c: writes the notes. Those that can never be written are marked as put aside. */
int batch_write(struct store *s, const struct notes *batch, struct err *e) MUST_CHECK;
/* Says in h->aside_what which row N is. Call it with the lock held. */
void batch_name_aside(struct helper *h, const struct note *n);
/* audit_rows.c */
int audit_set_bounds(struct db *db, const struct store_config *config, struct err *e) MUST_CHECK;
int audit_write(struct db *db, const struct store_audit *a, struct err *e) MUST_CHECK;
/* Deletes what is beyond the bounds. */
int audit_prune(struct db *db, struct err *e) MUST_CHECK;
/* Removes OVER rows, always of whoever has most: ?1 of Q is how many at once, ?2 is CLASS, unless that is below 0. */
int prune_most(struct db *db, enum statement q, uint64_t over, int class, struct err *e) MUST_CHECK;
/* departed.c: removes a slice of what removed users left. *RET_MORE: there is more. */
int departed_sweep(struct db *db, bool *ret_more, struct err *e) MUST_CHECK;
void departed_wake(struct store *s); /* the helper looks soon */
/* refusals.c: counts A; what was counted is written soon, or as the next row of the queue. */
void refusals_count(struct store *s, const struct store_audit *a);
void refusals_flush(struct store *s);
/* For the helper thread. Writes what was counted; refusals_settle() is told, with the lock held, whether the transaction
 * was committed. refusals_due(), with the lock held: when counts that grew must be written; 0 = there are none. */
void refusals_open(struct helper *h);
int refusals_write(struct helper *h, struct err *e) MUST_CHECK;
void refusals_settle(struct helper *h, bool ok);
uint64_t refusals_due(const struct helper *h);
/* Adds R to the history, and its CPU time to the usage of the UTC day that DAY_OF_MS is in. */
int run_write(struct db *db, const struct store_run *r, uint64_t day_of_ms,
	      struct err *e) MUST_CHECK;
/* Frees the slot of TICKET, whose row is in the history or will never be. Call it with the helper's
 * lock held. TICKET may be 0. */
void running_free(struct store *s, uint32_t ticket);
/* The server ends: gives back its part of the file. */
void running_close(struct store *s);
/* Calls the callbacks of finished jobs; on the caller's thread. */
/* readers.c; readers_note() is called with the lock held, when N has joined the queue. */
void readers_note(struct store *s, const struct note *n);
void readers_answers(struct store *s);
void readers_cancel(struct store *s);
/* reading.c */
int reads_open(const char *path, const struct store_config *config, struct reads **ret,
	       struct err *e) MUST_CHECK;
struct reads *reads_unref(struct reads *r); /* NULL is fine; returns NULL */
/* settle.c */
int settle_open(struct helper *h, const char *path, struct err *e) MUST_CHECK;
void settle_some(struct helper *h);
void settle_answers(struct store *s);
void settle_cancel(struct store *s);
void hashes_open(struct store *s);
