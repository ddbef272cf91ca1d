/* SPDX-License-Identifier: Apache-2.0 */
/* Cache points of a build. A build begins with the latest point that earlier builds of its owner left for its steps, and makes new ones.
 *
 * A point is an image. To make one costs about as much as a short step, so there is one only after steps that took POINT_NS together. Then
 * the build changes to a new sandbox that begins with the point. This way the next image shares the files instead of copying them, and
 * later steps see the same files whether the point is new or a week old. */
#include "faces/e2b/template_build.h"

#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define POINT_NS    (5 * NS_PER_S)
#define POINT_IMAGE SANDBOX_OWN_IMAGE "cache."

/* ---- the beginning ---- */

const char *building_identity(const struct building *w)
{
	const struct build_images *images = &w->face->config.builds->config.images;
	const char *name = w->image[0] ? w->image : manager_image(w->face->config.manager);
	const json_t *row;
	size_t i;

	json_array_foreach(images->shared(images->user), i, row) {
		const char *own = json_string_value(json_object_get(row, "name"));
		const char *identity = json_string_value(json_object_get(row, "identity"));

		if (own && identity && streq(own, name))
			return identity;
	}
	return "";
}

static int copy_setup(const struct e2b_setup *from, struct e2b_setup *to)
{
	json_t *env = json_deep_copy(from->env);

	if (!env)
		return -ENOMEM;
	json_decref(to->env);
	to->env = env;
	to->root = from->root;
	memcpy(to->workdir, from->workdir, sizeof(to->workdir));
	return 0;
}

/* The point after the most steps. NULL: there is none. */
static struct e2b_point *best(const struct building *w, size_t *ret_steps)
{
	const size_t most = e2b_unforced(w->steps);
	struct e2b_point *found = NULL;

	*ret_steps = 0;
	list_for_each(l, &w->face->points) { /* of all users: once */
		struct e2b_point *p = list_entry(l, struct e2b_point, node);

		if (!streq(p->owner, w->who->owner))
			continue;
		for (size_t i = *ret_steps + 1; i <= most; i++)
			if (streq(p->key, w->keys[i])) {
				found = p;
				*ret_steps = i;
			}
	}
	return found;
}

static void begin_with(struct building *w, struct e2b_point *p, size_t steps)
{
	if (copy_setup(&p->setup, &w->build->setup) < 0)
		return;
	e2b_point_touch(w->face, p);
	building_leave_image(w);
	memcpy(w->image, p->image, sizeof(w->image));
	w->own_image = w->at_point = w->cached = true;
	w->identity[0] = '\0';
	w->below = p->files;
	w->kept = w->at = steps;
}

void building_look_for_point(struct building *w, const char *base)
{
	struct e2b_point *p;
	size_t steps;

	if (w->face->config.template_cache > 0 && base[0])
		w->keys = e2b_chain(base, w->steps);
	p = w->keys && !w->anew && !json_is_true(json_object_get(w->body, "force"))
		? best(w, &steps)
		: NULL;
	if (p)
		begin_with(w, p, steps);
}

void building_begin_without(struct building *w)
{
	struct e2b_setup *s = &w->build->setup;
	struct e2b_point *p = e2b_point_of(w->face, w->who->owner, w->keys[w->kept]);

	const bool is_gone = p && streq(p->image, w->image);

	building_leave_image(w);
	if (is_gone)
		e2b_point_forget(w->face, p);
	free(w->keys);
	w->keys = NULL;
	w->anew = true;
	w->at_point = w->cached = false;
	w->below = w->kept = w->at = 0;
	(void)json_object_clear(s->env);
	s->root = false;
	(void)snprintf(s->workdir, sizeof(s->workdir), "%s", E2B_HOME);
}

/* Unpacks the folders that are no part of an image, and sets the modes that an image does not keep. */
void building_restore_point(struct building *w, void (*then)(struct building *w))
{
	static const char script[] = "d=" BUILD_POINT_TOP "; tar -xpf $d/files.tar -C /\n"
				     "xargs -0 -n 200 sh -c 'while [ $# -gt 1 ]; do [ \"$(stat -c "
				     "%a -- \"$2\")\" = \"$1\" ] || "
				     "chmod -- \"$1\" \"$2\"; shift 2; done' sh <$d/modes\n"
				     "rm -rf $d";
	const char *const args[4] = {NULL};

	for (size_t i = 0; w->cached && i < w->kept; i++)
		building_log_step(w, i, "CACHED ");
	w->cached = false;
	building_run_script(w, script, args, then);
}

/* ---- a new one ---- */

void building_drop_point(struct building *w)
{
	if (w->point && w->has_image)
		e2b_image_drop(w->face, w->point->image);
	if (w->point)
		e2b_setup_done(&w->point->setup);
	free(w->point);
	w->point = NULL;
	w->has_image = false;
}

/* There is no point now: the build goes on in its sandbox. */
static void go_on(struct building *w, const char *why)
{
	LOG_INFO("e2b_no_point", LOG_S("build", w->build->id), LOG_S("error", why));
	building_drop_point(w);
	w->began_ns = now_ns();
	building_next_step(w);
}

static void on_closed(const struct err *e UNUSED, void *user)
{
	struct building *w = user;

	w->opening = false;
	if (w->stopped)
		building_free(w);
	else
		building_open(w);
}

/* The sandbox ends before the next one begins, so that a build never has two. */
static void change_sandbox(struct building *w, const struct e2b_point *p)
{
	struct sandbox *s = w->sandbox;
	struct err ignored = ERR_INIT;

	building_leave_image(w);
	memcpy(w->image, p->image, sizeof(w->image));
	w->own_image = w->at_point = true;
	w->identity[0] = '\0';
	w->below = p->files;
	w->kept = w->at;
	sandbox_release(s, &w->hold);
	w->sandbox = NULL;
	w->opening = true;
	if (sandbox_close(s, true, on_closed, w, &ignored) < 0)
		on_closed(NULL, w);
	(void)sandbox_unref(s);
}

static void on_measured(const struct build_image_size *size, void *user)
{
	static const char kept[] = "kept for later builds";
	struct building *w = user;
	struct e2b_point *p = w->point;
	char image[ENGINE_NAME_MAX];

	w->opening = false;
	if (w->stopped) {
		building_free(w);
		return;
	}
	if (!size || w->lost) {
		if (!w->lost) /* else on_deadline() tells */
			go_on(w, "the size of its image is not known");
		return;
	}
	e2b_point_measured(p, size);
	memcpy(image, p->image, sizeof(image));
	w->point = NULL;
	w->has_image = false;
	e2b_point_add(w->face, p);
	p = e2b_point_of(w->face, w->who->owner, w->keys[w->at]);
	if (!p || !streq(p->image, image)) {
		free(w->keys); /* what comes is larger still */
		w->keys = NULL;
		go_on(w, "larger than the cache of a user");
		return;
	}
	e2b_build_log(w->build, "debug", w->step, kept, strlen(kept));
	change_sandbox(w, p);
}

static void on_image(const struct err *e, void *user)
{
	struct building *w = user;
	const struct build_images *images = &w->face->config.builds->config.images;

	w->order = NULL;
	w->has_image = !e;
	if (w->lost)
		return; /* on_deadline() tells */
	if (e) {
		go_on(w, e->text);
		return;
	}
	w->opening = true;
	images->measure(w->point->image, on_measured, w, images->user);
}

static void commit(struct building *w)
{
	struct build_order *o = calloc(1, sizeof(*o));

	if (o)
		o->note = e2b_point_note(w->point);
	if (!o || !o->note) {
		free(o);
		go_on(w, "no memory");
		return;
	}
	o->what = BUILD_ORDER_COMMIT;
	memcpy(o->image, w->point->image, sizeof(o->image));
	o->sandbox = sandbox_ref(w->sandbox);
	o->fn = on_image;
	o->user = w;
	w->order = o;
	build_order_do(w->face->config.builds, o);
}

static void on_known(void *user)
{
	struct building *w = user;

	w->opening = false;
	if (w->stopped) {
		building_free(w);
	} else if (streq(building_identity(w), w->identity)) {
		commit(w);
	} else {
		free(w->keys); /* they are of another image */
		w->keys = NULL;
		go_on(w, "the image was replaced meanwhile");
	}
}

static void on_packed(struct building *w)
{
	const struct build_images *images = &w->face->config.builds->config.images;

	if (!w->identity[0]) {
		commit(w);
		return;
	}
	w->opening = true;
	images->look(on_known, w, images->user);
}

static void on_not_packed(struct building *w)
{
	go_on(w, "what an image cannot have was not packed");
}

static struct e2b_point *new_point(const struct building *w)
{
	struct e2b_point *p = calloc(1, sizeof(*p));
	char word[17];

	if (!p || copy_setup(&w->build->setup, &p->setup) < 0) {
		free(p);
		return NULL;
	}
	rand_hex(word, (sizeof(word) - 1) / 2);
	(void)snprintf(p->image, sizeof(p->image), POINT_IMAGE "%s", word);
	(void)!text_copy(p->owner, sizeof(p->owner), w->who->owner);
	memcpy(p->key, w->keys[w->at], sizeof(p->key));
	p->files = w->below;
	p->made_ms = now_wall_ns() / NS_PER_MS;
	return p;
}

static void forget(struct process *p, void *user UNUSED)
{
	process_forget(p);
}

bool building_make_point(struct building *w)
{
	/* An image drops set-id bits and the right of others to write, so these modes are listed. -xdev skips mounted folders. */
	static const char script[] =
	    "d=" BUILD_POINT_TOP "; rm -rf $d; trap '[ $? = 0 ] || rm -rf $d' EXIT; mkdir -p $d\n"
	    "find / -xdev ! -type l -perm /6002 ! -path \"$d/*\" -printf '%m\\0%p\\0' >$d/modes\n"
	    "set --; for f in tmp home/user home/sandbox; do [ ! -d /$f ] || set -- \"$@\" $f; "
	    "done\n"
	    "tar -cpf $d/files.tar -C / \"$@\"";
	const char *argv[] = {"/bin/sh", "-ec", script, NULL};
	const struct building_command c = {
	    .root = true, .cwd = "/", .argv = argv, .quiet = true, .otherwise = on_not_packed};

	if (!w->keys || w->at == w->kept || now_ns() - w->began_ns < POINT_NS ||
	    build_orders_wait(w->face->config.builds))
		return false;
	w->point = new_point(w);
	if (!w->point)
		return false;
	sandbox_each_process(w->sandbox, forget, NULL);
	building_run(w, &c, on_packed);
	return true;
}
