/* SPDX-License-Identifier: Apache-2.0 */
/* What a request is about, as far as that says which worker gets it; and whether that will ever answer. */
#include "fleet/router/parts.h"

#include "base/rand.h"
#include "base/text.h"

#define INITIALIZE_MAX (8u << 10) /* bytes of a message that is looked at */

bool hop_is_initialize(const struct buf *body)
{
	json_t *root = body->len > 0 && body->len <= INITIALIZE_MAX
			   ? json_loadb(body->data, body->len, 0, NULL)
			   : NULL;
	const char *method = json_string_value(json_object_get(root, "method"));
	const bool is = method && streq(method, "initialize");

	json_decref(root);
	return is;
}

const char *hop_id_of(const struct http_request *req)
{
	static const char *const names[] = {"id", "sandbox", "run"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_request_param(req, names[i]))
			return http_request_param(req, names[i]);
	return NULL;
}

bool hop_has_worker(enum place place, const struct http_request *req)
{
	return place == PLACE_ID || place == PLACE_BOX || place == PLACE_QUERY ||
	       place == PLACE_LINK || place == PLACE_NAME ||
	       (place == PLACE_MCP && http_request_header(req, "mcp-session-id"));
}

bool hop_is_lost(const struct fleet_router *f, const struct worker *w)
{
	const uint64_t since = w ? MAX(w->good_ns, f->began_ns) : f->began_ns;

	return now_ns() - since >= FLEET_LOST_S * NS_PER_S;
}
