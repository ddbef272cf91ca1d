/* SPDX-License-Identifier: Apache-2.0 */
/* The engines that this build has. */
#include "engine/engine.h"

#include "base/text.h"
#include "engine/native/native.h"

static const struct {
	const char *name;
	/* NULL: known, not in this build */
	int (*open)(sd_event *loop, const struct engine_config *config, struct engine **ret,
		    struct err *e);
} engines[] = {
    {"native", native_open},
    {"docker", NULL},
};

int engine_open(const char *name, sd_event *loop, const struct engine_config *config,
		struct engine **ret, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
		if (!streq(engines[i].name, name))
			continue;
		if (!engines[i].open)
			return err_set(e, ERR_ENGINE_NOT_BUILT_IN, 0,
				       "this build has no engine '%s'", name);
		return engines[i].open(loop, config, ret, e);
	}
	return err_set(e, ERR_SETTING_INVALID, EINVAL, "there is no engine '%s'", name);
}
