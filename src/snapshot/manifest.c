/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a snapshot. */
#include "snapshot/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is in a snapshot ---- */

uint64_t snapshot_bytes(const struct snapshot *s)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->n_blocks; i++)
		n += s->entries[i].generation == HOLE ? 0 : entry_length(&s->entries[i]);
	return n;
}

static void set_bit(uint8_t bits[SNAPSHOT_BITS_BYTES], uint32_t index)
{
	bits[index / 8] |= (uint8_t)(1u << (index % 8));
}

void snapshot_each_generation(const struct snapshot *s, snapshot_generation_fn fn, void *user)
{
	for (uint32_t g = 0; g < s->n_generations; g++) {
		uint8_t bits[SNAPSHOT_BITS_BYTES] = {0};

		for (uint32_t i = 0; i < s->n_blocks; i++)
			if (s->entries[i].generation == g)
				set_bit(bits, i);
		if (g == 0)
			set_bit(bits, SNAPSHOT_MANIFEST);
		fn(s->generations[g].epoch, s->generations[g].generation, bits, user);
	}
}

bool snapshot_next_block(const struct snapshot *s, uint32_t from, struct snapshot_place *ret)
{
	for (uint32_t i = from; i < s->n_blocks; i++) {
		const struct entry *x = &s->entries[i];

		if (x->generation == HOLE)
			continue;
		*ret =
		    (struct snapshot_place){.epoch = s->generations[x->generation].epoch,
					    .generation = s->generations[x->generation].generation,
					    .index = i,
					    .len = entry_length(x)};
		return true;
	}
	return false;
}

/* ---- sealing ---- */

static size_t plain_length(const struct snapshot *s, size_t record_len)
{
	return sizeof(struct head) + s->n_generations * sizeof(struct generation) +
	       s->n_blocks * sizeof(struct entry) + record_len;
}

static uint64_t manifest_length(const struct snapshot *s, size_t record_len)
{
	return object_length(plain_length(s, record_len));
}

int snapshot_seal_manifest(const struct snapshot *s, const char *record, size_t len,
			   struct buf *ret, uint8_t ret_hash[SNAPSHOT_HASH_BYTES], struct err *e)
{
	_cleanup_(buf_done) struct buf plain = BUF_INIT(SNAPSHOT_MANIFEST_MAX);
	struct head head = {.disk_bytes = s->disk_bytes,
			    .block_bytes = s->block_bytes,
			    .n_blocks = s->n_blocks,
			    .n_generations = s->n_generations,
			    .record_len = (uint32_t)len};

	if (len > SNAPSHOT_RECORD_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, EFBIG,
			       "what is known of the sandbox is too long to be saved with it");
	memcpy(head.magic, MAGIC, sizeof(head.magic));
	if (buf_reserve(&plain, plain_length(s, len)) < 0 ||
	    buf_add(&plain, &head, sizeof(head)) < 0 ||
	    buf_add(&plain, s->generations, s->n_generations * sizeof(s->generations[0])) < 0 ||
	    buf_add(&plain, s->entries, s->n_blocks * sizeof(s->entries[0])) < 0 ||
	    buf_add(&plain, record, len) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a manifest");
	const size_t before = ret->len;
	const int r = object_seal(s, SNAPSHOT_MANIFEST, &plain, manifest_length(s, len), ret, e);
	if (r == 0)
		(void)crypto_generichash(ret_hash, SNAPSHOT_HASH_BYTES,
					 (const uint8_t *)ret->data + before, ret->len - before,
					 NULL, 0);
	return r;
}

/* ---- opening ---- */

/* Who has sealed it is a worker of the fleet, which may have been taken over: what it says is judged as what comes from outside. */
static bool head_fits(const struct head *h, size_t len, uint64_t disk_most)
{
	const uint64_t n =
	    h->block_bytes > 0 ? (h->disk_bytes + h->block_bytes - 1) / h->block_bytes : UINT64_MAX;

	return memcmp(h->magic, MAGIC, sizeof(h->magic)) == 0 && h->disk_bytes > 0 &&
	       h->disk_bytes <= disk_most && h->block_bytes >= SNAPSHOT_BLOCK_MIN &&
	       h->block_bytes <= SNAPSHOT_BLOCK_MAX &&
	       (h->block_bytes & (h->block_bytes - 1)) == 0 && n == h->n_blocks &&
	       n <= SNAPSHOT_BLOCKS_MAX && h->n_generations > 0 &&
	       h->n_generations <= SNAPSHOT_GENERATIONS_MAX &&
	       h->record_len <= SNAPSHOT_RECORD_MAX &&
	       sizeof(*h) + h->n_generations * sizeof(struct generation) +
		       h->n_blocks * sizeof(struct entry) + h->record_len <=
		   len;
}

static bool entries_fit(const struct snapshot *s)
{
	for (uint32_t i = 0; i < s->n_blocks; i++) {
		const struct entry *x = &s->entries[i];
		const uint64_t len = entry_length(x);

		if (x->generation != HOLE &&
		    (x->generation >= s->n_generations || len == 0 ||
		     len > block_object_length(s, s->block_bytes / PAGE_BYTES)))
			return false;
	}
	return true;
}

static int read_plain(const struct snapshot_id *id, const uint8_t key[SNAPSHOT_KEY_BYTES],
		      const uint8_t *plain, size_t len, uint64_t disk_most, struct snapshot **ret,
		      struct buf *record, struct err *e)
{
	struct head h;

	if (len < sizeof(h))
		return snapshot_refuse(e, "its manifest is none");
	memcpy(&h, plain, sizeof(h));
	if (!head_fits(&h, len, disk_most))
		return snapshot_refuse(e, h.disk_bytes > disk_most
					      ? "its disk is larger than it may be"
					      : "its manifest is none of this version");
	struct snapshot *s = snapshot_new(id, key, h.n_blocks);
	if (!s)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a manifest");
	const uint8_t *generations = plain + sizeof(h);
	const uint8_t *entries = generations + h.n_generations * sizeof(struct generation);
	const uint8_t *text = entries + h.n_blocks * sizeof(struct entry);
	s->disk_bytes = h.disk_bytes;
	s->block_bytes = h.block_bytes;
	s->n_generations = h.n_generations;
	memcpy(s->generations, generations, h.n_generations * sizeof(struct generation));
	memcpy(s->entries, entries, h.n_blocks * sizeof(struct entry));
	int r = entries_fit(s) && s->generations[0].epoch == id->epoch &&
			s->generations[0].generation == id->generation
		    ? 0
		    : snapshot_refuse(e, "its manifest contradicts itself");
	if (r == 0 && record && buf_add(record, text, h.record_len) < 0)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a manifest");
	if (r < 0)
		(void)snapshot_free(s);
	else
		*ret = s;
	return r;
}

int snapshot_open_manifest(const struct snapshot_id *id, const uint8_t key[SNAPSHOT_KEY_BYTES],
			   const uint8_t hash[SNAPSHOT_HASH_BYTES], const void *data, size_t len,
			   uint64_t disk_most, struct snapshot **ret, struct buf *record,
			   struct err *e)
{
	const struct generation own = {id->epoch, id->generation};
	uint8_t is[SNAPSHOT_HASH_BYTES];
	size_t plain_len = 0;

	if (len > SNAPSHOT_MANIFEST_MAX)
		return snapshot_refuse(e, "its manifest is too long");
	(void)crypto_generichash(is, sizeof(is), data, len, NULL, 0);
	if (sodium_memcmp(is, hash, sizeof(is)) != 0)
		return snapshot_refuse(e, "its manifest is another one");
	_cleanup_free_ uint8_t *plain = malloc(len + 1);
	struct snapshot *keys = snapshot_new(id, key, 0);
	int r = plain && keys
		    ? object_open(keys, &own, SNAPSHOT_MANIFEST, data, len, plain, &plain_len, e)
		    : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a manifest");
	(void)snapshot_free(keys);
	return r < 0 ? r : read_plain(id, key, plain, plain_len, disk_most, ret, record, e);
}
