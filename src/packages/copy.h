/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a file on a thread, in pieces, and computes the SHA-256 of the bytes. */
#pragma once

#include "base/attr.h"

#include <sodium.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define SHA256_HEX (2 * crypto_hash_sha256_BYTES + 1)

struct copy;

/* R is 0 and SHA256 the digest in lower-case hex, or R is -errno (-EFBIG: more than MAX bytes; -EBUSY: too many jobs
 * of WHO wait). The copy is freed already. */
typedef void (*copy_fn)(int r, const char *sha256, uint64_t bytes, void *user);

/* Copies the file FROM from its beginning (whatever its offset is) to TO, at most MAX bytes. Both are borrowed for this
 * call only. WHO pays (base/workers.h). NULL: no memory, or no descriptor. CB is called from the loop, never from
 * inside. */
struct copy *copy_start(sd_event *loop, const char *who, int from, int to, uint64_t max, copy_fn cb,
			void *user);
/* Stops the copy; its callback is not called. A thread may still write a few pieces. Accepts NULL; returns NULL. */
struct copy *copy_cancel(struct copy *c);
