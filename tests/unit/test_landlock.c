/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock on a small tree that looks like a sandbox's root, each case in a child of its own. */
#include "base/attr.h"
#include "walls/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

static char root[64];
static char outside[64];

static int set_up(void **state)
{
	static const char *const dirs[] = {"etc", "tmp",      "tmp/a", "tmp/b",
					   "mnt", "mnt/data", "home",  "home/sandbox"};
	char path[128];

	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/landlock-test.XXXXXX");
	(void)snprintf(outside, sizeof(outside), "/tmp/landlock-out.XXXXXX");
	if (!mkdtemp(root) || !mkdtemp(outside))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
		if (mkdir(path, 0755) < 0)
			return -1;
	}
	return 0;
}

static int tear_down(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", root, outside, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

/* The error of creating a file there, 0 when it worked. */
static int try_create(const char *base, const char *name)
{
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/%s", base, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return errno;
	(void)close(fd);
	return 0;
}

#define NEED(e)                                                                                    \
	do {                                                                                       \
		if (!(e)) {                                                                        \
			(void)fprintf(stderr, "not true: %s (errno %d)\n", #e, errno);             \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int files_inside(int to_parent UNUSED)
{
	char a[128];
	char b[128];

	NEED(try_create(root, "tmp/a/x") == 0);
	NEED(try_create(root, "mnt/data/x") == 0);
	NEED(try_create(root, "home/sandbox/x") == 0);
	NEED(try_create(root, "etc/x") == EACCES);
	NEED(try_create(root, "x") == EACCES);
	NEED(try_create(outside, "x") == EACCES);
	(void)snprintf(a, sizeof(a), "%s/tmp/a/x", root);
	(void)snprintf(b, sizeof(b), "%s/tmp/b/y", root);
	NEED(rename(a, b) == 0);
	NEED(link(b, a) == 0);
	(void)snprintf(b, sizeof(b), "%s/mnt/data/fifo", root);
	NEED(mkfifo(b, 0600) == 0);
	NEED(open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 && errno == EACCES);
	NEED(open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0);
	return 0;
}

static int pipes_reopened(int to_parent UNUSED)
{
	int p[2];
	char path[64];

	NEED(pipe2(p, O_CLOEXEC) == 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", p[1]);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	/* the tree has no /proc of its own; the link may be refused, the pipe behind it may not */
	NEED(fd >= 0 || errno == EACCES);
	return 0;
}

static int signals_out(int to_parent)
{
	(void)to_parent;
	if (landlock_abi() < 6)
		return 77;
	NEED(kill(getppid(), 0) < 0 && errno == EPERM);
	NEED(kill(getpid(), 0) == 0);
	pid_t child = fork();
	if (child == 0)
		(void)pause();
	NEED(kill(child, SIGKILL) == 0);
	NEED(waitpid(child, NULL, 0) == child);
	return 0;
}

static int abstract_sockets_out(int listener UNUSED)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int n =
	    snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "landlock-test-%d", (int)getppid());

	if (landlock_abi() < 6)
		return 77;
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(s >= 0);
	NEED(connect(s, (struct sockaddr *)&un,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0);
	NEED(errno == EPERM);
	return 0;
}

static void in_child(int (*fn)(int), int arg)
{
	int status;

	if (landlock_abi() < LANDLOCK_ABI_MIN) {
		print_message("skipped: this kernel has Landlock level %d\n", landlock_abi());
		skip();
	}
	int ruleset = landlock_prepare(root);
	assert_true(ruleset >= 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || landlock_apply(ruleset) != 0)
			_exit(2);
		_exit(fn(arg));
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)close(ruleset);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: this kernel has Landlock level %d\n", landlock_abi());
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_files(void **state)
{
	(void)state;
	in_child(files_inside, 0);
}

static void test_pipes(void **state)
{
	(void)state;
	in_child(pipes_reopened, 0);
}

static void test_signals(void **state)
{
	(void)state;
	in_child(signals_out, 0);
}

static void test_abstract_sockets(void **state)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int n =
	    snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "landlock-test-%d", (int)getpid());
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(bind(s, (struct sockaddr *)&un,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
			 0);
	assert_int_equal(listen(s, 1), 0);
	in_child(abstract_sockets_out, s);
	(void)close(s);
}

/* The wall needs no_new_privs, and says so instead of standing open. */
static void test_apply_needs_no_new_privs(void **state)
{
	(void)state;
	assert_true(landlock_apply(-1) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_files),
	    cmocka_unit_test(test_pipes),
	    cmocka_unit_test(test_signals),
	    cmocka_unit_test(test_abstract_sockets),
	    cmocka_unit_test(test_apply_needs_no_new_privs),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
