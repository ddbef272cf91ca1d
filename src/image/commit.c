/* SPDX-License-Identifier: Apache-2.0 */
/* An image of what the root user of a sandbox has changed. A worker without rights unpacks the layer by itself; this process puts the image
 * below under it (merge.h) and sets the owners; another worker looks for the Python, as after an import. */
#include "image/image.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/tree.h"
#include "image/bundle.h"
#include "image/merge.h"
#include "image/notes.h"
#include "image/python.h"
#include "image/root.h"
#include "image/scratch.h"
#include "image/worker.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAYER "layer" /* in the draft: the layer alone */
#define NOTES "notes"
/* In the manifest */
#define SOURCE     "sandbox"
#define SOURCE_OWN "dockerfile"

struct commit {
	const struct image_watch *watch;
	int file;  /* the layer; borrowed */
	int base;  /* owned: the root of the image below, locked */
	int layer; /* owned */
	int notes; /* owned */
	struct image_draft draft;
	struct unpack_stats stats; /* of the layer */
	struct merge_size size;
	struct statx_timestamp began; /* of the draft, in its file system's time */
};

struct report {
	struct unpack_stats stats;
};

/* Runs in a worker. */
static int unpack(void *ctx, void *report, struct err *e)
{
	const struct commit *c = ctx;
	struct report *ret = report;

	return bundle_unpack_noted(c->file, c->layer, c->notes, c->watch, &ret->stats, e);
}

/* Runs in a worker. */
static int finish(void *ctx, void *report UNUSED, struct err *e)
{
	const struct commit *c = ctx;
	struct python python;
	enum python_use use;
	int r = image_root_finish(c->draft.root, false, e);

	if (r >= 0)
		r = python_place(c->draft.root, NULL, &python, &use, e);
	return r;
}

static int work(struct commit *c, int (*fn)(void *ctx, void *report, struct err *e), int write,
		struct report *ret, struct err *e)
{
	const struct worker w = {
	    .kind = WORKER_LOCAL, .write = write, .source = -1, .fn = fn, .ctx = c};

	return worker_run(&w, c->watch, ret, sizeof(*ret), e);
}

bool image_is_of_sandbox(const struct image_manifest *m)
{
	return streq(image_manifest_str(m, "source"), SOURCE);
}

/* What somebody has built, imported or downloaded is not replaced by what came of a sandbox. */
static int check_name(const struct image_store *s, const char *name, bool own, struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	struct err missing = ERR_INIT;

	if (!parse_is_image_name(name, strlen(name)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "'%.64s' is no name for an image: small letters, digits, '.', '_' "
			       "and '-'",
			       image_is_text(name, strlen(name)) ? name : "?");
	int r = own ? -ENOENT : image_manifest_load(s, name, &m, &missing);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(e, missing.code, 0, "%s", missing.text);
	return image_is_of_sandbox(&m)
		   ? 0
		   : err_set(e, ERR_ALREADY_EXISTS, 0,
			     "image '%s' was not made of a sandbox and is not replaced; choose "
			     "another name, or remove it (caisson image rm %s)",
			     name, name);
}

static int open_base(struct commit *c, const struct image_store *s, const char *base, struct err *e)
{
	char path[IMAGE_NAME_MAX + 8];

	if (!parse_is_image_name(base, strlen(base)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.64s' is no image name", base);
	(void)snprintf(path, sizeof(path), "%s/root", base);
	c->base = openat(s->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->base < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "there is no image '%s'", base);
	return flock(c->base, LOCK_SH) < 0 ? err_set(e, ERR_SYSTEM, errno, "cannot lock an image")
					   : 0;
}

static int open_draft(struct commit *c, struct err *e)
{
	struct statx st;

	if (mkdirat(c->draft.dir, LAYER, 0755) == 0)
		c->layer = openat(c->draft.dir, LAYER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	c->notes = openat(c->draft.dir, NOTES, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (c->layer < 0 || c->notes < 0 ||
	    statx(c->layer, "", AT_EMPTY_PATH, STATX_BTIME, &st) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot make a folder");
	c->began = st.stx_btime;
	return 0;
}

/* Owners are kept by root alone, who can give them. */
static int set_owners(struct commit *c, struct err *e)
{
	if (geteuid() != 0)
		return 0;
	_cleanup_fd_ int mark =
	    openat(c->draft.dir, FOREIGN_MARK, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (mark < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot mark the image");
	return notes_apply(c->notes, c->draft.root, &c->began, e);
}

static int put_together(struct commit *c, struct report *report, struct err *e)
{
	c->watch->step(c->watch->user, "reading what has changed");
	int r = work(c, unpack, c->layer, report, e);

	c->stats = report->stats; /* the next worker's report takes its place */
	if (r >= 0) {
		c->watch->step(c->watch->user, "putting it over the image");
		r = image_merge(c->base, c->layer, c->draft.root, c->watch, &c->size, e);
	}
	if (r >= 0)
		r = work(c, finish, c->draft.root, report, e);
	if (r >= 0 && fchmod(c->draft.root, 0755) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "cannot set a mode");
	return r < 0 ? r : set_owners(c, e);
}

static int record(struct commit *c, const struct image_store *s, const char *name, const char *base,
		  const struct image_commit_options *o, struct image_manifest *ret, struct err *e)
{
	_cleanup_(image_origin_done) struct image_origin origin = {0};

	if (image_origin_read(c->draft.root, &origin) < 0)
		c->watch->warn(c->watch->user,
			       "the image's own description is damaged and is left out");
	const struct image_facts facts = {
	    .name = name,
	    .source = o->own ? SOURCE_OWN : SOURCE,
	    .origin = o->own ? "" : base,
	    .note = o->note,
	    .definition = "",
	    .description = origin.description,
	    .suite = origin.suite,
	    .preload = origin.preload.v,
	    .n_preload = origin.preload.n,
	    .layer_bytes = c->size.files,
	    .folder_bytes = c->size.folders,
	    .setid_dropped = c->stats.setid,
	    .devices_dropped = c->stats.skipped,
	};

	c->watch->step(c->watch->user, "recording and putting in place");
	int r = tree_remove(c->draft.dir, LAYER);

	r = r < 0 ? r : tree_remove(c->draft.dir, NOTES);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "cannot remove what was unpacked");
	r = image_manifest_write(&c->draft, &facts, ret, e);
	if (r >= 0)
		r = image_draft_commit(s, &c->draft, name, e);
	if (r < 0)
		image_manifest_done(ret);
	return r;
}

int image_check_of_sandbox(const struct image_store *s, const char *name, struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	const int r = image_manifest_load(s, name, &m, e);

	return r < 0 ? r
	       : image_is_of_sandbox(&m)
		   ? 0
		   : err_set(e, ERR_FORBIDDEN, 0, "image '%s' was not made of a sandbox", name);
}

int image_set_note(const struct image_store *s, const char *name, const json_t *note, struct err *e)
{
	const int r = image_check_of_sandbox(s, name, e);

	return r < 0 ? r : image_manifest_note(s, name, note, e);
}

int image_commit(const struct image_store *s, const char *name, const char *base, int layer,
		 const struct image_commit_options *o, const struct image_watch *w,
		 struct image_manifest *ret, struct err *e)
{
	struct commit c = {.watch = w,
			   .file = layer,
			   .base = -1,
			   .layer = -1,
			   .notes = -1,
			   .draft = IMAGE_DRAFT_INIT};
	struct report report = {0};

	image_store_clean(s);
	int r = check_name(s, name, o->own, e);

	if (r >= 0)
		r = scratch_check_space(s->path, 0, e);
	if (r >= 0)
		r = open_base(&c, s, base, e);
	if (r >= 0)
		r = image_draft_new(s, name, &c.draft, e);
	if (r >= 0)
		r = open_draft(&c, e);
	if (r >= 0)
		r = put_together(&c, &report, e);
	if (r >= 0)
		r = record(&c, s, name, base, o, ret, e);
	fd_close_many((int[]){c.layer, c.notes, c.base}, 3);
	image_draft_drop(s, &c.draft);
	return r;
}
