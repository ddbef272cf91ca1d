/* SPDX-License-Identifier: Apache-2.0 */
/* The libcurl that is linked into the portable binary (packaging/release/libraries). */
#define LIBCURL_OWN_NAMES
#include "base/libcurl.h"

#define TAKE(name) .name = name,
const struct libcurl libcurl_inside = {LIBCURL_FUNCTIONS(TAKE)};
