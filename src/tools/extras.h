/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files of the extras, the tools of the profile `full`.
 *
 * A failure is an isError result with {"error", "message", "hint"} as structured content and as text:
 * a code for programs, what happened, and what to do about it. Texts in answers have a budget of characters. A longer
 * text is cut in the middle, with a line that says how much is missing and where to find it. */
#pragma once

#include "tools/common.h"
#include "tools/run_call.h"

#define EXTRAS_IMAGES_MAX      4                /* pictures in one answer */
#define EXTRAS_IMAGE_BYTES_MAX (1536u << 10)    /* bytes of one picture */
#define EXTRAS_DEPTH_MAX       32               /* levels of folders in a list of files */
#define EXTRAS_LAST            "last"           /* as a session_id: where this client worked last */
#define EXTRAS_META            "caisson/result" /* in _meta: the object of an answer with pictures */

/* Finishes the call with an error. HINT NULL: the hint of the error code. */
void extras_fail(struct mcp_call *call, const char *code, const char *hint, const char *fmt, ...)
    PRINTF(4, 5);
/* The same with a TEXT of several lines. */
void extras_fail_lines(struct mcp_call *call, const char *code, const char *hint, const char *text);
void extras_fail_err(struct mcp_call *call, const struct err *e);
/* The same where a session could not be made: MAX_SESSIONS tells which ones the caller has. */
void extras_fail_open(struct tools *t, struct mcp_call *call, const struct err *e);

/* extras_text.c: appends the members of OBJECT as lines of plain text. */
int extras_add_plain(struct buf *b, const json_t *object) MUST_CHECK;
int extras_add_size(struct buf *b, uint64_t bytes) MUST_CHECK; /* "12 KB" */
/* One line about FILE, made by tools_json_artifact(): path, size, type, link. */
int extras_add_file_line(struct buf *b, const json_t *file) MUST_CHECK;
/* Finishes the call with OBJECT (owned; NULL: no memory), as plain text for models and as structured
 * content for programs. Its session_id is what "last" means from now on. */
void extras_finish(struct mcp_call *call, json_t *object);
/* The same with a TEXT of its own (NULL: no memory) and PICTURES (owned, NULL: none). */
void extras_finish_text(struct mcp_call *call, struct buf *text, json_t *object, json_t *pictures);
/* The result of these. Any thread. */
json_t *extras_result_of(struct buf *text, json_t *object, json_t *pictures);
/* tools_json_artifact() with session_id: the answer about one file. NULL: no memory. */
json_t *extras_json_answer(struct tools *t, const struct mcp_call *call, const struct sandbox *s,
			   const char *path, uint64_t size);

/* Does PATH mean the workspace itself? It may be NULL. */
bool extras_is_root(const char *path);
/* Finishes the call with the files of FOLDER ("": of the workspace) and of those in it. NO_FOLDER: the error if there is no
 * such folder; NULL: what the sandbox says. */
void extras_list_folder(struct tools *t, struct mcp_call *call, struct sandbox *s,
			const char *folder, const struct err *no_folder);

/* The session id in ARGUMENTS; "" if it was left out and OPTIONAL. False: the call is finished. */
bool extras_session_id(struct mcp_call *call, const json_t *arguments, bool optional, char *ret_id);
/* The active sandbox that ARGUMENTS name. NULL: the call is finished, or it will be handled
 * again when the stored sandbox is active. */
struct sandbox *extras_session(struct tools *t, struct mcp_call *call, const json_t *arguments);
/* The same for the argument NAME. */
struct sandbox *extras_named_session(struct tools *t, struct mcp_call *call,
				     const json_t *arguments, const char *name);
bool extras_is_last(const json_t *arguments); /* the session_id is EXTRAS_LAST */
/* The argument timeout_s in ns, 0 when it is left out. False: it is more than this server allows, and
 * the call is finished. */
bool extras_timeout(const struct tools *t, struct mcp_call *call, const json_t *arguments,
		    uint64_t *ret_ns);
/* The path in ARGUMENTS as the engine takes it (ENGINE_PATH_MAX bytes). False: the call is
 * finished. */
bool extras_path(struct mcp_call *call, const json_t *arguments, char *ret_path);

/* Appends TEXT. If it has more than MAX bytes, its middle is left out; WHERE says where the rest
 * is. */
int extras_add_cut(struct buf *b, const char *text, size_t len, size_t max,
		   const char *where) MUST_CHECK;

/* The media type of a picture by its first bytes; NULL: no type that clients show. */
const char *extras_image_type(const uint8_t *data, size_t len);
/* An image block of the file's bytes; DATA may be NULL. NULL: not a picture, or too large. */
json_t *extras_image_block(const void *data, size_t len);

enum extras_word {
	EXTRAS_ASKED,    /* the question was sent; the tool is called again with the answer */
	EXTRAS_AGREED,   /* the person said yes */
	EXTRAS_DECLINED, /* the person said no, or closed the question */
};
bool extras_can_ask(const struct mcp_call *call);
/* Asks the person at the client MESSAGE, who agrees by ticking TITLE. KEY names the question
 * within this call. Call it only if extras_can_ask(). */
enum extras_word extras_ask(struct mcp_call *call, const char *key, const char *message,
			    const char *title);

/* extras_run.c: the words that run a shell command. RET borrows COMMAND. */
#define EXTRAS_SHELL_ARGV 5       /* with the NULL at the end */
#define EXTRAS_SHELL_MAX  120000u /* bytes of a command: the kernel allows 128 KiB in one argument */
void extras_shell_argv(const char *command, const char *ret[EXTRAS_SHELL_ARGV]);
/* extras_create.c: values of the object NAME are short enough to be in the arguments. */
int extras_check_pairs(const struct mcp_call *call, const json_t *arguments, const char *name,
		       struct err *e) MUST_CHECK;
/* extras_process.c */
#define EXTRAS_PROCESS_ACTIONS "start|list|output|wait|input|close_input|signal|remove"
/* Widespread clients give up after 60 s without an answer. */
#define EXTRAS_PROCESS_WAIT_MAX_S 50
void extras_process(struct mcp_call *call, json_t *arguments, void *user);
void extras_run_python(struct mcp_call *call, json_t *arguments, void *user);
void extras_run_shell(struct mcp_call *call, json_t *arguments, void *user);
void extras_read_file(struct mcp_call *call, json_t *arguments, void *user);
void extras_write_file(struct mcp_call *call, json_t *arguments, void *user);
void extras_edit_file(struct mcp_call *call, json_t *arguments, void *user);
void extras_view_image(struct mcp_call *call, json_t *arguments, void *user);
void extras_create(struct mcp_call *call, json_t *arguments, void *user);
void extras_list_sandboxes(struct mcp_call *call, json_t *arguments, void *user);
void extras_list_files(struct mcp_call *call, json_t *arguments, void *user);
void extras_add_file(struct mcp_call *call, json_t *arguments, void *user);
void extras_info(struct mcp_call *call, json_t *arguments, void *user);
void extras_delete(struct mcp_call *call, json_t *arguments, void *user);
void extras_checkpoint(struct mcp_call *call, json_t *arguments, void *user);
void extras_restore(struct mcp_call *call, json_t *arguments, void *user);
void extras_branch(struct mcp_call *call, json_t *arguments, void *user);
void extras_fork(struct mcp_call *call, json_t *arguments, void *user);
void extras_install(struct mcp_call *call, json_t *arguments, void *user);
void extras_list_packages(struct mcp_call *call, json_t *arguments, void *user);
void extras_uninstall(struct mcp_call *call, json_t *arguments, void *user);
void extras_allow_domain(struct mcp_call *call, json_t *arguments, void *user);

/* extras_run_result.c: the object of a run, or NULL: no memory. It names the first EXTRAS_FILES_TOLD new files, and says
 * how many more there are. */
#define EXTRAS_FILES_TOLD 100
json_t *extras_run_object(struct run_call *c, const struct run_result *result);
void extras_run_append_hint(json_t *object, const char *text);
int extras_add_run(struct buf *b, const json_t *object) MUST_CHECK; /* the text about it */
/* What was kept of an output, at most MAX bytes of it. *RET_CUT: a part is left out. */
json_t *extras_output(const struct run_output *output, size_t max, bool *ret_cut);
/* The names of ENGINE_KIND_* as text: "threads and connections". */
int extras_add_kinds(struct buf *b, uint32_t kinds) MUST_CHECK;
/* {name, state, files, bytes, age_s, skipped} of a checkpoint. */
struct checkpoint;
json_t *extras_json_checkpoint(const struct checkpoint *c);
/* extras_hints.c: whether the text of a run (SHELL: a command, else Python) starts something in the background. If so, a process that
 * was left is what the caller will look for in the next run. Others, such as helpers of
 * multiprocessing, nobody misses. */
bool extras_starts_background(const char *text, bool shell);
/* extras_hints_session.c: which variables are gone, and why. */
int extras_add_session(struct buf *b, const struct run_result *result) MUST_CHECK;
/* Appends what to do about a run that ended badly; nothing for one that went well. */
int extras_add_hint(struct buf *b, const struct run_call *c,
		    const struct run_result *result) MUST_CHECK;
/* extras_network.c: adds `network`, and `domains` if the sandbox was made with a list of its
 * own. */
int extras_add_network(json_t *object, const struct tools *t, const struct sandbox *s) MUST_CHECK;
/* The hosts that a person has allowed S. */
json_t *extras_domains(const struct sandbox *s);
