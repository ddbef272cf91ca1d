/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the manager's result of a run from the engine's: reason, exit code, output, costs. */
#include "base/log.h"
#include "base/rand.h"
#include "sandbox/run_life.h"
#include "sandbox/run_session.h"

#include <string.h>

#define EXIT_CODE_TIMEOUT (-1)
#define TAIL_MAX          4096u /* last bytes of stderr that are searched */

const char *run_reason_name(enum run_reason reason)
{
	static const char *const names[] = {
	    [RUN_EXITED] = "exited",
	    [RUN_SIGNALED] = "signaled",
	    [RUN_TIMEOUT] = "timeout",
	    [RUN_OOM] = "oom",
	    [RUN_OUTPUT_LIMIT] = "output_limit",
	    [RUN_DISK_LIMIT] = "disk_limit",
	    [RUN_CANCELLED] = "cancelled",
	    [RUN_LOST] = "lost",
	};
	return names[reason];
}

static enum run_reason reason_of(const struct run *r)
{
	switch (r->end.end) {
	case ENGINE_END_EXITED:
		return RUN_EXITED;
	case ENGINE_END_SIGNALED:
		return RUN_SIGNALED;
	case ENGINE_END_TIMEOUT:
		return RUN_TIMEOUT;
	case ENGINE_END_OOM:
		return RUN_OOM;
	case ENGINE_END_OUTPUT:
		return RUN_OUTPUT_LIMIT;
	case ENGINE_END_DISK:
		return RUN_DISK_LIMIT;
	case ENGINE_END_KILLED:
		return RUN_CANCELLED;
	case ENGINE_END_LOST:
		return RUN_LOST;
	}
	return RUN_CANCELLED;
}

static int exit_code_of(const struct run *r, enum run_reason reason)
{
	switch (reason) {
	case RUN_TIMEOUT:
		return EXIT_CODE_TIMEOUT;
	case RUN_OOM:
	case RUN_OUTPUT_LIMIT:
	case RUN_DISK_LIMIT:
	case RUN_CANCELLED:
	case RUN_LOST:
		return RUN_EXIT_CODE_KILLED;
	case RUN_EXITED:
	case RUN_SIGNALED:
		break;
	}
	return r->end.exit_code;
}

bool run_result_disk_was_full(const struct run_result *result)
{
	static const char *const words[] = {"No space left on device", "Disk quota exceeded",
					    "[Errno 28]", "[Errno 122]"};
	const size_t len = MIN(result->err.len, (size_t)TAIL_MAX);

	if (result->reason == RUN_DISK_LIMIT)
		return true;
	for (size_t i = 0; result->exit_code != 0 && i < ARRAY_SIZE(words); i++)
		if (memmem(result->err.data + result->err.len - len, len, words[i],
			   strlen(words[i])))
			return true;
	return false;
}

static void log_end(const struct run *r, const struct run_result *result)
{
	static const char *const events[] = {
	    [ENGINE_STDOUT] = "stdout_truncated", [ENGINE_STDERR] = "stderr_truncated"};

	LOG_INFO("container_exec_done", LOG_S("session_id", r->sandbox->id), LOG_S("run_id", r->id),
		 LOG_I("exit_code", result->exit_code),
		 LOG_S("reason", run_reason_name(result->reason)),
		 LOG_U("stdout_bytes", result->out.len), LOG_U("stderr_bytes", result->err.len),
		 LOG_U("duration_ms", result->duration_ms), LOG_B("warm", result->warm),
		 LOG_B("named_end", r->end.named_end));
	for (int i = ENGINE_STDOUT; i <= ENGINE_STDERR; i++)
		if (i == ENGINE_STDOUT ? result->out.truncated : result->err.truncated)
			LOG_WARNING(events[i], LOG_S("session_id", r->sandbox->id),
				    LOG_S("run_id", r->id),
				    LOG_U("original_bytes", r->end.output_total[i]),
				    LOG_U("limit_bytes", sandbox_output_max(r->sandbox)));
}

static struct run_output output_of(struct run *r, enum engine_stream stream)
{
	struct run_output output = kept_output_end(&r->output[stream]);

	/* The engine's total also has the bytes that it did not deliver. */
	if (stream != ENGINE_RESULT)
		output.total = MAX(output.total, r->end.output_total[stream]);
	whole_output_tell(r, stream, &output);
	return output;
}

void run_report(struct run *r)
{
	enum run_reason reason = reason_of(r);
	shown_list_end(&r->shown, r->output[ENGINE_STDOUT].total);
	r->result = (struct run_result){
	    .id = r->id,
	    .reason = reason,
	    .exit_code = exit_code_of(r, reason),
	    .signal = r->end.signal,
	    .out = output_of(r, ENGINE_STDOUT),
	    .err = output_of(r, ENGINE_STDERR),
	    .value = output_of(r, ENGINE_RESULT),
	    .shown = &r->shown,
	    .artifacts = r->artifacts,
	    .n_artifacts = r->n_artifacts,
	    .n_shallow = r->n_shallow,
	    .more_files = r->more_files,
	    .gone = r->gone,
	    .n_gone = r->n_gone,
	    .gone_more = r->gone_more,
	    .folders = r->folders,
	    .n_folders = r->n_folders,
	    .has_folders = r->has_folders,
	    .warm = r->end.warm,
	    .state_lost = r->end.state_lost,
	    .state_kept = r->end.state_kept,
	    .stateful = r->request.kind == ENGINE_RUN_STATEFUL,
	    .context = r->context_name,
	    .left = r->end.left,
	    .killed = r->end.killed,
	    .cell = r->end.cell,
	    .duration_ms = r->end.duration_ns / NS_PER_MS,
	    .cpu_ns = r->end.cpu_ns,
	    .cpu_before_ns = r->end.cpu_before_ns,
	    .peak_bytes = r->end.peak_bytes,
	};
	r->result.host_full =
	    sandbox_is_rationed(r->sandbox) && run_result_disk_was_full(&r->result);
	run_session_tell(r);
	log_end(r, &r->result);
	run_end(r, &r->result, NULL);
}
