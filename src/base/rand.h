/* SPDX-License-Identifier: Apache-2.0 */
/* Randomness (getrandom(2); never fails after boot) and clocks. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

void rand_bytes(void *ret, size_t len);
/* Writes 2*BYTES lower-case hex digits and a NUL. BYTES <= 64. */
void rand_hex(char *ret, size_t bytes);
/* A UUID of RFC 9562, version 4. */
#define UUID_SIZE 37
void rand_uuid(char ret[UUID_SIZE]);

uint64_t now_ns(void);      /* CLOCK_MONOTONIC */
uint64_t now_wall_ns(void); /* CLOCK_REALTIME, since 1970 */
