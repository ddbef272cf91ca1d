/* SPDX-License-Identifier: Apache-2.0 */
#include "app/read_settings.h"

#include "app/profile.h"
#include "base/parse.h"
#include "base/text.h"
#include "config/config_file.h"

#include <string.h>
#include <unistd.h>

#define FILE_IN_CWD "config.toml"

/* Removes `--config FILE` from ARGV, up to `--`. */
static int take_config_flag(int *argc, char **argv, const char **ret, struct err *e)
{
	bool only_words = false;
	int kept = 1;

	*ret = NULL;
	for (int i = 1; i < *argc; i++) {
		only_words = only_words || streq(argv[i], "--");
		if (!only_words && text_starts_with(argv[i], "--config="))
			*ret = argv[i] + strlen("--config=");
		else if (!only_words && streq(argv[i], "--config") && i + 1 < *argc)
			*ret = argv[++i];
		else if (!only_words && streq(argv[i], "--config"))
			return err_set(e, ERR_USAGE, 0, "--config: a file is missing");
		else
			argv[kept++] = argv[i];
	}
	*argc = kept;
	argv[kept] = NULL;
	return 0;
}

static int read_file(struct settings *s, const char *path, bool file_in_cwd, struct err *e)
{
	bool refused = false;

	if (path) {
		s->file_named = true;
		s->file = strdup(path);
		return s->file ? config_file_read(s, path, e)
			       : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the settings");
	}
	if (!file_in_cwd)
		return 0;
	int r = config_file_read_if_safe(s, FILE_IN_CWD, &refused, e);
	if (r > 0 && !(s->file = strdup(FILE_IN_CWD)))
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the settings");
	if (refused)
		(void)fprintf(stderr, "caisson: ./config.toml is not read: it must be a file of "
				      "the caller that nobody else can write\n");
	return r < 0 ? r : 0;
}

static void print_warnings(struct settings *s)
{
	char *rest = NULL;

	if (s->warnings.len == 0)
		return;
	for (char *line = strtok_r(s->warnings.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		(void)fprintf(stderr, "caisson: %s\n", line);
	buf_reset(&s->warnings);
}

int read_settings(struct settings *s, bool file_in_cwd, int *argc, char **argv, struct err *e)
{
	const char *path;

	if (settings_init(s) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the settings");
	int r = take_config_flag(argc, argv, &path, e);
	r = r < 0 ? r : read_file(s, path, file_in_cwd, e);
	r = r < 0 ? r : settings_read_env(s, environ, e);
	r = r < 0 ? r : settings_read_flags(s, argc, argv, e);
	/* The server that the profile `code` replaces took an empty limit for none. */
	if (r >= 0 && !profile_of(s)->full)
		r = settings_read_empty_limits(s, environ, e);
	/* The servers that the other profiles replace ignored unknown variables. */
	r = r < 0 ? r : settings_check_env(s, environ, profile_of(s)->full, e);
	if (r >= 0)
		print_warnings(s);
	return r;
}

int read_server_address(const struct settings *s, char ret_host[READ_HOST_SIZE], uint16_t *ret_port,
			struct err *e)
{
	int r = parse_host_port(s->listen, ret_host, READ_HOST_SIZE, ret_port);

	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "SANDBOX_LISTEN: '%s'", s->listen);
	if (!settings_is_explicit(s, SETTING_ID_listen)) {
		if (s->app_host[0])
			(void)snprintf(ret_host, READ_HOST_SIZE, "%s", s->app_host);
		if (settings_is_explicit(s, SETTING_ID_app_port))
			*ret_port = (uint16_t)s->app_port;
	}
	if (ret_host[0] == '\0')
		(void)snprintf(ret_host, READ_HOST_SIZE, "0.0.0.0");
	return 0;
}

int read_levels(const struct settings *s, const char *engine, struct engine_levels *ret,
		struct err *e)
{
	const bool docker = streq(engine, "docker");

	/* Only a container daemon has runtimes; limits_server() refuses these settings elsewhere. */
	return engine_levels_read(docker ? s->levels : "", s->level, docker ? s->runtime : "", ret,
				  e);
}
