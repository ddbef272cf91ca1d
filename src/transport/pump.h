/* SPDX-License-Identifier: Apache-2.0 */
/* Carries bytes between a stdio client and a socket, in both directions, without looking at them.
 * Each direction has one buffer of fixed size: when the receiver does not read, the pump stops
 * reading from the sender. */
#pragma once

#include "base/attr.h"

#include <systemd/sd-event.h>

struct transport_pump;

struct transport_pump_config {
	sd_event *loop;    /* borrowed */
	int in_fd, out_fd; /* borrowed; any kind, as in struct transport_stdio_config */
	int sock;          /* borrowed; a connected stream socket */
	/* The pump has ended and all bytes are delivered. REASON: 0 = the input ended, and then the
	 * socket; -ECONNRESET = the socket ended first; -EPIPE = the client no longer reads. Called
	 * once, from the loop; it may free the pump. */
	void (*on_end)(int reason, void *userdata);
	void *userdata;
};

int transport_pump_new(const struct transport_pump_config *config,
		       struct transport_pump **ret) MUST_CHECK;
/* Acts as if the input had ended; for SIGTERM. on_end is called when the other side has closed. */
void transport_pump_finish(struct transport_pump *p);
/* on_end is not called. P may be NULL. */
struct transport_pump *transport_pump_free(struct transport_pump *p);
