/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the last bytes of a stream. Private to this folder. */
#pragma once

#include <stddef.h>

/* Appends the N bytes at DATA to ROOM, which has SIZE bytes, the first *LEN of them used. The oldest
 * bytes make way. */
void last_bytes_add(char *room, size_t size, size_t *len, const char *data, size_t n);
