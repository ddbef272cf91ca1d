/* SPDX-License-Identifier: Apache-2.0 */
#include "walls/confine.h"

#include "walls/filter_load.h"
#include "walls/landlock.h"
#include "walls/sysnum.h"

#include <asm/termbits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#if defined(__x86_64__)
#define ARCH_NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH_NATIVE AUDIT_ARCH_AARCH64
#else
#error "the tables have no rows for this architecture"
#endif
#define X32_BIT 0x40000000U

#if defined(__has_feature)
#define HAS_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif

/* ---- the tables ---- */

#define VALUES_MAX 12
#define CONDS_MAX  2
#define SELF       0x7ffffff0U /* stands for the own process id, which is never that large */

enum test {
	TEST_NONE,
	TEST_IN,
	TEST_HAS,
	TEST_HASNT,
};

struct cond {
	enum test test;
	unsigned arg;
	uint32_t mask; /* HAS, HASNT: the bits */
	uint32_t values[VALUES_MAX];
	size_t n;
};

struct row {
	uint32_t nr;
	int error;
	struct cond conds[CONDS_MAX];
};

#define IN(a, m, ...)                                                                              \
	{                                                                                          \
		TEST_IN, a, (uint32_t)(m), {__VA_ARGS__},                                          \
		    sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)                     \
	}
#define HAS(a, bits)                                                                               \
	{                                                                                          \
		.test = TEST_HAS, .arg = (a), .mask = (bits)                                       \
	}
#define HASNT(a, bits)                                                                             \
	{                                                                                          \
		.test = TEST_HASNT, .arg = (a), .mask = (bits)                                     \
	}

#define A(name, why)            ROW(name, 0, {.test = TEST_NONE}, {.test = TEST_NONE})
#define C(name, cond, why)      ROW(name, 0, cond, {.test = TEST_NONE})
#define CC(name, one, two, why) ROW(name, 0, one, two)
#define N(name, errno_, why)    ROW(name, errno_, {.test = TEST_NONE}, {.test = TEST_NONE})
#if HAS_ASAN
#define S(name, why) A(name, why)
#else
#define S(name, why)
#endif

static const struct row front_rows[] = {
#define ROW(name, error, one, ...) {__NR_##name, error, {one, __VA_ARGS__}},
#include "walls/front.tbl.h"
#undef ROW
};

static const struct row monitor_rows[] = {
#define K(cap, why)
#define D(name, why) {.nr = __NR_##name, .error = EPERM},
#include "walls/monitor.tbl.h"
#undef D
#undef K
};

static const uint64_t monitor_caps =
#define K(cap, why) UINT64_C(1) << (cap) |
#define D(name, why)
#include "walls/monitor.tbl.h"
#undef D
#undef K
    0;

enum place {
	PLACE_ROOT,
	PLACE_STATE,
	PLACE_STORE,
	PLACE_LOG,
	PLACE_SOCKET,
	PLACE_WHEELS,
	PLACE_MAX_,
};

static const struct {
	enum place place;
	const char *path;
	enum native_landlock_rights rights;
} front_files[] = {
#define F(place, path, rights, why) {PLACE_##place, path, NATIVE_LANDLOCK_##rights},
#include "walls/front_files.tbl.h"
#undef F
};

/* ---- the program: row after row ---- */

struct program {
	struct sock_filter insn[NATIVE_CONFINE_MAX];
	size_t n;
	bool overflow;
};

static size_t emit(struct program *p, unsigned code, uint32_t k, size_t jt, size_t jf)
{
	if (p->n == NATIVE_CONFINE_MAX) {
		p->overflow = true;
		return 0;
	}
	p->insn[p->n] = (struct sock_filter){(uint16_t)code, (uint8_t)jt, (uint8_t)jf, k};
	return p->n++;
}

static void emit_load(struct program *p, size_t offset)
{
	(void)emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void emit_verdict(struct program *p, int error)
{
	(void)emit(p, BPF_RET | BPF_K,
		   error ? SECCOMP_RET_ERRNO | (uint32_t)error : SECCOMP_RET_ALLOW, 0, 0);
}

/* How many instructions emit_cond() makes. */
static size_t cond_size(const struct cond *c)
{
	switch (c->test) {
	case TEST_IN:
		return 2 + c->n;
	case TEST_HAS:
	case TEST_HASNT:
		return 2;
	case TEST_NONE:
		break;
	}
	return 0;
}

/* Goes on behind itself when C holds, else LEFT instructions farther. Arguments are compared in
 * their lower half, which is all that the kernel looks at in these calls. */
static void emit_cond(struct program *p, const struct cond *c, size_t left, uint32_t self)
{
	const size_t low = offsetof(struct seccomp_data, args) + c->arg * sizeof(uint64_t);

	if (c->test == TEST_NONE)
		return;
	emit_load(p, low);
	if (c->test != TEST_IN) {
		const bool has = c->test == TEST_HAS;

		(void)emit(p, BPF_JMP | BPF_JSET | BPF_K, c->mask, has ? 0 : left, has ? left : 0);
		return;
	}
	(void)emit(p, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
	for (size_t i = 0; i < c->n; i++) {
		const uint32_t v = c->values[i] == SELF ? self : c->values[i];
		const size_t rest = c->n - 1 - i;

		(void)emit(p, BPF_JMP | BPF_JEQ | BPF_K, v, rest, rest > 0 ? 0 : left);
	}
}

static void emit_row(struct program *p, const struct row *row, uint32_t self)
{
	size_t left = 1; /* the verdict */

	for (size_t i = 0; i < CONDS_MAX; i++)
		left += cond_size(&row->conds[i]);
	(void)emit(p, BPF_JMP | BPF_JEQ | BPF_K, row->nr, 0, left);
	for (size_t i = 0; i < CONDS_MAX; i++) {
		left -= cond_size(&row->conds[i]);
		emit_cond(p, &row->conds[i], left, self);
	}
	emit_verdict(p, row->error);
	if (row->conds[0].test != TEST_NONE) /* it did not hold: another row may */
		emit_load(p, offsetof(struct seccomp_data, nr));
}

static int load(const struct row *rows, size_t n, int otherwise, struct err *e)
{
	struct program p = {.n = 0};
	const uint32_t self = (uint32_t)getpid();

	emit_load(&p, offsetof(struct seccomp_data, arch));
	(void)emit(&p, BPF_JMP | BPF_JEQ | BPF_K, ARCH_NATIVE, 1, 0);
	(void)emit(&p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
	emit_load(&p, offsetof(struct seccomp_data, nr));
	(void)emit(&p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	emit_verdict(&p, ENOSYS);
	for (size_t i = 0; i < n; i++)
		emit_row(&p, &rows[i], self);
	emit_verdict(&p, otherwise);
	if (p.overflow)
		return err_set(e, ERR_INTERNAL, E2BIG, "a filter has more than %d instructions",
			       NATIVE_CONFINE_MAX);
	const int r = native_filter_load(p.insn, (uint16_t)p.n);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the system call filter of the server") : 0;
}

/* ---- the front ---- */

static int add_files(int ruleset, const struct native_places *places)
{
	const char *const roots[PLACE_MAX_] = {
	    [PLACE_ROOT] = "",
	    [PLACE_STATE] = places->state,
	    [PLACE_STORE] = places->store,
	    [PLACE_LOG] = places->log,
	    [PLACE_SOCKET] = places->socket,
	    [PLACE_WHEELS] = places->wheels,
	};

	for (size_t i = 0; i < ARRAY_SIZE(front_files); i++) {
		const char *root = roots[front_files[i].place];
		int r;

		if (!root || (front_files[i].place != PLACE_ROOT && !*root))
			continue;
		r = native_landlock_add(ruleset, root, front_files[i].path, front_files[i].rights);
		if (r < 0)
			return r;
	}
	return 0;
}

int native_confine_files(const struct native_places *places)
{
	int ruleset = native_landlock_new();
	int r;

	if (ruleset < 0)
		return ruleset;
	r = add_files(ruleset, places);
	if (r < 0) {
		(void)close(ruleset);
		return r;
	}
	return ruleset;
}

int native_confine_front(int files, struct err *e)
{
	const int r = files < 0 ? 0 : native_landlock_apply(files);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the rules for the server's files");
	return load(front_rows, ARRAY_SIZE(front_rows), EPERM, e);
}

/* ---- the monitor ---- */

static int keep_caps(uint64_t keep)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	for (unsigned cap = 0; cap < 64; cap++)
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
		    errno != EINVAL)
			return -errno;
	if (syscall(__NR_capget, &head, data) < 0)
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t mask = (uint32_t)(keep >> (32 * i));

		data[i].permitted &= mask;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(__NR_capset, &head, data) < 0 ? -errno : 0;
}

int native_confine_monitor(struct err *e)
{
	const int r = keep_caps(monitor_caps);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "capabilities cannot be given up");
	return load(monitor_rows, ARRAY_SIZE(monitor_rows), 0, e);
}

/* ---- for tests ---- */

static int verdict_of(const struct row *rows, size_t n, int otherwise, uint32_t nr)
{
	bool seen = false;

	for (size_t i = 0; i < n; i++) {
		if (rows[i].nr != nr)
			continue;
		if (rows[i].conds[0].test == TEST_NONE)
			return rows[i].error;
		seen = true;
	}
	return seen ? NATIVE_CONFINE_SOMETIMES : otherwise;
}

int native_confine_front_verdict(uint32_t nr)
{
	return verdict_of(front_rows, ARRAY_SIZE(front_rows), EPERM, nr);
}

int native_confine_monitor_verdict(uint32_t nr)
{
	return verdict_of(monitor_rows, ARRAY_SIZE(monitor_rows), 0, nr);
}

uint64_t native_confine_monitor_caps(void)
{
	return monitor_caps;
}
