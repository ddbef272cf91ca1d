/* SPDX-License-Identifier: Apache-2.0 */
/* Copies files piece by piece, a turn of the loop each, and computes the SHA-256 of what passes. */
#pragma once

#include "base/attr.h"

#include <sodium.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define SHA256_HEX (2 * crypto_hash_sha256_BYTES + 1)

struct copy;

/* R = 0 and the digest as lower-case hex, or -errno (-EFBIG: longer than allowed). COPY is gone. */
typedef void (*copy_fn)(int r, const char *sha256, uint64_t bytes, void *user);

/* The whole file FROM (its offset plays no part) to TO, at most MAX bytes; both are borrowed until
 * the end. NULL:
 * no memory. */
struct copy *copy_start(sd_event *loop, int from, int to, uint64_t max, copy_fn cb, void *user);
/* CB will not be called. NULL is fine; returns NULL. */
struct copy *copy_cancel(struct copy *c);
