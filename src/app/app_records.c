/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the manager's records of stored sandboxes in the store. */
#include "app/app.h"

#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/moving.h"
#include "store/store_moves.h"

#include <string.h>

static void from_row(struct sandbox_record *ret, const struct store_sandbox *row)
{
	*ret = (struct sandbox_record){.created_ms = row->created_ms, .runs = row->runs};
	(void)!text_copy(ret->id, sizeof(ret->id), row->id);
	(void)!text_copy(ret->key, sizeof(ret->key), row->persist);
	(void)!text_copy(ret->owner, sizeof(ret->owner), row->owner);
	(void)!text_copy(ret->image, sizeof(ret->image), row->image);
	/* A text that does not fit was not written by us. Then the sandbox gets no network. */
	if (text_copy(ret->network.text, sizeof(ret->network.text), row->network) < 0)
		(void)!text_copy(ret->network.text, sizeof(ret->network.text), "none");
	_Static_assert(sizeof(ret->place) >= sizeof(row->place), "room for a place");
	(void)!text_copy(ret->place, sizeof(ret->place), row->place);
	_Static_assert(sizeof(ret->options) >= sizeof(row->options), "room for options");
	(void)!text_copy(ret->options, sizeof(ret->options), row->options);
	ret->disk_bytes = row->disk_bytes;
	/* names in the store may be longer */
	memcpy(ret->name, row->name,
	       text_utf8_cut(row->name, strlen(row->name), sizeof(ret->name) - 1));
}

#define LIMIT_REACHED                                                                              \
	"You have reached the maximum limit of %ju sandboxes. Please delete an existing sandbox "  \
	"before creating a new one."

/* How many sandboxes and bytes OWNER may have: the user's own quota, else the server's setting. */
static int quota_of(struct app *a, const char *owner, uint64_t *count, uint64_t *bytes,
		    struct err *e)
{
	struct store_user u = {.quota = STORE_QUOTA_DEFAULTS};

	*bytes = owner[0] ? (uint64_t)a->settings.user_disk_bytes : 0;
	int r = owner[0] ? store_user_get(a->store, owner, &u, e) : 0;
	if (r < 0)
		return r;
	if (u.quota.sandboxes == STORE_QUOTA_DEFAULT && a->settings.user_sandbox_limit < 0)
		return err_set(e, ERR_QUOTA_EXCEEDED, 0, LIMIT_REACHED, (uintmax_t)0);
	if (u.quota.sandboxes != STORE_QUOTA_DEFAULT)
		*count = (uint64_t)u.quota.sandboxes;
	if (u.quota.disk_bytes != STORE_QUOTA_DEFAULT)
		*bytes = (uint64_t)u.quota.disk_bytes;
	return u.quota.sandboxes == 0
		   ? err_set(e, ERR_QUOTA_EXCEEDED, 0, "You may not have sandboxes of your own.")
		   : 0;
}

/* ---- what users have here, for the routers of a fleet ---- */

static void count_uses_of(struct app *a, const char *owner)
{
	uint64_t n = 0, bytes = 0;
	struct err e = ERR_INIT;

	if (!a->uses)
		return;
	struct fleet_use use = fleet_tally_get(a->uses, owner);
	const int r = store_sandbox_sums(a->store, owner, &n, &bytes, &e);
	use.sandboxes = MIN(n, FLEET_USE_SANDBOXES);
	use.disk_bytes = MIN(bytes, FLEET_USE_MAX);
	if (r < 0 || !fleet_tally_set(a->uses, owner, &use))
		LOG_OFTEN(LOG_LEVEL_WARNING, "use_not_counted", LOG_S("user", owner),
			  LOG_S("error", r < 0 ? e.text : "no memory"));
}

static bool count_row(const struct store_sandbox *row, void *user)
{
	const struct app *a = user;
	struct fleet_use use = fleet_tally_get(a->uses, row->owner);

	use.sandboxes = MIN(use.sandboxes + 1, FLEET_USE_SANDBOXES);
	use.disk_bytes = MIN(use.disk_bytes + row->disk_bytes, FLEET_USE_MAX);
	return fleet_tally_set(a->uses, row->owner, &use);
}

static void count_usage(const char *owner, uint64_t cpu_us, void *user)
{
	const struct app *a = user;
	struct fleet_use use = fleet_tally_get(a->uses, owner);

	use.day = fleet_use_day(store_now_ms());
	use.cpu_us = MIN(cpu_us, FLEET_USE_MAX);
	(void)!fleet_tally_set(a->uses, owner, &use);
}

int app_count_uses(struct app *a, struct err *e)
{
	if (!app_fleet(a))
		return 0;
	a->uses = fleet_tally_new(FLEET_TALLY_MAX, true);
	a->elsewhere = fleet_tally_new(FLEET_TALLY_MAX, true);
	if (!a->uses || !a->elsewhere)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "what users have");
	int r = a->store ? store_usage_each_today(a->store, count_usage, a, e) : 0;
	r = r < 0 || !a->store ? r : store_sandbox_each(a->store, NULL, NULL, count_row, a, e);
	return r < 0 ? r : 0;
}

/* The row of RECORD, but for its key and id, and the ROOM that its owner has. OWNER_MAX: the server's limit. */
static int row_of(struct app *a, const struct sandbox_record *record, uint64_t owner_max,
		  struct store_sandbox *row, struct store_room *room, struct err *e)
{
	*row = (struct store_sandbox){.disk_bytes = record->disk_bytes > 0
							? record->disk_bytes
							: a->settings.stored_workspace_limit,
				      .created_ms = record->created_ms,
				      .runs = record->runs};
	*room = (struct store_room){.owner_count = owner_max,
				    .owner_bytes = (uint64_t)a->settings.user_disk_bytes,
				    .all_bytes = a->settings.total_disk};
	const int r = quota_of(a, record->owner, &room->owner_count, &room->owner_bytes, e);

	if (r < 0)
		return r;
	if (a->elsewhere) {
		const struct fleet_use others = fleet_tally_get(a->elsewhere, record->owner);

		room->elsewhere_count = others.sandboxes;
		room->elsewhere_bytes = others.disk_bytes;
	}
	(void)!text_copy(row->place, sizeof(row->place), record->place);
	(void)!text_copy(row->owner, sizeof(row->owner), record->owner);
	(void)!text_copy(row->name, sizeof(row->name), record->name);
	(void)!text_copy(row->image, sizeof(row->image), record->image);
	_Static_assert(sizeof(row->network) >= sizeof(record->network.text), "room for a choice");
	(void)!text_copy(row->network, sizeof(row->network), record->network.text);
	_Static_assert(sizeof(row->options) >= sizeof(record->options), "room for options");
	(void)!text_copy(row->options, sizeof(row->options), record->options);
	return 0;
}

static int add(void *user, struct sandbox_record *record, const char *env, uint64_t owner_max,
	       struct err *e)
{
	struct app *a = user;
	struct store_sandbox row;
	struct store_room room;
	int r = row_of(a, record, owner_max, &row, &room, e);

	if (r < 0)
		return r;
	store_uuid(row.persist);
	fleet_id_mark(app_fleet(a), row.persist);
	(void)!text_copy(row.id, sizeof(row.id), record->id[0] ? record->id : row.persist);
	const bool was = store_later(a->store, true);
	r = store_sandbox_add(a->store, &row, env, &room, e);
	(void)store_later(a->store, was);
	if (r < 0 && e->code == ERR_QUOTA_EXCEEDED) {
		uint64_t n = 0;
		struct err ignored = ERR_INIT;
		if (store_sandbox_count(a->store, record->owner, &n, &ignored) == 0 &&
		    room.owner_count > 0 && n + room.elsewhere_count >= room.owner_count)
			return err_set(e, ERR_QUOTA_EXCEEDED, 0, LIMIT_REACHED,
				       (uintmax_t)room.owner_count);
	}
	if (r == 0) {
		from_row(record, &row);
		count_uses_of(a, row.owner);
	}
	return r;
}

static int get(void *user, const char *owner, const char *id, struct sandbox_record *ret,
	       struct err *e)
{
	struct app *a = user;
	struct store_sandbox row;
	int r = store_sandbox_get(a->store, owner, id, &row, e);

	if (r > 0)
		from_row(ret, &row);
	return r;
}

static int remove_record(void *user, const char *id, struct err *e)
{
	struct app *a = user;
	const bool was = store_later(a->store, true);
	struct store_sandbox row;
	int r = a->uses ? store_sandbox_get(a->store, NULL, id, &row, e) : 0;
	const bool counts = r > 0;

	r = r < 0 ? r : store_sandbox_remove(a->store, id, e);
	(void)store_later(a->store, was);
	if (counts)
		count_uses_of(a, row.owner);
	return r < 0 ? r : 0;
}

static int settle(void *user, sandbox_done_fn cb, void *arg, struct err *e)
{
	struct app *a = user;

	return store_settle(a->store, cb, arg, e);
}

static int read_env(void *user, const char *id, struct buf *ret, struct err *e)
{
	struct app *a = user;

	return store_sandbox_env(a->store, id, ret, e);
}

static int change(void *user, const char *id, const char *name, const char *options,
		  const char *env, struct err *e)
{
	struct app *a = user;
	const bool was = store_later(a->store, true);
	int r = store_sandbox_change(a->store, id, name, options, env, e);

	(void)store_later(a->store, was);
	return r < 0 ? r : 0;
}

struct each {
	sandbox_record_fn fn;
	void *arg;
};

static bool on_row(const struct store_sandbox *row, void *user)
{
	const struct each *each = user;
	struct sandbox_record record;

	from_row(&record, row);
	each->fn(&record, each->arg);
	return true;
}

static int each(void *user, const char *owner, sandbox_record_fn fn, void *arg, struct err *e)
{
	struct app *a = user;
	struct each x = {.fn = fn, .arg = arg};

	return store_sandbox_each(a->store, owner, NULL, on_row, &x, e);
}

static void note_use(void *user, const char *id)
{
	struct app *a = user;

	store_note_use(a->store, id);
}

static void note_run(void *user, const char *id)
{
	struct app *a = user;

	store_note_sandbox_run(a->store, id);
}

static void note_place(void *user, const char *id, const char *place)
{
	struct app *a = user;
	struct err e = ERR_INIT;

	if (store_sandbox_set_place(a->store, id, place, &e) < 0)
		LOG_WARNING("place_not_kept", LOG_S("session_id", id), LOG_S("error", e.text));
}

/* ---- sandboxes that move ---- */

static int note_opened(void *user, const char *id, struct err *e)
{
	struct app *a = user;

	return store_moving_opened(a->store, id, e);
}

static int check(void *user, const struct sandbox_record *record, struct err *e)
{
	struct app *a = user;
	struct store_sandbox row;
	struct store_room room;
	const int r =
	    row_of(a, record, (uint64_t)MAX(a->settings.user_sandbox_limit, 0), &row, &room, e);

	return r < 0 ? r : store_sandbox_check(a->store, &row, &room, e);
}

static int arrive(void *user, struct sandbox_record *record, const char *env,
		  const char *incarnation, uint32_t epoch, struct err *e)
{
	struct app *a = user;
	struct store_sandbox row;
	struct store_room room;
	int r = row_of(a, record, (uint64_t)MAX(a->settings.user_sandbox_limit, 0), &row, &room, e);

	if (r < 0)
		return r;
	(void)!text_copy(row.id, sizeof(row.id), record->id);
	(void)!text_copy(row.persist, sizeof(row.persist), record->key);
	const bool was = store_later(a->store, true);
	r = store_moving_add(a->store, &row, env, incarnation, epoch, &room, e);
	(void)store_later(a->store, was);
	if (r == 0)
		count_uses_of(a, row.owner);
	return r;
}

static int leave(void *user, const char *id, struct err *e)
{
	struct app *a = user;
	const bool was = store_later(a->store, true);
	struct store_sandbox row;
	int r = store_sandbox_get(a->store, NULL, id, &row, e);
	const bool counts = r > 0 && a->uses;

	r = r < 0 ? r : store_moving_leave(a->store, id, e);
	(void)store_later(a->store, was);
	if (counts)
		count_uses_of(a, row.owner);
	return MIN(r, 0);
}

static const struct moving_records moving = {
    .opened = note_opened, .check = check, .arrive = arrive, .leave = leave};

static const struct sandbox_records *records_of(struct app *a)
{
	if (!a->store)
		return NULL;
	a->records = (struct sandbox_records){.add = add,
					      .get = get,
					      .remove = remove_record,
					      .env = read_env,
					      .change = change,
					      .each = each,
					      .settle = settle,
					      .note_use = note_use,
					      .note_run = note_run,
					      .note_place = note_place,
					      .moving = app_fleet(a) ? &moving : NULL,
					      .user = a};
	return &a->records;
}

struct manager_stored app_stored(struct app *a, uint32_t insisted)
{
	const struct settings *s = &a->settings;
	struct manager_stored c = {
	    .records = records_of(a),
	    .limits = {.memory_bytes = s->stored_memory_limit,
		       .cpu_milli = (uint32_t)s->cpu_limit,
		       .pids = (uint32_t)s->pids_limit,
		       .workspace_bytes = s->stored_workspace_limit,
		       .workspace_inodes = (uint32_t)s->stored_workspace_files,
		       .tmp_bytes = s->tmp_limit,
		       .nofile = (uint32_t)s->nofile_limit,
		       .explicit_mask = insisted},
	    .run_timeout_ns = (uint64_t)s->stored_exec_timeout_s * NS_PER_S,
	    .output_max = (uint64_t)s->stored_output_bytes,
	    .idle_ns = (uint64_t)s->stored_idle_s * NS_PER_S,
	    .max_active = (unsigned)s->stored_active,
	    .owner_max = (unsigned)MAX(s->user_sandbox_limit, 0), /* -1: add() refuses all */
	    .strict_ids = s->strict_ids,
	    .variables = s->stored_variables,
	};

	memcpy(c.image, a->image, sizeof(c.image));
	return c;
}
