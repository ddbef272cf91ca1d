/* SPDX-License-Identifier: Apache-2.0 */
/* The front's end of a message channel (protocol/proto.h) on the event loop: to an init, or to a maker. It never
 * blocks: messages that the socket does not take wait in a queue. It hands over whole messages, after
 * proto_check(). */
#pragma once

#include "base/err.h"
#include "engine/protocol/proto.h"

#include <stddef.h>
#include <systemd/sd-event.h>

#define CHANNEL_QUEUE_MAX 65536 /* messages that wait for the socket; more end the channel */

struct channel;

/* One message. The callback takes the descriptors that it wants (TAKE_FD); the channel closes the
 * rest. Returning < 0 says that the message is a lie: the channel ends. The callback may free the
 * channel. */
typedef int (*channel_message_fn)(const union proto_frame *f, int *fds, size_t n, void *user);
/* The channel has ended: the peer is gone (-EPIPE), or it sent what is no message, or a lie. Called
 * once, from the loop. */
typedef void (*channel_end_fn)(int error, void *user);

/* Takes FD. PEER is who is at the other end. */
int channel_new(sd_event *loop, int fd, enum proto_party peer, channel_message_fn on_message,
		channel_end_fn on_end, void *user, struct channel **ret) MUST_CHECK;
/* Takes the N descriptors also on failure. -EPIPE after the end; messages that were queued then
 * are lost. */
int channel_send(struct channel *c, const struct proto_head *frame, int *fds, size_t n) MUST_CHECK;
int channel_fd(const struct channel *c); /* borrowed */
/* For the pool of threads (base/workers.h): each channel pays for itself. */
const char *channel_payer(const struct channel *c);
struct channel *channel_free(struct channel *c); /* takes NULL; returns NULL */
