/* SPDX-License-Identifier: Apache-2.0 */
/* The list methods: pages of registered items, with the fields that the client's revision knows. */
#include "mcp/objects.h"

#include "base/parse.h"

/* The name of each kind of list in its result. */
static const char *const list_keys[ITEM_KIND_MAX_] = {
    [ITEM_TOOL] = "tools",
    [ITEM_RESOURCE] = "resources",
    [ITEM_TEMPLATE] = "resourceTemplates",
    [ITEM_PROMPT] = "prompts",
};

/* Fields that older revisions do not know. */
static const struct {
	const char *field;
	enum mcp_revision since;
} fields[] = {
    {"annotations", MCP_REV_2025_03_26},  {"title", MCP_REV_2025_06_18},
    {"outputSchema", MCP_REV_2025_06_18}, {"_meta", MCP_REV_2025_06_18},
    {"icons", MCP_REV_2025_11_25},
};

/* A cursor is "o<offset>" among the registered items, and after them "s<what the source said>". */
struct place {
	size_t offset;
	const char *after; /* not NULL: a place in the source's list */
};

/* Adds the page that shows the results of a tool. A client of any revision may announce that it
 * shows such pages. */
static int add_view(json_t *doc, const char *uri)
{
	json_t *meta = json_copy(json_object_get(doc, "_meta"));

	if (!meta)
		meta = json_object();
	if (json_object_set_new(meta, "ui", json_pack("{s:s}", "resourceUri", uri)) < 0) {
		json_decref(meta);
		return -ENOMEM;
	}
	return json_object_set_new(doc, "_meta", meta);
}

/* The document of an item for clients of REV. VIEWS: the client shows pages of tools. */
static json_t *document(const struct item *it, enum mcp_revision rev, bool views)
{
	json_t *doc = json_copy(it->doc);

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (rev < fields[i].since)
			json_object_del(doc, fields[i].field);
	}
	if (doc && views && it->view && add_view(doc, it->view) < 0) {
		json_decref(doc);
		return NULL;
	}
	return doc;
}

static int place_parse(const struct mcp_call *c, const struct item_table *t, bool has_source,
		       struct place *ret)
{
	const json_t *given = json_object_get(c->params, "cursor");
	const char *cursor = call_param(c, "cursor", CURSOR_MAX);
	uint64_t offset = 0;

	*ret = (struct place){0};
	if (!given || json_is_null(given) || (cursor && *cursor == '\0'))
		return 0; /* the first page: some clients write an absent cursor so */
	if (!cursor)
		return -EINVAL;
	if (cursor[0] == 's' && has_source) {
		ret->after = cursor + 1;
		return 0;
	}
	if (cursor[0] != 'o' || parse_u64(cursor + 1, 1, t->n, &offset) < 0)
		return -EINVAL;
	ret->offset = (size_t)offset;
	return 0;
}

/* The items from OFFSET on. *RET_NEXT is where the next page begins, 0 if there is none. */
static json_t *page(const struct item_table *t, size_t offset, size_t limit, enum mcp_revision rev,
		    bool views, size_t *ret_next)
{
	json_t *items = json_array();
	size_t end = MIN(t->n, offset + limit);

	for (size_t i = offset; i < end; i++) {
		if (json_array_append_new(items, document(t->v[i], rev, views)) < 0) {
			json_decref(items);
			return NULL;
		}
	}
	*ret_next = end < t->n ? end : 0;
	return items;
}

static json_t *list_result(enum item_kind kind, json_t *items, const char *cursor)
{
	json_t *r = json_pack("{s:o}", list_keys[kind], items);

	if (r && cursor && json_object_set_new(r, "nextCursor", json_string(cursor)) < 0) {
		json_decref(r);
		return NULL;
	}
	return r;
}

/* The whole list fits on one page and is the same for everybody without views, so its text is made
 * once. */
static void answer_cached(struct mcp_call *c, enum item_kind kind)
{
	struct item_table *t = &c->server->items[kind];
	json_t *result;
	size_t next;

	if (!t->text[c->revision]) {
		result = call_decorate(
		    c, list_result(kind, page(t, 0, t->n, c->revision, false, &next), NULL));
		if (result)
			t->text[c->revision] = wire_text(result, &t->text_len[c->revision]);
		json_decref(result);
	}
	if (!t->text[c->revision]) {
		call_fail(c, MCP_ERR_INTERNAL, NULL, "Out of memory");
		return;
	}
	call_answer_text(c, t->text[c->revision], t->text_len[c->revision]);
}

/* For callers who may not use all tools: the tools that they may use, on one page. */
static void answer_allowed(struct mcp_call *c)
{
	const struct item_table *t = &c->server->items[ITEM_TOOL];
	json_t *items = json_array();

	for (size_t i = 0; i < t->n; i++)
		if (call_may(c, t->v[i]))
			(void)json_array_append_new(
			    items,
			    document(t->v[i], c->revision, client_shows_views(c->client_caps)));
	mcp_call_finish(c, list_result(ITEM_TOOL, items, NULL));
}

static void run_list(struct mcp_call *c, enum item_kind kind)
{
	struct mcp_server *s = c->server;
	const struct item_table *t = &s->items[kind];
	bool has_source = kind == ITEM_RESOURCE && s->source.list;
	size_t limit = s->config.page_size;
	char cursor[32];
	struct place at;
	json_t *items;
	size_t next;

	if (kind == ITEM_TOOL && s->config.may_call && c->who->limited) {
		answer_allowed(c);
		return;
	}
	if (place_parse(c, t, has_source, &at) < 0) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "Invalid cursor");
		return;
	}
	if (at.after) {
		s->source.list(c, *at.after ? at.after : NULL, limit, s->source.user);
		return;
	}
	const bool views = kind == ITEM_TOOL && client_shows_views(c->client_caps);
	if (!has_source && !views && at.offset == 0 && t->n <= limit) {
		answer_cached(c, kind);
		return;
	}
	if (has_source && at.offset == 0 && t->n == 0) {
		s->source.list(c, NULL, limit, s->source.user);
		return;
	}
	items = page(t, at.offset, limit, c->revision, views, &next);
	if (next > 0)
		(void)snprintf(cursor, sizeof(cursor), "o%zu", next);
	else if (has_source)
		(void)snprintf(cursor, sizeof(cursor), "s");
	mcp_call_finish(c, list_result(kind, items, next > 0 || has_source ? cursor : NULL));
}

void mcp_call_finish_page(struct mcp_call *c, json_t *items, const char *next)
{
	struct buf cursor = BUF_INIT(CURSOR_MAX);
	json_t *result = NULL;

	if (!next)
		result = list_result(ITEM_RESOURCE, items, NULL);
	else if (buf_printf(&cursor, "s%s", next) == 0)
		result = list_result(ITEM_RESOURCE, items, buf_str(&cursor));
	else
		json_decref(items);
	buf_done(&cursor);
	mcp_call_finish(c, result);
}

void run_tools_list(struct mcp_call *c)
{
	run_list(c, ITEM_TOOL);
}

void run_resources_list(struct mcp_call *c)
{
	run_list(c, ITEM_RESOURCE);
}

void run_templates_list(struct mcp_call *c)
{
	run_list(c, ITEM_TEMPLATE);
}

void run_prompts_list(struct mcp_call *c)
{
	run_list(c, ITEM_PROMPT);
}
