/* SPDX-License-Identifier: Apache-2.0 */
/* MCP server library: the interface for code that registers tools, resources and prompts.
 *
 * An mcp_server is a registry: who we are and what we offer. It is built once at the start and has
 * no connection. A program with several profiles has one registry for each. Transports (peer.h)
 * make peers on it and give them messages. Every request becomes an mcp_call, which a handler
 * finishes now or later. Handlers are the same for all revisions; the library hides the differences
 * between the "legacy" era (revisions with `initialize`) and the "modern" one (stateless,
 * 2026-07-28).
 *
 * Rules that hold everywhere:
 *
 *  - One thread: the caller's event loop. No function blocks.
 *  - A json_t parameter marked "owned" is always taken, also on failure. If an owned document could
 *    not be built and is NULL, the client gets an internal error.
 *  - Strings from clients may have NUL bytes: use json_string_length(). The library refuses them in
 *    names, URIs and cursors, but not inside tool arguments (see mcp_text_arg()).
 *  - Texts that are passed in must be valid UTF-8. */
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
	MCP_ERR_BAD_HTTP = -32000,           /* legacy HTTP: refused before it was read */
	MCP_ERR_SESSION = -32001,            /* legacy HTTP: unknown session */
	MCP_ERR_RESOURCE_NOT_FOUND = -32002, /* legacy only, see mcp_call_finish_no_resource() */
	MCP_ERR_BUDGET = -32003, /* the client has as much of something as it may have */
	MCP_ERR_HEADER = -32020, /* modern from here on */
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

/* What the server offers. A capability is declared if its bit is set here or something of its kind
 * was registered. Methods of undeclared capabilities do not exist (-32601). */
enum mcp_offer {
	MCP_OFFER_TOOLS_LIST_CHANGED = 1 << 0,
	MCP_OFFER_RESOURCES = 1 << 1, /* also if nothing is registered yet */
	MCP_OFFER_RESOURCES_LIST_CHANGED = 1 << 2,
	MCP_OFFER_RESOURCES_SUBSCRIBE = 1 << 3,
	MCP_OFFER_PROMPTS = 1 << 4,
	MCP_OFFER_PROMPTS_LIST_CHANGED = 1 << 5,
	MCP_OFFER_LOGGING = 1 << 6,
	MCP_OFFER_COMPLETIONS = 1 << 7,
	MCP_OFFER_TASKS = 1 << 8, /* the tasks extension of the modern era */
};

struct fleet_member;

/* Settings of a registry. Everything is copied. Zero means the default, if one is named. */
struct mcp_server_config {
	const char *name;    /* required */
	const char *version; /* required */
	const char *title;
	const char *description;
	const char *website_url;
	const char *icons;        /* JSON text: array of icons */
	const char *instructions; /* shown to the model; one widely used client cuts them at 2,048
				   * characters */
	unsigned offers;          /* enum mcp_offer */

	/* Key of the MACs on requestState. All instances that serve the same clients need the same
	 * key. NULL: a random one, for the life of this registry. */
	const uint8_t *state_key; /* 32 bytes */
	/* Clocks for tests: for dates (NULL: CLOCK_REALTIME), and for deadlines, which a change of
	 * the date must not move (NULL: CLOCK_MONOTONIC). */
	int64_t (*now_ms)(void);
	int64_t (*tick_ms)(void);

	/* Legacy era: a call of an unknown tool is answered with an isError result, as many older
	 * servers do, instead of a JSON-RPC error. */
	bool unknown_tool_is_result;
	/* HTTP+SSE: a request that is refused before it begins fails its POST, and no event follows,
	 * as in servers whose clients count on that. Else the error is an event where it has an id. */
	bool refusals_fail_post;
	unsigned page_size; /* items on one page of a list; default 100 */
	unsigned max_calls; /* calls in flight a peer may have; default 256 */
	/* Borrowed; NULL: streams, subscriptions, tasks and memory of messages are not bound. */
	struct budgets *budgets;
	const struct fleet_member *fleet; /* of a worker: ids of tasks name it; borrowed, or NULL */
	unsigned state_ttl_s;             /* life of a requestState; default 3,600 */
	unsigned ask_timeout_s; /* longest wait for an answer of the client; default 600 */
	unsigned list_ttl_ms;   /* caching hint on lists; default 0 = do not reuse */

	/* May the client with this principal_data call TOOL, and see it in lists? READ_ONLY is what
	 * the tool's annotations say. Called only for limited clients (mcp_peer_config.limited).
	 * NULL: they may call all tools. */
	bool (*may_call)(const void *principal_data, const char *tool, bool read_only);
	/* The same question about a method of the protocol ("resources/subscribe"). */
	bool (*may_ask)(const void *principal_data, const char *method);
};

#define MCP_STATE_KEY_BYTES 32
/* The type of the pages that show results of tools. */
#define MCP_VIEW_TYPE "text/html;profile=mcp-app"

struct mcp_server *mcp_server_new(const struct mcp_server_config *config, struct err *e);
/* Every peer must have been closed. SERVER may be NULL. */
struct mcp_server *mcp_server_free(struct mcp_server *server);

/* Call it about once a second: it expires tasks, and questions that clients do not answer. */
void mcp_server_tick(struct mcp_server *server);

/* ---- tools ---- */

enum mcp_tool_flags {
	/* The handler checks its arguments. Without this flag they are checked against the input
	 * schema, and a violation is answered with an isError result. (`arguments` that is not an
	 * object is always refused, and absent arguments arrive as {}.) */
	MCP_TOOL_VALIDATES_ITSELF = 1 << 0,
	/* The tool cannot answer at once: clients without the tasks extension get -32021. */
	MCP_TOOL_NEEDS_TASK = 1 << 1,
};

/* ARGUMENTS is borrowed until the call is finished. Called once for each request, and again with
 * the same arguments after each mcp_call_need_input(). */
typedef void (*mcp_tool_fn)(struct mcp_call *call, json_t *arguments, void *user);

/* A tool. Everything is copied; the JSON texts are parsed and checked when it is added. */
struct mcp_tool {
	const char *name; /* 1-128 of A-Z a-z 0-9 _ - . */
	const char *title;
	const char *description;
	const char *input_schema;  /* JSON text, root type object; NULL = no arguments */
	const char *output_schema; /* JSON text or NULL; with it every successful result needs
				    * structured content */
	const char *annotations;   /* JSON text: {"readOnlyHint":true,...} or NULL */
	const char *icons;         /* JSON text: array, or NULL */
	const char *meta;          /* JSON text: the tool's _meta, or NULL */
	/* URI (ui://…) of the HTML page that shows this tool's results to a person, or NULL. Only
	 * clients that announce the extension io.modelcontextprotocol/ui see it. */
	const char *view;
	unsigned flags; /* enum mcp_tool_flags */
	/* The tool is refused if the client lacks this capability: JSON text such as
	 * {"sampling":{}}, or NULL. Modern era: -32021; legacy era: an isError result. */
	const char *needs;
	mcp_tool_fn call;
	void *user;
};

/* Adds a tool, or replaces the one of the same name. -EINVAL with a message for the programmer. */
int mcp_server_add_tool(struct mcp_server *server, const struct mcp_tool *tool,
			struct err *e) MUST_CHECK;
/* -ENOENT: there is no such tool. */
int mcp_server_remove_tool(struct mcp_server *server, const char *name);

/* ---- resources ---- */

typedef void (*mcp_read_fn)(struct mcp_call *call, const char *uri, void *user);

/* A resource (URI) or a template (RFC 6570: {name} matches text without slashes, {+name} also with
 * slashes). */
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

/* Resources that change and depend on the caller: listed after the registered ones. */
struct mcp_resource_source {
	/* AFTER is NULL for the first page, else the NEXT that was given to mcp_call_finish_page().
	 * Finish with mcp_call_finish_page(). */
	void (*list)(struct mcp_call *call, const char *after, size_t limit, void *user);
	/* May the principal of PEER subscribe to URI, which is not registered itself? NULL: if a
	 * registered template matches it. */
	bool (*may_subscribe)(struct mcp_peer *peer, const char *uri, void *user);
	/* A client of PRINCIPAL has subscribed to URI, or does not any more. As often the one as the other. May be NULL. */
	void (*subscribed)(const char *principal, const char *uri, bool is, void *user);
	/* Reads resources that match nothing registered. NULL: there are none. */
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

/* ARGUMENTS: an object of strings. Required ones are present; unknown ones are passed on. Finish
 * with mcp_prompt_result(). */
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

/* The value to complete. Borrowed until the handler returns; CONTEXT may be NULL. */
struct mcp_completion {
	bool is_prompt; /* REF is a prompt's name, else a resource URI or template */
	const char *ref;
	const char *argument; /* name of the argument or template variable */
	const char *value;    /* what the person has typed so far */
	json_t *context;      /* object: arguments that are already known */
};
/* Finish with mcp_completion_result(). If there is no completer, every answer is empty. */
typedef void (*mcp_complete_fn)(struct mcp_call *call, const struct mcp_completion *what,
				void *user);
void mcp_server_set_completer(struct mcp_server *server, mcp_complete_fn fn, void *user);

/* ---- a request in flight ----
 *
 * A handler gets a borrowed call, which is valid until it is finished. The handler must finish it
 * exactly once, in all cases: also after a cancel (then the result is dropped). To keep the pointer
 * longer, take a reference. */

struct mcp_call *mcp_call_ref(struct mcp_call *call);
struct mcp_call *mcp_call_unref(struct mcp_call *call); /* NULL is fine; returns NULL */

/* RESULT: owned, an object as the builders of content.h make it; nothing in it is changed afterwards. A large answer
 * is written by a thread (base/workers.h), so it may be sent after answers to later requests. */
void mcp_call_finish(struct mcp_call *call, json_t *result);
/* ARGUMENTS (owned) take the place of those that the client sent, also when the handler is called again. */
void mcp_call_set_arguments(struct mcp_call *call, json_t *arguments);
/* A sentence about the call that its result will have beside its own content, for a tool's call; the last one counts. */
void mcp_call_remark(struct mcp_call *call, const char *fmt, ...) PRINTF(2, 3);
/* mcp_call_finish() for what MAKE makes of USER: on a thread if it is LARGE, and then MAKE uses nothing but USER. DONE is
 * called once, on the loop, when MAKE has run or cannot run; it frees USER. */
void mcp_call_make(struct mcp_call *call, bool large, json_t *(*make)(void *user),
		   void (*done)(void *user), void *user);
/* The same for what MAKE makes of OBJECT (owned, by MAKE in the end): on a thread if OBJECT is large. MAKE uses nothing
 * but OBJECT. */
void mcp_call_finish_made(struct mcp_call *call, json_t *object, json_t *(*make)(json_t *object));
/* The same for a result with a large text that JSON need not escape, such as base64. RESULT has MARK in
 * its place, once or more, and the message gets the LEN bytes of BLOB (owned) there. They are neither
 * checked nor escaped, and not copied where the transport can write them from one place. MARK: letters
 * and digits that nobody can guess. Not for a task. */
void mcp_call_finish_blob(struct mcp_call *call, json_t *result, const char *mark, char *blob,
			  size_t len);
/* Finishes with a JSON-RPC error. For errors that a model should see or could correct use
 * mcp_tool_error() instead. DATA: owned or NULL. */
void mcp_call_finish_error(struct mcp_call *call, int code, const char *message, json_t *data);
/* R is what workers_run() refused with: says that the client shall try again, or that there is no memory. */
void mcp_call_finish_refused(struct mcp_call *call, int r);
/* "No such resource"; its code differs between the eras. */
void mcp_call_finish_no_resource(struct mcp_call *call, const char *uri);
/* Finishes with one page of a source's list. ITEMS: owned array. NEXT: where the next page begins
 * (not ""), NULL at the end. */
void mcp_call_finish_page(struct mcp_call *call, json_t *items, const char *next);

/* Calls the handler once more from its beginning, with the same arguments: for a handler that had
 * to wait before it could start. It must not have finished the call. */
void mcp_call_again(struct mcp_call *call);

/* Sends progress, if the client asked for it. PROGRESS must grow; a value that does not is dropped.
 * TOTAL < 0 and MESSAGE NULL mean not known. */
bool mcp_call_wants_progress(const struct mcp_call *call);
void mcp_call_progress(struct mcp_call *call, double progress, double total, const char *message);

/* The same for every call in flight that has sent no progress beyond PROGRESS: something that they all may need is on its
 * way. */
void mcp_server_tell_waiting(struct mcp_server *s, double progress, const char *message);

/* Sends a log message, if the client asked for that level. DATA: owned, any JSON. */
bool mcp_call_logs(const struct mcp_call *call, enum mcp_level level);
void mcp_call_log(struct mcp_call *call, enum mcp_level level, const char *logger, json_t *data);

/* CB is called when the client cancels, its stream breaks (modern era), its task is cancelled or
 * its connection ends; at once if that has happened already. Each call has one callback: the last
 * one counts, NULL removes it. It may finish the call. It is never called after the finish. */
typedef void (*mcp_cancel_fn)(struct mcp_call *call, void *user);
void mcp_call_on_cancel(struct mcp_call *call, mcp_cancel_fn cb, void *user);
bool mcp_call_is_cancelled(const struct mcp_call *call);

/* Where the client of this call finds the server ("https://box.example.org/tools"), for links. NULL: as everybody else.
 * Valid until the call is gone. */
const char *mcp_call_base(const struct mcp_call *call);

/* What the client calls itself, as it says: any text, "" = it does not say. Never an identity. */
#define MCP_CLIENT_NAME_SIZE 64
const char *mcp_call_client_name(const struct mcp_call *call);
/* Tells this connection or MCP session from all others of the server; 0: the call has none. */
uint64_t mcp_call_connection(const struct mcp_call *call);

/* Has the client declared this capability? PATH has dots: "elicitation", "elicitation.url",
 * "sampling.tools". Extensions: mcp_call_client_extension(call, "io.modelcontextprotocol/ui"). */
bool mcp_call_client_has(const struct mcp_call *call, const char *path);
json_t *mcp_call_client_extension(const struct mcp_call *call, const char *id); /* borrowed, NULL */
/* Is the answer sent as a line of stdio? Clients may limit the length of lines. */
bool mcp_call_is_on_stdio(const struct mcp_call *call);
/* The caller, as the transport named it (peer.h). The strings live as long as the call. */
const char *mcp_call_principal(const struct mcp_call *call);
/* mcp_peer_config.principal_data of the credential that the call came with, or NULL. */
const void *mcp_call_principal_data(const struct mcp_call *call);
/* A short note that the server keeps for this client between its calls: for the life of its
 * connection or MCP session. HTTP requests without a session share the note of all clients with their
 * credential and name. Each note replaces the one before; NULL removes it. */
#define MCP_NOTE_MAX 64U /* bytes */
void mcp_call_keep_note(struct mcp_call *call, const char *note);
/* The note, or NULL. It is valid until the next mcp_call_keep_note() of this client. */
const char *mcp_call_note(const struct mcp_call *call);
/* The note before, if it was used in the last 15 minutes and may be that of another client, which nothing
 * tells apart from this one; NULL: the note is this client's. As valid as the note. */
const char *mcp_call_other_note(const struct mcp_call *call);
/* The handler's own pointer, kept across the rounds of mcp_call_need_input(). FREE_FN is called
 * when the call is freed; it may be NULL. */
void mcp_call_set_data(struct mcp_call *call, void *data, void (*free_fn)(void *));
/* The request's _meta (borrowed, may be NULL): trace context and the like. */
json_t *mcp_call_meta(const struct mcp_call *call);

/* ---- long strings ----
 *
 * A string of more than 64 KiB inside a message is not kept in memory. While the message arrives,
 * the string is decoded (escapes resolved, UTF-8 checked) into a spill file, and a placeholder
 * takes its place in the arguments: it is "spilled". mcp_call_text() hides the difference. Handlers
 * that accept no long text may refuse a string that has fd >= 0. */
enum mcp_text_form {
	MCP_TEXT_AS_SENT,
	MCP_TEXT_DECODED,    /* fd has the bytes that the base64 text stands for */
	MCP_TEXT_NOT_BASE64, /* it should be base64 and is not: fd has nothing of use */
};

/* Values of this key are base64. Long ones are decoded while they are written to the spill file, so
 * that nobody has to read them again to check or decode them. */
#define MCP_BASE64_KEY "content_base64"

struct mcp_text_ref {
	const char *text; /* NULL when it was spilled; else NUL-terminated, may hold NUL bytes */
	size_t len;       /* bytes of UTF-8 that the client sent, in either case */
	int fd;           /* -1, or a descriptor borrowed until the call is finished */
	uint64_t off;     /* where the string begins in fd; read with pread(2) */
	size_t fd_len;    /* its bytes there: LEN, or what it decodes to */
	enum mcp_text_form form;
	bool irregular;    /* DECODED, by a lax decoder: a strict one refuses the text (base64.h) */
	uint64_t wrong_at; /* NOT_BASE64: the first wrong character, from 1 */
};
/* -EINVAL: STRING is not a JSON string. */
int mcp_call_text(const struct mcp_call *call, const json_t *string,
		  struct mcp_text_ref *ret) MUST_CHECK;
/* The text of a string argument. NULL if it is absent, not a string, spilled, or has a NUL byte. */
const char *mcp_text_arg(const struct mcp_call *call, const json_t *arguments, const char *key);

/* ---- asking the client ----
 *
 * A handler that needs an answer of the person, a model's answer or the roots calls
 * mcp_call_need_input() and returns. When the answers are there, it is called again from its
 * beginning, with the same arguments. mcp_call_input() has the answers of all rounds so far; STATE
 * is what it wants to remember. In the modern era each round is a request of its own
 * (input_required with an authenticated requestState; the server keeps nothing). In the legacy era
 * the questions are sent to the client while the request waits. In a task, tasks/get shows them. A
 * handler must do nothing lasting before its last round. */
struct mcp_input {
	const char *key;    /* names the answer; unique within the call */
	const char *method; /* elicitation/create, sampling/createMessage or roots/list */
	json_t *params;     /* owned; NULL = {} */
};
/* INPUTS may be empty in the modern era: "ask again later". STATE: owned or NULL, small. After this
 * call the handler returns as after a finish. If the client lacks the capability, it is told so. */
void mcp_call_need_input(struct mcp_call *call, const struct mcp_input *inputs, size_t n,
			 json_t *state);
/* The client's answer to KEY, or NULL. It is an object, of which only the outer form was checked;
 * borrowed. */
json_t *mcp_call_input(const struct mcp_call *call, const char *key);
json_t *mcp_call_state(const struct mcp_call *call); /* borrowed; NULL in the first round */

/* ---- tasks ----
 *
 * A running tools/call may become a task if the client supports that: the client gets its handle
 * now, the handler goes on, and mcp_call_finish() later keeps the result for TTL_MS. */
bool mcp_call_can_be_task(const struct mcp_call *call);
/* -ENOTSUP; -ENOSPC: too many tasks. POLL_MS and TTL_MS are hints for the client. TTL_MS counts
 * from the creation, and is not enforced while the work runs. */
int mcp_call_become_task(struct mcp_call *call, unsigned poll_ms, unsigned ttl_ms,
			 const char *status_message);
bool mcp_call_is_task(const struct mcp_call *call);
void mcp_call_task_status(struct mcp_call *call, const char *status_message);

/* Closes the stream of a resumable legacy HTTP request; the client comes back for the rest after
 * RETRY_MS. Does nothing for other requests. */
void mcp_call_close_stream(struct mcp_call *call, unsigned retry_ms);

/* PRINCIPAL has been removed: its tasks that have ended go, with their results. */
void mcp_server_forget(struct mcp_server *server, const char *principal);

/* ---- changes ----
 *
 * Sent to legacy peers and to the modern listen streams that asked for them; only for what the
 * server offers. PRINCIPAL NULL: to everybody. */
void mcp_server_tools_changed(struct mcp_server *server);
void mcp_server_prompts_changed(struct mcp_server *server);
void mcp_server_resources_changed(struct mcp_server *server, const char *principal);
/* For every URI that PRINCIPAL watches and that CHANGED knows. */
void mcp_server_resources_updated(struct mcp_server *server, const char *principal,
				  bool (*changed)(const char *uri, void *user), void *user);
