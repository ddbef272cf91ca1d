/* SPDX-License-Identifier: Apache-2.0 */
/* REST: cells that people write. They are rows of the history like those of runs, with the same bounds; `kind` is
 * "markdown" and `run` their own id. */
#include "api/history/cell.h"
#include "api/history/cells.h"
#include "api/history/history_text.h"
#include "api/rest/rest.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static json_t *no_text(void)
{
	return json_pack("{s:i, s:b}", "total", 0, "cut", 0);
}

/* What a row of the history has besides its texts, as for a run (cell.c). */
static json_t *meta_of(const struct rest_call *c, const struct sandbox *s)
{
	return json_pack("{s:s, s:s, s:{s:s, s:s}, s:b, s:s, s:s, s:[], s:o, s:o, s:o}", "status",
			 "done", "kind", MARKDOWN_KIND, "asked_by", "how",
			 rest_is_page(c) ? "page" : "rest", "name", c->who->name, "code_cut", 0,
			 "sandbox_name", s ? sandbox_name(s) : "", "image",
			 s ? sandbox_image(s) : "", "files", "stdout", no_text(), "stderr",
			 no_text(), "value", no_text());
}

static struct store_cell *new_cell(const struct rest_call *c, const char *run, json_t *meta)
{
	struct store_cell *cell = calloc(1, sizeof(*cell));

	if (!cell)
		return NULL;
	cell->started_ms = now_wall_ns() / NS_PER_MS;
	cell->code = strdup(rest_text(c, "text", ""));
	cell->meta = meta ? json_dumps(meta, JSON_COMPACT) : strdup("{}");
	(void)snprintf(cell->owner, sizeof(cell->owner), "%s", c->owner);
	(void)snprintf(cell->run, sizeof(cell->run), "%s", run);
	if (cell->code && cell->meta &&
	    text_copy(cell->sandbox, sizeof(cell->sandbox), c->object) == 0)
		return cell;
	store_cell_free(cell);
	return NULL;
}

#define COPIES 4u /* of the text: body, row, answer, event */

/* CELL is taken, NULL: there was no memory. It waits for the disk, also when its client has left, so it counts. */
static void write_cell(struct rest_call *c, struct store_cell *cell, enum store_cell_write how,
		       const struct store_beside *beside, store_wrote_fn fn)
{
	struct err e = ERR_INIT;
	int r = cell ? budget_take(c->api->config.budgets, c->who->owner, BUDGET_UPLOAD_MEMORY,
				   COPIES * strlen(cell->code), &c->room, &e)
		     : err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a cell of the history");

	if (r < 0)
		store_cell_free(cell);
	else
		r = store_cell_write(c->api->config.store, cell, how, beside, fn, c, &e);
	if (r < 0)
		rest_fail(c, &e);
}

/* False: C has ended. */
static bool has_history(struct rest_call *c)
{
	if (cells_kept(c->api->config.cells) != CELLS_KEEP_NOTHING)
		return true;
	rest_refuse(c, ERR_FORBIDDEN, "This server keeps no history");
	return false;
}

/* False: C has ended. */
static bool was_written(struct rest_call *c, uint64_t seq, const struct err *e, const char *missing)
{
	if (e && e->code == ERR_CANCELLED)
		c->action = NULL; /* the store is being closed */
	if (e)
		rest_fail(c, e);
	else if (seq == 0)
		rest_refuse(c, ERR_NOT_FOUND, "%s", missing);
	return !e && seq > 0;
}

/* ---- a new one ---- */

static void on_added(uint64_t seq, const char *place, const struct err *e, void *user)
{
	struct rest_call *c = user;
	struct feed *feed = cells_feed(c->api->config.cells);

	if (!was_written(c, seq, e, "There is no such sandbox, and no history of one"))
		return;
	json_t *cell = json_loads(c->text, 0, NULL);
	if (!cell || json_object_set_new(cell, "seq", json_integer((json_int_t)seq)) < 0 ||
	    json_object_set_new(cell, "place", json_string(place)) < 0) {
		json_decref(cell);
		feed_tell(feed, c->owner, c->object, "history.added", NULL);
		rest_refuse(c, ERR_OUT_OF_MEMORY, "The cell is there, but not told");
		return;
	}
	feed_tell(feed, c->owner, c->object, "history.added",
		  json_pack("{s:s, s:O, s:s*, s:s*}", "sandbox", c->object, "cell", cell, "before",
			    rest_text(c, "before", NULL), "after", rest_text(c, "after", NULL)));
	rest_reply(c, 201, cell);
}

/* CELL as REST has it, without its number. META: that of the cell, and it is changed. */
static char *answer_of(const struct store_cell *cell, json_t *meta)
{
	static const char *const streams[] = {"stdout", "stderr", "value"};
	char at[API_TIME_SIZE];
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "run", cell->run, "sandbox",
			      cell->sandbox, "owner", cell->owner, "code", cell->code, "started_at",
			      api_time(cell->started_ms, at));
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		(void)json_object_set_new(json_object_get(meta, streams[i]), "text",
					  json_string(""));
	if (o && json_object_update(o, meta) == 0)
		text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

/* Beside which cell it is put; RET: its `run` is "" if that is not asked. False: C has ended. */
static bool read_beside(struct rest_call *c, struct store_beside *ret)
{
	const char *before = rest_text(c, "before", ""), *after = rest_text(c, "after", "");

	*ret = (struct store_beside){.behind = *after};
	if (*before && *after) {
		rest_refuse(c, ERR_INVALID_ARGUMENT, "Give before or after, not both");
		return false;
	}
	if (text_copy(ret->run, sizeof(ret->run), *after ? after : before) < 0) {
		rest_refuse(c, ERR_NOT_FOUND, "There is no such run in the history");
		return false;
	}
	if (*ret->run && cells_is_live(c->api->config.cells, c->owner, ret->run)) {
		rest_refuse(c, ERR_SESSION_BUSY,
			    "This run has not ended. Without before and after the text is put at "
			    "the end");
		return false;
	}
	return true;
}

void rest_add_markdown(struct rest_call *c)
{
	const struct sandbox *s = manager_find(c->api->config.manager, c->owner, c->object);
	struct store_beside beside;
	char run[RUN_ID_SIZE] = "md_";

	if (!has_history(c) || !read_beside(c, &beside))
		return;
	json_t *meta = meta_of(c, s);
	c->action = "history.add";
	rand_hex(run + strlen(run), 8);
	struct store_cell *cell = meta ? new_cell(c, run, meta) : NULL;
	c->text = cell ? answer_of(cell, meta) : NULL;
	json_decref(meta);
	if (!c->text) {
		store_cell_free(cell);
		cell = NULL;
	}
	write_cell(c, cell, s ? STORE_CELL_ADD : STORE_CELL_ADD_IF_KNOWN, &beside, on_added);
}

/* ---- another text ---- */

static void on_changed(uint64_t seq, const char *place UNUSED, const struct err *e, void *user)
{
	struct rest_call *c = user;
	struct feed *feed = cells_feed(c->api->config.cells);

	if (!was_written(c, seq, e, "There is no such Markdown cell in the history"))
		return;
	json_t *data =
	    json_pack("{s:s#, s:s, s:s}", "sandbox", c->object, (int)strcspn(c->object, " "), "run",
		      c->text, "code", rest_text(c, "text", ""));
	feed_tell(feed, c->owner, json_string_value(json_object_get(data, "sandbox")),
		  "history.changed", data);
	rest_reply(c, 204, NULL);
}

void rest_change_markdown(struct rest_call *c)
{
	const char *run = c->req ? http_request_param(c->req, "run") : NULL;
	const size_t len = strlen(c->object);

	if (!run || len == 0 || strlen(run) >= RUN_ID_SIZE || !text_is_utf8(run, strlen(run))) {
		rest_refuse(c, ERR_NOT_FOUND, "There is no such Markdown cell in the history");
		return;
	}
	c->action = "history.change";
	c->text = strdup(run);
	struct store_cell *cell = c->text ? new_cell(c, run, NULL) : NULL;
	(void)snprintf(c->object + len, sizeof(c->object) - len, " %s", run);
	write_cell(c, cell, STORE_CELL_CHANGE, NULL, on_changed);
}
