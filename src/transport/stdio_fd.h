/* SPDX-License-Identifier: Apache-2.0 */
/* One direction of a stdio transport: a descriptor of any kind, read or written without blocking. The
 * flags that other processes share through it are not changed, if the kernel allows that. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <systemd/sd-event.h>

struct stdio_fd {
	int fd;             /* what is read or written */
	bool own;           /* fd is a second opening of the pipe or terminal, to be closed by us */
	bool is_socket;     /* read and written with MSG_DONTWAIT */
	bool is_shared;     /* a pipe whose open file description others have, too */
	bool no_nowait;     /* this kernel has no RWF_NOWAIT for pipes */
	bool changed_flags; /* O_NONBLOCK was set; stdio_fd_done() clears it */
	bool always_ready;  /* epoll refuses it: a regular file, /dev/null */
	sd_event_source *io;
	sd_event_source *defer; /* takes the place of epoll if always_ready */
	bool watched;
	bool large; /* stdio_watch_enlarge() was called */
};

typedef void (*stdio_ready_fn)(uint32_t events, void *userdata);

/* READY is called for events of the watched direction and for EPOLLHUP and EPOLLERR. */
struct stdio_watch {
	struct stdio_fd f;
	uint32_t direction; /* EPOLLIN or EPOLLOUT */
	stdio_ready_fn ready;
	void *userdata;
};

int stdio_watch_init(struct stdio_watch *w, sd_event *loop, int fd, uint32_t direction,
		     stdio_ready_fn ready, void *userdata) MUST_CHECK;
void stdio_watch_done(struct stdio_watch *w);
/* Whether READY is to be called. Errors and hang-ups of an output are reported in any case. */
void stdio_watch_enable(struct stdio_watch *w, bool on);
/* A pipe gets room for large messages, if its limit permits that. */
void stdio_watch_enlarge(struct stdio_watch *w);
/* READY is never called again. */
void stdio_watch_stop(struct stdio_watch *w);

/* Like read(2) and writev(2), but returns -errno, never blocks and never raises SIGPIPE. */
ssize_t stdio_watch_read(struct stdio_watch *w, void *buf, size_t len);
ssize_t stdio_watch_writev(struct stdio_watch *w, const struct iovec *iov, unsigned n);
