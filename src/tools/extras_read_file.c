/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_read_file: one tool to look at any file. Lines of a text; pictures and pages of a PDF as
 * pictures; of anything else what it is, and how to get at it. */
#include "tools/decode.h"
#include "tools/extras.h"
#include "tools/file_kind.h"
#include "tools/picture.h"

#include "base/base64.h"
#include "base/fdio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <string.h>
#include <unistd.h>

#define SCAN_MAX  (32u << 20) /* bytes of a file that are searched for lines */
#define LOOK_MAX  8192u       /* first bytes that tell what a file is; text has no NUL among them */
#define LINES_MAX 2000        /* lines of one answer when no end is given */
#define PAGE_MAX  100000      /* highest number of a page */
#define WORDS_MAX 16384u      /* bytes of an answer besides the file */

struct read_call {
	struct tool_call base;
	char path[ENGINE_PATH_MAX];
	int64_t first, last; /* lines, or pages; last 0 = not given */
	bool base64;
	bool as_text; /* lines of it are wanted, even if a picture could be made */
	uint64_t size;
	/* Pages of a PDF. */
	unsigned page, pages;
	uint64_t room;  /* bytes of pictures that the answer still takes */
	size_t most;    /* of the next one */
	json_t *blocks; /* owned: pictures so far */
	/* For a thread, which reads the file. */
	int fd;
	size_t most_text;       /* bytes of the lines of a text */
	int error;              /* 0 or -errno */
	bool foreign;           /* a text that is not UTF-8 */
	bool asked;             /* the sandbox was asked to decode it */
	struct decoded decoded; /* what the sandbox made of it, if it could */
	enum file_kind kind;
	json_t *encoded; /* owned: the base64 of the file */
	struct buf text; /* lines of a text */
	json_t *picture; /* owned: KIND_PICTURE, or NULL */
};

static void read_call_free(struct read_call *c)
{
	workers_close(sandbox_owner(c->base.sandbox), c->fd);
	buf_done(&c->text);
	buf_done(&c->decoded.text);
	json_decref(c->picture);
	json_decref(c->encoded);
	json_decref(c->blocks);
	tool_call_free(&c->base);
}

static void fail(struct read_call *c, const struct err *e)
{
	struct err error = *e;

	if (e->code == ERR_NOT_FOUND)
		(void)err_set(&error, ERR_NOT_FOUND, 0, "There is no file /mnt/data/%s", c->path);
	extras_fail_err(c->base.call, &error);
	read_call_free(c);
}

/* ---- answers ---- */

/* Finishes with one line about the file, NOTE, and PICTURES (owned, or NULL). */
static void finish_file(struct read_call *c, const char *note, json_t *pictures)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(WORDS_MAX + 8 * ENGINE_PATH_MAX);
	json_t *object =
	    extras_json_answer(c->base.tools, c->base.call, c->base.sandbox, c->path, c->size);
	int r = object ? extras_add_file_line(&b, object) : -ENOMEM;

	r = r < 0 || !*note ? r : buf_printf(&b, "%s\n", note);
	extras_finish_text(c->base.call, r < 0 ? NULL : &b, object, pictures);
	read_call_free(c);
}

static void finish_other(struct read_call *c)
{
	char note[400];

	(void)snprintf(
	    note, sizeof(note),
	    "This is no text and no picture. Read it with %s in sandbox_run_python, or set "
	    "base64 to true to get its bytes.",
	    file_reader(c->path));
	finish_file(c, note, NULL);
}

/* LINKED: it is a picture as clients show it, and too large. */
static void finish_undrawn(struct read_call *c, bool linked)
{
	json_t *link = linked ? picture_link(c->base.sandbox, c->path, c->size) : NULL;

	finish_file(
	    c,
	    "No picture could be made of it: it is damaged or too large, or the image of this "
	    "sandbox has no program for it. Look at it with code.",
	    link ? mcp_blocks(1, link) : NULL);
}

/* ---- text ---- */

/* Appends the file to B, at most its first MAX bytes, of SIZE. On a thread. */
static int read_bytes(int fd, uint64_t size, size_t max, struct buf *b)
{
	b->max = max;
	int r = buf_reserve(b, (size_t)MIN(size, (uint64_t)max));
	while (r == 0 && b->len < size && b->len < max) {
		char piece[65536];
		ssize_t n = pread(fd, piece, MIN(sizeof(piece), max - b->len), (off_t)b->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		r = buf_add(b, piece, (size_t)n);
	}
	return r;
}

struct line_range {
	const char *start; /* first byte of the first line wanted */
	const char *end;
	int64_t total; /* lines of the file */
	int64_t last;  /* last line of the range that exists; 0 = there is none */
};

/* The begin of the line that is N lines behind P. It looks at each byte: a search for the next line end
 * costs many times more in a file of empty lines, and everybody waits meanwhile. */
static const char *skip_lines(const char *p, const char *end, int64_t n)
{
	while (p < end && n > 0)
		n -= *p++ == '\n';
	return p;
}

static int64_t count_lines(const char *text, size_t len)
{
	int64_t n = len > 0 && text[len - 1] != '\n';

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

static struct line_range find_lines(const char *text, size_t len, int64_t first, int64_t last)
{
	const int64_t total = count_lines(text, len);
	const char *start = skip_lines(text, text + len, first - 1);

	return (struct line_range){
	    .start = start,
	    .end = skip_lines(start, text + len, last - first + 1),
	    .total = total,
	    .last = first <= total ? MIN(last, total) : 0,
	};
}

/* Adds the lines as they are in the file. Invalid UTF-8 is replaced only after the cut, so that the rest of
 * a large file costs nothing. */
static int add_lines(struct read_call *c, struct buf *out, const struct buf *text, uint64_t size)
{
	const int64_t last = c->last > 0                        ? c->last
			     : c->first > INT64_MAX - LINES_MAX ? INT64_MAX
								: c->first + LINES_MAX - 1;
	const struct line_range range = find_lines(buf_str(text), text->len, c->first, last);
	const unsigned read = *c->decoded.charset ? DECODE_MAX : SCAN_MAX;
	char path[sizeof(TOOLS_WORKSPACE) + ENGINE_PATH_MAX];
	const int len = snprintf(path, sizeof(path), TOOLS_WORKSPACE "%s", c->path);
	int r = text_add_name(out, path, (size_t)len);
	r = r < 0 ? r
	    : c->first > range.total && range.total > 0
		? buf_printf(out, ": it has no line %jd, only %jd", (intmax_t)c->first,
			     (intmax_t)range.total)
		: buf_printf(out, ": lines %jd-%jd of %jd", (intmax_t)MIN(c->first, range.last),
			     (intmax_t)range.last, (intmax_t)range.total);
	if (r == 0 && size > read)
		r = buf_printf(out, " (counted in the first %u MiB)", read >> 20);
	r = r < 0 ? r : buf_printf(out, ", %ju byte%s\n", (uintmax_t)size, text_s(size));
	if (r == 0 && *c->decoded.charset)
		r = buf_printf(
		    out,
		    "The file is not UTF-8. It was decoded as %s (%u %% sure): open(path, "
		    "encoding=\"%s\") reads it.\n",
		    c->decoded.charset, c->decoded.sure, c->decoded.charset);
	else if (r == 0 && c->foreign)
		r = buf_add_str(out, "The file is not UTF-8, and its encoding is not known. Bytes "
				     "that could not be decoded are shown as \xEF\xBF\xBD.\n");
	return r < 0 ? r
		     : extras_add_cut(out, range.start, (size_t)(range.end - range.start),
				      c->most_text,
				      "ask for fewer lines with start_line and end_line");
}

static int write_lines(struct read_call *c, const struct buf *text)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(c->most_text + ENGINE_PATH_MAX + 1024);
	int r = add_lines(c, &out, text, c->size);

	buf_init(&c->text, out.max * 3);
	/* The file and its name may have invalid UTF-8. */
	return r < 0 ? r : text_add_utf8_lossy(&c->text, buf_str(&out), out.len);
}

/* On a thread. A text that is not UTF-8 gets no lines before the sandbox was asked to decode it. */
static int load_lines(struct read_call *c)
{
	_cleanup_(buf_done) struct buf text = {0};
	int r = read_bytes(c->fd, c->size, SCAN_MAX, &text);

	c->foreign = r == 0 && !decode_is_utf8(&text, SCAN_MAX);
	return r < 0 || (c->foreign && !c->asked) ? r : write_lines(c, &text);
}

static void finish_lines(struct read_call *c)
{
	struct mcp_call *call = c->base.call;
	json_t *content =
	    c->error < 0 ? NULL : mcp_blocks(1, mcp_text(buf_str(&c->text), c->text.len));

	mcp_call_keep_note(call, sandbox_id(c->base.sandbox));
	read_call_free(c);
	mcp_call_finish(call, content ? mcp_tool_result(content, NULL, false) : NULL);
}

/* ---- text in another encoding ---- */

static void on_loaded(void *user);
static void load(void *user);

/* On a thread. */
static void load_decoded(void *user)
{
	struct read_call *c = user;

	buf_consume(&c->decoded.text, c->decoded.head);
	c->error = write_lines(c, &c->decoded.text);
}

static void on_decoded(struct decoded *found, void *user)
{
	struct read_call *c = user;
	struct err error = ERR_INIT;

	if (found)
		c->decoded = *found;
	const int r =
	    workers_run(sandbox_owner(c->base.sandbox), found ? load_decoded : load, on_loaded, c);
	if (r < 0) {
		(void)workers_refused(r, &error);
		fail(c, &error);
	}
}

static void decode_lines(struct read_call *c)
{
	c->asked = true;
	decode_text(c->base.sandbox, c->path, on_decoded, c);
}

/* ---- base64 ---- */

/* On a thread. */
static int load_base64(struct read_call *c)
{
	_cleanup_(buf_done) struct buf data = {0};
	int r = read_bytes(c->fd, c->size, (size_t)c->size + 1, &data);
	_cleanup_free_ char *text = malloc(BASE64_ENCODED_LEN(data.len) + 1);

	if (r < 0 || !text)
		return r < 0 ? r : -ENOMEM;
	base64_encode((const uint8_t *)buf_str(&data), data.len, text);
	c->encoded = json_stringn_nocheck(text, BASE64_ENCODED_LEN(data.len));
	return c->encoded ? 0 : -ENOMEM;
}

/* The answer has the base64 twice: as text and as structured content. False: the call is finished. */
static bool fits_base64(struct read_call *c)
{
	const struct tools *t = c->base.tools;

	if (c->size <= t->config.max_read_bytes &&
	    tools_fits_answer(t, c->base.call, 2 * BASE64_ENCODED_LEN(c->size) + WORDS_MAX))
		return true;
	extras_fail(c->base.call, "artifact_too_large",
		    "Give its link to the person, or read parts of it with code.",
		    "/mnt/data/%s has %ju byte%s, too many for one answer", c->path,
		    (uintmax_t)c->size, text_s(c->size));
	read_call_free(c);
	return false;
}

static json_t *base64_result(json_t *object)
{
	const json_t *data = json_object_get(object, MCP_BASE64_KEY);
	const size_t len = json_string_length(data);
	_cleanup_(buf_done) struct buf b = BUF_INIT(len + WORDS_MAX + 8 * ENGINE_PATH_MAX);
	int r = object ? extras_add_file_line(&b, object) : -ENOMEM;

	r = r < 0 ? r : buf_add(&b, json_string_value(data), len);
	json_t *content = r < 0 ? NULL : mcp_blocks(1, mcp_text(buf_str(&b), b.len));
	json_t *result =
	    content ? mcp_tool_result(content, json_pack("{s:O}", "result", object), false) : NULL;
	json_decref(object);
	return result;
}

static void finish_base64(struct read_call *c)
{
	struct mcp_call *call = c->base.call;
	json_t *object = c->error < 0 ? NULL
				      : extras_json_answer(c->base.tools, c->base.call,
							   c->base.sandbox, c->path, c->size);

	if (json_object_set_new(object, MCP_BASE64_KEY, TAKE_PTR(c->encoded)) < 0) {
		json_decref(object);
		object = NULL;
	}
	mcp_call_keep_note(call, sandbox_id(c->base.sandbox));
	read_call_free(c);
	mcp_call_finish_made(call, object, base64_result);
}

/* ---- pictures ---- */

static void on_made(json_t *block, unsigned pages UNUSED, void *user)
{
	struct read_call *c = user;

	if (block)
		finish_file(c, "", mcp_blocks(1, block));
	else
		finish_undrawn(c, c->kind == KIND_PICTURE);
}

static void make_picture(struct read_call *c, enum picture_form form)
{
	struct err e = ERR_INIT;

	if (c->size > PICTURE_FILE_MAX || c->most < PICTURE_LEAST)
		finish_undrawn(c, c->kind == KIND_PICTURE);
	else if (picture_make(c->base.sandbox, c->path, form, 0, c->most, on_made, c, &e) < 0)
		fail(c, &e);
}

static void show_picture(struct read_call *c)
{
	if (c->picture)
		finish_file(c, "", mcp_blocks(1, TAKE_PTR(c->picture)));
	else
		make_picture(c, PICTURE_RASTER);
}

/* ---- pages ---- */

static void page_next(struct read_call *c);

static void pages_end(struct read_call *c)
{
	char note[200] = "";
	const unsigned shown = (unsigned)json_array_size(c->blocks);

	if (shown == 0 && c->pages > 0 && (unsigned)c->first > c->pages) {
		extras_fail(c->base.call, "invalid_argument",
			    "start_line is its first page to show.", "The document has %u pages",
			    c->pages);
		read_call_free(c);
		return;
	}
	if (shown == 0) {
		finish_undrawn(c, false);
		return;
	}
	(void)snprintf(note, sizeof(note), "Pages %jd-%jd of %u. %s", (intmax_t)c->first,
		       (intmax_t)c->first + shown - 1, MAX(c->pages, shown),
		       (unsigned)c->first + shown - 1 < c->pages
			   ? "For others give start_line and end_line; for the text use code."
			   : "For the text use code.");
	finish_file(c, note, TAKE_PTR(c->blocks));
}

static void on_page(json_t *block, unsigned pages, void *user)
{
	struct read_call *c = user;

	c->pages = MAX(c->pages, pages);
	c->room -= MIN(json_string_length(json_object_get(block, "data")) / 4 * 3, c->room);
	if (!block || json_array_append_new(c->blocks, block) < 0) {
		pages_end(c);
		return;
	}
	c->page++;
	page_next(c);
}

static void page_next(struct read_call *c)
{
	struct err e = ERR_INIT;

	/* Those that may still come share the room. */
	const int64_t last = c->pages > 0 ? MIN(c->last, (int64_t)c->pages) : c->last;
	const size_t left = (size_t)MIN(MAX(last - c->page + 1, (int64_t)0),
					(int64_t)(EXTRAS_IMAGES_MAX - json_array_size(c->blocks)));

	c->most = left == 0 ? 0 : picture_share(&c->room, 1, c->room / left);
	if (c->most < PICTURE_LEAST) {
		pages_end(c);
		return;
	}
	if (picture_make(c->base.sandbox, c->path, PICTURE_PDF, c->page, c->most, on_page, c, &e) <
	    0)
		fail(c, &e);
}

static void show_pages(struct read_call *c)
{
	if (c->size > PICTURE_FILE_MAX) {
		finish_undrawn(c, false);
		return;
	}
	c->blocks = json_array();
	c->first = MIN(c->first, (int64_t)PAGE_MAX);
	c->last = c->last > 0 ? MIN(c->last, (int64_t)PAGE_MAX) : PAGE_MAX;
	c->page = (unsigned)c->first;
	page_next(c);
}

/* ---- the call ---- */

static int load_picture(struct read_call *c)
{
	_cleanup_(buf_done) struct buf data = {0};
	int r = read_bytes(c->fd, c->size, c->most, &data);

	c->picture = r < 0 ? NULL : extras_image_block(buf_str(&data), data.len);
	return r;
}

/* On a thread: everything that needs the file itself. */
static void load(void *user)
{
	struct read_call *c = user;
	uint8_t look[LOOK_MAX];

	if (c->base64) {
		c->error = load_base64(c);
	} else {
		const ssize_t n = pread(c->fd, look, sizeof(look), 0);

		c->kind = file_kind_of(c->path, look, n < 0 ? 0 : (size_t)n);
		if (c->kind == KIND_SVG && c->as_text)
			c->kind = KIND_TEXT;
		if (c->kind == KIND_TEXT)
			c->error = load_lines(c);
		else if (c->kind == KIND_PICTURE && c->size <= c->most)
			c->error = load_picture(c);
	}
	/* A text that is not UTF-8 is read again if the sandbox cannot decode it. */
	if (!c->foreign || c->asked)
		c->fd = fd_close(c->fd);
}

static void on_loaded(void *user)
{
	struct read_call *c = user;

	loop_work("file", "was read");
	if (c->base64) {
		finish_base64(c);
		return;
	}
	switch (c->kind) {
	case KIND_TEXT:
		if (c->foreign && !c->asked)
			decode_lines(c);
		else
			finish_lines(c);
		return;
	case KIND_PICTURE:
		show_picture(c);
		return;
	case KIND_RASTER:
		make_picture(c, PICTURE_RASTER);
		return;
	case KIND_SVG:
		make_picture(c, PICTURE_SVG);
		return;
	case KIND_PDF:
		show_pages(c);
		return;
	case KIND_OTHER:
		finish_other(c);
		return;
	}
}

/* A folder is listed: whoever asks for one wants to see what is in it. */
static void no_file(struct read_call *c)
{
	struct err error = ERR_INIT;

	(void)err_set(&error, ERR_NOT_FOUND, 0, "There is no file /mnt/data/%s", c->path);
	extras_list_folder(c->base.tools, c->base.call, c->base.sandbox, c->path, &error);
	read_call_free(c);
}

static void on_open(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct read_call *c = user;
	struct err error = ERR_INIT;

	c->fd = fd;
	if (e && e->code == ERR_NOT_FOUND) {
		no_file(c);
		return;
	}
	if (e) {
		fail(c, e);
		return;
	}
	c->size = info->size;
	c->room = tools_answer_room(c->base.tools, c->base.call, WORDS_MAX);
	c->most = picture_share(&c->size, 1, c->room);
	if (c->base64 && !fits_base64(c))
		return;
	const int r = workers_run(sandbox_owner(c->base.sandbox), load, on_loaded, c);
	if (r < 0) {
		(void)workers_refused(r, &error);
		fail(c, &error);
	}
}

void extras_read_file(struct mcp_call *call, json_t *arguments, void *user)
{
	char path[ENGINE_PATH_MAX];
	int64_t first = 1, last = 0;
	struct err e = ERR_INIT;

	struct sandbox *s = extras_session(user, call, arguments);
	if (s && extras_is_root(mcp_text_arg(call, arguments, "path"))) {
		extras_list_folder(user, call, s, "", NULL);
		return;
	}
	if (!s || !extras_path(call, arguments, path))
		return;
	bool has_last = args_int(arguments, "end_line", &last);
	bool has_first = args_int(arguments, "start_line", &first);
	if (has_last && last < first) {
		extras_fail(call, "invalid_argument", "The first line is line 1.",
			    "end_line must not be before start_line");
		return;
	}
	struct read_call *c = tool_call_new(user, call, s, sizeof(*c));
	if (!c)
		return;
	c->fd = -1;
	c->most_text = c->base.tools->config.result_chars;
	c->first = first;
	c->last = last;
	c->as_text = has_first || has_last;
	c->base64 = args_bool(arguments, "base64", false);
	memcpy(c->path, path, sizeof(path));
	if (sandbox_open_file(s, c->path, on_open, c, &e) < 0)
		fail(c, &e);
}
