/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sandboxes that come from another server: first the disk, then the record. */
#include "sandbox/moving.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/text.h"
#include "engine/disks.h"
#include "sandbox/manager.h"

#include <stdlib.h>
#include <string.h>

struct arrival {
	struct list node;        /* of manager.arrivals; of none after arrival_end() */
	struct manager *manager; /* NULL: it is gone */
	struct sandbox_record record;
	char *env; /* owned */
	char incarnation[MOVING_INCARNATION_SIZE];
	uint32_t epoch;
	uint64_t bytes;
	arrival_fn fn;
	sandbox_done_fn cb;
	void *user;
	struct err failed; /* of LATER */
	/* Disabled until it is needed, so that nothing can fail then. Calls CB. */
	sd_event_source *later;
	bool cleared;  /* what an earlier arrival left has been removed */
	bool asked;    /* the engine or the records have not answered yet */
	bool ended;    /* arrival_end() was called meanwhile */
	bool has_disk; /* that was not kept yet */
};

static const struct sandbox_records *records_of(const struct manager *m)
{
	return m->config.stored.records;
}

static const struct moving_records *moves_of(const struct manager *m)
{
	return records_of(m) ? records_of(m)->moving : NULL;
}

bool arrival_is(const struct manager *m, const char *owner, const char *id)
{
	list_for_each(l, &m->arrivals) {
		const struct sandbox_record *r = &list_entry(l, struct arrival, node)->record;
		if (streq(r->id, id) && (!owner || streq(r->owner, owner)))
			return true;
	}
	return false;
}

static void arrival_free(struct arrival *a)
{
	struct err ignored = ERR_INIT;

	list_remove(&a->node);
	a->later = sd_event_source_disable_unref(a->later);
	if (a->has_disk && a->manager && a->manager->engine)
		(void)!engine_disk_drop(a->manager->engine, a->record.key, &ignored);
	if (a->env)
		explicit_bzero(a->env, strlen(a->env));
	free(a->env);
	free(a);
}

/* The last word to its caller. Frees A. */
static void arrival_done(struct arrival *a, const struct err *e)
{
	const sandbox_done_fn cb = a->ended ? NULL : a->cb;
	void *user = a->user;
	const struct err copy = e ? *e : ERR_INIT; /* E may be in A */

	a->manager->moving_version++;
	arrival_free(a);
	if (cb)
		cb(copy.code != ERR_NONE ? &copy : NULL, user);
}

/* The engine could not be asked to keep the disk. */
static int on_later(sd_event_source *source UNUSED, void *user)
{
	struct arrival *a = user;

	loop_work("sandbox", "failed arrival");
	arrival_done(a, &a->failed);
	return 0;
}

static int check_new(struct manager *m, const char *owner, const char *id, struct err *e)
{
	struct sandbox_record record;
	int r = manager_check_owner(m, owner, e);

	if (r < 0)
		return r;
	/* Ids of stored sandboxes are unique among all owners. */
	r = manager_lookup(m, owner, id) || stored_is_going(m, id)
		? 1
		: records_of(m)->get(records_of(m)->user, NULL, id, &record, e);
	return r > 0 ? err_set(e, ERR_ALREADY_EXISTS, 0, "there is a sandbox %s here already", id)
		     : r;
}

static void on_empty(int disk, const struct err *e, void *user);

static void on_cleared(const struct err *e, void *user)
{
	struct arrival *a = user;
	struct err own = e ? *e : (struct err)ERR_INIT;

	a->cleared = true;
	if (!e && a->manager->closing)
		(void)err_set(&own, ERR_CANCELLED, 0, "the server is shutting down");
	if (own.code == ERR_NONE && !a->ended &&
	    engine_disk_new(a->manager->engine, a->record.key, a->bytes, on_empty, a, &own) == 0)
		return;
	on_empty(-1, &own, a);
}

/* No record has the key of A: it is made of the incarnation, which is not here. So what has it was left by an arrival that the end of a
 * server cut off between the disk and the record. */
static bool clears(struct arrival *a, const struct err *e)
{
	struct err ignored = ERR_INIT;

	return e && e->code == ERR_ALREADY_EXISTS && !a->cleared && !a->ended &&
	       engine_forget(a->manager->engine, a->record.key, on_cleared, a, &ignored) == 0;
}

static void on_empty(int disk, const struct err *e, void *user)
{
	struct arrival *a = user;

	if (clears(a, e))
		return;
	a->asked = false;
	a->has_disk = !e;
	if (!a->ended) {
		a->fn(disk, e, a->user);
		return;
	}
	(void)fd_close(disk);
	arrival_free(a);
}

static int check_names(const struct manager *m, const char *owner, const char *id,
		       const char *incarnation, struct err *e)
{
	const size_t digits = MOVING_INCARNATION_SIZE - 1;

	if (!moves_of(m))
		return err_set(e, ERR_ENGINE_NOT_BUILT_IN, 0,
			       "sandboxes move between workers of a fleet alone");
	if (strlen(owner) > SANDBOX_OWNER_MAX || strlen(id) > SANDBOX_ID_MAX ||
	    !stored_may_be(owner, id) || strlen(incarnation) != digits ||
	    strspn(incarnation, "0123456789abcdef") != digits)
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL,
			       "no sandbox with this id, owner and incarnation can come here");
	return 0;
}

/* Reads TEXT into A, and checks whether this server may have it. */
static int take_record(struct arrival *a, const char *text, size_t len, struct err *e)
{
	const struct sandbox_records *records = records_of(a->manager);
	bool own_id = false;
	int r = moving_text_read(text, len, &a->record, &own_id, &a->env, e);

	if (r < 0)
		return r;
	(void)snprintf(a->record.key, sizeof(a->record.key), "%s%s", a->incarnation,
		       own_id ? STORED_KEY_OF_OWN_ID : "");
	/* Whoever made TEXT may say less than its disk takes. */
	a->record.disk_bytes = MAX(a->record.disk_bytes, a->bytes);
	return records->moving->check(records->user, &a->record, e);
}

static struct arrival *arrival_new(struct manager *m, const char *owner, const char *id,
				   const char *incarnation)
{
	struct arrival *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->manager = m;
	list_init(&a->node);
	(void)!text_copy(a->incarnation, sizeof(a->incarnation), incarnation);
	(void)!text_copy(a->record.owner, sizeof(a->record.owner), owner);
	(void)!text_copy(a->record.id, sizeof(a->record.id), id);
	if (sd_event_add_defer(m->config.loop, &a->later, on_later, a) >= 0 &&
	    sd_event_source_set_enabled(a->later, SD_EVENT_OFF) >= 0)
		return a;
	arrival_free(a);
	return NULL;
}

int manager_arrive(struct manager *m, const char *owner, const char *id, const char *incarnation,
		   uint32_t epoch, const char *text, size_t len, uint64_t bytes, arrival_fn fn,
		   void *user, struct arrival **ret, struct err *e)
{
	int r = manager_start(m, e);

	r = r < 0 ? r : check_names(m, owner, id, incarnation, e);
	if (r == 0 && arrival_is(m, NULL, id))
		r = err_set(e, ERR_ALREADY_EXISTS, 0, "sandbox %s is arriving already", id);
	r = r < 0 ? r : check_new(m, owner, id, e);
	if (r < 0)
		return r;
	struct arrival *a = arrival_new(m, owner, id, incarnation);
	if (!a)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a sandbox that arrives");
	a->epoch = epoch;
	a->bytes = bytes;
	a->fn = fn;
	a->user = user;
	r = take_record(a, text, len, e);
	r = r < 0 ? r : engine_disk_new(m->engine, a->record.key, bytes, on_empty, a, e);
	if (r < 0) {
		arrival_free(a);
		return r;
	}
	a->asked = true;
	list_append(&m->arrivals, &a->node);
	*ret = a;
	return 0;
}

/* ---- an arrival is kept ---- */

static void on_forgotten(const struct err *e, void *user UNUSED)
{
	if (e)
		LOG_ERROR("workspace_left", LOG_S("error", e->text));
}

/* The disk is one of this server, but the sandbox does not come. */
static void undo(const struct arrival *a)
{
	struct err e = ERR_INIT;

	if (engine_forget(a->manager->engine, a->record.key, on_forgotten, NULL, &e) < 0)
		on_forgotten(&e, NULL);
}

static void on_recorded(const struct err *e, void *user)
{
	struct arrival *a = user;
	struct manager *m = a->manager;
	struct err own = e ? *e : ERR_INIT, ignored = ERR_INIT;

	/* An owner who is removed does not see it yet, and so nobody would remove it. */
	if (!e)
		(void)!manager_check_owner(m, a->record.owner, &own);
	if (own.code == ERR_NONE) {
		LOG_INFO("sandbox_arrived", LOG_S("session_id", a->record.id),
			 LOG_U("epoch", a->epoch));
	} else if (!m->closing) {
		(void)!moves_of(m)->leave(records_of(m)->user, a->record.id, &ignored);
		undo(a);
	}
	arrival_done(a, own.code != ERR_NONE ? &own : NULL);
}

static void on_kept(const struct err *e, void *user)
{
	struct arrival *a = user;
	struct manager *m = a->manager;
	struct err own = e ? *e : ERR_INIT;
	int r = 0;

	a->has_disk = false;
	if (!e && m->closing)
		(void)err_set(&own, ERR_CANCELLED, 0, "the server is shutting down");
	if (own.code != ERR_NONE) {
		arrival_done(a, &own);
		return;
	}
	if (a->ended)
		r = err_set(&own, ERR_CANCELLED, 0, "the sandbox does not come");
	r = r < 0 ? r : check_new(m, a->record.owner, a->record.id, &own);
	r = r < 0 ? r
		  : moves_of(m)->arrive(records_of(m)->user, &a->record, a->env, a->incarnation,
					a->epoch, &own);
	if (r >= 0) {
		stored_settle(m, on_recorded, a);
		return;
	}
	undo(a);
	arrival_done(a, &own);
}

void arrival_keep(struct arrival *a, sandbox_done_fn cb, void *user)
{
	a->cb = cb;
	a->user = user;
	a->asked = true;
	if (engine_disk_keep(a->manager->engine, a->record.key, on_kept, a, &a->failed) < 0)
		(void)sd_event_source_set_enabled(a->later, SD_EVENT_ONESHOT);
}

struct arrival *arrival_end(struct arrival *a)
{
	if (!a)
		return NULL;
	if (a->asked) {
		a->ended = true; /* its id is taken until the engine has answered */
		return NULL;
	}
	if (a->manager)
		a->manager->moving_version++;
	arrival_free(a);
	return NULL;
}

/* The engine is closed, and the settlings have ended: what is left waits for its holder alone. */
void arrivals_end_all(struct manager *m)
{
	struct arrival *a;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	while ((a = list_pop_first(&m->arrivals, struct arrival, node))) {
		if (a->asked) {
			arrival_done(a, &e);
			continue;
		}
		a->later = sd_event_source_disable_unref(a->later);
		a->manager = NULL;
	}
}
