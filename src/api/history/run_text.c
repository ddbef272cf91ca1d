/* SPDX-License-Identifier: Apache-2.0 */
#include "api/history/run_text.h"

#include "base/base64.h"
#include "base/json_text.h"
#include "base/rand.h"
#include "sandbox/run_session.h"

/* All output that was kept, with a line that marks an omission. */
static int add_output(struct buf *b, const char *key, const struct run_output *output)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(output->len * 3 + RUN_OUTPUT_MARK);
	bool cut;
	int r = run_output_add(&text, output, SIZE_MAX, NULL, &cut);

	r = r < 0 ? r : json_text_key(b, key);
	return r < 0 ? r : json_text_add(b, buf_str(&text), text.len);
}

/* The file of the workspace that has the whole output. */
static int add_file(struct buf *b, const char *key, const struct run_output *output)
{
	int r = output->file ? json_text_key(b, key) : 1;

	if (r == 0)
		r = json_text_object(b, "sib", "path", output->file, "size",
				     (int64_t)output->file_bytes, "complete", !output->file_lacks);
	return MIN(r, 0);
}

static int add_files(struct buf *b, const struct run_result *result)
{
	int r = json_text_key(b, "artifacts");

	r = r < 0 ? r : buf_add_char(b, '[');
	for (size_t i = 0; i < result->n_artifacts && r == 0; i++)
		r = json_text_object(b, "si", "name", result->artifacts[i].name, "size",
				     (int64_t)result->artifacts[i].size);
	return r < 0 ? r : buf_add_char(b, ']');
}

int run_add_part(struct buf *b, const struct shown_part *p)
{
	if (!shown_is_binary(p->type))
		return json_text_add(b, p->data, p->len);
	const size_t len = BASE64_ENCODED_LEN(p->len);
	int r = buf_add_char(b, '"');
	r = r < 0 ? r : buf_reserve(b, len + 1);
	if (r < 0)
		return r;
	base64_encode((const uint8_t *)p->data, p->len, b->data + b->len);
	b->len += len;
	b->data[b->len] = '\0';
	return buf_add_char(b, '"');
}

static int add_shown(struct buf *b, const struct shown *s, uint64_t total)
{
	int r = json_text_open(b);

	r = r < 0 ? r
		  : json_text_members(b, "siit", "kind", shown_kind_name(s->kind), "offset",
				      (int64_t)(s->placed ? s->at : total), "end",
				      (int64_t)(s->placed ? s->end : total), "file", s->file);
	r = r < 0 ? r : json_text_key(b, "data");
	r = r < 0 ? r : buf_add_char(b, '{');
	for (size_t i = 0; i < s->n_parts && r == 0; i++) {
		const struct shown_part *p = &s->parts[i];

		r = p->data ? json_text_key(b, p->type) : 0;
		r = r < 0 || !p->data ? r : run_add_part(b, p);
	}
	r = r < 0 ? r : buf_add_str(b, "},\"left_out\":[");
	for (size_t i = 0; i < s->n_parts && r == 0; i++)
		if (!s->parts[i].data)
			r = json_text_object(b, "si", "type", s->parts[i].type, "bytes",
					     (int64_t)s->parts[i].len);
	return r < 0 ? r : buf_add_str(b, "]}");
}

static int add_results(struct buf *b, const struct run_result *result)
{
	int r = json_text_key(b, "results");

	r = r < 0 ? r : buf_add_char(b, '[');
	for (size_t i = 0; result->shown && i < result->shown->n && r == 0; i++)
		r = add_shown(b, &result->shown->items[i], result->out.total);
	return r < 0 ? r : buf_add_char(b, ']');
}

/* What has become of the session. */
static int add_session(struct buf *b, const struct run_result *result)
{
	_cleanup_(buf_done) struct buf gone = BUF_INIT(1024);
	int r = json_text_member(b, "state", run_session_state(result));
	r = r == 0 && result->context[0] ? json_text_member(b, "context", result->context) : r;

	r = r < 0 ? r : run_gone_text(&gone, result);
	if (r < 0 || gone.len == 0)
		return r;
	r = json_text_key(b, "gone");
	return r < 0 ? r : buf_add(b, gone.data, gone.len);
}

int run_result_text(struct buf *b, const char *id, const char *sandbox,
		    const struct run_result *result, bool reports)
{
	static const struct run_output none;
	const struct run_output *value = reports ? &none : &result->value;
	char place[SANDBOX_PLACE_MAX];
	int r = json_text_open(b);

	r = r < 0 ? r
		  : json_text_members(b, "ssssi", "id", id, "sandbox", sandbox, "status", "done",
				      "reason", run_reason_name(result->reason), "exit_code",
				      (int64_t)result->exit_code);
	r = r < 0 ? r : add_output(b, "stdout", &result->out);
	r = r < 0 ? r : add_output(b, "stderr", &result->err);
	r = r < 0 ? r : add_output(b, "value", value);
	if (r == 0 && reports && sandbox_read_place(result->value.data, result->value.len, place))
		r = json_text_member(b, "ended_cwd", place);
	r = r < 0 ? r
		  : json_text_members(b, "bbbiii", "stdout_truncated", result->out.truncated,
				      "stderr_truncated", result->err.truncated, "value_truncated",
				      value->truncated, "duration_ms", (int64_t)result->duration_ms,
				      "cpu_ms", (int64_t)(result->cpu_ns / NS_PER_MS), "peak_bytes",
				      (int64_t)result->peak_bytes);
	if (r == 0 && result->stateful)
		r = add_session(b, result);
	r = r < 0 ? r : add_files(b, result);
	r = r < 0 ? r : add_results(b, result);
	r = r < 0 ? r : json_text_members(b, "b", "artifacts_more", result->more_files);
	r = r < 0 ? r : add_file(b, "stdout_file", &result->out);
	r = r < 0 ? r : add_file(b, "stderr_file", &result->err);
	r = r < 0 ? r : add_file(b, "value_file", value);
	if (r == 0 && result->host_full)
		r = json_text_member(b, "hint", err_code_hint(ERR_HOST_DISK_FULL));
	return r < 0 ? r : buf_add_char(b, '}');
}

int run_failure_text(struct buf *b, const char *id, const char *sandbox, const struct err *e)
{
	return json_text_object(b, "sssss", "id", id, "sandbox", sandbox, "status", "failed",
				"error", err_code_name(e->code), "message", e->text);
}
