/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/line_history.h"

#include "base/buf.h"
#include "base/fdio.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "caisson"
#define NAME   "python_history"
#define MODE   0600

bool line_history_path(char *ret, size_t size)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int n = -1;

	/* The specification: a relative path is to be ignored. */
	if (state && state[0] == '/')
		n = snprintf(ret, size, "%s/" FOLDER "/" NAME, state);
	else if (home && home[0] == '/')
		n = snprintf(ret, size, "%s/.local/state/" FOLDER "/" NAME, home);
	return n > 0 && (size_t)n < size;
}

bool line_history_keeps(const char *line)
{
	const size_t len = strlen(line);

	if (len > LINE_HISTORY_LINE_MAX || strspn(line, " \t") == len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)line[i] < 0x20 && line[i] != '\t') || line[i] == 0x7f)
			return false;
	return true;
}

/* Only a file that nobody else can have put there, and that nobody else can read. */
static int open_own(const char *path, int flags)
{
	struct stat st;
	_cleanup_fd_ int fd =
	    open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, MODE);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_nlink != 1)
		return -1;
	if ((st.st_mode & 07777) != MODE && fchmod(fd, MODE) < 0)
		return -1;
	return TAKE_FD(fd);
}

static bool make_folder(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (!slash || (size_t)(slash - path) >= sizeof(folder))
		return false;
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	return fd_make_dirs(folder, 0700) == 0;
}

/* Reads the end of the file, from the beginning of a line. */
static int read_end(int fd, struct buf *b)
{
	const off_t size = lseek(fd, 0, SEEK_END);
	const off_t from = size > LINE_HISTORY_BYTES_MAX ? size - LINE_HISTORY_BYTES_MAX : 0;

	if (size < 0 || lseek(fd, from, SEEK_SET) < 0 || fd_read_file(fd, b) < 0)
		return -1;
	const char *newline = from > 0 ? memchr(buf_str(b), '\n', b->len) : NULL;
	if (from > 0)
		buf_consume(b, newline ? (size_t)(newline - buf_str(b)) + 1 : b->len);
	return 0;
}

/* Where the last LINE_HISTORY_LINES lines begin. */
static size_t start_of(const struct buf *b)
{
	size_t lines = 0;
	size_t at = b->len;

	while (at > 0) {
		if (b->data[at - 1] == '\n' && at < b->len && ++lines == LINE_HISTORY_LINES)
			break;
		at--;
	}
	return at;
}

/* Writes what is kept beside the file, and puts it in the file's place. */
static int shorten(const char *path, const char *text, size_t len)
{
	char other[PATH_MAX];
	const int n = snprintf(other, sizeof(other), "%s.%d", path, (int)getpid());

	if (n < 0 || (size_t)n >= sizeof(other))
		return -1;
	_cleanup_fd_ int fd = open_own(other, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
	if (fd < 0)
		return -1;
	if (fd_write_all(fd, text, len) < 0 || rename(other, path) < 0) {
		(void)unlink(other);
		return -1;
	}
	return TAKE_FD(fd);
}

int line_history_open(const char *path, void (*add)(const char *line, void *user), void *user)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(2 * LINE_HISTORY_BYTES_MAX);
	char *rest = NULL;

	if (!make_folder(path))
		return -1;
	_cleanup_fd_ int fd = open_own(path, O_RDWR | O_CREAT | O_APPEND);
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return -1;
	const off_t size = lseek(fd, 0, SEEK_END);
	if (read_end(fd, &b) < 0)
		return -1;
	const size_t start = start_of(&b);
	/* Twice as long: not at every start. A prompt that has the old file open writes into that one. */
	size_t lines = 0;
	for (size_t i = 0; i < b.len; i++)
		lines += b.data[i] == '\n';
	if (size > LINE_HISTORY_BYTES_MAX || lines > 2 * (size_t)LINE_HISTORY_LINES) {
		const int other = shorten(path, buf_str(&b) + start, b.len - start);
		if (other >= 0) {
			(void)close(fd);
			fd = other;
		}
	}
	if (b.len == 0)
		return TAKE_FD(fd);
	for (char *line = strtok_r(b.data + start, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		if (line_history_keeps(line))
			add(line, user);
	(void)flock(fd, LOCK_UN);
	return TAKE_FD(fd);
}

void line_history_add(int fd, const char *line)
{
	char text[LINE_HISTORY_LINE_MAX + 2];

	if (fd < 0 || !line_history_keeps(line))
		return;
	const int n = snprintf(text, sizeof(text), "%s\n", line);
	if (n > 0 && (size_t)n < sizeof(text))
		(void)!fd_write_all(fd, text, (size_t)n); /* a full disk costs the history alone */
}
