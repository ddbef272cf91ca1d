/* SPDX-License-Identifier: Apache-2.0 */
/* What of a disk has to be stored. */
#include "snapshot/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A manifest that names as many generations as it may is rid of the oldest of them at once, so that not each save sends one of them. */
#define GENERATIONS_GIVEN_UP 16u

static uint32_t block_bytes_for(uint64_t disk)
{
	uint64_t block = SNAPSHOT_BLOCK_MIN;

	while (block < SNAPSHOT_BLOCK_MAX && disk > block * SNAPSHOT_BLOCKS_MAX)
		block *= 2;
	return (uint32_t)block;
}

static bool is_older(const struct generation *a, const struct generation *b)
{
	return a->epoch < b->epoch || (a->epoch == b->epoch && a->generation < b->generation);
}

/* Generations of BASE whose blocks are sent again. */
static void give_up(const struct snapshot *base, bool given_up[SNAPSHOT_GENERATIONS_MAX])
{
	if (base->n_generations < SNAPSHOT_GENERATIONS_MAX)
		return;
	for (unsigned n = 0; n < GENERATIONS_GIVEN_UP; n++) {
		uint32_t oldest = base->n_generations;
		for (uint32_t i = 0; i < base->n_generations; i++)
			if (!given_up[i] &&
			    (oldest == base->n_generations ||
			     is_older(&base->generations[i], &base->generations[oldest])))
				oldest = i;
		given_up[oldest] = true;
	}
}

/* The index of G in the list of S, where there is room. */
static uint8_t number_of(struct snapshot *s, const struct generation *g)
{
	for (uint32_t i = 0; i < s->n_generations; i++)
		if (s->generations[i].epoch == g->epoch &&
		    s->generations[i].generation == g->generation)
			return (uint8_t)i;
	s->generations[s->n_generations] = *g;
	return (uint8_t)s->n_generations++;
}

struct reading {
	struct snapshot *s;
	const struct snapshot *base;
	bool given_up[SNAPSHOT_GENERATIONS_MAX];
	int fd;
	off_t data; /* before it, from where it was asked for, is nothing but a hole */
	uint8_t *bytes;
};

/* Does block INDEX have data? */
static int has_data(struct reading *x, uint32_t index, struct err *e)
{
	const off_t from = (off_t)index * (off_t)x->s->block_bytes;
	const off_t to = from + (off_t)block_length(x->s, index);

	if (x->data < from) {
		x->data = lseek(x->fd, from, SEEK_DATA);
		if (x->data < 0 && errno != ENXIO)
			return err_set(e, ERR_SYSTEM, errno, "reading a disk");
		if (x->data < 0)
			x->data = INT64_MAX; /* there is no more */
	}
	return x->data < to;
}

static int plan_block(struct reading *x, uint32_t index, struct err *e)
{
	struct snapshot *s = x->s;
	struct entry *to = &s->entries[index];
	int r = has_data(x, index, e);

	to->generation = HOLE;
	if (r <= 0)
		return r;
	r = block_read(s, x->fd, index, x->bytes, e);
	if (r < 0)
		return r;
	const uint32_t pages = block_look(s, x->bytes, block_length(s, index), to->hash);
	if (pages == 0) {
		memset(to->hash, 0, sizeof(to->hash));
		return 0;
	}
	const struct entry *was =
	    x->base && index < x->base->n_blocks ? &x->base->entries[index] : NULL;
	const uint64_t units = block_object_length(s, pages) / SNAPSHOT_UNIT;
	to->units[0] = (uint8_t)units;
	to->units[1] = (uint8_t)(units >> 8);
	to->generation = 0;
	if (was && was->generation != HOLE && !x->given_up[was->generation] &&
	    memcmp(was->hash, to->hash, sizeof(to->hash)) == 0 &&
	    memcmp(was->units, to->units, sizeof(to->units)) == 0)
		to->generation = number_of(s, &x->base->generations[was->generation]);
	return 0;
}

static int plan_all(struct reading *x, const atomic_bool *stop, struct err *e)
{
	int r = 0;

	for (uint32_t i = 0; i < x->s->n_blocks && r >= 0; i++)
		r = stop && atomic_load(stop)
			? err_set(e, ERR_CANCELLED, ECANCELED, "saving was cancelled")
			: plan_block(x, i, e);
	return r;
}

int snapshot_plan(int fd, const struct snapshot_id *id, const uint8_t key[SNAPSHOT_KEY_BYTES],
		  const struct snapshot *base, const atomic_bool *stop, struct snapshot **ret,
		  struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, ERR_SYSTEM, errno, "a disk");
	const uint64_t disk = (uint64_t)st.st_size;
	const uint32_t block = block_bytes_for(disk);
	const uint64_t n = (disk + block - 1) / block;
	if (n > SNAPSHOT_BLOCKS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, EFBIG, "the disk is too large to be saved");
	struct snapshot *s = snapshot_new(id, key, (uint32_t)n);
	struct reading x = {.s = s, .fd = fd, .data = -1, .bytes = malloc(block)};

	if (!s || !x.bytes) {
		free(x.bytes);
		(void)snapshot_free(s);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a snapshot");
	}
	s->disk_bytes = disk;
	s->block_bytes = block;
	(void)number_of(s, &(struct generation){id->epoch, id->generation});
	if (base && base->block_bytes == block && base->disk_bytes == disk) {
		x.base = base;
		give_up(base, x.given_up);
	}
	const int r = plan_all(&x, stop, e);
	free(x.bytes);
	if (r < 0)
		(void)snapshot_free(s);
	else
		*ret = s;
	return MIN(r, 0);
}

bool snapshot_next_new(const struct snapshot *s, uint32_t from, uint32_t *ret_index,
		       uint64_t *ret_len)
{
	for (uint32_t i = from; i < s->n_blocks; i++)
		if (s->entries[i].generation == 0) {
			*ret_index = i;
			*ret_len = entry_length(&s->entries[i]);
			return true;
		}
	return false;
}
