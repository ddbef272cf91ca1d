/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_list: the sessions and stored sandboxes of the caller. Files are counted in those that are
 * active; looking at them does not keep them alive. */
#include "base/rand.h"
#include "tools/extras.h"

#include <string.h>

#define LISTED_MAX  100 /* sandboxes in one answer */
#define COUNTED_MAX 20  /* of these, the files of so many are counted */
#define TOLD_MAX    10  /* sessions that a hint names */

/* A sandbox, and where it stands: what runs is first, then what was used last; those that are not active
 * are last, the newest of them first. */
struct listed {
	json_t *row;       /* owned */
	struct sandbox *s; /* reference; NULL: not active */
	const char *id;    /* of ROW */
	uint64_t key;
};

#define KEY_NOT_ACTIVE (UINT64_C(1) << 63)

struct list_call {
	struct tool_call base;
	struct listed first[LISTED_MAX]; /* in order */
	size_t n;
	size_t at; /* the one whose files are counted */
	bool more;
};

static void drop(struct listed *l)
{
	json_decref(l->row);
	(void)sandbox_unref(l->s);
}

static void list_call_free(struct list_call *c)
{
	for (size_t i = 0; i < c->n; i++)
		drop(&c->first[i]);
	tool_call_free(&c->base);
}

static json_t *active_row(const struct sandbox *s)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:I}", "session_id", sandbox_id(s), "kind",
			 sandbox_is_stored(s) ? "stored" : "session", "state",
			 sandbox_is_busy(s) ? "running" : "idle", "age_s",
			 (json_int_t)(sandbox_age_ns(s) / NS_PER_S), "idle_s",
			 (json_int_t)(sandbox_idle_ns(s) / NS_PER_S));
}

static uint64_t key_of(const struct sandbox *s)
{
	return sandbox_is_busy(s) ? 0 : 1 + sandbox_idle_ns(s);
}

static json_t *resting_row(const struct sandbox_record *r, uint64_t age_ms)
{
	return json_pack("{s:s, s:s, s:s, s:I}", "session_id", r->id, "kind", "stored", "state",
			 "not active", "age_s", (json_int_t)(age_ms / 1000));
}

static size_t place_of(const struct list_call *c, uint64_t key, const char *id)
{
	size_t i = c->n;

	while (i > 0 && (key < c->first[i - 1].key ||
			 (key == c->first[i - 1].key && strcmp(id, c->first[i - 1].id) < 0)))
		i--;
	return i;
}

/* A row is made only if it is among the first: there may be many more. S: NULL if it is not active; R: NULL if it is not
 * stored. */
static void add(struct list_call *c, const char *id, struct sandbox *s,
		const struct sandbox_record *r, uint64_t age_ms)
{
	const uint64_t key = s ? key_of(s) : KEY_NOT_ACTIVE + age_ms;
	const size_t i = place_of(c, key, id);

	c->more = c->more || c->n == LISTED_MAX;
	if (i == LISTED_MAX)
		return;
	json_t *row = s ? active_row(s) : r ? resting_row(r, age_ms) : NULL;
	if (!row) {
		c->more = true;
		return;
	}
	if (r)
		(void)json_object_set_new(row, "name", tools_json_bytes(r->name, strlen(r->name)));
	if (c->n == LISTED_MAX)
		drop(&c->first[--c->n]);
	memmove(&c->first[i + 1], &c->first[i], (c->n - i) * sizeof(c->first[0]));
	c->first[i] = (struct listed){
	    .row = row,
	    .s = s ? sandbox_ref(s) : NULL,
	    .id = json_string_value(json_object_get(row, "session_id")),
	    .key = key,
	};
	c->n++;
}

static void add_session(struct sandbox *s, void *user)
{
	if (!sandbox_is_stored(s))
		add(user, sandbox_id(s), s, NULL, 0);
}

static void add_stored(const struct sandbox_record *r, void *user)
{
	struct list_call *c = user;
	const uint64_t now = now_wall_ns() / NS_PER_MS;

	add(c, r->id, manager_find(c->base.tools->config.manager, r->owner, r->id), r,
	    now > r->created_ms ? now - r->created_ms : 0);
}

static void count_next(struct list_call *c);

static void on_counted(const struct engine_file *files UNUSED, size_t n, bool more UNUSED,
		       const struct err *e, void *user)
{
	struct list_call *c = user;

	if (!e)
		(void)json_object_set_new(c->first[c->at].row, "files",
					  json_integer((json_int_t)n));
	c->at++;
	count_next(c);
}

static void answer(struct list_call *c)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < c->n; i++)
		(void)json_array_append(rows, c->first[i].row);
	json_t *object = json_pack("{s:o}", "sandboxes", rows);
	if (object && c->more)
		(void)json_object_set_new(object, "more", json_true());
	extras_finish(c->base.call, object);
	list_call_free(c);
}

/* Those that are active are first. */
static void count_next(struct list_call *c)
{
	struct err e = ERR_INIT;

	for (; c->at < MIN(c->n, (size_t)COUNTED_MAX) && c->first[c->at].s; c->at++)
		if (sandbox_peek(c->first[c->at].s, "", on_counted, c, &e) == 0)
			return;
	answer(c);
}

void extras_list_sandboxes(struct mcp_call *call, json_t *arguments UNUSED, void *user)
{
	struct tools *t = user;
	const char *owner = mcp_call_principal(call);
	struct list_call *c = tool_call_new(t, call, NULL, sizeof(*c));
	struct err e = ERR_INIT;

	if (!c)
		return;
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
