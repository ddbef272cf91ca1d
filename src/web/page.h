/* SPDX-License-Identifier: Apache-2.0 */
/* What `/` shows if the page was left out of the build: how to connect clients. It is made once at the start. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

/* BASE: "http://127.0.0.1:8181". WHY the page was left out. Owned HTML, NULL without memory. */
char *page_make(const char *base, const char *profile, bool needs_key, const char *why);
