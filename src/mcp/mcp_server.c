/* SPDX-License-Identifier: Apache-2.0 */
/* The server object: its configuration, its clocks, and the capabilities it offers. registry.c has
 * what is registered with it. */
#include "mcp/objects.h"

#include "base/rand.h"

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

static int make_info(struct mcp_server *s, const struct mcp_server_config *c, struct err *e)
{
	int r;

	s->info = json_object();
	r = doc_set_text(s->info, "name", c->name, e);
	if (r == 0)
		r = doc_set_text(s->info, "version", c->version, e);
	if (r == 0)
		r = doc_set_text(s->info, "title", c->title, e);
	if (r == 0)
		r = doc_set_text(s->info, "description", c->description, e);
	if (r == 0)
		r = doc_set_text(s->info, "websiteUrl", c->website_url, e);
	if (r == 0)
		r = doc_set_json(s->info, "icons", c->icons, JSON_ARRAY, e);
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
	list_init(&s->notes);
	c = &s->config;
	*c = *config;
	/* s->info keeps the strings, except the instructions. */
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
	c->state_ttl_s = or_default(c->state_ttl_s, 3600);
	c->ask_timeout_s = or_default(c->ask_timeout_s, 600);
	return s;
}

struct mcp_server *mcp_server_free(struct mcp_server *s)
{
	if (!s)
		return NULL;
	ASSERT(list_is_empty(&s->peers));
	task_drop_all(s);
	server_forget_notes(s);
	for (size_t k = 0; k < ITEM_KIND_MAX_; k++)
		item_table_done(&s->items[k]);
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
	/* When a question expires its call ends, and the transport may then close the peer. */
	list_for_each(node, &s->peers)
		ask_expire(list_entry(node, struct mcp_peer, node), now);
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

/* One row for each flag inside a capability: {capability, flag, offer}. */
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

bool client_shows_views(const json_t *client)
{
	const json_t *ui = json_object_get(json_object_get(client, "extensions"), EXT_UI);
	const json_t *types = json_object_get(ui, "mimeTypes"), *type;
	size_t i;

	json_array_foreach(types, i, type) {
		if (json_is_string(type) && streq(json_string_value(type), MCP_VIEW_TYPE))
			return true;
	}
	return false;
}

static bool has_views(const struct mcp_server *s)
{
	const struct item_table *t = &s->items[ITEM_TOOL];

	for (size_t i = 0; i < t->n; i++)
		if (t->v[i]->view)
			return true;
	return false;
}

/* The extensions that both sides know, by the name of each; NULL: none. */
static json_t *server_extensions(const struct mcp_server *s, enum mcp_revision rev,
				 const json_t *client)
{
	json_t *list = json_object();

	if ((s->config.offers & MCP_OFFER_TASKS) && revision_is_modern(rev))
		json_object_set_new(list, EXT_TASKS, json_object());
	if (has_views(s) && client_shows_views(client))
		json_object_set_new(list, EXT_UI, json_object());
	if (json_object_size(list) > 0)
		return list;
	json_decref(list);
	return NULL;
}

json_t *server_capabilities(const struct mcp_server *s, enum mcp_revision rev, const json_t *client)
{
	const unsigned offers = s->config.offers;
	json_t *caps = json_object();
	json_t *extensions = server_extensions(s, rev, client);

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
	if (extensions)
		json_object_set_new(caps, "extensions", extensions);
	return caps;
}
