/* SPDX-License-Identifier: Apache-2.0 */
/* Branches. The present state is saved as the base. A session with variables is set aside, with its threads,
 * processes and connections. Each continuation runs from the base, and its result is saved as a checkpoint. At the end
 * the files of the base are restored, the session comes back, and the base is dropped.
 *
 *   base = save · set aside · for each: (restore base) run, save · return · drop base
 *
 * A failure of one continuation is reported for that one, and the others are still tried. A failure
 * of the base or of the sandbox ends the whole call. */
#include "base/log.h"
#include "base/parse.h"
#include "base/text.h"
#include "sandbox/checkpoints.h"
#include "sandbox/manager.h"

#include <string.h>

/* The name that the base gets if it could not be restored, so that a client can try again. */
#define LEFT_NAME "before-branch"

struct branch {
	struct sandbox *sandbox; /* reference; seized, once SEIZING is over */
	struct seizing seizing;
	struct branch_request request; /* its items are the copies below */
	struct branch_item items[BRANCHES_MAX];
	size_t at;      /* index of the current continuation */
	bool aside;     /* the session is set aside */
	uint32_t kinds; /* what it has besides variables and files */
	bool moved;     /* a continuation has run: the present state may differ from the base */
	bool failed;
	struct err error; /* with `failed`: why no further continuation is tried */
	bool cancelled;
	struct run *run; /* while there is one */
};

static void next(struct branch *b);
static void finish_base(struct branch *b);

static void branch_free(struct branch *b)
{
	for (size_t i = 0; i < b->request.n; i++) {
		free((char *)(uintptr_t)b->items[i].name);
		free((char *)(uintptr_t)b->items[i].code);
	}
	(void)sandbox_unref(b->sandbox);
	free(b);
}

static void finish(struct branch *b, const struct err *e)
{
	sandbox_yield(b->sandbox);
	b->request.on_done(b->kinds, e, b->request.user);
	branch_free(b);
}

/* The sandbox has ended, or the server is ending. */
static bool is_over(struct branch *b, struct err *e)
{
	const struct sandbox *s = b->sandbox;

	if (s->state == SANDBOX_READY && !s->manager->closing)
		return false;
	(void)err_set(e, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended meanwhile", s->id);
	return true;
}

/* ---- the base, at the end ---- */

static void on_base_dropped(const struct checkpoint *c UNUSED, const struct err *e UNUSED,
			    void *user)
{
	struct branch *b = user;
	struct err cancelled = ERR_INIT;

	if (b->cancelled)
		(void)err_set(&cancelled, ERR_CANCELLED, 0, "cancelled");
	finish(b, b->failed ? &b->error : b->cancelled ? &cancelled : NULL);
}

static void drop_base(struct branch *b)
{
	struct err e = ERR_INIT;

	if (is_over(b, &e))
		finish(b, &e);
	else if (checkpoints_drop(b->sandbox, CHECKPOINTS_BASE, false, on_base_dropped, b, &e) < 0)
		on_base_dropped(NULL, &e, b);
}

/* The base could not be restored: keeps it under a name that clients can restore. */
static void leave_base(struct branch *b, const struct err *e)
{
	checkpoints_rename(b->sandbox, CHECKPOINTS_BASE, LEFT_NAME);
	LOG_WARNING("branch_not_returned", LOG_S("session_id", b->sandbox->id),
		    LOG_S("error", e->text));
	finish(b, e);
}

static void on_returned(const struct checkpoint *c UNUSED, const struct err *e, void *user)
{
	struct branch *b = user;

	if (e)
		leave_base(b, e);
	else
		drop_base(b);
}

static void finish_base(struct branch *b)
{
	struct err e = ERR_INIT;

	if (is_over(b, &e))
		finish(b, &e);
	else if (!b->moved && !b->aside)
		drop_base(b);
	else if (checkpoints_restore(b->sandbox, CHECKPOINTS_BASE,
				     b->aside ? ENGINE_RESTORE_RETURN : ENGINE_RESTORE_ALL, false,
				     on_returned, b, &e) < 0)
		leave_base(b, &e);
}

/* ---- one continuation ---- */

static void on_kept(const struct checkpoint *c, const struct err *e, void *user)
{
	struct branch *b = user;

	b->request.on_kept(b->at, c, e, b->request.user);
	b->at++;
	next(b);
}

static void on_run_done(struct run *r UNUSED, const struct run_result *result, const struct err *e,
			void *user)
{
	struct branch *b = user;
	struct err error = ERR_INIT;
	bool kept = result && result->state_kept;

	b->run = NULL;
	b->request.on_run(b->at, result, e, b->request.user);
	if (is_over(b, &error)) {
		finish(b, &error);
		return;
	}
	if (kept && !b->cancelled) {
		if (checkpoints_save(b->sandbox, b->items[b->at].name, false, on_kept, b, &error) ==
		    0)
			return;
		on_kept(NULL, &error, b);
		return;
	}
	on_kept(NULL, NULL, b);
}

static void run_now(struct branch *b)
{
	const struct branch_item *item = &b->items[b->at];
	const struct run_request request = {
	    .kind = ENGINE_RUN_STATEFUL,
	    .code = item->code,
	    .code_len = item->code_len,
	    .timeout_ns = b->request.timeout_ns,
	    .on_done = on_run_done,
	    .user = b,
	};
	struct err e = ERR_INIT;

	b->moved = true;
	if (run_begin(b->sandbox, &request, &b->run, &e) == 0)
		return;
	b->request.on_run(b->at, NULL, &e, b->request.user);
	on_kept(NULL, NULL, b);
}

/* The next continuation has no base. The session that is set aside does not need one to come back. */
static void give_up(struct branch *b, const struct err *e)
{
	if (!b->aside) {
		leave_base(b, e);
		return;
	}
	b->failed = true;
	b->error = *e;
	finish_base(b);
}

static void on_back(const struct checkpoint *c UNUSED, const struct err *e, void *user)
{
	struct branch *b = user;

	if (e)
		give_up(b, e);
	else if (b->cancelled)
		finish_base(b);
	else
		run_now(b);
}

/* Begins the next continuation; after the last one, restores the base. */
static void next(struct branch *b)
{
	struct err e = ERR_INIT;

	if (b->cancelled || b->at == b->request.n)
		finish_base(b);
	else if (is_over(b, &e))
		finish(b, &e);
	else if (!b->moved)
		run_now(b);
	else if (checkpoints_restore(b->sandbox, CHECKPOINTS_BASE, ENGINE_RESTORE_ALL, false,
				     on_back, b, &e) < 0)
		give_up(b, &e);
}

static void on_aside(const struct checkpoint *c UNUSED, const struct err *e, void *user)
{
	struct branch *b = user;

	if (e) { /* nothing has changed */
		b->failed = true;
		b->error = *e;
	} else {
		b->aside = true;
	}
	if (b->failed)
		finish_base(b);
	else
		next(b);
}

static void on_base(const struct checkpoint *c, const struct err *e, void *user)
{
	struct branch *b = user;
	struct err error = ERR_INIT;

	if (!e)
		b->kinds = c->kinds;
	if (e)
		finish(b, e);
	else if (!c->state_kept || b->cancelled || is_over(b, &error))
		next(b);
	else if (checkpoints_restore(b->sandbox, CHECKPOINTS_BASE, ENGINE_RESTORE_PARK, false,
				     on_aside, b, &error) < 0)
		on_aside(NULL, &error, b);
}

/* ---- start ---- */

/* The cancelled run that the branches have waited for is over. */
static void on_free(const struct err *e, void *user)
{
	struct branch *b = user;
	struct err error = ERR_INIT;

	if (e) {
		b->request.on_done(0, e, b->request.user);
		branch_free(b);
		return;
	}
	if (b->cancelled)
		(void)err_set(&error, ERR_CANCELLED, 0, "cancelled");
	else if (checkpoints_save(b->sandbox, CHECKPOINTS_BASE, false, on_base, b, &error) == 0)
		return;
	finish(b, &error);
}

static int check_items(const struct sandbox *s, const struct branch_request *q, struct err *e)
{
	unsigned n_new = 0;

	if (q->n == 0 || q->n > BRANCHES_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "From 1 to %d branches can be tried",
			       BRANCHES_MAX);
	for (size_t i = 0; i < q->n; i++) {
		if (!parse_is_session_id(q->items[i].name, strlen(q->items[i].name)))
			return err_set(e, ERR_INVALID_ARGUMENT, 0,
				       "The name of a branch is 1 to %d letters, digits, - or _",
				       CHECKPOINT_NAME_MAX);
		for (size_t k = 0; k < i; k++)
			if (streq(q->items[i].name, q->items[k].name))
				return err_set(e, ERR_INVALID_ARGUMENT, 0,
					       "Two branches are called %s", q->items[i].name);
		n_new += checkpoints_has(s, q->items[i].name) ? 0 : 1;
	}
	return checkpoints_check_room(s, n_new, e);
}

static int copy_item(struct branch *b, const struct branch_item *from)
{
	struct branch_item *to = &b->items[b->request.n++];
	char *name = strdup(from->name);
	char *code = malloc(from->code_len + 1);

	to->name = name;
	to->code = code;
	if (!name || !code)
		return -ENOMEM;
	memcpy(code, from->code, from->code_len);
	code[from->code_len] = '\0';
	to->code_len = from->code_len;
	return 0;
}

static struct branch *branch_new(struct sandbox *s, const struct branch_request *q)
{
	struct branch *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->sandbox = sandbox_ref(s);
	b->request = *q;
	b->request.n = 0;
	b->request.items = b->items;
	for (size_t i = 0; i < q->n; i++)
		if (copy_item(b, &q->items[i]) < 0) {
			branch_free(b);
			return NULL;
		}
	return b;
}

int sandbox_branch(struct sandbox *s, const struct branch_request *request, struct branch **ret,
		   struct err *e)
{
	int r = check_items(s, request, e);

	r = r < 0 ? r : sandbox_seize(s, e);
	if (r < 0)
		return r;
	const bool waits = r > 0;
	struct branch *b = branch_new(s, request);
	if (!b) {
		if (!waits)
			sandbox_yield(s);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "branches");
	}
	if (waits) {
		b->seizing = (struct seizing){.go = on_free, .user = b};
		sandbox_seize_later(s, &b->seizing);
	} else {
		r = checkpoints_save(s, CHECKPOINTS_BASE, false, on_base, b, e);
		if (r < 0) {
			branch_free(b);
			sandbox_yield(s);
			return r;
		}
	}
	*ret = b;
	return 0;
}

void branch_cancel(struct branch *b)
{
	b->cancelled = true;
	if (b->run)
		run_cancel(b->run);
}
