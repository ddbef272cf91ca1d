/* SPDX-License-Identifier: Apache-2.0 */
/* Orders to the process that makes images, which does one thing at a time, also for others: a job waits until it is free, and then for its
 * end. */
#include "build/download.h"
#include "build/file_build.h"

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

static void next_look(struct builds *b);

/* A sandbox that writes its layer; the order may end meanwhile. */
struct build_layer {
	struct builds *builds;
	struct build_order *order; /* borrowed; NULL = it has ended */
};

static void free_order(struct build_order *o)
{
	if (o->layer)
		o->layer->order = NULL;
	(void)sandbox_unref(o->sandbox);
	free(o->note);
	free(o);
}

static void end(struct builds *b, struct build_order *o, const struct err *e)
{
	list_remove(&o->node);
	if (e)
		LOG_WARNING("image_order", LOG_S("image", o->image), LOG_S("error", e->text));
	if (o->fn)
		o->fn(e, o->user);
	free_order(o);
	next_look(b);
}

static struct build_order *first(const struct builds *b)
{
	return list_first(&b->orders, struct build_order, node);
}

/* The builder tells by itself why it has ended; the sandbox only that nobody reads. */
static void on_layer(uint64_t files UNUSED, uint64_t bytes UNUSED, uint32_t skipped UNUSED,
		     const struct err *e, void *user)
{
	struct build_layer *l = user;
	struct build_order *o = l->order;

	if (o) {
		const struct build_images *i = &l->builds->config.images;
		struct err ignored = ERR_INIT;

		o->layer = NULL;
		if (e && e->code != ERR_CANCELLED && o->begun)
			json_decref(i->cancel(i->user, &ignored));
	}
	free(l);
}

static int write_layer(struct builds *b, struct build_order *o, int to, struct err *e)
{
	struct build_layer *l = calloc(1, sizeof(*l));

	if (!l)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a layer");
	*l = (struct build_layer){.builds = b, .order = o};
	o->layer = l;
	const int r = sandbox_write_layer(o->sandbox, to, on_layer, l, e);

	if (r < 0) {
		o->layer = NULL;
		free(l);
	}
	return r;
}

static json_t *commit(struct builds *b, struct build_order *o, struct err *e)
{
	const struct build_images *i = &b->config.images;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0) {
		(void)err_set(e, ERR_SYSTEM, errno, "a pipe");
		return NULL;
	}
	_cleanup_fd_ int from = ends[0];
	_cleanup_fd_ int to = ends[1];
	json_t *build = i->commit(o->image, sandbox_image(o->sandbox), sandbox_age_ns(o->sandbox),
				  from, o->note, i->user, e);
	if (!build)
		return NULL;
	if (write_layer(b, o, to, e) < 0) {
		struct err ignored = ERR_INIT;

		json_decref(build);
		json_decref(i->cancel(i->user, &ignored));
		return NULL;
	}
	return build;
}

/* The builds may have ended meanwhile. */
struct build_look {
	struct builds *builds;
};

static void begin(struct builds *b, struct build_order *o);

static void on_known(void *user)
{
	struct build_look *l = user;
	struct builds *b = l->builds;
	struct build_order *o = b ? first(b) : NULL;

	free(l);
	if (!b)
		return;
	b->look = NULL;
	if (!o || o->begun || o->what != BUILD_ORDER_COMMIT)
		return;
	o->looked = true;
	begin(b, o);
}

static void look_at_images(struct builds *b, struct build_order *o)
{
	const struct build_images *i = &b->config.images;
	struct build_look *l = calloc(1, sizeof(*l));
	struct err e = ERR_INIT;

	if (!l) {
		end(b, o, (err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "an image"), &e));
		return;
	}
	l->builds = b;
	b->look = l;
	i->look(on_known, l, i->user);
}

static void begin(struct builds *b, struct build_order *o)
{
	const struct build_images *i = &b->config.images;

	if (o->what == BUILD_ORDER_COMMIT && !o->looked) {
		if (!b->look)
			look_at_images(b, o);
		return;
	}
	struct err e = ERR_INIT;
	json_t *build = o->what == BUILD_ORDER_COMMIT ? commit(b, o, &e)
						      : i->change(o->image, o->note, i->user, &e);

	if (build)
		o->begun = true;
	else if (e.code != ERR_SESSION_BUSY)
		end(b, o, &e);
	else
		o->looked = false; /* images may change until it can begin */
	json_decref(build);
}

/* Has the job at the front ended? */
static void look(struct builds *b, struct build_order *o)
{
	const struct build_images *i = &b->config.images;
	json_t *build = i->build_of(i->user);
	const char *state = json_string_value(json_object_get(build, "state"));
	const char *name = json_string_value(json_object_get(build, "name"));
	const char *reason = json_string_value(json_object_get(build, "reason"));
	struct err e = ERR_INIT;

	if (!state || !name || !streq(name, o->image))
		end(b, o, (err_set(&e, ERR_INTERNAL, 0, "another image is being made"), &e));
	else if (streq(state, "done") && !o->layer) /* else its end comes in a moment */
		end(b, o, NULL);
	else if (streq(state, "failed") || streq(state, "cancelled"))
		end(b, o,
		    (err_set(&e, ERR_IMAGE_BUILD_FAILED, 0, "the image was not made: %s",
			     reason && *reason ? reason : state),
		     &e));
	json_decref(build);
}

static int on_look(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct builds *b = user;
	struct build_order *o = first(b);

	loop_work("timer", "orders of images");
	if (o && o->begun)
		look(b, o);
	else if (o)
		begin(b, o);
	next_look(b);
	return 0;
}

static void next_look(struct builds *b)
{
	if (list_is_empty(&b->orders)) {
		b->timer = sd_event_source_disable_unref(b->timer);
		return;
	}
	if (!b->timer && sd_event_add_time_relative(b->config.loop, &b->timer, CLOCK_MONOTONIC, 0,
						    0, on_look, b) < 0)
		return;
	(void)sd_event_source_set_time_relative(b->timer, LOOK_NS / NS_PER_US);
	(void)sd_event_source_set_enabled(b->timer, SD_EVENT_ONESHOT);
}

void build_order_do(struct builds *b, struct build_order *o)
{
	list_append(&b->orders, &o->node);
	next_look(b);
}

bool build_orders_wait(const struct builds *b)
{
	const struct build_images *i = &b->config.images;
	const struct build_order *o = first(b);

	list_for_each(l, &b->orders)
		if (list_entry(l, struct build_order, node)->what == BUILD_ORDER_COMMIT)
			return true;
	if (o && o->begun)
		return false;
	json_t *build = i->build_of(i->user);
	const bool wait = json_is_null(json_object_get(build, "ended_at"));

	json_decref(build);
	return wait;
}

void build_order_stop(struct builds *b, struct build_order *o)
{
	const struct build_images *i = &b->config.images;
	struct err ignored = ERR_INIT;

	if (!o)
		return;
	o->fn = NULL;
	if (o->begun)
		json_decref(i->cancel(i->user, &ignored));
	else
		end(b, o, NULL);
}

void build_order_drop(struct builds *b, struct build_order *o)
{
	struct build_order *gone = o && o->begun ? calloc(1, sizeof(*gone)) : NULL;

	if (gone) {
		gone->what = BUILD_ORDER_REMOVE;
		memcpy(gone->image, o->image, sizeof(gone->image));
	}
	build_order_stop(b, o);
	if (gone)
		build_order_do(b, gone);
}

void build_close_sandbox(struct sandbox *s)
{
	struct err ignored = ERR_INIT;

	if (s)
		(void)!sandbox_close(s, true, NULL, NULL, &ignored);
	(void)sandbox_unref(s);
}

int builds_new(const struct builds_config *config, struct builds **ret, struct err *e)
{
	struct builds *b = calloc(1, sizeof(*b));

	if (!b)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "builds");
	b->config = *config;
	list_init(&b->orders);
	list_init(&b->tasks);
	build_downloads_init(b);
	*ret = b;
	return 0;
}

struct builds *builds_free(struct builds *b)
{
	struct build_order *o;

	if (!b)
		return NULL;
	builds_end_tasks(b);
	file_build_done(b);
	build_downloads_done(b);
	b->timer = sd_event_source_disable_unref(b->timer);
	if (b->look)
		b->look->builds = NULL;
	while ((o = list_pop_first(&b->orders, struct build_order, node)))
		free_order(o);
	free(b);
	return NULL;
}
