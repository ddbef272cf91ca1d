/* SPDX-License-Identifier: Apache-2.0 */
/* What a killed keeper left: when the next one looks for it (tests/integration/keeper_start.test.ts has what it removes).
 * And what a call that fails leaves. */
#include "base/fdio.h"
#include "base/rand.h"
#include "engine/maker/common/folder.h"
#include "engine/maker/common/stored_folder.h"
#include "engine/maker/docker/keeper/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static struct keeper k;
static char asked[16][256];
static daemon_fn answers[16];
static unsigned n_asked;

int daemon_start(struct daemon *a UNUSED, const char *method, const char *path,
		 const char *json UNUSED, unsigned timeout_s UNUSED, daemon_fn cb, void *user)
{
	assert_ptr_equal(user, &k);
	assert_in_range(n_asked, 0, 15);
	(void)snprintf(asked[n_asked], sizeof(asked[0]), "%s %s", method, path);
	answers[n_asked++] = cb;
	return 0;
}

/* Answers all calls, and those that they lead to. CONTAINERS and VOLUMES: the lists. */
static unsigned answer_all(const char *containers, const char *volumes, int removal)
{
	unsigned lists = 0;

	for (unsigned i = 0; i < n_asked; i++) {
		const bool list = strncmp(asked[i], "GET ", 4) == 0;
		const char *text = !list                                        ? "{}"
				   : strncmp(asked[i], "GET /volumes", 12) == 0 ? volumes
										: containers;
		lists += list;
		answers[i](list ? 200 : removal, text, strlen(text), &k);
	}
	n_asked = 0;
	return lists;
}

static void touch(const char *folder, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	const int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)fd_close(fd);
}

static int setup(void **state UNUSED)
{
	char folder[] = "/tmp/caisson-orphans-XXXXXX";

	k = (struct keeper){0};
	n_asked = 0;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(k.folder, sizeof(k.folder), "%s", folder);
	(void)snprintf(k.state_id, sizeof(k.state_id), "0123456789abcdef");
	(void)snprintf(k.instance, sizeof(k.instance), "bbbbbbbbbbbbbbbb");
	return 0;
}

static int teardown(void **state UNUSED)
{
	return rmdir(k.folder);
}

static uint64_t wait_of(uint64_t since)
{
	return k.orphans_at == 0 ? 0 : k.orphans_at - since;
}

static void test_nobody_was_killed(void **state UNUSED)
{
	orphans_remove(&k);
	assert_int_equal(answer_all("[]", "{\"Volumes\":[]}", 204), 2);
	assert_int_equal(k.orphans_at, 0);
}

/* The daemon may be at a call of the killed keeper, and make its container after the list. */
static void test_a_later_look(void **state UNUSED)
{
	const uint64_t now = now_ns();

	touch(k.folder, "aaaaaaaaaaaaaaaa.lock");
	orphans_remove(&k);
	assert_int_equal(answer_all("[]", "{\"Volumes\":[]}", 204), 2);
	assert_in_range(wait_of(now), 2 * CALL_S * NS_PER_S, (2 * CALL_S + 60) * NS_PER_S);
	orphans_tick(&k, k.orphans_at - 1);
	assert_int_equal(n_asked, 0);
	orphans_tick(&k, k.orphans_at);
	assert_int_equal(answer_all("[]", "{\"Volumes\":[]}", 204), 2);
	assert_int_equal(k.orphans_at, 0);
}

/* A removal that is refused is asked for again soon, and the later look still comes. */
static void test_a_refusal_before_the_later_look(void **state UNUSED)
{
	static const char volumes[] =
	    "{\"Volumes\":[{\"Name\":\"caisson-0123456789abcdef-aaaaaaaaaaaaaaaa-1-venv\"}]}";
	const uint64_t now = now_ns();

	touch(k.folder, "aaaaaaaaaaaaaaaa.lock");
	orphans_remove(&k);
	assert_int_equal(answer_all("[]", volumes, 409), 2);
	assert_in_range(wait_of(now), 1, 30 * NS_PER_S);
	orphans_tick(&k, k.orphans_at);
	assert_int_equal(answer_all("[]", volumes, 204), 2);
	assert_in_range(wait_of(now), 2 * CALL_S * NS_PER_S, (2 * CALL_S + 60) * NS_PER_S);
}

static unsigned entries(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n - 2;
}

/* Whoever asks again and again, on a full disk for example, fills it with nothing. */
static void test_a_stored_folder_that_cannot_be_made(void **state UNUSED)
{
	char key[PATH_MAX], inside[PATH_MAX + 8];
	const int dir = open(k.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)snprintf(key, sizeof(key), "%s/key", k.folder);
	(void)snprintf(inside, sizeof(inside), "%s/inside", key);
	assert_true(dir >= 0 && mkdir(key, 0700) == 0 && mkdir(inside, 0700) == 0);
	for (int i = 0; i < 3; i++)
		assert_true(stored_folder_make(dir, "key", geteuid(), false) < 0);
	assert_int_equal(entries(k.folder), 1);
	assert_true(rmdir(inside) == 0 && rmdir(key) == 0);
	(void)fd_close(dir);
}

/* What happens between the making of a folder and its lock: the first of them, and the second. */
static enum { NOTHING, IS_SWEPT, IS_LOCKED } before_lock;
static int swept = -1;

/* Instead of that of the C library. */
int flock(int fd, int operation)
{
	const int what = before_lock;

	before_lock = NOTHING;
	if (what == IS_SWEPT)
		folder_sweep(swept);
	if (what == IS_LOCKED) {
		errno = EWOULDBLOCK;
		return -1;
	}
	return (int)syscall(SYS_flock, fd, operation);
}

/* The removal of one sandbox sweeps the folder while another one is made in it. */
static void test_a_stored_folder_is_made_during_a_sweep(void **state UNUSED)
{
	uint32_t uid = (uint32_t)getuid();

	swept = open(k.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(swept >= 0);
	for (int what = IS_SWEPT; what <= IS_LOCKED; what++) {
		before_lock = what;
		assert_int_equal(stored_folder_make(swept, "key", uid, false), 0);
		assert_int_equal(before_lock, NOTHING);
		const int fd = stored_folder_open(swept, "key", &uid);
		assert_true(fd >= 0);
		(void)fd_close(fd);
		assert_int_equal(folder_set_aside(swept, "key"), 0);
		folder_sweep(swept);
		assert_int_equal(entries(k.folder), 0);
	}
	(void)fd_close(swept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_nobody_was_killed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_later_look, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_refusal_before_the_later_look, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_stored_folder_that_cannot_be_made, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_a_stored_folder_is_made_during_a_sweep, setup,
					    teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
