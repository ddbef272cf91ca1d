/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer's entry point for the target that the build chose. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return FUZZ_TARGET(data, size);
}
