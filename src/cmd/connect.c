/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson connect`: writes the entry of this server into the configuration of MCP clients, and takes it out again. All
 * changes are worked out and shown first; then one question is asked; then the files are written. */
#include "connect/connect.h"
#include "cmd/cmd.h"
#include "cmd/connect_show.h"

#include "base/suggest.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS_MAX 32
#define NAME_MAX_   64
#define ANSWER_SIZE 16

struct options {
	bool yes, undo, dry_run, replace, all;
	struct connect_target target;
	const struct client *clients[CLIENTS_MAX];
	size_t n;
};

struct change {
	const struct client *client;
	struct connect_file file;
	struct buf after;
	enum entry_state was;
	bool wanted; /* there is something to write */
	bool keep_backup;
};

/* ---- the command line ---- */

static bool is_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return n > 0 && n < NAME_MAX_ && s[n] == '\0';
}

static bool is_variable(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	return n > 0 && n < NAME_MAX_ && s[n] == '\0' && !(s[0] >= '0' && s[0] <= '9');
}

/* Printable ASCII without what a shell, JSON or a browser would read otherwise; nobody's name or password. */
static bool is_url(const char *s)
{
	size_t scheme = text_starts_with(s, "https://")  ? strlen("https://")
			: text_starts_with(s, "http://") ? strlen("http://")
							 : 0;
	size_t host = scheme > 0 ? strcspn(s + scheme, "/?#") : 0;

	if (host == 0 || strlen(s) > 1024 || memchr(s + scheme, '@', host))
		return false;
	for (; *s; s++)
		if (*s <= ' ' || *s > '~' || strchr("\"\\<>`{}|^$", *s))
			return false;
	return true;
}

static bool is_key(const char *s)
{
	for (const char *p = s; *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	return *s != '\0';
}

static int add_client(struct options *o, const char *word, struct err *e)
{
	struct suggest near = suggest_for(word);
	const struct client *c = client_by_name(word);

	if (streq(word, "all")) {
		o->all = true;
		return 0;
	}
	for (size_t i = 0; i < o->n; i++)
		if (o->clients[i] == c)
			return 0;
	if (c && o->n < CLIENTS_MAX) {
		o->clients[o->n++] = c;
		return 0;
	}
	for (c = clients; c->name; c++)
		suggest_offer(&near, c->name);
	return err_set(e, ERR_USAGE, 0, "'%.64s' is no client that it knows%s", word,
		       suggest_text(&near));
}

static const struct {
	const char *name;
	size_t offset;
} flags[] = {
    {"--yes", offsetof(struct options, yes)},
    {"--undo", offsetof(struct options, undo)},
    {"--dry-run", offsetof(struct options, dry_run)},
    {"--replace", offsetof(struct options, replace)},
};

static const struct {
	const char *name;
	size_t offset;
} values[] = {
    {"--url", offsetof(struct options, target.url)},
    {"--key-from-env", offsetof(struct options, target.key_variable)},
    {"--name", offsetof(struct options, target.name)},
};

/* 1: the argument was an option; *ARGV may have moved to its value. */
static int read_option(struct options *o, char ***argv, struct err *e)
{
	const char *word = **argv;
	size_t n = strcspn(word, "=");

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (streq(flags[i].name, word)) {
			*(bool *)(void *)((char *)o + flags[i].offset) = true;
			return 1;
		}
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		if (strlen(values[i].name) == n && memcmp(values[i].name, word, n) == 0) {
			const char *value = word[n] ? word + n + 1 : *++*argv;

			if (!value || (!word[n] && value[0] == '-'))
				return err_set(e, ERR_USAGE, 0, "%s needs a value", word);
			*(const char **)(void *)((char *)o + values[i].offset) = value;
			return 1;
		}
	return word[0] == '-' ? cmd_unknown("connect", word, e) : 0;
}

static int check_options(struct options *o, struct err *e)
{
	struct connect_target *t = &o->target;

	if (!is_name(t->name))
		return err_set(e, ERR_USAGE, 0, "a name has letters, digits, - and _, not '%.64s'",
			       t->name);
	if (t->url && !is_url(t->url))
		return err_set(e, ERR_USAGE, 0,
			       "'%.128s' is no address of a server: http://HOST:PORT/mcp", t->url);
	if (t->key_variable && !is_variable(t->key_variable))
		return err_set(e, ERR_USAGE, 0,
			       "--key-from-env takes the name of a variable, not the key itself");
	if (t->key_variable && !t->url)
		return err_set(e, ERR_USAGE, 0, "--key-from-env is for a server by --url");
	t->key = t->key_variable ? getenv(t->key_variable) : NULL;
	if (t->key && !is_key(t->key))
		return err_set(e, ERR_USAGE, 0,
			       "%s is empty, or has a character that no header can hold",
			       t->key_variable);
	if (o->undo && t->url)
		return err_set(e, ERR_USAGE, 0, "--undo takes no --url: it goes by --name");
	return 0;
}

static int read_options(struct options *o, char **argv, struct err *e)
{
	*o = (struct options){.target.name = "caisson"};
	for (argv++; *argv; argv++) {
		int r = read_option(o, &argv, e);

		r = r == 0 ? add_client(o, *argv, e) : r;
		if (r < 0)
			return r;
	}
	return check_options(o, e);
}

/* ---- what clients are to start ---- */

/* uvx and npx unpack a package into a cache that they may empty at any time, so the client must start them again. */
static const struct {
	const char *part; /* of our path */
	const char *command;
	const char *args[CONNECT_ARGS_MAX + 1];
} launchers[] = {
    {"/archive-v0/", "uvx", {"caisson-mcp"}},
    {"/environments-v2/", "uvx", {"caisson-mcp"}},
    {"/_npx/", "npx", {"-y", "caisson-mcp"}},
};

static int find_command(struct connect_target *t, char self[PATH_MAX], struct err *e)
{
	static const char deleted[] = " (deleted)";
	ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);

	if (n < 0)
		return err_set(e, ERR_SYSTEM, errno, "the path of this program");
	self[n] = '\0';
	if (text_ends_with(self, deleted))
		return err_set(e, ERR_USAGE, 0,
			       "the program was replaced while it ran; start it again");
	if (!text_is_utf8(self, (size_t)n))
		return err_set(e, ERR_USAGE, 0, "the path of this program is not valid UTF-8");
	for (size_t i = 0; i < ARRAY_SIZE(launchers); i++)
		if (strstr(self, launchers[i].part)) {
			t->command = launchers[i].command;
			memcpy(t->args, launchers[i].args, sizeof(t->args));
			return 0;
		}
	t->command = self;
	t->args[0] = "stdio";
	return 0;
}

/* An address without a path means the one that MCP has. */
static void complete_url(struct connect_target *t, char ret[PATH_MAX])
{
	const char *path = strchr(strstr(t->url, "://") + 3, '/');

	(void)snprintf(ret, PATH_MAX, "%s%s", t->url,
		       !path              ? "/mcp"
		       : streq(path, "/") ? "mcp"
					  : "");
	t->url = ret;
}

/* ---- the changes ---- */

static void change_done(struct change *c)
{
	connect_file_done(&c->file);
	buf_done(&c->after);
}

/* "Not understood", with what the person may paste. */
static int not_understood(const struct change *c, const struct connect_target *t, struct err *e)
{
	_cleanup_(buf_done) struct buf snippet = BUF_INIT(CONNECT_FILE_MAX);

	if ((t->command || t->url) && connect_snippet(c->client, t, &snippet) == 0)
		connect_show_snippet(c->file.path, &snippet);
	return err_set(e, ERR_SETTING_INVALID, 0,
		       "%s is left as it is: it is not written in a way that can be edited safely",
		       c->file.path);
}

static int work_out(struct change *c, const struct options *o, struct err *e)
{
	const struct connect_target *t = &o->target;
	struct client_place place;
	struct buf *text = &c->file.text;
	int r = connect_check(c->client, t, e);

	r = r < 0 ? r : connect_find(c->client, &place, e);
	r = r < 0 ? r : connect_file_read(&c->file, place.path, e);
	if (r < 0)
		return r;
	r = connect_text_state(c->client, t, buf_str(text), text->len, &c->was);
	r = r < 0 ? r : connect_text_set(c->client, t, buf_str(text), text->len, &c->after);
	if (r < 0)
		return not_understood(c, t, e);
	c->wanted =
	    c->after.len != text->len || memcmp(buf_str(&c->after), buf_str(text), text->len) != 0;
	if (c->wanted && t->key && !c->client->before && c->file.exists &&
	    (c->file.st.st_mode & 077) != 0)
		return err_set(
		    e, ERR_FORBIDDEN, 0,
		    "%s reads no variables, so the key itself would be written, and others may "
		    "read %s (chmod 600)",
		    c->client->title, c->file.path);
	if (c->wanted && c->was == ENTRY_OTHER && o->yes && !o->replace)
		return err_set(
		    e, ERR_ALREADY_EXISTS, 0,
		    "%s has another server named '%s'; give --replace, or another --name",
		    c->file.path, t->name);
	return 0;
}

/* The backup says what was there before the entry, so it is only made where it would not overwrite that. */
static int want_backup(struct change *c, struct err *e)
{
	_cleanup_(buf_done) struct buf old = BUF_INIT(CONNECT_FILE_MAX);
	int r = c->was == ENTRY_OURS ? connect_file_backup(&c->file, &old, e) : 0;

	c->keep_backup = r == 0;
	return r < 0 ? r : 0;
}

static int work_out_undo(struct change *c, const struct options *o, struct err *e)
{
	_cleanup_(buf_done) struct buf backup = BUF_INIT(CONNECT_FILE_MAX);
	struct client_place place;
	bool whole;
	int r = connect_find(c->client, &place, e);

	r = r < 0 ? r : connect_file_read(&c->file, place.path, e);
	if (r < 0)
		return r;
	int had = connect_file_backup(&c->file, &backup, e);
	if (had < 0)
		return had;
	r = connect_text_state(c->client, &o->target, buf_str(&c->file.text), c->file.text.len,
			       &c->was);
	if (r == 0 && c->was == ENTRY_OTHER && had == 0 && o->all)
		return 0; /* somebody else's, and nobody named this client */
	r = r < 0 ? r
		  : connect_text_undo(c->client, o->target.name, buf_str(&c->file.text),
				      c->file.text.len, had ? &backup : NULL, &c->after, &whole);
	if (r < 0 && r != -ENOENT)
		return not_understood(c, &o->target, e);
	c->wanted = r == 0;
	return 0;
}

static int apply(const struct change *c, const struct options *o, struct err *e)
{
	return o->undo ? connect_file_restore(&c->file, &c->after, e)
		       : connect_file_write(&c->file, &c->after, c->keep_backup, e);
}

static bool ask(void)
{
	char answer[ANSWER_SIZE];

	(void)fputs("Write this? [y/N] ", stdout);
	(void)fflush(stdout);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

/* ---- the verb ---- */

/* All that are on this machine. */
static int find_all(struct options *o, struct err *e)
{
	struct client_place place;

	for (const struct client *c = clients; c->name; c++) {
		int r = connect_find(c, &place, e);

		if (r < 0)
			return r;
		bool known = !place.is_here;
		for (size_t i = 0; i < o->n; i++)
			known = known || o->clients[i] == c;
		if (!known && o->n < CLIENTS_MAX)
			o->clients[o->n++] = c;
	}
	return 0;
}

static int list(const struct options *o, struct err *e)
{
	struct client_place place;
	size_t n = 0;

	for (const struct client *c = clients; c->name; c++) {
		_cleanup_(connect_file_done) struct connect_file file = {0};
		struct err why = ERR_INIT;
		enum entry_state state = ENTRY_NONE;
		int r = connect_find(c, &place, e);

		if (r < 0)
			return r;
		if (!place.is_here)
			continue;
		r = connect_file_read(&file, place.path, &why);
		r = r < 0 ? r
			  : connect_text_state(c, &o->target, buf_str(&file.text), file.text.len,
					       &state);
		connect_show_client(c, place.path, r < 0, state);
		n++;
	}
	connect_show_end(n);
	return 0;
}

static int change_all(struct change *changes, const struct options *o, struct err *first)
{
	size_t wanted = 0, done = 0;

	for (size_t i = 0; i < o->n; i++) {
		struct change *c = &changes[i];
		struct err e = ERR_INIT;

		c->client = o->clients[i];
		c->after = BUF_INIT(CONNECT_FILE_MAX);
		int r = o->undo ? work_out_undo(c, o, &e) : work_out(c, o, &e);
		r = r < 0 || o->undo ? r : want_backup(c, &e);
		if (r < 0) {
			(void)cmd_fail("connect", &e);
			*first = first->code == ERR_NONE ? e : *first;
			c->wanted = false;
		} else if (!c->wanted) {
			connect_show_same(c->client, c->file.path, o->undo);
		} else {
			connect_show_change(c->client, &c->file, &c->after,
					    c->was == ENTRY_OTHER && !o->undo, o->target.key);
		}
		wanted += c->wanted;
	}
	if (wanted == 0 || o->dry_run)
		return 0;
	if (!o->yes && !ask()) {
		(void)puts("Nothing was written.");
		return 0;
	}
	for (size_t i = 0; i < o->n; i++) {
		struct err e = ERR_INIT;

		if (!changes[i].wanted)
			continue;
		if (apply(&changes[i], o, &e) < 0) {
			(void)cmd_fail("connect", &e);
			*first = first->code == ERR_NONE ? e : *first;
			continue;
		}
		connect_show_done(changes[i].client, &changes[i].file, changes[i].keep_backup);
		done++;
	}
	if (done > 0)
		(void)puts("Start these clients again so that they read it.");
	return 0;
}

int cmd_connect(int argc UNUSED, char **argv)
{
	static char self[PATH_MAX], url[PATH_MAX];
	static struct change changes[CLIENTS_MAX];
	struct err e = ERR_INIT, first = ERR_INIT;
	struct options o;

	if (read_options(&o, argv, &e) < 0)
		return cmd_fail("connect", &e);
	int r = o.undo || o.target.url ? 0 : find_command(&o.target, self, &e);
	if (o.target.url)
		complete_url(&o.target, url);
	if (r == 0 && o.n == 0 && !o.all && !o.undo)
		return list(&o, &e) < 0 ? cmd_fail("connect", &e) : 0;
	o.all = o.all || o.n == 0;
	r = r < 0 || !o.all ? r : find_all(&o, &e);
	if (r == 0 && !o.yes && !o.dry_run && !isatty(STDIN_FILENO))
		r = err_set(&e, ERR_USAGE, 0,
			    "there is no terminal to ask on; --yes writes without a question, "
			    "--dry-run only shows the change");
	if (r < 0)
		return cmd_fail("connect", &e);
	connect_show_sudo();
	if (o.n == 0)
		connect_show_end(0);
	(void)change_all(changes, &o, &first);
	for (size_t i = 0; i < o.n; i++)
		change_done(&changes[i]);
	if (fflush(stdout) != 0)
		return EXIT_FAILURE;
	return first.code == ERR_NONE ? 0 : err_code_exit(first.code);
}
