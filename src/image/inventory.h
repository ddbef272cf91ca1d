/* SPDX-License-Identifier: Apache-2.0 */
/* Looks into a root file system without running anything in it: finds its Python, its packages and
 * its size. The tree may be hostile, so every file is opened beneath its root and read with a
 * limit. */
#pragma once

#include "base/attr.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define INVENTORY_STATUS_MAX (32u << 20) /* bytes of dpkg's status file */

struct inventory {
	char python[32]; /* "3.14.8", or "3.14" if only that much is known */
	uint64_t bytes;  /* on disk, each hard-linked file once */
	uint64_t files;
};

/* Appends {"name", "version", "kind": "deb" | "python"} to PACKAGES. -ENOENT: no python3, and no mark that says so (python.h). */
int inventory_take(int root, struct inventory *ret, json_t *packages) MUST_CHECK;

/* Parses dpkg's status text; appends the installed packages. */
int inventory_parse_dpkg(const char *text, size_t len, json_t *packages) MUST_CHECK;
