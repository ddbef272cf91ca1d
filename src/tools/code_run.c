/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_run_python of the first tool family. */
#include "tools/code.h"
#include "tools/run_call.h"

#include "base/text.h"

#include <string.h>

/* The text of a stream, followed by NOTE. The note may go past the limit of output. */
static json_t *stream_text(const struct run_output *output, const char *note)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(output->len * 3 + 128);
	int r = text_add_utf8_lossy(&b, output->data, output->len);

	r = r < 0 ? r : buf_add_str(&b, note);
	return r < 0 ? NULL : json_stringn_nocheck(buf_str(&b), b.len);
}

/* The contract: files directly in the workspace, and none after a failure. */
static size_t n_artifacts(const struct run_result *result)
{
	return result->reason == RUN_EXITED && result->exit_code == 0 ? result->n_shallow : 0;
}

struct answer {
	struct run_answer base;
	char note[64];
};

/* Maybe on a thread. */
static json_t *make_answer(void *user)
{
	const struct answer *a = user;
	const struct run_result *result = a->base.result;

	return tools_result_of(json_pack(
	    "{s:s, s:s, s:i, s:o, s:o, s:b, s:b, s:o, s:I, s:s}", "session_id", a->base.links.id,
	    "run_id", result->id, "exit_code", result->exit_code, "stdout",
	    stream_text(&result->out, ""), "stderr", stream_text(&result->err, a->note),
	    "stdout_truncated", result->out.truncated, "stderr_truncated", result->err.truncated,
	    "artifacts", tools_json_artifacts(&a->base.links, result, n_artifacts(result)),
	    "duration_ms", (json_int_t)result->duration_ms, "reason",
	    run_reason_name(result->reason)));
}

static void finish_result(struct run_call *c, const struct run_result *result)
{
	struct answer *a = run_answer_new(
	    c, result, n_artifacts(result) > 0 ? TOOLS_LINKS_FILES : TOOLS_LINKS_NONE, sizeof(*a));

	if (!a)
		return;
	if (result->reason == RUN_TIMEOUT)
		(void)snprintf(a->note, sizeof(a->note), "\nExecution timed out after %jus",
			       (uintmax_t)c->tools->config.exec_timeout_s);
	else if (result->reason == RUN_OOM)
		(void)snprintf(a->note, sizeof(a->note), "\nThe sandbox ran out of memory");
	run_answer_send(c->call, &a->base, make_answer);
}

static void note_end(struct mcp_call *call, const struct run_result *result)
{
	/* The text says 100KB whatever the limit is: clients know this text. */
	if (result->out.truncated)
		tools_note(call, MCP_LEVEL_WARNING, "stdout truncated to 100KB");
	if (result->err.truncated)
		tools_note(call, MCP_LEVEL_WARNING, "stderr truncated to 100KB");
	tools_note(call, MCP_LEVEL_INFO,
		   "Execution finished in %jums, exit code %d, %zu artifact(s)",
		   (uintmax_t)result->duration_ms, result->exit_code, n_artifacts(result));
}

static void finish(struct run_call *c, const struct run_result *result, const struct err *e)
{
	if (e) {
		code_finish_err(c->call, c->sandbox ? sandbox_id(c->sandbox) : c->id, e);
		return;
	}
	note_end(c->call, result);
	finish_result(c, result);
}

static size_t count_characters(const char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xC0) != 0x80 ? 1 : 0;
	return n;
}

void code_run_python(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	char id[SANDBOX_ID_MAX + 1];

	if (!code_session_id(call, arguments, id))
		return;
	struct mcp_text_ref code = tools_text_arg(call, arguments, "code");
	if (code.len > t->config.max_code_bytes) {
		tools_finish_errorf(call, "code_too_large",
				    "Code is %zu bytes, exceeds %ju byte limit.", code.len,
				    (uintmax_t)t->config.max_code_bytes);
		return;
	}
	struct run_call *c = run_call_new(t, call, id, &code);
	if (!c)
		return;
	tools_note(call, MCP_LEVEL_INFO, "Executing code (%zu characters)",
		   count_characters(c->text, c->text_len));
	c->request.kind = ENGINE_RUN_PYTHON;
	c->request.display = t->config.save_figures;
	c->request.head_only = true; /* the contract: the first bytes, without a mark */
	c->request.code = c->text;
	c->request.code_len = c->text_len;
	c->finish = finish;
	run_call_start(c);
}
