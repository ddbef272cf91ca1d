/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and edits files of a workspace; sandbox_view_image of the profile `all`. */
#include "tools/edit.h"
#include "tools/extras.h"
#include "tools/picture.h"

#include "base/base64.h"
#include "base/fdio.h"
#include "base/loop.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/upload.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EDIT_MAX       (8u << 20) /* bytes of a file that is edited, before and afterwards */
#define VIEW_WORDS_MAX 1024u      /* bytes of an answer besides its picture */
#define EDIT_TEXT_MAX  (1u << 20) /* bytes of a text that is replaced, or replaces it */

/* The state of a call; each tool uses the part with its name. */
struct file_call {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox; /* reference, or NULL */
	char path[ENGINE_PATH_MAX];
	/* write, edit */
	char *data; /* owned: what is written, unless it is in `source` */
	size_t len;
	struct upload_source source; /* in the call's spill file; of an edit: its result, owned */
	bool overwrite;
	/* edit; while a thread applies it, EDIT, FROM and ERROR are the thread's */
	struct edit edit;
	struct mcp_text_ref old, new; /* long ones stay in the call's spill file */
	char *old_text, *new_text;    /* owned: short ones */
	int from;                     /* the file, or -1 */
	int error;
	struct budget_share memory; /* of the result */
	size_t most;                /* view: bytes of the picture */
};

static void file_call_free(struct file_call *c)
{
	const char *who = c->sandbox ? sandbox_owner(c->sandbox) : "";

	workers_close(who, c->from);
	if (c->edit.old_len > 0)
		workers_close(who, c->source.fd);
	budget_give(&c->memory);
	(void)sandbox_unref(c->sandbox);
	free(c->data);
	free(c->old_text);
	free(c->new_text);
	free(c);
}

static void fail_and_free(struct file_call *c, const struct err *e)
{
	extras_fail_open(c->tools, c->call, e);
	file_call_free(c);
}

static struct file_call *file_call_new(struct tools *t, struct mcp_call *call)
{
	struct file_call *c = calloc(1, sizeof(*c));

	if (!c) {
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
		return NULL;
	}
	c->tools = t;
	c->call = call;
	c->from = c->source.fd = -1;
	return c;
}

static bool open_path(struct file_call *c, sandbox_file_fn cb)
{
	struct err e = ERR_INIT;

	if (sandbox_open_file(c->sandbox, c->path, cb, c, &e) == 0)
		return true;
	fail_and_free(c, &e);
	return false;
}

static void fail_open(struct file_call *c, const struct err *e)
{
	struct err error = *e;

	if (e->code == ERR_NOT_FOUND)
		(void)err_set(&error, ERR_NOT_FOUND, 0, "There is no file /mnt/data/%s", c->path);
	fail_and_free(c, &error);
}

/* ---- sandbox_write_file ---- */

static void on_written(uint64_t written, const struct err *e, void *user)
{
	struct file_call *c = user;
	char path[ENGINE_PATH_MAX + sizeof(TOOLS_WORKSPACE)];
	struct err error = ERR_INIT;

	if (e) {
		error = *e;
		if (e->code == ERR_FILE_EXISTS)
			(void)err_set(&error, ERR_FILE_EXISTS, 0, "/mnt/data/%s already exists",
				      c->path);
		error.errnum = e->errnum;
		fail_and_free(c, &error);
		return;
	}
	(void)snprintf(path, sizeof(path), TOOLS_WORKSPACE "%s", c->path);
	json_t *object =
	    json_pack("{s:s, s:o, s:I, s:o}", "session_id", sandbox_id(c->sandbox), "path",
		      tools_json_bytes(path, strlen(path)), "size_bytes", (json_int_t)written,
		      "download_url", tools_json_link(c->tools, c->call, c->sandbox, c->path));
	if (object && c->edit.matches > 0 &&
	    json_object_set_new(object, "replaced", json_integer((json_int_t)c->edit.matches)) <
		0) {
		json_decref(object);
		object = NULL;
	}
	extras_finish(c->call, object);
	file_call_free(c);
}

static void write_data(struct file_call *c)
{
	struct err e = ERR_INIT;
	struct upload_request request = {
	    .path = c->path,
	    .overwrite = c->overwrite,
	    .source = c->data ? (struct upload_source){.data = c->data, .fd = -1, .len = c->len}
			      : c->source,
	    .on_done = on_written,
	    .user = c,
	};

	if (sandbox_upload(c->sandbox, &request, &e) < 0)
		fail_and_free(c, &e);
}

static void on_write_session(struct sandbox *s, const struct err *e, void *user)
{
	struct file_call *c = user;

	if (e) {
		fail_and_free(c, e);
		return;
	}
	c->sandbox = sandbox_ref(s);
	write_data(c);
}

static bool is_given(const struct mcp_text_ref *ref)
{
	return ref->text || ref->fd >= 0;
}

/* Takes what is written. False: the call is finished and C is freed. A long text stays where it is: threads read it. */
static bool take_text(struct file_call *c, const struct mcp_text_ref *content)
{
	if (!content->text) {
		c->source = (struct upload_source){
		    .fd = content->fd, .off = content->off, .len = content->fd_len};
		return true;
	}
	c->len = content->len;
	c->data = tools_text_take(content);
	if (c->data)
		return true;
	mcp_call_finish_error(c->call, MCP_ERR_INTERNAL, "no memory", NULL);
	file_call_free(c);
	return false;
}

/* A long text was decoded while it arrived; a short one is decoded here. */
static bool take_base64(struct file_call *c, const struct mcp_text_ref *encoded)
{
	struct base64_decoder decoder = {.lax = true, .n_seen = encoded->wrong_at};
	bool good = encoded->form == MCP_TEXT_DECODED;
	size_t n_end = 0;

	if (!encoded->text) {
		c->source = (struct upload_source){
		    .fd = encoded->fd, .off = encoded->off, .len = encoded->fd_len};
	} else {
		c->data = malloc(BASE64_DECODED_MAX(encoded->len) + BASE64_END_MAX);
		if (!c->data) {
			mcp_call_finish_error(c->call, MCP_ERR_INTERNAL, "no memory", NULL);
			file_call_free(c);
			return false;
		}
		good = base64_decode(&decoder, encoded->text, encoded->len, (uint8_t *)c->data,
				     &c->len) == 0 &&
		       base64_decode_end(&decoder, (uint8_t *)c->data + c->len, &n_end) == 0;
		c->len += n_end;
	}
	if (good)
		return true;
	extras_fail(
	    c->call, "invalid_content",
	    "Use letters, digits, + and /, with = at the end only; or give text as content.",
	    MCP_BASE64_KEY " is not valid base64: it is wrong at character %ju of %zu",
	    (uintmax_t)decoder.n_seen, encoded->len);
	file_call_free(c);
	return false;
}

/* The limit is about the bytes of the file, whatever they were sent as. */
static bool fits(struct file_call *c, uint64_t max)
{
	const uint64_t len = c->data ? c->len : c->source.len;

	if (len <= max)
		return true;
	extras_fail(c->call, "upload_too_large", "Write it in parts, with code.",
		    "The content is %ju byte%s, the limit is %ju", (uintmax_t)len, text_s(len),
		    (uintmax_t)max);
	file_call_free(c);
	return false;
}

void extras_write_file(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	char id[SANDBOX_ID_MAX + 1], path[ENGINE_PATH_MAX];

	if (!extras_session_id(call, arguments, true, id) || !extras_path(call, arguments, path))
		return;
	struct mcp_text_ref content = tools_text_arg(call, arguments, "content");
	struct mcp_text_ref encoded = tools_text_arg(call, arguments, MCP_BASE64_KEY);
	/* An empty one beside another is a left out one of a model that must send every argument. */
	if (is_given(&content) && encoded.text && encoded.len == 0)
		encoded = (struct mcp_text_ref){.fd = -1};
	else if (is_given(&encoded) && content.text && content.len == 0)
		content = (struct mcp_text_ref){.fd = -1};
	if (is_given(&content) == is_given(&encoded)) {
		extras_fail(call, "invalid_argument",
			    "Give the text as content, or other bytes as " MCP_BASE64_KEY ".",
			    "Exactly one of content and " MCP_BASE64_KEY " is needed");
		return;
	}
	if (is_given(&encoded))
		content = encoded;
	struct file_call *c = file_call_new(t, call);
	if (!c)
		return;
	memcpy(c->path, path, sizeof(path));
	c->overwrite = args_bool(arguments, "overwrite", true);
	if (!(is_given(&encoded) ? take_base64(c, &encoded) : take_text(c, &content)) ||
	    !fits(c, t->config.max_upload_bytes))
		return;
	manager_open(t->config.manager, mcp_call_principal(call), *id ? id : NULL, on_write_session,
		     c);
}

/* ---- sandbox_edit_file ---- */

/* On a thread. Long texts are read there, so that at most two of one user are in memory. */
static void apply_edit(void *user)
{
	struct file_call *c = user;
	_cleanup_free_ char *old = NULL, *new = NULL;
	struct edit *e = &c->edit;

	e->old_text = c->old_text ? c->old_text : (old = tools_text_take(&c->old));
	e->new_text = c->new_text ? c->new_text : (new = tools_text_take(&c->new));
	c->error =
	    e->old_text && e->new_text ? edit_apply_lines(e, c->from, c->source.fd) : -ENOMEM;
	c->from = fd_close(c->from);
}

static void on_applied(void *user)
{
	struct file_call *c = user;
	const struct edit *did = &c->edit;
	struct err e = ERR_INIT;

	loop_work("sandbox_edit_file", c->path);
	if (c->error == -EILSEQ)
		extras_fail(c->call, "not_text", "Change it with code.", "%s is not a text file",
			    c->path);
	else if (c->error == -EFBIG)
		extras_fail(c->call, "artifact_too_large", "Change large files with code.",
			    "/mnt/data/%s would have more than %u bytes", c->path, EDIT_MAX);
	else if (c->error < 0) /* fails below */
		(void)err_set(&e, c->error == -ENOMEM ? ERR_OUT_OF_MEMORY : ERR_SYSTEM, -c->error,
			      "editing /mnt/data/%s", c->path);
	else if (did->matches == 0)
		extras_fail(c->call, "no_match",
			    "Read the file and copy old_text exactly, blanks included.",
			    "old_text does not occur in /mnt/data/%s", c->path);
	else if (did->matches > 1 && !did->all)
		extras_fail(c->call, "ambiguous_match",
			    "Give more of the text around it, or set replace_all to true.",
			    "old_text occurs %ju times in /mnt/data/%s", (uintmax_t)did->matches,
			    c->path);
	else {
		if (did->crlf)
			mcp_call_remark(c->call,
					"Note: the lines of this file end with \\r\\n, and so "
					"do those of new_text now.");
		c->source.len = did->len;
		write_data(c);
		return;
	}
	if (e.code != ERR_NONE)
		extras_fail_err(c->call, &e);
	file_call_free(c);
}

/* The result is a file in memory, and counts as the long texts of messages do. */
static int begin_edit(struct file_call *c, uint64_t size, struct err *e)
{
	const char *who = sandbox_owner(c->sandbox);
	int r = budget_take(c->tools->config.budgets, who, BUDGET_MESSAGE_FILES,
			    edit_bound(&c->edit, size), &c->memory, e);

	if (r < 0)
		return r;
	c->source.fd = memfd_create("edit", MFD_CLOEXEC);
	if (c->source.fd < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, errno, "editing /mnt/data/%s", c->path);
	r = workers_run(who, apply_edit, on_applied, c);
	return r < 0 ? workers_refused(r, e) : 0;
}

static void on_edit(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct file_call *c = user;
	struct err error = ERR_INIT;

	if (e) {
		fail_open(c, e);
		return;
	}
	c->from = fd;
	if (info->size <= EDIT_MAX) {
		if (begin_edit(c, info->size, &error) < 0)
			fail_and_free(c, &error);
		return;
	}
	extras_fail(c->call, "artifact_too_large", "Change large files with code.",
		    "/mnt/data/%s has %ju bytes, the limit is %u", c->path, (uintmax_t)info->size,
		    EDIT_MAX);
	file_call_free(c);
}

void extras_edit_file(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	char path[ENGINE_PATH_MAX];

	struct sandbox *s = extras_session(t, call, arguments);
	if (!s || !extras_path(call, arguments, path))
		return;
	struct mcp_text_ref old = tools_text_arg(call, arguments, "old_text");
	struct mcp_text_ref new = tools_text_arg(call, arguments, "new_text");
	if (old.len == 0 || old.len > EDIT_TEXT_MAX || new.len > EDIT_TEXT_MAX) {
		extras_fail(call, "invalid_argument", "To make a new file use sandbox_write_file.",
			    "old_text must not be empty, and both texts at most %u bytes",
			    EDIT_TEXT_MAX);
		return;
	}
	struct file_call *c = file_call_new(t, call);
	if (!c)
		return;
	c->sandbox = sandbox_ref(s);
	memcpy(c->path, path, sizeof(path));
	c->overwrite = true;
	c->edit = (struct edit){.old_len = old.len,
				.new_len = new.len,
				.all = args_bool(arguments, "replace_all", false),
				.most = EDIT_MAX};
	c->old = old;
	c->new = new;
	if ((old.text && !(c->old_text = tools_text_take(&old))) ||
	    (new.text && !(c->new_text = tools_text_take(&new)))) {
		file_call_free(c);
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
		return;
	}
	(void)open_path(c, on_edit);
}

/* ---- sandbox_view_image ---- */

static void fail_large(struct file_call *c)
{
	extras_fail(c->call, "artifact_too_large",
		    "Save a smaller copy with code (fewer pixels, or JPEG) and view that.",
		    "/mnt/data/%s has more than %u bytes and could not be made smaller", c->path,
		    (unsigned)c->most);
}

static void on_shrunk(json_t *block, unsigned pages UNUSED, void *user)
{
	struct file_call *c = user;

	if (block)
		mcp_call_finish(c->call, mcp_tool_result(mcp_blocks(1, block), NULL, false));
	else
		fail_large(c);
	file_call_free(c);
}

static void on_view_read(char *data, ssize_t n, void *user)
{
	_cleanup_free_ char *owned = data;
	struct file_call *c = user;
	json_t *block = data ? extras_image_block(data, (size_t)n) : NULL;

	if (block)
		mcp_call_finish(c->call, mcp_tool_result(mcp_blocks(1, block), NULL, false));
	else
		extras_fail(c->call, "not_an_image", "PNG, JPEG, GIF and WebP can be viewed.",
			    "/mnt/data/%s is not an image", c->path);
	file_call_free(c);
}

static void on_view(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct file_call *c = user;
	const char *who = sandbox_owner(c->sandbox);
	struct err error = ERR_INIT;

	if (e) {
		fail_open(c, e);
		return;
	}
	const uint64_t room = tools_answer_room(c->tools, c->call, VIEW_WORDS_MAX);
	c->most = picture_share(&info->size, 1, room);
	if (info->size <= c->most) {
		workers_read(who, fd, 0, (size_t)info->size, on_view_read, c);
		return;
	}
	workers_close(who, fd);
	if (info->size <= PICTURE_FILE_MAX && picture_make(c->sandbox, c->path, PICTURE_RASTER, 0,
							   c->most, on_shrunk, c, &error) == 0)
		return;
	if (error.code == ERR_NONE)
		fail_large(c);
	else
		extras_fail_err(c->call, &error);
	file_call_free(c);
}

void extras_view_image(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	char path[ENGINE_PATH_MAX];

	struct sandbox *s = extras_session(t, call, arguments);
	if (!s || !extras_path(call, arguments, path))
		return;
	struct file_call *c = file_call_new(t, call);
	if (!c)
		return;
	c->sandbox = sandbox_ref(s);
	memcpy(c->path, path, sizeof(path));
	(void)open_path(c, on_view);
}
