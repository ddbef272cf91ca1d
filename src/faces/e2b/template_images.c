/* SPDX-License-Identifier: Apache-2.0 */
/* When images of templates and cache points go. What a build makes is put over the image that its sandbox began with, which is found by
 * its name. So an image that is wanted no more stays as long as a build stands on it. */
#include "faces/e2b/template_build.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* With it the next start of the server knows that the image is to go, if this one ends before. */
#define NOTE_NOTHING "{}"

static struct building *building_on(const struct e2b *f, const char *image)
{
	list_for_each(l, &f->buildings) {
		struct building *w = list_entry(l, struct building, node);

		if (streq(w->image, image))
			return w;
	}
	return NULL;
}

/* NOTE is taken; NULL: the image is removed. */
static void order(struct e2b *f, const char *image, char *note)
{
	struct build_order *o = calloc(1, sizeof(*o));

	if (!o) {
		free(note);
		return;
	}
	o->what = note ? BUILD_ORDER_NOTE : BUILD_ORDER_REMOVE;
	o->note = note;
	(void)!text_copy(o->image, sizeof(o->image), image);
	build_order_do(f->config.builds, o);
}

void e2b_image_drop(struct e2b *f, const char *image)
{
	struct building *w = building_on(f, image);
	char *note = w ? strdup(NOTE_NOTHING) : NULL;

	if (w)
		w->drop_image = true;
	if (!w || note)
		order(f, image, note);
}

void building_leave_image(struct building *w)
{
	char image[sizeof(w->image)];
	const bool drop = w->drop_image;

	memcpy(image, w->image, sizeof(image));
	w->image[0] = '\0';
	w->drop_image = false;
	if (!drop)
		return;
	struct building *other = building_on(w->face, image);

	if (other)
		other->drop_image = true;
	else
		order(w->face, image, NULL);
}
