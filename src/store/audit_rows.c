/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: rows by class. Each class has a bound of its own, and within a class whoever has most rows loses the
 * oldest ones: a flood displaces only rows of whoever causes it. */
#include "store/db.h"

#include "base/walls.h"

#include <string.h>

#define REFUSED_PART 10u /* refused and failed rows have this part of the bound */

static uint64_t bound_of(const struct store_config *config, enum store_audit_class class)
{
	bool part = class == STORE_AUDIT_FAILED || class == STORE_AUDIT_REFUSED;

	return part ? MAX(config->audit_keep / REFUSED_PART, UINT64_C(1)) : config->audit_keep;
}

int audit_set_bounds(struct db *db, const struct store_config *config, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; i < STORE_AUDIT_MAX_ && r == 0; i++)
		r = db_run(db, Q_AUDIT_BOUND, NULL, e, "ii", (int64_t)i,
			   (int64_t)bound_of(config, (enum store_audit_class)i));
	return r;
}

/* ---- write ---- */

int audit_write(struct db *db, const struct store_audit *a, struct err *e)
{
	/* Refused rows are nobody's: the oldest of the class goes. */
	const char *who = a->class == STORE_AUDIT_REFUSED ? "" : a->actor;

	return db_run(db, Q_AUDIT_ADD, NULL, e, "ittttttiti", (int64_t)a->at_ms, a->actor,
		      a->action, a->object, a->result, a->detail, a->peer, (int64_t)a->class, who,
		      (int64_t)MAX(a->count, 1u));
}

int audit_prune(struct db *db, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; i < STORE_AUDIT_MAX_ && r == 0; i++) {
		uint64_t over = 0;

		r = db_number(db, &over, db_begin(db, Q_AUDIT_OVER, e, "i", (int64_t)i), e);
		r = r < 0 ? r : prune_most(db, Q_AUDIT_PRUNE, over, (int)i, e);
	}
	return r;
}

void store_note_audit(struct store *s, const struct store_audit *a)
{
	struct note n = {.kind = NOTE_AUDIT, .at_ms = store_now_ms(), .audit = *a};

	if (n.audit.at_ms == 0)
		n.audit.at_ms = n.at_ms;
	if (!wall_stands(WALL_COUNTED))
		n.audit.class = STORE_AUDIT_DONE;
	if (s && (n.audit.class == STORE_AUDIT_FAILED || n.audit.class == STORE_AUDIT_REFUSED))
		refusals_count(s, &n.audit);
	else
		note_push(s, &n);
}

void store_audit_as(struct store *s, enum store_audit_class class, const char *source,
		    const char *actor, const char *action, const char *object, const char *result,
		    const char *detail, const char *peer)
{
	struct store_audit a = {.class = class, .count = 1};

	copy_text(a.source, sizeof(a.source), source);
	copy_text(a.actor, sizeof(a.actor), actor);
	copy_text(a.action, sizeof(a.action), action);
	copy_text(a.object, sizeof(a.object), object);
	copy_text(a.result, sizeof(a.result), result);
	copy_text(a.detail, sizeof(a.detail), detail);
	copy_text(a.peer, sizeof(a.peer), peer);
	store_note_audit(s, &a);
}

void store_audit(struct store *s, const char *actor, const char *action, const char *object,
		 const char *result, const char *detail, const char *peer)
{
	store_audit_as(s, STORE_AUDIT_DONE, NULL, actor, action, object, result, detail, peer);
}

/* ---- read ---- */

static void read_audit(struct cursor *st, struct store_audit *a)
{
	a->id = column_u64(st, 0);
	a->at_ms = column_u64(st, 1);
	column_text(st, 2, a->actor, sizeof(a->actor));
	column_text(st, 3, a->action, sizeof(a->action));
	column_text(st, 4, a->object, sizeof(a->object));
	column_text(st, 5, a->result, sizeof(a->result));
	column_text(st, 6, a->detail, sizeof(a->detail));
	column_text(st, 7, a->peer, sizeof(a->peer));
	a->class = (enum store_audit_class)MIN(column_u64(st, 8), (uint64_t)STORE_AUDIT_MAX_ - 1);
	a->count = column_u64(st, 9);
	a->source[0] = '\0';
}

int store_audit_each(struct store *s, const char *actor, uint64_t before_id, unsigned limit,
		     store_audit_fn fn, void *user, struct err *e)
{
	int64_t before = before_id && before_id < INT64_MAX ? (int64_t)before_id : INT64_MAX;
	_cleanup_(db_end) struct cursor *st =
	    actor ? db_begin(&s->db, Q_AUDIT_LIST_OWN, e, "iit", before, (int64_t)limit, actor)
		  : db_begin(&s->db, Q_AUDIT_LIST, e, "ii", before, (int64_t)limit);
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_audit row;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		read_audit(st, &row);
		if (!fn(&row, user))
			return 0;
	}
	return r;
}
