/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson serve`: serves MCP, artifact links and the page over HTTP, and `caisson stdio` of the same
 * user over a unix socket, until SIGTERM or SIGINT. */
#include "app/app.h"
#include "app/policy_json.h"
#include "app/read_settings.h"
#include "bridge/bridge.h"
#include "cmd/cmd.h"
#include "web/page.h"

#include "api/api.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "http/static_keys.h"
#include "transport/transport.h"

#include <signal.h>
#include <string.h>

#define HOSTS_MAX     32
#define DRAIN_NS      (5 * NS_PER_S)
#define DRAIN_LOOK_NS (50 * NS_PER_MS)
#define BASE_SIZE     (READ_HOST_SIZE + 32)

struct serve {
	struct app app;
	struct http_server *http;
	struct http_keys *keys;
	struct auth *auth;
	struct api *api;
	struct transport_http *transport;
	struct bridge_socket socket;
	struct bridge_server *bridge;
	sd_event_source *drain;
	uint64_t drain_until_ns;
	char *page;
	char *host_names; /* what hosts[] points into */
	const char *hosts[HOSTS_MAX + 1];
	char *origin_names; /* what origins[] points into */
	const char *origins[HOSTS_MAX + 1];
	struct http_proxies proxies;
	char host[READ_HOST_SIZE];
	uint16_t port;
	char base[BASE_SIZE];
};

/* ---- where to listen ---- */

static int find_address(struct serve *s, struct err *e)
{
	const struct settings *set = &s->app.settings;
	int r = read_server_address(set, s->host, &s->port, e);

	if (r < 0)
		return r;
	if (!app_is_loopback(s->host) && !set->api_key[0] && !set->require_auth) {
		(void)err_set(e, ERR_SETTING_INVALID, 0,
			      "SANDBOX_LISTEN: '%s' can be reached from other machines; set "
			      "SANDBOX_API_KEY or SANDBOX_REQUIRE_AUTH, or listen on 127.0.0.1",
			      s->host);
		return -EINVAL;
	}
	return 0;
}

/* Splits TEXT, a list of names, into RET. The names point into *RET_COPY. */
static int split_names(const char *text, const char *setting, char **ret_copy,
		       const char *ret[HOSTS_MAX + 1], struct err *e)
{
	size_t n = 0;
	char *rest = NULL;

	*ret_copy = strdup(text);
	if (!*ret_copy)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "%s", setting);
	for (char *p = strtok_r(*ret_copy, ", ", &rest); p; p = strtok_r(NULL, ", ", &rest)) {
		if (n == HOSTS_MAX)
			return err_set(e, ERR_SETTING_INVALID, 0, "%s: more than %d names", setting,
				       HOSTS_MAX);
		ret[n++] = p;
	}
	return 0;
}

static int split_hosts(struct serve *s, struct err *e)
{
	int r = split_names(s->app.settings.allowed_hosts, "SANDBOX_ALLOWED_HOSTS", &s->host_names,
			    s->hosts, e);

	if (r == 0)
		r = split_names(s->app.settings.allowed_origins, "SANDBOX_ALLOWED_ORIGINS",
				&s->origin_names, s->origins, e);
	if (r < 0)
		return r;
	r = http_proxies_parse(s->app.settings.trusted_proxies, &s->proxies, e);
	return r < 0 ? err_wrap(e, "SANDBOX_TRUSTED_PROXIES") : 0;
}

static void make_base(struct serve *s)
{
	const char *host =
	    streq(s->host, "0.0.0.0") || streq(s->host, "::") ? "127.0.0.1" : s->host;
	bool v6 = strchr(host, ':') != NULL;

	if (s->app.settings.public_url[0])
		(void)snprintf(s->base, sizeof(s->base), "%.*s", BASE_SIZE - 1,
			       s->app.settings.public_url);
	else
		(void)snprintf(s->base, sizeof(s->base), "http://%s%s%s:%u", v6 ? "[" : "", host,
			       v6 ? "]" : "", s->port);
}

/* ---- routes ---- */

static void get_page(struct http_request *req, void *user)
{
	struct serve *s = user;

	(void)http_add_header(
	    req, "Content-Security-Policy",
	    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
	(void)http_add_header(req, "Referrer-Policy", "no-referrer");
	http_respond_text(req, 200, "text/html; charset=utf-8", s->page);
}

static void get_health(struct http_request *req, void *user UNUSED)
{
	http_respond_text(req, 200, "application/json", "{\"status\":\"ok\"}");
}

static const struct http_route routes[] = {
    {HTTP_GET | HTTP_HEAD, "/", get_page, 0, 0},
    {HTTP_GET | HTTP_HEAD, "/healthz", get_health, HTTP_ROUTE_ANY_HOST, 0},
};

static void log_request(struct http_request *req, int status, uint64_t bytes, uint64_t ns,
			void *user)
{
	struct serve *s = user;

	api_note_request(s->api, req, status, bytes, ns);
	LOG_DEBUG("http_request", LOG_S("path", http_request_path(req)), LOG_I("status", status),
		  LOG_U("bytes", bytes), LOG_U("duration_us", ns / NS_PER_US));
}

/* ---- life ---- */

static int on_drain(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct serve *s = user;

	if ((http_server_busy(s->http) == 0 && bridge_server_busy(s->bridge) == 0) ||
	    now_ns() >= s->drain_until_ns)
		return sd_event_exit(s->app.loop, 0);
	(void)sd_event_source_set_time_relative(source, DRAIN_LOOK_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* After the first signal answers may finish; the second ends the server at once. */
static int on_signal(sd_event_source *source UNUSED, const struct signalfd_siginfo *si, void *user)
{
	struct serve *s = user;

	if (s->drain)
		return sd_event_exit(s->app.loop, 0);
	LOG_INFO("shutdown", LOG_U("signal", si->ssi_signo));
	http_server_drain(s->http);
	transport_http_finish(s->transport);
	bridge_server_finish(s->bridge);
	s->drain_until_ns = now_ns() + DRAIN_NS;
	int r =
	    sd_event_add_time_relative(s->app.loop, &s->drain, CLOCK_MONOTONIC, 0, 1, on_drain, s);
	return r < 0 ? sd_event_exit(s->app.loop, 0) : 0;
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

	if (!s->http || !s->transport || !s->api)
		return;
	http_server_end_callers(s->http, auth_has_ended);
	mcp_server_end_credentials(s->app.mcp, how_ended);
	api_end_callers(s->api);
}

static int open_auth(struct serve *s, struct err *e)
{
	const struct settings *set = &s->app.settings;
	struct auth_config config = {
	    .store = s->app.store,
	    .static_keys = s->keys,
	    .required = set->require_auth || s->keys,
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
	/* The one key belongs to the one local user. */
	static const char *const principals[] = {""};
	const struct settings *set = &s->app.settings;
	struct http_config config = {
	    .max_connections = (unsigned)set->max_connections,
	    .max_per_address = (unsigned)set->max_connections_per_address,
	    .head_timeout_ns = (uint64_t)set->head_timeout_s * NS_PER_S,
	    .idle_timeout_ns = (uint64_t)set->idle_timeout_s * NS_PER_S,
	    .stall_timeout_ns = (uint64_t)set->stall_timeout_s * NS_PER_S,
	    .hosts = s->hosts,
	    .origins = s->origins,
	    .proxies = &s->proxies,
	    .log = log_request,
	    .log_userdata = s,
	};
	int r = 0;

	if (key[0])
		r = http_keys_new(&key, principals, 1, &s->keys);
	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "SANDBOX_API_KEY");
	r = open_auth(s, e);
	if (r < 0)
		return r;
	config.auth = auth_check;
	config.auth_userdata = s->auth;
	r = http_server_new(s->app.loop, &config, &s->http);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the HTTP server");
	r = http_server_add_routes(s->http, routes, ARRAY_SIZE(routes), HTTP_SCOPE_MAIN, s);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "routes") : 0;
}

static bool needs_key(const struct serve *s)
{
	return s->keys || s->app.settings.require_auth;
}

static int open_api(struct serve *s, struct err *e)
{
	const struct settings *set = &s->app.settings;
	struct api_config config = {
	    .loop = s->app.loop,
	    .manager = s->app.manager,
	    .store = s->app.store,
	    .auth = s->auth,
	    .ledger = s->app.ledger,
	    .packages = s->app.packages,
	    .save_figures = !streq(set->save_figures, "off"),
	    .open_registration =
		streq(set->open_registration, "auto")
		    ? app_is_loopback(s->host) && !needs_key(s) && !set->public_url[0]
		    : streq(set->open_registration, "on"),
	    .max_upload_bytes = (uint64_t)set->max_upload_bytes,
	    .max_code_bytes = (uint64_t)set->max_code_bytes,
	    .version = CAISSON_VERSION,
	    .policy = policy_make,
	    .user = &s->app,
	};
	int r = api_new(&config, &s->api, e);

	return r < 0 ? r : api_add_routes(s->api, s->http, HTTP_SCOPE_MAIN, e);
}

static void identify(struct http_request *req, struct mcp_peer_config *peer, void *user UNUSED)
{
	const struct caller *who = auth_caller(req);

	if (!who)
		return;
	peer->principal_data = caller_ref(who);
	peer->limited = who->read_only || who->profile[0];
	peer->principal_unref = caller_unref;
}

static int open_transport(struct serve *s, struct err *e)
{
	struct transport_http_config config = {
	    .loop = s->app.loop,
	    .http = s->http,
	    .mcp = s->app.mcp,
	    .identify = identify,
	    .reader = {.max_message = app_max_message(&s->app)},
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
	struct http_listener *listener;
	int r =
	    http_server_listen(s->http, s->host, s->port, HTTP_SCOPE_MAIN, &s->port, &listener, e);

	if (r < 0)
		return r;
	make_base(s);
	links_set_main(s->app.links, s->base);
	s->page = page_make(s->base, s->app.settings.profile, needs_key(s));
	if (!s->page)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the page");
	return links_listen(s->app.links, e);
}

/* Prints to stdout how to connect a client, when all listeners are open. */
static void print_connection(const struct serve *s)
{
	const char *files = links_base(s->app.links);

	(void)printf("Caisson %s, profile %s\n"
		     "  page   %s/\n"
		     "  MCP    %s/mcp   (older clients: %s/sse)\n"
		     "  files  %s\n\n"
		     "Claude Code:\n"
		     "  claude mcp add --transport http caisson %s/mcp%s\n"
		     "Other clients (mcp.json):\n"
		     "  {\"mcpServers\":{\"caisson\":{\"type\":\"http\",\"url\":\"%s/mcp\"%s}}}\n\n"
		     "Stop with Ctrl-C.\n",
		     CAISSON_VERSION, s->app.settings.profile, s->base, s->base, s->base,
		     files ? files : "off", s->base,
		     needs_key(s) ? " --header \"Authorization: Bearer $KEY\"" : "", s->base,
		     needs_key(s) ? ",\"headers\":{\"Authorization\":\"Bearer KEY\"}" : "");
	(void)fflush(stdout);
}

static int serve(struct serve *s, struct err *e)
{
	int r = app_open(&s->app, e);

	r = r < 0 ? r : manager_start(s->app.manager, e);
	r = r < 0 ? r : open_http(s, e);
	r = r < 0 ? r : app_open_mcp(&s->app, s->http, e);
	r = r < 0 ? r
		  : links_add_routes(s->app.links, s->http, HTTP_SCOPE_MAIN | HTTP_SCOPE_LINKS, e);
	r = r < 0 ? r : open_transport(s, e);
	r = r < 0 ? r : open_api(s, e);
	r = r < 0 ? r : listen_all(s, e);
	r = r < 0 ? r : open_bridge(s, e);
	r = r < 0 ? r : app_on_stop(&s->app, on_signal, s, e);
	if (r < 0)
		return r;
	LOG_INFO("serving", LOG_S("url", s->base), LOG_S("profile", s->app.settings.profile));
	print_connection(s);
	r = sd_event_loop(s->app.loop);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop") : 0;
}

static void serve_done(struct serve *s)
{
	s->drain = sd_event_source_disable_unref(s->drain);
	s->http = http_server_free(s->http);
	s->transport = transport_http_free(s->transport);
	s->bridge = bridge_server_free(s->bridge);
	app_done(&s->app);
	s->api = api_free(s->api);
	s->auth = auth_free(s->auth);
	s->keys = http_keys_free(s->keys);
	free(s->page);
	free(s->host_names);
	free(s->origin_names);
	http_proxies_done(&s->proxies);
	bridge_socket_close(&s->socket);
}

int cmd_serve(int argc, char **argv)
{
	struct serve s = {.socket = BRIDGE_SOCKET_NONE};
	char why[ERR_TEXT_MAX] = "";
	struct err e = ERR_INIT;
	int status = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	int r = app_settings(&s.app, "serve", APP_SERVE, true, &argc, argv, &e);
	if (r >= 0 && argc > 1)
		r = err_set(&e, ERR_USAGE, 0, "serve: unknown argument '%s'", argv[1]);
	r = r < 0 ? r : find_address(&s, &e);
	s.app.listen_host = s.host;
	r = r < 0 ? r : split_hosts(&s, &e);
	r = r < 0 ? r : bridge_socket_open(&s.socket, &s.app, why, &e);
	s.app.socket_path = s.socket.fd >= 0 ? s.socket.path : NULL;
	r = r < 0 ? r : app_begin(&s.app, &e);
	if (r >= 0 && why[0])
		LOG_INFO("no_bridge", LOG_S("reason", why));
	r = r < 0 ? r : serve(&s, &e);
	if (r < 0)
		status = app_fail(&s.app, &e);
	serve_done(&s);
	return status;
}
