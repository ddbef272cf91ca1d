/* SPDX-License-Identifier: Apache-2.0 */
/* Objects, and blocks of a disk as objects. */
#include "snapshot/format.h"

#include "base/fdio.h"
#include "base/rand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint8_t zero_page[PAGE_BYTES];

int snapshot_refuse(struct err *e, const char *why)
{
	return err_set(e, ERR_SNAPSHOT_INVALID, EBADMSG, "the saved state of the sandbox: %s", why);
}

/* ---- names and keys ---- */

void snapshot_object_name(const char *incarnation, uint32_t epoch, uint32_t generation,
			  uint32_t index, char ret[SNAPSHOT_NAME_SIZE])
{
	if (index == SNAPSHOT_MANIFEST)
		(void)snprintf(ret, SNAPSHOT_NAME_SIZE, "caisson/%.32s/%u-%u/manifest", incarnation,
			       epoch, generation);
	else
		(void)snprintf(ret, SNAPSHOT_NAME_SIZE, "caisson/%.32s/%u-%u/%04x", incarnation,
			       epoch, generation, index);
}

/* With its NUL, so that no two lists of texts are the same bytes. */
static void add(crypto_generichash_state *state, const char *text)
{
	(void)crypto_generichash_update(state, (const uint8_t *)text, strlen(text) + 1);
}

void snapshot_key(const void *secret, size_t len, const struct snapshot_id *id,
		  uint8_t ret[SNAPSHOT_KEY_BYTES])
{
	uint8_t master[crypto_generichash_KEYBYTES];
	crypto_generichash_state state;

	(void)crypto_generichash(master, sizeof(master), secret, len, NULL, 0);
	(void)crypto_generichash_init(&state, master, sizeof(master), SNAPSHOT_KEY_BYTES);
	add(&state, "caisson snapshot 1");
	add(&state, id->incarnation);
	add(&state, id->id);
	add(&state, id->owner);
	(void)crypto_generichash_final(&state, ret, SNAPSHOT_KEY_BYTES);
	sodium_memzero(master, sizeof(master));
	sodium_memzero(&state, sizeof(state));
}

struct snapshot *snapshot_new(const struct snapshot_id *id, const uint8_t key[SNAPSHOT_KEY_BYTES],
			      uint32_t n_blocks)
{
	struct snapshot *s = calloc(1, sizeof(*s) + n_blocks * sizeof(s->entries[0]));

	if (!s)
		return NULL;
	s->id = *id;
	s->n_blocks = n_blocks;
	_Static_assert(crypto_kdf_KEYBYTES == SNAPSHOT_KEY_BYTES, "one kind of key");
	(void)crypto_kdf_derive_from_key(s->seal_key, sizeof(s->seal_key), 1, "caissons", key);
	(void)crypto_kdf_derive_from_key(s->hash_key, sizeof(s->hash_key), 2, "caissons", key);
	return s;
}

struct snapshot *snapshot_free(struct snapshot *s)
{
	if (s) {
		sodium_memzero(s->seal_key, sizeof(s->seal_key));
		sodium_memzero(s->hash_key, sizeof(s->hash_key));
		free(s);
	}
	return NULL;
}

/* ---- objects ---- */

uint64_t object_length(uint64_t plain)
{
	const uint64_t n = plain + NONCE_BYTES + TAG_BYTES;

	return (n + SNAPSHOT_UNIT - 1) / SNAPSHOT_UNIT * SNAPSHOT_UNIT;
}

int object_seal(const struct snapshot *s, uint32_t index, const struct buf *plain, uint64_t len,
		struct buf *ret, struct err *e)
{
	char name[SNAPSHOT_NAME_SIZE];
	const size_t padded = (size_t)len - NONCE_BYTES - TAG_BYTES;

	if (buf_reserve(ret, (size_t)len) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an object");
	uint8_t *to = (uint8_t *)ret->data + ret->len;
	uint8_t *body = to + NONCE_BYTES;
	snapshot_object_name(s->id.incarnation, s->id.epoch, s->id.generation, index, name);
	rand_bytes(to, NONCE_BYTES);
	memcpy(body, plain->data, plain->len);
	memset(body + plain->len, 0, padded - plain->len);
	(void)crypto_aead_xchacha20poly1305_ietf_encrypt(
	    body, NULL, body, padded, (const uint8_t *)name, strlen(name), NULL, to, s->seal_key);
	ret->len += (size_t)len;
	ret->data[ret->len] = '\0';
	return 0;
}

int object_open(const struct snapshot *s, const struct generation *g, uint32_t index,
		const void *data, size_t len, uint8_t *ret, size_t *ret_len, struct err *e)
{
	char name[SNAPSHOT_NAME_SIZE];
	unsigned long long n = 0;
	const uint8_t *from = data;

	if (len < NONCE_BYTES + TAG_BYTES)
		return snapshot_refuse(e, "an object is too short");
	snapshot_object_name(s->id.incarnation, g->epoch, g->generation, index, name);
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(ret, &n, NULL, from + NONCE_BYTES,
						       len - NONCE_BYTES, (const uint8_t *)name,
						       strlen(name), from, s->seal_key) != 0)
		return snapshot_refuse(e, "an object is another one, or was changed");
	*ret_len = (size_t)n;
	return 0;
}

/* ---- blocks ---- */

uint64_t entry_length(const struct entry *x)
{
	return ((uint64_t)x->units[0] | (uint64_t)x->units[1] << 8) * SNAPSHOT_UNIT;
}

size_t block_length(const struct snapshot *s, uint32_t index)
{
	const uint64_t from = (uint64_t)index * s->block_bytes;

	return (size_t)MIN(s->disk_bytes - from, (uint64_t)s->block_bytes);
}

static size_t map_bytes(const struct snapshot *s)
{
	return s->block_bytes / PAGE_BYTES / 8;
}

uint64_t block_object_length(const struct snapshot *s, uint32_t pages)
{
	return object_length(map_bytes(s) + (uint64_t)pages * PAGE_BYTES);
}

int block_read(const struct snapshot *s, int fd, uint32_t index, uint8_t *bytes, struct err *e)
{
	const size_t len = block_length(s, index);
	const off_t from = (off_t)index * (off_t)s->block_bytes;
	size_t have = 0;

	while (have < len) {
		const ssize_t n = pread(fd, bytes + have, len - have, from + (off_t)have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(e, ERR_SYSTEM, n < 0 ? errno : EIO, "reading a disk");
		have += (size_t)n;
	}
	return 0;
}

/* The last page of a disk may be shorter. */
static bool is_zero(const uint8_t *bytes, size_t len, size_t at)
{
	return memcmp(bytes + at, zero_page, MIN(len - at, (size_t)PAGE_BYTES)) == 0;
}

uint32_t block_look(const struct snapshot *s, const uint8_t *bytes, size_t len,
		    uint8_t hash[SNAPSHOT_HASH_BYTES])
{
	uint32_t pages = 0;

	for (size_t at = 0; at < len; at += PAGE_BYTES)
		pages += !is_zero(bytes, len, at);
	(void)crypto_generichash(hash, SNAPSHOT_HASH_BYTES, bytes, len, s->hash_key,
				 sizeof(s->hash_key));
	return pages;
}

static int pack(const struct snapshot *s, const uint8_t *bytes, size_t len, struct buf *ret)
{
	uint8_t map[SNAPSHOT_BLOCK_MAX / PAGE_BYTES / 8] = {0};
	int r = 0;

	for (size_t at = 0; at < len; at += PAGE_BYTES)
		if (!is_zero(bytes, len, at))
			map[at / PAGE_BYTES / 8] |= (uint8_t)(1u << (at / PAGE_BYTES % 8));
	r = buf_add(ret, map, map_bytes(s));
	for (size_t at = 0; at < len && r == 0; at += PAGE_BYTES)
		if (!is_zero(bytes, len, at))
			r = buf_add(ret, bytes + at, MIN(len - at, (size_t)PAGE_BYTES));
	return r;
}

int snapshot_seal_block(const struct snapshot *s, int fd, uint32_t index, struct buf *ret,
			struct err *e)
{
	_cleanup_free_ uint8_t *bytes = malloc(s->block_bytes);
	_cleanup_(buf_done) struct buf plain = BUF_INIT(SNAPSHOT_OBJECT_MAX);
	const struct entry *x = &s->entries[index];
	const size_t len = block_length(s, index);
	uint8_t hash[SNAPSHOT_HASH_BYTES];

	if (!bytes || buf_reserve(&plain, (size_t)entry_length(x)) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a block of a disk");
	const int r = block_read(s, fd, index, bytes, e);
	if (r < 0)
		return r;
	(void)block_look(s, bytes, len, hash);
	if (memcmp(hash, x->hash, sizeof(hash)) != 0)
		return snapshot_refuse(e, "the disk is being changed");
	if (pack(s, bytes, len, &plain) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a block of a disk");
	return object_seal(s, index, &plain, entry_length(x), ret, e);
}

/* ---- from objects to a disk ---- */

int snapshot_empty_disk(const struct snapshot *s, int fd, struct err *e)
{
	if (ftruncate(fd, 0) < 0 || ftruncate(fd, (off_t)s->disk_bytes) < 0)
		return err_set(e, ERR_SYSTEM, errno, "a new disk");
	return 0;
}

/* BYTES, which are zero, get what PLAIN has. False: it is no block of this length. */
static bool unpack(const struct snapshot *s, const uint8_t *plain, size_t plain_len, uint8_t *bytes,
		   size_t len)
{
	const size_t map = map_bytes(s);
	size_t at = map;

	if (plain_len < map)
		return false;
	for (size_t page = 0; page < map * 8; page++) {
		const size_t to = page * PAGE_BYTES;

		if (!(plain[page / 8] >> (page % 8) & 1))
			continue;
		if (to >= len)
			return false;
		const size_t n = MIN(len - to, (size_t)PAGE_BYTES);
		if (plain_len - at < n)
			return false;
		memcpy(bytes + to, plain + at, n);
		at += n;
	}
	return true;
}

static int write_pages(int fd, const uint8_t *bytes, size_t len, off_t to, struct err *e)
{
	for (size_t at = 0, n; at < len; at += n) {
		n = MIN(len - at, (size_t)PAGE_BYTES);
		if (is_zero(bytes, len, at))
			continue;
		while (at + n < len && !is_zero(bytes, len, at + n))
			n += MIN(len - at - n, (size_t)PAGE_BYTES);
		for (size_t done = 0; done < n;) {
			const ssize_t r =
			    pwrite(fd, bytes + at + done, n - done, to + (off_t)at + (off_t)done);
			if (r < 0 && errno == EINTR)
				continue;
			if (r < 0 && errno == ENOSPC)
				return err_set(e, ERR_HOST_DISK_FULL, 0,
					       "the disk of this machine has no room for it");
			if (r <= 0)
				return err_set(e, ERR_SYSTEM, r < 0 ? errno : EIO,
					       "writing a disk");
			done += (size_t)r;
		}
	}
	return 0;
}

int snapshot_open_block(const struct snapshot *s, int fd, uint32_t index, const void *data,
			size_t len, struct err *e)
{
	if (index >= s->n_blocks || s->entries[index].generation == HOLE ||
	    len != entry_length(&s->entries[index]))
		return snapshot_refuse(e, "an object has another length");
	const struct entry *x = &s->entries[index];
	const size_t block = block_length(s, index);
	_cleanup_free_ uint8_t *plain = malloc(len);
	_cleanup_free_ uint8_t *bytes = calloc(1, block);
	uint8_t hash[SNAPSHOT_HASH_BYTES];
	size_t plain_len = 0;

	if (!plain || !bytes)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a block of a disk");
	const int r =
	    object_open(s, &s->generations[x->generation], index, data, len, plain, &plain_len, e);
	if (r < 0)
		return r;
	if (!unpack(s, plain, plain_len, bytes, block))
		return snapshot_refuse(e, "an object is no block");
	(void)block_look(s, bytes, block, hash);
	if (memcmp(hash, x->hash, sizeof(hash)) != 0)
		return snapshot_refuse(e, "an object is another block");
	return write_pages(fd, bytes, block, (off_t)index * (off_t)s->block_bytes, e);
}
