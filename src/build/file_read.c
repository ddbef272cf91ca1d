/* SPDX-License-Identifier: Apache-2.0 */
/* What a build from a Dockerfile reads before its first step: the Dockerfile, .dockerignore, and which images the server has. Reading and
 * parsing happen on a thread. */
#include "build/file_build.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "image/ref.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reading {
	struct file_build *build;
	int file, ignore; /* owned; -1 = none */
	char name[65];    /* of the Dockerfile, for messages */
	bool second;      /* the name of .dockerignore that is tried is the common one */
	struct image_words args;
	char *target; /* owned; of the build, which may end while a thread reads */
	struct dockerfile_plan plan;
	struct err e;
};

static void reading_free(struct reading *r)
{
	workers_close(r->build->owner, r->file);
	workers_close(r->build->owner, r->ignore);
	image_words_done(&r->args);
	free(r->target);
	dockerfile_plan_done(&r->plan);
	free(r);
}

/* ---- on a thread ---- */

static int read_text(int fd, const char *name, struct buf *ret, struct err *e)
{
	const int r = fd_read_file(fd, ret);

	if (r == -ENOBUFS)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "%s: larger than %zu KiB", name,
			       ret->max >> 10);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot read %s", name) : 0;
}

static void make_plan(void *user)
{
	struct reading *r = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(DOCKERFILE_BYTES_MAX + 1);
	_cleanup_(buf_done) struct buf rules = BUF_INIT(IGNORE_BYTES_MAX + 1);
	/* What an address of ADD reaches is for the network policy of the sandbox. */
	const struct dockerfile_options options = {.name = r->name,
						   .args = &r->args,
						   .target = r->target,
						   .allow_inside = true,
						   .in_sandbox = true};
	struct ignore ignore = {0};
	struct dockerfile d = {0};
	int result = read_text(r->file, r->name, &text, &r->e);

	if (result >= 0 && r->ignore >= 0)
		result = read_text(r->ignore, ".dockerignore", &rules, &r->e);
	if (result >= 0)
		result = ignore_parse(".dockerignore", buf_str(&rules), rules.len, &ignore, &r->e);
	if (result >= 0)
		result = dockerfile_parse(buf_str(&text), text.len, &options, &d, &r->e);
	if (result >= 0)
		(void)!dockerfile_plan_make(&d, r->target, &ignore, &r->plan, &r->e);
	dockerfile_done(&d);
	ignore_done(&ignore);
}

/* ---- images ---- */

/* Docker's own name of an image that has no host, no folder and no tag is also what the operator calls an image here. */
static bool is_own(const struct image_ref *ref, const char *own)
{
	static const char library[] = "library/";

	return streq(ref->host, REF_DOCKER_HUB) && text_starts_with(ref->name, library) &&
	       streq(ref->name + strlen(library), own) && streq(ref->tag, "latest") &&
	       !ref->digest[0];
}

/* The image's own name goes before the reference that another one was downloaded by. */
bool build_find_image(const json_t *rows, const char *base, char ret[ENGINE_NAME_MAX])
{
	char source[BUILD_REFERENCE_MAX];
	const bool prefixed = text_starts_with(base, REF_REGISTRY_PREFIX);
	const char *found = NULL;
	struct image_ref ref = {0};
	struct err ignored = ERR_INIT;
	const json_t *row;
	size_t i;
	const bool is_ref =
	    (size_t)snprintf(source, sizeof(source), "%s%s", prefixed ? "" : REF_REGISTRY_PREFIX,
			     base) < sizeof(source) &&
	    image_ref_parse(source, &ref, &ignored) >= 0;

	json_array_foreach(rows, i, row) {
		const char *own = json_string_value(json_object_get(row, "name"));
		const char *origin = json_string_value(json_object_get(row, "origin"));

		if (!own || json_integer_value(json_object_get(row, "pulled")) > 0)
			continue;
		if (streq(own, base) || (is_ref && is_own(&ref, own)))
			return text_copy(ret, ENGINE_NAME_MAX, own) == 0;
		if (!found && is_ref && origin && image_ref_is_origin(&ref, origin))
			found = own;
	}
	return found && text_copy(ret, ENGINE_NAME_MAX, found) == 0;
}

static int prepare_images(struct file_build *b, struct err *e)
{
	const struct build_images *images = &b->builds->config.images;
	const json_t *row;
	size_t i;

	b->images = calloc(b->plan.n, sizeof(*b->images));
	b->left = calloc(b->plan.n, sizeof(*b->left));
	for (i = 0; b->left && i < b->plan.n; i++)
		b->left[i].fd = -1;
	if (!b->images || !b->left)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a build");
	json_array_foreach(images->shared(images->user), i, row) {
		const char *own = json_string_value(json_object_get(row, "name"));

		if (own && streq(own, b->image) && !b->replaces &&
		    !json_is_true(json_object_get(row, "of_sandbox")))
			return err_set(e, ERR_ALREADY_EXISTS, 0,
				       "the image '%s' was not made of a sandbox, and stays as it "
				       "is; take another name",
				       own);
	}
	return 0;
}

static void on_download_line(const char *text, size_t len, void *user)
{
	file_build_say(user, text, len);
}

static void on_download(const struct err *e, void *user)
{
	struct file_build *b = user;

	b->download = NULL;
	if (e)
		file_build_fail(b, e);
	else
		file_build_look(b);
}

/* 1: it is being downloaded. */
static int download(struct file_build *b, const char *base, struct err *e)
{
	const struct build_download_spec spec = {.owner = b->owner,
						 .reference = base,
						 .line = on_download_line,
						 .end = on_download,
						 .user = b};

	if (!build_download_may(b->builds, base))
		return err_set(
		    e, ERR_IMAGE_MISSING, 0,
		    "the image '%.100s' is not on this server; its operator can download "
		    "it: caisson image pull %.100s, or permit it in SANDBOX_PULLS",
		    base, base);
	if (b->downloads >= b->plan.n + 1)
		return err_set(
		    e, ERR_IMAGE_MISSING, 0,
		    "%.300s was downloaded, and is gone again: SANDBOX_PULL_CACHE may be "
		    "too small for this build",
		    base);
	b->downloads++;
	const int r = build_download_start(b->builds, &spec, &b->download, e);

	return r < 0 ? r : 1;
}

/* An image of the operator goes before one that builds have downloaded. 1: not all of them are there yet. */
static int find_images(struct file_build *b, struct err *e)
{
	const struct build_images *images = &b->builds->config.images;
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->plan.n; i++) {
		const char *base = b->plan.runs[i].base;

		if (!b->images[i][0] &&
		    !build_find_image(images->shared(images->user), base, b->images[i]) &&
		    !build_download_find(b->builds, base, b->images[i]))
			r = download(b, base, e);
	}
	return r;
}

bool file_build_lost_image(struct file_build *b)
{
	/* What is known of the images may be older than the loss, and then no look helps. */
	if (!text_starts_with(b->images[b->at], IMAGE_PULL_PREFIX) || b->losses > b->plan.n)
		return false;
	b->losses++;
	memset(b->images[b->at], 0, sizeof(b->images[b->at]));
	file_build_look(b);
	return true;
}

/* ---- on the loop ---- */

/* R goes, and with it the build, unless that has ended meanwhile. */
static void end_early(struct reading *r, const struct err *e)
{
	struct file_build *b = r->build;
	const struct err failed = e ? *e : ERR_INIT;

	reading_free(r);
	if (!file_build_came_late(b))
		file_build_fail(b, &failed);
}

/* The plan is there. */
static void go_on(struct file_build *b, const struct err *e)
{
	struct err failed = e ? *e : ERR_INIT;
	int r = e ? -1 : 0;

	if (r == 0 && !b->images)
		r = prepare_images(b, &failed);
	if (r == 0)
		r = find_images(b, &failed);
	if (r < 0)
		file_build_fail(b, &failed);
	else if (r == 0)
		file_build_planned(b);
}

static void on_plan(void *user)
{
	struct reading *r = user;
	struct file_build *b = r->build;
	const struct err e = r->e;

	if (b->state != FILE_BUILD_GOES_ON) {
		end_early(r, NULL);
		return;
	}
	b->waits = false;
	if (e.code == ERR_NONE) {
		b->plan = r->plan;
		r->plan = (struct dockerfile_plan){0};
	}
	reading_free(r);
	go_on(b, e.code != ERR_NONE ? &e : NULL);
}

static void begin_plan(struct reading *r)
{
	struct file_build *b = r->build;
	struct err e = ERR_INIT;
	const int result = workers_run(b->owner, make_plan, on_plan, r);

	if (result == 0)
		return;
	(void)workers_refused(result, &e);
	end_early(r, &e);
}

static void on_ignore(int fd, const struct engine_file *info, const struct err *e, void *user);

/* "Dockerfile.dockerignore" beside it, else ".dockerignore" of the build context. */
static void open_ignore(struct reading *r)
{
	struct file_build *b = r->build;
	struct err e = ERR_INIT;
	char path[ENGINE_PATH_MAX];
	const int n = r->second ? snprintf(path, sizeof(path), "%s%s.dockerignore", b->folder,
					   b->folder[0] ? "/" : "")
				: snprintf(path, sizeof(path), "%s.dockerignore", b->path);

	if (n < 0 || (size_t)n >= sizeof(path) ||
	    sandbox_open_file(b->source, path, on_ignore, r, &e) < 0)
		begin_plan(r);
}

static void on_ignore(int fd, const struct engine_file *info UNUSED, const struct err *e,
		      void *user)
{
	struct reading *r = user;

	r->ignore = e ? -1 : fd;
	if (r->build->state != FILE_BUILD_GOES_ON || (e && e->code != ERR_NOT_FOUND)) {
		end_early(r, e);
	} else if (e && !r->second) {
		r->second = true;
		open_ignore(r);
	} else {
		begin_plan(r);
	}
}

static void on_file(int fd, const struct engine_file *info UNUSED, const struct err *e, void *user)
{
	struct reading *r = user;

	r->file = e ? -1 : fd;
	if (e || r->build->state != FILE_BUILD_GOES_ON)
		end_early(r, e);
	else
		open_ignore(r);
}

static int add_args(struct reading *r, json_t *args)
{
	json_t *value;
	size_t i;
	int result = 0;

	json_array_foreach(args, i, value)
		if (result >= 0)
			result = image_words_add(&r->args, json_string_value(value),
						 json_string_length(value));
	return result;
}

static void read_files(void *user)
{
	struct file_build *b = user;
	if (b->state != FILE_BUILD_GOES_ON) {
		(void)file_build_came_late(b);
		return;
	}

	struct reading *r = calloc(1, sizeof(*r));
	const char *slash = strrchr(b->path, '/');
	struct err e = ERR_INIT;
	int result = 0;

	if (!r) {
		b->waits = false;
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a build");
		file_build_fail(b, &e);
		return;
	}
	*r = (struct reading){
	    .build = b, .file = -1, .ignore = -1, .target = TAKE_PTR(b->target), .e = ERR_INIT};
	(void)snprintf(r->name, sizeof(r->name), "%.64s", slash ? slash + 1 : b->path);
	if (add_args(r, b->args) < 0)
		result = err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a build");
	b->waits = true;
	result = result < 0 ? result : sandbox_open_file(b->source, b->path, on_file, r, &e);
	if (result < 0) {
		b->waits = false;
		reading_free(r);
		file_build_fail(b, &e);
	}
}

void file_build_read(struct file_build *b)
{
	const struct build_images *images = &b->builds->config.images;

	b->waits = true;
	images->look(read_files, b, images->user);
}

static void on_looked(void *user)
{
	struct file_build *b = user;

	if (!file_build_came_late(b))
		go_on(b, NULL);
}

void file_build_look(struct file_build *b)
{
	const struct build_images *images = &b->builds->config.images;

	b->waits = true;
	images->look(on_looked, b, images->user);
}
