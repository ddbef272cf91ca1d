/* SPDX-License-Identifier: Apache-2.0 */
/* A build: a sandbox with a root user, in which the steps are done one after the other, and whose changes become an image. */
#include "faces/e2b/template_build.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (64u << 10) /* bytes of a command */
#define READY_NS (600 * NS_PER_S)

void e2b_setup_done(struct e2b_setup *s)
{
	json_decref(s->env);
	free(s->start);
	free(s->ready);
	*s = (struct e2b_setup){0};
}

/* ---- the end ---- */

void building_free(struct building *w)
{
	workers_close(w->build->id, w->fd);
	json_decref(w->body);
	json_decref(w->steps);
	free(w->keys);
	caller_unref(w->who);
	(void)e2b_build_unref(w->build);
	free(w);
}

void building_stop(struct building *w)
{
	struct e2b_build *b = w->build;

	b->work = NULL;
	w->stopped = true;
	w->task = build_task_stop(w->task);
	build_order_drop(w->face->config.builds, w->order);
	w->order = NULL;
	w->download = build_download_drop(w->download);
	building_drop_point(w);
	list_remove(&w->node);
	building_leave_image(w);
	w->deadline = sd_event_source_disable_unref(w->deadline);
	if (w->sandbox && !w->lost)
		sandbox_release(w->sandbox, &w->hold);
	build_close_sandbox(w->sandbox);
	w->sandbox = NULL;
	if (b->archives && b->archives->sandbox) {
		struct sandbox *archives = sandbox_ref(b->archives->sandbox);

		e2b_sandbox_forget(b->archives);
		build_close_sandbox(archives);
	}
	if (!w->opening)
		building_free(w);
}

void e2b_build_stop(struct e2b_build *b)
{
	if (b->work)
		building_stop(b->work);
}

void building_fail(struct building *w, const struct err *e)
{
	struct e2b_build *b = w->build;

	b->state = BUILD_ERROR;
	b->finished_ms = now_wall_ns() / NS_PER_MS;
	(void)!text_copy(b->step, sizeof(b->step), w->step);
	(void)snprintf(b->reason, sizeof(b->reason), "%s", e->text);
	e2b_build_log(b, "error", w->step, e->text, strlen(e->text));
	LOG_INFO("e2b_build_failed", LOG_S("template", b->template ? b->template->id : ""),
		 LOG_S("step", b->step), LOG_S("error", e->text));
	building_stop(w);
}

void building_fail_with(struct building *w, enum err_code code, const char *text)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, code, 0, "%s", text);
	building_fail(w, &e);
}

/* From inside the end of the sandbox: nothing of it may be called any more, so the loop's next turn tells. */
static void on_sandbox_ended(struct sandbox_hold *h)
{
	struct building *w = CONTAINER_OF(h, struct building, hold);

	w->lost = true;
	(void)sd_event_source_set_time_relative(w->deadline, 0);
}

static int on_deadline(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct building *w = user;

	loop_work("timer", "build of E2B");
	if (w->lost)
		building_fail_with(w, ERR_SANDBOX_LOST, "the sandbox of the build has ended");
	else
		building_fail_with(w, ERR_TIMEOUT, "the build took longer than an hour");
	return 0;
}

/* ---- commands ---- */

static void on_line(const char *text, size_t len, bool is_error UNUSED, void *user)
{
	const struct building *w = user;

	e2b_build_log(w->build, "info", w->step, text, len);
}

static void on_task(const struct err *e, void *user)
{
	struct building *w = user;

	w->task = NULL;
	if (w->lost)
		return; /* on_deadline() tells */
	if (e && w->otherwise)
		w->otherwise(w);
	else if (e)
		building_fail(w, e);
	else
		w->then(w);
}

void building_run(struct building *w, const struct building_command *c,
		  void (*then)(struct building *w))
{
	const struct build_task_spec spec = {.sandbox = w->sandbox,
					     .env = w->build->setup.env,
					     .root = c->root,
					     .cwd = c->cwd,
					     .argv = c->argv,
					     .timeout_ns = c->timeout_ns,
					     .credential = w->who,
					     .line = c->quiet ? NULL : on_line,
					     .end = on_task,
					     .user = w};
	struct err e = ERR_INIT;

	w->then = then;
	w->otherwise = c->otherwise;
	if (build_task_start(w->face->config.builds, &spec, &w->task, &e) < 0)
		building_fail(w, &e);
}

void building_run_script(struct building *w, const char *script, const char *const args[4],
			 void (*then)(struct building *w))
{
	const char *argv[] = {"/bin/sh", "-ec",   script,  "sh", args[0],
			      args[1],   args[2], args[3], NULL};
	const struct building_command c = {.root = true, .cwd = "/", .argv = argv};

	building_run(w, &c, then);
}

/* ---- the image ---- */

static void on_image(const struct err *e, void *user)
{
	struct building *w = user;
	struct e2b_build *b = w->build;

	w->order = NULL;
	if (e) {
		building_fail(w, e);
		return;
	}
	(void)e2b_build_ref(b);
	e2b_build_log(b, "info", w->step, "the template is ready", strlen("the template is ready"));
	building_stop(w);
	if (b->template)
		e2b_build_done(b);
	(void)e2b_build_unref(b);
}

static void commit(struct building *w)
{
	struct build_order *j = calloc(1, sizeof(*j));

	if (j)
		j->note = e2b_build_note(w->build);
	if (!j || !j->note) {
		free(j);
		building_fail_with(w, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	j->what = BUILD_ORDER_COMMIT;
	memcpy(j->image, w->build->image, sizeof(j->image));
	j->sandbox = sandbox_ref(w->sandbox);
	j->fn = on_image;
	j->user = w;
	w->order = j;
	build_order_do(w->face->config.builds, j);
}

static void forget(struct process *p, void *user UNUSED)
{
	process_forget(p);
}

/* The workspace is no part of an image, so its files go into one. */
static void pack_home(struct building *w)
{
	static const char script[] =
	    "cd " E2B_HOME "; rm -rf " BUILD_ARCHIVE " " BUILD_POINT_TOP "; mkdir -p /opt/caisson\n"
	    "if [ -n \"$(ls -A)\" ]; then tar -cf " BUILD_HOME_TAR " .; else rm -f " BUILD_HOME_TAR
	    "; fi";
	const char *const args[4] = {NULL};

	sandbox_each_process(w->sandbox, forget, NULL);
	building_run_script(w, script, args, commit);
}

static void check_ready(struct building *w)
{
	static const char loop[] = BUILD_READY_LOOP("0.2");
	const struct e2b_setup *s = &w->build->setup;
	const char *argv[] = {"/bin/bash", "-l", "-c", loop, "bash", s->ready, NULL};
	const struct building_command c = {.root = s->root,
					   .cwd = s->workdir,
					   .argv = argv,
					   .timeout_ns = READY_NS,
					   .quiet = true};

	if (s->ready)
		building_run(w, &c, pack_home);
	else
		pack_home(w);
}

int building_start_command(struct sandbox *sandbox, const struct e2b_setup *s,
			   const struct caller *who, struct err *e)
{
	const char *argv[] = {"/bin/bash", "-l", "-c", s->start, NULL};
	const struct build_task_spec spec = {.sandbox = sandbox,
					     .env = s->env,
					     .root = s->root,
					     .cwd = s->workdir,
					     .argv = argv,
					     .name = "start",
					     .credential = who};

	return build_task_leave(&spec, e);
}

/* The start command is tried, not kept: it begins anew in each sandbox. */
void building_finalize(struct building *w)
{
	const struct e2b_setup *s = &w->build->setup;
	struct err e = ERR_INIT;

	if (s->start && building_start_command(w->sandbox, s, w->who, &e) < 0)
		building_fail(w, &e);
	else
		check_ready(w);
}

/* ---- the beginning ---- */

static void restore_home(struct building *w)
{
	static const char script[] = BUILD_UNPACK_HOME;
	const char *const args[4] = {NULL};

	building_run_script(w, script, args, building_next_step);
}

static void on_opened(struct sandbox *made, const struct err *e, void *user)
{
	struct building *w = user;

	w->opening = false;
	if (w->stopped) {
		build_close_sandbox(made ? sandbox_ref(made) : NULL);
		building_free(w);
		return;
	}
	if (e && e->code == ERR_IMAGE_MISSING && (w->at_point ? !w->anew : building_lost_base(w))) {
		if (w->at_point)
			building_begin_without(w); /* the operator has removed it */
		building_find_base(w);
		return;
	}
	if (e) {
		building_fail(w, e);
		return;
	}
	w->sandbox = sandbox_ref(made);
	w->hold.ended = on_sandbox_ended;
	w->hold.rests = true;
	list_init(&w->hold.node);
	sandbox_hold(made, &w->hold);
	w->began_ns = now_ns();
	if (w->at_point)
		building_restore_point(w, building_next_step);
	else
		restore_home(w);
}

static int open_sandbox(struct building *w, struct err *e)
{
	struct sandbox_options options = {0};
	struct sandbox_choice network = {0};
	json_t *o = json_object();
	char id[E2B_ID_SIZE];

	(void)json_object_set_new(o, "root", json_true());
	if (w->image[0])
		(void)json_object_set_new(o, "image", json_string(w->image));
	if (w->build->memory_mb)
		(void)json_object_set_new(o, "memory_mb", json_integer(w->build->memory_mb));
	const int r = sandbox_options_read(o, false, &options, e);
	json_decref(o);
	if (r < 0)
		return r;
	options.own_image = w->own_image;
	e2b_make_id(w->face, id);
	w->opening = true;
	manager_open_new(w->face->config.manager, w->who->owner, id, &network, &options, on_opened,
			 w);
	sandbox_options_done(&options);
	return 0;
}

void building_open(struct building *w)
{
	struct err e = ERR_INIT;

	if (open_sandbox(w, &e) < 0)
		building_fail(w, &e);
}

static int read_command(const json_t *body, const char *member, char **ret, struct err *e)
{
	const json_t *v = json_object_get(body, member);
	const char *text = json_string_value(v);

	if (e2b_is_empty(v))
		return 0;
	if (!text || strlen(text) != json_string_length(v) || strlen(text) > TEXT_MAX)
		return e2b_refuse_member(e, member, "a command of at most 64 KiB");
	free(*ret); /* of a request that was refused for something else */
	*ret = strdup(text);
	return *ret ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a template");
}

static int check_body(const json_t *body, struct err *e)
{
	const json_t *steps = json_object_get(body, "steps"), *step;
	size_t i;

	if (!e2b_is_empty(json_object_get(body, "fromImageRegistry")))
		return e2b_refuse_member(e, "fromImageRegistry", "the operator downloads images");
	if (json_is_string(json_object_get(body, "fromImage")) &&
	    json_is_string(json_object_get(body, "fromTemplate")))
		return e2b_refuse_member(e, "fromImage", "not beside fromTemplate");
	if (!e2b_is_empty(steps) && !json_is_array(steps))
		return e2b_refuse_member(e, "steps", "an array");
	if (json_array_size(steps) > STEPS_MAX)
		return e2b_refuse_member(e, "steps", "at most 200");
	json_array_foreach(steps, i, step)
		if (!json_is_object(step) || !json_is_string(json_object_get(step, "type")))
			return e2b_refuse_member(e, "steps", "objects with type and args");
	return 0;
}

int e2b_build_begin(struct e2b_build *b, const struct caller *who, json_t *body, struct err *e)
{
	struct building *w = calloc(1, sizeof(*w));
	struct e2b *f = b->template->face;
	json_t *steps = json_object_get(body, "steps");

	if (!w)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a template");
	int r = check_body(body, e);

	r = r < 0 ? r : read_command(body, "startCmd", &b->setup.start, e);
	r = r < 0 ? r : read_command(body, "readyCmd", &b->setup.ready, e);
	if (r < 0) {
		free(w);
		return r;
	}
	*w = (struct building){.build = e2b_build_ref(b),
			       .face = f,
			       .who = caller_ref(who),
			       .body = json_incref(body),
			       .steps = json_is_array(steps) ? json_incref(steps) : json_array(),
			       .fd = -1};
	(void)snprintf(w->step, sizeof(w->step), "base");
	list_init(&w->hold.node);
	list_append(&f->buildings, &w->node);
	b->work = w;
	b->state = BUILD_GOES_ON;
	(void)sd_event_add_time_relative(f->config.loop, &w->deadline, CLOCK_MONOTONIC,
					 BUILD_SECONDS * NS_PER_S / NS_PER_US, 0, on_deadline, w);
	building_find_base(w);
	return 0;
}
