/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/run_files.h"

#include "base/kill_points.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/folder_walk.h"
#include "sandbox/sandbox_path.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

int64_t file_clock_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &t);
	return (int64_t)t.tv_sec * (int64_t)NS_PER_S + t.tv_nsec;
}

/* ---- uploads ---- */

void sandbox_note_upload(struct sandbox *s, const char *path, uint64_t size)
{
	struct run *r = s->run;
	const int64_t now = (int64_t)now_wall_ns();

	if (sandbox_path_is_outside(path))
		return;
	if (!r || r->request.no_artifacts)
		sandbox_forget_inventory(s);
	else /* the listing after the run may lack it */
		r->forget = r->forget || r->phase == RUN_SCANNING_AFTER;
	if (strchr(path, '/')) /* its removal is news, although no run has seen it */
		file_marks_name(&s->marks, path);
	if (!r && s->uploaded.n == UPLOADS_MAX)
		uploads_prune(&s->uploaded, now);
	uploads_add(&s->uploaded, path, size, now);
}

/* ---- directly in the workspace ----
 *
 * A thread takes a long inventory: the loop would need milliseconds for thousands of names. */

#define SCAN_QUICK 256u /* entries that the loop takes itself */

struct scan {
	struct run *run;
	void (*next)(struct run *r);
	/* What the thread uses. */
	bool compare;
	bool skip_whole_output;
	bool was_known; /* BEFORE is the inventory before the run */
	int64_t start_file_ns;
	struct uploads uploads; /* owned */
	const struct engine_file *files;
	size_t n;
	bool more;
	struct inventory before, after;
	/* What it finds. */
	struct artifact *artifacts, *folders;
	size_t n_artifacts, n_folders;
	uint64_t *gone;
	size_t n_gone;
	bool has_folders;
	bool failed; /* no memory */

	struct engine_file *copy; /* owned; NULL: FILES are the engine's */
	uint64_t epoch;           /* of the sandbox's inventory when it began */
};

static void add_artifact(struct artifact *a, const char *path, const struct engine_file *file,
			 size_t *n)
{
	a->name = strdup(path);
	if (!a->name)
		return;
	a->size = file->size;
	a->mtime_ns = file->mtime_ns;
	(*n)++;
}

static void on_changed(const struct engine_file *file, void *user)
{
	struct scan *c = user;

	if (S_ISDIR(file->mode) && c->skip_whole_output && streq(file->name, WHOLE_OUTPUT_FOLDER))
		return;
	/* Without an inventory before the run, the time of the inode decides. */
	if (uploads_have(&c->uploads, file->name, file) ||
	    (!c->was_known && file->ctime_ns < c->start_file_ns))
		return;
	if (S_ISDIR(file->mode))
		add_artifact(&c->folders[c->n_folders], file->name, file, &c->n_folders);
	else
		add_artifact(&c->artifacts[c->n_artifacts], file->name, file, &c->n_artifacts);
}

/* On the loop or on a thread. */
static void scan_work(void *user)
{
	struct scan *c = user;

	c->failed = inventory_set(&c->after, c->files, c->n, c->more) < 0;
	if (c->failed || !c->compare)
		return;
	c->artifacts = calloc(c->after.n + RUN_DEEP_FILES, sizeof(*c->artifacts));
	c->folders = calloc(c->after.n + 1, sizeof(*c->folders));
	c->gone = calloc(c->before.n + 1, sizeof(*c->gone));
	c->failed = !c->artifacts || !c->folders || !c->gone;
	if (c->failed)
		return;
	inventory_diff(&c->before, &c->after, on_changed, c);
	if (!c->after.more)
		inventory_gone(&c->before, &c->after, c->gone, &c->n_gone);
	for (size_t i = 0; i < c->after.n && !c->has_folders; i++)
		c->has_folders = S_ISDIR(c->after.files[i].mode);
}

static void scan_end(struct scan *c)
{
	struct run *r = c->run;
	struct sandbox *s = r->sandbox;
	void (*next)(struct run * r) = c->next;

	if (c->failed) {
		free(c->artifacts);
		free(c->folders);
		free(c->gone);
		sandbox_forget_inventory(s);
	} else {
		r->artifacts = c->artifacts;
		r->n_artifacts = c->n_artifacts;
		r->folders = c->folders;
		r->n_folders = c->n_folders;
		r->has_folders = c->has_folders;
		r->gone = c->gone;
		r->n_gone = c->n_gone;
	}
	if (!c->failed &&
	    c->epoch == s->inventory_epoch) { /* nothing has invalidated it meanwhile */
		inventory_done(&s->inventory);
		s->inventory = c->after;
		s->inventory_known = true;
	} else {
		inventory_done(&c->after);
	}
	inventory_done(&c->before);
	free(c->uploads.rows);
	workers_free_memory(s->owner, c->copy, c->n * sizeof(*c->copy));
	free(c);
	next(r);
}

static void on_scanned(void *user)
{
	loop_work("inventory", "taken");
	scan_end(user);
}

void run_take_inventory(struct run *r, const struct engine_file *files, size_t n, bool more,
			bool compare, void (*next)(struct run *r))
{
	struct sandbox *s = r->sandbox;
	struct scan *c = calloc(1, sizeof(*c));

	if (!c) {
		sandbox_forget_inventory(s);
		next(r);
		return;
	}
	*c = (struct scan){.run = r,
			   .next = next,
			   .compare = compare,
			   .skip_whole_output = r->request.whole_over > 0,
			   .was_known = compare ? r->before_known : s->inventory_known,
			   .start_file_ns = r->start_file_ns,
			   .files = files,
			   .n = n,
			   .more = more,
			   .before = s->inventory,
			   .epoch = s->inventory_epoch};
	s->inventory = (struct inventory){0}; /* the next one takes its place */
	s->inventory_known = false;
	/* The inventory before the run has the files that were uploaded before it. */
	if (uploads_copy(&s->uploaded, c->was_known ? r->start_wall_ns : 0, &c->uploads) < 0) {
		c->failed = true;
	} else if (n + c->before.n > SCAN_QUICK) {
		c->copy = malloc(MAX(n, (size_t)1) * sizeof(*files));
		if (c->copy && n > 0)
			memcpy(c->copy, files, n * sizeof(*files));
		c->files = c->copy;
		if (c->copy && workers_run(s->owner, scan_work, on_scanned, c) == 0)
			return;
		c->failed = true;
	} else {
		scan_work(c);
	}
	scan_end(c);
}

/* ---- in folders ---- */

static int compare_hashes(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool is_new_below(const char *path, const struct engine_file *file, void *user)
{
	struct run *r = user;

	file_marks_add(&r->marks, path, file);
	return file->ctime_ns >= r->start_file_ns &&
	       !uploads_have(&r->sandbox->uploaded, path, file) &&
	       !file_marks_have(&r->sandbox->marks, path, file);
}

/* Compares what was in folders before the run, and is known of that, with what is there. WHOLE: nothing is missing in
 * the marks after it. */
static void take_marks(struct run *r, bool whole)
{
	struct sandbox *s = r->sandbox;
	uint64_t *gone = reallocarray(r->gone, r->n_gone + s->marks.n + 1, sizeof(*gone));

	r->gone_more = !gone || !whole || !s->marks_whole;
	if (gone) {
		r->gone = gone;
		file_marks_gone(&s->marks, &r->marks, gone, &r->n_gone);
		qsort(gone, r->n_gone, sizeof(*gone), compare_hashes);
	}
	file_marks_done(&s->marks);
	s->marks = r->marks;
	s->marks_whole = whole;
	r->marks = (struct file_marks){0};
}

static void report(struct run *r)
{
	uploads_prune(&r->sandbox->uploaded, r->listed_wall_ns);
	if (r->forget)
		sandbox_forget_inventory(r->sandbox);
	run_report(r);
}

static void on_walked(const struct walk *w, const struct err *e UNUSED, void *user)
{
	struct run *r = user;

	r->n_shallow = r->n_artifacts;
	for (size_t i = 0; w && i < w->n; i++)
		add_artifact(&r->artifacts[r->n_artifacts], w->files[i].path, &w->files[i].info,
			     &r->n_artifacts);
	r->more_files = w && w->more;
	file_marks_sort(&r->marks);
	take_marks(r, w && !w->more && r->marks.n < FILE_MARKS_MAX);
	report(r);
}

static bool walk_folders(struct run *r)
{
	const struct walk_request request = {
	    .folder = "",
	    .depth = RUN_DEEP_DEPTH,
	    .quiet = true,
	    .below = true,
	    .wanted = is_new_below,
	    .max_files = RUN_DEEP_FILES,
	    .max_folders = RUN_DEEP_FOLDERS,
	};
	struct err ignored = ERR_INIT;

	return r->has_folders && walk_start(r->sandbox, &request, on_walked, r, &ignored) == 0;
}

static void on_scanned_after(struct run *r)
{
	r->n_shallow = r->n_artifacts;
	if (r->artifacts && walk_folders(r))
		return;
	take_marks(r, r->artifacts && !r->has_folders);
	report(r);
}

static void on_listed(const struct engine_file *files, size_t n, bool more, const struct err *e,
		      void *user)
{
	struct run *r = user;

	KILL_POINT(RUN_SCANNED);
	LOG_DEBUG("artifact_scan", LOG_S("session_id", r->sandbox->id), LOG_U("files", n));
	if (!e) {
		run_take_inventory(r, files, n, more, true, on_scanned_after);
		return;
	}
	sandbox_forget_inventory(r->sandbox);
	report(r);
}

void run_find_files(struct run *r)
{
	struct err ignored = ERR_INIT;

	if (!r->request.no_artifacts && r->sandbox->state == SANDBOX_READY) {
		r->phase = RUN_SCANNING_AFTER;
		r->listed_wall_ns = (int64_t)now_wall_ns();
		if (engine_list_files(r->sandbox->handle, "", on_listed, r, &ignored) == 0)
			return;
	}
	sandbox_forget_inventory(r->sandbox);
	run_report(r);
}
