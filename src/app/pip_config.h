/* SPDX-License-Identifier: Apache-2.0 */
/* What the pip of whoever starts the server is configured for: its index, and the certificates. */
#pragma once

#include "base/attr.h"

#include <limits.h>

struct pip_config {
	char index_url[2001]; /* "" = nothing said */
	char cert[PATH_MAX];
};

/* As pip reads it: PIP_INDEX_URL and PIP_CERT, else PIP_CONFIG_FILE, the user's file, the machine's
 * (index-url and cert of [global] or [install]). What cannot be read or is too long is not there.
 */
void pip_config_read(struct pip_config *ret);
