/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run_call.h"

#include "base/rand.h"

#include <string.h>

#define HEARTBEAT_NS   (10 * NS_PER_S)
#define PROGRESS_START 0.1
#define PROGRESS_END   1.0

void run_call_free(struct run_call *c)
{
	c->heartbeat = sd_event_source_disable_unref(c->heartbeat);
	(void)sandbox_unref(c->sandbox);
	free(c->text);
	free(c);
}

static void end(struct run_call *c, const struct run_result *result, const struct err *e)
{
	mcp_call_on_cancel(c->call, NULL, NULL);
	if (result)
		mcp_call_progress(c->call, PROGRESS_END, PROGRESS_END, NULL);
	c->finish(c, result, e);
	run_call_free(c);
}

static void on_done(struct run *r UNUSED, const struct run_result *result, const struct err *e,
		    void *user)
{
	end(user, result, e);
}

static void on_cancel(struct mcp_call *call UNUSED, void *user)
{
	struct run_call *c = user;

	run_cancel(c->run);
}

/* A sign of life for clients that give up on silence: it grows and never arrives. */
static int on_heartbeat(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct run_call *c = user;
	uint64_t seconds = (now_ns() - c->start_ns) / NS_PER_S;
	double done = (double)seconds / (double)(seconds + 60);
	char message[64];

	(void)snprintf(message, sizeof(message), "running for %jus", (uintmax_t)seconds);
	mcp_call_progress(c->call, PROGRESS_START + 0.8 * done, PROGRESS_END, message);
	(void)sd_event_source_set_time_relative(source, HEARTBEAT_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void start_heartbeat(struct run_call *c)
{
	c->start_ns = now_ns();
	if (!mcp_call_wants_progress(c->call))
		return;
	mcp_call_progress(c->call, PROGRESS_START, PROGRESS_END, NULL);
	/* Without the timer there is no sign of life, and nothing else is lost. */
	(void)sd_event_add_time_relative(c->tools->config.loop, &c->heartbeat, CLOCK_MONOTONIC,
					 HEARTBEAT_NS / NS_PER_US, 0, on_heartbeat, c);
}

static void start_run(struct run_call *c, struct sandbox *s)
{
	struct err e = ERR_INIT;

	c->sandbox = sandbox_ref(s);
	c->request.on_done = on_done;
	c->request.user = c;
	if (mcp_call_is_cancelled(c->call)) {
		(void)err_set(&e, ERR_CANCELLED, 0, "cancelled");
		end(c, NULL, &e);
		return;
	}
	if (sandbox_run(s, &c->request, &c->run, &e) < 0) {
		end(c, NULL, &e);
		return;
	}
	/* The engine has its copy, or the manager: ours need not wait for the end. */
	free(c->text);
	c->text = NULL;
	start_heartbeat(c);
	mcp_call_on_cancel(c->call, on_cancel, c);
}

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct run_call *c = user;

	if (e)
		end(c, NULL, e);
	else
		start_run(c, s);
}

struct run_call *run_call_new(struct tools *tools, struct mcp_call *call, const char *id,
			      const struct mcp_text_ref *text)
{
	struct run_call *c = calloc(1, sizeof(*c));

	if (c)
		c->text = tools_text_take(text);
	if (!c || !c->text) {
		free(c);
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory for the code", NULL);
		return NULL;
	}
	c->tools = tools;
	c->call = call;
	c->text_len = text->len;
	(void)snprintf(c->id, sizeof(c->id), "%s", id);
	return c;
}

void run_call_start(struct run_call *c)
{
	struct manager *m = c->tools->config.manager;
	const char *owner = mcp_call_principal(c->call);
	struct sandbox *s = c->id[0] ? manager_find(m, owner, c->id) : NULL;

	if (s)
		start_run(c, s);
	else
		manager_open(m, owner, c->id[0] ? c->id : NULL, on_open, c);
}
