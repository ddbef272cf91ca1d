/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of a sandbox: what the front keeps of each, and their end. runtime/init/contexts.c has them. */
#include "engine/front/inside/inside.h"
#include "engine/front/inside/inside_output.h"

void inside_streams_close(struct engine_sandbox *s, uint32_t context)
{
	inside_pipe_close(&s->streams[context][0]);
	inside_pipe_close(&s->streams[context][1]);
}

int engine_end_context(struct engine_sandbox *s, uint32_t context)
{
	const struct proto_init_forget m = {.head = PROTO_HEAD(INIT_FORGET, proto_init_forget),
					    .context = context};

	ASSERT(context < ENGINE_CONTEXTS_MAX);
	if (s->state != INSIDE_READY || !s->init)
		return -ESRCH;
	inside_streams_close(s, context);
	return channel_send(s->init, &m.head, NULL, 0);
}

_Static_assert(ENGINE_CONTEXTS_MAX == PROTO_CONTEXTS_MAX, "the front and init count alike");
