/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests and blocks of a saved sandbox, sealed by a worker that may have been taken over: the key is right, the bytes are any. The first
 * part of the input is a manifest, and the rest a block. Properties: a manifest that is accepted names blocks of its disk alone, and has no
 * more bytes than these can have; a block writes nothing beyond the disk. */
#include "fuzz.h"

#include "snapshot/format.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK_MOST (UINT64_C(20) << 20)
#define BLOCK_MAX (SNAPSHOT_BLOCK_MAX + 2u * SNAPSHOT_UNIT)

static const struct snapshot_id id = {.id = "id", .incarnation = "00", .generation = 3};
static const uint8_t key[SNAPSHOT_KEY_BYTES] = {1};

static uint32_t generations;

static void on_generation(uint32_t epoch UNUSED, uint32_t generation UNUSED,
			  const uint8_t bits[SNAPSHOT_BITS_BYTES], void *user)
{
	const struct snapshot *s = user;

	for (uint32_t i = s->n_blocks; i < SNAPSHOT_BLOCKS_MAX; i++)
		ASSERT(!(bits[i / 8] >> (i % 8) & 1));
	generations++;
}

/* PLAIN as the object INDEX of the generation that S has as its own. */
static void seal(const struct snapshot *s, uint32_t index, const uint8_t *data, size_t size,
		 uint64_t len, struct buf *ret)
{
	_cleanup_(buf_done) struct buf plain = BUF_INIT(BLOCK_MAX);
	struct err e = ERR_INIT;

	ASSERT(buf_add(&plain, data, size) == 0);
	ASSERT(object_seal(s, index, &plain, len, ret, &e) == 0);
}

static void check_block(struct snapshot *s, const struct snapshot_place *at, const uint8_t *data,
			size_t size)
{
	_cleanup_(buf_done) struct buf object = BUF_INIT(BLOCK_MAX);
	struct err e = ERR_INIT;
	struct stat st;
	const int fd = memfd_create("disk", MFD_CLOEXEC);
	const size_t room = (size_t)at->len - NONCE_BYTES - TAG_BYTES;

	ASSERT(fd >= 0 && snapshot_empty_disk(s, fd, &e) == 0);
	s->id.epoch = at->epoch;
	s->id.generation = at->generation;
	seal(s, at->index, data, MIN(size, room), at->len, &object);
	/* its hash is right, too, if the input says so */
	if (snapshot_open_block(s, fd, at->index, object.data, object.len, &e) < 0)
		ASSERT(e.code == ERR_SNAPSHOT_INVALID);
	ASSERT(fstat(fd, &st) == 0 && (uint64_t)st.st_size == s->disk_bytes);
	(void)close(fd);
}

static void check(struct snapshot *s, const uint8_t *data, size_t size)
{
	struct snapshot_place at, first = {0};
	uint64_t bytes = 0;
	uint32_t n = 0;

	for (uint32_t from = 0; snapshot_next_block(s, from, &at); from = at.index + 1) {
		ASSERT(at.index < s->n_blocks && at.len > 0 && at.len <= SNAPSHOT_OBJECT_MAX);
		ASSERT(at.len >= SNAPSHOT_UNIT && at.len % SNAPSHOT_UNIT == 0);
		first = n++ == 0 ? at : first;
		bytes += at.len;
	}
	ASSERT(bytes == snapshot_bytes(s) && s->disk_bytes <= DISK_MOST);
	generations = 0;
	snapshot_each_generation(s, on_generation, s);
	ASSERT(generations > 0 && generations <= SNAPSHOT_GENERATIONS_MAX);
	if (n > 0)
		check_block(s, &first, data, size);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_(buf_done) struct buf object = BUF_INIT(SNAPSHOT_MANIFEST_MAX);
	_cleanup_(buf_done) struct buf record = BUF_INIT(SNAPSHOT_RECORD_MAX);
	const size_t first = size > 2 ? MIN((size_t)data[0] << 8 | data[1], size - 2) : 0;
	struct snapshot *keys = snapshot_new(&id, key, 0), *s = NULL;
	uint8_t hash[SNAPSHOT_HASH_BYTES];
	struct err e = ERR_INIT;

	if (size <= 2 || !keys) {
		(void)snapshot_free(keys);
		return 0;
	}
	seal(keys, SNAPSHOT_MANIFEST, data + 2, first, object_length(first), &object);
	(void)snapshot_free(keys);
	(void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)object.data, object.len, NULL,
				 0);
	if (snapshot_open_manifest(&id, key, hash, object.data, object.len, DISK_MOST, &s, &record,
				   &e) < 0) {
		ASSERT(e.code == ERR_SNAPSHOT_INVALID && !s);
		return 0;
	}
	check(s, data + 2 + first, size - 2 - first);
	(void)snapshot_free(s);
	return 0;
}
