/* SPDX-License-Identifier: Apache-2.0 */
/* The history of a sandbox as a file: a notebook of Jupyter (nbformat 4.5), or one page for reading that loads nothing.
 *
 * Everything in it comes from tenants: text is escaped, pictures are data: URLs of the types below, and HTML files are
 * named but not included. At most EXPORT_CELLS cells and EXPORT_BYTES; what is left out is said. */
#include "api/rest.h"

#include "base/base64.h"
#include "base/jsonio.h"
#include "base/text.h"

#include <string.h>

#define EXPORT_CELLS 2000u
#define EXPORT_BYTES (16u << 20)
#define FILE_BYTES   (1u << 20)

static const char *const picture_types[] = {"image/png", "image/jpeg", "image/gif", "image/webp",
					    "image/svg+xml"};

struct export
{
	struct rest_call *call;
	const char *id;
	struct buf out;
	json_t *cells; /* of a notebook */
	size_t n;
	bool html, cut, failed;
};

/* ---- pictures ---- */

static const char *picture_type(const char *name)
{
	const char *type = mime_type(name);

	for (size_t i = 0; i < ARRAY_SIZE(picture_types); i++)
		if (streq(type, picture_types[i]))
			return type;
	return NULL;
}

/* The file NAME of CELL in base64; NULL: it is not kept. Owned. */
static char *picture_text(struct export *x, const struct store_cell *cell, const char *name,
			  bool plain)
{
	_cleanup_(buf_done) struct buf data = BUF_INIT(FILE_BYTES);
	struct err e = ERR_INIT;

	if (store_cell_file(x->call->api->config.store, cell->seq, name, &data, &e) <= 0)
		return NULL;
	if (plain)
		return text_is_utf8(buf_str(&data), data.len) ? buf_take(&data) : NULL;
	char *text = malloc(BASE64_ENCODED_LEN(data.len) + 1);
	if (text) {
		base64_encode((const uint8_t *)buf_str(&data), data.len, text);
		text[BASE64_ENCODED_LEN(data.len)] = '\0';
	}
	return text;
}

/* ---- notebook ---- */

/* Jupyter's lists of lines are optional: one string is valid, too. */
static json_t *stream_json(const char *name, const char *text)
{
	return json_pack("{s:s, s:s, s:s}", "output_type", "stream", "name", name, "text", text);
}

static void add_pictures(struct export *x, const struct store_cell *cell, const json_t *files,
			 json_t *outputs)
{
	size_t i;
	json_t *f;

	json_array_foreach(files, i, f) {
		const char *name = json_string_value(json_object_get(f, "name"));
		const char *type = name ? picture_type(name) : NULL;
		_cleanup_free_ char *text =
		    type && json_is_true(json_object_get(f, "kept"))
			? picture_text(x, cell, name, streq(type, "image/svg+xml"))
			: NULL;

		if (text)
			(void)json_array_append_new(
			    outputs,
			    json_pack("{s:s, s:{}, s:{s:s, s:s}}", "output_type", "display_data",
				      "metadata", "data", type, text, "text/plain", name));
	}
}

static json_t *outputs_json(struct export *x, const struct store_cell *cell, const json_t *files)
{
	json_t *outputs = json_array();

	if (cell->out && cell->out[0])
		(void)json_array_append_new(outputs, stream_json("stdout", cell->out));
	if (cell->err && cell->err[0])
		(void)json_array_append_new(outputs, stream_json("stderr", cell->err));
	if (cell->value && cell->value[0])
		(void)json_array_append_new(
		    outputs, json_pack("{s:s, s:I, s:{}, s:{s:s}}", "output_type", "execute_result",
				       "execution_count", (json_int_t)x->n, "metadata", "data",
				       "text/plain", cell->value));
	add_pictures(x, cell, files, outputs);
	return outputs;
}

static bool is_command(const json_t *meta)
{
	const char *kind = json_string_value(json_object_get(meta, "kind"));

	return kind && streq(kind, "command");
}

static void add_notebook_cell(struct export *x, const struct store_cell *cell, json_t *meta)
{
	_cleanup_(buf_done) struct buf source = BUF_INIT(EXPORT_BYTES);
	char id[STORE_WORD_SIZE + 24];
	int r = is_command(meta) ? buf_add_str(&source, "%%bash\n") : 0;

	r = r < 0 || !cell->code ? r : buf_add_str(&source, cell->code);
	(void)snprintf(id, sizeof(id), "c%ju", (uintmax_t)cell->seq);
	json_t *outputs = outputs_json(x, cell, json_object_get(meta, "files"));
	json_t *o = json_pack("{s:s, s:s, s:I, s:{s:O}, s:s, s:o}", "cell_type", "code", "id", id,
			      "execution_count", (json_int_t)x->n, "metadata", "caisson", meta,
			      "source", r < 0 ? "" : buf_str(&source), "outputs", outputs);
	if (!o || json_array_append_new(x->cells, o) < 0)
		x->failed = true;
}

static int end_notebook(struct export *x)
{
	static const char left_out[] =
	    "*The history is longer than one file may be; newer runs are left out.*";

	if (x->cut)
		(void)json_array_append_new(
		    x->cells, json_pack("{s:s, s:s, s:{}, s:s}", "cell_type", "markdown", "id",
					"left-out", "metadata", "source", left_out));
	json_t *all = json_pack("{s:i, s:i, s:{s:{s:s, s:s, s:s}, s:{s:s}}, s:O}", "nbformat", 4,
				"nbformat_minor", 5, "metadata", "kernelspec", "name", "python3",
				"display_name", "Python 3", "language", "python", "language_info",
				"name", "python", "cells", x->cells);
	int r = all ? jsonio_add(&x->out, all, JSON_INDENT(1)) : -ENOMEM;
	json_decref(all);
	return r;
}

/* ---- page ---- */

/* Escapes TEXT, without the control sequences of terminals. */
static int add_html(struct buf *b, const char *text)
{
	int r = 0;

	for (const char *p = text ? text : ""; *p && r == 0; p++) {
		switch (*p) {
		case '\033':
			if (p[1] == '[') {
				p++;
				while (p[1] && (p[1] < '@' || p[1] > '~'))
					p++;
				if (p[1])
					p++;
			}
			break;
		case '<':
			r = buf_add_str(b, "&lt;");
			break;
		case '>':
			r = buf_add_str(b, "&gt;");
			break;
		case '&':
			r = buf_add_str(b, "&amp;");
			break;
		case '"':
			r = buf_add_str(b, "&quot;");
			break;
		case '\'':
			r = buf_add_str(b, "&#39;");
			break;
		default:
			r = buf_add_char(b, *p);
		}
	}
	return r;
}

static int add_block(struct buf *b, const char *class, const char *text)
{
	if (!text || !text[0])
		return 0;
	int r = buf_printf(b, "<pre class=\"%s\">", class);
	r = r < 0 ? r : add_html(b, text);
	return r < 0 ? r : buf_add_str(b, "</pre>\n");
}

static int add_page_file(struct export *x, const struct store_cell *cell, const json_t *f)
{
	const char *name = json_string_value(json_object_get(f, "name"));
	const char *type = name ? picture_type(name) : NULL;
	_cleanup_free_ char *text = type && json_is_true(json_object_get(f, "kept"))
					? picture_text(x, cell, name, false)
					: NULL;
	int r = buf_add_str(&x->out, "<figure>");

	if (text) {
		r = r < 0 ? r : buf_printf(&x->out, "<img alt=\"\" src=\"data:%s;base64,", type);
		r = r < 0 ? r : buf_add_str(&x->out, text);
		r = r < 0 ? r : buf_add_str(&x->out, "\">");
	}
	r = r < 0 ? r : buf_add_str(&x->out, "<figcaption>");
	r = r < 0 ? r : add_html(&x->out, name);
	return r < 0 ? r : buf_add_str(&x->out, "</figcaption></figure>\n");
}

static int add_head(struct export *x, const struct store_cell *cell, const json_t *meta)
{
	const json_t *by = json_object_get(meta, "asked_by");
	const char *how = json_string_value(json_object_get(by, "how"));
	const char *name = json_string_value(json_object_get(by, "name"));
	const char *reason = json_string_value(json_object_get(meta, "reason"));
	char at[API_TIME_SIZE];
	int r = buf_printf(&x->out, "<section><h2>[%zu] <small>%s", x->n,
			   api_time(cell->started_ms, at));

	r = r < 0 ? r
		  : buf_printf(&x->out, " &middot; %jd ms &middot; ",
			       (intmax_t)json_integer_value(json_object_get(meta, "duration_ms")));
	r = r < 0 ? r : add_html(&x->out, name && *name ? name : how);
	r = r < 0 ? r : buf_add_str(&x->out, " &middot; ");
	r = r < 0 ? r : add_html(&x->out, reason);
	return r < 0 ? r
		     : buf_printf(&x->out, " %jd</small></h2>\n",
				  (intmax_t)json_integer_value(json_object_get(meta, "exit_code")));
}

static void add_page_cell(struct export *x, const struct store_cell *cell, const json_t *meta)
{
	size_t i;
	json_t *f;
	int r = add_head(x, cell, meta);

	r = r < 0 ? r : add_block(&x->out, "code", cell->code);
	r = r < 0 ? r : add_block(&x->out, "out", cell->out);
	r = r < 0 ? r : add_block(&x->out, "err", cell->err);
	r = r < 0 ? r : add_block(&x->out, "value", cell->value);
	r = r < 0 ? r
		  : add_block(&x->out, "err", json_string_value(json_object_get(meta, "error")));
	json_array_foreach(json_object_get(meta, "files"), i, f) {
		r = r < 0 ? r : add_page_file(x, cell, f);
	}
	r = r < 0 ? r : buf_add_str(&x->out, "</section>\n");
	x->failed = x->failed || r < 0;
}

static int begin_page(struct export *x)
{
	int r = buf_add_str(
	    &x->out,
	    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
	    "'unsafe-inline'; img-src data:\">\n"
	    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	    "<title>Caisson session ");

	r = r < 0 ? r : add_html(&x->out, x->id);
	r = r < 0
		? r
		: buf_add_str(&x->out,
			      "</title>\n<style>\n"
			      ":root{color-scheme:light dark}\n"
			      "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem "
			      "auto;padding:0 1rem}\n"
			      "h1{font-size:1.2rem}h2{font-size:.9rem;margin:2rem 0 .3rem}\n"
			      "small{font-weight:400;opacity:.7}\n"
			      "pre{font:13px/1.45 "
			      "ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;"
			      "margin:0;padding:.6rem .8rem}\n"
			      ".code{border:1px solid #8886;border-radius:6px}.err{color:#c33}"
			      ".value{border-left:3px solid #8886}\n"
			      "img{max-width:100%}figure{margin:.5rem 0}figcaption{font-size:12px;"
			      "opacity:.7}\n"
			      "</style></head><body><main>\n<h1>Session ");
	r = r < 0 ? r : add_html(&x->out, x->id);
	return r < 0 ? r : buf_add_str(&x->out, "</h1>\n");
}

static int end_page(struct export *x)
{
	int r = x->cut ? buf_add_str(&x->out, "<p>The history is longer than one file may be; "
					      "newer runs are left out.</p>\n")
		       : 0;

	return r < 0 ? r : buf_add_str(&x->out, "</main></body></html>\n");
}

/* ---- both ---- */

static bool add_cell(const struct store_cell *cell, void *user)
{
	struct export *x = user;
	json_t *meta = NULL;

	if (x->n >= EXPORT_CELLS || x->out.len > EXPORT_BYTES || x->failed) {
		x->cut = true;
		return false;
	}
	x->n++;
	if (jsonio_read(cell->meta ? cell->meta : "{}", strlen(cell->meta ? cell->meta : "{}"), 0,
			&meta, NULL) < 0)
		meta = json_object();
	/* Base64 is a third longer than its bytes. */
	x->out.max = 4 * EXPORT_BYTES;
	if (x->html)
		add_page_cell(x, cell, meta);
	else
		add_notebook_cell(x, cell, meta);
	json_decref(meta);
	return true;
}

/* A notebook is in memory as JSON until its end, so its bytes are counted by those of its cells. */
struct counted {
	struct export *x;
	uint64_t bytes;
};

static bool count_cell(const struct store_cell *cell, void *user)
{
	struct counted *c = user;

	c->bytes += cell->bytes;
	if (c->bytes > EXPORT_BYTES) {
		c->x->cut = true;
		return false;
	}
	return add_cell(cell, c->x);
}

static void send(struct export *x)
{
	char name[160];
	struct http_request *req = rest_give(x->call);

	if (!req)
		return;
	/* The id has letters, digits, '-' and '_' alone, or there would be no cell of it. */
	(void)snprintf(name, sizeof(name), "attachment; filename=\"%.64s.%s\"", x->id,
		       x->html ? "html" : "ipynb");
	(void)http_add_header(req, "Content-Disposition", name);
	(void)http_add_header(req, "Content-Security-Policy",
			      "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src "
			      "data:");
	http_respond(req, 200, x->html ? "text/html; charset=utf-8" : "application/x-ipynb+json",
		     buf_str(&x->out), x->out.len);
}

void rest_export(struct rest_call *c)
{
	const char *format = http_request_query(c->req, "format");
	char id[SANDBOX_ID_MAX + 1];
	struct export x = {.call = c, .id = id, .html = format && streq(format, "html")};
	struct counted counted = {.x = &x};
	struct err e = ERR_INIT;

	(void)snprintf(id, sizeof(id), "%s", http_request_param(c->req, "id"));
	x.out = BUF_INIT(4 * EXPORT_BYTES);
	x.cells = json_array();
	int r = x.html ? begin_page(&x) : 0;
	if (r == 0 && text_is_utf8(id, strlen(id)))
		r = store_cells_after(c->api->config.store, c->owner, id, 0, count_cell, &counted,
				      &e);
	if (r == 0)
		r = x.html ? end_page(&x) : end_notebook(&x);
	json_decref(x.cells);
	if (r < 0 && e.code != ERR_NONE)
		rest_fail(c, &e);
	else if (r < 0 || x.failed)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else if (x.n == 0)
		rest_refuse(c, ERR_NOT_FOUND, "There is no history of this sandbox");
	else
		send(&x);
	buf_done(&x.out);
}
