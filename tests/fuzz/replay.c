/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without a fuzzer: every file of its corpus as it is, then damaged step by step
 * (cut from both ends, each bit flipped, each byte replaced by a few nasty ones), then a fixed
 * number of seeded random mixes. Files of its folder `grown` are many: as they are, and some mixes.
 * The same bytes in every run, so a failure can be repeated. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SMALL_INPUT  512u /* files up to this size are damaged at every place */
#define RANDOM_MIXES 500u /* per file */
#define GROWN_MIXES  20u  /* per file of GROWN */
#define GROWN        "grown"
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

static int replay_file(const char *path, bool grown)
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
	if (size <= SMALL_INPUT && !grown)
		damage_everywhere(data, size);
	for (unsigned i = 0; i < (grown ? GROWN_MIXES : RANDOM_MIXES); i++)
		mix(data, size, &seed);
	return 0;
}

/* How many files; -1 = one cannot be read. */
static int replay_folder(const char *folder, bool grown)
{
	_cleanup_dir_ DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[4096];
	int n_files = 0;

	if (!dir && grown)
		return 0; /* not every target has one */
	if (!dir) {
		perror(folder);
		return -1;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, GROWN) == 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (replay_file(path, grown) < 0)
			return -1;
		n_files++;
	}
	return n_files;
}

int main(int argc, char **argv)
{
	int n_files = 0;

	for (int i = 1; i < argc; i++) {
		char grown[4096];

		(void)snprintf(grown, sizeof(grown), "%s/" GROWN, argv[i]);
		const int n = replay_folder(argv[i], false), m = replay_folder(grown, true);
		if (n < 0 || m < 0)
			return 1;
		n_files += n + m;
	}
	run((const uint8_t *)"", 0);
	(void)printf("%d files, %" PRIu64 " inputs\n", n_files, n_inputs);
	if (n_files == 0) {
		(void)fprintf(stderr, "no corpus\n");
		return 1;
	}
	return 0;
}
