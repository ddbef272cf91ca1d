/* SPDX-License-Identifier: Apache-2.0 */
/* Every system call number with every interesting argument, tried on the running kernel, and the
 * answers held against the table that the filter is made from.
 *
 *   syscalls           loads the filter itself. Nothing is ever carried out: an earlier filter
 * answers ERR_REACHED to each call that carries MARK as its sixth argument, and of two filters that
 * both answer with an error the kernel takes the younger one's. So an allowed call is seen as
 * ERR_REACHED and a refused one as what our filter says. syscalls --inside  is run in a sandbox,
 * whose filter is on already: tries what must be refused. syscalls --markdown  prints the table as
 * docs/system-calls.md.
 *
 * Exit status 0: as the table says; 1: not (each difference on its own line); 2: could not be
 * tried. Built statically, so that it runs in any image. */
#include "argclasses.h"
#include "walls/seccomp.h"
#include "walls/sysnum.h"

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif
#define ERR_REACHED 3999 /* below the kernel's MAX_ERRNO of 4095, and nobody's error */
#define MARK        0x5ca1ab1eU
#define SHOWN_MAX   20   /* differences that are printed; all are counted */
#define NR_END      1024 /* beyond every table of numbers, native and foreign */
#define DEATH_S     10   /* a foreign call that does not end its process may wait instead */

struct tally {
	unsigned long tried, refused, wrong;
};

/* A call with fewer arguments leaves what is in the registers of the others, so the mark would
 * stick to the calls of the C library that follow. */
static void wipe_mark(void)
{
	(void)syscall(__NR_getpid, 0, 0, 0, 0, 0, 0);
}

static void report(struct tally *t, uint32_t nr, const uint64_t args[6], int want, int got)
{
	const struct native_call *c = native_call_find(nr);

	wipe_mark();
	if (t->wrong++ < SHOWN_MAX)
		(void)printf("%s (%u) %#llx %#llx %#llx %#llx: expected %d, got %d\n",
			     c ? c->name : "no row", nr, (unsigned long long)args[0],
			     (unsigned long long)args[1], (unsigned long long)args[2],
			     (unsigned long long)args[3], want, got);
}

static int call(uint32_t nr, const uint64_t args[6])
{
	long r = syscall((long)(int)nr, args[0], args[1], args[2], args[3], args[4], args[5]);

	return r == -1 ? errno : 0;
}

/* Since Linux 6.14 no filter sees the calls of the kernel's own uprobe trampolines, and a call from
 * anywhere else is answered with SIGILL. */
static bool kernels_own(uint32_t nr)
{
#if defined(__x86_64__)
	return nr == __NR_uretprobe || nr == __NR_uretprobe + 1 /* uprobe */;
#else
	(void)nr;
	return false;
#endif
}

static void try_marked(const struct native_call *c, const uint64_t args[6], void *user)
{
	struct tally *t = user;
	uint64_t a[6];

	if (kernels_own(c->nr))
		return;
	memcpy(a, args, sizeof(a));
	a[5] = MARK;
	int want = native_filter_verdict(ARCH, c->nr, a);
	if (want == 0)
		want = ERR_REACHED;
	else if (want == NATIVE_VERDICT_NOOP)
		want = 0;
	int got = call(c->nr, a);
	t->tried++;
	t->refused += want != ERR_REACHED;
	if (got != want)
		report(t, c->nr, a, want, got);
}

/* A number without a row. */
static void try_number(uint32_t nr, struct tally *t)
{
	const struct native_call none = {.nr = nr, .name = "no row", .rule = -1};

	if (!native_call_find(nr))
		(void)argclass_each(&none, try_marked, t);
}

static int load_net(void)
{
	const struct sock_filter net[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERR_REACHED),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return native_filter_load(net, ARRAY_SIZE(net));
}

/* FN must be killed by SIGSYS. */
static void must_die(struct tally *t, const char *what, void (*fn)(uint32_t), uint32_t arg)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)alarm(DEATH_S);
		fn(arg);
		_exit(0);
	}
	t->tried++;
	t->refused++;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) ||
	    WTERMSIG(status) != SIGSYS) {
		t->wrong++;
		(void)printf("%s %u: expected death by SIGSYS, status %#x\n", what, arg,
			     (unsigned int)status);
	}
}

#if defined(__x86_64__)
static void call_x32(uint32_t nr)
{
	(void)syscall((long)(0x40000000U | nr), 0, 0, 0, 0, 0, MARK);
}

static void call_int80(uint32_t nr)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"((long)nr), "b"(0), "c"(0), "d"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	(void)r;
}

/* Whether the kernel has the 32-bit entry at all; without, the instruction itself is a fault. */
static bool has_int80(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		call_int80(20 /* getpid of i386 */);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status);
}
#endif

static void try_foreign(struct tally *t, bool int80)
{
#if defined(__x86_64__)
	/* A wall that is not there shows at the first number; nobody needs the others carried out.
	 */
	for (uint32_t nr = 0; nr < NR_END && t->wrong == 0; nr++)
		must_die(t, "x32 call", call_x32, nr);
	for (uint32_t nr = 0; nr < NR_END && t->wrong == 0 && int80; nr++)
		must_die(t, "i386 call", call_int80, nr);
	if (!int80)
		(void)printf("int 0x80 not tried: this kernel has no 32-bit entry\n");
#else
	(void)t;
	(void)int80;
	(void)must_die;
#endif
}

/* In a child, because the filter stays. */
static int sweep(void)
{
	static struct native_filter filter;
	struct err e = ERR_INIT;
	struct tally t = {0};
	const struct native_call *calls;
	size_t n = native_call_all(&calls);
	bool int80 = false;

#if defined(__x86_64__)
	int80 = has_int80();
#endif
	if (native_filter_build(&filter, &e) < 0) {
		(void)printf("%s\n", e.text);
		return 2;
	}
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? load_net() : -errno;
	if (r == 0)
		r = native_filter_load(filter.insn, filter.n);
	if (r < 0) {
		(void)printf("the filter could not be loaded: %s\n", strerror(-r));
		return 2;
	}
	for (size_t i = 0; i < n; i++)
		(void)argclass_each(&calls[i], try_marked, &t);
	static const uint32_t far[] = {4096, 65536, 0x3fffffff, 0xffffffff};
	for (uint32_t nr = 0; nr < NR_END; nr++)
		try_number(nr, &t);
	for (size_t i = 0; i < ARRAY_SIZE(far); i++)
		try_number(far[i], &t);
	wipe_mark();
	try_foreign(&t, int80);
	(void)printf("%lu calls tried, %lu refused, %lu wrong; the filter has %u instructions\n",
		     t.tried, t.refused, t.wrong, filter.n);
	return t.wrong ? 1 : 0;
}

/* Inside: only what the table refuses is tried, with arguments that no kernel can do anything with
 * should the wall be missing (all ones: no descriptor, no pointer, no known flag). */
static void try_refused(const struct native_call *c, const uint64_t args[6], void *user)
{
	struct tally *t = user;
	int want = native_filter_verdict(ARCH, c->nr, args);

	if (kernels_own(c->nr) || want <= 0 || (c->rule < 0 && args[0] == 0))
		return;
	pid_t self = getpid();
	int got = call(c->nr, args);
	if (getpid() != self) /* a clone that should not have worked */
		_exit(0);
	t->tried++;
	t->refused += got == want;
	if (got != want)
		report(t, c->nr, args, want, got);
}

static int inside(void)
{
	const struct native_call *calls;
	size_t n = native_call_all(&calls);
	struct tally t = {0};

	for (size_t i = 0; i < n; i++)
		(void)argclass_each(&calls[i], try_refused, &t);
	try_foreign(&t, true);
	(void)printf("%lu calls tried, %lu wrong\n", t.tried, t.wrong);
	return t.wrong ? 1 : 0;
}

/* In the order of the table, which is that of native_call.rule. */
static const struct {
	const char *name, *error, *text;
} rule_texts[] = {
#define RULE(name, err, ...) {#name, #err, #__VA_ARGS__},
#include "walls/seccomp_rules.tbl.h"
#undef RULE
};

static const char *answer_text(const struct native_call *c)
{
	static char by_rule[64];

	if (c->rule >= 0) {
		(void)snprintf(by_rule, sizeof(by_rule), "by the rule *%s*",
			       rule_texts[c->rule].name);
		return by_rule;
	}
	switch (c->verdict) {
	case 0:
		return "allowed";
	case NATIVE_VERDICT_NOOP:
		return "success, no effect";
	case ENOSYS:
		return "ENOSYS";
	default:
		return "EPERM";
	}
}

static int markdown(void)
{
	const struct native_call *calls;
	size_t n = native_call_all(&calls);

	(void)printf("# System calls of a sandbox\n\n"
		     "Made from `src/walls/seccomp.tbl.h` by `syscalls-probe --markdown`, "
		     "and the test `system-calls-page` fails when it is not:\n"
		     "no row and no rule changes without somebody writing down here what is "
		     "expected of it. A number without a row answers ENOSYS; 32-bit\n"
		     "and x32 calls end the process.\n\n"
		     "| call | answer | why |\n|---|---|---|\n");
	for (size_t i = 0; i < n; i++)
		(void)printf("| %s | %s | %s |\n", calls[i].name, answer_text(&calls[i]),
			     calls[i].why);
	(void)printf("\n## Rules for arguments\n\n"
		     "Arguments count from 0; one clause must hold as a whole. `IN`: one of the "
		     "values; `OUT`: none of them; `BITS`: no other bit;\n"
		     "`CLEAR`: none of the bits; `MASKED`: one of the values after masking. The "
		     "reasons are in `seccomp_rules.tbl.h`.\n\n```\n");
	for (size_t i = 0; i < ARRAY_SIZE(rule_texts); i++)
		(void)printf("%s, else %s: %s\n", rule_texts[i].name, rule_texts[i].error,
			     rule_texts[i].text);
	(void)printf("```\n");
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc == 2 && strcmp(argv[1], "--markdown") == 0)
		return markdown();
	if (argc == 2 && strcmp(argv[1], "--inside") == 0)
		return inside();
	if (argc != 1) {
		(void)fprintf(stderr, "usage: syscalls [--inside | --markdown]\n");
		return 2;
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	pid_t pid = fork();
	if (pid == 0) {
		int r = sweep();

		(void)fflush(stdout);
		_exit(r);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 2;
	if (!WIFEXITED(status)) {
		(void)printf("the sweep ended with status %#x\n", (unsigned int)status);
		return 1;
	}
	return WEXITSTATUS(status);
}
