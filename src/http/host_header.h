/* SPDX-License-Identifier: Apache-2.0 */
/* Host and Origin: their syntax, and which names are ours. This is the wall against DNS rebinding:
 * when the name of a foreign site is made to resolve to this machine, its pages still send their
 * own name. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

struct http_host {
	const char *name; /* borrowed; "example.org", "127.0.0.1", "[::1]" */
	size_t len;
	unsigned port; /* 0: none given */
};

/* "name", "name:port" or "[v6]:port"; -EINVAL for everything else, also for an empty name. */
int http_host_parse(const char *s, size_t len, struct http_host *ret) MUST_CHECK;

/* "http://name:port" or "https://…" without a path; -EINVAL otherwise ("null", other schemes). */
int http_origin_parse(const char *origin, struct http_host *ret) MUST_CHECK;

/* Is NAME a loopback name, LOCAL (the numeric address the connection came to, v6 in brackets; may
 * be NULL), or one of HOSTS (NULL-terminated, may be NULL; "*" is any)? Case is ignored. */
bool http_host_is_ours(const struct http_host *host, const char *local, const char *const *hosts);

/* Is NAME one label below DOMAIN (NULL or "": no)? *RET_LABEL: the bytes of that label. */
bool http_host_is_below(const struct http_host *host, const char *domain, size_t *ret_label);

/* Is NAME that of a port of a sandbox: digits, '-', more of the same label, '.', DOMAIN (NULL or "": no)? */
bool http_host_is_of_port(const struct http_host *host, const char *domain);

struct http_origins {
	const char *host;           /* Host of the request, one of ours; NULL: none */
	const char *const *hosts;   /* names that the operator gave; NULL-terminated, may be NULL */
	const char *const *origins; /* the same, of origins; "*" is any */
	const char *const *pages;   /* further ones, or NULL */
	bool https;                 /* of a request by https HOST is no page of http */
};

/* May pages of ORIGIN use this server? Allowed are: the very address that the request was sent to
 * (localhost and 127.0.0.1 count as one if the port is the same), hosts that the operator named,
 * and origins that the operator named in full ("vscode-webview://x"). Pages from other ports of
 * this machine are not allowed, because another account may serve them. */
bool http_origin_is_ours(const char *origin, const struct http_origins *may);
/* Is ORIGIN one of http, which whoever controls a network can answer for? */
bool http_origin_is_plain(const char *origin);
