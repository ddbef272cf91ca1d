/* SPDX-License-Identifier: Apache-2.0 */
/* Options that are changed while a sandbox lives.
 *
 * Most are only values that the next run reads. Memory, CPU and processes are limits that the engine holds, so it
 * is asked first. When it has set them, the record of a stored sandbox is written. If that fails, the engine is
 * asked for the old limits again. */
#include "base/text.h"
#include "sandbox/manager.h"
#include "sandbox/options_pairs.h"
#include "sandbox/secrets.h"

#include <string.h>

struct limit_change {
	struct sandbox *sandbox;       /* reference */
	struct sandbox_options change; /* owned */
	struct engine_limits before, after;
	sandbox_done_fn cb;
	void *user;
};

/* Writes NAME and O into the record of the stored sandbox ID. */
static int keep(struct manager *m, const char *id, const char *name,
		const struct sandbox_options *o, struct err *e)
{
	const struct sandbox_records *records = m->config.stored.records;
	_cleanup_(buf_done) struct buf text = BUF_INIT(SANDBOX_OPTIONS_TEXT_MAX - 1);
	_cleanup_(buf_done) struct buf env = BUF_INIT(SANDBOX_ENV_TEXT_MAX);
	int r = sandbox_options_text(o, &text, &env);

	if (r < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, -r, "the options of a sandbox");
	r = records->change(records->user, id, name, buf_str(&text), buf_str(&env), e);
	if (env.data)
		explicit_bzero(env.data, env.len);
	return r;
}

static bool has_line(const struct sandbox_pairs *p, const char *line)
{
	for (size_t i = 0; i < p->n; i++)
		if (streq(p->list[i], line))
			return true;
	return false;
}

/* Lines of its environment that were changed or removed since it became active, as far as an environment has room: its
 * sessions and files may still have the values. RET: NEXT lacks one of them. */
static int remember_env(struct sandbox *s, const struct sandbox_options *next, bool *ret)
{
	*ret = false;
	for (size_t i = 0; i < s->options.env.n; i++) {
		const char *line = s->options.env.list[i];

		if (has_line(&next->env, line))
			continue;
		*ret = true;
		if (pairs_keep(&s->former, line, SANDBOX_ENV_MAX, SANDBOX_ENV_BYTES_MAX) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* What S would have with CHANGE; OPTIONS_DONE it after success. */
static int merged(const struct sandbox *s, const struct sandbox_options *change,
		  struct sandbox_options *ret, struct err *e)
{
	struct sandbox_options o = {0};

	if (sandbox_options_copy(&s->options, &o) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the options of a sandbox");
	const int r = sandbox_options_merge(&o, change, e);
	if (r < 0)
		sandbox_options_done(&o);
	else
		*ret = o;
	return r;
}

static int apply(struct sandbox *s, const struct sandbox_options *change, struct err *e)
{
	const bool renamed = sandbox_option_given(change, SANDBOX_OPTION_NAME);
	struct sandbox_options o = {0};
	bool former;
	int r = merged(s, change, &o, e);

	if (r < 0)
		return r;
	if (remember_env(s, &o, &former) < 0)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the options of a sandbox");
	else if (s->stored)
		r = keep(s->manager, s->id, renamed ? change->name : s->name, &o, e);
	if (r < 0) {
		sandbox_options_done(&o);
		return r;
	}
	if (renamed)
		memcpy(s->name, change->name, sizeof(s->name));
	sandbox_options_done(&s->options);
	s->options = o;
	s->has_former |= former;
	sandbox_forget_secrets(s);
	sandbox_touch(s);
	sandbox_tell(s, SANDBOX_CHANGED, NULL);
	sandbox_changed(s, NULL);
	return 0;
}

/* ---- limits ---- */

static void limit_change_free(struct limit_change *c)
{
	(void)sandbox_unref(c->sandbox);
	sandbox_options_done(&c->change);
	free(c);
}

/* If the engine did not set the old limits, the new ones hold, and are shown. */
static void on_undone(const struct err *e, void *user)
{
	struct limit_change *c = user;

	c->sandbox->limiting = false;
	if (!e)
		c->sandbox->policy.limits = c->before;
	limit_change_free(c);
}

static void on_limited(const struct err *e, void *user)
{
	struct limit_change *c = user;
	struct sandbox *s = c->sandbox;
	struct err told = e ? *e : (struct err)ERR_INIT;
	struct err ignored = ERR_INIT;
	const enum sandbox_option memory = SANDBOX_OPTION_MEMORY;

	s->limiting = false;
	if (e && e->code == ERR_LIMIT_BELOW_USE)
		(void)err_set_member(&told, sandbox_option_rows[memory].member);
	if (!e && s->state != SANDBOX_READY)
		(void)err_set(&told, ERR_SANDBOX_LOST, 0, "the sandbox has ended meanwhile");
	if (told.code != ERR_NONE) {
		c->cb(&told, c->user);
		limit_change_free(c);
		return;
	}
	s->policy.limits = c->after;
	if (apply(s, &c->change, &told) == 0) {
		if (s->stored)
			stored_settle(s->manager, c->cb, c->user);
		else
			c->cb(NULL, c->user);
		limit_change_free(c);
		return;
	}
	c->cb(&told, c->user);
	s->limiting = true;
	if (!s->handle || engine_change(s->handle, &c->before, on_undone, c, &ignored) < 0)
		on_undone(&ignored, c);
}

/* The engine is asked for the limits AFTER. Returns 1: CB is called later. */
static int begin(struct sandbox *s, const struct sandbox_options *change,
		 const struct engine_limits *after, sandbox_done_fn cb, void *user, struct err *e)
{
	struct sandbox_options o = {0};

	if (s->limiting)
		return err_set(e, ERR_SESSION_BUSY, 0,
			       "The limits of sandbox %s are being changed by another request. Try "
			       "again.",
			       s->id);
	struct engine_sandbox *handle = sandbox_use(s, e);
	if (!handle)
		return -EPIPE;
	int r = merged(s, change, &o, e); /* what is wrong with it is known before */
	sandbox_options_done(&o);
	if (r < 0)
		return r;
	struct limit_change *c = calloc(1, sizeof(*c));
	if (!c || sandbox_options_copy(change, &c->change) < 0) {
		free(c);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the options of a sandbox");
	}
	c->sandbox = sandbox_ref(s);
	c->before = s->policy.limits;
	c->after = *after;
	c->cb = cb;
	c->user = user;
	r = engine_change(handle, after, on_limited, c, e);
	if (r < 0) {
		limit_change_free(c);
		return r;
	}
	s->limiting = true;
	return 1;
}

int sandbox_change(struct sandbox *s, const struct sandbox_options *change, sandbox_done_fn cb,
		   void *user, struct err *e)
{
	struct engine_create create = {.limits = s->policy.limits};
	int r = manager_check_options(s->manager, change, e);

	if (r == 0 && !s->own_id && manager_options_public(s->manager, change))
		r = sandbox_refuse_guessable(e);
	if (r == 0 && s->keeping) /* its record has its options already */
		r = err_set(e, ERR_SESSION_BUSY, 0, "Sandbox %s is being kept. Try again.", s->id);
	if (r < 0)
		return r;
	manager_apply_options(s->manager, change, &create);
	if (create.single)
		return begin(s, change, &create.limits, cb, user, e);
	r = apply(s, change, e);
	if (r < 0 || !s->stored)
		return r;
	stored_settle(s->manager, cb, user);
	return 1;
}

int manager_change(struct manager *m, const char *owner, const char *id,
		   const struct sandbox_options *change, sandbox_done_fn cb, void *user,
		   struct err *e)
{
	struct sandbox *s = manager_lookup(m, owner, id);
	struct sandbox_options o = {0};
	struct sandbox_record record;

	/* What is being made has a copy of its options already. */
	if (s && s->state == SANDBOX_CREATING)
		return err_set(e, ERR_SESSION_BUSY, 0, "Sandbox %s is being started. Try again.",
			       id);
	if (s)
		return sandbox_change(s, change, cb, user, e);
	int r = manager_check_options(m, change, e);
	r = r < 0 ? r : manager_get_stored(m, owner, id, &record, e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "No active session with id %s", id);
	r = manager_stored_options(m, &record, &o, e);
	if (r == 0 && manager_options_public(m, change) && !stored_has_own_id(&record, &o))
		r = sandbox_refuse_guessable(e);
	r = r < 0 ? r : sandbox_options_merge(&o, change, e);
	r = r < 0 ? r : moving_note_opened(m, id, e);
	if (r == 0)
		r = keep(m, id,
			 sandbox_option_given(change, SANDBOX_OPTION_NAME) ? change->name
									   : record.name,
			 &o, e);
	sandbox_options_done(&o);
	if (r < 0)
		return r;
	stored_settle(m, cb, user);
	return 1;
}
