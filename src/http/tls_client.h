/* SPDX-License-Identifier: Apache-2.0 */
/* TLS of connections that we make: TLS 1.3 and 1.2 by GnuTLS. To peers whose certificate is of one authority and has one DNS name, with a
 * certificate of ours; addresses are not compared with it. Or to peers that are not verified. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "http/socket_io.h"

#include <stddef.h>

struct http_tls_client;

/* Texts in PEM, kept by nobody: a certificate with those that lead to a root, its key, and the authority that peers must have
 * their certificates from. NAME is borrowed: the DNS name in the certificates of peers. Loads GnuTLS, so it is called before the
 * process gives up the right to open files. SETTING_INVALID: one of them cannot be used. */
struct http_tls_client_config {
	const char *chain, *key, *ca;
	size_t chain_len, key_len, ca_len;
	const char *name;
};
int http_tls_client_new(const struct http_tls_client_config *config, struct http_tls_client **ret,
			struct err *e) MUST_CHECK;
/* For servers whose certificate nobody verifies: what passes is hidden from others, and the peer may be anybody. We show no certificate.
 * Loads GnuTLS, as above. NOT_SUPPORTED, SETTING_INVALID: it is not there. */
int http_tls_client_new_unverified(struct http_tls_client **ret, struct err *e) MUST_CHECK;
/* Connections keep what they need of it. Accepts NULL, returns NULL. */
struct http_tls_client *http_tls_client_free(struct http_tls_client *t);
/* Makes IO, whose descriptor is connected, speak TLS; http_tls_client_shake() comes next. HOST: what the server is told of its name (SNI),
 * with or without a port; an address or NULL: nothing. -ENOMEM: IO is as before. */
int http_tls_client_begin(struct http_io *io, struct http_tls_client *t,
			  const char *host) MUST_CHECK;
/* 0: it is open. -EAGAIN: call it again when the socket has room, if io->wants_room, else when something has come.
 * -EKEYREJECTED: the peer is not who it must be. Other errors: the peer has ended it, maybe because it refuses our certificate. */
int http_tls_client_shake(struct http_io *io) MUST_CHECK;
