/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups that stay in a folder, while others rename. */
#include "base/attr.h"
#include "base/fdio.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LOOKUPS 20000

struct renaming {
	int dir;
	atomic_bool ends;
};

static void *rename_all_the_time(void *user)
{
	struct renaming *r = user;

	while (!r->ends) {
		(void)renameat(r->dir, "moved", r->dir, "sub/moved");
		(void)renameat(r->dir, "sub/moved", r->dir, "moved");
	}
	return NULL;
}

/* A `..` of a link fails with EAGAIN then, openat2(2), and is to be tried again. */
static void test_links_upwards(void **state UNUSED)
{
	static const char *const folders[] = {"sub/moved", "moved", "sub", "file"};
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char path[] = "/tmp/caisson-openat2-XXXXXX";
	struct renaming r = {0};
	pthread_t thread;

	assert_non_null(mkdtemp(path));
	r.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(r.dir >= 0);
	for (size_t i = 1; i < ARRAY_SIZE(folders); i++)
		assert_int_equal(mkdirat(r.dir, folders[i], 0700), 0);
	assert_int_equal(symlinkat("sub/../file", r.dir, "link"), 0);
	assert_int_equal(pthread_create(&thread, NULL, rename_all_the_time, &r), 0);
	int failed = 0;
	for (int i = 0; i < LOOKUPS && failed == 0; i++) {
		const int fd = fd_openat2(r.dir, "link", &how);

		failed = fd < 0 ? fd : 0;
		(void)fd_close(fd);
	}
	r.ends = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		(void)unlinkat(r.dir, folders[i], AT_REMOVEDIR);
	(void)unlinkat(r.dir, "link", 0);
	(void)close(r.dir);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_links_upwards)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
