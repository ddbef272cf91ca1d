/* SPDX-License-Identifier: Apache-2.0 */
/* Structures and functions that only the files of this folder share. */
#pragma once

#include "base/list.h"
#include "sandbox/checkpoints.h"
#include "sandbox/contexts.h"
#include "sandbox/process.h"
#include "sandbox/sandbox_work.h"
#include "sandbox/workspace_inventory.h"

#define MANAGER_BUCKETS 1024u /* power of two */
/* An id that is made here, not chosen by a client: the prefix and so many hexadecimal digits. */
#define SANDBOX_ID_PREFIX "sess_"
#define SANDBOX_ID_DIGITS 12u /* and those that name a worker of a fleet */

enum sandbox_state {
	SANDBOX_CREATING, /* in the table and counted; callers wait for it */
	SANDBOX_READY,
	SANDBOX_LOST,   /* ended on its own: the next use is SANDBOX_LOST and frees the id */
	SANDBOX_CLOSED, /* out of the table; the engine may still be ending it */
};

struct waiter {           /* a caller that waits for a creation */
	struct list node; /* of its sandbox */
	sandbox_fn cb;
	void *user;
};

struct checkpoints;

struct seizing { /* member of a call that waits to seize its sandbox */
	/* The sandbox is seized, or with E it is not and never will be. */
	void (*go)(const struct err *e, void *user);
	void *user;
};

/* What a sandbox is made with, kept while it is made: its image may have to be waited for. */
struct making {
	struct engine_create create;
	char persist_id[SANDBOX_ID_MAX + 1];
	bool waited; /* once is enough */
};

/* Requests of strangers in the second that began at SINCE_NS. */
struct sandbox_strangers {
	uint64_t since_ns;
	unsigned n;
	uint8_t key[16]; /* of by_network */
	uint8_t by_network[64];
};

struct sandbox {
	struct manager *manager; /* reference */
	struct list node;        /* of its bucket */
	unsigned refs;           /* the table has one */
	enum sandbox_state state;
	char id[SANDBOX_ID_MAX + 1];
	bool own_id; /* it was made here, at random */
	struct sandbox_strangers strangers;
	char owner[SANDBOX_OWNER_MAX + 1];
	char image[ENGINE_NAME_MAX];
	struct engine_sandbox *handle; /* while READY or LOST */
	struct engine_policy policy;
	struct egress_gate *gate;      /* owned; NULL = it can reach nothing */
	struct sandbox_choice *choice; /* owned; NULL = the operator's policy */
	struct egress_policy *base;    /* reference: the policy of the choice; NULL = no network */
	struct egress_policy *network; /* reference: base and the domains; NULL if there are none */
	char (*domains)[EGRESS_ENTRY_SIZE]; /* owned; hosts that were allowed since */
	size_t n_domains;
	struct list waiters;
	struct making *making; /* owned; NULL: it is made, or the manager waits for no image */
	struct run *run;       /* the one that is executed, or NULL */
	struct list queue;     /* runs that wait for it, in order */
	struct list beside;    /* runs that execute beside it */
	unsigned n_beside;
	unsigned n_queue;
	struct list processes;     /* struct process, oldest first (process.h) */
	unsigned n_processes;      /* that live */
	unsigned last_process;     /* number of the newest one */
	struct budget_share share; /* BUDGET_SANDBOXES, of a stored one BUDGET_ACTIVE_STORED */
	struct list holds;         /* struct sandbox_hold */
	bool stored;
	char name[SANDBOX_NAME_MAX + 1];
	struct sandbox_options options; /* owned */
	struct sandbox_pairs former;    /* owned; options_change.c */
	struct secrets *secrets;        /* reference; NULL: nobody has asked (secrets.h) */
	struct list uploads;            /* the first one is written, the others wait */
	struct list writers;            /* struct file_writer */
	uint64_t writing_bytes;         /* of all writers, in files without a name yet */
	uint64_t uploaded_bytes;        /* counted by engine_count_upload() for it */
	uint64_t uploaded_since;        /* of them, since the measure under way began */
	uint64_t outside_bytes;         /* counted like these, of files outside of its workspace */
	uint64_t measured_ns;           /* when uploads were last measured */
	bool measuring;                 /* they are being measured */
	char last_run
	    [RUN_ID_SIZE]; /* the last one that ended, not of the server itself; "" = none */
	char last_point[CHECKPOINT_NAME_MAX + 1];   /* made or restored last; "" = none */
	uint64_t runs;                              /* sandbox_runs() */
	struct context context;                     /* the default one */
	struct context *contexts[CONTEXTS_MAX - 1]; /* owned; NULL = free; at context.number - 1 */
	struct usage_log *usage;                    /* owned; NULL: nobody has looked */
	bool used;                                  /* something has run in it */
	bool keeps;                                 /* it may have variables or packages */
	struct sandbox_end earlier;                 /* of an earlier session with this id */
	bool limiting;                              /* the engine changes its limits */
	bool keeping;                               /* it is about to be stored (keep.h) */
	bool was_session;                           /* since these processes were made */
	bool has_variables;                         /* a stateful run began in it */
	bool has_former;                            /* its env lost a value while it was active */
	bool rests;                                 /* its variables are written (rest.h) */
	bool seized;                                /* a checkpoint, branch or fork is being made */
	struct seizing *seizing;                    /* borrowed: waits to seize it; NULL = nobody */
	struct checkpoints *checkpoints;            /* owned; NULL before the first one */
	char parent[SANDBOX_ID_MAX + 1];            /* sandbox_parent() */
	char *place;                                /* sandbox_place(); owned, or NULL */
	bool stopped;                               /* sandbox_on_ration() has told so */
	bool told_offline;                          /* sandbox_first_offline() */
	bool told_kept;                             /* sandbox_first_kept() */
	struct inventory inventory; /* of the workspace after the last known change */
	bool inventory_known;
	struct file_marks marks;  /* of files in folders after the last run */
	bool marks_whole;         /* no file in a folder is missing there */
	struct uploads uploaded;  /* since files were last compared */
	uint64_t inventory_epoch; /* how often it was forgotten */
	uint64_t created_ns;
	uint64_t used_ns;
};

struct manager {
	struct manager_config config;
	unsigned refs;         /* one for the owner, one for each sandbox */
	struct engine *engine; /* NULL until opened */
	engine_end_fn engine_lost;
	void *engine_lost_user;
	struct err refused; /* this machine cannot enforce a limit: every call gets this error */
	struct list buckets[MANAGER_BUCKETS];
	/* Clients choose ids. The hash is keyed so that they cannot choose ids that collide. */
	uint8_t hash_key[16];
	unsigned n;        /* sandboxes in the table */
	unsigned n_stored; /* the stored ones among them */
	struct list deletions;
	struct list settlings; /* stored_settle() */
	struct list replies;
	struct list removed; /* removed_owners.c */
	struct list ends;    /* session_ends.c: ids of sessions that ended */
	unsigned n_ends;
	sd_event_source *sweep_timer;
	sd_event_source *measure_timer; /* uploaded_memory.c; NULL while nothing is counted */
	struct list resting;            /* rest.c: their variables are being written */
	unsigned n_resting;
	unsigned n_writing;               /* those that have a place among them */
	sd_event_source *rest_limit;      /* of manager_rest_all() */
	struct list departures, arrivals; /* moving.h */
	uint64_t departure_wait_us;       /* MOVING_WAIT_S; tests shorten it */
	uint64_t moving_version;          /* manager_moving_version() */
	bool leaving;                     /* manager_leave_all() */
	bool closing;
	struct manager_accounting accounting;
	struct process_credentials credentials;
	struct manager_observer observer;
	sandbox_watch_fn watcher;
	void *watcher_user;
};

/* network_choice.c: the policy that a choice means now, as a reference. *RET NULL: no network. */
int manager_network_policy(const struct manager *m, const struct sandbox_choice *network,
			   struct egress_policy **ret) MUST_CHECK;
/* Stores the choice in a new sandbox (NULL: the operator's policy) and finds its policy. */
int sandbox_set_choice(struct sandbox *s, const struct sandbox_choice *network,
		       struct err *e) MUST_CHECK;
/* network.c: whether a sandbox with POLICY gets a gate. */
bool manager_has_network(const struct manager *m, const struct egress_policy *policy);
/* Whether S gets one. */
bool sandbox_has_way_out(const struct sandbox *s);
/* Fills RET with the variables that every run of S gets because of its gate. NULL without a gate. */
#define SANDBOX_NETWORK_ENV_MAX 16
const char *const *sandbox_network_env(const struct sandbox *s,
				       const char *ret[SANDBOX_NETWORK_ENV_MAX]);
/* options_apply.c: fills RET with the variables that every run of S gets: those of its options and of its
 * gate. NULL if there are none. */
#define SANDBOX_RUN_ENV_MAX (SANDBOX_NETWORK_ENV_MAX + SANDBOX_ENV_MAX)
const char *const *sandbox_run_env(const struct sandbox *s, const char *ret[SANDBOX_RUN_ENV_MAX]);
/* The same and MORE (NULL: none), at most SANDBOX_ENV_MAX; the last of two with one name counts. */
#define SANDBOX_ENV_WITH_MAX (SANDBOX_RUN_ENV_MAX + SANDBOX_ENV_MAX + 1)
const char *const *sandbox_env_with(const struct sandbox *s, const char *const *more,
				    const char *ret[SANDBOX_ENV_WITH_MAX]);
/* Puts limits and image of O into C; numbers beyond the operator's maxima are lowered. */
void manager_apply_options(const struct manager *m, const struct sandbox_options *o,
			   struct engine_create *c);
/* public.c */
/* FORBIDDEN: O asks for public ports, and the operator permits none. */
int sandbox_check_public(const struct manager *m, const struct sandbox_options *o,
			 struct err *e) MUST_CHECK;
/* -EPERM: a sandbox with an id that a client chose cannot be public. */
int sandbox_refuse_guessable(struct err *e);
void sandbox_open_gate(struct sandbox *s); /* S is ready */
void sandbox_close_gate(struct sandbox *s);

/* The engine handle of a sandbox that can be used now, or NULL with E set. Restarts the idle clock.
 */
struct engine_sandbox *sandbox_use(struct sandbox *s, struct err *e);
uint64_t manager_now(const struct manager *m);
/* Takes S out of the table and ends its processes. The files and record of a stored one stay. */
int sandbox_drop(struct sandbox *s, sandbox_done_fn cb, void *user, struct err *e) MUST_CHECK;
/* rest.c. S has left the table: its variables are written, then its HANDLE is destroyed, for CB. False: not so. */
bool rest_begins(struct sandbox *s, struct engine_sandbox *handle, sandbox_done_fn cb, void *user);
/* Whether S, which is to be made, waits: its workspace is not at rest yet, or too many sandboxes of its owner, or of all,
 * are coming to rest. sandbox_make_now() comes then. */
bool rest_makes_wait(struct sandbox *s);
/* The stored sandbox ID is to be deleted: nobody needs its variables. */
void rest_cut(struct manager *m, const char *owner, const char *id);
void rest_end_all(struct manager *m);
/* Is the sandbox coming to rest? */
bool rest_is(const struct manager *m, const char *owner, const char *id);
/* departures.c. Whether S, which is to be made, waits for somebody who reads its disk; as rest_makes_wait(). */
bool departure_makes_wait(struct sandbox *s);
void departure_cut(struct manager *m, const char *owner, const char *id); /* as rest_cut() */
/* arrivals.c. Does the sandbox ID of OWNER (NULL: of anybody) come from elsewhere, and was not kept yet? */
bool arrival_is(const struct manager *m, const char *owner, const char *id);
/* The stored sandbox ID gets processes, or its record changes: what was saved of it is not all of it any more. */
int moving_note_opened(struct manager *m, const char *id, struct err *e) MUST_CHECK;
void departures_end_all(struct manager *m);
void arrivals_end_all(struct manager *m);
/* moving_text.c: appends the text of manager_moving_text() for R and ENV; INVALID_ARGUMENT: it is too long. */
int moving_text_write(const struct sandbox_record *r, const char *env, struct buf *ret,
		      struct err *e) MUST_CHECK;
/* Fills RET but for id, owner and key from a text of manager_moving_text(). RET_OWN_ID: stored_key_is_of_own_id() where it was
 * written. RET_ENV: the caller's. SNAPSHOT_INVALID. */
int moving_text_read(const char *text, size_t len, struct sandbox_record *ret, bool *ret_own_id,
		     char **ret_env, struct err *e) MUST_CHECK;
/* sandbox_open.c: asks the engine for S, or tells those who wait for it of E. */
void sandbox_make_now(struct sandbox *s, const struct err *e);
/* No run, upload, file writer, hold, checkpoint call or process. */
bool sandbox_is_idle(const struct sandbox *s);
/* The sandbox in the table, in any state, or NULL. */
struct sandbox *manager_lookup(struct manager *m, const char *owner, const char *id);
/* REMOVE gives up the table's reference: S may be gone afterwards. */
void manager_table_add(struct manager *m, struct sandbox *s);
void manager_table_remove(struct sandbox *s);
/* S has ended: whoever holds it hears of that. */
void sandbox_end_holds(struct sandbox *s);
/* For engine_on_ration(). */
void sandbox_on_ration(struct engine_sandbox *handle, void *user);
/* For engine_on_lost(). */
void sandbox_on_lost(struct engine_sandbox *handle, const char *why, void *user);
/* The request to the engine that every session of this server begins with. */
struct engine_create manager_request(const struct manager *m);
/* removed_owners.c: UNAUTHORIZED if OWNER has been removed. */
int manager_check_owner(const struct manager *m, const char *owner, struct err *e) MUST_CHECK;
void manager_forget_owners(struct manager *m);
/* Calls the callbacks of all waiting replies now. */
void manager_flush_replies(struct manager *m);
/* Calls CB in the next turn of the event loop. */
void manager_reply(struct manager *m, struct sandbox *s, const struct err *e, sandbox_fn cb,
		   void *user);
/* Asks the engine to make a sandbox; CB is called later. R is the record of a stored one, or NULL.
 * NETWORK is the choice for a session (NULL: the operator's policy); a record has its own. OPTIONS
 * (NULL: none) are copied. */
int manager_make(struct manager *m, const char *owner, const char *id,
		 const struct sandbox_record *r, const struct sandbox_choice *network,
		 const struct sandbox_options *options, sandbox_fn cb, void *user,
		 struct err *e) MUST_CHECK;

/* stored_sandboxes.c */
/* A place for one more active sandbox of OWNER (BUDGET_ACTIVE_STORED). If necessary the one that was idle longest is
 * deactivated: at the user's bound one of the user's, otherwise anybody's. MAX_SESSIONS, BUDGET_EXCEEDED: all are at work. */
int stored_take_place(struct manager *m, const char *owner, struct budget_share *ret,
		      struct err *e) MUST_CHECK;
/* 1 = there is a record, and CB is called later; 0 = there is none; or -errno. */
int stored_open(struct manager *m, const char *owner, const char *id, sandbox_fn cb, void *user,
		struct err *e) MUST_CHECK;
/* stored_ids.c */
bool stored_is_uuid(const char *id);
/* The end of the key of a sandbox that came from elsewhere, if its id was made by a server. */
#define STORED_KEY_OF_OWN_ID "-o"
/* Does the key of R say that a server made its id? */
bool stored_key_is_of_own_id(const struct sandbox_record *r);
/* Was the id of R made here, and not chosen by a client? O: its options. Of a session that was kept this is known only if it is
 * public. */
bool stored_has_own_id(const struct sandbox_record *r, const struct sandbox_options *o);
/* Whether a stored sandbox of OWNER (NULL: of anybody) can have that id. Ids of stored sandboxes are unique among all owners. So those that
 * clients chose can be kept only by the local user: others would learn which ids another one has. */
bool stored_may_be(const char *owner, const char *id);
/* Fills RET but for its key, which the records set, and adds it. With an id it is that of a session. */
int stored_add_record(struct manager *m, const char *owner, const char *name,
		      const struct sandbox_choice *network, const struct sandbox_options *options,
		      struct sandbox_record *ret, struct err *e) MUST_CHECK;
/* Removes the workspace KEY, if there is one, and then the record ID. QUIET: the observer is not told, because a session
 * of that id goes on. */
void stored_unmake(struct manager *m, const char *id, const char *key, bool quiet);
/* Calls CB when what was changed in the records is on the disk, perhaps before it returns. E is NULL, or says why the change may be
 * lost if the machine stops; CANCELLED: the manager is being freed. */
void stored_settle(struct manager *m, sandbox_done_fn cb, void *user);
void stored_begin(struct manager *m);
void stored_end_all(struct manager *m);
bool stored_is_going(const struct manager *m, const char *id); /* is it being deleted? */

/* run_life.c: starts the next run of the queue. If the sandbox has ended, all queued runs end. */
void sandbox_next_run(struct sandbox *s);

/* session_ends.c: remembers that the session S has ended. */
void session_note_end(const struct sandbox *s, enum sandbox_end_why why);
void session_forget_ends(struct manager *m);
/* Ends a session of OWNER to make room for a new one: one that ended on its own, else the one that holds nothing
 * and was idle longest. -ENOENT: there is none. */
int session_give_up(struct manager *m, const char *owner) MUST_CHECK;
/* The same, of any owner, for a session that is kept only because it holds something: nobody has used it for so long that it
 * would have been closed if it were empty. */
int session_give_up_kept(struct manager *m) MUST_CHECK;
/* Whether S may have files, variables, packages or checkpoints. */
bool session_holds(const struct sandbox *s);

/* usage_log.c */
void usage_log_free(struct usage_log *log);

/* Tells the observer. */
void sandbox_tell(struct sandbox *s, enum sandbox_news what, const char *name);
/* Calls the watcher. PATH: a file, or a folder with all that is below it; "" = the whole workspace. */
void sandbox_changed(struct sandbox *s, const char *path);
void sandbox_run_changed(struct sandbox *s, const struct run_result *result);
/* The inventory may no longer match the workspace: the next run lists the files again. */
void sandbox_forget_inventory(struct sandbox *s);

/* file_writer.c: whether a writer waits for an answer of the engine. A checkpoint is refused then;
 * a writer that only waits for bytes does not prevent one. */
bool file_writers_are_busy(const struct sandbox *s);
/* The checkpoint is made: begins the commits that waited for it. */
void file_writers_go_on(struct sandbox *s);
/* uploaded_memory.c: BYTES are about to be written into a file without a name, OUTSIDE of the workspace or in it. Adds what
 * was counted of them to *RET. OUT_OF_MEMORY: all sandboxes together have too much. */
int sandbox_count_upload(struct sandbox *s, bool outside, uint64_t bytes, uint64_t *ret,
			 struct err *e) MUST_CHECK;
/* Gives back BYTES of what was counted: their file was forgotten. */
void sandbox_uncount_uploads(struct sandbox *s, bool outside, uint64_t bytes);
void sandbox_uncount_all(struct sandbox *s); /* it has ended */
/* Files may have gone: counts no more than the workspace holds. Cheap where nothing is counted. */
void sandbox_measure_uploads(struct sandbox *s);
/* The sandbox has ended: ends all writers with SANDBOX_LOST and closes their descriptors. */
void file_writers_end(struct sandbox *s);

/* run_life.c: sandbox_run() for the code that has seized the sandbox. */
int run_begin(struct sandbox *s, const struct run_request *request, struct run **ret,
	      struct err *e) MUST_CHECK;
/* SESSION_BUSY while S is seized. */
int sandbox_check_free(const struct sandbox *s, struct err *e) MUST_CHECK;

/* seize.c: reserves S for one operation: queued runs wait; other runs and changes of files are SESSION_BUSY.
 * 1: a run that was cancelled has not ended yet, so S is not seized: call sandbox_seize_later(), or give up. Its code may
 * ignore the interrupt, and its session may have to come back from its backup; the engine bounds each of these steps. */
int sandbox_seize(struct sandbox *s, struct err *e) MUST_CHECK;
/* After 1. W stays valid until it has been called, which happens once. */
void sandbox_seize_later(struct sandbox *s, struct seizing *w);
/* A run has ended. Whoever waits goes before the runs of the queue, which came later. */
void sandbox_seize_now(struct sandbox *s);
void sandbox_yield(struct sandbox *s);

/* checkpoints.c; checkpoints.h has the calls for other folders. YIELD: S is yielded when the call ends. */
#define CHECKPOINTS_BASE "." /* the base of branches; clients cannot use this name */
int checkpoints_save(struct sandbox *s, const char *name, bool yield, checkpoint_fn cb, void *user,
		     struct err *e) MUST_CHECK;
int checkpoints_restore(struct sandbox *s, const char *name, enum engine_restore how, bool yield,
			checkpoint_fn cb, void *user, struct err *e) MUST_CHECK;
int checkpoints_drop(struct sandbox *s, const char *name, bool yield, checkpoint_fn cb, void *user,
		     struct err *e) MUST_CHECK;
int checkpoints_check_room(const struct sandbox *s, unsigned n_new, struct err *e) MUST_CHECK;
unsigned checkpoints_count(const struct sandbox *s);
bool checkpoints_has(const struct sandbox *s, const char *name);
/* Gives the base of branches a name that clients see, unless the name TO is taken. */
void checkpoints_rename(struct sandbox *s, const char *from, const char *to);
void checkpoints_free(struct checkpoints *p);
