/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox of a template gets the files of its home folder and its start command, before anybody is told of it. */
#include "faces/e2b/template_build.h"

#include "base/rand.h"

#include <stdlib.h>

#define READY_NS (60 * NS_PER_S)

struct beginning {
	struct e2b_sandbox *sandbox; /* reference */
	struct e2b_build *build;     /* reference */
	void (*fn)(const struct err *e, void *user);
	void *user;
};

static void begun(const struct err *e, void *user)
{
	struct beginning g = *(struct beginning *)user;

	free(user);
	g.fn(e, g.user);
	(void)e2b_build_unref(g.build);
	(void)e2b_sandbox_unref(g.sandbox);
}

static int begin_task(struct beginning *g, bool root, const char *const *argv, uint64_t timeout_ns,
		      void (*end)(const struct err *e, void *user), struct err *e)
{
	struct build_task *task;
	const struct build_task_spec spec = {.sandbox = g->sandbox->sandbox,
					     .env = g->build->setup.env,
					     .root = root,
					     .cwd = root ? "/" : g->build->setup.workdir,
					     .argv = argv,
					     .timeout_ns = timeout_ns,
					     .credential = g->sandbox->who,
					     .end = end,
					     .user = g};

	return g->sandbox->sandbox
		   ? build_task_start(g->sandbox->face->config.builds, &spec, &task, e)
		   : err_set(e, ERR_SANDBOX_LOST, 0, "the sandbox has ended");
}

static void on_home(const struct err *e, void *user)
{
	static const char loop[] = BUILD_READY_LOOP("0.05");
	struct beginning *g = user;
	const struct e2b_setup *s = &g->build->setup;
	struct err failed = e ? *e : ERR_INIT;
	const char *argv[] = {"/bin/bash", "-l", "-c", loop, "bash", s->ready, NULL};

	if (!e && !g->sandbox->sandbox)
		(void)err_set(&failed, ERR_SANDBOX_LOST, 0, "the sandbox has ended");
	if (failed.code == ERR_NONE && s->start)
		(void)!building_start_command(g->sandbox->sandbox, s, g->sandbox->who, &failed);
	if (failed.code == ERR_NONE && s->start && s->ready &&
	    begin_task(g, s->root, argv, READY_NS, begun, &failed) == 0)
		return;
	begun(failed.code != ERR_NONE ? &failed : NULL, g);
}

void e2b_setup_begin(struct e2b_sandbox *s, struct e2b_build *b,
		     void (*fn)(const struct err *e, void *user), void *user)
{
	static const char script[] = BUILD_UNPACK_HOME;
	const char *argv[] = {"/bin/sh", "-c", script, NULL};
	struct beginning *g = calloc(1, sizeof(*g));
	struct err e = ERR_INIT;

	if (!g) {
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a sandbox");
		fn(&e, user);
		return;
	}
	*g = (struct beginning){
	    .sandbox = e2b_sandbox_ref(s), .build = e2b_build_ref(b), .fn = fn, .user = user};
	if (begin_task(g, true, argv, 0, on_home, &e) < 0)
		begun(&e, g);
}
