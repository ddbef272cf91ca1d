/* SPDX-License-Identifier: Apache-2.0 */
/* Host and Origin: syntax, and which names are ours (the wall against DNS rebinding: a page of a
 * foreign name that resolves to this machine still sends its own name). */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

struct http_host {
	const char *name; /* borrowed; "example.org", "127.0.0.1", "[::1]" */
	size_t len;
	unsigned port; /* 0: none given */
};

/* "name", "name:port", "[v6]:port". -EINVAL otherwise, on an empty name too. */
int http_host_parse(const char *s, size_t len, struct http_host *ret) MUST_CHECK;

/* "http://name:port" or "https://…" without a path; -EINVAL otherwise ("null", other schemes). */
int http_origin_parse(const char *origin, struct http_host *ret) MUST_CHECK;

/* Is NAME a loopback name, LOCAL (the numeric address the connection came to, v6 in brackets; may
 * be NULL), or one of HOSTS (NULL-terminated, may be NULL; "*" is any)? Case is ignored. */
bool http_host_is_ours(const struct http_host *host, const char *local, const char *const *hosts);

struct http_origins {
	const char *host;           /* Host of the request, one of ours; NULL: none */
	const char *const *hosts;   /* names that the operator gave; NULL-terminated, may be NULL */
	const char *const *origins; /* the same, of origins; "*" is any */
};

/* May pages of ORIGIN use us? Those that came from the very address that the request went to may
 * (localhost and 127.0.0.1 are one, if the port is the same), those of a host that the operator
 * named, and the origins that the operator named word by word ("vscode-webview://x"). Pages that
 * other ports of this machine serve may not: another account may have made them. */
bool http_origin_is_ours(const char *origin, const struct http_origins *may);
