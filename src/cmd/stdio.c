/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson stdio`: one MCP client on standard input and output. Only the protocol is written to stdout.
 * The engine opens in the background after the first messages were read, so that `initialize` is
 * answered at once. If a server of the same user runs with the same settings, it is shared instead
 * (bridge/bridge.h). */
#include "app/app.h"
#include "bridge/bridge.h"
#include "cmd/cmd.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "transport/launcher.h"
#include "transport/transport.h"

#include <fcntl.h>
#include <signal.h>

struct stdio {
	struct app app;
	struct transport_stdio *transport;
	bool rests;      /* stored sandboxes come to rest; the end waits for that */
	struct err lost; /* ERR_NONE, or why no sandbox can be made any more */
};

static void on_end(int reason, void *user)
{
	struct stdio *s = user;

	LOG_DEBUG("client_gone", LOG_I("reason", reason));
	if (!s->rests)
		(void)app_end(&s->app);
	s->rests = true;
}

static int on_signal(sd_event_source *source UNUSED, const struct signalfd_siginfo *si UNUSED,
		     void *user)
{
	struct stdio *s = user;

	if (s->rests) /* again */
		return sd_event_exit(s->app.loop, 0);
	transport_stdio_finish(s->transport);
	return 0;
}

static void on_launcher_gone(void *user)
{
	struct stdio *s = user;

	LOG_INFO("launcher_gone");
	transport_stdio_finish(s->transport);
}

/* Calls that wait have their errors already. The client sees the end, and starts another server. */
static void on_engine_lost(const struct err *why, void *user)
{
	struct stdio *s = user;

	s->lost = *why;
	transport_stdio_finish(s->transport);
}

/* Opens the engine when nothing else waits. If that fails, every call that needs it reports the error. */
static int on_idle(sd_event_source *source UNUSED, void *user)
{
	struct stdio *s = user;
	struct err e = ERR_INIT;

	if (manager_start(s->app.manager, &e) < 0)
		(void)app_fail(&s->app, &e);
	return 0;
}

static int open_when_idle(struct stdio *s, struct err *e)
{
	sd_event *loop = s->app.loop;
	sd_event_source *idle = NULL;
	int r = sd_event_add_defer(loop, &idle, on_idle, s);

	if (r >= 0)
		r = sd_event_source_set_priority(idle, SD_EVENT_PRIORITY_IDLE);
	if (r >= 0)
		r = sd_event_source_set_floating(idle, true);
	(void)sd_event_source_unref(idle);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop") : 0;
}

static int serve_client(struct stdio *s, struct err *e)
{
	int r = app_open(&s->app, e);

	r = r < 0 ? r : app_open_mcp(&s->app, NULL, e);
	r = r < 0 ? r : open_when_idle(s, e);
	r = r < 0 ? r : app_on_stop(&s->app, on_signal, s, e);
	if (r < 0)
		return r;
	struct transport_stdio_config config = {
	    .loop = s->app.loop,
	    .mcp = s->app.mcp,
	    .in_fd = STDIN_FILENO,
	    .out_fd = STDOUT_FILENO,
	    .on_end = on_end,
	    .userdata = s,
	    .reader = {.max_message = app_max_message(&s->app), .budgets = s->app.budgets},
	};
	r = transport_stdio_new(&config, &s->transport);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "standard input and output");
	r = launcher_watch(s->app.loop, on_launcher_gone, s);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	manager_on_engine_lost(s->app.manager, on_engine_lost, s);
	r = loop_run(s->app.loop);
	if (r >= 0 && s->lost.code != ERR_NONE) {
		*e = s->lost;
		return -EPIPE;
	}
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop") : 0;
}

/* `--no-bridge` is the only flag without a value. */
static int read_arguments(struct app *a, int argc, char **argv, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		if (!streq(argv[i], "--no-bridge"))
			return cmd_unknown("stdio", argv[i], e);
		int r = settings_set(&a->settings, SETTING_ID_bridge, "off", SETTING_FROM_FLAG,
				     argv[i], e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Serves the client with an engine of our own. WHY: why no server is shared; "" = there is none. */
static int be_server(struct stdio *s, const char *why, struct err *e)
{
	int r = app_begin(&s->app, e);

	if (r < 0)
		return r;
	if (why[0]) /* not earlier, because app_begin() makes the log's folder */
		LOG_INFO("not_bridged", LOG_S("reason", why));
	return serve_client(s, e);
}

int cmd_stdio(int argc, char **argv)
{
	struct stdio s = {0};
	struct err e = ERR_INIT;
	char why[BRIDGE_WHY_MAX];
	bool passed = false;
	int status = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	int r = app_settings(&s.app, "stdio", APP_STDIO, false, &argc, argv, &e);
	r = r < 0 ? r : read_arguments(&s.app, argc, argv, &e);
	if (r >= 0) {
		const int server = bridge_find(&s.app, &passed, why);
		r = server >= 0 ? bridge_run(server, passed, &e) : be_server(&s, why, &e);
	}
	if (r < 0)
		status = app_fail(&s.app, &e);
	s.transport = transport_stdio_free(s.transport);
	app_done(&s.app);
	return status;
}
