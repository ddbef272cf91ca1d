/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson help --man`: the manual page caisson(1), made from the tables of verbs and of settings. */
#include "cmd/verbs.h"

#include "base/text.h"
#include "config/settings.h"

#include <errno.h>
#include <string.h>

static const char head[] =
    ".TH CAISSON 1 \"\" \"Caisson %s\" \"User Commands\"\n"
    ".SH NAME\n"
    "caisson \\- run code that a language model wrote, in a sandbox\n"
    ".SH SYNOPSIS\n"
    ".B caisson\n"
    ".I VERB\n"
    "[\\fIOPTIONS\\fR]\n"
    ".SH DESCRIPTION\n"
    "Caisson runs Python and shell commands in isolated sandboxes on one Linux machine. A client "
    "of "
    "the Model Context Protocol starts \\fBcaisson stdio\\fR or connects to \\fBcaisson serve\\fR. "
    "A person uses \\fBcaisson run\\fR.\n";

static const char tail[] =
    ".SH FILES\n"
    ".TP\n/var/lib/caisson\nImages and state, if root starts the program.\n"
    ".TP\n~/.local/share/caisson\nThe same for other users (\\fB$XDG_DATA_HOME/caisson\\fR).\n"
    ".TP\n\\&./config.toml\nSettings, unless \\fB\\-\\-config\\fR names another file. "
    "\\fBstdio\\fR "
    "and \\fBrun\\fR do not read it.\n"
    ".SH SIGNALS\n"
    "SIGTERM and SIGINT end \\fBcaisson serve\\fR; calls in flight have 5 seconds to finish. On "
    "SIGHUP it opens its log and reads its settings file again.\n"
    ".SH EXIT STATUS\n"
    "\\fBcaisson run\\fR has the exit status of the program, 124 after a timeout, and 130 after "
    "Ctrl-C. Other verbs: 0, or one of sysexits.h: 64 for a wrong command line, 66 for something "
    "that is not there, 69 if no sandbox can be made, 78 for a wrong setting.\n";

/* Text as roff: nothing in it is a request or an escape. `code` becomes bold. */
static void print_text(FILE *f, const char *text)
{
	bool bold = false;
	bool line_begins = true;

	for (const char *p = text; *p; p++) {
		if (line_begins && (*p == '.' || *p == '\''))
			(void)fputs("\\&", f);
		line_begins = *p == '\n';
		if (*p == '`') {
			bold = !bold;
			(void)fputs(bold ? "\\fB" : "\\fR", f);
		} else if (*p == '\\') {
			(void)fputs("\\e", f);
		} else if (*p == '-') {
			(void)fputs("\\-", f);
		} else {
			(void)fputc(*p, f);
		}
	}
}

static void print_line(FILE *f, const struct verb *v, const char *line, size_t len)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "`caisson %s` %.*s", v->name, (int)len, line);
	print_text(f, text);
	(void)fputs("\n.br\n", f);
}

static void print_verb(FILE *f, const struct verb *v)
{
	const char *line;

	(void)fprintf(f, ".SS %s\n", v->name);
	for (size_t i = 0; v->command && (line = v->command(i)); i++)
		print_line(f, v, line, strlen(line));
	for (const char *at = v->command ? NULL : v->arguments; at;) {
		size_t len = strcspn(at, "\n");

		print_line(f, v, at, len);
		at = at[len] ? at + len + 1 : NULL;
	}
	print_text(f, v->help);
	(void)fputs(".\n", f);
	for (const struct verb_option *o = v->options; o && o->name; o++) {
		(void)fputs(".TP\n\\fB", f);
		print_text(f, o->name);
		(void)fprintf(f, "\\fR %s\n", o->value ? o->value : "");
		print_text(f, o->help);
		(void)fputs(".\n", f);
	}
}

int manual_write(FILE *f)
{
	(void)fprintf(f, head, CAISSON_VERSION);
	(void)fputs(".SH VERBS\n", f);
	for (const struct verb *v = verbs; v->name; v++)
		if (v->help)
			print_verb(f, v);
	(void)fputs(".SH SETTINGS\n"
		    "Order: default, then the file, then the environment, then the command line; "
		    "the last one wins.\n",
		    f);
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		const struct setting_row *row = &setting_rows[id];
		char flag[SETTING_FLAG_SIZE];

		settings_flag(id, flag);
		(void)fputs(".TP\n\\fB", f);
		print_text(f, flag);
		(void)fprintf(f, "\\fR, %s, %s\n", row->env, row->key);
		print_text(f, row->doc);
		(void)fputs(" Default: ", f);
		print_text(f, *row->def ? row->def : "none");
		(void)fputs(".\n", f);
	}
	(void)fputs(tail, f);
	return fflush(f) == 0 && !ferror(f) ? 0 : -EIO;
}
