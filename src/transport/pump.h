/* SPDX-License-Identifier: Apache-2.0 */
/* Carries bytes between a stdio client and a socket, both ways, without looking at them. One fixed
 * buffer a direction: who does not read stops the one who writes. */
#pragma once

#include "base/attr.h"

#include <systemd/sd-event.h>

struct transport_pump;

struct transport_pump_config {
	sd_event *loop;    /* borrowed */
	int in_fd, out_fd; /* borrowed; any kind, as in struct transport_stdio_config */
	int sock;          /* borrowed; a connected stream socket */
	/* Over, with all bytes delivered: 0 = the input ended, and then the socket; -ECONNRESET =
	 * the socket ended first; -EPIPE = the client no longer reads. Called once, from the loop;
	 * the pump may be freed in it. */
	void (*on_end)(int reason, void *userdata);
	void *userdata;
};

int transport_pump_new(const struct transport_pump_config *config,
		       struct transport_pump **ret) MUST_CHECK;
/* As if the input had ended: for SIGTERM. on_end comes when the other side has closed. */
void transport_pump_finish(struct transport_pump *p);
/* No on_end. NULL is fine. */
struct transport_pump *transport_pump_free(struct transport_pump *p);
