/* SPDX-License-Identifier: Apache-2.0 */
/* The names by which clients may call `caisson serve`, from its settings. */
#pragma once

#include "config/settings.h"
#include "http/http.h"

#define SERVE_NAMES_MAX 64

struct serve_names {
	char *host_texts; /* what hosts[] points into */
	const char *hosts[SERVE_NAMES_MAX + 1];
	char *origin_texts; /* what origins[] points into */
	const char *origins[SERVE_NAMES_MAX + 1];
	char *page_texts; /* what page_origins[] points into */
	const char *page_origins[SERVE_NAMES_MAX + 1];
	struct http_proxies proxies;
	char port_domain[256];              /* of servers in sandboxes; "" = none */
	char prefix[HTTP_PREFIX_MAX + 1];   /* the path of server.public_url */
	char public_origin[HTTP_BASE_SIZE]; /* that URL without its path */
};

/* The lists of the settings, and the host of server.public_url. LISTEN: the address that the server
 * listens on. RET is not changed by a failure. */
int serve_names_make(const struct settings *s, const char *listen, struct serve_names *ret,
		     struct err *e) MUST_CHECK;
void serve_names_done(struct serve_names *n);
