/* SPDX-License-Identifier: Apache-2.0 */
#include "build/task.h"

#include "base/loop.h"
#include "base/text.h"
#include "sandbox/process.h"

#include <stdlib.h>
#include <string.h>

#define PIECE     (16u << 10)
#define ENV_BYTES (256u << 10)

struct build_task {
	struct list node;        /* of builds.tasks */
	struct sandbox *sandbox; /* reference: its processes stay while it does */
	struct process *process; /* reference */
	struct process_watch watch;
	sd_event_source *work; /* the loop's next turn: what is told of a process must not end it */
	struct build_task_spec spec;
	char lines[2][BUILD_LINE_MAX];
	size_t lens[2];
};

/* It may have been forgotten meanwhile, to make room for others. */
static void task_free(struct build_task *t)
{
	struct process_facts facts;
	struct err ignored = ERR_INIT;

	list_remove(&t->node);
	process_unwatch(&t->watch);
	t->work = sd_event_source_disable_unref(t->work);
	process_look(t->process, &facts);
	if (sandbox_find_process(t->sandbox, facts.id, &ignored) == t->process)
		process_forget(t->process);
	(void)process_unref(t->process);
	(void)sandbox_unref(t->sandbox);
	free(t);
}

static void tell(struct build_task *t, unsigned stream)
{
	if (t->spec.line)
		t->spec.line(t->lines[stream], t->lens[stream], stream == 1, t->spec.user);
	t->lens[stream] = 0;
}

static void take(struct build_task *t, unsigned stream, const char *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n')
			tell(t, stream);
		else if (data[i] != '\r' && t->lens[stream] < BUILD_LINE_MAX)
			t->lines[stream][t->lens[stream]++] = data[i];
	}
}

/* True: there may be more. */
static bool read_some(struct build_task *t)
{
	static char piece[PIECE];
	bool more = false;

	for (unsigned s = 0; s < 2; s++) {
		uint64_t from;
		const size_t n = process_bytes(t->process, s == 0 ? ENGINE_STDOUT : ENGINE_STDERR,
					       t->watch.at[s], sizeof(piece), piece, &from);

		t->watch.at[s] = from + n;
		take(t, s, piece, n);
		more = more || n > 0;
	}
	process_pace(t->process);
	return more;
}

static void end(struct build_task *t, const struct process_facts *facts)
{
	const struct build_task_spec spec = t->spec;
	struct err e = ERR_INIT;

	for (unsigned s = 0; s < 2; s++)
		if (t->lens[s] > 0)
			tell(t, s);
	if (facts->failure.code != ERR_NONE)
		e = facts->failure;
	else if (facts->reason == RUN_TIMEOUT)
		(void)err_set(&e, ERR_TIMEOUT, 0, "the command took too long");
	else if (facts->reason != RUN_EXITED)
		(void)err_set(&e, ERR_IMAGE_BUILD_FAILED, 0, "the command was killed%s",
			      facts->reason == RUN_OOM ? " because memory ran out" : "");
	else if (facts->exit_code != 0)
		(void)err_set(&e, ERR_IMAGE_BUILD_FAILED, 0, "the command exited with code %d",
			      facts->exit_code);
	task_free(t);
	spec.end(e.code != ERR_NONE ? &e : NULL, spec.user);
}

static int on_work(sd_event_source *source, void *user)
{
	struct build_task *t = user;
	struct process_facts facts;

	loop_work("timer", "command of a build");
	process_look(t->process, &facts);
	if (read_some(t))
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	if (!facts.running)
		end(t, &facts);
	return 0;
}

static void on_news(struct process_watch *w)
{
	(void)sd_event_source_set_enabled(CONTAINER_OF(w, struct build_task, watch)->work,
					  SD_EVENT_ONESHOT);
}

/* ---- start ---- */

static int start(const struct build_task_spec *spec, struct process **ret, struct err *e)
{
	static const char *const own[TASK_OWN_ENV_MAX] = {("HOME=" BUILD_HOME), "USER=user",
							  "LOGNAME=user", "SHELL=/bin/bash"};
	const char *env[PROCESS_ENV_MAX + 1];
	size_t at[PROCESS_ENV_MAX], n = 0, n_own = 0;
	_cleanup_(buf_done) struct buf texts = BUF_INIT(ENV_BYTES);
	const char *key;
	json_t *v;
	int r = 0;

	for (; !spec->root && n_own < ARRAY_SIZE(own); n_own++)
		env[n_own] = own[n_own];
	json_object_foreach(spec->env, key, v) {
		if (n_own + n >= PROCESS_ENV_MAX)
			r = -E2BIG;
		if (r < 0)
			break;
		at[n++] = texts.len;
		r = buf_printf(&texts, "%s=%s%c", key, json_string_value(v), '\0');
	}
	if (r < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "too many variables");
	for (size_t i = 0; i < n; i++)
		env[n_own + i] = texts.data + at[i];
	env[n_own + n] = NULL;
	size_t words = 0;
	while (spec->argv[words + 1])
		words++;
	const struct process_request q = {
	    .command = spec->argv[words],
	    .name = spec->name,
	    .argv = spec->argv,
	    .cwd = spec->cwd,
	    .env = env,
	    .root = spec->root,
	    .timeout_ns = spec->timeout_ns,
	    .credential = spec->credential,
	};
	return sandbox_start_process(spec->sandbox, &q, ret, e);
}

int build_task_leave(const struct build_task_spec *spec, struct err *e)
{
	struct process *p;

	return start(spec, &p, e);
}

int build_task_start(struct builds *b, const struct build_task_spec *spec, struct build_task **ret,
		     struct err *e)
{
	struct build_task *t = calloc(1, sizeof(*t));
	struct process *p = NULL;

	if (!t || sd_event_add_defer(b->config.loop, &t->work, on_work, t) < 0) {
		free(t);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a command");
	}
	const int r = start(spec, &p, e);
	if (r < 0) {
		t->work = sd_event_source_disable_unref(t->work);
		free(t);
		return r;
	}
	t->sandbox = sandbox_ref(spec->sandbox);
	t->process = process_ref(p);
	t->spec = *spec;
	t->spec.env = NULL;
	t->spec.argv = NULL;
	t->watch.fn = on_news;
	t->watch.paced = true;
	list_init(&t->watch.node);
	process_watch(p, &t->watch);
	list_append(&b->tasks, &t->node);
	*ret = t;
	return 0;
}

struct build_task *build_task_stop(struct build_task *t)
{
	if (t)
		task_free(t);
	return NULL;
}

void builds_end_tasks(struct builds *b)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server ends");
	while (!list_is_empty(&b->tasks)) {
		struct build_task *t = list_first(&b->tasks, struct build_task, node);
		const struct build_task_spec spec = t->spec;

		task_free(t);
		spec.end(&e, spec.user);
	}
}
