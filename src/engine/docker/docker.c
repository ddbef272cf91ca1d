/* SPDX-License-Identifier: Apache-2.0 */
/* The engine as the front sees it: the front's half of the native engine, with a keeper in place of the
 * monitor. */
#include "engine/docker/docker.h"

#include "base/text.h"
#include "engine/native/front/front.h"

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
	struct native_engine *g = native_engine_of(base);
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
	native_init(g, config);
	if (config->workspace == ENGINE_WORKSPACE_DISK)
		return err_set(e, ERR_LIMIT_NOT_ENFORCEABLE, 0,
			       "no container daemon limits a workspace on disk; on this engine "
			       "SANDBOX_WORKSPACE is memory");
	g->any_reference = true;
	const int r = engine_levels_read(word(config->docker.levels), word(config->docker.level),
					 word(config->docker.runtime), &g->base.levels, e);
	return r < 0 ? r : native_start(g, argv, config, e);
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
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a look at the container daemon");
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
	return s->run && l->memory_bytes < s->policy.limits.memory_bytes ? -EBUSY
									 : native_change(s, l);
}

const struct engine_ops docker_ops = {
    .name = "docker",
    .get_image = "get it once with: docker pull",
    NATIVE_FRONT_OPS,
    .change = docker_change,
    .begin = docker_begin,
    .probe = docker_probe,
};
