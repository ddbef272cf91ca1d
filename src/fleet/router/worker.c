/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: who is there, who answers, and what they say of themselves. */
#include "fleet/router/moves.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define TICK_US       (UINT64_C(1000) * 1000)
#define ANSWER_MS     2000u
#define STATE_MAX     (64u << 10)
#define STATE_VALUES  1024u /* it is read on the loop */
#define STATE_DEPTH   8u
#define FRESH_NS      (2500 * NS_PER_MS) /* two questions in a row had no answer */
#define CUT_NS        (10 * NS_PER_S)    /* what is under way at a worker that says nothing fails */
#define SANDBOXES_MAX INT64_C(1000000)

bool worker_is_fresh(const struct worker *w)
{
	return now_ns() - w->good_ns < FRESH_NS;
}

bool worker_is_usable(const struct worker *w)
{
	return w->listed && w->known && !w->refused && w->ready && !w->draining && w->missed == 0 &&
	       worker_is_fresh(w);
}

bool worker_offers(const struct worker *w, const struct bound *b)
{
	return !b->face_row || w->has_face;
}

struct worker *worker_find(struct fleet_router *f, const char id[FLEET_WORKER_SIZE])
{
	list_for_each(node, &f->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (w->known && !w->refused && streq(w->id, id))
			return w;
	}
	return NULL;
}

/* ---- asking ---- */

struct state {
	const char *worker, *epoch, *name, *version, *uses, *stored;
	int ready, draining;
	json_int_t open, max;
	const json_t *faces;
};

static bool is_digits(const char *s, size_t len, const char *digits)
{
	return strlen(s) == len && strspn(s, digits) == len;
}

static bool read_state(json_t *root, struct state *ret)
{
	int version = 0;

	if (json_unpack(root, "{s:i, s:s, s:s, s?s, s?s, s?s, s?s, s:b, s:b, s:{s:I, s:I}, s?o}",
			"v", &version, "worker", &ret->worker, "epoch", &ret->epoch, "uses",
			&ret->uses, "stored", &ret->stored, "name", &ret->name, "version",
			&ret->version, "ready", &ret->ready, "draining", &ret->draining,
			"sandboxes", "open", &ret->open, "max", &ret->max, "faces",
			&ret->faces) < 0)
		return false;
	return version == 1 &&
	       is_digits(ret->worker, FLEET_WORKER_SIZE - 1,
			 "0123456789abcdefghijklmnopqrstuvwxyz") &&
	       is_digits(ret->epoch, FLEET_EPOCH_SIZE - 1, "0123456789abcdef") &&
	       (!ret->uses || fleet_is_version(ret->uses)) && ret->open >= 0 &&
	       ret->open <= SANDBOXES_MAX && ret->max >= 0 && ret->max <= SANDBOXES_MAX;
}

/* May W have ID? While an address is listed, the id that it has told is its own, also while it does not answer: else whoever has
 * taken another worker over would claim it then, and get the requests for what is there. An address that is listed no more gives its
 * id to a new one, unless it answers still; if it comes back and was never started anew, it is the one that the ids name. */
static bool claim(struct worker *w, const char *id, const char *epoch)
{
	const bool had = !w->refused && streq(w->id, id);
	const bool same = had && streq(w->epoch, epoch);

	if (!w->listed && !had)
		return false;
	list_for_each(node, &w->router->workers) {
		struct worker *other = list_entry(node, struct worker, node);

		if (other == w || !other->known || other->refused || !streq(other->id, id))
			continue;
		if (!same &&
		    (other->listed || (other->missed == 0 && now_ns() - other->good_ns < FRESH_NS)))
			return false;
		other->known = false;
	}
	return true;
}

/* A worker of a version that does not say it cannot tell lists of a face either. */
static bool names_face(const json_t *faces, const struct fleet_face *face)
{
	const json_t *one;
	size_t i;

	json_array_foreach(faces, i, one)
		if (face && json_is_string(one) && streq(json_string_value(one), face->name))
			return true;
	return false;
}

static void take_state(struct worker *w, const struct state *s)
{
	const bool was_refused = w->refused, was_usable = worker_is_usable(w);

	if (!streq(w->epoch, s->epoch))
		uses_forget(w);
	w->refused = !claim(w, s->worker, s->epoch);
	w->known = true;
	w->ready = s->ready;
	w->draining = s->draining;
	w->has_face = names_face(s->faces, w->router->face);
	w->missed = 0;
	w->told = false;
	w->good_ns = now_ns();
	(void)!text_copy(w->id, sizeof(w->id), s->worker);
	(void)!text_copy(w->epoch, sizeof(w->epoch), s->epoch);
	/* For people alone: what is too long is left out. */
	w->name[0] = w->version[0] = '\0';
	(void)!text_copy(w->name, sizeof(w->name), s->name ? s->name : "");
	(void)!text_copy(w->version, sizeof(w->version), s->version ? s->version : "");
	w->open = (uint64_t)s->open;
	w->max = (uint64_t)s->max;
	uses_heard(w, w->refused ? NULL : s->uses, w->asked_ns);
	moves_heard(w, w->refused ? NULL : s->stored);
	if (w->refused && !was_refused)
		LOG_ERROR(
		    "worker_refused", LOG_S("worker", w->id), LOG_S("address", w->at.text),
		    LOG_S("remedy",
			  "another worker has the same short id: give one of them another "
			  "SANDBOX_FLEET_NAME, or take the address of one that is gone out of "
			  "the list"));
	if (!was_usable && worker_is_usable(w))
		LOG_INFO("worker_ready", LOG_S("worker", w->id), LOG_S("address", w->at.text));
}

static void miss(struct worker *w, const char *why)
{
	w->missed++;
	if (!w->told || w->missed % 60 == 0)
		LOG_WARNING("worker_silent", LOG_S("worker", w->id), LOG_S("address", w->at.text),
			    LOG_S("error", why));
	w->told = true;
}

static void on_state(const struct fetch_answer *a, void *user)
{
	struct worker *w = user;
	struct state s = {0};

	w->check = NULL;
	if (a->status != 200) {
		miss(w, a->status == 0 ? a->why : "it refuses to tell its state");
		return;
	}
	json_t *root = NULL;
	if (fetch_json(a, STATE_VALUES, STATE_DEPTH, &root) == 0 && read_state(root, &s))
		take_state(w, &s);
	else
		miss(w, "its state is none of this version");
	json_decref(root);
}

static void ask(struct worker *w)
{
	char head[256];

	if (w->check)
		return;
	w->asked_ns = now_ns();
	(void)snprintf(head, sizeof(head),
		       "GET /fleet/state HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n\r\n",
		       w->at.text);
	w->check = fetch_begin(w, head, STATE_MAX, ANSWER_MS, on_state, w);
	if (!w->check)
		miss(w, "no memory");
}

void worker_doubt(struct worker *w)
{
	w->missed = MAX(w->missed, 1u);
}

/* ---- life ---- */

static void worker_free(struct worker *w)
{
	w->check = fetch_drop(w->check);
	look_drop(w);
	hops_fail(w);
	uses_forget(w);
	moves_worker_gone(w);
	links_tidy(w, true);
	list_remove(&w->node);
	free(w);
}

static int on_tick(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct fleet_router *f = user;
	const uint64_t now = now_ns();

	loop_work("fleet", "tick");
	list_for_each(node, &f->workers) {
		struct worker *w = list_entry(node, struct worker, node);
		const uint64_t silent_ns = now - MAX(w->good_ns, f->began_ns);

		worker_note_state(w);
		links_tidy(w, !w->listed);
		if (silent_ns > FLEET_LOST_S * NS_PER_S)
			uses_forget(w);
		if (w->n_hops > 0 && silent_ns > CUT_NS)
			hops_fail(w);
		if (!w->listed && w->n_hops == 0 && w->n_fetches == 0 &&
		    silent_ns > FLEET_LOST_S * NS_PER_S)
			worker_free(w);
		else
			ask(w);
	}
	forgets_go(f);
	moves_tick(f);
	feeds_go(f);
	(void)sd_event_source_set_time_relative(source, TICK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static struct worker *worker_at(struct fleet_router *f, const char *text)
{
	list_for_each(node, &f->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (streq(w->at.text, text))
			return w;
	}
	return NULL;
}

void fleet_router_set_tls(struct fleet_router *f, struct http_tls_client *tls)
{
	f->config.tls = tls;
	list_for_each(node, &f->workers)
		links_tidy(list_entry(node, struct worker, node), true);
}

void fleet_router_set_members(struct fleet_router *f, const struct fleet_members *m)
{
	list_for_each(node, &f->workers)
		list_entry(node, struct worker, node)->listed = false;
	for (size_t i = 0; i < m->n; i++) {
		struct worker *w = worker_at(f, m->at[i].text);

		if (!w) {
			w = calloc(1, sizeof(*w));
			if (!w)
				return;
			w->router = f;
			w->at = m->at[i];
			list_init(&w->links);
			list_init(&w->hops);
			list_init(&w->placings);
			list_append(&f->workers, &w->node);
			ask(w);
		}
		w->listed = true;
	}
}

int fleet_router_new(const struct fleet_router_config *config, struct fleet_router **ret,
		     struct err *e)
{
	struct fleet_router *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the router");
	f->config = *config;
	f->began_ns = now_ns();
	list_init(&f->workers);
	list_init(&f->bounds);
	list_init(&f->lists);
	list_init(&f->feeds);
	list_init(&f->forgets);
	int r = uses_begin(f, e);
	r = r < 0 ? r
		  : sd_event_add_time_relative(config->loop, &f->tick, CLOCK_MONOTONIC, TICK_US,
					       TICK_US / 20, on_tick, f);
	r = r < 0 ? r : looks_begin(f);
	r = r < 0 ? r : moves_begin(f, e);
	if (r < 0) {
		uses_done(f);
		(void)sd_event_source_disable_unref(f->tick);
		free(f);
		return err_set(e, ERR_SYSTEM, -r, "the router");
	}
	*ret = f;
	return 0;
}

struct fleet_router *fleet_router_free(struct fleet_router *f)
{
	if (!f)
		return NULL;
	f->tick = sd_event_source_disable_unref(f->tick);
	looks_done(f);
	moves_done(f);
	merges_done(f);
	feeds_done(f);
	forgets_done(f);
	list_for_each(node, &f->workers)
		worker_free(list_entry(node, struct worker, node));
	list_for_each(node, &f->bounds) {
		list_remove(node);
		free(list_entry(node, struct bound, node));
	}
	uses_done(f);
	free(f);
	return NULL;
}
