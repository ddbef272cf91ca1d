/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/serve_worker.h"

#include "app/limits.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <stdio.h>

#define STATE_VERSION 1

void serve_worker_flag(int argc, char **argv, char buf[ROLE_FLAG_SIZE])
{
	static const char flag[] = "--role";

	for (int i = 1; i < argc && !streq(argv[i], "--"); i++) {
		const char *rest = argv[i] + sizeof(flag) - 1;

		if (!text_starts_with(argv[i], flag) || (*rest && *rest != '='))
			continue;
		(void)snprintf(buf, ROLE_FLAG_SIZE, "--fleet-role%s", rest);
		argv[i] = buf;
	}
}

/* Of a pool that is being filled, or an image that is on its way, the admission of a request knows more. */
static bool is_ready(const struct serve_worker *w)
{
	struct engine_space space;
	struct err e = ERR_INIT;

	if (w->draining || w->lost || manager_start(w->app->manager, &e) < 0)
		return false;
	manager_space(w->app->manager, &space);
	return space.state != ENGINE_SPACE_FULL;
}

static void get_state(struct http_request *req, void *user)
{
	const struct serve_worker *w = user;
	const struct app *a = w->app;
	const struct fleet_member *m = app_fleet(a);

	/* A router asks for itself. A request with a caller is one of a client that it passed on. */
	if (http_request_header(req, FLEET_CALLER_HEADER)) {
		http_respond_problem(req, ERR_NOT_FOUND, "Not found", NULL);
		return;
	}
	json_t *state = json_pack(
	    "{s:i, s:s, s:s, s:s, s:s, s:b, s:b, s:{s:I, s:I}, s:[s], s:s}", "v", STATE_VERSION,
	    "version", CAISSON_VERSION, "name", m->name, "worker", m->worker, "epoch", m->epoch,
	    "draining", w->draining, "ready", is_ready(w), "sandboxes", "open",
	    (json_int_t)manager_count(a->manager), "max", (json_int_t)a->settings.max_sessions,
	    "images", manager_image(a->manager), "profile", a->settings.profile);
	size_t len = 0;
	char *text = jsonio_text(state, JSON_COMPACT, &len);

	json_decref(state);
	if (text)
		http_respond_take(req, 200, "application/json", text, len);
	else
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
}

static const struct http_route of_members[] = {
    {HTTP_GET, "/fleet/state", get_state, 0, 0},
};

static void refuse(struct http_request *req, void *user UNUSED)
{
	http_respond_problem(
	    req, ERR_WORKER_ONLY,
	    "this server is a worker of a fleet: this address has /healthz, /readyz "
	    "and /metrics alone, and requests go to a router",
	    NULL);
}

#define ALL_METHODS (HTTP_GET | HTTP_HEAD | HTTP_POST | HTTP_PUT | HTTP_DELETE | HTTP_PATCH)
#define REFUSED     (HTTP_ROUTE_ANY_HOST | HTTP_ROUTE_ANY_ORIGIN | HTTP_ROUTE_ANY_TAIL)

static const struct http_route refusals[] = {
    {ALL_METHODS, "/", refuse, REFUSED, 0},
    {ALL_METHODS, "/{rest...}", refuse, REFUSED, 0},
};

int serve_worker_add_routes(struct serve_worker *w, struct http_server *http, struct api *api,
			    struct err *e)
{
	int r =
	    http_server_add_routes(http, of_members, ARRAY_SIZE(of_members), HTTP_SCOPE_MEMBERS, w);
	r = r < 0 ? r
		  : http_server_add_routes(http, refusals, ARRAY_SIZE(refusals), HTTP_SCOPE_PROBES,
					   w);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "routes of a worker");
	return api_add_probes(api, http, HTTP_SCOPE_PROBES, e);
}
