/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"

static void read_package(struct cursor *st, struct store_package *p)
{
	column_text(st, 1, p->name, sizeof(p->name));
	column_text(st, 2, p->version, sizeof(p->version));
	column_text(st, 3, p->status, sizeof(p->status));
	column_text(st, 4, p->text, sizeof(p->text));
	p->started_ms = column_u64(st, 5);
	p->ended_ms = column_u64(st, 6);
}

int store_package_set(struct store *s, const char *sandbox, const struct store_package *p,
		      struct err *e)
{
	int r = db_transaction(&s->db, false, e);

	r = r < 0 ? r
		  : db_run(&s->db, Q_PACKAGE_SET, NULL, e, "tttttii", sandbox, p->name, p->version,
			   p->status, p->text, (int64_t)p->started_ms, (int64_t)p->ended_ms);
	r = db_finish(&s->db, false, r, e);
	if (r == -EEXIST) /* only the reference to the sandbox can fail */
		return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", sandbox);
	return r;
}

int store_package_get(struct store *s, const char *sandbox, const char *name,
		      struct store_package *ret, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_PACKAGE_GET, e, "tt", sandbox, name);

	if (!st)
		return -e->errnum;
	int r = db_step(&s->db, st, e);
	if (r == 1)
		read_package(st, ret);
	return r;
}

int store_package_remove(struct store *s, const char *sandbox, const char *name, struct err *e)
{
	int changes = 0;
	int r = db_transaction(&s->db, false, e);

	r = r < 0 ? r : db_run(&s->db, Q_PACKAGE_REMOVE, &changes, e, "tt", sandbox, name);
	r = db_finish(&s->db, false, r, e);
	return r < 0 ? r : changes > 0;
}
