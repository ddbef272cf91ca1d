/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that only the profile `full` has. */
#include "tools/extras.h"
#include "tools/table.h"

#include "sandbox/checkpoints.h"

#define SESSION_OPTIONAL                                                                           \
	{                                                                                          \
		"session_id", ARG_STRING, ARG_NULL,                                                \
		    "An earlier session, or a name for a new one; leave it out for a new one."     \
	}
#define SESSION(doc)                                                                               \
	{                                                                                          \
		"session_id", ARG_STRING, ARG_REQUIRED, doc                                        \
	}
#define PATH                                                                                       \
	{                                                                                          \
		"path", ARG_STRING, ARG_REQUIRED, "Below /mnt/data, absolute or relative to it."   \
	}
#define TIMEOUT                                                                                    \
	{                                                                                          \
		"timeout_s", ARG_INT, ARG_NULL,                                                    \
		    "End the run after that many seconds, such as 30; "                            \
		    "sandbox_info tells the most that is allowed.",                                \
		    .min = 1, .max = TOOLS_TIMEOUT_MAX_S                                           \
	}
#define END                                                                                        \
	{                                                                                          \
		.name = NULL                                                                       \
	}

/* ---- arguments ---- */

static const struct tool_arg python_args[] = {
    {"code", ARG_STRING, ARG_REQUIRED,
     "Python source. Print what you want to see. The working folder is /mnt/data; files saved "
     "there stay for later calls of the session."},
    SESSION_OPTIONAL,
    TIMEOUT,
    {"stateful", ARG_BOOL, ARG_NULL,
     "true keeps variables, imports and definitions for later stateful calls of the session, as a "
     "notebook does; `result` is then the last expression's value. A run that crashes or is ended "
     "leaves them as they were before it (`state`: kept, unchanged or lost).",
     .otherwise = "false"},
    END};
static const struct tool_arg shell_args[] = {
    {"command", ARG_STRING, ARG_REQUIRED, "One command line or a whole script."},
    SESSION_OPTIONAL,
    TIMEOUT,
    END};
static const struct tool_arg read_args[] = {
    SESSION("The session that has the file."),
    PATH,
    {"start_line", ARG_INT, ARG_NULL, "The first line to read, counted from 1.", .min = 1},
    {"end_line", ARG_INT, ARG_NULL, "The last line to read; up to 2000 lines without it.",
     .min = 1},
    END};
static const struct tool_arg write_args[] = {
    PATH,
    {"content", ARG_STRING, ARG_REQUIRED, "The whole text."},
    SESSION_OPTIONAL,
    {"overwrite", ARG_BOOL, 0, "Replace a file that is there.", .otherwise = "true"},
    END};
static const struct tool_arg edit_args[] = {
    SESSION("The session that has the file."),
    PATH,
    {"old_text", ARG_STRING, ARG_REQUIRED,
     "The text to replace, exactly as it is in the file; it must occur once."},
    {"new_text", ARG_STRING, ARG_REQUIRED, "The text that replaces it."},
    {"replace_all", ARG_BOOL, 0, "Replace every occurrence.", .otherwise = "false"},
    END};
static const struct tool_arg view_args[] = {SESSION("The session that has the file."), PATH, END};
static const struct tool_arg info_args[] = {SESSION("The session to look at."), END};
static const struct tool_arg delete_args[] = {SESSION("The session to end."), END};
static const struct tool_arg checkpoint_args[] = {
    SESSION("The session."),
    {"name", ARG_STRING, ARG_REQUIRED,
     "Letters, digits, - and _; an older checkpoint of that name is replaced."},
    {"delete", ARG_BOOL, 0, "true deletes the checkpoint of that name instead.",
     .otherwise = "false"},
    END};
static const struct tool_arg restore_args[] = {
    SESSION("The session."),
    {"name", ARG_STRING, ARG_REQUIRED,
     "The name of a checkpoint, or of a branch of sandbox_branch: restoring it chooses that "
     "branch."},
    {"files_only", ARG_BOOL, 0, "true restores the files alone; the session then has no variables.",
     .otherwise = "false"},
    END};
static const struct tool_arg branch_fields[] = {
    {"name", ARG_STRING, ARG_NULL,
     "Letters, digits, - and _; left out: branch-1, branch-2 and so on."},
    {"code", ARG_STRING, ARG_REQUIRED, "Python that is run as a stateful run."},
    END};
static const struct tool_arg branch_args[] = {
    SESSION("The session."),
    {"branches", ARG_OBJECTS, ARG_REQUIRED,
     "The continuations to try, such as [{\"name\": \"a\", \"code\": \"x = 1\"}].", .min = 1,
     .max = BRANCHES_MAX, .fields = branch_fields},
    TIMEOUT,
    END};
static const struct tool_arg fork_args[] = {
    SESSION("The session whose files are copied."),
    {"new_session_id", ARG_STRING, ARG_NULL,
     "A name for the new session; leave it out for a random one."},
    END};
static const struct tool_arg install_args[] = {
    {"packages", ARG_STRING, ARG_REQUIRED,
     "Names with extras and versions where needed, such as \"requests\" or \"polars>=1.0 "
     "rich[jupyter]==13.9.4\", or lines of a requirements file. No options, addresses or paths."},
    SESSION_OPTIONAL,
    END};
static const struct tool_arg packages_args[] = {
    SESSION("The session to look at."),
    {"all", ARG_BOOL, 0, "Also list what its image has.", .otherwise = "false"},
    END};
static const struct tool_arg uninstall_args[] = {
    {"packages", ARG_STRING, ARG_REQUIRED, "Names, separated by blanks."},
    SESSION("The session that has them."),
    END};
static const struct tool_arg domain_args[] = {
    SESSION("The session that needs it."),
    {"domain", ARG_STRING, ARG_REQUIRED,
     "One name, such as api.example.org (ports 80 and 443), or name:port."},
    END};

/* ---- tools ---- */

#define RUN_RESULT                                                                                 \
	"Returns session_id, exit_code, stdout, stderr, artifacts (new or changed files with "     \
	"their download_url), duration_ms and reason (exited, signaled, timeout, oom). Long "      \
	"output is cut in the middle. Pictures that the run saved, and figures that it left open " \
	"or gave to plt.show(), are shown to you. A failing run is a normal result: read stderr, " \
	"correct, and run again in the same session."

const struct tool_row full_rows[] = {
    {
	.name = "sandbox_run_python",
	.title = "Run Python in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.summary =
	    "Run Python source in an isolated sandbox without network. pandas, numpy, matplotlib, "
	    "seaborn, scipy, openpyxl, pyarrow and reportlab are installed. Each call starts a "
	    "fresh interpreter unless stateful is true.",
	.returns = RUN_RESULT,
	.args = python_args,
	.call = extras_run_python,
    },
    {
	.name = "sandbox_run_shell",
	.title = "Run Shell Command in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.summary = "Run a shell command (bash where the image has it) in an isolated sandbox "
		   "without network, in /mnt/data.",
	.returns = RUN_RESULT,
	.args = shell_args,
	.call = extras_run_shell,
    },
    {
	.name = "sandbox_read_file",
	.title = "Read Text File in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary = "Read a text file of the sandbox, or some of its lines.",
	.returns = "Returns one line that names the file and the lines, then the text.",
	.args = read_args,
	.call = extras_read_file,
    },
    {
	.name = "sandbox_write_file",
	.title = "Write Text File in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.summary = "Write a text file in the sandbox; folders on the way are made.",
	.returns = "Returns session_id, path, size_bytes and download_url.",
	.args = write_args,
	.call = extras_write_file,
    },
    {
	.name = "sandbox_edit_file",
	.title = "Edit Text File in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS,
	.summary = "Replace a piece of a text file in the sandbox.",
	.returns =
	    "Returns session_id, path, size_bytes, download_url and replaced (how often). Fails "
	    "with no_match or ambiguous_match and changes nothing then.",
	.args = edit_args,
	.call = extras_edit_file,
    },
    {
	.name = "sandbox_view_image",
	.title = "View Image in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary = "Look at a picture (PNG, JPEG, GIF or WebP) that is in the sandbox.",
	.returns = "Returns the picture itself, scaled down when it has more than 1.5 MiB.",
	.args = view_args,
	.call = extras_view_image,
    },
    {
	.name = "sandbox_info",
	.title = "Sandbox Information",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary =
	    "Tell the state of a sandbox: whether something runs, its age, its limits and which of "
	    "them are enforced, what it uses now, its checkpoints, and which network it may reach.",
	.args = info_args,
	.call = extras_info,
    },
    {
	.name = "sandbox_delete",
	.title = "Delete Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.summary =
	    "End a session at once: what runs in it is killed and all its files are deleted.",
	.returns = "Returns session_id and status (deleted).",
	.args = delete_args,
	.call = extras_delete,
    },
    {
	.name = "sandbox_checkpoint",
	.title = "Checkpoint Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_IDEMPOTENT,
	.summary =
	    "Save the present state of a session under a name: all files of /mnt/data and, if "
	    "there were stateful runs, all variables. Do it before a step that may go wrong.",
	.returns = "Returns session_id, name, state (kept: with variables; fresh: files alone, "
		   "there were no variables; lost: files alone, the variables were gone), files "
		   "and bytes. A session has at most 8 checkpoints; they count as its memory, and "
		   "end with it. /tmp, the home folder and processes are not saved.",
	.args = checkpoint_args,
	.call = extras_checkpoint,
    },
    {
	.name = "sandbox_restore",
	.title = "Restore Checkpoint",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.summary = "Restore a checkpoint: files and variables become what they were then, and "
		   "later changes are lost. The checkpoint stays and can be restored again.",
	.returns =
	    "Returns session_id, name, state (kept: its variables are back; fresh: there are "
	    "none), files and bytes. Fails with checkpoint_lost when a run has killed the kept "
	    "interpreter; its files can still be restored.",
	.args = restore_args,
	.call = extras_restore,
    },
    {
	.name = "sandbox_branch",
	.title = "Try Branches",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.summary =
	    "Try several continuations of a live session, each from its present variables and "
	    "files, without changing the session: one call instead of checkpoint, run, restore for "
	    "each. They run one after the other and do not see each other.",
	.returns =
	    "Returns session_id and for each branch name, exit_code, stdout, stderr, result, "
	    "reason, duration_ms, new_files and state: kept means that its variables and files are "
	    "a checkpoint of that name now; choose one with sandbox_restore. unchanged means that "
	    "the code did not come to its end, and nothing is kept. Counts towards the 8 "
	    "checkpoints of a session.",
	.args = branch_args,
	.call = extras_branch,
    },
    {
	.name = "sandbox_fork",
	.title = "Fork Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.summary = "Make a new session with copies of the files of another one. It has its own "
		   "limits and no variables; both can run at the same time. To try something with "
		   "the variables use sandbox_branch.",
	.returns = "Returns session_id (the new one), forked_from, state (fresh), files, bytes and "
		   "skipped (links and unreadable files; empty folders and permissions are not "
		   "copied). At most 10000 files.",
	.args = fork_args,
	.call = extras_fork,
    },
    {
	.name = "sandbox_install_packages",
	.title = "Install Packages in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
	.needs = TOOL_NEEDS_PACKAGES,
	.summary =
	    "Install Python packages into a sandbox, from the package index of this server. The "
	    "sandbox itself has no network; pip in a run cannot do it.",
	.returns =
	    "Returns session_id, status (success), message and installed (name==version of all "
	    "that is new). What the image has already is not installed again.",
	.args = install_args,
	.call = extras_install,
    },
    {
	.name = "sandbox_list_packages",
	.title = "List Packages in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.needs = TOOL_NEEDS_PACKAGES,
	.summary = "List the Python packages that were installed into a sandbox.",
	.returns = "Returns session_id and installed (name and version), with all also of_image.",
	.args = packages_args,
	.call = extras_list_packages,
    },
    {
	.name = "sandbox_uninstall_packages",
	.title = "Uninstall Packages in Sandbox",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.needs = TOOL_NEEDS_PACKAGES,
	.summary = "Remove Python packages that were installed into a sandbox. Packages that "
		   "depend on them are not checked; packages of the image stay.",
	.returns = "Returns session_id, status (success) and message.",
	.args = uninstall_args,
	.call = extras_uninstall,
    },
    {
	.name = "sandbox_allow_domain",
	.title = "Allow Sandbox a Domain",
	.profiles = TOOLS_IN_FULL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
	.needs = TOOL_NEEDS_ASKING,
	.summary =
	    "Ask the person whether a sandbox may reach one more host. If the person agrees, it "
	    "reaches the host by HTTP and HTTPS until the session ends, through the proxy in "
	    "HTTP_PROXY and HTTPS_PROXY (requests, urllib and curl use it by themselves).",
	.returns =
	    "Returns session_id, status (allowed), domain and network_allowed (all hosts that were "
	    "allowed). Fails with declined if the person says no, with asked_too_often after "
	    "several refusals, and with cannot_ask if the client cannot ask.",
	.args = domain_args,
	.call = extras_allow_domain,
    },
    END};
