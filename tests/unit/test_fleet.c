/* SPDX-License-Identifier: Apache-2.0 */
/* fleet: ids that name their worker, and the identity in a header. */
#include "fleet/identity.h"
#include "fleet/ids.h"

#include "base/rand.h"
#include "base/text.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS  20000u
#define ID_SIZE 65u
#define FORMS   6u
#define TOKEN   5u /* of an upload link */

static const char base36[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static struct fleet_member member(const char *name)
{
	struct fleet_member m = {.key = {.bytes = "0123456789abcdef0123456789abcde"}};

	assert_int_equal(fleet_member_init(&m, name), 0);
	return m;
}

static bool leads(const struct fleet_member *m, const char *id, char worker[FLEET_WORKER_SIZE])
{
	return fleet_id_worker(&m->key, id, worker) || fleet_token_worker(&m->key, id, worker);
}

/* A fresh id of each form, as what makes them does. */
static void fresh(unsigned form, char ret[ID_SIZE])
{
	uint8_t random[19];
	char *digits = ret + 1;
	size_t n = sizeof(random);

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
	case 3:
		ret[0] = 'i';
		break;
	case 5:
		rand_hex(ret, 32);
		return;
	default:
		memcpy(ret, "run_20260101T101500Z_", 21);
		digits = ret + 21;
		n = 10;
	}
	rand_bytes(random, sizeof(random));
	for (size_t i = 0; i < n; i++)
		digits[i] = base36[random[i] % 36];
	digits[n] = '\0';
}

/* Places that marking leaves alone: the rest of the id, which stays random. */
static size_t first_random(unsigned form)
{
	static const size_t first[] = {13, 9, 8, 8, 28, 8};

	return first[form];
}

static void ids_name_their_worker(void **state UNUSED)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		char name[32], id[ID_SIZE], before[ID_SIZE], worker[FLEET_WORKER_SIZE];
		const unsigned form = i % FORMS;

		(void)snprintf(name, sizeof(name), "worker-%u", i / 16);
		const struct fleet_member m = member(name);
		fresh(form, id);
		memcpy(before, id, sizeof(id));
		fleet_id_mark(&m, id);
		assert_int_equal(strlen(id), strlen(before));
		assert_string_equal(id + first_random(form), before + first_random(form));
		/* A name of 64 digits is no id. */
		assert_true(fleet_id_has_form(id) == (form != TOKEN));
		assert_true(fleet_id_worker(&m.key, id, worker) == (form != TOKEN));
		assert_true(leads(&m, id, worker));
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
		const unsigned form = i % FORMS;
		uint32_t random[2];

		fresh(form, id);
		fleet_id_mark(&m, id);
		rand_bytes(random, sizeof(random));
		char *c = &id[random[0] % strlen(id)];
		const char to = base36[random[1] % 16];
		if (*c == to)
			continue;
		*c = to;
		passed += leads(&m, id, worker);
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

		fresh(i % FORMS, id);
		passed += leads(&m, id, worker);
		fleet_id_mark(&other, id);
		passed += leads(&m, id, worker);
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

		fresh(i % FORMS, id);
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
	    "run_20260101T101500Z_9be1",
	    "run_20260101T101500Z_9be1_",
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

/* ---- identities ---- */

#define USER    "0f3a9c11-d2e4-4f3a-9c11-0f3a9c110f3a"
#define TEXT    16384u
#define BASE    sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define HEAD    "{\"v\":1,"
#define WHO     "\"owner\":\"" USER "\",\"name\":\"ada\","
#define MAY     "\"admin\":false,\"read_only\":true,\"profile\":\"code\","
#define KEY     "\"key_id\":\"" USER "\",\"how\":\"key\","
#define TIMES   "\"until_ms\":5,\"expires_ms\":9007199254740992,"
#define LIMIT_1 "\"limits\":{\"sandboxes\":-1,\"cpu_s_per_day\":0,"
#define LIMIT_2 "\"disk_bytes\":7,\"runs_per_minute\":9}"
#define LIMITS  LIMIT_1 LIMIT_2
#define USE_OF(n)                                                                                  \
	"\"sandboxes\":" n ",\"disk_bytes\":2,\"day\":3,\"cpu_us\":4,\"minute\":5,\"runs\":6"
#define USE USE_OF("1")

static int read_json(const char *json, size_t len, struct fleet_identity *ret, struct err *e)
{
	char text[2 * TEXT];

	assert_non_null(
	    sodium_bin2base64(text, sizeof(text), (const unsigned char *)json, len, BASE));
	return fleet_identity_read(text, ret, e);
}

static struct fleet_identity ada(void)
{
	struct fleet_identity id = {.owner = USER,
				    .name = "ada",
				    .read_only = true,
				    .profile = "code",
				    .key_id = USER,
				    .how = FLEET_HOW_KEY,
				    .until_ms = 5,
				    .expires_ms = FLEET_NUMBER_MAX,
				    .sandboxes = FLEET_LIMIT_DEFAULT,
				    .disk_bytes = 7,
				    .runs_per_minute = 9};
	return id;
}

static void assert_same(const struct fleet_identity *a, const struct fleet_identity *b)
{
	assert_string_equal(a->owner, b->owner);
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->profile, b->profile);
	assert_string_equal(a->key_id, b->key_id);
	assert_string_equal(a->signin, b->signin);
	assert_string_equal(a->version, b->version);
	assert_int_equal(a->admin, b->admin);
	assert_int_equal(a->read_only, b->read_only);
	assert_int_equal(a->how, b->how);
	assert_int_equal(a->until_ms, b->until_ms);
	assert_int_equal(a->expires_ms, b->expires_ms);
	assert_int_equal(a->sandboxes, b->sandboxes);
	assert_int_equal(a->cpu_s_per_day, b->cpu_s_per_day);
	assert_int_equal(a->disk_bytes, b->disk_bytes);
	assert_int_equal(a->runs_per_minute, b->runs_per_minute);
	assert_int_equal(a->says_elsewhere, b->says_elsewhere);
	assert_memory_equal(&a->elsewhere, &b->elsewhere, sizeof(a->elsewhere));
}

static void identities_come_through(void **state UNUSED)
{
	struct fleet_identity id = ada(), got;
	char text[FLEET_CALLER_MAX + 1];
	struct err e = ERR_INIT;

	assert_int_equal(fleet_identity_write(&id, text), 0);
	assert_int_equal(fleet_identity_read(text, &got, &e), 0);
	assert_same(&id, &got);
	static const char json[] = HEAD WHO MAY KEY TIMES LIMITS "}";
	assert_int_equal(read_json(json, sizeof(json) - 1, &got, &e), 0);
	assert_same(&id, &got);
	id = (struct fleet_identity){.name = "local", .admin = true, .how = FLEET_HOW_LOCAL};
	assert_int_equal(fleet_identity_write(&id, text), 0);
	assert_int_equal(fleet_identity_read(text, &got, &e), 0);
	assert_same(&id, &got);
	id.says_elsewhere = true;
	id.elsewhere = (struct fleet_use){1, 2, 3, 4, 5, FLEET_USE_MAX};
	/* The longest name, of bytes that JSON and base64 make longest. */
	for (size_t i = 0; i + 1 < sizeof(id.name); i++)
		id.name[i] = i % 2 ? '"' : '\\';
	assert_int_equal(fleet_identity_write(&id, text), 0);
	assert_int_equal(fleet_identity_read(text, &got, &e), 0);
	assert_same(&id, &got);
}

static void what_cannot_be_read_is_not_written(void **state UNUSED)
{
	char text[FLEET_CALLER_MAX + 1];
	struct fleet_identity id = ada();

	id.how = FLEET_HOW_MAX_;
	assert_int_equal(fleet_identity_write(&id, text), -EINVAL);
	id = ada();
	id.owner[0] = '\0';
	assert_int_equal(fleet_identity_write(&id, text), -EINVAL);
	id = ada();
	id.until_ms = FLEET_NUMBER_MAX + 1;
	assert_int_equal(fleet_identity_write(&id, text), -EINVAL);
	id = ada();
	id.name[0] = '\n';
	assert_int_equal(fleet_identity_write(&id, text), -EINVAL);
}

struct wrong {
	const char *json;
	const char *member;
};

static void assert_refused(const struct wrong *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct fleet_identity got = {.name = "before"};
		struct err e = ERR_INIT;

		assert_int_equal(read_json(rows[i].json, strlen(rows[i].json), &got, &e), -EINVAL);
		assert_int_equal(e.code, ERR_IDENTITY_INVALID);
		if (!strstr(e.text, rows[i].member))
			fail_msg("%s: %s", rows[i].json, e.text);
		assert_string_equal(got.name, "before");
	}
}

static void wrong_identities_are_refused(void **state UNUSED)
{
	static const struct wrong rows[] = {
	    {"", "JSON"},
	    {"[]", "JSON"},
	    {"{}", " v "},
	    {"{\"v\":1}", "owner"},
	    {"{\"v\":2," WHO MAY KEY TIMES LIMITS "}", " v "},
	    {"{\"v\":true," WHO MAY KEY TIMES LIMITS "}", " v "},
	    {HEAD WHO MAY KEY TIMES LIMITS "} x", "JSON"},
	    {HEAD WHO MAY KEY TIMES LIMITS, "JSON"},
	    {HEAD WHO MAY KEY TIMES "\"admin\":true," LIMITS "}", "JSON"}, /* twice */
	    {HEAD WHO MAY KEY TIMES "\"root\":true," LIMITS "}", "a member"},
	    {HEAD WHO MAY KEY TIMES LIMIT_1 "\"more\":1," LIMIT_2 "}", "a member"},
	    {HEAD WHO MAY KEY TIMES LIMIT_1 "\"disk_bytes\":7}}", "runs_per_minute"},
	    {HEAD WHO MAY KEY TIMES "\"limits\":[]}", "sandboxes"},
	    {HEAD WHO MAY KEY LIMITS "}", "until_ms"},
	    {HEAD WHO MAY KEY "\"until_ms\":-1,\"expires_ms\":0," LIMITS "}", "until_ms"},
	    {HEAD WHO MAY KEY "\"until_ms\":1.0,\"expires_ms\":0," LIMITS "}", "until_ms"},
	    {HEAD WHO MAY KEY "\"until_ms\":9007199254740993,\"expires_ms\":0," LIMITS "}",
	     "until_ms"},
	    {HEAD WHO MAY KEY "\"until_ms\":\"5\",\"expires_ms\":0," LIMITS "}", "until_ms"},
	    {HEAD WHO MAY TIMES "\"key_id\":\"\",\"how\":\"key\"," LIMITS "}", "key_id"},
	    {HEAD WHO MAY TIMES "\"key_id\":\"\",\"how\":\"root\"," LIMITS "}", "how"},
	    {HEAD WHO MAY TIMES "\"key_id\":\"\",\"how\":\"local\"," LIMITS "}", "owner"},
	    {HEAD WHO MAY TIMES "\"key_id\":\"" USER "\",\"how\":\"token\"," LIMITS "}", "key_id"},
	    {HEAD "\"owner\":\"\",\"name\":\"\"," MAY KEY TIMES LIMITS "}", "owner"},
	    {HEAD "\"owner\":\"../../etc\",\"name\":\"\"," MAY KEY TIMES LIMITS "}", "owner"},
	    {HEAD "\"owner\":null,\"name\":\"\"," MAY KEY TIMES LIMITS "}", "owner"},
	    {HEAD "\"owner\":\"" USER "\",\"name\":\"a\\u0000b\"," MAY KEY TIMES LIMITS "}",
	     "JSON"},
	    {HEAD "\"owner\":\"" USER "\",\"name\":\"a\\u001bb\"," MAY KEY TIMES LIMITS "}",
	     "name"},
	    {HEAD "\"owner\":\"" USER "\",\"name\":\"\\u009b\"," MAY KEY TIMES LIMITS "}", "name"},
	    {HEAD WHO "\"admin\":1,\"read_only\":true,\"profile\":\"\"," KEY TIMES LIMITS "}",
	     "admin"},
	    {HEAD WHO "\"admin\":false,\"profile\":\"\"," KEY TIMES LIMITS "}", "read_only"},
	    {HEAD WHO "\"admin\":false,\"read_only\":false,\"profile\":\"a/b\"," KEY TIMES LIMITS
		      "}",
	     "profile"},
	    {"{\"v\":[[[[[[", "JSON"},
	};

	assert_refused(rows, ARRAY_SIZE(rows));
}

static void wrong_names_of_credentials_are_refused(void **state UNUSED)
{
	static const struct wrong rows[] = {
	    {HEAD WHO MAY KEY TIMES "\"version\":\"0123\"," LIMITS "}", "version"},
	    {HEAD WHO MAY KEY TIMES "\"signin\":\"x\"," LIMITS "}", "signin"},
	    {HEAD WHO MAY TIMES "\"key_id\":\"\",\"how\":\"token\",\"signin\":\"" USER "\"," LIMITS
				"}",
	     "signin"},
	    {HEAD WHO MAY TIMES
	     "\"key_id\":\"\",\"how\":\"token\",\"version\":\"01234567890123456\"," LIMITS "}",
	     "version"},
	};

	assert_refused(rows, ARRAY_SIZE(rows));
}

/* What names a credential is part of the identity, and nothing more. */
static void credentials_come_back(void **state UNUSED)
{
	const struct fleet_identity all[] = {
	    {.owner = USER,
	     .read_only = true,
	     .profile = "code",
	     .key_id = USER,
	     .how = FLEET_HOW_KEY},
	    {.owner = USER, .key_id = USER, .signin = USER, .how = FLEET_HOW_KEY},
	    {.owner = USER, .admin = true, .signin = USER, .how = FLEET_HOW_SIGNIN},
	    {.owner = USER, .version = "0123456789abcdef", .how = FLEET_HOW_TOKEN},
	    {.admin = true, .signin = USER, .version = "0123456789abcdef", .how = FLEET_HOW_STATIC},
	};
	struct fleet_identity got = ada();
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		json_t *json = fleet_credential_json(&all[i]);

		assert_int_equal(json_object_size(json), 8);
		assert_int_equal(fleet_credential_read(json, &got, &e), 0);
		assert_same(&all[i], &got);
		for (void *it = json_object_iter(json); it; it = json_object_iter_next(json, it)) {
			json_t *less = json_copy(json);

			(void)json_object_del(less, json_object_iter_key(it));
			assert_int_equal(fleet_credential_read(less, &got, &e), -EINVAL);
			assert_int_equal(e.code, ERR_IDENTITY_INVALID);
			json_decref(less);
		}
		(void)json_object_set_new(json, "name", json_string("ada"));
		assert_int_equal(fleet_credential_read(json, &got, &e), -EINVAL);
		json_decref(json);
	}
	assert_int_equal(fleet_credential_read(NULL, &got, &e), -EINVAL);
}

static void wrong_texts_are_refused(void **state UNUSED)
{
	struct fleet_identity id = ada(), got;
	char text[FLEET_CALLER_MAX + 8], long_text[65536];
	struct err e = ERR_INIT;

	assert_int_equal(fleet_identity_write(&id, text), 0);
	const size_t len = strlen(text);
	for (size_t i = 0; i < len; i++) {
		const char c = text[i];

		text[i] = '\0'; /* cut */
		assert_int_equal(fleet_identity_read(text, &got, &e), -EINVAL);
		text[i] = '+'; /* of the other alphabet */
		assert_int_equal(fleet_identity_read(text, &got, &e), -EINVAL);
		text[i] = c;
	}
	memcpy(text + len, "=", 2);
	assert_int_equal(fleet_identity_read(text, &got, &e), -EINVAL);
	memset(long_text, 'e', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = '\0';
	assert_int_equal(fleet_identity_read(long_text, &got, &e), -EINVAL);
	assert_non_null(strstr(e.text, "too long"));
}

/* Bytes changed at random: what is taken nevertheless can be written again and says the same. */
static void changed_identities(void **state UNUSED)
{
	static const char good[] = HEAD WHO MAY KEY TIMES LIMITS "}";

	for (unsigned i = 0; i < ROUNDS; i++) {
		char json[sizeof(good)], text[FLEET_CALLER_MAX + 1];
		struct fleet_identity got, again;
		struct err e = ERR_INIT;
		uint8_t random[8];

		memcpy(json, good, sizeof(good));
		rand_bytes(random, sizeof(random));
		for (size_t k = 0; k <= random[0] % 3u; k++)
			json[(size_t)(random[1 + k] << 1 | (random[7] >> k & 1)) %
			     (sizeof(good) - 1)] = (char)(random[4 + k] % 128);
		if (read_json(json, sizeof(good) - 1, &got, &e) < 0)
			continue;
		assert_int_equal(fleet_identity_write(&got, text), 0);
		assert_int_equal(fleet_identity_read(text, &again, &e), 0);
		assert_same(&got, &again);
	}
}

static void what_others_have_is_read_strictly(void **state UNUSED)
{
	static const char *const all[] = {"{" USE "}", /* the others are wrong */
					  "1",
					  "[]",
					  "{}",
					  "{" USE ",\"more\":0}",
					  "{" USE_OF("-1") "}",
					  "{" USE_OF("1.0") "}",
					  "{" USE_OF("9007199254740993") "}"};
	struct fleet_identity got;
	struct err e = ERR_INIT;
	char json[2000];

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const int len = snprintf(
		    json, sizeof(json), HEAD WHO MAY KEY TIMES LIMITS ",\"elsewhere\":%s}", all[i]);

		assert_int_equal(read_json(json, (size_t)len, &got, &e), i == 0 ? 0 : -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ids_name_their_worker),
	    cmocka_unit_test(changed_ids_are_refused),
	    cmocka_unit_test(foreign_ids_are_refused),
	    cmocka_unit_test(any_text_is_read),
	    cmocka_unit_test(other_forms_stay),
	    cmocka_unit_test(tags_are_of_one_kind),
	    cmocka_unit_test(names_have_limits),
	    cmocka_unit_test(keys_are_files),
	    cmocka_unit_test(identities_come_through),
	    cmocka_unit_test(what_cannot_be_read_is_not_written),
	    cmocka_unit_test(wrong_identities_are_refused),
	    cmocka_unit_test(wrong_names_of_credentials_are_refused),
	    cmocka_unit_test(credentials_come_back),
	    cmocka_unit_test(wrong_texts_are_refused),
	    cmocka_unit_test(changed_identities),
	    cmocka_unit_test(what_others_have_is_read_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
