/* SPDX-License-Identifier: Apache-2.0 */
#include "api/history/feed.h"

#include "base/jsonio.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <string.h>

#define FOLLOWER_QUEUE_MAX (128u << 10) /* bytes that wait for one reader */
#define EVENT_MAX          (1u << 20)
#define LINGER_NS          (60 * NS_PER_S) /* a ring without followers is kept for so long */
#define HEARTBEAT_NS       (15 * NS_PER_S)
#define EPOCH_BYTES        4
#define ID_SIZE            40

struct event {
	struct list node; /* in ring.events, oldest first */
	uint64_t seq;
	char sandbox[SANDBOX_ID_MAX + 1];
	size_t len;
	char text[];
};

struct ring {
	struct list node; /* in feed.rings */
	char owner[SANDBOX_OWNER_MAX + 1];
	/* Ids of events are of this ring alone: how much others do is not to be read from them. */
	char epoch[2 * EPOCH_BYTES + 1];
	uint64_t seq; /* of the last event */
	struct list events;
	struct budget_share share; /* of their bytes */
	size_t bytes;
	uint64_t lost; /* this event and older ones are not in the ring */
	struct list followers;
	uint64_t idle_ns; /* since when it has no follower; 0 = it has one */
};

struct follower {
	struct list node; /* in ring.followers */
	struct ring *ring;
	struct http_stream *stream;
	struct caller *who; /* reference */
	struct budget_share place;
	char sandbox[SANDBOX_ID_MAX + 1]; /* "" = all */
	uint64_t next;                    /* the first event that it has not got */
};

struct feed {
	struct budgets *budgets;
	struct list rings;
	sd_event_source *heartbeat;
};

/* ---- rings ---- */

static void event_free(struct ring *r, struct event *v)
{
	list_remove(&v->node);
	r->bytes -= v->len;
	r->lost = v->seq;
	free(v);
}

static void ring_free(struct ring *r)
{
	list_for_each(l, &r->events)
		event_free(r, list_entry(l, struct event, node));
	budget_give(&r->share);
	list_remove(&r->node);
	free(r);
}

static struct ring *ring_of(const struct feed *f, const char *owner)
{
	list_for_each(l, &f->rings) {
		struct ring *r = list_entry(l, struct ring, node);

		if (streq(r->owner, owner))
			return r;
	}
	return NULL;
}

static void sweep(struct feed *f)
{
	uint64_t now = now_ns();

	list_for_each(l, &f->rings) {
		struct ring *r = list_entry(l, struct ring, node);

		if (r->idle_ns && r->idle_ns + LINGER_NS <= now)
			ring_free(r);
	}
}

void feed_forget(struct feed *f, const char *owner)
{
	struct ring *r = ring_of(f, owner);

	if (r && list_is_empty(&r->followers))
		ring_free(r);
}

static struct ring *ring_need(struct feed *f, const char *owner)
{
	struct ring *r = ring_of(f, owner);

	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	list_init(&r->events);
	list_init(&r->followers);
	(void)snprintf(r->owner, sizeof(r->owner), "%s", owner);
	rand_hex(r->epoch, EPOCH_BYTES);
	list_append(&f->rings, &r->node);
	return r;
}

/* Drops the oldest events until MORE bytes fit, in the ring and in the owner's budget. */
static bool make_room(struct feed *f, struct ring *r, size_t more)
{
	for (;;) {
		struct err ignored = ERR_INIT;

		if (r->bytes + more <= FEED_RING_BYTES &&
		    budget_take(f->budgets, r->owner, BUDGET_KEPT_BYTES, r->bytes + more, &r->share,
				&ignored) == 0)
			return true;
		struct event *oldest = list_first(&r->events, struct event, node);
		if (!oldest)
			return false;
		event_free(r, oldest);
	}
}

/* ---- followers ---- */

static void follower_free(struct follower *t)
{
	list_remove(&t->node);
	if (list_is_empty(&t->ring->followers))
		t->ring->idle_ns = now_ns();
	caller_unref(t->who);
	budget_give(&t->place);
	free(t);
}

static void on_close(void *user)
{
	follower_free(user);
}

/* Sends what T has not got yet, as far as its reader takes it. T may be gone afterwards. */
static void pump(struct follower *t);

static void on_drain(void *user)
{
	pump(user);
}

static const struct http_stream_ops follower_ops = {.on_close = on_close, .on_drain = on_drain};

/* Returns false after it has ended the follower. */
static bool follower_write(struct follower *t, const char *text, size_t len)
{
	if (http_stream_write(t->stream, text, len) == 0)
		return true;
	http_stream_abort(t->stream);
	follower_free(t);
	return false;
}

static bool tell_resync(struct follower *t)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "id: %s-%ju\nevent: resync\ndata: {}\n\n",
			 t->ring->epoch, (uintmax_t)t->ring->seq);

	t->next = t->ring->seq + 1;
	return follower_write(t, text, (size_t)n);
}

/* The node before the first event that T has not got. */
static struct list *place_of(const struct follower *t)
{
	struct list *l = t->ring->events.prev;

	while (l != &t->ring->events && list_entry(l, struct event, node)->seq >= t->next)
		l = l->prev;
	return l;
}

static void pump(struct follower *t)
{
	if (auth_has_ended(t->who)) {
		http_stream_end(t->stream);
		follower_free(t);
		return;
	}
	if (t->next <= t->ring->lost && http_stream_queued(t->stream) < FOLLOWER_QUEUE_MAX &&
	    !tell_resync(t))
		return;
	if (t->next <= t->ring->lost)
		return; /* it is told when it reads again */
	for (struct list *l = place_of(t)->next; l != &t->ring->events; l = l->next) {
		const struct event *v = list_entry(l, struct event, node);

		if (http_stream_queued(t->stream) >= FOLLOWER_QUEUE_MAX)
			return;
		t->next = v->seq + 1;
		if ((!t->sandbox[0] || streq(t->sandbox, v->sandbox)) &&
		    !follower_write(t, v->text, v->len))
			return;
	}
}

bool feed_wants(const struct feed *f, const char *owner)
{
	return f && !list_is_empty(&f->rings) && ring_of(f, owner);
}

/* Appends the event, or forgets all of them if there is no room or memory. */
static void keep(struct feed *f, struct ring *r, const char *sandbox, const char *text, size_t len)
{
	struct event *v = text && make_room(f, r, len) ? malloc(sizeof(*v) + len) : NULL;

	r->seq++;
	if (!v) {
		list_for_each(l, &r->events)
			event_free(r, list_entry(l, struct event, node));
		r->lost = r->seq;
		return;
	}
	v->seq = r->seq;
	v->len = len;
	(void)snprintf(v->sandbox, sizeof(v->sandbox), "%s", sandbox);
	memcpy(v->text, text, len);
	list_append(&r->events, &v->node);
	r->bytes += len;
}

void feed_tell(struct feed *f, const char *owner, const char *sandbox, const char *name,
	       json_t *data)
{
	struct ring *r = ring_of(f, owner);

	if (!r) {
		json_decref(data);
		return;
	}
	size_t len;
	_cleanup_free_ char *json = jsonio_text(data, JSON_COMPACT, &len);
	_cleanup_(buf_done) struct buf text = BUF_INIT(EVENT_MAX);
	bool made = json &&
		    buf_printf(&text, "id: %s-%ju\nevent: %s\ndata: ", r->epoch,
			       (uintmax_t)r->seq + 1, name) == 0 &&
		    buf_add_str(&text, json) == 0 && buf_add_str(&text, "\n\n") == 0;
	keep(f, r, sandbox, made ? buf_str(&text) : NULL, text.len);
	json_decref(data); /* SANDBOX can be a part of it */
	list_for_each(l, &r->followers)
		pump(list_entry(l, struct follower, node));
	sweep(f);
}

/* ---- a new follower ---- */

/* The number in "EPOCH-NUMBER", if it is an event of the ring, and the ring can go on after it. */
static bool read_last(const struct ring *r, const char *id, uint64_t *ret)
{
	const size_t n = strlen(r->epoch);
	int64_t seq;

	if (!id || strncmp(id, r->epoch, n) != 0 || id[n] != '-' ||
	    parse_i64(id + n + 1, 0, INT64_MAX, &seq) < 0)
		return false;
	*ret = (uint64_t)seq;
	return *ret >= r->lost && *ret <= r->seq;
}

static bool greet(struct follower *t, const char *last_id)
{
	uint64_t last = 0;
	bool known = read_last(t->ring, last_id, &last);
	char text[160];

	if (!known)
		last = t->ring->seq;
	t->next = last + 1;
	int n = snprintf(text, sizeof(text),
			 "id: %s-%ju\nevent: hello\ndata: "
			 "{\"epoch\":\"%s\",\"seq\":%ju,\"resumed\":%s}\n\n",
			 t->ring->epoch, (uintmax_t)last, t->ring->epoch, (uintmax_t)last,
			 known ? "true" : "false");
	return follower_write(t, text, (size_t)n) && (known || !last_id || tell_resync(t));
}

void feed_follow(struct feed *f, struct http_request *req, const struct feed_request *q)
{
	struct follower *t = calloc(1, sizeof(*t));
	struct ring *r = ring_need(f, q->owner);
	struct err e = ERR_INIT;
	char last_id[ID_SIZE] = "";

	if (!t || !r) {
		free(t);
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	if (budget_take(f->budgets, q->who->owner, BUDGET_FOLLOWERS, 1, &t->place, &e) < 0) {
		free(t);
		r->idle_ns = list_is_empty(&r->followers) ? now_ns() : 0;
		http_respond_problem(req, e.code, e.text, NULL);
		return;
	}
	list_init(&t->node);
	t->ring = r;
	t->who = caller_ref(q->who);
	if (q->sandbox)
		(void)snprintf(t->sandbox, sizeof(t->sandbox), "%s", q->sandbox);
	if (q->last_id)
		(void)snprintf(last_id, sizeof(last_id), "%s", q->last_id);
	list_append(&r->followers, &t->node);
	r->idle_ns = 0;
	t->stream = http_stream_begin_sse(req, &follower_ops, t);
	if (!t->stream)
		follower_free(t);
	else if (greet(t, last_id[0] ? last_id : NULL))
		pump(t);
}

/* ---- life ---- */

/* A comment for followers that hear nothing, so that proxies keep the connection and a dead one is noticed. */
static int on_heartbeat(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct feed *f = user;
	uint64_t now = now_ns();

	loop_work("timer", "feed");
	list_for_each(l, &f->rings) {
		struct ring *r = list_entry(l, struct ring, node);

		list_for_each(m, &r->followers) {
			struct follower *t = list_entry(m, struct follower, node);

			if (http_stream_last_write_ns(t->stream) + HEARTBEAT_NS <= now)
				(void)follower_write(t, ": \n\n", 4);
		}
	}
	sweep(f);
	(void)sd_event_source_set_time_relative(source, HEARTBEAT_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int feed_new(sd_event *loop, struct budgets *budgets, struct feed **ret, struct err *e)
{
	struct feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "events");
	f->budgets = budgets;
	list_init(&f->rings);
	r = sd_event_add_time_relative(loop, &f->heartbeat, CLOCK_MONOTONIC,
				       HEARTBEAT_NS / NS_PER_US, 0, on_heartbeat, f);
	if (r < 0) {
		(void)feed_free(f);
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	}
	*ret = f;
	return 0;
}

struct feed *feed_free(struct feed *f)
{
	if (!f)
		return NULL;
	(void)sd_event_source_disable_unref(f->heartbeat);
	list_for_each(l, &f->rings)
		ring_free(list_entry(l, struct ring, node));
	free(f);
	return NULL;
}
