/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the second tool family alone.
 *
 * Its answers are one text block of JSON, indented by two; a list that is empty is no block at all.
 * Its failures have four shapes, each of which its clients know:
 *   (a) {"error": "Access denied. ..."}                            the id is nobody's, or another's
 *   (b) {"error": true, "message": TEXT}                           making sandboxes, uploading
 *   (c) {"error": TEXT, stdout, stderr, exit_code, files, ...}     running code
 *   (d) {stdout, stderr, exit_code}                                running a command
 * None of them is an isError result. */
#pragma once

#include "tools/common.h"
#include "tools/run_call.h"

#define CLASSIC_FOLDER "/app/results"
#define CLASSIC_DENIED "Access denied. You don't have permission to access this sandbox."

/* A call that waits for something; first member of what a tool needs besides. */
struct classic_call {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox; /* reference, once there is one */
	/* The sandbox is there, or E says why not; NULL E and no sandbox: shape (a) is due. */
	void (*ready)(struct classic_call *c, const struct err *e);
};

/* SIZE >= sizeof(struct classic_call); zeroed. NULL: the call was finished for want of memory. */
void *classic_call_new(struct mcp_call *call, struct tools *tools, size_t size);
void classic_call_free(struct classic_call *c); /* frees the object with free(3) */

/* A short string argument, NUL-terminated; NULL when it is absent, long, or holds a NUL byte. */
const char *classic_arg(const struct mcp_call *call, const json_t *arguments, const char *name);

/* Finds sandbox ID of the caller, or makes it active: READY is called, maybe before the return. */
void classic_open(struct classic_call *c, const char *id);
/* Whether E says that the caller has no such sandbox. */
bool classic_is_denied(const struct err *e);

/* Finishes with OBJECT (owned) as text. */
void classic_finish(struct mcp_call *call, json_t *object);
void classic_finish_denied(struct mcp_call *call);                                   /* (a) */
void classic_finish_error(struct mcp_call *call, const char *fmt, ...) PRINTF(2, 3); /* (b) */
/* (b), or (a) where E says so. */
void classic_finish_err(struct mcp_call *call, const struct err *e);

/* Link to NAME, a file directly in the workspace, or JSON null. */
json_t *classic_link(struct tools *t, const struct sandbox *s, const char *name);

/* What create_sandbox says of a new one. */
json_t *classic_created(const struct tools *t, const struct sandbox *s);
/* The argument `name`, NULL where there is none. False: the call is finished. */
bool classic_get_name(struct mcp_call *call, const json_t *arguments, const char **ret);

void classic_create(struct mcp_call *call, json_t *arguments, void *user);
/* The same with `network` and `domains`, in the profile `full`. */
void classic_create_chosen(struct mcp_call *call, json_t *arguments, void *user);
void classic_list(struct mcp_call *call, json_t *arguments, void *user);
void classic_delete(struct mcp_call *call, json_t *arguments, void *user);
void classic_execute(struct mcp_call *call, json_t *arguments, void *user);
void classic_terminal(struct mcp_call *call, json_t *arguments, void *user);
/* The same of the profile `full`, where a command begins in the folder in which the one before it
 * ended. */
void classic_terminal_kept(struct mcp_call *call, json_t *arguments, void *user);
void classic_install(struct mcp_call *call, json_t *arguments, void *user);
void classic_check(struct mcp_call *call, json_t *arguments, void *user);
void classic_upload(struct mcp_call *call, json_t *arguments, void *user);

/* Splits COMMAND as a shell would, without running one: quotes and backslashes are honoured. On
 * success *RET is a NULL-terminated array of words, owned (one allocation, free(3)). -EINVAL: a
 * quote or a backslash has no end; *RET_WHY says so. */
int classic_split(const char *command, char ***ret, const char **ret_why) MUST_CHECK;
/* The folder that a command reported as its last: DATA is whatever the sandbox wrote. RET has
 * CLASSIC_PLACE_MAX bytes and is written when the answer is true: an absolute path of UTF-8 without
 * control characters. It is only ever said, and given back to the sandbox as an argument. */
#define CLASSIC_PLACE_MAX SANDBOX_PLACE_MAX
bool classic_read_place(const char *data, size_t len, char *ret) MUST_CHECK;
/* Whether COMMAND means something only to a shell: pipes, redirections, variables, patterns, cd. */
bool classic_needs_shell(const char *command);
