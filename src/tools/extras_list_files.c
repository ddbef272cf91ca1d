/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_list_files: the files of a workspace at any depth. */
#include "sandbox/folder_walk.h"
#include "tools/extras.h"

#include "base/text.h"

#include <string.h>

#define LISTED_MAX       500         /* files in one answer */
#define LISTED_NAMES_MAX (64u << 10) /* bytes of their paths */
#define LINKS_SHOWN      25 /* up to so many files the text has their links; programs get all of them */

struct list_call {
	struct tool_call base;
	char folder[ENGINE_PATH_MAX];
	struct err
	    no_folder; /* what is said if there is no such folder; ERR_NONE: what the walk says */
};

json_t *extras_json_answer(struct tools *t, const struct mcp_call *call, const struct sandbox *s,
			   const char *path, uint64_t size)
{
	json_t *object = json_pack("{s:s}", "session_id", sandbox_id(s));
	struct tools_links links;

	tools_links_begin(t, call, s, TOOLS_LINKS_FILES, &links);
	json_t *file = tools_json_artifact(&links, path, size);
	tools_links_done(&links);
	if (object && (!file || json_object_update(object, file) < 0)) {
		json_decref(object);
		object = NULL;
	}
	json_decref(file);
	return object;
}

/* ---- the answer, maybe made on a thread ---- */

struct listed_file {
	char *path; /* owned */
	uint64_t size;
};

struct listed {
	struct tools_links links;
	char folder[ENGINE_PATH_MAX];
	bool more;
	size_t n;
	struct listed_file files[];
};

static json_t *files_of(const struct listed *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		if (json_array_append_new(list, tools_json_artifact(&l->links, l->files[i].path,
								    l->files[i].size)) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static int add_text(struct buf *b, const struct listed *l, const json_t *files)
{
	int r = buf_printf(b, "%s%s in session_id: %s\n", l->n == 0 ? "No files" : TOOLS_WORKSPACE,
			   l->n == 0 ? "" : l->folder, l->links.id);
	const json_t *file;
	size_t i;

	json_array_foreach(files, i, file) {
		json_t *shown = json_copy((json_t *)(uintptr_t)file);

		if (l->n > LINKS_SHOWN)
			(void)json_object_del(shown, "download_url");
		r = r < 0 ? r : extras_add_file_line(b, shown);
		json_decref(shown);
	}
	if (r == 0 && l->more)
		r = buf_printf(b, "There are more: give path or a smaller depth, or use "
				  "sandbox_run_shell.\n");
	return r;
}

static json_t *make_list(void *user)
{
	const struct listed *l = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(LISTED_MAX * (4 * ENGINE_PATH_MAX));
	json_t *files = files_of(l);
	int r = files ? add_text(&text, l, files) : -ENOMEM;
	json_t *object = json_pack("{s:s, s:o, s:b}", "session_id", l->links.id, "files", files,
				   "more", l->more);

	return extras_result_of(r < 0 ? NULL : &text, object, NULL);
}

static void listed_free(void *user)
{
	struct listed *l = user;

	for (size_t i = 0; i < l->n; i++)
		free(l->files[i].path);
	tools_links_done(&l->links);
	free(l);
}

static struct listed *listed_new(const struct list_call *c, const struct walk *w)
{
	struct listed *l = calloc(1, sizeof(*l) + w->n * sizeof(l->files[0]));
	size_t names = 0;

	if (!l)
		return NULL;
	l->more = w->more;
	memcpy(l->folder, c->folder, sizeof(l->folder));
	tools_links_begin(c->base.tools, c->base.call, c->base.sandbox, TOOLS_LINKS_FILES,
			  &l->links);
	for (size_t i = 0; i < w->n; i++) {
		char *path = names <= LISTED_NAMES_MAX ? strdup(w->files[i].path) : NULL;

		if (!path) {
			l->more = true;
			break;
		}
		names += strlen(path);
		l->files[l->n++] = (struct listed_file){path, w->files[i].info.size};
	}
	return l;
}

static void on_walked(const struct walk *w, const struct err *e, void *user)
{
	struct list_call *c = user;
	struct mcp_call *call = c->base.call;
	struct listed *l = e ? NULL : listed_new(c, w);

	if (e) {
		extras_fail_err(call, c->no_folder.code == ERR_NONE ? e : &c->no_folder);
	} else if (!l) {
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
	} else {
		mcp_call_keep_note(call, sandbox_id(c->base.sandbox));
		mcp_call_make(call, l->n > TOOLS_MANY_NAMES, make_list, listed_free, l);
	}
	tool_call_free(&c->base);
}

bool extras_is_root(const char *path)
{
	static const char *const roots[] = {
	    ".", "./", "/", "/mnt/data", "/mnt/data/", "/app/results", "/app/results/"};

	for (size_t i = 0; path && i < ARRAY_SIZE(roots); i++)
		if (streq(path, roots[i]))
			return true;
	return false;
}

/* The folder in ARGUMENTS; "" is the workspace. False: the call is finished. */
static bool get_folder(struct mcp_call *call, const json_t *arguments, char *ret)
{
	const json_t *given = json_object_get(arguments, "path");
	const char *path = mcp_text_arg(call, arguments, "path");

	ret[0] = '\0';
	return !given || json_is_null(given) || (path && !*path) || extras_is_root(path) ||
	       extras_path(call, arguments, ret);
}

static void list_folder(struct tools *t, struct mcp_call *call, struct sandbox *s,
			const char *folder, int64_t depth, const struct err *no_folder)
{
	struct err e = ERR_INIT;
	struct list_call *c = tool_call_new(t, call, s, sizeof(*c));

	if (!c)
		return;
	(void)snprintf(c->folder, sizeof(c->folder), "%s", folder);
	if (no_folder)
		c->no_folder = *no_folder;
	const struct walk_request request = {.folder = c->folder,
					     .depth = (unsigned)depth,
					     .max_files = LISTED_MAX,
					     .max_folders = WALK_FOLDERS_MAX};
	sandbox_touch(s);
	if (walk_start(s, &request, on_walked, c, &e) == 0)
		return;
	extras_fail_err(call, &e);
	tool_call_free(&c->base);
}

void extras_list_folder(struct tools *t, struct mcp_call *call, struct sandbox *s,
			const char *folder, const struct err *no_folder)
{
	list_folder(t, call, s, folder, EXTRAS_DEPTH_MAX, no_folder);
}

void extras_list_files(struct mcp_call *call, json_t *arguments, void *user)
{
	char folder[ENGINE_PATH_MAX];
	int64_t depth = EXTRAS_DEPTH_MAX;

	struct sandbox *s = extras_session(user, call, arguments);
	if (!s || !get_folder(call, arguments, folder))
		return;
	(void)args_int(arguments, "depth", &depth);
	list_folder(user, call, s, folder, depth, NULL);
}
