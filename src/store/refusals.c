/* SPDX-License-Identifier: Apache-2.0 */
/* What fails is counted here, and written as one row of the audit log by kind and minute: a flood of refused requests
 * costs a few rows, whatever its rate. The caller's thread counts. The helper thread writes the rows when it finds a
 * NOTE_REFUSALS in the queue, so that readers, retries and the end of the store treat them like other rows. */
#include "store/db.h"

#include "base/rand.h"

#include <sodium.h>
#include <string.h>

#define WINDOW_NS  (60 * NS_PER_S)
#define GROWTH_NS  (2 * NS_PER_S) /* counts that grew are written this often */
#define NARROW_MAX 3              /* of its kind, of its source, of all */

_Static_assert(sizeof(((struct refusals *)0)->secret) == crypto_shorthash_KEYBYTES, "key size");

static uint64_t hash_texts(const struct refusals *t, unsigned class, const char *const *texts,
			   size_t n)
{
	char all[3 * STORE_PEER_SIZE + 2 * STORE_WORD_SIZE + 16];
	size_t len = 0;
	uint64_t hash;

	all[len++] = (char)class;
	for (size_t i = 0; i < n; i++) {
		const size_t size = strlen(texts[i]) + 1;

		if (len + size > sizeof(all))
			break;
		memcpy(all + len, texts[i], size);
		len += size;
	}
	(void)crypto_shorthash((uint8_t *)&hash, (const uint8_t *)all, len, t->secret);
	return hash ? hash : 1;
}

/* ---- counting, with the lock held ---- */

static bool is_written(const struct refusal *x)
{
	return x->in_flight == 0 && x->written == x->row.count;
}

static bool is_over(const struct refusal *x, uint64_t now)
{
	return now - x->since_ns >= WINDOW_NS;
}

/* The slots of the class; the last one is for what finds no other. */
static struct refusal *slots_of(struct refusals *t, enum store_audit_class class)
{
	return class == STORE_AUDIT_FAILED ? t->failed : t->refused;
}

/* Begins a row in a free slot, if the limits permit one more. */
static struct refusal *take_slot(struct refusals *t, const struct store_audit *a, uint64_t who,
				 unsigned narrow, uint64_t now)
{
	struct refusal *slots = slots_of(t, a->class), *free_one = NULL;
	unsigned alike = 0;

	for (size_t i = 0; i < STORE_AUDIT_KINDS_ALL; i++) {
		struct refusal *x = &slots[i];

		if (x->kind == 0 || (is_over(x, now) && is_written(x)))
			free_one = free_one ? free_one : x;
		else
			alike += x->who == who;
	}
	if (narrow + 1 == NARROW_MAX)
		return &slots[STORE_AUDIT_KINDS_ALL];
	/* A source at its limit still has one row for the rest. */
	return alike < STORE_AUDIT_KINDS + narrow ? free_one : NULL;
}

/* The row that A is counted in: that of its kind, else that of the rest of its source, else that of the rest. */
static struct refusal *slot_for(struct refusals *t, struct store_audit *a, uint64_t now)
{
	struct refusal *slots = slots_of(t, a->class);
	const bool stranger = a->class == STORE_AUDIT_REFUSED;

	for (unsigned narrow = 0; narrow < NARROW_MAX; narrow++) {
		const char *texts[] = {a->actor, a->source, a->action, a->result};
		struct refusal *x = NULL;

		if (narrow + 1 == NARROW_MAX)
			a->actor[0] = a->source[0] = a->peer[0] = '\0';
		const uint64_t who = hash_texts(t, a->class, stranger ? &texts[1] : texts, 1);
		const uint64_t kind = hash_texts(t, a->class, texts, ARRAY_SIZE(texts));
		for (size_t i = 0; i <= STORE_AUDIT_KINDS_ALL && !x; i++)
			x = slots[i].kind == kind ? &slots[i] : NULL;
		/* A row whose minute is over still grows while it cannot be written. */
		if (x && !(is_over(x, now) && is_written(x)))
			return x;
		x = x ? x : take_slot(t, a, who, narrow, now);
		if (x) {
			*x = (struct refusal){.kind = kind, .who = who, .since_ns = now, .row = *a};
			x->row.count = 0;
			return x;
		}
		(void)snprintf(a->action, sizeof(a->action), "%s",
			       stranger ? "refused.more" : "failed.more");
		(void)snprintf(a->result, sizeof(a->result), "counted");
		a->object[0] = '\0';
	}
	return NULL;
}

static bool has_unwritten(const struct refusals *t)
{
	for (size_t i = 0; i <= STORE_AUDIT_KINDS_ALL; i++)
		if (t->failed[i].written != t->failed[i].row.count ||
		    t->refused[i].written != t->refused[i].row.count)
			return true;
	return false;
}

void refusals_count(struct store *s, const struct store_audit *a)
{
	const struct note n = {.kind = NOTE_REFUSALS};
	struct helper *h = &s->helper;
	struct refusals *t = &h->refusals;
	struct store_audit row = *a;
	const uint64_t now = now_ns(), more = MAX(a->count, UINT64_C(1));

	(void)pthread_mutex_lock(&h->lock);
	struct refusal *x = slot_for(t, &row, now);
	const bool begins = x->row.count == 0;
	x->row.count += more;
	if (!streq(x->row.object, row.object))
		(void)snprintf(x->row.detail, sizeof(x->row.detail), "and others");
	t->counted += more;
	t->unwritten = true;
	const bool push = !t->noted && (begins || now - t->noted_ns >= GROWTH_NS);
	if (push) {
		t->noted = true;
		t->noted_ns = now;
	}
	(void)pthread_mutex_unlock(&h->lock);
	if (push && !note_push(s, &n)) {
		(void)pthread_mutex_lock(&h->lock);
		t->noted = false; /* the next one tries again */
		(void)pthread_mutex_unlock(&h->lock);
	}
}

void refusals_flush(struct store *s)
{
	const struct note n = {.kind = NOTE_REFUSALS};
	struct helper *h = &s->helper;

	(void)pthread_mutex_lock(&h->lock);
	const bool push = h->refusals.unwritten && !h->refusals.noted;
	h->refusals.noted = h->refusals.noted || push;
	(void)pthread_mutex_unlock(&h->lock);
	if (push && !note_push(s, &n)) {
		(void)pthread_mutex_lock(&h->lock);
		h->refusals.noted = false;
		(void)pthread_mutex_unlock(&h->lock);
	}
}

/* ---- writing, on the thread ---- */

static int write_one(struct helper *h, struct refusal *x, struct err *e)
{
	(void)pthread_mutex_lock(&h->lock);
	const struct store_audit row = x->row;
	const uint64_t written = x->written;
	if (written != row.count)
		x->in_flight = row.count;
	(void)pthread_mutex_unlock(&h->lock);
	if (written == row.count)
		return 0;
	/* Another NOTE_REFUSALS of this transaction may have added the row. */
	const int64_t id = x->id ? x->id : x->flight_id;
	if (id)
		return db_run(&h->db, Q_AUDIT_MORE, NULL, e, "iit", id, (int64_t)row.count,
			      row.detail);
	int r = audit_write(&h->db, &row, e);
	x->flight_id = r < 0 ? 0 : h->db.kind->last_id(&h->db);
	return r;
}

int refusals_write(struct helper *h, struct err *e)
{
	struct refusals *t = &h->refusals;
	int r = 0;

	(void)pthread_mutex_lock(&h->lock);
	t->noted = false;
	t->noted_ns = now_ns();
	(void)pthread_mutex_unlock(&h->lock);
	for (size_t i = 0; i <= STORE_AUDIT_KINDS_ALL && r == 0; i++)
		r = write_one(h, &t->failed[i], e);
	for (size_t i = 0; i <= STORE_AUDIT_KINDS_ALL && r == 0; i++)
		r = write_one(h, &t->refused[i], e);
	return r;
}

static void settle_one(struct refusal *x, bool ok)
{
	if (x->in_flight && ok) {
		x->written = x->in_flight;
		x->id = x->id ? x->id : x->flight_id;
	}
	x->in_flight = 0;
	x->flight_id = 0;
}

void refusals_settle(struct helper *h, bool ok)
{
	struct refusals *t = &h->refusals;

	for (size_t i = 0; i <= STORE_AUDIT_KINDS_ALL; i++) {
		settle_one(&t->failed[i], ok);
		settle_one(&t->refused[i], ok);
	}
	t->unwritten = has_unwritten(t);
}

uint64_t refusals_due(const struct helper *h)
{
	const struct refusals *t = &h->refusals;

	return t->unwritten && !t->noted ? t->noted_ns + GROWTH_NS : 0;
}

void refusals_open(struct helper *h)
{
	crypto_shorthash_keygen(h->refusals.secret);
}
