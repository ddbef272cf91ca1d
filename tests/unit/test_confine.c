/* SPDX-License-Identifier: Apache-2.0 */
/* What the front and the monitor may still do, tried from inside: each case in a child of its own
 * that confines itself with the very code of the product. */
#include "../suites/hostile/probe/filter_oracle.h"
#include "base/attr.h"
#include "walls/confine.h"
#include "walls/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NR_MAX 480 /* of the table of system calls; what comes later is refused, too */

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #cond,        \
				      strerror(errno));                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Runs BODY in a child; its leak check could not run under the filter. */
static void in_child(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void confine(int files)
{
	struct err e = ERR_INIT;

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(confine_front(files, &e) == 0);
}

/* ---- the front's system calls ---- */

/* What the kernel takes past every filter (Linux 6.14): the ends of its own probes. Called from
 * anywhere else they end the process. */
static bool is_probe(uint32_t nr)
{
#if defined(__x86_64__)
	return nr == 335 || nr == 336; /* uretprobe, uprobe */
#else
	return nr == UINT32_MAX;
#endif
}

/* What the table answers to a call whatever its arguments are; -1 = its arguments decide. */
static int plain_verdict(const struct filter_table *t, uint32_t nr)
{
	static const uint64_t none[6];
	const struct filter_row *row = oracle_row(t, nr);

	return row && row->n_when > 0 ? -1 : oracle_verdict(t, FILTER_ARCH, nr, none, 0);
}

static const uint64_t monitor_caps =
#define K(cap, why) UINT64_C(1) << (cap) |
#include "walls/monitor_caps.tbl.h"
#undef K
    0;

/* Every call that no row names, with arguments that would do nothing. */
static void every_refused_call(void)
{
	unsigned refused = 0;

	confine(-1);
	for (uint32_t nr = 0; nr < NR_MAX; nr++) {
		const int want = plain_verdict(&filter_front, nr);

		if (want <= 0 || is_probe(nr))
			continue;
		errno = 0;
		if (syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L) != -1 || errno != want) {
			(void)fprintf(stderr, "call %u: errno %d, want %d\n", nr, errno, want);
			_exit(1);
		}
		refused++;
	}
	CHECK(refused > 200);
	/* numbers of another world */
	CHECK(syscall(0x40000000L, 0, 0, 0) == -1 && errno == ENOSYS);
}

static void test_refused_calls(void **state)
{
	/* what a compromised front would want first */
	static const long must[] = {
	    SYS_execve,
	    SYS_execveat,
	    SYS_mount,
	    SYS_umount2,
	    SYS_pivot_root,
	    SYS_chroot,
	    SYS_setns,
	    SYS_unshare,
	    SYS_bpf,
	    SYS_perf_event_open,
	    SYS_init_module,
	    SYS_finit_module,
	    SYS_kexec_load,
	    SYS_io_uring_setup,
	    SYS_userfaultfd,
	    SYS_keyctl,
	    SYS_add_key,
	    SYS_request_key,
	    SYS_process_vm_readv,
	    SYS_process_vm_writev,
	    SYS_pidfd_getfd,
	    SYS_pidfd_send_signal,
	    SYS_setuid,
	    SYS_setgid,
	    SYS_setresuid,
	    SYS_capset,
	    SYS_seccomp,
	    SYS_open_by_handle_at,
	    SYS_mknodat,
	    SYS_fchown,
	    SYS_fchownat,
	    SYS_setxattr,
	    SYS_reboot,
	    SYS_ioprio_set,
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(must); i++)
		assert_int_equal(plain_verdict(&filter_front, (uint32_t)must[i]), EPERM);
	assert_int_equal(plain_verdict(&filter_front, SYS_clone3), ENOSYS);
#if !defined(__SANITIZE_ADDRESS__)
	assert_int_equal(plain_verdict(&filter_front, SYS_ptrace), EPERM);
#endif
	in_child(every_refused_call);
}

static void arguments(void)
{
	static const int families[] = {AF_NETLINK,   AF_PACKET, AF_VSOCK, AF_ALG, AF_KEY,
				       AF_BLUETOOTH, AF_TIPC,   AF_XDP,   AF_CAN};
	const size_t page = 4096;
	char c = 'x';
	int pair[2];

	confine(-1);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		CHECK(socket(families[i], SOCK_DGRAM, 0) == -1 && errno == EPERM);
	CHECK(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) == -1 && errno == EPERM);
	CHECK(socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP) == -1 && errno == EPERM);
	CHECK(socketpair(AF_TIPC, SOCK_STREAM, 0, pair) == -1 && errno == EPERM);
	/* written, then executed */
	CHECK(mmap(NULL, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0) == MAP_FAILED &&
	      errno == EPERM);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	CHECK(mprotect(p, page, PROT_READ | PROT_EXEC) == -1 && errno == EPERM);
	CHECK(mprotect(p, page, PROT_READ) == 0);
	/* others */
	CHECK(kill(getppid(), 0) == -1 && errno == EPERM);
	CHECK(syscall(SYS_tgkill, (long)getppid(), (long)getppid(), 0L) == -1 && errno == EPERM);
	CHECK(ioctl(0, TIOCSTI, &c) == -1 && errno == EPERM);
	CHECK(prctl(PR_SET_MM, 1, 0, 0, 0) == -1 && errno == EPERM);
	CHECK(syscall(SYS_prlimit64, (long)getppid(), 7L, 0L, 0L) == -1 && errno == EPERM);
}

static void *thread(void *ran)
{
	*(bool *)ran = true;
	return NULL;
}

static void what_it_needs(void)
{
	bool ran = false;
	pthread_t t;
	int pair[2];

	confine(-1);
	CHECK(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) >= 0);
	CHECK(socket(AF_UNIX, SOCK_DGRAM, 0) >= 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(pthread_create(&t, NULL, thread, &ran) == 0 && pthread_join(t, NULL) == 0 && ran);
	CHECK(kill(getpid(), 0) == 0);
	CHECK(syscall(SYS_memfd_create, "x", 0L) >= 0);
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	      MAP_FAILED);
}

static void test_arguments(void **state)
{
	(void)state;
	in_child(arguments);
	in_child(what_it_needs);
}

#if !defined(__SANITIZE_ADDRESS__)
static void no_children(void)
{
	confine(-1);
	CHECK(fork() == -1 && errno == EPERM);
}

static void test_no_children(void **state)
{
	(void)state;
	in_child(no_children);
}
#endif

/* ---- the front's files ---- */

static char top[] = "/tmp/confine-test.XXXXXX";

static bool can_create(const char *folder)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/%s/new", top, folder);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	(void)close(fd);
	return unlink(path) == 0;
}

static bool can_open(const char *name, int flags)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	int fd = open(path, flags | O_CLOEXEC);
	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

static void files_of(bool router)
{
	char state[100], store[100], log[100], account[100];
	const struct confine_places places = {.state = state,
					      .store = store,
					      .log = log,
					      .socket = "",
					      .account = router ? account : NULL};

	(void)snprintf(state, sizeof(state), "%s/state", top);
	(void)snprintf(store, sizeof(store), "%s/state/caisson.db", top);
	(void)snprintf(log, sizeof(log), "%s/log", top);
	(void)snprintf(account, sizeof(account), "%s/account", top);
	int ruleset = confine_files(&places);
	CHECK(ruleset >= 0);
	CHECK(can_create("state") && can_create("log") && can_create("home"));
	confine(ruleset);
	CHECK(can_open("state/caisson.db", O_RDWR));
	CHECK(can_open("state/images", O_RDONLY));
	CHECK(can_create("state/packages"));
	CHECK(can_create("log"));
	CHECK(open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0);
	CHECK(open("/dev/null", O_RDWR | O_CLOEXEC) >= 0);
	CHECK(!can_create("state") && errno == EACCES);
	CHECK(!can_create("state/images") && errno == EACCES);
	CHECK(!can_create("home") && errno == EACCES);
	CHECK(!can_open("home/secret", O_RDONLY) && errno == EACCES);
	CHECK(can_open("account/token", O_RDONLY) == router);
	CHECK(!can_open("account/token", O_RDWR) && errno == EACCES);
	CHECK(open("/etc/passwd", O_RDWR | O_CLOEXEC) == -1 && (errno == EACCES || errno == EROFS));
	CHECK(open("/proc/1/status", O_RDONLY | O_CLOEXEC) == -1);
	CHECK(open("/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC) == -1);
}

static void files(void)
{
	files_of(false);
}

static void files_of_router(void)
{
	files_of(true);
}

static int make_tree(void **state)
{
	static const char *const folders[] = {"state", "state/images", "state/packages",
					      "log",   "home",         "account"};
	static const char *const names[] = {"state/caisson.db", "home/secret", "account/token"};
	char path[200];

	(void)state;
	if (!mkdtemp(top))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", top, folders[i]);
		if (mkdir(path, 0700) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", top, names[i]);
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return -1;
		(void)close(fd);
	}
	return 0;
}

static int remove_tree(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", top, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static void test_files(void **state)
{
	(void)state;
	if (landlock_abi() < LANDLOCK_ABI_MIN) {
		print_message("skipped: this kernel has no Landlock\n");
		skip();
	}
	in_child(files);
	in_child(files_of_router);
}

/* ---- the monitor ---- */

static void monitor(void)
{
	struct err e = ERR_INIT;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	const uint64_t keep = monitor_caps;
	unsigned refused = 0;

	CHECK(confine_monitor(&e) == 0);
	CHECK(syscall(SYS_capget, &head, data) == 0);
	for (unsigned cap = 0; cap < 64; cap++) {
		const bool has = data[cap / 32].permitted >> cap % 32 & 1;

		CHECK(!has || keep >> cap & 1);
		if (cap <= CAP_LAST_CAP && !(keep >> cap & 1))
			CHECK(prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 0);
	}
	CHECK(!(keep >> CAP_SYS_MODULE & 1) && !(keep >> CAP_SYS_RAWIO & 1) &&
	      !(keep >> CAP_NET_RAW & 1) && !(keep >> CAP_SYS_BOOT & 1));
	for (uint32_t nr = 0; nr < NR_MAX; nr++) {
		if (plain_verdict(&filter_monitor, nr) != EPERM)
			continue;
		CHECK(syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L) == -1 && errno == EPERM);
		refused++;
	}
	CHECK(refused >= 30);
	CHECK(plain_verdict(&filter_monitor, SYS_mount) == 0);
	CHECK(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) == -1 && errno == EPERM);
}

static void test_monitor(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root's monitor has anything to give up\n");
		skip();
	}
	in_child(monitor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_calls),
		cmocka_unit_test(test_arguments),
#if !defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(test_no_children),
#endif
		cmocka_unit_test_setup_teardown(test_files, make_tree, remove_tree),
		cmocka_unit_test(test_monitor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
