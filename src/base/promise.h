/* SPDX-License-Identifier: Apache-2.0 */
/* A promise of our own code that costs one request when it is broken, and not the server. For what the timing of
 * clients might reach; ASSERT() stays where going on would not be safe. */
#pragma once

#include <stdbool.h>

/* False, after a line on stderr that the tests look for. */
bool promise_broken(const char *expr, const char *file, int line);
#define PROMISE(e) ((e) || promise_broken(#e, __FILE__, __LINE__))
