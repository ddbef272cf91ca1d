/* SPDX-License-Identifier: Apache-2.0 */
/* The manager itself, the table of sandboxes, and the end of those that are idle. */
#include "sandbox/manager.h"

#include "base/kill_points.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/options_pairs.h"
#include "sandbox/process.h"
#include "sandbox/rest.h"
#include "sandbox/secrets.h"

#include <sodium.h>
#include <string.h>

_Static_assert(sizeof(((struct manager *)0)->hash_key) == crypto_shorthash_KEYBYTES, "key size");

uint64_t manager_now(const struct manager *m)
{
	return m->config.now ? m->config.now() : now_ns();
}

static struct manager *manager_unref(struct manager *m)
{
	if (m && --m->refs == 0)
		free(m);
	return NULL;
}

/* ---- table ---- */

static struct list *bucket_of(struct manager *m, const char *owner, const char *id)
{
	char key[SANDBOX_OWNER_MAX + SANDBOX_ID_MAX + 2];
	uint8_t hash[crypto_shorthash_BYTES];
	uint32_t index;

	(void)snprintf(key, sizeof(key), "%s/%s", owner, id);
	(void)crypto_shorthash(hash, (const uint8_t *)key, strlen(key), m->hash_key);
	memcpy(&index, hash, sizeof(index));
	return &m->buckets[index % MANAGER_BUCKETS];
}

struct sandbox *manager_lookup(struct manager *m, const char *owner, const char *id)
{
	if (!parse_is_session_id(id, strlen(id)) || strlen(owner) > SANDBOX_OWNER_MAX)
		return NULL;
	list_for_each(l, bucket_of(m, owner, id)) {
		struct sandbox *s = list_entry(l, struct sandbox, node);

		if (streq(s->id, id) && streq(s->owner, owner))
			return s;
	}
	return NULL;
}

struct sandbox *manager_find(struct manager *m, const char *owner, const char *id)
{
	struct sandbox *s = manager_lookup(m, owner, id);

	return s && s->state != SANDBOX_CREATING ? s : NULL;
}

void manager_table_add(struct manager *m, struct sandbox *s)
{
	list_prepend(bucket_of(m, s->owner, s->id), &s->node);
	m->n++;
	m->n_stored += s->stored;
}

void manager_table_remove(struct sandbox *s)
{
	struct manager *m = s->manager;

	if (list_is_empty(&s->node))
		return;
	list_remove(&s->node);
	budget_give(&s->share);
	m->n--;
	m->n_stored -= s->stored;
	(void)sandbox_unref(s);
}

void manager_each(struct manager *m, const char *owner, void (*fn)(struct sandbox *s, void *user),
		  void *user)
{
	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);

			if (s->state == SANDBOX_READY && (!owner || streq(s->owner, owner)))
				fn(s, user);
		}
}

unsigned manager_count(const struct manager *m)
{
	return m->n;
}

const char *manager_image(const struct manager *m)
{
	return m->config.image;
}

void manager_pool(const struct manager *m, struct engine_pool *ret)
{
	*ret = (struct engine_pool){0};
	if (m->engine)
		engine_pool(m->engine, ret);
}

void manager_space(const struct manager *m, struct engine_space *ret)
{
	*ret = (struct engine_space){0};
	if (m->engine)
		engine_space(m->engine, ret);
}

/* ---- one sandbox ---- */

struct sandbox *sandbox_ref(struct sandbox *s)
{
	s->refs++;
	return s;
}

struct sandbox *sandbox_unref(struct sandbox *s)
{
	if (!s || --s->refs > 0)
		return NULL;
	sandbox_uncount_all(s);
	inventory_done(&s->inventory);
	file_marks_done(&s->marks);
	free(s->uploaded.rows);
	checkpoints_free(s->checkpoints);
	contexts_free(s);
	processes_forget_all(s);
	free(s->making);
	usage_log_free(s->usage);
	sandbox_close_gate(s);
	s->base = egress_policy_unref(s->base);
	free(s->choice);
	free(s->place);
	sandbox_options_done(&s->options);
	pairs_done(&s->former);
	sandbox_forget_secrets(s);
	s->manager = manager_unref(s->manager);
	free(s);
	return NULL;
}

const char *sandbox_id(const struct sandbox *s)
{
	return s->id;
}

const char *sandbox_owner(const struct sandbox *s)
{
	return s->owner;
}

const char *sandbox_place(const struct sandbox *s)
{
	return s->place;
}

bool sandbox_first_offline(struct sandbox *s)
{
	const bool first = !s->told_offline;

	s->told_offline = true;
	return first;
}

bool sandbox_first_kept(struct sandbox *s)
{
	const bool first = !s->told_kept;

	s->told_kept = true;
	return first;
}

int sandbox_set_place(struct sandbox *s, const char *path)
{
	const struct sandbox_records *records = s->manager->config.stored.records;
	char *copy = path ? strdup(path) : NULL;

	if (path && !copy)
		return -ENOMEM;
	const bool moved = !streq(s->place ? s->place : "", path ? path : "");
	free(s->place);
	s->place = copy;
	if (moved && s->stored && records && records->note_place)
		records->note_place(records->user, s->id, path ? path : "");
	return 0;
}

const struct sandbox_end *sandbox_earlier(const struct sandbox *s)
{
	return &s->earlier;
}

bool sandbox_is_rationed(const struct sandbox *s)
{
	return s->handle && engine_ration(s->handle) != ENGINE_RATION_ALL;
}

bool sandbox_is_stopped(const struct sandbox *s)
{
	return s->handle && engine_ration(s->handle) == ENGINE_RATION_NONE;
}

bool sandbox_is_busy(const struct sandbox *s)
{
	return s->run != NULL || s->n_beside > 0 || s->seized;
}

int sandbox_check_free(const struct sandbox *s, struct err *e)
{
	if (!s->seized)
		return 0;
	return err_set(e, ERR_SESSION_BUSY, 0,
		       "Session %s is being checkpointed, branched or forked. Wait for that.",
		       s->id);
}

const char *sandbox_parent(const struct sandbox *s)
{
	return s->parent;
}

bool sandbox_is_stored(const struct sandbox *s)
{
	return s->stored;
}

const char *sandbox_name(const struct sandbox *s)
{
	return s->name;
}

const char *sandbox_image(const struct sandbox *s)
{
	return s->image;
}

struct engine_sandbox *sandbox_engine(struct sandbox *s, struct err *e)
{
	s->keeps = true; /* packages are installed */
	return sandbox_use(s, e);
}

void sandbox_hold(struct sandbox *s, struct sandbox_hold *h)
{
	list_append(&s->holds, &h->node);
}

void sandbox_release(struct sandbox *s, struct sandbox_hold *h)
{
	list_remove(&h->node);
	sandbox_touch(s);
}

void sandbox_end_holds(struct sandbox *s)
{
	struct sandbox_hold *h;

	while ((h = list_pop_first(&s->holds, struct sandbox_hold, node)))
		h->ended(h);
}

bool sandbox_is_idle(const struct sandbox *s)
{
	return !s->run && s->n_beside == 0 && !s->seized && list_is_empty(&s->queue) &&
	       list_is_empty(&s->uploads) && list_is_empty(&s->writers) &&
	       list_is_empty(&s->holds) && s->n_processes == 0;
}

uint64_t manager_run_timeout_max_ns(const struct manager *m)
{
	const struct manager_config *c = &m->config;

	if (c->run_timeout_max_ns == 0 || c->run_timeout_ns == 0)
		return 0;
	return MAX(MAX(c->run_timeout_max_ns, c->run_timeout_ns), c->stored.run_timeout_ns);
}

uint64_t sandbox_output_max(const struct sandbox *s)
{
	const struct manager_config *c = &s->manager->config;

	return s->stored ? c->stored.output_max : c->output_max;
}

uint64_t sandbox_age_ns(const struct sandbox *s)
{
	return manager_now(s->manager) - s->created_ns;
}

uint64_t sandbox_created_ns(const struct sandbox *s)
{
	return s->created_ns;
}

uint64_t sandbox_idle_ns(const struct sandbox *s)
{
	return manager_now(s->manager) - s->used_ns;
}

bool sandbox_keeps(const struct sandbox *s)
{
	return s->keeps;
}

uint64_t sandbox_runs(const struct sandbox *s)
{
	return s->runs;
}

const char *sandbox_last_run(const struct sandbox *s)
{
	return s->last_run;
}

const struct engine_policy *sandbox_policy(const struct sandbox *s)
{
	return &s->policy;
}

void sandbox_touch(struct sandbox *s)
{
	s->used_ns = manager_now(s->manager);
}

void manager_watch(struct manager *m, sandbox_watch_fn fn, void *user)
{
	m->watcher = fn;
	m->watcher_user = user;
}

void manager_set_accounting(struct manager *m, const struct manager_accounting *a)
{
	m->accounting = *a;
}

void manager_set_observer(struct manager *m, const struct manager_observer *observer)
{
	m->observer = *observer;
}

void sandbox_tell(struct sandbox *s, enum sandbox_news what, const char *name)
{
	const struct manager_observer *w = &s->manager->observer;

	if (w->news && !s->manager->closing)
		w->news(w->user, s->owner, s->id, s, what, name);
}

int sandbox_admit_work(struct sandbox *s, struct err *e)
{
	const struct manager_accounting *accounting = &s->manager->accounting;

	return accounting->admit_work ? accounting->admit_work(accounting->user, s, e) : 0;
}

void sandbox_note_work(struct sandbox *s, const char *kind, uint64_t duration_ns, uint64_t cpu_ns)
{
	const struct manager_accounting *accounting = &s->manager->accounting;

	if (accounting->note_work)
		accounting->note_work(accounting->user, s, kind, duration_ns, cpu_ns);
}

void sandbox_changed(struct sandbox *s, const char *path)
{
	if (s->manager->watcher && !s->manager->closing)
		s->manager->watcher(s, path, NULL, s->manager->watcher_user);
}

void sandbox_run_changed(struct sandbox *s, const struct run_result *result)
{
	const bool news = result->n_artifacts > 0 || result->n_gone > 0 || result->gone_more;

	if (news && s->manager->watcher && !s->manager->closing)
		s->manager->watcher(s, NULL, result, s->manager->watcher_user);
}

void sandbox_forget_inventory(struct sandbox *s)
{
	s->inventory_known = false;
	s->inventory_epoch++;
	if (!s->run) /* else it is compared with the files after the run */
		inventory_done(&s->inventory);
}

struct engine_sandbox *sandbox_use(struct sandbox *s, struct err *e)
{
	if (s->state == SANDBOX_READY) {
		sandbox_touch(s);
		return s->handle;
	}
	if (s->state == SANDBOX_LOST) {
		struct err ignored = ERR_INIT;
		(void)err_set(e, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended on its own", s->id);
		session_note_end(s, SANDBOX_END_LOST);
		(void)!sandbox_drop(s, NULL, NULL, &ignored);
		return NULL;
	}
	(void)err_set(e, ERR_SESSION_NOT_FOUND, 0, "No active session with id %s", s->id);
	return NULL;
}

int sandbox_get_usage(struct sandbox *s, engine_usage_fn cb, void *user, struct err *e)
{
	/* A request for the usage does not restart the idle clock. */
	uint64_t used = s->used_ns;
	struct engine_sandbox *handle = sandbox_use(s, e);

	if (!handle)
		return -ENOENT;
	s->used_ns = used;
	return engine_usage(handle, cb, user, e);
}

/* ---- expiry ---- */

static void sweep_one(struct sandbox *s)
{
	uint64_t idle = sandbox_idle_ns(s);
	struct err e = ERR_INIT;

	if (s->state == SANDBOX_CREATING ||
	    (s->state == SANDBOX_READY && idle <= sandbox_ttl_ns(s)))
		return;
	if (s->stored ? !sandbox_is_idle(s) : sandbox_is_busy(s) || !list_is_empty(&s->holds)) {
		LOG_INFO("session_ttl_deferred_busy", LOG_S("session_id", s->id));
		return;
	}
	LOG_INFO("session_ttl_expired", LOG_S("session_id", s->id),
		 LOG_U("idle_minutes", idle / NS_PER_S / 60));
	session_note_end(s, s->state == SANDBOX_LOST ? SANDBOX_END_LOST : SANDBOX_END_UNUSED);
	if (sandbox_rest(s, &e) < 0)
		LOG_ERROR("session_destroy_failed", LOG_S("session_id", s->id),
			  LOG_S("error", e.text));
}

void manager_sweep(struct manager *m)
{
	LOG_DEBUG("ttl_cleanup_started", LOG_U("sessions", m->n));
	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i])
			sweep_one(list_entry(l, struct sandbox, node));
}

static int on_sweep(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct manager *m = user;

	loop_work("timer", "sweep of sandboxes");
	manager_sweep(m);
	(void)sd_event_source_set_time_relative(source, m->config.sweep_ns / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- manager ---- */

int manager_new(const struct manager_config *config, struct manager **ret, struct err *e)
{
	if (sodium_init() < 0)
		return err_set(e, ERR_SYSTEM, 0, "libsodium does not start");
	struct manager *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the table of sandboxes");
	m->config = *config;
	/* Of every request, also that of the pool: a sandbox that was made ahead of need may get more later, too. */
	m->config.limits.pids_most = m->config.stored.limits.pids_most =
	    (uint32_t)manager_option_max(m, SANDBOX_OPTION_PROCESSES);
	if (config->budgets) {
		budgets_set(config->budgets, BUDGET_SANDBOXES,
			    &(struct budget_bounds){.total = config->max_sandboxes});
		budgets_set(config->budgets, BUDGET_ACTIVE_STORED,
			    &(struct budget_bounds){.total = config->stored.max_active});
	}
	m->refs = 1;
	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_init(&m->buckets[i]);
	stored_begin(m);
	list_init(&m->replies);
	list_init(&m->removed);
	list_init(&m->ends);
	rand_bytes(m->hash_key, sizeof(m->hash_key));
	int r = sd_event_add_time_relative(config->loop, &m->sweep_timer, CLOCK_MONOTONIC,
					   config->sweep_ns / NS_PER_US, NS_PER_S / NS_PER_US,
					   on_sweep, m);
	if (r < 0) {
		free(m);
		return err_set(e, ERR_SYSTEM, -r, "a timer");
	}
	*ret = m;
	return 0;
}

static const char *cap_name(uint32_t caps)
{
	static const struct {
		uint32_t cap;
		const char *name;
	} names[] = {
	    {ENGINE_CAP_MEMORY, "SANDBOX_MEMORY_LIMIT"},
	    {ENGINE_CAP_CPU, "SANDBOX_CPU_LIMIT"},
	    {ENGINE_CAP_PIDS, "SANDBOX_PIDS_LIMIT"},
	    {ENGINE_CAP_DISK, "SANDBOX_WORKSPACE_LIMIT"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (caps & names[i].cap)
			return names[i].name;
	return "a limit";
}

int manager_start(struct manager *m, struct err *e)
{
	if (m->engine && engine_lost(m->engine)) {
		*e = *engine_lost(m->engine);
		return -EPIPE;
	}
	if (m->engine)
		return 0;
	if (m->refused.code != ERR_NONE) {
		*e = m->refused;
		return -EPERM;
	}
	struct engine *engine;
	int r = m->config.open_engine(m->config.user, &engine, e);
	if (r < 0)
		return r;
	uint32_t missing = m->config.limits.explicit_mask & ~engine_caps(engine);
	if (missing != 0) {
		engine_close(engine);
		r = err_set(&m->refused, ERR_LIMIT_NOT_ENFORCEABLE, 0,
			    "%s was set and cannot be enforced on this machine", cap_name(missing));
		*e = m->refused;
		return r;
	}
	m->engine = engine;
	engine_on_end(engine, m->engine_lost, m->engine_lost_user);
	const struct engine_create create = manager_request(m);
	engine_prepare(engine, &create);
	return 0;
}

void manager_on_engine_lost(struct manager *m, engine_end_fn cb, void *user)
{
	m->engine_lost = cb;
	m->engine_lost_user = user;
	if (m->engine)
		engine_on_end(m->engine, cb, user);
}

struct engine *manager_engine(struct manager *m)
{
	return m->engine;
}

struct manager *manager_free(struct manager *m)
{
	if (!m)
		return NULL;
	m->closing = true;
	m->sweep_timer = sd_event_source_disable_unref(m->sweep_timer);
	m->measure_timer = sd_event_source_disable_unref(m->measure_timer);
	m->rest_limit = sd_event_source_disable_unref(m->rest_limit);
	if (m->engine) {
		/* Ends all creations, runs and file calls; their callbacks are called from inside.
		 */
		engine_close(m->engine);
		m->engine = NULL;
	}
	rest_end_all(m);
	stored_end_all(m);
	session_forget_ends(m);
	manager_forget_owners(m);
	manager_flush_replies(m);
	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);

			s->state = SANDBOX_CLOSED;
			s->handle = NULL;
			sandbox_close_gate(s);
			file_writers_end(s);
			manager_table_remove(s);
		}
	return manager_unref(m);
}
