/* SPDX-License-Identifier: Apache-2.0 */
#include "http/turns.h"

#include "base/rand.h"
#include "http/connection.h"

#include <string.h>

#define HALF_LIFE_NS NS_PER_S

void turns_init(struct http_turns *t)
{
	list_init(&t->payers);
	for (size_t i = 0; i < ARRAY_SIZE(t->slots); i++) {
		list_init(&t->slots[i].link);
		list_init(&t->slots[i].waiting);
	}
}

unsigned turns_slot(const char *who)
{
	unsigned hash = 5381;

	for (const char *p = who; *p; p++)
		hash = hash * 33 ^ (unsigned char)*p;
	return hash % HTTP_PAYERS;
}

void turns_add(struct http_turns *t, struct http_conn *c)
{
	struct http_payer *p = &t->slots[c->turn_slot];

	if (!list_is_empty(&c->ready_link))
		return;
	list_append(&p->waiting, &c->ready_link);
	if (list_is_empty(&p->link))
		list_append(&t->payers, &p->link);
}

struct http_conn *turns_next(struct http_turns *t)
{
	struct http_payer *least = NULL;

	list_for_each(l, &t->payers) {
		struct http_payer *p = list_entry(l, struct http_payer, link);

		if (list_is_empty(&p->waiting)) /* its connections were closed */
			list_remove(&p->link);
		else if (!least || p->used_ns < least->used_ns)
			least = p;
	}
	if (!least)
		return NULL;
	struct http_conn *c = list_pop_first(&least->waiting, struct http_conn, ready_link);
	if (list_is_empty(&least->waiting))
		list_remove(&least->link);
	return c;
}

bool turns_waiting(const struct http_turns *t)
{
	return !list_is_empty(&t->payers);
}

void turns_charge(struct http_turns *t, unsigned slot, uint64_t ns)
{
	t->slots[slot].used_ns += ns;
}

void turns_age(struct http_turns *t, uint64_t now)
{
	uint64_t halves = (now - t->aged_ns) / HALF_LIFE_NS;

	if (halves == 0)
		return;
	t->aged_ns += halves * HALF_LIFE_NS;
	for (size_t i = 0; i < ARRAY_SIZE(t->slots); i++)
		t->slots[i].used_ns >>= MIN(halves, UINT64_C(63));
}
