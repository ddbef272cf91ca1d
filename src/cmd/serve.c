/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson serve`: serves MCP, artifact links and the page over HTTP, and `caisson stdio` of the same user over a unix socket, until
 * SIGTERM or SIGINT. SIGHUP opens the log and reads the settings file again. */
#include "app/app.h"
#include "app/limits.h"
#include "app/policy_json.h"
#include "app/read_settings.h"
#include "bridge/bridge.h"
#include "cmd/cmd.h"
#include "cmd/serve_address.h"
#include "cmd/serve_hello.h"
#include "cmd/serve_names.h"
#include "cmd/serve_worker.h"
#include "cmd/server_facts.h"
#include "doctor/doctor.h"
#include "engine/maker/native/probe.h"
#include "faces/e2b/e2b.h"
#include "fleet/router/router.h"
#include "web/site.h"

#include "api/api.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "http/static_keys.h"
#include "transport/transport.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define DRAIN_NS      (5 * NS_PER_S)
#define DRAIN_LOOK_NS (50 * NS_PER_MS)
#define LOST_NS       (3 * NS_PER_S) /* in which /readyz says why the server is about to end */

struct serve {
	struct app app;
	struct http_server *http;
	struct http_keys *keys;
	struct auth *auth;
	struct api *api;
	struct builds *builds;
	struct e2b *e2b;                  /* NULL: SANDBOX_FACES does not name it */
	struct transport_http *transport; /* NULL in a router, as what else needs an engine */
	struct fleet_router *router;      /* NULL: this server is the router of no fleet */
	struct bridge_socket socket;
	struct bridge_server *bridge;
	sd_event_source *drain;
	uint64_t drain_until_ns;
	struct site *site;
	struct serve_names names;
	struct serve_address at;
	char base[SERVE_BASE_SIZE];
	char client_base[HTTP_BASE_SIZE]; /* of the request that identify() has seen last */
	struct server_facts facts;
	struct serve_worker worker;
	struct err lost; /* ERR_NONE, or why no sandbox can be made any more */
};

/* ---- routes ---- */

static void get_health(struct http_request *req, void *user UNUSED)
{
	http_respond_text(req, 200, "application/json", "{\"status\":\"ok\"}");
}

static const struct http_route routes[] = {
    {HTTP_GET | HTTP_HEAD, "/healthz", get_health, HTTP_ROUTE_ANY_HOST, 0},
};

static void log_request(struct http_request *req, int status, uint64_t bytes, uint64_t ns,
			void *user)
{
	struct serve *s = user;

	api_note_request(s->api, req, status, bytes, ns);
	if (!req)
		LOG_OFTEN(LOG_LEVEL_DEBUG, "http_refused", LOG_I("status", status));
	else if (status >= 400)
		LOG_OFTEN(LOG_LEVEL_DEBUG, "http_request", LOG_S("path", http_request_path(req)),
			  LOG_I("status", status), LOG_U("duration_us", ns / NS_PER_US));
	else
		LOG_DEBUG("http_request", LOG_S("path", http_request_path(req)),
			  LOG_I("status", status), LOG_U("bytes", bytes),
			  LOG_U("duration_us", ns / NS_PER_US));
}

/* ---- life ---- */

static int on_drain(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct serve *s = user;

	if ((http_server_busy(s->http) == 0 && bridge_server_busy(s->bridge) == 0) ||
	    now_ns() >= s->drain_until_ns)
		return app_end(&s->app);
	(void)sd_event_source_set_time_relative(source, DRAIN_LOOK_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* The terminal of the server was closed. Then SIGHUP means what it means to any program. */
static bool terminal_is_gone(const struct signalfd_siginfo *si)
{
	if (si->ssi_code == SI_KERNEL)
		return true;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		struct pollfd p = {.fd = fd};
		struct stat st;

		if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && poll(&p, 1, 0) > 0 &&
		    (p.revents & POLLHUP))
			return true;
	}
	return false;
}

static void on_reloaded(void *user)
{
	struct serve *s = user;
	struct serve_names names;
	struct err e = ERR_INIT;

	if (serve_names_make(&s->app.settings, s->at.reach, &names, &e) < 0) {
		LOG_ERROR("settings_not_used", LOG_S("error", e.text));
		return;
	}
	serve_names_done(&s->names);
	s->names = names; /* the HTTP server has the address of s->names */
}

static void begin_drain(struct serve *s)
{
	if (s->drain)
		return;
	http_server_drain(s->http);
	if (s->transport)
		transport_http_finish(s->transport);
	bridge_server_finish(s->bridge);
	s->drain_until_ns = now_ns() + DRAIN_NS;
	if (sd_event_add_time_relative(s->app.loop, &s->drain, CLOCK_MONOTONIC, 0, 1, on_drain, s) <
	    0)
		(void)sd_event_exit(s->app.loop, 0);
}

static void on_worker_ends(void *user)
{
	begin_drain(user);
}

static int on_lost_time(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	begin_drain(user);
	return 0;
}

static void begin_end(struct serve *s)
{
	if (!app_is_worker(&s->app) || serve_worker_end(&s->worker, on_worker_ends, s) < 0)
		begin_drain(s);
}

/* We have no right to start another process that makes sandboxes: a supervisor starts all anew. */
static void on_engine_lost(const struct err *why, void *user)
{
	struct serve *s = user;

	s->lost = *why;
	s->worker.lost = true;
	if (sd_event_add_time_relative(s->app.loop, NULL, CLOCK_MONOTONIC, LOST_NS / NS_PER_US, 0,
				       on_lost_time, s) < 0)
		(void)sd_event_exit(s->app.loop, 0);
}

/* After the first signal answers may finish; the second ends the server at once. */
static int on_signal(sd_event_source *source UNUSED, const struct signalfd_siginfo *si, void *user)
{
	struct serve *s = user;

	if (si->ssi_signo == SIGHUP && !terminal_is_gone(si)) {
		app_reload(&s->app, on_reloaded, s);
		return 0;
	}
	if (s->drain || s->worker.draining)
		return sd_event_exit(s->app.loop, 0);
	LOG_INFO("shutdown", LOG_U("signal", si->ssi_signo));
	begin_end(s);
	return 0;
}

static enum mcp_ended how_ended(const void *principal_data)
{
	const struct caller *who = principal_data;

	if (who->ended == CALLER_LIVE)
		return MCP_ENDED_NOT;
	return who->ended == CALLER_REVOKED ? MCP_ENDED_TASKS : MCP_ENDED_CALLS;
}

/* First closes the connections, so that nothing more is sent, then ends the calls. */
static void on_credentials_ended(void *user)
{
	struct serve *s = user;

	if (!s->http || (!s->transport && !s->router) || !s->api)
		return;
	http_server_end_callers(s->http, auth_has_ended);
	if (s->app.mcp)
		mcp_server_end_credentials(s->app.mcp, how_ended);
	api_end_callers(s->api);
}

static int open_auth(struct serve *s, struct err *e)
{
	const struct settings *set = &s->app.settings;
	struct auth_config config = {
	    .store = s->app.store,
	    .static_keys = s->keys,
	    .static_key = set->api_key[0] ? set->api_key : NULL,
	    .secure = strncasecmp(set->public_url, "https://", 8) == 0,
	    .required = set->require_auth || s->keys || s->at.worker,
	    .by_router = s->at.worker,
	    .elsewhere = s->app.elsewhere,
	    .local_name = set->default_user_id,
	    .token_ns = (uint64_t)set->token_minutes * 60 * NS_PER_S,
	    .loop = s->app.loop,
	    .on_ended = on_credentials_ended,
	    .user = s,
	};

	return auth_new(&config, &s->auth, e);
}

static int open_http(struct serve *s, struct err *e)
{
	const char *key = s->app.settings.api_key;
	static const char *const principals[] = {""}; /* the one key is that of the local user */
	const struct settings *set = &s->app.settings;
	struct http_config config = {
	    .max_connections = (unsigned)set->max_connections,
	    .budgets = s->app.budgets,
	    .head_timeout_ns = (uint64_t)set->head_timeout_s * NS_PER_S,
	    .idle_timeout_ns = (uint64_t)set->idle_timeout_s * NS_PER_S,
	    .stall_timeout_ns = (uint64_t)set->stall_timeout_s * NS_PER_S,
	    .hosts = s->names.hosts,
	    .origins = s->names.origins,
	    .page_origins = s->names.page_origins,
	    .proxies = &s->names.proxies,
	    .prefix = s->names.prefix,
	    .public_origin = s->names.public_origin,
	    .port_domain = s->names.port_domain,
	    .is_face = set->faces[0] ? e2b_is_name : NULL,
	    .tls = s->app.tls,
	    .log = log_request,
	    .log_userdata = s,
	};
	int r = 0;

	if (key[0])
		r = http_keys_new(&key, principals, 1, &s->keys);
	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "SANDBOX_API_KEY");
	r = open_auth(s, e);
	if (r == 0 && app_is_router(&s->app)) {
		r = app_open_router(&s->app, s->auth, s->names.public_origin, s->names.port_domain,
				    &s->router, e);
		config.reroute = fleet_router_reroute;
		config.reroute_userdata = s->router;
	}
	if (r < 0)
		return r;
	config.auth = auth_check;
	config.auth_userdata = s->auth;
	r = http_server_new(s->app.loop, &config, &s->http);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the HTTP server");
	r = http_server_add_routes(s->http, routes, ARRAY_SIZE(routes),
				   HTTP_SCOPE_MAIN | HTTP_SCOPE_PROBES, s);
	if (r == 0 && s->router)
		r = fleet_router_add_routes(s->router, s->http, HTTP_SCOPE_MAIN);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "routes");
	/* The routers of a worker have the page. */
	return s->at.worker ? 0 : site_new(s->http, HTTP_SCOPE_MAIN, &s->site, e);
}

static bool needs_key(const struct serve *s)
{
	return s->keys || s->app.settings.require_auth;
}

static bool registration_is_open(const struct serve *s)
{
	const struct settings *set = &s->app.settings;

	if (s->at.no_registration)
		return false;
	if (!streq(set->open_registration, "auto"))
		return streq(set->open_registration, "on");
	return s->at.loopback && !needs_key(s) && !set->public_url[0];
}

static void forget_user(const char *owner, void *user)
{
	struct app *a = user;
	struct serve *s = CONTAINER_OF(a, struct serve, app);

	auth_forget(s->auth, owner); /* first: an initialize that is under way begins no session */
	if (s->router)
		fleet_router_forget_user(s->router, owner);
	if (s->router)
		return;
	transport_http_forget(s->transport, owner);
	mcp_server_forget(a->mcp, owner);
	links_forget(a->links, owner);
	if (s->e2b)
		e2b_forget_owner(s->e2b, owner);
}

static int port_url(void *user, const char *base, const char *owner, const char *id, uint16_t port,
		    struct buf *ret)
{
	struct serve *s = user;

	return api_port_url(s->api, base ? base : s->base, owner, id, port, ret);
}

static int open_api(struct serve *s, struct err *e)
{
	const struct settings *set = &s->app.settings;
	struct api_config config = {
	    .loop = s->app.loop,
	    .manager = s->app.manager,
	    .store = s->app.store,
	    .auth = s->auth,
	    .accounting = s->app.accounting,
	    .cells = s->app.cells,
	    .packages = s->app.packages,
	    .budgets = s->app.budgets,
	    .save_figures = !streq(set->save_figures, "off"),
	    .open_registration = registration_is_open(s),
	    .signin_ns = (uint64_t)set->signin_hours * 3600 * NS_PER_S,
	    .profile = set->profile,
	    .worker = s->at.worker,
	    .loopback = s->at.loopback,
	    .base = s->base,
	    .port_domain = s->names.port_domain,
	    .port_tls = s->app.port_tls,
	    .max_upload_bytes = limits_rest_upload(set),
	    .max_code_bytes = (uint64_t)set->max_code_bytes,
	    .version = CAISSON_VERSION,
	    .removed = forget_user,
	    .policy = policy_make,
	    .user = &s->app,
	    .server = server_facts_json,
	    .server_user = &s->facts,
	    .metrics = app_metrics,
	    .fleet = s->router ? app_fleet_json : NULL,
	};
	int r = s->router ? 0 : server_facts_builds(&s->facts, &s->builds, e);

	config.builds = s->builds;
	r = r < 0 ? r : api_new(&config, &s->api, e);
	if (r == 0) {
		s->app.port_url = port_url;
		s->app.port_user = s;
	}
	r = r < 0 ? r : api_add_routes(s->api, s->http, HTTP_SCOPE_MAIN, e);
	s->worker.app = &s->app;
	s->worker.auth = s->auth;
	return r < 0 || !s->at.worker ? r : serve_worker_add_routes(&s->worker, s->http, s->api, e);
}

static int open_faces(struct serve *s, struct err *e)
{
	const struct e2b_config config = {
	    .loop = s->app.loop,
	    .manager = s->app.manager,
	    .auth = s->auth,
	    .budgets = s->app.budgets,
	    .max_upload_bytes = limits_rest_upload(&s->app.settings),
	    .base = s->base,
	    .port_domain = s->names.port_domain,
	    .port_tls = s->app.port_tls != NULL,
	    .builds = s->builds,
	    .templates = !s->router && app_builds_templates(&s->app),
	    .template_cache = s->app.settings.template_cache,
	    .fleet = app_fleet(&s->app),
	};

	if (!s->app.settings.faces[0])
		return 0;
	if (!streq(s->app.settings.faces, "e2b"))
		return err_set(e, ERR_SETTING_INVALID, 0, "SANDBOX_FACES: e2b is the only one");
	int r = e2b_new(&config, &s->e2b, e);
	if (r < 0)
		return r;
	fleet_router_set_face(s->router, &e2b_fleet_face);
	e2b_serve_ports(s->e2b, s->api);
	return e2b_add_routes(s->e2b, s->http, HTTP_SCOPE_MAIN, e);
}

static void identify(struct http_request *req, struct mcp_peer_config *peer, void *user)
{
	const struct caller *who = auth_caller(req);
	struct serve *s = user;

	if (http_request_base(req, s->client_base))
		peer->base = s->client_base;
	if (!who)
		return;
	peer->principal_data = caller_ref(who);
	peer->limited = who->read_only || who->profile[0];
	peer->rights = auth_rights(who);
	peer->principal_unref = caller_unref;
}

static int open_transport(struct serve *s, struct err *e)
{
	struct transport_http_config config = {
	    .loop = s->app.loop,
	    .http = s->http,
	    .mcp = s->app.mcp,
	    .identify = identify,
	    .userdata = s,
	    .budgets = s->app.budgets,
	    .fleet = app_fleet(&s->app),
	    .reader = {.max_message = app_max_message(&s->app), .budgets = s->app.budgets},
	};
	int r = transport_http_new(&config, &s->transport);

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the MCP transport") : 0;
}

static int open_bridge(struct serve *s, struct err *e)
{
	return s->socket.fd < 0 ? 0 : bridge_server_new(&s->app, &s->socket, &s->bridge, e);
}

static int listen_all(struct serve *s, struct err *e)
{
	int r = serve_address_listen(&s->at, s->http, e);

	if (r < 0)
		return r;
	serve_address_base(&s->at, s->app.settings.public_url, s->base);
	if (!s->router)
		links_set_main(s->app.links, s->base);
	if (s->at.worker) { /* it has no page, and artifact links lead through routers */
		links_stay(s->app.links, s->base);
		return 0;
	}
	r = site_set_address(s->site, s->base, s->app.settings.profile, needs_key(s), e);
	r = r < 0 ? r : store_set_address(s->app.store, s->base, e);
	return r < 0 || s->router ? r : links_listen(s->app.links, e);
}

static int open_all_of_router(struct serve *s, struct err *e)
{
	int r = open_http(s, e);

	r = r < 0 ? r : open_api(s, e);
	r = r < 0 ? r : open_faces(s, e);
	r = r < 0 ? r : listen_all(s, e);
	return r < 0 ? r : app_on_stop(&s->app, on_signal, s, e);
}

static int open_all(struct serve *s, struct err *e)
{
	int r = manager_start(s->app.manager, e);

	r = r < 0 ? r : open_http(s, e);
	r = r < 0 ? r : app_open_mcp(&s->app, s->http, e);
	if (r == 0)
		links_set_auth(s->app.links, s->auth);
	r = r < 0 ? r
		  : links_add_routes(s->app.links, s->http, HTTP_SCOPE_MAIN | HTTP_SCOPE_LINKS, e);
	r = r < 0 ? r : open_transport(s, e);
	r = r < 0 ? r : open_api(s, e);
	r = r < 0 ? r : open_faces(s, e);
	r = r < 0 ? r : listen_all(s, e);
	r = r < 0 ? r : open_bridge(s, e);
	r = r < 0 ? r : app_on_stop(&s->app, on_signal, s, e);
	if (r == 0)
		manager_on_engine_lost(s->app.manager, on_engine_lost, s);
	return r;
}

static int serve(struct serve *s, struct err *e)
{
	int r = app_open(&s->app, e);

	if (r == 0)
		r = app_is_router(&s->app) ? open_all_of_router(s, e) : open_all(s, e);
	if (r < 0)
		return r;
	LOG_INFO("serving", LOG_S("url", s->base), LOG_S("profile", s->app.settings.profile));
	if (s->at.tls_port)
		LOG_INFO("serving_tls", LOG_S("host", s->at.tls_host),
			 LOG_U("port", s->at.tls_port));
	serve_hello(&s->app, s->base, s->at.tls_port, needs_key(s));
	r = loop_run(s->app.loop);
	if (r >= 0 && s->lost.code != ERR_NONE) {
		*e = s->lost;
		return -EPIPE;
	}
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop") : 0;
}

static void serve_done(struct serve *s)
{
	s->drain = sd_event_source_disable_unref(s->drain);
	app_close_router(&s->app);
	s->http = http_server_free(s->http);
	serve_worker_done(&s->worker);
	s->router = fleet_router_free(s->router);
	app_router_done(&s->app);
	s->e2b = e2b_free(s->e2b);
	s->builds = builds_free(s->builds);
	s->transport = transport_http_free(s->transport);
	s->bridge = bridge_server_free(s->bridge);
	/* Runs and answers that REST keeps give their shares back when they are freed. */
	struct budgets *budgets = TAKE_PTR(s->app.budgets);
	app_done(&s->app);
	s->api = api_free(s->api);
	(void)budgets_free(budgets);
	s->auth = auth_free(s->auth);
	s->keys = http_keys_free(s->keys);
	s->site = site_free(s->site);
	app_tls_done(&s->app);
	serve_names_done(&s->names);
	server_facts_done(&s->facts);
	bridge_socket_close(&s->socket);
}

#define FLAGS_MAX 1400

/* A container without the flags that sandboxes need. RET: a line about them. */
static int check_flags(const struct serve *s, char ret[FLAGS_MAX], struct err *e)
{
	ret[0] = '\0';
	if (streq(s->app.settings.engine, "native") && !app_is_router(&s->app))
		doctor_container_refusal(ret, FLAGS_MAX);
	return ret[0] ? err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "no sandbox could be made here") : 0;
}

/* Where that was not noticed, the start fails with what the kernel says of one of them. A file system that is read-only is
 * no lack of rights. */
static void say_flags(const struct err *e, char flags[FLAGS_MAX])
{
	const bool rights =
	    e->code == ERR_ENGINE_UNAVAILABLE || e->errnum == EPERM || e->errnum == EACCES;

	/* A refusal of user namespaces says so itself. */
	if (!flags[0] && rights && e->errnum != EROFS && !host_userns_refusal(false))
		doctor_container_flags(flags, FLAGS_MAX);
	if (flags[0])
		(void)fprintf(stderr, "%s\n", flags);
}

int cmd_serve(int argc, char **argv)
{
	char role[ROLE_FLAG_SIZE];
	struct serve s = {.socket = BRIDGE_SOCKET_NONE, .facts = {.store = {.dir = -1}}};
	char why[ERR_TEXT_MAX] = "", flags[FLAGS_MAX] = "";
	struct err e = ERR_INIT;
	int status = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	app_hold_hangup();
	serve_worker_flag(argc, argv, role);
	int r = app_settings(&s.app, "serve", APP_SERVE, true, &argc, argv, &e);
	if (r >= 0 && argc > 1)
		r = cmd_unknown("serve", argv[1], &e);
	r = r < 0 ? r : app_check_role(&s.app.settings, &e);
	r = r < 0 ? r : serve_address_find(&s.app.settings, &s.at, &e);
	s.app.listen_host = s.at.reach;
	r = r < 0 ? r : serve_names_make(&s.app.settings, s.at.reach, &s.names, &e);
	r = r < 0 ? r : check_flags(&s, flags, &e);
	if (r >= 0 && !app_is_router(&s.app))
		r = bridge_socket_open(&s.socket, &s.app, why, &e);
	s.app.socket_path = s.socket.fd >= 0 ? s.socket.path : NULL;
	if (r >= 0 && !app_is_router(&s.app))
		server_facts_gather(&s.facts, &s.app);
	s.app.image_defs = s.facts.names;
	s.app.n_image_defs = s.facts.n_names;
	r = r < 0 ? r : app_begin(&s.app, &e);
	if (r >= 0 && why[0])
		LOG_INFO("no_bridge", LOG_S("reason", why));
	r = r < 0 ? r : serve(&s, &e);
	if (r < 0) {
		status = app_fail(&s.app, &e);
		if (s.lost.code == ERR_NONE)
			say_flags(&e, flags);
	}
	serve_done(&s);
	return status;
}
