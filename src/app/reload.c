/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP: opens the log again and reads the settings file again. */
#include "app/app.h"

#include "app/reopener.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "config/config_file.h"
#include "config/reload.h"

static void on_changed(enum setting_id id, bool applied, void *user UNUSED)
{
	if (applied)
		LOG_INFO("setting_changed", LOG_S("setting", setting_rows[id].key));
	else
		LOG_WARNING("setting_needs_restart", LOG_S("setting", setting_rows[id].key));
}

static int read_again(struct app *a, struct err *e)
{
	_cleanup_(settings_done) struct settings fresh = {0};
	_cleanup_fd_ int fd = reopener_open(a->reopener, REOPEN_SETTINGS);

	if (settings_init(&fresh) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the settings");
	if (fd < 0)
		return err_set(e, ERR_SETTING_INVALID, -fd, "cannot open %s", a->settings.file);
	int r = config_file_read_fd(&fresh, fd, a->settings.file, e);
	if (r < 0)
		return r;
	if (settings_reload(&a->settings, &fresh, on_changed, NULL) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the settings");
	return 0;
}

int app_begin_reopener(struct app *a, struct err *e)
{
	const struct reopener_config c = {
	    .log = log_path(),
	    .settings = a->settings.file,
	    .settings_safe = !a->settings.file_named,
	};

	return a->mode == APP_SERVE ? reopener_start(&c, &a->reopener, e) : 0;
}

void app_reload(struct app *a)
{
	const struct settings *s = &a->settings;
	struct err e = ERR_INIT;
	enum log_level level;

	if (log_path()) {
		int fd = reopener_open(a->reopener, REOPEN_LOG);

		log_reopen(fd >= 0 ? fd : -1);
	}
	if (s->file && read_again(a, &e) < 0)
		LOG_ERROR("settings_not_read", LOG_S("error", e.text));
	(void)log_level_parse(s->log_level, &level);
	log_change(level, streq(s->log_format, "json") ? LOG_FORMAT_JSON : LOG_FORMAT_CONSOLE);
	LOG_INFO("reloaded", LOG_S("file", s->file ? s->file : ""));
}
