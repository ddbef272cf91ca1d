/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers the ids of sessions that have ended, and why, so that a caller who uses such an id is told.
 * Also chooses the session that is closed when a new one finds no room, and ends what a failed call made.
 *
 * At most ENDS_MAX ids are remembered, ENDS_OWNER_MAX of one owner. The oldest are forgotten; an id that
 * was forgotten looks like one that never existed. */
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/checkpoints.h"
#include "sandbox/manager.h"

#include <string.h>

#define ENDS_MAX       1024u
#define ENDS_OWNER_MAX 64u

struct ended {
	struct list node; /* of manager.ends, newest first */
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
	enum sandbox_end_why why;
	uint64_t at_ns;
};

static const char *why_text(enum sandbox_end_why why)
{
	static const char *const texts[] = {
	    [SANDBOX_END_NONE] = "ended",
	    [SANDBOX_END_DELETED] = "was deleted",
	    [SANDBOX_END_UNUSED] = "was closed because nobody used it",
	    [SANDBOX_END_LOST] = "ended on its own",
	    [SANDBOX_END_ROOM] =
		"was closed because it held nothing and another one needed the room",
	};

	return texts[why];
}

static void forget(struct manager *m, struct ended *d)
{
	list_remove(&d->node);
	m->n_ends--;
	free(d);
}

static struct ended *find(const struct manager *m, const char *owner, const char *id)
{
	list_for_each(l, &m->ends) {
		struct ended *d = list_entry(l, struct ended, node);

		if (streq(d->id, id) && streq(d->owner, owner))
			return d;
	}
	return NULL;
}

/* Makes room for one more of OWNER. */
static void make_room(struct manager *m, const char *owner)
{
	struct ended *oldest = NULL;
	unsigned n = 0;

	list_for_each(l, &m->ends) {
		struct ended *d = list_entry(l, struct ended, node);

		if (!streq(d->owner, owner))
			continue;
		oldest = d;
		n++;
	}
	if (n < ENDS_OWNER_MAX)
		oldest = m->n_ends < ENDS_MAX ? NULL : list_last(&m->ends, struct ended, node);
	if (oldest)
		forget(m, oldest);
}

void session_note_end(const struct sandbox *s, enum sandbox_end_why why)
{
	struct manager *m = s->manager;

	if (s->stored || m->closing)
		return;
	struct ended *d = find(m, s->owner, s->id);
	if (d)
		forget(m, d);
	make_room(m, s->owner);
	d = calloc(1, sizeof(*d));
	if (!d)
		return;
	memcpy(d->owner, s->owner, sizeof(d->owner));
	memcpy(d->id, s->id, sizeof(d->id));
	d->why = why;
	d->at_ns = manager_now(m);
	list_prepend(&m->ends, &d->node);
	m->n_ends++;
}

struct sandbox_end manager_ended(const struct manager *m, const char *owner, const char *id)
{
	const struct ended *d = find(m, owner, id);

	if (!d)
		return (struct sandbox_end){0};
	return (struct sandbox_end){.why = d->why, .ago_ns = manager_now(m) - d->at_ns};
}

void session_forget_ends(struct manager *m)
{
	struct ended *d;

	while ((d = list_first(&m->ends, struct ended, node)) != NULL)
		forget(m, d);
}

int sandbox_end_add(struct buf *b, const struct sandbox_end *end)
{
	const uint64_t s = end->ago_ns / NS_PER_S;
	const char *unit = s < 120 ? "s" : s < 7200 ? "min" : "h";
	const uint64_t n = s < 120 ? s : s < 7200 ? s / 60 : s / 3600;

	return buf_printf(b, "%s, %ju %s ago", why_text(end->why), (uintmax_t)n, unit);
}

int manager_no_session(const struct manager *m, const char *owner, const char *id, struct err *e)
{
	const struct sandbox_end end = manager_ended(m, owner, id);
	_cleanup_(buf_done) struct buf why = BUF_INIT(ERR_TEXT_MAX);

	if (end.why == SANDBOX_END_NONE || sandbox_end_add(&why, &end) < 0)
		return err_set(
		    e, ERR_SESSION_NOT_FOUND, 0,
		    "There is no sandbox %s, and none of that id ended lately. Is the id "
		    "mistyped?",
		    id);
	return err_set(e, ERR_SESSION_NOT_FOUND, 0,
		       "Sandbox %s %s. Its files and variables are gone.", id, buf_str(&why));
}

/* ---- giving up ---- */

/* Whether the workspace of S has no files, and S has no variables, packages, checkpoints or options of
 * its own. Files in /tmp do not count. A session in which nothing ran yet is about to be used, so it
 * is not empty. */
static bool holds_nothing(const struct sandbox *s)
{
	return !s->stored && s->state == SANDBOX_READY && s->used && !s->keeps &&
	       s->inventory_known && s->inventory.n == 0 && s->options.given == 0 &&
	       s->n_domains == 0 && (!s->choice || s->choice->text[0] == '\0') &&
	       checkpoints_count(s) == 0 && sandbox_is_idle(s);
}

/* One that ended on its own is kept only to tell its next user so. It goes before any that lives. */
static bool has_ended(const struct sandbox *s)
{
	return !s->stored && s->state == SANDBOX_LOST && sandbox_is_idle(s);
}

static bool is_better(const struct sandbox *s, const struct sandbox *best)
{
	if (!best || has_ended(s) != has_ended(best))
		return !best || has_ended(s);
	return s->used_ns < best->used_ns;
}

int session_give_up(struct manager *m, const char *owner)
{
	struct sandbox *best = NULL;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);

			/* Only the caller's own: no user can end a session of another one. */
			if (streq(s->owner, owner) &&
			    (has_ended(s) || (m->config.give_up_empty && holds_nothing(s))) &&
			    is_better(s, best))
				best = s;
		}
	if (!best)
		return -ENOENT;
	LOG_INFO("session_makes_room", LOG_S("session_id", best->id));
	session_note_end(best, has_ended(best) ? SANDBOX_END_LOST : SANDBOX_END_ROOM);
	return sandbox_drop(best, NULL, NULL, &e);
}

/* A session that has been used and whose files nobody has listed since may have some. */
bool session_holds(const struct sandbox *s)
{
	return s->keeps || checkpoints_count(s) > 0 ||
	       (s->inventory_known ? s->inventory.n > 0 : s->used || s->used_ns > s->created_ns);
}

int session_give_up_kept(struct manager *m)
{
	struct sandbox *best = NULL;
	struct err e = ERR_INIT;

	if (m->config.keep_ns <= m->config.ttl_ns) /* then the sweep closes it */
		return -ENOENT;
	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);

			/* A time that its creator chose is a promise. */
			if (!s->stored && s->state == SANDBOX_READY && sandbox_is_idle(s) &&
			    list_is_empty(&s->holds) &&
			    !sandbox_option_given(&s->options, SANDBOX_OPTION_TTL) &&
			    sandbox_idle_ns(s) > m->config.ttl_ns &&
			    (!best || s->used_ns < best->used_ns))
				best = s;
		}
	if (!best)
		return -ENOENT;
	LOG_INFO("session_makes_room", LOG_S("session_id", best->id));
	session_note_end(best, SANDBOX_END_UNUSED);
	return sandbox_drop(best, NULL, NULL, &e);
}

/* ---- undoing ---- */

struct undo {
	struct sandbox *sandbox; /* reference */
	void (*cb)(void *user);
	void *user;
};

static void undo_end(struct undo *u)
{
	u->cb(u->user);
	(void)sandbox_unref(u->sandbox);
	free(u);
}

static void on_undone(const struct err *e UNUSED, void *user)
{
	undo_end(user);
}

/* Another call may have found the session meanwhile, and may use it now. */
static bool can_undo(const struct sandbox *s)
{
	return s->state == SANDBOX_READY && s->runs == 0 && !s->keeps && !s->stored &&
	       s->options.given == 0 && checkpoints_count(s) == 0 && sandbox_is_idle(s);
}

static void on_undo_list(const struct engine_file *files UNUSED, size_t n, bool more,
			 const struct err *e, void *user)
{
	struct undo *u = user;
	struct sandbox *s = u->sandbox;
	struct err ignored = ERR_INIT;

	if (e || n > 0 || more || !can_undo(s) || sandbox_drop(s, on_undone, u, &ignored) < 0)
		undo_end(u);
}

void sandbox_undo(struct sandbox *s, void (*cb)(void *user), void *user)
{
	struct undo *u = can_undo(s) ? calloc(1, sizeof(*u)) : NULL;
	struct err ignored = ERR_INIT;

	if (!u) {
		cb(user);
		return;
	}
	*u = (struct undo){.sandbox = sandbox_ref(s), .cb = cb, .user = user};
	if (engine_list_files(s->handle, "", on_undo_list, u, &ignored) < 0)
		undo_end(u);
}
