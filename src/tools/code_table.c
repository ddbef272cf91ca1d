/* SPDX-License-Identifier: Apache-2.0 */
/* The first tool family. Names, schemas and texts are a published contract: they stay as they
 * are. */
#include "tools/code.h"
#include "tools/table.h"

#define SESSION_OPTIONAL                                                                           \
	{                                                                                          \
		"session_id", ARG_STRING, ARG_NULL,                                                \
		    "an existing session, or a name of your choice for a new one; leave it out "   \
		    "to get a new session."                                                        \
	}
#define SESSION_REQUIRED(doc)                                                                      \
	{                                                                                          \
		"session_id", ARG_STRING, ARG_REQUIRED, doc                                        \
	}
#define END                                                                                        \
	{                                                                                          \
		.name = NULL                                                                       \
	}
#define EXACT TOOLS_IN_CODE | TOOLS_IN_BOTH | TOOLS_IN_ALL

/* ---- arguments ---- */

static const struct tool_arg upload_args[] = {
    {"filename", ARG_STRING, ARG_REQUIRED,
     "1-255 letters, digits, dots, hyphens, underscores; no folders."},
    {"content_base64", ARG_STRING, ARG_REQUIRED,
     "the file in standard base64 with padding, without line breaks."},
    SESSION_OPTIONAL,
    {"overwrite", ARG_BOOL, 0, "replace a file of that name (default false).",
     .otherwise = "false"},
    END};
static const struct tool_arg run_args[] = {
    {"code", ARG_STRING, ARG_REQUIRED,
     "Python source. Print what you want to see. The working folder is /mnt/data; files saved "
     "there stay for later calls of the same session. pandas, numpy, matplotlib, seaborn, scipy, "
     "openpyxl, pyarrow and reportlab are installed. Each call starts a fresh interpreter: "
     "variables do not carry over."},
    SESSION_OPTIONAL,
    END};
static const struct tool_arg read_args[] = {
    SESSION_REQUIRED("the session that has the file."),
    {"path", ARG_STRING, ARG_REQUIRED,
     "absolute path of a file below /mnt/data, such as /mnt/data/chart.png."},
    END};
static const struct tool_arg list_args[] = {SESSION_REQUIRED("the session to look into."), END};
static const struct tool_arg close_args[] = {SESSION_REQUIRED("the session to end."), END};

/* ---- results ---- */

static const struct tool_arg upload_members[] = {
    {"session_id", ARG_STRING, ARG_REQUIRED, NULL}, {"path", ARG_STRING, ARG_REQUIRED, NULL}, END};
static const struct tool_arg run_members[] = {
    {"session_id", ARG_STRING, ARG_REQUIRED, NULL},
    {"run_id", ARG_STRING, ARG_REQUIRED, NULL},
    {"exit_code", ARG_INT, ARG_REQUIRED, NULL},
    {"stdout", ARG_STRING, ARG_REQUIRED, NULL},
    {"stderr", ARG_STRING, ARG_REQUIRED, NULL},
    {"stdout_truncated", ARG_BOOL, 0, NULL, .otherwise = "false"},
    {"stderr_truncated", ARG_BOOL, 0, NULL, .otherwise = "false"},
    {"artifacts", ARG_ARTIFACTS, 0, NULL, .otherwise = "[]"},
    {"duration_ms", ARG_INT, ARG_REQUIRED, NULL},
    {"reason", ARG_STRING, 0, NULL},
    END};
static const struct tool_arg read_members[] = {{"path", ARG_STRING, ARG_REQUIRED, NULL},
					       {"filename", ARG_STRING, ARG_REQUIRED, NULL},
					       {"mime_type", ARG_STRING, ARG_REQUIRED, NULL},
					       {"size_bytes", ARG_INT, ARG_REQUIRED, NULL},
					       {"content_base64", ARG_STRING, ARG_REQUIRED, NULL},
					       END};
static const struct tool_arg list_members[] = {{"artifacts", ARG_ARTIFACTS, ARG_REQUIRED, NULL},
					       END};
static const struct tool_arg close_members[] = {{"status", ARG_STRING, ARG_REQUIRED, NULL}, END};

static const struct tool_result upload_result = {"UploadResult", upload_members};
static const struct tool_result run_result = {"RunResult", run_members};
static const struct tool_result read_result = {"ArtifactContent", read_members};
static const struct tool_result list_result = {"ArtifactList", list_members};
static const struct tool_result close_result = {"CloseResult", close_members};

/* ---- tools ---- */

const struct tool_row code_rows[] = {
    {
	.name = "sandbox_upload_file",
	.title = "Upload File to Sandbox",
	.profiles = EXACT,
	.style = TOOL_STYLE_CODE,
	.summary =
	    "Put one data file into the sandbox, at /mnt/data/<filename>, so that code can open "
	    "it.",
	.returns =
	    "Returns:\n{\"session_id\":\"sess_0f3a9c11d2e4\",\"path\":\"/mnt/data/sales.csv\"}. "
	    "Use that session_id in the calls that follow. A failure returns {\"error\":code,"
	    "\"message\":text}: invalid_session_id, invalid_filename, invalid_path, "
	    "upload_too_large, invalid_content, file_exists, max_sessions, execution_failed.",
	.args = upload_args,
	.result = &upload_result,
	.call = code_upload_file,
    },
    {
	.name = "sandbox_run_python",
	.title = "Run Python in Sandbox",
	.profiles = TOOLS_IN_CODE | TOOLS_IN_BOTH,
	.style = TOOL_STYLE_CODE,
	.summary =
	    "Run Python source in an isolated sandbox without network and return what it printed "
	    "and the files it made.",
	.returns =
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
	.args = run_args,
	.result = &run_result,
	.call = code_run_python,
    },
    {
	.name = "sandbox_read_artifact",
	.title = "Read Artifact from Sandbox",
	.profiles = EXACT,
	.style = TOOL_STYLE_CODE,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary = "Return one file of the sandbox as base64.",
	.returns =
	    "Returns:\n{\"path\":...,\"filename\":...,\"mime_type\":...,\"size_bytes\":...,"
	    "\"content_base64\":...}. To look at text it is cheaper to print it with "
	    "sandbox_run_python; to hand a file to a person use the download_url of the listing. "
	    "A failure returns {\"error\":code,\"message\":text}: invalid_session_id, "
	    "session_not_found, invalid_path, not_found, artifact_too_large (with size_bytes).",
	.args = read_args,
	.result = &read_result,
	.call = code_read_artifact,
    },
    {
	.name = "sandbox_list_artifacts",
	.title = "List Sandbox Artifacts",
	.profiles = EXACT,
	.style = TOOL_STYLE_CODE,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary =
	    "List the files directly in /mnt/data of a session, uploads included; folders and what "
	    "is in them are left out.",
	.returns = "Returns:\n{\"artifacts\":[{\"path\":...,\"filename\":...,\"size_bytes\":...,"
		   "\"mime_type\":...,\"download_url\":...}]}. A failure returns {\"error\":code,"
		   "\"message\":text}: invalid_session_id, session_not_found.",
	.args = list_args,
	.result = &list_result,
	.call = code_list_artifacts,
    },
    {
	.name = "sandbox_close_session",
	.title = "Close Sandbox Session",
	.profiles = EXACT,
	.style = TOOL_STYLE_CODE,
	.hints = TOOL_DESTROYS,
	.summary =
	    "End a session: its processes are killed and all its files are deleted. Fetch what is "
	    "still needed first. Unused sessions end by themselves after a while.",
	.returns = "Returns:\n{\"status\":\"closed\"}. A failure returns {\"error\":code,"
		   "\"message\":text}: invalid_session_id, session_not_found, session_busy.",
	.args = close_args,
	.result = &close_result,
	.call = code_close_session,
    },
    END};
