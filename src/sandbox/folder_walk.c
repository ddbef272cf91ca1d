/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/folder_walk.h"

#include "base/list.h"
#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

struct folder { /* still to be listed */
	struct list node;
	unsigned depth;
	char path[];
};

struct walking {
	struct walk walk;
	struct walk_request request;
	struct sandbox *sandbox; /* reference */
	struct list folders;
	size_t n_waiting;
	struct folder *at; /* owned: the folder that is being listed */
	struct err err;
	walk_fn cb;
	void *user;
};

static void walking_free(struct walking *w)
{
	for (size_t i = 0; i < w->walk.n; i++)
		free(w->walk.files[i].path);
	free(w->walk.files);
	list_for_each(l, &w->folders)
		free(list_entry(l, struct folder, node));
	free(w->at);
	(void)sandbox_unref(w->sandbox);
	free(w);
}

static void finish(struct walking *w)
{
	bool good = w->err.code == ERR_NONE;

	w->cb(good ? &w->walk : NULL, good ? NULL : &w->err, w->user);
	walking_free(w);
}

static int add_folder(struct walking *w, const char *path, unsigned depth)
{
	size_t len = strlen(path) + 1;
	struct folder *f = malloc(sizeof(*f) + len);

	if (!f)
		return -ENOMEM;
	f->depth = depth;
	memcpy(f->path, path, len);
	list_append(&w->folders, &f->node);
	w->n_waiting++;
	return 0;
}

static int add_file(struct walking *w, const char *path, const struct engine_file *info)
{
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	w->walk.files[w->walk.n++] = (struct walk_file){.path = copy, .info = *info};
	return 0;
}

/* Folders that tools fill with thousands of files, which nobody asked for. */
static bool is_left_out(const struct walking *w, const struct engine_file *info)
{
	static const char *const folders[] = {"__pycache__", "node_modules", "site-packages"};

	for (size_t i = 0; w->request.quiet && i < ARRAY_SIZE(folders); i++)
		if (S_ISDIR(info->mode) && streq(info->name, folders[i]))
			return true;
	return w->request.quiet && info->name[0] == '.';
}

/* There may be thousands that are not, so they cost little. */
static bool may_be_taken(struct walking *w, const struct engine_file *info)
{
	if (S_ISDIR(info->mode))
		return w->at->depth < w->request.depth;
	if (!S_ISREG(info->mode) || (w->request.below && w->at->depth == 1))
		return false;
	if (w->request.wanted || w->walk.n < w->request.max_files)
		return true;
	w->walk.more = true;
	return false;
}

static int take_entry(struct walking *w, const struct engine_file *info)
{
	char path[ENGINE_PATH_MAX];
	const char *folder = w->at->path;

	if (is_left_out(w, info) || !may_be_taken(w, info))
		return 0;
	int n = snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "", info->name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	if (S_ISDIR(info->mode)) {
		bool room = w->walk.n_folders + w->n_waiting < w->request.max_folders;

		w->walk.more = w->walk.more || !room;
		return room ? add_folder(w, path, w->at->depth + 1) : 0;
	}
	if (w->request.wanted && !w->request.wanted(path, info, w->user))
		return 0;
	w->walk.more = w->walk.more || w->walk.n == w->request.max_files;
	return w->walk.n < w->request.max_files ? add_file(w, path, info) : 0;
}

static void list_next(struct walking *w);

static void on_listed(const struct engine_file *files, size_t n, bool more, const struct err *e,
		      void *user)
{
	struct walking *w = user;

	/* A folder below may be gone by now. */
	if (e && w->walk.n_folders == 1)
		w->err = *e;
	w->walk.more = w->walk.more || more;
	for (size_t i = 0; !e && i < n; i++)
		if (take_entry(w, &files[i]) < 0) {
			(void)err_set(&w->err, ERR_OUT_OF_MEMORY, ENOMEM, "a list of files");
			break;
		}
	list_next(w);
}

static void list_next(struct walking *w)
{
	struct err e = ERR_INIT;

	free(w->at);
	w->at = w->err.code == ERR_NONE ? list_pop_first(&w->folders, struct folder, node) : NULL;
	if (!w->at) {
		finish(w);
		return;
	}
	w->n_waiting--;
	w->walk.n_folders++;
	if (sandbox_peek(w->sandbox, w->at->path, on_listed, w, &e) == 0)
		return;
	w->err = e;
	finish(w);
}

int walk_start(struct sandbox *s, const struct walk_request *request, walk_fn cb, void *user,
	       struct err *e)
{
	struct walking *w = calloc(1, sizeof(*w));

	if (w) {
		w->request = *request;
		w->request.folder = NULL;
		w->request.max_files = MIN(request->max_files, (size_t)WALK_FILES_MAX);
		w->request.max_folders = MIN(request->max_folders, (size_t)WALK_FOLDERS_MAX);
		w->sandbox = sandbox_ref(s);
		list_init(&w->folders);
		w->cb = cb;
		w->user = user;
		w->walk.files = calloc(w->request.max_files, sizeof(*w->walk.files));
	}
	if (!w || !w->walk.files || add_folder(w, request->folder, 1) < 0) {
		if (w)
			walking_free(w);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a list of files");
	}
	w->at = list_pop_first(&w->folders, struct folder, node);
	w->n_waiting--;
	w->walk.n_folders++;
	int r = sandbox_peek(s, w->at->path, on_listed, w, e);
	if (r < 0)
		walking_free(w);
	return r;
}
