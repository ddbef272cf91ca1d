/* SPDX-License-Identifier: Apache-2.0 */
/* The routes, and how an exchange begins: finding the sandbox, connecting, and the head of the request. Whatever has begun goes
 * on when the client has left, and ends by itself: the relay has no request then. */
#include "api/ports/ports.h"
#include "base/parse.h"
#include "base/text.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

/* Until the head of the answer: longer than any server of a page should take. One that runs in a thread of a session rests
 * with it. */
#define ANSWER_US  (UINT64_C(120) * 1000 * 1000)
#define CONNECT_MS 10000 /* until the server must have accepted */

/* ---- the end ---- */

static void release(struct exchange *x)
{
	port_tls_done(x);
	relay_done(&x->relay);
	list_remove(&x->node);
	budget_give(&x->share);
	if (x->held)
		sandbox_release(x->sandbox, &x->hold);
	(void)sandbox_unref(x->sandbox);
	free(x);
}

void port_refuse(struct exchange *x, enum err_code code, const char *why)
{
	struct http_request *req = x->relay.req;

	if (req && !(x->face && x->face->refuse(x->face->user, req, x->id, x->port, code)))
		http_respond_problem(req, code, why, NULL);
	release(x);
}

static void on_failed(struct relay *relay, enum err_code code, const char *why)
{
	port_refuse(CONTAINER_OF(relay, struct exchange, relay), code, why);
}

static void on_over(struct relay *relay)
{
	release(CONTAINER_OF(relay, struct exchange, relay));
}

static const struct relay_ops relay_ops = {
    .failed = on_failed,
    .ended = on_over,
    .add_fields = port_add_fields,
    .work = "port",
};

static void on_ended(struct sandbox_hold *h)
{
	CONTAINER_OF(h, struct exchange, hold)->held = false;
}

/* ---- the beginning ---- */

void port_send(struct exchange *x)
{
	struct http_io io = x->relay.io;

	if (!port_is_welcome(x))
		port_refuse(x, ERR_UNAUTHORIZED, "this port is not public any more");
	else if (port_write_request(x) < 0)
		port_refuse(x, ERR_OUT_OF_MEMORY, "no memory");
	else
		relay_begin(&x->relay, &io);
}

static void on_connected(int fd, const struct err *e, void *user)
{
	struct exchange *x = user;
	const unsigned timeout = CONNECT_MS;
	struct http_io io = {.ops = &http_plain_io, .fd = fd};

	x->relay.io = io; /* so that it is closed */
	if (!x->relay.req || e) {
		port_refuse(x, e ? e->code : ERR_CANCELLED, e ? e->text : "");
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
	x->relay.connecting = true;
	if (x->tls)
		port_begin_tls(x);
	else
		port_send(x);
}

static void on_sandbox(struct sandbox *s, const struct err *e, void *user)
{
	struct exchange *x = user;
	struct err failed = ERR_INIT;

	if (!x->relay.req || e) {
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

	/* A callback of the engine cannot be taken back; a handshake can. */
	if (relay_client_left(&x->relay) || x->shaking)
		release(x);
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
	relay_init(&x->relay, &relay_ops, a->config.loop, req);
	x->relay.answer_us = ANSWER_US;
	x->auth = a->config.auth;
	x->face = v->face;
	x->port = v->name.port;
	if (a->port_face.speaks_tls &&
	    a->port_face.speaks_tls(a->port_face.user, v->name.id, x->port))
		x->tls = a->config.port_tls;
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
	_cleanup_(buf_done) struct buf to = BUF_INIT(RELAY_HEAD_MAX);

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
