/* SPDX-License-Identifier: Apache-2.0 */
/* REST: contexts of a sandbox. A run names its context, and that makes it; these calls make one ahead, list them, end one. */
#include "api/rest/rest.h"
#include "sandbox/contexts.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define MADE_PREFIX "context-"
#define MADE_BYTES  4u

static json_t *context_json(const struct context *c)
{
	return json_pack("{s:s, s:I}", "name", c->name[0] ? c->name : CONTEXT_DEFAULT, "runs",
			 (json_int_t)c->runs);
}

static void add(const struct context *c, void *user)
{
	(void)json_array_append_new(user, context_json(c));
}

static void list(struct rest_call *c)
{
	json_t *all = json_array();

	sandbox_each_context(c->sandbox, add, all);
	rest_reply(c, 200, json_pack("{s:o}", "contexts", all));
}

void rest_list_contexts(struct rest_call *c)
{
	rest_sandbox(c, list);
}

static void make(struct rest_call *c)
{
	char made[sizeof(MADE_PREFIX) + 2 * MADE_BYTES];
	const char *name = rest_text(c, "name", NULL);
	struct err e = ERR_INIT;

	if (!name) {
		memcpy(made, MADE_PREFIX, sizeof(MADE_PREFIX) - 1);
		rand_hex(made + sizeof(MADE_PREFIX) - 1, MADE_BYTES);
		name = made;
	}
	if (sandbox_context(c->sandbox, name, false, &e)) {
		rest_refuse(c, ERR_ALREADY_EXISTS, "The sandbox has this context already");
		return;
	}
	const struct context *x =
	    e.code == ERR_NOT_FOUND ? sandbox_context(c->sandbox, name, true, &e) : NULL;
	if (x)
		rest_reply(c, 201, context_json(x));
	else
		rest_fail(c, &e);
}

void rest_make_context(struct rest_call *c)
{
	c->action = "context.make";
	rest_sandbox(c, make);
}

static void end(struct rest_call *c)
{
	struct err e = ERR_INIT;

	if (sandbox_end_context(c->sandbox, c->text, &e) < 0)
		rest_fail(c, &e);
	else
		rest_reply(c, 204, NULL);
}

void rest_end_context(struct rest_call *c)
{
	rest_with_process(c, "context", "context.end", end);
}
