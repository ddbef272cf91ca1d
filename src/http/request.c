/* SPDX-License-Identifier: Apache-2.0 */
/* What happens between a checked head and the handler: routing, Host, Origin, the auth hook,
 * limits, dispatch. */
#include "http/connection.h"

#include "base/kill_points.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "http/host_header.h"
#include "http/socket_address.h"

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

/* ---- Host and Origin ---- */

static bool host_is_ours(const struct http_request *req, const char *local)
{
	const char *value = req->head.host ? req->text + req->head.host : NULL;
	struct http_host host;

	if (!value) /* HTTP/1.0 without Host: not from a browser, so no DNS rebinding */
		return true;
	return http_host_parse(value, strlen(value), &host) == 0 &&
	       http_host_is_ours(&host, local, req->conn->server->cfg.hosts);
}

static bool check_names(struct http_request *req)
{
	const unsigned flags = req->match.row ? req->match.row->flags : 0;
	const char *origin = http_request_header(req, "origin");
	char local[HTTP_ADDRESS_TEXT] = "";
	union http_address address;

	if (http_address_local(req->conn->fd, &address))
		http_address_text(&address, local);
	if (!wall_stands(WALL_ORIGIN))
		return true;
	if (!(flags & HTTP_ROUTE_ANY_HOST) && !host_is_ours(req, local)) {
		http_respond_problem(req, ERR_FORBIDDEN,
				     "this server does not answer to the Host of the request",
				     NULL);
		return false;
	}
	if (!origin)
		return true;
	const struct http_origins may = {
	    .host = host_is_ours(req, local) ? http_request_header(req, "host") : NULL,
	    .hosts = req->conn->server->cfg.hosts,
	    .origins = req->conn->server->cfg.origins,
	};
	if (http_origin_is_ours(origin, &may)) {
		req->origin = origin;
		return true;
	}
	if (flags & HTTP_ROUTE_ANY_ORIGIN)
		return true;
	http_respond_problem(req, ERR_FORBIDDEN, "requests from this Origin are not allowed", NULL);
	return false;
}

/* ---- routing ---- */

static void add_allow(struct http_request *req, unsigned allow)
{
	static const char *const names[] = {"GET",    "HEAD",  "POST",   "PUT",
					    "DELETE", "PATCH", "OPTIONS"};
	char value[64] = "";
	size_t n = 0;

	allow |= HTTP_OPTIONS;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (allow & (1u << i)) {
			const size_t len = strlen(names[i]);

			if (n > 0) {
				value[n++] = ',';
				value[n++] = ' ';
			}
			memcpy(value + n, names[i], len + 1);
			n += len;
		}
	(void)http_add_header(req, "Allow", value);
}

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
		http_routes_match(req->conn->server->routes, req->conn->scopes, req->head.method,
				  segs, (unsigned)n, &req->match);
	return 0;
}

/* ---- dispatch ---- */

/* Collects the body for rows that take it in one piece, then calls the handler. */
static int on_whole_body(struct http_request *req, const void *data, size_t len, void *userdata)
{
	(void)userdata;
	if (!data) {
		req->match.row->handler(req, req->match.userdata);
		return 0;
	}
	if (buf_add(&req->body.whole, data, len) < 0) {
		request_refuse(req, 503);
		return -ENOMEM;
	}
	return 0;
}

static void dispatch(struct http_request *req)
{
	const struct http_route *row = req->match.row;
	const struct http_config *cfg = &req->conn->server->cfg;

	if ((row->flags & HTTP_ROUTE_AUTH) && cfg->auth && !cfg->auth(req, cfg->auth_userdata)) {
		ASSERT(req->conn->state != HTTP_CONN_REQUEST); /* it has answered */
		return;
	}
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
	if (status) {
		request_free(req);
		conn_refuse(c, status);
		return;
	}
	c->req = req;
	c->state = HTTP_CONN_REQUEST;
	c->keep_alive = req->head.keep_alive;
	c->http10 = req->head.minor == 0;
	body_begin(req); /* refusals need to know whether a body is unread */
	KILL_POINT(REQUEST_READ);
	if (!check_names(req))
		return;
	if (req->match.row)
		dispatch(req);
	else
		respond_unrouted(req);
}
