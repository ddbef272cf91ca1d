/* SPDX-License-Identifier: Apache-2.0 */
/* TLS of listeners (HTTP_SCOPE_TLS): TLS 1.3 and 1.2 by GnuTLS, which is loaded when it is used. Certificates can be replaced
 * while connections are open. A server can demand certificates of its clients. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>

struct http_tls;

/* Loads GnuTLS. Before the process gives up the right to open files, and before there are threads that call it. */
int http_tls_new(struct http_tls **ret, struct err *e) MUST_CHECK;

struct http_tls_text {
	const char *data; /* borrowed for the call; NULL: there is none */
	size_t len;
};

/* In PEM. */
struct http_tls_files {
	struct http_tls_text chain; /* the server's certificate and those that lead to a root */
	struct http_tls_text key;   /* its private key, without a password */
	/* Not NULL: clients must have a certificate that one of these has signed, and that has the DNS name PEER among its alternative
	 * names (subjectAltName), written out. The handshake fails for others, before a byte of HTTP is read. If a certificate says
	 * what it is for (extended key usage), clients are among it. */
	struct http_tls_text authority;
	const char *peer; /* for as long as the listeners; a literal */
};

/* Connections that are open go on with what they began with. SETTING_INVALID: the files cannot be read or do not belong together;
 * what was there stays, all of it. */
int http_tls_set(struct http_tls *t, const struct http_tls_files *files, struct err *e) MUST_CHECK;
/* After the server: its connections have the certificate. Accepts NULL, returns NULL. */
struct http_tls *http_tls_free(struct http_tls *t);
