/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a table of system calls (walls/filter.h) row by row, as plainly as possible: what the
 * compiled programs are held against. */
#pragma once

#include "walls/filter.h"

/* The row of NR; NULL = none. */
static inline const struct filter_row *oracle_row(const struct filter_table *t, uint32_t nr)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].nr == nr)
			return &t->rows[i];
	return NULL;
}

static inline bool oracle_cond(const struct filter_cond *c, const uint64_t args[6], uint32_t self)
{
	const uint64_t arg = args[c->arg & ~FILTER_ARG_HIGH];
	const uint32_t half = (uint32_t)(c->arg & FILTER_ARG_HIGH ? arg >> 32 : arg);

	for (size_t i = 0; i < c->n; i++) {
		const uint32_t v = c->values[i] == FILTER_SELF ? self : c->values[i];
		if ((half & c->mask) == v)
			return !c->negate;
	}
	return c->negate;
}

static inline bool oracle_when(const struct filter_clause *when, const uint64_t args[6],
			       uint32_t self)
{
	for (size_t i = 0; i < when->n; i++)
		if (!oracle_cond(&when->conds[i], args, self))
			return false;
	return true;
}

/* 0, an errno, FILTER_PRETEND or FILTER_KILL. SELF: the process id that the program was made for. */
static inline int oracle_verdict(const struct filter_table *t, uint32_t arch, uint32_t nr,
				 const uint64_t args[6], uint32_t self)
{
	const struct filter_row *row = oracle_row(t, nr);

	if (arch != FILTER_ARCH)
		return FILTER_KILL;
	if (nr == FILTER_NR_NONE)
		return ENOSYS;
	if (nr >= FILTER_NR_X32)
		return t->x32;
	if (!row)
		return t->unlisted;
	for (size_t i = 0; i < row->n_when; i++)
		if (oracle_when(&row->when[i], args, self))
			return row->when[i].verdict;
	return row->verdict;
}
