/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files of the second tool family.
 *
 * An answer is one text block of JSON, indented by two; an empty list is answered without a block.
 * Clients know four shapes of failure, none of which is an isError result:
 *   (a) {"error": "Access denied. ..."}                          unknown id, or another owner's
 *   (b) {"error": true, "message": TEXT}                         making sandboxes, uploading
 *   (c) {"error": TEXT, stdout, stderr, exit_code, files, ...}   running code
 *   (d) {stdout, stderr, exit_code}                              running a command */
#pragma once

#include "tools/common.h"
#include "tools/run_call.h"

#define CLASSIC_FOLDER "/app/results"
#define CLASSIC_DENIED "Access denied. You don't have permission to access this sandbox."

/* A call that goes on after its handler has returned. The state of a tool begins with it. */
struct classic_call {
	struct tools *tools;
	struct mcp_call *call;   /* reference: whose it is can be asked after it is finished */
	struct sandbox *sandbox; /* reference, or NULL */
	/* Called when the sandbox is active, or with E if that failed. If both E and the sandbox
	 * are NULL, answer with shape (a). */
	void (*ready)(struct classic_call *c, const struct err *e);
};

/* SIZE >= sizeof(struct classic_call); zeroed. NULL: the call was finished for want of memory. */
void *classic_call_new(struct mcp_call *call, struct tools *tools, size_t size);
void classic_call_free(struct classic_call *c); /* frees the object with free(3) */

/* A string argument with a NUL at its end. NULL if it is absent, was too long to stay in memory,
 * or holds a NUL byte. */
const char *classic_arg(const struct mcp_call *call, const json_t *arguments, const char *name);

/* Finds sandbox ID of the caller and activates it if necessary, then calls READY, possibly
 * before this function returns. */
void classic_open(struct classic_call *c, const char *id);
/* Does E say that the caller has no such sandbox? */
bool classic_is_denied(const struct err *e);

/* Finishes the call with OBJECT (owned) as text. */
void classic_finish(struct mcp_call *call, json_t *object);
void classic_finish_denied(struct mcp_call *call);                                   /* (a) */
void classic_finish_error(struct mcp_call *call, const char *fmt, ...) PRINTF(2, 3); /* (b) */
/* shape (a) if classic_is_denied(E), otherwise (b) */
void classic_finish_err(struct mcp_call *call, const struct err *e);

/* The result with OBJECT (owned) as text. Any thread. NULL: no memory. */
json_t *classic_result_of(json_t *object);
/* A link to the file NAME directly in the workspace, or JSON null. L is of TOOLS_LINKS_CLASSIC. */
json_t *classic_link(const struct tools_links *l, const char *name);

/* The answer of create_sandbox. */
json_t *classic_created(const struct tools *t, const struct sandbox *s);
/* The argument `name`; NULL if it is absent. False: it is too long, and the call is finished. */
bool classic_get_name(struct mcp_call *call, const json_t *arguments, const char **ret);

void classic_create(struct mcp_call *call, json_t *arguments, void *user);
/* create_sandbox of the profile `full`, which also takes `network` and `domains`. */
void classic_create_chosen(struct mcp_call *call, json_t *arguments, void *user);
void classic_list(struct mcp_call *call, json_t *arguments, void *user);
void classic_delete(struct mcp_call *call, json_t *arguments, void *user);
void classic_execute(struct mcp_call *call, json_t *arguments, void *user);
void classic_terminal(struct mcp_call *call, json_t *arguments, void *user);
/* execute_terminal_command of the profile `full`: a command begins in the folder in which the
 * previous one ended. */
void classic_terminal_kept(struct mcp_call *call, json_t *arguments, void *user);
void classic_install(struct mcp_call *call, json_t *arguments, void *user);
void classic_check(struct mcp_call *call, json_t *arguments, void *user);
void classic_upload(struct mcp_call *call, json_t *arguments, void *user);

/* Splits COMMAND into words as a shell would, with quotes and backslashes, without running a
 * shell. On success *RET is a NULL-terminated array of words, owned (one allocation, free(3)).
 * -EINVAL: a quote or a backslash at the end is open; *RET_WHY says so. */
int classic_split(const char *command, char ***ret, const char **ret_why) MUST_CHECK;
/* Does COMMAND need a shell: pipes, redirections, variables, patterns, cd? */
bool classic_needs_shell(const char *command);
