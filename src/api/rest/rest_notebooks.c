/* SPDX-License-Identifier: Apache-2.0 */
/* REST: what happens (the stream of events) and what happened (notebooks, search). An answer has at most LIMIT cells and
 * ANSWER_BYTES of them; a search looks at SEARCH_BYTES and then tells where to go on. */
#include "api/files/files.h"
#include "api/history/cell.h"
#include "api/history/history_text.h"
#include "api/rest/rows.h"
#include "base/json_text.h"
#include "base/jsonio.h"
#include "base/text.h"

#include <string.h>

#define ANSWER_BYTES (2u << 20)
#define SEARCH_BYTES (4u << 20)
#define NAME_BYTES   (64u << 10)
/* Of what a search has found: a router has the pages of all workers in memory at once. One more cell can follow. */
#define ROUTER_BYTES (256u << 10)
#define REREADS_MAX  3u

/* ---- events ---- */

void rest_events(struct rest_call *c)
{
	struct feed *feed = cells_feed(c->api->config.cells);
	const char *header = http_request_header(c->req, "last-event-id");
	const char *query = http_request_query(c->req, "last_event_id");
	_cleanup_free_ char *sandbox = NULL, *last = NULL;
	char owner[STORE_OWNER_SIZE];
	const char *wanted = http_request_query(c->req, "sandbox");

	if (!feed) {
		rest_refuse(c, ERR_NOT_FOUND, "This server has no events");
		return;
	}
	struct caller *who = caller_ref(c->who);
	memcpy(owner, c->owner, sizeof(owner));
	sandbox = wanted ? strdup(wanted) : NULL;
	last = header || query ? strdup(header ? header : query) : NULL;
	struct http_request *req = rest_give(c);
	const struct feed_request request = {
	    .owner = owner, .sandbox = sandbox, .last_id = last, .who = who};
	if (req)
		feed_follow(feed, req, &request);
	caller_unref(who);
}

/* ---- notebooks ---- */

static bool is_live(const struct rest_call *c, const char *id)
{
	return manager_find(c->api->config.manager, c->owner, id) != NULL;
}

/* Does the id or the name of the notebook have the text? */
static bool is_titled(const struct store_notebook *n, const char *name, const char *text)
{
	return strcasestr(n->sandbox, text) || strcasestr(name, text);
}

static int notebook_text(struct rows *r, const struct store_notebook *n, const char *code,
			 const char *name, const struct json_piece *image)
{
	char first_at[API_TIME_SIZE], last_at[API_TIME_SIZE], line[200];
	struct buf *b = r->out;
	int f = json_text_open(b);

	(void)snprintf(line, sizeof(line), "%.*s",
		       (int)text_utf8_cut(code, strcspn(code, "\n"), sizeof(line) - 1), code);
	f = f < 0 ? f
		  : json_text_members(b, "sis", "sandbox", n->sandbox, "seq", (int64_t)n->last_seq,
				      "owner", r->owner);
	f = f < 0 ? f : json_text_member(b, "name", name);
	if (f == 0 && image->len > 0) {
		f = json_text_key(b, "image");
		f = f < 0 ? f : buf_add(b, image->data, image->len);
	}
	f = f < 0 ? f
		  : json_text_members(b, "bssiis", "live", rows_is_live(r, n->sandbox), "first_at",
				      api_time(n->first_ms, first_at), "last_at",
				      api_time(n->last_ms, last_at), "cells", (int64_t)n->cells,
				      "bytes", (int64_t)n->bytes, "last_code", line);
	return f < 0 ? f : buf_add_char(b, '}');
}

static bool add_notebook(const struct store_notebook *n, const struct store_cell *last, void *user)
{
	struct rows *r = user;
	const char *meta = last && last->meta ? last->meta : "{}";
	_cleanup_(buf_done) struct buf name = BUF_INIT(NAME_BYTES);
	const struct json_piece image = json_find(meta, strlen(meta), "image");

	if (!rows_begin(r))
		return false;
	r->before = n->last_seq;
	r->left--;
	r->more = r->left == 0;
	int f = last ? history_text_name(&name, last) : 0;
	if (f == 0 && r->text && !is_titled(n, buf_str(&name), r->text))
		return true;
	f = f < 0
		? f
		: notebook_text(r, n, last && last->code ? last->code : "", buf_str(&name), &image);
	return rows_end(r, f);
}

static int each_notebook(struct rows *r, struct store *reading, struct err *e)
{
	return store_notebook_each(reading, r->owner, r->before, (unsigned)r->left, add_notebook, r,
				   e);
}

void rest_list_notebooks(struct rest_call *c)
{
	struct rows *r = rows_new(c, "notebooks", each_notebook);

	if (r) {
		r->before = (uint64_t)rest_query_int(c, "before", 0);
		r->has_next = true;
		rows_note_live(r, c->api->config.manager);
	}
	rows_reply(c, r);
}

/* ---- one notebook ----
 *
 * First the rows, on a thread, then the cells that are not history yet, on the loop. A run that ends between the two
 * would be in neither: then the rows are read once more, from where they ended. */

struct notebook {
	struct cells *cells;
	struct manager *manager;
	struct store *store;
	char owner[STORE_OWNER_SIZE];
	char id[SANDBOX_ID_MAX + 1];
	bool live;    /* the sandbox */
	bool known;   /* it is stored */
	bool begun;   /* the text has its beginning */
	bool back;    /* the last cells before `until`, instead of the first ones */
	bool running; /* cells that are not history belong to it */
	bool more, full;
	uint64_t after_seq,
	    until_seq; /* of cells that are not in it; 0: it begins, or ends, there */
	char after[STORE_CELL_PLACE_SIZE], until[STORE_CELL_PLACE_SIZE]; /* their places */
	size_t left, n;
	uint64_t bytes;
	uint64_t moved; /* cells_moved() when the rows were read */
	unsigned tries;
	uint64_t serial; /* of the last cell that is not history */
	struct pieces *pieces;
	struct buf *out;
	int failed;
};

/* Finds what stands before the last `left` cells. */
static bool go_back(const struct store_cell *cell, void *user)
{
	struct notebook *k = user;

	if (k->n >= k->left || k->bytes > ANSWER_BYTES) {
		k->more = true;
		memcpy(k->after, cell->place, sizeof(k->after));
		return false;
	}
	k->n++;
	k->bytes += cell->bytes;
	return true;
}

static int find_begin(struct notebook *k, struct store *reading, struct err *e)
{
	int r = store_cells_before(reading, k->owner, k->id, k->until, go_back, k, e);

	k->n = 0;
	k->bytes = 0;
	return r;
}

/* Finds the places of the cells that the query names. */
static int find_bounds(struct notebook *k, struct store *reading, struct err *e)
{
	int r = 0;

	memcpy(k->until, STORE_CELL_PLACE_END, sizeof(STORE_CELL_PLACE_END));
	if (k->until_seq > 0)
		r = store_cell_place(reading, k->owner, k->id, k->until_seq, k->until, e);
	if (r == 0 && k->after_seq > 0)
		r = store_cell_place(reading, k->owner, k->id, k->after_seq, k->after, e);
	return r < 0 || !k->back ? r : find_begin(k, reading, e);
}

static bool add_cell(const struct store_cell *cell, void *user)
{
	struct notebook *k = user;

	k->full = pieces_is_full(k->out);
	if (k->full || strcmp(cell->place, k->until) >= 0)
		return false;
	if (!k->back && (k->left == 0 || k->bytes > ANSWER_BYTES)) {
		k->more = true;
		return false;
	}
	k->left -= k->left > 0;
	k->bytes += cell->bytes;
	memcpy(k->after, cell->place, sizeof(k->after));
	k->failed = k->n > 0 && k->out->len == 0 ? buf_add_char(k->out, ',') : 0;
	k->failed = k->failed < 0 ? k->failed : history_text_add(k->out, HISTORY_CELL, NULL, cell);
	k->n++;
	return k->failed == 0;
}

static int begin_notebook(struct notebook *k, struct store *reading, struct err *e)
{
	struct store_sandbox *record = calloc(1, sizeof(*record));
	int r = record ? store_sandbox_get(reading, k->owner, k->id, record, e) : -ENOMEM;

	free(record);
	if (r < 0)
		return r;
	k->known = r > 0;
	k->begun = true;
	r = json_text_open(k->out);
	r = r < 0 ? r : json_text_members(k->out, "sb", "sandbox", k->id, "live", k->live);
	r = r < 0 ? r : buf_add_str(k->out, ",\"cells\":[");
	return r < 0 ? r : find_bounds(k, reading, e);
}

static int read_cells(void *user, struct store *reading, struct buf *out, struct err *e)
{
	struct notebook *k = user;
	int r = 0;

	k->out = out;
	k->full = false;
	k->failed = 0;
	if (!k->begun)
		r = begin_notebook(k, reading, e);
	if (r == 0)
		r = store_cells_after(reading, k->owner, k->id, k->after, add_cell, k, e);
	if (r < 0 || k->failed < 0)
		return r < 0 ? r : k->failed;
	return k->full ? PIECES_READ : PIECES_HERE;
}

static void on_written(const struct err *e, void *user)
{
	struct notebook *k = user;

	if (e)
		pieces_fail(k->pieces, e);
	else
		pieces_go_on(k->pieces, PIECES_READ);
}

static int end_notebook(struct notebook *k, struct buf *out, struct err *e)
{
	if (k->n == 0 && !k->live && !k->known) {
		(void)manager_no_session(k->manager, k->owner, k->id, e);
		return -ENOENT;
	}
	int r = buf_add_str(out, k->more ? "],\"more\":true}" : "],\"more\":false}");
	return r < 0 ? r : PIECES_END;
}

static int add_live(void *user, struct pieces *p, struct buf *out, struct err *e)
{
	struct notebook *k = user;

	if (!k->running || (!k->back && k->more))
		return end_notebook(k, out, e);
	if (k->serial == 0 && k->moved != cells_moved(k->cells, k->owner) && k->tries-- > 0) {
		k->moved = cells_moved(k->cells, k->owner);
		k->pieces = p;
		return store_when_written(k->store, k->owner, on_written, k) > 0 ? PIECES_READ
										 : PIECES_WAIT;
	}
	json_t *cell = cells_next_live(k->cells, k->owner, k->id, &k->serial);
	if (!cell)
		return end_notebook(k, out, e);
	int r = k->n++ > 0 ? buf_add_char(out, ',') : 0;
	r = r < 0 ? r : jsonio_add(out, cell, JSON_COMPACT);
	json_decref(cell);
	return r < 0 ? r : PIECES_HERE;
}

void rest_get_notebook(struct rest_call *c)
{
	static const struct pieces_ops ops = {.add = add_live, .read = read_cells, .free = free};
	const char *id = http_request_param(c->req, "id");
	const char *before = http_request_query(c->req, "before");

	if (!text_is_utf8(id, strlen(id)) || strlen(id) > SANDBOX_ID_MAX) {
		rest_no_sandbox(c, id);
		return;
	}
	struct notebook *k = calloc(1, sizeof(*k));
	if (k) {
		*k = (struct notebook){
		    .cells = c->api->config.cells,
		    .manager = c->api->config.manager,
		    .store = c->api->config.store,
		    .live = is_live(c, id),
		    .back = before != NULL,
		    .after_seq = (uint64_t)rest_query_int(c, "after", 0),
		    .until_seq = (uint64_t)rest_query_int(c, "before", 0),
		    .left = (size_t)rest_query_int(c, "limit", REST_LIMIT_DEFAULT),
		    .tries = REREADS_MAX,
		};
		/* What still runs comes after all that is history. */
		k->running = k->until_seq == 0;
		(void)snprintf(k->owner, sizeof(k->owner), "%s", c->owner);
		(void)snprintf(k->id, sizeof(k->id), "%s", id);
		k->moved = cells_moved(k->cells, k->owner);
	}
	struct pieces *p = pieces_new(c, &ops, k);
	if (p)
		pieces_begin(p, PIECES_READ);
}

static void tell_removed(struct rest_call *c)
{
	json_t *data = json_pack("{s:s#}", "sandbox", c->object, (int)strcspn(c->object, " "));

	if (data && c->text)
		(void)json_object_set_new(data, "run", json_string(c->text));
	if (data)
		feed_tell(cells_feed(c->api->config.cells), c->owner,
			  json_string_value(json_object_get(data, "sandbox")), "history.removed",
			  data);
}

static void on_removed(bool found, const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e && e->code == ERR_CANCELLED)
		c->action = NULL; /* the store is being closed */
	if (e) {
		rest_fail(c, e);
	} else if (!found) {
		rest_refuse(c, ERR_NOT_FOUND,
			    c->text ? "There is no such run in the history"
				    : "There is no history of this sandbox");
	} else {
		tell_removed(c);
		rest_reply(c, 204, NULL);
	}
}

void rest_remove_notebook(struct rest_call *c)
{
	struct err e = ERR_INIT;

	c->action = "history.remove";
	/* The client may have left, so the path is not asked; "" is not valid text, or too long for an id. */
	if (store_cells_remove(c->api->config.store, c->owner, c->object, NULL, on_removed, c, &e) <
	    0)
		rest_fail(c, &e);
}

void rest_remove_cell(struct rest_call *c)
{
	const char *run = c->req ? http_request_param(c->req, "run") : NULL;
	const size_t len = strlen(c->object);
	struct err e = ERR_INIT;

	if (!run || len == 0 || strlen(run) >= RUN_ID_SIZE || !text_is_utf8(run, strlen(run))) {
		rest_refuse(c, ERR_NOT_FOUND, "There is no such run in the history");
		return;
	}
	if (cells_is_live(c->api->config.cells, c->owner, run)) {
		rest_refuse(c, ERR_SESSION_BUSY,
			    "This run has not ended. Stop it first (DELETE /runs/{run}), or wait");
		return;
	}
	c->action = "history.remove";
	c->text = strdup(run);
	int r = c->text ? 0 : err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a change of the history");
	if (r == 0)
		r = store_cells_remove(c->api->config.store, c->owner, c->object, run, on_removed,
				       c, &e);
	(void)snprintf(c->object + len, sizeof(c->object) - len, " %s", run);
	if (r < 0)
		rest_fail(c, &e);
}

/* ---- one cell ---- */

struct one {
	char owner[STORE_OWNER_SIZE];
	char *id, *run, *name; /* owned; NAME NULL: the cell itself, else a file of it */
	struct buf *out;
	uint64_t seq;
	int failed;
};

static void one_free(void *user)
{
	struct one *o = user;

	free(o->id);
	free(o->run);
	free(o->name);
	free(o);
}

static bool take_one(const struct store_cell *cell, void *user)
{
	struct one *o = user;

	o->seq = cell->seq;
	if (!o->name)
		o->failed = history_text_add(o->out, HISTORY_CELL, NULL, cell);
	return false;
}

static int read_one(void *user, struct store *reading, struct buf *out, struct err *e)
{
	struct one *o = user;

	o->out = out;
	int r = store_cell_get(reading, o->owner, o->id, o->run, take_one, o, e);
	if (r == 0)
		return err_set(e, ERR_NOT_FOUND, 0, "There is no such run in the history");
	if (r > 0 && o->name)
		r = store_cell_file(reading, o->seq, o->name, out, e);
	if (r == 0)
		return err_set(e, ERR_NOT_FOUND, 0, "This file is not kept");
	if (r < 0)
		return r;
	return o->failed < 0 ? o->failed : PIECES_END;
}

static const char *begin_one(void *user, struct http_request *req)
{
	const struct one *o = user;

	if (!o->name || streq(o->name, CELL_RESULTS_FILE))
		return "application/json";
	files_add_policy(req, mime_type(o->name));
	(void)http_add_header(req, "Cache-Control", "private, no-cache");
	return mime_type(o->name);
}

static bool copy_param(const struct rest_call *c, const char *name, char **ret)
{
	const char *text = http_request_param(c->req, name);

	*ret = strdup(text);
	return *ret && text_is_utf8(text, strlen(text));
}

/* NAME: of the file, instead of the parameter. */
static void reply_one(struct rest_call *c, bool file, const char *name)
{
	static const struct pieces_ops ops = {
	    .read = read_one, .begin = begin_one, .free = one_free};
	struct one *o = calloc(1, sizeof(*o));

	if (o)
		(void)snprintf(o->owner, sizeof(o->owner), "%s", c->owner);
	if (o && name)
		o->name = strdup(name);
	if (o && (!copy_param(c, "id", &o->id) || !copy_param(c, "run", &o->run) ||
		  (file && !name && !copy_param(c, "name", &o->name)) || (name && !o->name))) {
		one_free(o);
		rest_refuse(c, ERR_NOT_FOUND, "There is no such run in the history");
		return;
	}
	struct pieces *p = pieces_new(c, &ops, o);
	if (p)
		pieces_begin(p, PIECES_READ);
}

void rest_get_cell(struct rest_call *c)
{
	json_t *live =
	    cells_live(c->api->config.cells, c->owner, http_request_param(c->req, "run"));

	if (live)
		rest_reply(c, 200, live);
	else
		reply_one(c, false, NULL);
}

void rest_get_cell_file(struct rest_call *c)
{
	reply_one(c, true, NULL);
}

void rest_get_cell_results(struct rest_call *c)
{
	size_t len;
	char *live = cells_live_results(c->api->config.cells, c->owner,
					http_request_param(c->req, "run"), &len);
	struct http_request *req = live ? rest_give(c) : NULL;

	if (req)
		http_respond_take(req, 200, "application/json", live, len);
	else if (live)
		free(live);
	else
		reply_one(c, true, CELL_RESULTS_FILE);
}

/* ---- search ---- */

static bool has_text(const struct store_cell *cell, const char *text)
{
	const char *const places[] = {cell->code, cell->out, cell->err, cell->value};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (places[i] && strcasestr(places[i], text))
			return true;
	return false;
}

static bool search_cell(const struct store_cell *cell, void *user)
{
	struct rows *r = user;

	if (r->left == 0 || r->bytes > SEARCH_BYTES || r->found > r->found_max) {
		r->more = true;
		return false;
	}
	if (!rows_begin(r))
		return false;
	r->before = cell->seq;
	r->bytes += cell->bytes;
	if (r->text && !has_text(cell, r->text))
		return true;
	r->left--;
	r->found += cell->bytes;
	return rows_end(r, history_text_add(r->out, HISTORY_CELL, NULL, cell));
}

static int each_found(struct rows *r, struct store *reading, struct err *e)
{
	return store_cells_newest(reading, r->owner, r->sandbox, r->before, search_cell, r, e);
}

void rest_search_history(struct rest_call *c)
{
	struct rows *r = rows_new(c, "cells", each_found);

	if (r) {
		r->before = (uint64_t)rest_query_int(c, "before", 0);
		r->has_next = true;
		r->found_max = http_request_is_by_member(c->req) ? ROUTER_BYTES : UINT64_MAX;
	}
	rows_reply(c, r);
}

/* ---- the list of runs, without code and output ---- */

/* At most REST_LIMIT_MAX rows, each well below a kilobyte: one piece. */
static void add_row(const struct store_run *run, void *user)
{
	struct rows *r = user;
	char at[API_TIME_SIZE];

	if (r->failed == 0)
		(void)rows_end(
		    r, json_text_object(r->out, "sssssisiiii", "id", run->id, "owner", run->owner,
					"sandbox", run->sandbox, "kind", run->kind, "reason",
					run->reason, "exit_code", run->exit_code, "started_at",
					api_time(run->started_ms, at), "duration_ms",
					(int64_t)run->duration_ms, "cpu_us", (int64_t)run->cpu_us,
					"peak_bytes", (int64_t)run->peak_bytes, "output_bytes",
					(int64_t)run->out_bytes));
}

static int each_run(struct rows *r, struct store *reading, struct err *e)
{
	return store_run_each(reading, r->whose, r->sandbox, r->before, (unsigned)r->left, add_row,
			      r, e);
}

void rest_list_runs(struct rest_call *c)
{
	struct rows *r = rows_new(c, "runs", each_run);

	if (r)
		r->before = (uint64_t)rest_query_int(c, "before_ms", 0);
	rows_reply(c, r);
}
