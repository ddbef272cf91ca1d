/* SPDX-License-Identifier: Apache-2.0 */
/* Which database belongs to these settings. */
#include "cmd/app.h"

int app_open_store(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	char path[PATH_MAX + sizeof("/caisson.db")];
	struct store_config config = {
	    .path = s->db_path[0] ? s->db_path : path,
	    .runs_keep = (uint64_t)s->runs_keep,
	    .audit_keep = (uint64_t)s->audit_keep,
	};

	(void)snprintf(path, sizeof(path), "%s/caisson.db", a->state_dir);
	return store_open(&config, &a->store, e);
}
