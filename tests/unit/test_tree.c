/* SPDX-License-Identifier: Apache-2.0 */
/* base/tree.h: trees that somebody hostile made. */
#include "base/fdio.h"
#include "base/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DEEP 3000 /* levels: a path of them is longer than PATH_MAX */

static char top[] = "/tmp/caisson-tree-XXXXXX";

static int make_top(void **state)
{
	(void)state;
	return mkdtemp(top) ? 0 : -1;
}

static int remove_top(void **state)
{
	(void)state;
	return tree_remove(AT_FDCWD, top);
}

static int folder_in(int dir, const char *name)
{
	assert_int_equal(mkdirat(dir, name, 0700), 0);
	const int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void file_in(int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0);

	assert_true(fd >= 0);
}

static void what_is_there_goes(void **state)
{
	(void)state;
	_cleanup_fd_ int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int kept = folder_in(dir, "kept");
	file_in(kept, "file");
	_cleanup_fd_ int tree = folder_in(dir, "tree");
	int at = folder_in(tree, "deep");

	for (int i = 0; i < DEEP; i++) {
		const int next = folder_in(at, "d");
		(void)fd_close(at);
		at = next;
	}
	file_in(at, "last");
	(void)fd_close(at);
	for (int i = 0; i < 20; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "closed-%d", i);
		_cleanup_fd_ int closed = folder_in(tree, name);
		file_in(closed, "file");
		assert_int_equal(fchmod(closed, i % 2 ? 0 : 0500), 0);
	}
	assert_int_equal(symlinkat("../kept", tree, "link"), 0);
	assert_int_equal(symlinkat("/", tree, "root"), 0);
	assert_int_equal(mkfifoat(tree, "pipe", 0), 0);
	assert_int_equal(fchmod(tree, 0), 0);
	assert_int_equal(tree_remove(dir, "tree"), 0);
	assert_int_equal(faccessat(dir, "tree", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(faccessat(kept, "file", F_OK, 0), 0);
}

static void a_link_is_not_followed(void **state)
{
	(void)state;
	_cleanup_fd_ int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(symlinkat("kept", dir, "link"), 0);
	assert_int_equal(tree_remove(dir, "link"), 0);
	assert_int_equal(faccessat(dir, "kept/file", F_OK, 0), 0);
	assert_int_equal(tree_remove(dir, "nothing"), 0);
	assert_int_equal(tree_remove(dir, "kept/file/x"), -ENOTDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_there_goes),
	    cmocka_unit_test(a_link_is_not_followed),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
