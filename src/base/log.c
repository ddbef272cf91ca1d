/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#define LINE_MAX_BYTES 16384

static struct {
	enum log_level level;
	enum log_format format;
	bool to_stderr;
	char *path; /* owned; NULL = no file */
	int fd;     /* -1 until the first line */
	bool file_broken;
	uint64_t written; /* bytes in the current file */
	uint64_t lost;    /* lines that could not be written to it, in all */
	bool failing;     /* the last line could not */
	bool torn;        /* and a part of it was written */
} state = {.level = LOG_LEVEL_INFO, .to_stderr = true, .fd = -1};

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

void log_close(void)
{
	state.fd = fd_close(state.fd);
	free(state.path);
	state.path = NULL;
}

void log_configure(const struct log_config *c)
{
	log_close();
	state.level = c->level;
	state.format = c->format;
	state.to_stderr = c->to_stderr;
	state.file_broken = false;
	state.written = 0;
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
	_cleanup_fd_ int fd =
	    open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | links, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (links && S_ISREG(st.st_mode) && st.st_nlink != 1)
		return -EPERM;
	return TAKE_FD(fd);
}

static void take_file(int fd)
{
	struct stat st;

	state.fd = fd;
	state.written = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

void log_reopen(int fd)
{
	if (!state.path) {
		(void)fd_close(fd);
		return;
	}
	state.fd = fd_close(state.fd);
	state.file_broken = false;
	state.failing = state.torn = false;
	if (fd >= 0)
		take_file(fd);
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
		state.fd = fd_close(state.fd);
	else if (ftruncate(state.fd, 0) == 0)
		/* The folder cannot be changed. Losing old lines is better than a full disk. */
		state.written = 0;
}

/* False: the file cannot be opened. That is said once, and not tried again. */
static bool open_or_say(void)
{
	int r = log_open_file(state.path);

	if (r >= 0) {
		take_file(r);
		return true;
	}
	state.file_broken = true;
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
	if (state.path && !state.file_broken && state.fd < 0)
		(void)open_or_say();
}

uint64_t log_lost(void)
{
	return state.lost;
}

/* Writes one line, or as much of it as fits on a full disk. */
static int write_line(const char *line, size_t len)
{
	if (state.torn && write(state.fd, "\n", 1) != 1)
		return -errno;
	state.torn = false;
	ssize_t n = write(state.fd, line, len);
	if (n > 0)
		state.written += (uint64_t)n;
	if (n < 0)
		return -errno;
	state.torn = (size_t)n < len;
	return state.torn ? -ENOSPC : 0;
}

/* A full disk must not stop the server: the line is lost and the next one tries again. The failure
 * is reported once each time that it begins. */
static void write_file(const char *line, size_t len)
{
	if (state.fd >= 0 && state.written + len > LOG_FILE_MAX)
		rotate();
	if (state.fd < 0 && !open_or_say())
		return;
	int r = write_line(line, len);
	if (r < 0) {
		state.lost++;
		if (!state.failing)
			(void)dprintf(STDERR_FILENO,
				      "caisson: log file '%s' cannot be written (%s); lines are "
				      "lost until it can\n",
				      state.path, strerror(-r));
	}
	state.failing = r < 0;
}

void log_emit(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(LINE_MAX_BYTES);
	int saved = errno;

	if (format_line(&line, level, event, fields, n) == 0) {
		if (state.path && !state.file_broken)
			write_file(line.data, line.len);
		if (state.to_stderr && fd_write_all(STDERR_FILENO, line.data, line.len) < 0)
			state.to_stderr = false; /* stderr is closed */
	}
	errno = saved;
}
