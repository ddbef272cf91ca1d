/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of a server, as each client wants it. */
#pragma once

#include "connect/connect.h"

#include <jansson.h>

/* The entry for a client with JSON; what OLD (NULL: nothing) has besides stays. A new reference, or NULL: no memory. */
json_t *entry_json(const struct client *c, const struct connect_target *target, const json_t *old);
/* The lines of its table for a client with TOML. */
int entry_toml(const struct connect_target *target, struct buf *out) MUST_CHECK;
/* Is KEY one that says how to connect, so that an entry for TARGET has ours or none? */
bool entry_owns(const char *key, size_t len, const void *target);
