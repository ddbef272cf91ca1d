/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/layer.h"

#include "base/log.h"
#include "engine/engine_layer.h"
#include "sandbox/manager.h"

#include <stdlib.h>

struct layer_call {
	struct sandbox *sandbox; /* reference; seized */
	sandbox_layer_fn cb;
	void *user;
};

static void on_written(const struct engine_checkpoint *what, const struct err *e, void *user)
{
	struct layer_call *c = user;
	struct sandbox *s = c->sandbox;

	sandbox_yield(s);
	if (what)
		LOG_INFO("layer_written", LOG_S("session_id", s->id), LOG_U("files", what->files),
			 LOG_U("bytes", what->bytes));
	c->cb(what ? what->files : 0, what ? what->bytes : 0, what ? what->skipped : 0, e, c->user);
	(void)sandbox_unref(s);
	free(c);
}

int sandbox_write_layer(struct sandbox *s, int pipe, sandbox_layer_fn cb, void *user, struct err *e)
{
	const int seized = sandbox_seize(s, e);

	if (seized < 0)
		return seized;
	if (seized > 0)
		return err_set(e, ERR_SESSION_BUSY, 0, "a run of session %s is ending; try again",
			       s->id);
	struct layer_call *c = calloc(1, sizeof(*c));
	int r = c ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a layer");

	if (r == 0) {
		*c = (struct layer_call){.sandbox = sandbox_ref(s), .cb = cb, .user = user};
		r = engine_write_layer(s->handle, pipe, on_written, c, e);
	}
	if (r < 0) {
		sandbox_yield(s);
		if (c)
			(void)sandbox_unref(c->sandbox);
		free(c);
	}
	return r;
}
