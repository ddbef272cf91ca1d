/* SPDX-License-Identifier: Apache-2.0 */
/* The probe: what it says must be true of this host, and it must leave nothing behind. */
#include "engine/engine.h"
#include "engine/maker/native/probe.h"

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
	struct host_probe p;
	unsigned int fds = count_entries("/proc/self/fd");
	unsigned int cgroups =
	    count_entries("/sys/fs/cgroup") + count_entries("/sys/fs/cgroup/memory");
	uint64_t mounts = mountinfo_bytes();

	(void)state;
	for (int i = 0; i < 3; i++)
		host_probe_run(&p);
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_int_equal(count_entries("/sys/fs/cgroup") + count_entries("/sys/fs/cgroup/memory"),
			 cgroups);
	assert_int_equal(mountinfo_bytes(), mounts);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void test_tells_the_truth(void **state)
{
	struct host_probe p;
	int status = 0;

	(void)state;
	host_probe_run(&p);
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

/* A host without one thing is a host without sandboxes, or a weaker one, never silently the same.
 */
/* Of each kind of folder: one that can be mounted so, and file systems that cannot. */
static void test_mapped_mount(void **state)
{
	const unsigned int fds = count_entries("/proc/self/fd");
	const uint64_t mounts = mountinfo_bytes();

	(void)state;
	if (geteuid() != 0) {
		assert_int_equal(probe_mapped_mount("/"), -EPERM);
		return;
	}
	assert_int_equal(probe_mapped_mount("/nothing/of/that/name"), -ENOENT);
	assert_int_equal(probe_mapped_mount("/proc"), -EINVAL); /* proc(5) cannot */
	const int r = probe_mapped_mount("/var");
	assert_true(r == 0 || r == -EINVAL || r == -EPERM);
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_int_equal(mountinfo_bytes(), mounts);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_usable_needs_every_wall(void **state)
{
	struct host_probe p = {
	    .seccomp = true, .openat2 = true, .pidfd = true, .close_range = true};
	bool *const flags[] = {&p.seccomp, &p.openat2, &p.pidfd, &p.close_range};

	(void)state;
	assert_true(host_probe_usable(&p));
	for (int i = 0; i < PROBE_TRY_MAX_; i++) {
		p.tried[i] = EPERM;
		assert_int_equal(host_probe_usable(&p), !probe_try_needed((enum probe_try)i));
		p.tried[i] = PROBE_NOT_THERE;
		assert_int_equal(host_probe_usable(&p), !probe_try_needed((enum probe_try)i));
		p.tried[i] = 0;
		assert_true(probe_try_text((enum probe_try)i)[0] != '\0');
	}
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		*flags[i] = false;
		assert_false(host_probe_usable(&p));
		*flags[i] = true;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nothing_stays),
	    cmocka_unit_test(test_tells_the_truth),
	    cmocka_unit_test(test_mapped_mount),
	    cmocka_unit_test(test_usable_needs_every_wall),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
