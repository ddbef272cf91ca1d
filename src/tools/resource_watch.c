/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/resource_watch.h"

#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/sandbox_work.h"
#include "tools/resources.h"

#include <string.h>

#define BUCKETS   256u
#define PATHS_MAX 1024u /* noted for one sandbox; with more every file may have changed */
#define SOON_NS   (20 * NS_PER_MS)
#define PAUSE_NS  (500 * NS_PER_MS) /* between two notifications of the same file */

struct resource_watches {
	struct tools *tools;
	struct mcp_server *server;
	struct list buckets[BUCKETS];
};

struct watched {
	struct list node; /* of its bucket */
	struct resource_watches *of;
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
	size_t refs;                /* subscriptions */
	struct engine_watch *watch; /* NULL: there is none */
	struct budget_share place;
	bool begun;
	bool partial; /* some folders are not watched */
	/* What was not told yet. */
	json_t *
	    paths; /* object; a value is true if a folder has come or gone with all below it. NULL: none */
	bool all;
	sd_event_source *flush;
	uint64_t told_ns;
};

static struct list *bucket_of(struct resource_watches *r, const char *id)
{
	uint32_t h = 5381;

	for (; *id; id++)
		h = h * 33 + (uint8_t)*id;
	return &r->buckets[h % BUCKETS];
}

static struct watched *find(struct resource_watches *r, const char *owner, const char *id)
{
	list_for_each(l, bucket_of(r, id)) {
		struct watched *w = list_entry(l, struct watched, node);

		if (streq(w->id, id) && streq(w->owner, owner))
			return w;
	}
	return NULL;
}

static void watched_free(struct watched *w)
{
	if (w->watch)
		engine_unwatch(w->watch);
	list_remove(&w->node);
	(void)sd_event_source_disable_unref(w->flush);
	budget_give(&w->place);
	json_decref(w->paths);
	free(w);
}

/* ---- telling ---- */

struct news {
	const char *id;
	json_t *paths;
	bool all;
};

/* A path was told, or a folder above it: with that it may have come, gone or been moved. */
static bool is_changed(const char *uri, void *user)
{
	const struct news *n = user;
	char id[SANDBOX_ID_MAX + 1], path[ENGINE_PATH_MAX];

	if (!resources_place(uri, id, path) || !streq(id, n->id))
		return false;
	if (n->all || json_object_get(n->paths, path))
		return true;
	for (char *slash; (slash = strrchr(path, '/'));) {
		*slash = '\0';
		if (json_is_true(json_object_get(n->paths, path)))
			return true;
	}
	return false;
}

static int on_flush(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct watched *w = user;
	struct mcp_server *server = w->of->server;
	char owner[sizeof(w->owner)], id[sizeof(w->id)];
	struct news n = {.id = id, .paths = TAKE_PTR(w->paths), .all = w->all};

	loop_work("timer", "watched resources");
	memcpy(owner, w->owner, sizeof(owner));
	memcpy(id, w->id, sizeof(id));
	w->flush = NULL;
	w->all = false;
	w->told_ns = now_ns();
	(void)sd_event_source_disable_unref(source);
	/* W may be gone afterwards: a client that cannot be told ends its subscriptions. */
	mcp_server_resources_updated(server, owner, is_changed, &n);
	json_decref(n.paths);
	return 0;
}

static void note(struct watched *w, const struct engine_change *c)
{
	if (w->all)
		return;
	if (!w->paths)
		w->paths = json_object();
	/* What is below a folder that was moved has no change of its own; what was removed with one has. */
	const bool moved =
	    c->folder && (c->kind == ENGINE_CHANGE_CREATE || c->kind == ENGINE_CHANGE_RENAME);
	const bool folder = moved || json_is_true(json_object_get(w->paths, c->path));
	if (json_object_size(w->paths) >= PATHS_MAX ||
	    json_object_set_new_nocheck(w->paths, c->path, json_boolean(folder)) < 0)
		w->all = true;
}

static void flush_later(struct watched *w)
{
	if (w->flush || (!w->all && !w->paths))
		return;
	const uint64_t at = MAX(now_ns() + SOON_NS, w->told_ns + PAUSE_NS);
	/* Without a timer there is no notification, until the next change. */
	(void)sd_event_add_time(w->of->tools->config.loop, &w->flush, CLOCK_MONOTONIC,
				at / NS_PER_US, 0, on_flush, w);
}

/* ---- watching ---- */

static void on_news(const struct engine_news *news, const struct err *e UNUSED, void *user)
{
	struct watched *w = user;

	if (!news) {
		w->watch = NULL;
		w->begun = false;
		budget_give(&w->place);
		return;
	}
	w->begun = true;
	w->all |= news->overflow;
	w->partial |= news->partial;
	for (size_t i = 0; i < news->n_changes; i++)
		note(w, &news->changes[i]);
	flush_later(w);
	engine_watch_next(w->watch);
}

static void begin(struct watched *w, struct sandbox *s)
{
	struct err ignored = ERR_INIT; /* then the ends of runs tell, as far as they know */

	w->partial = false;
	if (budget_take(w->of->tools->config.budgets, w->owner, BUDGET_WATCHERS, 1, &w->place,
			&ignored) < 0)
		return;
	if (sandbox_watch(s, "", true, on_news, w, &w->watch, &ignored) < 0)
		budget_give(&w->place);
}

void resource_watches_count(struct resource_watches *r, const char *owner, const char *id,
			    bool more)
{
	struct watched *w = find(r, owner, id);

	if (!more) {
		if (w && --w->refs == 0)
			watched_free(w);
		return;
	}
	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w)
			return; /* the ends of runs tell */
		w->of = r;
		(void)snprintf(w->owner, sizeof(w->owner), "%s", owner);
		(void)snprintf(w->id, sizeof(w->id), "%s", id);
		list_append(bucket_of(r, id), &w->node);
		struct sandbox *s = manager_find(r->tools->config.manager, owner, id);
		if (s)
			begin(w, s);
	}
	w->refs++;
}

bool resource_watches_tell(struct resource_watches *r, struct sandbox *s)
{
	struct watched *w = find(r, sandbox_owner(s), sandbox_id(s));

	if (w && !w->watch)
		begin(w, s);
	return w && w->begun && !w->partial;
}

struct resource_watches *resource_watches_new(struct tools *t, struct mcp_server *server)
{
	struct resource_watches *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->tools = t;
	r->server = server;
	for (size_t i = 0; i < BUCKETS; i++)
		list_init(&r->buckets[i]);
	return r;
}

struct resource_watches *resource_watches_free(struct resource_watches *r)
{
	struct watched *w;

	for (size_t i = 0; r && i < BUCKETS; i++)
		while ((w = list_first(&r->buckets[i], struct watched, node)))
			watched_free(w);
	free(r);
	return NULL;
}
