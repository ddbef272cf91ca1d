/* SPDX-License-Identifier: Apache-2.0 */
#include "connect/connect.h"

#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

const struct client clients[] = {
#define C(name, title, base, variable, folder, file, other_file, servers, format, type_key,        \
	  stdio_type, http_type, url_key, before, after)                                           \
	{name,       title,      CLIENT_##base, variable,        folder,                           \
	 file,       other_file, servers,       CLIENT_##format, type_key,                         \
	 stdio_type, http_type,  url_key,       before,          after},
#include "connect/clients.tbl.h"
#undef C
    {0},
};

const struct client *client_by_name(const char *name)
{
	for (const struct client *c = clients; c->name; c++)
		if (streq(c->name, name))
			return c;
	return NULL;
}

/* The folder that the environment names, or NULL. The standard has relative paths ignored. */
static const char *folder_in(const char *variable)
{
	const char *value = getenv(variable);

	return value && value[0] == '/' ? value : NULL;
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static int join(char ret[PATH_MAX], const char *a, const char *b, const char *c, struct err *e)
{
	const int n = snprintf(ret, PATH_MAX, "%s/%s%s", a, b, c);

	return n >= 0 && n < PATH_MAX ? 0
				      : err_set(e, ERR_USAGE, 0, "the path of a file is too long");
}

int connect_find(const struct client *c, struct client_place *ret, struct err *e)
{
	const char *home = folder_in("HOME"), *config = folder_in("XDG_CONFIG_HOME");
	const char *own = c->variable ? folder_in(c->variable) : NULL;
	struct client_place place = {0};
	const char *base = c->base == CLIENT_CONFIG && config ? config : home;
	const char *below = c->base == CLIENT_CONFIG && !config ? ".config/" : "";
	char path[PATH_MAX];

	if (!base)
		return err_set(e, ERR_USAGE, 0,
			       "HOME names no folder, so nothing says where the files of %s are",
			       c->title);
	int r = join(path, base, below, c->folder, e);
	if (r < 0)
		return r;
	if (own) {
		const char *slash = strrchr(c->file, '/');

		r = join(place.path, own, slash ? slash + 1 : c->file, "", e);
		place.is_here = exists(own);
	} else {
		place.is_here = exists(path);
		r = join(place.path, base, below, c->other_file ? c->other_file : c->file, e);
		if (r == 0 && c->other_file && !exists(place.path))
			r = join(place.path, base, below, c->file, e);
	}
	if (r < 0)
		return r;
	place.is_here = place.is_here || exists(place.path);
	*ret = place;
	return 0;
}
