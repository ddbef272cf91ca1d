/* SPDX-License-Identifier: Apache-2.0 */
#include "app/limits.h"

#include "app/profile.h"
#include "base/attr.h"
#include "base/parse.h"
#include "base/text.h"
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Names of limits of single sandboxes in SANDBOX_ALLOW_WEAKER, and in `enforced` of `caisson doctor --json`. */
static const struct {
	uint32_t cap;
	const char *word;
} words[] = {
    {ENGINE_CAP_MEMORY, "memory"},
    {ENGINE_CAP_CPU, "cpu"},
    {ENGINE_CAP_PIDS, "pids"},
    {ENGINE_CAP_DISK, "disk"},
};

static uint32_t cap_of_word(const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i].word) == len && memcmp(words[i].word, word, len) == 0)
			return words[i].cap;
	return 0;
}

/* Was the limit switched off (`0` is taken as the largest value)? Then nothing needs enforcing. */
static bool is_off(const struct settings *s, enum setting_id id)
{
	return (id == SETTING_ID_memory_limit &&
		s->memory_limit == (uint64_t)setting_rows[id].max) ||
	       (id == SETTING_ID_cpu_limit && s->cpu_limit == (uint64_t)setting_rows[id].max);
}

int limits_insisted(const struct settings *s, struct limits_insisted *ret, struct err *e)
{
	struct limits_insisted set = {0};
	uint32_t weaker = 0;

	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		const struct setting_needs *needs = &setting_rows[id].needs;

		if (!settings_is_explicit(s, id) || is_off(s, id))
			continue;
		set.session |= needs->of & SETTING_OF_SESSION ? needs->cap : 0;
		set.stored |= needs->of & SETTING_OF_STORED ? needs->cap : 0;
	}
	for (const char *at = s->allow_weaker; *at != '\0';) {
		size_t len = strcspn(at, ",");
		uint32_t cap = cap_of_word(at, len);

		if (cap == 0)
			return err_set(e, ERR_SETTING_INVALID, 0,
				       "SANDBOX_ALLOW_WEAKER: '%.*s' is no limit; allowed are "
				       "memory, cpu, pids and disk, separated by commas",
				       (int)MIN(len, (size_t)64), at);
		if (!((set.session | set.stored) & cap))
			return err_set(e, ERR_SETTING_INVALID, 0,
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

static const char *what_needs(uint32_t cap)
{
	switch (cap) {
#define C(name, bit, native, docker, needs)                                                        \
	case ENGINE_CAP_##name:                                                                    \
		return needs;
#include "engine/protocol/caps.tbl.h"
#undef C
	default:
		return "";
	}
}

int limits_server(const struct settings *s, uint32_t has, struct err *e)
{
	struct settings unset = {0};
	int r = settings_init(&unset) < 0 ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "settings") : 0;

	for (enum setting_id id = 0; r == 0 && id < SETTING_ID_MAX_; id++) {
		const struct setting_needs *needs = &setting_rows[id].needs;
		char value[128], other[128];

		if (!(needs->of & SETTING_OF_SERVER) || (has & needs->cap))
			continue;
		settings_format(s, id, value, sizeof(value));
		settings_format(&unset, id, other, sizeof(other));
		if (needs->value[0] ? streq(value, needs->value) : !streq(value, other))
			r = err_set(e, ERR_LIMIT_NOT_ENFORCEABLE, 0, "%s=%s needs %s",
				    setting_rows[id].env, value, what_needs(needs->cap));
	}
	settings_done(&unset);
	return r;
}

#define SESSIONS_MOST 1000u /* more only if SANDBOX_MAX_SESSIONS says so */
#define MEMORY_PARTS                                                                               \
	48u /* of the memory of the machine, one is for a sandbox: so there is room for many sessions */
#define MEMORY_STEP (UINT64_C(64) << 20)
#define MEMORY_MOST (UINT64_C(2) << 30) /* more only if SANDBOX_MEMORY_LIMIT says so */

/* The limit of the control group that this program is in, as a container has one; UINT64_MAX: none. */
static uint64_t container_bytes(void)
{
	static const char *const files[] = {"/sys/fs/cgroup/memory.max",
					    "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_fd_ int fd = open(files[i], O_RDONLY | O_CLOEXEC);
		const ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
		uint64_t bytes;

		if (n <= 0)
			continue;
		text[n] = '\0';
		if (parse_u64_n(text, strcspn(text, "\n"), 1, UINT64_MAX, &bytes) == 0)
			return bytes;
	}
	return UINT64_MAX;
}

uint64_t limits_machine_bytes(const struct settings *s)
{
	const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (pages <= 0 || page <= 0)
		return 0;
	const uint64_t bytes = MIN((uint64_t)pages * (uint64_t)page, container_bytes());
	return s->total_memory > 0 ? MIN(bytes, s->total_memory) : bytes;
}

void limits_by_machine(struct settings *s, uint64_t bytes)
{
	const uint64_t part = bytes / MEMORY_PARTS;

	if (!profile_of(s)->full)
		return;
	const uint64_t most =
	    s->max_memory_limit > 0 ? MIN(s->max_memory_limit, MEMORY_MOST) : MEMORY_MOST;
	if (!settings_is_explicit(s, SETTING_ID_memory_limit))
		s->memory_limit = MAX(s->memory_limit, MIN(part - part % MEMORY_STEP, most));
	if (!settings_is_explicit(s, SETTING_ID_stored_memory_limit))
		s->stored_memory_limit = MAX(s->stored_memory_limit, s->memory_limit);
	const uint64_t sessions = bytes / MAX(s->memory_limit, UINT64_C(1));
	if (!settings_is_explicit(s, SETTING_ID_max_sessions))
		s->max_sessions =
		    MAX(s->max_sessions, (int64_t)MIN(sessions, (uint64_t)SESSIONS_MOST));
}

#define REST_UPLOAD_BYTES (UINT64_C(500) << 20)

uint64_t limits_rest_upload(const struct settings *s)
{
	const uint64_t set = (uint64_t)s->max_upload_bytes;

	if (!profile_of(s)->full || settings_is_explicit(s, SETTING_ID_max_upload_bytes))
		return set;
	return MAX(set, REST_UPLOAD_BYTES);
}
