/* SPDX-License-Identifier: Apache-2.0 */
#include "manager_world.h"

#include "base/log.h"
#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

uint64_t clock_ns;

uint64_t manager_world_now(void)
{
	return clock_ns;
}

static int open_fake(void *user, struct engine **ret, struct err *e UNUSED)
{
	struct fake_engine *fake = user;

	*ret = &fake->engine;
	return 0;
}

void manager_world_open_beside(struct manager_world *w, sd_event *loop,
			       struct manager_config config)
{
	struct err e = ERR_INIT;

	w->loop = sd_event_ref(loop);
	w->fake = fake_engine_new(loop);
	config.loop = loop;
	config.open_engine = open_fake;
	config.user = w->fake;
	if (!config.image[0])
		(void)snprintf(config.image, sizeof(config.image), "science");
	if (!config.ttl_ns)
		config.ttl_ns = 30 * 60 * NS_PER_S;
	if (!config.sweep_ns)
		config.sweep_ns = 300 * NS_PER_S;
	assert_int_equal(manager_new(&config, &w->manager, &e), 0);
}

void manager_world_open(struct manager_world *w, struct manager_config config)
{
	static const struct log_config log = {.level = LOG_LEVEL_CRITICAL};
	sd_event *loop;

	log_configure(&log);
	clock_ns = NS_PER_S;
	assert_true(sd_event_new(&loop) >= 0);
	manager_world_open_beside(w, loop, config);
	sd_event_unref(loop);
}

void manager_world_turn(struct manager_world *w)
{
	while (sd_event_run(w->loop, 0) > 0)
		;
}

void manager_world_close(struct manager_world *w)
{
	manager_world_turn(w);
	if (w->fake && !manager_engine(w->manager)) /* nothing has opened it */
		engine_close(&w->fake->engine);
	w->manager = manager_free(w->manager);
	w->loop = sd_event_unref(w->loop);
}
