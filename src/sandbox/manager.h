/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder alone. */
#pragma once

#include "base/list.h"
#include "sandbox/checkpoints.h"
#include "sandbox/sandbox.h"
#include "sandbox/workspace_inventory.h"

#define MANAGER_BUCKETS 1024u /* power of two */

enum sandbox_state {
	SANDBOX_CREATING, /* in the table, counted, waiters wait */
	SANDBOX_READY,
	SANDBOX_LOST,   /* ended on its own: the next use says so once and frees the id */
	SANDBOX_CLOSED, /* out of the table; the engine may still be at it */
};

struct waiter {           /* who waits for a creation */
	struct list node; /* of its sandbox */
	sandbox_fn cb;
	void *user;
};

struct checkpoints;

struct sandbox {
	struct manager *manager; /* reference */
	struct list node;        /* of its bucket */
	unsigned refs;           /* the table has one */
	enum sandbox_state state;
	char id[SANDBOX_ID_MAX + 1];
	char owner[SANDBOX_OWNER_MAX + 1];
	char image[ENGINE_NAME_MAX];
	struct engine_sandbox *handle; /* while READY or LOST */
	struct engine_policy policy;
	struct egress_gate *gate;      /* owned; NULL = no way out */
	struct sandbox_choice *choice; /* owned; NULL = none was made */
	struct egress_policy *base;    /* reference: what that comes to; NULL = no network */
	struct egress_policy *network; /* reference: with what was allowed since; NULL: none was */
	char (*domains)[EGRESS_ENTRY_SIZE]; /* owned; what that was */
	size_t n_domains;
	struct list waiters;
	struct run *run;   /* holds the sandbox */
	struct list queue; /* runs that wait for it, in order */
	unsigned n_queue;
	unsigned holds;
	bool stored;
	char name[SANDBOX_NAME_MAX + 1];
	struct list uploads;             /* the first is at work, the others wait */
	struct list writers;             /* struct file_writer */
	bool seized;                     /* a checkpoint, branch or fork is at work */
	struct checkpoints *checkpoints; /* owned; NULL while there is none */
	char parent[SANDBOX_ID_MAX + 1];
	char *place;                /* owned, or NULL: sandbox_place() */
	struct inventory inventory; /* of the workspace after the last change that we know of */
	bool inventory_known;
	uint64_t created_ns;
	uint64_t used_ns;
};

struct manager {
	struct manager_config config;
	unsigned refs;         /* one of the owner, one of each sandbox */
	struct engine *engine; /* NULL until opened */
	struct err refused;    /* why no engine will do here: every call is told the same */
	struct list buckets[MANAGER_BUCKETS];
	uint8_t
	    hash_key[16]; /* clients choose ids: a secret key keeps them from choosing collisions */
	unsigned n;       /* in the table */
	unsigned n_stored; /* of them */
	struct list deletions;
	struct list replies;
	sd_event_source *sweep_timer;
	bool closing;
	struct manager_ledger ledger;
	sandbox_watch_fn watcher;
	void *watcher_user;
};

/* network_choice.c: the policy that a choice comes to now, a reference; NULL in *RET: no network. */
int manager_network_policy(const struct manager *m, const struct sandbox_choice *network,
			   struct egress_policy **ret) MUST_CHECK;
/* Gives a new S its choice (NULL: none was made). ENGINE_NOT_BUILT_IN: the engine has no ways out.
 */
int sandbox_set_choice(struct sandbox *s, const struct sandbox_choice *network,
		       struct err *e) MUST_CHECK;
/* network.c: does one that is held against POLICY get a way out; opens that of S, once it is ready;
 * closes it. */
bool manager_has_network(const struct manager *m, const struct egress_policy *policy);
/* What every run of S has in its environment because of its way out, to RET; NULL without one. */
#define SANDBOX_NETWORK_ENV_MAX 16
const char *const *sandbox_network_env(const struct sandbox *s,
				       const char *ret[SANDBOX_NETWORK_ENV_MAX]);
void sandbox_open_gate(struct sandbox *s);
void sandbox_close_gate(struct sandbox *s);

/* The engine handle of a sandbox that can be used now, or NULL with E set. Counts as use. */
struct engine_sandbox *sandbox_use(struct sandbox *s, struct err *e);
uint64_t manager_now(const struct manager *m);
/* Ends the processes; what is stored stays. From this call on it is out of the table. */
int sandbox_drop(struct sandbox *s, sandbox_done_fn cb, void *user, struct err *e) MUST_CHECK;
/* Nobody works with it. */
bool sandbox_is_idle(const struct sandbox *s);
/* In the table, whatever its state, or NULL. */
struct sandbox *manager_lookup(struct manager *m, const char *owner, const char *id);
/* REMOVE gives up the table's reference: S may be gone afterwards. */
void manager_table_add(struct manager *m, struct sandbox *s);
void manager_table_remove(struct sandbox *s);
/* For engine_on_lost(). */
void sandbox_on_lost(struct engine_sandbox *handle, const char *why, void *user);
/* What every session of this server asks the engine for. */
struct engine_create manager_request(const struct manager *m);
/* Gives all answers that are due, now. */
void manager_flush_replies(struct manager *m);
/* Gives CB its answer in the next turn of the loop. */
void manager_reply(struct manager *m, struct sandbox *s, const struct err *e, sandbox_fn cb,
		   void *user);
/* Has the engine make a sandbox, stored when R is not NULL; the answer comes later. NETWORK: of a
 * session; NULL: none was chosen. */
int manager_make(struct manager *m, const char *owner, const char *id,
		 const struct sandbox_record *r, const struct sandbox_choice *network,
		 sandbox_fn cb, void *user, struct err *e) MUST_CHECK;

/* stored_sandboxes.c */
/* Room for one more active one. */
int stored_make_room(struct manager *m, struct err *e) MUST_CHECK;
/* 1 = there is a record and the answer comes later; 0 = there is none; or -errno. */
int stored_open(struct manager *m, const char *owner, const char *id, sandbox_fn cb, void *user,
		struct err *e) MUST_CHECK;
bool stored_is_uuid(const char *id);
void stored_forget_deletions(struct manager *m);

/* run_life.c: the next in the queue starts, or all that wait are told that the sandbox has ended. */
void sandbox_next_run(struct sandbox *s);

/* Tells the watcher. */
void sandbox_changed(struct sandbox *s, const char *path);
/* Files may have changed by other means than a run. */
void sandbox_forget_inventory(struct sandbox *s);

/* file_writer.c. Does the engine work for a writer? Checkpoints wait for that, not for writers that
 * wait for bytes. */
bool file_writers_are_busy(const struct sandbox *s);
/* The checkpoint is made: commits that waited for it begin. */
void file_writers_go_on(struct sandbox *s);
/* The sandbox has ended: ends all writers with SANDBOX_LOST and closes their descriptors. */
void file_writers_end(struct sandbox *s);

/* run_life.c: sandbox_run() for whoever has seized the sandbox. */
int run_begin(struct sandbox *s, const struct run_request *request, struct run **ret,
	      struct err *e) MUST_CHECK;
/* SESSION_BUSY while S is seized. */
int sandbox_check_free(const struct sandbox *s, struct err *e) MUST_CHECK;

/* checkpoints.c; checkpoints.h has the calls for others. YIELD: the end of the call yields S. */
#define CHECKPOINTS_BASE "." /* no name for others */
int sandbox_seize(struct sandbox *s, struct err *e) MUST_CHECK;
void sandbox_yield(struct sandbox *s);
int checkpoints_save(struct sandbox *s, const char *name, bool yield, checkpoint_fn cb, void *user,
		     struct err *e) MUST_CHECK;
int checkpoints_restore(struct sandbox *s, const char *name, bool files_only, bool yield,
			checkpoint_fn cb, void *user, struct err *e) MUST_CHECK;
int checkpoints_drop(struct sandbox *s, const char *name, bool yield, checkpoint_fn cb, void *user,
		     struct err *e) MUST_CHECK;
int checkpoints_check_room(const struct sandbox *s, unsigned n_new, struct err *e) MUST_CHECK;
unsigned checkpoints_count(const struct sandbox *s);
bool checkpoints_has(const struct sandbox *s, const char *name);
/* The base of branches becomes a checkpoint that others see, unless TO is taken. */
void checkpoints_rename(struct sandbox *s, const char *from, const char *to);
void checkpoints_free(struct checkpoints *p);
