/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_info and sandbox_delete of the profile `full`. */
#include "tools/extras.h"

#include "base/rand.h"
#include "sandbox/checkpoints.h"

#include <string.h>

#define PACKAGE_TEXT_MAX 256 /* bytes of a name and a version */

/* ---- sandbox_delete ---- */

static void on_deleted(const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		extras_fail_err(c->call, e);
	else
		extras_finish(c->call, json_pack("{s:s, s:s}", "session_id", sandbox_id(c->sandbox),
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

struct info_call {
	struct tool_call base;
	bool all;       /* also the packages of the image */
	json_t *object; /* owned: what is known so far */
};

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

/* Every limit that a program in S can meet. */
static json_t *info_limits(const struct tools *t, const struct sandbox *s)
{
	const struct engine_limits *l = &sandbox_policy(s)->limits;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}",
			 "memory_bytes", (json_int_t)l->memory_bytes, "cpu_milli",
			 (json_int_t)l->cpu_milli, "processes", (json_int_t)l->pids,
			 "workspace_bytes", (json_int_t)l->workspace_bytes, "workspace_files",
			 (json_int_t)l->workspace_inodes, "tmp_bytes", (json_int_t)l->tmp_bytes,
			 "open_files", (json_int_t)l->nofile, "output_bytes",
			 (json_int_t)sandbox_output_max(s), "run_seconds",
			 (json_int_t)(sandbox_run_timeout_ns(s) / NS_PER_S), "run_seconds_max",
			 (json_int_t)(manager_run_timeout_max_ns(t->config.manager) / NS_PER_S),
			 "unused_seconds", (json_int_t)(sandbox_ttl_ns(s) / NS_PER_S), "code_bytes",
			 (json_int_t)t->config.max_code_bytes, "upload_bytes",
			 (json_int_t)t->config.max_upload_bytes, "checkpoints", CHECKPOINTS_MAX);
}

/* What was chosen for S, without what `limits` has; of the environment the names. */
static int add_chosen(json_t *object, const struct sandbox *s)
{
	static const char *const members[] = {"labels", "env", "workdir", "root"};
	json_t *chosen = sandbox_options_json(sandbox_options(s));
	const char *name = sandbox_name(s);
	int r = json_object_set_new(object, "image", json_string(sandbox_image(s)));

	if (r == 0 && *name)
		r = json_object_set_new(object, "name", tools_json_bytes(name, strlen(name)));
	for (size_t i = 0; i < ARRAY_SIZE(members) && r == 0; i++) {
		json_t *v = json_object_get(chosen, members[i]);
		r = v ? json_object_set(object, members[i], v) : 0;
	}
	json_decref(chosen);
	return r;
}

static json_t *info_object(const struct info_call *call, const struct engine_usage *usage)
{
	const struct tool_call *c = &call->base;
	struct sandbox *s = c->sandbox;
	const struct engine_policy *policy = sandbox_policy(s);
	json_t *limits = info_limits(c->tools, s);
	json_t *server =
	    json_pack("{s:b, s:s}", "system_call_filter", 1 /* without the filter the server
							     * would not have started */
		      ,
		      "files", c->tools->config.has_landlock ? "landlock" : "uid");
	json_t *object =
	    json_pack("{s:s, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:s, s:o}", "session_id",
		      sandbox_id(s), "status", sandbox_is_busy(s) ? "running" : "idle", "age_s",
		      (json_int_t)(sandbox_age_ns(s) / NS_PER_S), "idle_s",
		      (json_int_t)(sandbox_idle_ns(s) / NS_PER_S), "level", policy->level.name,
		      "limits", limits, "enforced", tools_cap_names(policy->enforced),
		      "best_effort", tools_cap_names(policy->best_effort), "workspace",
		      policy->enforced & ENGINE_CAP_ON_DISK ? "disk" : "memory", "server", server);

	if (object && (add_chosen(object, s) < 0 || add_kept(object, c->tools, s) < 0)) {
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

static void info_end(struct info_call *c)
{
	extras_finish(c->base.call, c->object);
	tool_call_free(&c->base);
}

static void on_packages(const struct package_row *rows, size_t n, const struct err *e, void *user)
{
	struct info_call *c = user;
	json_t *lists[2] = {json_array(), json_array()};

	/* A list that is not known is left out. */
	for (size_t i = 0; !e && i < n; i++) {
		char text[PACKAGE_TEXT_MAX];

		(void)snprintf(text, sizeof(text), "%s %s", rows[i].name, rows[i].version);
		(void)json_array_append_new(lists[rows[i].from_image ? 1 : 0], json_string(text));
	}
	if (!e)
		(void)json_object_set(c->object, "installed_packages", lists[0]);
	if (!e && c->all)
		(void)json_object_set(c->object, "image_packages", lists[1]);
	json_decref(lists[0]);
	json_decref(lists[1]);
	info_end(c);
}

static void add_packages(struct info_call *c)
{
	struct packages *p = c->base.tools->config.packages;
	struct err e = ERR_INIT;

	if (!c->object || !p || packages_list(p, c->base.sandbox, c->all, on_packages, c, &e) < 0)
		info_end(c);
}

static void on_usage(const struct engine_usage *usage, const struct err *e, void *user)
{
	struct info_call *c = user;

	/* Figures that are not known are left out. */
	c->object = info_object(c, e ? NULL : usage);
	add_packages(c);
}

void extras_info(struct mcp_call *call, json_t *arguments, void *user)
{
	struct err e = ERR_INIT;

	struct sandbox *s = extras_session(user, call, arguments);
	struct info_call *c = s ? tool_call_new(user, call, s, sizeof(*c)) : NULL;
	if (!c)
		return;
	c->all = args_bool(arguments, "all_packages", false);
	if (sandbox_get_usage(s, on_usage, c, &e) == 0)
		return;
	if (e.code == ERR_ENGINE_NOT_BUILT_IN) {
		on_usage(NULL, &e, c);
		return;
	}
	extras_fail_err(call, &e);
	tool_call_free(&c->base);
}
