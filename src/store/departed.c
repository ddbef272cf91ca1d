/* SPDX-License-Identifier: Apache-2.0 */
/* What a removed user leaves in the history is removed in slices by the helper thread: it may be 100,000 rows. A trigger
 * writes the user's id into the table "departed", so the removal goes on after a crash and in other servers. The id stays
 * there for an hour: rows of runs that were under way come late. */
#include "store/db.h"

#include "base/rand.h"

#define RUNS_SLICE  200
#define CELLS_SLICE 8 /* each may have megabytes */
#define LINGER_MS   UINT64_C(3600000)

static int remove_slice(struct db *db, bool *ret_more, struct err *e)
{
	int runs = 0, cells = 0;
	int r = db_run(db, Q_DEPARTED_RUNS, &runs, e, "i", (int64_t)RUNS_SLICE);

	r = r < 0 ? r : db_run(db, Q_DEPARTED_CELLS, &cells, e, "i", (int64_t)CELLS_SLICE);
	*ret_more = runs == RUNS_SLICE || cells == CELLS_SLICE;
	if (r < 0 || *ret_more)
		return r;
	r = db_run(db, Q_DEPARTED_DRAFTS, NULL, e, "");
	r = r < 0 ? r : db_run(db, Q_DEPARTED_USAGE, NULL, e, "");
	r = r < 0 ? r : db_run(db, Q_DEPARTED_SUMS, NULL, e, "");
	return r < 0 ? r
		     : db_run(db, Q_DEPARTED_DONE, NULL, e, "i",
			      (int64_t)(store_now_ms() - LINGER_MS));
}

int departed_sweep(struct db *db, bool *ret_more, struct err *e)
{
	uint64_t any = 0;
	int r = db_number(db, &any, db_begin(db, Q_DEPARTED_ANY, e, ""), e);

	*ret_more = false;
	if (r < 0 || !any)
		return r;
	r = db_transaction(db, false, e);
	r = r < 0 ? r : remove_slice(db, ret_more, e);
	return db_finish(db, false, r, e);
}

void departed_wake(struct store *s)
{
	struct helper *h = &s->helper;

	(void)pthread_mutex_lock(&h->lock);
	h->sweep = true;
	if (helper_start(s) == 0)
		(void)pthread_cond_signal(&h->work);
	(void)pthread_mutex_unlock(&h->lock);
}
