/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of bodies and queries of the REST routes. Only for routes.c, which has the routes. */
#include "api/rest/figures.h"
#include "api/rest/rest.h"
#include "sandbox/checkpoints.h"
#include "sandbox/contexts.h"
#include "sandbox/process.h"

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
     "hosts for the network 'allowlist': host, host:port, *.host, an address or a block of "
     "addresses (8.8.8.0/24); at most 32; an empty list permits none. For 'packages' and 'open': "
     "!8.8.8.0/24 denies a block, and 8.8.8.8 is an exception from that"},
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
#define USER                                                                                       \
	{                                                                                          \
		"user", REST_WORD, false, 0, 0, "user|root",                                        \
		    "root: as the root user, in a sandbox that was made with one"                  \
	}
static const struct rest_field run_body[] = {
    {"code", REST_TEXT, false, 0, 1 << 26, NULL, "source in `language`"},
    {"language", REST_WORD, false, 0, 0, "python|javascript|typescript",
     "of code; missing: python. Variables of JavaScript and TypeScript are the same ones"},
    {"command", REST_TEXT, false, 1, 1 << 20, NULL, "a shell command, instead of code"},
    {"cwd", REST_TEXT, false, 1, SANDBOX_PLACE_MAX - 1, NULL,
     "with command: the folder where it begins, from the workspace on, or absolute in the sandbox; "
     "the answer tells in ended_cwd where it ended"},
    USER,
    {"stdin", REST_TEXT, false, 0, 1 << 26, NULL,
     "text that the run reads from its standard input, of at most as many bytes as code; missing: "
     "it is empty"},
    {"stateful", REST_BOOL, false, 0, 0, NULL, "keep the variables of earlier stateful runs"},
    {"context", REST_TEXT, false, 1, CONTEXT_NAME_MAX, NULL,
     "stateful, with variables of its own under this name; it begins with its first run"},
    {"parallel", REST_BOOL, false, 0, 0, NULL,
     "not stateful: beside the run that is on, in an interpreter of its own, and its files are not listed"},
    {"restart", REST_BOOL, false, 0, 0, NULL,
     "stateful, in a new interpreter: the variables, threads and processes of the session end "
     "first, its files stay"},
    {"timeout_s", REST_INT, false, 1, SECONDS, NULL, "seconds; missing: the sandbox's own limit",
     .option = SANDBOX_OPTION_TIMEOUT, .limited = true},
    {"wait", REST_BOOL, false, 0, 0, NULL, "answer when the run has ended"},
    END};
static const struct rest_field context_body[] = {
    {"name", REST_TEXT, false, 1, CONTEXT_NAME_MAX, NULL,
     "letters, digits, '-' and '_'; missing: a random one"},
    END};
static const struct rest_field process_body[] = {
    {"command", REST_TEXT, true, 1, 1 << 20, NULL, "a shell command"},
    {"name", REST_TEXT, false, 1, PROCESS_NAME_MAX, NULL, "what people call it"},
    {"cwd", REST_TEXT, false, 1, SANDBOX_PLACE_MAX - 1, NULL,
     "the folder where it begins, from the workspace on, or absolute in the sandbox"},
    USER,
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
    USER,
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
#define QUOTA(member, most)                                                                        \
	{                                                                                          \
		member, REST_INT, false, -1, most, NULL,                                           \
		    "-1: the server's setting; 0: nothing is allowed"                              \
	}
static const struct rest_field user_body[] = {
    {"name", REST_TEXT, true, 1, 64, NULL, "unique; case does not matter"},
    {"email", REST_TEXT, false, 0, 254, NULL, "unique; case does not matter"},
    {"password", REST_TEXT, false, STORE_PASSWORD_MIN, STORE_PASSWORD_MAX, NULL,
     "at least SANDBOX_PASSWORD_MIN bytes; without a password the user can only use keys"},
    {"role", REST_WORD, false, 0, 0, "user|admin", "missing: user"},
    QUOTA("max_sandboxes", 1000000),
    QUOTA("max_cpu_s_per_day", 1000000000),
    QUOTA("max_disk_bytes", INT64_MAX),
    QUOTA("max_runs_per_minute", 1000000),
    END};
static const struct rest_field user_change[] = {
    {"email", REST_TEXT, false, 0, 254, NULL, "unique; case does not matter"},
    {"password", REST_TEXT, false, STORE_PASSWORD_MIN, STORE_PASSWORD_MAX, NULL,
     "at least SANDBOX_PASSWORD_MIN bytes"},
    {"role", REST_WORD, false, 0, 0, "user|admin", "rights of the user"},
    {"active", REST_BOOL, false, 0, 0, NULL, "keys and tokens of an inactive user are refused"},
    QUOTA("max_sandboxes", 1000000),
    QUOTA("max_cpu_s_per_day", 1000000000),
    QUOTA("max_disk_bytes", INT64_MAX),
    QUOTA("max_runs_per_minute", 1000000),
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
static const struct rest_field commit_body[] = {
    {"name", REST_TEXT, true, 1, 63, NULL,
     "of the new image; one that was made of a sandbox is replaced, any other is not"},
    {"dockerfile", REST_TEXT, false, 1, PATH_BYTES, NULL,
     "a Dockerfile in the workspace: the image is built from it, with the files beside it"},
    {"target", REST_TEXT, false, 1, 128, NULL, "the stage to build; missing: the last"},
    {"args", REST_TEXTS, false, 0, 100, NULL, "build arguments: NAME=VALUE"},
    OWNER,
    END};
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
