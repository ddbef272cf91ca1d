/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of JSON-RPC messages. Each is one line: the compact form of jansson has no newline. */
#include "mcp/objects.h"

#include "base/jsonio.h"
#include "base/large.h"
#include "mcp/exact.h"

#include <string.h>

#define DUMP_FLAGS (JSON_COMPACT | JSON_ENCODE_ANY)

static int append(struct buf *b, const json_t *value)
{
	return jsonio_add(b, value, DUMP_FLAGS);
}

static char *take(struct buf *b, int r, size_t *ret_len)
{
	char *text = NULL;
	size_t len = b->len;

	if (r == 0)
		text = buf_take(b);
	buf_done(b);
	*ret_len = text ? len : 0;
	return text;
}

char *wire_text(const json_t *message, size_t *ret_len)
{
	struct buf b = BUF_INIT(WIRE_MAX);
	int r = message ? append(&b, message) : -ENOMEM;

	exact_restore(&b, 0); /* a progress token, the id of a subscription */
	return take(&b, r, ret_len);
}

static int begin(struct buf *b, const json_t *id)
{
	int r = buf_add_str(b, "{\"jsonrpc\":\"2.0\"");

	if (r == 0 && id) {
		r = buf_add_str(b, ",\"id\":");
		if (r == 0)
			r = append(b, id);
		if (r == 0 && exact_is(id))
			exact_restore(b, 0);
	}
	return r;
}

char *wire_response_raw(const json_t *id, const char *result, size_t result_len, size_t *ret_len)
{
	struct buf b = BUF_INIT(WIRE_MAX);
	int r = buf_reserve(&b, result_len + 64);

	if (r == 0)
		r = begin(&b, id);
	if (r == 0)
		r = buf_add_str(&b, ",\"result\":");
	if (r == 0)
		r = buf_add(&b, result, result_len);
	if (r == 0)
		r = buf_add_char(&b, '}');
	return take(&b, r, ret_len);
}

char *wire_response(const json_t *id, const json_t *result, size_t *ret_len)
{
	struct buf b = BUF_INIT(WIRE_MAX);
	int r = begin(&b, id);

	if (r == 0)
		r = buf_add_str(&b, ",\"result\":");
	if (r == 0)
		r = append(&b, result);
	if (r == 0 && exact_is(id))
		exact_restore(&b, 0); /* the result of a subscription has its id once more */
	if (r == 0)
		r = buf_add_char(&b, '}');
	return take(&b, r, ret_len);
}

bool wire_holes(struct mcp_filled *answer, const char *mark)
{
	const size_t mark_len = strlen(mark);
	const char *end = answer->text + answer->text_len, *at;
	char *to = answer->text;
	size_t n = 0;

	for (const char *p = to; (at = memmem(p, (size_t)(end - p), mark, mark_len));
	     p = at + mark_len)
		n++;
	if (n > MCP_HOLES_MAX || answer->text_len >= WIRE_MAX ||
	    answer->blob_len > (WIRE_MAX - answer->text_len) / MCP_HOLES_MAX)
		return false;
	for (const char *p = to; p < end; p = at + mark_len) {
		at = memmem(p, (size_t)(end - p), mark, mark_len);

		const size_t part = (size_t)((at ? at : end) - p);
		memmove(to, p, part);
		to += part;
		if (!at)
			break;
		answer->holes[answer->n_holes++] = (size_t)(to - answer->text);
	}
	answer->text_len = (size_t)(to - answer->text);
	return true;
}

char *wire_fill(char *text, size_t len, const char *mark, const char *blob, size_t blob_len,
		size_t *ret_len)
{
	_cleanup_free_ UNUSED char *owned = text;
	const char *end = text ? text + len : NULL, *at, *p;
	const size_t mark_len = strlen(mark);
	struct buf b = BUF_INIT(WIRE_MAX);
	size_t n = 0;
	int r = text ? 0 : -ENOMEM;

	for (p = text; r == 0 && (at = memmem(p, (size_t)(end - p), mark, mark_len)); n++)
		p = at + mark_len;
	if (r == 0)
		r = blob_len < WIRE_MAX / (n + 1) ? buf_reserve(&b, len + n * blob_len) : -ENOBUFS;
	large_block_hint(b.data, b.cap);
	for (p = text; r == 0 && (at = memmem(p, (size_t)(end - p), mark, mark_len));
	     p = at + mark_len) {
		r = buf_add(&b, p, (size_t)(at - p));
		r = r < 0 ? r : buf_add(&b, blob, blob_len);
	}
	r = r < 0 ? r : buf_add(&b, p, (size_t)(end - p));
	return take(&b, r, ret_len);
}

char *wire_error(const json_t *id, int code, const char *message, json_t *data, size_t *ret_len)
{
	struct buf b = BUF_INIT(WIRE_MAX);
	json_t *error = json_object();
	int r = begin(&b, id);

	if (json_object_set_new(error, "code", json_integer(code)) < 0)
		r = -ENOMEM;
	/* Our own texts are always UTF-8. If one is not, the code alone still says what happened.
	 */
	if (json_object_set_new(error, "message", json_string(message)) < 0 &&
	    json_object_set_new(error, "message", json_string("error")) < 0)
		r = -ENOMEM;
	if (data && json_object_set_new(error, "data", data) < 0)
		r = -ENOMEM;
	if (r == 0)
		r = buf_add_str(&b, ",\"error\":");
	if (r == 0)
		r = append(&b, error);
	if (r == 0)
		r = buf_add_char(&b, '}');
	json_decref(error);
	return take(&b, r, ret_len);
}

static json_t *with_params(json_t *message, json_t *params)
{
	if (!message) {
		json_decref(params);
		return NULL;
	}
	if (params && json_object_set_new(message, "params", params) < 0) {
		json_decref(message);
		return NULL;
	}
	return message;
}

json_t *wire_notification(const char *method, json_t *params)
{
	return with_params(json_pack("{s:s,s:s}", "jsonrpc", "2.0", "method", method), params);
}

json_t *wire_request(const char *id, const char *method, json_t *params)
{
	return with_params(json_pack("{s:s,s:s,s:s}", "jsonrpc", "2.0", "id", id, "method", method),
			   params);
}

char *mcp_budget_error_body(enum budget_kind kind, const struct err *e, size_t *ret_len)
{
	return wire_error(NULL, MCP_ERR_BUDGET, e->text, budget_data(kind), ret_len);
}

char *mcp_error_body(int code, const char *message, size_t *ret_len)
{
	return wire_error(NULL, code, message, NULL, ret_len);
}
