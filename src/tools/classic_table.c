/* SPDX-License-Identifier: Apache-2.0 */
/* The second tool family. Names, schemas and texts of what `classic` and `both` show are a
 * published contract: they stay as they are. The profile `all` has some of these tools with more
 * arguments. */
#include "tools/classic.h"
#include "tools/table.h"

#define SANDBOX                                                                                    \
	{                                                                                          \
		"sandbox_id", ARG_STRING, ARG_REQUIRED, "the sandbox."                             \
	}
#define END                                                                                        \
	{                                                                                          \
		.name = NULL                                                                       \
	}
#define EXACT      TOOLS_IN_CLASSIC | TOOLS_IN_BOTH
#define EVERYWHERE EXACT | TOOLS_IN_ALL

/* ---- arguments ---- */

static const struct tool_arg create_args[] = {
    {"name", ARG_STRING, ARG_NULL, "a name for people (optional; \"Sandbox N\" otherwise)."}, END};
static const struct tool_arg create_chosen_args[] = {
    {"name", ARG_STRING, ARG_NULL, "a name for people (optional; \"Sandbox N\" otherwise)."},
    {"network", ARG_STRING, ARG_NULL,
     "what code in it may reach, through the proxy that HTTP_PROXY and HTTPS_PROXY name: none, "
     "packages (the package index), allowlist (the domains), open (every public host). Never "
     "wider than the operator permits; leave it out to get what all get.",
     .words = "none|packages|allowlist|open"},
    {"domains", ARG_STRINGS, ARG_NULL,
     "of the network allowlist, up to 32 of host, host:port or *.host. An empty list means "
     "nothing.",
     .max = SANDBOX_HOSTS_MAX},
    END};
static const struct tool_arg no_args[] = {END};
static const struct tool_arg execute_args[] = {
    SANDBOX,
    {"code", ARG_STRING, ARG_REQUIRED,
     "Python source; print what you want to see. The working folder is /app/results: save files "
     "there (plt.savefig(\"chart.png\")), they stay. Each call starts a fresh interpreter. There "
     "is no network; install packages with install_package_in_sandbox and wait until it has "
     "succeeded."},
    END};
static const struct tool_arg install_args[] = {
    SANDBOX,
    {"package_name", ARG_STRING, ARG_REQUIRED,
     "a name, with extras and version if need be (\"requests\", \"httpx[http2]>=0.27\"); several "
     "are separated by blanks."},
    END};
static const struct tool_arg check_args[] = {SANDBOX,
					     {"package_name", ARG_STRING, ARG_REQUIRED,
					      "exactly what install_package_in_sandbox was given."},
					     END};
static const struct tool_arg command_args[] = {
    SANDBOX,
    {"command", ARG_STRING, ARG_REQUIRED,
     "the command line. Pipes, redirections, && and variables work. It starts in /app/results, as "
     "an ordinary user without network."},
    END};
static const struct tool_arg command_kept_args[] = {
    SANDBOX,
    {"command", ARG_STRING, ARG_REQUIRED,
     "the command line. Pipes, redirections, && and variables work. It starts in the folder where "
     "the command before it ended (/app/results at first), as an ordinary user without network."},
    END};
static const struct tool_arg upload_args[] = {
    SANDBOX,
    {"local_file_path", ARG_STRING, ARG_REQUIRED,
     "path on the server's machine, in one of the folders that it allows; a relative one starts in "
     "the first of them."},
    {"dest_path", ARG_STRING, 0,
     "folder in the sandbox that is there already (default /app/results).",
     .otherwise = CLASSIC_FOLDER},
    END};
static const struct tool_arg delete_args[] = {SANDBOX, END};

/* ---- tools ---- */

#define CREATE_SUMMARY                                                                             \
	"Make a new Python sandbox that stays until it is deleted: its files and installed "       \
	"packages are there again after a restart."
#define CREATE_LIMIT                                                                               \
	"Every other tool wants the sandbox_id. The number of sandboxes of one user is limited: "  \
	"look with list_sandboxes first and use one that is there. A failure is {error: true, "    \
	"message}"

const struct tool_row classic_rows[] = {
    {
	.name = "create_sandbox",
	.profiles = EXACT,
	.style = TOOL_STYLE_CLASSIC,
	.summary = CREATE_SUMMARY,
	.returns = "Returns {sandbox_id, user_id, name, status}. " CREATE_LIMIT ".",
	.args = create_args,
	.call = classic_create,
    },
    {
	.name = "create_sandbox",
	.profiles = TOOLS_IN_ALL,
	.style = TOOL_STYLE_CLASSIC,
	.summary = CREATE_SUMMARY,
	.returns = "Returns {sandbox_id, user_id, name, status}, and network and domains where you "
		   "chose. " CREATE_LIMIT
		   "; code network_not_permitted says that the network is wider than permitted.",
	.args = create_chosen_args,
	.call = classic_create_chosen,
    },
    {
	.name = "list_sandboxes",
	.profiles = EVERYWHERE,
	.style = TOOL_STYLE_CLASSIC,
	.summary =
	    "List your sandboxes: [{sandbox_id, name, installed_packages: [{name, version}]}]. "
	    "installed_packages are those that were installed into the sandbox; pandas, numpy, "
	    "matplotlib and other packages of the image are there besides. Nothing comes back when "
	    "there is no sandbox.",
	.args = no_args,
	.call = classic_list,
    },
    {
	.name = "execute_python_code",
	.profiles = EVERYWHERE,
	.style = TOOL_STYLE_CLASSIC,
	.summary = "Run Python code in a sandbox and return what it printed and the files it made.",
	.returns =
	    "Returns {stdout, stderr, exit_code, files, file_links}: files are the new or changed "
	    "files in /app/results, file_links their addresses for a person's browser, in the same "
	    "order. When exit_code is not 0 read stderr, mend the code and call again. Calls to "
	    "one sandbox run one after the other.",
	.args = execute_args,
	.call = classic_execute,
    },
    {
	.name = "install_package_in_sandbox",
	.profiles = EVERYWHERE,
	.style = TOOL_STYLE_CLASSIC,
	.summary = "Install a Python package into a sandbox.",
	.returns =
	    "Returns {status, message, ...}. status is success, failed, or installing: the "
	    "installation then goes on, and check_package_installation_status tells how far it "
	    "is.",
	.args = install_args,
	.call = classic_install,
    },
    {
	.name = "check_package_installation_status",
	.profiles = EVERYWHERE,
	.style = TOOL_STYLE_CLASSIC,
	.summary = "Tell how far the installation of a package is.",
	.returns =
	    "Returns {status, message, complete, ...}; status is installing, success, failed, "
	    "not_found or error. Ask again after a few seconds while complete is false.",
	.args = check_args,
	.call = classic_check,
    },
    {
	.name = "execute_terminal_command",
	.profiles = EXACT,
	.style = TOOL_STYLE_CLASSIC,
	.summary = "Run a command in a sandbox, as a terminal would.",
	.returns = "Returns {stdout, stderr, exit_code}.",
	.args = command_args,
	.call = classic_terminal,
    },
    {
	.name = "execute_terminal_command",
	.profiles = TOOLS_IN_ALL,
	.style = TOOL_STYLE_CLASSIC,
	.summary = "Run a command in a sandbox, as a terminal would.",
	.returns =
	    "Returns {stdout, stderr, exit_code, cwd}; cwd is the folder where the next command "
	    "starts.",
	.args = command_kept_args,
	.call = classic_terminal_kept,
    },
    {
	.name = "upload_file_to_sandbox",
	.profiles = EVERYWHERE,
	.style = TOOL_STYLE_CLASSIC,
	.summary = "Copy a file of the machine that the server runs on into a sandbox.",
	.returns =
	    "Returns {success: true, message}; a file of that name is replaced. A failure is "
	    "{error: true, message}.",
	.args = upload_args,
	.call = classic_upload,
    },
    {
	.name = "delete_sandbox",
	.title = "Delete Sandbox",
	.profiles = TOOLS_IN_ALL,
	.style = TOOL_STYLE_CLASSIC,
	.hints = TOOL_DESTROYS | TOOL_IDEMPOTENT,
	.summary = "End a sandbox for good: its files and installed packages are deleted.",
	.returns = "Returns {success: true, message}. A failure is {error: true, message}.",
	.args = delete_args,
	.call = classic_delete,
    },
    END};
