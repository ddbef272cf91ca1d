/* SPDX-License-Identifier: Apache-2.0 */
/* The object store that the settings name. */
#include "app/app.h"

#include "base/fdio.h"
#include "base/text.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>

static const enum setting_id of_objects[] = {
    SETTING_ID_objects_endpoint,   SETTING_ID_objects_bucket,      SETTING_ID_objects_region,
    SETTING_ID_objects_path_style, SETTING_ID_objects_credentials, SETTING_ID_objects_key,
    SETTING_ID_objects_ca,
};

static const char *missing(const struct settings *s)
{
	if (!s->objects_endpoint[0])
		return setting_rows[SETTING_ID_objects_endpoint].env;
	if (!s->objects_bucket[0])
		return setting_rows[SETTING_ID_objects_bucket].env;
	return s->objects_credentials[0] ? NULL : setting_rows[SETTING_ID_objects_credentials].env;
}

const char *app_names_objects(const struct settings *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_objects); i++)
		if (settings_is_explicit(s, of_objects[i]))
			return setting_rows[of_objects[i]].env;
	return NULL;
}

int app_check_objects(const struct settings *s, struct err *e)
{
	struct objects_store store;
	const char *set = app_names_objects(s);

	if (!set)
		return app_check_moves(s, e);
	if (streq(s->fleet_role, "worker") &&
	    streq(set, setting_rows[SETTING_ID_objects_ca].env)) /* the last one: it alone */
		return 0;
	if (!streq(s->fleet_role, "router"))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "%s is for the routers of a fleet (SANDBOX_ROLE=router), which "
			       "alone may use the "
			       "object store: remove it here",
			       set);
	if (missing(s))
		return err_set(e, ERR_SETTING_INVALID, 0, "%s needs %s, too", set, missing(s));
	const int r = objects_store_place(&store, s->objects_endpoint, s->objects_bucket,
					  s->objects_region, s->objects_path_style, e);
	return r < 0 ? r : app_check_moves(s, e);
}

static int read_credentials(const char *path, struct buf *ret, struct err *e)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const int r = fd < 0 ? -errno : fd_read_file(fd, ret);

	return r < 0 ? err_set(e, ERR_SETTING_INVALID, -r, "its file, %.300s", path) : 0;
}

int app_objects(const struct settings *s, struct objects_store *ret, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(OBJECTS_CREDENTIALS_MAX);
	struct objects_store store;
	int r = objects_store_place(&store, s->objects_endpoint, s->objects_bucket,
				    s->objects_region, s->objects_path_style, e);

	if (r < 0)
		return r;
	r = read_credentials(s->objects_credentials, &text, e);
	r = r < 0 ? r : objects_store_credentials(&store, buf_str(&text), e);
	if (text.data)
		sodium_memzero(text.data, text.cap);
	if (r < 0)
		return err_wrap(e, "SANDBOX_OBJECTS_CREDENTIALS");
	*ret = store;
	objects_store_done(&store);
	return 0;
}
