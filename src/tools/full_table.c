/* SPDX-License-Identifier: Apache-2.0 */
/* The lean family: one coherent set of tools, which is the profile `full`, and a few older tools of
 * it that only the profile `all` still shows. Every word here is paid for in each conversation, so a
 * text says what makes a model choose right and nothing else; tests/integration/lean.test.ts holds
 * the size. */
#include "tools/extras.h"
#include "tools/table.h"

#include "sandbox/checkpoints.h"

#define LEAN TOOLS_IN_FULL | TOOLS_IN_ALL
#define SESSION_OPTIONAL                                                                           \
	{                                                                                          \
		"session_id", ARG_STRING, ARG_NULL,                                                \
		    "Session or sandbox; an unknown name makes it. Left out: a new one. "          \
		    "\"last\": "                                                                   \
		    "your last."                                                                   \
	}
#define SESSION                                                                                    \
	{                                                                                          \
		"session_id", ARG_STRING, ARG_REQUIRED, "Session or sandbox, or \"last\"."         \
	}
#define PATH(doc)                                                                                  \
	{                                                                                          \
		"path", ARG_STRING, ARG_REQUIRED, doc                                              \
	}
#define TIMEOUT                                                                                    \
	{                                                                                          \
		"timeout_s", ARG_INT, ARG_NULL,                                                    \
		    "Most seconds of the run; sandbox_info has the limit.",                        \
		    .min = 1, .max = TOOLS_TIMEOUT_MAX_S                                           \
	}
#define PARALLEL                                                                                   \
	{                                                                                          \
		"parallel", ARG_BOOL, ARG_NULL | ARG_UNLISTED,                                     \
		    "Beside the run that is on, in an interpreter of its own; no files are told.", \
		    .otherwise = "false"                                                           \
	}
#define USER                                                                                       \
	{                                                                                          \
		"user", ARG_STRING, ARG_NULL, "root: in a session with a root user.",              \
		    .words = "user|root"                                                           \
	}
#define INPUT(doc)                                                                                 \
	{                                                                                          \
		"stdin", ARG_STRING, ARG_NULL, doc                                                 \
	}
#define END                                                                                        \
	{                                                                                          \
		.name = NULL                                                                       \
	}

/* ---- arguments ---- */

static const struct tool_arg python_args[] = {
    {"code", ARG_STRING, ARG_REQUIRED,
     "Python source, as in a notebook: print what you want to see, or end with an expression. "
     "Files saved in the working folder, /mnt/data, stay for later calls of the session."},
    SESSION_OPTIONAL,
    {"stateful", ARG_BOOL, ARG_NULL,
     "true keeps variables, threads and processes for later stateful calls. "
     "A crash leaves the variables as they were.",
     .otherwise = "false"},
    {"restart", ARG_BOOL, ARG_NULL, "In a new interpreter; files stay.", .otherwise = "false"},
    /* For programs that keep several notebooks in one sandbox. */
    {"context", ARG_STRING, ARG_NULL | ARG_UNLISTED,
     "Stateful, with variables of its own under this name."},
    {"language", ARG_STRING, ARG_NULL | ARG_UNLISTED, "Of the code.",
     .words = "python|javascript|typescript", .otherwise = "python"},
    PARALLEL,
    INPUT("What input() and sys.stdin read."),
    TIMEOUT,
    END};
static const struct tool_arg shell_args[] = {
    {"command", ARG_STRING, ARG_REQUIRED, "One command line or a whole script."},
    SESSION_OPTIONAL,
    INPUT("Its standard input."),
    USER,
    TIMEOUT,
    PARALLEL,
    END};
static const struct tool_arg create_args[] = {
    {"session_id", ARG_STRING, ARG_NULL,
     "A new name, or an existing session: all but image, level, disk_mb and network can change."},
    {"persistent", ARG_BOOL, 0,
     "true: a stored sandbox; its files and packages stay until it is deleted.",
     .otherwise = "false"},
    {"name", ARG_STRING, ARG_NULL, "A name for people."},
    {"labels", ARG_PAIRS, ARG_NULL, "Labels of your own."},
    {"image", ARG_STRING, ARG_NULL, "Left out: the server's."},
    {"level", ARG_STRING, ARG_NULL, "Of isolation."},
    {"root", ARG_BOOL, ARG_NULL,
     "true: commands may run as root, which can install packages of the system.",
     .otherwise = "false"},
    {"memory_mb", ARG_INT, ARG_NULL, "Memory in MiB.", .min = 6, .max = SANDBOX_MB_MAX},
    {"cpus", ARG_NUMBER, ARG_NULL, "CPU time in cores.", .min = 10, .max = 1024000},
    {"processes", ARG_INT, ARG_NULL, "Processes and threads.", .min = 4, .max = 1000000},
    {"disk_mb", ARG_INT, ARG_NULL, "Size of all files in MiB.", .min = 1, .max = SANDBOX_MB_MAX},
    {"timeout_s", ARG_INT, ARG_NULL, "Time of a run whose call gives none.", .min = 1,
     .max = TOOLS_TIMEOUT_MAX_S},
    {"ttl_s", ARG_INT, ARG_NULL, "Unused for so long, a session ends.", .min = 1, .max = 31536000},
    {"env", ARG_PAIRS, ARG_NULL | ARG_SECRET,
     "Environment variables; values are never shown again."},
    {"workdir", ARG_STRING, ARG_NULL, "Folder below /mnt/data in which runs start."},
    {"network", ARG_STRING, ARG_NULL,
     "What it may reach, if the operator permits: nothing, the package index, domains, or every "
     "public host.",
     .words = "none|packages|allowlist|open"},
    {"domains", ARG_STRINGS, ARG_NULL, "Of the allowlist: host, host:port, *.host or 8.8.8.0/24.",
     .max = SANDBOX_HOSTS_MAX},
    {"copy_of", ARG_STRING, ARG_NULL, "A session whose files the new one gets, without variables."},
    END};
static const struct tool_arg no_args[] = {END};
static const struct tool_arg info_args[] = {
    SESSION, {"all_packages", ARG_BOOL, 0, "Also those of the image.", .otherwise = "false"}, END};
static const struct tool_arg session_args[] = {SESSION, END};
static const struct tool_arg list_args[] = {
    SESSION,
    {"path", ARG_STRING, ARG_NULL, "A folder; left out: /mnt/data."},
    {"depth", ARG_INT, ARG_NULL, "Levels of folders; left out: all.", .min = 1,
     .max = EXTRAS_DEPTH_MAX},
    END};
static const struct tool_arg read_args[] = {
    SESSION,
    PATH("File below /mnt/data."),
    {"start_line", ARG_INT, ARG_NULL, "First line of a text or page of a PDF, from 1.", .min = 1},
    {"end_line", ARG_INT, ARG_NULL, "Last line or page.", .min = 1},
    {"base64", ARG_BOOL, 0, "The bytes as base64.", .otherwise = "false"},
    END};
static const struct tool_arg write_args[] = {
    PATH("File below /mnt/data; folders are made."),
    {"content", ARG_STRING, ARG_NULL | ARG_JSON_TEXT, "The whole text."},
    {MCP_BASE64_KEY, ARG_STRING, ARG_NULL, "Instead of content: bytes as base64."},
    SESSION_OPTIONAL,
    {"overwrite", ARG_BOOL, 0, "false refuses to replace a file.", .otherwise = "true"},
    END};
static const struct tool_arg edit_args[] = {
    SESSION,
    PATH("File below /mnt/data."),
    {"old_text", ARG_STRING, ARG_REQUIRED, "Copied exactly from the file; it must occur once."},
    {"new_text", ARG_STRING, ARG_REQUIRED, "What replaces it."},
    {"replace_all", ARG_BOOL, 0, "Replace every occurrence.", .otherwise = "false"},
    END};
static const struct tool_arg add_args[] = {
    {"url", ARG_STRING, ARG_NULL, "An http(s) address to fetch, if the network permits it."},
    {"local_path", ARG_STRING, ARG_NULL,
     "A file of the server's machine, if the operator permits it."},
    {"path", ARG_STRING, ARG_NULL, "Where it goes below /mnt/data; left out: it keeps its name."},
    SESSION_OPTIONAL,
    {"overwrite", ARG_BOOL, 0, "false refuses to replace a file.", .otherwise = "true"},
    END};
static const struct tool_arg install_args[] = {
    {"packages", ARG_STRING, ARG_REQUIRED | ARG_WORDS,
     "Names, with versions if needed: \"httpx>=0.28 rich==13.9.4\"."},
    SESSION_OPTIONAL,
    {"remove", ARG_BOOL, 0, "Remove them instead.", .otherwise = "false"},
    END};
static const struct tool_arg checkpoint_args[] = {
    SESSION,
    {"name", ARG_STRING, ARG_REQUIRED, "Letters, digits, - and _; a used name is replaced."},
    {"delete", ARG_BOOL, 0, "Delete it instead.", .otherwise = "false"},
    END};
static const struct tool_arg restore_args[] = {
    SESSION,
    {"name", ARG_STRING, ARG_REQUIRED, "Of a checkpoint, or of a branch, which chooses it."},
    {"files_only", ARG_BOOL, 0, "true restores no variables.", .otherwise = "false"},
    END};
static const struct tool_arg branch_fields[] = {
    {"name", ARG_STRING, ARG_NULL, "Left out: branch-1, branch-2 ..."},
    {"code", ARG_STRING, ARG_REQUIRED, "Python, run as a stateful run."},
    END};
static const struct tool_arg branch_args[] = {SESSION,
					      {"branches", ARG_OBJECTS, ARG_REQUIRED,
					       "The continuations to try.", .min = 1,
					       .max = BRANCHES_MAX, .fields = branch_fields},
					      TIMEOUT,
					      END};
static const struct tool_arg process_args[] = {
    {"action", ARG_STRING, ARG_REQUIRED, "wait: for its end. remove: end and forget it.",
     .words = EXTRAS_PROCESS_ACTIONS},
    {"session_id", ARG_STRING, ARG_NULL, "As of a run; start can make one."},
    {"process_id", ARG_STRING, ARG_NULL, "Of start's answer; not for start and list."},
    {"command", ARG_STRING, ARG_NULL, "For start: a shell command."},
    USER,
    /* For programs. In the text of a command a model has cd and VAR=value. */
    {"name", ARG_STRING, ARG_NULL | ARG_UNLISTED, "What people call it."},
    {"cwd", ARG_STRING, ARG_NULL | ARG_UNLISTED,
     "The folder where it begins, from /mnt/data on, or absolute."},
    {"env", ARG_PAIRS, ARG_NULL | ARG_SECRET | ARG_UNLISTED,
     "Variables besides those of the sandbox."},
    {"input", ARG_BOOL, ARG_NULL, "Start with an open stdin.", .otherwise = "false"},
    {"timeout_s", ARG_INT, ARG_NULL, "Its deadline.", .min = 1, .max = TOOLS_TIMEOUT_MAX_S},
    {"text", ARG_STRING, ARG_NULL, "The input."},
    {"signal", ARG_STRING, ARG_NULL, "TERM, INT, KILL ...", .otherwise = "TERM"},
    {"since", ARG_STRING, ARG_NULL, "next of an earlier answer: only later output."},
    {"wait_s", ARG_INT, ARG_NULL, "Most seconds until the answer.", .min = 0,
     .max = EXTRAS_PROCESS_WAIT_MAX_S},
    END};
static const struct tool_arg domain_args[] = {
    SESSION,
    {"domain", ARG_STRING, ARG_REQUIRED, "A host such as api.example.org, or host:port."},
    END};
/* Of the tools that only `all` shows. */
static const struct tool_arg view_args[] = {SESSION, PATH("The picture, below /mnt/data."), END};
static const struct tool_arg fork_args[] = {
    SESSION,
    {"new_session_id", ARG_STRING, ARG_NULL,
     "A name for the new session; leave it out for a random one."},
    END};
static const struct tool_arg packages_args[] = {
    SESSION, {"all", ARG_BOOL, 0, "Also list what its image has.", .otherwise = "false"}, END};
static const struct tool_arg uninstall_args[] = {
    {"packages", ARG_STRING, ARG_REQUIRED, "Names, separated by blanks."}, SESSION, END};

/* ---- tools ---- */

const struct tool_row full_rows[] = {
    {
	.name = "sandbox_run_python",
	.title = "Run Python",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.summary = "Run Python in an isolated sandbox: analysis, computation, charts, making "
		   "files. pandas, scipy, matplotlib, sklearn, cv2, openpyxl, reportlab and "
		   "python-pptx are there. No network unless the operator permits it.",
	.returns = "Returns what it printed, new or changed files with links for the person, and "
		   "the session_id: give that back to go on with the same files. Pictures and open "
		   "figures are shown to you. A failing run is a normal result: read it, correct "
		   "the code, run again in the same session.",
	.args = python_args,
	.shown = true,
	.call = extras_run_python,
    },
    {
	.name = "sandbox_run_shell",
	.title = "Run Shell Command",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.summary = "Run a shell command or script (bash where the image has it) in a sandbox, in "
		   "/mnt/data: archives, git, pytest, ffmpeg, tesseract, pdftotext, jq. For "
		   "Python use sandbox_run_python.",
	.returns = "Returns as sandbox_run_python does.",
	.args = shell_args,
	.shown = true,
	.call = extras_run_shell,
    },
    {
	.name = "sandbox_create",
	.title = "Create Sandbox",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.summary = "Make a sandbox with choices of your own: one that stays (persistent), other "
		   "limits, a network, a copy of another one's files. A plain session needs no "
		   "such call: the first run or write makes one.",
	.args = create_args,
	.call = extras_create,
    },
    {
	.name = "sandbox_list",
	.title = "List Sandboxes",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary = "List your sessions and stored sandboxes with state, age, idle time and files: "
		   "to find an earlier one again.",
	.args = no_args,
	.call = extras_list_sandboxes,
    },
    {
	.name = "sandbox_info",
	.title = "Sandbox Information",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary = "Tell about one sandbox: what runs, limits, memory and disk in use, network, "
		   "checkpoints, installed packages.",
	.args = info_args,
	.call = extras_info,
    },
    {
	.name = "sandbox_delete",
	.title = "Delete Sandbox",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.summary = "End a session, or delete a stored sandbox for good, with all its files; what "
		   "runs in it is killed. Sessions end by themselves when unused.",
	.args = session_args,
	.call = extras_delete,
    },
    {
	.name = "sandbox_list_files",
	.title = "List Files",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary = "List files in /mnt/data or a folder of it, at any depth, with sizes, types and "
		   "links for the person.",
	.args = list_args,
	.shown = true,
	.call = extras_list_files,
    },
    {
	.name = "sandbox_read_file",
	.title = "Read or View File",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary = "Look at a file: lines of a text; pictures (PNG, JPEG, WebP, TIFF, SVG ...) "
		   "and pages of a PDF as pictures. Of other files it tells type and link: "
		   "read those with code.",
	.args = read_args,
	.shown = true,
	.call = extras_read_file,
    },
    {
	.name = "sandbox_write_file",
	.title = "Write File",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.summary = "Write a whole file whose content you have. To change a part of a file use "
		   "sandbox_edit_file.",
	.args = write_args,
	.call = extras_write_file,
    },
    {
	.name = "sandbox_edit_file",
	.title = "Edit File",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS,
	.summary = "Replace a piece of a text file.",
	.returns = "Fails with no_match or ambiguous_match, and then changes nothing.",
	.args = edit_args,
	.call = extras_edit_file,
    },
    {
	.name = "sandbox_add_file",
	.title = "Add File",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_OPEN_WORLD,
	.summary =
	    "Bring in a file that you do not have as text: from an address, from the server's "
	    "machine, or, with neither, by an upload link for the person to open.",
	.args = add_args,
	.call = extras_add_file,
    },
    {
	.name = "sandbox_install_packages",
	.title = "Install Packages",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
	.needs = TOOL_NEEDS_PACKAGES,
	.summary = "Install or remove Python packages, from the package index of this server; "
		   "works without network in the sandbox, where pip does not.",
	.args = install_args,
	.call = extras_install,
    },
    {
	.name = "sandbox_checkpoint",
	.title = "Save Checkpoint",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_IDEMPOTENT,
	.summary = "Save the present files and variables of a session under a name, before a step "
		   "that may go wrong. At most 8; they end with the session.",
	.args = checkpoint_args,
	.call = extras_checkpoint,
    },
    {
	.name = "sandbox_restore",
	.title = "Restore Checkpoint",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.summary = "Bring files and variables back to a checkpoint; later changes are lost. The "
		   "checkpoint stays.",
	.args = restore_args,
	.call = extras_restore,
    },
    {
	.name = "sandbox_branch",
	.title = "Try Branches",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.summary = "Try several continuations of a session, each from its present variables and "
		   "files, one after the other, without changing it.",
	.returns = "Returns the result of each. state kept: it is now a checkpoint of that name; "
		   "choose one with sandbox_restore.",
	.args = branch_args,
	.call = extras_branch,
    },
    {
	.name = "sandbox_process",
	.title = "Background Process",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS,
	.summary = "Start a command that goes on beside runs (a server that they reach on "
		   "127.0.0.1, a watcher, a long download), read it, write to it, end it.",
	.args = process_args,
	.call = extras_process,
    },
    {
	.name = "sandbox_allow_domain",
	.title = "Allow Domain",
	.profiles = LEAN,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
	.needs = TOOL_NEEDS_ASKING,
	.summary = "Ask the person whether a sandbox may reach one more host by HTTP and HTTPS "
		   "until it ends.",
	.args = domain_args,
	.call = extras_allow_domain,
    },
    {
	.name = "sandbox_view_image",
	.title = "View Image in Sandbox",
	.profiles = TOOLS_IN_ALL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_READS | TOOL_IDEMPOTENT,
	.summary = "Look at a picture (PNG, JPEG, GIF or WebP) that is in the sandbox.",
	.returns = "Returns the picture itself, scaled down when it is too large.",
	.args = view_args,
	.call = extras_view_image,
    },
    {
	.name = "sandbox_fork",
	.title = "Fork Sandbox",
	.profiles = TOOLS_IN_ALL,
	.style = TOOL_STYLE_FULL,
	.summary = "Make a new session with copies of the files of another one. It has its own "
		   "limits and no variables; both can run at the same time.",
	.returns = "Returns session_id (the new one), forked_from, state (fresh), files, bytes and "
		   "skipped (links and unreadable files). At most 10000 files.",
	.args = fork_args,
	.call = extras_fork,
    },
    {
	.name = "sandbox_list_packages",
	.title = "List Packages in Sandbox",
	.profiles = TOOLS_IN_ALL,
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
	.profiles = TOOLS_IN_ALL,
	.style = TOOL_STYLE_FULL,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.needs = TOOL_NEEDS_PACKAGES,
	.summary = "Remove Python packages that were installed into a sandbox; packages of the "
		   "image stay.",
	.returns = "Returns session_id, status (success) and message.",
	.args = uninstall_args,
	.call = extras_uninstall,
    },
    END};
