/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: REST under /api/v1. Each route is one row of a table. The router, the checks of
 * rights, bodies and queries, and the OpenAPI document are all made from that row, so the description
 * cannot differ from what the server does.
 *
 * A handler owns its call and ends it, at once or later, with exactly one of rest_reply(), rest_fail()
 * and rest_give(). If the client leaves meanwhile, req becomes NULL and the work goes on. */
#pragma once

#include "api/api_state.h"
#include "base/buf.h"

#define REST_BASE "/api/v1"
#define WORKSPACE "/mnt/data"

enum rest_flag {
	REST_PUBLIC = 1 << 0,     /* anybody */
	REST_ADMIN = 1 << 1,      /* administrators */
	REST_CHANGES = 1 << 2,    /* not for keys that may only read */
	REST_BYTES_IN = 1 << 3,   /* the body is bytes, read by the handler as they come */
	REST_BYTES_OUT = 1 << 4,  /* so is the answer */
	REST_IDEMPOTENT = 1 << 5, /* takes an Idempotency-Key */
	REST_EVENTS = 1 << 6,     /* answers with an event stream */
	REST_STORE = 1 << 7,      /* needs the store */
	REST_ARCHIVE = 1 << 8,    /* answers with an archive where the query says so */
	REST_FORM_IN = 1 << 9,    /* the body is multipart/form-data, read as it comes */
	/* Its answer waits for the disk, and the loop does not. The handler must answer before it returns. */
	REST_LATER = 1 << 10,
	/* Reads the history: the handler begins when the rows of earlier runs are written, and the loop does not wait. If
	 * the client leaves before that, only a handler with REST_CHANGES begins; `object` is its {id}. */
	REST_HISTORY = 1 << 11,
	/* Its answer may be large: room for it is taken before the handler begins. */
	REST_LARGE = 1 << 12,
	REST_ROUTER =
	    1
	    << 14, /* of users and credentials: a worker of a fleet has none. Its routers tell it by "removeUser" who is removed */
	REST_SOCKET =
	    1
	    << 13, /* may become a WebSocket, for which browsers can show a key in the query only */
};

enum rest_type {
	REST_TEXT, /* min..max bytes of UTF-8 */
	REST_INT,
	REST_BOOL,
	REST_WORD,    /* one of `words` */
	REST_TEXTS,   /* array of min..max texts */
	REST_OBJECTS, /* array of min..max objects with the members `fields` */
	REST_OPTION,  /* what sandbox_options_read() reads for `option` */
};

/* A member of a body, or a value of a query. */
struct rest_field {
	const char *name; /* NULL ends a list */
	enum rest_type type;
	bool required;
	int64_t min, max;
	const char *words; /* "user|admin" */
	const char *doc;
	enum sandbox_option option;      /* OPTION, or INT with `limited` */
	bool limited;                    /* INT: the operator's maximum of `option` holds */
	bool change;                     /* OPTION: null removes a pair */
	const struct rest_field *fields; /* OBJECTS */
};

struct process;
struct process_facts;
struct process_request;
struct rest_call;
typedef void (*rest_fn)(struct rest_call *c);

struct rest_route {
	enum http_method method;
	const char *path; /* below REST_BASE */
	const char *id;   /* operationId */
	const char *summary;
	rest_fn fn;
	unsigned flags;
	const struct rest_field *body; /* NULL: none */
	const struct rest_field *query;
	int ok;             /* status of success */
	const char *answer; /* name of its schema; NULL: no body */
	const char *errors; /* further statuses: "404 409" */
	uint64_t body_max;
};

extern const struct rest_route rest_routes[];
extern const size_t rest_n_routes;

struct idem;

struct rest_call {
	struct api *api;
	const struct rest_route *route;
	struct http_request *req; /* NULL: the client has left */
	struct caller *who;
	json_t *body;                 /* checked against the row; NULL without one */
	char owner[STORE_OWNER_SIZE]; /* the caller, or the owner that an administrator names */
	struct sandbox *sandbox;      /* reference, once rest_sandbox() has found it */
	rest_fn next;
	struct idem *idem;
	json_t *done;                   /* owned, or NULL: further members of a problem */
	char *text;                     /* owned; for the handler's use */
	struct budget_share room;       /* what it waits with; given back with the call */
	struct shared_bytes *answer;    /* JSON, reference; it may wait for the disk. NULL: none */
	int status;                     /* of ANSWER */
	char object[STORE_OBJECT_SIZE]; /* for the audit log */
	const char *action;             /* NULL: the call is not audited */
};

/* ---- answers; C is gone after each ---- */

void rest_reply(struct rest_call *c, int status, json_t *body); /* BODY taken, NULL: none */
/* The same with JSON as text: what TEXT holds is taken. */
void rest_reply_text(struct rest_call *c, int status, struct buf *text);
/* The same with JSON that others have, too. */
void rest_reply_bytes(struct rest_call *c, int status, struct shared_bytes *text);
void rest_fail(struct rest_call *c, const struct err *e);
void rest_refuse(struct rest_call *c, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
/* Ends the call and returns its request, to answer with bytes or a stream. NULL: the client has left. */
struct http_request *rest_give(struct rest_call *c);

/* For http_request_on_gone(); USER is the call, which goes on without its client. */
void rest_on_gone(void *user);

/* ---- what handlers ask ---- */

/* Finds the sandbox {id} of the caller, activates it if it is stored, and calls NEXT; else 404. */
void rest_sandbox(struct rest_call *c, rest_fn next);
/* Ends the call: the caller has no sandbox ID. */
void rest_no_sandbox(struct rest_call *c, const char *id);
const char *rest_text(const struct rest_call *c, const char *name, const char *otherwise);
int64_t rest_int(const struct rest_call *c, const char *name, int64_t otherwise);
bool rest_bool(const struct rest_call *c, const char *name);
bool rest_has(const struct rest_call *c, const char *name);
/* The same for the query, which has been checked. */
int64_t rest_query_int(const struct rest_call *c, const char *name, int64_t otherwise);
bool rest_query_bool(const struct rest_call *c, const char *name);
/* Values of the query parameter `limit`. */
#define REST_LIMIT_DEFAULT 100
#define REST_LIMIT_MAX     1000

/* Did the page of this server ask? For what people are told, never for rights. */
bool rest_is_page(const struct rest_call *c);

/* ---- fields (fields.c) ---- */

/* Checks BODY (an object) against FIELDS, and replaces values that stand for one of the right type (json_coerce.h). Unknown
 * members are refused. */
int fields_check(const struct rest_field *fields, json_t *body, struct err *e) MUST_CHECK;
int fields_check_query(const struct rest_field *fields, struct http_request *req,
		       struct err *e) MUST_CHECK;
/* M knows the operator's maxima, which the description states. */
json_t *fields_schema(const struct rest_field *fields, const struct manager *m); /* of a body */
/* of a query: array */
json_t *fields_parameters(const struct rest_field *fields, const struct manager *m);

/* ---- the rest of the room ---- */

int rest_add_routes(struct api *a, struct http_server *http, unsigned scopes) MUST_CHECK;
void rest_done(struct api *a);
char *openapi_make(const char *version, const struct manager *m); /* owned text; NULL: no memory */
/* Answers REQ with DOC, a document of openapi_make() that stays as long as the server, or NULL: no memory. Its server is
 * the path below which the client finds us. */
void openapi_send(struct http_request *req, const char *doc);

/* rest_sandboxes.c */
void rest_list_sandboxes(struct rest_call *c);
void rest_create_sandbox(struct rest_call *c);
void rest_get_sandbox(struct rest_call *c);
void rest_change_sandbox(struct rest_call *c);
void rest_keep_sandbox(struct rest_call *c);
void rest_delete_sandbox(struct rest_call *c);
/* rest_fail() for a sandbox that could not be made: if there is no room for a session, tells the owner which
 * sessions there are. */
void rest_fail_open(struct rest_call *c, const struct err *e);
/* rest_checkpoints.c */
void rest_list_checkpoints(struct rest_call *c);
void rest_make_checkpoint(struct rest_call *c);
void rest_restore_checkpoint(struct rest_call *c);
void rest_drop_checkpoint(struct rest_call *c);
void rest_branch(struct rest_call *c);
void rest_fork(struct rest_call *c);
/* Ends the branches whose credential was revoked. */
void branches_end_callers(struct api *a);
/* rest_contexts.c */
void rest_list_contexts(struct rest_call *c);
void rest_make_context(struct rest_call *c);
void rest_end_context(struct rest_call *c);
/* rest_packages.c */
void rest_list_packages(struct rest_call *c);
void rest_look_up_package(struct rest_call *c);
void rest_install_packages(struct rest_call *c);
void rest_check_packages(struct rest_call *c);
void rest_uninstall_packages(struct rest_call *c);
/* rest_runs.c */
void rest_start_run(struct rest_call *c);
void rest_list_runs(struct rest_call *c);
void rest_get_run(struct rest_call *c);
void rest_cancel_run(struct rest_call *c);
void rest_run_events(struct rest_call *c);
struct api_run;
/* Forgets the run of OWNER that ended longest ago, if nobody reads it and it is not BUT (may be NULL).
 * False: there is none. */
bool runs_forget_oldest(struct api *a, const char *owner, const struct api_run *but);
void runs_done(struct api *a);
/* OWNER was removed: what is kept for later requests goes. */
void rest_forget_owner(struct api *a, const char *owner);
/* rest_processes.c */
void rest_start_process(struct rest_call *c);
void rest_list_processes(struct rest_call *c);
void rest_get_process(struct rest_call *c);
void rest_signal_process(struct rest_call *c);
void rest_write_process(struct rest_call *c);
void rest_remove_process(struct rest_call *c);
void rest_list_terminals(struct rest_call *c);
void rest_start_terminal(struct rest_call *c);
void rest_get_terminal(struct rest_call *c);
void rest_remove_terminal(struct rest_call *c);
/* Ends the processes whose credential was revoked, also those that a tool has started. */
void processes_end_callers(struct api *a);
json_t *rest_process_json(const struct process_facts *f);
/* Goes on with NEXT, with the sandbox and the id of a process or of another part of it, PARAM of the path, in c->text. */
void rest_with_process(struct rest_call *c, const char *param, const char *action, rest_fn next);
/* The process c->text of c->sandbox; NULL after it has answered, and C is gone. */
struct process *rest_need_process(struct rest_call *c);
/* Goes on with NEXT, with the sandbox, unless `command` of the body is too long. */
void rest_take_command(struct rest_call *c, const char *action, rest_fn next);
/* Starts COMMAND by a shell and answers. OWN: what this kind of process has alone; the rest comes from the body. */
void rest_begin_process(struct rest_call *c, const char *command,
			const struct process_request *own);
void rest_forget_process(struct rest_call *c);

/* rest_ports.c */
json_t *rest_port_json(const char *sandbox, const struct engine_port *p);
void rest_list_ports(struct rest_call *c);
void rest_open_port(struct rest_call *c);

/* rest_watch.c */
extern const struct rest_field rest_watch_query[];
void rest_watch(struct rest_call *c);

/* terminal_socket.c */
/* Ends the call: its client becomes one of those of the terminal P. */
void terminal_attach(struct rest_call *c, struct process *p);
/* rest_notebooks.c: what happens, and what happened */
void rest_events(struct rest_call *c);
void rest_list_notebooks(struct rest_call *c);
void rest_get_notebook(struct rest_call *c);
void rest_remove_notebook(struct rest_call *c);
#define MARKDOWN_MAX 65536 /* bytes of a cell that somebody writes */
void rest_add_markdown(struct rest_call *c);
void rest_change_markdown(struct rest_call *c);
void rest_remove_cell(struct rest_call *c);
void rest_get_cell(struct rest_call *c);
void rest_get_cell_file(struct rest_call *c);
void rest_get_cell_results(struct rest_call *c);
void rest_search_history(struct rest_call *c);
/* rest_look.c: what the page looks up inside a sandbox */
void rest_preview(struct rest_call *c);
void rest_complete(struct rest_call *c);
void rest_move_file(struct rest_call *c);
void rest_make_folder(struct rest_call *c);
/* rest_usage.c */
void rest_usage(struct rest_call *c);
/* Rows of a list of sandboxes that get a member `usage` before the list is sent. NULL: no memory. */
struct usage_list;
struct usage_list *usage_list_new(struct rest_call *c);
void usage_list_free(struct usage_list *u); /* NULL is fine */
/* ROW (borrowed; in the list that will be sent) is about S. */
void usage_list_add(struct usage_list *u, struct sandbox *s, json_t *row);
/* Answers the call with LIST, which it takes, as soon as the figures are there, at the latest after a second. U is gone. */
void usage_list_reply(struct usage_list *u, json_t *list);
/* export.c */
void rest_export(struct rest_call *c);
/* rest_files.c */
void rest_list_files(struct rest_call *c);
void rest_get_file(struct rest_call *c);
void rest_put_file(struct rest_call *c);
void rest_delete_file(struct rest_call *c);
json_t *rest_name(const char *name); /* any bytes as a JSON string */
json_t *rest_time(uint64_t wall_ns); /* RFC 3339, or null for 0 */
/* form.c */
void rest_post_files(struct rest_call *c);
/* folder.c: sends the folder PATH of c->sandbox as an archive; FORM is "tar" or "zip" */
void rest_send_folder(struct rest_call *c, const char *path, const char *form);
/* rest_users.c */
void rest_me(struct rest_call *c);
json_t *rest_me_json(struct api *a, const struct caller *w);
/* rest_session.c: browsers */
void rest_get_session(struct rest_call *c);
void rest_sign_in(struct rest_call *c);
void rest_sign_out(struct rest_call *c);
void rest_change_password(struct rest_call *c);
void rest_register(struct rest_call *c);
void rest_list_users(struct rest_call *c);
void rest_add_user(struct rest_call *c);
void rest_get_user(struct rest_call *c);
void rest_change_user(struct rest_call *c);
void rest_remove_user(struct rest_call *c);
void rest_list_keys(struct rest_call *c);
void rest_new_key(struct rest_call *c);
void rest_revoke_key(struct rest_call *c);
void rest_list_audit(struct rest_call *c);
/* rest_invitations.c */
void rest_list_invitations(struct rest_call *c);
void rest_new_invitation(struct rest_call *c);
void rest_withdraw_invitation(struct rest_call *c);
/* budget_figures.c: objects with a row for each budget. New references. */
json_t *budget_figures_own(const struct api *a, const char *owner);
json_t *budget_figures_all(const struct api *a);
/* stats.c */
void rest_policy(struct rest_call *c);
void rest_stats(struct rest_call *c);
void rest_get_server(struct rest_call *c);
void rest_get_fleet(struct rest_call *c);
void rest_get_figures(struct rest_call *c);
/* rest_images.c */
/* Calls NEXT with C when what is known of images is up to date. */
void rest_look_at_images(struct rest_call *c, void (*next)(void *call));
void rest_list_images(struct rest_call *c);
void rest_build_image(struct rest_call *c);
void rest_cancel_build(struct rest_call *c);
void rest_commit_image(struct rest_call *c);
void rest_remove_image(struct rest_call *c);
void rest_openapi(struct rest_call *c);
