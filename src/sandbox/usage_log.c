/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses over time. Nothing is measured unless somebody asks, and everybody who asks meanwhile gets the same
 * sample: the cost depends on the number of sandboxes that are watched, not on the number of watchers. */
#include "base/rand.h"
#include "sandbox/manager.h"

struct asker { /* waits for the sample that is being taken */
	struct list node;
	sandbox_sample_fn cb;
	void *user;
};

struct usage_log {
	struct list askers; /* oldest first */
	bool asking;
	uint64_t taken_ns; /* when the newest sample was taken, by the clock of now_ns() */
	size_t n, first;   /* samples[first] is the oldest */
	struct sandbox_sample samples[SANDBOX_SAMPLES];
};

void usage_log_free(struct usage_log *log)
{
	free(log); /* an asker holds its sandbox, so there is none */
}

const struct sandbox_sample *sandbox_sample(const struct sandbox *s, size_t i)
{
	const struct usage_log *log = s->usage;

	return log && i < log->n ? &log->samples[(log->first + i) % SANDBOX_SAMPLES] : NULL;
}

static void add_sample(struct usage_log *log, const struct engine_usage *u)
{
	const struct sandbox_sample sample = {
	    .at_ms = now_wall_ns() / NS_PER_MS,
	    .memory_bytes = u->memory_bytes,
	    .cpu_ns = u->cpu_ns,
	    .disk_bytes = u->workspace_bytes,
	    .pids = u->pids,
	};

	log->taken_ns = now_ns();
	if (log->n < SANDBOX_SAMPLES) {
		log->samples[log->n++] = sample;
	} else {
		log->samples[log->first] = sample;
		log->first = (log->first + 1) % SANDBOX_SAMPLES;
	}
}

static void call_askers(struct usage_log *log, const struct sandbox_sample *newest,
			const struct err *e)
{
	struct list askers = LIST_INIT(askers);
	struct asker *a;

	list_splice(&askers, &log->askers); /* one that asks again gets the next sample */
	while ((a = list_pop_first(&askers, struct asker, node))) {
		a->cb(newest, e, a->user);
		free(a);
	}
}

static void on_usage(const struct engine_usage *u, const struct err *e, void *user)
{
	struct sandbox *s = user;
	struct usage_log *log = s->usage;
	struct sandbox_sample newest = {0};

	log->asking = false;
	if (u) {
		add_sample(log, u);
		newest = *sandbox_sample(s, log->n - 1);
	}
	call_askers(log, e ? NULL : &newest, e);
	(void)sandbox_unref(s);
}

static int ask(struct sandbox *s, sandbox_sample_fn cb, void *user, struct err *e)
{
	struct asker *a = calloc(1, sizeof(*a));

	if (!a)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the figures of a sandbox");
	int r = s->usage->asking ? 0 : sandbox_get_usage(s, on_usage, s, e);
	if (r < 0) {
		free(a);
		return r;
	}
	if (!s->usage->asking)
		(void)sandbox_ref(s);
	s->usage->asking = true;
	a->cb = cb;
	a->user = user;
	list_append(&s->usage->askers, &a->node);
	return 0;
}

static struct usage_log *log_of(struct sandbox *s)
{
	if (!s->usage) {
		s->usage = calloc(1, sizeof(*s->usage));
		if (s->usage)
			list_init(&s->usage->askers);
	}
	return s->usage;
}

void sandbox_watch_usage(struct sandbox *s, sandbox_sample_fn cb, void *user)
{
	const struct usage_log *log = log_of(s);
	struct err e = ERR_INIT;

	(void)sandbox_ref(s); /* one that has ended on its own is closed by the question */
	if (!log) {
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "the figures of a sandbox");
		cb(NULL, &e, user);
	} else if (log->n > 0 && log->taken_ns + SANDBOX_SAMPLE_NS > now_ns()) {
		cb(sandbox_sample(s, log->n - 1), NULL, user);
	} else if (ask(s, cb, user, &e) < 0) {
		cb(NULL, &e, user);
	}
	(void)sandbox_unref(s);
}
