/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on containers as the front sees it: what every front does, with the keeper as the maker. */
#include "engine/maker/docker/docker.h"

#include "base/text.h"
#include "engine/front/front.h"

#include <stdio.h>

struct question {
	sd_event_source *source;
	const struct engine_config *config;
	engine_probe_fn cb;
	void *user;
};

static const char *word(const char *s)
{
	return s ? s : "";
}

static int docker_begin(struct engine *base, const struct engine_config *config, struct err *e)
{
	struct front_engine *g = front_engine_of(base);
	char max[16];
	const char *const argv[] = {"caisson",
				    "keeper",
				    config->state_dir,
				    max,
				    config->warm ? "1" : "0",
				    word(config->docker.host),
				    word(config->docker.certs),
				    word(config->docker.runtime),
				    word(config->docker.levels),
				    word(config->docker.level),
				    word(config->install_tool),
				    NULL};

	(void)snprintf(max, sizeof(max), "%u", config->max_sandboxes);
	front_init(g, config);
	g->any_reference = true;
	const int r = engine_levels_read(word(config->docker.levels), word(config->docker.level),
					 word(config->docker.runtime), &g->base.levels, e);
	return r < 0 ? r : front_start(g, argv, config, e);
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct question *q = user;
	struct docker_about about = {0};
	struct err e = ERR_INIT;
	struct keeper_config config = {.state_dir = "/",
				       .warm = q->config->warm,
				       .host = word(q->config->docker.host),
				       .certs = word(q->config->docker.certs)};
	int r = engine_levels_read(word(q->config->docker.levels), word(q->config->docker.level),
				   word(q->config->docker.runtime), &config.levels, &e);

	r = r < 0 ? r : docker_look(&config, &about, &e);
	const struct engine_probe p = {.enforced = about.enforced,
				       .best_effort = about.best_effort,
				       .usable = r == 0,
				       .docker = &about};

	q->cb(r == 0 ? &p : NULL, r == 0 ? NULL : &e, q->user);
	q->source = sd_event_source_disable_unref(q->source);
	free(q);
	return 0;
}

static int docker_probe(const struct engine_config *config, sd_event *loop, engine_probe_fn cb,
			void *user, struct err *e)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q || sd_event_add_defer(loop, &q->source, on_turn, q) < 0) {
		free(q);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "asking the container daemon");
	}
	q->config = config;
	q->cb = cb;
	q->user = user;
	return 0;
}

/* The daemon writes the limit without a look at what is in use, and on cgroup v2 the kernel then kills. The
 * keeper looks before; what it has seen stays true only while nothing runs. */
static int docker_change(struct engine_sandbox *s, const struct engine_limits *l)
{
	return (s->run || s->n_background > 0) && l->memory_bytes < s->policy.limits.memory_bytes
		   ? -EBUSY
		   : front_change(s, l);
}

/* There is no limit on all sandboxes together, so uploads are not counted. In a container init makes its
 * interpreters itself: the keeper answers `warm` with MON_UNSUPPORTED, and init goes on with its own. */
const struct engine_ops docker_ops = {
    .name = "docker",
    .caps = ENGINE_CAPS_DOCKER,
    .get_image = "get it once with: docker pull",
    .size = sizeof(struct front_engine),
    .begin = docker_begin,
    .open = front_open,
    .close = front_close,
    .probe = docker_probe,
    .pool = front_pool_figures,
    .memory = front_memory_ask,
    .prepare = front_prepare,
    .forget = front_forget,
    /* Each pair of them may be a terminal, and containers share those of the host (3,072). */
    .open_files_most = 4096,
    .create = front_create,
    .destroy = front_destroy,
    .usage = front_usage,
    .change = docker_change,
    .warm = front_warm,
    .ready = front_ready,
    .idle = front_idle,
    .release = front_release,
};
