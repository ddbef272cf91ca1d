/* SPDX-License-Identifier: Apache-2.0 */
/* The front's end of a message channel (proto.h) on the event loop: never blocks, queues what the
 * socket does not take, hands over whole checked messages. Used for the monitor and for every init.
 */
#pragma once

#include "base/err.h"
#include "engine/inside/proto.h"

#include <stddef.h>
#include <systemd/sd-event.h>

#define CHAN_QUEUE_MAX 65536 /* messages waiting for the socket; more ends the channel */

struct chan;

/* One message; the descriptors are the callee's. Return < 0 = a lie: the channel ends. The callback
 * may free the channel. */
typedef int (*chan_message_fn)(const union proto_frame *f, const int *fds, size_t n, void *user);
/* The channel has ended (peer gone, or a message that is not one); called once, from the loop. */
typedef void (*chan_end_fn)(int error, void *user);

/* Takes FD. PEER is who is at the other end. */
int chan_new(sd_event *loop, int fd, enum proto_party peer, chan_message_fn on_message,
	     chan_end_fn on_end, void *user, struct chan **ret) MUST_CHECK;
/* Takes the N descriptors also on failure. -EPIPE after the end; what was queued then is gone. */
int chan_send(struct chan *c, const struct proto_head *frame, int *fds, size_t n) MUST_CHECK;
int chan_fd(const struct chan *c);      /* borrowed */
struct chan *chan_free(struct chan *c); /* takes NULL; returns NULL */
