/* SPDX-License-Identifier: Apache-2.0 */
#include "app/policy_json.h"

#include "app/limits.h"
#include "base/jsonio.h"
#include "base/text.h"

#include <sys/resource.h>

static json_t *class_json(uint64_t memory, uint64_t cpu_milli, uint64_t pids, uint64_t bytes,
			  int64_t files, int64_t timeout_s, int64_t output)
{
	return json_pack("{s:I, s:f, s:I, s:I, s:I, s:I, s:I}", "memory_bytes", (json_int_t)memory,
			 "cpu_cores", (double)cpu_milli / 1000, "processes", (json_int_t)pids,
			 "workspace_bytes", (json_int_t)bytes, "workspace_files", (json_int_t)files,
			 "run_timeout_s", (json_int_t)timeout_s, "output_bytes",
			 (json_int_t)output);
}

char *policy_make(void *user)
{
	const struct app *a = user;
	const struct settings *s = &a->settings;
	struct engine *engine = manager_engine(a->manager);
	const uint32_t asked = ENGINE_CAP_MEMORY | ENGINE_CAP_CPU | ENGINE_CAP_PIDS |
			       ENGINE_CAP_DISK | ENGINE_CAP_OWN_UID;

	if (!engine)
		return NULL;
	uint32_t caps = engine_caps(engine);
	json_t *doc = json_pack(
	    "{s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:{s:I, s:I, s:I}, "
	    "s:{s:I, s:I}, s:{s:b, s:s}}",
	    "engine", s->engine, "image", a->image, "profile", s->profile, "enforced",
	    tools_cap_names(caps & asked), "best_effort", tools_cap_names(asked & ~caps), "network",
	    egress_kind_name(egress_policy_kind(a->network)), "network_max", s->network_max,
	    "session",
	    class_json(s->memory_limit, s->cpu_limit, (uint64_t)s->pids_limit, s->workspace_limit,
		       s->workspace_files, s->exec_timeout_s, s->max_output_bytes),
	    "stored",
	    class_json(s->stored_memory_limit, s->cpu_limit, (uint64_t)s->pids_limit,
		       s->stored_workspace_limit, s->stored_workspace_files,
		       s->stored_exec_timeout_s, s->stored_output_bytes),
	    "sessions", "max", (json_int_t)s->max_sessions, "idle_m", (json_int_t)s->session_ttl_m,
	    "upload_bytes", (json_int_t)limits_rest_upload(s), "total", "memory_bytes",
	    (json_int_t)s->total_memory, "disk_bytes", (json_int_t)s->total_disk, "server",
	    "system_call_filter", 1 /* without it the monitor had not started */, "files",
	    a->has_landlock ? "landlock" : "uid");
	(void)json_object_set_new(json_object_get(doc, "session"), "workspace",
				  json_string(caps & ENGINE_CAP_ON_DISK ? "disk" : "memory"));
	const struct engine_level *usual = &engine_levels(engine)->at[engine_levels(engine)->usual];
	(void)json_object_set_new(doc, "level", json_string(usual->name));
	(void)json_object_set_new(doc, "levels", manager_level_names(a->manager));
	(void)json_object_set_new(doc, "images", manager_image_names(a->manager));
	(void)json_object_set_new(doc, "root", json_boolean(s->root));
	(void)json_object_set_new(doc, "max", manager_option_maxima(a->manager));
	(void)json_object_set_new(doc, "public_ports", json_boolean(s->public_ports));
	if (streq(s->engine, "docker"))
		(void)json_object_set_new(doc, "runtime", json_string(usual->runtime));
	/* If the kernel cannot enforce the limit of a stored workspace, runs that exceed it are ended. */
	(void)json_object_set_new(
	    json_object_get(doc, "stored"), "disk",
	    json_string(caps & ENGINE_CAP_PERSISTENT ? "enforced" : "best_effort"));
	/* The kernel counts watches of epoll for each uid: one sandbox can use up those of all. */
	(void)json_object_set_new(json_object_get(doc, "server"), "watches",
				  json_string(caps & ENGINE_CAP_OWN_UID ? "own" : "shared"));
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		(void)json_object_set_new(
		    json_object_get(doc, "server"), "open_files",
		    json_integer((json_int_t)MIN(files.rlim_cur, (rlim_t)INT32_MAX)));
	size_t len;
	char *text = jsonio_text(doc, JSON_COMPACT, &len);

	json_decref(doc);
	return text;
}
