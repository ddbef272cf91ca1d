/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives a server: one SQLite file with users, keys, persistent sandboxes, packages, the
 * history of runs and the audit log.
 *
 * Opening. store_open() before the process gives up its rights (the file and its two companions,
 * -wal and -shm, stay open; nothing is opened by name afterwards), store_attach() when there is a
 * loop. Several processes may have the same file open: each call is one short transaction, a writer
 * in another process is waited for at most busy_ms, then the call fails with STORE_BUSY.
 *
 * Cost. Reads and small writes are synchronous, far below a millisecond (no fsync: WAL with
 * synchronous=NORMAL survives SIGKILL whole). What must also survive the loss of power (users,
 * keys, the rows of sandboxes) waits for the disk; these calls are rare and say "durable". What a
 * run or a request leaves behind (store_note_*) is put into a queue that a helper thread writes in
 * batches: no transaction in the hot path. Passwords are hashed by that thread too.
 *
 * Failure. A full disk, one that became read-only, a damaged or vanished file, a lock that stays:
 * STORE_FULL, STORE_READ_ONLY, STORE_FAILED or STORE_BUSY in `e`, never a crash; the store goes on
 * with the next call. Calls that look something up return 1 (found), 0 (there is none, outputs
 * untouched) or a negative errno with `e` set. Others return 0 or a negative errno.
 *
 * Times are milliseconds since 1970 (UTC). Texts passed in are UTF-8, borrowed for the call; those
 * of rows given to a callback are valid during the callback. Callbacks must not write to the store.
 * One thread uses a store (but for the helper inside). store_note_*() and store_audit() of a NULL
 * store do nothing: programs that could do without one need not ask. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct store;

/* Sizes with the NUL. */
#define STORE_ID_SIZE      37  /* UUID text */
#define STORE_OWNER_SIZE   64  /* user id, or "" for the local user */
#define STORE_NAME_SIZE    256 /* of a user, a key, a sandbox, a package */
#define STORE_EMAIL_SIZE   256
#define STORE_IMAGE_SIZE   64
#define STORE_WORD_SIZE    32  /* a status, a reason, an action */
#define STORE_OBJECT_SIZE  128 /* what an action was done to */
#define STORE_PLACE_SIZE   4096
#define STORE_NETWORK_SIZE 8448 /* what a sandbox may reach, as its manager writes it */
#define STORE_PEER_SIZE    64
#define STORE_TEXT_SIZE    2048 /* message of a package's status */
#define STORE_KEY_SIZE     64   /* a key as its user holds it */
#define STORE_HINT_SIZE    16   /* its first characters, for lists */
#define STORE_HASH_SIZE    128  /* an argon2id string */

/* ---- life ------------------------------------------------------------------------------------ */

struct store_config {
	const char *path;    /* of the database; its folder is made when it is missing */
	uint64_t runs_keep;  /* rows of history; 0 = 100,000 */
	uint64_t audit_keep; /* rows of the audit log; 0 = 1,000,000 */
	unsigned busy_ms;    /* longest wait for a writer in another process; 0 = 500 */
	uint64_t pages_max;  /* of 4 KiB, for tests of a full disk; 0 = no limit of ours */
};

/* Opens or makes the file and brings its tables up to date. A file of a newer program version is
 * STORE_FAILED. */
int store_open(const struct store_config *config, struct store **ret, struct err *e) MUST_CHECK;
/* Writes what is queued (at most 2 s), stops the helper, closes. NULL is fine. */
struct store *store_close(struct store *s);
/* LOOP (borrowed until close) brings the answers of store_hash_password() and
 * store_check_password(). */
int store_attach(struct store *s, sd_event *loop) MUST_CHECK;
/* Waits until what was queued before is written, at most 1 s. For readers of the history. */
void store_flush(struct store *s);

/* A secret of this installation by NAME ("jwt", "links"), made at its first need and kept; the
 * same for all servers of one state folder. RET has STORE_SECRET_BYTES. Durable. */
#define STORE_SECRET_BYTES 32
int store_secret(struct store *s, const char *name, uint8_t *ret, struct err *e) MUST_CHECK;

/* Comes from the loop: once when rows of history and audit cannot be written (E says why; they
 * wait, and are tried again each second), and once when they can again (E is NULL). QUEUED rows
 * wait. */
typedef void (*store_trouble_fn)(const struct err *e, uint64_t queued, void *user);
void store_on_trouble(struct store *s, store_trouble_fn fn, void *user);

/* For metrics. */
struct store_counts {
	uint64_t queued;  /* rows that wait for the helper */
	uint64_t written; /* rows it wrote */
	uint64_t lost;    /* rows that found the queue full (a disk that stays full) */
	uint64_t failed;  /* batches that failed; they are tried again */
	uint64_t hashes;  /* passwords hashed */
};
void store_count(struct store *s, struct store_counts *ret);

/* A random (version 4) UUID. RET has STORE_ID_SIZE bytes. */
void store_uuid(char *ret);
uint64_t store_now_ms(void);

/* ---- users ----------------------------------------------------------------------------------- */

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
	int64_t disk_bytes;      /* of all persistent workspaces, by their limits */
	int64_t runs_per_minute; /* starts */
};
#define STORE_QUOTA_DEFAULTS                                                                       \
	((struct store_quota){STORE_QUOTA_DEFAULT, STORE_QUOTA_DEFAULT, STORE_QUOTA_DEFAULT,       \
			      STORE_QUOTA_DEFAULT})

struct store_user {
	char id[STORE_ID_SIZE]; /* also the owner of the user's sandboxes */
	char name[STORE_NAME_SIZE];
	char email[STORE_EMAIL_SIZE]; /* "" = none */
	char hash[STORE_HASH_SIZE];   /* of the password; "" = cannot log in, keys only */
	enum store_role role;
	bool active;
	uint64_t created_ms;
	struct store_quota quota;
};

typedef void (*store_user_fn)(const struct store_user *u, void *user);

/* Adds U (its id and created_ms are filled in). Durable. ALREADY_EXISTS: the name (-EEXIST) or the
 * e-mail (-EALREADY), compared without case, is taken. */
int store_user_add(struct store *s, struct store_user *u, struct err *e) MUST_CHECK;
int store_user_get(struct store *s, const char *id, struct store_user *ret,
		   struct err *e) MUST_CHECK;
/* By name or, where there is no such name, by e-mail; without case. */
int store_user_find(struct store *s, const char *name, struct store_user *ret,
		    struct err *e) MUST_CHECK;
/* Changes role, active, hash, e-mail and quota of the user with U's id. Durable. 1 or 0. */
int store_user_update(struct store *s, const struct store_user *u, struct err *e) MUST_CHECK;
/* Removes the user with all keys; sandboxes are the caller's work. Durable. 1 or 0. */
int store_user_remove(struct store *s, const char *id, struct err *e) MUST_CHECK;
int store_user_each(struct store *s, store_user_fn fn, void *user, struct err *e) MUST_CHECK;
int store_user_count(struct store *s, uint64_t *ret, struct err *e) MUST_CHECK;

/* ---- passwords (argon2id: 64 MiB, one at a time, by the helper) -------------------------------
 */

#define STORE_PASSWORD_MIN 8
#define STORE_PASSWORD_MAX 256
#define STORE_HASHES_MAX   16 /* may wait in one lane; more is RATE_LIMITED */

/* Each lane has its own places and its turn, so that a flood in one shuts nobody out of another. */
enum store_lane {
	STORE_LANE_KNOWN, /* logins of names that logged in before, and what administrators do */
	STORE_LANE_LOGIN, /* other logins */
	STORE_LANE_NEW,   /* registrations */
	STORE_LANE_MAX_,
};

typedef void (*store_hash_fn)(const char *hash, const struct err *e, void *user);
typedef void (*store_check_fn)(const struct store_user *u, const struct err *e, void *user);

/* CB comes later from the loop, exactly once; store_close() calls it with CANCELLED. */
int store_hash_password(struct store *s, const char *password, enum store_lane lane,
			store_hash_fn cb, void *user, struct err *e) MUST_CHECK;
/* CB gets the user, or UNAUTHORIZED; it takes as long for a name that nobody has. */
int store_check_password(struct store *s, const char *name, const char *password,
			 enum store_lane lane, store_check_fn cb, void *user,
			 struct err *e) MUST_CHECK;
/* At once, for the command line. RET has STORE_HASH_SIZE bytes. */
int store_hash_now(const char *password, char *ret, struct err *e) MUST_CHECK;

/* ---- keys -------------------------------------------------------------------------------------
 */

enum store_scope {
	STORE_SCOPE_FULL,  /* whatever the user may */
	STORE_SCOPE_READ,  /* look, but change and run nothing */
	STORE_SCOPE_ADMIN, /* FULL, and users, keys and audit where the user is an administrator */
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
	char profile[STORE_WORD_SIZE]; /* only this profile's tools; "" = the server's */
	uint64_t created_ms;
	uint64_t expires_ms; /* 0 = never */
	uint64_t used_ms;    /* 0 = not yet; a minute is its precision */
};

typedef void (*store_key_fn)(const struct store_key *k, void *user);

#define STORE_KEYS_MAX 256 /* of one user; expired ones do not count */

/* Makes a key for K->user, which has STORE_KEYS_MAX at most (QUOTA_EXCEEDED); id, hint and created_ms are filled in, RET (STORE_KEY_SIZE bytes) is the
 * key itself, which is kept nowhere. Durable. NOT_FOUND: no such user. */
int store_key_add(struct store *s, struct store_key *k, char *ret, struct err *e) MUST_CHECK;
/* The key TEXT and its user; 0 when it is unknown, expired or revoked, or its user not active. */
int store_key_check(struct store *s, const char *text, struct store_key *ret_key,
		    struct store_user *ret_user, struct err *e) MUST_CHECK;
/* The key with that ID and its user; 0 as above. Does not count as a use. */
int store_key_get(struct store *s, const char *id, struct store_key *ret_key,
		  struct store_user *ret_user, struct err *e) MUST_CHECK;
/* Grows whenever a credential may have ended or lost rights: a key was removed or narrowed, a user
 * removed, deactivated or given another role or password, here or in another process. One read. */
int store_credentials_epoch(struct store *s, uint64_t *ret, struct err *e) MUST_CHECK;
/* Removes key ID, of USER when that is not NULL. Durable: it never comes back. 1 or 0. */
int store_key_revoke(struct store *s, const char *user, const char *id, struct err *e) MUST_CHECK;
/* Removes all keys of USER with this NAME. Durable. */
int store_key_revoke_named(struct store *s, const char *user, const char *name,
			   struct err *e) MUST_CHECK;
/* Of USER, or of all (NULL). */
int store_key_each(struct store *s, const char *user, store_key_fn fn, void *arg,
		   struct err *e) MUST_CHECK;

/* ---- invitations ------------------------------------------------------------------------------
 */

/* With one of these, one person makes an account, once, before it expires. */
struct store_invitation {
	char id[STORE_ID_SIZE];
	enum store_role role;       /* of the account */
	char note[STORE_NAME_SIZE]; /* for whom */
	uint64_t created_ms;
	uint64_t expires_ms;
};

typedef void (*store_invitation_fn)(const struct store_invitation *i, void *user);

#define STORE_INVITATIONS_MAX 1000 /* that have neither been used nor expired */

/* id and created_ms are filled in; RET (STORE_KEY_SIZE bytes) is the invitation itself, which is
 * kept nowhere. Durable. QUOTA_EXCEEDED: there are too many. */
int store_invitation_add(struct store *s, struct store_invitation *i, char *ret,
			 struct err *e) MUST_CHECK;
/* 0: unknown, used, withdrawn or expired. */
int store_invitation_find(struct store *s, const char *text, struct store_invitation *ret,
			  struct err *e) MUST_CHECK;
int store_invitation_each(struct store *s, store_invitation_fn fn, void *user,
			  struct err *e) MUST_CHECK;
/* Durable. 1 or 0. */
int store_invitation_remove(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* store_user_add() with the role of the invitation TEXT, which is used up by it: both or neither.
 * FORBIDDEN (-EACCES) when it is no good. */
int store_user_join(struct store *s, struct store_user *u, const char *text,
		    struct err *e) MUST_CHECK;

/* ---- persistent sandboxes ----------------------------------------------------------------------
 */

struct store_sandbox {
	char id[STORE_ID_SIZE]; /* UUID; "" when adding: one is made */
	char owner[STORE_OWNER_SIZE];
	char name[STORE_NAME_SIZE]; /* not unique */
	char image[STORE_IMAGE_SIZE];
	char persist[STORE_WORD_SIZE + STORE_ID_SIZE]; /* the engine's name of its workspace */
	uint64_t disk_bytes;                           /* its workspace's limit */
	uint64_t created_ms;
	uint64_t used_ms;
	char network[STORE_NETWORK_SIZE]; /* what was chosen for it; "" = nothing */
	char place[STORE_PLACE_SIZE];     /* folder of its terminal; "" = where each begins */
};

typedef void (*store_sandbox_fn)(const struct store_sandbox *b, void *user);

/* What may be there, the new one included; 0 = no limit. Bytes are those of the workspaces' limits.
 */
struct store_room {
	uint64_t owner_count;
	uint64_t owner_bytes;
	uint64_t all_bytes;
};

/* Adds B, or QUOTA_EXCEEDED when ROOM has none for it: decided in one transaction, also among
 * several servers. An empty name becomes "Sandbox N". id, created_ms and used_ms are filled in
 * where 0. Durable. */
int store_sandbox_add(struct store *s, struct store_sandbox *b, const struct store_room *room,
		      struct err *e) MUST_CHECK;
/* Bytes of all workspaces, by their limits. */
int store_sandbox_bytes(struct store *s, uint64_t *ret, struct err *e) MUST_CHECK;
/* OWNER NULL: whoever's. A foreign one is as one that does not exist. */
int store_sandbox_get(struct store *s, const char *owner, const char *id, struct store_sandbox *ret,
		      struct err *e) MUST_CHECK;
/* Changes the place of the row with that id, if there is one. In the file when it returns, on the
 * disk soon. */
int store_sandbox_set_place(struct store *s, const char *id, const char *place,
			    struct err *e) MUST_CHECK;
/* With its packages. Durable. 1 or 0. */
int store_sandbox_remove(struct store *s, const char *id, struct err *e) MUST_CHECK;
/* By creation; OWNER NULL: everybody's. */
int store_sandbox_each(struct store *s, const char *owner, store_sandbox_fn fn, void *user,
		       struct err *e) MUST_CHECK;
int store_sandbox_count(struct store *s, const char *owner, uint64_t *ret,
			struct err *e) MUST_CHECK;
/* Queued: sets used_ms to now. */
void store_note_use(struct store *s, const char *sandbox);

/* ---- packages of a sandbox ----------------------------------------------------------------------
 */

struct store_package {
	char name[STORE_NAME_SIZE];    /* as it was asked for, or normalised: the caller's choice */
	char version[STORE_WORD_SIZE]; /* "" = not known */
	char status[STORE_WORD_SIZE];  /* "installing", "success", "failed" … */
	char text[STORE_TEXT_SIZE];    /* message or stderr; longer ones are cut */
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

/* ---- history of runs, usage ------------------------------------------------------------------ */

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

/* From now on runs that begin are noted where the end of the whole process leaves them (a file
 * beside the database, "-runs"), and those that an earlier server left there become history. For
 * servers, once, before the process gives up its rights. Refused, runs are noted at their end
 * alone.
 */
int store_watch_runs(struct store *s, struct err *e) MUST_CHECK;
/* R begins: it is the row that it will have if this server never notes its end. A number for that,
 * 0 when there is no place for it. One write into the page cache. */
uint32_t store_run_begin(struct store *s, const struct store_run *r);
/* It did not begin after all. 0 is fine. */
void store_run_forget(struct store *s, uint32_t ticket);
/* Queued; adds the CPU time to the day's usage of its owner too. Neither code nor output is kept.
 * TICKET is of store_run_begin(), or 0. */
void store_note_run(struct store *s, const struct store_run *r, uint32_t ticket);
/* Newest first, at most LIMIT; OWNER and SANDBOX NULL: all; BEFORE: only those that began earlier
 * (0 = all). */
int store_run_each(struct store *s, const char *owner, const char *sandbox, uint64_t before_ms,
		   unsigned limit, store_run_fn fn, void *user, struct err *e) MUST_CHECK;
/* CPU of OWNER in the UTC day of now, in microseconds; what is queued still lacks. */
int store_usage_today(struct store *s, const char *owner, uint64_t *ret_cpu_us,
		      struct err *e) MUST_CHECK;

/* ---- audit log ------------------------------------------------------------------------------- */

/* Rows are added and, beyond audit_keep, the oldest dropped; the database refuses every other
 * change. Never secrets, code or output. */
struct store_audit {
	uint64_t id; /* grows; given by the store */
	uint64_t at_ms;
	char actor[STORE_OWNER_SIZE];   /* user id, "" = the local user */
	char action[STORE_WORD_SIZE];   /* "user.add", "egress.refuse", "sandbox.delete" … */
	char object[STORE_OBJECT_SIZE]; /* id or host it was done to */
	char result[STORE_WORD_SIZE];   /* "ok", or the code of the error */
	char detail[STORE_OBJECT_SIZE]; /* one short line; cut when longer */
	char peer[STORE_PEER_SIZE];     /* address of the caller, "" = this process */
};

typedef void (*store_audit_fn)(const struct store_audit *a, void *user);

/* Queued; at_ms is filled in where 0. Any argument may be NULL. */
void store_note_audit(struct store *s, const struct store_audit *a);
void store_audit(struct store *s, const char *actor, const char *action, const char *object,
		 const char *result, const char *detail, const char *peer);
/* Newest first, at most LIMIT; ACTOR NULL: everybody's; BEFORE_ID: only older rows (0 = all). */
int store_audit_each(struct store *s, const char *actor, uint64_t before_id, unsigned limit,
		     store_audit_fn fn, void *user, struct err *e) MUST_CHECK;
