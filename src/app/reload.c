/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP: opens the log again, and reads the certificate and the settings file again. Certificates also when their files change. */
#include "app/app.h"

#include "app/reopener.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "config/config_file.h"
#include "config/reload.h"

#include <string.h>

static void on_changed(enum setting_id id, bool applied, void *user UNUSED)
{
	if (applied)
		LOG_INFO("setting_changed", LOG_S("setting", setting_rows[id].key));
	else
		LOG_WARNING("setting_needs_restart", LOG_S("setting", setting_rows[id].key));
}

static int take_settings(struct app *a, int file, struct err *e)
{
	_cleanup_(settings_done) struct settings fresh = {0};
	_cleanup_fd_ int fd = file;

	if (settings_init(&fresh) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the settings");
	if (fd < 0)
		return err_set(e, ERR_SETTING_INVALID, -fd, "cannot read %s", a->settings.file);
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
	    .certificate = a->settings.tls_listen[0] ? a->settings.tls_certificate : NULL,
	    .key = a->settings.tls_listen[0] ? a->settings.tls_key : NULL,
	    .authority = app_is_worker(a) ? a->settings.fleet_ca : NULL,
	    .member_authority = a->settings.fleet_ca,
	    .member_certificate = a->settings.fleet_certificate,
	    .member_key = app_is_router(a) ? a->settings.fleet_certificate_key : NULL,
	};

	return a->mode == APP_SERVE ? reopener_start(&c, &a->reopener, e) : 0;
}

/* What cannot be opened changes nothing: lines go on to the file that is open. */
static void on_file(enum reopen what, int fd, void *user)
{
	struct app *a = user;
	const struct settings *s = &a->settings;
	struct err e = ERR_INIT;
	enum log_level level;

	if (what == REOPEN_LOG) {
		if (fd >= 0)
			log_reopen(fd);
		else
			LOG_ERROR("log_not_opened", LOG_S("error", strerror(-fd)));
		return;
	}
	if (what == REOPEN_SETTINGS) {
		if (take_settings(a, fd, &e) < 0)
			LOG_ERROR("settings_not_read", LOG_S("error", e.text));
		return;
	}
	if (what == REOPEN_AUTHORITY || what == REOPEN_CERTIFICATE || what == REOPEN_KEY) {
		app_take_tls(a, what, fd);
		return;
	}
	if (what == REOPEN_MEMBER_AUTHORITY || what == REOPEN_MEMBER_CERTIFICATE ||
	    what == REOPEN_MEMBER_KEY) {
		app_take_router_tls(a, what, fd);
		return;
	}
	if (fd < 0) {
		LOG_ERROR("not_reloaded", LOG_S("error", strerror(-fd)));
		return;
	}
	(void)log_level_parse(s->log_level, &level);
	log_change(level, streq(s->log_format, "json") ? LOG_FORMAT_JSON : LOG_FORMAT_CONSOLE);
	a->reloaded(a->reloaded_user);
	LOG_INFO("reloaded", LOG_S("file", s->file ? s->file : ""));
}

int app_follow_files(struct app *a, struct err *e)
{
	const int r = a->reopener ? reopener_follow(a->reopener, a->loop, on_file, a) : 0;

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop") : 0;
}

void app_reload(struct app *a, void (*reloaded)(void *user), void *user)
{
	a->reloaded = reloaded;
	a->reloaded_user = user;
	if (!a->reopener) {
		on_file(REOPEN_DONE, 0, a);
		return;
	}
	const int r = reopener_ask(a->reopener, a->loop, on_file, a);
	if (r > 0)
		LOG_INFO("reload_waits");
	if (r < 0)
		on_file(REOPEN_DONE, r, a);
}
