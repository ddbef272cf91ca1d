/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/mcp: the objects of the library.
 *
 * Ownership: the server knows its peers, listens and tasks. A peer knows its calls in flight and
 * the questions to its client. A call has one reference for being in flight, which call_end()
 * drops, and those that handlers take. The call of a task belongs to the task, not to the peer. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "base/text.h"
#include "budget/budgets.h"
#include "mcp/mcp.h"
#include "mcp/peer.h"
#include "mcp/revision.h"
#include "mcp/spill.h"

#define MCP_NS            "io.modelcontextprotocol/"
#define META_VERSION      MCP_NS "protocolVersion"
#define META_CLIENT_CAPS  MCP_NS "clientCapabilities"
#define META_LOG_LEVEL    MCP_NS "logLevel"
#define META_CLIENT_INFO  MCP_NS "clientInfo"
#define META_SERVER_INFO  MCP_NS "serverInfo"
#define META_SUBSCRIPTION MCP_NS "subscriptionId"
#define EXT_TASKS         MCP_NS "tasks"
#define EXT_UI            MCP_NS "ui"

#define BATCH_MAX         100U         /* messages in one batch */
#define SUBSCRIPTIONS_MAX 1024U        /* resources one client may watch */
#define URI_MAX           8192U        /* bytes of a URI from a client */
#define NAME_MAX_BYTES    256U         /* bytes of a name from a client */
#define CURSOR_MAX        4096U        /* bytes of a cursor */
#define INPUTS_MAX        32U          /* questions in one round */
#define WIRE_MAX          (512U << 20) /* bytes of one message from us */

/* ---- mcp_server.c and registry.c ---- */

enum item_kind {
	ITEM_TOOL,
	ITEM_RESOURCE,
	ITEM_TEMPLATE,
	ITEM_PROMPT,
	ITEM_KIND_MAX_,
};

/* An argument of a tool that clients repeat in a header (x-mcp-header). */
struct header_param {
	char *path;   /* owned: property names joined by '\n' */
	char *header; /* owned: the part after Mcp-Param- */
};

/* A registered tool, resource, template or prompt. Calls in flight hold a reference, so it may be
 * removed meanwhile. */
struct item {
	unsigned refs;
	char *key;      /* owned: name, URI or template */
	json_t *doc;    /* as listed in the newest revision */
	unsigned flags; /* enum mcp_tool_flags */
	json_t *needs;  /* client capabilities, or NULL */
	char *view;     /* owned: URI of the page that shows a tool's results, or NULL */
	struct header_param *headers; /* owned array */
	size_t n_headers;
	mcp_tool_fn call;
	mcp_read_fn read;
	mcp_prompt_fn get;
	void *user;
};

struct item *item_ref(struct item *it);
struct item *item_unref(struct item *it);

struct item_table {
	struct item **v;
	size_t n;
	size_t cap;
	char *text[MCP_REV_MAX_]; /* the result of the list if one page holds it; made at the first
				   * request */
	size_t text_len[MCP_REV_MAX_];
};

void item_table_done(struct item_table *t);
/* Puts TEXT (NULL: nothing) into KEY of OBJ: as a string, or parsed, which must have TYPE. */
int doc_set_text(json_t *obj, const char *key, const char *text, struct err *e) MUST_CHECK;
int doc_set_json(json_t *obj, const char *key, const char *text, json_type type,
		 struct err *e) MUST_CHECK;

struct mcp_server {
	struct mcp_server_config config; /* strings are owned or NULL; the key is in state_key */
	uint8_t state_key[MCP_STATE_KEY_BYTES];
	json_t *info; /* Implementation object */
	struct item_table items[ITEM_KIND_MAX_];
	struct mcp_resource_source source;
	mcp_complete_fn complete;
	void *complete_user;
	struct list peers;
	uint64_t n_peers;    /* made so far */
	struct list listens; /* calls of subscriptions/listen */
	struct list tasks;
	struct list notes; /* notes.c: of clients without connection or session */
};

/* notes.c */
void server_forget_notes(struct mcp_server *s);

struct item *item_find(const struct mcp_server *s, enum item_kind kind, const char *key);
/* May the caller use this tool? */
bool call_may(const struct mcp_call *c, const struct item *tool);
/* Does the list of KIND exist at all? */
bool server_offers(const struct mcp_server *s, enum item_kind kind);
int64_t server_now_ms(const struct mcp_server *s);  /* for dates */
int64_t server_tick_ms(const struct mcp_server *s); /* for deadlines */
/* The capabilities object as an era's clients know it. CLIENT: the capabilities of the client, or
 * NULL. New reference. */
json_t *server_capabilities(const struct mcp_server *s, enum mcp_revision rev,
			    const json_t *client);
/* Can a client with these capabilities show a tool's HTML page? CLIENT may be NULL. */
bool client_shows_views(const json_t *client);

/* ---- peers ---- */

/* Who a client is. It outlives the peer if a task goes on. */
struct identity {
	unsigned refs;
	char *principal; /* owned */
	void *data;
	bool limited; /* may not use everything */
	void (*data_unref)(void *);
};

/* May the holder of this credential use the tool? Items that are not tools are for everybody. */
bool identity_may(const struct mcp_server *s, const struct identity *who, const struct item *tool);
/* May it see the results of the tool? */
bool identity_may_see(const struct mcp_server *s, const struct identity *who,
		      const struct item *tool);
/* May PEER watch URI? */
bool peer_may_subscribe(struct mcp_peer *peer, const char *uri);
/* Tells the source of resources who has subscribed to, or does not any more, the keys of URIS (may be NULL). */
void source_subscribed_all(const struct mcp_server *s, const char *principal, json_t *uris,
			   bool is);
bool identity_may_ask(const struct mcp_server *s, const struct identity *who, const char *method);
struct identity *identity_unref(struct identity *who);

struct mcp_peer {
	unsigned refs;
	bool closed;
	bool session; /* initialize was answered */
	enum mcp_transport transport;
	enum mcp_revision revision;
	enum mcp_level level;
	const struct mcp_peer_ops *ops;
	void *user;
	struct mcp_server *server;
	struct identity *who;
	json_t *client_caps;                    /* legacy: as initialize said; NULL before */
	char client_name[MCP_CLIENT_NAME_SIZE]; /* the same; "" = it gave none */
	json_t *subscriptions;          /* legacy: object whose keys are URIs; NULL when none */
	char *note;                     /* owned: mcp_call_keep_note(); NULL when none */
	char *base;                     /* owned: mcp_peer_config.base; NULL when none */
	struct budget_share subscribed; /* as many */
	struct list node;               /* in server->peers */
	struct list calls;
	struct list joining; /* batches whose array a thread makes */
	size_t n_calls;      /* in both */
	struct list asks;    /* questions that the client has not answered */
	uint64_t n_asked;    /* makes ids of questions unique */
	uint64_t number;     /* from 1, of no other peer of the server */
};

void peer_unref(struct mcp_peer *peer);
/* HTTP+SSE: does the error of a request that is refused go on the stream, if it has an id? */
static inline bool peer_refuses_on_stream(const struct mcp_peer *p)
{
	return p->transport == MCP_TRANSPORT_SSE && !p->server->config.refusals_fail_post;
}
/* Sends a message that belongs to no request; JSON is borrowed. */
void peer_send(struct mcp_peer *peer, enum mcp_out kind, const json_t *message);

/* ---- messages ---- */

enum message_fault {
	MESSAGE_OK,
	MESSAGE_TOO_LARGE,
	MESSAGE_NOT_JSON,
	MESSAGE_INVALID, /* JSON, but too deep, too long or with a duplicate key */
	MESSAGE_NO_MEMORY,
	MESSAGE_OVER_BUDGET,
};
/* What a reader returns. */
struct message {
	json_t *root;        /* new reference, or NULL after a fault */
	struct spill *spill; /* new reference, or NULL */
	json_t *id;          /* after a fault: new reference to the request's id, or NULL */
	const char *why;     /* after a fault; static, or NULL */
	size_t size;         /* bytes of memory that it took to read */
};
/* Takes the message out of READER. */
enum message_fault reader_take(struct mcp_reader *reader, struct message *ret);

/* ---- methods ---- */

enum method_flags {
	METHOD_LEGACY = 1 << 0,
	METHOD_MODERN = 1 << 1,
	METHOD_BOTH = METHOD_LEGACY | METHOD_MODERN,
	METHOD_NAME = 1 << 2,   /* Mcp-Name repeats params.name */
	METHOD_URI = 1 << 3,    /* … params.uri */
	METHOD_TASK = 1 << 4,   /* … params.taskId; needs the tasks extension */
	METHOD_INPUT = 1 << 5,  /* may end in input_required */
	METHOD_CACHED = 1 << 6, /* results carry caching hints */
	METHOD_ALONE = 1 << 7,  /* not inside a batch */
};

enum method_offer {
	OFFER_ALWAYS,
	OFFER_TOOLS,
	OFFER_RESOURCES,
	OFFER_SUBSCRIBE,
	OFFER_PROMPTS,
	OFFER_COMPLETIONS,
	OFFER_LOGGING,
	OFFER_LISTEN,
	OFFER_TASKS,
};

struct method {
	const char *name;
	unsigned flags;
	enum method_offer offer;
	void (*run)(struct mcp_call *call);
};

/* NULL: the server offers no method of that name to clients of that era. */
const struct method *method_find(const struct mcp_server *s, const char *name, enum mcp_era era);

#define M(name, flags, offer, fn) void fn(struct mcp_call *call);
#include "mcp/methods.tbl.h"
#undef M

/* ---- calls ---- */

struct task;

/* The answers of one batch, collected for one array. A thread joins them if they are large. */
struct batch {
	unsigned refs;
	struct mcp_peer *peer; /* borrowed, while there is a sink */
	struct list joining;
	unsigned waiting; /* calls without an answer */
	bool sealed;      /* all elements of the batch have been read */
	struct mcp_sink *sink;
	unsigned n_texts;
	size_t bytes; /* of the texts */
	bool failed;  /* an answer was lost for want of memory */
	struct batch_text {
		char *json; /* owned */
		size_t len;
	} texts[BATCH_MAX];
};

struct mcp_call {
	unsigned refs;
	bool finished;
	bool cancelled;
	bool waiting; /* the handler has returned and waits for answers of the client */
	bool modern;
	bool checking; /* the modern checks are not finished: errors are HTTP 400 */
	bool has_progress;
	enum mcp_revision revision;
	enum mcp_transport transport;
	int level;       /* lowest log level wanted, -1 = none */
	double progress; /* last one sent */
	struct mcp_server *server;
	struct mcp_peer *peer; /* NULL after it was closed, and for tasks */
	struct identity *who;
	struct mcp_sink *sink; /* NULL when nobody listens any more */
	struct batch *batch;
	const struct method *method;
	json_t *id;
	json_t *root;               /* the whole message; keeps the next ones alive */
	struct budget_share memory; /* of the message */
	json_t *params;             /* borrowed from root, NULL when absent */
	json_t *client_caps;        /* own reference, NULL when none */
	json_t *token;              /* progressToken, borrowed from root */
	json_t *arguments;          /* own reference */
	char *remark;               /* owned, see mcp_call_remark(); NULL: none */
	char *base;                 /* owned: that of the peer when it began; NULL: none */
	struct spill *spill;
	const struct mcp_http_facts *facts; /* only while mcp_peer_receive() runs */
	struct item *item;
	void (*enter)(struct mcp_call *call); /* (re-)enters the handler */
	json_t *inputs;                       /* answers of the client so far, or NULL */
	json_t *state;                        /* what the handler wanted to remember, or NULL */
	unsigned n_open;                      /* legacy: questions without an answer */
	struct task *task;
	json_t *listen; /* subscriptions/listen: the part of the filter that we offer */
	struct budget_share stream, subscribed; /* of the listen */
	mcp_cancel_fn on_cancel;
	void *on_cancel_user;
	void *data;
	void (*data_free)(void *);
	struct list node;        /* in peer->calls */
	struct list listen_node; /* in server->listens */
};

/* MESSAGE is borrowed; the call takes its own reference. NULL when memory is short. */
struct mcp_call *call_new(struct mcp_peer *peer, json_t *message, enum mcp_era era);
/* Is V, which may be NULL, how some clients write an object that they leave out: null, or the [] that PHP makes of an
 * empty object? */
static inline bool json_means_none(const json_t *v)
{
	return json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0);
}
/* The string parameter KEY, without NUL bytes and at most MAX bytes, or NULL. */
const char *call_param(const struct mcp_call *call, const char *key, size_t max);
/* Answers with a result whose JSON text exists already; TEXT is borrowed. */
void call_answer_text(struct mcp_call *call, const char *text, size_t len);
/* Gives RESULT (owned) the form that the call's era expects. NULL: out of memory. */
json_t *call_decorate(const struct mcp_call *call, json_t *result);
/* Finishes a call that would exceed a budget. */
void call_fail_budget(struct mcp_call *call, enum budget_kind kind, const struct err *e);
/* What clients find in `data` of such an error. New reference. */
json_t *budget_data(enum budget_kind kind);
/* Like mcp_call_finish_error(), with a formatted message. */
void call_fail(struct mcp_call *call, int code, json_t *data, const char *fmt, ...) PRINTF(4, 5);
void call_cancel(struct mcp_call *call);
/* The call continues without its peer: as a task, or because the peer closes. */
void call_leave_peer(struct mcp_call *call);
/* Sends the array when it is complete. */
void batch_flush(struct batch *batch);
void batch_unref(struct batch *batch);
/* Adds an answer (owned; NULL: none) to the array. */
void batch_add(struct batch *batch, char *json, size_t len);
/* Its transport wants no answer any more. */
void batch_lose_sink(struct batch *batch);
/* False if the call has its answer already: then UNUSED, which would have been the next one, is freed. */
bool call_is_open(const struct mcp_call *call, json_t *unused);
/* Takes the call out of all lists and drops the reference for being in flight. */
void call_end(struct mcp_call *call);
/* Sends {"jsonrpc","method","params"} on the call's stream; PARAMS is owned. */
void call_notify(struct mcp_call *call, const char *method, json_t *params);
/* Sends the response itself. JSON: owned text. */
void call_deliver(struct mcp_call *call, unsigned http_status, char *json, size_t len);

/* ---- parts ---- */

/* wire.c: texts of messages. Owned by the caller; NULL: memory is short or a text is not UTF-8. */
char *wire_text(const json_t *message, size_t *ret_len);
char *wire_response(const json_t *id, const json_t *result, size_t *ret_len);
/* Finds the places of MARK and takes it out of the text there. False: there are too many places, or the
 * answer would be too long. Then nothing is changed. */
bool wire_holes(struct mcp_filled *answer, const char *mark);
/* TEXT (owned, LEN bytes, or NULL) with BLOB in place of each MARK. NULL: no memory, or too long. */
char *wire_fill(char *text, size_t len, const char *mark, const char *blob, size_t blob_len,
		size_t *ret_len);
char *wire_response_raw(const json_t *id, const char *result, size_t result_len, size_t *ret_len);
/* ID may be NULL; DATA is owned or NULL. */
char *wire_error(const json_t *id, int code, const char *message, json_t *data, size_t *ret_len);
json_t *wire_notification(const char *method, json_t *params); /* params owned */
json_t *wire_request(const char *id, const char *method, json_t *params);

/* header.c: Mcp-* headers. */
/* Trims, decodes the =?base64?…?= form. 0 and an owned string, or -EINVAL. */
int header_decode(const char *value, char **ret, size_t *ret_len) MUST_CHECK;
bool header_equals(const char *value, const char *want); /* decoded VALUE is WANT */
int header_params_collect(struct item *tool, const char **ret_why) MUST_CHECK;
/* 0, or -EINVAL with the name of the header that contradicts the body. */
int header_params_check(const struct mcp_call *call, const struct item *tool, json_t *arguments,
			const struct mcp_http_facts *facts, const char **ret_header) MUST_CHECK;

/* modern.c: the checks of 2026-07-28 in their order. False: it has answered. */
bool modern_check(struct mcp_call *call, const char *method, const struct mcp_http_facts *facts);
/* Refuses with -32021 and the missing capability. CAPS is owned. */
void modern_refuse_capability(struct mcp_call *call, json_t *caps);
/* Does the client capabilities object CAPS have all keys of NEEDS (also inside objects)? */
bool caps_cover(const json_t *caps, const json_t *needs);

/* ask.c: questions to the client. */
void ask_answer(struct mcp_peer *peer, const json_t *message, const struct spill *spill);
void ask_drop(struct mcp_call *call);
void ask_expire(struct mcp_peer *peer, int64_t now);
/* Does ANSWER have the outer form that METHOD (NULL: any) demands? */
bool ask_form_ok(const char *method, const json_t *answer);
/* Reads requestState and inputResponses of a repeated request. False: it has answered. */
bool ask_resume(struct mcp_call *call);

/* state.c: authenticated requestState. */
char *state_seal(const struct mcp_call *call, json_t *questions);
/* 0, -EBADMSG (forged or of another request), -ESTALE. *RET_QUESTIONS: key → method. */
int state_open(struct mcp_call *call, const char *text, json_t **ret_questions) MUST_CHECK;

/* task.c */
void task_finish(struct mcp_call *call, json_t *result); /* owned */
void task_fail(struct mcp_call *call, int code, const char *message, json_t *data);
void task_need_input(struct mcp_call *call, json_t *questions); /* owned */
void task_expire(struct mcp_server *s, int64_t now);
void task_drop_all(struct mcp_server *s);
/* Cancels the tasks that were begun with credentials that ENDED names. */
void task_end_credentials(struct mcp_server *s, enum mcp_ended (*ended)(const void *data));
json_t *task_view(const struct task *t);    /* flat task object, new reference */
json_t *task_details(const struct task *t); /* the same, with its result, its error or its questions
					     */

/* subscriptions.c */
void listen_end(struct mcp_call *call); /* with its result */
void listen_remove(struct mcp_call *call);
void listen_task_changed(struct mcp_server *s, const char *principal, const char *id,
			 const struct item *tool, const struct task *t);

/* schema.c: a subset of JSON Schema 2020-12 on VALUE. 0, or -EINVAL and a sentence in E. */
int schema_check(const struct mcp_call *call, const json_t *schema, const json_t *value,
		 struct err *e) MUST_CHECK;

/* uri_template.c: does URI match the RFC 6570 template? */
bool template_matches(const char *tmpl, const char *uri);

const char *level_name(enum mcp_level level);
int level_by_name(const char *name); /* -EINVAL */
