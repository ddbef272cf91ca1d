/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without a fuzzer: every file of its corpus as it is, then damaged step by step
 * (cut from both ends, each bit flipped, each byte replaced by a few nasty ones), then a fixed
 * number of seeded random mixes. The same bytes in every run, so a failure can be repeated. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SMALL_INPUT  512u  /* files up to this size are damaged at every place */
#define RANDOM_MIXES 2000u /* per file */
#define MIX_MAX      4096u

static uint64_t n_inputs;

static void run(const uint8_t *data, size_t size)
{
	/* A block of exactly this size, so that sanitizers see the first byte read beyond it. */
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	(void)FUZZ_TARGET(copy, size);
	free(copy);
	n_inputs++;
}

/* xorshift64*: seeded, the same everywhere. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

static void damage_everywhere(const uint8_t *data, size_t size)
{
	static const uint8_t nasty[] = {0,   '\n', '\r', ' ',  '"',  '\\', '/',
					'%', '-',  '9',  0x7f, 0x80, 0xff};
	_cleanup_free_ uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	for (size_t i = 0; i < size; i++) {
		run(data, i);
		run(data + i, size - i);
	}
	memcpy(copy, data, size);
	for (size_t i = 0; i < size; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			copy[i] = (uint8_t)(data[i] ^ (1u << bit));
			run(copy, size);
		}
		for (size_t n = 0; n < ARRAY_SIZE(nasty); n++) {
			copy[i] = nasty[n];
			run(copy, size);
		}
		copy[i] = data[i];
	}
}

/* Copies, drops, repeats and overwrites pieces of the input. */
static void mix(const uint8_t *data, size_t size, uint64_t *seed)
{
	uint8_t out[MIX_MAX];
	size_t n = 0;

	while (n < MIX_MAX / 2 && next_random(seed) % 8 != 0) {
		size_t from = size ? (size_t)(next_random(seed) % size) : 0;
		size_t len = (size_t)(next_random(seed) % 64);

		if (next_random(seed) % 4 == 0) {
			out[n++] = (uint8_t)next_random(seed);
			continue;
		}
		len = MIN(len, size - from);
		memcpy(out + n, data + from, len);
		n += len;
	}
	run(out, n);
}

static int replay_file(const char *path)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	_cleanup_free_ uint8_t *data = malloc(FUZZ_INPUT_MAX);
	uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
	size_t size;

	if (!f || !data) {
		perror(path);
		return -1;
	}
	size = fread(data, 1, FUZZ_INPUT_MAX, f);
	run(data, size);
	if (size <= SMALL_INPUT)
		damage_everywhere(data, size);
	for (unsigned i = 0; i < RANDOM_MIXES; i++)
		mix(data, size, &seed);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned n_files = 0;

	for (int i = 1; i < argc; i++) {
		_cleanup_dir_ DIR *dir = opendir(argv[i]);
		struct dirent *entry;
		char path[4096];

		if (!dir) {
			perror(argv[i]);
			return 1;
		}
		while ((entry = readdir(dir))) {
			if (entry->d_name[0] == '.')
				continue;
			(void)snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
			if (replay_file(path) < 0)
				return 1;
			n_files++;
		}
	}
	run((const uint8_t *)"", 0);
	(void)printf("%u files, %" PRIu64 " inputs\n", n_files, n_inputs);
	if (n_files == 0) {
		(void)fprintf(stderr, "no corpus\n");
		return 1;
	}
	return 0;
}
