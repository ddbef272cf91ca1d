/* SPDX-License-Identifier: Apache-2.0 */
/* Watches for the front: messages, and when folders are looked at (ports: watch_ports.c). The front asks for each
 * answer (proto.h), and between its questions nothing is read: the kernel gathers the events of inotify(7) and bounds
 * them, and a front that does not ask costs nothing.
 *
 * inotify, not fanotify(7): without CAP_SYS_ADMIN fanotify watches single folders, too, and tells no more.
 *
 * After the first event of a folder init waits for GATHER_NS, so that many writes to a file become one change, and
 * reads once. If there were many changes the last time, it waits longer. */
#include "watch.h"
#include "file_places.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GATHER_NS UINT64_C(50000000)
#define FLOOD_NS  UINT64_C(500000000)
#define FLOOD     1024U /* changes in one reading */

static struct watch *find(struct init *in, uint32_t number)
{
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (in->watches.folders[i] && in->watches.folders[i]->number == number)
			return in->watches.folders[i];
	return NULL;
}

static void drop(struct init *in, struct watch *w)
{
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (in->watches.folders[i] == w)
			in->watches.folders[i] = NULL;
	watch_overflow(w);
	free(w);
	tree_prune(in);
}

/* ---- answers ---- */

struct proto_init_changed *watch_answer(uint32_t number)
{
	static struct proto_init_changed a; /* large, and sent at once */

	a = (struct proto_init_changed){.head = PROTO_HEAD(INIT_CHANGED, proto_init_changed),
					.watch = number};
	return &a;
}

static void tell_end(struct init *in, uint32_t number, int errnum)
{
	struct proto_init_changed *a = watch_answer(number);

	a->errnum = errnum;
	a->flags = PROTO_CHANGED_ENDED;
	init_send(in, &a->head, NULL, 0);
}

/* What of W may be told now. */
static void tell(struct init *in, struct watch *w)
{
	struct proto_init_changed *a = watch_answer(w->number);

	watch_take(w, a);
	if (w->partial && !w->told_partial) {
		w->told_partial = true;
		a->flags |= PROTO_CHANGED_PARTIAL;
	}
	w->asked = false;
	init_send(in, &a->head, NULL, 0);
}

/* ---- folders ---- */

static int new_watch(struct init *in, const struct proto_init_watch *f)
{
	struct watch **place = NULL;

	for (size_t i = 0; i < PROTO_WATCHES_MAX && !place; i++)
		if (!in->watches.folders[i])
			place = &in->watches.folders[i];
	struct watch *w = place ? calloc(1, sizeof(*w)) : NULL;
	if (!w)
		return place ? -ENOMEM : -EAGAIN;
	w->number = f->watch;
	w->recursive = f->flags & PROTO_WATCH_RECURSIVE;
	w->asked = true;
	const struct file_place p = place_of(in, f->path);
	w->dir = p.dir;
	w->top = p.top;
	if (strcmp(p.below, ".") != 0)
		(void)snprintf(w->path, sizeof(w->path), "%s", p.below);
	list_init(&w->changes);
	*place = w;
	const int r = tree_watch(in, w);
	if (r < 0) {
		*place = NULL;
		free(w);
		tree_prune(in);
	}
	return r;
}

static void start_folder(struct init *in, const struct proto_init_watch *f)
{
	const int r = new_watch(in, f);

	if (r < 0)
		tell_end(in, f->watch, r == -EAGAIN ? EAGAIN : -r);
}

static void start(struct init *in, const struct proto_init_watch *f)
{
	if (!(f->flags & PROTO_WATCH_PORTS))
		start_folder(in, f);
	else if (watch_ports_begin(in, f->watch) < 0)
		tell_end(in, f->watch, EAGAIN);
}

static void work(struct init *in, struct watch *w)
{
	struct tree *t = tree_of(in, w);

	if (w->ended != 0) {
		tell_end(in, w->number, w->ended);
		drop(in, w);
		return;
	}
	if (!w->asked || t->reading || tree_scans(t))
		return;
	if (!w->started || watch_any(w) || (w->partial && !w->told_partial)) {
		w->started = true;
		t->flooded |= w->n_changes > FLOOD;
		tell(in, w);
	}
}

static void read_events(struct tree *t)
{
	if (t->due != 0 && init_now() >= t->due) {
		t->due = 0;
		t->reading = true;
	}
	if (t->reading)
		tree_read(t);
	tree_scan(t);
}

static void folders_work(struct init *in)
{
	for (size_t i = 0; i < WATCH_TREES; i++)
		if (in->watches.trees[i])
			read_events(in->watches.trees[i]);
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (in->watches.folders[i])
			work(in, in->watches.folders[i]);
}

void watch_work(struct init *in)
{
	folders_work(in);
	watch_ports_work(in);
}

/* ---- messages ---- */

static void stop(struct init *in, uint32_t number)
{
	struct watch *w = find(in, number);
	struct port_watch *p = watch_ports_find(in, number);

	if (!w && !p)
		return; /* it has ended, and that was said */
	if (w)
		drop(in, w);
	else
		*p = (struct port_watch){0};
	tell_end(in, number, 0);
}

static void next(struct init *in, uint32_t number)
{
	struct watch *w = find(in, number);
	struct port_watch *p = watch_ports_find(in, number);

	if (w)
		w->asked = true;
	else if (p)
		p->asked = true;
}

int watch_handle(struct init *in, const struct proto_init_watch *f)
{
	const uint32_t flags = f->flags;

	if (f->watch == 0 || (flags & ~(uint32_t)PROTO_WATCH_FLAGS) != 0 ||
	    !proto_path_ok(f->path, true) ||
	    ((flags & PROTO_WATCH_PORTS) && (flags != PROTO_WATCH_PORTS || f->path[0])))
		return -1;
	switch (f->op) {
	case PROTO_WATCH_START:
		if (find(in, f->watch) || watch_ports_find(in, f->watch))
			return -1;
		start(in, f);
		return 0;
	case PROTO_WATCH_NEXT:
		next(in, f->watch);
		return 0;
	case PROTO_WATCH_STOP:
		stop(in, f->watch);
		return 0;
	default:
		return -1;
	}
}

/* ---- the loop ---- */

int watch_fd(const struct init *in, size_t i)
{
	const struct tree *t = in->watches.trees[i];
	bool asked = false;

	for (size_t k = 0; t && k < PROTO_WATCHES_MAX; k++)
		asked |= watch_of(t, k) && watch_of(t, k)->asked;
	return asked && t->due == 0 && !t->reading ? t->fd : -1;
}

void watch_events(struct init *in, size_t i)
{
	struct tree *t = in->watches.trees[i];

	if (t)
		t->due = init_now() + (t->flooded ? FLOOD_NS : GATHER_NS);
}

uint64_t watch_next(const struct init *in)
{
	uint64_t next = in->watches.ports.due;

	for (size_t i = 0; i < WATCH_TREES; i++)
		if (in->watches.trees[i])
			next = init_sooner(next, in->watches.trees[i]->due);
	return next;
}

bool watch_pending(const struct init *in)
{
	bool pending = false;

	for (size_t i = 0; i < WATCH_TREES; i++) {
		const struct tree *t = in->watches.trees[i];

		pending |= t && (t->reading || tree_scans(t));
	}
	return pending;
}
