/* SPDX-License-Identifier: Apache-2.0 */
/* The three tables of system calls as data: what the words of the language (filter.h) expand to. */
#include "walls/filter.h"
#include "walls/syscall_numbers.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
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
#include <asm/prctl.h>
#endif

#if defined(__has_feature)
#define WITH_SANITIZERS __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define WITH_SANITIZERS 1
#else
#define WITH_SANITIZERS 0
#endif

/* ---- values that the headers of Debian 12 lack or cannot give ---- */

#define SOCK_FLAG_BITS (SOCK_NONBLOCK | SOCK_CLOEXEC)
#define SOCK_TYPE_MASK 0xfU /* of the kernel's include/linux/net.h */

/* <linux/termios.h> clashes with <termios.h>. Both architectures have the same numbers. */
#define TCGETS2_NR  0x802C542AU
#define TCSETS2_NR  0x402C542BU
#define TCSETSW2_NR 0x402C542CU
#define TCSETSF2_NR 0x402C542DU

#ifndef SO_RCVTIMEO_NEW
#define SO_RCVTIMEO_NEW 66
#define SO_SNDTIMEO_NEW 67
#endif
#ifndef FICLONE /* <linux/fs.h> clashes with <sys/mount.h> */
#define FICLONE 0x40049409U
#endif
#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY 1027
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE  103
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U
#define MFD_EXEC        0x10U
#endif
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif
#if defined(__x86_64__) && !defined(ARCH_SHSTK_STATUS)
#define ARCH_SHSTK_STATUS 0x5005
#endif

/* ---- the language ---- */

#define SELF    FILTER_SELF
#define HIGH(a) ((a) | FILTER_ARG_HIGH)

#define COUNT_OF(type, ...) (sizeof((const type[]){__VA_ARGS__}) / sizeof(type))
#define COND(arg_, negate_, mask_, ...)                                                            \
	{                                                                                          \
		.arg = (arg_), .negate = (negate_), .mask = (uint32_t)(mask_),                     \
		.values = (const uint32_t[]){__VA_ARGS__}, .n = COUNT_OF(uint32_t, __VA_ARGS__)    \
	}
#define IN(arg, ...)           COND(arg, false, UINT32_MAX, __VA_ARGS__)
#define NOT_IN(arg, ...)       COND(arg, true, UINT32_MAX, __VA_ARGS__)
#define MASKED(arg, mask, ...) COND(arg, false, mask, __VA_ARGS__)
#define ONLY_BITS(arg, bits)   COND(arg, false, ~(uint32_t)(bits), 0)
#define NO_BITS(arg, bits)     COND(arg, false, bits, 0)
#define CLAUSE(verdict_, ...)                                                                      \
	{                                                                                          \
		.verdict = (verdict_), .conds = (const struct filter_cond[]){__VA_ARGS__},         \
		.n = COUNT_OF(struct filter_cond, __VA_ARGS__)                                     \
	}
#define WHEN(...)               CLAUSE(0, __VA_ARGS__)
#define PRETEND_WHEN(...)       CLAUSE(FILTER_PRETEND, __VA_ARGS__)
#define REFUSE_WHEN(error, ...) CLAUSE(error, __VA_ARGS__)

#define ROW(name_, why_, verdict_)                                                                 \
	.name = #name_, .why = (why_), .nr = __NR_##name_, .verdict = (verdict_)
#define ALLOW(name, why)         {ROW(name, why, 0)},
#define REFUSE(name, error, why) {ROW(name, why, error)},
#define PRETEND(name, why)       {ROW(name, why, FILTER_PRETEND)},
#define ALLOW_IF(name, error, why, ...)                                                            \
	{ROW(name, why, error), .when = (const struct filter_clause[]){__VA_ARGS__},               \
	 .n_when = COUNT_OF(struct filter_clause, __VA_ARGS__), .when_text = #__VA_ARGS__},

/* ---- the tables ---- */

static const struct filter_row run_rows[] = {
#include "walls/run_calls.tbl.h"
};

static const struct filter_row front_rows[] = {
#include "walls/front_calls.tbl.h"
};

static const struct filter_row monitor_rows[] = {
#include "walls/monitor_calls.tbl.h"
};

const struct filter_table filter_run = {
    .name = "run",
    .rows = run_rows,
    .n = ARRAY_SIZE(run_rows),
    .unlisted = ENOSYS,
    .x32 = FILTER_KILL,
};

const struct filter_table filter_front = {
    .name = "front",
    .rows = front_rows,
    .n = ARRAY_SIZE(front_rows),
    .unlisted = EPERM,
    .x32 = ENOSYS,
};

const struct filter_table filter_monitor = {
    .name = "monitor",
    .rows = monitor_rows,
    .n = ARRAY_SIZE(monitor_rows),
    .unlisted = 0,
    .x32 = ENOSYS,
};
