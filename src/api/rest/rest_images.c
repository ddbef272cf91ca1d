/* SPDX-License-Identifier: Apache-2.0 */
/* REST: images, and building those that the server's machine has definitions of. For administrators. */
#include "api/rest/rest.h"

void rest_list_images(struct rest_call *c)
{
	const struct api_images *i = &c->api->config.images;

	json_t *all = i->list(i->user);

	if (all)
		rest_reply(c, 200, all);
	else
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
}

static void reply(struct rest_call *c, json_t *build, const struct err *e)
{
	if (build)
		rest_reply(c, 202, build);
	else if (e->code == ERR_NONE)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else
		rest_fail(c, e);
}

void rest_build_image(struct rest_call *c)
{
	const struct api_images *i = &c->api->config.images;
	const char *name = rest_text(c, "name", "");
	struct err e = ERR_INIT;

	c->action = "image.build";
	(void)snprintf(c->object, sizeof(c->object), "%.63s", name);
	json_t *build = i->build(name, i->user, &e);
	reply(c, build, &e);
}

void rest_cancel_build(struct rest_call *c)
{
	const struct api_images *i = &c->api->config.images;
	struct err e = ERR_INIT;

	c->action = "image.cancel";
	json_t *build = i->cancel(i->user, &e);
	if (build)
		(void)snprintf(c->object, sizeof(c->object), "%.63s",
			       json_string_value(json_object_get(build, "name")));
	reply(c, build, &e);
}
