/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake with a server in a sandbox that speaks TLS. It is over before the relay begins. */
#include "api/ports/ports.h"

#include "base/fdio.h"
#include "base/loop.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define SHAKE_S 10 /* the server may have one thread, which is busy */

void port_tls_done(struct exchange *x)
{
	x->shaking = sd_event_source_disable_unref(x->shaking);
	x->late = sd_event_source_disable_unref(x->late);
}

static void refuse(struct exchange *x, enum err_code code, const char *what)
{
	char why[300];

	(void)snprintf(why, sizeof(why),
		       "port %u is one of the https_ports of the sandbox, and the server there %s; "
		       "let it serve HTTPS, or make a sandbox without this port in https_ports",
		       x->port, what);
	port_refuse(x, code, why);
}

static int on_late(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	char what[60];

	(void)snprintf(what, sizeof(what), "has not answered in TLS for %d seconds", SHAKE_S);
	refuse(user, ERR_GATEWAY_TIMEOUT, what);
	return 0;
}

/* The connection is there. */
static int begin(struct exchange *x)
{
	_cleanup_(buf_done) struct buf name = BUF_INIT(HTTP_BASE_SIZE);
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(x->relay.io.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error != 0)
		return -error;
	if (port_find_name(x, &name) < 0 ||
	    http_tls_client_begin(&x->relay.io, x->tls, buf_str(&name)) < 0)
		return -ENOMEM;
	x->shakes = true;
	return 0;
}

static int on_event(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED,
		    void *user)
{
	struct exchange *x = user;

	loop_work("port", "handshake");
	int r = x->shakes ? 0 : begin(x);
	r = r < 0 ? r : http_tls_client_shake(&x->relay.io);
	if (r == -EAGAIN) {
		(void)sd_event_source_set_io_events(x->shaking,
						    x->relay.io.wants_room ? EPOLLOUT : EPOLLIN);
	} else if (r == -ENOMEM) {
		port_refuse(x, ERR_OUT_OF_MEMORY, "no memory");
	} else if (r < 0) {
		refuse(x, ERR_BAD_GATEWAY,
		       x->shakes ? "does not speak TLS, or none that this server speaks (1.2 and "
				   "1.3, RSA up to 8192 bits, certificates "
				   "up to 8 KiB in all)"
				 : "did not take the connection");
	} else {
		port_tls_done(x);
		port_send(x);
	}
	return 0;
}

void port_begin_tls(struct exchange *x)
{
	sd_event *loop = x->relay.loop;
	int r = sd_event_add_io(loop, &x->shaking, x->relay.io.fd, EPOLLOUT, on_event, x);

	r = r < 0 ? r
		  : sd_event_add_time_relative(loop, &x->late, CLOCK_MONOTONIC,
					       UINT64_C(1000) * 1000 * SHAKE_S, 0, on_late, x);
	if (r < 0)
		port_refuse(x, ERR_OUT_OF_MEMORY, "no memory");
}
