/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the database that the settings name. */
#include "app/app.h"

void app_store_path(const struct app *a, char ret[APP_STORE_PATH_MAX])
{
	if (a->settings.db_path[0])
		(void)snprintf(ret, APP_STORE_PATH_MAX, "%s", a->settings.db_path);
	else
		(void)snprintf(ret, APP_STORE_PATH_MAX, "%s/caisson.db", a->state_dir);
}

int app_open_store(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	char path[APP_STORE_PATH_MAX];
	struct store_config config = {
	    .path = path,
	    .runs_keep = (uint64_t)s->runs_keep,
	    .audit_keep = (uint64_t)s->audit_keep,
	};

	app_store_path(a, path);
	return store_open(&config, &a->store, e);
}
