/* SPDX-License-Identifier: Apache-2.0 */
/* The count of a workspace that no file system limits, on a folder of this machine. */
#include "base/attr.h"
#include "file_tree.h"
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB 1024u

static struct init in;
static char root[64];
static int base;

static void start_disk(void)
{
	static const char *const names[DISK_KEPT] = {"venv", "tmp", "home", "variables"};
	char paths[DISK_KEPT][PATH_MAX];
	const char *kept[DISK_KEPT];

	for (size_t i = 0; i < DISK_KEPT; i++) {
		(void)snprintf(paths[i], sizeof(paths[i]), "%s/%s", root, names[i]);
		kept[i] = paths[i];
	}
	disk_start(&in, kept);
}

static int set_up(void **state UNUSED)
{
	(void)snprintf(root, sizeof(root), "/tmp/test_init_disk.XXXXXX");
	memset(&in, 0, sizeof(in));
	if (!mkdtemp(root))
		return -1;
	base = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base < 0 || mkdirat(base, "data", 0755) < 0 || mkdirat(base, "venv", 0755) < 0 ||
	    mkdirat(base, "tmp", 0755) < 0 || mkdirat(base, "home", 0755) < 0)
		return -1;
	in.workspace = openat(base, "data", O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* of all processes our own alone */
	if (mkdirat(base, "proc", 0755) < 0 || symlinkat("/proc/self", base, "proc/42") < 0)
		return -1;
	in.proc = openat(base, "proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	in.stored = true;
	in.config.fds = PROTO_CONFIG_FOLDER;
	in.config.limits.workspace_bytes = 256 * KIB;
	in.config.limits.workspace_inodes = 100;
	start_disk();
	return in.workspace < 0 || in.proc < 0 ? -1 : 0;
}

static int tear_down(void **state UNUSED)
{
	(void)close(in.workspace);
	(void)close(in.proc);
	for (size_t i = 0; i < DISK_KEPT; i++)
		(void)close(in.disk.kept[i]);
	bool clean = tree_clear(base, NULL) == 0;
	(void)close(base);
	return clean && rmdir(root) == 0 ? 0 : -1;
}

/* A file of KIB_SIZE KiB; its descriptor. */
static int put(const char *name, size_t kib_size)
{
	char block[KIB];
	int fd = openat(base, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	memset(block, 'x', sizeof(block));
	for (size_t i = 0; i < kib_size; i++)
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	assert_int_equal(fsync(fd), 0); /* some file systems count only then */
	return fd;
}

static uint64_t known_kib(void)
{
	disk_changed(&in);
	return disk_known(&in).bytes / KIB;
}

static void near(uint64_t got, uint64_t want)
{
	assert_in_range(got, want, want + 32); /* folders may take blocks, too */
}

static void test_bytes_and_names(void **state UNUSED)
{
	near(known_kib(), 0);
	assert_int_equal(disk_known(&in).inodes, 0);
	(void)close(put("data/a", 64));
	(void)close(put("venv/b", 16));
	(void)close(put("tmp/c", 8));
	(void)close(put("home/d", 8));
	near(known_kib(), 96);
	assert_int_equal(disk_known(&in).inodes, 4);
	assert_int_equal(linkat(base, "data/a", base, "data/again", 0), 0);
	near(known_kib(), 96);                       /* once, */
	assert_int_equal(disk_known(&in).inodes, 5); /* but each name is one */
	assert_int_equal(symlinkat("/etc", base, "data/link"), 0);
	int fd = put("data/hole", 0);
	assert_int_equal(ftruncate(fd, 1 << 30), 0);
	(void)close(fd);
	near(known_kib(), 96);
	assert_int_equal(disk_known(&in).inodes, 7);
}

static void test_what_is_closed(void **state UNUSED)
{
	struct stat st;

	assert_int_equal(mkdirat(base, "data/shut", 0755), 0);
	(void)close(put("data/shut/a", 64));
	assert_int_equal(fchmodat(base, "data/shut", 0, 0), 0);
	near(known_kib(), 64);
	assert_int_equal(fstatat(base, "data/shut", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0);
	assert_int_equal(fchmodat(base, "data/shut", 0755, 0), 0);
}

static void test_too_deep(void **state UNUSED)
{
	int at = openat(base, "data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < DISK_DEPTH_MAX + 1; i++) {
		assert_int_equal(mkdirat(at, "d", 0755), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	assert_true(known_kib() > (UINT64_C(1) << 40));
	assert_int_equal(disk_run_begins(&in), -EDQUOT);
	assert_int_equal(tree_clear(base, "venv"), 0);
	assert_int_equal(mkdirat(base, "data", 0755), 0);
}

/* Looks until one is complete; whether the run must end. */
static bool look(void)
{
	in.disk.next_at = 1; /* long ago */
	do
		if (disk_work(&in))
			return true;
	while (disk_pending(&in));
	return false;
}

static void test_a_run(void **state UNUSED)
{
	(void)close(put("data/a", 64));
	assert_int_equal(disk_run_begins(&in), 0);
	in.run.state = RUN_RUNNING;
	assert_false(look());
	assert_true(disk_next(&in) > 1);
	(void)close(put("data/b", 256));
	assert_true(look());
	in.run.state = RUN_NONE;
	assert_int_equal(disk_run_begins(&in), 0); /* to remove something */
	in.run.state = RUN_RUNNING;
	assert_false(look());
	(void)close(put("data/c", 32)); /* but not to add */
	assert_true(look());
	in.run.state = RUN_NONE;
	assert_int_equal(unlinkat(base, "data/b", 0), 0);
	disk_changed(&in);
	assert_int_equal(disk_run_begins(&in), 0);
	in.run.state = RUN_RUNNING;
	assert_false(look());
	for (int i = 0; i < 100; i++) {
		char name[24];
		(void)snprintf(name, sizeof(name), "data/n%d", i);
		(void)close(openat(base, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	assert_true(look());
}

static void test_without_a_name(void **state UNUSED)
{
	assert_int_equal(disk_run_begins(&in), 0);
	in.run.state = RUN_RUNNING;
	int fd = put("data/a", 300);
	int again = dup(fd);
	assert_int_equal(unlinkat(base, "data/a", 0), 0);
	assert_true(look());
	(void)close(fd);
	(void)close(again);
	assert_false(look());
	fd = put("data/b", 200);
	again = dup(fd);
	assert_int_equal(unlinkat(base, "data/b", 0), 0);
	assert_false(look()); /* it counts once */
	(void)close(fd);
	(void)close(again);
}

static void test_uploads(void **state UNUSED)
{
	int small = put("venv/small", 64);
	int large = put("venv/large", 150);

	assert_int_equal(unlinkat(base, "venv/small", 0), 0);
	assert_int_equal(unlinkat(base, "venv/large", 0), 0);
	(void)close(put("data/a", 128));
	disk_changed(&in);
	assert_int_equal(disk_admit(&in, -1), 0);
	assert_int_equal(disk_admit(&in, small), 0);
	assert_int_equal(disk_admit(&in, large), -EDQUOT);
	in.run.state = RUN_RUNNING; /* nobody looks now: what has been let in counts */
	in.disk.known.bytes = 160 * KIB;
	assert_int_equal(disk_admit(&in, small), 0);
	assert_int_equal(disk_admit(&in, small), -EDQUOT);
	(void)close(small);
	(void)close(large);
}

static void test_where_a_file_system_counts(void **state UNUSED)
{
	in.config.fds = 0;
	start_disk();
	(void)close(put("data/a", 2000));
	disk_changed(&in);
	assert_false(disk_pending(&in));
	assert_int_equal(disk_run_begins(&in), 0);
	in.run.state = RUN_RUNNING;
	assert_int_equal(disk_next(&in), 0);
	assert_false(disk_work(&in));
	assert_int_equal(disk_admit(&in, -1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_bytes_and_names, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_what_is_closed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_too_deep, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_run, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_without_a_name, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_uploads, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_where_a_file_system_counts, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
