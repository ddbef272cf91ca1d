/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson config` prints the settings in force and their sources. With `--markdown` it prints the
 * page of all settings, docs/configuration.md. */
#include "app/app.h"
#include "cmd/cmd.h"

#include "base/text.h"

static int print_settings(const struct settings *s)
{
	char value[256];

	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		settings_format(s, id, value, sizeof(value));
		(void)printf("%-32s %-28s %s\n", setting_rows[id].env, *value ? value : "-",
			     setting_source_name(s->source[id]));
	}
	return fflush(stdout) == 0 ? 0 : 1;
}

int cmd_config(int argc, char **argv)
{
	struct app a = {0};
	struct err e = ERR_INIT;
	int status = 0;

	if (argc == 2 && streq(argv[1], "--markdown"))
		return settings_write_markdown(stdout) < 0 || fflush(stdout) != 0 ? 1 : 0;
	if (app_settings(&a, "config", APP_RUN, true, &argc, argv, &e) < 0)
		status = app_fail(&a, &e);
	else if (argc > 1)
		status = cmd_unknown("config", argv[1], &e) < 0 ? app_fail(&a, &e) : 0;
	else
		status = print_settings(&a.settings);
	app_done(&a);
	return status;
}
