/* SPDX-License-Identifier: Apache-2.0 */
/* envd: processes are started, found and given input. One of envd is a background process of the sandbox (sandbox/process.h): it
 * goes on without its client, and its number is that of the background process, which programs in the sandbox do not
 * know. */
#include "faces/e2b/templates.h"

#include "base/base64.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/sandbox_names.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_EARLY_MS 200 /* at most; a tenth of the timeout */
#define WORDS_MAX        256u
#define INPUT_PIECE      (PROCESS_INPUT_MAX / 2)

unsigned e2b_pid(const struct process_facts *f)
{
	uint64_t n;

	return parse_u64(f->id + 1, 0, UINT32_MAX, &n) < 0 ? 0 : (unsigned)n; /* "p12" */
}

/* ---- start ---- */

struct start {
	const char *argv[WORDS_MAX + 2];
	const char *env[PROCESS_ENV_MAX + 1];
	size_t env_at[PROCESS_ENV_MAX]; /* where each begins in TEXTS */
	size_t n_env;
	struct buf texts;
	struct buf cwd;     /* absolute */
	struct buf command; /* for people */
};

static int bad(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID_ARGUMENT, 0, "%s", why);
}

/* A text that a program can be given. */
static const char *plain(const json_t *v)
{
	const char *text = json_string_value(v);

	return text && strlen(text) == json_string_length(v) ? text : NULL;
}

static int read_words(const json_t *process, struct start *s, struct err *e)
{
	const json_t *args = json_object_get(process, "args"), *v;
	size_t i;
	int r = 0;

	s->argv[0] = plain(json_object_get(process, "cmd"));
	if (!s->argv[0] || !*s->argv[0] || json_array_size(args) > WORDS_MAX)
		return bad(e, "process: a cmd, and at most 256 args");
	json_array_foreach(args, i, v) {
		s->argv[i + 1] = plain(v);
		if (!s->argv[i + 1])
			return bad(e, "process: args are texts without NUL");
	}
	/* The SDKs run every command by a shell. */
	if (i == 3 && streq(s->argv[1], "-l") && streq(s->argv[2], "-c"))
		return buf_add_str(&s->command, s->argv[3]);
	for (i = 0; s->argv[i] && r == 0; i++)
		r = buf_add_shell_word(&s->command, s->argv[i]);
	return r;
}

static int add_variable(struct start *s, const char *name, const char *value, struct err *e)
{
	if (s->n_env == PROCESS_ENV_MAX)
		return bad(e, "envs: too many variables");
	if (!value || !*name || strchr(name, '='))
		return bad(e, "envs: names without =, and texts without NUL");
	s->env_at[s->n_env++] = s->texts.len;
	return buf_printf(&s->texts, "%s=%s%c", name, value, '\0');
}

static int read_env(const json_t *process, bool root, struct start *s, struct err *e)
{
	static const char *const own[][2] = {
	    {"HOME", E2B_HOME}, {"USER", "user"}, {"LOGNAME", "user"}, {"SHELL", "/bin/bash"}};
	const size_t first = root ? ARRAY_SIZE(own) - 1 : 0; /* root has its own from the engine */
	json_t *envs = json_object_get(process, "envs"), *v;
	const char *key;
	int r = 0;

	for (size_t i = first; i < ARRAY_SIZE(own) && r == 0; i++)
		if (!json_object_get(envs, own[i][0]))
			r = add_variable(s, own[i][0], own[i][1], e);
	json_object_foreach(envs, key, v)
		r = r < 0 ? r : add_variable(s, key, plain(v), e);
	for (size_t i = 0; i < s->n_env; i++)
		s->env[i] = s->texts.data + s->env_at[i];
	return r;
}

static int read_size(const json_t *size, struct process_request *q, struct err *e)
{
	const json_int_t rows = json_integer_value(json_object_get(size, "rows"));
	const json_int_t columns = json_integer_value(json_object_get(size, "cols"));

	if (rows < 1 || rows > ENGINE_TERMINAL_MAX || columns < 1 || columns > ENGINE_TERMINAL_MAX)
		return bad(e, "pty: 1 to 1000 rows and cols");
	q->rows = (uint32_t)rows;
	q->columns = (uint32_t)columns;
	return 0;
}

static int read_start(struct e2b_call *c, struct start *s, struct process_request *q, struct err *e)
{
	const json_t *process = json_object_get(c->body, "process");
	const json_t *size = json_object_get(json_object_get(c->body, "pty"), "size");
	const char *cwd = json_string_value(json_object_get(process, "cwd"));
	const char *timeout = http_request_header(c->req, "connect-timeout-ms");
	uint64_t ms = 0;
	int r = e2b_check_user(c, e);

	r = r < 0 ? r : read_words(process, s, e);
	r = r < 0 ? r : read_env(process, c->root, s, e);
	const struct e2b_build *build = c->sandbox->build;
	r = r < 0 ? r
		  : buf_printf(&s->cwd, "%s%s%s",
			       cwd && cwd[0] == '/' ? ""
			       : !cwd && build      ? build->setup.workdir
			       : c->root            ? E2B_ROOT_HOME
						    : E2B_HOME,
			       cwd && cwd[0] == '/' ? "" : "/", cwd ? cwd : "");
	if (r == 0 && timeout && parse_u64(timeout, 0, UINT64_MAX / NS_PER_MS, &ms) < 0)
		r = bad(e, "Connect-Timeout-Ms is no number");
	if (r < 0)
		return e->code != ERR_NONE ? r
					   : err_set(e, ERR_INVALID_ARGUMENT, -r, "the process");
	*q = (struct process_request){
	    .command = buf_str(&s->command),
	    .name = json_string_value(json_object_get(c->body, "tag")),
	    .argv = s->argv,
	    .cwd = buf_str(&s->cwd),
	    .env = s->env,
	    .root = c->root,
	    .input = !json_is_false(json_object_get(c->body, "stdin")),
	    /* SDKs of 2025 stop reading after the same time: our word has to come first. */
	    .timeout_ns = (ms - MIN(ms / 10, (uint64_t)TIMEOUT_EARLY_MS)) * NS_PER_MS,
	    .credential = c->who,
	};
	return size ? read_size(size, q, e) : 0;
}

void e2b_start_process(struct e2b_call *c)
{
	struct start s = {.texts = BUF_INIT(2 * E2B_FRAME_MAX),
			  .cwd = BUF_INIT(SANDBOX_PLACE_MAX),
			  .command = BUF_INIT(4 * E2B_FRAME_MAX)};
	struct process_request q;
	struct process *p = NULL;
	struct err e = ERR_INIT;

	int r = read_start(c, &s, &q, &e);
	r = r < 0 ? r : sandbox_start_process(c->sandbox->sandbox, &q, &p, &e);
	r = r < 0 ? r : e2b_follow(c, p, false, &e);
	if (r < 0 && p)
		process_forget(p);
	buf_done(&s.texts);
	buf_done(&s.cwd);
	buf_done(&s.command);
	if (r < 0)
		e2b_fail(c, &e);
}

/* ---- those that are there ---- */

struct search {
	uint64_t pid;
	const char *tag;
	struct process *found;
};

static void look_at(struct process *p, void *user)
{
	struct search *s = user;
	struct process_facts f;

	process_look(p, &f);
	if (s->tag ? streq(f.name, s->tag) && f.running : e2b_pid(&f) == s->pid)
		s->found = p;
}

/* The process that the body names; NULL after it has answered. RUNNING: one that has ended is none. */
static struct process *need(struct e2b_call *c, bool running)
{
	const json_t *selector = json_object_get(c->body, "process");
	struct search s = {
	    .pid = (uint64_t)json_integer_value(json_object_get(selector, "pid")),
	    .tag = json_string_value(json_object_get(selector, "tag")),
	};
	struct process_facts f = {0};

	sandbox_each_process(c->sandbox->sandbox, look_at, &s);
	if (s.found)
		process_look(s.found, &f);
	if (s.found && (f.running || !running))
		return s.found;
	e2b_refuse(c, ERR_NOT_FOUND, "there is no such process");
	return NULL;
}

void e2b_connect_process(struct e2b_call *c)
{
	struct process *p = need(c, false);
	struct err e = ERR_INIT;

	if (p && e2b_follow(c, p, true, &e) < 0)
		e2b_fail(c, &e);
}

/* What a process was started with is kept for people only, as a command of a shell. */
static void add_row(struct process *p, void *user)
{
	struct process_facts f;

	process_look(p, &f);
	if (!f.running)
		return;
	json_t *row = json_pack("{s:i, s:{s:s, s:[s, s, o], s:{}, s:s}}", "pid", (int)e2b_pid(&f),
				"config", "cmd", "/bin/bash", "args", "-l", "-c",
				e2b_text_json(f.command), "envs", "cwd", E2B_HOME);
	if (f.name[0])
		(void)json_object_set_new(row, "tag", e2b_text_json(f.name));
	(void)json_array_append_new(user, row);
}

void e2b_list_processes(struct e2b_call *c)
{
	json_t *rows = json_array();

	sandbox_each_process(c->sandbox->sandbox, add_row, rows);
	e2b_reply(c, 200, json_pack("{s:o}", "processes", rows));
}

static void answer(struct e2b_call *c, int r, const struct err *e)
{
	if (r < 0)
		e2b_fail(c, e);
	else
		e2b_reply(c, 200, json_object());
}

void e2b_send_signal(struct e2b_call *c)
{
	const char *name = json_string_value(json_object_get(c->body, "signal"));
	struct process *p = need(c, true);
	struct err e = ERR_INIT;

	if (!p)
		return;
	const int signo = name && streq(name, "SIGNAL_SIGKILL")   ? SIGKILL
			  : name && streq(name, "SIGNAL_SIGTERM") ? SIGTERM
								  : 0;
	answer(c,
	       signo ? process_signal(p, signo, &e)
		     : bad(&e, "signal: SIGNAL_SIGKILL or SIGNAL_SIGTERM"),
	       &e);
}

static void on_resized(const struct engine_stat *st UNUSED, const struct err *e UNUSED, void *user)
{
	e2b_reply(user, 200, json_object());
}

/* Input goes another way than the size, and could be there before it. What init is asked next, it answers when the terminal has its
 * size. */
void e2b_update_process(struct e2b_call *c)
{
	const json_t *size = json_object_get(json_object_get(c->body, "pty"), "size");
	struct process *p = need(c, true);
	struct err e = ERR_INIT;

	if (!p)
		return;
	int r = process_resize(p, json_integer_value(json_object_get(size, "rows")),
			       json_integer_value(json_object_get(size, "cols")), &e);
	r = r < 0 ? r : sandbox_stat(c->sandbox->sandbox, "", on_resized, c, &e);
	if (r < 0)
		e2b_fail(c, &e);
}

void e2b_close_input(struct e2b_call *c)
{
	struct process *p = need(c, true);
	struct err e = ERR_INIT;

	if (p)
		answer(c, process_write(p, NULL, 0, true, &e), &e);
}

/* ---- input ---- */

/* More than fits at once is given as the process reads. The client waits for its answer; what waits when it leaves is dropped. */
struct input {
	struct e2b_call *call;
	struct process *process; /* reference */
	struct process_watch watch;
	uint8_t *bytes; /* owned */
	size_t len, at;
};

static void input_end(struct input *in, int r, const struct err *e)
{
	struct e2b_call *c = in->call;

	process_unwatch(&in->watch);
	(void)process_unref(in->process);
	free(in->bytes);
	free(in);
	answer(c, r, e);
}

/* What waits for a process that does not read must not outlive the client that it counts for. */
static void on_left(void *user)
{
	struct input *in = user;
	struct err e = ERR_INIT;

	in->call->req = NULL;
	(void)err_set(&e, ERR_CANCELLED, 0, "the client has left");
	input_end(in, -ECANCELED, &e);
}

static void give(struct input *in)
{
	struct process_facts f;
	struct err e = ERR_INIT;
	int r = 0;

	while (in->at < in->len && r == 0) {
		const size_t n = MIN(in->len - in->at, (size_t)INPUT_PIECE);

		r = process_write(in->process, in->bytes + in->at, n, false, &e);
		in->at += r == 0 ? n : 0;
	}
	process_look(in->process, &f);
	if (r < 0 && e.code == ERR_SERVER_BUSY && f.running)
		return;
	input_end(in, r, &e);
}

static void on_room(struct process_watch *w)
{
	give(CONTAINER_OF(w, struct input, watch));
}

static int decode(const char *text, struct input *in)
{
	struct base64_decoder d = {0};
	const size_t len = strlen(text);
	size_t end = 0;

	in->bytes = malloc(BASE64_DECODED_MAX(len) + BASE64_END_MAX);
	if (!in->bytes)
		return -ENOMEM;
	int r = base64_decode(&d, text, len, in->bytes, &in->len);
	r = r < 0 ? r : base64_decode_end(&d, in->bytes + in->len, &end);
	in->len += end;
	return r;
}

void e2b_send_input(struct e2b_call *c)
{
	const json_t *input = json_object_get(c->body, "input");
	const char *text = json_string_value(json_object_get(input, "stdin"));
	struct process *p = need(c, true);

	if (!p)
		return;
	if (!text)
		text = json_string_value(json_object_get(input, "pty"));
	struct input *in = calloc(1, sizeof(*in));
	if (!in || !text || decode(text, in) < 0) {
		if (in)
			free(in->bytes);
		free(in);
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "input: stdin or pty, in base64");
		return;
	}
	in->call = c;
	in->process = process_ref(p);
	in->watch.fn = on_room;
	list_init(&in->watch.node);
	process_watch(p, &in->watch);
	http_request_on_gone(c->req, on_left, in);
	give(in);
}
