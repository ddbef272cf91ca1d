/* SPDX-License-Identifier: Apache-2.0 */
/* What a result must look like for the revision of the client, and what is added to it. */
#include "mcp/objects.h"

#include "mcp/content.h"

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

/* Puts VALUE (owned) into a copy of the list or object at KEY, which others may have as well. */
static void add_to_copy(json_t *result, const char *key, const char *member, json_t *value)
{
	json_t *copy = json_copy(json_object_get(result, key));
	const int r = json_is_array(copy) ? json_array_append_new(copy, value)
					  : json_object_set_new(copy, member, value);

	if (r == 0)
		(void)json_object_set_new(result, key, copy);
	else
		json_decref(copy);
}

/* Some clients show their model the structured content and no text. */
static void add_remark(json_t *result, const char *remark)
{
	if (json_is_array(json_object_get(result, "content")))
		add_to_copy(result, "content", NULL, mcp_textf("%s", remark));
	if (json_is_object(json_object_get(result, "structuredContent")))
		add_to_copy(result, "structuredContent", "note", json_string(remark));
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
	if (own && c->remark)
		add_remark(own, c->remark);
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
