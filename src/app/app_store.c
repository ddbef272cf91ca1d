/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the database that the settings name. */
#include "app/app.h"

#include "app/profile.h"
#include "base/text.h"

void app_store_path(const struct app *a, char ret[APP_STORE_PATH_MAX])
{
	if (a->settings.db_path[0])
		(void)snprintf(ret, APP_STORE_PATH_MAX, "%s", a->settings.db_path);
	else
		(void)snprintf(ret, APP_STORE_PATH_MAX, "%s/caisson.db", a->state_dir);
}

/* The page of the second family lets people choose short passwords. */
static unsigned password_min(const struct settings *s)
{
	bool ours = profile_of(s)->full || streq(s->profile, "code");

	return ours || settings_is_explicit(s, SETTING_ID_password_min) ? (unsigned)s->password_min
									: STORE_PASSWORD_MIN;
}

int app_open_store(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	char path[APP_STORE_PATH_MAX];
	struct store_config config = {
	    .path = path,
	    .runs_keep = (uint64_t)s->runs_keep,
	    .audit_keep = (uint64_t)s->audit_keep,
	    .cells_bytes = s->history_user_bytes,
	    .cells_total = s->history_bytes,
	    .password_min = password_min(s),
	    .keys_each = budget_bounds(a->budgets, BUDGET_KEYS).each,
	    .keys_total = budget_bounds(a->budgets, BUDGET_KEYS).total,
	};

	app_store_path(a, path);
	return store_open(&config, &a->store, e);
}
