/* SPDX-License-Identifier: Apache-2.0 */
/* One request on its way to a worker. */
#include "fleet/router/hop.h"
#include "fleet/router/moves.h"

#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STUCK_US (UINT64_C(60) * 1000 * 1000) /* for a worker that reads nothing of an upload */

static void leave_worker(struct hop *h)
{
	if (!h->worker)
		return;
	/* Without an answer it is not known whether the worker has made one. */
	placing_end(h->placing,
		    h->begun && (h->relay.reply.status == 0 || h->relay.reply.status / 100 == 2));
	h->placing = NULL;
	list_remove(&h->node);
	h->worker->n_hops--;
	h->worker = NULL;
}

static void hop_free(struct hop *h)
{
	moves_unwant(h->waiting);
	if (h->link)
		link_drop(h->link);
	h->seek = seek_drop(h->seek);
	if (h->begun)
		relay_done(&h->relay);
	leave_worker(h);
	buf_done(&h->body);
	budget_give(&h->share);
	budget_give(&h->request);
	if (h->who)
		caller_unref(h->who);
	free(h);
}

void hop_refuse(struct hop *h, enum err_code code, const char *fmt, ...)
{
	char why[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	router_count_failure(h->router, code);
	if (h->req)
		hop_respond(h->bound, h->req, code, why);
	hop_free(h);
}

/* ---- where to ---- */

static void refuse_silent(struct hop *h, const char *id, const struct worker *w)
{
	if (hop_is_lost(h->router, w))
		hop_refuse(h, ERR_NODE_LOST, "worker %s, which had this, is gone%s", id,
			   h->kept[0] ? ". A template is there again if the worker comes back, and "
					"a snapshot is not"
				      : ", and what was in it is lost");
	else
		hop_refuse(h, ERR_NODE_UNREACHABLE,
			   "worker %s, which has this, does not answer now", id);
}

static void to_worker(struct hop *h, struct worker *w, bool fresh);

void hop_place(struct hop *h)
{
	struct worker *w = h->n_tried < FLEET_TRIES_MAX ? hop_choose(h) : NULL;

	h->placed = true;
	if (w && w->missed > 0) {
		refuse_silent(h, w->id, w);
	} else if (w) {
		memcpy(h->tried[h->n_tried++], w->id, sizeof(w->id));
		w->open += h->place == PLACE_NEW; /* until it says itself */
		to_worker(h, w, false);
	} else if (h->n_tried > 0) {
		hop_refuse(h, ERR_FLEET_FULL, "no worker has room now; %u were asked", h->n_tried);
	} else {
		hop_refuse(h, ERR_FLEET_EMPTY, "no worker of this fleet is ready%s",
			   h->bound->face_row ? " that offers this API" : "");
	}
}

void hop_to_owner(struct hop *h, const char *worker)
{
	struct worker *w = worker_find(h->router, worker);

	if (!w || w->missed > 0)
		refuse_silent(h, worker, w);
	else
		to_worker(h, w, false);
}

static void on_moved(const char *worker, enum err_code code, const char *why, void *user)
{
	struct hop *h = user;

	h->waiting = NULL;
	if (worker)
		hop_to_owner(h, worker);
	else
		hop_refuse(h, code, "%s", why);
}

/* WORKER has the stored sandbox or session ID; "": none has it. What was on a worker that is lost may have been saved. */
static void to_owner_of(struct hop *h, const char *id, const char *worker)
{
	const struct worker *w = worker_find(h->router, worker);

	if (!w || (w->missed > 0 && hop_is_lost(h->router, w)))
		h->waiting = moves_want(h->router, h->who, id, on_moved, h);
	if (!h->waiting)
		hop_to_owner(h, worker);
}

static void by_id(struct hop *h, const char *id)
{
	char worker[FLEET_WORKER_SIZE];

	const bool mcp = bound_is_mcp(h->bound);

	if (id && !mcp && moves_where(h->router, id, worker)) {
		to_owner_of(h, id, worker);
		return;
	}

	if (id && !mcp && !fleet_id_has_form(id)) {
		h->name = id;
		hop_place(h);
		return;
	}
	if (!id || !fleet_id_worker(h->router->config.key, id, worker)) {
		hop_refuse(h, ERR_SESSION_NOT_FOUND,
			   mcp ? "there is no such session" : "There is no such sandbox");
		return;
	}
	if (mcp)
		hop_to_owner(h, worker);
	else
		to_owner_of(h, id, worker);
}

/* A request of a face. A token shown to a worker that has not made it would be known to that one, too. */
static void by_face(struct hop *h)
{
	const struct fleet_key *key = h->router->config.key;
	char worker[FLEET_WORKER_SIZE], other[FLEET_WORKER_SIZE];
	struct fleet_names names;
	struct err e = ERR_INIT;

	if (h->router->face->find(h->req, h->bound->face_row, &names, &e) < 0)
		hop_refuse(h, e.code, "%s", e.text);
	else if (!fleet_id_worker(key, names.id[0] ? names.id : names.token, worker))
		hop_refuse(h, ERR_SESSION_NOT_FOUND, "there is no such sandbox");
	else if (fleet_id_worker(key, names.token, other) && !streq(other, worker))
		hop_refuse(h, ERR_UNAUTHORIZED, "the access token is missing or wrong");
	else if (h->place == PLACE_BOX && hop_count_box(h->router, &names, &h->request, &e) < 0)
		hop_refuse(h, e.code, "%s", e.text);
	else
		hop_to_owner(h, worker);
}

/* What somebody has who may be unknown here. A sandbox by the name that its owner has chosen, only who is known finds. */
static void by_link(struct hop *h)
{
	char worker[FLEET_WORKER_SIZE];

	if (link_worker(h->router, h->req, h->place, worker, h->chosen) == 0)
		hop_to_owner(h, worker);
	else if (h->chosen[0] && h->who)
		by_id(h, h->chosen);
	else
		hop_refuse(h, ERR_NOT_FOUND,
			   "this address is not complete, or none of this server");
}

/* ---- the way there ---- */

static void on_failed(struct relay *relay, enum err_code code, const char *why);
static void on_ended(struct relay *relay);
static int add_fields(struct relay *relay);
static enum relay_verdict judge(struct relay *relay);

static const struct relay_ops relay_ops = {.failed = on_failed,
					   .ended = on_ended,
					   .add_fields = add_fields,
					   .judge = judge,
					   .work = "fleet"};

/* Would the worker do nothing twice if it got the request twice? */
static bool may_repeat(const struct hop *h)
{
	const enum http_method m = http_request_method(h->req);

	return (m == HTTP_GET || m == HTTP_HEAD) && http_request_body_length(h->req) == 0;
}

static void on_link(struct http_io *io, const char *why, bool reused, void *user)
{
	struct hop *h = user;
	struct relay *x = &h->relay;

	h->link = NULL;
	if (!io && h->placed && !hop_key_of(h)) {
		h->router->counts.retries[RETRY_UNREACHABLE]++;
		leave_worker(h);
		hop_place(h);
		return;
	}
	if (!io) {
		hop_refuse(h, ERR_NODE_UNREACHABLE, "worker %s cannot be reached: %s",
			   h->worker->id, why);
		return;
	}
	relay_init(x, &relay_ops, h->router->config.loop, h->req);
	x->stuck_us = STUCK_US;
	h->begun = true;
	h->reused = reused;
	if (h->in_memory)
		buf_init(&x->out, FLEET_BODY_MAX + RELAY_BUF_MAX);
	x->io = *io; /* so that it is closed */
	int r = hop_write_head(h->bound, h->req, h->worker, http_request_method(h->req), &x->out);
	r = r < 0 || !h->who ? r : uses_add_caller(h->worker, h->who, h->placing, &x->out);
	r = r < 0 ? r : relay_add_framing(x, true);
	if (r == 0 && h->in_memory) {
		r = hop_add_body(x, &h->body);
		x->body_ended = true;
	}
	if (r == -ENOMEM)
		hop_refuse(h, ERR_OUT_OF_MEMORY, "no memory for the request");
	else if (r == -EINVAL)
		hop_refuse(h, ERR_INTERNAL, "the router cannot say to a worker who you are");
	else if (r < 0)
		hop_refuse(h, ERR_BAD_REQUEST,
			   "the head of the request is too large to be sent on");
	else
		relay_begin(x, io);
}

static void to_worker(struct hop *h, struct worker *w, bool fresh)
{
	struct link *link;

	h->worker = w;
	h->placing = placing_new(w, h->who, h->req, h->place, h->in_memory ? &h->body : NULL);
	list_append(&w->hops, &h->node);
	w->n_hops++;
	if (w->n_hops > FLEET_LINKS_MAX) {
		on_link(NULL, "it has too many requests under way", false, h);
		return;
	}
	link_get(w, fresh, on_link, h, &link);
	if (link)
		h->link = link;
}

/* ---- the relay's questions ---- */

static struct hop *hop_of(struct relay *relay)
{
	return CONTAINER_OF(relay, struct hop, relay);
}

static void on_failed(struct relay *relay, enum err_code code, const char *why)
{
	struct hop *h = hop_of(relay);
	struct worker *w = h->worker;

	h->req = relay->req;
	if (h->req && h->reused && !relay->heard && !h->repeated && may_repeat(h)) {
		h->repeated = true;
		h->router->counts.retries[RETRY_CLOSED]++;
		h->begun = false;
		relay_done(relay);
		leave_worker(h);
		to_worker(h, w, true);
		return;
	}
	if (code == ERR_OUT_OF_MEMORY || code == ERR_GATEWAY_TIMEOUT)
		hop_refuse(h, code, "%s", why);
	else
		hop_refuse(
		    h, ERR_NODE_UNREACHABLE,
		    "worker %s has ended the connection without an answer, so it is not known "
		    "whether it has done this",
		    w->id);
}

static void on_ended(struct relay *relay)
{
	struct hop *h = hop_of(relay);

	h->req = NULL;
	h->router->counts.answered++;
	if (relay_is_clean(relay)) {
		struct http_io io = relay_take_io(relay);

		link_put(h->worker, &io);
	}
	hop_free(h);
}

static int add_fields(struct relay *relay)
{
	const struct hop *h = hop_of(relay);

	uses_answered(h->worker, h->bound, relay->reply.status);
	return hop_add_fields(h->bound, relay->req, &relay->reply);
}

/* Could another worker do it, if this one has refused? What creates nothing would be no better elsewhere: what it is about is here. */
static bool may_try_next(const struct hop *h)
{
	const bool creates = h->place == PLACE_NEW || h->place == PLACE_STREAM;

	return creates && (h->in_memory || http_request_body_length(h->req) == 0);
}

/* Does the answer of STATUS depend on what its body says? */
static bool is_judged(const struct hop *h, int status)
{
	/* Code in a sandbox says what it likes there. */
	if (http_request_param(h->req, "port") || http_request_is_of_port(h->req))
		return false;
	if (status == 400 || status == 401)
		return true;
	return may_try_next(h) && (status == 429 || status == 503 || status == 507);
}

static void refuse_mistrusted(struct hop *h)
{
	LOG_OFTEN(LOG_LEVEL_ERROR, "identity_refused", LOG_S("worker", h->worker->id));
	hop_refuse(h, ERR_NODE_REFUSES, "worker %s refuses what this router says of the caller",
		   h->worker->id);
}

static void try_next(struct hop *h)
{
	h->router->counts.retries[RETRY_FULL]++;
	h->begun = false;
	relay_done(&h->relay);
	leave_worker(h);
	hop_place(h);
}

/* If none of the workers that were asked has what the request needs, the client has to hear what that is, and not that they are full. */
static bool goes_on(struct hop *h, bool unable)
{
	h->was_full = h->was_full || !unable;
	return h->was_full || (h->n_tried < FLEET_TRIES_MAX && hop_choose(h));
}

/* The errors of a face do not say what we need to know, so the worker says it besides. */
static enum relay_verdict judge_face(struct hop *h, const struct relay_reply *reply)
{
	const char *code = h->who ? hop_error_of(reply) : NULL;

	if (code && hop_is_ours(code))
		refuse_mistrusted(h);
	else if (h->unsure[0] && reply->status == 404)
		hop_refuse(h, ERR_NODE_UNREACHABLE,
			   "worker %s does not answer now, and may have this template", h->unsure);
	else if (code && hop_is_full(code) && may_try_next(h) && goes_on(h, hop_is_unable(code)))
		try_next(h);
	else
		return RELAY_PASS;
	return RELAY_DROP;
}

static enum relay_verdict judge(struct relay *relay)
{
	struct hop *h = hop_of(relay);
	const struct relay_reply *reply = &relay->reply;
	const size_t have = relay->in.len - relay->head_len;

	const unsigned reads = HTTP_GET | HTTP_HEAD;
	if (h->place == PLACE_UPLOAD && reply->status == 200 &&
	    (http_request_method(h->req) & reads) != 0) { /* the link is there */
		upload_form_respond(relay->req);
		hop_free(h);
		return RELAY_DROP;
	}
	if (h->bound->face_row)
		return judge_face(h, reply);
	if (!is_judged(h, reply->status) || reply->framing != RELAY_LENGTH ||
	    reply->length > RELAY_JUDGED_MAX / 2)
		return RELAY_PASS;
	if (have < reply->length && !relay->eof)
		return RELAY_WAIT;
	if (reply->status < 402 && hop_says_ours(relay->in.data + relay->head_len, have)) {
		refuse_mistrusted(h);
		return RELAY_DROP;
	}
	if (reply->status < 402 || !hop_says_full(relay->in.data + relay->head_len, have) ||
	    !goes_on(h, hop_says_unable(relay->in.data + relay->head_len, have)))
		return RELAY_PASS;
	try_next(h);
	return RELAY_DROP;
}

void hops_fail(struct worker *w)
{
	while (!list_is_empty(&w->hops)) {
		struct hop *h = list_first(&w->hops, struct hop, node);

		if (h->begun && (h->relay.stream || h->relay.socket))
			relay_cut(&h->relay, 1012); /* RFC 6455 registry: the service restarts */
		else
			hop_refuse(h, ERR_NODE_UNREACHABLE, "worker %s does not answer any more",
				   w->id);
	}
}

/* ---- the beginning ---- */

static void send_on(struct hop *h)
{
	const char *session = http_request_header(h->req, "mcp-session-id");

	if (hop_by_kept(h))
		return;
	switch (h->place) {
	case PLACE_BOX:
		by_face(h);
		return;
	case PLACE_ID:
		if (h->bound->face_row)
			by_face(h);
		else
			by_id(h, hop_id_of(h->req));
		return;
	case PLACE_LINK:
	case PLACE_UPLOAD:
	case PLACE_NAME:
		by_link(h);
		return;
	case PLACE_QUERY:
		by_id(h, http_request_query(h->req, "session_id"));
		return;
	case PLACE_MCP:
		if (session) {
			by_id(h, session);
			return;
		}
		h->place = hop_is_initialize(&h->body) ? PLACE_NEW : PLACE_HOME;
		break;
	case PLACE_HERE:
	case PLACE_NEW:
	case PLACE_HOME:
	case PLACE_LIST:
	case PLACE_FEED:
	case PLACE_STREAM:
	case PLACE_READY:
	case PLACE_KEPT:
	case PLACE_KEEP:
	case PLACE_ABSENT:
		break;
	}
	hop_place(h);
}

static int on_body(struct http_request *req UNUSED, const void *data, size_t len, void *user)
{
	struct hop *h = user;

	if (!data) {
		h->in_memory = true;
		/* Of chunks the most there might be was taken. */
		budget_note(h->router->config.budgets, h->who->owner, BUDGET_MESSAGE_MEMORY,
			    h->body.len, &h->share);
		send_on(h);
		return 0;
	}
	const int r = buf_add(&h->body, data, len);
	if (r < 0)
		hop_refuse(h, ERR_OUT_OF_MEMORY, "no memory for the request");
	return r;
}

static void on_gone(void *user)
{
	struct hop *h = user;

	h->router->counts.left++;
	hop_free(h);
}

void hop_begin(const struct bound *b, struct http_request *req, const struct caller *who)
{
	const uint64_t said = http_request_body_length(req);
	/* SDKs send chunks, of which nobody says how many there are. */
	const uint64_t length = said == UINT64_MAX && b->face_row ? b->row.body_max : said;
	struct fleet_router *f = b->router;
	const enum place place_of = b->place;
	char stranger[BUDGET_PRINCIPAL_SIZE];
	const char *payer = hop_payer(req, who, stranger);
	struct hop *h = calloc(1, sizeof(*h));
	struct err e = ERR_INIT;

	if (!h) {
		hop_respond(b, req, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	list_init(&h->node);
	h->router = f;
	h->bound = b;
	h->req = req;
	h->who = who ? caller_ref(who) : NULL;
	h->place = place_of;
	buf_init(&h->body, FLEET_BODY_MAX);
	if (place_of != PLACE_BOX &&
	    budget_take(f->config.budgets, payer, BUDGET_PORT_REQUESTS, 1, &h->request, &e) < 0) {
		hop_refuse(h, e.code, "%s", e.text);
		return;
	}
	http_request_on_gone(req, on_gone, h);
	if (!who || hop_has_worker(place_of, req) || length == 0 || length > FLEET_BODY_MAX) {
		send_on(h);
		return;
	}
	if (budget_take(f->config.budgets, payer, BUDGET_MESSAGE_MEMORY, length, &h->share, &e) <
	    0) {
		hop_refuse(h, e.code, "%s", e.text);
		return;
	}
	http_request_read_body(req, on_body, h);
}
