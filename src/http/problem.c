/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals. Every error is a problem document (RFC 9457), except those of tools and of the second
 * tool family. */
#include "http/connection.h"

#include "base/text.h"

#include <string.h>

#define PROBLEM_MAX ((size_t)1 << 20) /* bytes of one document, with the caller's members */

/* The refusals of the HTTP server itself: at most one reason for each status. */
static const struct refusal {
	int status;
	enum err_code code;
	const char *detail;
} refusals[] = {
    {400, ERR_BAD_REQUEST, "the request is not well-formed"},
    {401, ERR_UNAUTHORIZED, "the credential of this request has ended"},
    {404, ERR_NOT_FOUND, "there is nothing at this path"},
    {405, ERR_METHOD_NOT_ALLOWED, "this path takes other methods; the header Allow names them"},
    {408, ERR_REQUEST_TIMEOUT, "the request did not arrive in time"},
    {413, ERR_BODY_TOO_LARGE, "the body is larger than this path takes"},
    {415, ERR_CONTENT_ENCODING, "send the body as it is, without Content-Encoding"},
    {416, ERR_RANGE_NOT_SATISFIABLE, "the file ends before the range; Content-Range has its size"},
    {417, ERR_EXPECTATION_FAILED, "100-continue is all that can be expected"},
    {426, ERR_HTTPS_REQUIRED, "this address is one of https"},
    {429, ERR_BUDGET_EXCEEDED,
     "unfinished requests of this client hold as much memory as they may have"},
    {431, ERR_HEAD_TOO_LARGE, "the line of the request and its headers are too long"},
    {501, ERR_NOT_IMPLEMENTED, "this method or transfer coding is not known here"},
    {503, ERR_OUT_OF_MEMORY, "no memory"},
    {505, ERR_HTTP_VERSION, "HTTP/1.1 and HTTP/1.0 are spoken here"},
};

/* Appends S as the inside of a JSON string. S is UTF-8: the caller has replaced everything else. */
static int add_json_text(struct buf *out, const char *s)
{
	_cleanup_(buf_done) struct buf utf8 = BUF_INIT(4 * ERR_TEXT_MAX);
	int r = text_add_utf8_lossy(&utf8, s, strlen(s));

	for (size_t i = 0; r == 0 && i < utf8.len; i++) {
		const char c = utf8.data[i];

		if (c == '"' || c == '\\') {
			r = buf_printf(out, "\\%c", c);
		} else if ((unsigned char)c < 0x20) {
			r = buf_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
		} else {
			r = buf_add_char(out, c);
		}
	}
	return r;
}

static int add_json_member(struct buf *out, const char *key, const char *value)
{
	int r = buf_printf(out, "%s\"%s\":\"", out->len > 1 ? "," : "", key);

	if (r == 0)
		r = add_json_text(out, value);
	return r == 0 ? buf_add_char(out, '"') : r;
}

/* With type "about:blank" the status says everything, and the title is its phrase (RFC 9457
 * §4.2.1). */
static int add_problem(struct buf *out, enum err_code code, const char *detail, const char *more)
{
	const char *hint = err_code_hint(code);
	const int status = err_code_http(code);
	int r = buf_add_char(out, '{');

	r = r < 0 ? r : add_json_member(out, "type", "about:blank");
	r = r < 0 ? r : add_json_member(out, "title", http_status_text(status));
	r = r < 0 ? r : buf_printf(out, ",\"status\":%d", status);
	r = r < 0 ? r : add_json_member(out, "detail", detail);
	r = r < 0 ? r : add_json_member(out, "code", err_code_name(code));
	if (r == 0 && *hint)
		r = add_json_member(out, "hint", hint);
	if (r == 0 && more && *more)
		r = buf_printf(out, ",%s", more);
	return r < 0 ? r : buf_add_str(out, "}\n");
}

static const struct refusal *refusal_of(int status)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(refusals) - 1 && refusals[i].status != status)
		i++;
	ASSERT(refusals[i].status == status);
	return &refusals[i];
}

int problem_add(struct buf *out, int status)
{
	const struct refusal *r = refusal_of(status);

	return add_problem(out, r->code, r->detail, NULL);
}

/* Seconds. Too many requests or sessions may be over soon; a quota is over when something is deleted or a
 * day ends. */
static const char *retry_after(enum err_code code)
{
	bool soon =
	    code == ERR_RATE_LIMITED || code == ERR_MAX_SESSIONS || code == ERR_BUDGET_EXCEEDED;

	return soon ? "10" : "60";
}

void http_respond_problem(struct http_request *req, enum err_code code, const char *detail,
			  const char *more)
{
	struct buf body = BUF_INIT(PROBLEM_MAX);
	int r = add_problem(&body, code, detail, more);

	/* Without resource_metadata: with it, MCP clients would begin OAuth, which this server does
	 * not speak. */
	if (r == 0 && code == ERR_UNAUTHORIZED)
		r = http_add_header(req, "WWW-Authenticate", "Bearer realm=\"caisson\"");
	if (r == 0 && err_code_http(code) == 429)
		r = http_add_header(req, "Retry-After", retry_after(code));
	const size_t len = body.len;
	char *text = r == 0 ? buf_take(&body) : NULL;
	if (!text) {
		buf_done(&body);
		reply_failed(req);
		return;
	}
	http_respond_take(req, err_code_http(code), HTTP_PROBLEM_TYPE, text, len);
}

void request_refuse(struct http_request *req, int status)
{
	const struct refusal *r = refusal_of(status);

	http_respond_problem(req, r->code, r->detail, NULL);
}
