/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/line_editor.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/reap.h"
#include "base/text.h"
#include "cmd/line_history.h"

#include <dlfcn.h>
#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIBRARY      "libedit.so.2"
#define PROMPT_FIRST ">>> "
#define PROMPT_MORE  "... "
#define CHANNEL      3    /* the editor's end */
#define READY        "r"  /* its first byte: there is an editor */
#define START_MS     5000 /* how long the front waits for that byte */
#define END_NS       (2 * NS_PER_S)

/* What is used of the interface that libedit shares with GNU readline (editline(3)). Its header is no part of
 * the run-time package, and these five functions have not changed in twenty years. */
static struct {
	void (*handler_install)(const char *prompt, void (*line)(char *));
	void (*handler_remove)(void);
	void (*read_char)(void);
	int (*add_history)(const char *line);
	void (*stifle_history)(int lines);
	int (*initialize)(void);
	int (*bind_key)(int key, int (*function)(int, int));
	int (*insert)(int, int);
	FILE **out;
	const char **name;
} edit;

static struct {
	bool reading; /* the terminal is in the editor's modes */
	bool ended;   /* the person has typed Ctrl-D */
	int history;
	char *last; /* the newest line of the history; owned */
} editor = {.history = -1};

static bool load(void)
{
	static const struct {
		const char *name;
		void *at;
	} symbols[] = {
	    {"rl_callback_handler_install", &edit.handler_install},
	    {"rl_callback_handler_remove", &edit.handler_remove},
	    {"rl_callback_read_char", &edit.read_char},
	    {"add_history", &edit.add_history},
	    {"stifle_history", &edit.stifle_history},
	    {"rl_initialize", &edit.initialize},
	    {"rl_bind_key", &edit.bind_key},
	    {"rl_insert", &edit.insert},
	    {"rl_outstream", &edit.out},
	    {"rl_readline_name", &edit.name},
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < ARRAY_SIZE(symbols); i++) {
		void *found = dlsym(library, symbols[i].name);
		if (!found)
			return false;
		memcpy(symbols[i].at, &found, sizeof(found));
	}
	return library;
}

/* ---- the history ---- */

static void remember(const char *line, void *user UNUSED)
{
	if (editor.last && streq(editor.last, line))
		return;
	(void)edit.add_history(line);
	free(editor.last);
	editor.last = strdup(line);
}

static void note(const char *line)
{
	if (!line_history_keeps(line) || (editor.last && streq(editor.last, line)))
		return;
	remember(line, NULL);
	line_history_add(editor.history, line);
}

/* ---- the editor's process ---- */

static void stop_reading(void)
{
	if (editor.reading)
		edit.handler_remove();
	editor.reading = false;
}

/* LINE is libedit's, as with readline, and ours to free. */
static void on_line(char *line)
{
	stop_reading();
	if (!line) {
		editor.ended = true;
		(void)shutdown(CHANNEL, SHUT_WR);
		return;
	}
	note(line);
	const size_t len = strlen(line);
	line[len] = '\n'; /* in the place of its NUL */
	if (fd_write_all(CHANNEL, line, len + 1) < 0)
		_exit(0);
	free(line);
}

static void read_line(const char *prompt)
{
	if (editor.ended)
		return;
	edit.handler_install(prompt, on_line);
	editor.reading = true;
}

static void obey(char order)
{
	static const char interrupted[] = "\nKeyboardInterrupt\n";

	stop_reading();
	if (order == LINE_EDITOR_INTERRUPT)
		(void)!fd_write_all(STDERR_FILENO, interrupted, sizeof(interrupted) - 1);
	read_line(order == LINE_EDITOR_MORE ? PROMPT_MORE : PROMPT_FIRST);
}

/* The front has ended, or the terminal has. */
_Noreturn static void leave(void)
{
	stop_reading();
	_exit(0);
}

static void serve(void)
{
	struct pollfd p[] = {{.fd = CHANNEL, .events = POLLIN}, {.events = POLLIN}};
	char order;

	for (;;) {
		p[1].fd = editor.reading ? STDIN_FILENO : -1;
		if (poll(p, ARRAY_SIZE(p), -1) < 0) {
			if (errno != EINTR)
				leave();
			continue;
		}
		if (p[0].revents) {
			if (read(CHANNEL, &order, 1) <= 0)
				leave();
			obey(order);
		} else if (p[1].revents & POLLIN) {
			edit.read_char();
		} else if (p[1].revents) {
			leave();
		}
	}
}

/* Signals of the front's process are as they were when it was forked; Ctrl-C is the front's to handle. */
static void plain_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGHUP, SIG_DFL);
}

_Noreturn static void run(int channel, bool history)
{
	char path[PATH_MAX];

	plain_signals();
	if ((channel != CHANNEL && dup2(channel, CHANNEL) < 0) || fd_close_from(CHANNEL + 1) < 0 ||
	    !load())
		_exit(1);
	/* libedit edits characters, so it must know which bytes are one. */
	(void)setlocale(LC_CTYPE, "");
	if (!streq(nl_langinfo(CODESET), "UTF-8"))
		(void)setlocale(LC_CTYPE, "C.UTF-8");
	*edit.name = "caisson";
	*edit.out = stderr;
	if (edit.initialize() != 0)
		_exit(1);
	(void)edit.bind_key('\t',
			    edit.insert); /* it indents; files of this machine are of no use here */
	edit.stifle_history(LINE_HISTORY_LINES);
	if (history && line_history_path(path, sizeof(path)))
		editor.history = line_history_open(path, remember, NULL);
	if (fd_write_all(CHANNEL, READY, 1) < 0)
		_exit(1);
	serve();
	_exit(0);
}

/* ---- the front's side ---- */

static bool is_usable(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 && term && *term &&
	       !streq(term, "dumb");
}

static bool is_ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&p, 1, START_MS) == 1 && read(fd, &byte, 1) == 1 && byte == READY[0];
}

struct line_editor line_editor_start(bool history)
{
	struct line_editor l = LINE_EDITOR_NONE;
	int pair[2];

	if (!is_usable() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return l;
	l.fd = pair[0];
	l.pid = fork();
	if (l.pid == 0)
		run(pair[1], history);
	(void)close(pair[1]);
	if (l.pid < 0 || !is_ready(l.fd))
		line_editor_end(&l);
	return l;
}

void line_editor_order(const struct line_editor *l, enum line_editor_order order)
{
	const char byte = (char)order;

	(void)!fd_write_all(l->fd, &byte, 1); /* an editor that has ended is the end of the input */
}

void line_editor_end(struct line_editor *l)
{
	l->fd = fd_close(l->fd);
	reap_child(l->pid, END_NS);
	*l = LINE_EDITOR_NONE;
}
