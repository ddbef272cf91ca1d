/* SPDX-License-Identifier: Apache-2.0 */
/* REST: images, building those that the server's machine has definitions of, and making them of sandboxes. For
 * administrators. */
#include "api/rest/rest.h"
#include "base/fdio.h"
#include "base/text.h"
#include "sandbox/layer.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void rest_look_at_images(struct rest_call *c, void (*next)(void *call))
{
	const struct build_images *i = &c->api->config.builds->config.images;

	if (i->look)
		i->look(next, c, i->user);
	else
		next(c);
}

static void list(void *call)
{
	struct rest_call *c = call;
	const struct build_images *i = &c->api->config.builds->config.images;

	json_t *all = i->list(i->user);

	if (all)
		(void)json_object_set_new(all, "build", builds_json(c->api->config.builds));
	if (all)
		rest_reply(c, 200, all);
	else
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
}

void rest_list_images(struct rest_call *c)
{
	rest_look_at_images(c, list);
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
	const struct build_images *i = &c->api->config.builds->config.images;
	const char *name = rest_text(c, "name", "");
	struct err e = ERR_INIT;

	c->action = "image.build";
	(void)snprintf(c->object, sizeof(c->object), "%.63s", name);
	json_t *build = i->build(name, i->user, &e);
	reply(c, build, &e);
}

void rest_cancel_build(struct rest_call *c)
{
	struct err e = ERR_INIT;

	c->action = "image.cancel";
	json_t *build = builds_cancel(c->api->config.builds, &e);
	if (build)
		(void)snprintf(c->object, sizeof(c->object), "%.63s",
			       json_string_value(json_object_get(build, "name")));
	reply(c, build, &e);
}

/* The builder tells by itself why it has ended, and the sandbox only that nobody reads. */
static void on_layer(uint64_t files UNUSED, uint64_t bytes UNUSED, uint32_t skipped UNUSED,
		     const struct err *e, void *user)
{
	struct rest_call *c = user;
	const struct build_images *i = &c->api->config.builds->config.images;
	struct err ignored = ERR_INIT;

	if (e && e->code != ERR_CANCELLED) {
		json_decref(i->cancel(i->user, &ignored));
		rest_fail(c, e);
		return;
	}
	json_t *build = i->build_of(i->user);

	if (build)
		rest_reply(c, 202, build);
	else
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
}

static void commit(void *call)
{
	struct rest_call *c = call;
	const struct build_images *i = &c->api->config.builds->config.images;
	const char *name = rest_text(c, "name", "");
	struct err e = ERR_INIT;
	int ends[2];

	if (text_starts_with(name, SANDBOX_OWN_IMAGE)) {
		rest_refuse(c, ERR_INVALID_ARGUMENT,
			    "name: what begins with '" SANDBOX_OWN_IMAGE "' is a template's");
		return;
	}
	if (pipe2(ends, O_CLOEXEC) < 0) {
		rest_refuse(c, ERR_SYSTEM, "cannot make a pipe");
		return;
	}
	_cleanup_fd_ int from = ends[0];
	_cleanup_fd_ int to = ends[1];
	json_t *build = i->commit(name, sandbox_image(c->sandbox), sandbox_age_ns(c->sandbox), from,
				  NULL, i->user, &e);

	if (!build) {
		reply(c, NULL, &e);
		return;
	}
	json_decref(build);
	if (sandbox_write_layer(c->sandbox, to, on_layer, c, &e) < 0) {
		struct err ignored = ERR_INIT;

		json_decref(i->cancel(i->user, &ignored));
		rest_fail(c, &e);
	}
}

static void look(struct rest_call *c)
{
	rest_look_at_images(c, commit);
}

static void on_built(const struct err *e UNUSED, void *user)
{
	caller_unref(user);
}

static void build_file(struct rest_call *c)
{
	const char *target = rest_text(c, "target", "");
	struct caller *who = caller_ref(c->who);
	char path[ENGINE_PATH_MAX];
	const struct file_build_spec spec = {.sandbox = c->sandbox,
					     .path = path,
					     .target = target[0] ? target : NULL,
					     .args = json_object_get(c->body, "args"),
					     .image = rest_text(c, "name", ""),
					     .credential = who,
					     .end = on_built,
					     .user = who};
	struct err e = ERR_INIT;
	const char *file = rest_text(c, "dockerfile", "");
	int r = workspace_path(file, strlen(file), true, path, &e);

	r = r < 0 ? r : file_build_start(c->api->config.builds, &spec, &e);
	if (r < 0)
		caller_unref(who);
	reply(c, r < 0 ? NULL : builds_json(c->api->config.builds), &e);
}

void rest_commit_image(struct rest_call *c)
{
	const bool from_file = rest_text(c, "dockerfile", "")[0] != '\0';

	c->action = from_file ? "image.build" : "image.commit";
	rest_sandbox(c, from_file ? build_file : look);
}

void rest_remove_image(struct rest_call *c)
{
	const struct build_images *i = &c->api->config.builds->config.images;
	const char *name = http_request_param(c->req, "image");
	struct err e = ERR_INIT;

	c->action = "image.remove";
	(void)snprintf(c->object, sizeof(c->object), "%.63s", name);
	reply(c, i->change(name, NULL, i->user, &e), &e);
}
