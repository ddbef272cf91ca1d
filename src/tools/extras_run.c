/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_run_python and sandbox_run_shell of the lean family. After the run: new files in folders of
 * the workspace are looked for, and the pictures that the run made are read. */
#include "tools/extras.h"
#include "tools/extras_disk.h"
#include "tools/extras_walk.h"
#include "tools/picture.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define RUN_TEXT_MAX (32u << 20) /* bytes of an answer's text */
#define SHELL_MAX    120000u     /* bytes of a command: the kernel allows 128 KiB in one argument */
#define DEEP_DEPTH   8           /* levels of folders in which new files are looked for */
#define DEEP_FOLDERS 64          /* folders that are looked into after one run */
#define DEEP_FILES   50          /* new files that are found there */

/* A run that has ended and whose pictures are being read. */
struct pictures {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox;        /* reference */
	json_t *object;                 /* owned: the object that becomes the text */
	json_t *blocks;                 /* owned: image blocks so far */
	char *names[EXTRAS_IMAGES_MAX]; /* owned paths, relative to the workspace */
	bool large[EXTRAS_IMAGES_MAX];  /* too large for an answer: must be scaled down */
	size_t n, next;
	json_t *others; /* owned, or NULL: names of pictures beyond the limit */
	bool scaled;
	bool disk_full; /* the answer is to say so */
};

/* ---- the answer ---- */

static void finish_object(struct mcp_call *call, json_t *object, json_t *pictures)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(RUN_TEXT_MAX);
	int r = object ? extras_add_run(&text, object) : -ENOMEM;

	extras_finish_text(call, r < 0 ? NULL : &text, object, pictures);
}

/* ---- pictures ---- */

static void read_next(struct pictures *p);

static void pictures_end(struct pictures *p);

static void on_disk_told(const char *hint, void *user)
{
	struct pictures *p = user;

	if (*hint)
		extras_run_append_hint(p->object, hint);
	pictures_end(p);
}

static void pictures_end(struct pictures *p)
{
	static const char note[] =
	    "Pictures over 1.5 MiB are shown smaller; their files are as the "
	    "run made them.";

	if (p->disk_full) {
		p->disk_full = false;
		if (disk_tell(p->sandbox, on_disk_told, p))
			return;
	}
	if (p->scaled)
		extras_run_append_hint(p->object, note);
	/* Without memory the names are missing here; the artifacts still list the files. */
	if (p->others)
		(void)json_object_set_new(p->object, "pictures_not_shown", p->others);
	finish_object(p->call, p->object, p->blocks);
	for (size_t i = 0; i < p->n; i++)
		free(p->names[i]);
	(void)sandbox_unref(p->sandbox);
	free(p);
}

static void add_picture(struct pictures *p, json_t *block)
{
	/* A file that is not a picture, cannot be scaled down or has gone is only a link in the
	 * text. */
	if (block && json_array_append_new(p->blocks, block) < 0)
		p->next = p->n;
	read_next(p);
}

static void on_shrunk(json_t *block, unsigned pages UNUSED, void *user)
{
	struct pictures *p = user;

	p->scaled = p->scaled || block;
	add_picture(p, block);
}

static void on_picture(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	_cleanup_fd_ int file = fd;
	struct pictures *p = user;

	add_picture(p, e ? NULL : extras_image_block(file, info->size));
}

static void read_next(struct pictures *p)
{
	struct err e = ERR_INIT;

	while (p->next < p->n) {
		const size_t i = p->next++;
		const int r =
		    p->large[i]
			? picture_make(p->sandbox, p->names[i], PICTURE_RASTER, 0, on_shrunk, p, &e)
			: sandbox_open_file(p->sandbox, p->names[i], on_picture, p, &e);

		if (r == 0)
			return;
	}
	pictures_end(p);
}

static void collect_picture(struct pictures *p, const char *path, uint64_t size)
{
	if (size > PICTURE_FILE_MAX || !text_starts_with(mime_type(path), "image/") ||
	    streq(mime_type(path), "image/svg+xml"))
		return;
	if (p->n == EXTRAS_IMAGES_MAX) {
		p->others = p->others ? p->others : json_array();
		(void)json_array_append_new(p->others, tools_json_bytes(path, strlen(path)));
		return;
	}
	p->large[p->n] = size > EXTRAS_IMAGE_BYTES_MAX;
	p->names[p->n] = strdup(path);
	p->n += p->names[p->n] ? 1 : 0;
}

/* ---- new files in folders ---- */

static void on_walked(const struct walk *w, const struct err *e UNUSED, void *user)
{
	struct pictures *p = user;
	json_t *artifacts = json_object_get(p->object, "artifacts");

	/* If they cannot be listed, the answer just does not name them. */
	for (size_t i = 0; w && i < w->n; i++) {
		const struct walk_file *f = &w->files[i];

		(void)json_array_append_new(
		    artifacts, extras_json_file(p->tools, p->sandbox, f->path, f->info.size));
		collect_picture(p, f->path, f->info.size);
	}
	read_next(p);
}

/* True: on_walked() will be called. */
static bool walk_folders(struct pictures *p, const struct run_call *c,
			 const struct run_result *result)
{
	/* The kernel sets the time of an inode's change; no program in the sandbox can choose it. */
	const struct walk_request request = {
	    .folder = "",
	    .depth = DEEP_DEPTH,
	    .quiet = true,
	    .below = true,
	    .since_ns = (int64_t)c->start_wall_ns,
	    .max_files = DEEP_FILES,
	    .max_folders = DEEP_FOLDERS,
	};
	struct err e = ERR_INIT;

	return result->has_folders && walk_start(c->sandbox, &request, on_walked, p, &e) == 0;
}

static void finish(struct run_call *c, const struct run_result *result, const struct err *e)
{
	if (e) {
		extras_fail_open(c->tools, c->call, e);
		return;
	}
	json_t *object = extras_run_object(c, result);
	struct pictures *p = calloc(1, sizeof(*p));
	if (!object || !p) {
		free(p);
		finish_object(c->call, object, NULL);
		return;
	}
	p->tools = c->tools;
	p->call = c->call;
	p->sandbox = sandbox_ref(c->sandbox);
	p->object = object;
	p->blocks = json_array();
	p->disk_full = disk_was_full(result);
	for (size_t i = 0; i < result->n_artifacts; i++)
		collect_picture(p, result->artifacts[i].name, result->artifacts[i].size);
	if (!walk_folders(p, c, result))
		read_next(p);
}

/* ---- the calls ---- */

/* What both tools begin with: checks, and a call that lacks only what it runs. */
static struct run_call *prepare(struct tools *t, struct mcp_call *call, const json_t *arguments,
				const char *key, uint64_t max)
{
	char id[SANDBOX_ID_MAX + 1];
	uint64_t timeout;

	if (!extras_session_id(call, arguments, true, id) ||
	    !extras_timeout(t, call, arguments, &timeout))
		return NULL;
	struct mcp_text_ref text = tools_text_arg(call, arguments, key);
	if (text.len > max) {
		extras_fail(call, "code_too_large",
			    "Write it to a file with sandbox_write_file and run that.",
			    "%s is %zu bytes, the limit is %ju.", key, text.len, (uintmax_t)max);
		return NULL;
	}
	struct run_call *c = run_call_new(t, call, id, &text);
	if (c && strlen(c->text) != c->text_len) {
		run_call_free(c);
		extras_fail(call, "invalid_argument", "Write it as \\0 in a string literal.",
			    "%s holds a NUL byte", key);
		return NULL;
	}
	if (c) {
		c->request.timeout_ns = timeout;
		c->background = extras_starts_background(c->text);
		c->request.whole_over = t->config.result_chars;
		c->finish = finish;
		c->live = true;
		c->request.artifacts_always = true;
		c->last = extras_is_last(arguments);
		const char *before = mcp_call_note(call);
		if (before && strlen(before) <= SANDBOX_ID_MAX)
			memcpy(c->before, before, strlen(before) + 1);
	}
	return c;
}

void extras_run_python(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;

	struct run_call *c = prepare(t, call, arguments, "code", t->config.max_code_bytes);
	if (!c)
		return;
	c->request.kind =
	    args_bool(arguments, "stateful", false) ? ENGINE_RUN_STATEFUL : ENGINE_RUN_PYTHON;
	c->request.display = t->config.save_figures_extras;
	c->request.notebook = true;
	c->request.code = c->text;
	c->request.code_len = c->text_len;
	run_call_start(c);
}

void extras_run_shell(struct mcp_call *call, json_t *arguments, void *user)
{
	/* Models write bash, but small images have only sh. */
	static const char shell[] = "if command -v bash >/dev/null 2>&1; then exec bash -c \"$0\"; "
				    "else exec sh -c \"$0\"; fi";
	struct tools *t = user;

	struct run_call *c = prepare(t, call, arguments, "command",
				     MIN(t->config.max_code_bytes, (uint64_t)SHELL_MAX));
	if (!c)
		return;
	const char *const argv[] = {"sh", "-c", shell, c->text, NULL};
	c->request.kind = ENGINE_RUN_ARGV;
	memcpy(c->argv, argv, sizeof(argv));
	c->request.argv = c->argv;
	run_call_start(c);
}
