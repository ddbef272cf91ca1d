/* SPDX-License-Identifier: Apache-2.0 */
/* Listening TCP sockets. */
#include "http/connection.h"

#include "base/text.h"
#include "http/socket_address.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define BACKLOG 1024
#define LOCALHOST_TRIES                                                                            \
	8 /* any port that is free on one loopback address may be taken on the other */

static int add_listener(struct http_server *s, int fd, unsigned scopes, struct http_listener **ret)
{
	struct http_listener *l = calloc(1, sizeof(*l));
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = l};

	if (!l)
		return -ENOMEM;
	l->what = HTTP_IS_LISTENER;
	l->server = s;
	l->fd = fd;
	l->scopes = scopes;
	if (epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		const int r = -errno;

		free(l);
		return r;
	}
	list_prepend(&s->listeners, &l->node);
	*ret = l;
	return 0;
}

static int listen_on(struct http_server *s, const char *host, uint16_t port, unsigned scopes,
		     uint16_t *ret_port, struct http_listener **ret, struct err *e)
{
	union http_address addr;
	socklen_t len;
	_cleanup_fd_ int fd = -1;
	const int one = 1;
	int r;

	if (http_address_parse(host, port, &addr, &len) < 0)
		return err_set(e, ERR_SETTING_INVALID, 0, "'%s' is no address to listen on", host);
	fd = socket(addr.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "socket for %s", host);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (addr.any.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, &addr.any, len) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, ERR_SYSTEM, errno, "listen on %s port %u", host, port);
	r = add_listener(s, fd, scopes, ret);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "watch the listener of %s port %u", host, port);
	if (ret_port)
		*ret_port = http_address_local(fd, &addr) ? http_address_port(&addr) : 0;
	TAKE_FD(fd);
	return 0;
}

int http_server_listen_loopback6(struct http_server *s, uint16_t port, unsigned scopes,
				 struct err *e)
{
	struct http_listener *listener;
	const int r = listen_on(s, "::1", port, scopes, NULL, &listener, e);

	/* This machine has no such address. */
	return r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT ? 0 : r;
}

int http_server_listen(struct http_server *s, const char *host, uint16_t port, unsigned scopes,
		       uint16_t *ret_port, struct http_listener **ret, struct err *e)
{
	uint16_t bound = 0;
	int r;

	for (int tries = 0;; tries++) {
		r = listen_on(s, host, port, scopes, &bound, ret, e);
		if (r < 0)
			return r;
		r = streq(host, "localhost") ? http_server_listen_loopback6(s, bound, scopes, e)
					     : 0;
		if (r == 0)
			break;
		http_listener_close(*ret);
		if (port != 0 || r != -EADDRINUSE || tries == LOCALHOST_TRIES)
			return r;
	}
	if (ret_port)
		*ret_port = bound;
	return 0;
}

void http_listener_close(struct http_listener *l)
{
	list_remove(&l->node);
	l->fd = fd_close(l->fd);
	/* An event for this listener may be in the batch that is being handled, so it is freed at
	 * the end of the turn. */
	list_append(&l->server->dead_listeners, &l->node);
	server_schedule(l->server);
}
