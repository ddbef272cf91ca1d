/* SPDX-License-Identifier: Apache-2.0 */
#include "config/reload.h"

#include "base/text.h"

#define VALUE_SIZE 16400 /* the longest text of any setting, and NUL */

static const enum setting_id reloadable[] = {
    SETTING_ID_log_level,       SETTING_ID_log_format,   SETTING_ID_allowed_hosts,
    SETTING_ID_allowed_origins, SETTING_ID_page_origins, SETTING_ID_trusted_proxies,
};

bool settings_can_reload(enum setting_id id)
{
	for (size_t i = 0; i < ARRAY_SIZE(reloadable); i++)
		if (reloadable[i] == id)
			return true;
	return false;
}

int settings_reload(struct settings *s, const struct settings *fresh, settings_changed_fn fn,
		    void *user)
{
	static char now[VALUE_SIZE], then[VALUE_SIZE];

	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		struct err e = ERR_INIT;

		/* The text of a secret is always "(set)", so a changed secret is not noticed. */
		settings_format(fresh, id, now, sizeof(now));
		settings_format(s, id, then, sizeof(then));
		if (s->source[id] > SETTING_FROM_FILE || streq(now, then))
			continue;
		/* A default that grew with the machine. */
		if (MAX(s->source[id], fresh->source[id]) == SETTING_FROM_DEFAULT)
			continue;
		bool applies = settings_can_reload(id);
		if (applies) {
			s->source[id] = SETTING_FROM_DEFAULT;
			if (settings_set(s, id, now, fresh->source[id], setting_rows[id].key, &e) <
			    0)
				return -ENOMEM; /* FRESH has the value, so it is allowed */
		}
		fn(id, applies, user);
	}
	return 0;
}
