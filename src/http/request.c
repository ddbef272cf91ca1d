/* SPDX-License-Identifier: Apache-2.0 */
/* What happens between a checked head and the handler: routing, Host, Origin, the auth hook,
 * limits, dispatch. */
#include "http/connection.h"

#include "base/kill_points.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "http/client_address.h"
#include "http/host_header.h"
#include "http/socket_address.h"

#include <stdio.h>
#include <string.h>

/* ---- life ---- */

/* Room for the head, the decoded path and the decoded query, each at most as long as the head. */
static struct http_request *request_new(struct http_conn *c, size_t head_len)
{
	const size_t text = 2 * head_len + 4;
	struct http_request *req = malloc(sizeof(*req) + text);

	if (!req)
		return NULL;
	memset(req, 0, sizeof(*req));
	req->conn = c;
	req->text = req->data;
	req->head_len = head_len;
	req->start_ns = now_ns();
	buf_init(&req->extra, HTTP_EXTRA_MAX);
	memcpy(req->text, c->in.data + c->in.off, head_len);
	return req;
}

void request_free(struct http_request *req)
{
	if (!req)
		return;
	buf_done(&req->extra);
	buf_done(&req->body.whole);
	if (req->caller_unref)
		req->caller_unref(req->caller);
	free(req);
}

void request_gone(struct http_conn *c)
{
	struct http_request *req = TAKE_PTR(c->req);

	if (req && req->on_gone)
		req->on_gone(req->gone_userdata);
	request_free(req);
}

void http_request_on_gone(struct http_request *req, void (*on_gone)(void *userdata), void *userdata)
{
	req->on_gone = on_gone;
	req->gone_userdata = userdata;
}

/* ---- headers of answers ---- */

#define ALLOW_SIZE 64

static const char *const method_names[] = {"GET",    "HEAD",  "POST",   "PUT",
					   "DELETE", "PATCH", "OPTIONS"};

const char *http_method_name(enum http_method method)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(method_names) && !((unsigned)method & (1u << i)))
		i++;
	return method_names[i];
}

/* Writes METHODS as "GET, HEAD". RET has ALLOW_SIZE bytes. */
static void list_methods(unsigned methods, char *ret)
{
	size_t n = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(method_names); i++)
		if (methods & (1u << i))
			n += (size_t)snprintf(ret + n, ALLOW_SIZE - n, "%s%s", n > 0 ? ", " : "",
					      method_names[i]);
}

static void add_allow(struct http_request *req, unsigned allow)
{
	char value[ALLOW_SIZE];

	list_methods(allow | HTTP_OPTIONS, value);
	(void)http_add_header(req, "Allow", value);
}

/* Headers for the page of an allowed origin. If one of them fails, the browser hides the answer from
 * its page. Nothing else depends on them. There is no Access-Control-Allow-Credentials: browsers add
 * no credential of this server by themselves. */
static void cors_add_headers(struct http_request *req)
{
	char methods[ALLOW_SIZE];

	(void)http_add_header(req, "Access-Control-Allow-Origin", req->origin);
	(void)http_add_header(req, "Vary", "Origin");
	if (req->head.method != HTTP_OPTIONS ||
	    !http_request_header(req, "access-control-request-method"))
		return;
	list_methods(req->match.allow | HTTP_OPTIONS, methods);
	(void)http_add_header(req, "Access-Control-Allow-Methods", methods);
	(void)http_add_header(req, "Access-Control-Allow-Headers",
			      "accept, authorization, content-type, x-api-key");
	(void)http_add_header(req, "Access-Control-Max-Age", "600");
}

/* ---- Host and Origin ---- */

static bool host_is_ours(const struct http_request *req, const char *local)
{
	const char *value = req->head.host ? req->text + req->head.host : NULL;
	struct http_host host;

	if (!value) /* HTTP/1.0 without Host: not from a browser, so no DNS rebinding */
		return true;
	return req->of_port || (http_host_parse(value, strlen(value), &host) == 0 &&
				http_host_is_ours(&host, local, req->conn->server->cfg.hosts));
}

static bool check_names(struct http_request *req)
{
	const unsigned flags = req->match.row ? req->match.row->flags : 0;
	const char *origin = http_request_header(req, "origin");
	char local[HTTP_ADDRESS_TEXT] = "";
	union http_address address;

	if (http_address_local(req->conn->io.fd, &address))
		http_address_text(&address, local);
	if (http_request_is_by_member(req) || !wall_stands(WALL_ORIGIN))
		return true;
	if (!(flags & HTTP_ROUTE_ANY_HOST) && !host_is_ours(req, local)) {
		http_respond_problem(req, ERR_FORBIDDEN,
				     "this server does not answer to the Host of the request; "
				     "permit the name with SANDBOX_ALLOWED_HOSTS or "
				     "SANDBOX_PUBLIC_URL",
				     NULL);
		return false;
	}
	if (!origin)
		return true;
	const bool main = !req->of_port;
	const struct http_origins may = {
	    .host = host_is_ours(req, local) ? http_request_header(req, "host") : NULL,
	    .hosts = main ? req->conn->server->cfg.hosts : NULL,
	    .origins = main ? req->conn->server->cfg.origins : NULL,
	    .pages = req->match.pages ? req->conn->server->cfg.page_origins : NULL,
	    .https = wall_stands(WALL_SCHEME) && http_request_is_https(req),
	};
	if (http_origin_is_ours(origin, &may)) {
		req->origin = origin;
		if (req->match.pages)
			cors_add_headers(req);
		return true;
	}
	if (flags & HTTP_ROUTE_ANY_ORIGIN)
		return true;
	http_respond_problem(
	    req, ERR_FORBIDDEN,
	    "requests from this Origin are not allowed; permit it with SANDBOX_ALLOWED_ORIGINS",
	    NULL);
	return false;
}

/* A client that sends both headers with different addresses could count as somebody else, or make all
 * clients of the proxy count as one. A refusal harms only the client that does so. */
static bool check_proxy(struct http_request *req)
{
	const struct http_proxies *proxies = req->conn->server->cfg.proxies;
	union http_address from;

	if (!(http_request_is_by_member(req) || (proxies && proxies->n > 0)) ||
	    !http_address_peer(req->conn->io.fd, &from) ||
	    !http_client_is_disputed(req, &from, proxies))
		return true;
	http_respond_problem(req, ERR_BAD_REQUEST,
			     "Forwarded and X-Forwarded-For name different clients", NULL);
	return false;
}

/* An absolute target of https was meant for a connection with TLS (RFC 9110 §7.4). Only a trusted proxy, which may have
 * ended the TLS, sends one here rightly. The answer is 400: after 421 a client may try the same on another connection. */
static bool check_scheme(struct http_request *req)
{
	const struct http_proxies *proxies = req->conn->server->cfg.proxies;
	union http_address from;

	if (!req->head.https || (http_address_peer(req->conn->io.fd, &from) &&
				 http_peer_is_trusted(req, &from, proxies)))
		return true;
	http_respond_problem(
	    req, ERR_BAD_REQUEST,
	    "the target of the request is one of https, and this connection has no TLS", NULL);
	return false;
}

/* ---- routing ---- */

/* Answers requests that have no handler: 404, 405, OPTIONS. */
static void respond_unrouted(struct http_request *req)
{
	const unsigned allow = req->match.allow;

	if (req->head.method == HTTP_OPTIONS && (allow || streq(http_request_path(req), "*"))) {
		add_allow(req, allow);
		http_respond(req, 204, NULL, NULL, 0);
	} else if (allow) {
		add_allow(req, allow);
		request_refuse(req, 405);
	} else {
		request_refuse(req, 404);
	}
}

const char *http_request_port_domain(const struct http_request *req)
{
	const char *own = req->conn->server->cfg.port_domain;
	const char *said = http_request_is_by_member(req)
			       ? http_request_header(req, HTTP_PORT_DOMAIN_HEADER)
			       : NULL;

	return said ? said : own ? own : "";
}

static unsigned scopes_of(struct http_request *req)
{
	const char *value = req->head.host ? req->text + req->head.host : NULL;
	const struct http_config *cfg = &req->conn->server->cfg;
	const char *domain = http_request_port_domain(req);
	struct http_host host;
	size_t label;

	if (!(req->conn->scopes & HTTP_SCOPE_MAIN) || !value ||
	    http_host_parse(value, strlen(value), &host) < 0 ||
	    !http_host_is_below(&host, domain, &label))
		return req->conn->scopes;
	const bool face = cfg->is_face && cfg->is_face(host.name, label);
	req->of_port = face || http_host_is_of_port(&host, domain);
	return face           ? (unsigned)HTTP_SCOPE_FACES
	       : req->of_port ? (unsigned)HTTP_SCOPE_PORTS
			      : req->conn->scopes;
}

/* Cuts the target into path and query, decodes both, and finds the row of the routing table.
 * Returns 0 or the status to refuse with. */
static int route(struct http_request *req)
{
	char *target = req->text + req->head.target;
	char *query = strchr(target, '?');
	char *out = req->text + req->head_len;
	char *segs[HTTP_SEGMENTS_MAX];
	int n;

	if (query) {
		*query++ = '\0';
		req->raw_query = query;
		n = http_uri_query(query, out, req->query, HTTP_QUERY_MAX);
		if (n < 0)
			return 400;
		req->n_query = (unsigned)n;
		out += strlen(query) + 2;
	}
	if (*target != '/')
		return 0; /* OPTIONS * */
	n = http_uri_segments(target, strlen(target), out, segs, HTTP_SEGMENTS_MAX);
	if (n == -EBADMSG)
		return 400;
	if (n > 0)
		http_routes_match(req->conn->server->routes, scopes_of(req), req->head.method, segs,
				  (unsigned)n, &req->match);
	return 0;
}

/* ---- dispatch ---- */

/* Collects the body for rows that take it in one piece, then calls the handler. */
static int on_whole_body(struct http_request *req, const void *data, size_t len, void *userdata)
{
	(void)userdata;
	if (!data) {
		/* A third of it may be room to grow. The handler may count a copy beside it. */
		buf_trim(&req->body.whole);
		(void)conn_count_request(req->conn); /* less than before */
		req->match.row->handler(req, req->match.userdata);
		return 0;
	}
	if (buf_add(&req->body.whole, data, len) < 0) {
		request_refuse(req, 503);
		return -ENOMEM;
	}
	return 0;
}

/* The client is identified: the connection counts for its user from now on. Somebody who does not read
 * answers gets no further request through. */
static bool may_go_on(struct http_request *req)
{
	struct http_conn *c = req->conn;
	struct budgets *b = c->server->cfg.budgets;
	const bool new_payer = !streq(c->who, req->principal);
	struct err e = ERR_INIT;

	req->hold = new_payer ? HTTP_HOLD_RUN : HTTP_HOLD_NONE;
	if (conn_belongs_to(c, req->principal, &e) < 0)
		;
	else if (budget_is_full(b, c->who, BUDGET_ANSWER_MEMORY))
		(void)err_set(
		    &e, ERR_BUDGET_EXCEEDED, 0,
		    "Your unread answers hold as much memory as they may have. Read them first.");
	else
		return true;
	c->keep_alive = false;
	http_respond_problem(req, e.code, e.text, NULL);
	return false;
}

static void dispatch(struct http_request *req)
{
	const struct http_route *row = req->match.row;
	const struct http_config *cfg = &req->conn->server->cfg;
	const http_auth_fn admit = !(row->flags & HTTP_ROUTE_AUTH) ? NULL
				   : row->admit                    ? row->admit
								   : cfg->auth;

	if (admit && !admit(req, row->admit ? req->match.userdata : cfg->auth_userdata)) {
		ASSERT(req->conn->state != HTTP_CONN_REQUEST); /* it has answered */
		return;
	}
	if (admit && !may_go_on(req))
		return;
	if (req->hold == HTTP_HOLD_NONE)
		request_go_on(req);
}

void request_go_on(struct http_request *req)
{
	const struct http_route *row = req->match.row;

	loop_work("http", row->pattern);
	body_begin(req);
	if (req->body.framing == HTTP_BODY_LENGTH && req->body.left > req->body.max) {
		request_refuse(req, 413);
		return;
	}
	if ((row->flags & HTTP_ROUTE_STREAM_BODY) || req->body.done) {
		row->handler(req, req->match.userdata);
		return;
	}
	buf_init(&req->body.whole, (size_t)req->body.max);
	http_request_read_body(req, on_whole_body, NULL);
}

static bool takes_coded(const struct http_route *row)
{
	return row && (row->flags & HTTP_ROUTE_CODED_BODY);
}

void request_begin(struct http_conn *c, size_t head_len)
{
	struct http_request *req = request_new(c, head_len);
	int status;

	if (!req) {
		c->broken = true;
		return;
	}
	input_consume(&c->in, head_len);
	status = http_head_parse(req->text, head_len, &req->head);
	if (status == 0)
		status = route(req);
	if (status == 0 && req->head.coded && !takes_coded(req->match.row))
		status = 415;
	if (status) {
		request_free(req);
		conn_refuse(c, status);
		return;
	}
	c->req = req;
	c->state = HTTP_CONN_REQUEST;
	/* If we refuse, a proxy that believes in the upgrade may send on frames, and nothing of them may be taken for a
	 * request. */
	c->keep_alive = req->head.keep_alive && !http_request_wants_socket(req);
	c->http10 = req->head.minor == 0;
	c->half = false;
	body_begin(req); /* refusals need to know whether a body is unread */
	KILL_POINT(REQUEST_READ);
	if (!check_proxy(req))
		return;
	if (!check_scheme(req) || !check_names(req))
		return;
	if (req->match.row)
		dispatch(req);
	else
		respond_unrouted(req);
}
