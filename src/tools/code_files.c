/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_upload_file and sandbox_read_artifact of the first tool family. */
#include "tools/code.h"

#include "base/base64.h"
#include "base/large.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/upload.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB        UINT64_C(1048576)
#define NAME_MAX_  255
#define NAME_SHOWN 1000 /* bytes of a refused name that the message shows */
#define SHOWN_MAX  4000 /* bytes of a refused path that the message shows */
#define READ_PIECE                                                                                 \
	(192u * 1024) /* a multiple of 3, so that pieces of base64 join without
				  * padding */

#define MARK_BYTES 16 /* random, so no file name can hold the mark */

#define ANSWER_WORDS_MAX (2 * SHOWN_MAX + 4096) /* bytes of an answer besides the file */

/* ---- sandbox_upload_file ---- */

struct upload_call {
	struct tool_call base;
	char id[SANDBOX_ID_MAX + 1];
	char name[NAME_MAX_ + 1];
	bool overwrite;
	struct upload_source source; /* lives in `bytes` or in the call's spill file */
	char *bytes;                 /* owned, or NULL */
	size_t text_len;             /* of the base64 text */
};

static void upload_free(struct upload_call *c)
{
	free(c->bytes);
	tool_call_free(&c->base);
}

static void upload_fail(struct upload_call *c, const struct err *e)
{
	if (e->code == ERR_FILE_EXISTS && e->errnum == EISDIR)
		tools_finish_errorf(c->base.call, "file_exists",
				    "%s is a folder. A file cannot replace it: choose another "
				    "filename, or remove the folder with code.",
				    c->name);
	else if (e->code == ERR_FILE_EXISTS)
		tools_finish_errorf(c->base.call, "file_exists",
				    "%s already exists. Set overwrite=true to replace.", c->name);
	else
		code_finish_err(c->base.call, c->base.sandbox ? sandbox_id(c->base.sandbox) : c->id,
				e);
	upload_free(c);
}

static void on_uploaded(uint64_t written UNUSED, const struct err *e, void *user)
{
	struct upload_call *c = user;
	char path[sizeof(TOOLS_WORKSPACE) + NAME_MAX_];

	if (e) {
		upload_fail(c, e);
		return;
	}
	const char *id = sandbox_id(c->base.sandbox);
	(void)snprintf(path, sizeof(path), TOOLS_WORKSPACE "%s", c->name);
	/* People know the form of a link without having been given one: from here on it works. */
	const struct tools_config *config = &c->base.tools->config;
	if (config->link_base)
		(void)config->link_base(config->link_user);
	tools_note(c->base.call, MCP_LEVEL_INFO, "Uploaded to %s in session %s", path, id);
	mcp_call_progress(c->base.call, 1.0, 1.0, NULL);
	tools_finish(c->base.call, json_pack("{s:s, s:s}", "session_id", id, "path", path));
	upload_free(c);
}

static void on_upload_session(struct sandbox *s, const struct err *e, void *user)
{
	struct upload_call *c = user;
	struct err error = ERR_INIT;

	if (e) {
		upload_fail(c, e);
		return;
	}
	c->base.sandbox = sandbox_ref(s);
	struct upload_request request = {
	    .path = c->name,
	    .overwrite = c->overwrite,
	    .source = c->source,
	    .on_done = on_uploaded,
	    .user = c,
	};
	if (sandbox_upload(s, &request, &error) < 0)
		upload_fail(c, &error);
}

/* False: the call is finished. */
static bool check_filename(struct mcp_call *call, const struct mcp_text_ref *name)
{
	if (!name->text || !parse_is_filename(name->text, name->len)) {
		struct tool_error error = TOOL_ERROR_INIT("invalid_filename");
		size_t shown = name->text ? text_utf8_cut(name->text, name->len, NAME_SHOWN) : 0;
		int r = buf_add_str(&error.message, "Invalid filename '");
		r = r < 0 ? r : buf_add(&error.message, name->text ? name->text : "", shown);
		r = r < 0 ? r
			  : buf_printf(&error.message,
				       "%s'. Only letters, numbers, dots, hyphens, and underscores "
				       "allowed.",
				       shown < name->len ? "..." : "");
		if (r < 0)
			buf_reset(&error.message);
		tools_finish_error(call, &error);
		return false;
	}
	/* A single dot passes the grammar but names the folder itself. */
	if (strstr(name->text, "..") || streq(name->text, ".")) {
		tools_finish_errorf(call, "invalid_path", "Path traversal not allowed");
		return false;
	}
	return true;
}

/* The checks in the order of the contract, except that of the content. Nothing is created if one
 * fails. False: the call is finished. */
static bool check_upload(struct tools *t, struct mcp_call *call, const json_t *arguments,
			 char *ret_id, struct mcp_text_ref *ret_name,
			 struct mcp_text_ref *ret_content)
{
	uint64_t max = t->config.max_upload_bytes;

	if (!code_session_id(call, arguments, ret_id))
		return false;
	const struct mcp_text_ref content = tools_text_arg(call, arguments, MCP_BASE64_KEY);
	if (content.len > max / 3 * 4 + max % 3 * 4 / 3 + 4) {
		tools_finish_errorf(call, "upload_too_large", "Upload exceeds %juMB limit.",
				    (uintmax_t)(max / MIB));
		return false;
	}
	*ret_name = tools_text_arg(call, arguments, "filename");
	if (!check_filename(call, ret_name))
		return false;
	*ret_content = content;
	return true;
}

/* Gets the bytes that CONTENT encodes. A long text was decoded while it arrived; a short one is
 * decoded here. False: the call is finished. */
static bool take_content(struct upload_call *c, const struct mcp_text_ref *content)
{
	struct base64_decoder decoder = {0};
	size_t n = 0, n_end = 0;
	bool good = content->form == MCP_TEXT_DECODED && !content->irregular;

	c->text_len = content->len;
	c->source =
	    (struct upload_source){.fd = content->fd, .off = content->off, .len = content->fd_len};
	if (content->text) {
		c->bytes = malloc(BASE64_DECODED_MAX(content->len) + 1);
		if (!c->bytes) {
			tools_finish_errorf(c->base.call, "execution_failed",
					    "The upload was not read");
			return false;
		}
		good = base64_decode(&decoder, content->text, content->len, (uint8_t *)c->bytes,
				     &n) == 0 &&
		       base64_decode_end(&decoder, NULL, &n_end) == 0;
		c->source = (struct upload_source){.data = c->bytes, .fd = -1, .len = n};
	}
	if (!good)
		tools_finish_errorf(c->base.call, "invalid_content",
				    "content_base64 is not valid base64");
	return good;
}

void code_upload_file(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	char id[SANDBOX_ID_MAX + 1];
	struct mcp_text_ref name, content;

	if (!check_upload(t, call, arguments, id, &name, &content))
		return;
	struct upload_call *c = tool_call_new(t, call, NULL, sizeof(*c));
	if (!c)
		return;
	memcpy(c->id, id, sizeof(id));
	memcpy(c->name, name.text, name.len + 1);
	c->overwrite = args_bool(arguments, "overwrite", false);
	if (!take_content(c, &content)) {
		upload_free(c);
		return;
	}
	tools_note(call, MCP_LEVEL_INFO, "Uploading %s (%ju base64 characters)", c->name,
		   (uintmax_t)c->text_len);
	mcp_call_progress(call, 0.1, 1.0, NULL);
	manager_open(t->config.manager, mcp_call_principal(call), *c->id ? c->id : NULL,
		     on_upload_session, c);
}

/* ---- sandbox_read_artifact ---- */

struct read_call {
	struct tool_call base;
	char path[ENGINE_PATH_MAX];  /* relative to the workspace */
	char shown[ENGINE_PATH_MAX]; /* as the client gave it, shortened if it is long */
	size_t shown_len;            /* it may hold NUL bytes */
	int fd;                      /* for the thread that reads it */
	struct engine_file info;
	char *content; /* base64, made by that thread; NULL: it could not be read */
};

static void read_not_found(struct read_call *c)
{
	struct tool_error error = TOOL_ERROR_INIT("not_found");
	int r = buf_add_str(&error.message, "No artifact at ");

	r = r < 0 ? r : buf_add(&error.message, c->shown, c->shown_len);
	if (r < 0)
		buf_reset(&error.message);
	tools_finish_error(c->base.call, &error);
	tool_call_free(&c->base);
}

/* SIZE bytes of FD as base64, owned. NULL if they cannot be read, or the file has become shorter. */
static char *read_base64(int fd, uint64_t size)
{
	size_t done = 0;
	_cleanup_free_ char *text = malloc(BASE64_ENCODED_LEN((size_t)size) + 1);
	_cleanup_free_ uint8_t *piece = malloc(READ_PIECE);

	if (!text || !piece)
		return NULL;
	large_block_hint(text, BASE64_ENCODED_LEN((size_t)size) + 1);
	for (uint64_t at = 0; at < size;) {
		const size_t want = (size_t)MIN(size - at, (uint64_t)READ_PIECE);
		/* What is left, not what is there: compilers do not know that pread() gives no more than what was wanted. */
		for (size_t left = want; left > 0;) {
			const size_t n = want - left;
			ssize_t got = pread(fd, piece + n, left, (off_t)(at + n));
			if (got < 0 && errno == EINTR)
				continue;
			if (got <= 0)
				return NULL;
			left -= MIN((size_t)got, left);
		}
		base64_encode(piece, want, text + done);
		done += BASE64_ENCODED_LEN(want);
		at += want;
	}
	return TAKE_PTR(text);
}

static void read_too_long(struct read_call *c, uint64_t size)
{
	struct tool_error error = TOOL_ERROR_INIT("artifact_too_large");

	error.size_bytes = (int64_t)size;
	error.link = tools_json_link(c->base.tools, c->base.call, c->base.sandbox, c->path);
	if (buf_printf(&error.message,
		       "%s is more than a client takes in one answer over stdio. Give download_url "
		       "to the person%s, or look at the file with code.",
		       c->path,
		       c->base.tools->config.has_extras
			   ? ", read parts of a text with sandbox_read_file"
			   : "") < 0)
		buf_reset(&error.message);
	tools_finish_error(c->base.call, &error);
	tool_call_free(&c->base);
}

/* On a thread. */
static void encode_file(void *user)
{
	struct read_call *c = user;

	c->content = read_base64(c->fd, c->info.size);
	c->fd = fd_close(c->fd);
}

static void on_encoded(void *user)
{
	struct read_call *c = user;
	const struct engine_file *info = &c->info;
	_cleanup_free_ char *content = TAKE_PTR(c->content);
	loop_work("file", "encoded");
	char mark[2 * MARK_BYTES + 1];

	if (!content) {
		read_not_found(c);
		return;
	}
	char path[sizeof(TOOLS_WORKSPACE) + ENGINE_PATH_MAX];
	(void)snprintf(path, sizeof(path), TOOLS_WORKSPACE "%s", c->path);
	rand_hex(mark, MARK_BYTES);
	tools_finish_blob(c->base.call,
			  json_pack("{s:o, s:o, s:s, s:I, s:s}", "path",
				    tools_json_bytes(path, strlen(path)), "filename",
				    tools_json_bytes(info->name, strlen(info->name)), "mime_type",
				    mime_type(info->name), "size_bytes", (json_int_t)info->size,
				    "content_base64", mark),
			  mark, TAKE_PTR(content), BASE64_ENCODED_LEN((size_t)info->size));
	tool_call_free(&c->base);
}

static void on_read_open(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct read_call *c = user;
	const char *who = sandbox_owner(c->base.sandbox);
	uint64_t max = c->base.tools->config.max_read_bytes;

	if (e) {
		read_not_found(c);
		return;
	}
	if (info->size > max) {
		struct tool_error error = TOOL_ERROR_INIT("artifact_too_large");
		workers_close(who, fd);
		error.size_bytes = (int64_t)info->size;
		if (buf_printf(&error.message, "%s is %juMB, exceeds %juMB limit.", info->name,
			       (uintmax_t)(info->size / MIB), (uintmax_t)(max / MIB)) < 0)
			buf_reset(&error.message);
		tools_finish_error(c->base.call, &error);
		tool_call_free(&c->base);
		return;
	}
	/* The answer has the base64 twice: as content and as structured content. */
	if (!tools_fits_line(c->base.tools, c->base.call,
			     2 * BASE64_ENCODED_LEN(info->size) + ANSWER_WORDS_MAX)) {
		workers_close(who, fd);
		read_too_long(c, info->size);
		return;
	}
	c->fd = fd;
	c->info = *info;
	const int r = workers_run(who, encode_file, on_encoded, c);
	if (r < 0) {
		struct err refused = ERR_INIT;

		workers_close(who, fd);
		(void)workers_refused(r, &refused);
		code_finish_err(c->base.call, sandbox_id(c->base.sandbox), &refused);
		tool_call_free(&c->base);
	}
}

void code_read_artifact(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	char id[SANDBOX_ID_MAX + 1];
	struct err e = ERR_INIT;

	if (!code_session_id(call, arguments, id))
		return;
	struct sandbox *s = code_session(t, call, id);
	struct read_call *c = s ? tool_call_new(t, call, s, sizeof(*c)) : NULL;
	if (!c)
		return;
	struct mcp_text_ref path = tools_text_arg(call, arguments, "path");
	if (path.text) {
		c->shown_len = text_utf8_cut(path.text, path.len, SHOWN_MAX);
		memcpy(c->shown, path.text, c->shown_len);
	}
	if (!path.text) {
		read_not_found(c);
		return;
	}
	if (workspace_path(path.text, path.len, false, c->path, &e) < 0) {
		if (e.code == ERR_NOT_FOUND) {
			read_not_found(c);
			return;
		}
		tools_finish_errorf(call, err_code_name(e.code), "%s", e.text);
		tool_call_free(&c->base);
		return;
	}
	if (sandbox_open_file(s, c->path, on_read_open, c, &e) == 0)
		return;
	if (e.code == ERR_SANDBOX_LOST || e.code == ERR_SESSION_NOT_FOUND) {
		code_finish_err(call, id, &e);
		tool_call_free(&c->base);
		return;
	}
	read_not_found(c);
}
