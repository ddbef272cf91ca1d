/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_list_files: the files of a workspace at any depth. */
#include "tools/extras.h"
#include "tools/extras_walk.h"

#include "base/text.h"

#include <string.h>

#define LISTED_MAX  500 /* files in one answer */
#define LINKS_SHOWN 25  /* up to so many files the text has their links; programs get all of them */

struct list_call {
	struct tool_call base;
	char folder[ENGINE_PATH_MAX];
};

json_t *extras_json_file(struct tools *t, const struct sandbox *s, const char *path, uint64_t size)
{
	char shown[ENGINE_PATH_MAX + sizeof(TOOLS_WORKSPACE)];

	ASSERT(path); /* a compiler with sanitizers does not see it */
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	(void)snprintf(shown, sizeof(shown), TOOLS_WORKSPACE "%s", path);
	return json_pack("{s:o, s:o, s:I, s:s, s:o}", "path",
			 tools_json_bytes(shown, strlen(shown)), "filename",
			 tools_json_bytes(name, strlen(name)), "size_bytes", (json_int_t)size,
			 "mime_type", mime_type(name), "download_url", tools_json_link(t, s, path));
}

json_t *extras_json_answer(struct tools *t, const struct sandbox *s, const char *path,
			   uint64_t size)
{
	json_t *object = json_pack("{s:s}", "session_id", sandbox_id(s));
	json_t *file = extras_json_file(t, s, path, size);

	if (object && (!file || json_object_update(object, file) < 0)) {
		json_decref(object);
		object = NULL;
	}
	json_decref(file);
	return object;
}

static json_t *files_of(const struct list_call *c, const struct walk *w)
{
	json_t *list = json_array();

	for (size_t i = 0; i < w->n; i++)
		if (json_array_append_new(list, extras_json_file(c->base.tools, c->base.sandbox,
								 w->files[i].path,
								 w->files[i].info.size)) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static int add_text(struct buf *b, const struct list_call *c, const struct walk *w,
		    const json_t *files)
{
	int r = buf_printf(b, "%s%s in session_id: %s\n", w->n == 0 ? "No files" : TOOLS_WORKSPACE,
			   w->n == 0 ? "" : c->folder, sandbox_id(c->base.sandbox));
	const json_t *file;
	size_t i;

	json_array_foreach(files, i, file) {
		json_t *shown = json_copy((json_t *)(uintptr_t)file);

		if (w->n > LINKS_SHOWN)
			(void)json_object_del(shown, "download_url");
		r = r < 0 ? r : extras_add_file_line(b, shown);
		json_decref(shown);
	}
	if (r == 0 && w->more)
		r = buf_printf(b, "There are more: give path or a smaller depth, or use "
				  "sandbox_run_shell.\n");
	return r;
}

static void on_walked(const struct walk *w, const struct err *e, void *user)
{
	struct list_call *c = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(LISTED_MAX * (4 * ENGINE_PATH_MAX));

	if (e) {
		extras_fail_err(c->base.call, e);
		tool_call_free(&c->base);
		return;
	}
	json_t *files = files_of(c, w);
	int r = files ? add_text(&text, c, w, files) : -ENOMEM;
	json_t *object = json_pack("{s:s, s:o, s:b}", "session_id", sandbox_id(c->base.sandbox),
				   "files", files, "more", w->more);
	extras_finish_text(c->base.call, r < 0 ? NULL : &text, object, NULL);
	tool_call_free(&c->base);
}

/* The folder in ARGUMENTS; "" is the workspace. False: the call is finished. */
static bool get_folder(struct mcp_call *call, const json_t *arguments, char *ret)
{
	static const char *const roots[] = {
	    "", ".", "./", "/", "/mnt/data", "/mnt/data/", "/app/results", "/app/results/"};
	const json_t *given = json_object_get(arguments, "path");
	const char *path = mcp_text_arg(call, arguments, "path");
	bool is_root = !given || json_is_null(given);

	ret[0] = '\0';
	for (size_t i = 0; path && i < ARRAY_SIZE(roots); i++)
		is_root = is_root || streq(path, roots[i]);
	return is_root || extras_path(call, arguments, ret);
}

void extras_list_files(struct mcp_call *call, json_t *arguments, void *user)
{
	char folder[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;
	int64_t depth = EXTRAS_DEPTH_MAX;

	struct sandbox *s = extras_session(user, call, arguments);
	if (!s || !get_folder(call, arguments, folder))
		return;
	(void)args_int(arguments, "depth", &depth);
	struct list_call *c = tool_call_new(user, call, s, sizeof(*c));
	if (!c)
		return;
	memcpy(c->folder, folder, sizeof(folder));
	const struct walk_request request = {.folder = folder,
					     .depth = (unsigned)depth,
					     .max_files = LISTED_MAX,
					     .max_folders = WALK_FOLDERS_MAX};
	sandbox_touch(s);
	if (walk_start(s, &request, on_walked, c, &e) == 0)
		return;
	extras_fail_err(call, &e);
	tool_call_free(&c->base);
}
