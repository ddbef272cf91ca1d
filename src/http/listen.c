/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets: addresses, unix sockets, descriptors from outside. */
#include "http/internal.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 1024

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

static int add_listener(struct http_server *s, int fd, unsigned scopes, bool is_unix,
			struct http_listener **ret)
{
	struct http_listener *l = calloc(1, sizeof(*l));
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = l};

	if (!l)
		return -ENOMEM;
	l->what = HTTP_IS_LISTENER;
	l->server = s;
	l->fd = fd;
	l->scopes = scopes;
	l->is_unix = is_unix;
	if (epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		const int r = -errno;

		free(l);
		return r;
	}
	l->next = s->listeners;
	s->listeners = l;
	*ret = l;
	return 0;
}

static int parse_address(const char *host, uint16_t port, union address *ret, socklen_t *ret_len)
{
	if (streq(host, "localhost"))
		host = "127.0.0.1";
	*ret = (union address){0};
	if (inet_pton(AF_INET, host, &ret->in.sin_addr) == 1) {
		ret->in.sin_family = AF_INET;
		ret->in.sin_port = htons(port);
		*ret_len = sizeof(ret->in);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &ret->in6.sin6_addr) == 1) {
		ret->in6.sin6_family = AF_INET6;
		ret->in6.sin6_port = htons(port);
		*ret_len = sizeof(ret->in6);
		return 0;
	}
	return -EINVAL;
}

static uint16_t bound_port(int fd)
{
	union address addr = {0};
	socklen_t len = sizeof(addr);

	if (getsockname(fd, &addr.any, &len) < 0)
		return 0;
	return ntohs(addr.any.sa_family == AF_INET6 ? addr.in6.sin6_port : addr.in.sin_port);
}

int http_server_listen(struct http_server *s, const char *host, uint16_t port, unsigned scopes,
		       uint16_t *ret_port, struct http_listener **ret, struct err *e)
{
	union address addr;
	socklen_t len;
	_cleanup_fd_ int fd = -1;
	const int one = 1;
	int r;

	if (parse_address(host, port, &addr, &len) < 0)
		return err_set(e, ERR_SETTING_INVALID, EINVAL, "'%s' is no address to listen on",
			       host);
	fd = socket(addr.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "socket for %s", host);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (addr.any.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, &addr.any, len) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, ERR_SYSTEM, errno, "listen on %s port %u", host, port);
	r = add_listener(s, fd, scopes, false, ret);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "watch the listener of %s port %u", host, port);
	if (ret_port)
		*ret_port = bound_port(fd);
	TAKE_FD(fd);
	return 0;
}

/* A socket file whose owner is dead refuses connections. */
static bool is_dead_socket(const union address *addr, socklen_t len)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, &addr->any, len) < 0 && errno == ECONNREFUSED;
}

int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode, unsigned scopes,
			    struct http_listener **ret, struct err *e)
{
	union address addr = {.un = {.sun_family = AF_UNIX}};
	const socklen_t len = sizeof(addr.un);
	_cleanup_fd_ int fd = -1;
	struct http_listener *l;
	struct stat st;
	mode_t old;
	int r;

	if (text_copy(addr.un.sun_path, sizeof(addr.un.sun_path), path) < 0)
		return err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "socket path '%s'", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "socket for '%s'", path);
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && is_dead_socket(&addr, len))
		(void)unlink(path);
	/* The file is born with its mode: no moment in which others may connect. */
	old = umask(0777 & ~mode);
	r = bind(fd, &addr.any, len) < 0 ? -errno : 0;
	(void)umask(old);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "bind '%s'", path);
	if (listen(fd, BACKLOG) < 0 || lstat(path, &st) < 0)
		return err_set(e, ERR_SYSTEM, errno, "listen on '%s'", path);
	r = add_listener(s, fd, scopes, true, &l);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "watch the listener of '%s'", path);
	TAKE_FD(fd);
	l->path = strdup(path);
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	*ret = l;
	return 0;
}

int http_server_listen_fd(struct http_server *s, int fd, unsigned scopes,
			  struct http_listener **ret)
{
	union address addr = {0};
	socklen_t len = sizeof(addr);

	if (getsockname(fd, &addr.any, &len) < 0)
		return -errno;
	return add_listener(s, fd, scopes, addr.any.sa_family == AF_UNIX, ret);
}

void http_listener_close(struct http_listener *l)
{
	struct http_listener **p = &l->server->listeners;
	struct stat st;

	while (*p != l)
		p = &(*p)->next;
	*p = l->next;
	/* Only our own file: another instance may have put its socket there since. */
	if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		(void)unlink(l->path);
	l->fd = fd_close(l->fd);
	free(l->path);
	/* An event for it may be in the batch that is being handled: freed at the end of its turn.
	 */
	l->next = l->server->dead_listeners;
	l->server->dead_listeners = l;
	server_schedule(l->server);
}
