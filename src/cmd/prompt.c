/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson run -i`: a Python prompt whose statements are the stateful runs of one sandbox.
 *
 * A loop of three steps: read lines of standard input until they are a whole statement, run it,
 * save its files. Standard input is read only between runs. On a terminal, a process of its own edits the
 * lines and keeps the history (line_editor.h); without it, the terminal's own line editing is all there is.
 * From a pipe or a file, only what the code prints is printed. */
#include "cmd/run_verb.h"
#include "cmd/statement.h"

#include "base/fdio.h"
#include "base/text.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_BYTES 4096
#define PROMPT     ">>> "
#define PROMPT_ON  "... "

struct prompt {
	struct run_verb *v;
	sd_event_source *input;
	struct buf lines;     /* read, but not used yet */
	struct buf statement; /* the lines of the statement so far */
	bool terminal;
	bool at_end;  /* of standard input */
	bool leaving; /* the running statement is the last one: exit() */
};

static void say(const char *text)
{
	(void)!fd_write_all(STDERR_FILENO, text, strlen(text));
}

/* Asks for a line. */
static void ask(const struct prompt *p)
{
	const bool more = p->statement.len > 0;

	if (p->v->editor.fd >= 0)
		line_editor_order(&p->v->editor, more ? LINE_EDITOR_MORE : LINE_EDITOR_FIRST);
	else if (p->terminal)
		say(more ? PROMPT_ON : PROMPT);
}

static int input_of(const struct prompt *p)
{
	return p->v->editor.fd >= 0 ? p->v->editor.fd : STDIN_FILENO;
}

static void leave(struct prompt *p)
{
	(void)sd_event_exit(p->v->app.loop, 0);
}

/* Is TEXT `exit` or `quit`, with or without a call? An argument of the call becomes the exit status. */
static bool is_farewell(const char *text, bool *ret_called)
{
	static const char *const words[] = {"exit", "quit"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!text_starts_with(text, words[i]))
			continue;
		const char *rest = text + strlen(words[i]);
		rest += strspn(rest, " \t");
		*ret_called = *rest == '(';
		return *ret_called || *rest == '\n' || *rest == '\0';
	}
	return false;
}

static void run_statement(struct prompt *p)
{
	struct err e = ERR_INIT;
	bool called = false;

	p->leaving = is_farewell(buf_str(&p->statement), &called);
	if (p->leaving && !called) {
		p->v->status = 0;
		leave(p);
		return;
	}
	(void)sd_event_source_set_enabled(p->input, SD_EVENT_OFF);
	if (run_verb_start(p->v, &p->statement, &e) < 0)
		run_verb_fail(p->v, &e);
	buf_reset(&p->statement);
}

/* Moves one line from `lines` to `statement`. False: there is no whole line. */
static bool take_line(struct prompt *p)
{
	const char *text = buf_str(&p->lines);
	const char *newline = memchr(text, '\n', p->lines.len);
	size_t n = newline ? (size_t)(newline - text) + 1 : p->lines.len;

	if (n == 0 || (!newline && !p->at_end))
		return false;
	int r = buf_add(&p->statement, text, n);
	if (r == 0 && !newline)
		r = buf_add_char(&p->statement, '\n');
	buf_consume(&p->lines, n);
	if (r < 0) {
		say("caisson run: that is too long\n");
		buf_reset(&p->statement);
	}
	return true;
}

/* Runs the next statement, or waits for more of it. */
static void go_on(struct prompt *p)
{
	while (take_line(p)) {
		if (statement_is_empty(buf_str(&p->statement), p->statement.len)) {
			buf_reset(&p->statement);
		} else if (statement_is_whole(buf_str(&p->statement), p->statement.len)) {
			run_statement(p);
			return;
		}
	}
	if (p->at_end && p->statement.len > 0) {
		run_statement(p);
		return;
	}
	if (p->at_end) {
		if (p->terminal)
			say("\n");
		leave(p);
		return;
	}
	ask(p);
	(void)sd_event_source_set_enabled(p->input, SD_EVENT_ONESHOT);
}

static int on_input(struct prompt *p)
{
	char data[READ_BYTES];
	ssize_t n = read(input_of(p), data, sizeof(data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
		(void)sd_event_source_set_enabled(p->input, SD_EVENT_ONESHOT);
		return 0;
	}
	if (n <= 0)
		p->at_end = true;
	else if (buf_add(&p->lines, data, (size_t)n) < 0)
		say("caisson run: that is too long\n");
	go_on(p);
	return 0;
}

static int on_io(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED, void *user)
{
	return on_input(user);
}

/* epoll cannot wait for regular files; they are always readable. */
static int on_turn(sd_event_source *source UNUSED, void *user)
{
	return on_input(user);
}

static void on_saved(struct run_verb *v)
{
	struct prompt *p = v->prompt;

	if (p->leaving) {
		leave(p);
		return;
	}
	v->status = 0; /* the session continues after any statement */
	go_on(p);
}

int prompt_new(struct run_verb *v, struct err *e)
{
	struct prompt *p = calloc(1, sizeof(*p));

	if (!p)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the prompt");
	p->v = v;
	p->terminal = isatty(STDIN_FILENO) == 1;
	buf_init(&p->lines, RUN_SCRIPT_MAX);
	buf_init(&p->statement, RUN_SCRIPT_MAX);
	v->prompt = p;
	v->saved = on_saved;
	int r = sd_event_add_io(v->app.loop, &p->input, input_of(p), EPOLLIN, on_io, p);
	if (r == -EPERM)
		r = sd_event_add_defer(v->app.loop, &p->input, on_turn, p);
	if (r >= 0)
		r = sd_event_source_set_enabled(p->input, SD_EVENT_OFF);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "standard input");
	if (p->terminal)
		say("Python in a sandbox. Ctrl-C interrupts, Ctrl-D ends.\n");
	return 0;
}

struct prompt *prompt_free(struct prompt *p)
{
	if (!p)
		return NULL;
	p->input = sd_event_source_disable_unref(p->input);
	buf_done(&p->lines);
	buf_done(&p->statement);
	free(p);
	return NULL;
}

void prompt_tell(struct prompt *p, const struct run_result *result)
{
	if (result->state_lost)
		say("caisson run: the variables are gone\n");
	else if (!result->state_kept && !p->leaving)
		say("caisson run: the statement did not end by itself; the variables are as before "
		    "it\n");
	if (result->left.rests)
		say("caisson run: threads and processes that are left rest until the next "
		    "statement\n");
}

bool prompt_interrupt(struct prompt *p)
{
	struct run_verb *v = p->v;

	if (v->run) {
		/* The first Ctrl-C raises KeyboardInterrupt, which keeps the variables. */
		if (v->interrupted)
			run_cancel(v->run);
		else
			run_signal(v->run, SIGINT);
		v->interrupted = true;
		return true;
	}
	if (!p->terminal || !v->sandbox)
		return false;
	buf_reset(&p->statement);
	buf_reset(&p->lines);
	if (v->editor.fd >= 0)
		line_editor_order(&v->editor, LINE_EDITOR_INTERRUPT);
	else
		say("\nKeyboardInterrupt\n" PROMPT);
	return true;
}
