/* SPDX-License-Identifier: Apache-2.0 */
/* The manager keeps the table of sandboxes: their owners, their lifetimes, their runs and the files
 * that runs make. It works with every engine and knows neither MCP nor HTTP.
 *
 * The key of a sandbox is (owner, id). Two owners may use the same id and never see each other's sandbox. The owner is an
 * opaque name from the code that authenticated the caller; "" is the local user.
 *
 * There are two classes. A *session* is made at its first use and ends with the server. A *stored*
 * sandbox is made by an explicit call, has a name, and lives until it is deleted: its record and its
 * files outlive the server. A stored sandbox is active (has processes) from its first use until it has been idle for some
 * time. Both share one space of ids, and every call below works on both.
 *
 * There is one event loop and no blocking call. A call that takes a callback calls it exactly once, and never before the call has
 * returned. Strings that are passed in are borrowed for the duration of the call. */
#pragma once

#include "base/buf.h"
#include "budget/budgets.h"
#include "egress/egress.h"
#include "engine/engine.h"
#include "sandbox/language.h"
#include "sandbox/run_output.h"
#include "sandbox/run_undone.h"
#include "sandbox/sandbox_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fleet_member;
struct manager;
struct moving_records;
struct run;
struct sandbox;
struct shown;

#define SANDBOX_ID_MAX         64 /* [A-Za-z0-9_-]{1,64} */
#define SANDBOX_OWNER_MAX      63
#define RUN_ID_SIZE            32 /* "run_20260301T101500Z_9be1" and NUL */
#define SANDBOX_RUN_NO_TIMEOUT UINT64_MAX
#define SANDBOX_QUEUE_MAX      32   /* runs that wait for one sandbox */
#define SANDBOX_PLACE_MAX      4096 /* bytes of sandbox_place(), NUL included */

/* ---- what a sandbox may reach ---- */

#define SANDBOX_HOSTS_MAX  32u /* hosts and blocks in the list that a sandbox is created with */
#define SANDBOX_DENIED_MAX 32u /* blocks that are denied */
#define SANDBOX_CHOICE_SIZE                                                                        \
	(16 + SANDBOX_HOSTS_MAX * EGRESS_RULE_SIZE + SANDBOX_DENIED_MAX * (EGRESS_GUARD_SIZE + 1))

/* The network that the creator of a sandbox chose. "" means the operator's policy. Otherwise it is the name of a kind, or "default";
 * the entries follow, each after a blank. Only manager_choose_network() makes one. It is checked again at each activation, and hosts
 * that the operator no longer permits are left out. */
struct sandbox_choice {
	char text[SANDBOX_CHOICE_SIZE];
};
typedef void (*sandbox_host_fn)(const char *host, void *user);

/* ---- records of stored sandboxes ---- */

struct sandbox_record {
	char id[SANDBOX_ID_MAX + 1];  /* a UUID in small letters, or that of the session it was */
	char key[SANDBOX_ID_MAX + 1]; /* the engine's, of its files */
	char owner[SANDBOX_OWNER_MAX + 1];
	char name[SANDBOX_NAME_MAX + 1];
	char image[ENGINE_NAME_MAX];
	struct sandbox_choice network;
	char place[SANDBOX_PLACE_MAX];          /* sandbox_place(); "" = none */
	char options[SANDBOX_OPTIONS_TEXT_MAX]; /* sandbox_options_text(), but its environment */
	uint64_t disk_bytes;                    /* limit of its files; 0 = the operator's */
	uint64_t created_ms;                    /* since 1970 */
	uint64_t runs;                          /* that it has had; the newest may be missing */
};
typedef void (*sandbox_done_fn)(const struct err *e, void *user);
typedef void (*sandbox_record_fn)(const struct sandbox_record *r, void *arg);

/* How the records of stored sandboxes are kept; the caller of manager_new() supplies the functions. What add(), remove() and
 * change() write is on the disk after settle(). */
struct sandbox_records {
	/* Sets id (unless there is one), key, created_ms, and the name "Sandbox N" if it has none. QUOTA_EXCEEDED if the
	 * owner has OWNER_MAX sandboxes already (0 = no limit); clients see the error's text. ENV: as env() appends it. */
	int (*add)(void *user, struct sandbox_record *r, const char *env, uint64_t owner_max,
		   struct err *e);
	/* 1; 0: OWNER (NULL: anybody) has no record with that id; or a negative errno. */
	int (*get)(void *user, const char *owner, const char *id, struct sandbox_record *ret,
		   struct err *e);
	int (*remove)(void *user, const char *id, struct err *e);
	/* Appends the text of its environment. May be NULL: there is none. */
	int (*env)(void *user, const char *id, struct buf *ret, struct err *e);
	/* Replaces name, options and environment. */
	int (*change)(void *user, const char *id, const char *name, const char *options,
		      const char *env, struct err *e);
	/* Oldest first. OWNER NULL: the records of all owners. */
	int (*each)(void *user, const char *owner, sandbox_record_fn fn, void *arg, struct err *e);
	/* 0: CB is called when all changes are on the disk; 1: they are there. May be NULL: 1. */
	int (*settle)(void *user, sandbox_done_fn cb, void *arg, struct err *e);
	void (*note_use)(void *user, const char *id); /* may be NULL */
	void (*note_run)(void *user, const char *id); /* one more run; may be NULL */
	/* Stores PLACE ("" = none) in the record; a failure is ignored. May be NULL. */
	void (*note_place)(void *user, const char *id, const char *place);
	const struct moving_records *moving; /* moving.h; NULL: none of them moves */
	void *user;
};

/* The most that a creator may choose. A maximum below what a sandbox without options gets is raised to that. */
struct sandbox_maxima {
	uint64_t memory_bytes;
	uint64_t workspace_bytes;
	uint64_t ttl_ns;
	uint32_t cpu_milli;
	uint32_t pids;
	/* Images besides the server's: names between commas or blanks, "*" = any. Borrowed; NULL = none. */
	const char *images;
	const struct engine_levels
	    *levels; /* of isolation. Borrowed; NULL = no client chooses one */
	bool root;   /* a sandbox may have a root user */
};

/* ---- manager --------------------------------------------------------------------------------- */

struct manager_stored { /* for stored sandboxes; manager_config has the values for sessions */
	const struct sandbox_records *records; /* borrowed; NULL = there are none */
	char image[ENGINE_NAME_MAX];
	struct engine_limits limits;
	uint64_t run_timeout_ns; /* 0 = none */
	uint64_t output_max;     /* bytes kept of each stream of a run */
	uint64_t idle_ns;        /* after this idle time its processes end; its files stay */
	unsigned max_active;     /* at this number the one that was idle longest is deactivated */
	unsigned owner_max;      /* sandboxes of one owner, active or not; 0 = no limit */
	bool strict_ids;         /* an unknown UUID is an error and does not make a session */
	bool variables;          /* they stay when a sandbox comes to rest (rest.h) */
};

/* The package index that programs in a sandbox may use directly, if the sandbox's network policy
 * permits its host. */
struct sandbox_index {
	const char *host; /* "" = there is none */
	uint16_t port;
	const char *const *env; /* variables for these programs: NAME=VALUE, NULL after the last */
};

struct manager_config {
	sd_event *loop; /* borrowed */
	/* Opens the engine when it is first needed. If it fails, the next need calls it again. */
	int (*open_engine)(void *user, struct engine **ret, struct err *e);
	/* Waits for an image that is missing. 0: CB is called once, later; without an error it is there. NULL: none. */
	int (*want_image)(void *user, const char *image, sandbox_done_fn cb, void *arg,
			  struct err *e);
	void *user;
	char image[ENGINE_NAME_MAX];
	struct engine_limits limits;
	bool warm;
	uint64_t run_timeout_ns;     /* 0 = none */
	uint64_t run_timeout_max_ns; /* the longest that a run may ask for; 0 = any */
	uint64_t grace_ns;
	uint64_t ttl_ns;
	uint64_t keep_ns; /* the same for sessions that hold something; less than TTL_NS = TTL_NS */
	uint64_t sweep_ns;
	uint64_t output_max;  /* bytes kept of each stream of a run */
	uint64_t output_stop; /* a stream that passes it ends the run (RUN_OUTPUT_LIMIT); 0 = no */
	uint64_t whole_output_max; /* bytes of a stream that are kept as a file; 0 = none */
	unsigned max_sandboxes;    /* sessions */
	unsigned parallel_runs;    /* of a sandbox, beside the one that is on */
	bool give_up_empty;        /* at this number, end an empty session of the caller */
	struct sandbox_maxima maxima;
	struct budgets *budgets; /* borrowed; NULL: each user may have all of them */
	struct manager_stored stored;
	/* The proxy, and the hosts that sandboxes may reach. NULL, or a policy of kind none: nothing. Both borrowed. */
	struct egress *egress;
	struct egress_policy *network;
	/* The kinds that the creator of a sandbox may choose instead; NULL: this kind is not permitted. For the allowlist: the
	 * widest list. EGRESS_NONE is always permitted. Borrowed. */
	struct egress_policy *network_may[EGRESS_KINDS];
	struct sandbox_index index; /* strings borrowed */
	/* Every sandbox gets a gate, so that hosts can be allowed later (sandbox_allow_domain()). */
	bool network_ask;
	bool public_ports;                /* owners may choose SANDBOX_OPTION_PUBLIC */
	uint64_t (*now)(void);            /* monotonic ns; NULL: now_ns() */
	const struct fleet_member *fleet; /* of a worker: ids name it; borrowed */
};

int manager_new(const struct manager_config *config, struct manager **ret,
		struct err *e) MUST_CHECK;
/* Ends all sandboxes and the engine. Outstanding callbacks are called from inside. NULL is accepted. */
struct manager *manager_free(struct manager *m);

/* Opens the engine now. LIMIT_NOT_ENFORCEABLE if a limit was set explicitly and this machine cannot enforce it. */
int manager_start(struct manager *m, struct err *e) MUST_CHECK;
/* For engine_on_end() of the engine that is open or will be. */
void manager_on_engine_lost(struct manager *m, engine_end_fn cb, void *user);
/* The open engine, or NULL. */
struct engine *manager_engine(struct manager *m);

/* Closes sandboxes that were idle longer than they may; busy ones later. The manager's own timer calls this. */
void manager_sweep(struct manager *m);
unsigned manager_count(const struct manager *m);
/* Places for sandboxes that are not stored ones: how many are taken. RET_MAX: how many there are. */
unsigned manager_places(const struct manager *m, unsigned *ret_max);
const char *manager_image(const struct manager *m); /* of sandboxes that choose none */
/* All 0 before the engine is open, and if the engine has no pool. */
void manager_pool(const struct manager *m, struct engine_pool *ret);
/* engine_space(); all 0 while there is no engine. */
void manager_space(const struct manager *m, struct engine_space *ret);

typedef void (*sandbox_fn)(struct sandbox *s, const struct err *e, void *user);

/* The sandbox ID of OWNER. If it is a session or an active sandbox, that one; if it is stored, it
 * becomes active; otherwise a new session is made. ID NULL makes a session with a new id. Two first
 * calls with the same id share one creation. CB gets a borrowed sandbox and takes a reference to
 * keep it. Errors: MAX_SESSIONS, SANDBOX_IN_USE (another server uses it), and the engine's errors. */
void manager_open(struct manager *m, const char *owner, const char *id, sandbox_fn cb, void *user);
/* The same, but an unknown id is SESSION_NOT_FOUND. */
void manager_activate(struct manager *m, const char *owner, const char *id, sandbox_fn cb,
		      void *user);
/* Makes a network choice. KIND is a name from egress_kind_name(); NULL: the operator's policy. An entry is a host as in
 * egress_policy_add(), or `!BLOCK`. "allowlist": what they name can be reached, without any nothing; its denials change nothing. Another
 * kind takes blocks alone, as egress_policy_guard(), and "none" nothing. NETWORK_NOT_PERMITTED: wider than the operator permits. */
int manager_choose_network(const struct manager *m, const char *kind, const char *const *entries,
			   size_t n, struct sandbox_choice *ret, struct err *e) MUST_CHECK;
bool sandbox_choice_is_closed(
    const struct sandbox_choice *network); /* denies all but its entries */
/* INVALID_ARGUMENT: ROOT, but S, which is ready, has no root user. */
int sandbox_check_root(const struct sandbox *s, bool root, struct err *e) MUST_CHECK;
/* The most that the operator permits for an option with a number, in its unit. */
int64_t manager_option_max(const struct manager *m, enum sandbox_option x);
/* INVALID_ARGUMENT, FORBIDDEN or LEVEL_UNAVAILABLE, with the member, if O is more than the operator permits. */
int manager_check_options(const struct manager *m, const struct sandbox_options *o,
			  struct err *e) MUST_CHECK;
/* A new session with that network choice and those options (NULL: none). ID NULL: a new id. ALREADY_EXISTS if OWNER has a sandbox ID.
 * Errors of manager_check_options(). */
void manager_open_new(struct manager *m, const char *owner, const char *id,
		      const struct sandbox_choice *network, const struct sandbox_options *options,
		      sandbox_fn cb, void *user);
/* A new stored sandbox, active. NAME NULL or "": that of the options, else the records make up a name. NETWORK NULL: the operator's
 * policy. OPTIONS NULL: none. QUOTA_EXCEEDED if the owner has owner_max of them. Errors of manager_check_options(). */
void manager_create(struct manager *m, const char *owner, const char *name,
		    const struct sandbox_choice *network, const struct sandbox_options *options,
		    sandbox_fn cb, void *user);
/* Changes a session or a stored sandbox, active or not. The options are as sandbox_options_read() makes them
 * for a change. 0: done. 1: CB is called once, perhaps already. < 0: E is set. After an error, here or to CB,
 * nothing has changed, unless E says that it may be lost. New limits hold at once, also for a run that goes on;
 * everything else from the next run on. Errors of engine_change(). */
int manager_change(struct manager *m, const char *owner, const char *id,
		   const struct sandbox_options *change, sandbox_done_fn cb, void *user,
		   struct err *e) MUST_CHECK;
int sandbox_change(struct sandbox *s, const struct sandbox_options *change, sandbox_done_fn cb,
		   void *user, struct err *e) MUST_CHECK;
/* The limits of a stored sandbox with those options that is not active. */
struct sandbox_limits {
	struct engine_limits engine;
	uint64_t timeout_ns; /* of a run; 0 = none */
	uint64_t ttl_ns;
};
void manager_stored_limits(const struct manager *m, const struct sandbox_options *o,
			   struct sandbox_limits *ret);
/* The options of a stored sandbox, with its environment. RET is to be freed with sandbox_options_done(). */
int manager_stored_options(struct manager *m, const struct sandbox_record *record,
			   struct sandbox_options *ret, struct err *e) MUST_CHECK;
/* The name of the kind that is in force for a choice. FN (may be NULL) is called for each entry that was chosen. */
const char *manager_network(const struct manager *m, const struct sandbox_choice *network,
			    sandbox_host_fn fn, void *user);
/* Ends sandbox ID of OWNER, active or not, and deletes its files and its record. SESSION_BUSY while
 * it has a run or is being made, unless FORCE: then it goes as soon as it is made. CB may be NULL. */
int manager_delete(struct manager *m, const char *owner, const char *id, bool force,
		   sandbox_done_fn cb, void *user, struct err *e) MUST_CHECK;
/* Calls FN for each stored sandbox of OWNER (NULL: of all owners), oldest first, active or not. */
int manager_each_stored(struct manager *m, const char *owner, sandbox_record_fn fn, void *arg,
			struct err *e) MUST_CHECK;
/* 1 and the record (RET may be NULL), 0, or a negative errno. */
int manager_get_stored(struct manager *m, const char *owner, const char *id,
		       struct sandbox_record *ret, struct err *e) MUST_CHECK;
/* Why a session ended. */
enum sandbox_end_why {
	SANDBOX_END_NONE, /* there was no such session, or it is forgotten */
	SANDBOX_END_DELETED,
	SANDBOX_END_UNUSED,
	SANDBOX_END_LOST,
	SANDBOX_END_ROOM, /* it held nothing, and another one needed the room */
};
struct sandbox_end {
	enum sandbox_end_why why;
	uint64_t ago_ns;
};
struct sandbox_end manager_ended(const struct manager *m, const char *owner, const char *id);
/* Appends "was deleted, 5 min ago". */
int sandbox_end_add(struct buf *b, const struct sandbox_end *end) MUST_CHECK;
/* SESSION_NOT_FOUND with a text that says whether the session ID has ended, or never was. Not for the exact
 * tools, whose texts are contracts. */
int manager_no_session(const struct manager *m, const char *owner, const char *id, struct err *e);
/* The session or active sandbox, borrowed. It may be one that has ended on its own: the next call
 * on it says SANDBOX_LOST. NULL if there is none, if it is still being created, or if it is stored
 * and not active. */
struct sandbox *manager_find(struct manager *m, const char *owner, const char *id);
/* Calls FN for each ready sandbox of OWNER (NULL: of all). FN must not close sandboxes. */
void manager_each(struct manager *m, const char *owner, void (*fn)(struct sandbox *s, void *user),
		  void *user);

/* OWNER is being removed: from now on no sandbox is made for this owner (UNAUTHORIZED), and those that are being
 * made end as soon as they can. Ready ones are deleted by the caller. REOPEN: the removal has failed. */
int manager_close_owner(struct manager *m, const char *owner, struct err *e) MUST_CHECK;
void manager_reopen_owner(struct manager *m, const char *owner);

/* Calls FN after a sandbox was made, ended, or changed its files. PATH is the file that changed or has gone, a folder
 * with all that was below it, or "" if it could be any file. RESULT is that of a run that changed some. Both are NULL
 * if only the sandbox has changed. There is one watcher; NULL removes it. FN must not close sandboxes. */
struct run_result;
typedef void (*sandbox_watch_fn)(struct sandbox *s, const char *path,
				 const struct run_result *result, void *user);
void manager_watch(struct manager *m, sandbox_watch_fn fn, void *user);

/* An observer sees what happens to all sandboxes: for people who watch, and for their history. It must not start
 * or end anything. Runs that are programs of the server (run_request.own) are not shown to it. */
enum sandbox_news {
	SANDBOX_MADE,    /* also a stored one that became active */
	SANDBOX_CHANGED, /* its options */
	SANDBOX_FILES,   /* NAME: the file that changed; NULL if it could be any */
	SANDBOX_ENDED,   /* or deactivated */
	SANDBOX_REMOVED, /* a stored one, with its record: S is NULL */
	SANDBOX_CHECKPOINT_MADE,
	SANDBOX_CHECKPOINT_RESTORED,
	SANDBOX_CHECKPOINT_REMOVED,
};
struct run_request;
struct manager_observer {
	/* R was admitted: it executes, or waits in the queue (WAITS). The texts of Q are valid during the call.
	 * Returns what the other functions about runs get as SEEN; NULL: they are not called. */
	void *(*run)(void *user, struct run *r, const struct run_request *q, bool waits);
	void (*run_starts)(void *seen); /* it waited */
	void (*run_output)(void *seen, enum engine_stream stream, const void *data, size_t len);
	/* Its INDEX-th record (shown.h) stands behind the output so far; ENDS: the text of that one ends here. */
	void (*run_shown)(void *seen, unsigned index, bool ends);
	/* RESULT or E, as for on_done, and before it; SEEN is not used afterwards. */
	void (*run_ends)(void *seen, const struct run_result *result, const struct err *e);
	void (*news)(void *user, const char *owner, const char *id, struct sandbox *s,
		     enum sandbox_news what, const char *name);
	void *user;
};
void manager_set_observer(struct manager *m, const struct manager_observer *observer); /* copied */

/* Accounting (api/auth/accounting.h): admits runs and records their cost. It must not start or end anything. */
struct manager_accounting {
	/* Called before each run: 0, or an error that refuses it (QUOTA_EXCEEDED …). May be NULL. */
	int (*admit)(void *user, const struct sandbox *s, struct err *e);
	/* RUN is about to be executed. Returns a ticket, which note() gets. May be NULL. */
	uint32_t (*begin)(void *user, const struct sandbox *s, enum engine_run_kind kind,
			  const char *run);
	/* The end of a run. TICKET is 0 if the run was cancelled before begin(). RESULT is NULL if
	 * begin() was called and the engine could not start the run. May be NULL. */
	void (*note)(void *user, const struct sandbox *s, enum engine_run_kind kind,
		     uint32_t ticket, const struct run_result *result);
	/* Work for the sandbox that is no run: may it begin (as admit), and what did it cost? Both may be NULL. */
	int (*admit_work)(void *user, const struct sandbox *s, struct err *e);
	void (*note_work)(void *user, const struct sandbox *s, const char *kind,
			  uint64_t duration_ns, uint64_t cpu_ns);
	void *user;
};
void manager_set_accounting(struct manager *m, const struct manager_accounting *a); /* copied */

/* ---- one sandbox ----------------------------------------------------------------------------- */

struct sandbox *sandbox_ref(struct sandbox *s);
struct sandbox *sandbox_unref(struct sandbox *s); /* NULL is accepted; returns NULL */
const char *sandbox_id(const struct sandbox *s);
const char *sandbox_owner(const struct sandbox *s);
/* The current folder of its terminal, or NULL: the start folder. Kept for the life of the sandbox; for a stored one
 * beyond the server's. The path comes from code in the sandbox and must not be used outside it. */
const char *sandbox_place(const struct sandbox *s);
/* True once for each sandbox: the caller is about to tell that it has no network, or how long it is kept. */
bool sandbox_first_offline(struct sandbox *s);
bool sandbox_first_kept(struct sandbox *s);
/* How an earlier session of this id ended, when this one was made. */
const struct sandbox_end *sandbox_earlier(const struct sandbox *s);
/* PATH (shorter than SANDBOX_PLACE_MAX) is copied; NULL: none. */
int sandbox_set_place(struct sandbox *s, const char *path) MUST_CHECK;
bool sandbox_is_stored(const struct sandbox *s);
const char *sandbox_name(const struct sandbox *s); /* "" = it has none; names are not unique */
/* May it have variables or packages? */
bool sandbox_keeps(const struct sandbox *s);
/* Runs since it was made; those of a stored one also before it became active. Programs of the server do not count. */
uint64_t sandbox_runs(const struct sandbox *s);
/* Id of the run that ended last, "" = none; programs of the server do not count. */
const char *sandbox_last_run(const struct sandbox *s);
/* What it was made with, and was changed to since. */
const struct sandbox_options *sandbox_options(const struct sandbox *s);
/* After this idle time a session is closed, and a stored sandbox deactivated. */
uint64_t sandbox_ttl_ns(const struct sandbox *s);
/* The folder in which its runs start; NULL: the workspace. */
const char *sandbox_workdir(const struct sandbox *s);
/* Whether S has less than its limit of bytes for want of space on the host: ENOSPC is not its own fault then. */
bool sandbox_is_rationed(const struct sandbox *s);
/* Whether it can write no new data for that reason. */
bool sandbox_is_stopped(const struct sandbox *s);
bool sandbox_is_busy(const struct sandbox *s); /* a run, or a call of checkpoints.h */
/* The defaults for each run, which depend on the sandbox's class. */
uint64_t sandbox_run_timeout_ns(const struct sandbox *s);
uint64_t sandbox_output_max(const struct sandbox *s); /* bytes kept of each stream of a run */
/* The longest time limit that a run may request; never less than the default limits. 0 = any. A
 * request for more is INVALID_ARGUMENT. */
uint64_t manager_run_timeout_max_ns(const struct manager *m);
uint64_t sandbox_age_ns(const struct sandbox *s);
/* By the manager's clock. Tells a sandbox from an earlier one with the same owner and id. */
uint64_t sandbox_created_ns(const struct sandbox *s);
uint64_t sandbox_idle_ns(const struct sandbox *s);
const struct engine_policy *sandbox_policy(const struct sandbox *s);
/* The name of its network's kind (egress_kind_name()); "none" if it has no gate. */
const char *sandbox_network(const struct sandbox *s);
const struct sandbox_choice *sandbox_choice(const struct sandbox *s); /* that it was made with */
/* Allows one more host, until the sandbox ends or a stored one is deactivated. The operator's policy
 * does not change. DOMAIN comes from egress_entry_parse(). FORBIDDEN: the sandbox has no gate, or
 * config.network_ask is off. ALREADY_EXISTS: -EEXIST if the host is allowed already, -ENOTSUP if
 * every public host is. QUOTA_EXCEEDED. sandbox_check_domain() makes the checks only. */
int sandbox_check_domain(const struct sandbox *s, const char *domain, struct err *e) MUST_CHECK;
int sandbox_allow_domain(struct sandbox *s, const char *domain, struct err *e) MUST_CHECK;
/* Another choice of network for a sandbox that lives, in place of the one it was made with and of hosts that were allowed since.
 * Connections that the new one does not permit end. FORBIDDEN: the sandbox was made without a way out, and gets none. */
int sandbox_change_network(struct sandbox *s, const struct sandbox_choice *choice,
			   struct err *e) MUST_CHECK;
#define SANDBOX_DOMAINS_MAX 16u
size_t sandbox_n_domains(const struct sandbox *s);
const char *sandbox_domain(const struct sandbox *s, size_t i); /* i < sandbox_n_domains() */
const char *sandbox_image(const struct sandbox *s);            /* that it was made from */
/* The engine's handle, to start a helper sandbox for this one. NULL with E set if the sandbox cannot
 * be used. Restarts the idle clock. */
struct engine_sandbox *sandbox_engine(struct sandbox *s, struct err *e);
void sandbox_touch(struct sandbox *s); /* restarts the idle clock */

/* Ends the sandbox and removes its files, and the record of a stored one. SESSION_BUSY while it has
 * a run, unless FORCE. Its id is free from this call on. CB may be NULL. */
int sandbox_close(struct sandbox *s, bool force, sandbox_done_fn cb, void *user, struct err *e);
/* For a call that made S and failed: ends S if nothing ran in it and it has no files. CB is called once. */
void sandbox_undo(struct sandbox *s, void (*cb)(void *user), void *user);

int sandbox_get_usage(struct sandbox *s, engine_usage_fn cb, void *user, struct err *e) MUST_CHECK;

/* What it used over time, for people who watch. A sample is taken when somebody asks and the last one is older than
 * SANDBOX_SAMPLE_NS, so any number of watchers costs one measurement of each sandbox in that time. */
#define SANDBOX_SAMPLE_NS (2 * UINT64_C(1000000000))
#define SANDBOX_SAMPLES   240u
struct sandbox_sample {
	uint64_t at_ms; /* since 1970 */
	uint64_t memory_bytes;
	uint64_t cpu_ns; /* since it was made */
	uint64_t disk_bytes;
	uint32_t pids;
};
typedef void (*sandbox_sample_fn)(const struct sandbox_sample *newest, const struct err *e,
				  void *user); /* either NEWEST or E is NULL */
/* Calls CB once, maybe before it returns. It does not restart the idle clock. */
void sandbox_watch_usage(struct sandbox *s, sandbox_sample_fn cb, void *user);
/* The sample I, oldest first; NULL: there are not so many. */
const struct sandbox_sample *sandbox_sample(const struct sandbox *s, size_t i);

/* ---- runs ------------------------------------------------------------------------------------ */

enum run_reason {
	RUN_EXITED,
	RUN_SIGNALED,
	RUN_TIMEOUT,
	RUN_OOM,
	RUN_OUTPUT_LIMIT, /* wrote more than output_stop */
	RUN_DISK_LIMIT,   /* its files passed a limit that no file system enforces */
	RUN_CANCELLED,    /* run_cancel(), or the sandbox was closed by force */
	RUN_LOST, /* the sandbox or the server ended meanwhile. For accounting; the caller gets SANDBOX_LOST */
};
const char *run_reason_name(enum run_reason reason); /* "exited" */
#define RUN_DEEP_DEPTH   8   /* levels of folders in which new files are looked for */
#define RUN_DEEP_FOLDERS 64  /* folders that are looked into after one run */
#define RUN_DEEP_FILES   200 /* new files that are found there */

struct artifact {
	char *name; /* relative to the workspace; any bytes, untrusted, maybe not UTF-8 */
	uint64_t size;
	int64_t mtime_ns;
};

struct run_result {
	const char *id;
	enum run_reason reason;
	int exit_code; /* as a shell counts, -1 after a timeout, 137 after an out-of-memory kill */
	int signal;
	struct run_output out, err;
	/* stateful: text of the last expression's value; with request.report: what was reported */
	struct run_output value;
	const struct shown_list *shown; /* what it showed besides text (shown.h) */
	/* New or changed files: those directly in the workspace by name, then those in its folders. */
	const struct artifact *artifacts;
	size_t n_artifacts;
	size_t n_shallow;     /* of these are directly in the workspace */
	bool more_files;      /* there may be more in folders: a limit was reached */
	const uint64_t *gone; /* path_hash() of files that are no longer there, in order */
	size_t n_gone;
	bool gone_more;                 /* other files in folders may have gone, too */
	const struct artifact *folders; /* new or changed folders, by name */
	size_t n_folders;
	bool has_folders; /* there are folders in the workspace, new or not */
	bool warm, stateful;
	const char *context; /* its name; "" = the default one, or it is no stateful run */
	bool host_full;  /* it failed because the disk of the host has no space for its workspace */
	bool state_lost; /* the session's variables are gone */
	bool state_kept; /* the next run sees its changes to the variables */
	struct engine_left left;  /* stateful */
	struct run_undone undone; /* stateful: before this run, and not told to this client yet */
	uint32_t killed; /* processes that the run left behind and that were killed at its end */
	uint32_t cell;   /* stateful: what tracebacks of the session call its code; 0 = unknown */
	uint64_t duration_ms;
	uint64_t cpu_ns;
	uint64_t cpu_before_ns; /* between the last run and this one; for quotas */
	uint64_t peak_bytes;
};

/* Whether R failed for want of space, as far as its end and its last output tell. */
bool run_result_disk_was_full(const struct run_result *r);
/* Divides BUDGET bytes of an answer among the streams of R: RET is by enum engine_stream. The value gets up to a third. Of the
 * rest stdout gets two thirds or more, stderr a third or what stdout does not need. */
void run_result_share(const struct run_result *r, size_t budget, size_t ret[ENGINE_RESULT + 1]);

struct run_request {
	enum engine_run_kind kind;
	enum run_language language; /* of code; another one than Python goes with notebook */
	const char *code, *input;   /* input: for its standard input; copied; NULL = none */
	size_t code_len, input_len;
	const char *const *argv; /* engine_run_spec.argv */
	/* The word of argv that the client asked for, among those of a program of ours; 0 = all. People see it. */
	unsigned asked;
	const char *context; /* of a stateful run: its name, as for sandbox_context(); borrowed */
	const char *const *env; /* SANDBOX_ENV_MAX besides the sandbox's; copied; may be NULL */
	const char *cwd;
	const char *asked_cwd; /* the client asked for it; people see it; borrowed */
	const int *stdin_fd;   /* instead of input; duplicated; NULL: /dev/null */
	uint64_t timeout_ns;   /* 0 = the manager's; SANDBOX_RUN_NO_TIMEOUT */
	bool unbounded;        /* all output is streamed and none is kept */
	bool head_only;        /* if output is too long, only its beginning is kept */
	bool no_artifacts;     /* no inventory before and after the run */
	bool beside; /* the run that is on, in an interpreter of its own; no files are told */
	bool queued; /* if the sandbox is busy, wait instead of SESSION_BUSY */
	bool display, notebook, errors, restarts, root; /* engine_run_spec's */
	bool report; /* engine_run_spec.report: what sandbox_read_place() reads */
	/* A program of the server: without the environment chosen for the sandbox, in "/" without a run's json.py. */
	bool own,
	    hidden; /* hidden: for the observer as `own`, but with that environment and folder */
	const char *asked_how; /* "mcp", "rest", "page": static text; NULL = it is not known */
	const char *asked_by;  /* name of the client or user, any text; borrowed for the call */
	uint64_t asked_on;     /* number of its connection; 0 = it has none */
	/* A stream of which the answer has only a part is kept whole, as a file of the workspace: what does not fit into
	 * memory, and what run_result_share() cuts with this budget. 0 = never; SIZE_MAX = only for memory. */
	size_t whole_over;
	/* Output as it arrives; may be NULL. */
	void (*on_output)(struct run *, enum engine_stream, const void *data, size_t len,
			  void *user);
	/* It has shown ITEM, behind the output of stdout so far; ENDS: its text in stdout ends here. May be NULL. */
	void (*on_shown)(struct run *, const struct shown *item, bool ends, void *user);
	/* The end: the result (valid during the call) or E; the other one is NULL. */
	void (*on_done)(struct run *, const struct run_result *, const struct err *e, void *user);
	void *user;
};

/* Starts a run; the sandbox is busy until on_done. SESSION_BUSY if it has a run already; for a queued run only if
 * SANDBOX_QUEUE_MAX others wait. *RET is valid until on_done has returned. */
int sandbox_run(struct sandbox *s, const struct run_request *request, struct run **ret,
		struct err *e) MUST_CHECK;
const char *run_id(const struct run *r);
/* Keeps a run that has ended, and with it what on_done got: an answer is made of it on a thread. Loop only. */
struct run *run_ref(struct run *r);
void run_unref(struct run *r);
struct sandbox *run_sandbox(const struct run *r); /* borrowed */
const char *run_context(const struct run *r);     /* its name; "" = the default one */
/* Kills all processes of the run; on_done follows, from inside if the run still waits for its turn. The first time, a cell
 * is interrupted, and killed only after its grace period. */
void run_cancel(struct run *r);
void run_hold(struct run *r, bool hold); /* engine_hold_output(), while it executes */
/* Sends SIGINT or SIGTERM to the run's processes. */
void run_signal(struct run *r, int signo);

/* ---- files ----------------------------------------------------------------------------------- */

/* Converts a client's path into the engine's form: parts joined by '/', without empty, '.' or '..' parts. It is absolute and
 * below /mnt/data; RELATIVE_TOO: or below /app/results, or relative. RET has ENGINE_PATH_MAX bytes. Clients know the texts. */
int workspace_path(const char *path, size_t len, bool relative_too, char *ret,
		   struct err *e) MUST_CHECK;

/* Checks the folder that a command reported as its last one. DATA comes from the sandbox and is not trusted. True: RET
 * (SANDBOX_PLACE_MAX bytes) has an absolute UTF-8 path without control characters, to show and to pass back inside. */
bool sandbox_read_place(const char *data, size_t len, char *ret) MUST_CHECK;
typedef void (*sandbox_list_fn)(const struct engine_file *files, size_t n, bool more,
				const struct err *e, void *user);
typedef void (*sandbox_file_fn)(int fd, const struct engine_file *info, const struct err *e,
				void *user);
/* The entries of a folder ("" = the workspace), of all types, sorted by name. PATH of these is in the engine's form. */
int sandbox_list(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user,
		 struct err *e) MUST_CHECK;
/* The same without restarting the idle clock. */
int sandbox_peek(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user,
		 struct err *e) MUST_CHECK;
/* Opens a regular file for reading; CB owns FD. INFO: fstat(2), with the last part of PATH as the name. */
int sandbox_open_file(struct sandbox *s, const char *path, sandbox_file_fn cb, void *user,
		      struct err *e) MUST_CHECK;
int sandbox_remove_file(struct sandbox *s, const char *path, bool recursive, sandbox_done_fn cb,
			void *user, struct err *e) MUST_CHECK;
/* The media type for the name's extension; never NULL. It is the same on every machine. */
const char *mime_type(const char *name);
