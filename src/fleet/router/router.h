/* SPDX-License-Identifier: Apache-2.0 */
/* The router of a fleet: it knows who asks, and sends what needs a sandbox to the worker that has it, or shall have it.
 *
 * It is the same HTTP server as that of role `all`. fleet_router_reroute() is its hook for tables of routes: routes.tbl.h says of
 * every route whether this server answers it, or which worker. A route that is not in that table keeps the server from starting.
 *
 * A worker is known by the short id that its answer to GET /fleet/state names. It is asked each second; what does not answer twice in
 * a row, or refuses connections, gets nothing new. Requests for sandboxes that it has wait for nothing: they are NODE_UNREACHABLE,
 * and NODE_LOST once it has been away for FLEET_LOST_S seconds. */
#pragma once

#include "api/auth/accounting.h"
#include "api/auth/auth.h"
#include "base/buf.h"
#include "budget/budgets.h"
#include "fleet/face.h"
#include "fleet/ids.h"
#include "fleet/router/members.h"
#include "http/http.h"
#include "http/tls_client.h"

#include <jansson.h>

#define FLEET_LOST_S      30
#define FLEET_WORKER_NAME "worker.caisson.internal" /* in certificates */
#define FLEET_TRIES_MAX   3u                        /* workers that are asked for one new sandbox */
#define FLEET_BODY_MAX    (1u << 20) /* bytes of a request that can be sent to another worker, too */
#define FLEET_IDLE_S      60         /* a connection to a worker without a request */
#define FLEET_IDLE_MAX    64u        /* of those, for each worker */
#define FLEET_IDLE_TOTAL  1024u      /* and in all */
#define FLEET_LINKS_MAX   4096u      /* requests of clients to one worker */

struct fleet_router;
struct objects_store;

/* For stored sandboxes that move; borrowed, all of it, until fleet_router_free(). */
struct fleet_moves_config {
	const char *path, *address; /* of the database: struct store_config */
	const struct objects_store *objects;
	const char *ca;     /* of the object store; "" = those of the machine */
	const void *secret; /* of all keys of snapshots */
	size_t secret_len;
	uint64_t user_bytes, total_bytes; /* that saved sandboxes may have; 0 = no limit */
};

struct fleet_router_config {
	sd_event *loop; /* borrowed, all of them, until fleet_router_free() */
	struct auth *auth;
	struct store *store; /* NULL: there are no users */
	struct accounting *accounting;
	struct budgets *budgets;
	struct http_tls_client *tls;
	const struct fleet_moves_config *moves; /* NULL: they do not */
	const struct fleet_key *key;
	const char
	    *port_domain; /* below which servers in sandboxes have names; "" = they have none */
	const char *
	    public_origin; /* by which links of answers lead here; "" = the host that a client has used */
};

int fleet_router_new(const struct fleet_router_config *config, struct fleet_router **ret,
		     struct err *e) MUST_CHECK;
/* After http_server_free(). NULL is fine. */
struct fleet_router *fleet_router_free(struct fleet_router *f);

/* For http_config.reroute; USER is the struct fleet_router. */
const struct http_route *fleet_router_reroute(const struct http_route *row, void **userdata,
					      void *user);
/* The routes of MCP and of links, which no other room of a router has. */
int fleet_router_add_routes(struct fleet_router *f, struct http_server *http,
			    unsigned scopes) MUST_CHECK;
/* FACE has the routes that judge by themselves who asks; borrowed. Before they are added. F may be NULL. */
void fleet_router_set_face(struct fleet_router *f, const struct fleet_face *face);
/* New connections have this certificate, key and authority; those that are in use go on with theirs. Borrowed as before. */
void fleet_router_set_tls(struct fleet_router *f, struct http_tls_client *tls);
/* Who is to be asked from now on. Workers that are not in M any more get nothing new, and keep what they have. */
void fleet_router_set_members(struct fleet_router *f, const struct fleet_members *m);
/* What administrators get of the workers: {"workers":[…]}, a new reference, or NULL: no memory. */
json_t *fleet_router_json(struct fleet_router *f);
/* Appends lines of metrics. */
int fleet_router_metrics(struct fleet_router *f, struct buf *b) MUST_CHECK;
/* The user OWNER was removed: workers end what they have of it. One that does not answer now is told when it does, as long as this
 * router runs. */
void fleet_router_forget_user(struct fleet_router *f, const char *owner);
