/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson doctor [--json]`: what this machine can enforce, what is missing, and what to do about it.
 *
 * Exit status: 0: sandboxes can be made with every wall; 1: they can be made, but something is weaker;
 * 2: they cannot be made. */
#include "doctor/doctor.h"
#include "app/read_settings.h"
#include "cmd/cmd.h"
#include "cmd/server_facts.h"

#include "base/attr.h"
#include "base/text.h"
#include "config/paths.h"
#include "engine/engine.h"
#include "tools/tools.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERB       "doctor"
#define ROWS_MAX   64
#define WHAT_WIDTH 26

static const struct {
	const char *name;
	const char *mark;
	const char *colour; /* an SGR code, used on terminals only */
	int status;
} states[DOCTOR_STATE_MAX_] = {
    [DOCTOR_OK] = {"ok", "ok", "32", 0},
    [DOCTOR_NOTE] = {"note", "note", "36", 0},
    [DOCTOR_WEAKER] = {"weaker", "weaker", "33", 1},
    [DOCTOR_MISSING] = {"missing", "MISSING", "31", 2},
};

static const char *const summaries[] = {
    "Sandboxes can be made, and every wall is in force.",
    "Sandboxes can be made, but the rows marked `weaker` have less than their full strength.",
    "No sandbox can be made until the rows marked MISSING are fixed.",
};

static const char *state_name(enum doctor_state s)
{
	return states[s].name;
}

/* Ubuntu lets only programs with a profile make user namespaces. */
static void print_apparmor_profile(void)
{
	char path[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return;
	path[n] = '\0';
	(void)printf(
	    "\nAn AppArmor profile for this program; save it as /etc/apparmor.d/caisson, then\n"
	    "sudo apparmor_parser -r /etc/apparmor.d/caisson\n\n"
	    "abi <abi/4.0>,\ninclude <tunables/global>\n\n"
	    "profile caisson \"%s\" flags=(unconfined) {\n  userns,\n"
	    "  include if exists <local/caisson>\n}\n",
	    path);
}

static void print_text(const struct doctor_facts *f, const struct doctor_row *rows, int status)
{
	bool colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");

	for (size_t i = 0; i < doctor_n_checks; i++) {
		const struct doctor_row *r = &rows[i];

		if (!doctor_concerns(f, &doctor_checks[i]) || !r->value[0])
			continue;
		if (colour)
			(void)printf("\033[%sm%-8s\033[0m", states[r->state].colour,
				     states[r->state].mark);
		else
			(void)printf("%-8s", states[r->state].mark);
		(void)printf("%-*s%s\n", WHAT_WIDTH, doctor_checks[i].what, r->value);
		if (r->mend[0])
			(void)printf("%-8s%-*s-> %s\n", "", WHAT_WIDTH, "", r->mend);
	}
	if (f->probe.apparmor_restrict_userns > 0)
		print_apparmor_profile();
	(void)printf("\n%s\n", summaries[status]);
}

static int print_json(const struct doctor_facts *f, const struct doctor_row *rows, int status)
{
	json_t *list = json_array();

	for (size_t i = 0; i < doctor_n_checks; i++)
		if (doctor_concerns(f, &doctor_checks[i]) && rows[i].value[0])
			(void)json_array_append_new(
			    list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", doctor_checks[i].id,
					    "what", doctor_checks[i].what, "state",
					    state_name(rows[i].state), "value", rows[i].value,
					    "mend", rows[i].mend));
	json_t *doc = json_pack("{s:s, s:i, s:s, s:s, s:b, s:s, s:o, s:o, s:o}", "version",
				CAISSON_VERSION, "status", status, "summary", summaries[status],
				"engine", f->name, "root", f->probe.uid == 0, "cgroup",
				streq(f->name, "docker") ? f->daemon.cgroup : f->probe.cgroup,
				"enforced", tools_cap_names(f->engine.enforced), "best_effort",
				tools_cap_names(f->engine.best_effort), "rows", list);
	int r = doc ? json_dumpf(doc, stdout, JSON_INDENT(2)) : -1;

	(void)putchar('\n');
	json_decref(doc);
	return r == 0 ? 0 : -EIO;
}

static void on_probed(const struct engine_probe *p, const struct err *e, void *user)
{
	struct doctor_facts *f = user;

	if (e)
		f->engine_error = *e;
	if (p && p->host)
		f->probe = *p->host;
	if (p && p->docker)
		f->daemon = *p->docker;
	if (p) {
		f->engine = *p;
		f->engine.host = NULL;
		f->engine.docker = NULL;
	}
	f->probed = true;
}

/* What the engine of the settings can enforce here, and what this machine could on its own. */
static int probe(struct doctor_facts *f, struct err *e)
{
	sd_event *loop = NULL;
	int r = sd_event_new(&loop);
	const struct settings *s = f->settings;
	const struct engine_config config = {.warm = s->warm,
					     .docker = {.host = s->docker_host,
							.certs = s->docker_certs,
							.runtime = s->runtime,
							.levels = s->levels,
							.level = s->level}};

	f->name = engine_choose(s->engine, f->why);
	r = r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop")
		  : engine_probe("native", &config, loop, on_probed, f, e);
	while (r >= 0 && !f->probed)
		r = sd_event_run(loop, UINT64_MAX);
	if (r >= 0 && streq(f->name, "docker")) {
		f->probed = false;
		f->engine = (struct engine_probe){0};
		r = engine_probe("docker", &config, loop, on_probed, f, e);
		while (r >= 0 && !f->probed)
			r = sd_event_run(loop, UINT64_MAX);
	}
	(void)sd_event_unref(loop);
	return r < 0 ? r : 0;
}

/* Looks at everything. The worst row is returned as an exit status. */
static int look(struct doctor_facts *f, struct doctor_row rows[ROWS_MAX], struct err *e)
{
	int status = 0;

	ASSERT(doctor_n_checks <= ROWS_MAX);
	if (config_state_dir(f->settings, f->state_dir, sizeof(f->state_dir), e) < 0)
		f->state_dir[0] = '\0'; /* the row about the state folder says so */
	int r = probe(f, e);
	if (r >= 0 && streq(f->name, "native"))
		r = config_image_name(f->settings, f->image, e);
	for (size_t i = 0; r >= 0 && i < doctor_n_checks; i++) {
		if (!doctor_concerns(f, &doctor_checks[i]))
			continue;
		doctor_checks[i].look(f, &rows[i]);
		status = MAX(status, states[rows[i].state].status);
	}
	return r < 0 ? r : status;
}

json_t *cmd_doctor_rows(const struct settings *s)
{
	static const char *const names[DOCTOR_STATE_MAX_] = {
	    [DOCTOR_OK] = "ok",
	    [DOCTOR_NOTE] = "note",
	    [DOCTOR_WEAKER] = "weak",
	    [DOCTOR_MISSING] = "missing",
	};
	static struct doctor_facts facts;
	static struct doctor_row rows[ROWS_MAX];
	json_t *list = json_array();
	struct err ignored = ERR_INIT;

	facts = (struct doctor_facts){.settings = s};
	if (look(&facts, rows, &ignored) < 0)
		return list;
	for (size_t i = 0; i < doctor_n_checks; i++)
		if (doctor_concerns(&facts, &doctor_checks[i]) && rows[i].value[0])
			(void)json_array_append_new(
			    list,
			    json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", doctor_checks[i].id,
				      "state", names[rows[i].state], "title", doctor_checks[i].what,
				      "text", rows[i].value, "mend", rows[i].mend));
	return list;
}

int cmd_doctor(int argc, char **argv)
{
	static struct doctor_facts facts;
	static struct doctor_row rows[ROWS_MAX];
	_cleanup_(settings_done) struct settings settings = {0};
	struct err e = ERR_INIT;
	bool json = false;

	if (read_settings(&settings, true, &argc, argv, &e) < 0)
		return cmd_fail(VERB, &e);
	for (int i = 1; i < argc; i++) {
		if (!streq(argv[i], "--json"))
			return cmd_unknown(VERB, argv[i], &e) < 0 ? cmd_fail(VERB, &e) : 0;
		json = true;
	}
	facts.settings = &settings;
	const int status = look(&facts, rows, &e);
	if (status < 0)
		return cmd_fail(VERB, &e);
	if (!json)
		print_text(&facts, rows, status);
	else if (print_json(&facts, rows, status) < 0)
		return EXIT_FAILURE;
	return status;
}
