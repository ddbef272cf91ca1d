/* SPDX-License-Identifier: Apache-2.0 */
/* The table of REST routes, with the fields of their bodies and queries; GET /api/v1/openapi.json shows its texts. */
#include "api/rest/figures.h"
#include "api/rest/rest.h"
#include "sandbox/checkpoints.h"
#include "sandbox/process.h"

#define P(path)    REST_BASE path
#define NAME_MAX_  200
#define SECONDS    604800
#define PATH_BYTES 4096

#define OWNER                                                                                      \
	{                                                                                          \
		"owner", REST_TEXT, false, 0, 63, NULL,                                            \
		    "for administrators: id of the owner; empty means the local user"              \
	}
#define LIMIT                                                                                      \
	{                                                                                          \
		"limit", REST_INT, false, 1, REST_LIMIT_MAX, NULL, "most rows in one answer"       \
	}
#define ARCHIVE                                                                                    \
	{                                                                                          \
		"archive", REST_WORD, false, 0, 0, "tar|zip", "the whole folder as one archive"    \
	}
#define END                                                                                        \
	{                                                                                          \
		.name = NULL                                                                       \
	}

static const struct rest_field owner_query[] = {OWNER, END};
static const struct rest_field list_query[] = {
    OWNER,
    {"all", REST_BOOL, false, 0, 0, NULL, "for administrators: of all users"},
    {"usage", REST_BOOL, false, 0, 0, NULL, "with what the active ones use (of at most 256)"},
    END};
static const struct rest_field usage_query[] = {
    OWNER,
    {"series", REST_BOOL, false, 0, 0, NULL,
     "also the samples that were taken for people who watched, at most 240"},
    END};
static const struct rest_field delete_query[] = {
    OWNER, {"force", REST_BOOL, false, 0, 0, NULL, "even if something is running in it"}, END};
#define OPTION(NAME, member, doc, later)                                                           \
	{                                                                                          \
		member, REST_OPTION, false, 0, 0, NULL, doc, .option = SANDBOX_OPTION_##NAME,      \
							     .change = (later)                     \
	}
static const struct rest_field create_body[] = {
#define O(NAME, member, TYPE, min, max, LATER, setting, doc) OPTION(NAME, member, doc, false),
#include "sandbox/sandbox_options.tbl.h"
#undef O
    {"kind", REST_WORD, false, 0, 0, "session|stored",
     "session (default): in memory, ends when it is not used; stored: stays"},
    {"network", REST_WORD, false, 0, 0, "none|packages|allowlist|open",
     "what it may reach, at most what the server permits; missing: the server's setting"},
    {"domains", REST_TEXTS, false, 0, SANDBOX_HOSTS_MAX, NULL,
     "hosts for the network 'allowlist': host, host:port or *.host; at most 32; an empty list "
     "permits none"},
    END};
/* Members that cannot be changed are known, too: the refusal says what to do instead. */
static const struct rest_field change_body[] = {
#define O(NAME, member, TYPE, min, max, LATER, setting, doc) OPTION(NAME, member, doc, true),
#include "sandbox/sandbox_options.tbl.h"
#undef O
    END};
static const struct rest_field keep_body[] = {
    {"name", REST_TEXT, false, 1, SANDBOX_NAME_MAX, NULL,
     "of the stored sandbox; missing: its own, or 'Sandbox' and a number"},
    END};
#define CHECKPOINT(required, doc)                                                                  \
	{                                                                                          \
		"name", REST_TEXT, required, 1, CHECKPOINT_NAME_MAX, NULL, doc                     \
	}
static const struct rest_field checkpoint_body[] = {
    CHECKPOINT(true, "letters, digits, '-' and '_'; an older checkpoint of that name is replaced"),
    END};
static const struct rest_field restore_body[] = {
    {"files_only", REST_BOOL, false, 0, 0, NULL, "restore the files; the variables are gone then"},
    END};
static const struct rest_field branch_fields[] = {
    CHECKPOINT(false, "of the checkpoint that it leads to; missing: branch-1, branch-2 and so on"),
    {"code", REST_TEXT, true, 0, 1 << 26, NULL, "Python, run as a stateful run"},
    END};
static const struct rest_field branch_body[] = {
    {"branches", REST_OBJECTS, true, 1, BRANCHES_MAX, NULL,
     "1 to 8 continuations, each with code and, if wanted, a name", .fields = branch_fields},
    {"timeout_s", REST_INT, false, 1, SECONDS, NULL,
     "seconds of each; missing: the sandbox's own limit", .option = SANDBOX_OPTION_TIMEOUT,
     .limited = true},
    END};
static const struct rest_field fork_body[] = {
    {"id", REST_TEXT, false, 1, SANDBOX_ID_MAX, NULL,
     "of the new session: letters, digits, '-' and '_'; missing: a random one"},
    END};
static const struct rest_field run_body[] = {
    {"code", REST_TEXT, false, 0, 1 << 26, NULL, "Python source"},
    {"command", REST_TEXT, false, 1, 1 << 20, NULL, "a shell command, instead of code"},
    {"cwd", REST_TEXT, false, 1, SANDBOX_PLACE_MAX - 1, NULL,
     "with command: the folder where it begins, from the workspace on, or absolute in the sandbox; "
     "the answer tells in ended_cwd where it ended"},
    {"stdin", REST_TEXT, false, 0, 1 << 26, NULL,
     "text that the run reads from its standard input, of at most as many bytes as code; missing: "
     "it is empty"},
    {"stateful", REST_BOOL, false, 0, 0, NULL, "keep the variables of earlier stateful runs"},
    {"restart", REST_BOOL, false, 0, 0, NULL,
     "stateful, in a new interpreter: the variables, threads and processes of the session end "
     "first, its files stay"},
    {"timeout_s", REST_INT, false, 1, SECONDS, NULL, "seconds; missing: the sandbox's own limit",
     .option = SANDBOX_OPTION_TIMEOUT, .limited = true},
    {"wait", REST_BOOL, false, 0, 0, NULL, "answer when the run has ended"},
    END};
static const struct rest_field process_body[] = {
    {"command", REST_TEXT, true, 1, 1 << 20, NULL, "a shell command"},
    {"name", REST_TEXT, false, 1, PROCESS_NAME_MAX, NULL, "what people call it"},
    {"cwd", REST_TEXT, false, 1, SANDBOX_PLACE_MAX - 1, NULL,
     "the folder where it begins, from the workspace on, or absolute in the sandbox"},
    OPTION(ENV, "env", "variables besides those of the sandbox, as an object", false),
    {"input", REST_BOOL, false, 0, 0, NULL,
     "keep its standard input open for later; missing: it is empty"},
    {"timeout_s", REST_INT, false, 1, SECONDS, NULL, "seconds; missing: no limit of its own"},
    END};
static const struct rest_field process_query[] = {
    OWNER,
    {"stdout_from", REST_INT, false, 0, INT64_MAX, NULL, "bytes of stdout to leave out"},
    {"stderr_from", REST_INT, false, 0, INT64_MAX, NULL, "bytes of stderr to leave out"},
    {"wait_s", REST_INT, false, 0, PROCESS_WAIT_MAX_S, NULL,
     "answer when it has ended, at the latest after so many seconds"},
    {"output", REST_BOOL, false, 0, 0, NULL, "with wait_s: also when there is more output"},
    END};
#define SIZE(name, doc)                                                                            \
	{                                                                                          \
		name, REST_INT, false, 1, ENGINE_TERMINAL_MAX, NULL, doc                           \
	}
static const struct rest_field terminal_body[] = {
    {"command", REST_TEXT, false, 1, 1 << 20, NULL,
     "a shell command; missing: an interactive shell"},
    {"name", REST_TEXT, false, 1, PROCESS_NAME_MAX, NULL, "what people call it"},
    {"cwd", REST_TEXT, false, 1, SANDBOX_PLACE_MAX - 1, NULL, "as of a process"},
    OPTION(ENV, "env", "variables besides those of the sandbox, as an object", false),
    SIZE("rows", "missing: 24"),
    SIZE("columns", "missing: 80"),
    END};
#undef SIZE
static const struct rest_field attach_query[] = {
    OWNER,
    {"from", REST_INT, false, 0, INT64_MAX, NULL,
     "of a WebSocket: bytes of output to leave out; missing: it begins with the newest 64 KiB"},
    END};
static const struct rest_field signal_body[] = {
    {"signal", REST_WORD, true, 0, 0, PROCESS_SIGNALS,
     "to its process group; KILL ends it with all that it has started"},
    END};
static const struct rest_field input_body[] = {
    {"text", REST_TEXT, false, 0, PROCESS_INPUT_MAX, NULL, "taken whole or not at all"},
    {"close", REST_BOOL, false, 0, 0, NULL, "nothing follows"},
    END};
static const struct rest_field port_body[] = {
    {"port", REST_INT, true, 1, UINT16_MAX, NULL, "that the server listens on"}, END};
static const struct rest_field packages_query[] = {
    OWNER, {"all", REST_BOOL, false, 0, 0, NULL, "also the packages of its image"}, END};
static const struct rest_field install_body[] = {
    {"packages", REST_TEXT, true, 1, PACKAGES_SPEC_MAX, NULL,
     "names with extras and versions, or lines of a requirements file"},
    {"wait", REST_BOOL, false, 0, 0, NULL, "answer when the installation has ended"},
    END};
static const struct rest_field wait_query[] = {
    OWNER, {"wait", REST_BOOL, false, 0, 0, NULL, "answer when it has ended"}, END};
static const struct rest_field runs_query[] = {
    OWNER,
    LIMIT,
    {"all", REST_BOOL, false, 0, 0, NULL, "for administrators: of all users"},
    {"sandbox", REST_TEXT, false, 1, 64, NULL, "only runs of this sandbox"},
    {"before_ms", REST_INT, false, 1, INT64_MAX, NULL,
     "only runs that started before this time, in ms since 1970"},
    END};
static const struct rest_field files_query[] = {
    OWNER,
    {"path", REST_TEXT, false, 0, PATH_BYTES, NULL, "a folder of the workspace"},
    ARCHIVE,
    END};
static const struct rest_field get_query[] = {OWNER, ARCHIVE, END};
static const struct rest_field put_query[] = {
    OWNER, {"overwrite", REST_BOOL, false, 0, 0, NULL, "replace an existing file"}, END};
static const struct rest_field post_query[] = {
    OWNER,
    {"path", REST_TEXT, false, 0, PATH_BYTES, NULL, "the folder for the files"},
    {"overwrite", REST_BOOL, false, 0, 0, NULL, "replace existing files"},
    END};
static const struct rest_field cancel_query[] = {
    OWNER,
    {"interrupt", REST_BOOL, false, 0, 0, NULL,
     "only SIGINT: Python raises KeyboardInterrupt, and a stateful run keeps its variables"},
    END};
static const struct rest_field move_body[] = {
    {"to", REST_TEXT, true, 1, PATH_BYTES, NULL, "the new path in the workspace"}, END};
static const struct rest_field folder_body[] = {
    {"path", REST_TEXT, true, 1, PATH_BYTES, NULL, "the path of the folder"}, END};
static const struct rest_field rm_query[] = {
    OWNER,
    {"recursive", REST_BOOL, false, 0, 0, NULL, "also remove a folder that is not empty"},
    END};
#define QUOTAS                                                                                     \
	{"max_sandboxes",                                                                          \
	 REST_INT,                                                                                 \
	 false,                                                                                    \
	 -1,                                                                                       \
	 1000000,                                                                                  \
	 NULL,                                                                                     \
	 "-1: the server's setting; 0: nothing is allowed"},                                       \
	    {"max_cpu_s_per_day",                                                                  \
	     REST_INT,                                                                             \
	     false,                                                                                \
	     -1,                                                                                   \
	     1000000000,                                                                           \
	     NULL,                                                                                 \
	     "-1: the server's setting; 0: nothing is allowed"},                                   \
	    {"max_disk_bytes",                                                                     \
	     REST_INT,                                                                             \
	     false,                                                                                \
	     -1,                                                                                   \
	     INT64_MAX,                                                                            \
	     NULL,                                                                                 \
	     "-1: the server's setting; 0: nothing is allowed"},                                   \
	{                                                                                          \
		"max_runs_per_minute", REST_INT, false, -1, 1000000, NULL,                         \
		    "-1: the server's setting; 0: nothing is allowed"                              \
	}
static const struct rest_field user_body[] = {
    {"name", REST_TEXT, true, 1, 64, NULL, "unique; case does not matter"},
    {"email", REST_TEXT, false, 0, 254, NULL, "unique; case does not matter"},
    {"password", REST_TEXT, false, STORE_PASSWORD_MIN, STORE_PASSWORD_MAX, NULL,
     "at least SANDBOX_PASSWORD_MIN bytes; without a password the user can only use keys"},
    {"role", REST_WORD, false, 0, 0, "user|admin", "missing: user"},
    QUOTAS,
    END};
static const struct rest_field user_change[] = {
    {"email", REST_TEXT, false, 0, 254, NULL, "unique; case does not matter"},
    {"password", REST_TEXT, false, STORE_PASSWORD_MIN, STORE_PASSWORD_MAX, NULL,
     "at least SANDBOX_PASSWORD_MIN bytes"},
    {"role", REST_WORD, false, 0, 0, "user|admin", "rights of the user"},
    {"active", REST_BOOL, false, 0, 0, NULL, "keys and tokens of an inactive user are refused"},
    QUOTAS,
    END};
static const struct rest_field key_body[] = {
    {"name", REST_TEXT, false, 0, NAME_MAX_, NULL, "a name to recognise the key"},
    {"scope", REST_WORD, false, 0, 0, "full|read|admin",
     "read: changes nothing; admin: also users, keys and audit, for administrators"},
    {"profile", REST_WORD, false, 0, 0, "code|classic|both|full|all",
     "restricts the key to the tools of this profile"},
    {"expires_in_s", REST_INT, false, 1, INT64_C(3153600000), NULL,
     "life in seconds; missing: it never expires"},
    END};
static const struct rest_field invitation_body[] = {
    {"role", REST_WORD, false, 0, 0, "user|admin", "role of the account; missing: user"},
    {"note", REST_TEXT, false, 0, NAME_MAX_, NULL, "a note for whom it is"},
    {"expires_in_s", REST_INT, false, 60, INT64_C(31536000), NULL,
     "life in seconds; missing: a week"},
    END};
static const struct rest_field figures_query[] = {
    {"minutes", REST_INT, false, 1, FIGURES_MINUTES, NULL, "how far back; missing: an hour"}, END};
static const struct rest_field image_body[] = {
    {"name", REST_TEXT, true, 1, 63, NULL, "one of the definitions that listImages names"}, END};
static const struct rest_field audit_query[] = {
    LIMIT,
    {"actor", REST_TEXT, false, 0, 63, NULL,
     "only actions of this user id; empty means the local user"},
    {"before_id", REST_INT, false, 1, INT64_MAX, NULL, "only older rows"},
    END};

#define SEQ(name, doc)                                                                             \
	{                                                                                          \
		name, REST_INT, false, 0, INT64_MAX, NULL, doc                                     \
	}
static const struct rest_field events_query[] = {
    OWNER,
    {"sandbox", REST_TEXT, false, 1, SANDBOX_ID_MAX, NULL, "only events of this sandbox"},
    {"last_event_id", REST_TEXT, false, 0, 64, NULL,
     "go on after this event, as the header Last-Event-ID"},
    END};
static const struct rest_field markdown_body[] = {
    {"text", REST_TEXT, true, 1, MARKDOWN_MAX, NULL, "in Markdown"}, END};
static const struct rest_field new_markdown_body[] = {
    {"text", REST_TEXT, true, 1, MARKDOWN_MAX, NULL, "in Markdown"},
    {"before", REST_TEXT, false, 1, NAME_MAX_, NULL,
     "the `run` of a cell: it is put before that one, instead of at the end"},
    {"after", REST_TEXT, false, 1, NAME_MAX_, NULL, "the same, behind that one"},
    END};
static const struct rest_field notebooks_query[] = {
    OWNER,
    LIMIT,
    {"q", REST_TEXT, false, 0, NAME_MAX_, NULL,
     "text that the name or the id has; case does not matter. A page may be short while there is a "
     "next one"},
    SEQ("before", "`next` of the page before"),
    END};
static const struct rest_field notebook_query[] = {
    OWNER, LIMIT, SEQ("after", "only runs behind the one with this seq"),
    SEQ("before", "the last runs before the one with this seq, 0 for the very last, instead of the "
		  "first ones"),
    END};
static const struct rest_field history_query[] = {
    OWNER,
    LIMIT,
    {"q", REST_TEXT, false, 0, NAME_MAX_, NULL,
     "text that code or output has; case does not matter"},
    {"sandbox", REST_TEXT, false, 1, SANDBOX_ID_MAX, NULL, "only runs of this sandbox"},
    SEQ("before", "`next` of the page before"),
    END};
static const struct rest_field export_query[] = {
    OWNER,
    {"format", REST_WORD, false, 0, 0, "ipynb|html",
     "ipynb (default): a notebook of Jupyter; html: one page for reading"},
    {"cells", REST_TEXT, false, 1, 4000, NULL,
     "only these runs: up to 200 numbers (`seq`) or ranges from one run to another, in the order "
     "of the notebook, such as 3,7-12"},
    END};

static const struct rest_field preview_query[] = {
    OWNER,
    {"path", REST_TEXT, true, 1, PATH_BYTES, NULL, "the file, in the workspace"},
    {"sheet", REST_TEXT, false, 0, NAME_MAX_, NULL, "of an Excel file; missing: the first one"},
    {"offset", REST_INT, false, 0, INT64_C(1000000000), NULL, "rows to leave out"},
    {"encoding", REST_BOOL, false, 0, 0, NULL,
     "no rows: only `encoding` of a text of any name, if it is not UTF-8"},
    LIMIT,
    END};
static const struct rest_field complete_body[] = {
    {"code", REST_TEXT, true, 0, 1 << 20, NULL, "the text of the editor"},
    {"cursor", REST_INT, true, 0, 1 << 20, NULL, "characters before the cursor"},
    END};
static const struct rest_field signin_body[] = {
    {"username", REST_TEXT, false, 1, NAME_MAX_, NULL, "name or e-mail of the user"},
    {"password", REST_TEXT, false, 1, STORE_PASSWORD_MAX, NULL, "the user's password"},
    {"key", REST_TEXT, false, 1, NAME_MAX_, NULL, "a key, instead of name and password"},
    END};
static const struct rest_field password_body[] = {
    {"password", REST_TEXT, true, 1, STORE_PASSWORD_MAX, NULL, "the old password"},
    {"new_password", REST_TEXT, true, STORE_PASSWORD_MIN, STORE_PASSWORD_MAX, NULL,
     "at least SANDBOX_PASSWORD_MIN bytes"},
    END};
static const struct rest_field signout_query[] = {
    {"all", REST_BOOL, false, 0, 0, NULL, "in all browsers of the user"}, END};
static const struct rest_field register_body[] = {
    {"username", REST_TEXT, true, 1, 64, NULL, "without @; unique, case does not matter"},
    {"password", REST_TEXT, true, STORE_PASSWORD_MIN, STORE_PASSWORD_MAX, NULL,
     "at least SANDBOX_PASSWORD_MIN bytes"},
    {"email", REST_TEXT, false, 0, 254, NULL, "unique; case does not matter"},
    {"invitation", REST_TEXT, false, 1, STORE_KEY_SIZE, NULL, "csi_…, as an administrator gave it"},
    END};

const struct rest_route rest_routes[] = {
    {HTTP_GET, P("/openapi.json"), "getDescription", "This description", rest_openapi, REST_PUBLIC,
     NULL, NULL, 200, "Anything", "", 0},

    {HTTP_GET, P("/sandboxes"), "listSandboxes", "Lists the sandboxes of the caller",
     rest_list_sandboxes, 0, NULL, list_query, 200, "Sandboxes", "", 0},
    {HTTP_POST, P("/sandboxes"), "createSandbox", "Creates a sandbox", rest_create_sandbox,
     REST_CHANGES | REST_IDEMPOTENT, create_body, owner_query, 201, "Sandbox", "409 429", 0},
    {HTTP_GET, P("/sandboxes/{id}"), "getSandbox", "Describes one sandbox", rest_get_sandbox, 0,
     NULL, owner_query, 200, "Sandbox", "404", 0},
    {HTTP_PATCH, P("/sandboxes/{id}"), "changeSandbox",
     "Changes name, labels, memory, CPU, processes, time to live, run time, environment or working "
     "folder",
     rest_change_sandbox, REST_CHANGES, change_body, owner_query, 200, "Sandbox", "404 409", 0},
    {HTTP_DELETE, P("/sandboxes/{id}"), "deleteSandbox", "Ends a sandbox and deletes its files",
     rest_delete_sandbox, REST_CHANGES, NULL, delete_query, 204, NULL, "404 409", 0},
    {HTTP_POST, P("/sandboxes/{id}/keep"), "keepSandbox",
     "Makes a session a stored sandbox where it is, with its files and its id", rest_keep_sandbox,
     REST_CHANGES, keep_body, owner_query, 200, "Sandbox", "404 409 410 429 507", 0},
    {HTTP_GET, P("/sandboxes/{id}/checkpoints"), "listCheckpoints",
     "Lists the checkpoints of a sandbox, oldest first", rest_list_checkpoints, 0, NULL,
     owner_query, 200, "Checkpoints", "404 409 410 429", 0},
    {HTTP_POST, P("/sandboxes/{id}/checkpoints"), "makeCheckpoint",
     "Saves files and variables under a name", rest_make_checkpoint, REST_CHANGES, checkpoint_body,
     owner_query, 201, "Checkpoint", "404 409 410 429 507", 0},
    {HTTP_DELETE, P("/sandboxes/{id}/checkpoints/{checkpoint}"), "removeCheckpoint",
     "Removes a checkpoint", rest_drop_checkpoint, REST_CHANGES, NULL, owner_query, 204, NULL,
     "404 409 410 429", 0},
    {HTTP_POST, P("/sandboxes/{id}/checkpoints/{checkpoint}/restore"), "restoreCheckpoint",
     "Restores files and variables; the checkpoint stays", rest_restore_checkpoint, REST_CHANGES,
     restore_body, owner_query, 200, "Checkpoint", "404 409 410 429 507", 0},
    {HTTP_POST, P("/sandboxes/{id}/branches"), "tryBranches",
     "Runs several continuations of the session, each from its present state, and keeps the result "
     "of each as a checkpoint",
     rest_branch, REST_CHANGES | REST_IDEMPOTENT, branch_body, owner_query, 200, "Branches",
     "404 409 410 429 507", 0},
    {HTTP_POST, P("/sandboxes/{id}/forks"), "forkSandbox",
     "Makes a new session with copies of the files", rest_fork, REST_CHANGES | REST_IDEMPOTENT,
     fork_body, owner_query, 201, "Fork", "404 409 410 429 507", 0},
    {HTTP_GET, P("/sandboxes/{id}/processes"), "listProcesses",
     "Lists the background processes of a sandbox, oldest first", rest_list_processes, 0, NULL,
     owner_query, 200, "Processes", "404 409 410 429", 0},
    {HTTP_POST, P("/sandboxes/{id}/processes"), "startProcess",
     "Starts a command that goes on beside runs", rest_start_process,
     REST_CHANGES | REST_IDEMPOTENT, process_body, owner_query, 201, "Process",
     "404 409 410 429 507", 0},
    {HTTP_GET, P("/sandboxes/{id}/processes/{process}"), "getProcess",
     "Tells about a process, with its newest output", rest_get_process, REST_LARGE, NULL,
     process_query, 200, "Process", "404 409 410 429", 0},
    {HTTP_DELETE, P("/sandboxes/{id}/processes/{process}"), "removeProcess",
     "Ends a process and forgets it", rest_remove_process, REST_CHANGES, NULL, owner_query, 204,
     NULL, "404 409 410", 0},
    {HTTP_POST, P("/sandboxes/{id}/processes/{process}/signal"), "signalProcess",
     "Sends a signal to a process", rest_signal_process, REST_CHANGES, signal_body, owner_query,
     204, NULL, "404 409 410", 0},
    {HTTP_POST, P("/sandboxes/{id}/processes/{process}/input"), "writeProcess",
     "Gives a process standard input", rest_write_process, REST_CHANGES, input_body, owner_query,
     204, NULL, "404 409 410 503", 0},
    {HTTP_GET, P("/sandboxes/{id}/terminals"), "listTerminals",
     "Lists the terminals of a sandbox, oldest first", rest_list_terminals, 0, NULL, owner_query,
     200, "Terminals", "404 409 410 429", 0},
    {HTTP_POST, P("/sandboxes/{id}/terminals"), "startTerminal",
     "Starts a shell or a command in a terminal", rest_start_terminal,
     REST_CHANGES | REST_IDEMPOTENT, terminal_body, owner_query, 201, "Process",
     "404 409 410 429 501 507", 0},
    {HTTP_GET, P("/sandboxes/{id}/terminals/{terminal}"), "getTerminal",
     "Tells about a terminal; with Upgrade: websocket, attaches to it", rest_get_terminal,
     REST_SOCKET, NULL, attach_query, 200, "Process", "404 409 410 426 429", 0},
    {HTTP_DELETE, P("/sandboxes/{id}/terminals/{terminal}"), "removeTerminal",
     "Ends a terminal and forgets it", rest_remove_terminal, REST_CHANGES, NULL, owner_query, 204,
     NULL, "404 409 410", 0},
    {HTTP_GET, P("/sandboxes/{id}/ports"), "listPorts", "Lists the ports of servers in a sandbox",
     rest_list_ports, 0, NULL, owner_query, 200, "Ports", "404 409 410 501", 0},
    {HTTP_POST, P("/sandboxes/{id}/ports"), "openPort",
     "Makes an address for a browser of a server in a sandbox", rest_open_port, REST_CHANGES,
     port_body, owner_query, 201, "PortAddress", "404 409 410", 0},
    {HTTP_GET, P("/sandboxes/{id}/packages"), "listPackages",
     "Lists the packages installed in a sandbox", rest_list_packages, REST_LARGE, NULL,
     packages_query, 200, "Packages", "404 409 410", 0},
    {HTTP_POST, P("/sandboxes/{id}/packages"), "installPackages",
     "Installs packages; continues if the request ends", rest_install_packages, REST_CHANGES,
     install_body, owner_query, 200, "PackageStatus", "404 409 410 429", 0},
    {HTTP_GET, P("/sandboxes/{id}/index/{name}"), "lookUpPackage",
     "Tells what the package index has under a name for the Python of this sandbox",
     rest_look_up_package, 0, NULL, owner_query, 200, "PackageEntry", "404 409 410 429", 0},
    {HTTP_GET, P("/sandboxes/{id}/packages/{packages}"), "checkPackages",
     "Tells the progress of an installation, or whether a package is installed",
     rest_check_packages, 0, NULL, wait_query, 200, "PackageStatus", "404 409 410 429", 0},
    {HTTP_DELETE, P("/sandboxes/{id}/packages/{packages}"), "uninstallPackages",
     "Cancels a running installation, or uninstalls packages", rest_uninstall_packages,
     REST_CHANGES, NULL, owner_query, 200, "PackageStatus", "404 409 410 429", 0},

    {HTTP_POST, P("/sandboxes/{id}/runs"), "startRun", "Runs code or a command", rest_start_run,
     REST_CHANGES | REST_IDEMPOTENT, run_body, owner_query, 201, "Run", "404 409 410 413 429", 0},
    {HTTP_GET, P("/runs"), "listRuns",
     "Lists the history of runs, newest first, without code and output", rest_list_runs,
     REST_STORE | REST_HISTORY | REST_LARGE, NULL, runs_query, 200, "RunRows", "", 0},
    {HTTP_GET, P("/runs/{run}"), "getRun", "Describes a recent run, with its output", rest_get_run,
     REST_LARGE, NULL, owner_query, 200, "Run", "404", 0},
    {HTTP_DELETE, P("/runs/{run}"), "cancelRun", "Cancels a run", rest_cancel_run, REST_CHANGES,
     NULL, cancel_query, 202, "Run", "404", 0},
    {HTTP_GET, P("/runs/{run}/events"), "followRun",
     "Streams a run: events stdout, stderr, value, end", rest_run_events, REST_EVENTS, NULL,
     owner_query, 200, NULL, "404", 0},

    {HTTP_GET, P("/events"), "followEvents",
     "Streams what happens to the caller's sandboxes, resumable by Last-Event-ID", rest_events,
     REST_EVENTS, NULL, events_query, 200, NULL, "429", 0},
    {HTTP_GET, P("/notebooks"), "listNotebooks",
     "Lists the sandboxes that have a history, also those that ended, newest first",
     rest_list_notebooks, REST_STORE | REST_HISTORY | REST_LARGE, NULL, notebooks_query, 200,
     "Notebooks", "", 0},
    {HTTP_GET, P("/notebooks/{id}"), "getNotebook",
     "Shows the runs of a sandbox with code and output, oldest first", rest_get_notebook,
     REST_STORE | REST_HISTORY | REST_LARGE, NULL, notebook_query, 200, "Notebook", "404", 0},
    {HTTP_DELETE, P("/notebooks/{id}"), "removeNotebook",
     "Removes code and output of a sandbox from the history", rest_remove_notebook,
     REST_CHANGES | REST_STORE | REST_HISTORY | REST_LATER, NULL, owner_query, 204, NULL, "404", 0},
    {HTTP_POST, P("/notebooks/{id}/markdown"), "addMarkdown",
     "Adds a cell that somebody writes in Markdown to the history", rest_add_markdown,
     REST_CHANGES | REST_STORE | REST_HISTORY, new_markdown_body, owner_query, 201, "Cell",
     "404 409", 0},
    {HTTP_GET, P("/notebooks/{id}/export"), "exportNotebook",
     "Downloads the history of a sandbox as a notebook or a page", rest_export,
     REST_STORE | REST_HISTORY | REST_BYTES_OUT | REST_LARGE, NULL, export_query, 200, NULL, "404",
     0},
    {HTTP_GET, P("/sandboxes/{id}/export"), "exportSandbox",
     "The same as exportNotebook, also after the end of the sandbox", rest_export,
     REST_STORE | REST_HISTORY | REST_BYTES_OUT | REST_LARGE, NULL, export_query, 200, NULL, "404",
     0},
    {HTTP_GET, P("/notebooks/{id}/runs/{run}"), "getCell", "Shows one run with code and output",
     rest_get_cell, REST_STORE | REST_HISTORY | REST_LARGE, NULL, owner_query, 200, "Cell", "404",
     0},
    {HTTP_PATCH, P("/notebooks/{id}/runs/{run}"), "changeMarkdown",
     "Changes the text of a Markdown cell", rest_change_markdown,
     REST_CHANGES | REST_STORE | REST_HISTORY, markdown_body, owner_query, 204, NULL, "404", 0},
    {HTTP_DELETE, P("/notebooks/{id}/runs/{run}"), "removeCell",
     "Removes one run that has ended from the history", rest_remove_cell,
     REST_CHANGES | REST_STORE | REST_HISTORY | REST_LATER, NULL, owner_query, 204, NULL, "404 409",
     0},
    {HTTP_GET, P("/notebooks/{id}/runs/{run}/files/{name}"), "getCellFile",
     "Downloads a small file that a run made, also after the end of its sandbox",
     rest_get_cell_file, REST_STORE | REST_HISTORY | REST_BYTES_OUT, NULL, owner_query, 200, NULL,
     "404", 0},
    {HTTP_GET, P("/notebooks/{id}/runs/{run}/results"), "getCellResults",
     "Shows what a run displayed, by media type, also after the end of its sandbox",
     rest_get_cell_results, REST_STORE | REST_HISTORY | REST_LARGE, NULL, owner_query, 200,
     "Results", "404", 0},
    {HTTP_GET, P("/history"), "searchHistory",
     "Searches code and output of all runs, newest first; a page may be short or empty while "
     "there is a next one",
     rest_search_history, REST_STORE | REST_HISTORY | REST_LARGE, NULL, history_query, 200, "Cells",
     "", 0},

    {HTTP_GET, P("/sandboxes/{id}/preview"), "previewTable",
     "Shows a part of a table, a Word document or an archive as rows", rest_preview, 0, NULL,
     preview_query, 200, "Table", "404 409 410 429 504", 0},
    {HTTP_POST, P("/sandboxes/{id}/complete"), "completeName",
     "Completes a name in the live session, without running its code", rest_complete, REST_CHANGES,
     complete_body, owner_query, 200, "Names", "404 409 410 413 429 504", 0},
    {HTTP_GET, P("/sandboxes/{id}/usage"), "getUsage", "Tells what a sandbox uses now", rest_usage,
     0, NULL, usage_query, 200, "Usage", "404 409 410", 0},

    {HTTP_GET, P("/sandboxes/{id}/files"), "listFiles", "Lists a folder of the workspace",
     rest_list_files, REST_ARCHIVE | REST_LARGE, NULL, files_query, 200, "Files", "404 409 410 429",
     0},
    {HTTP_POST, P("/sandboxes/{id}/files"), "postFiles",
     "Writes the files of a form, each under its filename", rest_post_files,
     REST_CHANGES | REST_FORM_IN, NULL, post_query, 201, "Written", "404 409 410 429 507", 0},
    {HTTP_GET, P("/sandboxes/{id}/files/{path...}"), "getFile",
     "Downloads a file (Range works), or a folder as an archive", rest_get_file, REST_BYTES_OUT,
     NULL, get_query, 200, NULL, "206 304 404 409 410 416 429", 0},
    {HTTP_PUT, P("/sandboxes/{id}/files/{path...}"), "putFile", "Writes a file", rest_put_file,
     REST_CHANGES | REST_BYTES_IN, NULL, put_query, 201, "WorkspaceFile", "404 409 410 413 507", 0},
    {HTTP_PATCH, P("/sandboxes/{id}/files/{path...}"), "moveFile",
     "Gives a file or folder another name or place", rest_move_file, REST_CHANGES, move_body,
     owner_query, 200, "Path", "404 409 410 429 504", 0},
    {HTTP_POST, P("/sandboxes/{id}/folders"), "makeFolder", "Makes a folder, with those above it",
     rest_make_folder, REST_CHANGES, folder_body, owner_query, 201, "Path", "404 409 410 429 504",
     0},
    {HTTP_DELETE, P("/sandboxes/{id}/files/{path...}"), "deleteFile", "Removes a file or folder",
     rest_delete_file, REST_CHANGES, NULL, rm_query, 204, NULL, "404 409 410", 0},

    {HTTP_GET, P("/session"), "getSession", "Tells how to sign in, and who has", rest_get_session,
     REST_PUBLIC, NULL, NULL, 200, "Session", "", 0},
    {HTTP_POST, P("/session"), "signIn",
     "Signs a browser in, with a password or a key; the answer sets a cookie", rest_sign_in,
     REST_PUBLIC | REST_STORE, signin_body, NULL, 200, "Session", "401 429", 0},
    {HTTP_DELETE, P("/session"), "signOut", "Ends the sign-in of this browser", rest_sign_out,
     REST_STORE, NULL, signout_query, 204, NULL, "", 0},
    {HTTP_POST, P("/register"), "register",
     "Makes an account, with an invitation unless registration is open, and signs in",
     rest_register, REST_PUBLIC | REST_STORE, register_body, NULL, 201, "Session", "409 429", 0},
    {HTTP_GET, P("/me"), "getMe", "Describes the caller", rest_me, 0, NULL, NULL, 200, "Me", "", 0},
    {HTTP_POST, P("/me/password"), "changePassword",
     "Changes the caller's own password; every other sign-in and token of the account ends",
     rest_change_password, REST_CHANGES | REST_STORE, password_body, NULL, 200, "Session", "429",
     0},
    {HTTP_GET, P("/users"), "listUsers", "Lists all users", rest_list_users,
     REST_ADMIN | REST_STORE | REST_LARGE, NULL, NULL, 200, "Users", "", 0},
    {HTTP_POST, P("/users"), "addUser", "Adds a user", rest_add_user,
     REST_ADMIN | REST_CHANGES | REST_STORE | REST_IDEMPOTENT, user_body, NULL, 201, "User",
     "409 429", 0},
    {HTTP_GET, P("/users/{user}"), "getUser", "Describes one user", rest_get_user,
     REST_ADMIN | REST_STORE, NULL, NULL, 200, "User", "404", 0},
    {HTTP_PATCH, P("/users/{user}"), "changeUser",
     "Changes role, quota, password, e-mail or activity of a user", rest_change_user,
     REST_ADMIN | REST_CHANGES | REST_STORE, user_change, NULL, 200, "User", "404 409 429", 0},
    {HTTP_DELETE, P("/users/{user}"), "removeUser", "Removes a user with all keys and sandboxes",
     rest_remove_user, REST_ADMIN | REST_CHANGES | REST_STORE, NULL, NULL, 204, NULL, "404", 0},
    {HTTP_GET, P("/keys"), "listKeys", "Lists the keys of the caller", rest_list_keys,
     REST_STORE | REST_LARGE, NULL, owner_query, 200, "Keys", "", 0},
    {HTTP_POST, P("/keys"), "newKey", "Makes a key; only this answer shows it", rest_new_key,
     REST_CHANGES | REST_STORE | REST_LATER, key_body, owner_query, 201, "NewKey", "404 429", 0},
    {HTTP_DELETE, P("/keys/{key}"), "revokeKey", "Revokes a key at once", rest_revoke_key,
     REST_CHANGES | REST_STORE | REST_LATER, NULL, owner_query, 204, NULL, "404", 0},
    {HTTP_GET, P("/invitations"), "listInvitations", "Lists the invitations that can still be used",
     rest_list_invitations, REST_ADMIN | REST_STORE, NULL, NULL, 200, "Invitations", "", 0},
    {HTTP_POST, P("/invitations"), "newInvitation",
     "Makes an invitation for one account; only this answer shows it", rest_new_invitation,
     REST_ADMIN | REST_CHANGES | REST_STORE, invitation_body, NULL, 201, "NewInvitation", "429", 0},
    {HTTP_DELETE, P("/invitations/{invitation}"), "withdrawInvitation", "Withdraws an invitation",
     rest_withdraw_invitation, REST_ADMIN | REST_CHANGES | REST_STORE, NULL, NULL, 204, NULL, "404",
     0},
    {HTTP_GET, P("/audit"), "listAudit", "Lists who did what, newest first", rest_list_audit,
     REST_ADMIN | REST_STORE | REST_HISTORY | REST_LARGE, NULL, audit_query, 200, "AuditRows", "",
     0},

    {HTTP_GET, P("/policy"), "getPolicy", "Shows the walls and limits in force", rest_policy, 0,
     NULL, NULL, 200, "Anything", "", 0},
    {HTTP_GET, P("/server"), "getServer",
     "Describes the server; to administrators also its settings and what protects the machine",
     rest_get_server, 0, NULL, NULL, 200, "Server", "", 0},
    {HTTP_GET, P("/images"), "listImages",
     "Lists the images, those that can be built, and the last build with its output",
     rest_list_images, REST_ADMIN, NULL, NULL, 200, "Images", "", 0},
    {HTTP_POST, P("/images"), "buildImage",
     "Begins to build an image, in the place of an older one of its name; one at a time",
     rest_build_image, REST_ADMIN | REST_CHANGES, image_body, NULL, 202, "ImageBuild", "404 409",
     0},
    {HTTP_DELETE, P("/images/build"), "cancelImageBuild",
     "Stops the build under way, which changes nothing then", rest_cancel_build,
     REST_ADMIN | REST_CHANGES, NULL, NULL, 202, "ImageBuild", "404", 0},
    {HTTP_GET, P("/figures"), "getFigures", "Shows figures of the server over time",
     rest_get_figures, REST_ADMIN, NULL, figures_query, 200, "Figures", "", 0},
    {HTTP_GET, P("/stats"), "getStats", "Shows counters of this server", rest_stats, REST_ADMIN,
     NULL, NULL, 200, "Stats", "", 0},
};
const size_t rest_n_routes = ARRAY_SIZE(rest_routes);
