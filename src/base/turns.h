/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of several users that wait for the same thing, which can be given to one after the other. Users take turns:
 * next is the oldest request of the user who has waited longest since the last one of theirs was served. So whoever
 * comes last waits for one request of each of the others, not for all that one of them has asked for.
 *
 * Nothing is kept about users who do not wait. Each call looks at all requests. */
#pragma once

#include "base/list.h"

#include <stdint.h>

struct turns {
	struct list list; /* of struct turn, in the order of arrival */
	uint64_t served;  /* how many were, of all users */
};

struct turn { /* a part of the request */
	struct list node;
	uint64_t last; /* turns.served when WHO was served last, or began to wait after that */
	uint32_t who;
};

static inline void turns_init(struct turns *t)
{
	list_init(&t->list);
	t->served = 0;
}

/* The request W of W->who waits from now on. It goes away with list_remove(). */
static inline void turns_add(struct turns *t, struct turn *w)
{
	w->last = t->served;
	list_for_each(n, &t->list) {
		const struct turn *o = list_entry(n, struct turn, node);
		if (o->who == w->who)
			w->last = o->last;
	}
	list_append(&t->list, &w->node);
}

/* NULL: nobody waits. */
static inline struct turn *turns_next(const struct turns *t)
{
	struct turn *best = NULL;

	list_for_each(n, &t->list) {
		struct turn *o = list_entry(n, struct turn, node);
		if (!best || o->last < best->last)
			best = o;
	}
	return best;
}

/* W was the next one and was taken out, in vain. It is the next one again. */
static inline void turns_put_back(struct turns *t, struct turn *w)
{
	list_prepend(&t->list, &w->node);
}

/* W was taken out and has got what it waited for, or an error. */
static inline void turns_served(struct turns *t, const struct turn *w)
{
	t->served++;
	list_for_each(n, &t->list) {
		struct turn *o = list_entry(n, struct turn, node);
		if (o->who == w->who)
			o->last = t->served;
	}
}
