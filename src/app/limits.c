/* SPDX-License-Identifier: Apache-2.0 */
#include "app/limits.h"

#include "base/attr.h"
#include "engine/engine.h"

#include <errno.h>
#include <string.h>

enum { SESSION = 1, STORED = 2 };

static const struct {
	enum setting_id id;
	unsigned of; /* the sandboxes that it limits: SESSION, STORED */
	uint32_t cap;
	const char *
	    word; /* its name in SANDBOX_ALLOW_WEAKER and in `enforced` of `caisson doctor --json` */
} limits[] = {
    {SETTING_ID_memory_limit, SESSION | STORED, ENGINE_CAP_MEMORY, "memory"},
    {SETTING_ID_stored_memory_limit, STORED, ENGINE_CAP_MEMORY, "memory"},
    {SETTING_ID_cpu_limit, SESSION | STORED, ENGINE_CAP_CPU, "cpu"},
    {SETTING_ID_pids_limit, SESSION | STORED, ENGINE_CAP_PIDS, "pids"},
    {SETTING_ID_workspace_limit, SESSION, ENGINE_CAP_DISK, "disk"},
    {SETTING_ID_workspace_files, SESSION, ENGINE_CAP_DISK, "disk"},
    {SETTING_ID_stored_workspace_limit, STORED, ENGINE_CAP_DISK, "disk"},
    {SETTING_ID_stored_workspace_files, STORED, ENGINE_CAP_DISK, "disk"},
    {SETTING_ID_total_disk, STORED, ENGINE_CAP_DISK, "disk"},
};

static uint32_t cap_of_word(const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (strlen(limits[i].word) == len && memcmp(limits[i].word, word, len) == 0)
			return limits[i].cap;
	return 0;
}

int limits_insisted(const struct settings *s, struct limits_insisted *ret, struct err *e)
{
	struct limits_insisted set = {0};
	uint32_t weaker = 0;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (settings_is_explicit(s, limits[i].id)) {
			set.session |= limits[i].of & SESSION ? limits[i].cap : 0;
			set.stored |= limits[i].of & STORED ? limits[i].cap : 0;
		}
	for (const char *at = s->allow_weaker; *at != '\0';) {
		size_t len = strcspn(at, ",");
		uint32_t cap = cap_of_word(at, len);

		if (cap == 0)
			return err_set(e, ERR_SETTING_INVALID, EINVAL,
				       "SANDBOX_ALLOW_WEAKER: '%.*s' is no limit; allowed are "
				       "memory, cpu, pids and disk, separated by commas",
				       (int)MIN(len, (size_t)64), at);
		if (!((set.session | set.stored) & cap))
			return err_set(e, ERR_SETTING_INVALID, EINVAL,
				       "SANDBOX_ALLOW_WEAKER names %.*s, but no setting limits it: "
				       "a default is best effort anyway",
				       (int)len, at);
		weaker |= cap;
		at += len;
		at += *at == ',';
	}
	*ret = (struct limits_insisted){.session = set.session & ~weaker,
					.stored = set.stored & ~weaker};
	return 0;
}
