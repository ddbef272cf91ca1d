/* SPDX-License-Identifier: Apache-2.0 */
/* What a stored sandbox had at its rest, as sealed objects: blocks of its disk, and a manifest that lists them.
 *
 * A block is 4 MiB of the disk, or more by powers of two, so that a disk has at most SNAPSHOT_BLOCKS_MAX. What has nothing but zeros is no
 * object. The objects of one order to save have a generation of their own, and a manifest may name objects of earlier generations: what
 * has not changed is not sent again. No name is ever used twice.
 *
 * Everything is sealed with a key of the sandbox, together with its name, so nothing can be changed, cut, or put in the place of
 * something else without being noticed. Which manifest is the newest, its hash says, which stands elsewhere.
 *
 * All functions but the makers of names block, read or write whole blocks, and belong on a thread. A struct snapshot belongs to one
 * thread at a time. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_KEY_BYTES        32u
#define SNAPSHOT_HASH_BYTES       32u
#define SNAPSHOT_INCARNATION_SIZE 33u
#define SNAPSHOT_BLOCKS_MAX       16384u
#define SNAPSHOT_MANIFEST                                                                          \
	SNAPSHOT_BLOCKS_MAX /* stands for the manifest where the index of a block is expected */
#define SNAPSHOT_BITS_BYTES      2056u        /* a bit for each of them; bit I is in byte I / 8 */
#define SNAPSHOT_GENERATIONS_MAX 64u          /* that one manifest names */
#define SNAPSHOT_NAME_SIZE       96u          /* of an object */
#define SNAPSHOT_RECORD_MAX      (256u << 10) /* bytes of a text that goes with the disk */
#define SNAPSHOT_UNIT            (64u << 10)  /* lengths of objects are multiples of it */
#define SNAPSHOT_MANIFEST_MAX    (2u << 20)
#define SNAPSHOT_BLOCK_MIN       (4u << 20)
#define SNAPSHOT_BLOCK_MAX       (64u << 20)
#define SNAPSHOT_OBJECT_MAX      (SNAPSHOT_BLOCK_MAX + 2 * SNAPSHOT_UNIT)

/* Whose it is, and which order to save has made it. */
struct snapshot_id {
	char id[65];
	char owner[64];
	char incarnation[SNAPSHOT_INCARNATION_SIZE]; /* 32 hexadecimal digits */
	uint32_t epoch, generation;
};

/* The name of the object INDEX of a generation: "caisson/INCARNATION/EPOCH-GENERATION/INDEX". */
void snapshot_object_name(const char *incarnation, uint32_t epoch, uint32_t generation,
			  uint32_t index, char ret[SNAPSHOT_NAME_SIZE]);
/* The key of the sandbox that ID names by incarnation, id and owner. SECRET: of the fleet, of which nothing else may be made. */
void snapshot_key(const void *secret, size_t len, const struct snapshot_id *id,
		  uint8_t ret[SNAPSHOT_KEY_BYTES]);

struct snapshot;
struct snapshot *snapshot_free(struct snapshot *s); /* NULL */
/* Of all its objects, those of earlier generations, too; without its manifest. */
uint64_t snapshot_bytes(const struct snapshot *s);
/* Calls FN for each generation that it names objects of. BITS: of its blocks, and in the own generation of the manifest. */
typedef void (*snapshot_generation_fn)(uint32_t epoch, uint32_t generation,
				       const uint8_t bits[SNAPSHOT_BITS_BYTES], void *user);
void snapshot_each_generation(const struct snapshot *s, snapshot_generation_fn fn, void *user);

/* ---- saving ---- */

/* Reads the disk FD. BASE: the newest snapshot of the same incarnation, opened; NULL: there is none. CANCELLED: STOP (NULL: never)
 * became true. INVALID_ARGUMENT: the disk has more blocks than there can be. */
int snapshot_plan(int fd, const struct snapshot_id *id, const uint8_t key[SNAPSHOT_KEY_BYTES],
		  const struct snapshot *base, const atomic_bool *stop, struct snapshot **ret,
		  struct err *e) MUST_CHECK;
/* The first block from index FROM on that is to be stored, and the exact length of its object. False: there is no other. */
bool snapshot_next_new(const struct snapshot *s, uint32_t from, uint32_t *ret_index,
		       uint64_t *ret_len);
/* RET, which is empty and has room for SNAPSHOT_OBJECT_MAX, becomes the object. SNAPSHOT_INVALID: the disk was changed after the plan. */
int snapshot_seal_block(const struct snapshot *s, int fd, uint32_t index, struct buf *ret,
			struct err *e) MUST_CHECK;
int snapshot_seal_manifest(const struct snapshot *s, const char *record, size_t len,
			   struct buf *ret, uint8_t ret_hash[SNAPSHOT_HASH_BYTES],
			   struct err *e) MUST_CHECK;

/* ---- loading ---- */

/* DATA is the manifest that ID, KEY and HASH name. RECORD (NULL: not wanted) gets the text that was sealed with it. SNAPSHOT_INVALID: it
 * is another one, was changed, or its disk is larger than DISK_MOST. */
int snapshot_open_manifest(const struct snapshot_id *id, const uint8_t key[SNAPSHOT_KEY_BYTES],
			   const uint8_t hash[SNAPSHOT_HASH_BYTES], const void *data, size_t len,
			   uint64_t disk_most, struct snapshot **ret, struct buf *record,
			   struct err *e) MUST_CHECK;
/* FD, which is of a file alone, becomes a disk of zeros. */
int snapshot_empty_disk(const struct snapshot *s, int fd, struct err *e) MUST_CHECK;
/* The first block from index FROM on that is an object: its generation and length. False: there is no other. */
struct snapshot_place {
	uint32_t epoch, generation, index;
	uint64_t len;
};
bool snapshot_next_block(const struct snapshot *s, uint32_t from, struct snapshot_place *ret);
/* DATA is the object of block INDEX: checks it, and writes what is not zero to its place in FD. */
int snapshot_open_block(const struct snapshot *s, int fd, uint32_t index, const void *data,
			size_t len, struct err *e) MUST_CHECK;
