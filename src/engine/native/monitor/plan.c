/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a request against all that is known before anything is done. The front has done the same
 * checks with better words; what fails here comes from a broken front and ends the connection. */
#include "base/parse.h"
#include "engine/native/monitor/monitor.h"

#include <string.h>

int plan_check_create(const struct monitor *m, const struct proto_mon_create *c)
{
	size_t len = strnlen(c->image, sizeof(c->image));

	if (c->slot >= m->config->max_sandboxes || m->boxes[c->slot].state != BOX_FREE)
		return -EINVAL;
	if (c->warm > 1 || len == sizeof(c->image) || !parse_is_image_name(c->image, len))
		return -EINVAL;
	if (c->egress > 1 || c->helper_of > m->config->max_sandboxes || c->helper_of == c->slot + 1)
		return -EINVAL;
	return proto_limits_ok(&c->limits) ? 0 : -EINVAL;
}
