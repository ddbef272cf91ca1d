/* SPDX-License-Identifier: Apache-2.0 */
/* TLS of listeners (HTTP_SCOPE_TLS): TLS 1.3 and 1.2 by GnuTLS, which is loaded when it is used. Certificates can be replaced
 * while connections are open. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>

struct http_tls;

/* Loads GnuTLS. Before the process gives up the right to open files, and before there are threads that call it. */
int http_tls_new(struct http_tls **ret, struct err *e) MUST_CHECK;
/* CHAIN: the server's certificate and those that lead to a root, in PEM; KEY: its private key, in PEM, without a password.
 * Neither is kept by the caller's address. Connections that are open go on with what they began with. SETTING_INVALID: they
 * cannot be read or do not belong together; what was there stays. */
int http_tls_set(struct http_tls *t, const char *chain, size_t chain_len, const char *key,
		 size_t key_len, struct err *e) MUST_CHECK;
/* After the server: its connections have the certificate. Accepts NULL, returns NULL. */
struct http_tls *http_tls_free(struct http_tls *t);
