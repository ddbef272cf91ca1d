/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/content.h"

#include "base/attr.h"
#include "base/buf.h"

#include <stdarg.h>

#define TEXT_MAX        (64U << 20) /* bytes of one formatted text */
#define COMPLETIONS_MAX 100U        /* values that the protocol allows in one answer */

/* Sets KEY unless VALUE is NULL; false when memory is short or VALUE is not UTF-8. */
static bool set_string(json_t *obj, const char *key, const char *value)
{
	return !value || json_object_set_new(obj, key, json_string(value)) == 0;
}

static json_t *done(json_t *obj, bool ok)
{
	if (ok)
		return obj;
	json_decref(obj);
	return NULL;
}

json_t *mcp_text(const char *text, size_t len)
{
	return json_pack("{s:s,s:o}", "type", "text", "text", json_stringn(text, len));
}

static PRINTF(1, 0) json_t *textf(const char *fmt, va_list ap)
{
	struct buf b = BUF_INIT(TEXT_MAX);
	json_t *block = NULL;

	if (buf_vprintf(&b, fmt, ap) == 0)
		block = mcp_text(buf_str(&b), b.len);
	buf_done(&b);
	return block;
}

json_t *mcp_textf(const char *fmt, ...)
{
	va_list ap;
	json_t *block;

	va_start(ap, fmt);
	block = textf(fmt, ap);
	va_end(ap);
	return block;
}

static json_t *media(const char *type, const char *base64, size_t len, const char *mime_type)
{
	return json_pack("{s:s,s:o,s:s}", "type", type, "data", json_stringn(base64, len),
			 "mimeType", mime_type);
}

json_t *mcp_image(const char *base64, size_t len, const char *mime_type)
{
	return media("image", base64, len, mime_type);
}

json_t *mcp_audio(const char *base64, size_t len, const char *mime_type)
{
	return media("audio", base64, len, mime_type);
}

json_t *mcp_embedded(json_t *resource)
{
	return json_pack("{s:s,s:o}", "type", "resource", "resource", resource);
}

static json_t *contents(const char *uri, const char *mime_type, const char *key, const char *data,
			size_t len)
{
	json_t *r = json_pack("{s:s}", "uri", uri);

	return done(r, r && set_string(r, "mimeType", mime_type) &&
			   json_object_set_new(r, key, json_stringn(data, len)) == 0);
}

json_t *mcp_resource_text(const char *uri, const char *mime_type, const char *text, size_t len)
{
	return contents(uri, mime_type, "text", text, len);
}

json_t *mcp_resource_blob(const char *uri, const char *mime_type, const char *base64, size_t len)
{
	return contents(uri, mime_type, "blob", base64, len);
}

json_t *mcp_blocks(size_t n, ...)
{
	json_t *array = json_array();
	bool ok = array != NULL;
	va_list ap;

	va_start(ap, n);
	for (size_t i = 0; i < n; i++) {
		json_t *block = va_arg(ap, json_t *);

		if (!block || json_array_append_new(array, block) < 0)
			ok = false;
	}
	va_end(ap);
	return done(array, ok);
}

json_t *mcp_tool_result(json_t *content, json_t *structured, bool is_error)
{
	json_t *r = json_object();
	bool ok = content && json_object_set_new(r, "content", content) == 0;

	if (structured && json_object_set_new(r, "structuredContent", structured) < 0)
		ok = false;
	if (is_error && json_object_set_new(r, "isError", json_true()) < 0)
		ok = false;
	return done(r, ok);
}

json_t *mcp_tool_error(const char *fmt, ...)
{
	va_list ap;
	json_t *block;

	va_start(ap, fmt);
	block = textf(fmt, ap);
	va_end(ap);
	return mcp_tool_result(mcp_blocks(1, block), NULL, true);
}

json_t *mcp_resource_result(json_t *array)
{
	return json_pack("{s:o}", "contents", array);
}

json_t *mcp_prompt_message(const char *role, json_t *content)
{
	return json_pack("{s:s,s:o}", "role", role, "content", content);
}

json_t *mcp_prompt_result(const char *description, json_t *messages)
{
	json_t *r = json_pack("{s:o}", "messages", messages);

	return done(r, r && set_string(r, "description", description));
}

json_t *mcp_completion_result(json_t *values, long long total, bool has_more)
{
	json_t *c;

	while (json_array_size(values) > COMPLETIONS_MAX) {
		json_array_remove(values, json_array_size(values) - 1);
		has_more = true;
	}
	c = json_pack("{s:o}", "values", values);
	if (c && total >= 0 && json_object_set_new(c, "total", json_integer(total)) < 0)
		c = done(c, false);
	if (c && json_object_set_new(c, "hasMore", json_boolean(has_more)) < 0)
		c = done(c, false);
	return json_pack("{s:o}", "completion", c);
}
