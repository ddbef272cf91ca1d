/* SPDX-License-Identifier: Apache-2.0 */
/* The records of installations and the callers that wait for them. */
#include "packages/jobs.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define ACCURACY_US 1000u

static const char *const words[] = {
    [PACKAGE_INSTALLING] = "installing", [PACKAGE_SUCCESS] = "success", [PACKAGE_FAILED] = "failed",
    [PACKAGE_NOT_FOUND] = "not_found",   [PACKAGE_ERROR] = "error",
};

const char *package_word_name(enum package_word word)
{
	return words[word];
}

/* Does R belong to this sandbox, and not to an earlier one with the same id? */
static bool is_of(const struct record *r, const struct sandbox *s)
{
	return r->sandbox_ns == sandbox_created_ns(s) && streq(r->id, sandbox_id(s)) &&
	       streq(r->owner, sandbox_owner(s));
}

struct record *record_find(struct packages *p, const struct sandbox *s, const char *spec)
{
	list_for_each(l, &p->records) {
		struct record *r = list_entry(l, struct record, node);

		if (is_of(r, s) && streq(r->spec, spec))
			return r;
	}
	return NULL;
}

static void clear(struct record *r)
{
	free(r->message);
	free(r->errors);
	for (size_t i = 0; i < r->n_installed; i++)
		free(r->installed[i]);
	free(r->installed);
	r->message = r->errors = NULL;
	r->installed = NULL;
	r->n_installed = 0;
}

void packages_set_observer(struct packages *p, packages_observer_fn fn, void *user)
{
	p->observer = fn;
	p->observer_user = user;
}

static void show(const struct record *r, const char *text, unsigned done, unsigned total)
{
	const struct packages *p = r->packages;

	if (p->observer)
		p->observer(p->observer_user, r->owner, r->id, r->spec, r->word, text, done, total);
}

static void finish_waiter(struct waiter *w);

void record_free(struct record *r)
{
	ASSERT(!r->job);
	struct waiter *w;

	while ((w = list_first(&r->waiters, struct waiter, node)) != NULL)
		finish_waiter(w);
	list_remove(&r->node);
	r->packages->n_records--;
	clear(r);
	free(r->spec);
	free(r);
}

void record_sweep(struct packages *p)
{
	list_for_each(l, &p->records) {
		struct record *r = list_entry(l, struct record, node);
		const struct sandbox *s = manager_find(p->config.manager, r->owner, r->id);

		if (!r->job && (!s || !is_of(r, s)))
			record_free(r);
	}
}

void record_drop_ended(struct packages *p, const struct sandbox *s)
{
	list_for_each(l, &p->records) {
		struct record *r = list_entry(l, struct record, node);

		if (!r->job && is_of(r, s))
			record_free(r);
	}
}

/* Deletes the oldest ended record; the list is newest first. */
static void make_room(struct packages *p)
{
	struct record *oldest = NULL;

	list_for_each(l, &p->records) {
		struct record *r = list_entry(l, struct record, node);

		if (!r->job)
			oldest = r;
	}
	if (p->n_records >= RECORDS_MAX && oldest)
		record_free(oldest);
}

struct record *record_new(struct packages *p, const struct sandbox *s, const char *spec)
{
	struct record *r = record_find(p, s, spec);

	if (!r) {
		make_room(p);
		r = calloc(1, sizeof(*r));
		char *copy = strdup(spec);
		if (!r || !copy) {
			free(r);
			free(copy);
			return NULL;
		}
		r->packages = p;
		r->spec = copy;
		r->sandbox_ns = sandbox_created_ns(s);
		(void)snprintf(r->owner, sizeof(r->owner), "%s", sandbox_owner(s));
		(void)snprintf(r->id, sizeof(r->id), "%s", sandbox_id(s));
		list_init(&r->waiters);
		list_prepend(&p->records, &r->node);
		p->n_records++;
	}
	clear(r);
	r->word = PACKAGE_INSTALLING;
	r->start_wall_ns = now_wall_ns();
	r->start_ns = now_ns();
	r->end_wall_ns = r->end_ns = 0;
	show(r, "", 0, 0);
	return r;
}

/* ---- statuses ---- */

static void say(char *ret, size_t size, enum wait_kind kind, const char *spec)
{
	static const struct {
		const char *before, *after;
	} texts[] = {
	    [WAIT_INSTALL] = {"Installation of ", " in progress. Use "
						  "check_package_installation_status to monitor "
						  "progress."},
	    [WAIT_AGAIN] = {"Package ", " installation already in progress"},
	    [WAIT_CHECK] = {"Installing ", "..."},
	};

	(void)snprintf(ret, size, "%s%s%s", texts[kind].before, spec, texts[kind].after);
}

static void tell(const struct record *r, const struct waiter *w)
{
	char message[PACKAGES_SPEC_MAX + 200];
	bool ended = r->word != PACKAGE_INSTALLING;
	const char *text = ended ? r->message : message;

	if (!ended)
		say(message, sizeof(message), w->kind, r->spec);
	const struct package_status status = {
	    .word = r->word,
	    .message = text ? text : "",
	    .errors = r->errors ? r->errors : "",
	    .complete = ended,
	    .has_success = ended,
	    .success = r->word == PACKAGE_SUCCESS,
	    .from_check = w->kind == WAIT_CHECK,
	    .start_wall_ns = r->start_wall_ns,
	    .end_wall_ns = r->end_wall_ns,
	    .elapsed_ns = (ended ? r->end_ns : now_ns()) - r->start_ns,
	    .installed = (const char *const *)r->installed,
	    .n_installed = r->n_installed,
	};
	w->cb(&status, w->user);
}

void status_tell(packages_status_fn cb, void *user, enum package_word word, bool from_check,
		 const char *message, const char *errors)
{
	const struct package_status status = {
	    .word = word,
	    .message = message,
	    .errors = errors ? errors : "",
	    .complete = true,
	    .has_success = true,
	    .success = word == PACKAGE_SUCCESS,
	    .from_check = from_check,
	};
	cb(&status, user);
}

/* ---- waiting ---- */

static void finish_waiter(struct waiter *w)
{
	list_remove(&w->node);
	(void)sd_event_source_disable_unref(w->timer);
	tell(w->record, w);
	free(w);
}

static int on_patience(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	finish_waiter(user);
	return 0;
}

int record_wait(struct record *r, const struct packages_request *request, enum wait_kind kind,
		struct err *e)
{
	struct waiter *w = calloc(1, sizeof(*w));
	uint64_t wait_us = r->word == PACKAGE_INSTALLING ? request->wait_ns / NS_PER_US : 0;

	if (!w)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a status");
	w->record = r;
	w->kind = kind;
	w->cb = request->cb;
	w->progress = request->progress;
	w->user = request->user;
	/* If it has ended already, report it in the next turn of the event loop. */
	int x =
	    request->wait_ns == UINT64_MAX && r->word == PACKAGE_INSTALLING
		? 0
		: sd_event_add_time_relative(r->packages->config.loop, &w->timer, CLOCK_MONOTONIC,
					     wait_us, ACCURACY_US, on_patience, w);
	if (x < 0) {
		free(w);
		return err_set(e, ERR_SYSTEM, -x, "a status");
	}
	list_prepend(&r->waiters, &w->node);
	return 0;
}

void record_progress(struct record *r, const char *text, unsigned done, unsigned total)
{
	show(r, text, done, total);
	list_for_each(l, &r->waiters) {
		const struct waiter *w = list_entry(l, struct waiter, node);

		if (w->progress)
			w->progress(text, done, total, w->user);
	}
}

static void keep_installed(struct record *r, const json_t *installed)
{
	size_t n = MIN(json_array_size(installed), (size_t)PLAN_WHEELS_MAX);

	r->installed = calloc(n + 1, sizeof(*r->installed));
	for (size_t i = 0; r->installed && i < n; i++) {
		const char *text = json_string_value(json_array_get(installed, i));
		char *copy = text && strlen(text) <= SPEC_ITEM_MAX ? strdup(text) : NULL;
		if (copy)
			r->installed[r->n_installed++] = copy;
	}
}

void record_end(struct record *r, enum package_word word, const char *message, const char *errors,
		const json_t *installed)
{
	clear(r);
	r->word = word;
	r->message = strdup(message);
	r->errors = errors ? strdup(errors) : NULL;
	keep_installed(r, installed);
	r->end_wall_ns = now_wall_ns();
	r->end_ns = now_ns();
	r->job = NULL;
	show(r, message, 0, 0);
	struct waiter *w;
	while ((w = list_first(&r->waiters, struct waiter, node)) != NULL)
		finish_waiter(w);
}
