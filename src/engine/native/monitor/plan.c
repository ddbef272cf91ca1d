/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a request against all that is known before anything is done. The front has done the same
 * checks with better words; what fails here comes from a broken front and ends the connection. */
#include "base/parse.h"
#include "base/walls.h"
#include "engine/native/monitor/monitor.h"

#include <string.h>

/* A key is the last part of a path of ours: no dot, no slash, nothing that begins like an option.
 */
static bool is_key(const char key[PROTO_PERSIST_MAX])
{
	size_t len = strnlen(key, PROTO_PERSIST_MAX);

	if (len == 0 || len == PROTO_PERSIST_MAX || key[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!(key[i] >= 'a' && key[i] <= 'z') && !(key[i] >= '0' && key[i] <= '9') &&
		    key[i] != '-')
			return false;
	return true;
}

int plan_check_forget(const struct proto_mon_forget *f)
{
	return is_key(f->persist) ? 0 : -EINVAL;
}

void plan_leave_out(struct proto_limits *l)
{
	if (!wall_stands(WALL_MEMORY))
		l->memory_bytes *= 8;
	if (!wall_stands(WALL_PIDS))
		l->pids *= 8;
	if (!wall_stands(WALL_NOFILE))
		l->nofile = 20000;
	if (!wall_stands(WALL_DISK)) {
		l->workspace_bytes *= 16;
		l->workspace_inodes *= 1024;
		l->tmp_bytes *= 64;
	}
}

int plan_check_create(const struct monitor *m, const struct proto_mon_create *c)
{
	size_t len = strnlen(c->image, sizeof(c->image));

	if (c->slot >= m->config->max_sandboxes || m->boxes[c->slot].state != BOX_FREE)
		return -EINVAL;
	if (c->warm > 1 || len == sizeof(c->image) || !parse_is_image_name(c->image, len))
		return -EINVAL;
	if (c->egress > 1 || c->helper_of > m->config->max_sandboxes || c->helper_of == c->slot + 1)
		return -EINVAL;
	if (c->persist[0] && (!is_key(c->persist) || c->helper_of))
		return -EINVAL;
	return proto_limits_ok(&c->limits) ? 0 : -EINVAL;
}
