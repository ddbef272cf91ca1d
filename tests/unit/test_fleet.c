/* SPDX-License-Identifier: Apache-2.0 */
/* fleet: ids that name their worker. */
#include "fleet/ids.h"

#include "base/rand.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS  20000u
#define ID_SIZE 65u

static const char base36[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static struct fleet_member member(const char *name)
{
	struct fleet_member m = {.key = {.bytes = "0123456789abcdef0123456789abcde"}};

	assert_int_equal(fleet_member_init(&m, name), 0);
	return m;
}

/* A fresh id of each form, as what makes them does. */
static void fresh(unsigned form, char ret[ID_SIZE])
{
	uint8_t random[19];

	switch (form) {
	case 0:
		memcpy(ret, "sess_", 5);
		rand_hex(ret + 5, 10);
		return;
	case 1:
		rand_uuid(ret);
		return;
	case 2:
		rand_hex(ret, 16);
		return;
	default:
		rand_bytes(random, sizeof(random));
		ret[0] = 'i';
		for (size_t i = 0; i < sizeof(random); i++)
			ret[i + 1] = base36[random[i] % 36];
		ret[20] = '\0';
	}
}

/* Places that marking leaves alone: the rest of the id, which stays random. */
static size_t first_random(unsigned form)
{
	static const size_t first[] = {13, 9, 8, 8};

	return first[form];
}

static void ids_name_their_worker(void **state UNUSED)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		char name[32], id[ID_SIZE], before[ID_SIZE], worker[FLEET_WORKER_SIZE];
		const unsigned form = i % 4;

		(void)snprintf(name, sizeof(name), "worker-%u", i / 16);
		const struct fleet_member m = member(name);
		fresh(form, id);
		memcpy(before, id, sizeof(id));
		fleet_id_mark(&m, id);
		assert_int_equal(strlen(id), strlen(before));
		assert_string_equal(id + first_random(form), before + first_random(form));
		assert_true(fleet_id_has_form(id));
		assert_true(fleet_id_worker(&m.key, id, worker));
		assert_string_equal(worker, m.worker);
	}
}

/* One digit of an id changed at random: a tag of 16 bits fits by chance once in 65,536 times. */
static void changed_ids_are_refused(void **state UNUSED)
{
	const struct fleet_member m = member("a");
	unsigned passed = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		char id[ID_SIZE], worker[FLEET_WORKER_SIZE];
		const unsigned form = i % 4;
		uint32_t random[2];

		fresh(form, id);
		fleet_id_mark(&m, id);
		rand_bytes(random, sizeof(random));
		char *c = &id[random[0] % strlen(id)];
		const char to = base36[random[1] % 16];
		if (*c == to)
			continue;
		*c = to;
		passed += fleet_id_worker(&m.key, id, worker);
	}
	assert_true(passed <= 6);
}

static void foreign_ids_are_refused(void **state UNUSED)
{
	const struct fleet_member m = member("a");
	struct fleet_member other = m;
	unsigned passed = 0;

	other.key.bytes[31] ^= 1;
	for (unsigned i = 0; i < ROUNDS; i++) {
		char id[ID_SIZE], worker[FLEET_WORKER_SIZE];

		fresh(i % 4, id);
		passed += fleet_id_worker(&m.key, id, worker);
		fleet_id_mark(&other, id);
		passed += fleet_id_worker(&m.key, id, worker);
	}
	assert_true(passed <= 8);
}

/* Random bytes, and pieces of ids: nothing is read behind an end (the sanitizers look), nothing is taken for an id. */
static void any_text_is_read(void **state UNUSED)
{
	const struct fleet_member m = member("a");
	unsigned passed = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		char id[ID_SIZE], worker[FLEET_WORKER_SIZE];
		uint8_t random[2];

		fresh(i % 4, id);
		fleet_id_mark(&m, id);
		rand_bytes(random, sizeof(random));
		if (i % 3 == 0) {
			id[random[0] % strlen(id)] = '\0';
		} else if (i % 3 == 1) {
			id[random[0] % strlen(id)] = (char)(random[1] | 128);
		} else {
			rand_bytes(id, sizeof(id) - 1);
			id[sizeof(id) - 1] = '\0';
		}
		_cleanup_free_ char *exact = strdup(id);
		assert_non_null(exact);
		passed += fleet_id_has_form(exact);
		passed += fleet_id_worker(&m.key, exact, worker);
		fleet_id_mark(&m, exact);
		assert_string_equal(exact, id);
	}
	assert_int_equal(passed, 0);
}

static void other_forms_stay(void **state UNUSED)
{
	static const char *const others[] = {
	    "",
	    "mine",
	    "sess_0f3a9c11d2e4",
	    "sess_0F3A9C11D2E40F3A9C11",
	    "sess_0f3a9c11d2e40f3a9c11d",
	    "0f3a9c11-d2e4-1f3a-9c11-0f3a9c110f3a", /* version 1 */
	    "0f3a9c11-d2e4-4f3a-cc11-0f3a9c110f3a", /* another variant */
	    "0f3a9c11xd2e4-4f3a-9c11-0f3a9c110f3a",
	    "0f3a9c11-d2e4-4f3a-9c11-0f3a9c11-f3a",
	    "j0000000000000000000",
	    "i000000000000000000_",
	};
	const struct fleet_member m = member("a");

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		char id[ID_SIZE], worker[FLEET_WORKER_SIZE];

		(void)snprintf(id, sizeof(id), "%s", others[i]);
		assert_false(fleet_id_has_form(id));
		assert_false(fleet_id_worker(&m.key, id, worker));
		fleet_id_mark(&m, id);
		assert_string_equal(id, others[i]);
	}
	char id[] = "0f3a9c11d2e40f3a9c11d2e40f3a9c11";
	fleet_id_mark(NULL, id);
	assert_string_equal(id, "0f3a9c11d2e40f3a9c11d2e40f3a9c11");
}

/* The ids of one worker mean nothing in another form: a tag is of one kind. */
static void tags_are_of_one_kind(void **state UNUSED)
{
	const struct fleet_member m = member("a");
	unsigned passed = 0;

	for (unsigned i = 0; i < 1000; i++) {
		char id[ID_SIZE], made[ID_SIZE + 8], worker[FLEET_WORKER_SIZE];

		fresh(2, id);
		fleet_id_mark(&m, id);
		id[20] = '\0';
		(void)snprintf(made, sizeof(made), "sess_%s", id);
		passed += fleet_id_worker(&m.key, made, worker);
	}
	assert_true(passed <= 3);
}

static void names_have_limits(void **state UNUSED)
{
	struct fleet_member m = {0};
	char name[FLEET_NAME_MAX + 2];

	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(fleet_member_init(&m, name), -EINVAL);
	assert_int_equal(fleet_member_init(&m, ""), -EINVAL);
	name[FLEET_NAME_MAX] = '\0';
	assert_int_equal(fleet_member_init(&m, name), 0);
	assert_string_equal(m.name, name);
	assert_int_equal(strlen(m.worker), FLEET_WORKER_SIZE - 1);
	assert_int_equal(strlen(m.epoch), FLEET_EPOCH_SIZE - 1);
	const struct fleet_member again = member(name);
	assert_string_equal(again.worker, m.worker);
	assert_string_not_equal(again.epoch, m.epoch);
}

static void write_file(const char *path, size_t len, char c)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(fputc(c, f), c);
	assert_int_equal(fclose(f), 0);
}

static void keys_are_files(void **state UNUSED)
{
	char path[] = "/tmp/test-fleet-XXXXXX";
	struct fleet_key a, b;
	struct err e = ERR_INIT;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	write_file(path, FLEET_KEY_MIN - 1, 'k');
	assert_int_not_equal(fleet_key_read(path, &a, &e), 0);
	assert_int_equal(e.code, ERR_SETTING_INVALID);
	assert_non_null(strstr(e.text, "32 to 4096 bytes"));
	write_file(path, FLEET_KEY_MAX + 1, 'k');
	assert_int_not_equal(fleet_key_read(path, &a, &e), 0);
	write_file(path, FLEET_KEY_MIN, 'k');
	assert_int_equal(fleet_key_read(path, &a, &e), 0);
	write_file(path, FLEET_KEY_MIN + 1, 'k');
	assert_int_equal(fleet_key_read(path, &b, &e), 0);
	assert_memory_not_equal(&a, &b, sizeof(a));
	assert_int_equal(unlink(path), 0);
	assert_int_not_equal(fleet_key_read(path, &a, &e), 0);
	assert_non_null(strstr(e.text, path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ids_name_their_worker),   cmocka_unit_test(changed_ids_are_refused),
	    cmocka_unit_test(foreign_ids_are_refused), cmocka_unit_test(any_text_is_read),
	    cmocka_unit_test(other_forms_stay),        cmocka_unit_test(tags_are_of_one_kind),
	    cmocka_unit_test(names_have_limits),       cmocka_unit_test(keys_are_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
