/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a socket with TLS. */
#pragma once

#include "http/socket_io.h"

struct http_tls;
struct http_tls_client;
struct tls_session;

/* Begins a session on IO, whose descriptor is set, with the newest certificate of T. The handshake is part of the first
 * reading. -ENOMEM: IO is as before. */
int http_tls_begin(struct http_io *io, struct http_tls *t) MUST_CHECK;

/* The same with a SESSION of the library that is a client's, set up but for its socket. It is taken, unless -ENOMEM. PEER (borrowed)
 * is the DNS name that the certificate of the server must have; NULL: any certificate will do. The end of the session gives a reference to
 * CLIENT back. */
int http_tls_adopt(struct http_io *io, void *session, const char *peer,
		   struct http_tls_client *client) MUST_CHECK;

/* 0: the session is open. -EAGAIN: an event comes first, that the socket has room if io->wants_room, else that something has come.
 * -EKEYREJECTED: the certificate of the peer is not acceptable; or another -errno. */
int http_tls_handshake(struct http_io *io) MUST_CHECK;

/* Is the handshake over, so that the peer is whom it has to be? False for a plain socket. */
bool http_tls_is_open(const struct http_io *io);

/* Is the session one of CLIENT, and not of another, older one? False for a plain socket. */
bool http_tls_is_of(const struct http_io *io, const struct http_tls_client *client);

/* Ends the session, if there is one, without a word to the client. The descriptor stays open. */
void http_tls_drop(struct http_io *io);

extern const struct http_io_ops http_tls_io;
