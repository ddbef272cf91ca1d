/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge.h"

#include "base/fdio.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "transport/transport.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CLIENTS_MAX      256u
#define ACCEPTS_PER_TURN 16
#define HELLO_WAIT_NS    NS_PER_S
#define PAUSE_NS         (100 * NS_PER_MS) /* pause of accept(2) when no descriptor is left */

struct client {
	struct list node;
	struct bridge_server *server;
	int fd;
	int in_fd, out_fd;        /* the client's own, if it passed them; else -1 */
	sd_event_source *io;      /* for its hello, BRIDGE_GO and its end */
	sd_event_source *timeout; /* runs until it is served */
	union {
		struct bridge_hello head;
		char bytes[sizeof(struct bridge_hello)];
	} hello;
	char *body;
	size_t have; /* bytes of head and body */
	struct transport_stdio *transport;
};

struct bridge_server {
	struct app *app;
	struct bridge_socket *socket;
	sd_event_source *accept;
	sd_event_source *pause;
	struct list clients;
	unsigned n_clients;
	bool finishing;
};

static void drop_client(struct client *c)
{
	list_remove(&c->node);
	c->server->n_clients--;
	(void)sd_event_source_disable_unref(c->io);
	(void)sd_event_source_disable_unref(c->timeout);
	transport_stdio_free(c->transport);
	(void)fd_close(c->fd);
	(void)fd_close(c->in_fd);
	(void)fd_close(c->out_fd);
	free(c->body);
	free(c);
}

/* ---- a client that is in ---- */

static bool has_passed(const struct client *c)
{
	return c->in_fd >= 0;
}

static void on_end(int reason, void *userdata)
{
	struct client *c = userdata;
	const char bye = BRIDGE_BYE;

	LOG_DEBUG("bridge_client_gone", LOG_I("reason", reason));
	if (has_passed(c) && !c->server->finishing)
		(void)send(c->fd, &bye, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	drop_client(c);
}

/* A client that passed its descriptors sends nothing more. End of file means that it got a signal,
 * which is treated as the end of its input. A hang-up means that it died. */
static int on_client(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct client *c = userdata;
	char byte;

	loop_work("bridge", "client");
	if ((events & (EPOLLHUP | EPOLLERR)) || recv(fd, &byte, 1, MSG_DONTWAIT) > 0) {
		drop_client(c);
		return 0;
	}
	(void)sd_event_source_set_io_events(source, 0); /* EPOLLHUP is reported anyway */
	transport_stdio_finish(c->transport);
	return 0;
}

static bool answer(const struct client *c, bool accepted, const char *why)
{
	struct bridge_answer a = {
	    .magic = BRIDGE_MAGIC, .version = BRIDGE_VERSION, .accepted = accepted};

	(void)snprintf(a.why, sizeof(a.why), "%s", why);
	return send(c->fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(a);
}

static void serve(struct client *c)
{
	struct transport_stdio_config config = {
	    .loop = c->server->app->loop,
	    .mcp = c->server->app->mcp,
	    .in_fd = has_passed(c) ? c->in_fd : c->fd,
	    .out_fd = has_passed(c) ? c->out_fd : c->fd,
	    .on_end = on_end,
	    .userdata = c,
	    .reader = {.max_message = app_max_message(c->server->app),
		       .budgets = c->server->app->budgets},
	};

	c->io = sd_event_source_disable_unref(c->io);
	c->timeout = sd_event_source_disable_unref(c->timeout);
	int r = transport_stdio_new(&config, &c->transport);
	if (r >= 0 && has_passed(c))
		r = sd_event_add_io(config.loop, &c->io, c->fd, EPOLLIN, on_client, c);
	if (r < 0) {
		drop_client(c);
		return;
	}
	LOG_DEBUG("bridge_client", LOG_U("clients", c->server->n_clients));
}

static int on_go(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *userdata)
{
	struct client *c = userdata;
	char byte = 0;
	const ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n == 1 && byte == BRIDGE_GO && !c->server->finishing)
		serve(c);
	else
		drop_client(c);
	return 0;
}

/* Sends the answer before the transport may write. */
static void let_in(struct client *c)
{
	free(TAKE_PTR(c->body));
	c->io = sd_event_source_disable_unref(c->io);
	if (!answer(c, true, ""))
		drop_client(c);
	else if (!has_passed(c))
		serve(c);
	else if (sd_event_add_io(c->server->app->loop, &c->io, c->fd, EPOLLIN, on_go, c) < 0)
		drop_client(c);
}

static void judge(struct client *c)
{
	char why[BRIDGE_WHY_MAX] = "";

	if (c->server->finishing)
		(void)snprintf(why, sizeof(why), "the server is about to end");
	else if (bridge_judge(c->server->app, c->body, c->hello.head.length, why)) {
		let_in(c);
		return;
	}
	LOG_DEBUG("bridge_refused", LOG_S("reason", why));
	(void)answer(c, false, why);
	drop_client(c);
}

/* ---- the hello ---- */

/* The head is complete: makes room for the body. */
static bool take_head(struct client *c)
{
	const struct bridge_hello *h = &c->hello.head;

	if (memcmp(h->magic, BRIDGE_MAGIC, sizeof(h->magic)) != 0 || h->length == 0 ||
	    h->length > BRIDGE_BODY_MAX)
		return false;
	if (h->version != BRIDGE_VERSION) {
		(void)answer(c, false, "the server speaks another version of the hello");
		return false;
	}
	c->body = malloc(h->length);
	return c->body != NULL;
}

/* Can FD be read or written without blocking? */
static bool is_usable(int fd, int mode)
{
	const int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0)
		return false;
	if (S_ISSOCK(st.st_mode))
		return true;
	return S_ISFIFO(st.st_mode) && (flags & O_NONBLOCK) && (flags & O_ACCMODE) == mode;
}

/* Like recv(2). Descriptors must come once and all together; otherwise the client is not `caisson
 * stdio`. */
static ssize_t receive(struct client *c, void *ret, size_t len)
{
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	const ssize_t n = fd_recv(c->fd, ret, len, fds, &n_fds, MSG_DONTWAIT);

	if (n <= 0 || n_fds == 0)
		return n;
	if (n_fds != BRIDGE_N_FDS || has_passed(c) || !is_usable(fds[0], O_RDONLY) ||
	    !is_usable(fds[1], O_WRONLY)) {
		fd_close_many(fds, n_fds);
		return -EPROTO;
	}
	c->in_fd = fds[0];
	c->out_fd = fds[1];
	return n;
}

static int on_hello(sd_event_source *source UNUSED, int fd UNUSED, uint32_t events UNUSED,
		    void *userdata)
{
	struct client *c = userdata;
	const size_t head = sizeof(c->hello);

	/* Reads no byte after the hello, because those belong to the transport. */
	for (;;) {
		char *to = c->have < head ? c->hello.bytes + c->have : c->body + (c->have - head);
		const size_t whole = c->have < head ? head : head + c->hello.head.length;
		const ssize_t n = receive(c, to, whole - c->have);

		if (n == -EAGAIN || n == -EINTR)
			return 0;
		if (n <= 0) {
			drop_client(c);
			return 0;
		}
		c->have += (size_t)n;
		if (c->have == head && !take_head(c)) {
			drop_client(c);
			return 0;
		}
		if (c->have > head && c->have == head + c->hello.head.length) {
			judge(c);
			return 0;
		}
	}
}

static int on_late(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *userdata)
{
	drop_client(userdata);
	return 0;
}

/* ---- accepting ---- */

static bool is_ours(const struct bridge_server *b, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && len == sizeof(peer) &&
	       peer.uid == b->socket->uid;
}

/* Owns TAKEN, also if it fails. */
static void add_client(struct bridge_server *b, int taken)
{
	_cleanup_fd_ int fd = taken;
	sd_event *loop = b->app->loop;

	if (!is_ours(b, fd) || b->n_clients >= CLIENTS_MAX)
		return;
	struct client *c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->server = b;
	c->in_fd = c->out_fd = -1;
	c->fd = TAKE_FD(fd);
	list_append(&b->clients, &c->node);
	b->n_clients++;
	if (sd_event_add_io(loop, &c->io, c->fd, EPOLLIN, on_hello, c) < 0 ||
	    sd_event_add_time_relative(loop, &c->timeout, CLOCK_MONOTONIC,
				       HELLO_WAIT_NS / NS_PER_US, 0, on_late, c) < 0)
		drop_client(c);
}

static int on_pause_over(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *userdata)
{
	struct bridge_server *b = userdata;

	return b->accept ? sd_event_source_set_enabled(b->accept, SD_EVENT_ON) : 0;
}

/* A connection that cannot be accepted stays in the backlog, and epoll would report it again at once,
 * without end. So accepting pauses. */
static void pause_accepting(struct bridge_server *b)
{
	(void)sd_event_source_set_enabled(b->accept, SD_EVENT_OFF);
	(void)sd_event_source_set_time_relative(b->pause, PAUSE_NS / NS_PER_US);
	(void)sd_event_source_set_enabled(b->pause, SD_EVENT_ONESHOT);
}

static int on_accept(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *userdata)
{
	struct bridge_server *b = userdata;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		/* cppcheck-suppress nullPointer; accept(2) allows it */
		const int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (client >= 0)
			add_client(b, client);
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR && errno != ECONNABORTED) {
			pause_accepting(b);
			break;
		}
	}
	return 0;
}

/* ---- life ---- */

int bridge_server_new(struct app *a, struct bridge_socket *socket, struct bridge_server **ret,
		      struct err *e)
{
	struct bridge_server *b = calloc(1, sizeof(*b));

	if (!b)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the bridge");
	b->app = a;
	b->socket = socket;
	list_init(&b->clients);
	int r =
	    sd_event_add_time_relative(a->loop, &b->pause, CLOCK_MONOTONIC, 0, 0, on_pause_over, b);
	r = r < 0 ? r : sd_event_source_set_enabled(b->pause, SD_EVENT_OFF);
	r = r < 0 ? r : sd_event_add_io(a->loop, &b->accept, socket->fd, EPOLLIN, on_accept, b);
	if (r < 0) {
		bridge_server_free(b);
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	}
	*ret = b;
	return 0;
}

void bridge_server_finish(struct bridge_server *b)
{
	if (!b || b->finishing)
		return;
	b->finishing = true;
	b->accept = sd_event_source_disable_unref(b->accept);
	list_for_each(node, &b->clients) {
		struct client *c = list_entry(node, struct client, node);

		/* on_end() is called later from the loop, so the list does not change here. */
		if (c->transport)
			transport_stdio_finish(c->transport);
	}
}

unsigned bridge_server_busy(const struct bridge_server *b)
{
	return b ? b->n_clients : 0;
}

struct bridge_server *bridge_server_free(struct bridge_server *b)
{
	if (!b)
		return NULL;
	while (!list_is_empty(&b->clients))
		drop_client(list_entry(b->clients.next, struct client, node));
	(void)sd_event_source_disable_unref(b->accept);
	(void)sd_event_source_disable_unref(b->pause);
	free(b);
	return NULL;
}
