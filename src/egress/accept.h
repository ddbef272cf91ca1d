/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts connections of sandboxes in threads.
 *
 * A gate's listening socket was made by the init of its sandbox. An init that was taken over still has it, and with
 * it the flag O_NONBLOCK, which belongs to the socket: if init clears the flag and takes the waiting connection
 * first, accept(2) waits for ever. No flag of the call prevents that, so the event loop never calls it. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#define EGRESS_ACCEPT_MAX 16u /* connections of one call */

struct egress_acceptor;
struct egress_accept; /* a call that is under way */

/* CLIENTS belong to the callback. ERROR is the errno that ended the call, 0 if it has as many as were asked for.
 * Never called from inside egress_accept_begin(). */
typedef void (*egress_accepted_fn)(const int *clients, size_t n, int error, void *user);

/* It has at most four threads, which start with the first call and end after a minute without one. NULL: no memory. */
struct egress_acceptor *egress_acceptor_new(sd_event *loop);
/* There must be no calls left. */
void egress_acceptor_free(struct egress_acceptor *a);
/* Accepts what waits at FD, at most MAX connections. A call that hangs is ended after some seconds, with the socket: then
 * ERROR is EINVAL. NULL: no memory or no descriptor. */
struct egress_accept *egress_accept_begin(struct egress_acceptor *a, int fd, unsigned max,
					  egress_accepted_fn cb, void *user);
/* CB is not called any more. Nothing can be accepted from the socket any more. */
void egress_accept_cancel(struct egress_accept *q);
