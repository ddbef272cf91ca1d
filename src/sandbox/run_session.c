/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/run_session.h"

#include "base/json_text.h"
#include "base/text.h"
#include "sandbox/run_life.h"
#include "sandbox/workspace_inventory.h"

#include <string.h>

const char *run_session_state(const struct run_result *r)
{
	if (!r->stateful)
		return "";
	if (r->state_lost)
		return "lost";
	if (r->state_kept)
		return "kept";
	return r->left.carried ? "carried" : "unchanged";
}

size_t session_kinds(uint32_t kinds, const char *ret[SESSION_KINDS_MAX])
{
	static const char *const names[SESSION_KINDS_MAX] = {"threads", "processes", "connections"};
	size_t n = 0;

	for (size_t i = 0; i < SESSION_KINDS_MAX; i++)
		if (kinds & (1u << i))
			ret[n++] = names[i];
	return n;
}

static int add_name(struct buf *b, const char *name, size_t len)
{
	const int r = buf_add_char(b, b->len > 0 ? ',' : '[');

	return r < 0 ? r : json_text_add(b, name, len);
}

static int add_names(struct buf *b, const char *names)
{
	int r = 0;

	for (const char *at = names; r == 0 && *at; at += strspn(at, ", ")) {
		const size_t len = strcspn(at, ",");

		r = add_name(b, at, len);
		at += len;
	}
	return r;
}

int run_gone_text(struct buf *b, const struct run_result *result)
{
	static const char last_run[] = "last run";
	const char *kinds[SESSION_KINDS_MAX];
	static const struct run_undone none;
	/* What was gone some runs ago may be there again. */
	const struct run_undone *u = result->undone.late ? &none : &result->undone;
	const size_t n = session_kinds(result->left.gone | u->left.gone, kinds);
	int r = result->left.behind || u->back ? add_name(b, last_run, sizeof last_run - 1) : 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_name(b, kinds[i], strlen(kinds[i]));
	r = r < 0 ? r : add_names(b, u->left.names);
	r = r < 0 ? r : add_names(b, result->left.names);
	return r == 0 && b->len > 0 ? buf_add_char(b, ']') : r;
}

/* Names that do not fit are only counted. */
static void join_names(struct engine_left *left, const char *more)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(sizeof(left->names) - 1);
	const char *comma = left->names[0] && more[0] ? ", " : "";

	if (buf_printf(&b, "%s%s%s", left->names, comma, more) == 0)
		(void)!text_copy(left->names, sizeof(left->names), buf_str(&b));
}

/* ---- who is told ---- */

uint64_t run_client(const struct run_request *q)
{
	if (!q->asked_how)
		return 0;
	return path_hash(q->asked_how) ^ path_hash(q->asked_by ? q->asked_by : "") * 31 ^
	       q->asked_on << 32 ^ q->asked_on;
}

static struct session_client *find_client(struct session_clients *c, uint64_t id)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->at); i++)
		if (id != 0 && c->at[i].id == id)
			return &c->at[i];
	return NULL;
}

/* The client ID uses the session: it comes first, and if there is no room, the last one goes. */
static void use_session(struct session_clients *c, uint64_t id, bool owed)
{
	struct session_client *p = find_client(c, id);
	const size_t n = p ? (size_t)(p - c->at) : ARRAY_SIZE(c->at) - 1;

	if (id == 0)
		return;
	memmove(&c->at[1], &c->at[0], n * sizeof(c->at[0]));
	c->at[0] = (struct session_client){.id = id, .owed = owed};
}

static bool is_anybody_owed(const struct session_clients *c)
{
	bool owed = c->unheard;

	for (size_t i = 0; i < ARRAY_SIZE(c->at); i++)
		owed = owed || c->at[i].owed;
	return owed;
}

void run_session_forget(struct context *s)
{
	s->undone = (struct run_undone){0};
	s->clients.unheard = false;
	for (size_t i = 0; i < ARRAY_SIZE(s->clients.at); i++)
		s->clients.at[i].owed = false;
}

/* ---- what they are told ---- */

static bool has_changed(const struct run_result *result)
{
	return result->state_lost || !result->state_kept || result->left.behind ||
	       result->left.rested;
}

static bool is_empty(const struct run_undone *u)
{
	return !u->back && !u->lost && !u->left.behind && !u->left.rested;
}

static void add_undone(struct run_undone *u, const struct run_result *result)
{
	const struct engine_left *now = &result->left;

	if (result->state_lost)
		*u = (struct run_undone){.lost = true, .left.lost = now->lost};
	if (!result->state_lost && !result->state_kept) {
		u->back = true;
		u->left.carried |= now->carried;
		u->left.names_kept = now->names_kept;
		u->left.names_gone += now->names_gone;
		u->left.gone |= now->gone;
		join_names(&u->left, now->names);
	}
	if (now->rested && !u->back) { /* else their names are there */
		u->left.names_gone += now->names_gone;
		join_names(&u->left, now->names);
	}
	u->left.rested |= now->rested;
	u->left.behind |= now->behind;
}

/* R has ended, and its client does not know. What R had to tell it is not known either. */
static void note_undone(const struct run *r)
{
	struct context *s = r->context;
	struct session_clients *c = &s->clients;

	if (is_empty(&s->undone))
		s->undone = r->result.undone;
	s->undone.late = false;
	if (is_empty(&s->undone) && !has_changed(&r->result))
		return;
	if (has_changed(&r->result)) {
		add_undone(&s->undone, &r->result);
		for (size_t i = 0; i < ARRAY_SIZE(c->at); i++)
			c->at[i].owed = c->at[i].id != 0;
	}
	use_session(c, r->client, true);
	c->canceller = r->client;
	c->unheard = true;
	c->used = false;
}

void run_unheard(const struct run *r)
{
	if (r->began && r->result.stateful && !r->request.hidden)
		note_undone(r);
}

static void tell(struct run *r)
{
	struct session_clients *c = &r->context->clients;
	struct run_result *result = &r->result;
	const struct session_client *known = find_client(c, r->client);

	if (known && !known->owed)
		return;
	if (!known && !c->unheard)
		return;
	if (!known || r->client == c->canceller)
		c->unheard = false;
	result->undone = r->context->undone;
	result->undone.late = c->used;
	if (c->used) /* the variables of now are those of the runs since then */
		return;
	if (result->undone.lost && !result->state_lost) {
		result->state_lost = true;
		result->left.lost = result->undone.left.lost;
	}
	result->left.behind |= result->undone.left.behind;
	result->left.rested |= result->undone.left.rested;
}

void run_session_tell(struct run *r)
{
	struct context *s = r->context;

	/* The continuations of a branch end with it, and the session is as it was. */
	if (!r->began || !r->result.stateful || r->sandbox->seized)
		return;
	if (r->request.hidden) { /* the server looks into the session, and shows nothing of this */
		if (has_changed(&r->result))
			note_undone(r);
		return;
	}
	if (r->request.restarts)
		run_session_forget(s);
	else
		tell(r);
	use_session(&s->clients, r->client, false);
	s->clients.used = true;
	if (!is_anybody_owed(&s->clients))
		s->undone = (struct run_undone){0};
}

_Static_assert(ENGINE_KIND_THREADS == 1 && ENGINE_KIND_PROCESSES == 2 &&
		   ENGINE_KIND_CONNECTIONS == 1 << 2,
	       "the order of the names");
