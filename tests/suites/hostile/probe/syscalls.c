/* SPDX-License-Identifier: Apache-2.0 */
/* Tries every system call number with every interesting argument on the running kernel and compares
 * the answers with the table of runs (run_calls.tbl.h).
 *
 *   syscalls             loads the filter itself. No call is ever carried out: an earlier filter
 *                        answers ERR_REACHED to each call that carries MARK as its sixth argument.
 *                        When both filters answer with an errno, the kernel takes that of the younger
 *                        filter. So an allowed call shows as ERR_REACHED, a refused one as its errno
 *   syscalls --inside    runs in a sandbox, where the filter is loaded already, and tries the calls
 *                        that must be refused
 *   syscalls --markdown  prints docs/system-calls.md
 *
 * Exit status 0: all answers are as the table says; 1: some are not (one line each); 2: the test
 * could not run. Built statically, so that it runs in any image. */
#include "argclasses.h"
#include "filter_oracle.h"
#include "walls/syscall_numbers.h"

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

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
	const struct filter_row *c = oracle_row(&filter_run, nr);

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

static int run_verdict(uint32_t nr, const uint64_t args[6])
{
	return oracle_verdict(&filter_run, FILTER_ARCH, nr, args, 0);
}

static void try_marked(const struct filter_row *c, const uint64_t args[6], void *user)
{
	struct tally *t = user;
	uint64_t a[6];

	if (kernels_own(c->nr))
		return;
	memcpy(a, args, sizeof(a));
	a[5] = MARK;
	int want = run_verdict(c->nr, a);
	if (want == 0)
		want = ERR_REACHED;
	else if (want == FILTER_PRETEND)
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
	const struct filter_row none = {.nr = nr, .name = "no row"};

	if (!oracle_row(&filter_run, nr))
		(void)argclass_each(&none, 0, try_marked, t);
}

static int load_net(void)
{
	const struct sock_filter net[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERR_REACHED),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return filter_load(net, ARRAY_SIZE(net));
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
	static struct filter_program filter;
	struct err e = ERR_INIT;
	struct tally t = {0};
	bool int80 = false;

#if defined(__x86_64__)
	int80 = has_int80();
#endif
	if (filter_compile(&filter_run, 0, &filter, &e) < 0) {
		(void)printf("%s\n", e.text);
		return 2;
	}
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? load_net() : -errno;
	if (r == 0)
		r = filter_load(filter.insn, filter.n);
	if (r < 0) {
		(void)printf("the filter could not be loaded: %s\n", strerror(-r));
		return 2;
	}
	for (size_t i = 0; i < filter_run.n; i++)
		(void)argclass_each(&filter_run.rows[i], 0, try_marked, &t);
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
static void try_refused(const struct filter_row *c, const uint64_t args[6], void *user)
{
	struct tally *t = user;
	int want = run_verdict(c->nr, args);

	if (kernels_own(c->nr) || want <= 0 || (c->n_when == 0 && args[0] == 0))
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
	struct tally t = {0};

	for (size_t i = 0; i < filter_run.n; i++)
		(void)argclass_each(&filter_run.rows[i], 0, try_refused, &t);
	try_foreign(&t, true);
	(void)printf("%lu calls tried, %lu wrong\n", t.tried, t.wrong);
	return t.wrong ? 1 : 0;
}

/* ---- the page ---- */

static const char *answer_text(const struct filter_row *row)
{
	if (row->n_when > 0)
		return "depends on its arguments";
	switch (row->verdict) {
	case 0:
		return "allowed";
	case FILTER_PRETEND:
		return "success, no effect";
	case ENOSYS:
		return "ENOSYS";
	default:
		return "EPERM";
	}
}

static void print_table(const struct filter_table *t)
{
	(void)printf("| call | answer | why |\n|---|---|---|\n");
	for (size_t i = 0; i < t->n; i++)
		(void)printf("| %s | %s | %s |\n", t->rows[i].name, answer_text(&t->rows[i]),
			     t->rows[i].why);
}

static void print_arguments(const struct filter_table *t)
{
	(void)printf("\n```\n");
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].n_when > 0)
			(void)printf("%s, else %s: %s\n", t->rows[i].name,
				     t->rows[i].verdict == ENOSYS ? "ENOSYS" : "EPERM",
				     t->rows[i].when_text);
	(void)printf("```\n");
}

static int markdown(void)
{
	(void)printf(
	    "# System calls\n\n"
	    "Which system calls a run, the front and the monitor may make. `syscalls-probe "
	    "--markdown` makes this page from the tables in `src/walls`\n"
	    "(`run_calls.tbl.h`, `front_calls.tbl.h`, `monitor_calls.tbl.h`). The test "
	    "`system-calls-page` fails when the page differs from the tables.\n"
	    "So nobody changes a row or an argument without writing here what is expected.\n\n"
	    "## Runs\n\n"
	    "A call without a row answers ENOSYS. 32-bit and x32 calls kill the process.\n\n");
	print_table(&filter_run);
	(void)printf(
	    "\n### Arguments\n\n"
	    "The call is allowed when one `WHEN` holds. A `WHEN` holds when all its conditions "
	    "hold. Arguments count from 0; the lower 32 bits are compared\n"
	    "(`HIGH`: the upper 32). `IN`: one of the values; `NOT_IN`: none of them; "
	    "`MASKED`: one of the values after masking; `ONLY_BITS`: no other bit\n"
	    "is set; `NO_BITS`: none of the bits is set; `SELF`: the process's own id.\n");
	print_arguments(&filter_run);
	(void)printf("\n## Front\n\n"
		     "A call without a row answers EPERM. x32 calls answer ENOSYS, 32-bit calls "
		     "kill the process.\n\n");
	print_table(&filter_front);
	(void)printf("\n### Arguments of the front's calls\n");
	print_arguments(&filter_front);
	(void)printf("\n## Monitor\n\n"
		     "Only where the server was started by root. A call without a row is allowed; "
		     "the capabilities that remain limit what it can do.\n"
		     "x32 calls answer ENOSYS, 32-bit calls kill the process.\n\n");
	print_table(&filter_monitor);
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
