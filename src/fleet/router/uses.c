/* SPDX-License-Identifier: Apache-2.0 */
/* What users have at workers, so that their quotas count in the whole fleet (fleet/tally.h). Each worker is asked for what has changed
 * there. A request for one worker says what its user has at the others, so that the worker refuses what is too much, whatever makes it:
 * this router cannot tell what a message of MCP will do. Requests of REST for stored sandboxes count from the moment when they are sent
 * on, so that those that are sent to several workers at once seldom pass the quota together: workers may get them in another order. */
#include "fleet/router/parts.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MS    5000u
#define ANSWER_MAX   (256u << 10)
#define VALUES_MAX   (FLEET_TALLY_PAGE * 8 + 16)
#define DEPTH_MAX    4u
#define PAGES_MAX    (2 * FLEET_TALLY_MAX / FLEET_TALLY_PAGE) /* while more changes */
#define PLACINGS_MAX 4096u                                    /* of one worker */
#define TURN_USERS   256u /* that are taken out of the sums in one turn of the loop */

/* What users had at a worker that was started anew or is gone, on its way out of the sums. */
struct leaving {
	struct list node; /* of fleet_router.leaving */
	struct fleet_tally *uses;
};

struct placing {
	struct list node; /* of worker.placings */
	struct worker *worker;
	uint64_t ended_ns; /* 0: its request is under way */
	bool counts;
	struct fleet_use
	    elsewhere; /* when it began: of those that are sent at once, the first ones get what is left */
	char owner[FLEET_UUID_SIZE];
};

/* ---- sums ---- */

/* Takes a user out of what a worker has, and out of the sums. False: there is none. */
static bool forget_one(struct fleet_router *f, struct fleet_tally *uses)
{
	char owner[FLEET_UUID_SIZE];
	struct fleet_use use;

	if (!fleet_tally_pop(uses, owner, &use))
		return false;
	struct fleet_use sum = fleet_tally_get(f->uses, owner);
	fleet_use_subtract(&sum, &use);
	(void)!fleet_tally_set(f->uses, owner, &sum);
	return true;
}

static void leaving_free(struct leaving *l)
{
	list_remove(&l->node);
	l->uses = fleet_tally_free(l->uses);
	free(l);
}

static int on_leave(sd_event_source *source, void *user)
{
	struct fleet_router *f = user;
	struct leaving *l = list_first(&f->leaving, struct leaving, node);
	unsigned n = 0;

	loop_work("fleet", "uses");
	while (l && n < TURN_USERS && forget_one(f, l->uses))
		n++;
	if (l && n < TURN_USERS)
		leaving_free(l);
	return sd_event_source_set_enabled(source,
					   list_is_empty(&f->leaving) ? SD_EVENT_OFF : SD_EVENT_ON);
}

int uses_begin(struct fleet_router *f, struct err *e)
{
	list_init(&f->leaving);
	f->uses = fleet_tally_new((size_t)FLEET_MEMBERS_MAX * FLEET_TALLY_MAX, false);
	f->placed = fleet_tally_new((size_t)FLEET_MEMBERS_MAX * PLACINGS_MAX, false);
	int r = f->uses && f->placed ? 0 : -ENOMEM;
	r = r < 0 ? r : sd_event_add_defer(f->config.loop, &f->leave, on_leave, f);
	r = r < 0 ? r : sd_event_source_set_enabled(f->leave, SD_EVENT_OFF);
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "what users have at workers") : 0;
}

void uses_done(struct fleet_router *f)
{
	f->leave = sd_event_source_disable_unref(f->leave);
	list_for_each(node, &f->leaving)
		leaving_free(list_entry(node, struct leaving, node));
	f->uses = fleet_tally_free(f->uses);
	f->placed = fleet_tally_free(f->placed);
}

static void look_elsewhere(const struct worker *w, const char *owner, struct fleet_use *ret)
{
	const struct fleet_router *f = w->router;
	uint64_t placed = fleet_tally_get(f->placed, owner).sandboxes;
	const struct fleet_use here = fleet_tally_get(w->uses, owner);
	*ret = fleet_tally_get(f->uses, owner);
	fleet_use_subtract(ret, &here);
	if (placed > 0)
		list_for_each(node, &w->placings) {
			const struct placing *mine = list_entry(node, struct placing, node);

			placed -= placed > 0 && mine->counts && streq(mine->owner, owner);
		}
	ret->sandboxes = MIN(ret->sandboxes + placed, FLEET_USE_MAX);
	ret->disk_bytes = MIN(ret->disk_bytes, FLEET_USE_MAX);
	ret->cpu_us = MIN(ret->cpu_us, FLEET_USE_MAX);
	ret->runs = MIN(ret->runs, FLEET_USE_MAX);
}

int uses_add_caller(const struct worker *w, const struct caller *who, const struct placing *p,
		    struct buf *ret)
{
	struct fleet_use use;

	if (!w->uses) /* it does not count, and would not know the member */
		return hop_add_caller(w->router, who, NULL, ret);
	if (p)
		use = p->elsewhere;
	else
		look_elsewhere(w, who->owner, &use);
	return hop_add_caller(w->router, who, &use, ret);
}

/* ---- requests that may make one ---- */

static void count_placing(struct placing *p, bool counts)
{
	struct fleet_tally *placed = p->worker->router->placed;
	struct fleet_use use = fleet_tally_get(placed, p->owner);

	if (p->counts == counts)
		return;
	use.sandboxes += counts ? 1 : UINT64_MAX;
	p->counts = fleet_tally_set(placed, p->owner, &use) ? counts : p->counts;
}

static void placing_free(struct placing *p)
{
	count_placing(p, false);
	list_remove(&p->node);
	p->worker->n_placings--;
	free(p);
}

/* May it make a stored sandbox? Messages of MCP are not looked at. JSON can write letters as "\u0073". */
static bool may_store(const struct http_request *req, enum place place, const struct buf *body)
{
	static const char keep[] = "/keep", stored[] = "\"stored\"";
	const char *path = http_request_path(req);
	const size_t len = strlen(path), n = strlen(keep);

	if (http_request_method(req) != HTTP_POST)
		return false;
	if (place == PLACE_ID) /* a server in a sandbox may have such a path, too */
		return !http_request_param(req, "port") && len > n && streq(path + len - n, keep);
	return place == PLACE_NEW && text_starts_with(path, "/api/") &&
	       (!body || http_request_header(req, "content-encoding") ||
		memchr(buf_str(body), '\\', body->len) ||
		memmem(buf_str(body), body->len, stored, strlen(stored)));
}

struct placing *placing_new(struct worker *w, const struct caller *who,
			    const struct http_request *req, enum place place,
			    const struct buf *body)
{
	struct placing *p = NULL;

	if (who && w->uses && w->n_placings < PLACINGS_MAX && may_store(req, place, body))
		p = calloc(1, sizeof(*p));
	if (!p || text_copy(p->owner, sizeof(p->owner), who->owner) < 0) {
		free(p);
		return NULL;
	}
	p->worker = w;
	look_elsewhere(w, p->owner, &p->elsewhere);
	list_append(&w->placings, &p->node);
	w->n_placings++;
	count_placing(p, true);
	return p;
}

void placing_end(struct placing *p, bool made)
{
	if (p && made && p->worker->uses)
		p->ended_ns = now_ns();
	else if (p)
		placing_free(p);
}

/* W has told all that it had at ASKED_NS: it has counted itself what was made before. */
static void settle(struct worker *w, uint64_t asked_ns)
{
	list_for_each(node, &w->placings) {
		struct placing *p = list_entry(node, struct placing, node);

		if (p->ended_ns > 0 && p->ended_ns < asked_ns)
			placing_free(p);
	}
}

void uses_forget(struct worker *w)
{
	struct fleet_router *f = w->router;
	struct leaving *l = w->uses ? calloc(1, sizeof(*l)) : NULL;

	w->counting = fetch_drop(w->counting);
	w->count_again = false;
	settle(w, UINT64_MAX);
	if (l) {
		l->uses = w->uses;
		w->uses = NULL;
		list_append(&f->leaving, &l->node);
		(void)sd_event_source_set_enabled(f->leave, SD_EVENT_ON);
	}
	while (w->uses && forget_one(f, w->uses)) /* no memory */
		;
	w->uses = fleet_tally_free(w->uses);
	w->uses_version[0] = '\0';
}

/* W has counted N more of OWNER, so its oldest placings do not count besides. A copy of a sandbox has its row long before its answer. */
static void count_no_more(struct worker *w, const char *owner, uint64_t n)
{
	if (fleet_tally_get(w->router->placed, owner).sandboxes == 0)
		return;
	list_for_each(node, &w->placings) {
		struct placing *p = list_entry(node, struct placing, node);

		if (n == 0)
			return;
		if (!p->counts || !streq(p->owner, owner))
			continue;
		count_placing(p, false);
		n--;
	}
}

static bool replace(struct worker *w, const char *owner, const struct fleet_use *use)
{
	struct fleet_router *f = w->router;
	const struct fleet_use before = fleet_tally_get(w->uses, owner);

	/* What it changes while we ask page by page can be more than it has room for itself. */
	if (!fleet_tally_set(w->uses, owner, use) &&
	    (!forget_one(f, w->uses) || !fleet_tally_set(w->uses, owner, use)))
		return false;
	struct fleet_use sum = fleet_tally_get(f->uses, owner);
	fleet_use_subtract(&sum, &before);
	fleet_use_add(&sum, use);
	if (use->sandboxes > before.sandboxes)
		count_no_more(w, owner, use->sandboxes - before.sandboxes);
	return fleet_tally_set(f->uses, owner, &sum);
}

/* ---- asking ---- */

static void on_uses(const struct fetch_answer *a, void *user);

static void fail(const struct worker *w, const char *why)
{
	LOG_OFTEN(LOG_LEVEL_WARNING, "uses_not_counted", LOG_S("worker", w->id),
		  LOG_S("error", why));
}

static void ask_page(struct worker *w)
{
	char head[256];

	(void)snprintf(head, sizeof(head),
		       "GET /fleet/uses?after=%s HTTP/1.1\r\nHost: %s\r\n"
		       "Accept: application/json\r\n\r\n",
		       w->uses_version, w->at.text);
	w->counting = fetch_begin(w, head, ANSWER_MAX, ANSWER_MS, on_uses, w);
	if (!w->counting)
		fail(w, "no memory");
}

static void ask(struct worker *w)
{
	w->counting_ns = now_ns();
	w->counting_pages = 0;
	w->count_again = false;
	ask_page(w);
}

/* W has dropped users of whom we may still count what they had. */
static bool has_missed(const struct worker *w, const char *forgotten)
{
	return forgotten && fleet_is_version(forgotten) && strcmp(forgotten, w->uses_version) > 0 &&
	       strcmp(forgotten, w->uses_whole) > 0;
}

/* 1: there are more; 0; -ESTALE: all must be asked for anew; else < 0: it cannot be read. */
static int take(struct worker *w, const json_t *root)
{
	const json_t *list = json_object_get(root, "uses"), *row;
	const char *version = json_string_value(json_object_get(root, "version"));
	const uint64_t now_ms = store_now_ms();
	size_t i;

	if (json_integer_value(json_object_get(root, "v")) != 1 || !json_is_array(list) ||
	    json_array_size(list) > FLEET_TALLY_PAGE || !version || !fleet_is_version(version))
		return -EBADMSG;
	if (has_missed(w, json_string_value(json_object_get(root, "forgotten"))))
		return -ESTALE;
	json_array_foreach(list, i, row) {
		struct fleet_use use;
		const char *owner;

		if (!fleet_use_read(row, now_ms, &owner, &use))
			return -EBADMSG;
		if (!replace(w, owner, &use))
			fail(w, "it has too many users, or there is no memory");
	}
	memcpy(w->uses_version, version, sizeof(w->uses_version));
	return json_is_true(json_object_get(root, "more"));
}

static void on_uses(const struct fetch_answer *a, void *user)
{
	struct worker *w = user;
	json_t *root = NULL;

	w->counting = NULL;
	if (a->status != 200) {
		fail(w, a->status == 0 ? a->why : "it refuses to tell what users have");
		return;
	}
	int r = fetch_json(a, VALUES_MAX, DEPTH_MAX, &root);
	r = r < 0 ? r : take(w, root);
	json_decref(root);
	if (r == -ESTALE) {
		uses_forget(w); /* its next state begins anew */
	} else if (r < 0) {
		fail(w, "what it says that users have cannot be read");
	} else if (r > 0 && ++w->counting_pages < PAGES_MAX) {
		ask_page(w);
	} else {
		settle(w, w->counting_ns);
		if (w->count_again)
			ask(w);
	}
}

void uses_answered(struct worker *w, const struct bound *b, int status)
{
	static const char one[] = "/sandboxes/{id}";
	const size_t len = strlen(b->pattern), n = strlen(one);

	if (!w->uses || b->row.methods != HTTP_DELETE || status / 100 != 2 || len < n ||
	    !streq(b->pattern + len - n, one))
		return;
	if (w->counting)
		w->count_again = true;
	else
		ask(w);
}

void uses_heard(struct worker *w, const char *version, uint64_t asked_ns)
{
	if (!version) {
		uses_forget(w);
		return;
	}
	if (w->counting)
		return;
	if (!w->uses) {
		w->uses = fleet_tally_new(FLEET_TALLY_MAX, false);
		memset(w->uses_version, '0', FLEET_VERSION_DIGITS);
		w->uses_version[FLEET_VERSION_DIGITS] = '\0';
		(void)!text_copy(w->uses_whole, sizeof(w->uses_whole), version);
	}
	if (!w->uses) {
		fail(w, "no memory");
	} else if (streq(w->uses_version, version)) {
		settle(w, asked_ns);
	} else {
		ask(w);
	}
}
