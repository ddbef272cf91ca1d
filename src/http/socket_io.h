/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection moves its bytes. The states of connection.h read and write through these operations only, so that a
 * socket with TLS (tls_io.c) is another implementation. Addresses, options of TCP and epoll are those of the descriptor. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct http_io_ops;
struct tls_session;

/* Copied by value when a thread that sends a file outlives its connection. */
struct http_io {
	const struct http_io_ops *ops;
	int fd;                  /* owned; it never blocks. -1: given up */
	struct tls_session *tls; /* owned; NULL: a plain socket */
	bool
	    wants_room; /* reading goes on when the socket has room: a handshake has an answer to send */
	bool unsafe; /* the client speaks without TLS where TLS is spoken, and is to hear that */
};

/* Results are bytes, or -EAGAIN (an event of the descriptor comes first), or another -errno. */
struct http_io_ops {
	ssize_t (*recv)(struct http_io *io, void *to, size_t max); /* 0: the peer's end */
	/* Throws away what has come. SCRATCH has MAX bytes and is not read. */
	ssize_t (*discard)(struct http_io *io, void *scratch, size_t max);
	/* MORE: further bytes or the end follow at once. IOV is only read. */
	ssize_t (*send)(struct http_io *io, struct iovec *iov, size_t n, bool more);
	/* Sends at most MAX bytes of FILE from *OFF on and moves *OFF; 0: the file has no more. May wait for a disk, so
	 * a thread calls it; nothing else but cut() is called meanwhile. */
	ssize_t (*send_file)(struct http_io *io, int file, off_t *off, size_t max);
	int (*shut)(struct http_io *io); /* no more is sent; the peer can still send */
	/* Ends both directions now. A thread that sends returns soon. */
	void (*cut)(struct http_io *io);
	/* DROP: what the peer has not acknowledged is thrown away. */
	void (*close)(struct http_io *io, bool drop);
	int (*held)(const struct http_io *io); /* bytes not acknowledged; 0: none, or not known */
	bool (*pending)(
	    const struct http_io *io); /* something can be received that no event tells of */
};

extern const struct http_io_ops http_plain_io;
