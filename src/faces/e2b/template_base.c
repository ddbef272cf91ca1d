/* SPDX-License-Identifier: Apache-2.0 */
/* What a build begins with: an image of the server, a template, or an image that is downloaded first (build/download.h). */
#include "faces/e2b/template_build.h"

#include "base/text.h"
#include "sandbox/sandbox_options.h"

#include <stdlib.h>
#include <string.h>

#define DOWNLOADS 2 /* of one build: what it has got may go before its sandbox begins */

static const char *const own_images[] = {"e2bdev/base", "e2bdev/code-interpreter", "base",
					 "code-interpreter-v1"};

/* The image of this server that is called NAME, or was downloaded as NAME: "python:3.11-slim". RET has ENGINE_NAME_MAX bytes;
 * "" = the server's own. */
static int find_image(const struct e2b *f, const char *name, char *ret, struct err *e)
{
	const struct build_images *images = &f->config.builds->config.images;
	const size_t len = strcspn(name, ":@");
	const json_t *row;
	size_t i;

	ret[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(own_images); i++)
		if (strlen(own_images[i]) == len && strncmp(own_images[i], name, len) == 0)
			return 0;
	json_array_foreach(images->shared(images->user), i, row) {
		const char *own = json_string_value(json_object_get(row, "name"));

		if (own && streq(own, name) && text_copy(ret, ENGINE_NAME_MAX, own) == 0)
			return 0;
	}
	if (build_find_image(images->shared(images->user), name, ret))
		return 0;
	return err_set(
	    e, ERR_IMAGE_MISSING, 0,
	    "the image '%.100s' is not on this server; its operator can permit builds to "
	    "download it in SANDBOX_PULLS, or download it (caisson image pull %.100s) "
	    "and permit it in SANDBOX_IMAGES",
	    name, name);
}

/* What the new one has from the template that it is made of. */
static int inherit(struct building *w, const char *name, char *image, struct err *e)
{
	struct e2b_setup *s = &w->build->setup;
	const struct e2b_build *from = e2b_build_named(w->face, w->who->owner, name);

	if (!from)
		return err_set(e, ERR_NOT_FOUND, 0, "there is no template '%.100s'%s", name,
			       w->face->config.fleet
				   ? " on the worker of this one: in a fleet a template can be "
				     "built from one of the same worker alone"
				   : "");
	(void)json_object_update(s->env, from->setup.env);
	s->root = from->setup.root;
	memcpy(s->workdir, from->setup.workdir, sizeof(s->workdir));
	if (!s->start && from->setup.start) {
		s->start = strdup(from->setup.start);
		s->ready = from->setup.ready ? strdup(from->setup.ready) : NULL;
	}
	return text_copy(image, ENGINE_NAME_MAX, from->image) < 0 ? -EINVAL : 0;
}

static void on_line(const char *text, size_t len, void *user)
{
	const struct building *w = user;

	e2b_build_log(w->build, "info", w->step, text, len);
}

static void on_download(const struct err *e, void *user)
{
	struct building *w = user;

	w->download = NULL;
	if (w->lost)
		return; /* on_deadline() tells */
	if (e)
		building_fail(w, e);
	else
		building_find_base(w);
}

/* NAME is of a registry. 1: it is being downloaded. */
static int find_pulled(struct building *w, const char *name, struct err *e)
{
	struct builds *builds = w->face->config.builds;
	const struct build_download_spec spec = {.owner = w->who->owner,
						 .reference = name,
						 .line = on_line,
						 .end = on_download,
						 .user = w};

	w->pulled = w->own_image = build_download_find(builds, name, w->image);
	if (w->pulled)
		return 0;
	if (w->downloads >= DOWNLOADS)
		return err_set(
		    e, ERR_IMAGE_MISSING, 0,
		    "%.300s was downloaded, and is gone again: SANDBOX_PULL_CACHE may be "
		    "too small for what builds download at once",
		    name);
	w->downloads++;
	const int r = build_download_start(builds, &spec, &w->download, e);

	return r < 0 ? r : 1;
}

/* An image of the operator that clients may choose goes before one that builds have downloaded. */
static int find_base(struct building *w, const char *name, struct err *e)
{
	const struct e2b *f = w->face;
	const int r = find_image(f, name, w->image, e);
	const bool usable =
	    r >= 0 && (!w->image[0] || manager_permits_image(f->config.manager, w->image));

	if (usable || !build_download_may(f->config.builds, name))
		return r;
	*e = ERR_INIT;
	w->image[0] = '\0';
	return find_pulled(w, name, e);
}

/* Fills in IMAGE and what is known of it. 1: not yet. */
static int choose_image(struct building *w, struct err *e)
{
	const char *image = json_string_value(json_object_get(w->body, "fromImage"));
	const char *template = json_string_value(json_object_get(w->body, "fromTemplate"));
	const char *base = w->image;

	free(w->keys); /* of an image that is gone */
	w->keys = NULL;
	w->own_image = template != NULL;
	w->pulled = false;
	const int r = template ? inherit(w, template, w->image, e)
		      : image  ? find_base(w, image, e)
			       : 0;

	if (r != 0)
		return r;
	if (!template && !w->pulled) { /* those have names of their own */
		base = building_identity(w);
		(void)!text_copy(w->identity, sizeof(w->identity), base);
	}
	building_look_for_point(w, base);
	return 0;
}

static void on_images(void *user)
{
	struct building *w = user;
	struct err failed = ERR_INIT;

	w->opening = false;
	if (w->stopped) {
		building_free(w);
		return;
	}
	const int r = choose_image(w, &failed);

	if (r < 0)
		building_fail(w, &failed);
	else if (r == 0)
		building_open(w);
}

void building_find_base(struct building *w)
{
	const struct build_images *images = &w->face->config.builds->config.images;

	w->opening = true;
	images->look(on_images, w, images->user);
}

bool building_lost_base(struct building *w)
{
	/* What is known of the images may be older than the loss, and then no look helps. */
	return w->pulled && w->downloads < DOWNLOADS && w->losses++ < DOWNLOADS;
}
