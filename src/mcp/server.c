/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: configuration, tools, resources, prompts. */
#include "mcp/internal.h"

#include "base/jsonio.h"
#include "base/rand.h"

#include <ctype.h>

#define TOOL_NAME_MAX 128U /* the specification's advice, and clients' limit */

static const char *const level_names[MCP_LEVEL_MAX_] = {
    [MCP_LEVEL_DEBUG] = "debug",   [MCP_LEVEL_INFO] = "info",
    [MCP_LEVEL_NOTICE] = "notice", [MCP_LEVEL_WARNING] = "warning",
    [MCP_LEVEL_ERROR] = "error",   [MCP_LEVEL_CRITICAL] = "critical",
    [MCP_LEVEL_ALERT] = "alert",   [MCP_LEVEL_EMERGENCY] = "emergency",
};

const char *level_name(enum mcp_level level)
{
	ASSERT(level < MCP_LEVEL_MAX_);
	return level_names[level];
}

int level_by_name(const char *name)
{
	for (int i = 0; i < MCP_LEVEL_MAX_; i++) {
		if (streq(level_names[i], name))
			return i;
	}
	return -EINVAL;
}

int64_t server_now_ms(const struct mcp_server *s)
{
	return s->config.now_ms ? s->config.now_ms() : (int64_t)(now_wall_ns() / NS_PER_MS);
}

int64_t server_tick_ms(const struct mcp_server *s)
{
	return s->config.tick_ms ? s->config.tick_ms() : (int64_t)(now_ns() / NS_PER_MS);
}

/* ---- configuration ---- */

static unsigned or_default(unsigned value, unsigned def)
{
	return value ? value : def;
}

/* Parses TEXT (NULL is fine) into KEY of OBJ. */
static int set_json(json_t *obj, const char *key, const char *text, json_type type, struct err *e)
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

static int set_text(json_t *obj, const char *key, const char *text, struct err *e)
{
	if (!text)
		return 0;
	if (json_object_set_new(obj, key, json_string(text)) < 0)
		return err_set(e, ERR_INTERNAL, EINVAL, "%s is not UTF-8", key);
	return 0;
}

static int make_info(struct mcp_server *s, const struct mcp_server_config *c, struct err *e)
{
	int r;

	s->info = json_object();
	r = set_text(s->info, "name", c->name, e);
	if (r == 0)
		r = set_text(s->info, "version", c->version, e);
	if (r == 0)
		r = set_text(s->info, "title", c->title, e);
	if (r == 0)
		r = set_text(s->info, "description", c->description, e);
	if (r == 0)
		r = set_text(s->info, "websiteUrl", c->website_url, e);
	if (r == 0)
		r = set_json(s->info, "icons", c->icons, JSON_ARRAY, e);
	return r;
}

struct mcp_server *mcp_server_new(const struct mcp_server_config *config, struct err *e)
{
	struct mcp_server *s = calloc(1, sizeof(*s));
	struct mcp_server_config *c;

	ASSERT(config->name && config->version);
	if (!s) {
		err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the MCP registry");
		return NULL;
	}
	list_init(&s->peers);
	list_init(&s->listens);
	list_init(&s->tasks);
	c = &s->config;
	*c = *config;
	/* Strings live on in s->info, but for the instructions. */
	c->name = c->version = c->title = c->description = c->website_url = c->icons = NULL;
	c->instructions = NULL;
	c->state_key = NULL;
	if (make_info(s, config, e) < 0)
		return mcp_server_free(s);
	if (config->instructions) {
		c->instructions = strdup(config->instructions);
		if (!c->instructions) {
			err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "instructions");
			return mcp_server_free(s);
		}
	}
	if (config->state_key)
		memcpy(s->state_key, config->state_key, sizeof(s->state_key));
	else
		rand_bytes(s->state_key, sizeof(s->state_key));
	c->page_size = or_default(c->page_size, 100);
	c->max_calls = or_default(c->max_calls, 256);
	c->max_listens = or_default(c->max_listens, 16384);
	c->max_tasks = or_default(c->max_tasks, 4096);
	c->max_own_tasks = or_default(c->max_own_tasks, 1024);
	c->state_ttl_s = or_default(c->state_ttl_s, 3600);
	c->ask_timeout_s = or_default(c->ask_timeout_s, 600);
	return s;
}

static void table_forget_texts(struct item_table *t)
{
	for (size_t i = 0; i < MCP_REV_MAX_; i++) {
		free(t->text[i]);
		t->text[i] = NULL;
	}
}

struct mcp_server *mcp_server_free(struct mcp_server *s)
{
	if (!s)
		return NULL;
	ASSERT(list_is_empty(&s->peers));
	task_drop_all(s);
	for (size_t k = 0; k < ITEM_KIND_MAX_; k++) {
		struct item_table *t = &s->items[k];

		for (size_t i = 0; i < t->n; i++)
			item_unref(t->v[i]);
		free(t->v);
		table_forget_texts(t);
	}
	json_decref(s->info);
	free((void *)(uintptr_t)s->config.instructions);
	explicit_bzero(s->state_key, sizeof(s->state_key));
	free(s);
	return NULL;
}

void mcp_server_tick(struct mcp_server *s)
{
	int64_t now = server_tick_ms(s);

	task_expire(s, now);
	/* An expired question ends its call, whose transport may close the peer under it. */
	list_for_each(node, &s->peers) ask_expire(list_entry(node, struct mcp_peer, node), now);
}

/* ---- items ---- */

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

/* Takes IT over, also on failure. */
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
	r = set_text(it->doc, "name", t->name, e);
	if (r == 0)
		r = set_text(it->doc, "title", t->title, e);
	if (r == 0)
		r = set_text(it->doc, "description", t->description, e);
	if (r == 0)
		r = set_json(it->doc, "inputSchema", schema, JSON_OBJECT, e);
	if (r == 0)
		r = set_json(it->doc, "outputSchema", t->output_schema, JSON_OBJECT, e);
	if (r == 0)
		r = set_json(it->doc, "annotations", t->annotations, JSON_OBJECT, e);
	if (r == 0)
		r = set_json(it->doc, "icons", t->icons, JSON_ARRAY, e);
	if (r == 0)
		r = set_json(it->doc, "_meta", t->meta, JSON_OBJECT, e);
	if (r == 0)
		r = set_json(needs, "needs", t->needs, JSON_OBJECT, e);
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

static int add_resource(struct mcp_server *s, enum item_kind kind, const struct mcp_resource *res,
			struct err *e)
{
	struct item *it;
	int r;

	ASSERT(res->read && res->uri && res->name);
	it = item_new(res->uri, e);
	if (!it)
		return -ENOMEM;
	r = set_text(it->doc, kind == ITEM_TEMPLATE ? "uriTemplate" : "uri", res->uri, e);
	if (r == 0)
		r = set_text(it->doc, "name", res->name, e);
	if (r == 0)
		r = set_text(it->doc, "title", res->title, e);
	if (r == 0)
		r = set_text(it->doc, "description", res->description, e);
	if (r == 0)
		r = set_text(it->doc, "mimeType", res->mime_type, e);
	if (r == 0)
		r = set_json(it->doc, "annotations", res->annotations, JSON_OBJECT, e);
	if (r == 0)
		r = set_json(it->doc, "icons", res->icons, JSON_ARRAY, e);
	if (r == 0)
		r = set_json(it->doc, "_meta", res->meta, JSON_OBJECT, e);
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

static int prompt_fill(struct item *it, const struct mcp_prompt *p, struct err *e)
{
	json_t *args = json_array();
	int r = set_text(it->doc, "name", p->name, e);

	if (r == 0)
		r = set_text(it->doc, "title", p->title, e);
	if (r == 0)
		r = set_text(it->doc, "description", p->description, e);
	if (r == 0)
		r = set_json(it->doc, "icons", p->icons, JSON_ARRAY, e);
	if (json_object_set_new(it->doc, "arguments", args) < 0)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "arguments");
	for (size_t i = 0; i < p->n_args && r == 0; i++) {
		const struct mcp_prompt_arg *a = &p->args[i];
		json_t *arg = json_object();

		if (json_array_append_new(args, arg) < 0)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "arguments");
		r = set_text(arg, "name", a->name, e);
		if (r == 0)
			r = set_text(arg, "title", a->title, e);
		if (r == 0)
			r = set_text(arg, "description", a->description, e);
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

/* ---- what is offered ---- */

bool server_offers(const struct mcp_server *s, enum item_kind kind)
{
	const unsigned offers = s->config.offers;

	switch (kind) {
	case ITEM_TOOL:
		return s->items[ITEM_TOOL].n > 0 || (offers & MCP_OFFER_TOOLS_LIST_CHANGED);
	case ITEM_RESOURCE:
	case ITEM_TEMPLATE:
		return s->items[ITEM_RESOURCE].n > 0 || s->items[ITEM_TEMPLATE].n > 0 ||
		       s->source.list || (offers & MCP_OFFER_RESOURCES);
	case ITEM_PROMPT:
		return s->items[ITEM_PROMPT].n > 0 || (offers & MCP_OFFER_PROMPTS);
	case ITEM_KIND_MAX_:
		break;
	}
	return false;
}

/* One row per flag inside a capability: {capability, flag, offer}. */
static const struct capability_row {
	const char *capability;
	const char *flag;
	unsigned offer;
} capability_rows[] = {
    {"tools", "listChanged", MCP_OFFER_TOOLS_LIST_CHANGED},
    {"resources", "subscribe", MCP_OFFER_RESOURCES_SUBSCRIBE},
    {"resources", "listChanged", MCP_OFFER_RESOURCES_LIST_CHANGED},
    {"prompts", "listChanged", MCP_OFFER_PROMPTS_LIST_CHANGED},
};

json_t *server_capabilities(const struct mcp_server *s, enum mcp_revision rev)
{
	const unsigned offers = s->config.offers;
	json_t *caps = json_object();

	if (server_offers(s, ITEM_TOOL))
		json_object_set_new(caps, "tools", json_object());
	if (server_offers(s, ITEM_RESOURCE))
		json_object_set_new(caps, "resources", json_object());
	if (server_offers(s, ITEM_PROMPT))
		json_object_set_new(caps, "prompts", json_object());
	for (size_t i = 0; i < ARRAY_SIZE(capability_rows); i++) {
		const struct capability_row *row = &capability_rows[i];
		json_t *cap = json_object_get(caps, row->capability);

		if (cap && (offers & row->offer))
			json_object_set_new(cap, row->flag, json_true());
	}
	if (offers & MCP_OFFER_LOGGING)
		json_object_set_new(caps, "logging", json_object());
	if ((offers & MCP_OFFER_COMPLETIONS) && rev >= MCP_REV_2025_03_26)
		json_object_set_new(caps, "completions", json_object());
	if ((offers & MCP_OFFER_TASKS) && revision_is_modern(rev))
		json_object_set_new(caps, "extensions", json_pack("{s:{}}", EXT_TASKS));
	return caps;
}
