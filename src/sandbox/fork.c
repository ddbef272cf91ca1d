/* SPDX-License-Identifier: Apache-2.0 */
/* Forks: makes a new sandbox and copies the regular files into it. It uses the engine's file calls,
 * so it works with every engine. Files are copied one after the other, a few MiB per turn of the
 * event loop (upload.c). Names and counts from the source are not trusted and have limits. */
#include "base/buf.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/workers.h"
#include "sandbox/checkpoints.h"
#include "sandbox/manager.h"
#include "sandbox/upload.h"

#include <string.h>
#include <sys/stat.h>

struct folder { /* still to be listed */
	struct list node;
	char path[]; /* "" = the workspace */
};

struct forking {
	struct sandbox *source; /* reference; seized, once SEIZING is over */
	struct seizing seizing;
	struct sandbox *target;       /* reference, once there is one */
	struct list folders;          /* still to be listed */
	char folder[ENGINE_PATH_MAX]; /* the current one */
	struct engine_file *files;    /* its entries */
	size_t n, at;
	char path[ENGINE_PATH_MAX]; /* of the current file */
	int fd;                     /* of the current file */
	uint32_t entries;           /* seen so far, in all folders */
	struct fork_result result;
	struct err err;
	struct sandbox_options options; /* owned, and ID: of the new sandbox */
	char id[SANDBOX_ID_MAX + 1];    /* "" = a new one */
	fork_fn cb;
	void *user;
};

static void next_file(struct forking *f);

static void forking_free(struct forking *f)
{
	list_for_each(l, &f->folders)
		free(list_entry(l, struct folder, node));
	workers_close(f->source->owner, f->fd);
	free(f->files);
	sandbox_options_done(&f->options);
	(void)sandbox_unref(f->target);
	(void)sandbox_unref(f->source);
	free(f);
}

/* Ends the fork. An incomplete new sandbox is closed. */
static void finish(struct forking *f)
{
	bool good = f->err.code == ERR_NONE;
	struct err ignored = ERR_INIT;

	sandbox_yield(f->source);
	if (!good && f->target && !f->source->manager->closing)
		(void)sandbox_close(f->target, true, NULL, NULL, &ignored);
	f->result.sandbox = f->target;
	if (good)
		LOG_INFO("session_forked", LOG_S("session_id", f->target->id),
			 LOG_S("from", f->source->id), LOG_U("files", f->result.files),
			 LOG_U("bytes", f->result.bytes));
	f->cb(good ? &f->result : NULL, good ? NULL : &f->err, f->user);
	forking_free(f);
}

static void fail(struct forking *f, const struct err *e)
{
	f->err = *e;
	/* Its file system was shut, so its files cannot be read any more. */
	if (e->code == ERR_SYSTEM && f->source->state != SANDBOX_READY)
		(void)err_set(&f->err, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended meanwhile",
			      f->source->id);
	finish(f);
}

static int add_folder(struct forking *f, const char *path)
{
	size_t len = strlen(path) + 1;
	struct folder *new = malloc(sizeof(*new) + len);

	if (!new)
		return -ENOMEM;
	memcpy(new->path, path, len);
	list_prepend(&f->folders, &new->node);
	return 0;
}

/* ---- one file ---- */

static void on_written(uint64_t written, const struct err *e, void *user)
{
	struct forking *f = user;

	workers_close(f->source->owner, f->fd);
	f->fd = -1;
	if (e) {
		fail(f, e);
		return;
	}
	f->result.files++;
	f->result.bytes += written;
	next_file(f);
}

static void on_opened(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct forking *f = user;
	struct err error = ERR_INIT;

	if (e && e->code != ERR_NOT_FOUND) {
		fail(f, e);
		return;
	}
	if (e) { /* it is gone, or may not be read */
		f->result.skipped++;
		next_file(f);
		return;
	}
	f->fd = fd;
	const struct upload_request request = {
	    .path = f->path,
	    .overwrite = true,
	    .source = {.fd = fd, .len = info->size},
	    .on_done = on_written,
	    .user = f,
	};
	if (sandbox_upload(f->target, &request, &error) < 0)
		fail(f, &error);
}

/* ---- folders ---- */

static void on_listed(const struct engine_file *files, size_t n, bool more, const struct err *e,
		      void *user)
{
	struct forking *f = user;
	struct err error = ERR_INIT;

	free(f->files);
	f->files = NULL;
	f->n = f->at = 0;
	f->entries += (uint32_t)MIN(n, (size_t)ENGINE_FILES_MAX);
	if (!e && (more || f->entries > FORK_FILES_MAX)) {
		(void)err_set(&error, ERR_TOO_MANY_FILES, 0,
			      "Session %s has more than %u files: pack them into an archive first",
			      f->source->id, FORK_FILES_MAX);
		e = &error;
	}
	if (!e && n > 0) {
		f->files = calloc(n, sizeof(*files));
		if (!f->files) {
			(void)err_set(&error, ERR_OUT_OF_MEMORY, ENOMEM, "a fork");
			e = &error;
		} else {
			memcpy(f->files, files, n * sizeof(*files));
			f->n = n;
		}
	}
	if (e)
		fail(f, e);
	else
		next_file(f);
}

static void next_folder(struct forking *f)
{
	struct folder *folder = list_pop_first(&f->folders, struct folder, node);
	struct err e = ERR_INIT;

	if (!folder) {
		finish(f);
		return;
	}
	(void)snprintf(f->folder, sizeof(f->folder), "%s", folder->path);
	free(folder);
	if (sandbox_list(f->source, f->folder, on_listed, f, &e) < 0)
		fail(f, &e);
}

/* 0 = on_opened() will be called, 1 = continue with the next entry, or -errno with E. */
static int take_entry(struct forking *f, const struct engine_file *file, struct err *e)
{
	int n = snprintf(f->path, sizeof(f->path), "%s%s%s", f->folder, f->folder[0] ? "/" : "",
			 file->name);

	if (n < 0 || (size_t)n >= sizeof(f->path)) {
		f->result.skipped++;
		return 1;
	}
	if (S_ISDIR(file->mode)) {
		if (add_folder(f, f->path) < 0)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a fork");
		return 1;
	}
	if (!S_ISREG(file->mode)) {
		f->result.skipped++;
		return 1;
	}
	return sandbox_open_file(f->source, f->path, on_opened, f, e);
}

static void next_file(struct forking *f)
{
	struct err e = ERR_INIT;

	while (f->at < f->n) {
		int r = take_entry(f, &f->files[f->at++], &e);
		if (r < 0)
			fail(f, &e);
		if (r <= 0)
			return;
	}
	next_folder(f);
}

/* ---- start ---- */

static void on_target(struct sandbox *s, const struct err *e, void *user)
{
	struct forking *f = user;

	if (e) {
		fail(f, e);
		return;
	}
	f->target = sandbox_ref(s);
	(void)snprintf(s->parent, sizeof(s->parent), "%s", f->source->id);
	next_folder(f);
}

static int check_id(struct sandbox *s, const char *id, struct err *e)
{
	if (!id)
		return 0;
	if (!parse_is_session_id(id, strlen(id)))
		return err_set(e, ERR_INVALID_SESSION_ID, 0, "not a session id");
	int r = manager_lookup(s->manager, s->owner, id)
		    ? 1
		    : manager_get_stored(s->manager, s->owner, id, NULL, e);
	if (r > 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "Session %s is there already: a fork needs an id of its own", id);
	return r;
}

/* A fork has what was chosen for its source, and its image, unless the operator no longer permits that. A
 * stored sandbox may have an image that it was not given by its options. */
static int fork_options(const struct sandbox *s, struct sandbox_options *ret)
{
	struct err ignored = ERR_INIT;

	if (sandbox_options_copy(&s->options, ret) < 0)
		return -ENOMEM;
	memcpy(ret->image, s->image, sizeof(ret->image));
	ret->given |= 1u << SANDBOX_OPTION_IMAGE;
	/* Whoever opened its source to everybody has said nothing about this one. */
	ret->given &= ~(1u << SANDBOX_OPTION_PUBLIC);
	if (manager_check_options(s->manager, ret, &ignored) < 0)
		ret->given &= ~(1u << SANDBOX_OPTION_IMAGE);
	return 0;
}

static void make_target(struct forking *f)
{
	struct sandbox *s = f->source;

	manager_open_new(s->manager, s->owner, f->id[0] ? f->id : NULL, s->choice, &f->options,
			 on_target, f);
}

/* The cancelled run that the fork has waited for is over. */
static void on_free(const struct err *e, void *user)
{
	struct forking *f = user;

	if (!e) {
		make_target(f);
		return;
	}
	f->cb(NULL, e, f->user);
	forking_free(f);
}

static struct forking *forking_new(struct sandbox *s, const char *id, fork_fn cb, void *user)
{
	struct forking *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	list_init(&f->folders);
	f->source = sandbox_ref(s);
	f->seizing = (struct seizing){.go = on_free, .user = f};
	f->fd = -1;
	f->cb = cb;
	f->user = user;
	(void)snprintf(f->id, sizeof(f->id), "%s", id ? id : "");
	if (fork_options(s, &f->options) < 0 || add_folder(f, "") < 0) {
		forking_free(f);
		return NULL;
	}
	return f;
}

int sandbox_fork(struct sandbox *s, const char *id, fork_fn cb, void *user, struct err *e)
{
	int r = check_id(s, id, e);

	r = r < 0 ? r : sandbox_seize(s, e);
	if (r < 0)
		return r;
	struct forking *f = forking_new(s, id, cb, user);
	if (!f) {
		if (r == 0)
			sandbox_yield(s);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a fork");
	}
	if (r > 0)
		sandbox_seize_later(s, &f->seizing);
	else
		make_target(f);
	return 0;
}
