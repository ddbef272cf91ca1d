/* SPDX-License-Identifier: Apache-2.0 */
/* The first tool family: names, schemas, texts and the order of checks are a published contract
 * that clients rely on; what is said here word for word stays so. */
#include "tools/code.h"
#include "tools/rows.h"

#include "base/parse.h"
#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

#define ID_SHOWN_MAX 1000 /* bytes of a refused id that the message repeats */

bool code_session_id(struct mcp_call *call, const json_t *arguments, char *ret_id)
{
	struct mcp_text_ref id = tools_text_arg(call, arguments, "session_id");

	ret_id[0] = '\0';
	if (!id.text && id.fd < 0)
		return true;
	if (id.text && parse_is_session_id(id.text, id.len)) {
		memcpy(ret_id, id.text, id.len + 1);
		return true;
	}
	struct tool_error error = TOOL_ERROR_INIT("invalid_session_id");
	size_t shown = id.text ? text_utf8_cut(id.text, id.len, ID_SHOWN_MAX) : 0;
	int r = buf_add_str(&error.message, "Invalid session_id '");
	r = r < 0 ? r : buf_add(&error.message, id.text ? id.text : "", shown);
	r = r < 0 ? r
		  : buf_printf(&error.message,
			       "%s'. Must be 1-64 characters: letters, numbers, hyphens, "
			       "underscores.",
			       shown < id.len ? "..." : "");
	if (r < 0)
		buf_reset(&error.message);
	tools_finish_error(call, &error);
	return false;
}

struct sandbox *code_session(struct tools *t, struct mcp_call *call, const char *id)
{
	struct sandbox *s = manager_find(t->config.manager, mcp_call_principal(call), id);

	if (!s && !tools_activate(t, call, id, code_finish_err))
		tools_finish_errorf(call, "session_not_found", "No active session with id %s", id);
	return s;
}

void code_finish_err(struct mcp_call *call, const char *id, const struct err *e)
{
	static const enum err_code own[] = {
	    ERR_INVALID_SESSION_ID, ERR_INVALID_FILENAME,  ERR_INVALID_PATH,   ERR_UPLOAD_TOO_LARGE,
	    ERR_INVALID_CONTENT,    ERR_FILE_EXISTS,       ERR_CODE_TOO_LARGE, ERR_MAX_SESSIONS,
	    ERR_SESSION_BUSY,       ERR_SESSION_NOT_FOUND, ERR_NOT_FOUND,
	};
	if (e->code == ERR_SANDBOX_LOST) {
		tools_finish_errorf(call, "session_not_found", "Container for session %s not found",
				    id);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (own[i] == e->code) {
			tools_finish_errorf(call, err_code_name(e->code), "%s", e->text);
			return;
		}
	const char *hint = err_code_hint(e->code);
	tools_finish_errorf(call, "execution_failed", "%s%s%s", e->text, *hint ? ". " : "", hint);
}

/* A call of TOOL, which takes a session and nothing else. NULL: the call is finished. */
static struct tool_call *call_of_session(struct tools *t, struct mcp_call *call, const char *tool,
					 const json_t *arguments, char *ret_id)
{
	static const struct arg_spec specs[] = {{"session_id", ARG_STRING, true}};

	if (!tools_check_args(call, tool, specs, ARRAY_SIZE(specs), arguments) ||
	    !code_session_id(call, arguments, ret_id))
		return NULL;
	struct sandbox *s = code_session(t, call, ret_id);

	return s ? tool_call_new(t, call, s, sizeof(struct tool_call)) : NULL;
}

/* ---- sandbox_list_artifacts ---- */

static void on_listed(const struct engine_file *files, size_t n, bool more UNUSED,
		      const struct err *e, void *user)
{
	struct tool_call *c = user;
	json_t *items = json_array();

	if (e) {
		json_decref(items);
		code_finish_err(c->call, sandbox_id(c->sandbox), e);
		goto done;
	}
	for (size_t i = 0; i < n; i++)
		if (S_ISREG(files[i].mode) &&
		    json_array_append_new(items,
					  tools_json_artifact(c->tools, c->sandbox, files[i].name,
							      files[i].size)) < 0) {
			json_decref(items);
			items = NULL;
			break;
		}
	tools_finish(c->call, json_pack("{s:o}", "artifacts", items));
done:
	tool_call_free(c);
}

static void list_artifacts(struct mcp_call *call, json_t *arguments, void *user)
{
	char id[SANDBOX_ID_MAX + 1];
	struct err e = ERR_INIT;
	struct tool_call *c = call_of_session(user, call, "sandbox_list_artifacts", arguments, id);

	if (!c || sandbox_list(c->sandbox, "", on_listed, c, &e) == 0)
		return;
	tool_call_free(c);
	code_finish_err(call, id, &e);
}

/* ---- sandbox_close_session ---- */

static void on_closed(const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		code_finish_err(c->call, sandbox_id(c->sandbox), e);
	else
		tools_finish(c->call, json_pack("{s:s}", "status", "closed"));
	tool_call_free(c);
}

static void close_session(struct mcp_call *call, json_t *arguments, void *user)
{
	char id[SANDBOX_ID_MAX + 1];
	struct err e = ERR_INIT;
	struct tool_call *c = call_of_session(user, call, "sandbox_close_session", arguments, id);

	if (!c || sandbox_close(c->sandbox, false, on_closed, c, &e) == 0)
		return;
	tool_call_free(c);
	if (e.code == ERR_SESSION_BUSY)
		tools_finish_errorf(call, "session_busy",
				    "Session %s is currently executing code. Wait for completion "
				    "before closing.",
				    id);
	else
		code_finish_err(call, id, &e);
}

/* ---- registration ---- */

#define SESSION_OPTIONAL                                                                           \
	"\"session_id\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null}"
#define SESSION_REQUIRED                                                                           \
	"{\"type\":\"object\",\"properties\":{\"session_id\":{\"type\":\"string\"}},"              \
	"\"required\":[\"session_id\"]}"
#define DEF_ERROR                                                                                  \
	"\"ErrorResponse\":{\"type\":\"object\",\"properties\":{\"error\":" STR_                   \
	",\"message\":" STR_ ",\"size_bytes\":" INTNULL ",\"download_url\":" STRNULL               \
	"},\"required\":[\"error\",\"message\"]}"
#define DEF_ARTIFACT                                                                               \
	"\"ArtifactInfo\":{\"type\":\"object\",\"properties\":{\"path\":" STR_                     \
	",\"filename\":" STR_ ",\"size_bytes\":" INT_ ",\"mime_type\":" STR_                       \
	",\"download_url\":" STRNULL                                                               \
	"},\"required\":[\"path\",\"filename\",\"size_bytes\",\"mime_type\"]}"
#define ARTIFACTS "\"artifacts\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/ArtifactInfo\"}"

/* Success or error under one key: the wrapping that clients of the family expect. */
#define WRAPPED(name, def, more)                                                                   \
	"{\"type\":\"object\",\"properties\":{\"result\":{\"anyOf\":[{\"$ref\":\"#/$defs/" name    \
	"\"},{\"$ref\":\"#/$defs/ErrorResponse\"}]}},\"required\":[\"result\"],\"$defs\":{\"" name \
	"\":{\"type\":\"object\"," def "}," DEF_ERROR more "},\"x-fastmcp-wrap-result\":true}"

#define UPLOAD_TITLE "Upload File to Sandbox"
#define RUN_TITLE    "Run Python in Sandbox"
#define READ_TITLE   "Read Artifact from Sandbox"
#define LIST_TITLE   "List Sandbox Artifacts"
#define CLOSE_TITLE  "Close Sandbox Session"

static const struct tool_row rows[] = {
    {
	.name = "sandbox_upload_file",
	.title = UPLOAD_TITLE,
	.description =
	    "Put one data file into the sandbox, at /mnt/data/<filename>, so that code can open "
	    "it.\n\nArgs:\n"
	    "filename: 1-255 letters, digits, dots, hyphens, underscores; no folders.\n"
	    "content_base64: the file in standard base64 with padding, without line breaks.\n"
	    "session_id: an existing session, or a name of your choice for a new one; leave it out "
	    "to get a new session.\n"
	    "overwrite: replace a file of that name (default false).\n\n"
	    "Returns:\n{\"session_id\":\"sess_0f3a9c11d2e4\",\"path\":\"/mnt/data/sales.csv\"}. "
	    "Use "
	    "that session_id in the calls that follow. A failure returns {\"error\":code,"
	    "\"message\":text}: invalid_session_id, invalid_filename, invalid_path, "
	    "upload_too_large, invalid_content, file_exists, max_sessions, execution_failed.",
	.input_schema =
	    "{\"type\":\"object\",\"properties\":{\"filename\":" STR_ ",\"content_base64\":" STR_
	    "," SESSION_OPTIONAL ",\"overwrite\":{\"type\":\"boolean\",\"default\":false}},"
	    "\"required\":[\"filename\",\"content_base64\"]}",
	.output_schema = WRAPPED("UploadResult",
				 "\"properties\":{\"session_id\":" STR_ ",\"path\":" STR_
				 "},\"required\":[\"session_id\",\"path\"]",
				 ""),
	.annotations = HINTS(UPLOAD_TITLE, "false", "false", "false"),
	.call = code_upload_file,
    },
    {
	.name = "sandbox_run_python",
	.title = RUN_TITLE,
	.description =
	    "Run Python source in an isolated sandbox without network and return what it printed "
	    "and the files it made.\n\nArgs:\n"
	    "code: Python source. Print what you want to see. The working folder is /mnt/data; "
	    "files saved there stay for later calls of the same session. pandas, numpy, "
	    "matplotlib, seaborn, scipy, openpyxl, pyarrow and reportlab are installed. Each call "
	    "starts a fresh interpreter: variables do not carry over.\n"
	    "session_id: an existing session, or a name of your choice for a new one; leave it out "
	    "to get a new session.\n\n"
	    "Returns:\n{\"session_id\":...,\"run_id\":...,\"exit_code\":0,\"stdout\":\"ok\\n\","
	    "\"stderr\":\"\",\"stdout_truncated\":false,\"stderr_truncated\":false,\"artifacts\":"
	    "[{\"path\":\"/mnt/data/chart.png\",\"filename\":\"chart.png\",\"size_bytes\":20481,"
	    "\"mime_type\":\"image/png\",\"download_url\":...}],\"duration_ms\":911,\"reason\":"
	    "\"exited\"}. A failing script is a normal result: exit_code is not 0 and stderr holds "
	    "the traceback; correct the code and call again with the same session_id. After a "
	    "timeout exit_code is -1 and reason is timeout; oom means out of memory. artifacts "
	    "lists new or changed files of a run with exit_code 0. A refused call returns "
	    "{\"error\":code,\"message\":text}: invalid_session_id, code_too_large, session_busy, "
	    "max_sessions, execution_failed.",
	.input_schema = "{\"type\":\"object\",\"properties\":{\"code\":" STR_ "," SESSION_OPTIONAL
			"},\"required\":[\"code\"]}",
	.output_schema =
	    WRAPPED("RunResult",
		    "\"properties\":{\"session_id\":" STR_ ",\"run_id\":" STR_
		    ",\"exit_code\":" INT_ ",\"stdout\":" STR_ ",\"stderr\":" STR_
		    ",\"stdout_truncated\":{\"type\":\"boolean\",\"default\":false},"
		    "\"stderr_truncated\":{\"type\":\"boolean\",\"default\":false}," ARTIFACTS
		    ",\"default\":[]},\"duration_ms\":" INT_ ",\"reason\":" STR_
		    "},\"required\":[\"session_id\",\"run_id\",\"exit_code\",\"stdout\","
		    "\"stderr\",\"duration_ms\"]",
		    "," DEF_ARTIFACT),
	.annotations = HINTS(RUN_TITLE, "false", "false", "false"),
	.call = code_run_python,
    },
    {
	.name = "sandbox_read_artifact",
	.title = READ_TITLE,
	.description =
	    "Return one file of the sandbox as base64.\n\nArgs:\n"
	    "session_id: the session that has the file.\n"
	    "path: absolute path of a file below /mnt/data, such as /mnt/data/chart.png.\n\n"
	    "Returns:\n{\"path\":...,\"filename\":...,\"mime_type\":...,\"size_bytes\":...,"
	    "\"content_base64\":...}. To look at text it is cheaper to print it with "
	    "sandbox_run_python; to hand a file to a person use the download_url of the listing. "
	    "A failure returns {\"error\":code,\"message\":text}: invalid_session_id, "
	    "session_not_found, invalid_path, not_found, artifact_too_large (with size_bytes).",
	.input_schema = "{\"type\":\"object\",\"properties\":{\"session_id\":" STR_
			",\"path\":" STR_ "},\"required\":[\"session_id\",\"path\"]}",
	.output_schema =
	    WRAPPED("ArtifactContent",
		    "\"properties\":{\"path\":" STR_ ",\"filename\":" STR_ ",\"mime_type\":" STR_
		    ",\"size_bytes\":" INT_ ",\"content_base64\":" STR_
		    "},\"required\":[\"path\",\"filename\",\"mime_type\",\"size_bytes\","
		    "\"content_base64\"]",
		    ""),
	.annotations = HINTS(READ_TITLE, "true", "false", "true"),
	.call = code_read_artifact,
    },
    {
	.name = "sandbox_list_artifacts",
	.title = LIST_TITLE,
	.description =
	    "List the files directly in /mnt/data of a session, uploads included; folders and what "
	    "is in them are left out.\n\nArgs:\n"
	    "session_id: the session to look into.\n\n"
	    "Returns:\n{\"artifacts\":[{\"path\":...,\"filename\":...,\"size_bytes\":...,"
	    "\"mime_type\":...,\"download_url\":...}]}. A failure returns {\"error\":code,"
	    "\"message\":text}: invalid_session_id, session_not_found.",
	.input_schema = SESSION_REQUIRED,
	.output_schema =
	    WRAPPED("ArtifactList", "\"properties\":{" ARTIFACTS "}},\"required\":[\"artifacts\"]",
		    "," DEF_ARTIFACT),
	.annotations = HINTS(LIST_TITLE, "true", "false", "true"),
	.call = list_artifacts,
    },
    {
	.name = "sandbox_close_session",
	.title = CLOSE_TITLE,
	.description =
	    "End a session: its processes are killed and all its files are deleted. Fetch what is "
	    "still needed first. Unused sessions end by themselves after a while.\n\nArgs:\n"
	    "session_id: the session to end.\n\n"
	    "Returns:\n{\"status\":\"closed\"}. A failure returns "
	    "{\"error\":code,\"message\":text}: "
	    "invalid_session_id, session_not_found, session_busy.",
	.input_schema = SESSION_REQUIRED,
	.output_schema = WRAPPED(
	    "CloseResult", "\"properties\":{\"status\":" STR_ "},\"required\":[\"status\"]", ""),
	.annotations = HINTS(CLOSE_TITLE, "false", "true", "false"),
	.call = close_session,
    },
};

int tools_add_code(struct tools *t, struct mcp_server *server, struct err *e)
{
	return tools_add_rows(server, rows, ARRAY_SIZE(rows), t, e);
}
