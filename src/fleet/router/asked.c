/* SPDX-License-Identifier: Apache-2.0 */
/* What a request is about, as far as that says which worker gets it; and whether that will ever answer. */
#include "fleet/router/parts.h"

#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <stdio.h>

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

const char *hop_owner_of(const struct http_request *req, const struct caller *who)
{
	const char *other = who->admin ? http_request_query(req, "owner") : NULL;

	return other ? other : who->owner;
}

/* A connection of a trusted proxy has many clients, one after the other, and counts for the last one who showed a key: so what the
 * proxy says of this request counts. Clients of this machine are bound by the total alone. */
const char *hop_payer(const struct http_request *req, const struct caller *who,
		      char ret[BUDGET_PRINCIPAL_SIZE])
{
	char network[HTTP_NETWORK_TEXT];

	if (who)
		return who->owner;
	if (!http_request_network(req, network))
		return http_request_payer(req);
	if (streq(network, HTTP_NETWORK_LOOPBACK))
		return BUDGET_LOCAL;
	(void)snprintf(ret, BUDGET_PRINCIPAL_SIZE, BUDGET_STRANGER "%s", network);
	return ret;
}

int hop_count_box(struct fleet_router *f, const struct fleet_names *names,
		  struct budget_share *share, struct err *e)
{
	char payer[BUDGET_PRINCIPAL_SIZE];
	uint8_t hash[crypto_generichash_BYTES_MIN];
	char token[2 * sizeof(hash) + 1];

	/* Administrators see who has how much of a budget, and no token may be there. */
	(void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)names->token,
				 strlen(names->token), NULL, 0);
	(void)sodium_bin2hex(token, sizeof(token), hash, sizeof(hash));
	(void)snprintf(payer, sizeof(payer), "box:%.*s", FLEET_NAMES_SIZE - 1,
		       names->id[0] ? names->id : token);
	return budget_take(f->config.budgets, payer, BUDGET_PORT_REQUESTS, 1, share, e);
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
