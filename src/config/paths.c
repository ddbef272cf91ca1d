/* SPDX-License-Identifier: Apache-2.0 */
#include "config/paths.h"

#include "base/parse.h"
#include "base/text.h"

#include <limits.h>
#include <string.h>

int config_state_dir(const struct settings *s, char *ret, size_t size, struct err *e)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	char path[PATH_MAX], cwd[PATH_MAX];
	int n;

	if (s->state_dir[0] == '/')
		n = snprintf(path, sizeof(path), "%s", s->state_dir);
	else if (s->state_dir[0] && getcwd(cwd, sizeof(cwd)))
		n = snprintf(path, sizeof(path), "%.2048s/%.2000s", cwd, s->state_dir);
	else if (geteuid() == 0)
		n = snprintf(path, sizeof(path), "/var/lib/caisson");
	else if (data && data[0] == '/')
		n = snprintf(path, sizeof(path), "%s/caisson", data);
	else if (home && home[0] == '/')
		n = snprintf(path, sizeof(path), "%s/.local/share/caisson", home);
	else
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "there is no home directory; name a folder with --state-dir");
	if (n < 0 || (size_t)n >= sizeof(path) || text_copy(ret, size, path) < 0)
		return err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "SANDBOX_STATE_DIR");
	return 0;
}

int config_socket_path(const struct settings *s, char *ret, size_t size, struct err *e)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const bool off = streq(s->socket, "off");
	char path[PATH_MAX] = "", state[PATH_MAX - sizeof("/run/server.sock")];
	struct err ignored = ERR_INIT;

	if (!off && s->socket[0] && s->socket[0] != '/')
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_SOCKET: '%s' is not allowed; give an absolute path, or off",
			       s->socket);
	if (!off && s->socket[0])
		(void)snprintf(path, sizeof(path), "%s", s->socket);
	else if (!off && geteuid() == 0)
		(void)snprintf(path, sizeof(path), "/run/caisson/server.sock");
	else if (!off && runtime && runtime[0] == '/')
		(void)snprintf(path, sizeof(path), "%s/caisson/server.sock", runtime);
	else if (!off && config_state_dir(s, state, sizeof(state), &ignored) == 0)
		(void)snprintf(path, sizeof(path), "%s/run/server.sock", state);
	/* If the path of the runtime folder is too long for a socket address, there is no socket. */
	if (text_copy(ret, size, path) < 0)
		ret[0] = '\0';
	return 0;
}

int config_image_name(const struct settings *s, char *ret, struct err *e)
{
	static const char *const science[] = {"llm-sandbox", "python-sandbox"};
	char name[256];

	/* A container engine knows its images by their references. */
	if (streq(s->engine, "docker")) {
		if (parse_is_image_ref(s->image, strlen(s->image)) &&
		    text_copy(ret, CONFIG_IMAGE_SIZE, s->image) == 0)
			return 0;
		return err_set(e, ERR_SETTING_INVALID, EINVAL,
			       "SANDBOX_IMAGE: '%s' is not allowed; give the reference of an image "
			       "(see 'docker images')",
			       s->image);
	}
	(void)snprintf(name, sizeof(name), "%s", s->image);
	if (text_ends_with(name, ":latest"))
		name[strlen(name) - strlen(":latest")] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(science); i++)
		if (streq(name, science[i]))
			(void)snprintf(name, sizeof(name), "science");
	if (!parse_is_image_name(name, strlen(name)) ||
	    text_copy(ret, CONFIG_IMAGE_SIZE, name) < 0) {
		(void)err_set(e, ERR_SETTING_INVALID, 0,
			      "SANDBOX_IMAGE: '%s' is not allowed; give the name of an image "
			      "(see 'caisson image list')",
			      s->image);
		return -EINVAL;
	}
	return 0;
}

int config_image_reference(const struct settings *s, const char *name, char *ret, size_t size,
			   struct err *e)
{
	const char *source = s->image_source;
	const char *slash = strrchr(source, '/');
	/* A ':' before the last '/' is that of a port. */
	const char *colon = slash ? strchr(slash, ':') : NULL;
	const int folder = (int)(colon ? (size_t)(colon - source) : strlen(source));

	if (!source[0])
		return err_set(e, ERR_NOT_FOUND, 0, "SANDBOX_IMAGE_SOURCE names no registry");
	if (!slash || slash == source || folder == (int)(slash - source) + 1 ||
	    strchr(source, '@') || (colon && !colon[1]))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_IMAGE_SOURCE: '%s' is not allowed; give a folder of a "
			       "registry, such as registry.example/caisson",
			       source);
	const int n =
	    snprintf(ret, size, "%.*s/%s:%s", folder, source, name, colon ? colon + 1 : "latest");

	return (size_t)n < size
		   ? 0
		   : err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "SANDBOX_IMAGE_SOURCE");
}
