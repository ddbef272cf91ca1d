/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_info and sandbox_delete of the profile `full`. */
#include "tools/extras.h"

#include "base/rand.h"
#include "sandbox/checkpoints.h"

#include <string.h>

/* ---- sandbox_delete ---- */

static void on_deleted(const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		extras_fail_err(c->call, e);
	else
		tools_finish(c->call, json_pack("{s:s, s:s}", "session_id", sandbox_id(c->sandbox),
						"status", "deleted"));
	tool_call_free(c);
}

/* Deleting a sandbox in which something runs is decided by the person, if the client can ask
 * one. True: go on. False: the call is finished, or the question was sent and this tool is
 * called again with the answer. */
static bool may_delete(struct mcp_call *call, struct sandbox *s)
{
	static const char key[] = "end_run";
	char message[SANDBOX_ID_MAX + 128];

	if (!mcp_call_input(call, key) && (!sandbox_is_busy(s) || !extras_can_ask(call)))
		return true;
	(void)snprintf(message, sizeof(message),
		       "A run is going on in this sandbox. End it and delete all files of sandbox "
		       "%s",
		       sandbox_id(s));
	enum extras_word word = extras_ask(call, key, message, "End the run and delete");
	if (word == EXTRAS_DECLINED)
		extras_fail(call, "declined", "Wait for the run to end, or ask the person again.",
			    "The person did not agree to end the run in sandbox %s.",
			    sandbox_id(s));
	return word == EXTRAS_AGREED;
}

void extras_delete(struct mcp_call *call, json_t *arguments, void *user)
{
	struct err e = ERR_INIT;

	struct sandbox *s = extras_session(user, call, arguments);
	if (!s || !may_delete(call, s))
		return;
	struct tool_call *c = tool_call_new(user, call, s, sizeof(*c));
	if (!c || sandbox_close(s, true, on_deleted, c, &e) == 0)
		return;
	extras_fail_err(call, &e);
	tool_call_free(c);
}

/* ---- sandbox_info ---- */

static void add_checkpoint(const struct checkpoint *c, void *user)
{
	(void)!json_array_append_new(user, extras_json_checkpoint(c));
}

/* Adds members that a sandbox may or may not have. */
static int add_kept(json_t *object, struct tools *t, const struct sandbox *s)
{
	json_t *list = json_array();
	int r = 0;

	sandbox_each_checkpoint(s, add_checkpoint, list);
	if (json_array_size(list) > 0)
		r = json_object_set(object, "checkpoints", list);
	json_decref(list);
	if (r == 0 && sandbox_n_domains(s) > 0)
		r = json_object_set_new(object, "network_allowed", extras_domains(s));
	if (r == 0)
		r = extras_add_network(object, t, s);
	if (r == 0 && sandbox_parent(s)[0])
		r = json_object_set_new(object, "forked_from", json_string(sandbox_parent(s)));
	return r;
}

static json_t *info_object(const struct tool_call *c, const struct engine_usage *usage)
{
	struct sandbox *s = c->sandbox;
	const struct engine_policy *policy = sandbox_policy(s);
	json_t *limits = json_pack(
	    "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "memory_bytes",
	    (json_int_t)policy->limits.memory_bytes, "cpu_milli",
	    (json_int_t)policy->limits.cpu_milli, "processes", (json_int_t)policy->limits.pids,
	    "workspace_bytes", (json_int_t)policy->limits.workspace_bytes, "tmp_bytes",
	    (json_int_t)policy->limits.tmp_bytes, "output_bytes", (json_int_t)sandbox_output_max(s),
	    "run_seconds", (json_int_t)(sandbox_run_timeout_ns(s) / NS_PER_S), "run_seconds_max",
	    (json_int_t)(manager_run_timeout_max_ns(c->tools->config.manager) / NS_PER_S));
	json_t *server =
	    json_pack("{s:b, s:s}", "system_call_filter", 1 /* without the filter the server
							     * would not have started */
		      ,
		      "files", c->tools->config.has_landlock ? "landlock" : "uid");
	json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "session_id",
				   sandbox_id(s), "status", sandbox_is_busy(s) ? "running" : "idle",
				   "age_s", (json_int_t)(sandbox_age_ns(s) / NS_PER_S), "idle_s",
				   (json_int_t)(sandbox_idle_ns(s) / NS_PER_S), "limits", limits,
				   "enforced", tools_cap_names(policy->enforced), "best_effort",
				   tools_cap_names(policy->best_effort), "server", server);

	if (object && add_kept(object, c->tools, s) < 0) {
		json_decref(object);
		return NULL;
	}
	if (!object || !usage)
		return object;
	json_t *used =
	    json_pack("{s:I, s:I, s:I, s:I}", "memory_bytes", (json_int_t)usage->memory_bytes,
		      "workspace_bytes", (json_int_t)usage->workspace_bytes, "processes",
		      (json_int_t)usage->pids, "cpu_ms", (json_int_t)(usage->cpu_ns / NS_PER_MS));
	if (json_object_set_new(object, "used", used) < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static void on_usage(const struct engine_usage *usage, const struct err *e, void *user)
{
	struct tool_call *c = user;

	/* Figures that are not known are left out. */
	tools_finish(c->call, info_object(c, e ? NULL : usage));
	tool_call_free(c);
}

void extras_info(struct mcp_call *call, json_t *arguments, void *user)
{
	struct err e = ERR_INIT;

	struct sandbox *s = extras_session(user, call, arguments);
	struct tool_call *c = s ? tool_call_new(user, call, s, sizeof(*c)) : NULL;
	if (!c || sandbox_get_usage(s, on_usage, c, &e) == 0)
		return;
	if (e.code == ERR_ENGINE_NOT_BUILT_IN)
		tools_finish(call, info_object(c, NULL));
	else
		extras_fail_err(call, &e);
	tool_call_free(c);
}
