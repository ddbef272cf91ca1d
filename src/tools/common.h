/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tool families: result documents, links, arguments. Private to this folder. */
#pragma once

#include "base/buf.h"
#include "mcp/content.h"
#include "tools/args.h"
#include "tools/asked.h"
#include "tools/tools.h"

struct package_names;
struct resources;

struct tools {
	struct tools_config config;
	struct resources *resources; /* owned, or NULL */
	struct package_names *names; /* owned, or NULL; see completion.c */
	struct list asked;           /* questions to people (asked.h) */
	struct list bound;           /* register.c */
};

#define TOOLS_WORKSPACE "/mnt/data/"

/* register.c */
void tools_free_bound(struct tools *t);

/* completion.c */
void tools_complete(struct mcp_call *call, const struct mcp_completion *what, void *user);
void tools_free_names(struct tools *t);

/* The state of a call that goes on after its handler has returned. Larger states begin with it. */
struct tool_call {
	struct tools *tools;
	struct mcp_call *call;   /* reference: whose it is can be asked after it is finished */
	struct sandbox *sandbox; /* reference, or NULL */
};
/* SIZE zeroed bytes that begin with a struct tool_call. S may be NULL. NULL: no memory, and the
 * call is finished. */
void *tool_call_new(struct tools *t, struct mcp_call *call, struct sandbox *s, size_t size);
void tool_call_free(struct tool_call *c); /* frees the object with free(3) */

/* A string argument. If it is absent or null, text is NULL and fd is -1. */
struct mcp_text_ref tools_text_arg(const struct mcp_call *call, const json_t *arguments,
				   const char *name);
/* The whole text with a NUL at its end, owned; NULL: no memory. A long text is read from its
 * spill file. */
char *tools_text_take(const struct mcp_text_ref *ref);

/* True: the caller has a stored sandbox ID that is not active. It is activated, and CALL is
 * handled again; if that fails, FAIL finishes the call. */
typedef void (*tools_fail_fn)(struct mcp_call *call, const char *id, const struct err *e);
bool tools_activate(struct tools *t, struct mcp_call *call, const char *id, tools_fail_fn fail);

/* The result of a tool with OBJECT (owned): see tools_finish(). Any thread. NULL: no memory. */
json_t *tools_result_of(json_t *object);
/* Finishes the call with {"result": OBJECT} as structured content and OBJECT (owned) as compact
 * text. */
void tools_finish(struct mcp_call *call, json_t *object);
/* The same with BLOB (owned) in place of each MARK: mcp_call_finish_blob(). */
void tools_finish_blob(struct mcp_call *call, json_t *object, const char *mark, char *blob,
		       size_t len);

struct tool_error {
	const char *code;
	struct buf message; /* UTF-8 */
	int64_t size_bytes; /* -1 = null */
	json_t *link;       /* owned; NULL = null */
};
#define TOOL_ERROR_INIT(c)                                                                         \
	((struct tool_error){.code = (c), .message = BUF_INIT(4096), .size_bytes = -1})
/* Finishes the call with {error, message, size_bytes, download_url}. Frees the message and takes
 * the link. */
void tools_finish_error(struct mcp_call *call, struct tool_error *error);
void tools_finish_errorf(struct mcp_call *call, const char *code, const char *fmt, ...)
    PRINTF(3, 4);

/* A JSON string of any bytes; invalid UTF-8 is replaced. */
json_t *tools_json_bytes(const void *data, size_t len);
/* A JSON string of what was kept of an output (run_output_add()), followed by NOTE. *RET_CUT: a
 * part is left out. */
json_t *tools_json_output(const struct run_output *output, size_t max, const char *where,
			  const char *note, bool *ret_cut);
/* A link to a file of a sandbox, or JSON null. PATH is relative to the workspace. */
json_t *tools_json_link(struct tools *t, const struct mcp_call *call, const struct sandbox *s,
			const char *path);

/* What the links to all files of one sandbox have in common. It is made and ended on the loop; a thread may
 * make links with it. */
struct tools_links {
	const struct tools_config *config;
	char *base; /* owned; NULL: links are null */
	bool is_signed;
	uint64_t expires;
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
};
enum tools_link_kind {
	TOOLS_LINKS_NONE,
	TOOLS_LINKS_FILES,
	TOOLS_LINKS_CLASSIC, /* of the second family */
};
void tools_links_begin(struct tools *t, const struct mcp_call *call, const struct sandbox *s,
		       enum tools_link_kind kind, struct tools_links *ret);
void tools_links_done(struct tools_links *l);
/* As tools_json_link(). */
json_t *tools_link(const struct tools_links *l, const char *path);
/* Appends HEAD, PATH percent-encoded and, after MARK ('?' or '&'), the signature. */
int tools_links_add(const struct tools_links *l, const char *head, const char *path, char mark,
		    struct buf *b) MUST_CHECK;
/* {path, filename, size_bytes, mime_type, download_url} of a file. PATH is relative to the workspace. */
json_t *tools_json_artifact(const struct tools_links *l, const char *path, uint64_t size);
/* The array of the first N artifacts of a run. */
json_t *tools_json_artifacts(const struct tools_links *l, const struct run_result *result,
			     size_t n);

/* From so many file names or bytes of output on, a thread makes the answer. */
#define TOOLS_MANY_NAMES 32u
#define TOOLS_MUCH_TEXT  (64u << 10)

/* May an answer of LEN bytes be sent to this client in one message? */
bool tools_fits_line(const struct tools *t, const struct mcp_call *call, uint64_t len);
/* The same for an answer of the lean family, and for a resource. */
bool tools_fits_answer(const struct tools *t, const struct mcp_call *call, uint64_t len);
/* Bytes of files whose base64 fits into such an answer beside WORDS bytes. */
uint64_t tools_answer_room(const struct tools *t, const struct mcp_call *call, uint64_t words);

/* A log notification of one line to the client. */
void tools_note(struct mcp_call *call, enum mcp_level level, const char *fmt, ...) PRINTF(3, 4);
