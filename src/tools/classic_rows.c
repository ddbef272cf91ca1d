/* SPDX-License-Identifier: Apache-2.0 */
/* Names, schemas and descriptions of the second tool family. */
#include "tools/classic.h"
#include "tools/rows.h"

#define SANDBOX_ID "\"sandbox_id\":{\"type\":\"string\",\"title\":\"Sandbox Id\"}"
#define PACKAGE                                                                                    \
	"{\"type\":\"object\",\"properties\":{" SANDBOX_ID                                         \
	",\"package_name\":{\"type\":\"string\",\"title\":\"Package Name\"}},"                     \
	"\"required\":[\"sandbox_id\",\"package_name\"]}"

#define COMMAND                                                                                    \
	"{\"type\":\"object\",\"properties\":{" SANDBOX_ID                                         \
	",\"command\":{\"type\":\"string\",\"title\":\"Command\"}},"                               \
	"\"required\":[\"sandbox_id\",\"command\"]}"

static const struct tool_row rows[] = {
    {
	.name = "create_sandbox",
	.description =
	    "Make a new Python sandbox that stays until it is deleted: its files and installed "
	    "packages are there again after a restart.\n\nArgs:\n"
	    "name: a name for people (optional; \"Sandbox N\" otherwise).\n\n"
	    "Returns {sandbox_id, user_id, name, status}. Every other tool wants the sandbox_id. "
	    "The number of sandboxes of one user is limited: look with list_sandboxes first and "
	    "use one that is there. A failure is {error: true, message}.",
	.input_schema =
	    "{\"type\":\"object\",\"properties\":{\"name\":{\"anyOf\":[{\"type\":\"string\"},"
	    "{\"type\":\"null\"}],\"default\":null,\"title\":\"Name\"}}}",
	.call = classic_create,
    },
    {
	.name = "list_sandboxes",
	.description =
	    "List your sandboxes: [{sandbox_id, name, installed_packages: [{name, version}]}]. "
	    "installed_packages are those that were installed into the sandbox; pandas, numpy, "
	    "matplotlib and other packages of the image are there besides. Nothing comes back when "
	    "there is no sandbox.",
	.input_schema = "{\"type\":\"object\",\"properties\":{}}",
	.call = classic_list,
    },
    {
	.name = "execute_python_code",
	.description =
	    "Run Python code in a sandbox and return what it printed and the files it made.\n\n"
	    "Args:\n"
	    "sandbox_id: the sandbox.\n"
	    "code: Python source; print what you want to see. The working folder is /app/results: "
	    "save files there (plt.savefig(\"chart.png\")), they stay. Each call starts a fresh "
	    "interpreter. There is no network; install packages with install_package_in_sandbox "
	    "and wait until it has succeeded.\n\n"
	    "Returns {stdout, stderr, exit_code, files, file_links}: files are the new or changed "
	    "files in /app/results, file_links their addresses for a person's browser, in the same "
	    "order. When exit_code is not 0 read stderr, mend the code and call again. Calls to "
	    "one sandbox run one after the other.",
	.input_schema = "{\"type\":\"object\",\"properties\":{" SANDBOX_ID
			",\"code\":{\"type\":\"string\",\"title\":\"Code\"}},"
			"\"required\":[\"sandbox_id\",\"code\"]}",
	.call = classic_execute,
    },
    {
	.name = "install_package_in_sandbox",
	.description =
	    "Install a Python package into a sandbox.\n\nArgs:\n"
	    "sandbox_id: the sandbox.\n"
	    "package_name: a name, with extras and version if need be (\"requests\", "
	    "\"httpx[http2]>=0.27\"); several are separated by blanks.\n\n"
	    "Returns {status, message, ...}. status is success, failed, or installing: the "
	    "installation then goes on, and check_package_installation_status tells how far it "
	    "is.",
	.input_schema = PACKAGE,
	.call = classic_install,
    },
    {
	.name = "check_package_installation_status",
	.description =
	    "Tell how far the installation of a package is.\n\nArgs:\n"
	    "sandbox_id: the sandbox.\n"
	    "package_name: exactly what install_package_in_sandbox was given.\n\n"
	    "Returns {status, message, complete, ...}; status is installing, success, failed, "
	    "not_found or error. Ask again after a few seconds while complete is false.",
	.input_schema = PACKAGE,
	.call = classic_check,
    },
    {
	.name = "execute_terminal_command",
	.description =
	    "Run a command in a sandbox, as a terminal would.\n\nArgs:\n"
	    "sandbox_id: the sandbox.\n"
	    "command: the command line. Pipes, redirections, && and variables work. It starts in "
	    "/app/results, as an ordinary user without network.\n\n"
	    "Returns {stdout, stderr, exit_code}.",
	.input_schema = COMMAND,
	.call = classic_terminal,
    },
    {
	.name = "upload_file_to_sandbox",
	.description =
	    "Copy a file of the machine that the server runs on into a sandbox.\n\nArgs:\n"
	    "sandbox_id: the sandbox.\n"
	    "local_file_path: path on the server's machine, in one of the folders that it allows; "
	    "a relative one starts in the first of them.\n"
	    "dest_path: folder in the sandbox that is there already (default /app/results).\n\n"
	    "Returns {success: true, message}; a file of that name is replaced. A failure is "
	    "{error: true, message}.",
	.input_schema =
	    "{\"type\":\"object\",\"properties\":{" SANDBOX_ID
	    ",\"local_file_path\":{\"type\":\"string\",\"title\":\"Local File Path\"},"
	    "\"dest_path\":{\"type\":\"string\",\"default\":\"/app/results\",\"title\":\"Dest "
	    "Path\"}},\"required\":[\"sandbox_id\",\"local_file_path\"]}",
	.call = classic_upload,
    },
};

#define TEXT_OR_NULL "\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null"
#define NETWORK                                                                                    \
	"{\"anyOf\":[{\"type\":\"string\",\"enum\":[\"none\",\"packages\",\"allowlist\",\"open\"]" \
	"},"                                                                                       \
	"{\"type\":\"null\"}],\"default\":null,\"title\":\"Network\"}"
#define DOMAINS                                                                                    \
	"{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":32},"        \
	"{\"type\":\"null\"}],\"default\":null,\"title\":\"Domains\"}"

static const struct tool_row more_rows[] = {
    {
	.name = "create_sandbox",
	.description =
	    "Make a new Python sandbox that stays until it is deleted: its files and installed "
	    "packages are there again after a restart.\n\nArgs:\n"
	    "name: a name for people (optional; \"Sandbox N\" otherwise).\n"
	    "network: what code in it may reach, through the proxy that HTTP_PROXY and HTTPS_PROXY "
	    "name: none, packages (the package index), allowlist (the domains), open (every public "
	    "host). Never wider than the operator permits; leave it out to get what all get.\n"
	    "domains: of the network allowlist, up to 32 of host, host:port or *.host. An empty "
	    "list means nothing.\n\n"
	    "Returns {sandbox_id, user_id, name, status}, and network and domains where you chose. "
	    "Every other tool wants the sandbox_id. "
	    "The number of sandboxes of one user is limited: look with list_sandboxes first and "
	    "use one that is there. A failure is {error: true, message}; code "
	    "network_not_permitted says that the network is wider than permitted.",
	.input_schema = "{\"type\":\"object\",\"properties\":{\"name\":{" TEXT_OR_NULL
			",\"title\":\"Name\"},\"network\":" NETWORK ",\"domains\":" DOMAINS "}}",
	.call = classic_create_chosen,
    },
    {
	.name = "execute_terminal_command",
	.description =
	    "Run a command in a sandbox, as a terminal would.\n\nArgs:\n"
	    "sandbox_id: the sandbox.\n"
	    "command: the command line. Pipes, redirections, && and variables work. It starts in "
	    "the folder where the command before it ended (/app/results at first), as an ordinary "
	    "user without network.\n\n"
	    "Returns {stdout, stderr, exit_code, cwd}; cwd is the folder where the next command "
	    "starts.",
	.input_schema = COMMAND,
	.call = classic_terminal_kept,
    },
    {
	.name = "delete_sandbox",
	.title = "Delete Sandbox",
	.description = "End a sandbox for good: its files and installed packages are deleted.\n\n"
		       "Args:\nsandbox_id: the sandbox.\n\n"
		       "Returns {success: true, message}. A failure is {error: true, message}.",
	.input_schema =
	    "{\"type\":\"object\",\"properties\":{" SANDBOX_ID "},\"required\":[\"sandbox_id\"]}",
	.annotations = HINTS("Delete Sandbox", "false", "true", "true"),
	.call = classic_delete,
    },
};

int tools_add_classic(struct tools *t, struct mcp_server *server, bool more, struct err *e)
{
	int r = tools_add_rows(server, rows, ARRAY_SIZE(rows), t, e);

	if (r == 0 && more)
		r = tools_add_rows(server, more_rows, ARRAY_SIZE(more_rows), t, e);
	return r;
}
