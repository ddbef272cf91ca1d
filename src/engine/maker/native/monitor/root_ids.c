/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of the users that a sandbox with a root user has beside its own uid. */
#include "base/foreign_ids.h"
#include "base/walls.h"
#include "engine/maker/native/monitor/monitor.h"

/* The users of a sandbox besides the one that runs have: what packages take for themselves (Debian's adduser(8) counts up
 * from 100, systemd-sysusers(8) down from 999), those that a program adds after 1000, and nobody. All else cannot be
 * given to a file inside. */
static const struct {
	uint32_t inside, at, n; /* at: in the part */
} root_rows[] = {
    {0, 0, 130},
    {970, 130, 30},
    {1001, 160, 11},
    {65534, 171, 1},
};
#define ROOT_IDS   172u
#define ROOT_FIRST (ID_OWNER - ROOTS_MAX * ROOT_IDS) /* the parts are below it, above the slots */

int ids_take_root(struct ids *ids, uint32_t *ret)
{
	if (!wall_stands(WALL_ROOT_IDS)) {
		*ret = 1;
		return 0;
	}
	for (uint32_t i = 0; i < ROOTS_MAX; i++)
		if (!ids->roots[i]) {
			ids->roots[i] = true;
			*ret = i + 1;
			return 0;
		}
	return -EAGAIN;
}

uint32_t ids_give_root(struct ids *ids, uint32_t root)
{
	if (root)
		ids->roots[root - 1] = false;
	return 0;
}

static size_t add_row(char *map, size_t at, uint32_t first, uint32_t then, uint32_t n)
{
	return at + (size_t)snprintf(map + at, IDS_MAP_MAX - at, "%u %u %u\n", first, then, n);
}

void ids_root_map(uint32_t base, uint32_t uid, uint32_t root, bool foreign, char ret[IDS_MAP_MAX])
{
	const uint32_t part = base + ROOT_FIRST + (root - 1) * ROOT_IDS;
	const uint32_t by = foreign ? FOREIGN_FIRST : 0;
	size_t at = add_row(ret, 0, by + 1000, base + uid, 1);

	for (size_t i = 0; i < ARRAY_SIZE(root_rows); i++) {
		const uint32_t inside = root_rows[i].inside, there = part + root_rows[i].at;

		/* 0 is not moved. */
		if (foreign && inside == 0)
			at = add_row(ret, at, 0, there, 1);
		const uint32_t skip = foreign && inside == 0;
		at = add_row(ret, at, by + inside + skip, there + skip, root_rows[i].n - skip);
	}
}

bool monitor_has_root(const struct monitor *m)
{
	const uint32_t counted = PROTO_CAP_PIDS | PROTO_CAP_MEMORY;

	return m->root && m->ids.mode == IDS_RANGE && m->ids.count == IDS_PER_RANGE &&
	       ID_FIRST + m->config->max_sandboxes <= ROOT_FIRST &&
	       (m->cgroup.enforced & counted) == counted;
}
