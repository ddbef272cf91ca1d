/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints by name. The engine keeps each one in a numbered place; this file maps names to
 * places. */
#include "sandbox/checkpoints.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/text.h"
#include "sandbox/manager.h"
#include "sandbox/run_session.h"

#include <string.h>

_Static_assert(CHECKPOINTS_MAX + 2 <= ENGINE_CHECKPOINTS_MAX,
	       "room for the base of branches and for the new checkpoint of a name in use");

struct checkpoint_place { /* one of the engine's places */
	bool used;
	char name[CHECKPOINT_NAME_MAX + 1]; /* see is_visible() */
	uint64_t serial;
	uint64_t created_ns;
	char by[RUN_ID_SIZE];                 /* struct checkpoint */
	char parent[CHECKPOINT_NAME_MAX + 1]; /* the same */
	struct engine_checkpoint what;
};

struct checkpoints {
	uint64_t serial;
	struct checkpoint_place at[ENGINE_CHECKPOINTS_MAX];
};

struct checkpoint_call {
	struct sandbox *sandbox; /* reference */
	struct checkpoint_place *place;
	bool yield; /* this call seized the sandbox, so its end yields it */
	char name[CHECKPOINT_NAME_MAX + 1];
	checkpoint_fn cb;
	void *user;
};

void checkpoints_free(struct checkpoints *p)
{
	free(p);
}

/* ---- names ---- */

/* Clients do not see the base of branches (CHECKPOINTS_BASE) and what is being dropped (""). */
static bool is_visible(const struct checkpoint_place *p)
{
	return p->used && p->name[0] != '\0' && !streq(p->name, CHECKPOINTS_BASE);
}

static struct checkpoint_place *find(const struct sandbox *s, const char *name)
{
	for (size_t i = 0; s->checkpoints && i < ENGINE_CHECKPOINTS_MAX; i++)
		if (s->checkpoints->at[i].used && streq(s->checkpoints->at[i].name, name))
			return &s->checkpoints->at[i];
	return NULL;
}

static struct checkpoint_place *find_free(struct sandbox *s)
{
	for (size_t i = 0; i < ENGINE_CHECKPOINTS_MAX; i++)
		if (!s->checkpoints->at[i].used)
			return &s->checkpoints->at[i];
	return NULL;
}

static uint32_t place_of(const struct sandbox *s, const struct checkpoint_place *p)
{
	return (uint32_t)(p - s->checkpoints->at);
}

static struct checkpoint describe(const struct sandbox *s, const char *name,
				  const struct engine_checkpoint *what, uint64_t created_ns)
{
	return (struct checkpoint){
	    .name = name,
	    .state_kept = what->state_kept,
	    .state_lost = what->state_lost,
	    .files = what->files,
	    .bytes = what->bytes,
	    .skipped = what->skipped,
	    .age_ns = manager_now(s->manager) - created_ns,
	};
}

unsigned checkpoints_count(const struct sandbox *s)
{
	unsigned n = 0;

	for (size_t i = 0; s->checkpoints && i < ENGINE_CHECKPOINTS_MAX; i++)
		if (is_visible(&s->checkpoints->at[i]))
			n++;
	return n;
}

bool checkpoints_has(const struct sandbox *s, const char *name)
{
	return find(s, name) != NULL;
}

void checkpoints_rename(struct sandbox *s, const char *from, const char *to)
{
	struct checkpoint_place *p = find(s, from);

	if (p && !find(s, to))
		(void)snprintf(p->name, sizeof(p->name), "%s", to);
}

void sandbox_each_checkpoint(const struct sandbox *s,
			     void (*fn)(const struct checkpoint *c, void *user), void *user)
{
	uint64_t after = 0;

	for (unsigned left = checkpoints_count(s); left > 0; left--) {
		const struct checkpoint_place *next = NULL;
		for (size_t i = 0; i < ENGINE_CHECKPOINTS_MAX; i++) {
			const struct checkpoint_place *p = &s->checkpoints->at[i];
			if (is_visible(p) && p->serial > after &&
			    (!next || p->serial < next->serial))
				next = p;
		}
		if (!next)
			return;
		after = next->serial;
		struct checkpoint c = describe(s, next->name, &next->what, next->created_ns);
		c.by = next->by;
		c.parent = next->parent;
		fn(&c, user);
	}
}

/* ---- calls ---- */

static struct checkpoint_call *call_new(struct sandbox *s, const char *name, bool yield,
					checkpoint_fn cb, void *user, struct err *e)
{
	struct checkpoint_call *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a checkpoint");
		return NULL;
	}
	c->sandbox = sandbox_ref(s);
	c->yield = yield;
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	c->cb = cb;
	c->user = user;
	return c;
}

static void call_free(struct checkpoint_call *c)
{
	(void)sandbox_unref(c->sandbox);
	free(c);
}

static void call_end(struct checkpoint_call *c, const struct engine_checkpoint *what,
		     uint64_t created_ns, const struct err *e)
{
	struct sandbox *s = c->sandbox;

	if (c->yield)
		sandbox_yield(s);
	if (e || !what) {
		c->cb(NULL, e, c->user);
	} else {
		struct checkpoint out = describe(s, c->name, what, created_ns);
		out.kinds = what->kinds;
		const struct checkpoint_place *p = find(s, c->name);
		out.by = p ? p->by : NULL;
		out.parent = p ? p->parent : NULL;
		c->cb(&out, NULL, c->user);
	}
	call_free(c);
}

static void forget(struct checkpoint_place *p)
{
	*p = (struct checkpoint_place){0};
}

/* ---- where a session came from ---- */

static void note_point(struct sandbox *s, struct checkpoint_place *new)
{
	memcpy(new->by, s->last_run, sizeof(new->by));
	if (!is_visible(new))
		return;
	memcpy(new->parent, s->last_point, sizeof(new->parent));
	memcpy(s->last_point, new->name, sizeof(s->last_point));
	sandbox_tell(s, SANDBOX_CHECKPOINT_MADE, new->name);
}

static void note_restored(struct sandbox *s, const char *name)
{
	if (streq(name, CHECKPOINTS_BASE))
		return;
	(void)snprintf(s->last_point, sizeof(s->last_point), "%s", name);
	sandbox_tell(s, SANDBOX_CHECKPOINT_RESTORED, name);
}

/* ---- save ---- */

static void on_predecessor_gone(const struct engine_checkpoint *what UNUSED, const struct err *e,
				void *user)
{
	struct checkpoint_call *c = user;
	struct sandbox *s = c->sandbox;
	struct checkpoint_place *new = find(s, c->name);

	/* A place that could not be freed is not used again; nothing else is lost. */
	if (!e)
		forget(c->place);
	if (!new) {
		struct err gone = ERR_INIT;
		(void)err_set(&gone, ERR_CANCELLED, 0, "the checkpoint is gone");
		call_end(c, NULL, 0, &gone);
		return;
	}
	const struct engine_checkpoint copy = new->what;
	call_end(c, &copy, new->created_ns, NULL);
}

static void on_saved(const struct engine_checkpoint *what, const struct err *e, void *user)
{
	struct checkpoint_call *c = user;
	struct sandbox *s = c->sandbox;
	struct checkpoint_place *old = find(s, c->name);
	struct err failed = ERR_INIT;

	if (e) {
		forget(c->place);
		call_end(c, NULL, 0, e);
		return;
	}
	if (old) /* invisible from now on; its place is in use until the engine has dropped it */
		old->name[0] = '\0';
	struct checkpoint_place *new = c->place;
	new->what = *what;
	new->what.state_lost = false; /* about the session, not the checkpoint; reported once */
	new->created_ns = manager_now(s->manager);
	new->serial = ++s->checkpoints->serial;
	(void)snprintf(new->name, sizeof(new->name), "%s", c->name);
	LOG_INFO("checkpoint_saved", LOG_S("session_id", s->id), LOG_U("files", what->files),
		 LOG_U("bytes", what->bytes), LOG_B("state", what->state_kept));
	note_point(s, new);
	c->place = old;
	if (old && s->state == SANDBOX_READY && !s->manager->closing &&
	    engine_drop_checkpoint(s->handle, place_of(s, old), on_predecessor_gone, c, &failed) ==
		0)
		return;
	call_end(c, what, new->created_ns, NULL);
}

int checkpoints_save(struct sandbox *s, const char *name, bool yield, checkpoint_fn cb, void *user,
		     struct err *e)
{
	if (!s->checkpoints)
		s->checkpoints = calloc(1, sizeof(*s->checkpoints));
	struct checkpoint_place *p = s->checkpoints ? find_free(s) : NULL;
	if (!p)
		return s->checkpoints ? err_set(e, ERR_TOO_MANY_CHECKPOINTS, 0,
						"no place is left for a checkpoint")
				      : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a checkpoint");
	if (!sandbox_use(s, e))
		return -ENOENT;
	struct checkpoint_call *c = call_new(s, name, yield, cb, user, e);
	if (!c)
		return -ENOMEM;
	*p = (struct checkpoint_place){.used = true};
	c->place = p;
	s->has_variables = true; /* also if no run has read them since the sandbox rested */
	int r = engine_save_checkpoint(s->handle, place_of(s, p), on_saved, c, e);
	if (r < 0) {
		forget(p);
		call_free(c);
	}
	return r;
}

static int check_name(const char *name, struct err *e)
{
	if (parse_is_session_id(name, strlen(name)))
		return 0;
	return err_set(e, ERR_INVALID_ARGUMENT, 0,
		       "The name of a checkpoint is 1 to %d letters, digits, - or _",
		       CHECKPOINT_NAME_MAX);
}

int checkpoints_check_room(const struct sandbox *s, unsigned n_new, struct err *e)
{
	if (checkpoints_count(s) + n_new <= CHECKPOINTS_MAX)
		return 0;
	return err_set(e, ERR_TOO_MANY_CHECKPOINTS, 0,
		       "A session has at most %d checkpoints, and this one has %u", CHECKPOINTS_MAX,
		       checkpoints_count(s));
}

/* A call about the checkpoint NAME; NULL with E set if there is none. */
static struct checkpoint_call *call_of(struct sandbox *s, const char *name, bool yield,
				       checkpoint_fn cb, void *user, struct err *e)
{
	struct checkpoint_place *p = find(s, name);

	if (!p) {
		(void)err_set(e, ERR_CHECKPOINT_NOT_FOUND, 0, "Session %s has no checkpoint %s",
			      s->id, name);
		return NULL;
	}
	struct checkpoint_call *c =
	    sandbox_use(s, e) ? call_new(s, name, yield, cb, user, e) : NULL;
	if (c)
		c->place = p;
	return c;
}

/* ---- restore ---- */

static void on_restored(const struct engine_checkpoint *what, const struct err *e, void *user)
{
	struct checkpoint_call *c = user;
	struct sandbox *s = c->sandbox;

	sandbox_forget_inventory(s);
	s->marks_whole = false;
	sandbox_measure_uploads(s);
	if (!e && what->state_kept && !streq(c->name, CHECKPOINTS_BASE))
		run_session_forget(&s->context);
	if (!e)
		LOG_INFO("checkpoint_restored", LOG_S("session_id", s->id),
			 LOG_U("files", what->files), LOG_B("state", what->state_kept));
	if (!e || e->code == ERR_CHECKPOINT_PARTIAL) {
		note_restored(s, c->name);
		sandbox_changed(s, "");
	}
	call_end(c, what, c->place->created_ns, e);
}

int checkpoints_restore(struct sandbox *s, const char *name, enum engine_restore how, bool yield,
			checkpoint_fn cb, void *user, struct err *e)
{
	struct checkpoint_call *c = call_of(s, name, yield, cb, user, e);

	if (!c)
		return -ENOENT;
	int r = engine_restore_checkpoint(s->handle, place_of(s, c->place), how, on_restored, c, e);
	if (r < 0)
		call_free(c);
	return r;
}

/* ---- drop ---- */

static void on_dropped(const struct engine_checkpoint *what UNUSED, const struct err *e, void *user)
{
	struct checkpoint_call *c = user;
	struct sandbox *s = c->sandbox;
	const struct engine_checkpoint was = c->place->what;
	uint64_t created_ns = c->place->created_ns;

	if (!e) {
		if (!streq(c->name, CHECKPOINTS_BASE))
			sandbox_tell(s, SANDBOX_CHECKPOINT_REMOVED, c->name);
		forget(c->place);
	}
	call_end(c, &was, created_ns, e);
}

int checkpoints_drop(struct sandbox *s, const char *name, bool yield, checkpoint_fn cb, void *user,
		     struct err *e)
{
	struct checkpoint_call *c = call_of(s, name, yield, cb, user, e);

	if (!c)
		return -ENOENT;
	int r = engine_drop_checkpoint(s->handle, place_of(s, c->place), on_dropped, c, e);
	if (r < 0)
		call_free(c);
	return r;
}

/* ---- the calls for clients ---- */

enum point_verb { POINT_SAVE, POINT_RESTORE, POINT_RESTORE_FILES, POINT_DROP };

struct waiting { /* such a call that waits for the end of a cancelled run */
	struct seizing seizing;
	struct sandbox *sandbox; /* reference */
	enum point_verb verb;
	char name[CHECKPOINT_NAME_MAX + 1];
	checkpoint_fn cb;
	void *user;
};

/* S is seized; if the call does not begin, S is free again. */
static int begin(struct sandbox *s, enum point_verb verb, const char *name, checkpoint_fn cb,
		 void *user, struct err *e)
{
	int r = 0;

	switch (verb) {
	case POINT_SAVE:
		r = checkpoints_save(s, name, true, cb, user, e);
		break;
	case POINT_RESTORE:
		r = checkpoints_restore(s, name, ENGINE_RESTORE_ALL, true, cb, user, e);
		break;
	case POINT_RESTORE_FILES:
		r = checkpoints_restore(s, name, ENGINE_RESTORE_FILES, true, cb, user, e);
		break;
	case POINT_DROP:
		r = checkpoints_drop(s, name, true, cb, user, e);
		break;
	}
	if (r < 0)
		sandbox_yield(s);
	return r;
}

static void on_free(const struct err *e, void *user)
{
	struct waiting *w = user;
	struct err failed = ERR_INIT;

	if (!e && begin(w->sandbox, w->verb, w->name, w->cb, w->user, &failed) < 0)
		e = &failed;
	if (e)
		w->cb(NULL, e, w->user);
	(void)sandbox_unref(w->sandbox);
	free(w);
}

static int wait_for_run(struct sandbox *s, enum point_verb verb, const char *name, checkpoint_fn cb,
			void *user, struct err *e)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (!w)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a checkpoint");
	*w = (struct waiting){.seizing = {.go = on_free, .user = w},
			      .sandbox = sandbox_ref(s),
			      .verb = verb,
			      .cb = cb,
			      .user = user};
	(void)snprintf(w->name, sizeof(w->name), "%s", name);
	sandbox_seize_later(s, &w->seizing);
	return 0;
}

static int seize_for(struct sandbox *s, enum point_verb verb, const char *name, checkpoint_fn cb,
		     void *user, struct err *e)
{
	int r = check_name(name, e);

	if (r == 0 && verb == POINT_SAVE)
		r = checkpoints_check_room(s, checkpoints_has(s, name) ? 0 : 1, e);
	r = r < 0 ? r : sandbox_seize(s, e);
	if (r < 0)
		return r;
	return r > 0 ? wait_for_run(s, verb, name, cb, user, e) : begin(s, verb, name, cb, user, e);
}

int sandbox_checkpoint(struct sandbox *s, const char *name, checkpoint_fn cb, void *user,
		       struct err *e)
{
	return seize_for(s, POINT_SAVE, name, cb, user, e);
}

int sandbox_restore(struct sandbox *s, const char *name, bool files_only, checkpoint_fn cb,
		    void *user, struct err *e)
{
	return seize_for(s, files_only ? POINT_RESTORE_FILES : POINT_RESTORE, name, cb, user, e);
}

int sandbox_drop_checkpoint(struct sandbox *s, const char *name, checkpoint_fn cb, void *user,
			    struct err *e)
{
	return seize_for(s, POINT_DROP, name, cb, user, e);
}
