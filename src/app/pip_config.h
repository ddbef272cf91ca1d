/* SPDX-License-Identifier: Apache-2.0 */
/* The pip configuration of the user who starts the server: package index and certificates. */
#pragma once

#include "base/attr.h"

#include <limits.h>
#include <stdbool.h>

struct pip_config {
	char index_url[2001]; /* "" = not configured */
	char cert[PATH_MAX];
};

#define PIP_DEFAULT_INDEX "https://pypi.org/simple"

/* Reads what pip reads, in its order: PIP_INDEX_URL and PIP_CERT, else index-url and cert of
 * [global] or [install] in PIP_CONFIG_FILE, the user's file, and the machine's. What cannot be read or
 * is too long is ignored. */
void pip_config_read(struct pip_config *ret);
/* Opens the certificates that the index is checked against: FILE (a setting, "" = not set), those of
 * pip's configuration, those of SSL_CERT_FILE, else this machine's. *RET_OWN: they are not this
 * machine's. -1: there are none. */
int pip_config_open_ca(const struct pip_config *pip, const char *file, bool *ret_own);
