/* SPDX-License-Identifier: Apache-2.0 */
/* MCP server library, the side of those who register tools, resources and prompts.
 *
 * An mcp_server is a registry: who we are and what we offer. It is built once at start and holds no
 * connection; a program with several profiles has one registry per profile. Transports (peer.h)
 * make peers on it and feed them messages. Every request becomes an mcp_call that is given to a
 * handler, which finishes it now or later. Handlers are the same for all revisions: what differs
 * between the initialize-based ("legacy") and the stateless ("modern", 2026-07-28) era is done
 * here.
 *
 * Rules that hold everywhere:
 *  - One thread: the caller's event loop. No function blocks.
 *  - json_t parameters marked "owned" are consumed also on failure (a reference is taken over);
 *    NULL for an owned document that could not be built is answered with an internal error.
 *  - Strings from clients may hold NUL bytes: use json_string_length(). The library refuses them in
 *    names, URIs and cursors, but not inside tool arguments (see mcp_text_arg()).
 *  - Texts handed over must be valid UTF-8. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mcp_server;
struct mcp_peer;
struct mcp_call;

/* ---- revisions ---- */

enum mcp_revision {
	MCP_REV_NONE, /* nothing negotiated yet */
	MCP_REV_2024_11_05,
	MCP_REV_2025_03_26,
	MCP_REV_2025_06_18,
	MCP_REV_2025_11_25,
	MCP_REV_2026_07_28, /* first of the modern era */
};

enum mcp_era {
	MCP_ERA_LEGACY, /* initialize, sessions, server requests */
	MCP_ERA_MODERN, /* every request stands alone */
};

/* JSON-RPC and MCP error codes. Handlers mostly need the first two. */
enum {
	MCP_ERR_PARAMS = -32602,
	MCP_ERR_INTERNAL = -32603,
	MCP_ERR_PARSE = -32700,
	MCP_ERR_REQUEST = -32600,
	MCP_ERR_METHOD = -32601,
	MCP_ERR_BAD_HTTP = -32000,           /* legacy HTTP: refused before it was looked at */
	MCP_ERR_SESSION = -32001,            /* legacy HTTP: unknown session */
	MCP_ERR_RESOURCE_NOT_FOUND = -32002, /* legacy only, see mcp_call_finish_no_resource() */
	MCP_ERR_HEADER = -32020,             /* modern from here on */
	MCP_ERR_CLIENT_CAPABILITY = -32021,
	MCP_ERR_VERSION = -32022,
};

/* Severity of log messages, RFC 5424 order. */
enum mcp_level {
	MCP_LEVEL_DEBUG,
	MCP_LEVEL_INFO,
	MCP_LEVEL_NOTICE,
	MCP_LEVEL_WARNING,
	MCP_LEVEL_ERROR,
	MCP_LEVEL_CRITICAL,
	MCP_LEVEL_ALERT,
	MCP_LEVEL_EMERGENCY,
	MCP_LEVEL_MAX_,
};

/* ---- the registry ---- */

/* What the server offers. A capability is declared exactly when its bit is set here or when
 * something of its kind was registered; methods of undeclared capabilities do not exist (-32601).
 */
enum mcp_offer {
	MCP_OFFER_TOOLS_LIST_CHANGED = 1 << 0,
	MCP_OFFER_RESOURCES = 1 << 1, /* also with nothing registered yet */
	MCP_OFFER_RESOURCES_LIST_CHANGED = 1 << 2,
	MCP_OFFER_RESOURCES_SUBSCRIBE = 1 << 3,
	MCP_OFFER_PROMPTS = 1 << 4,
	MCP_OFFER_PROMPTS_LIST_CHANGED = 1 << 5,
	MCP_OFFER_LOGGING = 1 << 6,
	MCP_OFFER_COMPLETIONS = 1 << 7,
	MCP_OFFER_TASKS = 1 << 8, /* the tasks extension of the modern era */
};

/* Settings of a registry. Everything is copied. Zero means the default where one is named. */
struct mcp_server_config {
	const char *name;    /* required */
	const char *version; /* required */
	const char *title;
	const char *description;
	const char *website_url;
	const char *icons;        /* JSON text: array of icons */
	const char *instructions; /* feeds the model; a large client cuts at 2,048 characters */
	unsigned offers;          /* enum mcp_offer */

	/* Key of the MACs on requestState. All instances that serve the same clients need the same
	 * one. NULL: a random one for the life of this registry. */
	const uint8_t *state_key; /* 32 bytes */
	/* Tests bring their own clocks: of dates (NULL: CLOCK_REALTIME), and of deadlines, which no
	 * change of the date moves (NULL: CLOCK_MONOTONIC). */
	int64_t (*now_ms)(void);
	int64_t (*tick_ms)(void);

	unsigned page_size;     /* items a list page holds; default 100 */
	unsigned max_calls;     /* calls in flight a peer may have; default 256 */
	unsigned max_listens;   /* open subscriptions/listen of all peers; default 16,384 */
	unsigned max_tasks;     /* tasks kept, of all principals; default 4,096 */
	unsigned max_own_tasks; /* … of one principal; default 1,024 */
	unsigned state_ttl_s;   /* life of a requestState; default 3,600 */
	unsigned ask_timeout_s; /* longest wait for a client's answer to us; default 600 */
	unsigned list_ttl_ms;   /* caching hint on lists; default 0 = do not reuse */

	/* May the client with this principal_data call TOOL, and see it listed? READ_ONLY is what
	 * the tool's annotations say. Asked only for limited clients (mcp_peer_config.limited);
	 * NULL: they may call all. */
	bool (*may_call)(const void *principal_data, const char *tool, bool read_only);
	/* The same for a method of the protocol ("resources/subscribe"). */
	bool (*may_ask)(const void *principal_data, const char *method);
};

#define MCP_STATE_KEY_BYTES 32

struct mcp_server *mcp_server_new(const struct mcp_server_config *config, struct err *e);
/* Every peer must be closed before. NULL is fine. */
struct mcp_server *mcp_server_free(struct mcp_server *server);

/* To be called about once a second: expires tasks, and questions to clients that nobody answers. */
void mcp_server_tick(struct mcp_server *server);

/* ---- tools ---- */

enum mcp_tool_flags {
	/* The handler checks its arguments; without it they are checked against the input schema
	 * and a violation is answered with an isError result. (An `arguments` that is not an object
	 * is refused in any case, and absent arguments arrive as {}.) */
	MCP_TOOL_VALIDATES_ITSELF = 1 << 0,
	/* Cannot answer at once: clients without the tasks extension get -32021. */
	MCP_TOOL_NEEDS_TASK = 1 << 1,
};

/* ARGUMENTS is borrowed until the call is finished. Called once per request, and again with the
 * same arguments after each mcp_call_need_input(). */
typedef void (*mcp_tool_fn)(struct mcp_call *call, json_t *arguments, void *user);

/* A tool. Everything is copied; the JSON texts are parsed and checked when it is added. */
struct mcp_tool {
	const char *name; /* 1-128 of A-Z a-z 0-9 _ - . */
	const char *title;
	const char *description;
	const char *input_schema;  /* JSON text, root type object; NULL = no arguments */
	const char *output_schema; /* JSON text or NULL; then every good result needs structured */
	const char *annotations;   /* JSON text: {"readOnlyHint":true,...} or NULL */
	const char *icons;         /* JSON text: array, or NULL */
	const char *meta;          /* JSON text: the tool's _meta, or NULL */
	unsigned flags;            /* enum mcp_tool_flags */
	/* The client capability without which the tool is refused: JSON text such as
	 * {"sampling":{}}, or NULL. Modern era: -32021; legacy: an isError result. */
	const char *needs;
	mcp_tool_fn call;
	void *user;
};

/* Adds or, under a known name, replaces. -EINVAL with a message for the programmer. */
int mcp_server_add_tool(struct mcp_server *server, const struct mcp_tool *tool,
			struct err *e) MUST_CHECK;
/* -ENOENT when there is none. */
int mcp_server_remove_tool(struct mcp_server *server, const char *name);

/* ---- resources ---- */

typedef void (*mcp_read_fn)(struct mcp_call *call, const char *uri, void *user);

/* A resource (URI) or a template (RFC 6570: {name} matches without, {+name} with slashes). */
struct mcp_resource {
	const char *uri; /* or the template */
	const char *name;
	const char *title;
	const char *description;
	const char *mime_type;
	const char *annotations; /* JSON text or NULL */
	const char *icons;       /* JSON text or NULL */
	const char *meta;        /* JSON text or NULL */
	int64_t size;            /* bytes; 0 = not said */
	mcp_read_fn read; /* finish with mcp_resource_result() or mcp_call_finish_no_resource() */
	void *user;
};

int mcp_server_add_resource(struct mcp_server *server, const struct mcp_resource *resource,
			    struct err *e) MUST_CHECK;
int mcp_server_add_template(struct mcp_server *server, const struct mcp_resource *resource,
			    struct err *e) MUST_CHECK;

/* Resources that come and go and depend on who asks: listed after the registered ones. */
struct mcp_resource_source {
	/* AFTER is NULL for the first page, else what mcp_call_finish_page() got as NEXT.
	 * Finish with mcp_call_finish_page(). */
	void (*list)(struct mcp_call *call, const char *after, size_t limit, void *user);
	/* May PRINCIPAL subscribe to URI? NULL: to everything that is registered. */
	bool (*may_subscribe)(struct mcp_peer *peer, const char *uri, void *user);
	/* Reads what no registered resource or template matches. NULL: nothing. */
	mcp_read_fn read;
	void *user;
};
void mcp_server_set_resource_source(struct mcp_server *server,
				    const struct mcp_resource_source *source);

/* ---- prompts and completion ---- */

struct mcp_prompt_arg {
	const char *name;
	const char *title;
	const char *description;
	bool required;
};

/* ARGUMENTS: object of strings; required ones are there, unknown ones are passed on. Finish with
 * mcp_prompt_result(). */
typedef void (*mcp_prompt_fn)(struct mcp_call *call, json_t *arguments, void *user);

struct mcp_prompt {
	const char *name;
	const char *title;
	const char *description;
	const char *icons; /* JSON text or NULL */
	const struct mcp_prompt_arg *args;
	size_t n_args;
	mcp_prompt_fn get;
	void *user;
};

int mcp_server_add_prompt(struct mcp_server *server, const struct mcp_prompt *prompt,
			  struct err *e) MUST_CHECK;
int mcp_server_remove_prompt(struct mcp_server *server, const char *name);

/* What is to be completed. Borrowed until the handler returns; CONTEXT may be NULL. */
struct mcp_completion {
	bool is_prompt; /* REF is a prompt's name, else a resource URI or template */
	const char *ref;
	const char *argument; /* name of the argument or template variable */
	const char *value;    /* what was typed so far */
	json_t *context;      /* object: arguments that are already known */
};
/* Finish with mcp_completion_result(). Without a completer every answer is empty. */
typedef void (*mcp_complete_fn)(struct mcp_call *call, const struct mcp_completion *what,
				void *user);
void mcp_server_set_completer(struct mcp_server *server, mcp_complete_fn fn, void *user);

/* ---- a request in flight ----
 *
 * A handler gets a borrowed call that stays valid until it is finished. It must be finished exactly
 * once, whatever happens: also after a cancel (what is given then is dropped). Who keeps the
 * pointer past the finish takes a reference. */

struct mcp_call *mcp_call_ref(struct mcp_call *call);
struct mcp_call *mcp_call_unref(struct mcp_call *call); /* NULL is fine; returns NULL */

/* RESULT: owned, an object as the builders of content.h make it. */
void mcp_call_finish(struct mcp_call *call, json_t *result);
/* A JSON-RPC error. What a model could mend or should see is not one: see mcp_tool_error().
 * DATA: owned or NULL. */
void mcp_call_finish_error(struct mcp_call *call, int code, const char *message, json_t *data);
/* The code of "no such resource" differs between the eras. */
void mcp_call_finish_no_resource(struct mcp_call *call, const char *uri);
/* One page of a source's list; ITEMS: owned array. NEXT: where to go on (not ""), NULL at the end.
 */
void mcp_call_finish_page(struct mcp_call *call, json_t *items, const char *next);

/* Has the call handled once more, from its beginning, with the same arguments: for a handler that
 * had to wait for something before it could start. It must not have finished the call. */
void mcp_call_again(struct mcp_call *call);

/* Progress, only to a client that asked for it. PROGRESS must grow: what does not is dropped.
 * TOTAL < 0 and MESSAGE NULL mean not known. */
bool mcp_call_wants_progress(const struct mcp_call *call);
void mcp_call_progress(struct mcp_call *call, double progress, double total, const char *message);

/* A log message to the client, if it asked for that level. DATA: owned, any JSON. */
bool mcp_call_logs(const struct mcp_call *call, enum mcp_level level);
void mcp_call_log(struct mcp_call *call, enum mcp_level level, const char *logger, json_t *data);

/* CB runs when the client cancels, its stream breaks (modern era), its task is cancelled or its
 * connection ends; at once when that is already so. One callback per call: the last one counts,
 * NULL removes it. It may finish the call. It never runs after the finish. */
typedef void (*mcp_cancel_fn)(struct mcp_call *call, void *user);
void mcp_call_on_cancel(struct mcp_call *call, mcp_cancel_fn cb, void *user);
bool mcp_call_is_cancelled(const struct mcp_call *call);

/* Has the client declared it? PATH with dots, e.g. "elicitation", "elicitation.url",
 * "sampling.tools". Extensions: mcp_call_client_extension(call, "io.modelcontextprotocol/ui"). */
bool mcp_call_client_has(const struct mcp_call *call, const char *path);
json_t *mcp_call_client_extension(const struct mcp_call *call, const char *id); /* borrowed, NULL */
/* Does the answer travel as a line of stdio? Clients may have a limit there. */
bool mcp_call_is_on_stdio(const struct mcp_call *call);
/* Who asks, as the transport said (peer.h). The strings live as long as the call. */
const char *mcp_call_principal(const struct mcp_call *call);
/* The handler's own pointer; kept across the rounds of mcp_call_need_input(). FREE_FN runs when
 * the call dies; it may be NULL. */
void mcp_call_set_data(struct mcp_call *call, void *data, void (*free_fn)(void *));
/* The request's _meta (borrowed, may be NULL): trace context and the like. */
json_t *mcp_call_meta(const struct mcp_call *call);

/* ---- long strings ----
 *
 * A string over 64 KiB inside a message does not go through memory: while the message arrives it is
 * decoded (escapes resolved, UTF-8 checked) into a spill file, and a placeholder takes its place in
 * the arguments. mcp_call_text() hides the difference. Handlers that accept no long text may
 * refuse one that has fd >= 0. */
enum mcp_text_form {
	MCP_TEXT_AS_SENT,
	MCP_TEXT_DECODED,    /* fd has the bytes that the base64 text stands for */
	MCP_TEXT_NOT_BASE64, /* it should be base64 and is not: fd has nothing of use */
};

/* The values under this key are base64. Long ones are decoded on the way into the spill file, once,
 * so that nobody has to read them again to check or to decode them. */
#define MCP_BASE64_KEY "content_base64"

struct mcp_text_ref {
	const char *text; /* NULL when it was lifted; else NUL-terminated, may hold NUL bytes */
	size_t len;       /* bytes of UTF-8 that the client sent, in either case */
	int fd;           /* -1, or a descriptor borrowed until the call is finished */
	uint64_t off;     /* where the string begins in fd; read with pread(2) */
	size_t fd_len;    /* its bytes there: LEN, or what it decodes to */
	enum mcp_text_form form;
};
/* -EINVAL when STRING is no JSON string. */
int mcp_call_text(const struct mcp_call *call, const json_t *string,
		  struct mcp_text_ref *ret) MUST_CHECK;
/* The inline text of a string argument without NUL bytes, or NULL (absent, no string, lifted, NUL
 * inside). */
const char *mcp_text_arg(const struct mcp_call *call, const json_t *arguments, const char *key);

/* ---- asking the client ----
 *
 * A handler that needs a word of the person, a model's answer or the roots says so and returns. It
 * is entered again, from its beginning, with the same arguments, when the answers are there; what
 * it was told in all rounds so far is in mcp_call_input(), what it wants to remember in STATE. In
 * the modern era each round is a request of its own (input_required with an authenticated
 * requestState; nothing is kept here), in the legacy era the questions go to the client while the
 * request waits, in a task they are shown by tasks/get. Do nothing lasting before the last round.
 */
struct mcp_input {
	const char *key;    /* names the answer; unique within the call */
	const char *method; /* elicitation/create, sampling/createMessage or roots/list */
	json_t *params;     /* owned; NULL = {} */
};
/* INPUTS may be empty in the modern era: "ask again later". STATE: owned or NULL, small.
 * Counts as finishing this entry of the handler. A client that lacks the capability is told so. */
void mcp_call_need_input(struct mcp_call *call, const struct mcp_input *inputs, size_t n,
			 json_t *state);
/* The client's answer to KEY (an object, checked for its outer form alone; borrowed), or NULL. */
json_t *mcp_call_input(const struct mcp_call *call, const char *key);
json_t *mcp_call_state(const struct mcp_call *call); /* borrowed; NULL in the first round */

/* ---- tasks ----
 *
 * A running tools/call may become a task when the client can handle that: the client gets its
 * handle now, the handler goes on, and mcp_call_finish() later keeps the result for TTL_MS. */
bool mcp_call_can_be_task(const struct mcp_call *call);
/* -ENOTSUP, -ENOSPC (too many tasks). POLL_MS and TTL_MS are hints for the client; TTL_MS counts
 * from the creation, and while the work runs it is not enforced. */
int mcp_call_become_task(struct mcp_call *call, unsigned poll_ms, unsigned ttl_ms,
			 const char *status_message);
bool mcp_call_is_task(const struct mcp_call *call);
void mcp_call_task_status(struct mcp_call *call, const char *status_message);

/* Closes the stream of a resumable legacy HTTP request; the client comes back for the rest after
 * RETRY_MS. Elsewhere it does nothing. */
void mcp_call_close_stream(struct mcp_call *call, unsigned retry_ms);

/* ---- changes ----
 * Go to legacy peers and to the modern listen streams that asked. Only what was offered is sent.
 * PRINCIPAL NULL: to everybody. */
void mcp_server_tools_changed(struct mcp_server *server);
void mcp_server_prompts_changed(struct mcp_server *server);
void mcp_server_resources_changed(struct mcp_server *server, const char *principal);
void mcp_server_resource_updated(struct mcp_server *server, const char *uri, const char *principal);
