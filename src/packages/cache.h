/* SPDX-License-Identifier: Apache-2.0 */
/* Wheels by the SHA-256 of their bytes. Files DIR/HEX, made whole or not at all; who holds a hash
 * of an index gets those bytes or none. The least recently used go when it is full. */
#pragma once

#include "packages/copy.h"

#include <stdbool.h>

struct cache;

/* DIR is taken; -1: an empty cache that keeps nothing. NULL: no memory. */
struct cache *cache_new(int dir, uint64_t max_bytes);
struct cache *cache_free(struct cache *c);
/* A descriptor for reading, or -1. What was read must be hashed again: disks lie. */
int cache_open(struct cache *c, const char *sha256);
/* A place for a wheel that is being fetched: a file without a name, in the cache's folder where
 * there is one. -errno. */
int cache_begin(struct cache *c) MUST_CHECK;
/* Gives the file its name. SHA256 is what the caller has computed of it. */
void cache_keep(struct cache *c, int fd, const char *sha256, uint64_t bytes);
void cache_drop(struct cache *c, const char *sha256);
