/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_run_python and sandbox_run_shell of the lean family. After the run the pictures that
 * it made are read. */
#include "tools/extras.h"
#include "tools/extras_disk.h"
#include "tools/fold.h"
#include "tools/picture.h"

#include "base/jsonio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <string.h>

#define RUN_TEXT_MAX (32u << 20) /* bytes of an answer's text */
#define WORDS_MAX                                                                                  \
	16384u /* bytes of an answer besides text, object and pictures: hints, links to pictures */

#define LOOKED_AT_MAX 2000 /* new files among which pictures are looked for */
#define OTHERS_MAX    20   /* pictures that are named and not shown */

/* A run that has ended and whose pictures are being read. */
struct pictures {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox;        /* reference */
	json_t *object;                 /* owned: the object that becomes the text */
	json_t *blocks;                 /* owned: image blocks so far */
	char *names[EXTRAS_IMAGES_MAX]; /* owned paths, relative to the workspace */
	uint64_t sizes[EXTRAS_IMAGES_MAX];
	size_t n, next;
	uint64_t room;  /* bytes of pictures that the answer still takes */
	json_t *others; /* owned, or NULL: names of pictures beyond the limit */
	size_t n_others;
	bool scaled, linked;
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
	static const char scaled[] =
	    "Pictures that are too large for one answer are shown smaller; their files are as the "
	    "run made them.";
	static const char linked[] =
	    "A picture that is too large for this answer and could not be made smaller is a link.";

	if (p->disk_full) {
		p->disk_full = false;
		if (disk_tell(p->sandbox, on_disk_told, p))
			return;
	}
	if (p->scaled)
		extras_run_append_hint(p->object, scaled);
	if (p->linked)
		extras_run_append_hint(p->object, linked);
	/* Without memory the names are missing here; the artifacts still list the files. */
	if (p->others) {
		(void)json_object_set_new(p->object, "pictures_not_shown", p->others);
		(void)json_object_set_new(p->object, "pictures_left_out",
					  json_integer((json_int_t)p->n_others));
	}
	finish_object(p->call, p->object, p->blocks);
	for (size_t i = 0; i < p->n; i++)
		free(p->names[i]);
	(void)sandbox_unref(p->sandbox);
	free(p);
}

static void add_picture(struct pictures *p, json_t *block)
{
	const uint64_t bytes = json_string_length(json_object_get(block, "data")) / 4 * 3;

	/* A file that is not a picture or has gone is only named in the text. */
	if (block && json_array_append_new(p->blocks, block) < 0)
		p->next = p->n;
	p->room -= MIN(bytes, p->room);
	read_next(p);
}

static void link_picture(struct pictures *p)
{
	const size_t i = p->next - 1;

	p->linked = true;
	add_picture(p, picture_link(p->sandbox, p->names[i], p->sizes[i]));
}

static void on_shrunk(json_t *block, unsigned pages UNUSED, void *user)
{
	struct pictures *p = user;

	p->scaled = p->scaled || block;
	if (block)
		add_picture(p, block);
	else
		link_picture(p);
}

static void on_picture_read(char *data, ssize_t n, void *user)
{
	_cleanup_free_ char *owned = data;

	add_picture(user, data ? extras_image_block(data, (size_t)n) : NULL);
}

static void on_picture(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct pictures *p = user;
	const char *who = sandbox_owner(p->sandbox);

	if (!e && info->size <= p->sizes[p->next - 1]) { /* it may have changed meanwhile */
		workers_read(who, fd, 0, (size_t)info->size, on_picture_read, p);
		return;
	}
	workers_close(who, fd);
	add_picture(p, NULL);
}

static void read_next(struct pictures *p)
{
	struct err e = ERR_INIT;

	while (p->next < p->n) {
		const size_t i = p->next++;
		const size_t share = picture_share(p->sizes + i, p->n - i, p->room);

		if (p->sizes[i] > share && share < PICTURE_LEAST) {
			link_picture(p);
			return;
		}
		const int r = p->sizes[i] > share
				  ? picture_make(p->sandbox, p->names[i], PICTURE_RASTER, 0, share,
						 on_shrunk, p, &e)
				  : sandbox_open_file(p->sandbox, p->names[i], on_picture, p, &e);

		if (r == 0)
			return;
	}
	pictures_end(p);
}

static void collect_picture(struct pictures *p, const char *path, uint64_t size)
{
	const char *type = mime_type(path);

	if (size > PICTURE_FILE_MAX || !text_starts_with(type, "image/") ||
	    streq(type, "image/svg+xml"))
		return;
	if (p->n == EXTRAS_IMAGES_MAX) {
		p->n_others++;
		p->others = p->others ? p->others : json_array();
		if (json_array_size(p->others) < OTHERS_MAX)
			(void)json_array_append_new(p->others,
						    tools_json_bytes(path, strlen(path)));
		return;
	}
	p->sizes[p->n] = size;
	p->names[p->n] = strdup(path);
	p->n += p->names[p->n] ? 1 : 0;
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
	p->disk_full = run_result_disk_was_full(result);
	/* The object comes as text and as it is. */
	p->room =
	    tools_answer_room(p->tools, p->call, 2 * jsonio_size(object, RUN_TEXT_MAX) + WORDS_MAX);
	for (size_t i = 0; i < MIN(result->n_artifacts, (size_t)LOOKED_AT_MAX); i++)
		collect_picture(p, result->artifacts[i].name, result->artifacts[i].size);
	read_next(p);
}

/* ---- the calls ---- */

/* Reads the text for standard input. False: C is gone, and the call is finished. */
static bool take_input(struct run_call *c, const json_t *arguments)
{
	const uint64_t max = c->tools->config.max_code_bytes;
	struct mcp_call *call = c->call;
	struct mcp_text_ref text = tools_text_arg(call, arguments, "stdin");

	if (text.len == 0)
		return true;
	c->request.input_len = text.len;
	c->input = text.len <= max ? tools_text_take(&text) : NULL;
	c->request.input = c->input;
	if (c->input)
		return true;
	run_call_free(c);
	if (text.len > max)
		extras_fail(call, "stdin_too_large",
			    "Write it to a file with sandbox_write_file and let the run read that.",
			    "stdin is %zu bytes, the limit is %ju.", text.len, (uintmax_t)max);
	else
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory for stdin", NULL);
	return false;
}

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
	if (c && !take_input(c, arguments))
		return NULL;
	if (c) {
		c->request.timeout_ns = timeout;
		c->request.beside = args_bool(arguments, "parallel", false);
		c->request.root = args_is(arguments, "user", "root");
		c->background = extras_starts_background(c->text, streq(key, "command"));
		/* Whether it is left out is known when it is there: see fold_room(). */
		c->request.whole_over = t->config.result_chars / FOLD_WEIGHT_MAX;
		c->finish = finish;
		c->live = true;
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
	const char *context = json_string_value(json_object_get(arguments, "context"));
	const size_t length = json_string_length(json_object_get(arguments, "context"));
	const char *named = json_string_value(json_object_get(arguments, "language"));
	enum run_language language = LANGUAGE_PYTHON;

	if (context && !parse_is_session_id(context, length)) {
		extras_fail(call, "invalid_argument", "Give another name.",
			    "A context has 1-64 letters, numbers, hyphens and underscores.");
		return;
	}
	if (named && !language_read(named, &language)) {
		extras_fail(call, "invalid_argument", "Use sandbox_run_shell for other languages.",
			    "language is python, javascript or typescript.");
		return;
	}

	struct run_call *c = prepare(t, call, arguments, "code", t->config.max_code_bytes);
	if (!c)
		return;
	c->request.restarts = args_bool(arguments, "restart", false);
	c->request.language = language;
	if (context) {
		(void)!text_copy(c->context, sizeof(c->context), context);
		c->request.context = c->context;
	}
	c->request.kind = context || c->request.restarts || args_bool(arguments, "stateful", false)
			      ? ENGINE_RUN_STATEFUL
			      : ENGINE_RUN_PYTHON;
	c->request.display = t->config.save_figures_extras;
	c->request.notebook = true;
	c->request.code = c->text;
	c->request.code_len = c->text_len;
	run_call_start(c);
}

/* Blanks a fence of Markdown around TEXT, or the prompts before its lines, and says what it was; NULL: there is none.
 * As commands both always fail. */
static const char *blank_shell_marks(char *text)
{
	static const char *const languages[] = {"", "bash", "sh", "shell", "console", "zsh"};
	static const char blanks[] = " \t\r\n";
	char *first = text + strspn(text, blanks), *end = first + strcspn(first, "\n");
	char *last = strrchr(end, '`');
	size_t prompts = 0, lines = 0;

	if (strncmp(first, "```", 3) == 0 && last && last - end >= 3 &&
	    memcmp(last - 2, "```", 3) == 0 && strchr(blanks, last[-3]) &&
	    last[1 + strspn(last + 1, blanks)] == '\0')
		for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
			const size_t n = strlen(languages[i]);

			if (strncmp(first + 3, languages[i], n) != 0 ||
			    first + 3 + n + strspn(first + 3 + n, " \t\r") != end)
				continue;
			memset(first, ' ', (size_t)(end - first));
			memset(last - 2, ' ', 3);
			return "fences of Markdown (```)";
		}
	for (char *line = first; *line; line += strcspn(line, "\n"), line += strspn(line, blanks)) {
		lines++;
		prompts += line[0] == '$' && line[1] == ' ';
	}
	if (prompts == 0 || prompts < lines)
		return NULL;
	for (char *line = first; *line; line += strcspn(line, "\n"), line += strspn(line, blanks))
		line[0] = ' ';
	return "prompts ($)";
}

void extras_shell_argv(const char *command, const char *ret[EXTRAS_SHELL_ARGV])
{
	/* Models write bash, but small images have only sh. */
	static const char shell[] = "if command -v bash >/dev/null 2>&1; then exec bash -c \"$0\"; "
				    "else exec sh -c \"$0\"; fi";
	const char *const argv[EXTRAS_SHELL_ARGV] = {"sh", "-c", shell, command, NULL};

	memcpy(ret, argv, sizeof(argv));
}

void extras_run_shell(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;

	struct run_call *c = prepare(t, call, arguments, "command",
				     MIN(t->config.max_code_bytes, (uint64_t)EXTRAS_SHELL_MAX));
	if (!c)
		return;
	c->blanked = blank_shell_marks(c->text);
	c->request.kind = ENGINE_RUN_ARGV;
	extras_shell_argv(c->text, c->argv);
	c->request.argv = c->argv;
	c->request.asked = EXTRAS_SHELL_ARGV - 2;
	run_call_start(c);
}
