/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/contexts.h"

#include "base/parse.h"
#include "base/text.h"
#include "sandbox/manager.h"
#include "sandbox/run_life.h"

#include <string.h>

static bool is_default(const char *name)
{
	return !name || !*name || streq(name, CONTEXT_DEFAULT);
}

static struct context *find(struct sandbox *s, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->contexts); i++)
		if (s->contexts[i] && streq(s->contexts[i]->name, name))
			return s->contexts[i];
	return NULL;
}

static struct context *make(struct sandbox *s, const char *name, struct err *e)
{
	size_t place = 0;

	while (place < ARRAY_SIZE(s->contexts) && s->contexts[place])
		place++;
	if (place == ARRAY_SIZE(s->contexts)) {
		(void)err_set(
		    e, ERR_QUOTA_EXCEEDED, 0,
		    "The sandbox has %d contexts, and no more are possible. End one first.",
		    CONTEXTS_MAX);
		return NULL;
	}
	struct context *c = calloc(1, sizeof(*c));
	if (!c) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a context of session %s", s->id);
		return NULL;
	}
	(void)!text_copy(c->name, sizeof(c->name), name);
	c->number = (uint32_t)place + 1;
	s->contexts[place] = c;
	return c;
}

struct context *sandbox_context(struct sandbox *s, const char *name, bool makes, struct err *e)
{
	if (is_default(name))
		return &s->context;
	if (!parse_is_session_id(name, strlen(name))) {
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "The name of a context is 1 to %d letters, digits, - or _",
			      CONTEXT_NAME_MAX);
		return NULL;
	}
	struct context *c = find(s, name);
	if (c || makes)
		return c ? c : make(s, name, e);
	(void)err_set(e, ERR_NOT_FOUND, 0, "The sandbox has no context %s", name);
	return NULL;
}

void sandbox_each_context(const struct sandbox *s, void (*fn)(const struct context *c, void *user),
			  void *user)
{
	fn(&s->context, user);
	for (size_t i = 0; i < ARRAY_SIZE(s->contexts); i++)
		if (s->contexts[i])
			fn(s->contexts[i], user);
}

static bool is_used(const struct sandbox *s, const struct context *c)
{
	if (s->run && s->run->context == c)
		return true;
	list_for_each(l, &s->queue)
		if (list_entry(l, struct run, node)->context == c)
			return true;
	return false;
}

int sandbox_end_context(struct sandbox *s, const char *name, struct err *e)
{
	struct context *c = sandbox_context(s, name, false, e);

	if (!c)
		return -ENOENT;
	if (c == &s->context)
		return err_set(
		    e, ERR_INVALID_ARGUMENT, 0,
		    "The default context ends with the sandbox. A run with restart begins it "
		    "anew.");
	if (is_used(s, c))
		return err_set(e, ERR_SESSION_BUSY, 0, "A run of context %s is on or waits", name);
	const int r = s->handle ? engine_end_context(s->handle, c->number) : 0;
	/* ESRCH: the sandbox is ending, and the context with it. */
	if (r < 0 && r != -ESRCH)
		return err_set(e, ERR_SYSTEM, -r, "the context cannot be ended");
	s->contexts[c->number - 1] = NULL;
	free(c);
	sandbox_touch(s);
	return 0;
}

void contexts_free(struct sandbox *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->contexts); i++)
		free(s->contexts[i]);
}
