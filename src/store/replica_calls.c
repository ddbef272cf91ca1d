/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of a change with what they returned: recorded on the copy, repeated in PostgreSQL, compared. */
#include "store/replica.h"

#include "base/text.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_MAX   512u        /* changes that PostgreSQL has not confirmed */
#define PENDING_BYTES (32u << 20) /* of their statements */

struct call *replica_call_new(enum statement id, const struct value *values, unsigned n)
{
	size_t size = sizeof(struct call);

	for (unsigned i = 0; i < n; i++)
		size += values[i].len + 1;
	struct call *c = calloc(1, size);
	if (!c)
		return NULL;
	uint8_t *at = (uint8_t *)(c + 1);
	c->id = id;
	c->n_values = n;
	c->bytes = size;
	for (unsigned i = 0; i < n; i++) {
		c->values[i] = values[i];
		if (!values[i].data)
			continue;
		memcpy(at, values[i].data, values[i].len); /* calloc() has ended it */
		c->values[i].data = at;
		at += values[i].len + 1;
	}
	return c;
}

/* Each database tells the same values in the same texts. */
void replica_call_add_row(struct call *c, const struct cursor *st, int r)
{
	const struct db_kind *kind = st->db->kind;
	crypto_generichash_state state;

	c->ended = r == 0;
	if (r <= 0)
		return;
	c->rows++;
	(void)crypto_generichash_init(&state, c->digest, sizeof(c->digest), sizeof(c->digest));
	for (int i = 0; i < kind->columns(st); i++) {
		const char *text = kind->text(st, i);
		const uint8_t is_null = !text;

		(void)crypto_generichash_update(&state, &is_null, 1);
		if (text) /* with its NUL, which ends it */
			(void)crypto_generichash_update(&state, (const uint8_t *)text,
							strlen(text) + 1);
	}
	(void)crypto_generichash_final(&state, c->digest, sizeof(c->digest));
}

int replica_call_run(struct db *db, const struct call *c, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin_with(db, c->id, c->values, c->n_values, e);
	int r = st ? 1 : -e->errnum;

	while (r > 0)
		r = db_step(db, st, e);
	return r;
}

int replica_call_repeat(struct db *db, const struct call *c, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin_with(db, c->id, c->values, c->n_values, e);
	struct call now = {.id = c->id};
	int r = 1;

	if (!st)
		return -e->errnum;
	if (c->below > 0) {
		r = db_step(db, st, e);
		if (r >= 0)
			r = r > 0 && column_u64(st, 0) < c->below ? 0 : replica_call_differs(e);
		return r;
	}
	/* As far as the caller went: it may have left the rest unread. */
	while (r > 0 && (now.rows < c->rows || c->ended)) {
		r = db_step(db, st, e);
		if (r >= 0)
			replica_call_add_row(&now, st, r);
		if (now.rows > c->rows)
			break;
	}
	if (r < 0)
		return r;
	const bool same = now.rows == c->rows &&
			  sodium_memcmp(now.digest, c->digest, sizeof(now.digest)) == 0 &&
			  (!c->seen || db->kind->changes(db) == c->changes);
	return same ? 0 : replica_call_differs(e);
}

int replica_call_differs(struct err *e)
{
	(void)err_set(e, ERR_STORE_BUSY, 0,
		      "somebody else has changed the same just now, and nothing was changed here");
	e->errnum = EBUSY;
	return -EBUSY;
}

static void calls_free(struct call **calls, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		sodium_memzero(calls[i], calls[i]->bytes); /* hashes, digests */
		free(calls[i]);
	}
	free(calls);
}

void replica_change_free(struct change *c)
{
	if (!c)
		return;
	calls_free(c->calls, c->n_calls);
	free(c);
}

int replica_check_room(const struct list *pending, const char *by, struct err *e)
{
	unsigned n = 0, own = 0;
	size_t bytes = 0;

	list_for_each(node, pending) {
		const struct change *c = list_entry(node, struct change, pending);

		n++;
		own += by && *by && streq(c->by, by);
		bytes += c->bytes;
	}
	if (n >= PENDING_MAX || bytes >= PENDING_BYTES)
		return err_set(e, ERR_STORE_BUSY, EBUSY, "too many changes wait for the database");
	if (own >= STORE_WAITING_EACH)
		return err_set(e, ERR_STORE_BUSY, EBUSY,
			       "%u of your changes wait for the database: wait for their answers",
			       own);
	return 0;
}

void replica_news_free(struct news *n)
{
	if (n->kind == NEWS_END) /* of its change */
		return;
	calls_free(n->rows, n->n_rows);
	db_close(&n->copy);
	free(n);
}
