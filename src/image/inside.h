/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that only this machine, or the cloud that it runs in, answers at: loopback, link-local, metadata services. A file from a
 * stranger must not make the operator's machine ask them. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

#define INSIDE_HOST_MAX 256

/* The host of "https://user@HOST:80/path", in small letters, without brackets and a dot at its end. -EINVAL: none that could be judged. */
int inside_host(const char *url, char ret[INSIDE_HOST_MAX]) MUST_CHECK;
/* Judges a name or number; nobody is asked. */
bool inside_is_host(const char *host);
/* Asks what HOST stands for. Names that nobody knows are not inside. */
bool inside_resolves(const char *host);
