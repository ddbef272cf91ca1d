/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a socket with TLS. */
#pragma once

#include "http/socket_io.h"

struct http_tls;
struct tls_session;

/* Begins a session on IO, whose descriptor is set, with the newest certificate of T. The handshake is part of the first
 * reading. -ENOMEM: IO is as before. */
int http_tls_begin(struct http_io *io, struct http_tls *t) MUST_CHECK;

/* Ends the session, if there is one, without a word to the client. The descriptor stays open. */
void http_tls_drop(struct http_io *io);

extern const struct http_io_ops http_tls_io;
