/* SPDX-License-Identifier: Apache-2.0 */
/* The record comes first, as when a stored sandbox is made, then the engine keeps the files. If that fails, the record
 * goes again, after the engine has forgotten what there may be of the files. */
#include "sandbox/keep.h"

#include "base/log.h"
#include "sandbox/manager.h"
#include "sandbox/sandbox_work.h"

#include <stdlib.h>
#include <string.h>

struct keeping {
	struct sandbox_hold hold;  /* first: on_ended() */
	struct sandbox *sandbox;   /* reference */
	bool ended;                /* the sandbox has: it is not held any more */
	struct budget_share share; /* becomes that of the sandbox */
	struct sandbox_record record;
	sandbox_done_fn cb;
	void *user;
};

bool sandbox_can_keep(const struct sandbox *s)
{
	struct err ignored = ERR_INIT;

	return !s->stored && !(s->policy.enforced & ENGINE_CAP_ROOT) && s->handle &&
	       s->manager->config.stored.records && stored_may_be(s->owner, s->id) &&
	       engine_check_keep(s->handle, &ignored) == 0;
}

static void on_ended(struct sandbox_hold *h)
{
	((struct keeping *)h)->ended = true;
}

static void become_stored(struct sandbox *s, const struct sandbox_record *r,
			  struct budget_share *share)
{
	struct manager *m = s->manager;
	const struct sandbox_records *records = m->config.stored.records;

	s->stored = s->was_session = true;
	m->n_stored++;
	budget_give(&s->share);
	s->share = *share;
	*share = (struct budget_share){0};
	memcpy(s->name, r->name, sizeof(s->name));
	/* what has changed since its record was made */
	for (uint64_t n = r->runs; n < s->runs && records->note_run; n++)
		records->note_run(records->user, s->id);
	if (records->note_place && strcmp(s->place ? s->place : "", r->place) != 0)
		records->note_place(records->user, s->id, s->place ? s->place : "");
	LOG_INFO("sandbox_kept", LOG_S("session_id", s->id));
	sandbox_tell(s, SANDBOX_CHANGED, NULL);
	sandbox_changed(s, NULL);
}

static void on_kept(const struct err *e, void *user)
{
	struct keeping *k = user;
	struct sandbox *s = k->sandbox;
	struct err gone = ERR_INIT;

	s->keeping = false;
	if (!k->ended)
		sandbox_release(s, &k->hold);
	if (!e && s->state == SANDBOX_CLOSED) {
		(void)err_set(&gone, ERR_SANDBOX_LOST, 0, "the sandbox was ended meanwhile");
		e = &gone;
	}
	if (!e)
		become_stored(s, &k->record, &k->share);
	else if (e->code != ERR_CANCELLED)
		stored_unmake(s->manager, s->id, k->record.key, true);
	budget_give(&k->share);
	k->cb(e, k->user);
	(void)sandbox_unref(s);
	free(k);
}

/* The record is on the disk: what the engine makes has something that leads to it. */
static void on_recorded(const struct err *e, void *user)
{
	struct keeping *k = user;
	struct engine_sandbox *handle = e || k->ended ? NULL : k->sandbox->handle;
	struct err own = e ? *e : ERR_INIT;

	if (!handle && !e)
		(void)err_set(&own, ERR_SANDBOX_LOST, 0, "the sandbox was ended meanwhile");
	if (!handle || engine_keep(handle, k->record.key, on_kept, k, &own) < 0)
		on_kept(&own, k);
}

/* A disk has its size for good: a stored sandbox with another one is told of it. */
static int options_of(const struct sandbox *s, struct sandbox_options *ret)
{
	const uint64_t bytes = s->policy.limits.workspace_bytes;

	if (sandbox_options_copy(&s->options, ret) < 0)
		return -ENOMEM;
	if (bytes != s->manager->config.stored.limits.workspace_bytes) {
		ret->given |= 1u << SANDBOX_OPTION_DISK;
		ret->number[SANDBOX_OPTION_DISK] = (int64_t)(bytes >> 20);
	}
	return 0;
}

static int add_record(struct sandbox *s, const char *name, struct sandbox_record *ret,
		      struct err *e)
{
	struct sandbox_options options = {0};

	memcpy(ret->id, s->id, sizeof(ret->id));
	memcpy(ret->image, s->image, sizeof(ret->image));
	if (s->place)
		(void)snprintf(ret->place, sizeof(ret->place), "%s", s->place);
	ret->runs = s->runs;
	if (options_of(s, &options) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a stored sandbox");
	const int r = stored_add_record(s->manager, s->owner, *name ? name : s->name, s->choice,
					&options, ret, e);
	sandbox_options_done(&options);
	return r;
}

static int check(struct sandbox *s, struct err *e)
{
	if (s->keeping)
		return err_set(e, ERR_SESSION_BUSY, 0, "Sandbox %s is being kept already.", s->id);
	if (s->limiting)
		return err_set(e, ERR_SESSION_BUSY, 0,
			       "The limits of sandbox %s are being changed. Try again.", s->id);
	if (!stored_may_be(s->owner, s->id))
		return err_set(e, ERR_NOT_KEEPABLE, 0,
			       "Only a sandbox whose id was made by the server can be kept where "
			       "it is. Fork it without an id: the fork has such an id, and can be "
			       "kept.");
	if (s->policy.enforced & ENGINE_CAP_ROOT)
		return err_set(
		    e, ERR_NOT_KEEPABLE, 0,
		    "A sandbox with a root user cannot be kept. Download its files, or copy "
		    "them into a stored sandbox.");
	return engine_check_keep(s->handle, e);
}

int sandbox_keep(struct sandbox *s, const char *name, sandbox_done_fn cb, void *user, struct err *e)
{
	if (!sandbox_use(s, e))
		return -ENOENT;
	if (s->stored)
		return 0;
	int r = check(s, e);
	if (r < 0)
		return r;
	struct keeping *k = calloc(1, sizeof(*k));
	if (!k)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a stored sandbox");
	k->hold.ended = on_ended;
	k->cb = cb;
	k->user = user;
	r = stored_take_place(s->manager, s->owner, &k->share, e);
	r = r < 0 ? r : add_record(s, name, &k->record, e);
	if (r < 0) {
		budget_give(&k->share);
		free(k);
		return r;
	}
	k->sandbox = sandbox_ref(s);
	s->keeping = true;
	sandbox_hold(s, &k->hold);
	stored_settle(s->manager, on_recorded, k);
	return 1;
}
