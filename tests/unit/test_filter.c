/* SPDX-License-Identifier: Apache-2.0 */
/* The three system call filters. A small interpreter of classic BPF runs the compiled programs for
 * every number and every interesting argument and compares them with their tables; the table of runs
 * is also compared with expectations that were written by hand. Digests of all verdicts show any
 * change that neither of these catches. */
#include "../suites/hostile/probe/argclasses.h"
#include "../suites/hostile/probe/filter_oracle.h"
#include "walls/syscall_numbers.h"

#include <linux/audit.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>

#include <cmocka.h>

#define SELF_PID 0x7654321U /* the process that the programs are made for */

static struct subject {
	const struct filter_table *table;
	struct filter_program program;
	unsigned int longest; /* instructions of the longest path that was run */
	uint64_t digest;      /* of the verdicts so far; the order does not matter */
} subjects[] = {{.table = &filter_run}, {.table = &filter_front}, {.table = &filter_monitor}};

static struct subject *const runs = &subjects[0];

static uint32_t word_at(const struct seccomp_data *d, uint32_t offset)
{
	uint32_t w;

	assert_true(offset % 4 == 0 && offset + 4 <= sizeof(*d));
	memcpy(&w, (const char *)d + offset, 4);
	return w;
}

/* Runs the program as the kernel would; fails the test on anything that the kernel would refuse to
 * load. */
static uint32_t interpret(struct subject *s, const struct seccomp_data *d)
{
	const struct filter_program *f = &s->program;
	uint32_t a = 0;
	uint32_t x = 0;
	uint32_t memory = 0;
	unsigned int steps = 0;

	for (size_t pc = 0; pc < f->n; pc++) {
		const struct sock_filter *i = &f->insn[pc];

		steps++;
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = word_at(d, i->k);
			break;
		case BPF_LD | BPF_IMM:
			a = i->k;
			break;
		case BPF_ST:
			assert_int_equal(i->k, 0);
			memory = a;
			break;
		case BPF_LDX | BPF_W | BPF_MEM:
			assert_int_equal(i->k, 0);
			x = memory;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_ALU | BPF_LSH | BPF_X:
			assert_true(x < 32);
			a <<= x;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += a & i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			s->longest = MAX(s->longest, steps);
			return i->k;
		default:
			fail_msg("instruction %zu has the code %#x", pc, i->code);
		}
	}
	fail_msg("the program runs off its end");
	return 0;
}

static uint32_t word_of(int verdict)
{
	if (verdict == 0)
		return SECCOMP_RET_ALLOW;
	if (verdict == FILTER_KILL)
		return SECCOMP_RET_KILL_PROCESS;
	return SECCOMP_RET_ERRNO | (verdict == FILTER_PRETEND ? 0U : (uint32_t)verdict);
}

/* splitmix64: every bit of X changes half of the result. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static void check(struct subject *s, uint32_t arch, uint32_t nr, const uint64_t args[6])
{
	struct seccomp_data d = {.nr = (int)nr, .arch = arch, .instruction_pointer = 0x1234};

	memcpy(d.args, args, sizeof(d.args));
	uint32_t want = word_of(oracle_verdict(s->table, arch, nr, args, SELF_PID));
	uint32_t got = interpret(s, &d);
	if (got != want)
		fail_msg("%s: nr %u args %llx %llx %llx %llx: the program says %#x, the table %#x",
			 s->table->name, nr, (unsigned long long)args[0],
			 (unsigned long long)args[1], (unsigned long long)args[2],
			 (unsigned long long)args[3], got, want);
	uint64_t h = mix((uint64_t)arch << 32 | nr);
	for (size_t i = 0; i < 6; i++)
		h = mix(h ^ args[i]);
	s->digest += mix(h ^ got);
}

static int compile_all(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++) {
		struct err e = ERR_INIT;

		if (filter_compile(subjects[i].table, SELF_PID, &subjects[i].program, &e) == 0)
			continue;
		(void)fprintf(stderr, "%s\n", e.text);
		return -1;
	}
	return 0;
}

static void one(const struct filter_row *row, const uint64_t args[6], void *user)
{
	check(user, FILTER_ARCH, row->nr, args);
}

static void every_call_and_argument(struct subject *s)
{
	size_t tried = 0;

	for (size_t i = 0; i < s->table->n; i++)
		tried += argclass_each(&s->table->rows[i], SELF_PID, one, s);
	print_message("%s: %zu rows, %zu combinations, %u instructions, longest path %u\n",
		      s->table->name, s->table->n, tried, s->program.n, s->longest);
	assert_true(tried > (s == runs ? 10000U : s->table->n));
}

static void numbers_without_a_row(struct subject *s)
{
	static const uint32_t edges[] = {
	    FILTER_NR_MAX, FILTER_NR_MAX + 1, 1023,       4096,       0x3fffffff, 0x40000000,
	    0x40000001,    0x40000000 + 59,   0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
	uint64_t args[6] = {0};

	for (uint32_t nr = 0; nr < 70000; nr++)
		if (!oracle_row(s->table, nr))
			check(s, FILTER_ARCH, nr, args);
	for (size_t i = 0; i < ARRAY_SIZE(edges); i++)
		check(s, FILTER_ARCH, edges[i], args);
}

static void foreign_architectures(struct subject *s)
{
	static const uint32_t arches[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM,     0,
					  0xffffffff,      AUDIT_ARCH_RISCV64, FILTER_ARCH ^ 1};
	uint64_t args[6] = {0};

	for (size_t i = 0; i < ARRAY_SIZE(arches); i++)
		for (uint32_t nr = 0; nr < 600; nr++) {
			assert_int_equal(oracle_verdict(s->table, arches[i], nr, args, SELF_PID),
					 FILTER_KILL);
			check(s, arches[i], nr, args);
		}
}

static void random_words(struct subject *s)
{
	uint64_t x = 0x9e3779b97f4a7c15ULL; /* xorshift: the same words in every run */

	for (unsigned int i = 0; i < 300000; i++) {
		uint64_t args[6];
		uint64_t r[7];

		for (size_t k = 0; k < 7; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			r[k] = x;
		}
		for (size_t k = 0; k < 6; k++)
			args[k] = r[k] & (r[k] >> 60 & 1 ? 0xff : UINT64_MAX);
		check(s, FILTER_ARCH, (uint32_t)(r[6] % 512), args);
	}
}

static void for_each_table(void (*fn)(struct subject *))
{
	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++)
		fn(&subjects[i]);
}

static void test_every_call_and_argument(void **state)
{
	(void)state;
	for_each_table(every_call_and_argument);
}

static void test_numbers_without_a_row(void **state)
{
	(void)state;
	for_each_table(numbers_without_a_row);
}

static void test_foreign_architectures_die(void **state)
{
	(void)state;
	for_each_table(foreign_architectures);
}

static void test_random_words(void **state)
{
	(void)state;
	for_each_table(random_words);
}

/* What the programs of all three tables answered to everything that the tests above tried. A
 * difference is an allowed or refused call more: change a digest only together with a row. */
static void test_digests(void **state)
{
#if defined(__x86_64__)
	static const uint64_t want[] = {0x72aa09651cac1dce, 0x141a509dab3d44a3, 0x791a326ede9fa6f4};
	bool same = true;

	if (oracle_row(&filter_front, __NR_ptrace)) {
		print_message("skipped: a build with sanitizers has rows for its leak check\n");
		skip();
	}
	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++) {
		print_message("%s: %#018llx\n", subjects[i].table->name,
			      (unsigned long long)subjects[i].digest);
		same &= subjects[i].digest == want[i];
	}
	assert_true(same);
#endif
	(void)state;
}

/* No table has two rows for a number, and the table of runs has one for every number that the headers
 * name. */
static void test_tables_are_whole(void **state)
{
	(void)state;
	for (size_t t = 0; t < ARRAY_SIZE(subjects); t++)
		for (size_t i = 0; i < subjects[t].table->n; i++) {
			const struct filter_row *row = &subjects[t].table->rows[i];

			assert_true(row->why[0] != '\0');
			assert_ptr_equal(oracle_row(subjects[t].table, row->nr), row);
		}
#if defined(__x86_64__)
	for (uint32_t nr = 0; nr <= 334; nr++)
		if (!oracle_row(&filter_run, nr))
			fail_msg("number %u has no row", nr);
#endif
	for (uint32_t nr = 424; nr <= 469; nr++)
		if (!oracle_row(&filter_run, nr))
			fail_msg("number %u has no row", nr);
}

struct pin {
	uint32_t nr;
	uint64_t args[4];
	int verdict;
};

static void test_expectations(void **state)
{
	static const struct pin pins[] = {
	    {__NR_read, {0}, 0},
	    {__NR_clone, {SIGCHLD}, 0},
	    {__NR_clone, {0x3d0f00}, 0}, /* pthread_create of glibc */
	    {__NR_clone, {CLONE_NEWUSER | SIGCHLD}, EPERM},
	    {__NR_clone, {CLONE_NEWNET}, EPERM},
	    {__NR_clone, {1ULL << 32 | CLONE_NEWPID}, EPERM},
	    {__NR_clone3, {0}, ENOSYS},
	    {__NR_unshare, {CLONE_NEWUSER}, EPERM},
	    {__NR_setns, {0}, EPERM},
	    {__NR_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0}, 0},
	    {__NR_socket, {AF_INET6, SOCK_DGRAM, 17}, 0},
	    {__NR_socket, {AF_UNIX, SOCK_STREAM, 0}, 0},
	    {__NR_socket, {AF_UNIX, SOCK_SEQPACKET, 0}, EPERM},
	    {__NR_socket, {AF_INET, SOCK_RAW, 1}, EPERM},
	    {__NR_socket, {AF_INET, SOCK_DGRAM, 1}, EPERM},
	    {__NR_socket, {AF_INET, SOCK_STREAM, 132}, EPERM},
	    {__NR_socket, {AF_INET, SOCK_STREAM, 262}, EPERM},
	    {__NR_socket, {AF_NETLINK, SOCK_RAW, 0}, EOPNOTSUPP},
	    {__NR_socket, {38 /* AF_ALG */, SOCK_SEQPACKET, 0}, EPERM},
	    {__NR_socket, {40 /* AF_VSOCK */, SOCK_STREAM, 0}, EPERM},
	    {__NR_socket, {44 /* AF_XDP */, SOCK_RAW, 0}, EPERM},
	    {__NR_socketpair, {AF_UNIX, SOCK_STREAM, 0}, 0},
	    {__NR_socketpair, {AF_TIPC, SOCK_STREAM, 0}, EPERM},
	    {__NR_sendto, {3, 0, 1, MSG_OOB}, EPERM},
	    {__NR_sendto, {3, 0, 1, MSG_NOSIGNAL}, 0},
	    {__NR_sendmsg, {3, 0, MSG_OOB}, EPERM},
	    {__NR_sendmmsg, {3, 0, 1, MSG_OOB}, EPERM},
	    {__NR_recvfrom, {3, 0, 1, MSG_OOB}, EPERM},
	    {__NR_recvmsg, {3, 0, MSG_OOB | MSG_DONTWAIT}, EPERM},
	    {__NR_recvmmsg, {3, 0, 1, MSG_OOB}, EPERM},
	    {__NR_setsockopt, {3, SOL_SOCKET, SO_REUSEADDR}, 0},
	    {__NR_setsockopt, {3, SOL_SOCKET, SO_ATTACH_FILTER}, EPERM},
	    {__NR_setsockopt, {3, 0, 64 /* IPT_SO_SET_REPLACE */}, EPERM},
	    {__NR_setsockopt, {3, 6, 31 /* TCP_ULP */}, EPERM},
	    {__NR_setsockopt, {3, 282 /* SOL_TLS */, 1 /* TLS_TX */}, EPERM},
	    {__NR_setsockopt, {3, 17 /* SOL_UDP */, 100 /* UDP_ENCAP */}, EPERM},
	    {__NR_setsockopt, {3, SOL_SOCKET, 51 /* SO_ATTACH_REUSEPORT_CBPF */}, EPERM},
	    {__NR_setsockopt, {3, 263 /* SOL_PACKET */, 5}, EPERM},
	    {__NR_setsockopt, {3, 270 /* SOL_NETLINK */, 1}, EPERM},
	    {__NR_ioctl, {0, TCGETS}, 0},
	    {__NR_ioctl, {0, 0x40049409 /* FICLONE */}, 0},
	    {__NR_ioctl, {0, 0x4020940d /* FICLONERANGE */}, EPERM},
	    {__NR_ioctl, {0, TIOCSTI}, EPERM},
	    {__NR_ioctl, {0, 1ULL << 32 | TIOCSTI}, EPERM},
	    {__NR_ioctl, {0, TIOCLINUX}, EPERM},
	    {__NR_ioctl, {0, TIOCSETD}, EPERM},
	    {__NR_ioctl, {0, 0x5760 /* IOC_WATCH_QUEUE_SET_SIZE */}, EPERM},
	    {__NR_ioctl, {0, 0x5761 /* IOC_WATCH_QUEUE_SET_FILTER */}, EPERM},
	    {__NR_vmsplice, {1}, EPERM},
	    {__NR_splice, {0, 0, 1, 0}, ENOSYS},
	    {__NR_sendfile, {1, 0, 0, 1}, ENOSYS},
	    {__NR_tee, {0, 1, 1}, ENOSYS},
	    {__NR_copy_file_range, {0, 0, 1, 0}, 0},
	    {__NR_prctl, {PR_SET_NAME}, 0},
	    {__NR_prctl, {PR_SET_MM}, EPERM},
	    {__NR_prctl, {PR_SET_SECCOMP, 2}, EPERM},
	    {__NR_prctl, {0x59616d61 /* PR_SET_PTRACER */}, EPERM},
	    {__NR_personality, {0xffffffff}, 0},
	    {__NR_personality, {0x0040000}, EPERM},
	    {__NR_prlimit64, {0, RLIMIT_CORE, 0}, 0},
	    {__NR_prlimit64, {0, RLIMIT_CORE, 0x7fff00000000}, EPERM},
	    {__NR_prlimit64, {0, RLIMIT_NOFILE, 0x7fff00000000}, 0},
	    {__NR_madvise, {0, 0, MADV_DONTNEED}, 0},
	    {__NR_madvise, {0, 0, 12 /* MADV_MERGEABLE */}, EPERM},
	    {__NR_madvise, {0, 0, 100 /* MADV_HWPOISON */}, EPERM},
	    {__NR_memfd_create, {0, MFD_CLOEXEC}, 0},
	    {__NR_memfd_create, {0, MFD_HUGETLB}, EPERM},
	    {__NR_mknodat, {0, 0, S_IFIFO | 0600}, 0},
	    {__NR_mknodat, {0, 0, S_IFCHR | 0600}, EPERM},
	    {__NR_mknodat, {0, 0, S_IFBLK | 0600}, EPERM},
	    {__NR_futex, {0, 128 | 1}, 0},
	    {__NR_futex, {0, 6 /* FUTEX_LOCK_PI */}, ENOSYS},
	    {__NR_futex, {0, 128 | 7 /* FUTEX_UNLOCK_PI */}, ENOSYS},
	    {__NR_futex, {0, 11 /* FUTEX_WAIT_REQUEUE_PI */}, ENOSYS},
	    {__NR_futex, {0, 12 /* FUTEX_CMP_REQUEUE_PI */}, ENOSYS},
	    {__NR_futex, {0, 13 /* FUTEX_LOCK_PI2 */}, ENOSYS},
	    {__NR_timer_create, {CLOCK_MONOTONIC}, 0},
	    {__NR_timer_create, {CLOCK_REALTIME}, 0},
	    {__NR_timer_create, {CLOCK_PROCESS_CPUTIME_ID}, EPERM},
	    {__NR_timer_create, {CLOCK_THREAD_CPUTIME_ID}, EPERM},
	    {__NR_timer_create, {(uint32_t)-6 /* the process's own, by its number */}, EPERM},
	    {__NR_timer_create, {1ULL << 32 | CLOCK_PROCESS_CPUTIME_ID}, EPERM},
	    {__NR_clock_nanosleep, {CLOCK_MONOTONIC, TIMER_ABSTIME}, 0},
	    {__NR_clock_nanosleep, {CLOCK_PROCESS_CPUTIME_ID}, EPERM},
	    {__NR_clock_nanosleep, {(uint64_t)-6}, EPERM},
	    {__NR_clock_gettime, {CLOCK_PROCESS_CPUTIME_ID}, 0},
	    {__NR_io_uring_setup, {0}, EPERM},
	    {__NR_bpf, {0}, EPERM},
	    {__NR_keyctl, {0}, EPERM},
	    {__NR_userfaultfd, {0}, EPERM},
	    {__NR_ptrace, {0}, EPERM},
	    {__NR_seccomp, {1}, EPERM},
	    {__NR_seccomp, {2}, 0},
	    {__NR_sync, {0}, FILTER_PRETEND},
	    {__NR_setsockopt, {3, SOL_SOCKET, SO_RCVBUF}, FILTER_PRETEND},
	    {__NR_setsockopt, {3, SOL_SOCKET, SO_REUSEADDR}, 0},
	    {__NR_setsockopt, {3, SOL_SOCKET, SO_ATTACH_FILTER}, EPERM},
	    {__NR_setpriority, {PRIO_PROCESS, 0, 5}, 0},
	    {__NR_setpriority, {PRIO_PROCESS, 1, 5}, EPERM},
	    {__NR_setpriority, {PRIO_USER, 0, 5}, EPERM},
	    {__NR_sched_setaffinity, {0}, 0},
	    {__NR_sched_setaffinity, {7}, 0},
	    {__NR_sched_setaffinity, {1}, EPERM},
	    {__NR_sched_setscheduler, {1, SCHED_IDLE}, EPERM},
	    {__NR_sched_setscheduler, {0, SCHED_IDLE}, 0},
	    {__NR_ioprio_set, {1, 0}, 0},
	    {__NR_ioprio_set, {1, 1}, EPERM},
	    {__NR_ioprio_set, {3, 0}, EPERM},
	    {__NR_fchmodat2, {0}, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pins); i++) {
		uint64_t args[6] = {pins[i].args[0], pins[i].args[1], pins[i].args[2],
				    pins[i].args[3]};
		int got = oracle_verdict(&filter_run, FILTER_ARCH, pins[i].nr, args, 0);

		if (got != pins[i].verdict)
			fail_msg("expectation %zu (nr %u): %d, not %d", i, pins[i].nr, got,
				 pins[i].verdict);
		check(runs, FILTER_ARCH, pins[i].nr, args);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tables_are_whole),
	    cmocka_unit_test(test_expectations),
	    cmocka_unit_test(test_every_call_and_argument),
	    cmocka_unit_test(test_numbers_without_a_row),
	    cmocka_unit_test(test_foreign_architectures_die),
	    cmocka_unit_test(test_random_words),
	    cmocka_unit_test(test_digests),
	};

	return cmocka_run_group_tests(tests, compile_all, NULL);
}
