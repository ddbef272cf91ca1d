/* SPDX-License-Identifier: Apache-2.0 */
/* Where `caisson serve` listens, from its settings. */
#pragma once

#include "app/read_settings.h"
#include "http/http.h"

#define SERVE_BASE_SIZE (READ_HOST_SIZE + 32)

struct serve_address {
	char host[READ_HOST_SIZE];
	uint16_t port;
	char tls_host[READ_HOST_SIZE]; /* "" = no TLS */
	uint16_t tls_port;    /* 0 with a host: any free one, until serve_address_listen() */
	bool no_registration; /* nobody may register, whatever the setting says */
	bool worker;          /* of a fleet: the plain address has health checks alone */
	bool loopback;        /* only this machine can reach the server */
	const char *reach; /* of both hosts the one that others can reach, if any; of this struct */
};

/* SETTING_INVALID: other machines could use the server without a key, or TLS lacks something. RET must not be moved. */
int serve_address_find(struct settings *s, struct serve_address *ret, struct err *e) MUST_CHECK;
/* Opens the listeners, and notes the ports. */
int serve_address_listen(struct serve_address *a, struct http_server *http,
			 struct err *e) MUST_CHECK;
/* Start of the links: PUBLIC_URL without the last slash, or the plain address. */
void serve_address_base(const struct serve_address *a, const char *public_url,
			char ret[SERVE_BASE_SIZE]);
