/* SPDX-License-Identifier: Apache-2.0 */
/* The code interpreter: its contexts. Each is one of the sandbox. Two are there from the start, for code that names a language or
 * nothing: one of Python, and one of JavaScript and TypeScript, which costs nothing until it is used. */
#include "faces/e2b/face.h"

#include "base/rand.h"
#include "base/text.h"
#include "sandbox/sandbox_names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void e2b_contexts_begin(struct e2b_sandbox *s)
{
	static const char javascript[] = "javascript";

	memcpy(s->contexts[0].name, CONTEXT_DEFAULT, sizeof(CONTEXT_DEFAULT));
	memcpy(s->contexts[1].name, javascript, sizeof(javascript));
	s->contexts[1].language = LANGUAGE_JAVASCRIPT;
}

static void forget(struct e2b_context *x)
{
	free(x->cwd);
	*x = (struct e2b_context){0};
}

void e2b_contexts_done(struct e2b_sandbox *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->contexts); i++)
		forget(&s->contexts[i]);
}

struct e2b_context *e2b_context_of(struct e2b_sandbox *s, const char *name, struct err *e)
{
	if (!name || !*name)
		return &s->contexts[0];
	for (size_t i = 0; i < ARRAY_SIZE(s->contexts); i++)
		if (streq(s->contexts[i].name, name))
			return &s->contexts[i];
	(void)err_set(e, ERR_NOT_FOUND, 0, "there is no context of that id");
	return NULL;
}

static json_t *context_json(const struct e2b_context *x)
{
	return json_pack("{s:s, s:s, s:s}", "id", x->name, "language", language_name(x->language),
			 "cwd", x->cwd ? x->cwd : E2B_HOME);
}

void e2b_list_contexts(struct e2b_call *c)
{
	const struct e2b_sandbox *s = c->sandbox;
	json_t *rows = json_array();

	for (size_t i = 0; i + 1 < E2B_DEFAULT_CONTEXTS; i++)
		(void)json_array_append_new(rows, context_json(&s->contexts[i]));
	/* In the order in which they were made: clients look at the last one. Places of ended ones are used again. */
	const struct e2b_context *next = &s->contexts[E2B_DEFAULT_CONTEXTS - 1];
	while (next) {
		const unsigned seq = next->seq;

		(void)json_array_append_new(rows, context_json(next));
		next = NULL;
		for (size_t i = E2B_DEFAULT_CONTEXTS; i < ARRAY_SIZE(s->contexts); i++)
			if (s->contexts[i].name[0] && s->contexts[i].seq > seq &&
			    (!next || s->contexts[i].seq < next->seq))
				next = &s->contexts[i];
	}
	e2b_reply(c, 200, rows);
}

static struct e2b_context *make(struct e2b_sandbox *s, enum run_language language, const char *cwd,
				struct err *e)
{
	struct e2b_context *free_one = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(s->contexts) && !free_one; i++)
		free_one = s->contexts[i].name[0] ? NULL : &s->contexts[i];
	if (!free_one) {
		(void)err_set(e, ERR_QUOTA_EXCEEDED, 0, "a sandbox has at most %d contexts",
			      CONTEXTS_MAX);
		return NULL;
	}
	if (cwd && !(free_one->cwd = strdup(cwd))) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a context");
		return NULL;
	}
	free_one->language = language;
	free_one->seq = ++s->last_context;
	(void)snprintf(free_one->name, sizeof(free_one->name), "context-%u", free_one->seq);
	if (sandbox_context(s->sandbox, free_one->name, true, e))
		return free_one;
	forget(free_one);
	return NULL;
}

static void make_and_tell(struct e2b_call *c)
{
	struct err e = ERR_INIT;
	const char *name = json_string_value(json_object_get(c->body, "language"));
	enum run_language language = LANGUAGE_PYTHON;

	if (name)
		(void)!language_read(name, &language); /* e2b_make_context() has looked at it */
	const struct e2b_context *x =
	    make(c->sandbox, language, json_string_value(json_object_get(c->body, "cwd")), &e);

	if (x)
		e2b_reply(c, 200, context_json(x));
	else
		e2b_fail(c, &e);
}

static void on_folder(const struct err *e, void *user)
{
	struct e2b_call *c = user;

	if (e && e->code != ERR_ALREADY_EXISTS)
		e2b_fail(c, e);
	else if (!c->sandbox->sandbox)
		e2b_refuse(c, ERR_SANDBOX_LOST, "the sandbox has ended");
	else
		make_and_tell(c);
}

/* Code cannot begin in a folder that is not there. */
static void on_looked(const struct engine_stat *st, const struct err *e, void *user)
{
	struct e2b_call *c = user;
	const mode_t mode = e ? 0 : S_ISLNK(st->file.mode) ? st->target_mode : st->file.mode;
	char path[ENGINE_PATH_MAX];
	struct err failed = e ? *e : ERR_INIT;

	if (!e && S_ISDIR(mode)) {
		on_folder(NULL, c);
		return;
	}
	if (!e)
		(void)err_set(&failed, ERR_INVALID_ARGUMENT, 0, "cwd: it is no directory");
	else if (e->code == ERR_NOT_FOUND && c->sandbox->sandbox &&
		 e2b_path(c, json_string_value(json_object_get(c->body, "cwd")), path, &failed) ==
		     0 &&
		 sandbox_make_folder(c->sandbox->sandbox, path, ENGINE_FILE_USERS, on_folder, c,
				     &failed) == 0)
		return;
	e2b_fail(c, &failed);
}

void e2b_make_context(struct e2b_call *c)
{
	const char *language = json_string_value(json_object_get(c->body, "language"));
	const char *cwd = json_string_value(json_object_get(c->body, "cwd"));
	char path[ENGINE_PATH_MAX];
	enum run_language known;
	struct err e = ERR_INIT;

	if (language && !language_read(language, &known))
		e2b_refuse(c, ERR_INVALID_ARGUMENT,
			   "contexts of this server are of python, javascript and typescript");
	else if (cwd && (cwd[0] != '/' || strlen(cwd) >= SANDBOX_PLACE_MAX))
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "cwd: an absolute path");
	else if (!cwd)
		make_and_tell(c);
	else if (e2b_path(c, cwd, path, &e) < 0 ||
		 sandbox_stat(c->sandbox->sandbox, path, on_looked, c, &e) < 0)
		e2b_fail(c, &e);
}

/* The context {context}; NULL after it has answered. */
static struct e2b_context *need(struct e2b_call *c)
{
	struct err e = ERR_INIT;
	struct e2b_context *x =
	    e2b_context_of(c->sandbox, http_request_param(c->req, "context"), &e);

	if (!x)
		e2b_fail(c, &e);
	return x;
}

void e2b_restart_context(struct e2b_call *c)
{
	struct e2b_context *x = need(c);

	if (!x)
		return;
	x->restarts = true;
	x->executions = 0;
	e2b_reply(c, 200, NULL);
}

void e2b_end_context(struct e2b_call *c)
{
	struct e2b_context *x = need(c);
	struct err e = ERR_INIT;

	if (!x)
		return;
	if (x < &c->sandbox->contexts[E2B_DEFAULT_CONTEXTS]) {
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "the default contexts stay");
		return;
	}
	if (sandbox_end_context(c->sandbox->sandbox, x->name, &e) < 0) {
		e2b_fail(c, &e);
		return;
	}
	forget(x);
	e2b_reply(c, 204, NULL);
}
