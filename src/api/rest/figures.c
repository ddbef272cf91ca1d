/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rest/figures.h"

#include "api/api_state.h"
#include "base/loop.h"
#include "base/rand.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#define SAMPLES    (FIGURES_MINUTES * 60 / FIGURES_STEP_S)
#define POINTS_MAX 360u

/* Counters and gauges at one moment. */
struct reading {
	uint64_t at_ns;
	uint64_t runs, run_ms, cpu_ns, answers;  /* counters */
	uint64_t sandboxes, pool_ready, streams; /* gauges */
};

/* What is shown of two readings, one after the other; NAN: not known. */
typedef float (*figure_fn)(const struct reading *was, const struct reading *is, double seconds);

static float sandboxes(const struct reading *was UNUSED, const struct reading *is,
		       double seconds UNUSED)
{
	return (float)is->sandboxes;
}

static float runs(const struct reading *was, const struct reading *is, double seconds)
{
	return (float)((double)(is->runs - was->runs) / seconds);
}

static float run_ms(const struct reading *was, const struct reading *is, double seconds UNUSED)
{
	const uint64_t n = is->runs - was->runs;

	return n > 0 ? (float)((double)(is->run_ms - was->run_ms) / (double)n) : NAN;
}

static float cpu(const struct reading *was, const struct reading *is, double seconds)
{
	return (float)((double)(is->cpu_ns - was->cpu_ns) / (double)NS_PER_S / seconds);
}

static float pool(const struct reading *was UNUSED, const struct reading *is, double seconds UNUSED)
{
	return (float)is->pool_ready;
}

static float answers(const struct reading *was, const struct reading *is, double seconds)
{
	return (float)((double)(is->answers - was->answers) / seconds);
}

static float streams(const struct reading *was UNUSED, const struct reading *is,
		     double seconds UNUSED)
{
	return (float)is->streams;
}

static const struct {
	const char *name;
	figure_fn of;
} series[] = {
    {"sandboxes", sandboxes},    {"runs_per_s", runs}, {"run_ms_avg", run_ms},
    {"cpu_cores", cpu},          {"pool_ready", pool}, {"http_per_s", answers},
    {"events_streams", streams},
};

#define SERIES (sizeof(series) / sizeof(series[0]))

struct sample {
	int64_t at_s; /* since 1970 */
	float values[SERIES];
};

struct figures {
	struct api *api;
	sd_event_source *timer;
	struct reading last;
	size_t n, next; /* samples taken and kept, and where the next one goes */
	struct sample samples[SAMPLES];
};

static void read_now(const struct api *a, struct reading *ret)
{
	const struct accounting_stats *s = accounting_stats(a->config.accounting);
	struct engine_pool p;

	*ret = (struct reading){
	    .at_ns = now_ns(),
	    .run_ms = s->run_ms,
	    .cpu_ns = s->run_cpu_ns,
	    .sandboxes = manager_count(a->config.manager),
	};
	for (size_t i = 0; i < ACCOUNTING_REASONS; i++)
		ret->runs += s->runs[i];
	for (size_t i = 0; i < ARRAY_SIZE(a->stats.answers); i++)
		ret->answers += a->stats.answers[i];
	manager_pool(a->config.manager, &p);
	ret->pool_ready = p.ready;
	if (a->config.budgets)
		ret->streams = budget_used(a->config.budgets, BUDGET_STREAMS);
}

static int on_time(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct figures *f = user;
	struct reading now;

	loop_work("timer", "figures");
	read_now(f->api, &now);
	const double seconds = (double)(now.at_ns - f->last.at_ns) / (double)NS_PER_S;
	struct sample *s = &f->samples[f->next];
	s->at_s = (int64_t)time(NULL);
	for (size_t i = 0; i < SERIES; i++)
		s->values[i] = series[i].of(&f->last, &now, seconds > 0 ? seconds : FIGURES_STEP_S);
	f->last = now;
	f->next = (f->next + 1) % SAMPLES;
	f->n = MIN(f->n + 1, (size_t)SAMPLES);
	/* Without a next time the figures end here; nothing else depends on them. */
	if (sd_event_source_set_time_relative(source, FIGURES_STEP_S * UINT64_C(1000000)) >= 0)
		(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

int figures_new(struct api *a, struct figures **ret, struct err *e)
{
	struct figures *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "figures");
	f->api = a;
	read_now(a, &f->last);
	int r = sd_event_add_time_relative(a->config.loop, &f->timer, CLOCK_MONOTONIC,
					   FIGURES_STEP_S * UINT64_C(1000000), 0, on_time, f);
	if (r < 0) {
		free(f);
		return err_set(e, ERR_SYSTEM, -r, "figures");
	}
	*ret = f;
	return 0;
}

struct figures *figures_free(struct figures *f)
{
	if (f)
		(void)sd_event_source_disable_unref(f->timer);
	free(f);
	return NULL;
}

/* Sample I of those that are kept, the oldest first. */
static const struct sample *sample_at(const struct figures *f, size_t i)
{
	return &f->samples[(f->next + SAMPLES - f->n + i) % SAMPLES];
}

/* The mean of K samples from FROM on, without those that are not known. */
static json_t *mean(const struct figures *f, size_t from, size_t k, size_t serie)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = from; i < MIN(from + k, f->n); i++) {
		const double v = (double)sample_at(f, i)->values[serie];

		if (isnan(v))
			continue;
		sum += v;
		n++;
	}
	return n > 0 ? json_real((double)(int64_t)(sum / (double)n * 1000 + 0.5) / 1000)
		     : json_null();
}

json_t *figures_json(const struct figures *f, unsigned minutes)
{
	const size_t want = MIN((size_t)minutes * 60 / FIGURES_STEP_S, f->n);
	const size_t k = MAX((want + POINTS_MAX - 1) / POINTS_MAX, (size_t)1);
	json_t *at = json_array(), *all = json_object();
	bool failed = false;

	for (size_t i = f->n - want; i < f->n; i += k)
		failed |=
		    json_array_append_new(at, json_integer((json_int_t)sample_at(f, i)->at_s)) < 0;
	for (size_t s = 0; s < SERIES; s++) {
		json_t *values = json_array();

		for (size_t i = f->n - want; i < f->n; i += k)
			failed |= json_array_append_new(values, mean(f, i, k, s)) < 0;
		failed |= json_object_set_new(all, series[s].name, values) < 0;
	}
	json_t *doc = json_pack("{s:I, s:o, s:o}", "step_s", (json_int_t)(FIGURES_STEP_S * k), "at",
				at, "series", all);
	if (!failed)
		return doc;
	json_decref(doc);
	return NULL;
}
