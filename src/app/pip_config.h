/* SPDX-License-Identifier: Apache-2.0 */
/* The pip configuration of the user who starts the server: package index and certificates. */
#pragma once

#include "base/attr.h"

#include <limits.h>

struct pip_config {
	char index_url[2001]; /* "" = not configured */
	char cert[PATH_MAX];
};

/* Reads what pip reads, in its order: PIP_INDEX_URL and PIP_CERT, else index-url and cert of
 * [global] or [install] in PIP_CONFIG_FILE, the user's file, and the machine's. What cannot be read or
 * is too long is ignored. */
void pip_config_read(struct pip_config *ret);
