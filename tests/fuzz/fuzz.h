/* SPDX-License-Identifier: Apache-2.0 */
/* Every fuzz target is one function `int fuzz_NAME(const uint8_t *data, size_t size)` in
 * fuzz_NAME.c. It must accept any bytes, keep no state between calls, and ASSERT() the properties
 * of its parser.
 *
 * Two programs are made of each: `replay_NAME` (any compiler; runs the corpus and a systematic
 * damage of it as an ordinary test) and, with -Dfuzz=true and clang, `fuzz_NAME` (libFuzzer). */
#pragma once

#include "base/attr.h"

#include <stddef.h>
#include <stdint.h>

#define FUZZ_INPUT_MAX (1u << 20) /* longer files of a corpus are cut */

int FUZZ_TARGET(const uint8_t *data, size_t size);
