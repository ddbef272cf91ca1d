/* SPDX-License-Identifier: Apache-2.0 */
/* engine_probe() of the native engine. It tries what it needs in child processes that end at once
 * (10-20 ms), so it can answer from the loop's next turn. */
#include "engine/native/front/front.h"
#include "engine/native/probe.h"

struct question {
	sd_event_source *source;
	engine_probe_fn cb;
	void *user;
};

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct question *q = user;
	struct host_probe found;

	host_probe_run(&found);
	const struct engine_probe p = {
	    .enforced = found.enforced,
	    .best_effort = found.best_effort,
	    .usable = host_probe_usable(&found),
	    .host = &found,
	};
	q->cb(&p, NULL, q->user);
	q->source = sd_event_source_disable_unref(q->source);
	free(q);
	return 0;
}

int native_engine_probe(const struct engine_config *config UNUSED, sd_event *loop,
			engine_probe_fn cb, void *user, struct err *e)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q || sd_event_add_defer(loop, &q->source, on_turn, q) < 0) {
		free(q);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a look at this machine");
	}
	q->cb = cb;
	q->user = user;
	return 0;
}
