/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler from the tables to a seccomp program, and the oracle that reads the same tables plainly.
 *
 * The program is emitted from its end to its beginning: the targets of a jump are there before the
 * jump is, so every distance is known. Conditional jumps reach 255 instructions; where a target is
 * farther a stepping stone is put in between (a copy of the return, or an unconditional jump). */
#include "walls/seccomp.h"
#include "walls/sysnum.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>

#if defined(__x86_64__)
#define ARCH_NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH_NATIVE AUDIT_ARCH_AARCH64
#else
#error "the system call table has no rows for this architecture"
#endif

#define X32_BIT        0x40000000U /* __X32_SYSCALL_BIT; also bounds the numbers elsewhere */
#define NR_MINUS_ONE   0xffffffffU /* syscall(-1): what the kernel itself answers ENOSYS to */
#define SOCK_FLAG_BITS (SOCK_NONBLOCK | SOCK_CLOEXEC)

/* linux/termios.h cannot be had beside glibc's; the same on both architectures (44 bytes, 'T') */
#define TCGETS2_NR  0x802C542AU
#define TCSETS2_NR  0x402C542BU
#define TCSETSW2_NR 0x402C542CU
#define TCSETSF2_NR 0x402C542DU

#define ARG_HIGH 0x80U

struct cond {
	uint8_t arg; /* index, ARG_HIGH for its upper half */
	bool negate; /* none of the values */
	uint32_t mask;
	const uint32_t *values;
	size_t n;
};

struct clause { /* all conditions must hold */
	const struct cond *conds;
	size_t n;
};

struct rule { /* one clause must hold */
	int error;
	const struct clause *clauses;
	size_t n;
};

#define VALUES(...)                                                                                \
	.values = (const uint32_t[]){__VA_ARGS__},                                                 \
	.n = sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define HIGH(a) ((a) | ARG_HIGH)
#define IN(a, ...)                                                                                 \
	{                                                                                          \
		.arg = (a), .mask = UINT32_MAX, VALUES(__VA_ARGS__)                                \
	}
#define OUT(a, ...)                                                                                \
	{                                                                                          \
		.arg = (a), .negate = true, .mask = UINT32_MAX, VALUES(__VA_ARGS__)                \
	}
#define MASKED(a, m, ...)                                                                          \
	{                                                                                          \
		.arg = (a), .mask = (uint32_t)(m), VALUES(__VA_ARGS__)                             \
	}
#define BITS(a, b)  MASKED(a, ~(uint32_t)(b), 0)
#define CLEAR(a, b) MASKED(a, b, 0)
#define CLAUSE(...)                                                                                \
	{                                                                                          \
		(const struct cond[]){__VA_ARGS__},                                                \
		    sizeof((const struct cond[]){__VA_ARGS__}) / sizeof(struct cond)               \
	}
#define CLAUSES(...)                                                                               \
	(const struct clause[]){__VA_ARGS__},                                                      \
	    sizeof((const struct clause[]){__VA_ARGS__}) / sizeof(struct clause)

enum {
#define RULE(name, err, ...) RULE_##name,
#include "walls/seccomp_rules.tbl.h"
#undef RULE
	N_RULES,
};

static const struct rule rules[N_RULES] = {
#define RULE(name, err, ...) [RULE_##name] = {err, CLAUSES(__VA_ARGS__)},
#include "walls/seccomp_rules.tbl.h"
#undef RULE
};

static const struct native_call calls[] = {
#define A(name, why)       {__NR_##name, #name, why, 0, -1},
#define R(name, rule, why) {__NR_##name, #name, why, 0, RULE_##rule},
#define N(name, err, why)  {__NR_##name, #name, why, err, -1},
#define Z(name, why)       {__NR_##name, #name, why, NATIVE_VERDICT_NOOP, -1},
#include "walls/seccomp.tbl.h"
#undef A
#undef R
#undef N
#undef Z
};

/* ---- the oracle ---- */

size_t native_call_all(const struct native_call **ret)
{
	*ret = calls;
	return ARRAY_SIZE(calls);
}

const struct native_call *native_call_find(uint32_t nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].nr == nr)
			return &calls[i];
	return NULL;
}

static bool cond_holds(const struct cond *c, const uint64_t args[6])
{
	uint64_t arg = args[c->arg & ~ARG_HIGH];
	uint32_t v = (uint32_t)(c->arg & ARG_HIGH ? arg >> 32 : arg) & c->mask;

	for (size_t i = 0; i < c->n; i++)
		if (c->values[i] == v)
			return !c->negate;
	return c->negate;
}

static bool rule_holds(const struct rule *r, const uint64_t args[6])
{
	for (size_t i = 0; i < r->n; i++) {
		bool all = true;

		for (size_t k = 0; k < r->clauses[i].n && all; k++)
			all = cond_holds(&r->clauses[i].conds[k], args);
		if (all)
			return true;
	}
	return false;
}

int native_filter_verdict(uint32_t arch, uint32_t nr, const uint64_t args[6])
{
	if (arch != ARCH_NATIVE)
		return NATIVE_VERDICT_KILL;
	if (nr == NR_MINUS_ONE)
		return ENOSYS;
	if (nr >= X32_BIT)
		return NATIVE_VERDICT_KILL;
	const struct native_call *c = native_call_find(nr);
	if (!c)
		return ENOSYS;
	if (c->rule < 0)
		return c->verdict;
	return rule_holds(&rules[c->rule], args) ? 0 : rules[c->rule].error;
}

size_t native_rule_values(int rule, struct native_rule_value *ret, size_t max)
{
	size_t n = 0;

	if (rule < 0 || rule >= N_RULES)
		return 0;
	for (size_t i = 0; i < rules[rule].n; i++) {
		const struct clause *cl = &rules[rule].clauses[i];

		for (size_t k = 0; k < cl->n; k++)
			for (size_t v = 0; v < cl->conds[k].n && n < max; v++)
				ret[n++] = (struct native_rule_value){
				    cl->conds[k].arg & (uint8_t)~ARG_HIGH, cl->conds[k].mask,
				    cl->conds[k].values[v]};
	}
	return n;
}

/* ---- the compiler ---- */

#define JUMP_REACH 250 /* of 255; the rest is room for stepping stones of the same jump */

struct label {
	bool is_verdict;
	uint32_t value; /* verdict: the SECCOMP_RET_* word; else position counted from the end */
};

struct program { /* written downwards from the end of insn[] */
	struct sock_filter insn[NATIVE_FILTER_MAX];
	uint32_t n;
	bool overflow;
};

static struct label verdict(int v)
{
	uint32_t word;

	switch (v) {
	case 0:
		word = SECCOMP_RET_ALLOW;
		break;
	case NATIVE_VERDICT_NOOP:
		word = SECCOMP_RET_ERRNO; /* errno 0: the call returns 0 */
		break;
	case NATIVE_VERDICT_KILL:
		word = SECCOMP_RET_KILL_PROCESS;
		break;
	default:
		word = SECCOMP_RET_ERRNO | ((uint32_t)v & SECCOMP_RET_DATA);
	}
	return (struct label){true, word};
}

static struct label emit(struct program *p, unsigned int code, uint32_t k, uint32_t jt, uint32_t jf)
{
	if (p->n >= NATIVE_FILTER_MAX) {
		p->overflow = true;
		return (struct label){false, 0};
	}
	p->insn[NATIVE_FILTER_MAX - 1 - p->n] =
	    (struct sock_filter){(uint16_t)code, (uint8_t)jt, (uint8_t)jf, k};
	return (struct label){false, p->n++};
}

/* A position for L that a conditional jump emitted next can reach. */
static uint32_t reach(struct program *p, struct label l)
{
	if (!l.is_verdict) {
		if (p->n - l.value <= JUMP_REACH)
			return l.value;
		return emit(p, BPF_JMP | BPF_JA, p->n - l.value - 1, 0, 0).value;
	}
	for (uint32_t i = p->n; i > 0 && p->n - (i - 1) <= JUMP_REACH; i--) {
		const struct sock_filter *f = &p->insn[NATIVE_FILTER_MAX - i];

		if (f->code == (BPF_RET | BPF_K) && f->k == l.value)
			return i - 1;
	}
	return emit(p, BPF_RET | BPF_K, l.value, 0, 0).value;
}

static struct label emit_jump(struct program *p, unsigned int op, uint32_t k, struct label yes,
			      struct label no)
{
	uint32_t t = reach(p, yes);
	uint32_t f = reach(p, no);

	return emit(p, BPF_JMP | op, k, p->n - t - 1, p->n - f - 1);
}

static struct label emit_load(struct program *p, size_t offset)
{
	return emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Many small values: one test of a bit in a constant instead of a chain of comparisons. */
#define SET_WORTH 6 /* the set takes five instructions */

/* Accumulator = the (masked) argument; jumps to YES when it is one of the values, else to NO. */
static struct label emit_values(struct program *p, const struct cond *c, struct label yes,
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
	for (size_t i = c->n; i > 0; i--)
		if (!set || c->values[i - 1] >= 32)
			next = emit_jump(p, BPF_JEQ | BPF_K, c->values[i - 1], yes, next);
	if (!set)
		return next;
	(void)emit_jump(p, BPF_JSET | BPF_K, bits, yes, no);
	(void)emit(p, BPF_ALU | BPF_LSH | BPF_X, 0, 0, 0);
	(void)emit(p, BPF_LD | BPF_IMM, 1, 0, 0);
	struct label in = emit(p, BPF_MISC | BPF_TAX, 0, 0, 0);
	return emit_jump(p, BPF_JGT | BPF_K, 31, next, in);
}

static struct label emit_cond(struct program *p, const struct cond *c, struct label yes,
			      struct label no)
{
	size_t offset =
	    offsetof(struct seccomp_data, args) + (c->arg & ~ARG_HIGH) * sizeof(uint64_t);

	if (c->arg & ARG_HIGH) /* both architectures are little-endian */
		offset += sizeof(uint32_t);
	if (c->negate) {
		struct label swap = yes;
		yes = no;
		no = swap;
	}
	if (c->mask != UINT32_MAX && c->n == 1 && c->values[0] == 0) {
		(void)emit_jump(p, BPF_JSET | BPF_K, c->mask, no, yes);
	} else {
		(void)emit_values(p, c, yes, no);
		if (c->mask != UINT32_MAX)
			(void)emit(p, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
	}
	return emit_load(p, offset);
}

static struct label emit_rule(struct program *p, const struct rule *r)
{
	struct label fail = verdict(r->error);

	for (size_t i = r->n; i > 0; i--) {
		const struct clause *cl = &r->clauses[i - 1];
		struct label ok = verdict(0);

		for (size_t k = cl->n; k > 0; k--)
			ok = emit_cond(p, &cl->conds[k - 1], ok, fail);
		fail = ok;
	}
	return fail;
}

struct range {
	uint32_t first;
	struct label target;
};

static bool label_same(struct label a, struct label b)
{
	return a.is_verdict == b.is_verdict && a.value == b.value;
}

/* Ranges of numbers that go to the same place, in ascending order. */
static size_t make_ranges(const struct label *rule_at, struct range *ret)
{
	size_t n = 0;

	for (uint32_t nr = 0; nr <= NATIVE_NR_MAX; nr++) {
		const struct native_call *c = native_call_find(nr);
		struct label l = !c             ? verdict(ENOSYS)
				 : c->rule >= 0 ? rule_at[c->rule]
						: verdict(c->verdict);

		if (n == 0 || !label_same(ret[n - 1].target, l))
			ret[n++] = (struct range){nr, l};
	}
	ret[n++] = (struct range){NATIVE_NR_MAX + 1, verdict(ENOSYS)};
	ret[n++] = (struct range){X32_BIT, verdict(NATIVE_VERDICT_KILL)};
	ret[n++] = (struct range){NR_MINUS_ONE, verdict(ENOSYS)};
	return n;
}

static struct label emit_tree(struct program *p, const struct range *r, size_t n)
{
	if (n == 1)
		return r[0].target;
	size_t mid = n / 2;
	struct label right = emit_tree(p, r + mid, n - mid);
	struct label left = emit_tree(p, r, mid);
	return emit_jump(p, BPF_JGE | BPF_K, r[mid].first, right, left);
}

int native_filter_build(struct native_filter *ret, struct err *e)
{
	struct label rule_at[N_RULES];
	struct range ranges[NATIVE_NR_MAX + 4];
	struct program p = {.n = 0};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].nr > NATIVE_NR_MAX)
			return err_set(e, ERR_INTERNAL, 0, "the number of %s is outside the table",
				       calls[i].name);
	for (size_t i = 0; i < N_RULES; i++)
		rule_at[i] = emit_rule(&p, &rules[i]);
	(void)emit_tree(&p, ranges, make_ranges(rule_at, ranges));
	struct label tree = emit_load(&p, offsetof(struct seccomp_data, nr));
	(void)emit_jump(&p, BPF_JEQ | BPF_K, ARCH_NATIVE, tree, verdict(NATIVE_VERDICT_KILL));
	(void)emit_load(&p, offsetof(struct seccomp_data, arch));
	if (p.overflow)
		return err_set(e, ERR_INTERNAL, E2BIG,
			       "the system call filter has more than %d instructions",
			       NATIVE_FILTER_MAX);
	ret->n = (uint16_t)p.n;
	memcpy(ret->insn, &p.insn[NATIVE_FILTER_MAX - p.n], p.n * sizeof(p.insn[0]));
	return 0;
}
