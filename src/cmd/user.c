/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson user` and `caisson key`: accounts and keys of this state folder. They work while a server
 * runs and without one. */
#include "app/app.h"
#include "cmd/cmd.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/suggest.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>
#include <termios.h>
#include <time.h>

#define PASSWORD_RANDOM 12 /* bytes of a generated password */
#define LINE_SIZE       (STORE_PASSWORD_MAX + 2)
#define MS_PER_DAY      UINT64_C(86400000)
#define OPTIONS_MAX     8
#define INVITE_DAYS     7

struct command {
	const char *verb; /* "user" */
	const char *name; /* "add" */
	int n_args;       /* how many words it needs */
	int (*fn)(struct app *a, char **args, const char *const *options, struct err *e);
	const char *options[OPTIONS_MAX]; /* names of its --name VALUE options, then NULL */
	const char *usage;
	bool makes; /* the database is made if it does not exist */
};

/* ---- passwords ---- */

static int read_line(char *ret, size_t size, struct err *e)
{
	if (!fgets(ret, (int)size, stdin))
		return err_set(e, ERR_USAGE, 0, "no password on standard input");
	ret[strcspn(ret, "\r\n")] = '\0';
	return 0;
}

/* Asks for a password on a terminal. Otherwise reads one line of standard input. */
static int ask_password(char *ret, size_t size, struct err *e)
{
	struct termios before, quiet;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before) < 0)
		return read_line(ret, size, e);
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	(void)fputs("Password: ", stderr);
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
	int r = read_line(ret, size, e);
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	(void)fputs("\n", stderr);
	return r;
}

static int hash_new_password(struct app *a, bool generate, char *ret_hash, struct err *e)
{
	uint8_t random[PASSWORD_RANDOM];
	char password[LINE_SIZE];
	int r = 0;

	if (generate) {
		rand_bytes(random, sizeof(random));
		(void)sodium_bin2base64(password, sizeof(password), random, sizeof(random),
					sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	} else {
		r = ask_password(password, sizeof(password), e);
	}
	r = r < 0 ? r : store_hash_now(password, store_password_min(a->store), ret_hash, e);
	if (r == 0 && generate)
		(void)printf("password  %s\n", password);
	sodium_memzero(password, sizeof(password));
	return r;
}

static int find_user(struct app *a, const char *name, struct store_user *ret, struct err *e)
{
	int r = store_user_find(a->store, name, ret, e);

	return r == 0 ? err_set(e, ERR_NOT_FOUND, 0, "there is no user '%s'", name) : r;
}

/* ---- caisson user ---- */

static int parse_role(const char *word, enum store_role *ret, struct err *e)
{
	int r = word ? store_role_parse(word, ret) : 0;

	return r < 0 ? err_set(e, ERR_USAGE, 0, "a role is user or admin, not '%s'", word) : 0;
}

static int user_add(struct app *a, char **args, const char *const *options, struct err *e)
{
	struct store_user u = {.active = true, .quota = STORE_QUOTA_DEFAULTS};
	int r = parse_role(options[0], &u.role, e);

	if (r == 0 && (text_copy(u.name, sizeof(u.name), args[0]) < 0 || !u.name[0] ||
		       !text_is_utf8(u.name, strlen(u.name)) ||
		       text_copy(u.email, sizeof(u.email), options[1] ? options[1] : "") < 0))
		r = err_set(e, ERR_USAGE, 0, "the name or the e-mail is too long");
	if (r == 0 && !(options[2] && streq(options[2], "none")))
		r = hash_new_password(a, options[2] && streq(options[2], "generate"), u.hash, e);
	r = r < 0 ? r : store_user_add(a->store, &u, e);
	if (r < 0)
		return r;
	store_audit(a->store, NULL, "user.add", u.name, "ok", store_role_name(u.role), NULL);
	(void)printf("user      %s\nid        %s\nrole      %s\n", u.name, u.id,
		     store_role_name(u.role));
	return 0;
}

static void print_date(uint64_t ms, const char *otherwise)
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;
	char text[32] = "";

	if (ms > 0 && gmtime_r(&t, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
	(void)printf("  %-16s", ms > 0 ? text : otherwise);
}

static bool print_user(const struct store_user *u, void *arg UNUSED)
{
	(void)printf("%-36s  %-6s  %-8s", u->id, store_role_name(u->role),
		     u->active ? "active" : "inactive");
	print_date(u->created_ms, "");
	(void)printf("  %s%s%s\n", u->name, u->email[0] ? "  " : "", u->email);
	return true;
}

static int user_list(struct app *a, char **args UNUSED, const char *const *options UNUSED,
		     struct err *e)
{
	return store_user_each(a->store, NULL, print_user, NULL, e);
}

static int user_rm(struct app *a, char **args, const char *const *options UNUSED, struct err *e)
{
	struct store_user u;
	uint64_t n = 0;
	int r = find_user(a, args[0], &u, e);

	r = r < 0 ? r : store_sandbox_count(a->store, u.id, &n, e);
	if (r >= 0 && n > 0)
		return err_set(e, ERR_FORBIDDEN, 0,
			       "'%s' has %ju sandboxes; delete them first (DELETE "
			       "/api/v1/users/%s does both)",
			       u.name, (uintmax_t)n, u.id);
	r = r < 0 ? r : store_user_remove(a->store, u.id, e);
	if (r > 0)
		store_audit(a->store, NULL, "user.remove", u.name, "ok", NULL, NULL);
	return MIN(r, 0);
}

static int user_passwd(struct app *a, char **args, const char *const *options, struct err *e)
{
	struct store_user u;
	int r = find_user(a, args[0], &u, e);

	r = r < 0 ? r
		  : hash_new_password(a, options[0] && streq(options[0], "generate"), u.hash, e);
	r = r < 0 ? r : store_user_update(a->store, &u, e);
	if (r > 0)
		store_audit(a->store, NULL, "user.passwd", u.name, "ok", NULL, NULL);
	return MIN(r, 0);
}

static int user_role(struct app *a, char **args, const char *const *options UNUSED, struct err *e)
{
	struct store_user u;
	int r = find_user(a, args[0], &u, e);

	r = r < 0 ? r : parse_role(args[1], &u.role, e);
	r = r < 0 ? r : store_user_update(a->store, &u, e);
	if (r > 0)
		store_audit(a->store, NULL, "user.role", u.name, "ok", store_role_name(u.role),
			    NULL);
	return MIN(r, 0);
}

/* TEXT: a number, or "default" for the setting of the server. NULL leaves *RET as it is. */
static int parse_limit(const char *option, const char *text, int64_t max, int64_t *ret,
		       struct err *e)
{
	uint64_t n = 0;

	if (!text)
		return 0;
	if (streq(text, "default")) {
		*ret = STORE_QUOTA_DEFAULT;
		return 0;
	}
	if (parse_u64(text, 0, (uint64_t)max, &n) < 0)
		return err_set(e, ERR_USAGE, 0,
			       "--%s is a number from 0 (nothing is allowed) to %jd, or default",
			       option, (intmax_t)max);
	*ret = (int64_t)n;
	return 0;
}

static void print_limit(const char *what, int64_t own, int64_t server)
{
	const char *whose = own < 0 ? "  (the server's setting)" : "";
	const int64_t n = own < 0 ? server : own;

	if (own < 0 && n == 0)
		(void)printf("%-16s  no limit%s\n", what, whose);
	else
		(void)printf("%-16s  %jd%s\n", what, (intmax_t)MAX(n, 0), whose);
}

static int user_limits(struct app *a, char **args, const char *const *options, struct err *e)
{
	const struct settings *s = &a->settings;
	struct store_user u;
	int r = find_user(a, args[0], &u, e);

	if (r < 0)
		return r;
	struct {
		const char *option, *what;
		int64_t max, server, *own;
	} rows[] = {
	    {"sandboxes", "sandboxes", 1000000, s->user_sandbox_limit, &u.quota.sandboxes},
	    {"cpu-s-per-day", "CPU s a day", 1000000000, s->user_cpu_s_per_day,
	     &u.quota.cpu_s_per_day},
	    {"disk-bytes", "bytes of disk", INT64_MAX, s->user_disk_bytes, &u.quota.disk_bytes},
	    {"runs-per-minute", "runs a minute", 1000000, s->user_runs_per_minute,
	     &u.quota.runs_per_minute},
	};
	bool changes = false;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		r = parse_limit(rows[i].option, options[i], rows[i].max, rows[i].own, e);
		if (r < 0)
			return r;
		changes = changes || options[i];
	}
	r = changes ? store_user_update(a->store, &u, e) : 0;
	if (r < 0)
		return r;
	if (r > 0)
		store_audit(a->store, NULL, "user.limits", u.name, "ok", NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		print_limit(rows[i].what, *rows[i].own, rows[i].server);
	return 0;
}

static int user_invite(struct app *a, char **args UNUSED, const char *const *options, struct err *e)
{
	struct store_invitation i = {.role = STORE_ROLE_USER};
	char text[STORE_KEY_SIZE];
	uint64_t days = INVITE_DAYS;
	int r = parse_role(options[0], &i.role, e);

	if (r == 0 && options[1] && parse_u64(options[1], 1, 365, &days) < 0)
		r = err_set(e, ERR_USAGE, 0, "--days is a number from 1 to 365");
	if (r == 0 && text_copy(i.note, sizeof(i.note), options[2] ? options[2] : "") < 0)
		r = err_set(e, ERR_USAGE, 0, "the note is too long");
	i.expires_ms = store_now_ms() + days * MS_PER_DAY;
	r = r < 0 ? r : store_invitation_add(a->store, &i, text, e);
	if (r < 0)
		return r;
	store_audit(a->store, NULL, "user.invite", i.id, "ok", i.note, NULL);
	char base[STORE_ADDRESS_SIZE] = "";
	/* The invitation stands; only where its page is may be unknown. */
	if (store_address(a->store, base, e) < 0)
		*e = (struct err)ERR_INIT;
	(void)fprintf(
	    stderr,
	    "This invitation is shown once. With it one person makes an account, within %ju "
	    "days, on the page of the server:\n  %s/#/join/%s\n",
	    (uintmax_t)days, base[0] ? base : "http://127.0.0.1:8181", text);
	(void)printf("%s\n", text);
	return 0;
}

static bool print_invitation(const struct store_invitation *i, void *arg UNUSED)
{
	(void)printf("%-36s  %-6s  expires", i->id, store_role_name(i->role));
	print_date(i->expires_ms, "");
	(void)printf("  %s\n", i->note);
	return true;
}

static int user_invitations(struct app *a, char **args UNUSED, const char *const *options UNUSED,
			    struct err *e)
{
	return store_invitation_each(a->store, NULL, print_invitation, NULL, e);
}

static int user_uninvite(struct app *a, char **args, const char *const *options UNUSED,
			 struct err *e)
{
	int r = store_invitation_remove(a->store, args[0], e);

	if (r == 0)
		return err_set(e, ERR_NOT_FOUND, 0, "there is no invitation %s", args[0]);
	if (r > 0)
		store_audit(a->store, NULL, "user.uninvite", args[0], "ok", NULL, NULL);
	return MIN(r, 0);
}

/* ---- caisson key ---- */

static int key_new(struct app *a, char **args, const char *const *options, struct err *e)
{
	struct store_key k = {.scope = STORE_SCOPE_FULL};
	char key[STORE_KEY_SIZE];
	struct store_user u;
	uint64_t days = 0;
	int r = find_user(a, args[0], &u, e);

	if (r < 0)
		return r;
	if (options[0] && store_scope_parse(options[0], &k.scope) < 0)
		return err_set(e, ERR_USAGE, 0, "a scope is full, read or admin");
	if (options[1] && parse_u64(options[1], 1, 36500, &days) < 0)
		return err_set(e, ERR_USAGE, 0, "--days is a number from 1 to 36500");
	if (text_copy(k.name, sizeof(k.name), options[2] ? options[2] : "") < 0 ||
	    text_copy(k.profile, sizeof(k.profile), options[3] ? options[3] : "") < 0)
		return err_set(e, ERR_USAGE, 0, "a name is too long");
	memcpy(k.user, u.id, sizeof(k.user));
	k.expires_ms = days ? store_now_ms() + days * MS_PER_DAY : 0;
	r = store_key_add(a->store, &k, key, e);
	if (r < 0)
		return r;
	store_audit(a->store, NULL, "key.new", k.id, "ok", u.name, NULL);
	(void)fprintf(stderr, "This key is shown once:\n");
	(void)printf("%s\n", key);
	return 0;
}

static bool print_key(const struct store_key *k, void *arg UNUSED)
{
	(void)printf("%-36s  %-14s  %-5s", k->id, k->hint, store_scope_name(k->scope));
	print_date(k->expires_ms, "never expires");
	print_date(k->used_ms, "never used");
	(void)printf("  %s\n", k->name);
	return true;
}

static int key_list(struct app *a, char **args, const char *const *options UNUSED, struct err *e)
{
	struct store_user u;
	int r = find_user(a, args[0], &u, e);

	return r < 0 ? r : store_key_each(a->store, u.id, NULL, print_key, NULL, e);
}

static int key_revoke(struct app *a, char **args, const char *const *options UNUSED, struct err *e)
{
	int r = store_key_revoke(a->store, NULL, args[0], e);

	if (r == 0)
		return err_set(e, ERR_NOT_FOUND, 0, "there is no key %s", args[0]);
	if (r > 0)
		store_audit(a->store, NULL, "key.revoke", args[0], "ok", NULL, NULL);
	return MIN(r, 0);
}

/* ---- the table ---- */

static const struct command commands[] = {
    {"user",
     "add",
     1,
     user_add,
     {"role", "email", "password"},
     "add NAME [--role user|admin] [--email E] [--password generate|none]",
     true},
    {"user", "list", 0, user_list, {NULL}, "list"},
    {"user", "rm", 1, user_rm, {NULL}, "rm NAME"},
    {"user", "passwd", 1, user_passwd, {"password"}, "passwd NAME [--password generate]"},
    {"user", "role", 2, user_role, {NULL}, "role NAME user|admin"},
    {"user",
     "limits",
     1,
     user_limits,
     {"sandboxes", "cpu-s-per-day", "disk-bytes", "runs-per-minute"},
     "limits NAME [--sandboxes N] [--cpu-s-per-day N] [--disk-bytes N] [--runs-per-minute N]   (N: "
     "a number or default)"},
    {"user",
     "invite",
     0,
     user_invite,
     {"role", "days", "note"},
     "invite [--role user|admin] [--days N] [--note TEXT]",
     true},
    {"user", "invitations", 0, user_invitations, {NULL}, "invitations"},
    {"user", "uninvite", 1, user_uninvite, {NULL}, "uninvite ID"},
    {"key",
     "new",
     1,
     key_new,
     {"scope", "days", "name", "for-profile"},
     "new USER [--scope full|read|admin] [--days N] [--name TEXT] [--for-profile PROFILE]"},
    {"key", "list", 1, key_list, {NULL}, "list USER"},
    {"key", "revoke", 1, key_revoke, {NULL}, "revoke ID"},
};

static const char *find_usage(const char *verb, size_t i)
{
	for (size_t k = 0; k < ARRAY_SIZE(commands); k++)
		if (streq(commands[k].verb, verb) && i-- == 0)
			return commands[k].usage;
	return NULL;
}

const char *cmd_user_command(size_t i)
{
	return find_usage("user", i);
}

const char *cmd_key_command(size_t i)
{
	return find_usage("key", i);
}

static int unknown_option(const struct command *c, const char *word, struct err *e)
{
	struct suggest near = suggest_for(word);

	for (size_t i = 0; i < OPTIONS_MAX && c->options[i]; i++) {
		char flag[SUGGEST_NAME_MAX];

		(void)snprintf(flag, sizeof(flag), "--%s", c->options[i]);
		suggest_offer(&near, flag);
	}
	settings_suggest_flag(&near);
	return err_set(e, ERR_USAGE, 0, "'%.64s' is not understood%s", word, suggest_text(&near));
}

/* Sorts ARGV from index 2 on into words and the values of the options of C. */
static int sort_args(const struct command *c, int argc, char **argv, char **words,
		     const char **options, struct err *e)
{
	int n = 0;

	for (int i = 2; i < argc; i++) {
		int o = 0;

		if (!text_starts_with(argv[i], "--")) {
			if (n == c->n_args)
				return err_set(e, ERR_USAGE, 0, "one word too many: '%s'", argv[i]);
			words[n++] = argv[i];
			continue;
		}
		while (o < OPTIONS_MAX && c->options[o] && !streq(c->options[o], argv[i] + 2))
			o++;
		if (o == OPTIONS_MAX || !c->options[o])
			return unknown_option(c, argv[i], e);
		if (i + 1 == argc)
			return err_set(e, ERR_USAGE, 0, "'%s' needs a value", argv[i]);
		options[o] = argv[++i];
	}
	return n == c->n_args ? 0
			      : err_set(e, ERR_USAGE, 0, "usage: caisson %s %s", c->verb, c->usage);
}

/* A command that only looks, or changes what is there, must not make a database: the name of the state
 * folder may be mistyped. */
static int check_store(const struct app *a, const struct command *c, struct err *e)
{
	char path[APP_STORE_PATH_MAX];

	app_store_path(a, path);
	if (a->settings.database[0] || c->makes || access(path, F_OK) == 0 || errno != ENOENT)
		return 0;
	return err_set(e, ERR_NOT_FOUND, 0,
		       "there is no database %s yet (see --state-dir); 'caisson user add' makes it",
		       path);
}

static int run_command(const char *verb, int argc, char **argv)
{
	const char *options[OPTIONS_MAX] = {NULL};
	const struct command *c = NULL;
	char *words[2] = {NULL};
	struct err e = ERR_INIT;
	struct app a;
	int r = app_settings(&a, verb, APP_RUN, true, &argc, argv, &e);

	for (size_t i = 0; r >= 0 && argc > 1 && i < ARRAY_SIZE(commands); i++)
		if (streq(commands[i].verb, verb) && streq(commands[i].name, argv[1]))
			c = &commands[i];
	if (r >= 0 && !c) {
		app_done(&a);
		return cmd_no_command(verb, argc > 1 ? argv[1] : NULL);
	}
	r = r < 0 ? r : sort_args(c, argc, argv, words, options, &e);
	r = r < 0 ? r : check_store(&a, c, &e);
	r = r < 0 ? r : app_open_store(&a, &e);
	r = r < 0 ? r : c->fn(&a, words, options, &e);
	app_done(&a);
	return r < 0 ? cmd_fail(verb, &e) : 0;
}

int cmd_user(int argc, char **argv)
{
	return run_command("user", argc, argv);
}

int cmd_key(int argc, char **argv)
{
	return run_command("key", argc, argv);
}
