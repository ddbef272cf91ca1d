/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_file.h"

#include "config/classic_keys.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define KEY_MAX   128
#define VALUE_MAX 4096

struct reader {
	struct settings *settings;
	const char *name;
	unsigned line;
	const char *p;   /* next byte of the line */
	const char *end; /* of the line */
	char table[KEY_MAX];
	bool seen[SETTING_ID_MAX_];
	bool classic; /* the second tool family's file (classic_keys.h) */
	struct err *e;
};

static int fail(struct reader *r, const char *what)
{
	(void)err_set(r->e, ERR_SETTING_INVALID, 0, "%s:%u: %s", r->name, r->line, what);
	return -EINVAL;
}

static void skip_blanks(struct reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t'))
		r->p++;
}

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

/* Appends a bare key, which may have dots, to RET, which may hold the name of a table already. */
static int read_key(struct reader *r, char *ret)
{
	size_t n = strlen(ret);
	bool part_empty = true;

	if (n > 0)
		ret[n++] = '.';
	for (; r->p < r->end && (is_bare(*r->p) || *r->p == '.'); r->p++) {
		if (*r->p == '.' && part_empty)
			return fail(r, "a key has an empty part");
		part_empty = *r->p == '.';
		if (n >= KEY_MAX - 2)
			return fail(r, "a key is too long");
		ret[n++] = *r->p;
	}
	ret[n] = '\0';
	return part_empty ? fail(r, "a bare key is expected (letters, digits, '_', '-')") : 0;
}

static int add_utf8(struct reader *r, struct buf *value, uint32_t c)
{
	char out[4];
	size_t n;

	if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
		return fail(r, "an escape names no character");
	if (c < 0x80) {
		out[0] = (char)c;
		n = 1;
	} else if (c < 0x800) {
		out[0] = (char)(0xC0 | c >> 6);
		n = 2;
	} else if (c < 0x10000) {
		out[0] = (char)(0xE0 | c >> 12);
		n = 3;
	} else {
		out[0] = (char)(0xF0 | c >> 18);
		n = 4;
	}
	for (size_t i = 1; i < n; i++)
		out[i] = (char)(0x80 | ((c >> (6 * (n - 1 - i))) & 0x3F));
	return buf_add(value, out, n) < 0 ? fail(r, "a value is too long") : 0;
}

static int read_escape(struct reader *r, struct buf *value)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	char c = r->p < r->end ? *r->p++ : '\0';
	size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
	uint32_t code = 0;

	if (digits == 0) {
		const char *found = c ? strchr(from, c) : NULL;
		if (!found)
			return fail(r, "an unknown escape in a string");
		return add_utf8(r, value, (uint8_t)to[found - from]);
	}
	for (size_t i = 0; i < digits; i++, r->p++) {
		static const char hex[] = "0123456789abcdef";
		const char *d = r->p < r->end && *r->p ? strchr(hex, *r->p | 0x20) : NULL;
		if (!d || (*r->p < '0'))
			return fail(r, "a broken escape in a string");
		code = code << 4 | (uint32_t)(d - hex);
	}
	return add_utf8(r, value, code);
}

static int read_string(struct reader *r, struct buf *value)
{
	char quote = *r->p++;

	if (r->end - r->p >= 2 && r->p[0] == quote && r->p[1] == quote)
		return fail(r, "long strings are not supported");
	while (r->p < r->end && *r->p != quote) {
		char c = *r->p++;
		if (((uint8_t)c < 0x20 && c != '\t') || c == 0x7F)
			return fail(r, "a control character in a string");
		int x = 0;
		if (c == '\\' && quote == '"')
			x = read_escape(r, value);
		else if (buf_add_char(value, c) < 0)
			x = fail(r, "a value is too long");
		if (x < 0)
			return x;
	}
	if (r->p == r->end)
		return fail(r, "a string has no end");
	r->p++;
	return 0;
}

/* A number or a truth value is taken as it is written; the reader of the setting checks it. */

/* The text is not NUL-terminated: strspn(3) would read on. */
static bool all_of(const char *s, size_t n, const char *set)
{
	for (size_t i = 0; i < n; i++)
		if (!s[i] || !strchr(set, s[i]))
			return false;
	return true;
}

static int read_word(struct reader *r, struct buf *value)
{
	const char *start = r->p;

	while (r->p < r->end && (is_bare(*r->p) || *r->p == '.' || *r->p == '+'))
		r->p++;
	size_t n = (size_t)(r->p - start);
	bool truth =
	    (n == 4 && memcmp(start, "true", 4) == 0) || (n == 5 && memcmp(start, "false", 5) == 0);
	if (n == 0 || (!truth && !all_of(start, n, "+-.0123456789_")))
		return fail(r, "a value is a string in quotes, a number, true or false");
	for (size_t i = 0; i < n; i++) {
		bool between = i > 0 && i + 1 < n && start[i - 1] >= '0' && start[i - 1] <= '9' &&
			       start[i + 1] >= '0' && start[i + 1] <= '9';
		if (start[i] == '_' && !between)
			return fail(r, "a broken number");
		if (start[i] != '_' && buf_add_char(value, start[i]) < 0)
			return fail(r, "a value is too long");
	}
	return 0;
}

static int line_end(struct reader *r)
{
	skip_blanks(r);
	if (r->p < r->end && *r->p != '#')
		return fail(r, "something follows that does not belong there");
	return 0;
}

/* The second tool family ignored keys that it did not know, so there a warning is enough. */
static int unknown_key(struct reader *r, const char *where, const char *key)
{
	struct suggest near = suggest_for(key);

	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++)
		suggest_offer(&near, setting_rows[id].key);
	if (r->classic) {
		settings_warn(r->settings, "%s: there is no such setting, so it is ignored%s",
			      where, suggest_text(&near));
		return 0;
	}
	(void)err_set(r->e, ERR_SETTING_INVALID, 0, "%s: there is no such setting%s", where,
		      suggest_text(&near));
	return -EINVAL;
}

static int apply(struct reader *r, const char *key, const char *value)
{
	const struct classic_key *theirs = classic_key_find(key);
	char where[KEY_MAX + 300];

	(void)snprintf(where, sizeof(where), "%.256s:%u: %s", r->name, r->line, key);
	if (theirs && !theirs->ours) {
		if (theirs->usual && !streq(theirs->usual, value))
			settings_warn(r->settings, "%s has no effect: %s", where, theirs->instead);
		return 0;
	}
	const char *ours = theirs ? theirs->ours : key;
	enum setting_id id = settings_find_key(ours, strlen(ours));
	if (id == SETTING_ID_MAX_)
		return unknown_key(r, where, key);
	if (r->seen[id]) {
		(void)err_set(r->e, ERR_SETTING_INVALID, 0, "%s: is given twice", where);
		return -EINVAL;
	}
	r->seen[id] = true;
	return settings_set(r->settings, id, r->classic ? classic_value(id, value) : value,
			    SETTING_FROM_FILE, where, r->e);
}

static int read_pair(struct reader *r)
{
	_cleanup_(buf_done) struct buf value = BUF_INIT(VALUE_MAX);
	char key[KEY_MAX];

	(void)snprintf(key, sizeof(key), "%s", r->table);
	int x = read_key(r, key);
	if (x < 0)
		return x;
	skip_blanks(r);
	if (r->p == r->end || *r->p != '=')
		return fail(r, "'=' is expected after the key");
	r->p++;
	skip_blanks(r);
	if (r->p < r->end && (*r->p == '"' || *r->p == '\''))
		x = read_string(r, &value);
	else
		x = read_word(r, &value);
	if (x == 0)
		x = line_end(r);
	return x < 0 ? x : apply(r, key, buf_str(&value));
}

static int read_table(struct reader *r)
{
	r->p++;
	if (r->p < r->end && *r->p == '[')
		return fail(r, "lists of tables are not supported");
	skip_blanks(r);
	r->table[0] = '\0';
	int x = read_key(r, r->table);
	if (x < 0)
		return x;
	skip_blanks(r);
	if (r->p == r->end || *r->p != ']')
		return fail(r, "']' is expected after the table's name");
	r->p++;
	return line_end(r);
}

static int read_line(struct reader *r)
{
	skip_blanks(r);
	if (r->p == r->end || *r->p == '#')
		return 0;
	return *r->p == '[' ? read_table(r) : read_pair(r);
}

int config_file_parse(struct settings *s, const char *text, size_t len, const char *name,
		      struct err *e)
{
	struct reader r = {.settings = s, .name = name, .e = e, .classic = classic_is(text, len)};
	const char *p = text, *end = text + len;

	if (memchr(text, '\0', len) || !text_is_utf8(text, len)) {
		r.line = 1;
		return fail(&r, "the file is not UTF-8 text");
	}
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *stop = newline ? newline : end;

		r.line++;
		r.p = p;
		r.end = stop > p && stop[-1] == '\r' ? stop - 1 : stop;
		int x = read_line(&r);
		if (x < 0)
			return x;
		p = newline ? newline + 1 : end;
	}
	return 0;
}

int config_file_read_fd(struct settings *s, int fd, const char *path, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	int r = fd_read_file(fd, &text);

	if (r == -ENOBUFS)
		return err_set(e, ERR_SETTING_INVALID, EFBIG, "%s", path);
	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "cannot read %s", path);
	return config_file_parse(s, buf_str(&text), text.len, path, e);
}

int config_file_open(const char *path, bool safe)
{
	/* O_NONBLOCK: if the path is a FIFO, opening it must not block the start. */
	_cleanup_fd_ int fd =
	    open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (safe ? O_NOFOLLOW : 0));
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (safe && (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0))
		return -EPERM;
	return TAKE_FD(fd);
}

int config_file_read(struct settings *s, const char *path, struct err *e)
{
	_cleanup_fd_ int fd = config_file_open(path, false);

	if (fd < 0)
		return err_set(e, ERR_SETTING_INVALID, -fd, "cannot open %s", path);
	return config_file_read_fd(s, fd, path, e);
}

int config_file_read_if_safe(struct settings *s, const char *path, bool *ret_refused, struct err *e)
{
	_cleanup_fd_ int fd = config_file_open(path, true);

	*ret_refused = fd < 0 && fd != -ENOENT;
	if (fd < 0)
		return 0;
	int r = config_file_read_fd(s, fd, path, e);
	return r < 0 ? r : 1;
}
