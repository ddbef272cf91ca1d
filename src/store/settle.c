/* SPDX-License-Identifier: Apache-2.0 */
/* Changes whose caller does not wait for the disk. The helper thread syncs the WAL, once for all who wait. */
#include "store/db.h"

#include "base/fdio.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

struct settling {
	struct list node; /* in helper.settling or helper.settled */
	store_settled_fn fn;
	void *user;
	int r;
};

void store_later(struct store *s, bool on)
{
	s->db.later = on;
	s->db.owes = false;
}

bool store_owes(const struct store *s)
{
	return s->db.owes;
}

static int sync_wal(const struct helper *h)
{
	return fdatasync(h->wal) < 0 ? -errno : 0;
}

static int fail(int r, struct err *e)
{
	return err_set(e, store_err_of(-r), -r, "the change may be lost if the machine stops");
}

int store_settle(struct store *s, store_settled_fn fn, void *user, struct err *e)
{
	struct helper *h = &s->helper;
	struct settling *w = malloc(sizeof(*w));
	int r = w ? 0 : -ENOMEM;

	s->db.owes = false;
	(void)pthread_mutex_lock(&h->lock);
	r = r < 0 ? r : helper_start(s);
	if (r == 0) {
		*w = (struct settling){.fn = fn, .user = user};
		list_append(&h->settling, &w->node);
		(void)pthread_cond_signal(&h->work);
	}
	(void)pthread_mutex_unlock(&h->lock);
	if (r == 0)
		return 0;
	free(w); /* nobody can do it for us */
	r = sync_wal(h);
	return r < 0 ? fail(r, e) : 1;
}

/* ---- for the helper ---- */

int settle_open(struct helper *h, const char *path, struct err *e)
{
	char wal[PATH_MAX];

	list_init(&h->settling);
	list_init(&h->settled);
	(void)snprintf(wal, sizeof(wal), "%s-wal", path);
	h->wal = open(wal, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return h->wal < 0 ? err_set(e, store_err_of(errno), errno, "%s", wal) : 0;
}

/* On the thread, with the lock held. */
void settle_some(struct helper *h)
{
	struct list all = LIST_INIT(all);
	uint64_t one = 1;

	if (list_is_empty(&h->settling))
		return;
	list_splice(&all, &h->settling);
	(void)pthread_mutex_unlock(&h->lock);
	const int r = sync_wal(h);
	(void)pthread_mutex_lock(&h->lock);
	list_for_each(n, &all)
		list_entry(n, struct settling, node)->r = r;
	list_splice(&h->settled, &all);
	(void)!write(h->event_fd, &one, sizeof(one));
}

void settle_answers(struct store *s)
{
	struct helper *h = &s->helper;

	for (;;) {
		struct err e = ERR_INIT;

		(void)pthread_mutex_lock(&h->lock);
		struct settling *w = list_pop_first(&h->settled, struct settling, node);
		(void)pthread_mutex_unlock(&h->lock);
		if (!w)
			return;
		if (w->r < 0)
			(void)fail(w->r, &e);
		w->fn(w->r < 0 ? &e : NULL, w->user);
		free(w);
	}
}

/* For the end of the store, when the helper thread has ended. */
void settle_cancel(struct store *s)
{
	struct helper *h = &s->helper;
	struct settling *w;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	list_splice(&h->settled, &h->settling);
	while ((w = list_pop_first(&h->settled, struct settling, node))) {
		w->fn(&e, w->user);
		free(w);
	}
	h->wal = fd_close(h->wal);
}
