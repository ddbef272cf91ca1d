/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials that end while workers go on with what they opened. A worker knows what is open, and this router what has ended: so when
 * a credential may have ended, each worker is asked for the credentials of what is open there, and told which of them hold no more,
 * and which users are not active or were removed lately. The database says all of this, so nothing is lost when a worker is away, or this
 * router ends. */
#include "fleet/router/parts.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOOK_US (UINT64_C(250) * 1000)
#define AGAIN_NS                                                                                   \
	(2 *                                                                                       \
	 NS_PER_S) /* a request that was judged before the end can come to a worker after a look */
#define RETRY_NS   NS_PER_S
#define ANSWER_MS  10000u
#define ANSWER_MAX (256u << 10)
#define VALUES_MAX 8192u
#define DEPTH_MAX  8u
#define PAGES_MAX  1024u
#define SLICE      32u /* credentials that are judged in a row: each is 2 or 3 queries */
#define SHARE      10u /* a pause is that many times longer: a worker may make up what is open there */
#define IDLE_MAX   4096u /* users who are not active, or were removed lately */

struct look {
	struct worker *worker;
	struct fetch *fetch;
	uint64_t began_ns, epoch, owners; /* which of the router's these are */
	char start[FLEET_EPOCH_SIZE];
	char after[FLEET_AFTER_SIZE]; /* of the next page */
	bool listed;                  /* all pages have come */
	unsigned pages;
	json_t *page; /* credentials that are being judged, up to AT; NULL: none */
	size_t at;
	sd_event_source *turn;
	size_t n_owners; /* that were told */
	size_t n_ended;  /* in all */
	json_t *ended;   /* credentials of this page that have ended; it was not told yet */
	json_t *idle;    /* the owners; NULL: it knows them */
};

void look_drop(struct worker *w)
{
	struct look *x = TAKE_PTR(w->look);

	if (!x)
		return;
	x->fetch = fetch_drop(x->fetch);
	x->turn = sd_event_source_disable_unref(x->turn);
	json_decref(x->page);
	json_decref(x->ended);
	json_decref(x->idle);
	free(x);
}

static void fail(struct look *x, const char *why)
{
	struct worker *w = x->worker;

	LOG_OFTEN(LOG_LEVEL_WARNING, "worker_not_told", LOG_S("worker", w->id),
		  LOG_S("error", why));
	w->look_not_before_ns = now_ns() + RETRY_NS;
	look_drop(w);
}

static void done(struct look *x)
{
	struct worker *w = x->worker;
	const struct fleet_router *f = w->router;

	if (x->n_ended > 0)
		LOG_INFO("credentials_ended", LOG_S("worker", w->id),
			 LOG_U("credentials", x->n_ended));
	w->judged = x->epoch;
	if (x->owners == f->owners && x->began_ns - f->owners_ns > AGAIN_NS)
		w->judged_owners = x->owners;
	w->settled = x->began_ns - f->epoch_ns > AGAIN_NS && x->epoch == f->epoch;
	memcpy(w->judged_start, x->start, sizeof(x->start));
	look_drop(w);
}

/* ---- asking ---- */

static void go_on(struct look *x);

static void on_told(const struct fetch_answer *a, void *user)
{
	struct look *x = user;

	x->fetch = NULL;
	if (a->status / 100 == 2)
		go_on(x);
	else
		fail(x, a->status == 0 ? a->why : "it refuses to hear which credentials ended");
}

static int judge_one(struct look *x, const json_t *one)
{
	struct auth *auth = x->worker->router->config.auth;
	struct fleet_identity id;
	struct err e = ERR_INIT;

	if (fleet_credential_read(one, &id, &e) < 0)
		return -EBADMSG;
	const int r = auth_judge_routed(auth, &id, &e);
	if (r < 0)
		return -EIO;
	return r == 0 && json_array_append_new(x->ended, fleet_credential_json(&id)) < 0 ? -ENOMEM
											 : 0;
}

/* RET_NS: how long that took. */
static int judge_some(struct look *x, uint64_t *ret_ns)
{
	const size_t end = MIN(x->at + SLICE, json_array_size(x->page));
	const uint64_t began_ns = now_ns();
	int r = 0;

	while (r == 0 && x->at < end)
		r = judge_one(x, json_array_get(x->page, x->at++));
	*ret_ns = now_ns() - began_ns;
	return r;
}

static void fail_to_judge(struct look *x, int r)
{
	fail(x, r == -EBADMSG ? "what it says is open there cannot be read"
			      : "the database cannot say which credentials hold");
}

static int on_turn(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct look *x = user;
	uint64_t took_ns = 0;

	loop_work("fleet", "judge");
	if (x->at < json_array_size(x->page)) {
		const int r = judge_some(x, &took_ns);

		if (r < 0) {
			fail_to_judge(x, r);
			return 0;
		}
		(void)sd_event_source_set_time_relative(source, took_ns * SHARE / 1000);
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	}
	json_decref(x->page);
	x->page = NULL;
	x->turn = sd_event_source_disable_unref(x->turn);
	go_on(x);
	return 0;
}

static int take_page(struct look *x, const json_t *root)
{
	json_t *list = json_object_get(root, "credentials");
	const json_t *next = json_object_get(root, "next");
	const char *after = json_string_value(next);

	if (json_integer_value(json_object_get(root, "v")) != 1 || !json_is_array(list) ||
	    json_array_size(list) > FLEET_ENDED_MAX)
		return -EBADMSG;
	if (next && (!after || strlen(after) != FLEET_AFTER_SIZE - 1 ||
		     strspn(after, "0123456789abcdef") != FLEET_AFTER_SIZE - 1 ||
		     strcmp(after, x->after) <= 0 || ++x->pages == PAGES_MAX))
		return -EBADMSG;
	x->listed = !next;
	if (next)
		memcpy(x->after, after, sizeof(x->after));
	x->page = json_incref(list);
	x->at = 0;
	return sd_event_add_time_relative(x->worker->router->config.loop, &x->turn, CLOCK_MONOTONIC,
					  0, 1, on_turn, x);
}

static void on_page(const struct fetch_answer *a, void *user)
{
	struct look *x = user;
	json_t *root = NULL;

	x->fetch = NULL;
	if (a->status != 200) {
		fail(x, a->status == 0 ? a->why : "it refuses to tell what is open there");
		return;
	}
	int r = fetch_json(a, VALUES_MAX, DEPTH_MAX, &root);
	r = r < 0 ? r : take_page(x, root);
	json_decref(root);
	if (r < 0)
		fail_to_judge(x, r);
}

/* Appends to RET at most FLEET_ENDED_MAX of LIST from *AT on. */
static int add_some(json_t *ret, const json_t *list, size_t *at)
{
	for (size_t n = 0; n < FLEET_ENDED_MAX && *at < json_array_size(list); n++)
		if (json_array_append(ret, json_array_get(list, (*at)++)) < 0)
			return -ENOMEM;
	return 0;
}

static void tell(struct look *x)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(RELAY_BUF_MAX);
	json_t *owners = json_array(), *credentials = json_array();
	size_t len = 0;
	int r = add_some(owners, x->idle, &x->n_owners);

	size_t n = 0;
	r = r < 0 ? r : add_some(credentials, x->ended, &n); /* a page has no more */
	x->n_ended += n;
	(void)json_array_clear(x->ended);
	json_t *root =
	    json_pack("{s:i, s:o, s:o}", "v", 1, "owners", owners, "credentials", credentials);
	_cleanup_free_ char *body = r == 0 && root ? jsonio_text(root, JSON_COMPACT, &len) : NULL;
	json_decref(root);
	if (body &&
	    buf_printf(&text,
		       "POST /fleet/ended HTTP/1.1\r\nHost: %s\r\n"
		       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
		       x->worker->at.text, len) == 0 &&
	    buf_add(&text, body, len) == 0)
		x->fetch =
		    fetch_begin(x->worker, buf_str(&text), ANSWER_MAX, ANSWER_MS, on_told, x);
	if (!x->fetch)
		fail(x, "no memory");
}

static void ask(struct look *x)
{
	char head[256];

	(void)snprintf(head, sizeof(head),
		       "GET /fleet/credentials%s%s HTTP/1.1\r\nHost: %s\r\n"
		       "Accept: application/json\r\n\r\n",
		       x->after[0] ? "?after=" : "", x->after, x->worker->at.text);
	x->fetch = fetch_begin(x->worker, head, ANSWER_MAX, ANSWER_MS, on_page, x);
	if (!x->fetch)
		fail(x, "no memory");
}

/* Each page is told before the next is asked for, so that however much is open there, what has ended is told. */
static void go_on(struct look *x)
{
	if (json_array_size(x->ended) > 0)
		tell(x);
	else if (!x->listed)
		ask(x);
	else if (x->n_owners < json_array_size(x->idle))
		tell(x);
	else
		done(x);
}

static void look(struct worker *w)
{
	struct fleet_router *f = w->router;
	struct look *x = calloc(1, sizeof(*x));

	if (!x)
		return;
	x->worker = w;
	x->began_ns = now_ns();
	x->epoch = f->epoch;
	x->owners = f->owners;
	x->ended = json_array();
	memcpy(x->start, w->epoch, sizeof(x->start));
	if (w->judged_owners != f->owners || !streq(w->judged_start, w->epoch))
		x->idle = json_incref(f->idle);
	w->look = x;
	if (x->ended)
		go_on(x);
	else
		fail(x, "no memory");
}

/* ---- when ---- */

static bool add_idle(const char *id, void *user)
{
	json_t **list = user;

	if (json_array_append_new(*list, json_string(id)) == 0)
		return true;
	json_decref(*list);
	*list = NULL;
	return false;
}

static int read_idle(struct fleet_router *f, struct err *e)
{
	json_t *list = json_array();
	const int r =
	    list ? store_user_each_idle(f->config.store, IDLE_MAX, add_idle, &list, e) : 0;

	if (!list)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "users who are not active");
	if (r < 0) {
		json_decref(list);
		return r;
	}
	if (json_array_size(list) == IDLE_MAX)
		LOG_OFTEN(
		    LOG_LEVEL_WARNING, "workers_not_told",
		    LOG_S("error",
			  "too many users are not active, or were removed within the last hour"),
		    LOG_U("most", IDLE_MAX));
	if (!json_equal(list, f->idle)) {
		f->owners++;
		f->owners_ns = now_ns();
	}
	json_decref(f->idle);
	f->idle = list;
	return 0;
}

/* Also one that is refused: it may go on with what it had before. */
static bool is_due(const struct worker *w, uint64_t now)
{
	const struct fleet_router *f = w->router;

	if (w->look || !w->known || w->missed > 0 || now < w->look_not_before_ns)
		return false;
	return w->judged != f->epoch || !streq(w->judged_start, w->epoch) ||
	       (!w->settled && now - f->epoch_ns > AGAIN_NS);
}

static int on_look(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct fleet_router *f = user;
	const uint64_t now = now_ns();
	uint64_t epoch = f->epoch;
	struct err e = ERR_INIT;

	loop_work("fleet", "credentials");
	int r = auth_epoch(f->config.auth, &epoch, &e);
	if (r >= 0 && (epoch != f->epoch || !f->idle)) {
		r = read_idle(f, &e);
		f->epoch = r < 0 ? f->epoch : epoch;
		f->epoch_ns = now;
	}
	if (r < 0)
		LOG_OFTEN(LOG_LEVEL_WARNING, "credentials_not_judged", LOG_S("error", e.text));
	list_for_each(node, &f->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (r >= 0 && is_due(w, now))
			look(w);
	}
	(void)sd_event_source_set_time_relative(source, LOOK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int looks_begin(struct fleet_router *f)
{
	if (!f->config.store)
		return 0;
	return sd_event_add_time_relative(f->config.loop, &f->looking, CLOCK_MONOTONIC, LOOK_US,
					  LOOK_US / 10, on_look, f);
}

void looks_done(struct fleet_router *f)
{
	f->looking = sd_event_source_disable_unref(f->looking);
	json_decref(f->idle);
	f->idle = NULL;
}
