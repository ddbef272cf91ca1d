/* SPDX-License-Identifier: Apache-2.0 */
/* REST: what happens (the stream of events) and what happened (notebooks, search). An answer has at most LIMIT cells and
 * ANSWER_BYTES of them; a search looks at SEARCH_BYTES and then tells where to go on. */
#include "api/rest.h"

#include "api/files.h"
#include "base/text.h"

#include <string.h>

#define ANSWER_BYTES (2u << 20)
#define SEARCH_BYTES (4u << 20)
#define FILE_BYTES   (1u << 20)

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

struct listing {
	const struct rest_call *call;
	json_t *list;
	size_t limit, bytes, seen;
	const char *text; /* what a search looks for; NULL: anything */
	bool front;       /* each one goes before the others */
	bool more;
	uint64_t last;
};

static bool is_live(const struct rest_call *c, const char *id)
{
	return manager_find(c->api->config.manager, c->owner, id) != NULL;
}

/* Does the id or the name of the notebook have the text? */
static bool is_titled(const struct store_notebook *n, const json_t *last, const char *text)
{
	const char *name = json_string_value(json_object_get(last, "sandbox_name"));

	return strcasestr(n->sandbox, text) || (name && strcasestr(name, text));
}

static void add_notebook(const struct store_notebook *n, const struct store_cell *last, void *user)
{
	struct listing *l = user;
	char first_at[API_TIME_SIZE], last_at[API_TIME_SIZE], line[200] = "";
	json_t *o = last ? cells_json(last) : NULL;

	l->seen++;
	l->last = n->last_seq;
	if (l->text && !is_titled(n, o, l->text)) {
		json_decref(o);
		return;
	}
	if (last && last->code)
		(void)snprintf(
		    line, sizeof(line), "%.*s",
		    (int)text_utf8_cut(last->code, strcspn(last->code, "\n"), sizeof(line) - 1),
		    last->code);
	(void)json_array_append_new(
	    l->list,
	    json_pack("{s:s, s:s, s:O?, s:O?, s:b, s:s, s:s, s:I, s:I, s:s}", "sandbox", n->sandbox,
		      "owner", l->call->owner, "name", json_object_get(o, "sandbox_name"), "image",
		      json_object_get(o, "image"), "live", is_live(l->call, n->sandbox), "first_at",
		      api_time(n->first_ms, first_at), "last_at", api_time(n->last_ms, last_at),
		      "cells", (json_int_t)n->cells, "bytes", (json_int_t)n->bytes, "last_code",
		      line));
	json_decref(o);
}

static size_t limit_of(const struct rest_call *c)
{
	return (size_t)rest_query_int(c, "limit", REST_LIMIT_DEFAULT);
}

void rest_list_notebooks(struct rest_call *c)
{
	const char *text = http_request_query(c->req, "q");
	struct listing l = {.call = c,
			    .list = json_array(),
			    .limit = limit_of(c),
			    .text = text && *text ? text : NULL};
	struct err e = ERR_INIT;

	if (store_notebook_each(c->api->config.store, c->owner,
				(uint64_t)rest_query_int(c, "before", 0), (unsigned)l.limit,
				add_notebook, &l, &e) < 0) {
		json_decref(l.list);
		rest_fail(c, &e);
		return;
	}
	json_t *next = l.seen == l.limit ? json_integer((json_int_t)l.last) : json_null();
	rest_reply(c, 200, json_pack("{s:o, s:o}", "notebooks", l.list, "next", next));
}

static bool add_cell(const struct store_cell *cell, void *user)
{
	struct listing *l = user;

	if (json_array_size(l->list) >= l->limit || l->bytes > ANSWER_BYTES) {
		l->more = true;
		return false;
	}
	l->bytes += cell->bytes;
	json_t *o = cells_json(cell);
	if (l->front)
		(void)json_array_insert_new(l->list, 0, o);
	else
		(void)json_array_append_new(l->list, o);
	return true;
}

/* Is there, or was there, anything of this sandbox? */
static bool is_known(struct rest_call *c, const char *id)
{
	struct err ignored = ERR_INIT;

	return is_live(c, id) ||
	       manager_get_stored(c->api->config.manager, c->owner, id, NULL, &ignored) > 0;
}

void rest_get_notebook(struct rest_call *c)
{
	const char *id = http_request_param(c->req, "id");
	struct store *store = c->api->config.store;
	struct listing l = {.call = c, .list = json_array(), .limit = limit_of(c)};
	const char *before = http_request_query(c->req, "before");
	struct err e = ERR_INIT;

	l.front = before != NULL;
	int r = !text_is_utf8(id, strlen(id)) ? 0
		: before
		    ? store_cells_before(store, c->owner, id,
					 (uint64_t)rest_query_int(c, "before", 0), add_cell, &l, &e)
		    : store_cells_after(store, c->owner, id,
					(uint64_t)rest_query_int(c, "after", 0), add_cell, &l, &e);
	if (r < 0) {
		json_decref(l.list);
		rest_fail(c, &e);
		return;
	}
	/* What still runs comes after all that is history. */
	if (before ? rest_query_int(c, "before", 0) == 0 : !l.more)
		cells_add_live(c->api->config.cells, c->owner, id, l.list);
	if (json_array_size(l.list) == 0 && !is_known(c, id)) {
		json_decref(l.list);
		rest_no_sandbox(c, id);
		return;
	}
	rest_reply(c, 200,
		   json_pack("{s:s, s:b, s:o, s:b}", "sandbox", id, "live", is_live(c, id), "cells",
			     l.list, "more", l.more));
}

void rest_remove_notebook(struct rest_call *c)
{
	const char *id =
	    c->object; /* the client may have left; "" is not valid text, or too long for an id */
	struct err e = ERR_INIT;

	c->action = "history.remove";
	int r = store_cells_remove(c->api->config.store, c->owner, id, &e);
	if (r < 0) {
		rest_fail(c, &e);
	} else if (r == 0) {
		rest_refuse(c, ERR_NOT_FOUND, "There is no history of this sandbox");
	} else {
		feed_tell(cells_feed(c->api->config.cells), c->owner, id, "history.removed",
			  json_pack("{s:s}", "sandbox", id));
		rest_reply(c, 204, NULL);
	}
}

/* ---- one cell ---- */

struct one {
	json_t *json;
	uint64_t seq;
};

static bool take_one(const struct store_cell *cell, void *user)
{
	struct one *o = user;

	o->json = cells_json(cell);
	o->seq = cell->seq;
	return false;
}

/* Finds the cell of the path. False after it has answered. */
static bool need_cell(struct rest_call *c, struct one *ret)
{
	const char *id = http_request_param(c->req, "id"), *run = http_request_param(c->req, "run");
	struct err e = ERR_INIT;
	int r = 0;

	*ret = (struct one){0};
	if (text_is_utf8(id, strlen(id)) && text_is_utf8(run, strlen(run)))
		r = store_cell_get(c->api->config.store, c->owner, id, run, take_one, ret, &e);
	if (r > 0)
		return true;
	if (r < 0)
		rest_fail(c, &e);
	else
		rest_refuse(c, ERR_NOT_FOUND, "There is no such run in the history");
	return false;
}

void rest_get_cell(struct rest_call *c)
{
	json_t *live =
	    cells_live(c->api->config.cells, c->owner, http_request_param(c->req, "run"));
	struct one o;

	if (live)
		rest_reply(c, 200, live);
	else if (need_cell(c, &o))
		rest_reply(c, 200, o.json);
}

void rest_get_cell_file(struct rest_call *c)
{
	_cleanup_(buf_done) struct buf data = BUF_INIT(FILE_BYTES);
	const char *name = http_request_param(c->req, "name");
	struct err e = ERR_INIT;
	struct one o;

	if (!need_cell(c, &o))
		return;
	json_decref(o.json);
	int r = text_is_utf8(name, strlen(name))
		    ? store_cell_file(c->api->config.store, o.seq, name, &data, &e)
		    : 0;
	if (r <= 0) {
		if (r < 0)
			rest_fail(c, &e);
		else
			rest_refuse(c, ERR_NOT_FOUND, "This file is not kept");
		return;
	}
	char type[128];
	(void)snprintf(type, sizeof(type), "%s", mime_type(name));
	struct http_request *req = rest_give(c);
	if (!req)
		return;
	files_add_policy(req, type);
	(void)http_add_header(req, "Cache-Control", "private, no-cache");
	http_respond(req, 200, type, buf_str(&data), data.len);
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
	struct listing *l = user;

	if (json_array_size(l->list) >= l->limit || l->bytes > SEARCH_BYTES) {
		l->more = true;
		return false;
	}
	l->last = cell->seq;
	l->bytes += cell->bytes;
	if (!l->text || has_text(cell, l->text))
		(void)json_array_append_new(l->list, cells_json(cell));
	return true;
}

void rest_search_history(struct rest_call *c)
{
	const char *text = http_request_query(c->req, "q");
	struct listing l = {.call = c,
			    .list = json_array(),
			    .limit = limit_of(c),
			    .text = text && *text ? text : NULL};
	struct err e = ERR_INIT;

	if (store_cells_before(c->api->config.store, c->owner,
			       http_request_query(c->req, "sandbox"),
			       (uint64_t)rest_query_int(c, "before", 0), search_cell, &l, &e) < 0) {
		json_decref(l.list);
		rest_fail(c, &e);
		return;
	}
	json_t *next = l.more ? json_integer((json_int_t)l.last) : json_null();
	rest_reply(c, 200, json_pack("{s:o, s:o}", "cells", l.list, "next", next));
}
