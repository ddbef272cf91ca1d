/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that outlives a server, in one SQLite file: users, keys, invitations, persistent
 * sandboxes, packages, the history of runs, the audit log.
 *
 * Opening. Call store_open() before the process gives up its rights. The file, -wal and -shm stay
 * open; nothing is opened by name after that. Call store_attach() when there is an event loop. Several
 * processes may use the same file. Each call is one short transaction; if a writer in another process
 * holds the lock longer than busy_ms, the call fails with STORE_BUSY.
 *
 * Cost. Reads and small writes are synchronous and take far less than a millisecond. They do not wait
 * for the disk: WAL with synchronous=NORMAL survives SIGKILL. Calls marked "durable" wait for the disk
 * and survive a power failure, too; these are rare (users, keys, rows of sandboxes). store_note_*()
 * puts rows into a queue that a helper thread writes in batches, so a run or a request costs no
 * transaction.
 *
 * Failure. A disk that is full or became read-only, a damaged or vanished file, a lock that stays:
 * calls fail with STORE_FULL, STORE_READ_ONLY, STORE_FAILED or STORE_BUSY in `e`, and later calls may
 * succeed again. Calls that look something up return 1 (found), 0 (not found, outputs untouched) or a
 * negative errno with `e` set. Other calls return 0 or a negative errno.
 *
 * Times are milliseconds since 1970 (UTC). Texts passed in are UTF-8 and borrowed for the call. Rows
 * given to a callback are valid during the callback, which must not write to the store. Only one thread
 * may use a store. store_note_*() and store_audit() accept NULL as the store and then do nothing. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct store;

/* Sizes of texts, with the NUL. */
#define STORE_ID_SIZE      37  /* UUID text */
#define STORE_OWNER_SIZE   64  /* user id, or "" for the local user */
#define STORE_NAME_SIZE    256 /* of a user, a key, a sandbox, a package */
#define STORE_EMAIL_SIZE   256
#define STORE_IMAGE_SIZE   64
#define STORE_WORD_SIZE    32  /* a status, a reason, an action */
#define STORE_OBJECT_SIZE  128 /* the object of an action */
#define STORE_PLACE_SIZE   4096
#define STORE_NETWORK_SIZE 10240 /* what a sandbox may reach, as its manager writes it */
#define STORE_OPTIONS_SIZE 8192  /* what was chosen for a sandbox, as its manager writes it */
#define STORE_PEER_SIZE    64
#define STORE_TEXT_SIZE    2048 /* message of a package's status */
#define STORE_KEY_SIZE     64   /* a key or an invitation, as its holder has it */
#define STORE_HINT_SIZE    16   /* first characters of a key, for lists */
#define STORE_HASH_SIZE    128  /* an argon2id string */

/* ---- life ---- */

struct store_config {
	const char *path; /* of the database; its folder is created if it is missing */
	/* "postgresql://…": the database is this one, and PATH is where what is of this server alone lies. Borrowed until
	 * store_open() returns. It may have a password, which is in no error. NULL: the file PATH. */
	const char *address;
	/* For a server with ADDRESS: its loop works on a copy in memory that follows the database, and waits for nothing; see
	 * store_settle(). */
	bool copied;
	unsigned
	    copy_ms; /* so long the copy is read while the database does not answer; 0 = 60,000 */
	uint64_t runs_keep;    /* rows of history; 0 = 100,000 */
	uint64_t audit_keep;   /* rows of the audit log of one class, see there; 0 = 1,000,000 */
	unsigned password_min; /* bytes of a new password; 0 = 8 */
	unsigned busy_ms;      /* longest wait for a writer in another process; 0 = 500 */
	uint64_t pages_max;    /* of 4 KiB, for tests of a full disk; 0 = no limit */
	/* Cells of one owner, their bytes, and the bytes of all; 0 = 10,000, 64 MiB, 1 GiB. */
	uint64_t cells_keep, cells_bytes, cells_total;
	/* Keys that have not expired, of one user and of all; 0 = as budgets.tbl.h says. */
	uint64_t keys_each, keys_total;
};

/* Opens or creates the file and brings its tables up to date. STORE_FAILED if a newer program version
 * wrote the file. */
int store_open(const struct store_config *config, struct store **ret, struct err *e) MUST_CHECK;
/* For a look at ADDRESS without a store: connects, and changes nothing. RET_SERVER is as 150004 for PostgreSQL 15.4. RET_TABLES
 * is the version of the tables; 0: there are none. STORE_FAILED if a newer program version has changed them. */
int store_look(const char *address, unsigned *ret_server, uint64_t *ret_tables,
	       struct err *e) MUST_CHECK;
/* Writes the queued rows (for at most 2 s), stops the helper and closes the file. S may be NULL. */
struct store *store_close(struct store *s);
/* The callbacks of store_hash_password() and store_check_password() are called from LOOP, which is
 * borrowed until store_close(). */
int store_attach(struct store *s, sd_event *loop) MUST_CHECK;
/* What is durable waits for the disk before it returns. Between store_later(S, true) and store_later(S, false) it
 * does not, so that the loop of a server does not: then store_owes() says whether something was changed, and
 * store_settle() calls FN from the loop of store_attach() once it is on the disk. E is NULL; or it says why
 * the change may be lost if the machine stops; or it is CANCELLED, because the store is being closed.
 * store_settle() returns 1 if it waited itself, because there is no thread: FN is not called. */
typedef void (*store_settled_fn)(const struct err *e, void *user);
bool store_later(struct store *s, bool on); /* what it was */
bool store_owes(const struct store *s);
/* Who makes the changes until the next call; NULL: the server itself. Of the changes that may wait for a database elsewhere (512 in
 * all) one user has at most STORE_WAITING_EACH, else STORE_BUSY; the server and the local user ("") have no bound. PRINCIPAL is
 * borrowed until the next call; S may be NULL. */
#define STORE_WAITING_EACH 64
void store_changes_by(struct store *s, const char *principal);
/* A new request begins: what another one has changed in this turn of the loop, and was not settled, is not the matter of this one. For a
 * copied database, where a change can be refused; S may be NULL. */
void store_owes_nothing(struct store *s);
int store_settle(struct store *s, store_settled_fn fn, void *user, struct err *e) MUST_CHECK;
/* What may remove thousands of rows is done by the helper thread, in short transactions, so that others who write wait for
 * none of them. FN is called from the loop of store_attach() once all of it is on the disk, or has failed and may be done in
 * part. FOUND: there was something to remove. E is NULL, or as in store_settled_fn. On an error FN is not called. */
typedef void (*store_removed_fn)(bool found, const struct err *e, void *user);
/* For reading the history: calls FN from the loop when all rows queued so far are written, at the latest after 1 s,
 * or when they cannot be written; the reader then sees what there is. Rows of runs of OWNER that are queued
 * within the first 100 ms count, too. Returns 1 if nothing is to be waited for: FN is not called. E is NULL; or it is
 * CANCELLED, because the store is being closed. */
typedef void (*store_written_fn)(const struct err *e, void *user);
int store_when_written(struct store *s, const char *owner, store_written_fn fn,
		       void *user) MUST_CHECK;
/* The same for tests, which have no loop: waits at most 1 s. */
void store_flush(struct store *s);

/* Gets the secret NAME ("jwt", "links") of this installation; the first call makes it. All servers of
 * one state folder have the same. RET has STORE_SECRET_BYTES. Durable. */
#define STORE_SECRET_BYTES 32
int store_secret(struct store *s, const char *name, uint8_t *ret, struct err *e) MUST_CHECK;

/* Where people reach the page of the server of this state folder, for commands that tell a person a link. The last server that
 * began to listen has set it. store_address(): 1, or 0 and an empty RET if no server ever did. */
#define STORE_ADDRESS_SIZE 2048
int store_set_address(struct store *s, const char *base, struct err *e) MUST_CHECK;
int store_address(struct store *s, char ret[STORE_ADDRESS_SIZE], struct err *e) MUST_CHECK;

/* Called from the loop, once when rows of history and audit log cannot be written (E says why) and
 * once when they can be written again (E is NULL). Meanwhile QUEUED rows wait and are tried again
 * every second. */
typedef void (*store_trouble_fn)(const struct err *e, uint64_t queued, void *user);
void store_on_trouble(struct store *s, store_trouble_fn fn, void *user);

/* Called from the loop when N rows were put aside: the database refuses them for good (E says why), so they would keep all
 * others back. WHAT names the last one: its kind, and whose it is. They are not written. */
typedef void (*store_aside_fn)(const char *what, const struct err *e, uint64_t n, void *user);
void store_on_aside(struct store *s, store_aside_fn fn, void *user);
/* True while rows of history and audit log cannot be written. E (may be NULL) says why. */
bool store_in_trouble(struct store *s, struct err *e);

/* For metrics. */
struct store_counts {
	uint64_t queued;  /* rows that wait for the helper thread */
	uint64_t written; /* rows it wrote */
	uint64_t
	    lost; /* rows that found the queue full, or their user's part of it, because the disk stayed full */
	uint64_t failed;  /* batches that failed; they are tried again */
	uint64_t aside;   /* rows that can never be written */
	uint64_t refused; /* requests that failed, counted for the audit log */
	uint64_t hashes;  /* passwords hashed */
};
void store_count(struct store *s, struct store_counts *ret);
/* The same of the connection to a PostgreSQL database. */
struct store_link {
	bool up;          /* it answered a moment ago */
	uint64_t changes; /* that wait for it */
	uint64_t age_ms;  /* since the copy had all that the database said */
};
/* False: the store is a file. */
bool store_look_at_link(struct store *s, struct store_link *ret);

/* A random (version 4) UUID. RET has STORE_ID_SIZE bytes. */
void store_uuid(char *ret);
uint64_t store_now_ms(void);

/* ---- lists ---- */

/* Where a list goes on that is read in parts: oldest first, behind the last row that FN took. {0}: from the first. */
struct store_mark {
	bool begun;
	uint64_t created_ms;
	int64_t row;
};
/* Each …_each() calls FN for rows until FN returns false: FN did not take that row, and the list ends. MARK may be NULL:
 * from the first row. */

/* ---- users ---- */

enum store_role {
	STORE_ROLE_USER,
	STORE_ROLE_ADMIN, /* sees and manages everybody's */
	STORE_ROLE_MAX_,
};
const char *store_role_name(enum store_role role);                       /* "user", "admin" */
int store_role_parse(const char *word, enum store_role *ret) MUST_CHECK; /* -EINVAL */

/* What one user may have; STORE_QUOTA_DEFAULT means the server's setting, 0 means none at all. */
#define STORE_QUOTA_DEFAULT (-1)
struct store_quota {
	int64_t sandboxes;       /* persistent ones */
	int64_t cpu_s_per_day;   /* CPU seconds of runs in one UTC day */
	int64_t disk_bytes;      /* sum of the limits of all persistent workspaces */
	int64_t runs_per_minute; /* starts of runs */
};
#define STORE_QUOTA_DEFAULTS                                                                       \
	((struct store_quota){STORE_QUOTA_DEFAULT, STORE_QUOTA_DEFAULT, STORE_QUOTA_DEFAULT,       \
			      STORE_QUOTA_DEFAULT})

struct store_user {
	char id[STORE_ID_SIZE]; /* also the owner of the user's sandboxes */
	char name[STORE_NAME_SIZE];
	char email[STORE_EMAIL_SIZE]; /* "" = none */
	char hash[STORE_HASH_SIZE];   /* of the password; "" = no password, only keys */
	enum store_role role;
	bool active;
	uint64_t created_ms;
	struct store_quota quota;
};

typedef bool (*store_user_fn)(const struct store_user *u, void *user);

/* Adds U and fills in its id and created_ms. Durable. ALREADY_EXISTS if the name (-EEXIST) or the
 * e-mail (-EALREADY) is taken, in any case of letters. */
int store_user_add(struct store *s, struct store_user *u, struct err *e) MUST_CHECK;
int store_user_get(struct store *s, const char *id, struct store_user *ret,
		   struct err *e) MUST_CHECK;
/* Finds a user by name or, if no user has that name, by e-mail; in any case of letters. */
int store_user_find(struct store *s, const char *name, struct store_user *ret,
		    struct err *e) MUST_CHECK;
/* Changes role, active, hash, e-mail and quota of the user with U's id. Durable. Returns 1 or 0. */
int store_user_update(struct store *s, const struct store_user *u, struct err *e) MUST_CHECK;
/* Removes the user, its keys, sign-ins and usage. The helper thread then removes its runs and cells, in slices. The caller
 * removes its sandboxes. The audit log keeps its rows. Durable. Returns 1 or 0. */
int store_user_remove(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* The same for the loop; see store_removed_fn. */
int store_user_remove_later(struct store *s, const char *id, store_removed_fn fn, void *user,
			    struct err *e) MUST_CHECK;
/* For a server whose users are kept elsewhere: makes the row with U's id, or changes active and quota of the one that is there.
 * It waits for no disk: who is asked again says the same again. A new row whose name is taken, by one that was renamed since, is
 * named by its id. */
int store_user_mirror(struct store *s, const struct store_user *u, struct err *e) MUST_CHECK;
int store_user_each(struct store *s, struct store_mark *mark, store_user_fn fn, void *user,
		    struct err *e) MUST_CHECK;
/* The ids of at most MAX users who are not active, or were removed within the last hour, until FN returns false. */
typedef bool (*store_id_fn)(const char *id, void *user);
int store_user_each_idle(struct store *s, unsigned max, store_id_fn fn, void *user,
			 struct err *e) MUST_CHECK;
/* Was the user ID removed within the last hour? */
int store_user_has_left(struct store *s, const char *id, bool *ret, struct err *e) MUST_CHECK;
int store_user_count(struct store *s, uint64_t *ret, struct err *e) MUST_CHECK;

/* ---- passwords (argon2id: 64 MiB, one at a time, on a thread of base/workers.h; twice for a login) ---- */

#define STORE_PASSWORD_MIN 6u /* no server accepts less; password_min may be more */
#define STORE_PASSWORD_MAX 256
#define STORE_HASHES_MAX   16 /* jobs that may wait in one lane; RATE_LIMITED if there are more */

/* Each lane has its own queue, and the lanes take turns: a flood in one shuts nobody out of another.
 * Within a lane those whose FROM differs take turns. If the queue is full, whoever has the most in it loses
 * the newest to one who has less: CB gets RATE_LIMITED. */
enum store_lane {
	STORE_LANE_KNOWN, /* logins of names that logged in before, and what administrators do */
	STORE_LANE_LOGIN, /* other logins */
	STORE_LANE_NEW,   /* registrations */
	STORE_LANE_MAX_,
};

typedef void (*store_hash_fn)(const char *hash, const struct err *e, void *user);
/* LOGIN: STORE_SECRET_BYTES that only somebody who knows the password can compute, the same at each
 * login until the password changes. They are stored nowhere. NULL with E. */
typedef void (*store_check_fn)(const struct store_user *u, const uint8_t *login,
			       const struct err *e, void *user);

/* CB is called later from the loop, exactly once. Without a pool of threads it is called before this returns. */
int store_hash_password(struct store *s, const char *password, enum store_lane lane, uint64_t from,
			store_hash_fn cb, void *user, struct err *e) MUST_CHECK;
/* CB gets the user, or UNAUTHORIZED. A name that no user has takes just as long. */
int store_check_password(struct store *s, const char *name, const char *password,
			 enum store_lane lane, uint64_t from, store_check_fn cb, void *user,
			 struct err *e) MUST_CHECK;
/* For the end of the server, before workers_end(): answers all that wait with CANCELLED. No new password is taken:
 * CANCELLED. S may be NULL. store_close() does it, too. */
void store_cancel_passwords(struct store *s);
/* Hashes a password of at least MIN bytes before it returns; for the command line. RET has STORE_HASH_SIZE bytes. */
int store_hash_now(const char *password, unsigned min, char *ret, struct err *e) MUST_CHECK;
/* Bytes of the shortest password that store_hash_password() accepts. */
unsigned store_password_min(const struct store *s);

/* ---- keys ---- */

enum store_scope {
	STORE_SCOPE_FULL, /* all that the user may do */
	STORE_SCOPE_READ, /* see everything of the user, but change and run nothing */
	STORE_SCOPE_ADMIN, /* FULL, and manage users, keys and audit log if the user is an administrator */
	STORE_SCOPE_MAX_,
};
const char *store_scope_name(enum store_scope scope);                      /* "full", … */
int store_scope_parse(const char *word, enum store_scope *ret) MUST_CHECK; /* -EINVAL */

struct store_key {
	char id[STORE_ID_SIZE];
	char user[STORE_ID_SIZE];
	char name[STORE_NAME_SIZE];
	char hint[STORE_HINT_SIZE];
	enum store_scope scope;
	char profile[STORE_WORD_SIZE]; /* only its tools; "" = the server's profile */
	uint64_t created_ms;
	uint64_t expires_ms; /* 0 = never */
	uint64_t used_ms;    /* last use, to the minute; 0 = not used yet */
};

typedef bool (*store_key_fn)(const struct store_key *k, void *user);

/* Makes a key for K->user and fills in id, hint and created_ms. RET (STORE_KEY_SIZE bytes) is the key
 * itself, which is stored nowhere. Durable. NOT_FOUND: no such user. BUDGET_EXCEEDED: the user,
 * or all users together, have as many as they may have. */
int store_key_add(struct store *s, struct store_key *k, char *ret, struct err *e) MUST_CHECK;
/* The same, but the key is derived from its id and LOGIN (see store_check_fn), so that
 * store_key_show() can show it again to whoever knows the password. */
int store_key_add_shown(struct store *s, struct store_key *k, const uint8_t *login, char *ret,
			struct err *e) MUST_CHECK;
/* Finds the key of USER with this NAME that was derived from LOGIN and is not expired. RET has
 * STORE_KEY_SIZE bytes. */
int store_key_show(struct store *s, const char *user, const char *name, const uint8_t *login,
		   char *ret, struct err *e) MUST_CHECK;
/* Keys of USER (NULL: of all users) that have not expired. */
int store_key_count(struct store *s, const char *user, uint64_t *ret, struct err *e) MUST_CHECK;
/* Finds the key TEXT and its user. 0 if it is unknown, expired or revoked, or its user not active. */
int store_key_check(struct store *s, const char *text, struct store_key *ret_key,
		    struct store_user *ret_user, struct err *e) MUST_CHECK;
/* The same for the key with that ID. It does not count as a use of the key. */
int store_key_get(struct store *s, const char *id, struct store_key *ret_key,
		  struct store_user *ret_user, struct err *e) MUST_CHECK;
/* A number that grows whenever a credential may have ended or lost rights: when any process removes or
 * narrows a key, or removes or deactivates a user or changes its role or password. Costs one read. */
int store_credentials_epoch(struct store *s, uint64_t *ret, struct err *e) MUST_CHECK;
/* Removes the key ID, if USER (NULL: anybody) has it. Durable. Returns 1 or 0. */
int store_key_revoke(struct store *s, const char *user, const char *id, struct err *e) MUST_CHECK;
/* Removes all keys of USER with this NAME. Durable. */
int store_key_revoke_named(struct store *s, const char *user, const char *name,
			   struct err *e) MUST_CHECK;
/* The keys of USER. */
int store_key_each(struct store *s, const char *user, struct store_mark *mark, store_key_fn fn,
		   void *arg, struct err *e) MUST_CHECK;

/* ---- invitations ---- */

/* With an invitation one person can make an account, once, before it expires. */
struct store_invitation {
	char id[STORE_ID_SIZE];
	enum store_role role;       /* of the account */
	char note[STORE_NAME_SIZE]; /* for whom */
	uint64_t created_ms;
	uint64_t expires_ms;
};

typedef bool (*store_invitation_fn)(const struct store_invitation *i, void *user);

#define STORE_INVITATIONS_MAX 1000 /* without used and expired ones */

/* Adds I and fills in its id and created_ms. RET (STORE_KEY_SIZE bytes) is the invitation itself, which
 * is stored nowhere. Durable. QUOTA_EXCEEDED: there are STORE_INVITATIONS_MAX. */
int store_invitation_add(struct store *s, struct store_invitation *i, char *ret,
			 struct err *e) MUST_CHECK;
/* Returns 0 if it is unknown, used, withdrawn or expired. */
int store_invitation_find(struct store *s, const char *text, struct store_invitation *ret,
			  struct err *e) MUST_CHECK;
int store_invitation_each(struct store *s, struct store_mark *mark, store_invitation_fn fn,
			  void *user, struct err *e) MUST_CHECK;
/* Durable. Returns 1 or 0. */
int store_invitation_remove(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* Adds U with the role of the invitation TEXT and removes the invitation, in one transaction.
 * FORBIDDEN (-EACCES) if the invitation is not valid. */
int store_user_join(struct store *s, struct store_user *u, const char *text,
		    struct err *e) MUST_CHECK;

/* ---- persistent sandboxes ---- */

struct store_sandbox {
	char id[65]; /* any id of a session; store_sandbox_add() makes a UUID if it is "" */
	char owner[STORE_OWNER_SIZE];
	char name[STORE_NAME_SIZE]; /* not unique */
	char image[STORE_IMAGE_SIZE];
	char persist[STORE_WORD_SIZE + STORE_ID_SIZE]; /* the engine's name for its workspace */
	uint64_t disk_bytes;                           /* limit of its workspace */
	uint64_t created_ms;
	uint64_t used_ms;
	char network[STORE_NETWORK_SIZE]; /* network policy that was chosen for it; "" = none */
	char place[STORE_PLACE_SIZE];     /* working folder of its terminal; "" = the default */
	char options[STORE_OPTIONS_SIZE]; /* what its creator chose, as its manager writes it */
	uint64_t runs;                    /* store_note_sandbox_run() */
};

typedef bool (*store_sandbox_fn)(const struct store_sandbox *b, void *user);

/* Limits that include the sandbox to be added; 0 = no limit. Bytes are sums of workspace limits. */
struct store_room {
	uint64_t owner_count;
	uint64_t owner_bytes;
	uint64_t all_bytes;
	uint64_t elsewhere_count, elsewhere_bytes; /* that the owner has at other servers */
};

/* Adds B, or fails with QUOTA_EXCEEDED if it would pass a limit of ROOM. Check and insert are one
 * transaction, so that several servers cannot pass the limit together. An empty name becomes "Sandbox
 * N"; id, created_ms and used_ms are filled in if they are empty. ENV is the text of its environment, which
 * has secrets: only store_sandbox_env() reads it. Durable. */
int store_sandbox_add(struct store *s, struct store_sandbox *b, const char *env,
		      const struct store_room *room, struct err *e) MUST_CHECK;
/* Appends the text of the environment of the sandbox ID. */
int store_sandbox_env(struct store *s, const char *id, struct buf *ret, struct err *e) MUST_CHECK;
/* Replaces name, options and environment. Durable. Returns 1, or 0 if there is no sandbox ID. */
int store_sandbox_change(struct store *s, const char *id, const char *name, const char *options,
			 const char *env, struct err *e) MUST_CHECK;
/* Sum of the limits of all workspaces. */
int store_sandbox_bytes(struct store *s, uint64_t *ret, struct err *e) MUST_CHECK;
/* Finds the sandbox ID of OWNER (NULL: of anybody). Returns 0 for another owner's. */
int store_sandbox_get(struct store *s, const char *owner, const char *id, struct store_sandbox *ret,
		      struct err *e) MUST_CHECK;
/* Changes the place of the sandbox ID, if it exists. Not durable. */
int store_sandbox_set_place(struct store *s, const char *id, const char *place,
			    struct err *e) MUST_CHECK;
/* Removes the sandbox and its packages. Durable. Returns 1 or 0. */
int store_sandbox_remove(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* Oldest first, of OWNER (NULL: of everybody). */
int store_sandbox_each(struct store *s, const char *owner, struct store_mark *mark,
		       store_sandbox_fn fn, void *user, struct err *e) MUST_CHECK;
int store_sandbox_count(struct store *s, const char *owner, uint64_t *ret,
			struct err *e) MUST_CHECK;
/* The same, with the sum of the limits of their workspaces. */
int store_sandbox_sums(struct store *s, const char *owner, uint64_t *ret_n, uint64_t *ret_bytes,
		       struct err *e) MUST_CHECK;
/* Queues: sets used_ms to now. */
void store_note_use(struct store *s, const char *sandbox);
/* Queues: counts one more run. */
void store_note_sandbox_run(struct store *s, const char *sandbox);

/* ---- packages of a sandbox ---- */

struct store_package {
	char name[STORE_NAME_SIZE];    /* as requested, or normalised: the caller decides */
	char version[STORE_WORD_SIZE]; /* "" = not known */
	char status[STORE_WORD_SIZE];  /* "installing", "success", "failed" … */
	char text[STORE_TEXT_SIZE];    /* message or stderr; cut if longer */
	uint64_t started_ms;
	uint64_t ended_ms; /* 0 = not yet */
};

/* Adds or replaces the row (SANDBOX, P->name). NOT_FOUND: no such sandbox. */
int store_package_set(struct store *s, const char *sandbox, const struct store_package *p,
		      struct err *e) MUST_CHECK;
int store_package_get(struct store *s, const char *sandbox, const char *name,
		      struct store_package *ret, struct err *e) MUST_CHECK;
int store_package_remove(struct store *s, const char *sandbox, const char *name,
			 struct err *e) MUST_CHECK;

/* ---- history of runs, usage ---- */

struct store_run {
	char id[STORE_WORD_SIZE];
	char owner[STORE_OWNER_SIZE];
	char sandbox[STORE_OWNER_SIZE + 1];
	char kind[STORE_WORD_SIZE];   /* "code", "stateful", "command" */
	char reason[STORE_WORD_SIZE]; /* "exited", "timeout", "lost" … */
	int64_t exit_code;
	uint64_t started_ms;
	uint64_t duration_ms;
	uint64_t cpu_us;
	uint64_t peak_bytes;
	uint64_t out_bytes; /* both streams */
};

typedef void (*store_run_fn)(const struct store_run *r, void *user);

/* From now on runs are also recorded when they begin, in a file beside the database ("-runs") that
 * survives a crash of the process. Runs that a dead server left there become history. Servers call
 * this once, before the process gives up its rights. If it fails, runs are recorded only when they
 * end. */
int store_watch_runs(struct store *s, struct err *e) MUST_CHECK;
/* A run begins. R is its row in the history if this server dies before store_note_run(). Returns a
 * ticket for that call, or 0 if there is no slot free. Costs one write into the page cache. */
uint32_t store_run_begin(struct store *s, const struct store_run *r);
/* The run of TICKET (may be 0) did not begin after all. */
void store_run_forget(struct store *s, uint32_t ticket);
/* Queues the row of a run that ended, and adds its CPU time to the usage of its owner today. Neither
 * code nor output is stored. TICKET is from store_run_begin(), or 0. */
void store_note_run(struct store *s, const struct store_run *r, uint32_t ticket);
/* Newest first, at most LIMIT. OWNER and SANDBOX: NULL means all. BEFORE_MS: only runs that began
 * earlier (0 = all). */
int store_run_each(struct store *s, const char *owner, const char *sandbox, uint64_t before_ms,
		   unsigned limit, store_run_fn fn, void *user, struct err *e) MUST_CHECK;
/* CPU time of OWNER in the current UTC day, in microseconds, without rows that are still queued. */
int store_usage_today(struct store *s, const char *owner, uint64_t *ret_cpu_us,
		      struct err *e) MUST_CHECK;
typedef void (*store_usage_fn)(const char *owner, uint64_t cpu_us, void *user);
/* The same of all owners who have some. */
int store_usage_each_today(struct store *s, store_usage_fn fn, void *user,
			   struct err *e) MUST_CHECK;

/* ---- reads on a thread ---- */

/* FN, on a thread: READING is a store from which rows can be read, by all functions of this header that need no more than
 * rows (…_each(), …_get(), store_cells_*()), and that nobody else uses meanwhile. */
typedef void (*store_read_fn)(struct store *reading, void *user);
/* Calls FN on a thread of the pool (base/workers.h), then DONE on the loop, always and exactly once, maybe after the end
 * of the store, and before store_read() returns if there is no pool. Two reads run at once; the others wait without a
 * thread, and those of different WHO take turns. BUDGET_EXCEEDED: as many reads of WHO, or of all, wait as may. On an
 * error neither is called. */
#define STORE_READS_EACH 256u /* of one WHO that wait */
#define STORE_READS_ALL  4096u
int store_read(struct store *s, const char *who, store_read_fn fn, void (*done)(void *user),
	       void *user, struct err *e) MUST_CHECK;

/* ---- sign-ins of browsers ---- */

/* What a browser's cookie stands for: a user who gave the password, or whoever gave a key. */
struct store_signin {
	char id[STORE_ID_SIZE];
	char user[STORE_ID_SIZE]; /* "" = the local user, by the key of the server */
	char key
	    [STORE_KEY_SIZE]; /* id of the key; of the server's key: a digest; "" = by password */
	uint64_t expires_ms;
};
#define STORE_SIGNINS_MAX                                                                          \
	32 /* of one user with a password, or with one key; the oldest gives way */

/* Fills in id. RET (STORE_KEY_SIZE bytes) is what the cookie has, which is stored nowhere. Durable. It ends with
 * the user, the user's password and the key. */
int store_signin_add(struct store *s, struct store_signin *i, char *ret, struct err *e) MUST_CHECK;
/* 1; 0 if it is unknown or has ended. */
int store_signin_find(struct store *s, const char *text, struct store_signin *ret,
		      struct err *e) MUST_CHECK;
int store_signin_get(struct store *s, const char *id, struct store_signin *ret,
		     struct err *e) MUST_CHECK;
/* Ends the one, or all of its user. Durable. */
int store_signin_remove(struct store *s, const struct store_signin *i, bool all,
			struct err *e) MUST_CHECK;

/* ---- audit log ---- */

/* Rows are added; the database refuses every other change, but for the count of a row of what was refused. Rows never
 * contain secrets, code or output. Each class of rows has a bound of its own. Beyond it whoever has most rows of the class
 * loses the oldest one (of the refused ones the oldest goes): nobody displaces rows of others, and what is refused or
 * fails displaces nothing that was done. */
enum store_audit_class {
	STORE_AUDIT_DONE,    /* what somebody did; audit_keep rows */
	STORE_AUDIT_NETWORK, /* connections of sandboxes; audit_keep rows */
	STORE_AUDIT_FAILED, /* requests of known callers that failed, counted; a tenth of audit_keep */
	STORE_AUDIT_REFUSED, /* requests of strangers that failed, counted; a tenth of audit_keep */
	STORE_AUDIT_MAX_,
};

/* What fails is counted: those of one actor, source, action and result that come within a minute of the first are one
 * row. It is the first one's; its count grows within some seconds. There are at most STORE_AUDIT_KINDS such rows a minute
 * of one actor (strangers: of one source), and STORE_AUDIT_KINDS_ALL of each of the two classes. What is beyond that is
 * counted in rows with the action "failed.more" or "refused.more". */
#define STORE_AUDIT_KINDS     16u
#define STORE_AUDIT_KINDS_ALL 192u

struct store_audit {
	uint64_t id; /* growing number, given by the store */
	uint64_t at_ms;
	enum store_audit_class class;
	uint64_t count;                 /* how many requests the row stands for; 0 = 1 */
	char actor[STORE_OWNER_SIZE];   /* user id, "" = the local user */
	char action[STORE_WORD_SIZE];   /* "user.add", "egress.refuse", "sandbox.delete" … */
	char object[STORE_OBJECT_SIZE]; /* id or host that the action was done to */
	char result[STORE_WORD_SIZE];   /* "ok", or the code of the error */
	char detail[STORE_OBJECT_SIZE]; /* one short line; cut if longer */
	char peer[STORE_PEER_SIZE];     /* address of the caller, "" = this process */
	char source[STORE_PEER_SIZE];   /* network of the caller, to count by; not stored */
};

typedef bool (*store_audit_fn)(const struct store_audit *a, void *user);

/* Queues a row, or counts it; at_ms is filled in if it is 0. */
void store_note_audit(struct store *s, const struct store_audit *a);
/* The same for a row of STORE_AUDIT_DONE. Any argument may be NULL. */
void store_audit(struct store *s, const char *actor, const char *action, const char *object,
		 const char *result, const char *detail, const char *peer);
/* SOURCE: the network that refused requests are counted by. */
void store_audit_as(struct store *s, enum store_audit_class class, const char *source,
		    const char *actor, const char *action, const char *object, const char *result,
		    const char *detail, const char *peer);
/* Newest first, at most LIMIT. ACTOR: NULL means everybody. BEFORE_ID: only older rows (0 = all). */
int store_audit_each(struct store *s, const char *actor, uint64_t before_id, unsigned limit,
		     store_audit_fn fn, void *user, struct err *e) MUST_CHECK;

#include "store/store_cells.h"
