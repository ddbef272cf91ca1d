/* SPDX-License-Identifier: Apache-2.0 */
/* The ballast of a disk, on a disk in a file under /var/tmp. Only root can mount one. */
#include "base/attr.h"
#include "base/fdio.h"
#include "engine/maker/native/monitor/workspace_ballast.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB   (UINT64_C(1) << 20)
#define SIZE  (64 * MIB)
#define CLAIM (24 * MIB)

static int image = -1;
static int fs = -1; /* its root folder */

static uint64_t blocks(void)
{
	struct stat st;

	assert_int_equal(fstat(image, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static int set_up(void **state UNUSED)
{
	const struct proto_limits l = {.workspace_bytes = SIZE, .workspace_inodes = 100};
	char device[LOOP_PATH_MAX];
	uint32_t number;

	if (geteuid() != 0)
		return 0;
	image = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (image < 0 || disk_fill(image, &l) < 0)
		return -1;
	_cleanup_fd_ int loop = disk_attach(image, device, &number);
	_cleanup_fd_ int tree = loop < 0 ? -1 : disk_mount(device, 0);
	fs = tree < 0 ? -1 : openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fs < 0 ? -1 : 0;
}

static int tear_down(void **state UNUSED)
{
	fs = fd_close(fs);
	image = fd_close(image);
	return 0;
}

static bool may(void)
{
	if (fs >= 0)
		return true;
	print_message("skipped: a plain user cannot mount disks\n");
	skip();
	return false;
}

/* What the disk can ever take from the host: its claim, less what it has. */
static void assert_claim(uint64_t claim)
{
	const uint64_t size = (uint64_t)lseek(image, 0, SEEK_END);
	uint64_t ballast;

	assert_int_equal(ballast_set(fs, image, claim, &ballast), 0);
	assert_in_range(size - ballast, claim - MIB, claim);
	/* no block of the ballast is a block of the file, which has some of its own for its map */
	assert_in_range(blocks(), 0, size - ballast + MIB / 4);
}

static void test_holes(void **state UNUSED)
{
	if (!may())
		return;
	assert_claim(CLAIM);
	assert_int_equal(ballast_back(fs, image), 0);
	assert_in_range(blocks(), CLAIM - 2 * MIB, CLAIM);
	assert_claim(CLAIM / 2);
	assert_claim(CLAIM);
}

/* Whoever took ballast in was killed before the holes were made: the next one makes them, whether it wants more ballast,
 * less, or as much. */
static void test_killed_between(void **state UNUSED)
{
	static const uint64_t next[] = {CLAIM, CLAIM / 2, CLAIM + 8 * MIB};

	if (!may())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(next); i++) {
		assert_claim(CLAIM);
		assert_int_equal(
		    fallocate(image, FALLOC_FL_KEEP_SIZE, 0, lseek(image, 0, SEEK_END)), 0);
		assert_true(blocks() >= SIZE);
		assert_claim(next[i]);
	}
}

static void test_trim(void **state UNUSED)
{
	if (!may())
		return;
	assert_int_equal(ballast_back(fs, image), 0);
	assert_true(blocks() >= SIZE);
	assert_false(ballast_trim(fs, 0));
	assert_true(ballast_trim(fs, UINT64_C(10000000000)));
	assert_in_range(blocks(), 0, 16 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_holes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_killed_between, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_trim, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
