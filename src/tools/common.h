/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tool families: result documents, links, arguments. For this folder alone. */
#pragma once

#include "base/buf.h"
#include "mcp/content.h"
#include "tools/args.h"
#include "tools/asked.h"
#include "tools/tools.h"

struct package_names;
struct resources;

struct tools {
	struct tools_config config;
	struct resources *resources; /* owned, or NULL */
	struct package_names *names; /* completion.c's; owned, or NULL */
	struct list asked;           /* asked.h */
	struct list bound;           /* register.c */
};

#define TOOLS_WORKSPACE "/mnt/data/"

/* register.c */
void tools_free_bound(struct tools *t);

/* completion.c */
void tools_complete(struct mcp_call *call, const struct mcp_completion *what, void *user);
void tools_free_names(struct tools *t);

/* What a call has that goes on after its handler has returned; larger ones begin with it. */
struct tool_call {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox; /* reference, or NULL */
};
/* SIZE zeroed bytes that begin with it; S may be NULL. NULL: the call was finished for want of
 * memory. */
void *tool_call_new(struct tools *t, struct mcp_call *call, struct sandbox *s, size_t size);
void tool_call_free(struct tool_call *c); /* frees the object with free(3) */

/* A string argument; absent and null give a text of NULL with fd -1. */
struct mcp_text_ref tools_text_arg(const struct mcp_call *call, const json_t *arguments,
				   const char *name);
/* The whole text, owned, NUL-terminated; NULL without memory. Lifted ones are read from their file.
 */
char *tools_text_take(const struct mcp_text_ref *ref);

/* True: sandbox ID of the caller is stored and not active. It is made so and CALL is handled again,
 * or FAIL finishes it. */
typedef void (*tools_fail_fn)(struct mcp_call *call, const char *id, const struct err *e);
bool tools_activate(struct tools *t, struct mcp_call *call, const char *id, tools_fail_fn fail);

/* Finishes with {"result": OBJECT} and its compact text. OBJECT is owned. */
void tools_finish(struct mcp_call *call, json_t *object);

struct tool_error {
	const char *code;
	struct buf message; /* UTF-8 */
	int64_t size_bytes; /* -1 = null */
	json_t *link;       /* owned; NULL = null */
};
#define TOOL_ERROR_INIT(c)                                                                         \
	((struct tool_error){.code = (c), .message = BUF_INIT(4096), .size_bytes = -1})
/* {error, message, size_bytes, download_url}; frees the message and takes the link. */
void tools_finish_error(struct mcp_call *call, struct tool_error *error);
void tools_finish_errorf(struct mcp_call *call, const char *code, const char *fmt, ...)
    PRINTF(3, 4);

/* JSON string of hostile bytes, invalid UTF-8 replaced. */
json_t *tools_json_bytes(const void *data, size_t len);
/* JSON string of what was kept of an output (run_output_add()), and NOTE after it. *RET_CUT: some of
 * it is left out. */
json_t *tools_json_output(const struct run_output *output, size_t max, const char *where,
			  const char *note, bool *ret_cut);
/* Link to a file of a sandbox, or JSON null. PATH: relative to the workspace. */
json_t *tools_json_link(struct tools *t, const struct sandbox *s, const char *path);
/* {path, filename, size_bytes, mime_type, download_url} of a file directly in the workspace. */
json_t *tools_json_artifact(struct tools *t, const struct sandbox *s, const char *name,
			    uint64_t size);

/* The array of a run's artifacts. */
json_t *tools_json_artifacts(struct tools *t, const struct sandbox *s,
			     const struct run_result *result);

/* Does the client take an answer of LEN bytes in one message? */
bool tools_fits_line(const struct tools *t, const struct mcp_call *call, uint64_t len);

/* A log notification of one line to the client. */
void tools_note(struct mcp_call *call, enum mcp_level level, const char *fmt, ...) PRINTF(3, 4);
