/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a sandbox: which there are, and sockets that lead to them. */
#include "engine/front/inside/inside_files.h"

#include <sys/socket.h>

int engine_connect(struct engine_sandbox *s, uint16_t port, engine_fd_fn cb, void *user,
		   struct err *e)
{
	struct inside_file_op *o = NULL;

	if (s->inward)
		return err_set(e, ERR_PORT_UNAVAILABLE, 0,
			       "in a sandbox under gVisor no port can be reached from outside");
	const int r = inside_file_ask(s, PROTO_FILE_CONNECT, 0, port, "", &o, e);
	if (r < 0 || !o)
		return r;
	o->port = port;
	o->cb.fd = cb;
	o->user = user;
	return 0;
}

int engine_list_ports(struct engine_sandbox *s, engine_ports_fn cb, void *user, struct err *e)
{
	struct inside_file_op *o = NULL;

	if (s->inward)
		return err_set(e, ERR_PORT_UNAVAILABLE, 0,
			       "the ports of a sandbox under gVisor cannot be seen from outside");
	const int r = inside_file_ask(s, PROTO_FILE_PORTS, 0, 0, "", &o, e);
	if (r < 0 || !o)
		return r;
	o->cb.ports = cb;
	o->user = user;
	return 0;
}

int engine_answer_health(struct engine_sandbox *s, uint16_t port)
{
	const struct proto_init_health m = {.head = PROTO_HEAD(INIT_HEALTH, proto_init_health),
					    .port = port};

	return s->state == INSIDE_READY && s->init ? channel_send(s->init, &m.head, NULL, 0)
						   : -ESRCH;
}

/* Only a socket of TCP. The sandbox keeps it, too, and may change it at any time, so nobody may rely on its flags. */
int inside_check_socket(int fd)
{
	int type = 0, domain = 0;
	socklen_t size = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM ||
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0)
		return -EPROTO;
	return domain == AF_INET || domain == AF_INET6 ? 0 : -EPROTO;
}

int inside_finish_ports(struct inside_file_op *o, const struct proto_init_filed *m,
			const struct err *e, const int *fds, size_t n)
{
	struct engine_port ports[PROTO_PORTS_MAX];
	struct err lie = ERR_INIT;

	if (e || n != 1 || inside_read_ports(fds[0], m->n, ports) < 0) {
		(void)err_set(&lie, ERR_SANDBOX_LOST, 0, "the sandbox broke the protocol");
		o->cb.ports(NULL, 0, e ? e : &lie, o->user);
		return e && n == 0 ? 0 : -EPROTO;
	}
	o->cb.ports(ports, m->n, NULL, o->user);
	return 0;
}
