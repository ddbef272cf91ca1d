/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the method of a request, if the server offers it to clients of that era. */
#include "mcp/objects.h"

static const struct method methods[] = {
#define M(name, flags, offer, fn) {name, flags, offer, fn},
#include "mcp/methods.tbl.h"
#undef M
};

static bool is_offered(const struct mcp_server *s, enum method_offer offer)
{
	const unsigned offers = s->config.offers;

	switch (offer) {
	case OFFER_ALWAYS:
		return true;
	case OFFER_TOOLS:
		return server_offers(s, ITEM_TOOL);
	case OFFER_RESOURCES:
		return server_offers(s, ITEM_RESOURCE);
	case OFFER_SUBSCRIBE:
		return server_offers(s, ITEM_RESOURCE) && (offers & MCP_OFFER_RESOURCES_SUBSCRIBE);
	case OFFER_PROMPTS:
		return server_offers(s, ITEM_PROMPT);
	case OFFER_COMPLETIONS:
		return (offers & MCP_OFFER_COMPLETIONS) != 0;
	case OFFER_LOGGING:
		return (offers & MCP_OFFER_LOGGING) != 0;
	case OFFER_LISTEN:
		return (offers & (MCP_OFFER_TOOLS_LIST_CHANGED | MCP_OFFER_PROMPTS_LIST_CHANGED |
				  MCP_OFFER_RESOURCES_LIST_CHANGED | MCP_OFFER_TASKS |
				  MCP_OFFER_RESOURCES_SUBSCRIBE)) != 0;
	case OFFER_TASKS:
		return (offers & MCP_OFFER_TASKS) != 0;
	}
	return false;
}

const struct method *method_find(const struct mcp_server *s, const char *name, enum mcp_era era)
{
	const unsigned want = era == MCP_ERA_MODERN ? METHOD_MODERN : METHOD_LEGACY;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const struct method *m = &methods[i];

		if (streq(m->name, name))
			return (m->flags & want) && is_offered(s, m->offer) ? m : NULL;
	}
	return NULL;
}
