/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run_call.h"

#include "base/loop.h"
#include "sandbox/run_session.h"
#include "tools/last_bytes.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>
#include <time.h>

#define HEARTBEAT_NS          (5 * NS_PER_S)
#define REPORT_GAP_NS         (NS_PER_S / 2) /* between two reports that follow new output */
#define HEARTBEAT_ACCURACY_US 10000u         /* 0 would mean sd-event's default of 250 ms */
#define TASK_POLL_MS          1000
#define TASK_TTL_MS           3600000
#define PROGRESS_START        0.1
#define PROGRESS_END          1.0

void run_call_free(struct run_call *c)
{
	c->heartbeat = sd_event_source_disable_unref(c->heartbeat);
	(void)sandbox_unref(c->sandbox);
	free(c->text);
	free(c->input);
	free(c->words);
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

static void on_done(struct run *r, const struct run_result *result, const struct err *e, void *user)
{
	struct run_call *c = user;

	c->run = r;
	if (mcp_call_is_cancelled(c->call))
		run_unheard(r);
	end(c, result, e);
}

/* ---- the answer ---- */

void *run_answer_new(struct run_call *c, const struct run_result *result,
		     enum tools_link_kind links, size_t size)
{
	struct run_answer *a = calloc(1, size);

	if (!a) {
		mcp_call_finish_error(c->call, MCP_ERR_INTERNAL, "no memory", NULL);
		return NULL;
	}
	a->run = run_ref(c->run);
	a->result = result;
	if (links != TOOLS_LINKS_NONE && result->n_artifacts + result->n_folders > 0)
		tools_links_begin(c->tools, c->call, c->sandbox, links, &a->links);
	else /* the listener of links begins with the first link */
		(void)snprintf(a->links.id, sizeof(a->links.id), "%s", sandbox_id(c->sandbox));
	return a;
}

static void answer_free(void *user)
{
	struct run_answer *a = user;

	tools_links_done(&a->links);
	run_unref(a->run);
	free(a);
}

void run_answer_send(struct mcp_call *call, struct run_answer *a, json_t *(*make)(void *user))
{
	const struct run_result *r = a->result;
	const bool large = r->n_artifacts + r->n_folders > TOOLS_MANY_NAMES ||
			   r->out.len + r->err.len > TOOLS_MUCH_TEXT;

	mcp_call_make(call, large, make, answer_free, a);
}

static void on_cancel(struct mcp_call *call UNUSED, void *user)
{
	struct run_call *c = user;

	run_cancel(c->run);
}

/* ---- while it runs ---- */

/* Writes "running for 10s: LAST LINE", shortened, as valid UTF-8. */
static void describe(const struct run_call *c, uint64_t seconds, struct buf *ret)
{
	const char *end = c->tail + c->tail_len, *start;

	while (end > c->tail && (end[-1] == '\n' || end[-1] == '\r'))
		end--;
	for (start = end; start > c->tail && start[-1] != '\n' && start[-1] != '\r';)
		start--;
	/* Progress bars erase the line before they write it anew. */
	while (end - start > 2 && (memcmp(start, "\033[K", 3) == 0 ||
				   (end - start > 3 && memcmp(start, "\033[2K", 4) == 0)))
		start += start[2] == 'K' ? 3 : 4;
	int r = buf_printf(ret, "running for %jus", (uintmax_t)seconds);
	if (r == 0 && end > start)
		r = buf_add_str(ret, ": ");
	r = r < 0 ? r : text_add_utf8_lossy(ret, start, (size_t)(end - start));
	/* If the line does not fit, or without memory, the message is left out. */
	if (r < 0)
		buf_reset(ret);
}

/* A long run becomes a background task, if the client knows tasks. */
static void maybe_become_task(struct run_call *c, uint64_t seconds, const char *status)
{
	if (mcp_call_is_task(c->call))
		mcp_call_task_status(c->call, status);
	else if (c->tools->config.task_after_s > 0 && seconds >= c->tools->config.task_after_s &&
		 mcp_call_can_be_task(c->call) &&
		 mcp_call_become_task(c->call, TASK_POLL_MS, TASK_TTL_MS, status) < 0)
		/* There are too many tasks: it stays a call. */
		c->live = false;
}

/* Time until the next progress report, or until the run becomes a task if that comes first. */
static uint64_t next_heartbeat_us(const struct run_call *c)
{
	uint64_t spent = now_ns() - c->start_ns;
	uint64_t after = c->tools->config.task_after_s * NS_PER_S;
	bool waits = c->live && after > spent && mcp_call_can_be_task(c->call);

	return (waits ? MIN(after - spent, HEARTBEAT_NS) : HEARTBEAT_NS) / NS_PER_US;
}

/* Sends the time and the last line of output. The figure grows but never reaches its end. */
static void report(struct run_call *c)
{
	uint64_t spent = now_ns() - c->start_ns, seconds = spent / NS_PER_S;
	double done = (double)spent / (double)(spent + 60 * NS_PER_S);
	_cleanup_(buf_done) struct buf message = BUF_INIT(RUN_CALL_TAIL * 3 + 64);

	describe(c, seconds, &message);
	mcp_call_progress(c->call, PROGRESS_START + 0.8 * done, PROGRESS_END, buf_str(&message));
	if (c->live)
		maybe_become_task(c, seconds, buf_str(&message));
}

/* Clients that give up when they hear nothing get a report even if there is no new output. */
static int on_heartbeat(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct run_call *c = user;

	loop_work("timer", "progress");
	report(c);
	c->told_ns = now_ns();
	c->report_due = false;
	(void)sd_event_source_set_time_relative(source, next_heartbeat_us(c));
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* New output is reported at once, and then at most once in REPORT_GAP_NS. */
static void report_output(struct run_call *c)
{
	uint64_t now = now_ns();
	uint64_t wait_us = c->told_ns && now - c->told_ns < REPORT_GAP_NS
			       ? (REPORT_GAP_NS - (now - c->told_ns)) / NS_PER_US
			       : 0;

	if (c->report_due || !c->heartbeat || !mcp_call_wants_progress(c->call))
		return;
	if (sd_event_source_set_time_relative(c->heartbeat, wait_us) >= 0)
		c->report_due = true;
}

static void on_output(struct run *r UNUSED, enum engine_stream stream, const void *data, size_t len,
		      void *user)
{
	struct run_call *c = user;

	if (stream == ENGINE_RESULT) /* the value of a last expression is in the answer */
		return;
	last_bytes_add(c->tail, sizeof(c->tail), &c->tail_len, data, len);
	report_output(c);
	if (mcp_call_logs(c->call, MCP_LEVEL_DEBUG))
		mcp_call_log(c->call, MCP_LEVEL_DEBUG,
			     stream == ENGINE_STDOUT ? "stdout" : "stderr",
			     tools_json_bytes(data, len));
}

static void start_heartbeat(struct run_call *c)
{
	c->start_ns = now_ns();
	mcp_call_progress(c->call, PROGRESS_START, PROGRESS_END, NULL);
	if (!mcp_call_wants_progress(c->call) && !(c->live && mcp_call_can_be_task(c->call)))
		return;
	/* Without the timer only the progress reports are missing. */
	(void)sd_event_add_time_relative(c->tools->config.loop, &c->heartbeat, CLOCK_MONOTONIC,
					 next_heartbeat_us(c), HEARTBEAT_ACCURACY_US, on_heartbeat,
					 c);
}

static void start_run(struct run_call *c, struct sandbox *s)
{
	struct err e = ERR_INIT;

	c->sandbox = sandbox_ref(s);
	c->request.on_output = c->live ? on_output : NULL;
	c->request.on_done = on_done;
	c->request.asked_how = "mcp";
	c->request.asked_by = mcp_call_client_name(c->call);
	c->request.asked_on = mcp_call_connection(c->call);
	c->request.user = c;
	if (mcp_call_is_cancelled(c->call)) {
		(void)err_set(&e, ERR_CANCELLED, 0, "cancelled");
		end(c, NULL, &e);
		return;
	}
	if (c->prepare)
		c->prepare(c);
	if (sandbox_run(s, &c->request, &c->run, &e) < 0) {
		end(c, NULL, &e);
		return;
	}
	/* The engine or the manager has a copy, so these are not needed until the end. */
	free(TAKE_PTR(c->text));
	free(TAKE_PTR(c->input));
	start_heartbeat(c);
	mcp_call_on_cancel(c->call, on_cancel, c);
}

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct run_call *c = user;

	if (e) {
		end(c, NULL, e);
		return;
	}
	c->made = !c->known && !sandbox_is_stored(s);
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
	struct sandbox *s = c->id[0] && !c->known ? manager_find(m, owner, c->id) : NULL;

	if (s)
		start_run(c, s);
	else if (c->known)
		manager_activate(m, owner, c->id, on_open, c);
	else
		manager_open(m, owner, c->id[0] ? c->id : NULL, on_open, c);
}
