/* SPDX-License-Identifier: Apache-2.0 */
/* Where packages come from: from the sources that this machine's own apt uses. No address is built
 * into the program, so a machine with a mirror of its own builds images from that mirror. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SOURCE_URL_MAX 1024

/* The Debian archive that apt uses on this machine. ERR_SOURCE_UNREACHABLE: there is none. */
int source_find_mirror(char ret[SOURCE_URL_MAX], struct err *e) MUST_CHECK;
/* apt's proxy for SCHEME ("http", "https"), or "". */
void source_find_proxy(const char *scheme, char ret[SOURCE_URL_MAX]);
bool source_is_url(const char *s);

/* Finds the archive in lines "URL LABEL CREATED-BY" (apt-get indextargets); -ENOENT: none. */
int source_pick(const char *lines, char ret[SOURCE_URL_MAX]) MUST_CHECK;
/* The same for lines "'URL/dists/SUITE/...' ..." (apt-get update --print-uris), for a machine whose
 * package lists were removed or never fetched. The Debian archive is the one that has a
 * SUITE-updates beside its SUITE; otherwise the first whose folder is called debian. */
int source_pick_uri(const char *lines, char ret[SOURCE_URL_MAX]) MUST_CHECK;
