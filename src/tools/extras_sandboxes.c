/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_list: the sessions and stored sandboxes of the caller. Files are counted in those that are
 * active; looking at them does not keep them alive. */
#include "base/rand.h"
#include "tools/extras.h"

#include <string.h>

#define LISTED_MAX  100 /* sandboxes in one answer */
#define COUNTED_MAX 20  /* of these, the files of so many are counted */
#define TOLD_MAX    10  /* sessions that a hint names */

struct list_call {
	struct tool_call base;
	json_t *rows;                        /* owned */
	struct sandbox *active[COUNTED_MAX]; /* references */
	size_t row[COUNTED_MAX];             /* the place of ACTIVE in ROWS */
	size_t n_active, at;
	bool more;
};

static void list_call_free(struct list_call *c)
{
	for (size_t i = 0; i < c->n_active; i++)
		(void)sandbox_unref(c->active[i]);
	json_decref(c->rows);
	tool_call_free(&c->base);
}

static void add_row(struct list_call *c, json_t *row, struct sandbox *s)
{
	c->more = c->more || json_array_size(c->rows) >= LISTED_MAX;
	if (!row || json_array_size(c->rows) >= LISTED_MAX) {
		json_decref(row);
		return;
	}
	if (s && c->n_active < COUNTED_MAX) {
		c->row[c->n_active] = json_array_size(c->rows);
		c->active[c->n_active++] = sandbox_ref(s);
	}
	(void)!json_array_append_new(c->rows, row);
}

static json_t *active_row(const struct sandbox *s)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:I}", "session_id", sandbox_id(s), "kind",
			 sandbox_is_stored(s) ? "stored" : "session", "state",
			 sandbox_is_busy(s) ? "running" : "idle", "age_s",
			 (json_int_t)(sandbox_age_ns(s) / NS_PER_S), "idle_s",
			 (json_int_t)(sandbox_idle_ns(s) / NS_PER_S));
}

static void add_session(struct sandbox *s, void *user)
{
	if (!sandbox_is_stored(s))
		add_row(user, active_row(s), s);
}

static void add_stored(const struct sandbox_record *r, void *user)
{
	struct list_call *c = user;
	struct sandbox *s = manager_find(c->base.tools->config.manager, r->owner, r->id);
	const uint64_t now = now_wall_ns() / NS_PER_MS;
	json_t *row =
	    s ? active_row(s)
	      : json_pack("{s:s, s:s, s:s, s:I}", "session_id", r->id, "kind", "stored", "state",
			  "not active", "age_s",
			  (json_int_t)(now > r->created_ms ? (now - r->created_ms) / 1000 : 0));

	if (row)
		(void)json_object_set_new(row, "name", tools_json_bytes(r->name, strlen(r->name)));
	add_row(c, row, s);
}

static void count_next(struct list_call *c);

static void on_counted(const struct engine_file *files UNUSED, size_t n, bool more UNUSED,
		       const struct err *e, void *user)
{
	struct list_call *c = user;

	if (!e)
		(void)json_object_set_new(json_array_get(c->rows, c->row[c->at]), "files",
					  json_integer((json_int_t)n));
	c->at++;
	count_next(c);
}

static void count_next(struct list_call *c)
{
	struct err e = ERR_INIT;

	for (; c->at < c->n_active; c->at++)
		if (sandbox_peek(c->active[c->at], "", on_counted, c, &e) == 0)
			return;
	json_t *object = json_pack("{s:O}", "sandboxes", c->rows);
	if (object && c->more)
		(void)json_object_set_new(object, "more", json_true());
	extras_finish(c->base.call, object);
	list_call_free(c);
}

void extras_list_sandboxes(struct mcp_call *call, json_t *arguments UNUSED, void *user)
{
	struct tools *t = user;
	const char *owner = mcp_call_principal(call);
	struct list_call *c = tool_call_new(t, call, NULL, sizeof(*c));
	struct err e = ERR_INIT;

	if (!c)
		return;
	c->rows = json_array();
	manager_each(t->config.manager, owner, add_session, c);
	if (manager_each_stored(t->config.manager, owner, add_stored, c, &e) < 0) {
		extras_fail_err(call, &e);
		list_call_free(c);
		return;
	}
	count_next(c);
}

/* ---- which sessions there are, for a caller that may have no more ---- */

struct telling {
	struct buf *b;
	unsigned n;
	int r;
};

static void tell_session(struct sandbox *s, void *user)
{
	struct telling *t = user;
	const uint64_t minutes = sandbox_idle_ns(s) / NS_PER_S / 60;

	if (sandbox_is_stored(s) || t->r < 0 || t->n++ >= TOLD_MAX)
		return;
	t->r = buf_printf(t->b, "%s%s", t->n > 1 ? ", " : "", sandbox_id(s));
	if (t->r == 0 && sandbox_is_busy(s))
		t->r = buf_add_str(t->b, " (running)");
	else if (t->r == 0)
		t->r = buf_printf(t->b, " (idle for %ju min)", (uintmax_t)minutes);
}

void extras_fail_open(struct tools *t, struct mcp_call *call, const struct err *e)
{
	_cleanup_(buf_done) struct buf hint = BUF_INIT(TOLD_MAX * (SANDBOX_ID_MAX + 64) + 512);
	struct telling telling = {.b = &hint};

	if (e->code != ERR_MAX_SESSIONS) {
		extras_fail_err(call, e);
		return;
	}
	telling.r =
	    buf_add_str(&hint, "Go on in one of your sessions by its session_id, or end one "
			       "with sandbox_delete. You have: ");
	manager_each(t->config.manager, mcp_call_principal(call), tell_session, &telling);
	int r = telling.n == 0 ? buf_add_str(&hint, "none; others use this server, try later")
		: telling.n > TOLD_MAX ? buf_add_str(&hint, " ... (sandbox_list has all)")
				       : 0;
	extras_fail(call, err_code_name(e->code), telling.r < 0 || r < 0 ? "" : buf_str(&hint),
		    "%s", e->text);
}
