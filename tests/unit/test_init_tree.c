/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of files that init copies, sets aside and removes: on a folder of this machine, so that
 * sanitizers see what the static program cannot be built with. */
#include "base/attr.h"
#include "file_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];
static int base, from, to; /* folders */

static int open_folder(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static int set_up(void **state UNUSED)
{
	(void)snprintf(root, sizeof(root), "/tmp/test_init_tree.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	base = open_folder(AT_FDCWD, root);
	if (mkdirat(base, "from", 0755) < 0 || mkdirat(base, "to", 0755) < 0)
		return -1;
	from = open_folder(base, "from");
	to = open_folder(base, "to");
	return 0;
}

static int tear_down(void **state UNUSED)
{
	(void)close(from);
	(void)close(to);
	bool clean = tree_remove(base, "from") == 0 && tree_remove(base, "to") == 0;
	(void)close(base);
	return clean && rmdir(root) == 0 ? 0 : -1;
}

static void put(int at, const char *name, const char *text, mode_t mode)
{
	int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

static void expect(int at, const char *name, const char *text)
{
	char got[64] = {0};
	int fd = openat(at, name, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(read(fd, got, sizeof(got) - 1), strlen(text));
	assert_string_equal(got, text);
	(void)close(fd);
}

static mode_t mode_of(int at, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode;
}

static unsigned count(int at)
{
	int fd = open_folder(at, ".");
	DIR *d = fdopendir(fd);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n - 2;
}

static void test_copy(void **state UNUSED)
{
	struct tree_count c = {0};
	struct stat a, b;
	char target[32] = {0};
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	put(from, "file", "hello", 0640);
	put(from, "setuid", "x", 04755);
	assert_int_equal(mkdirat(from, "d", 0750), 0);
	put(from, "d/below", "deep", 0400);
	assert_int_equal(linkat(from, "file", from, "d/again", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", from, "link"), 0);
	assert_int_equal(mkfifoat(from, "pipe", 0600), 0);
	(void)snprintf(name.sun_path, sizeof(name.sun_path), "%s/from/sock", root);
	assert_int_equal(bind(sock, (struct sockaddr *)&name, sizeof(name)), 0);
	(void)close(sock);

	assert_int_equal(tree_copy(from, to, false, &c), 0);
	expect(to, "file", "hello");
	expect(to, "d/below", "deep");
	assert_int_equal(mode_of(to, "file"), S_IFREG | 0640);
	assert_int_equal(mode_of(to, "setuid"), S_IFREG | 0755);
	assert_int_equal(mode_of(to, "d"), S_IFDIR | 0750);
	assert_true(S_ISFIFO(mode_of(to, "pipe")));
	assert_int_equal(readlinkat(to, "link", target, sizeof(target) - 1), 11);
	assert_string_equal(target, "/etc/passwd");
	assert_int_equal(fstatat(to, "file", &a, 0), 0);
	assert_int_equal(fstatat(to, "d/again", &b, 0), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(faccessat(to, "sock", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(c.files, 4);
	assert_int_equal(c.bytes, 5 + 1 + 4);
	assert_int_equal(c.skipped, 1);
}

static void expect_owner(const char *name, uid_t uid)
{
	struct stat st;

	assert_int_equal(fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_uid, uid);
	assert_int_equal(st.st_gid, uid);
}

/* In a sandbox with a root user. What belongs to root must not belong to the user when it comes back. */
static void test_owners(void **state UNUSED)
{
	static const char *const names[] = {"file", "d", "d/again", "link", "pipe"};
	struct tree_count c = {0};

	if (geteuid() != 0)
		skip();
	put(from, "file", "x", 0600);
	assert_int_equal(mkdirat(from, "d", 0700), 0);
	assert_int_equal(linkat(from, "file", from, "d/again", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", from, "link"), 0);
	assert_int_equal(mkfifoat(from, "pipe", 0600), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(fchownat(from, names[i], 33, 33, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(tree_copy(from, to, true, &c), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_owner(names[i], 33);
	assert_int_equal(mode_of(to, "file"), S_IFREG | 0600);
	assert_int_equal(mode_of(to, "d"), S_IFDIR | 0700);
	assert_int_equal(tree_clear(to, NULL), 0);
	assert_int_equal(tree_copy(from, to, false, &c), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_owner(names[i], 0);
	assert_int_equal(tree_clear(to, NULL), 0);
	assert_int_equal(tree_clear(from, NULL), 0);
}

static void test_holes(void **state UNUSED)
{
	struct tree_count c = {0};
	struct stat st;
	int fd = openat(from, "holes", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char end[4] = {0};

	assert_int_equal(pwrite(fd, "end", 3, INT64_C(1) << 32), 3);
	(void)close(fd);
	assert_int_equal(tree_copy(from, to, false, &c), 0);
	fd = openat(to, "holes", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, (INT64_C(1) << 32) + 3);
	assert_true(st.st_blocks < 1000);
	assert_true(c.bytes < 1 << 20);
	assert_int_equal(pread(fd, end, 3, INT64_C(1) << 32), 3);
	assert_string_equal(end, "end");
	(void)close(fd);
}

/* A chain of N folders named "d" below AT. */
static void dig(int at, unsigned n)
{
	int fd = open_folder(at, ".");

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		int next = open_folder(fd, "d");
		(void)close(fd);
		fd = next;
	}
	put(fd, "bottom", "b", 0600);
	(void)close(fd);
}

static void test_deep(void **state UNUSED)
{
	struct tree_count c = {0};

	dig(from, TREE_DEPTH_MAX);
	assert_int_equal(tree_copy(from, to, false, &c), 0);
	assert_int_equal(tree_clear(to, NULL), 0);
	assert_int_equal(tree_clear(from, NULL), 0);
	dig(from, TREE_DEPTH_MAX + 1);
	assert_int_equal(tree_copy(from, to, false, &c), -ELOOP);
	assert_int_equal(tree_clear(from, NULL), 0);
	dig(from, 4 * TREE_DEPTH_MAX);
	assert_int_equal(tree_clear(from, NULL), 0);
	assert_int_equal(count(from), 0);
}

static void test_shut_folders(void **state UNUSED)
{
	struct tree_count c = {0};

	assert_int_equal(mkdirat(from, "shut", 0700), 0);
	assert_int_equal(mkdirat(from, "shut/in", 0700), 0);
	put(from, "shut/in/file", "x", 0);
	assert_int_equal(fchmodat(from, "shut/in", 0, 0), 0);
	assert_int_equal(fchmodat(from, "shut", 0500, 0), 0);
	assert_int_equal(tree_copy(from, to, false, &c), 0);
	assert_int_equal(mode_of(to, "shut"), S_IFDIR | 0500);
	assert_int_equal(mode_of(to, "shut/in"), S_IFDIR);
	assert_int_equal(mode_of(from, "shut/in"), S_IFDIR); /* and the source is as it was */
	assert_int_equal(tree_remove(from, "shut"), 0);
	assert_int_equal(tree_remove(from, "shut"), 0); /* gone already */
	assert_int_equal(count(from), 0);
}

static void test_aside_and_back(void **state UNUSED)
{
	put(from, "a", "old", 0600);
	assert_int_equal(mkdirat(from, "d", 0500), 0);
	assert_int_equal(tree_put_back(from, ".aside"), 0); /* nothing was set aside */
	expect(from, "a", "old");
	assert_int_equal(mkdirat(from, ".aside", 0700), 0);
	assert_int_equal(tree_set_aside(from, ".aside"), 0);
	assert_int_equal(count(from), 1);
	put(from, "a", "new", 0600);
	put(from, "b", "half", 0600);
	assert_int_equal(tree_put_back(from, ".aside"), 0);
	expect(from, "a", "old");
	assert_int_equal(mode_of(from, "d"), S_IFDIR | 0500);
	assert_int_equal(count(from), 2);
	assert_int_equal(tree_clear(from, "a"), 0);
	assert_int_equal(count(from), 1);
}

/* What removing leads through may be a link: it goes, what it names stays. */
static void test_links_are_not_followed(void **state UNUSED)
{
	struct tree_count c = {0};

	put(to, "outside", "stays", 0600);
	assert_int_equal(symlinkat("../to", from, "d"), 0);
	assert_int_equal(tree_clear(from, NULL), 0);
	expect(to, "outside", "stays");
	assert_int_equal(mkdirat(base, "copy", 0700), 0);
	int copy = open_folder(base, "copy");
	assert_int_equal(symlinkat("../to", from, "d"), 0);
	assert_int_equal(tree_copy(from, copy, false, &c), 0);
	assert_true(S_ISLNK(mode_of(copy, "d")));
	(void)close(copy);
	assert_int_equal(tree_remove(base, "copy"), 0);
	expect(to, "outside", "stays");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_copy, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_owners, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_holes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_deep, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_shut_folders, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_aside_and_back, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_links_are_not_followed, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
