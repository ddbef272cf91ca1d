/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings of a running server again (SIGHUP). */
#pragma once

#include "config/settings.h"

/* May this setting change while a server runs? */
bool settings_can_reload(enum setting_id id);

/* APPLIED is false for a setting that is used at the start only: the server must be started again. */
typedef void (*settings_changed_fn)(enum setting_id id, bool applied, void *user);

/* Takes from FRESH, made of the defaults and the file as they are now, each setting that may change.
 * What the environment or a flag has set stays: neither can change. FN is called for each setting
 * whose value differs. -ENOMEM. */
int settings_reload(struct settings *s, const struct settings *fresh, settings_changed_fn fn,
		    void *user) MUST_CHECK;
