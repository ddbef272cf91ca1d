/* SPDX-License-Identifier: Apache-2.0 */
/* Where packages come from: what this machine's own apt uses. No address is written anywhere in the
 * product, so a machine with a mirror of its own builds images from that mirror. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SOURCE_URL_MAX 1024

/* The Debian archive that apt uses here. ERR_SOURCE_UNREACHABLE when there is none. */
int source_find_mirror(char ret[SOURCE_URL_MAX], struct err *e) MUST_CHECK;
/* apt's proxy for SCHEME ("http", "https"); "" when there is none. */
void source_find_proxy(const char *scheme, char ret[SOURCE_URL_MAX]);
bool source_is_url(const char *s);

/* Picks the archive out of lines "URL LABEL CREATED-BY" (apt-get indextargets); -ENOENT: none. */
int source_pick(const char *lines, char ret[SOURCE_URL_MAX]) MUST_CHECK;
/* The same out of lines "'URL/dists/SUITE/...' ..." (apt-get update --print-uris), for a machine
 * whose package lists were removed or never fetched. The Debian archive is the one that has a
 * SUITE-updates beside its SUITE; else the first whose folder is called debian. */
int source_pick_uri(const char *lines, char ret[SOURCE_URL_MAX]) MUST_CHECK;
