/* SPDX-License-Identifier: Apache-2.0 */
/* The history of a sandbox as a file: a notebook of Jupyter, or one page for reading that loads nothing (history_text.h).
 * At most EXPORT_CELLS cells and EXPORT_BYTES; what is left out is said. */
#include "api/rest/pieces.h"

#include "api/history/history_text.h"
#include "base/json_text.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT_CELLS 2000u
#define EXPORT_BYTES (16u << 20)
#define NAME_BYTES   (64u << 10)
#define RANGES_MAX   200u /* of selected cells; each may cost a query */

struct range { /* from one cell to another */
	uint64_t first_seq, last_seq;
	char first[STORE_CELL_PLACE_SIZE], last[STORE_CELL_PLACE_SIZE];
};

struct export
{
	char owner[STORE_OWNER_SIZE];
	char id[SANDBOX_ID_MAX + 1];
	bool html;
	char after[STORE_CELL_PLACE_SIZE]; /* the place of the last cell, */
	bool skips;                        /* or of the next one */
	bool begun;
	uint64_t bytes; /* of the cells so far */
	size_t n;
	bool cut;
	bool some; /* only the cells in RANGES, which are in the order of the notebook */
	struct range ranges[RANGES_MAX];
	size_t n_ranges, at;
};

static int begin_page(struct buf *b, const char *id, const char *name)
{
	int r = buf_add_str(
	    b,
	    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
	    "'unsafe-inline'; img-src data:\">\n"
	    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	    "<title>");

	r = r < 0 || !*name ? r : history_text_html(b, name);
	r = r < 0 ? r : buf_add_str(b, *name ? " &ndash; Caisson session " : "Caisson session ");
	r = r < 0 ? r : history_text_html(b, id);
	r = r < 0 ? r
		  : buf_add_str(
			b, "</title>\n<style>\n"
			   ":root{color-scheme:light dark}\n"
			   "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem "
			   "auto;padding:0 1rem}\n"
			   "h1{font-size:1.2rem}h2{font-size:.9rem;margin:2rem 0 .3rem}\n"
			   "small{font-weight:400;opacity:.7}\n"
			   "pre{font:13px/1.45 "
			   "ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;"
			   "margin:0;padding:.6rem .8rem}\n"
			   ".code{border:1px solid #8886;border-radius:6px}.err{color:#c33}"
			   ".note{font:inherit}"
			   ".value{border-left:3px solid #8886}\n"
			   ".table{overflow-x:auto}table{font-size:13px;border-collapse:collapse}"
			   "th,td{padding:2px 8px;border-bottom:1px solid #8884;text-align:right}"
			   "img{max-width:100%}figure{margin:.5rem 0}figcaption{font-size:12px;"
			   "opacity:.7}\n"
			   "</style></head><body><main>\n<h1>");
	r = r < 0 || !*name ? r : history_text_html(b, name);
	r = r < 0 ? r : buf_add_str(b, *name ? " &ndash; session " : "Session ");
	r = r < 0 ? r : history_text_html(b, id);
	return r < 0 ? r : buf_add_str(b, "</h1>\n");
}

/* FIRST is the first cell. */
static int begin_file(struct buf *b, const struct export *x, const struct store_cell *first)
{
	_cleanup_(buf_done) struct buf name = BUF_INIT(NAME_BYTES);
	int r = history_text_name(&name, first);

	if (r < 0 || x->html)
		return r < 0 ? r : begin_page(b, x->id, buf_str(&name));
	r = buf_add_str(b, "{\"nbformat\":4,\"nbformat_minor\":5,\"metadata\":{"
			   "\"kernelspec\":{\"name\":\"python3\",\"display_name\":"
			   "\"Python 3\",\"language\":\"python\"},\"language_info\":{"
			   "\"name\":\"python\"}");
	r = r < 0 || name.len == 0 ? r : json_text_member(b, "title", buf_str(&name));
	return r < 0 ? r : buf_add_str(b, "},\"cells\":[\n");
}

static int end_file(struct buf *b, const struct export *x)
{
	static const char left_out_page[] =
	    "<p>The history is longer than one file may be; newer runs are left out.</p>\n";
	static const char left_out[] =
	    ",\n{\"cell_type\":\"markdown\",\"id\":\"left-out\",\"metadata\":{},\"source\":"
	    "\"*The history is longer than one file may be; newer runs are left out.*\"}";
	int r = x->cut ? buf_add_str(b, x->html ? left_out_page : left_out) : 0;

	return r < 0 ? r : buf_add_str(b, x->html ? "</main></body></html>\n" : "\n]}\n");
}

/* ---- on a thread ---- */

struct piece {
	struct export *of;
	struct store *reading;
	struct buf *out;
	bool full; /* more follows in the next piece */
	int failed;
};

/* Whether the cell at PLACE is wanted. If not, and there are others, reading goes on where they begin. */
static bool is_wanted(struct export *x, const char *place)
{
	while (x->at < x->n_ranges && strcmp(x->ranges[x->at].last, place) < 0)
		x->at++;
	if (x->at == x->n_ranges)
		return false;
	x->skips = strcmp(x->ranges[x->at].first, place) > 0;
	if (x->skips)
		memcpy(x->after, x->ranges[x->at].first, sizeof(x->after));
	return !x->skips;
}

static bool add_cell(const struct store_cell *cell, void *user)
{
	struct piece *p = user;
	struct export *x = p->of;

	if (x->some && !is_wanted(x, cell->place))
		return false;
	if (pieces_is_full(p->out)) {
		p->full = true;
		return false;
	}
	if (x->n >= EXPORT_CELLS || x->bytes + cell->bytes > EXPORT_BYTES) {
		x->cut = x->n > 0;
		return false;
	}
	x->bytes += cell->bytes;
	memcpy(x->after, cell->place, sizeof(x->after));
	x->n++;
	if (x->n == 1)
		p->failed = begin_file(p->out, x, cell);
	else if (!x->html)
		p->failed = buf_add_str(p->out, ",\n");
	if (p->failed == 0)
		p->failed = history_text_add(p->out, x->html ? HISTORY_PAGE : HISTORY_NOTEBOOK,
					     p->reading, cell);
	return p->failed == 0;
}

#define RANGES_TEXT                                                                                \
	"cells must be up to %u numbers (`seq`), or ranges of them, in the order of the "          \
	"notebook, "                                                                               \
	"such as 3,7-12"

/* Finds where the cells of the ranges stand. */
static int find_ranges(struct export *x, struct store *reading, struct err *e)
{
	const char *least = "";
	int r = 0;

	for (size_t i = 0; i < x->n_ranges && r == 0; i++) {
		struct range *g = &x->ranges[i];

		r = store_cell_place(reading, x->owner, x->id, g->first_seq, g->first, e);
		r = r < 0 ? r : store_cell_place(reading, x->owner, x->id, g->last_seq, g->last, e);
		if (r == 0 && (strcmp(g->first, least) <= 0 || strcmp(g->last, g->first) < 0))
			r = err_set(e, ERR_INVALID_ARGUMENT, 0, RANGES_TEXT, RANGES_MAX);
		least = g->last;
	}
	return r;
}

static int read_piece(void *user, struct store *reading, struct buf *out, struct err *e)
{
	struct export *x = user;
	struct piece p = {.of = x, .reading = reading, .out = out};
	int r = x->begun ? 0 : find_ranges(x, reading, e);

	if (r < 0)
		return r;
	x->begun = true;
	do {
		const bool from = x->skips;

		x->skips = false;
		r = from ? store_cells_from(reading, x->owner, x->id, x->after, add_cell, &p, e)
			 : store_cells_after(reading, x->owner, x->id, x->after, add_cell, &p, e);
		p.failed = r < 0 ? -EIO : p.failed;
	} while (x->skips && p.failed == 0);
	if (p.failed < 0 || p.full)
		return p.failed < 0 ? p.failed : PIECES_READ;
	if (x->n == 0)
		return err_set(e, ERR_NOT_FOUND, 0,
			       x->some ? "None of these runs is in the history of this sandbox"
				       : "There is no history of this sandbox");
	p.failed = end_file(out, x);
	return p.failed < 0 ? p.failed : PIECES_END;
}

/* ---- on the loop ---- */

static const char *begin(void *user, struct http_request *req)
{
	const struct export *x = user;
	char name[160];

	/* The id has letters, digits, '-' and '_' alone, or there would be no cell of it. */
	(void)snprintf(name, sizeof(name), "attachment; filename=\"%.64s.%s\"", x->id,
		       x->html ? "html" : "ipynb");
	(void)http_add_header(req, "Content-Disposition", name);
	(void)http_add_header(
	    req, "Content-Security-Policy",
	    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:");
	return x->html ? "text/html; charset=utf-8" : "application/x-ipynb+json";
}

/* Reads "3,7-12". -EINVAL: it is something else. */
static int read_ranges(struct export *x, const char *text)
{
	x->some = true;
	for (const char *p = text;; p++) {
		const size_t len = strcspn(p, ","), dash = strcspn(p, ",-");
		struct range *r = &x->ranges[x->n_ranges];

		if (x->n_ranges++ == RANGES_MAX ||
		    parse_u64_n(p, dash, 1, INT64_MAX - 1, &r->first_seq) < 0)
			return -EINVAL;
		r->last_seq = r->first_seq;
		if (dash < len &&
		    parse_u64_n(p + dash + 1, len - dash - 1, 1, INT64_MAX - 1, &r->last_seq) < 0)
			return -EINVAL;
		p += len;
		if (!*p)
			return 0;
	}
}

void rest_export(struct rest_call *c)
{
	static const struct pieces_ops ops = {.read = read_piece, .begin = begin, .free = free};
	const char *format = http_request_query(c->req, "format");
	const char *some = http_request_query(c->req, "cells");
	const char *id = http_request_param(c->req, "id");

	if (!text_is_utf8(id, strlen(id)) || strlen(id) > SANDBOX_ID_MAX) {
		rest_refuse(c, ERR_NOT_FOUND, "There is no history of this sandbox");
		return;
	}
	struct export *x = calloc(1, sizeof(*x));
	if (x) {
		x->html = format && streq(format, "html");
		(void)snprintf(x->id, sizeof(x->id), "%s", id);
		(void)snprintf(x->owner, sizeof(x->owner), "%s", c->owner);
	}
	if (x && some && read_ranges(x, some) < 0) {
		free(x);
		rest_refuse(c, ERR_INVALID_ARGUMENT, RANGES_TEXT, RANGES_MAX);
		return;
	}
	struct pieces *p = pieces_new(c, &ops, x);
	if (p)
		pieces_begin(p, PIECES_READ);
}
