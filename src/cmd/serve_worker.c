/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/serve_worker.h"

#include "app/limits.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/engine.h"
#include "fleet/identity.h"
#include "sandbox/rest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_VERSION 1
#define ENDED_BYTES   (256u << 10)
#define ENDED_VALUES  8192u
#define ENDED_DEPTH   4u

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

/* A router asks for itself. A request with a caller is one of a client that it passed on. */
static bool is_of_client(struct http_request *req)
{
	const bool is = http_request_header(req, FLEET_CALLER_HEADER);

	if (is)
		http_respond_problem(req, ERR_NOT_FOUND, "Not found", NULL);
	return is;
}

static void respond_json(struct http_request *req, json_t *value)
{
	size_t len = 0;
	char *text = jsonio_text(value, JSON_COMPACT, &len);

	json_decref(value);
	if (text)
		http_respond_take(req, 200, "application/json", text, len);
	else
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
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

/* Only disks move: as root, with the native engine. */
static bool moves(const struct serve_worker *w)
{
	const struct engine *g = manager_engine(w->app->manager);

	return w->orders && g && (engine_caps(g) & ENGINE_CAP_PERSISTENT);
}

static void get_state(struct http_request *req, void *user)
{
	const struct serve_worker *w = user;
	const struct app *a = w->app;
	const struct fleet_member *m = app_fleet(a);
	const char *face = a->settings.faces; /* serve knows one */

	if (is_of_client(req))
		return;
	json_t *faces = face[0] ? json_pack("[s]", face) : json_array();
	char uses[FLEET_VERSION_BUFFER];
	fleet_tally_version(a->uses, uses);
	json_t *state =
	    json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:{s:I, s:I}, s:[s], s:s, s:o}",
		      "v", STATE_VERSION, "uses", uses, "version", CAISSON_VERSION, "name", m->name,
		      "worker", m->worker, "epoch", m->epoch, "draining", w->draining, "ready",
		      is_ready(w), "sandboxes", "open", (json_int_t)manager_count(a->manager),
		      "max", (json_int_t)a->settings.max_sessions, "images",
		      manager_image(a->manager), "profile", a->settings.profile, "faces", faces);
	if (state && moves(w)) {
		char stored[17];

		(void)snprintf(stored, sizeof(stored), "%016jx",
			       (uintmax_t)orders_version(w->orders));
		(void)json_object_set_new(state, "stored", json_string(stored));
	}
	respond_json(req, state);
}

static void get_uses(struct http_request *req, void *user)
{
	const struct serve_worker *w = user;
	const char *after = http_request_query(req, "after");

	if (is_of_client(req))
		return;
	if (after && !fleet_is_version(after))
		http_respond_problem(req, ERR_BAD_REQUEST, "after is 16 hexadecimal digits", NULL);
	else
		respond_json(req, fleet_tally_answer(w->app->uses, after));
}

/* ---- credentials that end ---- */

static void add_credential(const struct fleet_identity *id, void *user)
{
	(void)json_array_append_new(user, fleet_credential_json(id));
}

static bool read_after(const char *text, uint64_t *ret)
{
	*ret = 0;
	if (strlen(text) != FLEET_AFTER_SIZE - 1)
		return false;
	for (; *text; text++) {
		const int digit = text_hex_digit(*text);

		if (digit < 0)
			return false;
		*ret = *ret << 4 | (uint64_t)digit;
	}
	return true;
}

static void get_credentials(struct http_request *req, void *user)
{
	const struct serve_worker *w = user;
	const char *from = http_request_query(req, "after");
	char next[FLEET_AFTER_SIZE];
	uint64_t after = 0;

	if (is_of_client(req))
		return;
	if (from && !read_after(from, &after)) {
		http_respond_problem(req, ERR_BAD_REQUEST, "after is 16 hexadecimal digits", NULL);
		return;
	}
	json_t *list = json_array();
	const int more =
	    list ? auth_each_routed(w->auth, &after, FLEET_ENDED_MAX, add_credential, list)
		 : -ENOMEM;
	json_t *root = more < 0 ? NULL : json_pack("{s:i, s:O}", "v", 1, "credentials", list);
	if (more > 0) {
		(void)snprintf(next, sizeof(next), "%016jx", (uintmax_t)after);
		(void)json_object_set_new(root, "next", json_string(next));
	}
	json_decref(list);
	respond_json(req, root);
}

static int end_owners(struct auth *a, const json_t *list, struct err *e)
{
	const char *owners[FLEET_ENDED_MAX];
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		owners[i] = json_string_value(one);
		if (!owners[i] || !fleet_is_uuid(owners[i]))
			return err_set(e, ERR_BAD_REQUEST, 0, "owners are UUIDs");
	}
	return auth_end_owners(a, owners, json_array_size(list), e);
}

static int end_credentials(struct auth *a, const json_t *list, struct err *e)
{
	_cleanup_free_ struct fleet_identity *ids = calloc(FLEET_ENDED_MAX, sizeof(*ids));
	const json_t *one;
	size_t i;

	if (!ids)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "credentials that ended");
	json_array_foreach(list, i, one) {
		const int r = fleet_credential_read(one, &ids[i], e);

		if (r < 0)
			return r;
	}
	const int n = auth_end_routed(a, ids, json_array_size(list));
	return n < 0 ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "credentials that ended") : n;
}

static int end_all(struct auth *a, const json_t *root, unsigned *n, struct err *e)
{
	const json_t *owners = json_object_get(root, "owners");
	const json_t *credentials = json_object_get(root, "credentials");

	if (json_integer_value(json_object_get(root, "v")) != 1 || json_object_size(root) != 3 ||
	    !json_is_array(owners) || !json_is_array(credentials) ||
	    json_array_size(owners) > FLEET_ENDED_MAX ||
	    json_array_size(credentials) > FLEET_ENDED_MAX)
		return err_set(e, ERR_BAD_REQUEST, 0,
			       "it is {\"v\":1, \"owners\":[], \"credentials\":[]}, with at most "
			       "%u elements in each list",
			       FLEET_ENDED_MAX);
	const int gone = end_owners(a, owners, e);
	const int ended = gone < 0 ? gone : end_credentials(a, credentials, e);

	*n = (unsigned)(MAX(gone, 0) + MAX(ended, 0));
	return ended;
}

static void post_ended(struct http_request *req, void *user)
{
	const struct serve_worker *w = user;
	struct err e = ERR_INIT;
	size_t len = 0;
	json_t *root = NULL;
	unsigned n = 0;
	int r = 0;

	if (is_of_client(req))
		return;
	const char *text = http_request_body(req, &len);
	const size_t values = jsonio_count(text, len, ENDED_VALUES, ENDED_DEPTH);
	if (values == 0 || values > ENDED_VALUES ||
	    jsonio_read(text, len, JSON_REJECT_DUPLICATES, &root, NULL) < 0)
		r = err_set(&e, ERR_BAD_REQUEST, 0, "the body is no JSON object");
	r = r < 0 ? r : end_all(w->auth, root, &n, &e);
	json_decref(root);
	auth_tell_ended(w->auth, n); /* also users, if the credentials cannot be read */
	if (r < 0)
		http_respond_problem(req, e.code, e.text, NULL);
	else
		http_respond(req, 204, NULL, NULL, 0);
}

/* ---- the end ---- */

#define LOOK_NS (NS_PER_S / 4)

static bool may_end(struct serve_worker *w)
{
	const uint64_t now = now_ns();
	uint64_t asked_ns = 0;

	if (!w->orders)
		return true;
	if (!w->leaving) {
		w->leaving = true;
		w->begun_ns = now;
		w->since_ns = now;
	}
	manager_leave_all(w->app->manager);
	if (!orders_wait(w->orders, &asked_ns))
		return true;
	w->since_ns = MAX(w->since_ns, asked_ns);
	if (now - w->begun_ns < SERVE_WORKER_SAVE_NS && now - w->since_ns < SERVE_WORKER_IDLE_NS)
		return false;
	LOG_WARNING("end_before_all_is_saved",
		    LOG_U("duration_ms", (now - w->begun_ns) / NS_PER_MS));
	return true;
}

static int on_end(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct serve_worker *w = user;

	loop_work("timer", "the end of a worker");
	if (may_end(w)) {
		w->on_end(w->user);
		return 0;
	}
	(void)sd_event_source_set_time_relative(source, LOOK_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int serve_worker_end(struct serve_worker *w, void (*fn)(void *user), void *user)
{
	w->draining = true;
	w->on_end = fn;
	w->user = user;
	return sd_event_add_time_relative(w->app->loop, &w->end, CLOCK_MONOTONIC,
					  SERVE_WORKER_TELL_NS / NS_PER_US, 0, on_end, w);
}

void serve_worker_done(struct serve_worker *w)
{
	w->end = sd_event_source_disable_unref(w->end);
	w->orders = orders_free(w->orders);
}

/* ---- routes ---- */

static const struct http_route of_members[] = {
    {HTTP_GET, "/fleet/state", get_state, 0, 0},
    {HTTP_GET, "/fleet/uses", get_uses, 0, 0},
    {HTTP_GET, "/fleet/credentials", get_credentials, 0, 0},
    {HTTP_POST, "/fleet/ended", post_ended, 0, ENDED_BYTES},
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

static int open_orders(struct serve_worker *w, struct http_server *http, struct err *e)
{
	const struct app *a = w->app;
	const struct orders_config config = {.loop = a->loop,
					     .manager = a->manager,
					     .store = a->store,
					     .ca = a->settings.objects_ca};

	if (!a->store)
		return 0;
	const int r = orders_new(&config, &w->orders, e);
	return r < 0 ? r : orders_add_routes(w->orders, http, HTTP_SCOPE_MEMBERS, e);
}

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
	r = open_orders(w, http, e);
	return r < 0 ? r : api_add_probes(api, http, HTTP_SCOPE_PROBES, e);
}
