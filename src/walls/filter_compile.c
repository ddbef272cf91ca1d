/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler from a table of system calls (filter.h) to a seccomp program.
 *
 * It writes the program from its end to its beginning. So the target of a jump is written before the
 * jump, and its distance is known. A conditional jump reaches 255 instructions; for a target that is
 * farther away the compiler inserts a stepping stone: a copy of the return, or an unconditional jump. */
#include "walls/filter.h"

#include <stddef.h>
#include <string.h>

#define JUMP_REACH 240 /* of 255; the rest is room for the stepping stones of the same jump */

/* Where a jump leads. */
struct label {
	bool is_verdict;
	uint32_t value; /* verdict: the SECCOMP_RET_* word; else a position, counted from the end */
};

struct writer { /* writes downwards from the end of insn[] */
	struct sock_filter insn[FILTER_MAX];
	uint32_t n;
	bool overflow;
	uint32_t self; /* what FILTER_SELF stands for */
};

static struct label verdict(int v)
{
	uint32_t word;

	switch (v) {
	case 0:
		word = SECCOMP_RET_ALLOW;
		break;
	case FILTER_PRETEND:
		word = SECCOMP_RET_ERRNO; /* errno 0: the call returns 0 */
		break;
	case FILTER_KILL:
		word = SECCOMP_RET_KILL_PROCESS;
		break;
	default:
		word = SECCOMP_RET_ERRNO | ((uint32_t)v & SECCOMP_RET_DATA);
	}
	return (struct label){true, word};
}

static bool label_same(struct label a, struct label b)
{
	return a.is_verdict == b.is_verdict && a.value == b.value;
}

static struct label emit(struct writer *w, unsigned int code, uint32_t k, uint32_t jt, uint32_t jf)
{
	if (w->n >= FILTER_MAX) {
		w->overflow = true;
		return (struct label){false, 0};
	}
	w->insn[FILTER_MAX - 1 - w->n] =
	    (struct sock_filter){(uint16_t)code, (uint8_t)jt, (uint8_t)jf, k};
	return (struct label){false, w->n++};
}

/* A position for L that a conditional jump which is written next can reach. */
static uint32_t reach(struct writer *w, struct label l)
{
	if (!l.is_verdict) {
		if (w->n - l.value <= JUMP_REACH)
			return l.value;
		return emit(w, BPF_JMP | BPF_JA, w->n - l.value - 1, 0, 0).value;
	}
	for (uint32_t i = w->n; i > 0 && w->n - (i - 1) <= JUMP_REACH; i--) {
		const struct sock_filter *f = &w->insn[FILTER_MAX - i];

		if (f->code == (BPF_RET | BPF_K) && f->k == l.value)
			return i - 1;
	}
	return emit(w, BPF_RET | BPF_K, l.value, 0, 0).value;
}

static struct label emit_jump(struct writer *w, unsigned int op, uint32_t k, struct label yes,
			      struct label no)
{
	uint32_t t = reach(w, yes);
	uint32_t f = reach(w, no);

	return emit(w, BPF_JMP | op, k, w->n - t - 1, w->n - f - 1);
}

static struct label emit_load(struct writer *w, size_t offset)
{
	return emit(w, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* ---- conditions ---- */

/* From this many values below 32 on, one test of a bit in a constant (six instructions) is shorter
 * than a chain of comparisons. */
#define SET_WORTH 7

/* Jumps to YES when the accumulator is one of the values, else to NO. */
static struct label emit_values(struct writer *w, const struct filter_cond *c, struct label yes,
				struct label no)
{
	struct label next = no;
	uint32_t bits = 0;
	size_t small = 0;

	for (size_t i = 0; i < c->n; i++)
		if (c->values[i] < 32) {
			bits |= 1U << c->values[i];
			small++;
		}
	bool set = small >= SET_WORTH;
	for (size_t i = c->n; i > 0; i--) {
		const uint32_t v = c->values[i - 1] == FILTER_SELF ? w->self : c->values[i - 1];

		if (!set || v >= 32)
			next = emit_jump(w, BPF_JEQ | BPF_K, v, yes, next);
	}
	if (!set)
		return next;
	(void)emit_jump(w, BPF_JSET | BPF_K, bits, yes, no);
	(void)emit(w, BPF_ALU | BPF_LSH | BPF_X, 0, 0, 0);
	(void)emit(w, BPF_LD | BPF_IMM, 1, 0, 0);
	/* not BPF_TAX: Debian 12's gVisor takes it for BPF_TXA */
	(void)emit(w, BPF_LDX | BPF_W | BPF_MEM, 0, 0, 0);
	struct label in = emit(w, BPF_ST, 0, 0, 0);
	return emit_jump(w, BPF_JGT | BPF_K, 31, next, in);
}

static struct label emit_cond(struct writer *w, const struct filter_cond *c, struct label yes,
			      struct label no)
{
	size_t offset =
	    offsetof(struct seccomp_data, args) + (c->arg & ~FILTER_ARG_HIGH) * sizeof(uint64_t);

	if (c->arg & FILTER_ARG_HIGH) /* both architectures are little-endian */
		offset += sizeof(uint32_t);
	if (c->negate) {
		struct label swap = yes;
		yes = no;
		no = swap;
	}
	if (c->mask != UINT32_MAX && c->n == 1 && c->values[0] == 0) {
		(void)emit_jump(w, BPF_JSET | BPF_K, c->mask, no, yes);
	} else {
		(void)emit_values(w, c, yes, no);
		if (c->mask != UINT32_MAX)
			(void)emit(w, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
	}
	return emit_load(w, offset);
}

/* The block that decides about the arguments of ROW. */
static struct label emit_row(struct writer *w, const struct filter_row *row)
{
	struct label fail = verdict(row->verdict);

	for (size_t i = row->n_when; i > 0; i--) {
		const struct filter_clause *when = &row->when[i - 1];
		struct label ok = verdict(when->verdict);

		for (size_t k = when->n; k > 0; k--)
			ok = emit_cond(w, &when->conds[k - 1], ok, fail);
		fail = ok;
	}
	return fail;
}

/* ---- numbers ---- */

struct range {
	uint32_t first;
	struct label target;
};

/* Numbers without a row in the tables, then the two special ranges above. */
#define RANGES_MAX (FILTER_NR_MAX + 4)

/* The block of ROW; that of an earlier row when it has the very same text. */
static struct label block_of(struct writer *w, const struct filter_table *t, size_t row,
			     const struct label at[FILTER_NR_MAX + 1])
{
	const struct filter_row *r = &t->rows[row];

	for (size_t i = 0; i < row; i++)
		if (t->rows[i].n_when > 0 && t->rows[i].verdict == r->verdict &&
		    strcmp(t->rows[i].when_text, r->when_text) == 0)
			return at[t->rows[i].nr];
	return emit_row(w, r);
}

static int make_labels(struct writer *w, const struct filter_table *t,
		       struct label at[FILTER_NR_MAX + 1], struct err *e)
{
	bool taken[FILTER_NR_MAX + 1] = {false};

	for (size_t i = 0; i <= FILTER_NR_MAX; i++)
		at[i] = verdict(t->unlisted);
	for (size_t i = 0; i < t->n; i++) {
		const struct filter_row *r = &t->rows[i];

		if (r->nr > FILTER_NR_MAX)
			return err_set(e, ERR_INTERNAL, 0,
				       "filter %s: the number of %s is too large", t->name,
				       r->name);
		if (taken[r->nr])
			return err_set(e, ERR_INTERNAL, 0, "filter %s: two rows for %s", t->name,
				       r->name);
		taken[r->nr] = true;
		at[r->nr] = r->n_when > 0 ? block_of(w, t, i, at) : verdict(r->verdict);
	}
	return 0;
}

/* Neighbours with one target become one range; ascending. */
static size_t add_range(struct range *ranges, size_t n, uint32_t first, struct label target)
{
	if (n == 0 || !label_same(ranges[n - 1].target, target))
		ranges[n++] = (struct range){first, target};
	return n;
}

static size_t make_ranges(const struct filter_table *t, const struct label at[FILTER_NR_MAX + 1],
			  struct range ret[RANGES_MAX])
{
	size_t n = 0;

	for (uint32_t nr = 0; nr <= FILTER_NR_MAX; nr++)
		n = add_range(ret, n, nr, at[nr]);
	n = add_range(ret, n, FILTER_NR_MAX + 1, verdict(t->unlisted));
	n = add_range(ret, n, FILTER_NR_X32, verdict(t->x32));
	return add_range(ret, n, FILTER_NR_NONE, verdict(ENOSYS));
}

/* Binary search. */
static struct label emit_tree(struct writer *w, const struct range *r, size_t n)
{
	if (n == 1)
		return r[0].target;
	size_t mid = n / 2;
	struct label right = emit_tree(w, r + mid, n - mid);
	struct label left = emit_tree(w, r, mid);
	return emit_jump(w, BPF_JGE | BPF_K, r[mid].first, right, left);
}

int filter_compile(const struct filter_table *table, pid_t self, struct filter_program *ret,
		   struct err *e)
{
	struct label at[FILTER_NR_MAX + 1];
	struct range ranges[RANGES_MAX];
	struct writer w = {.self = (uint32_t)self};

	int r = make_labels(&w, table, at, e);
	if (r < 0)
		return r;
	(void)emit_tree(&w, ranges, make_ranges(table, at, ranges));
	struct label tree = emit_load(&w, offsetof(struct seccomp_data, nr));
	(void)emit_jump(&w, BPF_JEQ | BPF_K, FILTER_ARCH, tree, verdict(FILTER_KILL));
	(void)emit_load(&w, offsetof(struct seccomp_data, arch));
	if (w.overflow)
		return err_set(e, ERR_INTERNAL, E2BIG,
			       "filter %s: more than %d instructions are needed", table->name,
			       FILTER_MAX);
	ret->n = (uint16_t)w.n;
	memcpy(ret->insn, &w.insn[FILTER_MAX - w.n], w.n * sizeof(w.insn[0]));
	return 0;
}
