/* SPDX-License-Identifier: Apache-2.0 */
/* Answers whose body is in memory: status lines, heads, bodies. */
#include "http/connection.h"

#include "base/promise.h"
#include "base/text.h"
#include "http/range.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
	int status;
	const char *text;
} statuses[] = {
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_status_text(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].text;
	return "Unknown";
}

int http_add_header(struct http_request *req, const char *name, const char *value)
{
	if (!http_is_token(name, strlen(name)) || !http_is_value(value, strlen(value)))
		return -EINVAL;
	return buf_printf(&req->extra, "%s: %s\r\n", name, value) < 0 ? -E2BIG : 0;
}

void http_drop_headers(struct http_request *req)
{
	buf_reset(&req->extra);
}

static bool has_body(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

int reply_head(struct http_request *req, int status, const char *type, bool has_length,
	       uint64_t length)
{
	struct http_conn *c = req->conn;
	_cleanup_(buf_done) struct buf head = BUF_INIT(HTTP_EXTRA_MAX + 1024);
	int r;

	/* If the body was not read to its end, it stands between this answer and the next request.
	 */
	if (!req->body.done || (c->server->draining))
		c->keep_alive = false;
	req->status = status;
	r = buf_printf(&head, "HTTP/1.1 %d %s\r\n%s", status, http_status_text(status),
		       server_date_line(c->server));
	if (r == 0 && type) /* no sniffing: the bytes of an artifact are whatever a sandbox wrote */
		r = buf_add_str(&head, "X-Content-Type-Options: nosniff\r\n");
	if (r == 0 && type)
		r = buf_printf(&head, "Content-Type: %s\r\n", type);
	if (r == 0 && has_length && has_body(status))
		r = buf_printf(&head, "Content-Length: %llu\r\n", (unsigned long long)length);
	else if (r == 0 && !has_length && !c->http10)
		r = buf_add_str(&head, "Transfer-Encoding: chunked\r\n");
	if (r == 0 && (!c->keep_alive || c->http10))
		r = buf_printf(&head, "Connection: %s\r\n", c->keep_alive ? "keep-alive" : "close");
	if (r == 0)
		r = buf_add(&head, buf_str(&req->extra), req->extra.len);
	if (r == 0)
		r = buf_add_str(&head, "\r\n");
	if (r == 0)
		r = out_add_head(c, head.data, head.len);
	return r;
}

void reply_failed(struct http_request *req)
{
	struct http_conn *c = req->conn;

	out_drop(&c->out);
	c->state = HTTP_CONN_REPLY;
	conn_break(c);
}

void reply_go(struct http_request *req)
{
	struct http_conn *c = req->conn;

	req->on_gone = NULL;
	c->state = HTTP_CONN_REPLY;
	conn_schedule(c);
}

void http_respond_take(struct http_request *req, int status, const char *type, char *body,
		       size_t len)
{
	struct http_out *o = &req->conn->out;
	_cleanup_free_ char *owned = body;

	if (!PROMISE(req->conn->state == HTTP_CONN_REQUEST)) /* it has its answer */
		return;
	if (reply_head(req, status, type, true, len) < 0) {
		reply_failed(req);
		return;
	}
	if (req->head.method != HTTP_HEAD && has_body(status) && len > 0) {
		const int r = len > HTTP_SMALL_BODY ? out_add_taken(o, TAKE_PTR(owned), len)
						    : out_add(o, owned, len);
		if (r < 0) {
			reply_failed(req);
			return;
		}
	}
	reply_go(req);
}

void http_respond_bytes(struct http_request *req, int status, const char *type,
			struct shared_bytes *body)
{
	if (!PROMISE(req->conn->state == HTTP_CONN_REQUEST))
		return;
	if (reply_head(req, status, type, true, body->len) < 0 ||
	    (req->head.method != HTTP_HEAD && has_body(status) && body->len > 0 &&
	     out_add_shared(&req->conn->out, body) < 0)) {
		reply_failed(req);
		return;
	}
	reply_go(req);
}

void http_respond(struct http_request *req, int status, const char *type, const void *body,
		  size_t len)
{
	char *copy = NULL;

	if (len > 0) {
		copy = malloc(len);
		if (!copy) {
			reply_failed(req);
			return;
		}
		memcpy(copy, body, len);
	}
	http_respond_take(req, status, type, copy, len);
}

void http_respond_shared(struct http_request *req, int status, const char *type, const void *body,
			 size_t len)
{
	struct http_out *o = &req->conn->out;
	const bool sent = req->head.method != HTTP_HEAD && has_body(status) && len > 0;
	struct err e = ERR_INIT;

	if (!PROMISE(req->conn->state == HTTP_CONN_REQUEST))
		return;
	if (sent && conn_reserve(req->conn, len, &e) < 0) {
		buf_reset(&req->extra); /* headers of a body that is not sent */
		http_respond_problem(req, e.code, e.text, NULL);
		return;
	}
	if (reply_head(req, status, type, true, len) < 0 ||
	    (sent && out_add_borrowed(o, body, len) < 0)) {
		reply_failed(req);
		return;
	}
	reply_go(req);
}

int http_request_reserve(struct http_request *req, size_t bytes, struct err *e)
{
	return conn_reserve(req->conn, bytes, e);
}

void http_respond_text(struct http_request *req, int status, const char *type, const char *text)
{
	http_respond(req, status, type, text, strlen(text));
}
