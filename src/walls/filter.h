/* SPDX-License-Identifier: Apache-2.0 */
/* System call filters: three tables in one language, and the compiler from a table to a seccomp
 * program (classic BPF). filter_load.h hands a program to the kernel.
 *
 * The language. A table is a list of rows, one for each system call that it names:
 *
 *   ALLOW(name, why)                          allowed with every argument
 *   ALLOW_IF(name, errno, why, WHEN(…), …)    allowed when at least one WHEN holds; else it fails
 *                                             with ERRNO
 *   REFUSE(name, errno, why)                  fails with ERRNO
 *   PRETEND(name, why)                        reports success and does nothing
 *
 * WHEN(condition, …) holds when all its conditions hold. PRETEND_WHEN(condition, …) may stand in its
 * place: when it holds, the call reports success and does nothing. So may REFUSE_WHEN(errno,
 * condition, …): then it fails with ERRNO. The first one that holds decides.
 * Arguments count from 0. Conditions:
 *
 *   IN(arg, value, …)             the argument is one of the values
 *   NOT_IN(arg, value, …)         the argument is none of the values
 *   MASKED(arg, mask, value, …)   the argument AND MASK is one of the values
 *   ONLY_BITS(arg, bits)          no bit outside BITS is set
 *   NO_BITS(arg, bits)            no bit of BITS is set
 *
 * A condition compares the lower 32 bits of an argument. That is right for every argument that a
 * table names, because the kernel uses those as 32-bit values and ignores the upper half, too.
 * HIGH(arg) in place of an argument means its upper half, for pointers that must be null. SELF as a
 * value means the id of the process that is filtered.
 *
 * A program first kills the process when the call comes from another architecture. Then it searches
 * the number of the call in ranges that share a verdict. The blocks that look at arguments come
 * last. */
#pragma once

#include "base/err.h"
#include "walls/filter_load.h"

#include <linux/audit.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#error "the tables have no rows for this architecture"
#endif

#define FILTER_NR_MAX   511         /* the largest number that a row may have */
#define FILTER_NR_X32   0x40000000U /* numbers from here on are x32 calls on x86_64 */
#define FILTER_NR_NONE  0xffffffffU /* syscall(-1): the kernel itself answers ENOSYS */
#define FILTER_ARG_HIGH 0x80U
#define FILTER_SELF     0x7ffffff0U /* in a table; no process id is that large (PID_MAX_LIMIT) */

/* A verdict: 0 = allowed, a positive errno = fails with it, or one of these. */
enum {
	FILTER_PRETEND = -1, /* reports success, does nothing */
	FILTER_KILL = -2,    /* kills the process with SIGSYS */
};

struct filter_cond {
	uint8_t arg;   /* index; with FILTER_ARG_HIGH its upper half */
	bool negate;   /* holds when the argument is none of the values */
	uint32_t mask; /* what of the argument is compared; UINT32_MAX = all */
	const uint32_t *values;
	size_t n;
};

struct filter_clause { /* all conditions must hold */
	int verdict;   /* WHEN: 0; PRETEND_WHEN: FILTER_PRETEND; REFUSE_WHEN: its errno */
	const struct filter_cond *conds;
	size_t n;
};

struct filter_row {
	const char *name;
	const char *why;
	const char *when_text;            /* the clauses as the table has them; NULL = none */
	const struct filter_clause *when; /* the first that holds decides; none: VERDICT */
	size_t n_when;
	uint32_t nr;
	int verdict;
};

struct filter_table {
	const char *name;
	const struct filter_row *rows;
	size_t n;
	int unlisted; /* verdict of a number without a row */
	int x32;      /* verdict of numbers from FILTER_NR_X32 to below FILTER_NR_NONE */
};

extern const struct filter_table filter_run;     /* runs: run_calls.tbl.h */
extern const struct filter_table filter_front;   /* front_calls.tbl.h */
extern const struct filter_table filter_monitor; /* monitor_calls.tbl.h */

struct filter_program {
	uint16_t n;
	struct sock_filter insn[FILTER_MAX];
};

/* SELF: id of the process that the program is for; the table of runs does not use it. Does not
 * allocate. Fails with ERR_INTERNAL when the table is wrong or the program too long. */
int filter_compile(const struct filter_table *table, pid_t self, struct filter_program *ret,
		   struct err *e) MUST_CHECK;
