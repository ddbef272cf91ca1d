/* SPDX-License-Identifier: Apache-2.0 */
/* REST: what the server is (its version, pool and images; for administrators its settings, and what
 * protects the machine), and its figures over time. */
#include "api/rest/figures.h"
#include "api/rest/rest.h"

#include "base/rand.h"

#define MINUTES_DEFAULT 60

static json_t *pool_json(const struct api *a)
{
	struct engine_pool p;

	manager_pool(a->config.manager, &p);
	return json_pack("{s:I, s:I, s:I}", "ready", (json_int_t)p.ready, "claimed",
			 (json_int_t)p.claimed, "cold", (json_int_t)p.cold);
}

static void tell(void *call)
{
	struct rest_call *c = call;
	const struct api *a = c->api;
	json_t *doc = a->config.server ? a->config.server(c->who->admin, a->config.server_user)
				       : json_object();

	/* A document that could not be completed is one that could not be made. */
	if (doc && (json_object_set_new(doc, "version", json_string(a->config.version)) < 0 ||
		    json_object_set_new(
			doc, "uptime_s",
			json_integer((json_int_t)((now_ns() - a->began_ns) / NS_PER_S))) < 0 ||
		    json_object_set_new(doc, "pool", pool_json(a)) < 0)) {
		json_decref(doc);
		doc = NULL;
	}
	rest_reply(c, 200, doc);
}

void rest_get_server(struct rest_call *c)
{
	rest_look_at_images(c, tell);
}

void rest_get_figures(struct rest_call *c)
{
	const unsigned minutes = (unsigned)rest_query_int(c, "minutes", MINUTES_DEFAULT);

	rest_reply(c, 200, figures_json(c->api->figures, minutes));
}

void rest_get_fleet(struct rest_call *c)
{
	const struct api *a = c->api;

	if (a->config.fleet)
		rest_reply(c, 200, a->config.fleet(a->config.user));
	else
		rest_refuse(c, ERR_NOT_FOUND,
			    a->config.worker ? "this server is a worker; its routers know the fleet"
					     : "this server is the router of no fleet");
}
