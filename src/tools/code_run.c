/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_run_python of the first tool family. */
#include "tools/code.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define HEARTBEAT_NS   (10 * NS_PER_S)
#define PROGRESS_START 0.1
#define PROGRESS_END   1.0

struct run_call {
	struct code_call base;
	char id[SANDBOX_ID_MAX + 1]; /* as given; "" = a new session */
	char *code;                  /* owned */
	size_t code_len;
	struct run *run; /* while it runs */
	uint64_t start_ns;
	sd_event_source *heartbeat;
};

static void run_call_free(struct run_call *c)
{
	c->heartbeat = sd_event_source_disable_unref(c->heartbeat);
	(void)sandbox_unref(c->base.sandbox);
	free(c->code);
	free(c);
}

/* The call is over for us: no cancel comes any more. */
static void end_with_err(struct run_call *c, const struct err *e)
{
	code_finish_err(c->base.call, c->base.sandbox ? sandbox_id(c->base.sandbox) : c->id, e);
	run_call_free(c);
}

/* ---- the result ---- */

/* Text of a stream, and for a timeout the line that says so after it (past the limit, if need be). */
static json_t *stream_text(const struct run_output *output, const char *note)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(output->len * 3 + 128);
	int r = text_add_utf8_lossy(&b, output->data, output->len);

	r = r < 0 ? r : buf_add_str(&b, note);
	return r < 0 ? NULL : json_stringn_nocheck(buf_str(&b), b.len);
}

static json_t *artifact_list(struct tools *t, const struct sandbox *s,
                             const struct run_result *result)
{
	json_t *items = json_array();

	for (size_t i = 0; i < result->n_artifacts; i++)
		if (json_array_append_new(items, tools_json_artifact(t, s, result->artifacts[i].name,
		                                                     result->artifacts[i].size)) < 0) {
			json_decref(items);
			return NULL;
		}
	return items;
}

static json_t *result_object(struct run_call *c, const struct run_result *result)
{
	const char *id = sandbox_id(c->base.sandbox);
	char note[64] = "";

	if (result->reason == RUN_TIMEOUT)
		(void)snprintf(note, sizeof(note), "\nExecution timed out after %jus",
		               (uintmax_t)c->base.tools->config.exec_timeout_s);
	return json_pack("{s:s, s:s, s:i, s:o, s:o, s:b, s:b, s:o, s:I, s:s}", "session_id", id,
	                 "run_id", result->id, "exit_code", result->exit_code, "stdout",
	                 stream_text(&result->out, ""), "stderr", stream_text(&result->err, note),
	                 "stdout_truncated", result->out.truncated, "stderr_truncated",
	                 result->err.truncated, "artifacts",
	                 artifact_list(c->base.tools, c->base.sandbox, result), "duration_ms",
	                 (json_int_t)result->duration_ms, "reason", run_reason_name(result->reason));
}

static void note_end(struct run_call *c, const struct run_result *result)
{
	struct mcp_call *call = c->base.call;

	/* The text names the default limit whatever the limit is: clients know it so. */
	if (result->out.truncated)
		tools_note(call, MCP_LEVEL_WARNING, "stdout truncated to 100KB");
	if (result->err.truncated)
		tools_note(call, MCP_LEVEL_WARNING, "stderr truncated to 100KB");
	tools_note(call, MCP_LEVEL_INFO, "Execution finished in %jums, exit code %d, %zu artifact(s)",
	           (uintmax_t)result->duration_ms, result->exit_code, result->n_artifacts);
	mcp_call_progress(call, PROGRESS_END, PROGRESS_END, NULL);
}

static void on_done(struct run *r UNUSED, const struct run_result *result, const struct err *e,
                    void *user)
{
	struct run_call *c = user;

	mcp_call_on_cancel(c->base.call, NULL, NULL);
	if (e) {
		end_with_err(c, e);
		return;
	}
	note_end(c, result);
	tools_finish(c->base.call, result_object(c, result));
	run_call_free(c);
}

/* ---- while it runs ---- */

static void on_cancel(struct mcp_call *call UNUSED, void *user)
{
	struct run_call *c = user;

	/* Before there is a run, start_run() looks at the call itself. */
	if (c->run)
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
	mcp_call_progress(c->base.call, PROGRESS_START + 0.8 * done, PROGRESS_END, message);
	(void)sd_event_source_set_time_relative(source, HEARTBEAT_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void start_heartbeat(struct run_call *c)
{
	c->start_ns = now_ns();
	if (!mcp_call_wants_progress(c->base.call))
		return;
	mcp_call_progress(c->base.call, PROGRESS_START, PROGRESS_END, NULL);
	/* Without the timer there is no sign of life, and nothing else is lost. */
	(void)sd_event_add_time_relative(c->base.tools->config.loop, &c->heartbeat, CLOCK_MONOTONIC,
	                                 HEARTBEAT_NS / NS_PER_US, 0, on_heartbeat, c);
}

static void start_run(struct run_call *c, struct sandbox *s)
{
	struct err e = ERR_INIT;
	struct run_request request = {
	    .kind = ENGINE_RUN_PYTHON,
	    .code = c->code,
	    .code_len = c->code_len,
	    .on_done = on_done,
	    .user = c,
	};

	c->base.sandbox = sandbox_ref(s);
	if (mcp_call_is_cancelled(c->base.call))
		(void)err_set(&e, ERR_CANCELLED, 0, "cancelled");
	else if (sandbox_run(s, &request, &c->run, &e) == 0) {
		/* The engine has its copy, or the manager: ours need not wait for the end. */
		free(c->code);
		c->code = NULL;
		start_heartbeat(c);
		mcp_call_on_cancel(c->base.call, on_cancel, c);
		return;
	}
	end_with_err(c, &e);
}

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct run_call *c = user;

	if (e)
		end_with_err(c, e);
	else
		start_run(c, s);
}

/* ---- the call ---- */

static size_t count_characters(const char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xC0) != 0x80 ? 1 : 0;
	return n;
}

void code_run_python(struct mcp_call *call, json_t *arguments, void *user)
{
	static const struct arg_spec specs[] = {
	    {"code", ARG_STRING, true},
	    {"session_id", ARG_STRING_OR_NULL, false},
	};
	struct tools *t = user;
	char id[SANDBOX_ID_MAX + 1];

	if (!tools_check_args(call, "sandbox_run_python", specs, ARRAY_SIZE(specs), arguments) ||
	    !code_session_id(call, arguments, id))
		return;
	struct mcp_text_ref code = tools_text_arg(call, arguments, "code");
	if (code.len > t->config.max_code_bytes) {
		tools_finish_errorf(call, "code_too_large",
		                    "Code is %zu bytes, exceeds %ju byte limit.", code.len,
		                    (uintmax_t)t->config.max_code_bytes);
		return;
	}
	struct run_call *c = code_call_new(call, t, sizeof(*c));
	if (!c)
		return;
	memcpy(c->id, id, sizeof(id));
	c->code_len = code.len;
	c->code = tools_text_take(&code);
	if (!c->code) {
		run_call_free(c);
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory for the code", NULL);
		return;
	}
	tools_note(call, MCP_LEVEL_INFO, "Executing code (%zu characters)",
	           count_characters(c->code, c->code_len));
	struct manager *m = t->config.manager;
	struct sandbox *s = *id ? manager_find(m, mcp_call_principal(call), id) : NULL;
	if (s)
		start_run(c, s);
	else
		manager_open(m, mcp_call_principal(call), *id ? c->id : NULL, on_open, c);
}
