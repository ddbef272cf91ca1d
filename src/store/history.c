/* SPDX-License-Identifier: Apache-2.0 */
/* History of runs, usage: writes and reads rows. */
#include "store/db.h"

#define DAY_MS UINT64_C(86400000)

/* ---- runs ---- */

int run_write(struct db *db, const struct store_run *r, uint64_t day_of_ms, struct err *e)
{
	int done =
	    db_run(db, Q_RUN_ADD, NULL, e, "tttttiiiiii", r->id, r->owner, r->sandbox, r->kind,
		   r->reason, r->exit_code, (int64_t)r->started_ms, (int64_t)r->duration_ms,
		   (int64_t)r->cpu_us, (int64_t)r->peak_bytes, (int64_t)r->out_bytes);

	return done < 0 ? done
			: db_run(db, Q_USAGE_ADD, NULL, e, "tii", r->owner,
				 (int64_t)(day_of_ms / DAY_MS), (int64_t)r->cpu_us);
}

static void read_run(struct cursor *st, struct store_run *r)
{
	column_text(st, 0, r->id, sizeof(r->id));
	column_text(st, 1, r->owner, sizeof(r->owner));
	column_text(st, 2, r->sandbox, sizeof(r->sandbox));
	column_text(st, 3, r->kind, sizeof(r->kind));
	column_text(st, 4, r->reason, sizeof(r->reason));
	r->exit_code = column_i64(st, 5);
	r->started_ms = column_u64(st, 6);
	r->duration_ms = column_u64(st, 7);
	r->cpu_us = column_u64(st, 8);
	r->peak_bytes = column_u64(st, 9);
	r->out_bytes = column_u64(st, 10);
}

static struct cursor *begin_runs(struct store *s, const char *owner, const char *sandbox,
				 int64_t before, int64_t limit, struct err *e)
{
	if (sandbox)
		return db_begin(&s->db, Q_RUN_LIST_SANDBOX, e, "iitt", before, limit, owner,
				sandbox);
	if (owner)
		return db_begin(&s->db, Q_RUN_LIST_OWN, e, "iit", before, limit, owner);
	return db_begin(&s->db, Q_RUN_LIST, e, "ii", before, limit);
}

int store_run_each(struct store *s, const char *owner, const char *sandbox, uint64_t before_ms,
		   unsigned limit, store_run_fn fn, void *user, struct err *e)
{
	int64_t before = before_ms && before_ms < INT64_MAX ? (int64_t)before_ms : INT64_MAX;
	_cleanup_(db_end) struct cursor *st =
	    begin_runs(s, owner, sandbox, before, (int64_t)limit, e);
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_run row;

		r = db_step(&s->db, st, e);
		if (r > 0) {
			read_run(st, &row);
			fn(&row, user);
		}
	}
	return r;
}

int store_usage_today(struct store *s, const char *owner, uint64_t *ret_cpu_us, struct err *e)
{
	return db_number(
	    &s->db, ret_cpu_us,
	    db_begin(&s->db, Q_USAGE_GET, e, "ti", owner, (int64_t)(store_now_ms() / DAY_MS)), e);
}

int store_usage_each_today(struct store *s, store_usage_fn fn, void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_USAGE_DAY, e, "i", (int64_t)(store_now_ms() / DAY_MS));
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		char owner[STORE_OWNER_SIZE];

		r = db_step(&s->db, st, e);
		if (r > 0) {
			column_text(st, 0, owner, sizeof(owner));
			fn(owner, column_u64(st, 1), user);
		}
	}
	return r;
}
