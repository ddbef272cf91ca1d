/* SPDX-License-Identifier: Apache-2.0 */
/* The rows about the engine, and about the container daemon where that makes the sandboxes. */
#include "doctor/doctor.h"

#include "app/limits.h"
#include "app/read_settings.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define SAY(r, ...)  ((void)snprintf((r)->value, sizeof((r)->value), __VA_ARGS__))
#define MEND(r, ...) ((void)snprintf((r)->mend, sizeof((r)->mend), __VA_ARGS__))

bool doctor_concerns(const struct doctor_facts *f, const struct doctor_check *c)
{
	const bool docker = streq(f->name, "docker");

	return c->engine == DOCTOR_FOR_ANY || (c->engine == DOCTOR_FOR_DOCKER) == docker;
}

void row_engine(const struct doctor_facts *f, struct doctor_row *r)
{
	if (f->why[0])
		SAY(r, "auto: %s", f->why);
	else
		SAY(r, "%s, as SANDBOX_ENGINE says", f->name);
}

void row_daemon(const struct doctor_facts *f, struct doctor_row *r)
{
	const struct docker_about *d = &f->daemon;

	if (f->engine.usable) {
		SAY(r, "%s %s at %s, API %s, default runtime %s", d->product, d->version, d->host,
		    d->api, d->runtime);
		return;
	}
	r->state = DOCTOR_MISSING;
	SAY(r, "%s", f->engine_error.text);
	MEND(r, "SANDBOX_ENGINE=docker needs a running daemon; your user must be able to use its "
		"socket (group docker, or root)");
}

void row_daemon_limits(const struct doctor_facts *f, struct doctor_row *r)
{
	static const struct {
		uint32_t cap;
		const char *name;
	} limits[] = {{ENGINE_CAP_MEMORY, "memory"},
		      {ENGINE_CAP_CPU, "CPU"},
		      {ENGINE_CAP_PIDS, "processes"},
		      {ENGINE_CAP_DISK, "workspace"}};
	size_t n = 0;

	struct err e = ERR_INIT;

	if (limits_server(f->settings, engine_caps_most(f->name), &e) < 0) {
		r->state = DOCTOR_MISSING;
		SAY(r, "%s", e.text);
		MEND(r, "remove the setting: the server does not start with it");
		return;
	}
	if (!f->engine.usable) {
		SAY(r, "not known without the daemon");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (!(f->engine.enforced & limits[i].cap)) {
			(void)snprintf(r->value + n, sizeof(r->value) - n, "%s%s", n ? ", " : "",
				       limits[i].name);
			n = strlen(r->value);
		}
	if (n == 0) {
		SAY(r, "memory, CPU, processes, workspace: held by cgroup %s", f->daemon.cgroup);
		return;
	}
	r->state = DOCTOR_WEAKER;
	(void)snprintf(r->value + n, sizeof(r->value) - n, ": the daemon does not limit them");
	MEND(r, "give the daemon these control groups ('docker info' warns about those it lacks)");
}

void row_daemon_users(const struct doctor_facts *f, struct doctor_row *r)
{
	if (!f->engine.usable) {
		SAY(r, "not known without the daemon");
		return;
	}
	if (f->daemon.userns || f->daemon.rootless) {
		SAY(r, "%s",
		    f->daemon.rootless ? "the daemon runs without root"
				       : "mapped to other users of this machine");
		return;
	}
	r->state = DOCTOR_NOTE;
	SAY(r, "uid 1000 of a container is uid 1000 of this machine");
	MEND(r, "\"userns-remap\": \"default\" in /etc/docker/daemon.json, or a rootless daemon");
}

/* Says what makes the sandboxes of each level, and why not where they cannot be made. True: all can be. */
static bool name_levels(const struct docker_about *d, const struct engine_levels *l,
			struct doctor_row *r)
{
	static const char *const why[] = {
	    [DOCKER_RUNTIME_GOOD] = "",
	    [DOCKER_RUNTIME_MISSING] = ", which the daemon lacks",
	};
	bool all = true;
	size_t n = 0;

	for (unsigned i = 0; i < l->n && n < sizeof(r->value); i++) {
		const char *runtime = l->at[i].runtime[0] ? l->at[i].runtime : d->runtime;

		(void)snprintf(r->value + n, sizeof(r->value) - n, "%s%s%s: %s%s", n ? "; " : "",
			       l->at[i].name, i == l->usual && l->n > 1 ? " (default)" : "",
			       runtime, why[d->level[i]]);
		n = strlen(r->value);
		all = all && d->level[i] == DOCKER_RUNTIME_GOOD;
	}
	return all;
}

void row_levels(const struct doctor_facts *f, struct doctor_row *r)
{
	const bool docker = streq(f->name, "docker");
	struct engine_levels l;
	struct err e = ERR_INIT;

	if ((!docker && limits_server(f->settings, engine_caps_most(f->name), &e) < 0) ||
	    read_levels(f->settings, f->name, &l, &e) < 0) {
		r->state = DOCTOR_MISSING;
		SAY(r, "%s", e.text);
		MEND(r, "correct the setting; docs/docker-engine.md has an example");
		return;
	}
	if (!docker) {
		SAY(r, "%s: namespaces and the walls below", l.at[0].name);
		return;
	}
	if (!f->engine.usable) {
		SAY(r, "not known without the daemon");
		return;
	}
	if (name_levels(&f->daemon, &l, r))
		return;
	r->state = DOCTOR_WEAKER;
	MEND(r,
	     "the daemon has these runtimes: %s; set SANDBOX_LEVELS to them, or install the "
	     "missing one and add it to /etc/docker/daemon.json",
	     f->daemon.runtimes);
}
