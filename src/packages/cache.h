/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of wheels, named by the SHA-256 of their bytes: files DIR/HEX that appear complete or
 * not at all. Whoever asks for a digest gets bytes with that digest or nothing. When the cache
 * is full, the least recently used entries are deleted. */
#pragma once

#include "packages/copy.h"

#include <stdbool.h>

struct cache;

/* DIR is owned. With -1 the cache is empty and keeps nothing. NULL: no memory. */
struct cache *cache_new(int dir, uint64_t max_bytes);
struct cache *cache_free(struct cache *c);
/* These two are for threads: they wait for the disk. A descriptor for reading, or -1. The caller must hash what it reads: the disk may have damaged
 * it. */
int cache_open(struct cache *c, const char *sha256);
/* Opens a file without a name for a wheel that is being fetched, in the cache's folder if there
 * is one. -errno. */
int cache_begin(struct cache *c) MUST_CHECK;
/* These two begin to do so on a thread. The first gives the file (borrowed) its name in the cache. SHA256 is the digest that
 * the caller computed. */
void cache_keep(struct cache *c, int fd, const char *sha256, uint64_t bytes);
void cache_drop(struct cache *c, const char *sha256);
