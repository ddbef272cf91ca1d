/* SPDX-License-Identifier: Apache-2.0 */
/* The course of a build from a Dockerfile: what is to be copied comes out of the workspace as one archive; then each script of the plan is
 * done in a sandbox of its own, with what it needs of earlier ones; what the last one has changed becomes the image. */
#include "build/file_build.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/upload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT  ".caisson-build.sh"
#define PACK_NS (600 * NS_PER_S)
#define ID_SIZE 24

static void next_run(struct file_build *b);
static void send_next(struct file_build *b);

/* ---- the end ---- */

bool file_build_came_late(struct file_build *b)
{
	const bool late = b->state != FILE_BUILD_GOES_ON;

	b->waits = false;
	if (!b->builds)
		free(b);
	return late;
}

static void close_sandbox(struct file_build *b)
{
	if (b->held && !b->lost)
		sandbox_release(b->sandbox, &b->hold);
	b->held = b->lost = false;
	build_close_sandbox(b->sandbox);
	b->sandbox = NULL;
}

/* All that it holds goes; what it says stays. */
static void stop(struct file_build *b, enum file_build_state state, const struct err *e)
{
	void (*end)(const struct err *e, void *user) = b->end;

	b->state = state;
	b->ended_ms = now_wall_ns() / NS_PER_MS;
	b->other = file_build_last_other(b->builds);
	b->task = build_task_stop(b->task);
	build_order_stop(b->builds, b->order);
	b->order = NULL;
	b->download = build_download_drop(b->download);
	b->deadline = sd_event_source_disable_unref(b->deadline);
	close_sandbox(b);
	(void)sandbox_unref(b->source);
	b->source = NULL;
	file_build_close_archive(b, &b->context);
	for (size_t i = 0; b->left && i < b->plan.n; i++)
		file_build_close_archive(b, &b->left[i]);
	free(b->left);
	free(b->images);
	b->left = NULL;
	b->images = NULL;
	dockerfile_plan_done(&b->plan);
	json_decref(b->args);
	b->args = NULL;
	free(b->target);
	b->target = NULL;
	b->end = NULL;
	if (end)
		end(e, b->user);
}

void file_build_fail(struct file_build *b, const struct err *e)
{
	(void)snprintf(b->reason, sizeof(b->reason), "%s", e->text);
	LOG_INFO("image_build_failed", LOG_S("image", b->image), LOG_S("error", e->text));
	stop(b, FILE_BUILD_FAILED, e);
}

/* At the beginning of a callback: true if the build does not go on, because of E, or because it has ended meanwhile. Then B may be
 * gone. */
static bool ends_here(struct file_build *b, const struct err *e)
{
	const struct err failed = e ? *e : ERR_INIT;
	const bool goes_on = b->state == FILE_BUILD_GOES_ON && !e;

	if (!file_build_came_late(b) && e)
		file_build_fail(b, &failed);
	return !goes_on;
}

static void fail_with(struct file_build *b, enum err_code code, const char *text)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, code, 0, "%s", text);
	file_build_fail(b, &e);
}

/* From inside the end of the sandbox: nothing of it may be called any more, so the loop's next turn tells. */
static void on_sandbox_ended(struct sandbox_hold *h)
{
	struct file_build *b = CONTAINER_OF(h, struct file_build, hold);

	b->lost = true;
	(void)sd_event_source_set_time_relative(b->deadline, 0);
}

static int on_deadline(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct file_build *b = user;
	struct err e = ERR_INIT;

	loop_work("timer", "build of an image");
	if (b->lost)
		(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox of the build has ended");
	else
		(void)err_set(&e, ERR_TIMEOUT, 0,
			      "the build has lasted %" PRIu64 " s, which is its limit",
			      b->timeout_s);
	file_build_fail(b, &e);
	return 0;
}

/* ---- its output ---- */

void file_build_say(struct file_build *b, const char *text, size_t len)
{
	_cleanup_(buf_done) struct buf clean = BUF_INIT(3 * BUILD_LINE_MAX + 1);

	if (text_add_utf8_lossy(&clean, text, MIN(len, (size_t)BUILD_LINE_MAX)) < 0)
		return;
	if (b->line)
		b->line(buf_str(&clean), b->user);
	if (json_array_size(b->lines) >= BUILD_LINES_KEPT) {
		(void)json_array_remove(b->lines, 0);
		b->dropped++;
	}
	(void)json_array_append_new(b->lines, json_string(buf_str(&clean)));
}

static void on_line(const char *text, size_t len, bool is_error, void *user)
{
	struct file_build *b = user;

	if (is_error)
		(void)snprintf(b->last_error, sizeof(b->last_error), "%.*s", (int)len, text);
	file_build_say(b, text, len);
}

/* ---- the result ---- */

static void on_image(const struct err *e, void *user)
{
	struct file_build *b = user;

	b->order = NULL;
	if (e) {
		file_build_fail(b, e);
		return;
	}
	LOG_INFO("image_built", LOG_S("image", b->image));
	stop(b, FILE_BUILD_DONE, NULL);
}

static void forget(struct process *p, void *user UNUSED)
{
	process_forget(p);
}

static void commit(struct file_build *b)
{
	struct build_order *o = calloc(1, sizeof(*o));

	if (!o) {
		fail_with(b, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	file_build_say(b, BUILD_MAKING, strlen(BUILD_MAKING));
	sandbox_each_process(b->sandbox, forget, NULL);
	o->what = BUILD_ORDER_COMMIT;
	memcpy(o->image, b->image, sizeof(o->image));
	o->sandbox = sandbox_ref(b->sandbox);
	o->fn = on_image;
	o->user = b;
	b->order = o;
	build_order_do(b->builds, o);
}

/* ---- one script ---- */

static void on_left(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct file_build *b = user;

	if (!e && b->state != FILE_BUILD_GOES_ON)
		workers_close(b->owner, fd);
	if (ends_here(b, e))
		return;
	if (b->lost) { /* on_deadline() tells */
		workers_close(b->owner, fd);
		return;
	}
	file_build_keep_left(b, fd, info->size);
	b->at++;
	file_build_close_unneeded(b);
	next_run(b);
}

static void on_script(const struct err *e, void *user)
{
	struct file_build *b = user;
	struct err failed = ERR_INIT;
	char path[sizeof(DOCKERFILE_FROM_TAR) + 16];

	b->task = NULL;
	if (b->lost)
		return; /* on_deadline() tells */
	if (e) {
		if (e->code == ERR_IMAGE_BUILD_FAILED && b->last_error[0])
			(void)err_set(&failed, e->code, 0, "%.400s", b->last_error);
		file_build_fail(b, failed.code != ERR_NONE ? &failed : e);
		return;
	}
	if (b->at + 1 == b->plan.n) {
		commit(b);
		return;
	}
	(void)snprintf(path, sizeof(path), DOCKERFILE_FROM_TAR, (unsigned)b->at);
	b->waits = true;
	if (sandbox_open_file(b->sandbox, path, on_left, b, &failed) < 0) {
		b->waits = false;
		file_build_fail(b, &failed);
	}
}

static void run_script(struct file_build *b)
{
	static const char *const argv[] = {"/bin/sh", BUILD_HOME "/" SCRIPT, NULL};
	const struct build_task_spec spec = {.sandbox = b->sandbox,
					     .root = true,
					     .cwd = "/",
					     .argv = argv,
					     .name = "build",
					     .credential = b->credential,
					     .line = on_line,
					     .end = on_script,
					     .user = b};
	struct err e = ERR_INIT;

	b->last_error[0] = '\0';
	if (build_task_start(b->builds, &spec, &b->task, &e) < 0)
		file_build_fail(b, &e);
}

/* ---- what its sandbox gets ---- */

static void on_sent(uint64_t written UNUSED, const struct err *e, void *user)
{
	struct file_build *b = user;

	if (ends_here(b, e))
		return;
	b->sent++;
	send_next(b);
}

/* The files of a run: the build context, what it copies from others, its script. False: there are no more. */
static bool next_file(const struct file_build *b, size_t i, char *path, size_t size,
		      struct upload_source *ret)
{
	const struct dockerfile_run *run = &b->plan.runs[b->at];

	if (i == 0) {
		(void)snprintf(path, size, SCRIPT);
		*ret = (struct upload_source){.data = run->script, .len = strlen(run->script)};
		return true;
	}
	i--;
	if (run->context && i == 0) {
		(void)snprintf(path, size, DOCKERFILE_CONTEXT_TAR);
		*ret = (struct upload_source){.fd = b->context.fd, .len = b->context.len};
		return true;
	}
	i -= run->context;
	if (i >= run->n_from)
		return false;
	const struct file_archive *left = &b->left[run->from[i]];

	(void)snprintf(path, size, DOCKERFILE_FROM_TAR, run->from[i]);
	*ret = (struct upload_source){.fd = left->fd, .len = left->len};
	return true;
}

static void send_next(struct file_build *b)
{
	char path[sizeof(DOCKERFILE_FROM_TAR) + 16];
	struct upload_request request = {
	    .path = path, .overwrite = true, .on_done = on_sent, .user = b};
	struct err e = ERR_INIT;

	if (!next_file(b, b->sent, path, sizeof(path), &request.source)) {
		run_script(b);
		return;
	}
	b->waits = true;
	if (sandbox_upload(b->sandbox, &request, &e) < 0) {
		b->waits = false;
		file_build_fail(b, &e);
	}
}

static void on_opened(struct sandbox *made, const struct err *e, void *user)
{
	struct file_build *b = user;

	if (b->state != FILE_BUILD_GOES_ON)
		build_close_sandbox(made ? sandbox_ref(made) : NULL);
	else if (e && e->code == ERR_IMAGE_MISSING && file_build_lost_image(b))
		return;
	if (ends_here(b, e))
		return;
	b->sandbox = sandbox_ref(made);
	b->hold = (struct sandbox_hold){.ended = on_sandbox_ended, .rests = true};
	list_init(&b->hold.node);
	sandbox_hold(made, &b->hold);
	b->held = true;
	b->sent = 0;
	send_next(b);
}

static void next_run(struct file_build *b)
{
	const struct sandbox_choice network = {0};
	struct sandbox_options options = {0};
	struct err e = ERR_INIT;
	char id[ID_SIZE];
	json_t *o = json_pack("{s:b, s:s}", "root", 1, "image", b->images[b->at]);
	int r = sandbox_options_read(o, false, &options, &e);
	uint8_t bytes[8];

	json_decref(o);
	if (r < 0) {
		file_build_fail(b, &e);
		return;
	}
	options.own_image = true; /* administrators may begin with every image of the server */
	rand_bytes(bytes, sizeof(bytes));
	(void)snprintf(id, sizeof(id), "build");
	for (size_t i = 0; i < sizeof(bytes); i++)
		(void)snprintf(id + strlen(id), sizeof(id) - strlen(id), "%02x", bytes[i]);
	b->waits = true;
	manager_open_new(b->builds->config.manager, b->owner, id, &network, &options, on_opened, b);
	sandbox_options_done(&options);
}

/* ---- the build context ---- */

static void on_removed(const struct err *e UNUSED, void *user UNUSED)
{
}

static void on_context(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct file_build *b = user;
	struct err ignored = ERR_INIT;

	if (!e && b->state != FILE_BUILD_GOES_ON)
		workers_close(b->owner, fd);
	if (ends_here(b, e))
		return;
	b->context = (struct file_archive){.fd = fd, .len = info->size};
	(void)!sandbox_remove_file(b->source, DOCKERFILE_CONTEXT_TAR, false, on_removed, NULL,
				   &ignored);
	next_run(b);
}

static void on_packed(const struct err *e, void *user)
{
	struct file_build *b = user;
	struct err failed = e ? *e : ERR_INIT;

	b->task = NULL;
	if (e && e->code == ERR_IMAGE_BUILD_FAILED && b->last_error[0]) {
		failed = ERR_INIT;
		(void)err_set(&failed, e->code, 0, "the build context: %.400s", b->last_error);
	}
	if (e) {
		file_build_fail(b, &failed);
		return;
	}
	b->waits = true;
	if (sandbox_open_file(b->source, DOCKERFILE_CONTEXT_TAR, on_context, b, &failed) < 0) {
		b->waits = false;
		file_build_fail(b, &failed);
	}
}

/* tar exits with 1 when a file changes meanwhile. */
static void pack_context(struct file_build *b)
{
	static const char script[] =
	    "tar -cf " DOCKERFILE_CONTEXT_TAR " --exclude=./" DOCKERFILE_CONTEXT_TAR
	    " -C \"./$1\" . || [ $? = 1 ]";
	const char *argv[] = {"/bin/sh", "-c", script, "sh", b->folder, NULL};
	const struct build_task_spec spec = {.sandbox = b->source,
					     .cwd = BUILD_HOME,
					     .argv = argv,
					     .name = "build context",
					     .timeout_ns = PACK_NS,
					     .credential = b->credential,
					     .line = on_line,
					     .end = on_packed,
					     .user = b};
	struct err e = ERR_INIT;

	if (build_task_start(b->builds, &spec, &b->task, &e) < 0)
		file_build_fail(b, &e);
}

void file_build_planned(struct file_build *b)
{
	bool context = false;
	const bool again = b->planned;

	b->planned = true;
	for (size_t i = 0; i < b->plan.n; i++)
		context |= b->plan.runs[i].context;
	if (context && !again && b->context.fd < 0)
		pack_context(b);
	else
		next_run(b);
}

/* ---- the beginning ---- */

static int check(const struct builds *b, const struct file_build_spec *spec, struct err *e)
{
	const struct build_images *images = &b->config.images;
	json_t *value;
	size_t i;

	if (!parse_is_image_name(spec->image, strlen(spec->image)) ||
	    text_starts_with(spec->image, SANDBOX_OWN_IMAGE))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "name: small letters, digits, '.', '_' and '-', for an image");
	if (spec->path && strlen(spec->path) >= ENGINE_PATH_MAX - 32)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "dockerfile: the path is too long");
	if (json_array_size(spec->args) > BUILD_ARGS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "args: at most %u", BUILD_ARGS_MAX);
	json_array_foreach(spec->args, i, value)
		if (!json_is_string(value) || strcspn(json_string_value(value), "=") == 0 ||
		    !strchr(json_string_value(value), '=') ||
		    strlen(json_string_value(value)) != json_string_length(value))
			return err_set(e, ERR_INVALID_ARGUMENT, 0, "args: texts NAME=VALUE");
	if (b->file && (b->file->state == FILE_BUILD_GOES_ON || b->file->waits))
		return err_set(e, ERR_SESSION_BUSY, 0,
			       "the image '%s' is being built; wait for its end, or cancel it",
			       b->file->image);
	return images->may_commit(images->user, e);
}

static void forget_last(struct builds *b)
{
	struct file_build *f = b->file;

	b->file = NULL;
	if (!f)
		return;
	json_decref(f->lines);
	json_decref(f->other);
	f->lines = f->other = NULL;
	f->builds = NULL;
	if (!f->waits)
		free(f);
}

void file_build_done(struct builds *b)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, ECANCELED, "the server ends");
	if (b->file && b->file->state == FILE_BUILD_GOES_ON)
		stop(b->file, FILE_BUILD_CANCELLED, &e);
	forget_last(b);
}

/* Where the Dockerfile is. */
static void set_source(struct file_build *f, const struct file_build_spec *spec)
{
	(void)!text_copy(f->owner, sizeof(f->owner), sandbox_owner(spec->sandbox));
	(void)!text_copy(f->path, sizeof(f->path), spec->path);
	const char *slash = strrchr(f->path, '/');

	(void)snprintf(f->folder, sizeof(f->folder), "%.*s", (int)(slash ? slash - f->path : 0),
		       f->path);
	f->source = sandbox_ref(spec->sandbox);
	f->target = spec->target ? strdup(spec->target) : NULL;
	f->args = json_deep_copy(spec->args);
}

static void take_plan(struct file_build *f, struct image_dockerfile_plan *p)
{
	f->plan = p->plan;
	f->context = (struct file_archive){.fd = TAKE_FD(p->context), .len = p->context_len};
	p->plan = (struct dockerfile_plan){0};
}

int file_build_start(struct builds *b, const struct file_build_spec *spec, struct err *e)
{
	int r = check(b, spec, e);
	struct file_build *f = r < 0 ? NULL : calloc(1, sizeof(*f));

	if (!f)
		return r < 0 ? r : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a build");
	*f =
	    (struct file_build){.builds = b,
				.credential = spec->credential,
				.line = spec->line,
				.end = spec->end,
				.user = spec->user,
				.replaces = spec->replaces,
				.timeout_s = spec->timeout_s ? spec->timeout_s : FILE_BUILD_SECONDS,
				.state = FILE_BUILD_GOES_ON,
				.began_ms = now_wall_ns() / NS_PER_MS,
				.lines = json_array(),
				.context = {.fd = -1}};
	(void)!text_copy(f->image, sizeof(f->image), spec->image);
	if (spec->plan)
		take_plan(f, spec->plan);
	else
		set_source(f, spec);
	forget_last(b);
	b->file = f;
	(void)sd_event_add_time_relative(b->config.loop, &f->deadline, CLOCK_MONOTONIC,
					 f->timeout_s * NS_PER_S / NS_PER_US, 0, on_deadline, f);
	if (spec->plan)
		file_build_look(f);
	else
		file_build_read(f);
	return 0;
}

json_t *builds_cancel(struct builds *b, struct err *e)
{
	const struct build_images *images = &b->config.images;
	struct err cancelled = ERR_INIT;

	if (!b->file || b->file->state != FILE_BUILD_GOES_ON)
		return images->cancel(images->user, e);
	(void)err_set(&cancelled, ERR_CANCELLED, ECANCELED, "the build was cancelled");
	stop(b->file, FILE_BUILD_CANCELLED, &cancelled);
	return builds_json(b);
}
