/* SPDX-License-Identifier: Apache-2.0 */
/* conformance-server [--listen HOST:PORT]
 * Serves the fixture on /mcp (and /sse) until SIGTERM or SIGINT. Prints "listening on HOST:PORT".
 */
#include "base/parse.h"
#include "base/text.h"
#include "fixture.h"
#include "http/http.h"
#include "transport/transport.h"

#include <signal.h>

#define TICK_USEC UINT64_C(1000000)
#define HOST_MAX  64

struct program {
	struct fixture fixture;
	struct http_server *http;
	struct transport_http *transport;
	struct transport_stdio *stdio;
};

static int on_tick(sd_event_source *timer, uint64_t usec, void *user)
{
	(void)usec;
	mcp_server_tick(user);
	(void)sd_event_source_set_time_relative(timer, TICK_USEC);
	return sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

static void on_stdio_end(int reason, void *user)
{
	struct program *p = user;

	(void)reason;
	(void)sd_event_exit(p->fixture.loop, 0);
}

static int make_registry(struct program *p, struct err *e)
{
	const struct mcp_server_config config = {
	    .name = "caisson-conformance",
	    .version = CAISSON_VERSION,
	    .title = "Conformance fixture",
	    .instructions = "A server for the MCP conformance suite.",
	    .offers = MCP_OFFER_TOOLS_LIST_CHANGED | MCP_OFFER_PROMPTS_LIST_CHANGED |
		      MCP_OFFER_RESOURCES_LIST_CHANGED | MCP_OFFER_RESOURCES_SUBSCRIBE |
		      MCP_OFFER_LOGGING | MCP_OFFER_COMPLETIONS | MCP_OFFER_TASKS,
	};

	p->fixture.server = mcp_server_new(&config, e);
	return p->fixture.server ? fixture_add_all(&p->fixture, e) : -EINVAL;
}

static int serve_stdio(struct program *p, struct err *e)
{
	int r = transport_stdio_new(
	    &(struct transport_stdio_config){
		.loop = p->fixture.loop,
		.mcp = p->fixture.server,
		.in_fd = STDIN_FILENO,
		.out_fd = STDOUT_FILENO,
		.on_end = on_stdio_end,
		.userdata = p,
	    },
	    &p->stdio);

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "MCP over stdio") : 0;
}

static int serve_http(struct program *p, const char *host, uint16_t port, struct err *e)
{
	struct http_listener *listener;
	int r = http_server_new(p->fixture.loop, &(struct http_config){0}, &p->http);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "HTTP server");
	r = transport_http_new(&(struct transport_http_config){.loop = p->fixture.loop,
							       .http = p->http,
							       .mcp = p->fixture.server},
			       &p->transport);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "MCP over HTTP");
	r = http_server_listen(p->http, host, port, HTTP_SCOPE_MAIN, &port, &listener, e);
	if (r < 0)
		return r;
	printf("listening on %s:%u\n", host, port);
	(void)fflush(stdout);
	return 0;
}

/* HOST NULL: standard streams. */
static int run(struct program *p, const char *host, uint16_t port, struct err *e)
{
	sd_event_source *timer = NULL;
	sigset_t stop;
	int r;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &stop, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	r = sd_event_default(&p->fixture.loop);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "event loop");
	r = make_registry(p, e);
	if (r == 0)
		r = host ? serve_http(p, host, port, e) : serve_stdio(p, e);
	if (r < 0)
		return r;
	r = sd_event_add_time_relative(p->fixture.loop, &timer, CLOCK_MONOTONIC, TICK_USEC, 0,
				       on_tick, p->fixture.server);
	/* Without a callback a signal ends the loop. */
	if (r >= 0)
		r = sd_event_add_signal(p->fixture.loop, NULL, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(p->fixture.loop, NULL, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_loop(p->fixture.loop);
	sd_event_source_unref(timer);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "event loop") : 0;
}

int main(int argc, char **argv)
{
	struct program p = {0};
	char host[HOST_MAX] = "127.0.0.1";
	uint16_t port = 4103;
	struct err e = ERR_INIT;
	bool on_stdio = argc == 2 && streq(argv[1], "--stdio");
	int r;

	if (argc != 1 && !on_stdio &&
	    (argc != 3 || !streq(argv[1], "--listen") ||
	     parse_host_port(argv[2], host, sizeof(host), &port) < 0)) {
		fprintf(stderr, "usage: %s [--listen HOST:PORT | --stdio]\n", argv[0]);
		return 64;
	}
	r = run(&p, on_stdio ? NULL : host, port, &e);
	if (r < 0)
		fprintf(stderr, "%s: %s\n", argv[0], e.text);
	if (p.transport)
		transport_http_finish(p.transport);
	transport_stdio_free(p.stdio);
	http_server_free(p.http);
	transport_http_free(p.transport);
	mcp_server_free(p.fixture.server);
	sd_event_unref(p.fixture.loop);
	return r < 0 ? 1 : 0;
}
