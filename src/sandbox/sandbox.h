/* SPDX-License-Identifier: Apache-2.0 */
/* The manager: which sandboxes there are, whose they are, how long they live, what runs in them and
 * which files come out. It stands on any engine and knows neither MCP nor HTTP.
 *
 * A sandbox is known by (owner, id): two owners may use the same id and never see each other's. The
 * owner is an opaque name given by whoever authenticated the caller; "" is the local user.
 *
 * Two classes. A *session* is made at its first use and ends with its server. A *stored* sandbox is
 * made on purpose, has a name, and lives until it is deleted: its record and its files outlive the
 * server. It is active (has processes) from its first use until nobody has used it for a while.
 * Both share one space of ids, and everything below works on both.
 *
 * One event loop, no blocking call. A call that takes a callback calls it exactly once and never
 * before it has returned. Texts passed in are borrowed for the duration of the call. */
#pragma once

#include "base/buf.h"
#include "egress/egress.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct manager;
struct sandbox;
struct run;

#define SANDBOX_ID_MAX         64 /* [A-Za-z0-9_-]{1,64} */
#define SANDBOX_OWNER_MAX      63
#define RUN_ID_SIZE            32 /* "run_20260301T101500Z_9be1" and NUL */
#define SANDBOX_RUN_NO_TIMEOUT UINT64_MAX
#define SANDBOX_NAME_MAX       200  /* bytes of a stored sandbox's name */
#define SANDBOX_QUEUE_MAX      32   /* runs that wait for one sandbox */
#define SANDBOX_PLACE_MAX      4096 /* bytes of sandbox_place(), NUL included */

/* ---- what a sandbox may reach -----------------------------------------------------------------
 */

#define SANDBOX_HOSTS_MAX   32u /* of the list that one is made with */
#define SANDBOX_CHOICE_SIZE (16 + SANDBOX_HOSTS_MAX * EGRESS_RULE_SIZE)

/* What whoever makes a sandbox chooses for it: "" (the operator's policy, whatever it is), or the
 * word of a kind, after "allowlist" its hosts, each after a blank. Made by manager_choose_network()
 * alone, held against what is permitted again at each activation: what is not any more is left out.
 */
struct sandbox_choice {
	char text[SANDBOX_CHOICE_SIZE];
};
typedef void (*sandbox_host_fn)(const char *host, void *user);

/* ---- records of stored sandboxes --------------------------------------------------------------
 */

struct sandbox_record {
	char id[SANDBOX_ID_MAX + 1]; /* a UUID in small letters; also the engine's key */
	char owner[SANDBOX_OWNER_MAX + 1];
	char name[SANDBOX_NAME_MAX + 1];
	char image[ENGINE_NAME_MAX];
	struct sandbox_choice network;
	char place[SANDBOX_PLACE_MAX]; /* sandbox_place(); "" = none */
	uint64_t created_ms;           /* since 1970 */
};
typedef void (*sandbox_record_fn)(const struct sandbox_record *r, void *arg);

/* Where the records are kept; whoever makes the manager says how. Durable when a call returns. */
struct sandbox_records {
	/* Fills in id, created_ms and an empty name ("Sandbox N"). QUOTA_EXCEEDED beyond OWNER_MAX
	 * (0 = no limit) of one owner; the text says so to a client. */
	int (*add)(void *user, struct sandbox_record *r, uint64_t owner_max, struct err *e);
	/* 1, 0 (there is none of OWNER with that id), or a negative errno. */
	int (*get)(void *user, const char *owner, const char *id, struct sandbox_record *ret,
		   struct err *e);
	int (*remove)(void *user, const char *id, struct err *e);
	/* By age; OWNER NULL: everybody's. */
	int (*each)(void *user, const char *owner, sandbox_record_fn fn, void *arg, struct err *e);
	void (*note_use)(void *user, const char *id); /* may be NULL */
	/* Keeps PLACE ("" = none) of the record; may be NULL. What cannot be kept is lost. */
	void (*note_place)(void *user, const char *id, const char *place);
	void *user;
};

/* ---- manager --------------------------------------------------------------------------------- */

struct manager_stored { /* of stored sandboxes; the same of sessions is in manager_config */
	const struct sandbox_records *records; /* borrowed; NULL = there are none */
	char image[ENGINE_NAME_MAX];
	struct engine_limits limits;
	uint64_t run_timeout_ns; /* 0 = none */
	uint64_t output_max;     /* bytes kept of each stream of a run */
	uint64_t idle_ns;        /* then its processes end; its files stay */
	unsigned max_active;     /* then the one that was idle longest makes room */
	unsigned owner_max;      /* of one owner, active or not; 0 = no limit */
	bool strict_ids;         /* a UUID that nobody has makes no session */
};

/* The package index that programs in sandboxes may ask by themselves, where their network permits
 * it. */
struct sandbox_index {
	const char *host; /* "" = there is none */
	uint16_t port;
	const char *const *env; /* what they must know of it: NAME=VALUE, NULL after the last */
};

struct manager_config {
	sd_event *loop; /* borrowed */
	/* Opens the engine at its first need; called again by the next need when it failed. */
	int (*open_engine)(void *user, struct engine **ret, struct err *e);
	void *user;
	char image[ENGINE_NAME_MAX];
	struct engine_limits limits;
	bool warm;
	uint64_t run_timeout_ns;     /* 0 = none */
	uint64_t run_timeout_max_ns; /* the longest that a run may ask for; 0 = any */
	uint64_t grace_ns;
	uint64_t ttl_ns;
	uint64_t sweep_ns;
	uint64_t output_max; /* bytes kept of each stream of a run */
	uint64_t
	    output_stop; /* a stream that passes it ends the run (RUN_OUTPUT_LIMIT); 0 = never */
	unsigned max_sandboxes; /* sessions */
	struct manager_stored stored;
	/* What sandboxes may reach; NULL, or a policy of kind none: nothing. Both borrowed. */
	struct egress *egress;
	struct egress_policy *network;
	/* What may be chosen instead, by kind; of an allowlist the widest. NULL: that may not be.
	 * Borrowed. None may always be. */
	struct egress_policy *network_may[EGRESS_KINDS];
	struct sandbox_index index; /* texts borrowed */
	bool network_ask;           /* every sandbox gets a way out, so that more can be allowed */
	uint64_t (*now)(void);      /* monotonic ns; NULL: now_ns() */
};

int manager_new(const struct manager_config *config, struct manager **ret,
		struct err *e) MUST_CHECK;
/* Ends all sandboxes and the engine. Callbacks still due are called from inside. NULL is fine. */
struct manager *manager_free(struct manager *m);

/* Opens the engine now, and refuses limits that were set explicitly and cannot be enforced. */
int manager_start(struct manager *m, struct err *e) MUST_CHECK;
/* The open engine, or NULL. */
struct engine *manager_engine(struct manager *m);

/* Closes what nobody has used for longer than the TTL; what runs is left for the next sweep. Called
 * by the manager's own timer. */
void manager_sweep(struct manager *m);
unsigned manager_count(const struct manager *m);
/* All 0 before the engine is open, and where it has no pool. */
void manager_pool(const struct manager *m, struct engine_pool *ret);

typedef void (*sandbox_fn)(struct sandbox *s, const struct err *e, void *user);
typedef void (*sandbox_done_fn)(const struct err *e, void *user);

/* The sandbox ID of OWNER: the session or the active sandbox, else the stored one, which becomes
 * active, else a new session; ID NULL makes one with a new id. Two first calls with one id share
 * one creation. CB gets a borrowed sandbox: take a reference to keep it. Fails with MAX_SESSIONS,
 * SANDBOX_IN_USE (another server has it), or whatever the engine says. */
void manager_open(struct manager *m, const char *owner, const char *id, sandbox_fn cb, void *user);
/* The same, but makes nothing new: SESSION_NOT_FOUND. */
void manager_activate(struct manager *m, const char *owner, const char *id, sandbox_fn cb,
		      void *user);
/* A choice of KIND (a word of egress_kind_name()) and, of an allowlist alone, N hosts (`host`,
 * `host:port`, `*.host`); none of them means nothing. NETWORK_NOT_PERMITTED: it is wider than the
 * operator permits; INVALID_ARGUMENT. */
int manager_choose_network(const struct manager *m, const char *kind, const char *const *hosts,
			   size_t n, struct sandbox_choice *ret, struct err *e) MUST_CHECK;
/* A new session with that choice. ID NULL: a new one, else one that OWNER has not: ALREADY_EXISTS.
 */
void manager_open_new(struct manager *m, const char *owner, const char *id,
		      const struct sandbox_choice *network, sandbox_fn cb, void *user);
/* A new stored sandbox, active; NAME NULL or "" gives it one, NETWORK NULL is no choice.
 * QUOTA_EXCEEDED beyond owner_max. */
void manager_create(struct manager *m, const char *owner, const char *name,
		    const struct sandbox_choice *network, sandbox_fn cb, void *user);
/* What a choice comes to: the kind's word. FN (may be NULL) is called for each host of its list. */
const char *manager_network(const struct manager *m, const struct sandbox_choice *network,
			    sandbox_host_fn fn, void *user);
/* Ends sandbox ID of OWNER, active or not, with its files and its record. SESSION_BUSY while a run
 * holds it, unless FORCE. CB may be NULL. */
int manager_delete(struct manager *m, const char *owner, const char *id, bool force,
		   sandbox_done_fn cb, void *user, struct err *e) MUST_CHECK;
/* Calls FN for each stored sandbox of OWNER (NULL: everybody's), by age, active or not. */
int manager_each_stored(struct manager *m, const char *owner, sandbox_record_fn fn, void *arg,
			struct err *e) MUST_CHECK;
/* 1 and the record (RET may be NULL), 0, or a negative errno. */
int manager_get_stored(struct manager *m, const char *owner, const char *id,
		       struct sandbox_record *ret, struct err *e) MUST_CHECK;
/* The ready sandbox, borrowed, or NULL: also when it is stored and not active. */
struct sandbox *manager_find(struct manager *m, const char *owner, const char *id);
/* Calls FN for each ready sandbox of OWNER (NULL: of all). FN must not close sandboxes. */
void manager_each(struct manager *m, const char *owner, void (*fn)(struct sandbox *s, void *user),
		  void *user);

/* FN is told (after the fact) that a sandbox came, went or has other files than before; PATH is the
 * one that changed, or NULL when it could be any. One watcher; NULL removes it. It must not close
 * sandboxes. */
typedef void (*sandbox_watch_fn)(struct sandbox *s, const char *path, void *user);
void manager_watch(struct manager *m, sandbox_watch_fn fn, void *user);

/* Who keeps the books of runs: asked before each, told of each that ended. Neither may start or end
 * anything. */
struct run_result;
struct manager_ledger {
	/* 0, or a refusal (QUOTA_EXCEEDED …); may be NULL. */
	int (*admit)(void *user, const struct sandbox *s, struct err *e);
	/* RUN is about to be executed; may be NULL. What it gives back comes with note(). */
	uint32_t (*begin)(void *user, const struct sandbox *s, enum engine_run_kind kind,
			  const char *run);
	/* Of each that began, and of those that ended before; RESULT is NULL when it was not
	 * executed after all. May be NULL. */
	void (*note)(void *user, const struct sandbox *s, enum engine_run_kind kind,
		     uint32_t ticket, const struct run_result *result);
	void *user;
};
void manager_keep_ledger(struct manager *m, const struct manager_ledger *ledger); /* copied */

/* ---- one sandbox ----------------------------------------------------------------------------- */

struct sandbox *sandbox_ref(struct sandbox *s);
struct sandbox *sandbox_unref(struct sandbox *s); /* NULL is fine; returns NULL */
const char *sandbox_id(const struct sandbox *s);
const char *sandbox_owner(const struct sandbox *s);
/* Where its terminal is: a folder as the sandbox names it, or NULL: nowhere but at the start.
 * Known as long as the sandbox is, of a stored one beyond its processes and the server. A word of
 * the sandbox's: for itself alone. */
const char *sandbox_place(const struct sandbox *s);
/* PATH (shorter than SANDBOX_PLACE_MAX) is copied; NULL: none. */
int sandbox_set_place(struct sandbox *s, const char *path) MUST_CHECK;
bool sandbox_is_stored(const struct sandbox *s);
const char *sandbox_name(const struct sandbox *s); /* of a stored one; else "" */
bool sandbox_is_busy(const struct sandbox *s);     /* a run, or a call of checkpoints.h */
/* While somebody holds it, it is not ended for being idle. Work that is no run: installations. */
void sandbox_hold(struct sandbox *s);
void sandbox_release(struct sandbox *s);
/* What its class gives each run. */
uint64_t sandbox_run_timeout_ns(const struct sandbox *s);
uint64_t sandbox_output_max(const struct sandbox *s); /* bytes kept of each stream of a run */
/* The longest time that a run may ask for, never less than runs have without asking; 0 = any. A run
 * that asks for more is INVALID_ARGUMENT. */
uint64_t manager_run_timeout_max_ns(const struct manager *m);
uint64_t sandbox_age_ns(const struct sandbox *s);
/* Of the manager's clock; no two sandboxes of one id and owner have the same. */
uint64_t sandbox_created_ns(const struct sandbox *s);
uint64_t sandbox_idle_ns(const struct sandbox *s);
const struct engine_policy *sandbox_policy(const struct sandbox *s);
/* Its way out, as egress_kind_name() says; "none" without one. */
const char *sandbox_network(const struct sandbox *s);
/* What it was made with. */
const struct sandbox_choice *sandbox_choice(const struct sandbox *s);
/* Further hosts that it may reach, until it ends or, being a stored one, goes to sleep. The
 * operator's policy stays as it is. DOMAIN is what egress_entry_parse() made. FORBIDDEN: it was
 * made without a way out, config.network_ask being off or its engine having none; ALREADY_EXISTS:
 * -EEXIST when it is allowed already, -ENOTSUP when everything public is; QUOTA_EXCEEDED. The first
 * only looks whether it can. */
int sandbox_check_domain(const struct sandbox *s, const char *domain, struct err *e) MUST_CHECK;
int sandbox_allow_domain(struct sandbox *s, const char *domain, struct err *e) MUST_CHECK;
#define SANDBOX_DOMAINS_MAX 16u
size_t sandbox_n_domains(const struct sandbox *s);
const char *sandbox_domain(const struct sandbox *s, size_t i); /* i < sandbox_n_domains() */
/* The image that it was made from. */
const char *sandbox_image(const struct sandbox *s);
/* The engine's handle, for helpers of it; NULL with E set when it cannot be used. Counts as use. */
struct engine_sandbox *sandbox_engine(struct sandbox *s, struct err *e);
/* Counts as use: the idle clock starts again. */
void sandbox_touch(struct sandbox *s);

/* Ends the sandbox and removes its files; of a stored one its record too. SESSION_BUSY while a run
 * holds it, unless FORCE. From this call on its id is free. CB may be NULL. */
int sandbox_close(struct sandbox *s, bool force, sandbox_done_fn cb, void *user, struct err *e);

int sandbox_get_usage(struct sandbox *s, engine_usage_fn cb, void *user, struct err *e) MUST_CHECK;

/* ---- runs ------------------------------------------------------------------------------------ */

enum run_reason {
	RUN_EXITED,
	RUN_SIGNALED,
	RUN_TIMEOUT,
	RUN_OOM,
	RUN_OUTPUT_LIMIT, /* wrote more than output_stop */
	RUN_DISK_LIMIT,   /* its files passed the limit; elsewhere its writes fail at it */
	RUN_CANCELLED,    /* run_cancel(), or the sandbox was closed by force */
	RUN_LOST,         /* its sandbox, or the server, ended below it: for the books alone, who
			     waits for it gets SANDBOX_LOST */
};
const char *run_reason_name(enum run_reason reason); /* "exited" */

struct artifact {
	char name[256]; /* bytes of one component; hostile, maybe not UTF-8 */
	uint64_t size;
	int64_t mtime_ns;
};

struct run_output { /* what was kept of one stream: any bytes */
	const char *data;
	size_t len;
	size_t head;    /* bytes from the beginning; those after it are from the end */
	bool truncated; /* there was more, between the two */
	uint64_t total; /* bytes that were written */
};

/* Appends O as valid UTF-8, at most MAX bytes of it: beginning, a line that says how many bytes
 * were left out, end. WHERE says in that line what to do about it; may be NULL. *RET_CUT: there is
 * such a line. */
#define RUN_OUTPUT_MARK 160 /* bytes of that line without WHERE */
int run_output_add(struct buf *b, const struct run_output *o, size_t max, const char *where,
		   bool *ret_cut) MUST_CHECK;

struct run_result {
	const char *id;
	enum run_reason reason;
	int exit_code; /* as a shell counts, -1 after a timeout, 137 after an out-of-memory kill */
	int signal;
	struct run_output out;
	struct run_output err;
	/* stateful: text of the last expression's value; `report`: what was reported */
	struct run_output value;
	const struct artifact *artifacts; /* new or changed files, by name */
	size_t n_artifacts;
	const struct artifact *folders; /* the same of folders */
	size_t n_folders;
	bool warm;
	bool state_lost;   /* stateful: the session's variables are gone */
	bool state_kept;   /* stateful: what it did to the variables holds */
	bool threads_lost; /* stateful: the run left threads, which do not go on */
	uint64_t duration_ms;
	uint64_t cpu_ns;
	uint64_t peak_bytes;
};

struct run_request {
	enum engine_run_kind kind;
	const char *code;
	size_t code_len;
	const char *const *argv;
	const char *cwd;
	uint64_t timeout_ns;   /* 0 = the manager's; SANDBOX_RUN_NO_TIMEOUT */
	bool unbounded;        /* all output is streamed and none kept */
	bool head_only;        /* of long output only the beginning is kept */
	bool no_artifacts;     /* no inventory before and after */
	bool queued;           /* waits for its turn where others are SESSION_BUSY */
	bool artifacts_always; /* also of a run that failed */
	bool display;          /* engine_run_spec.display */
	bool report;           /* engine_run_spec.report */
	/* Output as it comes; may be NULL. */
	void (*on_output)(struct run *r, enum engine_stream stream, const void *data, size_t len,
			  void *user);
	/* The end: RESULT (valid during the call), or E. */
	void (*on_done)(struct run *r, const struct run_result *result, const struct err *e,
			void *user);
	void *user;
};

/* Starts a run; the sandbox is busy until on_done. SESSION_BUSY when a run holds it already, or,
 * QUEUED, when SANDBOX_QUEUE_MAX wait. *RET is valid until on_done has returned. */
int sandbox_run(struct sandbox *s, const struct run_request *request, struct run **ret,
		struct err *e) MUST_CHECK;
const char *run_id(const struct run *r);
/* Kills everything of the run; on_done follows, of one that waits for its turn from inside. */
void run_cancel(struct run *r);
/* Sends SIGINT or SIGTERM to the run's processes. */
void run_signal(struct run *r, int signo);

/* ---- files ----------------------------------------------------------------------------------- */

/* Turns what a client calls a path (absolute below /mnt/data or /app/results) or a path relative to
 * the workspace into the engine's form: parts joined by '/', no empty, '.' or '..' part. RET has
 * ENGINE_PATH_MAX bytes. The messages of the failures are those of the first family's contract. */
int workspace_path(const char *path, size_t len, bool relative_too, char *ret,
		   struct err *e) MUST_CHECK;

typedef void (*sandbox_list_fn)(const struct engine_file *files, size_t n, bool more,
				const struct err *e, void *user);
typedef void (*sandbox_file_fn)(int fd, const struct engine_file *info, const struct err *e,
				void *user);

/* Entries of a folder ("" = the workspace), sorted by name, all types. */
int sandbox_list(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user,
		 struct err *e) MUST_CHECK;
/* The same, but looking is not using: the idle clock goes on. */
int sandbox_peek(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user,
		 struct err *e) MUST_CHECK;
/* A regular file for reading; CB owns FD. INFO (size, times, inode) as fstat(2) says; its name is
 * the last part of PATH. */
int sandbox_open_file(struct sandbox *s, const char *path, sandbox_file_fn cb, void *user,
		      struct err *e) MUST_CHECK;
int sandbox_remove_file(struct sandbox *s, const char *path, bool recursive, sandbox_done_fn cb,
			void *user, struct err *e) MUST_CHECK;

/* Where the bytes of an upload come from: memory, or a place in a file (pread). Both stay valid
 * until the end of the upload. */
struct upload_source {
	const char *data; /* or NULL */
	int fd;
	uint64_t off;
	uint64_t len;
};
struct upload_request {
	const char *path;
	bool overwrite;
	struct upload_source source;
	/* WRITTEN: size of the file. FILE_EXISTS, NO_SPACE ... */
	void (*on_done)(uint64_t written, const struct err *e, void *user);
	void *user;
};
/* Writes a file; appears whole or not at all. A few MiB per turn of the loop. */
int sandbox_upload(struct sandbox *s, const struct upload_request *request,
		   struct err *e) MUST_CHECK;

/* Media type by the name's extension; never NULL. Independent of the machine. */
const char *mime_type(const char *name);
