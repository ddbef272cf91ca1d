/* SPDX-License-Identifier: Apache-2.0 */
/* The system call filter of a sandbox: seccomp.tbl.h and seccomp_rules.tbl.h compiled into a
 * classic BPF program. The monitor builds it once at its start (tens of microseconds, no
 * allocation) and hands the bytes to every init; filter_load.h loads them.
 *
 * Form of the program: foreign architectures die first; then a binary search over ranges of numbers
 * with the same verdict; argument rules are blocks behind the tree. Calls that are allowed with
 * every argument never run it: the kernel (5.11 and newer) keeps a bitmap of them. */
#pragma once

#include "base/err.h"
#include "walls/filter_load.h"

#include <stdint.h>

struct native_filter {
	uint16_t n;
	struct sock_filter insn[NATIVE_FILTER_MAX];
};

/* ERR_INTERNAL when the program would be too long: a broken table. */
int native_filter_build(struct native_filter *ret, struct err *e) MUST_CHECK;

/* What the table says about one call, read row by row: the oracle that tests hold the program
 * against. 0 = allowed, a positive errno = refused with it, NATIVE_VERDICT_*. */
enum {
	NATIVE_VERDICT_NOOP = -1, /* reports success, does nothing */
	NATIVE_VERDICT_KILL = -2, /* ends the process */
};
#define NATIVE_NR_MAX 511 /* numbers of the native table; the x32 ones start at 512 */
int native_filter_verdict(uint32_t arch, uint32_t nr, const uint64_t args[6]);

/* The row of NR (native architecture), NULL when there is none. */
struct native_call {
	uint32_t nr;
	const char *name;
	const char *why;
	int16_t
	    verdict;  /* 0 allowed, errno, NATIVE_VERDICT_NOOP; when RULE >= 0 that of a refusal */
	int16_t rule; /* index of the argument rule, -1 = none */
};
const struct native_call *native_call_find(uint32_t nr);
size_t native_call_all(const struct native_call **ret); /* borrowed, static */

/* The values that rule RULE compares with, for tests that want the interesting arguments: up to MAX
 * of them; returns their number. */
struct native_rule_value {
	uint8_t arg;   /* index */
	uint32_t mask; /* what of the argument is compared; UINT32_MAX = all */
	uint32_t value;
};
size_t native_rule_values(int rule, struct native_rule_value *ret, size_t max);
