/* SPDX-License-Identifier: Apache-2.0 */
/* The interesting arguments of a system call: for each argument that a rule of the filter looks at,
 * the values that it names, their neighbours, the same with rubbish in the upper half and, where
 * only some bits are compared, with each other bit; every single bit, nothing and everything; then
 * all combinations. Calls without a rule get two fixed sets. */
#pragma once

#include "walls/seccomp.h"

#include <stdbool.h>

#define ARG_VALUES_MAX  640
#define RULE_VALUES_MAX 128
#define ARGCLASS_ARGS   4 /* no rule looks at a later argument */

typedef void (*argclass_fn)(const struct native_call *c, const uint64_t args[6], void *user);

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

static inline void argclass_fill(struct argclass *s, int rule, uint8_t arg)
{
	struct native_rule_value values[RULE_VALUES_MAX];
	size_t n = native_rule_values(rule, values, RULE_VALUES_MAX);
	bool named = false;

	ASSERT(n < RULE_VALUES_MAX);
	for (size_t i = 0; i < n; i++) {
		ASSERT(values[i].arg < ARGCLASS_ARGS); /* else it would not be tried */
		if (values[i].arg != arg)
			continue;
		named = true;
		argclass_add(s, values[i].value);
		argclass_add(s, values[i].value + 1U);
		argclass_add(s, values[i].value - 1U);
		argclass_add(s, values[i].value | 1ULL << 32);
		argclass_add(s, values[i].value | 0xdeadbeefULL << 32);
		for (unsigned int b = 0; b < 32 && values[i].mask != UINT32_MAX; b++)
			argclass_add(s, values[i].value | 1ULL << b);
	}
	argclass_add(s, 0);
	if (!named)
		return;
	argclass_add(s, UINT32_MAX);
	argclass_add(s, UINT64_MAX);
	argclass_add(s, 1ULL << 32);
	for (unsigned int b = 0; b < 32; b++)
		argclass_add(s, 1ULL << b);
}

/* Calls FN once for each combination; returns their number. */
static inline size_t argclass_each(const struct native_call *c, argclass_fn fn, void *user)
{
	static struct argclass set[ARGCLASS_ARGS];
	uint64_t args[6] = {0};
	size_t count = 0;

	if (c->rule < 0) {
		fn(c, args, user);
		for (size_t i = 0; i < 5; i++)
			args[i] = UINT64_MAX;
		fn(c, args, user);
		return 2;
	}
	for (uint8_t a = 0; a < ARGCLASS_ARGS; a++) {
		set[a].n = 0;
		argclass_fill(&set[a], c->rule, a);
	}
	for (size_t i = 0; i < set[0].n; i++)
		for (size_t j = 0; j < set[1].n; j++)
			for (size_t k = 0; k < set[2].n; k++)
				for (size_t l = 0; l < set[3].n; l++) {
					args[0] = set[0].v[i];
					args[1] = set[1].v[j];
					args[2] = set[2].v[k];
					args[3] = set[3].v[l];
					fn(c, args, user);
					count++;
				}
	return count;
}
