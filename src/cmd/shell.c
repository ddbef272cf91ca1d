/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson shell`: a terminal in a sandbox of a running server, on this one. The server holds the PTY
 * (docs/decisions/0037-terminals.md); this passes bytes, in the raw mode of termios(3), and sizes. The terminal outlives this
 * program: whoever leaves it, or loses the connection, comes back with its id. */
#include "app/read_settings.h"
#include "cmd/cmd.h"
#include "cmd/server_client.h"
#include "cmd/shell_quiet.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "http/ws_reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define PATH_BYTES  256u
#define ID_MAX      15u /* bytes of a terminal's id */
#define MESSAGE_MAX ((size_t)1 << 20)
#define READ_BYTES  16384u /* of the keyboard: a message may have 32 KiB */
#define UNSENT_MAX  (READ_BYTES + 256u)
#define CELLS_MAX   1000 /* rows and columns that the server takes */
#define NOTE_MAX    300u

/* What leaves a terminal, as in ssh(1): this, at the beginning of a line. Nothing that a program wants is taken from it. */
#define LEAVE_FIRST '~'
#define LEAVE_THEN  '.'

struct shell {
	const char *sandbox;
	char id[ID_MAX + 1];
	int fd;      /* owned: the connection */
	int signals; /* owned: signalfd */
	struct ws_reader reader;
	struct buf unsent; /* frames for the server */
	bool resized;      /* the server does not know this terminal's size */
	bool line_begins;  /* what was typed last ended a line */
	bool asked;        /* LEAVE_FIRST was typed there, and waits for what follows */
	bool ended;
	bool may_report;     /* the program has shown something that a terminal may answer */
	bool closed;         /* this terminal is gone */
	bool left;           /* the terminal lives on */
	int status;          /* of this program */
	char note[NOTE_MAX]; /* said after the terminal is as it was */
};

static struct termios before; /* the terminal's modes */
static bool raw;

static void restore_terminal(void)
{
	if (raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	raw = false;
}

static int make_raw(struct err *e)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return err_set(e, ERR_SYSTEM, errno, "the modes of the terminal");
	t = before;
	cfmakeraw(&t);
	raw = true;
	(void)atexit(restore_terminal);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &t) < 0)
		return err_set(e, ERR_SYSTEM, errno, "the modes of the terminal");
	return 0;
}

/* This terminal's, as the server takes it. */
static void get_size(int *ret_rows, int *ret_columns)
{
	struct winsize w = {0};

	(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &w);
	*ret_rows = w.ws_row == 0 ? 24 : MIN(w.ws_row, CELLS_MAX);
	*ret_columns = w.ws_col == 0 ? 80 : MIN(w.ws_col, CELLS_MAX);
}

/* ---- to the server ---- */

static int add_frame(struct shell *s, enum ws_opcode opcode, const void *data, size_t len)
{
	uint8_t head[WS_HEAD_MAX], mask[WS_MASK_BYTES];

	rand_bytes(mask, sizeof(mask));
	int r = buf_add(&s->unsent, head, ws_write_head(opcode, len, mask, head));
	const size_t at = s->unsent.len;
	r = r < 0 ? r : buf_add(&s->unsent, data, len);
	if (r == 0)
		ws_mask((uint8_t *)s->unsent.data + at, len, mask);
	return r;
}

static int send_size(struct shell *s)
{
	char text[80];
	int rows, columns;

	s->resized = false;
	get_size(&rows, &columns);
	(void)snprintf(text, sizeof(text), "{\"resize\":{\"rows\":%d,\"columns\":%d}}", rows,
		       columns);
	return add_frame(s, WS_TEXT, text, strlen(text));
}

static int send_unsent(struct shell *s)
{
	while (s->unsent.len > 0) {
		const ssize_t n = write(s->fd, s->unsent.data, s->unsent.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		buf_consume(&s->unsent, (size_t)n);
	}
	return 0;
}

/* Takes the keys that leave out of what was typed. Returns the bytes for the server. */
static size_t filter_keys(struct shell *s, const char *keys, size_t n, char *ret)
{
	size_t len = 0;

	for (size_t i = 0; i < n && !s->left; i++) {
		if (s->asked && keys[i] == LEAVE_THEN) {
			s->left = true;
			break;
		}
		if (s->asked && keys[i] != LEAVE_FIRST) /* twice stands for one */
			ret[len++] = LEAVE_FIRST;
		if (!s->asked && s->line_begins && keys[i] == LEAVE_FIRST) {
			s->asked = true;
			continue;
		}
		s->asked = false;
		s->line_begins = keys[i] == '\r' || keys[i] == '\n';
		ret[len++] = keys[i];
	}
	return len;
}

static int read_keys(struct shell *s)
{
	char keys[READ_BYTES], kept[READ_BYTES + 1];
	const ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) { /* the window was closed */
		s->left = s->closed = true;
		return 0;
	}
	const size_t len = filter_keys(s, keys, (size_t)n, kept);
	return len > 0 ? add_frame(s, WS_BINARY, kept, len) : 0;
}

/* ---- from the server ---- */

static int take_exit(struct shell *s, const json_t *o)
{
	const char *reason = json_string_value(json_object_get(o, "reason"));
	const json_int_t number = json_integer_value(json_object_get(o, "signal"));

	s->ended = true;
	s->status =
	    number > 0 ? (int)(128 + number) : (int)json_integer_value(json_object_get(o, "code"));
	if (reason && !streq(reason, "exited"))
		(void)snprintf(s->note, sizeof(s->note), "the terminal ended: %s", reason);
	return 0;
}

static int take_text(struct shell *s, const char *text, size_t len)
{
	json_t *doc = NULL;
	const json_t *o;
	char said[100];
	int r = 0;

	if (jsonio_read(text, len, 0, &doc, NULL) < 0)
		return -EBADMSG;
	if ((o = json_object_get(doc, "exit")))
		r = take_exit(s, o);
	else if ((o = json_object_get(doc, "error")))
		(void)snprintf(s->note, sizeof(s->note), "%s",
			       json_string_value(json_object_get(o, "message")) ?: "an error");
	else if ((o = json_object_get(doc, "missed"))) {
		(void)snprintf(said, sizeof(said),
			       "\r\n[%" JSON_INTEGER_FORMAT " bytes of output are gone]\r\n",
			       json_integer_value(json_object_get(o, "bytes")));
		r = fd_write_all(STDOUT_FILENO, said, strlen(said));
	}
	json_decref(doc);
	return r;
}

static int hear(struct shell *s, const struct ws_heard *h)
{
	switch (h->opcode) {
	case WS_BINARY:
		s->may_report = s->may_report || shell_may_report(h->data, h->len);
		return fd_write_all(STDOUT_FILENO, h->data, h->len);
	case WS_TEXT:
		return take_text(s, h->data, h->len);
	case WS_PING:
		return add_frame(s, WS_PONG, h->data, h->len);
	case WS_CLOSE:
		if (h->code != WS_CODE_NORMAL)
			return -ECONNRESET;
		s->ended = true; /* without an exit before: it never began */
		s->status = 1;
		return 0;
	case WS_CONTINUATION:
	case WS_PONG:
		break;
	}
	return 0;
}

static int read_server(struct shell *s, const uint8_t *data, size_t len)
{
	int r = 0;

	for (size_t at = 0, used; r == 0 && at < len && !s->ended; at += used) {
		struct ws_heard heard;

		r = ws_read(&s->reader, data + at, len - at, &used, &heard);
		if (r > 0)
			return -EBADMSG;
		if (r == 0)
			r = hear(s, &heard);
	}
	return r;
}

static int take_server(struct shell *s)
{
	uint8_t bytes[65536];
	const ssize_t n = read(s->fd, bytes, sizeof(bytes));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	return read_server(s, bytes, (size_t)n);
}

/* ---- the loop ---- */

static int take_signal(struct shell *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	if (info.ssi_signo == SIGWINCH) {
		s->resized = true;
		return 0;
	}
	s->left = true; /* the window was closed, or somebody ends this program */
	s->closed = info.ssi_signo == SIGHUP;
	s->status = (int)(128 + info.ssi_signo);
	return 0;
}

static int pass(struct shell *s)
{
	int r = send_unsent(s);

	while (r == 0 && !s->ended && !s->left) {
		/* While the server does not take what was typed, nothing more is read. */
		struct pollfd p[] = {
		    {.fd = s->fd, .events = (short)(POLLIN | (s->unsent.len > 0 ? POLLOUT : 0))},
		    {.fd = s->signals, .events = POLLIN},
		    {.fd = s->unsent.len > 0 ? -1 : STDIN_FILENO, .events = POLLIN},
		};

		if (poll(p, ARRAY_SIZE(p), -1) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (p[1].revents)
			r = take_signal(s);
		if (r == 0 && (p[0].revents & (POLLIN | POLLHUP | POLLERR)))
			r = take_server(s);
		if (r == 0 && p[2].revents && !s->ended)
			r = read_keys(s);
		if (r == 0 && s->resized && s->unsent.len == 0)
			r = send_size(s);
		r = r < 0 ? r : send_unsent(s);
	}
	return r;
}

static int open_signals(struct err *e)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_set(e, ERR_SYSTEM, errno, "signals") : fd;
}

/* The end of the words on the screen: who left comes back with this. */
static void say_end(const struct shell *s)
{
	if (s->note[0])
		(void)fprintf(stderr, "caisson shell: %s\n", s->note);
	if (!s->ended)
		(void)fprintf(stderr, "The terminal goes on: caisson shell %s %s\n", s->sandbox,
			      s->id);
}

static int attach(struct shell *s, const struct settings *settings, struct err *e)
{
	_cleanup_(buf_done) struct buf first = BUF_INIT(MESSAGE_MAX);
	char path[PATH_BYTES];

	(void)snprintf(path, sizeof(path), "/api/v1/sandboxes/%s/terminals/%s", s->sandbox, s->id);
	s->fd = server_open_socket(settings, path, &first, e);
	if (s->fd < 0)
		return s->fd;
	s->signals = open_signals(e);
	int r = s->signals < 0 ? s->signals : make_raw(e);

	if (r < 0)
		return r;
	r = send_size(s);
	r = r < 0 ? r : read_server(s, (const uint8_t *)first.data, first.len);
	r = r < 0 ? r : pass(s);
	if (s->may_report && !s->closed)
		shell_quiet();
	restore_terminal();
	if (r < 0 && !s->note[0])
		(void)snprintf(s->note, sizeof(s->note), "the connection to the server is lost");
	if (r < 0)
		s->status = 74; /* EX_IOERR */
	say_end(s);
	return 0;
}

static int start(struct shell *s, const struct settings *settings, const char *name,
		 const char *user, char **words, struct err *e)
{
	_cleanup_(buf_done) struct buf command = BUF_INIT((size_t)1 << 20);
	char path[PATH_BYTES];
	json_t *said = NULL;
	int rows, columns, r = 0;

	for (; *words && r == 0; words++)
		r = buf_add_shell_word(&command, *words);
	if (r < 0)
		return err_set(e, ERR_USAGE, -r, "the command is too long");
	get_size(&rows, &columns);
	json_auto_t *body =
	    json_pack("{s:i, s:i, s:s*, s:s*, s:s*}", "rows", rows, "columns", columns, "name",
		      name, "command", command.len > 0 ? buf_str(&command) : NULL, "user", user);
	if (!body)
		return err_set(e, ERR_USAGE, 0, "the command is not valid UTF-8");
	(void)snprintf(path, sizeof(path), "/api/v1/sandboxes/%s/terminals", s->sandbox);
	r = server_ask(settings, "POST", path, body, &said, e);
	const char *id = json_string_value(json_object_get(said, "id"));
	if (r == 0 && (!id || text_copy(s->id, sizeof(s->id), id) < 0))
		r = err_set(e, ERR_SYSTEM, 0, "the server's answer has no id");
	json_decref(said);
	return r;
}

int cmd_shell(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {0};
	struct shell s = {.fd = -1, .signals = -1, .line_begins = true};
	const char *name = NULL, *user = NULL, *terminal = NULL;
	struct err e = ERR_INIT;
	int i;

	if (read_settings(&settings, true, &argc, argv, &e) < 0)
		return cmd_fail("shell", &e);
	for (i = 1; i < argc && !streq(argv[i], "--"); i++) {
		if (streq(argv[i], "--name") && i + 1 < argc)
			name = argv[++i];
		else if (streq(argv[i], "--user") && i + 1 < argc)
			user = argv[++i];
		else if (argv[i][0] != '-' && !s.sandbox)
			s.sandbox = argv[i];
		else if (argv[i][0] != '-' && !terminal)
			terminal = argv[i];
		else
			return cmd_unknown("shell", argv[i], &e) < 0 ? cmd_fail("shell", &e) : 0;
	}
	if (!s.sandbox)
		return cmd_usage("shell", "the id of a sandbox is missing");
	if (!parse_is_session_id(s.sandbox, strlen(s.sandbox)))
		return cmd_usage("shell", "'%s' is no id of a sandbox", s.sandbox);
	if (terminal && (name || user || i < argc))
		return cmd_usage("shell", "a terminal that runs has its name, user and command");
	if (terminal && (!parse_is_session_id(terminal, strlen(terminal)) ||
			 text_copy(s.id, sizeof(s.id), terminal) < 0))
		return cmd_usage("shell", "'%s' is no id of a terminal", terminal);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return cmd_usage("shell", "standard input and output are no terminal; "
					  "'caisson exec -d' starts a process without one");
	ws_reader_init(&s.reader, MESSAGE_MAX, false);
	buf_init(&s.unsent, 2 * UNSENT_MAX);
	int r = terminal ? 0 : start(&s, &settings, name, user, argv + MIN(i + 1, argc), &e);
	r = r < 0 ? r : attach(&s, &settings, &e);
	ws_reader_done(&s.reader);
	buf_done(&s.unsent);
	s.signals = fd_close(s.signals);
	s.fd = fd_close(s.fd);
	restore_terminal();
	return r < 0 ? cmd_fail("shell", &e) : s.status;
}
