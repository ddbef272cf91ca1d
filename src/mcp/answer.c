/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a call: what it must look like for the client's revision, and where it is sent. */
#include "mcp/objects.h"

#include "mcp/content.h"

#define FAIL_TEXT_MAX 1024 /* bytes of our error messages; longer ones are cut */

/* ---- delivery ---- */

void batch_unref(struct batch *b)
{
	if (--b->refs > 0)
		return;
	buf_done(&b->out);
	free(b);
}

/* Adds one answer to the array. Sends the array after the last one. */
static void batch_add(struct batch *b, const char *json, size_t len)
{
	if (json && !b->failed) {
		int r = buf_add_char(&b->out, b->out.len ? ',' : '[');

		if (r == 0)
			r = buf_add(&b->out, json, len);
		b->failed = r < 0;
	}
	b->waiting--;
}

void batch_flush(struct batch *b)
{
	struct mcp_sink *sink = b->sink;
	size_t len;
	char *text;

	if (b->waiting > 0 || !b->sealed || !sink)
		return;
	b->sink = NULL;
	if (b->out.len == 0 && !b->failed) {
		sink->ops->finish(sink, 202, NULL, 0);
		return;
	}
	if (b->failed || buf_add_char(&b->out, ']') < 0) {
		text = wire_error(NULL, MCP_ERR_INTERNAL, "The batch's answer is too large", NULL,
				  &len);
		sink->ops->finish(sink, 200, text, len);
		return;
	}
	len = b->out.len;
	text = buf_take(&b->out);
	sink->ops->finish(sink, 200, text, text ? len : 0);
}

void call_deliver(struct mcp_call *c, unsigned http_status, char *json, size_t len)
{
	struct mcp_sink *sink = c->sink;
	struct batch *batch = c->batch;

	c->sink = NULL;
	if (batch) {
		c->batch = NULL;
		batch_add(batch, json, len);
		free(json);
		batch_flush(batch);
		batch_unref(batch);
		return;
	}
	if (sink)
		sink->ops->finish(sink, http_status, json, len);
	else
		free(json);
}

/* ---- results ---- */

static json_t *server_meta(const struct mcp_call *c, json_t *result)
{
	json_t *meta = json_object_get(result, "_meta");

	if (!json_is_object(meta)) {
		meta = json_object();
		if (json_object_set_new(result, "_meta", meta) < 0)
			return NULL;
	} else if (meta->refcount > 1) {
		meta = json_copy(meta);
		if (json_object_set_new(result, "_meta", meta) < 0)
			return NULL;
	}
	if (json_object_set(meta, META_SERVER_INFO, c->server->info) < 0)
		return NULL;
	return result;
}

/* Content that clients of older revisions cannot read becomes text. */
static void content_for_old(const struct mcp_call *c, json_t *result)
{
	json_t *content = json_object_get(result, "content");

	for (size_t i = 0; i < json_array_size(content); i++) {
		const json_t *block = json_array_get(content, i);
		const char *type = json_string_value(json_object_get(block, "type"));
		const char *uri = json_string_value(json_object_get(block, "uri"));
		const char *name = json_string_value(json_object_get(block, "name"));

		if (!type)
			continue;
		if (streq(type, "resource_link") && c->revision < MCP_REV_2025_06_18)
			json_array_set_new(
			    content, i,
			    mcp_textf("%s: %s", name ? name : "resource", uri ? uri : ""));
		else if (streq(type, "audio") && c->revision < MCP_REV_2025_03_26)
			json_array_set_new(content, i, mcp_textf("[audio content]"));
	}
}

static bool decorate_modern(const struct mcp_call *c, json_t *result)
{
	const char *type = json_string_value(json_object_get(result, "resultType"));

	if (!type && json_object_set_new(result, "resultType", json_string("complete")) < 0)
		return false;
	if (!server_meta(c, result))
		return false;
	if (!(c->method->flags & METHOD_CACHED) || (type && !streq(type, "complete")))
		return true;
	/* Only a list that is the same for everybody could be public; ours may be filtered. */
	if (!json_object_get(result, "ttlMs") &&
	    json_object_set_new(result, "ttlMs", json_integer(c->server->config.list_ttl_ms)) < 0)
		return false;
	return json_object_get(result, "cacheScope") ||
	       json_object_set_new(result, "cacheScope", json_string("private")) == 0;
}

json_t *call_decorate(const struct mcp_call *c, json_t *result)
{
	json_t *own = result;
	bool ok = true;

	if (!json_is_object(result)) {
		json_decref(result);
		return NULL;
	}
	if (result->refcount > 1) { /* others hold RESULT too and must not see what we add */
		own = json_copy(result);
		json_decref(result);
	}
	if (c->modern)
		ok = own && decorate_modern(c, own);
	else if (own && c->revision < MCP_REV_2025_06_18)
		content_for_old(c, own);
	if (own && !c->modern && !json_is_object(json_object_get(own, "structuredContent")))
		json_object_del(own, "structuredContent");
	if (ok)
		return own;
	json_decref(own);
	return NULL;
}

static void finish_text(struct mcp_call *c, char *text, size_t len)
{
	if (!text)
		text = wire_error(c->id, MCP_ERR_INTERNAL, "The result is too large", NULL, &len);
	call_deliver(c, 200, text, len);
}

void mcp_call_finish(struct mcp_call *c, json_t *result)
{
	size_t len;

	ASSERT(!c->finished);
	result = call_decorate(c, result);
	if (c->task) {
		task_finish(c, result);
		return;
	}
	if (!result) {
		mcp_call_finish_error(c, MCP_ERR_INTERNAL, "The result could not be built", NULL);
		return;
	}
	if (!c->cancelled) {
		char *text = wire_response(c->id, result, &len);
		finish_text(c, text, len);
	}
	json_decref(result);
	call_end(c);
}

/* Gives the answer to the transport with BLOB beside it. False: it must be sent in one piece. */
static bool deliver_filled(struct mcp_call *c, char *text, size_t text_len, const char *mark,
			   char *blob, size_t len)
{
	struct mcp_sink *sink = c->sink;
	struct mcp_filled answer = {
	    .text = text, .text_len = text_len, .blob = blob, .blob_len = len};

	if (!text || c->batch || !sink || !sink->ops->finish_filled || !wire_holes(&answer, mark))
		return false;
	c->sink = NULL;
	sink->ops->finish_filled(sink, &answer);
	return true;
}

void mcp_call_finish_blob(struct mcp_call *c, json_t *result, const char *mark, char *blob,
			  size_t len)
{
	_cleanup_free_ char *owned = blob;
	size_t text_len;

	ASSERT(!c->finished && !c->task);
	result = call_decorate(c, result);
	if (!result) {
		mcp_call_finish_error(c, MCP_ERR_INTERNAL, "The result could not be built", NULL);
		return;
	}
	if (!c->cancelled) {
		char *text = wire_response(c->id, result, &text_len);

		if (deliver_filled(c, text, text_len, mark, owned, len)) {
			owned = NULL;
		} else {
			text = wire_fill(text, text_len, mark, owned, len, &text_len);
			finish_text(c, text, text_len);
		}
	}
	json_decref(result);
	call_end(c);
}

void call_answer_text(struct mcp_call *c, const char *result, size_t result_len)
{
	size_t len;
	char *text = wire_response_raw(c->id, result, result_len, &len);

	call_deliver(c, 200, text, len);
	call_end(c);
}

/* ---- errors ---- */

static unsigned http_status_of(const struct mcp_call *c, int code)
{
	if (!c->modern)
		return code == MCP_ERR_REQUEST || code == MCP_ERR_BAD_HTTP ? 400
		       : code == MCP_ERR_SESSION                           ? 404
									   : 200;
	switch (code) {
	case MCP_ERR_METHOD:
		return 404;
	case MCP_ERR_HEADER:
	case MCP_ERR_CLIENT_CAPABILITY:
	case MCP_ERR_VERSION:
	case MCP_ERR_REQUEST:
		return 400;
	default:
		/* The specification does not say which status errors of handlers have; 200 is what
		 * the official TypeScript SDK sends. */
		return c->checking ? 400 : 200;
	}
}

void mcp_call_finish_error(struct mcp_call *c, int code, const char *message, json_t *data)
{
	size_t len;
	char *text;

	ASSERT(!c->finished);
	if (c->task) {
		task_fail(c, code, message, data);
		return;
	}
	if (c->cancelled) {
		json_decref(data);
	} else {
		text = wire_error(c->id, code, message, data, &len);
		call_deliver(c, http_status_of(c, code), text, len);
	}
	call_end(c);
}

void call_fail(struct mcp_call *c, int code, json_t *data, const char *fmt, ...)
{
	struct buf b = BUF_INIT(FAIL_TEXT_MAX);
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&b, fmt, ap);
	va_end(ap);
	mcp_call_finish_error(c, code, r < 0 ? "Invalid request" : buf_str(&b), data);
	buf_done(&b);
}

json_t *budget_data(enum budget_kind kind)
{
	return json_pack("{s:s, s:s, s:i}", "error", err_code_name(ERR_BUDGET_EXCEEDED), "budget",
			 budget_word(kind), "retry_after_s", BUDGET_RETRY_S);
}

void call_fail_budget(struct mcp_call *c, enum budget_kind kind, const struct err *e)
{
	call_fail(c, MCP_ERR_BUDGET, budget_data(kind), "%s. %s", e->text,
		  err_code_hint(ERR_BUDGET_EXCEEDED));
}

void mcp_call_finish_no_resource(struct mcp_call *c, const char *uri)
{
	mcp_call_finish_error(c, c->modern ? MCP_ERR_PARAMS : MCP_ERR_RESOURCE_NOT_FOUND,
			      "Resource not found", json_pack("{s:s}", "uri", uri));
}
