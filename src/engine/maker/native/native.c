/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine as the front sees it: what every front does, with the monitor as the maker. */
#include "engine/maker/native/native.h"

#include "engine/front/front.h"
#include "engine/maker/native/probe.h"

#include <stdio.h>

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

/* It tries what the engine needs in child processes that end at once (10-20 ms), so it can answer from the loop's
 * next turn. */
static int native_probe(const struct engine_config *config UNUSED, sd_event *loop,
			engine_probe_fn cb, void *user, struct err *e)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q || sd_event_add_defer(loop, &q->source, on_turn, q) < 0) {
		free(q);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM,
			       "no memory to ask what this machine has");
	}
	q->cb = cb;
	q->user = user;
	return 0;
}

static int refuse_userns(const char *refusal, struct err *e)
{
	return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "this machine refuses user namespaces: %s",
		       refusal);
}

static int native_begin(struct engine *base, const struct engine_config *config, struct err *e)
{
	struct front_engine *g = front_engine_of(base);
	char max[16], zygote[3][24], total[24], workspace[16];
	int r;
	const char *const argv[] = {"caisson",
				    "monitor",
				    config->state_dir,
				    max,
				    config->warm ? "1" : "0",
				    zygote[0],
				    zygote[1],
				    zygote[2],
				    total,
				    config->install_tool ? config->install_tool : "",
				    workspace,
				    config->moves ? "1" : "0",
				    NULL};

	(void)snprintf(max, sizeof(max), "%u", config->max_sandboxes);
	(void)snprintf(zygote[0], sizeof(zygote[0]), "%llu",
		       (unsigned long long)config->zygote.idle_s);
	(void)snprintf(zygote[1], sizeof(zygote[1]), "%llu",
		       (unsigned long long)config->zygote.age_s);
	(void)snprintf(zygote[2], sizeof(zygote[2]), "%llu",
		       (unsigned long long)config->zygote.forks);
	(void)snprintf(total, sizeof(total), "%llu", (unsigned long long)config->total_bytes);
	(void)snprintf(workspace, sizeof(workspace), "%u", (unsigned)config->workspace);
	front_init(g, config);
	r = engine_levels_read("", "", "", &g->base.levels, e);
	/* Else ENOSPC of the first sandbox would read like a full disk. */
	const char *refusal = host_userns_refusal(true);

	if (refusal)
		return refuse_userns(refusal, e);
	return r < 0 ? r : front_start(g, argv, config, e);
}

static int native_open(struct engine *base, struct err *e)
{
	const int r = front_open(base, e);
	const char *refusal = r < 0 ? host_userns_refusal(false) : NULL;

	return refusal ? refuse_userns(refusal, e) : r;
}

const struct engine_ops native_ops = {
    .name = "native",
    .caps = ENGINE_CAPS_NATIVE,
    .size = sizeof(struct front_engine),
    .begin = native_begin,
    .open = native_open,
    .close = front_close,
    .probe = native_probe,
    .pool = front_pool_figures,
    .prepare = front_prepare,
    .memory = front_memory_ask,
    .count_upload = front_memory_count,
    .uncount_upload = front_memory_uncount,
    .forget = front_forget,
    .disk = front_disk,
    .create = front_create,
    .destroy = front_destroy,
    .usage = front_usage,
    .change = front_change,
    .keep = front_keep,
    .warm = front_warm,
    .ready = front_ready,
    .idle = front_idle,
    .release = front_release,
};
