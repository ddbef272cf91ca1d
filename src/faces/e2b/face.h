/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder. A request is a call: one row of the table of routes (routes.c) says which service it is of, and so who
 * may make it and how its errors look. A handler owns its call and ends it, at once or later, with exactly one of
 * e2b_reply(), e2b_fail(), e2b_refuse() and e2b_give(). If the client leaves meanwhile, req becomes NULL and the work goes
 * on. */
#pragma once

#include "faces/e2b/e2b.h"

#include "api/files/form_upload.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/rand.h"
#include "sandbox/checkpoints.h"
#include "sandbox/contexts.h"
#include "sandbox/process.h"
#include "sandbox/sandbox_work.h"

#include <jansson.h>

#define E2B_PREFIX       "/faces/e2b"
#define E2B_ID_SIZE      21      /* "i" and 19 letters and digits, as a part of a host name */
#define E2B_TOKEN_SIZE   33      /* hexadecimal digits */
#define E2B_ENVD_VERSION "0.6.3" /* what the SDKs may ask of envd follows from it */
#define E2B_HOST_SIZE    256
#define E2B_PORT_WORD    "${PORT}" /* in a host: stands for the port */
#define E2B_HTTPS_MAX    32        /* ports of a sandbox that speak TLS */
#define E2B_ENVD_PORT    49983
#define E2B_CODE_PORT    49999
#define E2B_HOME         "/home/user"
#define E2B_ROOT_HOME    "/root"
#define E2B_UPLOADS      128          /* more than a form has files */
#define E2B_FRAME_MAX    (256u << 10) /* bytes of a message of Connect */

struct e2b {
	struct e2b_config config;
	struct list sandboxes; /* struct e2b_sandbox, oldest first */
	struct list snapshots; /* struct e2b_snapshot (snapshots.c), oldest first */
	struct list makings;   /* struct making of control.c: those that are not there yet */
	struct list turns;     /* struct turn of snapshots.c, in their order */
	bool ending;           /* nothing begins any more */
	struct list templates; /* struct e2b_template (templates.h) */
	struct list buildings; /* struct building (template_build.h): builds that go on */
	struct list
	    points; /* struct e2b_point (templates.h), the one that was used last at the end */
	uint64_t last_seq;
	struct http_route *own_rows; /* owned: the addresses without our prefix */
	struct http_route *rows;     /* owned, both */
	struct e2b_bound *bounds;
};

/* What a client follows, from its beginning until it leaves. CUT ends it without a proper end, so that the client asks what
 * became of the sandbox. ENDED: it has ended, else it is being paused, and what runs for this client alone is to end. */
struct e2b_stream {
	struct list node; /* of e2b_sandbox.streams */
	void (*cut)(struct e2b_stream *st, bool ended);
};

struct e2b_build; /* templates.h */

/* A context of the code interpreter: one of the sandbox (sandbox/contexts.h), by the same name. */
struct e2b_context {
	char name[CONTEXT_NAME_MAX + 1]; /* "" = free */
	char *cwd;                       /* owned; NULL: E2B_HOME */
	enum run_language language;
	unsigned seq; /* of those that were made, which are listed in this order */
	unsigned executions;
	bool restarts; /* its next execution begins anew */
};

/* A sandbox that was made through this face. It is a session of the manager with the same id. */
struct e2b_sandbox {
	struct list node; /* of e2b.sandboxes, until it has ended */
	unsigned refs;    /* one of the table, one of each call */
	struct e2b *face;
	struct caller *
	    who; /* reference: whoever made it or connected to it last. Its tokens hold while that holds */
	struct sandbox *sandbox; /* reference; NULL: it is being made, or has ended */
	struct sandbox_hold hold;
	uint64_t seq;
	uint64_t started_ms, end_ms; /* since 1970 */
	uint64_t life_s;             /* that was asked for last */
	sd_event_source *deadline;   /* at END_MS, or the end of a pause */
	bool paused, auto_pause, auto_resume;
	bool pauses_files; /* at END_MS files alone are kept */
	bool hidden;       /* in no list: it holds what a build copies */
	struct e2b_build
	    *build;      /* reference: the template that it is of; NULL = none of a client */
	bool is_private; /* strangers do not reach its ports, whatever the operator permits */
	char host[E2B_HOST_SIZE];      /* what it is called to its servers; "" = localhost:PORT */
	uint16_t https[E2B_HTTPS_MAX]; /* ports whose servers speak TLS */
	unsigned n_https;
	char id[E2B_ID_SIZE];
	char token[E2B_TOKEN_SIZE];   /* of envd */
	char traffic[E2B_TOKEN_SIZE]; /* of the rest */
	char boot_id[UUID_SIZE];      /* another one when its processes have ended by a pause */
	char template_id[ENGINE_NAME_MAX];
	char *same_as;    /* owned: the client's idempotency key; NULL = none */
	json_t *metadata; /* owned, object */
	/* Those with a name are there; the first ones always, each the default of a language. */
	struct e2b_context contexts[CONTEXTS_MAX];
	unsigned last_context; /* number of the newest one */
	struct list streams;
	struct list watches; /* struct e2b_watch: its watchers (watch.c) */
	unsigned last_watch;
	uint64_t changed_ns; /* when this face has changed a file last; 0 = never */
	struct e2b_upload {
		uint64_t hash, at_ns;
	} uploads[E2B_UPLOADS]; /* the last ones, in a ring */
	unsigned next_upload;
};

enum e2b_service {
	E2B_CONTROL, /* a key of the server; errors {"code", "message"} */
	E2B_RPC, /* envd: the token of the sandbox; one JSON object each way, errors of Connect */
	E2B_STREAM, /* the same; the answer is a stream of frames, the error its last one */
	E2B_FILES,  /* envd: token or signature; bytes, errors as of CONTROL */
	E2B_CODE,   /* the code interpreter: either token of the sandbox; errors as of CONTROL */
	E2B_HEALTH, /* of envd and the code interpreter: anybody who knows the id */
};

struct e2b_call;
typedef void (*e2b_fn)(struct e2b_call *c);

struct e2b_route {
	enum http_method method;
	const char *path; /* with E2B_PREFIX */
	enum e2b_service service;
	e2b_fn fn;
	bool reads;     /* CONTROL: a key that may only read may do this */
	bool templates; /* only where clients may build some */
};
extern const struct e2b_route e2b_routes[];
extern const size_t e2b_n_routes;

struct e2b_bound {
	struct e2b *face;
	const struct e2b_route *route;
};

struct e2b_call {
	struct e2b *face;
	const struct e2b_route *route;
	struct http_request *req;    /* NULL: the client has left */
	struct caller *who;          /* reference */
	struct e2b_sandbox *sandbox; /* reference; of services of a sandbox */
	json_t *body;                /* object, owned; of FILES none */
	bool root;                   /* for the user root: e2b_check_user() */
};

/* ---- what bodies ask for (control.c) ---- */

#define E2B_LIFE_MAX_S 86400 /* adapters of evaluations ask for a day */
/* Whole seconds up to E2B_LIFE_MAX_S; *RET stays as it is without the member. */
int e2b_read_seconds(const json_t *body, const char *member, uint64_t *ret,
		     struct err *e) MUST_CHECK;
/* The sandbox {id} of the caller. NULL: it has answered, and C is gone. */
struct e2b_sandbox *e2b_need(struct e2b_call *c);

/* ---- calls (face.c) ---- */

void e2b_reply(struct e2b_call *c, int status, json_t *body); /* BODY taken, NULL: none */
void e2b_reply_text(struct e2b_call *c, int status,
		    struct buf *text); /* JSON; what TEXT holds is taken */
void e2b_fail(struct e2b_call *c, const struct err *e);
void e2b_refuse(struct e2b_call *c, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
/* Ends the call and returns its request. NULL: the client has left. */
struct http_request *e2b_give(struct e2b_call *c);
/* Answers REQ, which has no call yet, as SERVICE does. */
void e2b_refuse_request(struct http_request *req, enum e2b_service service, const struct err *e);
/* The name of Connect for an error. */
const char *e2b_connect_code(enum err_code code);
/* May WHO have sandboxes, which can do everything? */
bool e2b_may_use(const struct caller *who);
/* Every process of envd and every file belongs to the user `user`, whom requests may name. E: they name another one. */
int e2b_check_user(struct e2b_call *c, struct err *e) MUST_CHECK;
int e2b_check_name(struct e2b_call *c, const char *name, struct err *e) MUST_CHECK;
json_t *e2b_text_json(const char *text); /* any bytes */
/* Asks a router for its part of a list (fleet/identity.h)? */
bool e2b_is_for_list(const struct http_request *req);
/* Ends the call with ROWS (taken), as its client or a router expects them. NEXT: where the next page begins; 0 = there is none, or
 * the client has none. */
void e2b_reply_list(struct e2b_call *c, json_t *rows, uint64_t next);
/* Is GIVEN, which may be NULL, the token TOKEN? */
bool e2b_is_token(const char *given, const char *token);
/* Answers 502 in the words that the SDKs look for; ID: as in the request. */
void e2b_refuse_dead(struct http_request *req, const char *id);
/* Is REQ for an address with a signature? */
bool e2b_is_signed(const struct e2b_bound *b, const struct http_request *req);
/* For http_route.admit: who asks, and may they? USER is a struct e2b_bound. */
bool e2b_admit(struct http_request *req, void *user);
void e2b_dispatch(struct http_request *req, void *user);

/* ---- sandboxes (sandboxes.c) ---- */

void e2b_make_id(const struct e2b *f, char ret[E2B_ID_SIZE]);
struct e2b_sandbox *e2b_find(const struct e2b *f, const char *id);
/* Which sandbox REQ is about, by its name or its routing headers, which must not differ, else by its token. NULL: none that
 * lives. */
struct e2b_sandbox *e2b_sandbox_of(const struct e2b *f, const struct http_request *req);
/* Does REQ name PORT, by its name or its routing headers? */
bool e2b_is_for_port(const struct http_request *req, unsigned port);
/* Is the host of REQ the name of a port? */
bool e2b_is_port_name(const struct http_request *req);
/* The sandbox that REQ names, whether there is one or not. False: it names none. */
bool e2b_id_of(const struct http_request *req, char ret[E2B_ID_SIZE]);
struct e2b_sandbox *e2b_sandbox_new(struct e2b *f, const struct caller *who);
struct e2b_sandbox *e2b_sandbox_ref(struct e2b_sandbox *s);
struct e2b_sandbox *e2b_sandbox_unref(struct e2b_sandbox *s); /* NULL is fine; returns NULL */
/* It was made: it lives until its time is over. */
int e2b_sandbox_begin(struct e2b_sandbox *s, struct sandbox *made, struct err *e) MUST_CHECK;
/* It ends SECONDS from now on; LONGER: unless it would end later. Not of one that is paused. */
void e2b_sandbox_set_end(struct e2b_sandbox *s, uint64_t seconds, bool longer);
/* Its processes rest, and its time does not pass. MEMORY false: it has files alone afterwards. */
void e2b_sandbox_pause(struct e2b_sandbox *s, bool memory);
/* It goes on, for SECONDS. MEMORY false: with its files alone. */
void e2b_sandbox_resume(struct e2b_sandbox *s, uint64_t seconds, bool memory);
/* Takes it out of the table. Its processes are ended by the caller. */
void e2b_sandbox_forget(struct e2b_sandbox *s);
void e2b_sandboxes_done(struct e2b *f);

/* ---- snapshots (snapshots.c) ---- */

/* The snapshot of OWNER that TEMPLATE names, by its id or its name. NULL: none. */
struct sandbox *e2b_snapshot_of(const struct e2b *f, const char *owner, const char *template);
/* The id of the newest snapshot of OWNER with that name or id, and when it was made, in ms since 1970; NULL: none. Borrowed. */
const char *e2b_snapshot_named(const struct e2b *f, const char *owner, const char *name,
			       uint64_t *ret_ms);
/* Does a name that SDKs use by default mean the image of this server? */
bool e2b_is_own_image(const char *template);
void e2b_snapshots_done(struct e2b *f);
/* sandbox_fork(), once the forks of SOURCE that were asked for before are done: a sandbox can be copied for one at a time. */
int e2b_fork_in_turn(struct e2b *f, struct sandbox *source, const char *id, fork_fn cb, void *user,
		     struct err *e) MUST_CHECK;
void e2b_turns_done(struct e2b *f);

/* ---- Connect (connect.c) ---- */

/* Reads the body of a call of E2B_STREAM: one frame with a JSON object. NULL with E set. */
json_t *e2b_read_frame(struct http_request *req, struct err *e);
/* A frame with the JSON text that FMT makes. LAST: the end of the stream. */
int e2b_send_frame(struct http_stream *st, bool last, const char *text, size_t len) MUST_CHECK;
/* Answers with a stream that has nothing but the error E. */
void e2b_stream_refuse(struct http_request *req, const struct err *e);
/* Ends ST with E; NULL: without an error. ST is gone. */
void e2b_stream_finish(struct http_stream *st, const struct err *e);

/* ---- files (files.c) ---- */

/* A path as clients write it, from their home on, in the engine's form; RET has ENGINE_PATH_MAX bytes. */
int e2b_path(const struct e2b_call *c, const char *path, char *ret, struct err *e) MUST_CHECK;
/* How a call makes files, bits ENGINE_FILE_*: they replace others, and belong to the user that the call names. */
unsigned e2b_file_how(const struct e2b_call *c);
/* PATH of the engine as clients know it. */
int e2b_add_path(struct buf *b, const char *path) MUST_CHECK;
/* The sandbox whose file the signature in the query of REQ is for. NULL with E set. */
struct e2b_sandbox *e2b_signed_for(const struct e2b *f, const struct http_request *req,
				   struct err *e);

/* ---- what clients note about files (metadata.c) ---- */

/* An object of those ATTRIBUTES of a file, as the engine tells them, that clients of E2B know. NULL: there is none. */
json_t *e2b_metadata_json(const char *attributes, size_t len);
/* Those that come with an upload, in the engine's form; RET is bounded by ENGINE_ATTRIBUTES_MAX. */
int e2b_read_metadata(const struct http_request *req, struct buf *ret, struct err *e) MUST_CHECK;
/* Ends the call of an upload: FILES have their names, and get ATTRIBUTES, which are taken. */
void e2b_uploaded(struct e2b_call *c, const struct form_written *files, unsigned n,
		  struct buf *attributes);

/* ---- the control plane (control.c, network.c) ---- */

#define E2B_EVERYTHING  "0.0.0.0/0" /* in denyOut: all hosts but those of allowOut */
#define E2B_NOT_OFFERED "this server does not offer it"
int e2b_refuse_member(struct err *e, const char *member, const char *why); /* -EINVAL */
/* Asks for nothing. */
bool e2b_is_empty(const json_t *v);
/* Whether strangers may reach the ports of a sandbox: NETWORK as in a body, or NULL. */
int e2b_read_private(const struct e2b *f, const json_t *network, bool *ret,
		     struct err *e) MUST_CHECK;
/* What servers in a sandbox are told in Host; "" if NETWORK does not say. RET has E2B_HOST_SIZE bytes. */
int e2b_read_host(const json_t *network, char *ret, struct err *e) MUST_CHECK;
/* Which servers in S speak TLS. */
int e2b_read_https(const struct e2b *f, const json_t *network, struct e2b_sandbox *s,
		   struct err *e) MUST_CHECK;
/* NETWORK and INTERNET as in a body, or NULL. RET is empty if they choose nothing: then the operator's policy holds. */
int e2b_choose_network(const struct e2b *f, const json_t *network, const json_t *internet,
		       struct sandbox_choice *ret, struct err *e) MUST_CHECK;

/* The path MEMBER of the body, for the user that the request names. False: it has answered. */
bool e2b_need_path(struct e2b_call *c, const char *member, char *ret);
/* New reference: what stands at PATH of the engine. Any thread. */
json_t *e2b_entry_json(const char *path, const struct engine_file *f);
/* The same with its attributes; a link is told as what it leads to, and where that is. */
json_t *e2b_stat_json(const char *path, const struct engine_stat *st);

/* ---- processes ---- */

unsigned e2b_pid(const struct process_facts *f);
/* Ends the call: its client is told what P writes, from its beginning or FROM_NOW on, and its end. */
int e2b_follow(struct e2b_call *c, struct process *p, bool from_now, struct err *e) MUST_CHECK;

/* ---- contexts of the code interpreter (contexts.c) ---- */

#define E2B_DEFAULT_CONTEXTS 2u
/* NULL, or "": the default one. NULL after setting E. Borrowed. */
struct e2b_context *e2b_context_of(struct e2b_sandbox *s, const char *name, struct err *e);
void e2b_contexts_begin(struct e2b_sandbox *s);
void e2b_contexts_done(struct e2b_sandbox *s);

/* ---- watchers (watch.c) ---- */

struct e2b_watch;
void e2b_watch_free(struct e2b_watch *w);
void e2b_watches_done(struct e2b_sandbox *s);
/* The face changes PATH of the engine, in place or by a new file (UPLOADS). */
void e2b_note_change(struct e2b_sandbox *s, const char *path, bool uploads);

/* ---- handlers ---- */

void e2b_create_v1(struct e2b_call *c);
void e2b_create_v2(struct e2b_call *c);
void e2b_connect(struct e2b_call *c);
void e2b_kill(struct e2b_call *c);
void e2b_info(struct e2b_call *c);
void e2b_list_v1(struct e2b_call *c);
void e2b_list_v2(struct e2b_call *c);
void e2b_set_timeout(struct e2b_call *c);
void e2b_refresh(struct e2b_call *c);
void e2b_pause(struct e2b_call *c);
void e2b_resume(struct e2b_call *c);
void e2b_make_snapshot(struct e2b_call *c);
void e2b_list_snapshots(struct e2b_call *c);
void e2b_delete_template(struct e2b_call *c);
void e2b_fork(struct e2b_call *c);
void e2b_not_offered(struct e2b_call *c);
void e2b_make_template(struct e2b_call *c);
void e2b_archive_address(struct e2b_call *c);
void e2b_start_build(struct e2b_call *c);
void e2b_build_status(struct e2b_call *c);
void e2b_find_alias(struct e2b_call *c);
void e2b_list_templates(struct e2b_call *c);
void e2b_one_template(struct e2b_call *c);
void e2b_list_tags(struct e2b_call *c);
void e2b_assign_tags(struct e2b_call *c);
void e2b_remove_tags(struct e2b_call *c);
void e2b_metrics(struct e2b_call *c);
void e2b_metrics_of_many(struct e2b_call *c);
void e2b_update_network(struct e2b_call *c);

void e2b_start_process(struct e2b_call *c);
void e2b_connect_process(struct e2b_call *c);
void e2b_list_processes(struct e2b_call *c);
void e2b_send_input(struct e2b_call *c);
void e2b_close_input(struct e2b_call *c);
void e2b_send_signal(struct e2b_call *c);
void e2b_update_process(struct e2b_call *c);

void e2b_stat(struct e2b_call *c);
void e2b_make_dir(struct e2b_call *c);
void e2b_move(struct e2b_call *c);
void e2b_list_dir(struct e2b_call *c);
void e2b_remove(struct e2b_call *c);
void e2b_watch_dir(struct e2b_call *c);
void e2b_create_watcher(struct e2b_call *c);
void e2b_watcher_events(struct e2b_call *c);
void e2b_remove_watcher(struct e2b_call *c);

void e2b_get_file(struct e2b_call *c);
void e2b_put_files(struct e2b_call *c);
void e2b_put_file(struct e2b_call *c); /* the body is the file (upload.c) */

void e2b_execute(struct e2b_call *c);
void e2b_list_contexts(struct e2b_call *c);
void e2b_make_context(struct e2b_call *c);
void e2b_restart_context(struct e2b_call *c);
void e2b_end_context(struct e2b_call *c);

void e2b_health(struct e2b_call *c);
