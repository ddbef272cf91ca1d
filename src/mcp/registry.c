/* SPDX-License-Identifier: Apache-2.0 */
/* What is registered with a server: tools, resources, templates and prompts. Each is kept as the
 * document that clients see in lists. */
#include "mcp/objects.h"

#include "base/jsonio.h"

#include <ctype.h>

#define TOOL_NAME_MAX 128U /* recommended by the specification; clients have the same limit */

/* ---- documents that clients read ---- */

int doc_set_json(json_t *obj, const char *key, const char *text, json_type type, struct err *e)
{
	json_error_t fault;
	json_t *value;

	if (!text)
		return 0;
	if (jsonio_read(text, strlen(text), JSON_REJECT_DUPLICATES, &value, &fault) < 0)
		return err_set(e, ERR_INTERNAL, EINVAL, "%s is not JSON: %s", key, fault.text);
	if (json_typeof(value) != type) {
		json_decref(value);
		return err_set(e, ERR_INTERNAL, EINVAL, "%s has the wrong JSON type", key);
	}
	if (json_object_set_new(obj, key, value) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "%s", key);
	return 0;
}

int doc_set_text(json_t *obj, const char *key, const char *text, struct err *e)
{
	if (!text)
		return 0;
	if (json_object_set_new(obj, key, json_string(text)) < 0)
		return err_set(e, ERR_INTERNAL, EINVAL, "%s is not UTF-8", key);
	return 0;
}

/* ---- items and their tables ---- */

struct item *item_ref(struct item *it)
{
	it->refs++;
	return it;
}

struct item *item_unref(struct item *it)
{
	if (!it || --it->refs > 0)
		return NULL;
	for (size_t i = 0; i < it->n_headers; i++) {
		free(it->headers[i].path);
		free(it->headers[i].header);
	}
	free(it->headers);
	json_decref(it->doc);
	json_decref(it->needs);
	free(it->view);
	free(it->key);
	free(it);
	return NULL;
}

static struct item *item_new(const char *key, struct err *e)
{
	struct item *it = calloc(1, sizeof(*it));

	if (it) {
		it->refs = 1;
		it->key = strdup(key);
		it->doc = json_object();
		if (it->key && it->doc)
			return it;
	}
	err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "registering '%s'", key);
	return item_unref(it);
}

static size_t item_index(const struct item_table *t, const char *key)
{
	size_t i = 0;

	while (i < t->n && !streq(t->v[i]->key, key))
		i++;
	return i;
}

struct item *item_find(const struct mcp_server *s, enum item_kind kind, const char *key)
{
	const struct item_table *t = &s->items[kind];
	size_t i = item_index(t, key);

	return i < t->n ? t->v[i] : NULL;
}

static void table_forget_texts(struct item_table *t)
{
	for (size_t i = 0; i < MCP_REV_MAX_; i++) {
		free(t->text[i]);
		t->text[i] = NULL;
	}
}

void item_table_done(struct item_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		item_unref(t->v[i]);
	free(t->v);
	table_forget_texts(t);
}

/* Takes IT, also on failure. */
static int table_put(struct item_table *t, struct item *it, struct err *e)
{
	size_t i = item_index(t, it->key);

	table_forget_texts(t);
	if (i < t->n) {
		item_unref(t->v[i]);
		t->v[i] = it;
		return 0;
	}
	if (t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 16;
		struct item **v = reallocarray(t->v, cap, sizeof(struct item *));

		if (!v) {
			item_unref(it);
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the MCP registry");
		}
		t->v = v;
		t->cap = cap;
	}
	t->v[t->n++] = it;
	return 0;
}

static int table_remove(struct item_table *t, const char *key)
{
	size_t i = item_index(t, key);

	if (i == t->n)
		return -ENOENT;
	table_forget_texts(t);
	item_unref(t->v[i]);
	t->n--;
	memmove(&t->v[i], &t->v[i + 1], (t->n - i) * sizeof(struct item *));
	return 0;
}

/* ---- tools ---- */

static bool is_tool_name(const char *s)
{
	size_t len = strlen(s);

	if (len == 0 || len > TOOL_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)s[i]) && !strchr("_-.", s[i]))
			return false;
	}
	return true;
}

static int tool_fill(struct item *it, const struct mcp_tool *t, struct err *e)
{
	static const char no_arguments[] = "{\"type\":\"object\",\"additionalProperties\":false}";
	const char *schema = t->input_schema ? t->input_schema : no_arguments;
	json_t *needs = json_object();
	const char *why = NULL;
	int r;

	it->needs = needs;
	r = doc_set_text(it->doc, "name", t->name, e);
	if (r == 0)
		r = doc_set_text(it->doc, "title", t->title, e);
	if (r == 0)
		r = doc_set_text(it->doc, "description", t->description, e);
	if (r == 0)
		r = doc_set_json(it->doc, "inputSchema", schema, JSON_OBJECT, e);
	if (r == 0)
		r = doc_set_json(it->doc, "outputSchema", t->output_schema, JSON_OBJECT, e);
	if (r == 0)
		r = doc_set_json(it->doc, "annotations", t->annotations, JSON_OBJECT, e);
	if (r == 0)
		r = doc_set_json(it->doc, "icons", t->icons, JSON_ARRAY, e);
	if (r == 0)
		r = doc_set_json(it->doc, "_meta", t->meta, JSON_OBJECT, e);
	if (r == 0)
		r = doc_set_json(needs, "needs", t->needs, JSON_OBJECT, e);
	if (r < 0)
		return r;
	it->needs = json_incref(json_object_get(needs, "needs"));
	json_decref(needs);
	if (header_params_collect(it, &why) < 0)
		return err_set(e, ERR_INTERNAL, EINVAL, "x-mcp-header: %s", why);
	return 0;
}

static bool has_type_object(const json_t *schema)
{
	const char *type = json_string_value(json_object_get(schema, "type"));

	return type && streq(type, "object");
}

int mcp_server_add_tool(struct mcp_server *s, const struct mcp_tool *t, struct err *e)
{
	struct item *it;
	int r;

	ASSERT(t->call);
	if (!is_tool_name(t->name))
		return err_set(e, ERR_INTERNAL, EINVAL, "tool name '%s'", t->name);
	it = item_new(t->name, e);
	if (!it)
		return -ENOMEM;
	r = tool_fill(it, t, e);
	if (r == 0 && t->view && !(it->view = strdup(t->view)))
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "view");
	if (r == 0 && !has_type_object(json_object_get(it->doc, "inputSchema")))
		r = err_set(e, ERR_INTERNAL, EINVAL, "the input schema's type must be object");
	if (r < 0) {
		item_unref(it);
		return err_wrap(e, "tool '%s'", t->name);
	}
	it->flags = t->flags;
	it->call = t->call;
	it->user = t->user;
	return table_put(&s->items[ITEM_TOOL], it, e);
}

int mcp_server_remove_tool(struct mcp_server *s, const char *name)
{
	return table_remove(&s->items[ITEM_TOOL], name);
}

/* ---- resources ---- */

static int add_resource(struct mcp_server *s, enum item_kind kind, const struct mcp_resource *res,
			struct err *e)
{
	struct item *it;
	int r;

	ASSERT(res->read && res->uri && res->name);
	it = item_new(res->uri, e);
	if (!it)
		return -ENOMEM;
	r = doc_set_text(it->doc, kind == ITEM_TEMPLATE ? "uriTemplate" : "uri", res->uri, e);
	if (r == 0)
		r = doc_set_text(it->doc, "name", res->name, e);
	if (r == 0)
		r = doc_set_text(it->doc, "title", res->title, e);
	if (r == 0)
		r = doc_set_text(it->doc, "description", res->description, e);
	if (r == 0)
		r = doc_set_text(it->doc, "mimeType", res->mime_type, e);
	if (r == 0)
		r = doc_set_json(it->doc, "annotations", res->annotations, JSON_OBJECT, e);
	if (r == 0)
		r = doc_set_json(it->doc, "icons", res->icons, JSON_ARRAY, e);
	if (r == 0)
		r = doc_set_json(it->doc, "_meta", res->meta, JSON_OBJECT, e);
	if (r == 0 && res->size > 0 &&
	    json_object_set_new(it->doc, "size", json_integer(res->size)) < 0)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "size");
	if (r < 0) {
		item_unref(it);
		return err_wrap(e, "resource '%s'", res->uri);
	}
	it->read = res->read;
	it->user = res->user;
	return table_put(&s->items[kind], it, e);
}

int mcp_server_add_resource(struct mcp_server *s, const struct mcp_resource *res, struct err *e)
{
	return add_resource(s, ITEM_RESOURCE, res, e);
}

int mcp_server_add_template(struct mcp_server *s, const struct mcp_resource *res, struct err *e)
{
	return add_resource(s, ITEM_TEMPLATE, res, e);
}

void mcp_server_set_resource_source(struct mcp_server *s, const struct mcp_resource_source *source)
{
	s->source = *source;
}

/* ---- prompts ---- */

static int prompt_fill(struct item *it, const struct mcp_prompt *p, struct err *e)
{
	json_t *args = json_array();
	int r = doc_set_text(it->doc, "name", p->name, e);

	if (r == 0)
		r = doc_set_text(it->doc, "title", p->title, e);
	if (r == 0)
		r = doc_set_text(it->doc, "description", p->description, e);
	if (r == 0)
		r = doc_set_json(it->doc, "icons", p->icons, JSON_ARRAY, e);
	if (json_object_set_new(it->doc, "arguments", args) < 0)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "arguments");
	for (size_t i = 0; i < p->n_args && r == 0; i++) {
		const struct mcp_prompt_arg *a = &p->args[i];
		json_t *arg = json_object();

		if (json_array_append_new(args, arg) < 0)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "arguments");
		r = doc_set_text(arg, "name", a->name, e);
		if (r == 0)
			r = doc_set_text(arg, "title", a->title, e);
		if (r == 0)
			r = doc_set_text(arg, "description", a->description, e);
		if (r == 0 && a->required && json_object_set_new(arg, "required", json_true()) < 0)
			r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "required");
	}
	return r;
}

int mcp_server_add_prompt(struct mcp_server *s, const struct mcp_prompt *p, struct err *e)
{
	struct item *it;
	int r;

	ASSERT(p->get && p->name);
	it = item_new(p->name, e);
	if (!it)
		return -ENOMEM;
	r = prompt_fill(it, p, e);
	if (r < 0) {
		item_unref(it);
		return err_wrap(e, "prompt '%s'", p->name);
	}
	it->get = p->get;
	it->user = p->user;
	return table_put(&s->items[ITEM_PROMPT], it, e);
}

int mcp_server_remove_prompt(struct mcp_server *s, const char *name)
{
	return table_remove(&s->items[ITEM_PROMPT], name);
}

void mcp_server_set_completer(struct mcp_server *s, mcp_complete_fn fn, void *user)
{
	s->complete = fn;
	s->complete_user = user;
}
