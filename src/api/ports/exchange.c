/* SPDX-License-Identifier: Apache-2.0 */
/* The routes, and the first half of an exchange: finding the sandbox, connecting, and the request. Whatever has begun goes on
 * when the client has left, and ends by itself: REQ is NULL then. */
#include "api/ports/ports.h"
#include "base/fdio.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/text.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Until the head of the answer: longer than any server of a page should take. One that runs in a thread of a session rests
 * with it. */
#define ANSWER_US (UINT64_C(120) * 1000 * 1000)
/* A body of chunks may come in thousands of small pieces at once. They wait for each other: to send each would make a long turn
 * of the loop. */
#define GATHER_BYTES (16u << 10)
#define CONNECT_MS   10000 /* until the server must have accepted */

/* ---- the connection ---- */

static void close_connection(struct exchange *x)
{
	const struct linger off = {0};

	x->io = sd_event_source_disable_unref(x->io);
	x->patience = sd_event_source_disable_unref(x->patience);
	if (x->fd < 0)
		return;
	/* The sandbox has the socket, too. With SO_LINGER a close would wait: socket(7). */
	(void)setsockopt(x->fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
	x->fd = fd_close(x->fd);
}

void port_free(struct exchange *x)
{
	close_connection(x);
	list_remove(&x->node);
	buf_done(&x->out);
	buf_done(&x->in);
	budget_give(&x->share);
	if (x->held)
		sandbox_release(x->sandbox, &x->hold);
	(void)sandbox_unref(x->sandbox);
	free(x);
}

void port_refuse(struct exchange *x, enum err_code code, const char *why)
{
	if (x->req && !(x->face && x->face->refuse(x->face->user, x->req, x->id, x->port, code)))
		http_respond_problem(x->req, code, why, NULL);
	port_free(x);
}

static void on_ended(struct sandbox_hold *h)
{
	CONTAINER_OF(h, struct exchange, hold)->held = false;
}

/* ---- events ---- */

static void watch(struct exchange *x, uint32_t events)
{
	if (events == x->wanted)
		return;
	x->wanted = events;
	(void)sd_event_source_set_io_events(x->io, events);
	/* The end of a connection is told without being asked for, again and again: nobody listens who wants nothing. */
	(void)sd_event_source_set_enabled(x->io, events ? SD_EVENT_ON : SD_EVENT_OFF);
}

void port_want(struct exchange *x, uint32_t events)
{
	watch(x, x->wanted | events);
}

void port_stop_wanting(struct exchange *x, uint32_t events)
{
	watch(x, x->wanted & ~events);
}

bool port_flush(struct exchange *x)
{
	const unsigned no_timeout = 0;

	while (x->out.len > 0 && !x->deaf) {
		const ssize_t n = send(x->fd, x->out.data, x->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
			port_want(x, EPOLLOUT);
			return false;
		}
		if (n < 0 && errno != EINTR)
			x->deaf = true; /* whether it has answered is seen by reading */
		/* It is connected. That time would also count while a server reads nothing, which it may: tcp(7). */
		if (n > 0 && !x->connected) {
			x->connected = true;
			(void)setsockopt(x->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &no_timeout,
					 sizeof(no_timeout));
		}
		buf_consume(&x->out, n < 0 ? 0 : (size_t)n);
	}
	buf_done(&x->out);
	port_stop_wanting(x, EPOLLOUT);
	if (x->client_ended)
		(void)shutdown(x->fd, SHUT_WR);
	return true;
}

static int on_io(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents, void *user)
{
	struct exchange *x = user;

	loop_work("port", "bytes");
	if ((revents & EPOLLOUT) && port_flush(x) && x->body_waits) {
		x->body_waits = false;
		if (x->socket)
			http_socket_resume(x->socket);
		else if (x->req)
			http_request_resume_body(x->req);
	}
	if (revents & ~(uint32_t)EPOLLOUT)
		port_read(x);
	return 0;
}

static int on_silence(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct exchange *x = user;

	x->patience = sd_event_source_disable_unref(x->patience);
	if (x->req)
		port_refuse(x, ERR_GATEWAY_TIMEOUT,
			    "the server has taken the connection and sent nothing for two minutes");
	return 0;
}

/* ---- the request's body ---- */

static int add_piece(struct exchange *x, const void *data, size_t len)
{
	char line[24];
	int r = 0;

	if (x->chunked) {
		const int n = snprintf(line, sizeof(line), "%zx\r\n", len);

		r = buf_add(&x->out, line, (size_t)n);
	}
	r = r < 0 ? r : buf_add(&x->out, data, len);
	return r < 0 || !x->chunked ? r : buf_add_str(&x->out, "\r\n");
}

static int on_body(struct http_request *req, const void *data, size_t len, void *user)
{
	struct exchange *x = user;
	/* The server has until the end of the request, and then some time. */
	(void)sd_event_source_set_time_relative(x->patience, ANSWER_US);
	const int r = data         ? add_piece(x, data, len)
		      : x->chunked ? buf_add_str(&x->out, "0\r\n\r\n")
				   : 0;

	if (r < 0) {
		port_refuse(x, ERR_OUT_OF_MEMORY, "no memory");
		return r;
	}
	if (x->out.len < GATHER_BYTES) {
		port_want(x, EPOLLOUT); /* which goes on in the next turn of the loop */
		return 0;
	}
	if (!port_flush(x) && data && x->out.len >= PORT_OUT_MAX) {
		x->body_waits = true;
		http_request_pause_body(req, 0);
	}
	return 0;
}

/* ---- the beginning ---- */

static void on_connected(int fd, const struct err *e, void *user)
{
	struct exchange *x = user;
	const unsigned timeout = CONNECT_MS;

	x->fd = fd;
	if (!x->req || e) {
		port_refuse(x, e ? e->code : ERR_CANCELLED, e ? e->text : "");
		return;
	}
	if (!port_is_welcome(x)) {
		port_refuse(x, ERR_UNAUTHORIZED, "this port is not public any more");
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
	x->wanted = EPOLLIN;
	if (sd_event_add_io(x->loop, &x->io, fd, x->wanted, on_io, x) < 0 ||
	    sd_event_add_time_relative(x->loop, &x->patience, CLOCK_MONOTONIC, ANSWER_US,
				       ANSWER_US / 8, on_silence, x) < 0 ||
	    port_write_request(x) < 0) {
		port_refuse(x, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	(void)port_flush(x);
	if (http_request_body_length(x->req) > 0)
		http_request_read_body(x->req, on_body, x);
}

static void on_sandbox(struct sandbox *s, const struct err *e, void *user)
{
	struct exchange *x = user;
	struct err failed = ERR_INIT;

	if (!x->req || e) {
		port_refuse(x, e ? e->code : ERR_CANCELLED, e ? e->text : "");
		return;
	}
	/* What strangers do keeps no sandbox alive. */
	const bool own = list_is_empty(&x->node);
	x->sandbox = sandbox_ref(s);
	if (sandbox_connect(s, x->port, own, on_connected, x, &failed) < 0) {
		port_refuse(x, failed.code, failed.text);
		return;
	}
	if (!own)
		return;
	x->hold.ended = on_ended;
	sandbox_hold(s, &x->hold);
	x->held = true;
}

static void on_gone(void *user)
{
	struct exchange *x = user;

	x->req = NULL;
	if (x->io) /* else a callback is on its way */
		port_free(x);
}

bool port_may_use(struct http_request *req, const struct caller *who)
{
	if (who->read_only)
		http_respond_problem(req, ERR_FORBIDDEN, "this key may only read", NULL);
	else if (!auth_may_change(who, "openPort"))
		http_respond_problem(req, ERR_FORBIDDEN, "this key is for the tools of one profile",
				     NULL);
	else
		return true;
	return false;
}

void port_begin(struct api *a, struct http_request *req, const struct port_visit *v)
{
	struct err e = ERR_INIT;
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	list_init(&x->node);
	buf_init(&x->out, PORT_BUF_MAX);
	buf_init(&x->in, PORT_BUF_MAX);
	x->fd = -1;
	x->req = req;
	x->loop = a->config.loop;
	x->auth = a->config.auth;
	x->face = v->face;
	x->port = v->name.port;
	x->own_name = v->base[0] == '\0';
	(void)snprintf(x->id, sizeof(x->id), "%s", v->name.id);
	(void)snprintf(x->base, sizeof(x->base), "%s", v->base);
	/* ENGINE_EGRESS_PORT is the way out of the sandbox, and no server of it. */
	if (x->port == ENGINE_EGRESS_PORT) {
		port_refuse(x, v->face ? ERR_PORT_CLOSED : ERR_INVALID_ARGUMENT,
			    "this port is the sandbox's way out");
		return;
	}
	const int r = v->open ? port_admit_stranger(a, x, v->open, &e)
			      : budget_take(a->config.budgets, v->owner, BUDGET_PORT_REQUESTS, 1,
					    &x->share, &e);
	if (r < 0) {
		port_refuse(x, e.code, e.text);
		return;
	}
	http_request_on_gone(req, on_gone, x);
	if (v->open)
		on_sandbox(v->open, NULL, x);
	else
		manager_activate(a->config.manager, v->owner, v->name.id, on_sandbox, x);
}

/* Relative links need the slash. */
static void add_slash(struct http_request *req, void *user UNUSED)
{
	const char *query = http_request_raw_query(req);
	char prefix[HTTP_PREFIX_MAX + 1];
	_cleanup_(buf_done) struct buf to = BUF_INIT(PORT_HEAD_MAX);

	http_request_prefix(req, prefix);
	if (buf_printf(&to, "%s%s/%s%s", prefix, http_request_path(req), query ? "?" : "",
		       query ? query : "") < 0 ||
	    http_add_header(req, "Location", buf_str(&to)) < 0)
		http_respond_problem(req, ERR_BAD_REQUEST, "the address is too long", NULL);
	else
		http_respond(req, 308, NULL, NULL, 0);
}

static void on_path(struct http_request *req, void *user)
{
	const struct caller *who = auth_caller(req);
	const char *id = http_request_param(req, "sandbox");
	char prefix[HTTP_PREFIX_MAX + 1], base[PORT_PATH_MAX];
	struct port_name n;
	uint64_t port;

	if (!port_may_use(req, who))
		return;
	if (parse_u64(http_request_param(req, "port"), 1, 65535, &port) < 0) {
		http_respond_problem(req, ERR_INVALID_ARGUMENT, "a port is 1 to 65535", NULL);
		return;
	}
	n.port = (uint16_t)port;
	if (text_copy(n.id, sizeof(n.id), id) < 0) {
		http_respond_problem(req, ERR_SESSION_NOT_FOUND, "no sandbox has such an id", NULL);
		return;
	}
	if (http_request_header(req, "service-worker")) {
		http_respond_problem(req, ERR_FORBIDDEN,
				     "a service worker would act for all of this server", NULL);
		return;
	}
	http_request_prefix(req, prefix);
	(void)snprintf(base, sizeof(base), "%.120s/p/%s/%u", prefix, n.id, n.port);
	const struct port_visit v = {.owner = who->owner, .name = n, .base = base};
	port_begin(user, req, &v);
}

#define ALL_METHODS                                                                                \
	(HTTP_GET | HTTP_HEAD | HTTP_POST | HTTP_PUT | HTTP_DELETE | HTTP_PATCH | HTTP_OPTIONS)

static const struct http_route paths[] = {
    {HTTP_GET, "/p/{sandbox}/{port}", add_slash, HTTP_ROUTE_AUTH, 0},
    {ALL_METHODS, "/p/{sandbox}/{port}/{path...}", on_path,
     HTTP_ROUTE_AUTH | HTTP_ROUTE_STREAM_BODY | HTTP_ROUTE_ANY_TAIL, UINT64_MAX},
};

static const struct http_route names[] = {
    {ALL_METHODS, "/{path...}", port_on_name, HTTP_ROUTE_STREAM_BODY | HTTP_ROUTE_ANY_TAIL,
     UINT64_MAX},
};

int ports_add_routes(struct api *a, struct http_server *http, unsigned scopes)
{
	int r = http_server_add_routes(http, paths, ARRAY_SIZE(paths), scopes, a);

	crypto_generichash_keygen(a->port_key);
	if (r == 0 && (scopes & HTTP_SCOPE_MAIN))
		r = http_server_add_routes(http, names, ARRAY_SIZE(names), HTTP_SCOPE_PORTS, a);
	return r;
}
