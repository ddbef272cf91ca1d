/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#define LINE_MAX_BYTES 16384
#define LINES_KEPT     (64u << 10) /* bytes of memory kept between jobs */
#define OFTEN_NS       (60 * NS_PER_S)
#define OFTEN_EVENTS   32u /* events that are limited; more are not written */

/* Where lines go. The disk may be slow, and whoever reads stderr too, so a job of the pool writes them, one at a time. Those
 * that come meanwhile wait for the next one. Without a pool a line is written before its caller goes on. */
struct sink {
	void (*write)(void *sink);
	struct buf waiting; /* whole lines */
	struct buf lines;   /* the job's, while it is at work */
	bool at_work;
	uint64_t left_out; /* lines that found WAITING full, not told yet */
};

static void write_to_file(void *sink);
static void write_to_stderr(void *sink);

static struct {
	enum log_level level;
	enum log_format format;
	bool to_stderr;
	char *path; /* owned; NULL = no file */
	bool file_broken;
	int next_fd;   /* -1, or a file that no job has taken yet */
	uint64_t lost; /* lines that were not written, in all */
	struct sink file, err;
} state = {
    .level = LOG_LEVEL_INFO,
    .to_stderr = true,
    .next_fd = -1,
    .file = {.write = write_to_file,
	     .waiting = BUF_INIT(LOG_WAITING_MAX),
	     .lines = BUF_INIT(LOG_WAITING_MAX)},
    .err = {.write = write_to_stderr,
	    .waiting = BUF_INIT(LOG_WAITING_MAX),
	    .lines = BUF_INIT(LOG_WAITING_MAX)},
};

/* What the jobs know. Of the job while it is at work, else of the loop. */
static struct {
	int fd;     /* -1 until the first line */
	int new_fd; /* takes its place before the next line */
	bool broken;
	uint64_t written; /* bytes in the current file */
	uint64_t lost;    /* lines that could not be written to it, not in STATE yet */
	bool failing;     /* the last line could not */
	bool torn;        /* and a part of it was written */
	bool stderr_closed;
} out = {.fd = -1, .new_fd = -1};

/* Events of LOG_OFTEN(). */
static struct often {
	const char *event; /* NULL: the slot is free */
	uint64_t since_ns;
	uint64_t lines, left_out;
} often[OFTEN_EVENTS];
static uint64_t often_left; /* in all slots */

static const char *const level_names[] = {"debug", "info", "warning", "error", "critical"};

bool log_level_parse(const char *word, enum log_level *ret)
{
	*ret = LOG_LEVEL_INFO;
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
		if (strcasecmp(word, level_names[i]) == 0) {
			*ret = (enum log_level)i;
			return true;
		}
	return false;
}

static void tell_left_out(bool all);

void log_close(void)
{
	if (often_left > 0)
		tell_left_out(true);
	ASSERT(!state.file.at_work && !state.err.at_work);
	out.fd = fd_close(out.fd);
	out.new_fd = fd_close(out.new_fd);
	free(state.path);
	state.path = NULL;
	buf_done(&state.file.waiting);
	buf_done(&state.file.lines);
	buf_done(&state.err.waiting);
	buf_done(&state.err.lines);
}

void log_configure(const struct log_config *c)
{
	log_close();
	state.level = c->level;
	state.format = c->format;
	state.to_stderr = c->to_stderr;
	state.file_broken = out.broken = out.stderr_closed = false;
	out.written = 0;
	if (c->file) {
		state.path = strdup(c->file);
		state.file_broken = !state.path;
	}
}

bool log_wants(enum log_level level)
{
	return level >= state.level && (state.to_stderr || (state.path && !state.file_broken));
}

/* Appends S in double quotes with JSON's escapes, lossy UTF-8, cut at LOG_VALUE_MAX. */
static int add_quoted(struct buf *b, const char *s)
{
	_cleanup_(buf_done) struct buf clean = BUF_INIT(LOG_VALUE_MAX * 3 + 16);
	size_t len = strlen(s), cut = text_utf8_cut(s, len, LOG_VALUE_MAX);
	int r = text_add_utf8_lossy(&clean, s, cut);

	if (r == 0)
		r = buf_add_char(b, '"');
	for (size_t i = 0; r == 0 && i < clean.len; i++) {
		unsigned char c = (unsigned char)clean.data[i];
		if (c == '"' || c == '\\')
			r = buf_printf(b, "\\%c", c);
		else if (c < 0x20 || c == 0x7F)
			r = buf_printf(b, "\\u%04x", c);
		else
			r = buf_add_char(b, (char)c);
	}
	if (r == 0 && cut < len)
		r = buf_add_str(b, "...");
	return r < 0 ? r : buf_add_char(b, '"');
}

static int add_value(struct buf *b, const struct log_field *f)
{
	switch (f->type) {
	case LOG_TYPE_STR:
		return f->s ? add_quoted(b, f->s) : buf_add_str(b, "null");
	case LOG_TYPE_I64:
		return buf_printf(b, "%" PRId64, f->i);
	case LOG_TYPE_U64:
		return buf_printf(b, "%" PRIu64, f->u);
	case LOG_TYPE_BOOL:
		return buf_add_str(b, f->b ? "true" : "false");
	}
	return -EINVAL;
}

static int format_line(struct buf *b, enum log_level level, const char *event,
		       const struct log_field *fields, size_t n)
{
	uint64_t wall = now_wall_ns();
	time_t seconds = (time_t)(wall / NS_PER_S);
	struct tm utc;
	char stamp[32];
	int r;

	(void)gmtime_r(&seconds, &utc);
	(void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
	unsigned us = (unsigned)(wall % NS_PER_S / NS_PER_US);
	if (state.format == LOG_FORMAT_JSON)
		r = buf_printf(b, "{\"timestamp\":\"%s.%06uZ\",\"level\":\"%s\",\"event\":\"%s\"",
			       stamp, us, level_names[level], event);
	else
		r = buf_printf(b, "%s.%06uZ [%-8s] %s", stamp, us, level_names[level], event);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = buf_printf(
		    b, state.format == LOG_FORMAT_JSON ? ",\"%s\":" : " %s=", fields[i].key);
		if (r == 0)
			r = add_value(b, &fields[i]);
	}
	if (r == 0)
		r = buf_add_str(b, state.format == LOG_FORMAT_JSON ? "}\n" : "\n");
	return r;
}

int log_open_file(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	struct stat st;

	if (!copy)
		return -ENOMEM;
	int r = fd_make_dirs(dirname(copy), 0755);
	if (r < 0)
		return r;
	/* The default path is relative. If root starts in another user's folder, a symbolic or hard
	 * link there must not make root write elsewhere. */
	int links = geteuid() == 0 ? O_NOFOLLOW : 0;
	/* O_NONBLOCK: a pipe at the path, and whoever reads from it, must not hold the server. Without a reader
	 * it cannot be opened; while it is full, lines are lost. */
	_cleanup_fd_ int fd = open(
	    path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | links, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (links && S_ISREG(st.st_mode) && st.st_nlink != 1)
		return -EPERM;
	return TAKE_FD(fd);
}

static void take_file(int fd)
{
	struct stat st;

	out.fd = fd;
	out.written = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void sink_go(struct sink *s);

void log_reopen(int fd)
{
	if (!state.path) {
		(void)fd_close(fd);
		return;
	}
	workers_close(LOG_WHO, state.next_fd);
	state.next_fd = fd;
	state.file_broken = false;
	sink_go(&state.file);
}

void log_change(enum log_level level, enum log_format format)
{
	state.level = level;
	state.format = format;
}

static void rotate(void)
{
	char from[4096], to[4096];
	bool moved = false; /* the last one: the current file */

	for (int i = LOG_BACKUPS; i > 0; i--) {
		if (i == 1)
			(void)snprintf(from, sizeof(from), "%s", state.path);
		else
			(void)snprintf(from, sizeof(from), "%s.%d", state.path, i - 1);
		(void)snprintf(to, sizeof(to), "%s.%d", state.path, i);
		moved = rename(from, to) == 0;
	}
	if (moved)
		out.fd = fd_close(out.fd);
	else if (ftruncate(out.fd, 0) == 0)
		/* The folder cannot be changed. Losing old lines is better than a full disk. */
		out.written = 0;
}

/* False: the file cannot be opened. That is said once, and not tried again. */
static bool open_or_say(void)
{
	int r = log_open_file(state.path);

	if (r >= 0) {
		take_file(r);
		return true;
	}
	out.broken = true;
	(void)dprintf(STDERR_FILENO,
		      "caisson: log file '%s' cannot be opened (%s); logging goes on without it\n",
		      state.path, strerror(-r));
	return false;
}

const char *log_path(void)
{
	return state.file_broken ? NULL : state.path;
}

void log_open(void)
{
	if (state.path && !state.file_broken && out.fd < 0)
		state.file_broken = !open_or_say();
}

uint64_t log_lost(void)
{
	return state.lost;
}

/* Writes one line, or as much of it as fits on a full disk. */
static int write_line(const char *line, size_t len)
{
	if (out.torn && write(out.fd, "\n", 1) != 1)
		return -errno;
	out.torn = false;
	ssize_t n = write(out.fd, line, len);
	if (n > 0)
		out.written += (uint64_t)n;
	if (n < 0)
		return -errno;
	out.torn = (size_t)n < len;
	return out.torn ? -ENOSPC : 0;
}

/* A full disk must not stop the server: the line is lost and the next one tries again. The failure
 * is reported once each time that it begins. */
static void write_file(const char *line, size_t len)
{
	if (out.fd >= 0 && out.written + len > LOG_FILE_MAX)
		rotate();
	if (out.fd < 0 && !open_or_say())
		return;
	int r = write_line(line, len);
	if (r < 0) {
		out.lost++;
		if (!out.failing)
			(void)dprintf(STDERR_FILENO,
				      "caisson: log file '%s' cannot be written (%s); lines are "
				      "lost until it can\n",
				      state.path, strerror(-r));
	}
	out.failing = r < 0;
}

/* ---- the jobs ---- */

/* The next line of B from *AT on, with its newline; NULL: none. No line has a newline inside. */
static const char *next_line(const struct buf *b, size_t *at, size_t *ret_len)
{
	const char *line = b->data + *at;
	const char *end = *at < b->len ? memchr(line, '\n', b->len - *at) : NULL;

	if (!end)
		return NULL;
	*ret_len = (size_t)(end - line) + 1;
	*at += *ret_len;
	return line;
}

static void write_to_file(void *sink)
{
	const struct sink *s = sink;
	const char *line;
	size_t at = 0, len;

	if (out.new_fd >= 0) {
		(void)fd_close(out.fd);
		out.broken = out.failing = out.torn = false;
		take_file(TAKE_FD(out.new_fd));
	}
	while (!out.broken && (line = next_line(&s->lines, &at, &len)))
		write_file(line, len);
}

/* A line at a time, so that lines of other processes come in between and not inside. */
static void write_to_stderr(void *sink)
{
	const struct sink *s = sink;
	const char *line;
	size_t at = 0, len;

	while (!out.stderr_closed && (line = next_line(&s->lines, &at, &len)))
		out.stderr_closed = fd_write_all(STDERR_FILENO, line, len) < 0;
}

static int add_lost(struct sink *s)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(LINE_MAX_BYTES);
	const struct log_field fields[] = {LOG_U("lines", s->left_out)};
	int r = format_line(&line, LOG_LEVEL_WARNING, "log_lines_lost", fields, ARRAY_SIZE(fields));

	r = r < 0 ? r : buf_add(&s->waiting, line.data, line.len);
	if (r == 0)
		s->left_out = 0;
	return r;
}

static void written(void *sink)
{
	struct sink *s = sink;

	s->at_work = false;
	if (s->lines.cap > LINES_KEPT)
		buf_done(&s->lines);
	else
		buf_reset(&s->lines);
	if (s == &state.file) {
		state.file_broken = out.broken && state.next_fd < 0;
		state.lost += out.lost;
		out.lost = 0;
	} else if (out.stderr_closed) {
		state.to_stderr = false;
	}
	sink_go(s);
}

static void sink_go(struct sink *s)
{
	const bool reopen = s == &state.file && state.next_fd >= 0;

	if (s->at_work || (s->waiting.len == 0 && !reopen))
		return;
	const struct buf empty = s->lines;
	s->lines = s->waiting;
	s->waiting = empty;
	if (reopen)
		out.new_fd = TAKE_FD(state.next_fd);
	s->at_work = true;
	if (s->left_out > 0)
		(void)!add_lost(s); /* it goes with the next job */
	if (workers_run_counted(LOG_WHO, s->write, written, s) < 0) {
		s->write(s); /* there is no thread at all */
		written(s);
	}
}

/* ---- lines ---- */

static void sink_add(struct sink *s, const struct buf *line)
{
	/* Once a line was left out the others are, too, until that can be said: one gap is easier to read than many. */
	int r = s->left_out == 0 ? 0 : s->waiting.len > 0 ? -ENOBUFS : add_lost(s);

	r = r < 0 ? r : buf_add(&s->waiting, line->data, line->len);
	if (r < 0) {
		s->left_out++;
		state.lost++;
	}
	sink_go(s);
}

static void write_event(enum log_level level, const char *event, const struct log_field *fields,
			size_t n)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(LINE_MAX_BYTES);
	int saved = errno;

	if (format_line(&line, level, event, fields, n) == 0) {
		if (state.path && !state.file_broken)
			sink_add(&state.file, &line);
		if (state.to_stderr)
			sink_add(&state.err, &line);
	}
	errno = saved;
}

/* Says what was left out of the minutes that are over, or (ALL) until now. */
static void tell_left_out(bool all)
{
	for (struct often *o = often; often_left > 0 && o < often + OFTEN_EVENTS && o->event; o++) {
		const struct log_field fields[] = {LOG_S("of", o->event),
						   LOG_U("lines", o->left_out)};

		if (o->left_out == 0 || (!all && now_ns() - o->since_ns < OFTEN_NS))
			continue;
		often_left -= o->left_out;
		o->left_out = 0;
		write_event(LOG_LEVEL_WARNING, "lines_left_out", fields, ARRAY_SIZE(fields));
	}
}

bool log_may_write(const char *event)
{
	struct often *o = often;

	while (o < often + OFTEN_EVENTS && o->event && o->event != event)
		o++;
	if (o == often + OFTEN_EVENTS)
		return false;
	const uint64_t now = now_ns();
	if (o->event && now - o->since_ns >= OFTEN_NS && o->left_out > 0)
		tell_left_out(false);
	if (!o->event || now - o->since_ns >= OFTEN_NS)
		*o = (struct often){.event = event, .since_ns = now};
	if (o->lines < LOG_OFTEN_MAX) {
		o->lines++;
		return true;
	}
	o->left_out++;
	often_left++;
	return false;
}

void log_emit(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	if (often_left > 0)
		tell_left_out(false);
	write_event(level, event, fields, n);
}
