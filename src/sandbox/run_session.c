/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/run_session.h"

#include "base/json_text.h"
#include "base/text.h"
#include "sandbox/run_life.h"

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
	const size_t n = session_kinds(result->left.gone | result->undone.left.gone, kinds);
	int r = result->left.behind || result->undone.back
		    ? add_name(b, last_run, sizeof last_run - 1)
		    : 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_name(b, kinds[i], strlen(kinds[i]));
	r = r < 0 ? r : add_names(b, result->undone.left.names);
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

/* R has ended, and nobody knows. What had been told with R is not known either. */
static void note_undone(const struct run *r)
{
	const struct run_result *result = &r->result;
	const struct engine_left *now = &result->left;
	struct run_undone u = result->undone;

	if (result->state_lost)
		u = (struct run_undone){.lost = true, .left.lost = now->lost};
	if (!result->state_lost && !result->state_kept) {
		u.back = true;
		u.left.carried |= now->carried;
		u.left.names_kept = now->names_kept;
		u.left.names_gone += now->names_gone;
		u.left.gone |= now->gone;
		join_names(&u.left, now->names);
	}
	u.left.behind |= now->behind;
	r->sandbox->undone = u;
}

void run_unheard(const struct run *r)
{
	if (r->began && r->result.stateful && !r->request.hidden)
		note_undone(r);
}

void run_session_tell(struct run *r)
{
	struct sandbox *s = r->sandbox;
	struct run_result *result = &r->result;

	if (!r->began || !result->stateful)
		return;
	if (!r->request.restarts)
		result->undone = s->undone;
	s->undone = (struct run_undone){0};
	if (result->undone.lost && !result->state_lost) {
		result->state_lost = true;
		result->left.lost = result->undone.left.lost;
	}
	result->left.behind |= result->undone.left.behind;
	if (r->request.hidden) /* the server looks into the session, and shows nothing of this */
		note_undone(r);
}

_Static_assert(ENGINE_KIND_THREADS == 1 && ENGINE_KIND_PROCESSES == 2 &&
		   ENGINE_KIND_CONNECTIONS == 1 << 2,
	       "the order of the names");
