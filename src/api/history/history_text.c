/* SPDX-License-Identifier: Apache-2.0 */
#include "api/history/history_text.h"

#include "api/history/history_results.h"
#include "api/json_reply.h"
#include "base/base64.h"
#include "base/json_text.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES   (1u << 20)
#define TEXT_BYTES   (256u << 10)
#define LANGUAGE_MAX 32u

static const char *const picture_types[] = {"image/png", "image/jpeg", "image/gif", "image/webp",
					    "image/svg+xml"};

static const char *meta_of(const struct store_cell *cell)
{
	return cell->meta && *cell->meta ? cell->meta : "{}";
}

static struct json_piece meta_find(const struct store_cell *cell, const char *key)
{
	return json_find(meta_of(cell), strlen(meta_of(cell)), key);
}

/* ---- files ---- */

struct file {
	char name[HISTORY_NAME_SIZE]; /* "": there is none */
	const char *type;             /* of a picture whose bytes are kept; else NULL */
};

static const char *picture_type(const char *name)
{
	const char *type = mime_type(name);

	for (size_t i = 0; i < ARRAY_SIZE(picture_types); i++)
		if (streq(type, picture_types[i]))
			return type;
	return NULL;
}

/* What a member of `files` says. */
static void read_file(const struct json_piece *p, struct file *ret)
{
	_cleanup_(buf_done) struct buf name = BUF_INIT(sizeof(ret->name) - 1);
	const struct json_piece text = json_find(p->data, p->len, "name");
	const struct json_piece kept = json_find(p->data, p->len, "kept");

	*ret = (struct file){0};
	if (json_piece_text(&text, &name) < 0)
		return;
	memcpy(ret->name, buf_str(&name), name.len + 1);
	ret->type = json_piece_is(&kept, "true") ? picture_type(ret->name) : NULL;
}

/* Appends its bytes in base64, or as they are. 0: they are not kept. */
static int add_bytes(struct buf *b, struct store *reading, const struct store_cell *cell,
		     const char *name, bool plain)
{
	_cleanup_(buf_done) struct buf data = BUF_INIT(FILE_BYTES);
	struct err e = ERR_INIT;

	if (store_cell_file(reading, cell->seq, name, &data, &e) <= 0)
		return 0;
	if (plain)
		return text_is_utf8(buf_str(&data), data.len)
			   ? (buf_add(b, buf_str(&data), data.len) < 0 ? -ENOMEM : 1)
			   : 0;
	if (buf_reserve(b, BASE64_ENCODED_LEN(data.len) + 1) < 0)
		return -ENOMEM;
	base64_encode((const uint8_t *)buf_str(&data), data.len, b->data + b->len);
	b->len += BASE64_ENCODED_LEN(data.len);
	b->data[b->len] = '\0';
	return 1;
}

/* ---- notebook ---- */

static int add_comma(struct buf *b, bool *first)
{
	int r = *first ? 0 : buf_add_char(b, ',');

	*first = false;
	return r;
}

/* Jupyter's lists of lines are optional: one string is valid, too. */
static int add_stream(struct buf *b, const char *name, const char *text, size_t len, bool *first)
{
	if (len == 0)
		return 0;
	int r = add_comma(b, first);
	r = r < 0 ? r : buf_printf(b, "{\"output_type\":\"stream\",\"name\":\"%s\"", name);
	r = r < 0 ? r : json_text_key(b, "text");
	r = r < 0 ? r : json_text_add(b, text, len);
	return r < 0 ? r : buf_add_char(b, '}');
}

/* What tracebacks of the session call the code of CELL, as JSON: a number, or null. */
static struct json_piece number_of(const struct store_cell *cell)
{
	static const struct json_piece none = {"null", 4};
	const struct json_piece p = meta_find(cell, "number");

	return p.len > 0 ? p : none;
}

static int add_value(struct buf *b, const struct store_cell *cell,
		     const struct history_shown *shown, bool *first)
{
	const struct json_piece number = number_of(cell);
	const char *text = cell->value;

	if (!text || !*text)
		return 0;
	int r = add_comma(b, first);
	r = r < 0 ? r
		  : buf_printf(b,
			       "{\"output_type\":\"execute_result\",\"execution_count\":%.*s,"
			       "\"metadata\":{},\"data\":{",
			       (int)number.len, number.data);
	r = r < 0 ? r : history_shown_bundle(b, shown, text);
	return r < 0 ? r : buf_add_str(b, "}}");
}

static int add_display(struct buf *b, const struct history_shown *s, bool *first)
{
	_cleanup_(buf_done) struct buf data = BUF_INIT(4 * FILE_BYTES);
	int r = history_shown_bundle(&data, s, NULL);

	if (r < 0 || data.len == 0)
		return r;
	r = add_comma(b, first);
	r = r < 0 ? r
		  : buf_add_str(b, "{\"output_type\":\"display_data\",\"metadata\":{},\"data\":{");
	r = r < 0 ? r : buf_add(b, buf_str(&data), data.len);
	return r < 0 ? r : buf_add_str(b, "}}");
}

static int add_picture(struct buf *b, struct store *reading, const struct store_cell *cell,
		       const struct file *f, bool *first)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(2 * FILE_BYTES);
	int r = add_bytes(&text, reading, cell, f->name, streq(f->type, "image/svg+xml"));

	if (r <= 0)
		return r;
	r = add_comma(b, first);
	r = r < 0 ? r
		  : buf_add_str(b, "{\"output_type\":\"display_data\",\"metadata\":{},\"data\":{");
	r = r < 0 ? r : json_text_member(b, f->type, buf_str(&text));
	r = r < 0 ? r : json_text_member(b, "text/plain", f->name);
	return r < 0 ? r : buf_add_str(b, "}}");
}

/* It stands where it was shown; the value of the last expression stands at the end. */
static bool is_placed(const struct history_results *results, const struct file *f,
		      const struct history_shown *last)
{
	return !streq(f->name, last->file) && history_results_have_file(results, f->name);
}

static int add_outputs(struct buf *b, struct store *reading, const struct store_cell *cell)
{
	const struct json_piece files = meta_find(cell, "files");
	const char *out = cell->out ? cell->out : "", *err = cell->err ? cell->err : "";
	const size_t len = strlen(out);
	_cleanup_(history_results_done) struct history_results results;
	struct history_shown s = {0}, last = {0};
	struct json_piece key, value;
	struct json_walk w;
	struct file f;
	bool first = true;
	size_t at = 0;
	int r = 0;

	history_results_begin(&results, reading, cell);
	while (r >= 0 && history_results_next(&results, len, &s)) {
		if (s.clears) {
			at = s.offset;
			continue;
		}
		if (s.is_result) {
			last = s;
			continue;
		}
		r = add_stream(b, "stdout", out + at, s.offset - at, &first);
		at = s.end;
		f = (struct file){.type = *s.file ? picture_type(s.file) : NULL};
		memcpy(f.name, s.file, sizeof(s.file));
		if (r == 0)
			r = f.type ? add_picture(b, reading, cell, &f, &first)
				   : add_display(b, &s, &first);
	}
	r = r < 0 ? r : add_stream(b, "stdout", out + at, len - at, &first);
	r = r < 0 ? r : add_stream(b, "stderr", err, strlen(err), &first);
	r = r < 0 ? r : add_value(b, cell, &last, &first);
	if (r < 0 || !json_walk_begin(&w, files.data, files.len))
		return r;
	while (r >= 0 && json_walk_next(&w, &key, &value)) {
		read_file(&value, &f);
		r = f.type && !is_placed(&results, &f, &last)
			? add_picture(b, reading, cell, &f, &first)
			: 0;
	}
	return r;
}

static bool is_markdown(const struct store_cell *cell)
{
	const struct json_piece kind = meta_find(cell, "kind");

	return json_piece_is(&kind, "\"" MARKDOWN_KIND "\"");
}

static int add_markdown(struct buf *b, const struct store_cell *cell)
{
	int r = buf_printf(b, "{\"cell_type\":\"markdown\",\"id\":\"c%" PRIu64 "\",\"metadata\":{}",
			   cell->seq);

	r = r < 0 ? r : json_text_member(b, "source", cell->code ? cell->code : "");
	return r < 0 ? r : buf_add_char(b, '}');
}

/* A cell of another language than the notebook's begins with a line that says which; it runs here like that, too. */
static int add_language(struct buf *b, const struct store_cell *cell)
{
	_cleanup_(buf_done) struct buf name = BUF_INIT(LANGUAGE_MAX);
	const struct json_piece language = meta_find(cell, "language");

	return language.len > 0 && json_piece_text(&language, &name) == 0
		   ? buf_printf(b, "%%%%%s\n", buf_str(&name))
		   : 0;
}

static int add_notebook(struct buf *b, struct store *reading, const struct store_cell *cell)
{
	const struct json_piece number = number_of(cell);
	_cleanup_(buf_done) struct buf source = BUF_INIT(TEXT_BYTES);
	const struct json_piece kind = meta_find(cell, "kind");
	int r = json_piece_is(&kind, "\"command\"") ? buf_add_str(&source, "%%bash\n")
						    : add_language(&source, cell);

	r = r < 0 || !cell->code ? r : buf_add_str(&source, cell->code);
	r = r < 0 ? r
		  : buf_printf(b,
			       "{\"cell_type\":\"code\",\"id\":\"c%" PRIu64
			       "\",\"execution_count\":%.*s,\"metadata\":{\"caisson\":%s}",
			       cell->seq, (int)number.len, number.data, meta_of(cell));
	r = r < 0 ? r : json_text_member(b, "source", buf_str(&source));
	r = r < 0 ? r : buf_add_str(b, ",\"outputs\":[");
	r = r < 0 ? r : add_outputs(b, reading, cell);
	return r < 0 ? r : buf_add_str(b, "]}");
}

/* ---- page ---- */

/* Escapes TEXT, without the control sequences of terminals. */
int history_text_html(struct buf *b, const char *text)
{
	int r = 0;

	for (const char *p = text ? text : ""; *p && r == 0;) {
		const size_t plain = strcspn(p, "\033");

		r = text_add_html(b, p, plain, true);
		p += plain;
		if (*p == '\0')
			break;
		p++;
		if (*p != '[')
			continue;
		p++;
		while (*p && (*p < '@' || *p > '~'))
			p++;
		p += *p != '\0';
	}
	return r;
}

static int add_block_part(struct buf *b, const char *class, const char *text, size_t len)
{
	_cleanup_free_ char *part = len > 0 ? strndup(text, len) : NULL;
	int r = part ? buf_printf(b, "<pre class=\"%s\">", class) : len > 0 ? -ENOMEM : 0;

	if (r < 0 || !part)
		return r;
	r = history_text_html(b, part);
	return r < 0 ? r : buf_add_str(b, "</pre>\n");
}

static int add_block(struct buf *b, const char *class, const char *text)
{
	return text ? add_block_part(b, class, text, strlen(text)) : 0;
}

static int add_page_file(struct buf *b, struct store *reading, const struct store_cell *cell,
			 const struct file *f)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(2 * FILE_BYTES);
	int got = f->type ? add_bytes(&text, reading, cell, f->name, false) : 0;
	int r = got < 0 ? got : buf_add_str(b, "<figure>");

	if (got > 0) {
		r = r < 0 ? r : buf_printf(b, "<img alt=\"\" src=\"data:%s;base64,", f->type);
		r = r < 0 ? r : buf_add(b, buf_str(&text), text.len);
		r = r < 0 ? r : buf_add_str(b, "\">");
	}
	r = r < 0 ? r : buf_add_str(b, "<figcaption>");
	r = r < 0 ? r : history_text_html(b, f->name);
	return r < 0 ? r : buf_add_str(b, "</figcaption></figure>\n");
}

/* The string KEY of OBJECT, escaped. */
static int add_member(struct buf *b, const struct json_piece *object, const char *key)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_BYTES);
	const struct json_piece p = json_find(object->data, object->len, key);

	if (json_piece_text(&p, &text) < 0)
		return 0;
	return history_text_html(b, buf_str(&text));
}

static int add_number(struct buf *b, const struct json_piece *meta, const char *key)
{
	const struct json_piece p = json_find(meta->data, meta->len, key);

	return buf_printf(b, "%.*s", p.len > 0 ? (int)MIN(p.len, (size_t)20) : 1,
			  p.len > 0 ? p.data : "0");
}

static int add_head(struct buf *b, const struct store_cell *cell, const struct json_piece *meta)
{
	const struct json_piece by = json_find(meta->data, meta->len, "asked_by");
	const struct json_piece name = json_find(by.data, by.len, "name");
	const struct json_piece number = json_find(meta->data, meta->len, "number");
	char at[API_TIME_SIZE];
	int r = buf_add_str(b, "<section><h2>");

	if (r == 0 && number.len > 0)
		r = buf_printf(b, "[%.*s] ", (int)number.len, number.data);
	r = r < 0 ? r : buf_printf(b, "<small>%s &middot; ", api_time(cell->started_ms, at));
	r = r < 0 ? r : add_number(b, meta, "duration_ms");
	r = r < 0 ? r : buf_add_str(b, " ms &middot; ");
	r = r < 0 ? r : add_member(b, &by, name.len > 2 ? "name" : "how");
	r = r < 0 ? r : buf_add_str(b, " &middot; ");
	r = r < 0 ? r : add_member(b, meta, "reason");
	r = r < 0 ? r : buf_add_char(b, ' ');
	r = r < 0 ? r : add_number(b, meta, "exit_code");
	return r < 0 ? r : buf_add_str(b, "</small></h2>\n");
}

static int add_error(struct buf *b, const struct json_piece *meta)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_BYTES);
	const struct json_piece p = json_find(meta->data, meta->len, "error");

	return json_piece_text(&p, &text) < 0 ? 0 : add_block(b, "err", buf_str(&text));
}

/* Stdout with what was shown between it. RET_VALUE: the last expression was shown, too. */
static int add_page_output(struct buf *b, struct store *reading, const struct store_cell *cell,
			   struct history_results *results, struct history_shown *ret_last)
{
	const char *out = cell->out ? cell->out : "";
	const size_t len = strlen(out);
	struct history_shown s = {0};
	size_t at = 0;
	int r = 0;

	while (r >= 0 && history_results_next(results, len, &s)) {
		if (s.clears) {
			at = s.offset;
			continue;
		}
		if (s.is_result) {
			*ret_last = s;
			continue;
		}
		r = add_block_part(b, "out", out + at, s.offset - at);
		at = s.end;
		struct file f = {.type = *s.file ? picture_type(s.file) : NULL};
		memcpy(f.name, s.file, sizeof(s.file));
		if (r == 0 && *s.file) {
			r = add_page_file(b, reading, cell, &f);
		} else if (r == 0) {
			r = history_shown_page(b, &s);
			r = r == 0 ? add_block_part(b, "value", out + s.offset, s.end - s.offset)
				   : r;
		}
	}
	return r < 0 ? r : add_block_part(b, "out", out + at, len - at);
}

static int add_page(struct buf *b, struct store *reading, const struct store_cell *cell)
{
	const struct json_piece meta = {meta_of(cell), strlen(meta_of(cell))};
	const struct json_piece files = meta_find(cell, "files");
	struct json_piece key, value;
	struct json_walk w;
	struct file f;
	_cleanup_(history_results_done) struct history_results results;
	struct history_shown last = {0};

	if (is_markdown(cell))
		return add_block(b, "note", cell->code);
	int r = add_head(b, cell, &meta);
	r = r < 0 ? r : add_block(b, "code", cell->code);
	history_results_begin(&results, reading, cell);
	r = r < 0 ? r : add_page_output(b, reading, cell, &results, &last);
	r = r < 0 ? r : add_block(b, "err", cell->err);
	const int shown = r < 0 ? 0 : history_shown_page(b, &last);
	r = shown < 0 ? shown : r;
	r = r < 0 || shown > 0 ? r : add_block(b, "value", cell->value);
	r = r < 0 ? r : add_error(b, &meta);
	if (json_walk_begin(&w, files.data, files.len))
		while (r >= 0 && json_walk_next(&w, &key, &value)) {
			read_file(&value, &f);
			r = is_placed(&results, &f, &last) ? 0
							   : add_page_file(b, reading, cell, &f);
		}
	return r < 0 ? r : buf_add_str(b, "</section>\n");
}

int history_text_name(struct buf *b, const struct store_cell *cell)
{
	const struct json_piece name = meta_find(cell, "sandbox_name");

	if (cell->name)
		return buf_add_str(b, cell->name);
	const int r = json_piece_text(&name, b);
	return r == -ENOMEM || r == -ENOBUFS ? r : 0;
}

/* ---- object ---- */

static const char *stream_text(const struct store_cell *cell, const struct json_piece *key)
{
	const char *const names[] = {"stdout", "stderr", "value"};
	const char *const texts[] = {cell->out, cell->err, cell->value};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (json_piece_is(key, names[i]))
			return texts[i] ? texts[i] : "";
	return NULL;
}

/* Members of the row and of its `meta`; the texts of the streams stand in the row. */
static int add_cell(struct buf *b, const struct store_cell *cell)
{
	const char *meta = meta_of(cell);
	char at[API_TIME_SIZE], key_text[64];
	struct json_piece key, value;
	struct json_walk w;
	int r = json_text_open(b);

	r = r < 0 ? r
		  : json_text_members(b, "issssss", "seq", (int64_t)cell->seq, "place", cell->place,
				      "run", cell->run, "sandbox", cell->sandbox, "owner",
				      cell->owner, "code", cell->code ? cell->code : "",
				      "started_at", api_time(cell->started_ms, at));
	if (json_walk_begin(&w, meta, strlen(meta)))
		while (r == 0 && json_walk_next(&w, &key, &value)) {
			const char *text = *value.data == '{' ? stream_text(cell, &key) : NULL;

			(void)snprintf(key_text, sizeof(key_text), "%.*s", (int)MIN(key.len, 60u),
				       key.data);
			if (cell->name && streq(key_text, "sandbox_name")) {
				r = json_text_member(b, key_text, cell->name);
				continue;
			}
			r = json_text_key(b, key_text);
			r = r < 0 ? r : buf_add(b, value.data, value.len - (text ? 1 : 0));
			r = r < 0 || !text ? r : json_text_member(b, "text", text);
			r = r < 0 || !text ? r : buf_add_char(b, '}');
		}
	return r < 0 ? r : buf_add_char(b, '}');
}

int history_text_add(struct buf *b, enum history_form form, struct store *reading,
		     const struct store_cell *cell)
{
	switch (form) {
	case HISTORY_NOTEBOOK:
		return is_markdown(cell) ? add_markdown(b, cell) : add_notebook(b, reading, cell);
	case HISTORY_PAGE:
		return add_page(b, reading, cell);
	case HISTORY_CELL:
		return add_cell(b, cell);
	}
	return 0;
}
