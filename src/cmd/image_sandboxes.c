/* SPDX-License-Identifier: Apache-2.0 */
/* caisson image build NAME --dockerfile DIR, where the steps are done in sandboxes: this process starts an engine as `caisson run` does,
 * and builds as a server does (src/build). What a plain file of the operator says is read before privileges are given up. */
#include "app/app.h"
#include "app/limits.h"
#include "build/builds.h"
#include "cmd/image_verb.h"
#include "cmd/server_facts.h"

#include "base/loop.h"
#include "base/text.h"
#include "image/pulls.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MOST   4000000 /* files of a sandbox's disk: those of a large image several times */
#define PIDS_MOST    8192    /* as the other way has them */
#define MEMORY_PARTS 4       /* three of them are a build's */

struct building {
	struct app app;
	struct server_facts facts;
	struct builds *builds;
	struct progress_line *line;
	const char *name;
	char file[64];     /* the Dockerfile's name, with a colon */
	char step[64];     /* that goes on; "" = none yet */
	bool disk_full;    /* a program in it has said so */
	uint64_t disk_mib; /* of a sandbox */
	struct err err;    /* why there is no image; code is ERR_NONE if there is one */
	bool ended;
};

/* ---- while it goes on ---- */

/* "[3/12] RUN make" begins a step. */
static const char *step_of(const char *text, char ret[256])
{
	const char *p = text + 1;
	const size_t n = *text == '[' ? strspn(p, "0123456789/") : 0;

	if (n < 3 || p[n] != ']' || !memchr(p, '/', n))
		return streq(text, BUILD_MAKING) ? text : NULL;
	(void)snprintf(ret, 256, "%.*s%s", (int)n, p, p + n + 1);
	return ret;
}

static void on_line(const char *line, void *user)
{
	struct building *b = user;
	_cleanup_free_ char *text = strdup(line);
	char name[256];

	if (!text)
		return;
	progress_line_clean(text);
	const char *step = step_of(text, name);

	if (step) {
		(void)snprintf(b->step, sizeof(b->step), "%.*s",
			       (int)text_utf8_cut(step, strlen(step), sizeof(b->step) - 1), step);
		b->disk_full = false;
		progress_line_step(b->line, b->step);
		return;
	}
	b->disk_full |= strstr(text, "No space left on device") != NULL;
	/* "Dockerfile:3: ..." is why it failed, and comes again as the error. */
	if (!text_starts_with(text, b->file) || !isdigit((unsigned char)text[strlen(b->file)]))
		progress_line_output(b->line, text);
}

/* What the person can do about it. */
static void set_error(struct building *b, const struct err *e)
{
	if (e->code == ERR_TIMEOUT)
		(void)err_set(&b->err, e->code, 0, "%s%s%s (--timeout)", b->step,
			      b->step[0] ? ": " : "", e->text);
	else if (e->code == ERR_IMAGE_BUILD_FAILED && b->disk_full)
		(void)err_set(&b->err, e->code, 0,
			      "%s; the disk was full, of which a build has %" PRIu64
			      " MiB (--max-size)",
			      e->text, b->disk_mib);
	else
		b->err = *e;
	progress_line_clean(b->err.text); /* it has words of the Dockerfile and of its programs */
}

static void on_end(const struct err *e, void *user)
{
	struct building *b = user;

	b->ended = true;
	if (e)
		set_error(b, e);
	(void)sd_event_exit(b->app.loop, 0);
}

static int on_signal(sd_event_source *source UNUSED, const struct signalfd_siginfo *si UNUSED,
		     void *user)
{
	struct building *b = user;
	struct err ignored = ERR_INIT;
	const bool made = streq(b->step, BUILD_MAKING); /* the last moment may have been before */

	if (!b->ended && b->builds)
		json_decref(builds_cancel(b->builds, &ignored));
	b->err = ERR_INIT;
	(void)err_set(&b->err, ERR_CANCELLED, ECANCELED,
		      made ? "stopped while the image was being made; 'caisson image list' tells "
			     "whether it is there"
			   : "stopped; nothing was changed");
	return sd_event_exit(b->app.loop, 0);
}

static void on_engine_lost(const struct err *e, void *user)
{
	struct building *b = user;

	if (b->err.code == ERR_NONE)
		b->err = *e;
	(void)sd_event_exit(b->app.loop, 0);
}

/* ---- before it ---- */

/* The image that a Dockerfile calls BASE: what the store has, or else what its registry has. */
static int bring_image(const struct image_store *s, const struct image_dockerfile_args *a,
		       const char *base, char ret[ENGINE_NAME_MAX], struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	char source[PATH_MAX], name[IMAGE_PULL_NAME];
	json_t *rows = server_facts_images(s);
	const bool there = build_find_image(rows, base, ret);
	struct image_ref ref;
	struct err ignored = ERR_INIT;

	json_decref(rows);
	if (there)
		return 0;
	(void)snprintf(source, sizeof(source), REF_REGISTRY_PREFIX "%s", base);
	int r = image_ref_parse(source, &ref, e);

	if (r < 0)
		return r;
	image_base_name(&ref, name);
	if (image_manifest_load(s, name, &m, &ignored) != -ENOENT)
		return err_set(e, ERR_ALREADY_EXISTS, 0,
			       "there is an image '%s' that is not %s; remove it with: caisson "
			       "image rm %s",
			       name, base, name);
	(void)fprintf(stderr, "Downloading %s, which the build begins with, as image '%s'\n", base,
		      name);
	r = a->pull(a->pull_user, name, source, e);
	return r < 0 ? r : text_copy(ret, ENGINE_NAME_MAX, name);
}

static int bring_images(const struct image_store *s, const struct image_dockerfile_args *a,
			const struct dockerfile_plan *p, char first[ENGINE_NAME_MAX], struct err *e)
{
	char name[ENGINE_NAME_MAX] = "";
	int r = 0;

	for (size_t i = 0; r >= 0 && i < p->n; i++)
		r = bring_image(s, a, p->runs[i].base, i == 0 ? first : name, e);
	return r;
}

static int set_text(char **text, const char *value, struct err *e)
{
	char *copy = strdup(value);

	if (!copy)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "settings");
	free(*text);
	*text = copy;
	return 0;
}

/* Settings are meant for the sandboxes of a server. What the operator has not set is here as a build needs it. */
static int adapt_settings(struct settings *s, const struct image_dockerfile_options *o, bool sized,
			  struct err *e)
{
	const uint64_t memory = limits_machine_bytes(s) / MEMORY_PARTS * (MEMORY_PARTS - 1);
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	const bool chosen = settings_is_explicit(s, SETTING_ID_network);

	s->pool = 0;
	s->warm = false;
	s->root = s->image_builds = true;
	if (!settings_is_explicit(s, SETTING_ID_memory_limit))
		s->memory_limit = MAX(s->memory_limit, memory);
	if (!settings_is_explicit(s, SETTING_ID_tmp_limit))
		s->tmp_limit = MAX(s->tmp_limit, memory / 2);
	if (!settings_is_explicit(s, SETTING_ID_cpu_limit) && cores > 0)
		s->cpu_limit = MAX(s->cpu_limit, (uint64_t)cores * 1000);
	if (!settings_is_explicit(s, SETTING_ID_pids_limit))
		s->pids_limit = PIDS_MOST;
	if (!settings_is_explicit(s, SETTING_ID_workspace_files))
		s->workspace_files = FILES_MOST;
	/* Named, it must hold; as a default it is what the workspaces of this machine can hold. */
	if (sized)
		s->source[SETTING_ID_workspace_limit] = SETTING_FROM_FLAG;
	if (sized || !settings_is_explicit(s, SETTING_ID_workspace_limit))
		s->workspace_limit = o->max_bytes;
	if (!chosen || o->no_network)
		s->network_open = true;
	return chosen && !o->no_network ? 0
					: set_text(&s->network, o->no_network ? "none" : "open", e);
}

static int check(const struct image_dockerfile_options *o, struct err *e)
{
	if (o->allow_inside)
		return err_set(e, ERR_USAGE, 0,
			       "--allow-inside is for builds with buildah: the network policy of "
			       "sandboxes never reaches this machine and its cloud");
	if (geteuid() == 0 || o->check_only)
		return 0;
	return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
		       "a build in sandboxes needs a root user inside them, which only root can "
		       "give: start this command as root, or install buildah, with which plain "
		       "users build (apt-get install buildah)");
}

/* ---- the build ---- */

static int begin(struct building *b, struct image_dockerfile_plan *plan,
		 const struct image_dockerfile_options *o, struct err *e)
{
	const struct file_build_spec spec = {.plan = plan,
					     .replaces = true,
					     .timeout_s = o->timeout_s,
					     .image = b->name,
					     .line = on_line,
					     .end = on_end,
					     .user = b};

	server_facts_open(&b->facts, &b->app);
	int r = app_begin(&b->app, e);

	if (r < 0 && e->code == ERR_LIMIT_NOT_ENFORCEABLE) {
		const struct err why = *e; /* it names settings of servers */

		*e = ERR_INIT;
		r = err_set(
		    e, why.code, 0,
		    "a build in sandboxes needs control groups for memory and processes, and "
		    "Linux 5.19 for a root user inside; without them buildah builds (apt-get "
		    "install buildah)");
	}
	r = r < 0 ? r : app_open(&b->app, e);
	r = r < 0 ? r : server_facts_builds(&b->facts, &b->builds, e);
	r = r < 0 ? r : app_on_stop(&b->app, on_signal, b, e);
	if (r < 0)
		return r;
	b->disk_mib = b->app.settings.workspace_limit >> 20;
	manager_on_engine_lost(b->app.manager, on_engine_lost, b);
	r = manager_start(b->app.manager, e);
	return r < 0 ? r : file_build_start(b->builds, &spec, e);
}

/* The engine is at its beginning when the image is in the store, so all goes before the person is told. */
static void done(struct building *b)
{
	b->ended = true;
	b->builds = builds_free(b->builds);
	app_done(&b->app);
	server_facts_done(&b->facts);
}

static int build(struct image_dockerfile_plan *plan, const char *name, const char *base,
		 struct image_dockerfile_args *a, struct progress_line *line, struct err *e)
{
	struct building b = {.line = line,
			     .name = name,
			     .facts = {.store = {.dir = -1}},
			     .app = {.ca_fd = -1, .cache_fd = -1, .wheel_fd = -1}};
	const char *file = a->o.file ? a->o.file : "Dockerfile", *slash = strrchr(file, '/');
	(void)signal(SIGPIPE,
		     SIG_IGN); /* sandboxes and clients of the proxy may go at any moment */
	int r = adapt_settings(a->settings, &a->o, a->sized, e);

	r = r < 0 ? r : app_take_settings(&b.app, "image", APP_RUN, a->settings, e);
	if (r >= 0 && !streq(b.app.settings.engine, "native"))
		r = err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
			    "a build in sandboxes needs the native engine, and here it is '%s'; "
			    "--builder buildah builds without",
			    b.app.settings.engine);
	if (r >= 0) {
		b.app.own_image = name;
		(void)snprintf(b.file, sizeof(b.file), "%.60s:", slash ? slash + 1 : file);
		(void)!text_copy(b.app.image, sizeof(b.app.image), base);
		r = begin(&b, plan, &a->o, e);
	}
	if (r >= 0 && !b.ended && loop_run(b.app.loop) < 0)
		r = err_set(e, ERR_SYSTEM, EIO, "the event loop");
	if (r >= 0 && b.err.code != ERR_NONE) {
		*e = b.err;
		r = -EIO;
	}
	done(&b);
	return r;
}

static int prepare(const struct image_store *s, const char *name, struct image_dockerfile_args *a,
		   struct image_dockerfile_plan *plan, char first[ENGINE_NAME_MAX],
		   struct progress_line *line, struct image_dockerfile_facts *facts, struct err *e)
{
	_cleanup_fd_ int cancel = image_watch_signals();
	const struct image_watch w = image_watch_for(line, cancel);
	int r = image_plan_dockerfile(name, &a->o, &w, plan, facts, e);

	progress_line_end(line, r >= 0);
	return r < 0 || a->o.check_only ? r : bring_images(s, a, &plan->plan, first, e);
}

int image_dockerfile_in_sandboxes(const struct image_store *s, const char *name,
				  struct image_dockerfile_args *a,
				  struct image_dockerfile_facts *facts, struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	struct image_dockerfile_plan plan = {.context = -1};
	char first[ENGINE_NAME_MAX];
	struct progress_line line;
	sigset_t before;
	int r = check(&a->o, e);

	if (r < 0)
		return r;
	(void)sigprocmask(SIG_SETMASK, NULL, &before);
	r = prepare(s, name, a, &plan, first, &line, facts, e);
	/* The processes that are started now are told to end by signals. One that came meanwhile ends this process here. */
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (r >= 0 && !a->o.check_only) {
		r = build(&plan, name, first, a, &line, e);
		progress_line_end(&line, r >= 0);
	}
	image_dockerfile_plan_done(&plan);
	if (r < 0 || a->o.check_only)
		return r;
	r = image_manifest_load(s, name, &m, e);
	if (r >= 0)
		image_print_ready(&m, line.began);
	return r;
}
