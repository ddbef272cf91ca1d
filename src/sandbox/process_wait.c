/* SPDX-License-Identifier: Apache-2.0 */
/* What REST and the tool for background processes share: waits of their clients, names of signals, and the end
 * of what a revoked credential has started. */
#include "sandbox/process.h"

#include "base/buf.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <signal.h>
#include <string.h>

int process_signal_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},
		       {"KILL", SIGKILL}, {"TERM", SIGTERM}, {"USR1", SIGUSR1},
		       {"USR2", SIGUSR2}, {"CONT", SIGCONT}, {"STOP", SIGSTOP}};

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (streq(signals[i].name, name))
			return signals[i].number;
	return 0;
}

struct process_wait {
	struct process_wait_request request;
	struct process *process; /* reference */
	struct process_watch watch;
	sd_event_source *timer;
	struct budget_share share;
};

static void wait_free(struct process_wait *w)
{
	process_unwatch(&w->watch);
	(void)sd_event_source_disable_unref(w->timer);
	budget_give(&w->share);
	(void)process_unref(w->process);
	free(w);
}

static void wait_end(struct process_wait *w)
{
	const struct process_wait_request q = w->request;
	struct process *p = process_ref(w->process);

	wait_free(w);
	q.fn(p, q.user);
	(void)process_unref(p);
}

/* The beginning of a character is no output yet: a client that asks for what follows would get nothing, at once. */
static bool has_news(const struct process *p, enum engine_stream s, uint64_t from)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(64);
	uint64_t begin, next;

	return process_output(p, s, from, 4, &b, &begin, &next) < 0 || next > from;
}

static bool is_over(const struct process *p, const struct process_wait_request *q)
{
	struct process_facts f;

	process_look(p, &f);
	return !f.running || (q->output && (has_news(p, ENGINE_STDOUT, q->from[0]) ||
					    has_news(p, ENGINE_STDERR, q->from[1])));
}

static void on_news(struct process_watch *watch)
{
	struct process_wait *w = CONTAINER_OF(watch, struct process_wait, watch);

	if (is_over(w->process, &w->request))
		wait_end(w);
}

static int on_time(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	loop_work("timer", "wait for a process");
	wait_end(user);
	return 0;
}

int process_wait(struct process *p, const struct process_wait_request *q, struct process_wait **ret,
		 struct err *e)
{
	*ret = NULL;
	if (q->timeout_ns == 0 || is_over(p, q))
		return 0;
	const struct manager_config *config = &process_manager(p)->config;
	struct process_wait *w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a wait");
	*w = (struct process_wait){
	    .request = *q, .process = process_ref(p), .watch = {.fn = on_news}};
	list_init(&w->watch.node);
	int r = budget_take(config->budgets, q->owner, BUDGET_FOLLOWERS, 1, &w->share, e);
	if (r == 0 && sd_event_add_time_relative(config->loop, &w->timer, CLOCK_MONOTONIC,
						 q->timeout_ns / NS_PER_US, 0, on_time, w) < 0)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a wait");
	if (r < 0) {
		wait_free(w);
		return r;
	}
	process_watch(p, &w->watch);
	*ret = w;
	return 0;
}

void process_wait_cancel(struct process_wait *w)
{
	if (w)
		wait_free(w);
}

void manager_keep_credentials(struct manager *m, const struct process_credentials *c)
{
	m->credentials = *c;
}

static void end_revoked(struct sandbox *s, void *user)
{
	sandbox_each_process(s, process_end_revoked, user);
}

void manager_end_processes(struct manager *m, bool (*revoked)(const void *credential))
{
	manager_each(m, NULL, end_revoked, &revoked);
}
