/* SPDX-License-Identifier: Apache-2.0 */
/* Orders to the process that makes images, which does one thing at a time, also for others: a job waits until it is free, and then for its
 * end. */
#include "faces/e2b/templates.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/layer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS (100 * NS_PER_MS)

static void next_look(struct e2b *f);

static void end(struct e2b *f, struct e2b_image_job *j, const struct err *e)
{
	list_remove(&j->node);
	if (e)
		LOG_WARNING("e2b_image", LOG_S("image", j->image), LOG_S("error", e->text));
	if (j->fn)
		j->fn(e, j->user);
	(void)sandbox_unref(j->sandbox);
	free(j->note);
	free(j);
	next_look(f);
}

static struct e2b_image_job *first(const struct e2b *f)
{
	return list_first(&f->image_jobs, struct e2b_image_job, node);
}

/* The builder tells by itself why it has ended; the sandbox only that nobody reads. */
static void on_layer(uint64_t files UNUSED, uint64_t bytes UNUSED, uint32_t skipped UNUSED,
		     const struct err *e, void *user)
{
	struct e2b *f = user;
	const struct api_images *i = &f->config.images;
	struct err ignored = ERR_INIT;

	if (e && e->code != ERR_CANCELLED && first(f) && first(f)->begun)
		json_decref(i->cancel(i->user, &ignored));
}

static json_t *commit(struct e2b *f, struct e2b_image_job *j, struct err *e)
{
	const struct api_images *i = &f->config.images;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0) {
		(void)err_set(e, ERR_SYSTEM, errno, "a pipe");
		return NULL;
	}
	_cleanup_fd_ int from = ends[0];
	_cleanup_fd_ int to = ends[1];
	json_t *build = i->commit(j->image, sandbox_image(j->sandbox), sandbox_age_ns(j->sandbox),
				  from, j->note, i->user, e);
	if (!build)
		return NULL;
	if (sandbox_write_layer(j->sandbox, to, on_layer, f, e) < 0) {
		struct err ignored = ERR_INIT;

		json_decref(build);
		json_decref(i->cancel(i->user, &ignored));
		return NULL;
	}
	return build;
}

/* The face may have ended meanwhile. */
struct e2b_images_look {
	struct e2b *face;
};

static void begin(struct e2b *f, struct e2b_image_job *j);

static void on_known(void *user)
{
	struct e2b_images_look *l = user;
	struct e2b *f = l->face;
	struct e2b_image_job *j = f ? first(f) : NULL;

	free(l);
	if (!f)
		return;
	f->images_look = NULL;
	if (!j || j->begun || j->what != E2B_IMAGE_COMMIT)
		return;
	j->looked = true;
	begin(f, j);
}

static void look_at_images(struct e2b *f, struct e2b_image_job *j)
{
	const struct api_images *i = &f->config.images;
	struct e2b_images_look *l = calloc(1, sizeof(*l));
	struct err e = ERR_INIT;

	if (!l) {
		end(f, j, (err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "an image"), &e));
		return;
	}
	l->face = f;
	f->images_look = l;
	i->look(on_known, l, i->user);
}

static void begin(struct e2b *f, struct e2b_image_job *j)
{
	const struct api_images *i = &f->config.images;

	if (j->what == E2B_IMAGE_COMMIT && !j->looked) {
		if (!f->images_look)
			look_at_images(f, j);
		return;
	}
	struct err e = ERR_INIT;
	json_t *build = j->what == E2B_IMAGE_COMMIT ? commit(f, j, &e)
						    : i->change(j->image, j->note, i->user, &e);

	if (build)
		j->begun = true;
	else if (e.code != ERR_SESSION_BUSY)
		end(f, j, &e);
	else
		j->looked = false; /* images may change until it can begin */
	json_decref(build);
}

/* Has the job at the front ended? */
static void look(struct e2b *f, struct e2b_image_job *j)
{
	const struct api_images *i = &f->config.images;
	json_t *build = i->build_of(i->user);
	const char *state = json_string_value(json_object_get(build, "state"));
	const char *name = json_string_value(json_object_get(build, "name"));
	const char *reason = json_string_value(json_object_get(build, "reason"));
	struct err e = ERR_INIT;

	if (!state || !name || !streq(name, j->image))
		end(f, j, (err_set(&e, ERR_INTERNAL, 0, "another image is being made"), &e));
	else if (streq(state, "done"))
		end(f, j, NULL);
	else if (streq(state, "failed") || streq(state, "cancelled"))
		end(f, j,
		    (err_set(&e, ERR_IMAGE_BUILD_FAILED, 0, "the image was not made: %s",
			     reason && *reason ? reason : state),
		     &e));
	json_decref(build);
}

static int on_look(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct e2b *f = user;
	struct e2b_image_job *j = first(f);

	loop_work("timer", "images of E2B");
	if (j && j->begun)
		look(f, j);
	else if (j)
		begin(f, j);
	next_look(f);
	return 0;
}

static void next_look(struct e2b *f)
{
	if (list_is_empty(&f->image_jobs)) {
		f->image_timer = sd_event_source_disable_unref(f->image_timer);
		return;
	}
	if (!f->image_timer && sd_event_add_time_relative(f->config.loop, &f->image_timer,
							  CLOCK_MONOTONIC, 0, 0, on_look, f) < 0)
		return;
	(void)sd_event_source_set_time_relative(f->image_timer, LOOK_NS / NS_PER_US);
	(void)sd_event_source_set_enabled(f->image_timer, SD_EVENT_ONESHOT);
}

void e2b_image_do(struct e2b *f, struct e2b_image_job *j)
{
	list_append(&f->image_jobs, &j->node);
	next_look(f);
}

void e2b_images_done(struct e2b *f)
{
	struct e2b_image_job *j;

	f->image_timer = sd_event_source_disable_unref(f->image_timer);
	if (f->images_look)
		f->images_look->face = NULL;
	f->images_look = NULL;
	while ((j = list_pop_first(&f->image_jobs, struct e2b_image_job, node))) {
		(void)sandbox_unref(j->sandbox);
		free(j->note);
		free(j);
	}
}
