/* SPDX-License-Identifier: Apache-2.0 */
/* The interesting arguments of a system call. For each argument that the row of the call looks at:
 * the values that the row names, their neighbours, the same with rubbish in the upper half and, where
 * the row compares only some bits, with each other bit; every single bit, zero and all ones. The
 * function is called with all combinations. Calls whose row looks at no argument get two fixed sets. */
#pragma once

#include "walls/filter.h"

#include <stdbool.h>

#define ARG_VALUES_MAX 640
#define ARGCLASS_ARGS  4 /* no row looks at a later argument */

typedef void (*argclass_fn)(const struct filter_row *row, const uint64_t args[6], void *user);

struct argclass {
	uint64_t v[ARG_VALUES_MAX];
	size_t n;
};

static inline void argclass_add(struct argclass *s, uint64_t v)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i] == v)
			return;
	ASSERT(s->n < ARG_VALUES_MAX);
	s->v[s->n++] = v;
}

static inline void argclass_add_value(struct argclass *s, const struct filter_cond *c, uint32_t v)
{
	argclass_add(s, v);
	argclass_add(s, v + 1U);
	argclass_add(s, v - 1U);
	argclass_add(s, v | 1ULL << 32);
	argclass_add(s, v | 0xdeadbeefULL << 32);
	for (unsigned int b = 0; b < 32 && c->mask != UINT32_MAX; b++)
		argclass_add(s, v | 1ULL << b);
}

static inline bool argclass_add_clause(struct argclass *s, const struct filter_clause *when,
				       uint8_t arg, uint32_t self)
{
	bool named = false;

	for (size_t i = 0; i < when->n; i++) {
		const struct filter_cond *c = &when->conds[i];
		const uint8_t index = c->arg & (uint8_t)~FILTER_ARG_HIGH;

		ASSERT(index < ARGCLASS_ARGS); /* else it would not be tried */
		if (index != arg)
			continue;
		named = true;
		for (size_t k = 0; k < c->n; k++)
			argclass_add_value(s, c, c->values[k] == FILTER_SELF ? self : c->values[k]);
	}
	return named;
}

static inline void argclass_fill(struct argclass *s, const struct filter_row *row, uint8_t arg,
				 uint32_t self)
{
	bool named = false;

	s->n = 0;
	for (size_t i = 0; i < row->n_when; i++)
		named |= argclass_add_clause(s, &row->when[i], arg, self);
	argclass_add(s, 0);
	if (!named)
		return;
	argclass_add(s, UINT32_MAX);
	argclass_add(s, UINT64_MAX);
	argclass_add(s, 1ULL << 32);
	for (unsigned int b = 0; b < 32; b++)
		argclass_add(s, 1ULL << b);
}

/* Calls FN once for each combination; returns their number. SELF: what FILTER_SELF stands for. */
static inline size_t argclass_each(const struct filter_row *row, uint32_t self, argclass_fn fn,
				   void *user)
{
	static struct argclass set[ARGCLASS_ARGS];
	uint64_t args[6] = {0};
	size_t count = 0;

	if (row->n_when == 0) {
		fn(row, args, user);
		for (size_t i = 0; i < 5; i++)
			args[i] = UINT64_MAX;
		fn(row, args, user);
		return 2;
	}
	for (uint8_t a = 0; a < ARGCLASS_ARGS; a++)
		argclass_fill(&set[a], row, a, self);
	for (size_t i = 0; i < set[0].n; i++)
		for (size_t j = 0; j < set[1].n; j++)
			for (size_t k = 0; k < set[2].n; k++)
				for (size_t l = 0; l < set[3].n; l++) {
					args[0] = set[0].v[i];
					args[1] = set[1].v[j];
					args[2] = set[2].v[k];
					args[3] = set[3].v[l];
					fn(row, args, user);
					count++;
				}
	return count;
}
