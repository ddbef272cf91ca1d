/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rest/rest.h"

#include "api/auth/login_limits.h"
#include "api/ports/ports.h"
#include "api/rest/figures.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

_Static_assert(STORE_PEER_SIZE >= HTTP_NETWORK_TEXT, "a network fits");

int api_new(const struct api_config *config, struct api **ret, struct err *e)
{
	struct api *a = calloc(1, sizeof(*a));

	if (!a)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the API");
	list_init(&a->runs);
	list_init(&a->branches);
	list_init(&a->strangers);
	a->config = *config;
	list_init(&a->logins);
	a->login_limits = login_limits_new();
	if (!a->login_limits) {
		free(a);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the API");
	}
	a->began_ns = now_ns();
	int r = figures_new(a, &a->figures, e);
	if (r < 0) {
		a->login_limits = login_limits_free(a->login_limits);
		free(a);
		return r;
	}
	*ret = a;
	return 0;
}

struct api *api_free(struct api *a)
{
	if (!a)
		return NULL;
	a->figures = figures_free(a->figures);
	rest_done(a);
	runs_done(a);
	ports_done(a);
	free(a->openapi);
	describe_pages_done(a);
	classic_logins_done(a);
	a->login_limits = login_limits_free(a->login_limits);
	free(a);
	return NULL;
}

int api_add_routes(struct api *a, struct http_server *http, unsigned scopes, struct err *e)
{
	int r = users_add_routes(a, http, scopes);

	r = r < 0 ? r : stats_add_routes(a, http, scopes);
	r = r < 0 ? r : rest_add_routes(a, http, scopes);
	r = r < 0 ? r : ports_add_routes(a, http, scopes);
	r = r < 0 ? r : describe_pages_add_routes(a, http, scopes);

	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "routes of the API") : 0;
}

int api_add_probes(struct api *a, struct http_server *http, unsigned scopes, struct err *e)
{
	const int r = stats_add_probes(a, http, scopes);

	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "routes for health checks") : 0;
}

void api_set_port_face(struct api *a, const struct api_port_face *face)
{
	a->port_face = *face;
}

int api_port_url(struct api *a, const char *base, const char *owner, const char *id, uint16_t port,
		 struct buf *ret)
{
	struct port_name n = {.port = port};
	uint64_t until;
	const int r = text_copy(n.id, sizeof(n.id), id);

	return r < 0 ? r : port_url(a, base, owner, &n, ret, &until);
}

void api_of_router(struct http_request *req, void *user UNUSED)
{
	http_respond_problem(req, ERR_WORKER_ONLY,
			     "this server is a worker of a fleet: its routers have users, keys and "
			     "sign-in",
			     NULL);
}

static void on_gone(void *user)
{
	struct api_wait *w = user;

	w->req = NULL;
}

struct api_wait *api_wait_new(struct api *a, struct http_request *req, const struct caller *who)
{
	struct api_wait *w = calloc(1, sizeof(*w));

	if (!w) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return NULL;
	}
	w->api = a;
	w->req = req;
	w->who = who ? caller_ref(who) : NULL;
	http_request_on_gone(req, on_gone, w);
	return w;
}

void api_wait_free(struct api_wait *w)
{
	caller_unref(w->who);
	free(w);
}

/* The network that a request is counted by. If it is not known: the address, without its port. */
static void source_of(const struct http_request *req, char ret[STORE_PEER_SIZE])
{
	const char *peer = http_request_peer(req), *port = strrchr(peer, ':');
	const bool bare = !port || (peer[0] != '[' && strchr(peer, ':') != port);

	if (!http_request_network(req, ret))
		(void)snprintf(ret, STORE_PEER_SIZE, "%.*s", bare ? -1 : (int)(port - peer), peer);
}

void api_audit(struct api *a, struct http_request *req, const struct caller *who,
	       const char *action, const char *object, const char *result)
{
	const enum store_audit_class class = streq(result, "ok") ? STORE_AUDIT_DONE
					     : who               ? STORE_AUDIT_FAILED
								 : STORE_AUDIT_REFUSED;
	char source[STORE_PEER_SIZE] = "";

	if (req && class == STORE_AUDIT_REFUSED)
		source_of(req, source);
	store_audit_as(a->config.store, class, source, who ? who->owner : NULL, action, object,
		       result, NULL, req ? http_request_peer(req) : NULL);
}
