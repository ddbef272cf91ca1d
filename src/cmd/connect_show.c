/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/connect_show.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define LINE_SHOWN 400 /* bytes of a line that are shown */
#define TAB_SHOWN  "    "

void connect_show_client(const struct client *c, const char *path, bool unreadable,
			 enum entry_state state)
{
	static const char *const states[] = {
	    [ENTRY_NONE] = "not connected",
	    [ENTRY_OURS] = "connected",
	    [ENTRY_OTHER] = "another server has the name",
	};

	(void)printf("  %-16s  %-27s  %s\n", c->name,
		     unreadable ? "cannot be read or edited" : states[state], path);
}

void connect_show_end(size_t n)
{
	if (n > 0) {
		(void)puts("\n'caisson connect NAME...' writes the configuration of clients, and "
			   "'caisson connect all' that of all of these.");
		return;
	}
	(void)fputs("No client that it knows is on this machine. It knows", stdout);
	for (const struct client *c = clients; c->name; c++)
		(void)printf("%s %s", c == clients ? "" : ",", c->name);
	(void)puts(".");
}

void connect_show_sudo(void)
{
	const char *user = getenv("SUDO_USER"), *home = getenv("HOME");

	if (geteuid() == 0 && user && !streq(user, "root"))
		(void)printf("This is for root (%s), not for %s: without sudo it is for you.\n",
			     home ? home : "", user);
}

/* Appends a part of a line; a tab is no reason to escape it. */
static int add_part(struct buf *b, const char *s, size_t len)
{
	int r = 0;

	for (; r == 0 && len > 0 && *s == '\t'; s++, len--)
		r = buf_add_str(b, TAB_SHOWN);
	return r < 0 ? r : text_add_line(b, s, len);
}

/* Prints the lines of TEXT with MARK in front; KEY is replaced. */
static void show_lines(const char *text, size_t len, char mark, const char *key)
{
	while (len > 0) {
		_cleanup_(buf_done) struct buf line = BUF_INIT(CONNECT_FILE_MAX);
		const char *nl = memchr(text, '\n', len);
		size_t n = nl ? (size_t)(nl - text) : len;
		size_t end = n > 0 && text[n - 1] == '\r' ? n - 1 : n;
		const char *secret = key ? memmem(text, end, key, strlen(key)) : NULL;
		size_t before = secret ? (size_t)(secret - text) : end;
		int r = add_part(&line, text, text_utf8_cut(text, before, LINE_SHOWN));

		if (r == 0 && secret)
			r = buf_add_str(&line, "(the key)\"");
		else if (r == 0 && before > LINE_SHOWN)
			r = buf_add_str(&line, "...");
		(void)printf("  %c %s\n", mark, r < 0 ? "" : buf_str(&line));
		n += nl != NULL;
		text += n;
		len -= n;
	}
}

/* Where the first line begins that differs. */
static size_t same_lines(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t line = 0;

	for (size_t i = 0; i < a_len && i < b_len && a[i] == b[i]; i++)
		if (a[i] == '\n')
			line = i + 1;
	return line;
}

/* How many bytes of equal whole lines both end with. */
static size_t same_end(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t lines = 0, n = 0;

	while (n < a_len && n < b_len && a[a_len - n - 1] == b[b_len - n - 1]) {
		if (n > 0 && a[a_len - n - 1] == '\n')
			lines = n;
		n++;
	}
	/* One of them ended: does its first line begin one in the other, too? */
	const bool whole =
	    (n == a_len || a[a_len - n - 1] == '\n') && (n == b_len || b[b_len - n - 1] == '\n');
	return whole ? n : lines;
}

void connect_show_change(const struct client *c, const struct connect_file *file,
			 const struct buf *after, bool other, const char *key)
{
	const char *a = buf_str(&file->text), *b = buf_str(after);
	size_t from = same_lines(a, file->text.len, b, after->len);
	size_t end = same_end(a + from, file->text.len - from, b + from, after->len - from);

	(void)printf("%s: %s%s\n", c->title, file->path,
		     !file->exists     ? " (new)"
		     : after->len == 0 ? " (is removed)"
				       : "");
	if (other)
		(void)puts("  Another server has this name; its entry is replaced.");
	show_lines(a + from, file->text.len - from - end, '-', key);
	show_lines(b + from, after->len - from - end, '+', key);
	(void)puts("");
}

void connect_show_same(const struct client *c, const char *path, bool undo)
{
	(void)printf("%s: %s %s\n", c->title, path,
		     undo ? "has nothing to take out" : "says so already");
}

void connect_show_done(const struct client *c, const struct connect_file *file, bool backup)
{
	(void)printf("%s: done%s%s%s\n", c->title, backup && file->exists ? "; before: " : "",
		     backup && file->exists ? file->path : "",
		     backup && file->exists ? ".caisson-backup" : "");
}

void connect_show_snippet(const char *path, const struct buf *snippet)
{
	(void)fprintf(stderr, "To connect by hand, add this to %s:\n%s", path, buf_str(snippet));
}
