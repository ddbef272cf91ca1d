/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of the history wait until the helper thread has written the rows that they must see. The loop goes on
 * meanwhile: the helper may be hashing a password, or the disk may be slow.
 *
 * Rows have numbers in the order of the queue. A reader waits for a number. A row that its owner adds while it
 * waits raises the number: a run that ends just then would otherwise be neither among the running ones nor in
 * the history. An owner who never stops adding rows would wait for ever, so the number rises for a while only. */
#include "store/db.h"

#include "base/rand.h"

#include <string.h>

#define WAIT_US  (1000 * 1000)
#define RISES_NS (100 * NS_PER_MS)

struct reader {
	struct list node; /* in store.readers, or in a list of those that go on */
	struct store *store;
	sd_event_source *timer;
	char owner[STORE_OWNER_SIZE];
	uint64_t since_ns;
	uint64_t target; /* the number of the last row that it must see */
	uint64_t failed; /* batches that had failed before */
	store_written_fn fn;
	void *user;
};

/* The owner whose history the row belongs to. NULL: no reader waits for such rows of one owner. */
static const char *owner_of(const struct note *n)
{
	return n->kind == NOTE_RUN    ? n->run.owner
	       : n->kind == NOTE_CELL ? n->cell->owner
	       : n->kind == NOTE_NAME ? n->notebook.owner
				      : NULL;
}

void readers_note(struct store *s, const struct note *n)
{
	const char *owner = owner_of(n);

	if (!owner || list_is_empty(&s->readers))
		return;
	const uint64_t now = now_ns();
	list_for_each(l, &s->readers) {
		struct reader *r = list_entry(l, struct reader, node);

		if (now - r->since_ns > RISES_NS || !streq(r->owner, owner))
			continue;
		r->target = s->helper.queued_seq;
		s->helper.flush = true;
	}
}

static void go_on(struct reader *r, const struct err *e)
{
	struct helper *h = &r->store->helper;

	list_remove(&r->node);
	(void)sd_event_source_disable_unref(r->timer);
	(void)pthread_mutex_lock(&h->lock);
	h->readers--;
	(void)pthread_mutex_unlock(&h->lock);
	r->fn(e, r->user);
	free(r);
}

/* It sees what there is. */
static int on_late(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	go_on(user, NULL);
	return 0;
}

int store_when_written(struct store *s, const char *owner, store_written_fn fn, void *user)
{
	struct helper *h = &s->helper;

	refusals_flush(s);
	(void)pthread_mutex_lock(&h->lock);
	bool waits = s->answers && h->written_seq < h->queued_seq;
	(void)pthread_mutex_unlock(&h->lock);
	struct reader *r = waits ? calloc(1, sizeof(*r)) : NULL;
	if (!r)
		return 1;
	r->store = s;
	r->fn = fn;
	r->user = user;
	r->since_ns = now_ns();
	copy_text(r->owner, sizeof(r->owner), owner);
	if (sd_event_add_time_relative(sd_event_source_get_event(s->answers), &r->timer,
				       CLOCK_MONOTONIC, WAIT_US, 0, on_late, r) < 0) {
		free(r);
		return 1;
	}
	list_append(&s->readers, &r->node);
	(void)pthread_mutex_lock(&h->lock);
	h->readers++;
	h->flush = true;
	r->target = h->queued_seq;
	r->failed = h->counts.failed;
	waits = h->written_seq < h->queued_seq;
	(void)pthread_cond_signal(&h->work);
	(void)pthread_mutex_unlock(&h->lock);
	if (waits)
		return 0;
	/* The helper was quicker, and tells nobody. */
	list_remove(&r->node);
	(void)sd_event_source_disable_unref(r->timer);
	(void)pthread_mutex_lock(&h->lock);
	h->readers--;
	(void)pthread_mutex_unlock(&h->lock);
	free(r);
	return 1;
}

void readers_answers(struct store *s)
{
	struct helper *h = &s->helper;
	struct list ready = LIST_INIT(ready);
	struct list *l;

	(void)pthread_mutex_lock(&h->lock);
	const uint64_t written = h->written_seq, failed = h->counts.failed;
	(void)pthread_mutex_unlock(&h->lock);
	list_for_each(n, &s->readers) {
		struct reader *r = list_entry(n, struct reader, node);

		if (r->target > written && r->failed == failed)
			continue;
		list_remove(n);
		list_append(&ready, n);
	}
	while ((l = list_pop(&ready)))
		go_on(list_entry(l, struct reader, node), NULL);
}

void readers_cancel(struct store *s)
{
	struct err e = ERR_INIT;
	struct list *l;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	while ((l = list_pop(&s->readers)))
		go_on(list_entry(l, struct reader, node), &e);
}
