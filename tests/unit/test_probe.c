/* SPDX-License-Identifier: Apache-2.0 */
/* The probe: what it says must be true of this host, and it must leave nothing behind. */
#include "engine/engine.h"
#include "engine/native/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static unsigned int count_entries(const char *path)
{
	_cleanup_dir_ DIR *d = opendir(path);
	unsigned int n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static uint64_t mountinfo_bytes(void)
{
	_cleanup_fd_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	char b[4096];
	uint64_t sum = 0;

	for (ssize_t n; fd >= 0 && (n = read(fd, b, sizeof(b))) > 0;)
		sum += (uint64_t)n;
	return sum;
}

static void test_nothing_stays(void **state)
{
	struct native_probe p;
	unsigned int fds = count_entries("/proc/self/fd");
	unsigned int cgroups =
	    count_entries("/sys/fs/cgroup") + count_entries("/sys/fs/cgroup/memory");
	uint64_t mounts = mountinfo_bytes();

	(void)state;
	for (int i = 0; i < 3; i++)
		native_probe(&p);
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_int_equal(count_entries("/sys/fs/cgroup") + count_entries("/sys/fs/cgroup/memory"),
			 cgroups);
	assert_int_equal(mountinfo_bytes(), mounts);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void test_tells_the_truth(void **state)
{
	struct native_probe p;
	int status = 0;

	(void)state;
	native_probe(&p);
	assert_true(p.kernel >= 5000);
	assert_int_equal(p.uid, geteuid());
	pid_t pid = fork();
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(p.tried[PROBE_USERNS] == 0, WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (p.uid != 0)
		assert_int_not_equal(p.uids, PROBE_UIDS_RANGE);
	assert_int_equal(!!(p.enforced & ENGINE_CAP_OWN_UID), p.uids != PROBE_UIDS_SINGLE);
	assert_int_equal(p.enforced & p.best_effort, 0);
	if (strcmp(p.cgroup, "none") == 0)
		assert_false(p.enforced & ENGINE_CAP_CPU);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nothing_stays),
	    cmocka_unit_test(test_tells_the_truth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
