/* SPDX-License-Identifier: Apache-2.0 */
/* REST: what sandboxes use, for those who watch. A list with figures waits for the slowest sandbox, at most USAGE_WAIT_NS; a
 * sandbox that has not answered by then has no `usage` in it. */
#include "api/rest/rest.h"

#include "base/rand.h"

#define USAGE_WAIT_NS NS_PER_S
#define USAGE_MAX     256u /* sandboxes of one list that are asked */

static json_t *usage_json(uint64_t memory_bytes, uint64_t cpu_ns, uint64_t pids,
			  uint64_t disk_bytes)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "memory_bytes", (json_int_t)memory_bytes, "cpu_ms",
			 (json_int_t)(cpu_ns / NS_PER_MS), "pids", (json_int_t)pids, "disk_bytes",
			 (json_int_t)disk_bytes);
}

static json_t *sample_json(const struct sandbox_sample *u)
{
	return usage_json(u->memory_bytes, u->cpu_ns, u->pids, u->disk_bytes);
}

/* ---- one sandbox ---- */

static void on_usage(const struct engine_usage *u, const struct err *e, void *user)
{
	if (e)
		rest_fail(user, e);
	else
		rest_reply(user, 200,
			   usage_json(u->memory_bytes, u->cpu_ns, u->pids, u->workspace_bytes));
}

static json_t *series_json(const struct sandbox *s)
{
	json_t *at = json_array(), *memory = json_array(), *cpu = json_array(),
	       *disk = json_array();
	const struct sandbox_sample *u;

	for (size_t i = 0; (u = sandbox_sample(s, i)) != NULL; i++) {
		(void)json_array_append_new(at, json_integer((json_int_t)u->at_ms));
		(void)json_array_append_new(memory, json_integer((json_int_t)u->memory_bytes));
		(void)json_array_append_new(cpu, json_integer((json_int_t)(u->cpu_ns / NS_PER_MS)));
		(void)json_array_append_new(disk, json_integer((json_int_t)u->disk_bytes));
	}
	return json_pack("{s:o, s:o, s:o, s:o}", "at_ms", at, "memory_bytes", memory, "cpu_ms", cpu,
			 "disk_bytes", disk);
}

static void on_sample(const struct sandbox_sample *newest, const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e) {
		rest_fail(c, e);
		return;
	}
	json_t *object = sample_json(newest);
	(void)json_object_set_new(object, "series", series_json(c->sandbox));
	rest_reply(c, 200, object);
}

static void usage(struct rest_call *c)
{
	struct err e = ERR_INIT;

	if (rest_query_bool(c, "series"))
		sandbox_watch_usage(c->sandbox, on_sample, c);
	else if (sandbox_get_usage(c->sandbox, on_usage, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_usage(struct rest_call *c)
{
	rest_sandbox(c, usage);
}

/* ---- a list ---- */

struct usage_row {
	struct usage_list *of;
	struct sandbox *sandbox; /* reference */
	json_t *json;            /* of the list */
};

struct usage_list {
	struct rest_call *call; /* NULL: it has been answered */
	json_t *list;           /* owned until then */
	sd_event_source *timer;
	unsigned waits; /* rows that are being asked, and one for usage_list_reply() */
	size_t n;
	struct usage_row rows[USAGE_MAX];
};

struct usage_list *usage_list_new(struct rest_call *c)
{
	struct usage_list *u = calloc(1, sizeof(*u));

	if (u)
		u->call = c;
	return u;
}

void usage_list_free(struct usage_list *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->n; i++)
		(void)sandbox_unref(u->rows[i].sandbox);
	(void)sd_event_source_disable_unref(u->timer);
	free(u);
}

void usage_list_add(struct usage_list *u, struct sandbox *s, json_t *row)
{
	if (u->n < USAGE_MAX)
		u->rows[u->n++] =
		    (struct usage_row){.of = u, .sandbox = sandbox_ref(s), .json = row};
}

static void answer(struct usage_list *u)
{
	struct rest_call *c = TAKE_PTR(u->call);

	if (c)
		rest_reply(c, 200, json_pack("{s:o}", "sandboxes", TAKE_PTR(u->list)));
}

static void end_wait(struct usage_list *u)
{
	if (--u->waits > 0)
		return;
	answer(u);
	usage_list_free(u);
}

static void on_row(const struct sandbox_sample *newest, const struct err *e UNUSED, void *user)
{
	struct usage_row *row = user;

	if (newest && row->of->call) /* a sandbox that has ended meanwhile has no figures */
		(void)json_object_set_new(row->json, "usage", sample_json(newest));
	end_wait(row->of);
}

static int on_late(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	answer(user);
	return 0;
}

void usage_list_reply(struct usage_list *u, json_t *list)
{
	int r = sd_event_add_time_relative(u->call->api->config.loop, &u->timer, CLOCK_MONOTONIC,
					   USAGE_WAIT_NS / NS_PER_US, 0, on_late, u);

	u->list = list;
	u->waits = 1;
	for (size_t i = 0; r >= 0 && i < u->n;
	     i++) { /* without the timer an answer could be missing for ever */
		u->waits++;
		sandbox_watch_usage(u->rows[i].sandbox, on_row, &u->rows[i]);
	}
	end_wait(u);
}
