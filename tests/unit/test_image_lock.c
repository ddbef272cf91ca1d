/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of images in use, against somebody who looks whether one is, and somebody who removes one. */
#include "engine/maker/native/monitor/monitor.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct monitor m;
static char root[] = "/tmp/test-image-lock-XXXXXX";

static int set_up(void **state UNUSED)
{
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state UNUSED)
{
	return rmdir(root);
}

/* A process that takes the whole lock and gives it back, again and again, until the pipe is closed. */
static pid_t begin_looking(const int stop[2])
{
	const pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)close(stop[1]);
	for (char byte; read(stop[0], &byte, 1) != 0;) {
		const int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		(void)flock(fd, LOCK_EX | LOCK_NB);
		(void)close(fd);
	}
	_exit(0);
}

static void test_a_look_is_no_reason(void **state UNUSED)
{
	int stop[2];

	assert_int_equal(pipe2(stop, O_CLOEXEC | O_NONBLOCK), 0);
	const pid_t pid = begin_looking(stop);

	assert_true(pid > 0);
	for (unsigned i = 0; i < 2000; i++) {
		struct image_lock *l = NULL;

		assert_int_equal(image_lock_take(&m, root, &l), 0);
		assert_null(image_lock_unref(l));
	}
	(void)close(stop[0]);
	(void)close(stop[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_a_removal_is_one(void **state UNUSED)
{
	struct image_lock *l = NULL, *again = NULL;
	const int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(image_lock_take(&m, root, &l), -EBUSY);
	assert_int_equal(flock(fd, LOCK_UN), 0);
	assert_int_equal(image_lock_take(&m, root, &l), 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1); /* it is in use */
	assert_int_equal(image_lock_take(&m, root, &again), 0);
	assert_ptr_equal(l, again);
	(void)image_lock_unref(again);
	(void)image_lock_unref(l);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_look_is_no_reason),
	    cmocka_unit_test(test_a_removal_is_one),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
