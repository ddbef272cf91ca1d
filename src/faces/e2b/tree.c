/* SPDX-License-Identifier: Apache-2.0 */
/* envd: a tree of folders as a list. Folders are listed one after the other; then links, and entries with attributes, are looked at
 * each; then a thread writes the answer, which may have megabytes. */
#include "faces/e2b/face.h"

#include "base/jsonio.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/sandbox_names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRIES_MAX 10000u
#define FOLDERS_MAX 1000u
#define DEPTH_MAX   64
#define TEXT_MAX    (64u << 20)

struct tree_entry {
	char *path; /* owned; of the engine */
	struct engine_file file;
	json_t *looked; /* owned, or NULL: it was looked at */
};

struct tree_folder {
	char *path; /* owned; of the engine */
	unsigned depth;
};

struct tree {
	struct e2b_call *call;
	unsigned depth;
	struct tree_entry *entries; /* owned */
	size_t n_entries, room;
	size_t noted;                /* entries before that one have been looked at */
	struct tree_folder *folders; /* owned; those that are still to be listed: a stack */
	size_t n, listed;
	struct tree_folder at; /* that is being listed */
	struct buf text;
	int failed;
};

static void tree_free(struct tree *t)
{
	for (size_t i = 0; i < t->n_entries; i++) {
		free(t->entries[i].path);
		json_decref(t->entries[i].looked);
	}
	free(t->entries);
	for (size_t i = 0; i < t->n; i++)
		free(t->folders[i].path);
	free(t->folders);
	free(t->at.path);
	buf_done(&t->text);
	free(t);
}

static void tree_fail(struct tree *t, const struct err *e)
{
	struct e2b_call *c = t->call;

	tree_free(t);
	e2b_fail(c, e);
}

/* The sandbox, if it is there. NULL: it has answered. */
static struct sandbox *sandbox_of(struct tree *t)
{
	struct sandbox *s = t->call->sandbox->sandbox;
	struct err e = ERR_INIT;

	if (s)
		return s;
	(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox has ended");
	tree_fail(t, &e);
	return NULL;
}

/* ---- the answer ---- */

static int by_path(const void *a, const void *b)
{
	const struct tree_entry *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int add_entry(struct tree *t, const struct tree_entry *x)
{
	json_t *o = x->looked ? json_incref(x->looked) : e2b_entry_json(x->path, &x->file);
	const int r = o ? jsonio_add(&t->text, o, JSON_COMPACT) : -ENOMEM;
	json_decref(o);
	return r;
}

/* On a thread. A folder comes before what is in it, as its path is shorter. */
static void write_answer(void *user)
{
	struct tree *t = user;
	int r = buf_add_str(&t->text, "{\"entries\":[");

	qsort(t->entries, t->n_entries, sizeof(*t->entries), by_path);
	for (size_t i = 0; i < t->n_entries && r == 0; i++) {
		r = i > 0 ? buf_add_char(&t->text, ',') : 0;
		r = r < 0 ? r : add_entry(t, &t->entries[i]);
	}
	t->failed = r < 0 ? r : buf_add_str(&t->text, "]}");
}

static void on_written(void *user)
{
	struct tree *t = user;
	struct e2b_call *c = t->call;
	struct err e = ERR_INIT;

	if (t->failed < 0) {
		(void)err_set(&e, ERR_OUT_OF_MEMORY, -t->failed, "a list");
		tree_fail(t, &e);
		return;
	}
	e2b_reply_text(c, 200, &t->text);
	tree_free(t);
}

/* ---- links and attributes ---- */

static void note_next(struct tree *t);

static bool needs_look(const struct engine_file *f)
{
	return f->attributes || S_ISLNK(f->mode);
}

static void on_noted(const struct engine_stat *st, const struct err *e, void *user)
{
	struct tree *t = user;

	if (!e)
		t->entries[t->noted].looked = e2b_stat_json(t->entries[t->noted].path, st);
	t->noted++;
	note_next(t);
}

static void note_next(struct tree *t)
{
	struct err e = ERR_INIT;

	while (t->noted < t->n_entries && !needs_look(&t->entries[t->noted].file))
		t->noted++;
	if (t->noted == t->n_entries) {
		const int r = workers_run(t->call->who->owner, write_answer, on_written, t);

		if (r < 0) {
			(void)workers_refused(r, &e);
			tree_fail(t, &e);
		}
		return;
	}
	struct sandbox *s = sandbox_of(t);
	if (s && sandbox_stat(s, t->entries[t->noted].path, on_noted, t, &e) < 0)
		tree_fail(t, &e);
}

/* ---- folders ---- */

static int push(struct tree *t, char *path, unsigned depth)
{
	struct tree_folder *more =
	    path ? realloc(t->folders, (t->n + 1) * sizeof(*t->folders)) : NULL;

	if (!more) {
		free(path);
		return -ENOMEM;
	}
	t->folders = more;
	t->folders[t->n++] = (struct tree_folder){.path = path, .depth = depth};
	return 0;
}

/* A place is named without a slash at its end, but for the root. */
static char *child_of(const char *folder, const char *name)
{
	char *path = NULL;
	const char *between = !*folder || streq(folder, "/") ? "" : "/";

	return asprintf(&path, "%s%s%s", folder, between, name) < 0 ? NULL : path;
}

static int take(struct tree *t, const struct engine_file *files, size_t n)
{
	if (t->n_entries + n > ENTRIES_MAX)
		return -E2BIG;
	if (t->n_entries + n > t->room) {
		const size_t room = 2 * (t->n_entries + n);
		struct tree_entry *more = realloc(t->entries, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->entries = more;
		t->room = room;
	}
	for (size_t i = 0; i < n; i++) {
		char *path = child_of(t->at.path, files[i].name);

		if (!path)
			return -ENOMEM;
		t->entries[t->n_entries++] = (struct tree_entry){.path = path, .file = files[i]};
	}
	/* The last one is listed first. */
	for (size_t i = n; i-- > 0 && t->at.depth < t->depth;)
		if (S_ISDIR(files[i].mode) &&
		    push(t, child_of(t->at.path, files[i].name), t->at.depth + 1) < 0)
			return -ENOMEM;
	return 0;
}

static void set_too_many(struct err *e)
{
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
		      "there are more than %u entries or %u folders: list with less depth",
		      ENTRIES_MAX, FOLDERS_MAX);
}

static void list_next(struct tree *t);

static void on_list(const struct engine_file *files, size_t n, bool more, const struct err *e,
		    void *user)
{
	struct tree *t = user;
	struct err failed = e ? *e : ERR_INIT;
	int r = e ? -EIO : more ? -E2BIG : take(t, files, n);

	/* A folder below the first one may have gone meanwhile, or nobody may look into it. */
	if (e && t->listed > 1 && e->code != ERR_SANDBOX_LOST)
		r = 0;
	else if (r == -E2BIG)
		set_too_many(&failed);
	else if (r == -ENOMEM)
		(void)err_set(&failed, ERR_OUT_OF_MEMORY, ENOMEM, "a list");
	else if (e && (e->errnum == ENOTDIR || e->code == ERR_INVALID_ARGUMENT))
		(void)err_set(&failed, ERR_INVALID_ARGUMENT, 0, "it is no directory");
	if (r < 0)
		tree_fail(t, &failed);
	else
		list_next(t);
}

static void list_next(struct tree *t)
{
	struct err e = ERR_INIT;

	if (t->n == 0) {
		note_next(t);
		return;
	}
	if (t->listed == FOLDERS_MAX) { /* what is left out silently would be taken for absent */
		set_too_many(&e);
		tree_fail(t, &e);
		return;
	}
	free(t->at.path);
	t->at = t->folders[--t->n];
	t->listed++;
	struct sandbox *s = sandbox_of(t);
	if (s && sandbox_list_attributes(s, t->at.path, on_list, t, &e) < 0)
		tree_fail(t, &e);
}

void e2b_list_dir(struct e2b_call *c)
{
	const json_int_t depth = json_integer_value(json_object_get(c->body, "depth"));
	char path[ENGINE_PATH_MAX];

	if (!e2b_need_path(c, "path", path))
		return;
	struct tree *t = calloc(1, sizeof(*t));
	if (t) {
		t->call = c;
		t->depth = (unsigned)MAX(MIN(depth, DEPTH_MAX), 1);
		buf_init(&t->text, TEXT_MAX);
	}
	if (!t || push(t, strdup(path), 1) < 0) {
		if (t)
			tree_free(t);
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	list_next(t);
}
