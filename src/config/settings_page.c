/* SPDX-License-Identifier: Apache-2.0 */
/* docs/configuration.md, made from the table of settings. */
#include "config/settings.h"

#include "config/reload.h"

#include "base/attr.h"

#include <errno.h>

/* The makers that can enforce CAP, as in the column of the page. */
static void write_makers(FILE *out, uint32_t cap)
{
	enum { NO, YES };
	static const struct {
		uint32_t cap;
		int native, docker;
	} rows[] = {
#define C(name, bit, on_native, on_docker, needs) {SETTING_CAP_##name, on_native, on_docker},
#include "engine/protocol/caps.tbl.h"
#undef C
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].cap == cap)
			(void)fprintf(out, "%s%s%s", rows[i].native == YES ? "native" : "",
				      rows[i].native == YES && rows[i].docker == YES ? ", " : "",
				      rows[i].docker == YES ? "docker" : "");
}

int settings_write_markdown(FILE *out)
{
	static const char head[] =
	    "# Settings\n\n"
	    "Made from the table `src/config/settings.tbl.h` by `caisson config --markdown`; a "
	    "test "
	    "compares the two.\n\n"
	    "Order: default, then the file, then the environment, then the command line; the last "
	    "one wins. Every\nsetting is a flag too: `SANDBOX_MEMORY_LIMIT=1g` is `--memory-limit "
	    "1g`. A value that is not allowed stops the\nstart with one line, and so does an "
	    "unknown key or an unknown variable that begins with `SANDBOX_`. In the\nprofiles "
	    "`code`, `classic` and `both` an unknown variable is a warning only. `caisson config` "
	    "prints the values in\nforce and where each came from. Whole numbers may be written "
	    "as `1_000` or `5.0`. An empty variable of the environment is as good as none, "
	    "except where the column\n\"allowed\" says \"or nothing\" and the default is "
	    "not empty; in `code`, `classic` and `both` an empty\nSANDBOX_MEMORY_LIMIT means no "
	    "limit.\n\n"
	    "The file is TOML (tables, strings, numbers, true and false): `session.memory_limit` "
	    "is `memory_limit` below\n`[session]`. Every verb reads the one that `--config FILE` "
	    "names, and without it `config.toml` in the working\nfolder, if it is the caller's and "
	    "nobody else can write it. `stdio` and `run` read no file that was not named:\nthey "
	    "are started in folders whose `config.toml` belongs to something else.\n\n"
	    "A `config.toml` of the second tool family (it has a table `docker` or `logging`) is "
	    "read as that server did: unknown keys are\nwarnings, and a limit of 0 sandboxes "
	    "allows "
	    "none. If its `server.host` can be reached from other machines and nothing requires\n"
	    "authentication, clients must authenticate and nobody can register.\n\n"
	    "On SIGHUP `caisson serve` opens its log again and reads its file again. The settings "
	    "marked (SIGHUP) then take their new value;\nfor others the log says that the server "
	    "must be started again.\n\n"
	    "The column \"enforced by\" names the engines that can enforce the setting, where "
	    "that depends on the engine. A server whose engine cannot enforce a setting that is "
	    "given does not start\n(SANDBOX_ALLOW_WEAKER can excuse limits of single "
	    "sandboxes); `caisson doctor` tells what the engine can do on this host.\n\n"
	    "| variable | key in the file | default | allowed | enforced by | meaning |\n"
	    "|---|---|---|---|---|---|\n";

	(void)fputs(head, out);
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		const struct setting_row *row = &setting_rows[id];

		(void)fprintf(out, "| %s | %s%s | %s%s%s | ", row->env, row->key,
			      settings_can_reload(id) ? " (SIGHUP)" : "", *row->def ? "`" : "",
			      row->def, *row->def ? "`" : "");
		for (const char *p = row->allowed; *p; p++)
			(void)fputs(*p == '|' ? ", " : (char[]){*p, '\0'}, out);
		(void)fputs(" | ", out);
		write_makers(out, row->needs.cap);
		(void)fprintf(out, " | %s |\n", row->doc);
	}
	return ferror(out) ? -EIO : 0;
}
