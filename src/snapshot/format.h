/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of objects. Private to src/snapshot. Numbers are little-endian.
 *
 *   object    nonce (24 bytes), then XChaCha20-Poly1305 of the plain bytes with the name of the object as additional data
 *   block     a bit for each page of 4 KiB that is not zero; these pages; zeros up to a multiple of SNAPSHOT_UNIT of the object
 *   manifest  struct head; its generations (epoch, generation: 2 x 4 bytes); its blocks (struct entry); the record; zeros
 *
 * The hash of a block is keyed and of its bytes on the disk. It never leaves the sealed manifest. */
#pragma once

#include "snapshot/snapshot.h"

#include <sodium.h>

#define PAGE_BYTES  4096u
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HOLE        255u /* as a generation: it has no object */
#define MAGIC       "caisson1"

struct head {
	char magic[8];
	uint64_t disk_bytes;
	uint32_t block_bytes, n_blocks, n_generations, record_len;
};
_Static_assert(sizeof(struct head) == 32, "the same everywhere");

struct entry {
	uint8_t generation; /* index in the list of generations, or HOLE */
	uint8_t pad;
	uint8_t units[2]; /* the length of its object / SNAPSHOT_UNIT */
	uint8_t hash[SNAPSHOT_HASH_BYTES];
};
_Static_assert(sizeof(struct entry) == 36, "the same everywhere");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they are");

struct generation {
	uint32_t epoch, generation;
};

struct snapshot {
	struct snapshot_id id;
	uint64_t disk_bytes;
	uint32_t block_bytes, n_blocks, n_generations;
	struct generation
	    generations[SNAPSHOT_GENERATIONS_MAX]; /* of a plan: the first is its own */
	uint8_t seal_key[SNAPSHOT_KEY_BYTES], hash_key[SNAPSHOT_KEY_BYTES];
	struct entry entries[]; /* n_blocks */
};

/* RET has no blocks' contents. NULL: no memory. */
struct snapshot *snapshot_new(const struct snapshot_id *id, const uint8_t key[SNAPSHOT_KEY_BYTES],
			      uint32_t n_blocks);
uint64_t entry_length(const struct entry *x);
/* The length of an object with PLAIN bytes. */
uint64_t object_length(uint64_t plain);
/* Seals PLAIN with the name of INDEX in S's own generation, and appends the object of LEN bytes to RET. */
int object_seal(const struct snapshot *s, uint32_t index, const struct buf *plain, uint64_t len,
		struct buf *ret, struct err *e) MUST_CHECK;
/* Opens the object of INDEX of generation G. RET, of LEN bytes, gets its plain bytes; RET_LEN how many these are. */
int object_open(const struct snapshot *s, const struct generation *g, uint32_t index,
		const void *data, size_t len, uint8_t *ret, size_t *ret_len,
		struct err *e) MUST_CHECK;

/* The bytes of block INDEX on the disk: less than block_bytes at its end. */
size_t block_length(const struct snapshot *s, uint32_t index);
/* Reads it into BYTES. */
int block_read(const struct snapshot *s, int fd, uint32_t index, uint8_t *bytes,
	       struct err *e) MUST_CHECK;
/* Its hash, and how many of its pages are not zero. */
uint32_t block_look(const struct snapshot *s, const uint8_t *bytes, size_t len,
		    uint8_t hash[SNAPSHOT_HASH_BYTES]);
/* The length of an object with so many pages. */
uint64_t block_object_length(const struct snapshot *s, uint32_t pages);
int snapshot_refuse(struct err *e, const char *why);
