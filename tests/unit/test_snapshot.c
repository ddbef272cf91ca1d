/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot: what is stored of a disk, and that nothing else than what was stored is taken for it. */
#include "snapshot/snapshot.h"

#include "base/rand.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOCK  ((size_t)SNAPSHOT_BLOCK_MIN)
#define BLOCKS 6u
#define DISK   (BLOCK * BLOCKS - 3 * 4096 - 100) /* the last block and its last page are short */
#define MOST   (UINT64_C(1) << 30)
#define RECORD "{\"name\":\"one\"}"

/* What an object store would have. */
struct object {
	char name[SNAPSHOT_NAME_SIZE];
	struct buf bytes;
};
static struct object objects[512];
static unsigned n_objects;

static const char secret[] = "0123456789012345678901234567890123456789";
static struct snapshot_id id = {.id = "9f1c2a4e-0000-4000-8000-000000000001",
				.owner = "owner",
				.incarnation = "00112233445566778899aabbccddeeff",
				.generation = 1};
static uint8_t key[SNAPSHOT_KEY_BYTES], hash[SNAPSHOT_HASH_BYTES];
static int disk;

static int new_disk(void)
{
	const int fd = memfd_create("disk", MFD_CLOEXEC);

	assert_true(fd >= 0 && ftruncate(fd, (off_t)DISK) == 0);
	return fd;
}

static void put(size_t at, const void *bytes, size_t len)
{
	assert_int_equal(pwrite(disk, bytes, len, (off_t)at), len);
}

static struct buf *stored(const char *name)
{
	for (unsigned i = 0; i < n_objects; i++)
		if (strcmp(objects[i].name, name) == 0)
			return &objects[i].bytes;
	return NULL;
}

static struct buf *store_new(uint32_t index)
{
	struct object *o = &objects[n_objects];

	assert_true(n_objects < 512);
	snapshot_object_name(id.incarnation, id.epoch, id.generation, index, o->name);
	assert_null(stored(o->name));
	o->bytes = BUF_INIT(SNAPSHOT_OBJECT_MAX);
	n_objects++;
	return &o->bytes;
}

static struct snapshot *open_manifest(struct buf *record)
{
	char name[SNAPSHOT_NAME_SIZE];
	struct snapshot *s = NULL;
	struct err e = ERR_INIT;

	snapshot_object_name(id.incarnation, id.epoch, id.generation, SNAPSHOT_MANIFEST, name);
	const struct buf *m = stored(name);
	assert_non_null(m);
	const int r = snapshot_open_manifest(&id, key, hash, m->data, m->len, MOST, &s, record, &e);
	if (r < 0)
		assert_int_equal(e.code, ERR_SNAPSHOT_INVALID);
	return s;
}

/* Saves the disk as the next generation. Returns how many blocks that were. */
static unsigned save(const struct snapshot *base)
{
	struct snapshot *s = NULL;
	struct err e = ERR_INIT;
	uint64_t len = 0;
	unsigned n = 0;

	assert_int_equal(snapshot_plan(disk, &id, key, base, NULL, &s, &e), 0);
	for (uint32_t i = 0; snapshot_next_new(s, i, &i, &len); i++, n++) {
		struct buf *o = store_new(i);
		assert_int_equal(snapshot_seal_block(s, disk, i, o, &e), 0);
		assert_true(o->len == len && len % SNAPSHOT_UNIT == 0);
	}
	struct buf *m = store_new(SNAPSHOT_MANIFEST);
	assert_int_equal(snapshot_seal_manifest(s, RECORD, strlen(RECORD), m, hash, &e), 0);
	assert_true(m->len % SNAPSHOT_UNIT == 0 && m->len <= SNAPSHOT_MANIFEST_MAX);
	(void)snapshot_free(s);
	return n;
}

/* 0, or the code of the error; then FD has not become the disk. */
static enum err_code load(int fd)
{
	_cleanup_(buf_done) struct buf record = BUF_INIT(SNAPSHOT_RECORD_MAX);
	struct snapshot *s = open_manifest(&record);
	struct snapshot_place at;
	struct err e = ERR_INIT;
	int r = 0;

	if (!s)
		return ERR_SNAPSHOT_INVALID;
	assert_string_equal(buf_str(&record), RECORD);
	assert_int_equal(snapshot_empty_disk(s, fd, &e), 0);
	for (uint32_t i = 0; r == 0 && snapshot_next_block(s, i, &at); i = at.index + 1) {
		char name[SNAPSHOT_NAME_SIZE];

		snapshot_object_name(id.incarnation, at.epoch, at.generation, at.index, name);
		const struct buf *o = stored(name);
		assert_true(o && o->len == at.len);
		r = snapshot_open_block(s, fd, at.index, o->data, o->len, &e);
	}
	(void)snapshot_free(s);
	return e.code;
}

static bool is_same(int a, int b)
{
	static char x[DISK], y[DISK];

	assert_int_equal(pread(a, x, DISK, 0), DISK);
	assert_int_equal(pread(b, y, DISK, 0), DISK);
	return memcmp(x, y, DISK) == 0;
}

static int begin(void **state UNUSED)
{
	static uint8_t noise[3 * 4096];

	n_objects = 0;
	id.epoch = 0;
	id.generation = 1;
	snapshot_key(secret, strlen(secret), &id, key);
	disk = new_disk();
	rand_bytes(noise, sizeof(noise));
	put(0, "first", 5);
	put(BLOCK + 5000, noise, sizeof(noise));
	put(4 * BLOCK, noise, 4096);
	put(DISK - 60, noise, 60);
	return 0;
}

static int end(void **state UNUSED)
{
	for (unsigned i = 0; i < n_objects; i++)
		buf_done(&objects[i].bytes);
	(void)close(disk);
	return 0;
}

static void test_comes_back(void **state UNUSED)
{
	const int fd = new_disk();
	static char old[DISK];

	assert_int_equal(save(NULL), 4); /* two blocks are holes */
	memset(old, 'x', sizeof(old));
	assert_int_equal(pwrite(fd, old, sizeof(old), 0), sizeof(old));
	assert_int_equal(load(fd), ERR_NONE);
	assert_true(is_same(disk, fd)); /* nothing of what was there before */
	(void)close(fd);
}

static void test_only_what_changed(void **state UNUSED)
{
	const int fd = new_disk();

	assert_int_equal(save(NULL), 4);
	struct snapshot *base = open_manifest(NULL);
	id.generation++;
	put(BLOCK + 100, "changed", 7);
	put(2 * BLOCK, "new", 3);
	assert_int_equal(save(base), 2);
	(void)snapshot_free(base);
	assert_int_equal(load(fd), ERR_NONE);
	assert_true(is_same(disk, fd));

	base = open_manifest(NULL);
	id.epoch++;
	id.generation = 1;
	assert_int_equal(save(base), 0);
	(void)snapshot_free(base);
	assert_int_equal(load(fd), ERR_NONE);
	assert_true(is_same(disk, fd));
	(void)close(fd);
}

static void count_generation(uint32_t epoch UNUSED, uint32_t generation UNUSED,
			     const uint8_t bits[SNAPSHOT_BITS_BYTES] UNUSED, void *user)
{
	++*(unsigned *)user;
}

static void test_generations(void **state UNUSED)
{
	const int fd = new_disk();

	(void)save(NULL);
	for (unsigned i = 0; i < 100; i++) {
		struct snapshot *base = open_manifest(NULL);
		unsigned n = 0;
		/* A page each, so that no generation goes: the disk is written in parts. */
		id.generation++;
		const unsigned value = i + 1;
		put(i % BLOCKS * BLOCK + 40960, &value, sizeof(value));
		assert_true(save(base) >= 1);
		(void)snapshot_free(base);
		base = open_manifest(NULL);
		snapshot_each_generation(base, count_generation, &n);
		assert_true(n >= 1 && n <= SNAPSHOT_GENERATIONS_MAX);
		(void)snapshot_free(base);
	}
	assert_int_equal(load(fd), ERR_NONE);
	assert_true(is_same(disk, fd));
	(void)close(fd);
}

static void test_who_it_is_of(void **state UNUSED)
{
	const struct snapshot_id is = id;
	const int fd = new_disk();
	uint8_t right[SNAPSHOT_KEY_BYTES];

	(void)save(NULL);
	memcpy(right, key, sizeof(key));
	for (unsigned i = 0; i < 3; i++) {
		id = is;
		if (i == 0)
			id.id[0] ^= 1;
		else if (i == 1)
			id.owner[0] ^= 1;
		else
			id.incarnation[0] ^= 1;
		snapshot_key(secret, strlen(secret), &id, key);
		assert_memory_not_equal(key, right, sizeof(key));
		id = is; /* the objects are found, and cannot be opened */
		assert_int_equal(load(fd), ERR_SNAPSHOT_INVALID);
	}
	snapshot_key("another", 7, &id, key);
	assert_memory_not_equal(key, right, sizeof(key));
	memcpy(key, right, sizeof(key));
	hash[0] ^= 1;
	assert_int_equal(load(fd), ERR_SNAPSHOT_INVALID);
	hash[0] ^= 1;
	assert_int_equal(load(fd), ERR_NONE);
	(void)close(fd);
}

/* An object of another place, even of an earlier generation, is not taken; nor one of which a byte was changed. */
static void test_objects_of_others(void **state UNUSED)
{
	const int fd = new_disk();

	(void)save(NULL);
	for (unsigned i = 0; i + 1 < n_objects; i++) {
		struct buf *o = &objects[i].bytes;
		o->data[o->len / 2] ^= 1;
		assert_int_equal(load(fd), ERR_SNAPSHOT_INVALID);
		o->data[o->len / 2] ^= 1;
	}
	const struct buf first = objects[0].bytes, last = objects[3].bytes;
	assert_int_equal(first.len, last.len);
	objects[0].bytes = last;
	objects[3].bytes = first;
	assert_int_equal(load(fd), ERR_SNAPSHOT_INVALID);
	objects[0].bytes = first;
	objects[3].bytes = last;
	assert_int_equal(load(fd), ERR_NONE);
	(void)close(fd);
}

static void test_limits(void **state UNUSED)
{
	struct snapshot *s = NULL;
	struct err e = ERR_INIT;
	atomic_bool stop = true;
	_cleanup_(buf_done) struct buf o = BUF_INIT(SNAPSHOT_OBJECT_MAX);
	const int large = memfd_create("large", MFD_CLOEXEC);
	char name[SNAPSHOT_NAME_SIZE];

	assert_int_equal(snapshot_plan(disk, &id, key, NULL, &stop, &s, &e), -ECANCELED);
	assert_int_equal(e.code, ERR_CANCELLED);
	assert_int_equal(snapshot_plan(disk, &id, key, NULL, NULL, &s, &e), 0);
	put(0, "other", 5);
	assert_true(snapshot_seal_block(s, disk, 0, &o, &e) < 0);
	assert_int_equal(e.code, ERR_SNAPSHOT_INVALID);
	s = snapshot_free(s);

	/* a terabyte with nothing in it is one of 64 MiB blocks, and more than these cannot be saved */
	assert_int_equal(ftruncate(large, INT64_C(1) << 40), 0);
	assert_int_equal(snapshot_plan(large, &id, key, NULL, NULL, &s, &e), 0);
	assert_int_equal(snapshot_bytes(s), 0);
	s = snapshot_free(s);
	assert_int_equal(ftruncate(large, (INT64_C(1) << 40) + 1), 0);
	assert_true(snapshot_plan(large, &id, key, NULL, NULL, &s, &e) < 0);
	(void)close(large);

	(void)save(NULL);
	snapshot_object_name(id.incarnation, id.epoch, id.generation, SNAPSHOT_MANIFEST, name);
	const struct buf *m = stored(name);
	assert_true(
	    snapshot_open_manifest(&id, key, hash, m->data, m->len, DISK - 1, &s, NULL, &e) < 0);
	assert_int_equal(e.code, ERR_SNAPSHOT_INVALID);
	assert_non_null(strstr(e.text, "larger than it may be"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_comes_back, begin, end),
	    cmocka_unit_test_setup_teardown(test_only_what_changed, begin, end),
	    cmocka_unit_test_setup_teardown(test_generations, begin, end),
	    cmocka_unit_test_setup_teardown(test_who_it_is_of, begin, end),
	    cmocka_unit_test_setup_teardown(test_objects_of_others, begin, end),
	    cmocka_unit_test_setup_teardown(test_limits, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
