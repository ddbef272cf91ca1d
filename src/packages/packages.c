/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls and the queue of jobs. A sandbox has one installation at a time, the server a
 * few. Listing and checking never wait. */
#include "packages/jobs.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <string.h>

#define ACCURACY_US 10000u
#define PYPI_HOST   "pypi.org"
#define PYPI_FILES  "files.pythonhosted.org:443"

/* ---- the service ---- */

static bool has_extra_index(const struct packages_config *config)
{
	return config->extra_index_url && *config->extra_index_url;
}

static int fill_policy(const struct packages_config *config, const struct url *index,
		       struct egress_policy *policy, struct err *e)
{
	char rule[300];
	struct url extra;
	int r;

	(void)snprintf(rule, sizeof(rule), "%s:%u", index->host, index->port);
	r = config->index_is_trusted ? egress_policy_trust(policy, index->host, index->port, e)
				     : egress_policy_add(policy, rule, e);
	if (r == 0 && streq(index->host, PYPI_HOST))
		r = egress_policy_add(policy, PYPI_FILES, e);
	if (r == 0 && has_extra_index(config)) {
		r = url_parse(config->extra_index_url, &extra, e);
		r = r < 0 ? r : egress_policy_trust(policy, extra.host, extra.port, e);
	}
	if (r == 0 && config->extra_hosts)
		r = egress_policy_add(policy, config->extra_hosts, e);
	if (r == 0 && egress_policy_index(policy, url_path(config->index_url)) < 0)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the policy of packages");
	egress_policy_allow_special(policy);
	return r;
}

struct egress_policy *packages_policy(const struct packages_config *config, struct err *e)
{
	struct egress_policy *policy = egress_policy_new(EGRESS_PACKAGES);
	struct url index;

	if (!policy)
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the policy of packages");
	/* Without an index a resolver needs no way out. */
	else if (config->wheel_fd < 0 && (url_parse(config->index_url, &index, e) < 0 ||
					  fill_policy(config, &index, policy, e) < 0))
		policy = egress_policy_unref(policy);
	return policy;
}

static char *copy(const char *text)
{
	return strdup(text ? text : "");
}

int packages_new(const struct packages_config *config, struct packages **ret, struct err *e)
{
	struct packages *p = calloc(1, sizeof(*p));
	int r = 0;

	if (!p) {
		(void)fd_close(config->ca_fd);
		(void)fd_close(config->cache_fd);
		(void)fd_close(config->wheel_fd);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the installation of packages");
	}
	list_init(&p->jobs);
	list_init(&p->records);
	p->config = *config;
	p->index_url = copy(config->index_url);
	p->extra_index_url = copy(config->extra_index_url);
	p->extra_hosts = copy(config->extra_hosts);
	p->cache = cache_new(config->cache_fd, config->cache_bytes);
	p->plans = plans_new(config->plan_ttl_ns);
	p->entries = json_object();
	if (!p->index_url || !p->extra_index_url || !p->extra_hosts || !p->cache || !p->plans ||
	    !p->entries)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the installation of packages");
	if (r == 0 && p->config.wheel_fd < 0) {
		r = url_parse(p->index_url, &p->index, e);
		if (r == 0 && has_extra_index(config))
			r = url_parse(p->extra_index_url, &p->extra_index, e);
		p->policy = r < 0 ? NULL : packages_policy(config, e);
		r = p->policy ? 0 : -EINVAL;
	}
	if (r < 0) {
		(void)packages_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct packages *packages_free(struct packages *p)
{
	struct err e = ERR_INIT;

	if (!p)
		return NULL;
	p->closing = true;
	(void)err_set(&e, ERR_CANCELLED, 0, "the server ends");
	while (!list_is_empty(&p->jobs))
		job_fail_err(list_first(&p->jobs, struct job, node), &e, NULL);
	while (!list_is_empty(&p->records))
		record_free(list_first(&p->records, struct record, node));
	p->plans = plans_free(p->plans);
	json_decref(p->entries);
	p->cache = cache_free(p->cache);
	p->policy = egress_policy_unref(p->policy);
	free(p->index_url);
	free(p->extra_index_url);
	(void)fd_close(p->config.wheel_fd);
	(void)fd_close(p->config.ca_fd);
	free(p->extra_hosts);
	free(p);
	return NULL;
}

/* ---- jobs ---- */

/* Changes nothing in its sandbox, so it need not wait for its turn there. */
static bool looks_only(const struct job *j)
{
	return j->kind == JOB_LIST || j->kind == JOB_CHECK || j->kind == JOB_LOOK_UP;
}

/* Counts as work of the sandbox, which its owner may have used up. */
static bool is_work(enum job_kind kind)
{
	return kind != JOB_LIST && kind != JOB_CHECK;
}

void job_free(struct job *j)
{
	list_remove(&j->node);
	budget_give(&j->place);
	j->cpu_ns += packages_sandbox_cpu_ns(j->helper) + packages_sandbox_cpu_ns(j->resolver);
	if (j->sandbox && j->working && is_work(j->kind))
		sandbox_note_work(j->sandbox, "install", now_ns() - j->start_ns, j->cpu_ns);
	j->helper = packages_sandbox_free(j->helper);
	j->resolver = packages_sandbox_free(j->resolver);
	if (j->step)
		j->step->job = NULL;
	(void)sd_event_source_disable_unref(j->timer);
	(void)sd_event_source_disable_unref(j->start);
	plan_done(&j->plan);
	json_decref(j->have);
	workers_close(j->sandbox ? sandbox_owner(j->sandbox) : "", j->giving);
	sandbox_release(j->sandbox, &j->hold);
	(void)sandbox_unref(j->sandbox);
	free(j->spec);
	free(j->text);
	free(j);
}

static int on_start(sd_event_source *source UNUSED, void *user)
{
	struct job *j = user;
	struct err e = ERR_INIT;

	loop_work("packages", "start");
	if (j->orphan) {
		(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox has ended");
		job_fail_err(j, &e, NULL);
	} else if (j->kind == JOB_LOOK_UP) {
		job_look_up(j);
	} else {
		job_start(j);
	}
	return 0;
}

/* Without its sandbox nothing of a job is needed, whatever it waits for: its place, its helper and its download end. Not
 * from inside the end of the sandbox, where the callers of the job must not be called. */
static void on_sandbox_ended(struct sandbox_hold *h)
{
	struct job *j = list_entry(h, struct job, hold);

	j->orphan = true;
	(void)sd_event_source_set_enabled(j->start, SD_EVENT_ONESHOT);
}

/* Starts a job in the next turn of the event loop, so that no callback comes before the caller's
 * call has returned. */
static void begin(struct job *j)
{
	j->working = true;
	j->start_ns = now_ns();
	(void)sd_event_source_set_enabled(j->start, SD_EVENT_ONESHOT);
}

/* How many jobs of OWNER are at work (NULL: of everybody). LOOKERS: counts the jobs that only look;
 * else those that change something. */
static unsigned n_working(const struct packages *p, bool lookers, const char *owner)
{
	unsigned n = 0;

	list_for_each(l, &p->jobs) {
		const struct job *j = list_entry(l, struct job, node);

		n += j->working && looks_only(j) == lookers &&
		     (!owner || streq(sandbox_owner(j->sandbox), owner));
	}
	return n;
}

/* May the owner of J have one more place? One owner never gets the last quarter of the places, so that a job of somebody
 * else need not wait for a whole installation. The local user competes with nobody. */
static bool has_place(const struct packages *p, const struct job *j)
{
	unsigned max = looks_only(j) ? LOOKERS_MAX : INSTALLERS_MAX;
	const char *owner = sandbox_owner(j->sandbox);

	return !*owner || n_working(p, looks_only(j), owner) < max - max / 4;
}

/* Does J wait for an earlier job of its sandbox? Those that change something run in the order of arrival. */
static bool waits_for_another(const struct packages *p, const struct job *j)
{
	for (struct list *m = p->jobs.next; m != &j->node && !looks_only(j); m = m->next) {
		const struct job *o = list_entry(m, struct job, node);

		if (!looks_only(o) && o->sandbox == j->sandbox)
			return true;
	}
	return false;
}

/* The job that starts next: of those that may, one of whoever has the fewest at work, the oldest of them.
 * So a newcomer does not wait for everything that others have asked for. NULL: none may start. */
static struct job *next_job(struct packages *p)
{
	const bool places[] = {n_working(p, false, NULL) < INSTALLERS_MAX,
			       n_working(p, true, NULL) < LOOKERS_MAX};
	struct job *best = NULL;
	unsigned fewest = 0;

	list_for_each(l, &p->jobs) {
		struct job *j = list_entry(l, struct job, node);

		if (j->working || !places[looks_only(j)])
			continue;
		const unsigned n = n_working(p, looks_only(j), sandbox_owner(j->sandbox));
		if ((best && n >= fewest) || !has_place(p, j) || waits_for_another(p, j))
			continue;
		best = j;
		fewest = n;
	}
	return best;
}

/* Starts every waiting job that may start. */
void packages_pump(struct packages *p)
{
	struct job *j;

	while (!p->closing && (j = next_job(p)))
		begin(j);
}

static int on_deadline(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct job *j = user;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_TIMEOUT, 0, "it took longer than %ju s",
		      (uintmax_t)(j->packages->config.timeout_ns / NS_PER_S));
	job_fail_err(j, &e, NULL);
	return 0;
}

static struct job *job_new(struct packages *p, struct sandbox *s, enum job_kind kind,
			   const char *text, struct err *e)
{
	struct budget_share place = {0};
	struct job *j;

	if (is_work(kind) && sandbox_admit_work(s, e) < 0)
		return NULL;
	if (budget_take(p->config.budgets, sandbox_owner(s), BUDGET_INSTALLATIONS, 1, &place, e) <
	    0)
		return NULL;
	j = calloc(1, sizeof(*j));
	if (!j) {
		budget_give(&place);
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an installation");
		return NULL;
	}
	j->place = place;
	j->packages = p;
	j->kind = kind;
	j->giving = -1;
	j->sandbox = sandbox_ref(s);
	j->hold.ended = on_sandbox_ended;
	sandbox_hold(s, &j->hold);
	list_append(&p->jobs, &j->node);
	j->text = strdup(text);
	j->spec = calloc(1, sizeof(*j->spec));
	int r = j->text && j->spec ? 0 : -ENOMEM;
	r = r < 0 ? r
		  : sd_event_add_time_relative(p->config.loop, &j->timer, CLOCK_MONOTONIC,
					       p->config.timeout_ns / NS_PER_US, ACCURACY_US,
					       on_deadline, j);
	/* Made here, where a failure can still be returned; begin() enables it. */
	if (r >= 0)
		r = sd_event_add_defer(p->config.loop, &j->start, on_start, j);
	if (r >= 0)
		r = sd_event_source_set_enabled(j->start, SD_EVENT_OFF);
	if (r < 0) {
		job_free(j);
		(void)err_set(e, ERR_OUT_OF_MEMORY, -r, "an installation");
		return NULL;
	}
	return j;
}

/* ---- calls ---- */

int packages_install(struct packages *p, struct sandbox *s, const struct packages_request *request,
		     struct err *e)
{
	struct record *record;

	record_sweep(p);
	record = record_find(p, s, request->spec);
	if (record && record->job)
		return record_wait(
		    record, &(struct packages_request){.cb = request->cb, .user = request->user},
		    WAIT_AGAIN, e);
	struct job *j = job_new(p, s, JOB_INSTALL, request->spec, e);
	if (!j)
		return -ENOMEM;
	int r = spec_parse(request->spec, strlen(request->spec), j->spec, e);
	if (r < 0) {
		job_free(j);
		return r;
	}
	record = record_new(p, s, request->spec);
	if (!record) {
		job_free(j);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an installation");
	}
	r = record_wait(record, request, WAIT_INSTALL, e);
	if (r < 0) {
		job_free(j);
		record_free(record);
		return r;
	}
	j->record = record;
	record->job = j;
	packages_pump(p);
	return 0;
}

int packages_check(struct packages *p, struct sandbox *s, const struct packages_request *request,
		   struct err *e)
{
	record_sweep(p);
	struct record *record = record_find(p, s, request->spec);
	if (record)
		return record_wait(record, request, WAIT_CHECK, e);
	struct job *j = job_new(p, s, JOB_CHECK, request->spec, e);
	if (!j)
		return -ENOMEM;
	j->cb = request->cb;
	j->user = request->user;
	int r = spec_parse(request->spec, strlen(request->spec), j->spec, e);
	if (r < 0) {
		job_free(j);
		return r;
	}
	packages_pump(p);
	return 0;
}

int packages_cancel(struct packages *p, struct sandbox *s, const char *spec, struct err *e)
{
	struct record *record = record_find(p, s, spec);

	if (!record || !record->job) {
		(void)err_set(e, ERR_NOT_FOUND, 0, "no installation of '%.200s' is at work", spec);
		return -ENOENT;
	}
	job_fail(record->job, "cancelled", NULL);
	return 0;
}

int packages_uninstall(struct packages *p, struct sandbox *s,
		       const struct packages_request *request, struct err *e)
{
	struct job *j = job_new(p, s, JOB_UNINSTALL, request->spec, e);

	if (!j)
		return -ENOMEM;
	j->cb = request->cb;
	j->user = request->user;
	int r = spec_parse(request->spec, strlen(request->spec), j->spec, e);
	for (size_t i = 0; r == 0 && i < j->spec->n; i++) {
		if (j->spec->items[i].bare)
			continue;
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "'%.200s': packages are removed by their plain names",
			      j->spec->items[i].text);
		r = -EINVAL;
	}
	if (r < 0) {
		job_free(j);
		return r;
	}
	packages_pump(p);
	return 0;
}

int packages_list(struct packages *p, struct sandbox *s, bool all, packages_list_fn cb, void *user,
		  struct err *e)
{
	struct job *j = job_new(p, s, JOB_LIST, "", e);

	if (!j)
		return -ENOMEM;
	j->all = all;
	j->list_cb = cb;
	j->user = user;
	packages_pump(p);
	return 0;
}

int packages_look_up(struct packages *p, struct sandbox *s, const char *name, packages_entry_fn cb,
		     void *user, struct err *e)
{
	struct job *j = job_new(p, s, JOB_LOOK_UP, name, e);

	if (!j)
		return -ENOMEM;
	int r = spec_parse(name, strlen(name), j->spec, e);
	if (r == 0 && (j->spec->n != 1 || !j->spec->items[0].bare))
		r = err_set(e, ERR_INVALID_ARGUMENT, EINVAL,
			    "'%.200s' is not the name of one package", name);
	if (r < 0) {
		job_free(j);
		return r;
	}
	j->entry_cb = cb;
	j->user = user;
	packages_pump(p);
	return 0;
}
