/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files of the first tool family. */
#pragma once

#include "tools/common.h"

/* Checks the session id in ARGUMENTS. *RET_ID (SANDBOX_ID_MAX + 1 bytes) is "" if it was left
 * out. False: the call is finished. */
bool code_session_id(struct mcp_call *call, const json_t *arguments, char *ret_id);
/* The session with this id. NULL: the call is finished with session_not_found, or it will be
 * handled again when the stored sandbox is active. */
struct sandbox *code_session(struct tools *t, struct mcp_call *call, const char *id);

/* Finishes the call with the error. A code that the family does not know becomes
 * execution_failed. */
void code_finish_err(struct mcp_call *call, const char *id, const struct err *e);

void code_upload_file(struct mcp_call *call, json_t *arguments, void *user);
void code_run_python(struct mcp_call *call, json_t *arguments, void *user);
void code_list_artifacts(struct mcp_call *call, json_t *arguments, void *user);
void code_close_session(struct mcp_call *call, json_t *arguments, void *user);
void code_read_artifact(struct mcp_call *call, json_t *arguments, void *user);
