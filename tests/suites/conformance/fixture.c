/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "base/rand.h"

#include <string.h>

int fixture_add_rows(struct fixture *f, const struct fixture_tool *rows, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const struct mcp_tool tool = {
		    .name = rows[i].name,
		    .description = rows[i].description,
		    .input_schema = rows[i].input_schema,
		    .call = rows[i].call,
		    .flags = rows[i].flags,
		    .needs = rows[i].needs,
		    .user = f,
		};
		int r = mcp_server_add_tool(f->server, &tool, e);

		if (r < 0)
			return r;
	}
	return 0;
}

int fixture_add_all(struct fixture *f, struct err *e)
{
	int r = fixture_add_content(f, e);

	if (r == 0)
		r = fixture_add_inputs(f, e);
	if (r == 0)
		r = fixture_add_tasks(f, e);
	if (r == 0)
		r = fixture_add_resources(f, e);
	if (r == 0)
		r = fixture_add_prompts(f, e);
	return r;
}

const char *fixture_arg(const struct mcp_call *call, const json_t *args, const char *key,
			const char *def)
{
	const char *v = mcp_text_arg(call, args, key);

	return v ? v : def;
}

void fixture_finish_text(struct mcp_call *call, const char *text)
{
	mcp_call_finish(call,
			mcp_tool_result(mcp_blocks(1, mcp_text(text, strlen(text))), NULL, false));
}

/* ---- steps in time ---- */

/* sd-event takes 0 for a quarter of a second. */
#define ACCURACY_USEC 1000

struct steps {
	struct mcp_call *call; /* borrowed: the call owns us */
	sd_event_source *timer;
	unsigned ms;
	unsigned n;
	void (*step)(struct mcp_call *call, unsigned n);
};

static void steps_free(void *data)
{
	struct steps *s = data;

	sd_event_source_disable_unref(s->timer);
	free(s);
}

static void steps_cancel(struct mcp_call *call, void *user)
{
	struct steps *s = user;

	(void)sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
	mcp_call_finish(call, json_object());
}

static int on_timer(sd_event_source *timer, uint64_t usec, void *user)
{
	struct steps *s = user;
	struct mcp_call *call = s->call;

	(void)usec;
	/* The step may finish the call, which frees us. */
	if (sd_event_source_set_time_relative(timer, s->ms * UINT64_C(1000)) < 0 ||
	    sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT) < 0) {
		mcp_call_finish(call, NULL);
		return 0;
	}
	s->step(call, ++s->n);
	return 0;
}

void fixture_every(struct fixture *f, struct mcp_call *call, unsigned ms,
		   void (*step)(struct mcp_call *call, unsigned n))
{
	struct steps *s = calloc(1, sizeof(*s));

	if (!s || sd_event_add_time_relative(f->loop, &s->timer, CLOCK_MONOTONIC,
					     ms * UINT64_C(1000), ACCURACY_USEC, on_timer, s) < 0) {
		free(s);
		mcp_call_finish(call, NULL);
		return;
	}
	s->call = call;
	s->ms = ms;
	s->step = step;
	mcp_call_set_data(call, s, steps_free);
	mcp_call_on_cancel(call, steps_cancel, s);
}
