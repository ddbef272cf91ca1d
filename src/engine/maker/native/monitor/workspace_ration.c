/* SPDX-License-Identifier: Apache-2.0 */
/* What the front hears of the room that each disk has (workspace_space.h). */
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_space.h"

static enum proto_ration ration_of(const struct disk *d, bool full)
{
	if (d->closed || (d->folder && full))
		return PROTO_RATION_NONE;
	if (d->ballast == 0)
		return PROTO_RATION_ALL;
	return d->stopped ? PROTO_RATION_NONE : PROTO_RATION_PART;
}

void rations_tell(struct monitor *m)
{
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++) {
		struct disk *d = &m->sandboxes[i].disk;
		const enum proto_ration now = ration_of(d, m->space.full);
		if ((!space_has_disk(&m->sandboxes[i]) && !space_has_folder(&m->sandboxes[i])) ||
		    d->ration == now)
			continue;
		const struct proto_mon_ration f = {
		    .head = PROTO_HEAD(MON_RATION, proto_mon_ration), .slot = i, .ration = now};
		d->ration = now;
		monitor_send(m, &f.head, NULL, 0);
	}
}
