/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of Connect (connectrpc.com, "Protocol reference", streaming RPCs) in its JSON dialect: frames of one byte of
 * flags, four bytes of length and JSON. Nothing is compressed, since nothing is offered. */
#include "faces/e2b/face.h"

#include "api/json_body.h"
#include "base/json_text.h"
#include "base/jsonio.h"

#include <string.h>

#define HEAD       5u
#define COMPRESSED 1u
#define LAST       2u

json_t *e2b_read_frame(struct http_request *req, struct err *e)
{
	size_t len;
	const char *body = http_request_body(req, &len);
	json_t *root = NULL;

	if (!http_request_content_type_is(req, "application/connect+json")) {
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "this call is a stream of application/connect+json");
		return NULL;
	}
	const uint8_t *head = (const uint8_t *)body;
	const size_t size = len < HEAD ? 0
				       : (size_t)head[1] << 24 | (size_t)head[2] << 16 |
					     (size_t)head[3] << 8 | head[4];
	if (len < HEAD || (head[0] & COMPRESSED) || size > len - HEAD) {
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "the body is no whole frame without compression");
		return NULL;
	}
	const size_t n = jsonio_count(body + HEAD, size, API_BODY_VALUES_MAX, API_BODY_DEPTH_MAX);
	if (n > 0 && n <= API_BODY_VALUES_MAX &&
	    jsonio_read(body + HEAD, size, JSON_REJECT_DUPLICATES, &root, NULL) == 0 &&
	    json_is_object(root))
		return root;
	json_decref(root);
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
		      "the message is no JSON object of at most %u values", API_BODY_VALUES_MAX);
	return NULL;
}

int e2b_send_frame(struct http_stream *st, bool last, const char *text, size_t len)
{
	_cleanup_(buf_done) struct buf frame = BUF_INIT(HEAD + len);
	const char head[HEAD] = {(char)(last ? LAST : 0), (char)(len >> 24), (char)(len >> 16),
				 (char)(len >> 8), (char)len};
	int r = buf_add(&frame, head, sizeof(head));

	r = r < 0 ? r : buf_add(&frame, text, len);
	return r < 0 ? r : http_stream_write(st, frame.data, frame.len);
}

static int error_text(struct buf *b, const struct err *e)
{
	int r = buf_add_str(b, "{\"error\":");

	r = r < 0
		? r
		: json_text_object(b, "ss", "code", e2b_connect_code(e->code), "message", e->text);
	return r < 0 ? r : buf_add_str(b, "}");
}

void e2b_stream_finish(struct http_stream *st, const struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(8 * ERR_TEXT_MAX);
	const int r = e ? error_text(&text, e) : buf_add_str(&text, "{}");

	if (r < 0 || e2b_send_frame(st, true, text.data, text.len) < 0)
		http_stream_abort(st);
	else
		http_stream_end(st);
}

void e2b_stream_refuse(struct http_request *req, const struct err *e)
{
	static const struct http_stream_ops ops = {0};
	struct http_stream *st =
	    http_stream_begin(req, 200, "application/connect+json", &ops, NULL);

	if (st)
		e2b_stream_finish(st, e);
}
