/* SPDX-License-Identifier: Apache-2.0 */
#include "api/history/cells.h"

#include "api/history/cell.h"
#include "api/json_reply.h"
#include "base/jsonio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "packages/packages.h"

#include <string.h>

#define FLUSH_NS      (40 * NS_PER_MS) /* between two pieces of output for those who watch */
#define FILES_NS      (250 * NS_PER_MS)
#define DRAFT_WAIT_NS (100 * NS_PER_MS) /* a run that is shorter needs no draft */
#define DRAFT_NS      NS_PER_S          /* between two drafts of a run */
#define DRAFT_TURN_NS (2 * NS_PER_MS)   /* of the loop, for drafts */
#define DRAFT_NEXT_NS (10 * NS_PER_MS)  /* until it goes on with them */
#define OWNER_SHELVES 64u
#define CHANGED_MAX   256u /* sandboxes whose files changed, not yet told */

struct changed {
	struct list node;
	char owner[SANDBOX_OWNER_MAX + 1];
	char sandbox[SANDBOX_ID_MAX + 1];
	char *path; /* owned; NULL: any */
};

struct cells {
	struct cells_config config;
	struct feed *feed;
	struct list live; /* struct cell, oldest first */
	uint64_t serial;  /* of the newest */
	uint64_t moved[OWNER_SHELVES];
	struct list changed; /* struct changed */
	unsigned n_changed;
	uint64_t draft_from; /* serial of the cell behind which the next turn goes on */
	sd_event_source *flush, *files, *drafts;
	bool flush_due, files_due, drafts_due;
};

struct feed *cells_feed(const struct cells *c)
{
	return c ? c->feed : NULL;
}

enum cells_keep cells_kept(const struct cells *c)
{
	return c && c->config.store ? c->config.keep : CELLS_KEEP_NOTHING;
}

static void arm(sd_event_source *source, uint64_t ns, bool *due)
{
	if (*due || sd_event_source_set_time_relative(source, ns / NS_PER_US) < 0 ||
	    sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) < 0)
		return;
	*due = true;
}

/* ---- output for those who watch ---- */

static void tell_output(struct cells *c, struct cell *l, json_t *data)
{
	if (data)
		feed_tell(c->feed, l->owner, l->sandbox, "run.output", data);
}

static void flush_cell(struct cells *c, struct cell *l, bool end)
{
	for (int i = 0; i < CELL_STREAMS; i++)
		tell_output(c, l, cell_take_output(l, i, end));
	l->flushed_ns = now_ns();
}

static int on_flush(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct cells *c = user;

	loop_work("timer", "cells of notebooks");
	c->flush_due = false;
	list_for_each(n, &c->live) {
		struct cell *l = list_entry(n, struct cell, node);

		if (cell_has_output(l))
			flush_cell(c, l, false);
	}
	return 0;
}

/* ---- drafts: what the history gets of a run if this server dies ---- */

/* Something has happened that the draft of L does not have. */
static void needs_draft(struct cell *l)
{
	struct cells *c = l->cells;

	if (l->undrafted || cells_kept(c) == CELLS_KEEP_NOTHING)
		return;
	l->undrafted = true;
	arm(c->drafts, DRAFT_WAIT_NS, &c->drafts_due);
}

static void write_draft(struct cells *c, struct cell *l, uint64_t now)
{
	struct store_cell *row = cell_draft(l, c->config.keep == CELLS_KEEP_ALL);

	l->drafted_ns = now;
	l->undrafted = !row || !store_note_draft(c->config.store, row);
}

static int on_drafts(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct cells *c = user;
	const uint64_t begin = now_ns(), from = c->draft_from;
	uint64_t now = begin;
	bool more = false;

	loop_work("timer", "drafts of cells");
	c->drafts_due = false;
	c->draft_from = 0;
	list_for_each(n, &c->live) {
		struct cell *l = list_entry(n, struct cell, node);

		if (!l->undrafted || l->status == CELL_ENDED)
			continue;
		if (l->serial <= from || (l->drafted_ns > 0 && now - l->drafted_ns < DRAFT_NS)) {
			more = true;
			continue;
		}
		write_draft(c, l, now);
		more = more || l->undrafted;
		now = now_ns();
		if (now - begin > DRAFT_TURN_NS) {
			c->draft_from = l->serial;
			break;
		}
	}
	if (c->draft_from > 0)
		arm(c->drafts, DRAFT_NEXT_NS, &c->drafts_due);
	else if (more)
		arm(c->drafts, DRAFT_WAIT_NS, &c->drafts_due);
	return 0;
}

static void on_output(void *seen, enum engine_stream stream, const void *data, size_t len)
{
	struct cell *l = seen;
	struct cells *c = l->cells;
	bool watched = feed_wants(c->feed, l->owner);

	cell_add_output(l, stream, data, len, watched);
	needs_draft(l);
	if (!watched || !cell_has_output(l))
		return;
	if (l->flushed_ns + FLUSH_NS <= now_ns())
		flush_cell(c, l, false);
	else
		arm(c->flush, FLUSH_NS, &c->flush_due);
}

static void on_shown(void *seen, unsigned index, bool ends)
{
	cell_note_shown(seen, index, ends);
}

/* ---- the life of a cell ---- */

static void tell_cell(struct cells *c, struct cell *l, const char *name)
{
	if (!feed_wants(c->feed, l->owner))
		return;
	cell_settle(l);
	feed_tell(c->feed, l->owner, l->sandbox, name, json_pack("{s:o}", "cell", cell_json(l)));
}

static void *on_run(void *user, struct run *r, const struct run_request *q, bool waits)
{
	struct cells *c = user;
	struct cell *l = cell_new(r, q);

	if (!l)
		return NULL;
	l->cells = c;
	l->serial = ++c->serial;
	l->status = waits ? CELL_QUEUED : CELL_RUNNING;
	list_append(&c->live, &l->node);
	needs_draft(l);
	tell_cell(c, l, waits ? "run.queued" : "run.started");
	return l;
}

static void on_starts(void *seen)
{
	struct cell *l = seen;

	l->status = CELL_RUNNING;
	l->started_ms = store_now_ms();
	needs_draft(l);
	tell_cell(l->cells, l, "run.started");
}

static void end_cell(struct cell *l)
{
	list_remove(&l->node);
	cell_free(l);
}

static size_t shelf(const char *owner)
{
	unsigned hash = 5381;

	for (const char *p = owner; *p; p++)
		hash = hash * 33 ^ (unsigned char)*p;
	return hash % OWNER_SHELVES;
}

static void keep_cell(struct cell *l)
{
	struct cells *c = l->cells;

	struct store_cell *row = cell_row(l, c->config.keep == CELLS_KEEP_ALL);

	if (row)
		store_note_cell(c->config.store, row);
	c->moved[shelf(l->owner)]++;
	end_cell(l);
}

/* Makes L history, and what waited for it: a cell whose files are still being read keeps back those of its sandbox that
 * began later. */
static void keep_in_order(struct cell *l)
{
	struct cells *c = l->cells;
	char owner[sizeof(l->owner)],
	    sandbox[sizeof(l->sandbox)]; /* L may be gone before the end */
	bool held = false;

	memcpy(owner, l->owner, sizeof(owner));
	memcpy(sandbox, l->sandbox, sizeof(sandbox));
	l->whole = true;
	list_for_each(n, &c->live) {
		struct cell *x = list_entry(n, struct cell, node);

		if (held || x->status != CELL_ENDED || !streq(x->sandbox, sandbox) ||
		    !streq(x->owner, owner))
			continue;
		held = !x->whole;
		if (!held)
			keep_cell(x);
	}
}

/* Reads the small files that are kept, one after the other, and then makes the cell history. */
static void read_files(struct cell *l);

static void on_file_read(char *data, ssize_t n, void *user)
{
	struct cell *l = user;

	cell_take_file(l, data, data ? (size_t)n : 0);
	read_files(l);
}

static void on_file(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct cell *l = user;

	if (!e && info->size <= CELL_FILE_BYTES) {
		workers_read(l->owner, fd, 0, (size_t)info->size, on_file_read, l);
		return;
	}
	workers_close(l->owner, fd);
	cell_take_file(l, NULL, 0);
	read_files(l);
}

static void read_files(struct cell *l)
{
	const char *name;
	struct err ignored = ERR_INIT;

	while ((name = cell_next_file(l)))
		if (sandbox_open_file(l->of, name, on_file, l, &ignored) == 0)
			return;
		else
			cell_take_file(l, NULL, 0);
	keep_in_order(l);
}

static void on_ends(void *seen, const struct run_result *result, const struct err *e)
{
	struct cell *l = seen;
	struct cells *c = l->cells;

	cell_end(l, result, e);
	if (feed_wants(c->feed, l->owner))
		flush_cell(c, l, true);
	tell_cell(c, l, "run.ended");
	if (cells_kept(c) == CELLS_KEEP_NOTHING)
		end_cell(l);
	else if (cells_kept(c) == CELLS_KEEP_ALL)
		read_files(l);
	else
		keep_in_order(l);
}

/* ---- sandboxes ---- */

static void changed_free(struct cells *c, struct changed *d)
{
	list_remove(&d->node);
	c->n_changed--;
	free(d->path);
	free(d);
}

static int on_files(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct cells *c = user;

	loop_work("timer", "files of cells");
	c->files_due = false;
	list_for_each(n, &c->changed) {
		struct changed *d = list_entry(n, struct changed, node);
		json_t *path = d->path ? json_string(d->path) : NULL;

		feed_tell(c->feed, d->owner, d->sandbox, "files.changed",
			  json_pack("{s:s, s:o}", "sandbox", d->sandbox, "path",
				    path ? path : json_null()));
		changed_free(c, d);
	}
	return 0;
}

static void note_files(struct cells *c, const char *owner, const char *id, const char *path)
{
	struct changed *d = NULL;

	list_for_each(n, &c->changed) {
		struct changed *x = list_entry(n, struct changed, node);

		if (streq(x->owner, owner) && streq(x->sandbox, id))
			d = x;
	}
	if (d) {
		if (!d->path || !path || !streq(d->path, path))
			free(TAKE_PTR(d->path));
		return;
	}
	d = c->n_changed < CHANGED_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return;
	(void)snprintf(d->owner, sizeof(d->owner), "%s", owner);
	(void)snprintf(d->sandbox, sizeof(d->sandbox), "%s", id);
	d->path = path ? strdup(path) : NULL;
	list_append(&c->changed, &d->node);
	c->n_changed++;
	arm(c->files, FILES_NS, &c->files_due);
}

static json_t *ended_json(struct cells *c, const char *owner, const char *id,
			  const struct sandbox *s)
{
	static const char *const words[] = {
	    [SANDBOX_END_NONE] = "ended",    [SANDBOX_END_DELETED] = "deleted",
	    [SANDBOX_END_UNUSED] = "unused", [SANDBOX_END_LOST] = "lost",
	    [SANDBOX_END_ROOM] = "room",
	};
	bool stored = !s || sandbox_is_stored(s);
	const char *why = !s       ? "deleted"
			  : stored ? "deactivated"
				   : words[manager_ended(c->config.manager, owner, id).why];

	return json_pack("{s:s, s:s, s:s}", "id", id, "kind", stored ? "stored" : "session", "why",
			 why);
}

static void on_news(void *user, const char *owner, const char *id, struct sandbox *s,
		    enum sandbox_news what, const char *name)
{
	static const char *const words[] = {
	    [SANDBOX_MADE] = "sandbox.created",
	    [SANDBOX_CHANGED] = "sandbox.changed",
	    [SANDBOX_FILES] = "files.changed",
	    [SANDBOX_ENDED] = "sandbox.ended",
	    [SANDBOX_REMOVED] = "sandbox.ended",
	    [SANDBOX_CHECKPOINT_MADE] = "checkpoint.made",
	    [SANDBOX_CHECKPOINT_RESTORED] = "checkpoint.restored",
	    [SANDBOX_CHECKPOINT_REMOVED] = "checkpoint.removed",
	};
	struct cells *c = user;
	json_t *data = NULL;

	list_for_each(n, &c->live) {
		struct cell *l = list_entry(n, struct cell, node);

		if (what == SANDBOX_CHANGED && l->of == s)
			l->stale = true;
	}
	if (what == SANDBOX_CHANGED && cells_kept(c) != CELLS_KEEP_NOTHING)
		store_note_name(c->config.store, owner, id, sandbox_name(s));
	if (!feed_wants(c->feed, owner))
		return;
	switch (what) {
	case SANDBOX_FILES:
		note_files(c, owner, id, name);
		return;
	case SANDBOX_MADE:
	case SANDBOX_CHANGED:
		data = json_pack("{s:o}", "sandbox", sandbox_json(c->config.manager, s));
		break;
	case SANDBOX_ENDED:
	case SANDBOX_REMOVED:
		data = ended_json(c, owner, id, s);
		break;
	case SANDBOX_CHECKPOINT_MADE:
	case SANDBOX_CHECKPOINT_RESTORED:
	case SANDBOX_CHECKPOINT_REMOVED:
		data = json_pack("{s:s, s:s, s:s}", "sandbox", id, "name", name, "by",
				 sandbox_last_run(s));
		break;
	}
	feed_tell(c->feed, owner, id, words[what], data);
}

static void on_package(void *user, const char *owner, const char *sandbox, const char *spec,
		       enum package_word word, const char *text, unsigned done, unsigned total)
{
	const struct cells *c = user;

	if (feed_wants(c->feed, owner))
		feed_tell(c->feed, owner, sandbox, "package",
			  json_pack("{s:s, s:s, s:s, s:s, s:i, s:i}", "sandbox", sandbox,
				    "packages", spec, "status", package_word_name(word), "message",
				    text, "done", (int)done, "total", (int)total));
}

void cells_watch_packages(struct cells *c, struct packages *p)
{
	packages_set_observer(p, on_package, c);
}

/* ---- for requests ---- */

json_t *cells_next_live(const struct cells *c, const char *owner, const char *sandbox,
			uint64_t *serial)
{
	list_for_each(n, &c->live) {
		struct cell *l = list_entry(n, struct cell, node);

		if (l->serial <= *serial || !streq(l->owner, owner) || !streq(l->sandbox, sandbox))
			continue;
		*serial = l->serial;
		cell_settle(l);
		return cell_json(l);
	}
	return NULL;
}

uint64_t cells_moved(const struct cells *c, const char *owner)
{
	return c->moved[shelf(owner)];
}

static struct cell *find(const struct cells *c, const char *owner, const char *run)
{
	list_for_each(n, &c->live) {
		struct cell *l = list_entry(n, struct cell, node);

		if (streq(l->run, run) && streq(l->owner, owner))
			return l;
	}
	return NULL;
}

bool cells_is_live(const struct cells *c, const char *owner, const char *run)
{
	return find(c, owner, run) != NULL;
}

json_t *cells_live(const struct cells *c, const char *owner, const char *run)
{
	struct cell *l = find(c, owner, run);

	if (!l)
		return NULL;
	cell_settle(l);
	return cell_json(l);
}

char *cells_live_results(const struct cells *c, const char *owner, const char *run, size_t *ret_len)
{
	const struct cell *l = find(c, owner, run);

	*ret_len = l && l->results ? l->results_len : 0;
	return *ret_len > 0 ? strndup(l->results, l->results_len) : NULL;
}

bool cells_end_run(struct cells *c, const char *owner, const char *run, void (*end)(struct run *))
{
	struct cell *l = c ? find(c, owner, run) : NULL;

	if (!l || !l->of_run)
		return false;
	end(l->of_run); /* one that waits ends inside this call */
	return true;
}

/* ---- life ---- */

static int add_timer(struct cells *c, sd_event_source **ret, sd_event_time_handler_t fn)
{
	int r = sd_event_add_time(c->config.loop, ret, CLOCK_MONOTONIC, 0, 10000, fn, c);

	return r < 0 ? r : sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

int cells_new(const struct cells_config *config, struct cells **ret, struct err *e)
{
	const struct manager_observer observer = {.run_starts = on_starts,
						  .run = on_run,
						  .run_output = on_output,
						  .run_shown = on_shown,
						  .run_ends = on_ends,
						  .news = on_news};
	struct cells *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "cells");
	c->config = *config;
	list_init(&c->live);
	list_init(&c->changed);
	r = add_timer(c, &c->flush, on_flush);
	r = r < 0 ? r : add_timer(c, &c->files, on_files);
	r = r < 0 ? r : add_timer(c, &c->drafts, on_drafts);
	if (r < 0)
		(void)err_set(e, ERR_SYSTEM, -r, "the event loop");
	r = r < 0 ? r : feed_new(config->loop, config->budgets, &c->feed, e);
	if (r < 0) {
		(void)cells_free(c);
		return r;
	}
	struct manager_observer own = observer;
	own.user = c;
	manager_set_observer(config->manager, &own);
	*ret = c;
	return 0;
}

struct cells *cells_free(struct cells *c)
{
	if (!c)
		return NULL;
	list_for_each(n, &c->live)
		end_cell(list_entry(n, struct cell, node));
	list_for_each(n, &c->changed)
		changed_free(c, list_entry(n, struct changed, node));
	(void)sd_event_source_disable_unref(c->flush);
	(void)sd_event_source_disable_unref(c->files);
	(void)sd_event_source_disable_unref(c->drafts);
	c->feed = feed_free(c->feed);
	free(c);
	return NULL;
}
