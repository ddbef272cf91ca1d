/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the server: the cache and the folder of wheels are on disks, which may be slow or of another machine. */
#include "packages/jobs.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <fcntl.h>

static void step_free(struct step *s)
{
	plan_done(&s->plan);
	workers_close("packages", s->fd);
	free(s->versions);
	free(s);
}

static void run(void *user)
{
	struct step *s = user;

	s->fn(s);
}

static void on_ran(void *user)
{
	struct step *s = user;
	struct job *j = s->job;

	loop_work("packages", "files");
	if (j) {
		j->step = NULL;
		s->done(j, s);
	}
	step_free(s);
}

struct step *step_new(struct job *j, void (*fn)(struct step *s),
		      void (*done)(struct job *j, struct step *s))
{
	struct step *s = calloc(1, sizeof(*s));

	if (s)
		*s = (struct step){
		    .job = j, .packages = j->packages, .fn = fn, .done = done, .fd = -1};
	return s;
}

void step_start(struct step *s)
{
	struct job *j = s->job;

	ASSERT(!j->step);
	j->step = s;
	if (workers_run_counted("packages", run, on_ran, s) == 0)
		return;
	j->step = NULL;
	step_free(s);
	job_fail_memory(j);
}

static void open_all(struct step *s)
{
	const struct packages *p = s->packages;

	for (size_t i = 0; i < s->plan.n; i++) {
		struct wheel *w = &s->plan.wheels[i];
		const bool local = p->config.wheel_fd >= 0 && text_starts_with(w->url, "file:");

		w->fd = local ? openat(p->config.wheel_fd, w->file,
				       O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
			      : cache_open(p->cache, w->sha256);
	}
}

void job_open_wheels(struct job *j, void (*done)(struct job *j, struct step *s))
{
	struct step *s = step_new(j, open_all, done);

	if (s && plan_copy(&j->plan, &s->plan) == 0) {
		step_start(s);
		return;
	}
	free(s);
	job_fail_memory(j);
}

unsigned step_take_wheels(struct step *s)
{
	struct plan *plan = &s->job->plan;
	unsigned missing = 0;

	for (size_t i = 0; i < plan->n; i++) {
		plan->wheels[i].fd = TAKE_FD(s->plan.wheels[i].fd);
		missing += plan->wheels[i].fd < 0;
	}
	return missing;
}
