/* SPDX-License-Identifier: Apache-2.0 */
/* What REST does before and after each handler: checks of rights and bodies, idempotency, the audit
 * log. */
#include "api/rest/rest.h"

#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <stdarg.h>
#include <string.h>

#define IDEM_NS      (24 * 3600 * NS_PER_S)
#define IDEM_KEY_MAX 255
#define HASH_BYTES   32
#define LARGE_ROOM   (1u << 20) /* of an answer with REST_LARGE */

struct bound {
	struct api *api;
	const struct rest_route *route;
};

/* A request with an Idempotency-Key. */
struct idem {
	struct list node;         /* in rest.idems */
	uint8_t key[HASH_BYTES];  /* hash of caller, owner, route and Idempotency-Key */
	uint8_t body[HASH_BYTES]; /* hash of the request's body */
	uint64_t since_ns;
	struct budget_share place, bytes;
	char owner[STORE_OWNER_SIZE];
	bool running;
	int status;
	struct shared_bytes *answer; /* reference: JSON text */
	bool forgotten;              /* its answer was dropped to save memory */
	bool problem;
};

struct rest {
	struct bound *bounds;
	struct http_route *rows;
	struct list idems; /* newest first */
};

/* ---- the end of a call ---- */

static void call_free(struct rest_call *c)
{
	if (c->idem && c->idem->running)
		c->idem->since_ns = 0; /* there is no answer to repeat */
	if (c->idem)
		c->idem->running = false;
	(void)sandbox_unref(c->sandbox);
	caller_unref(c->who);
	json_decref(c->body);
	json_decref(c->done);
	(void)shared_bytes_unref(c->answer);
	free(c->text);
	budget_give(&c->room);
	free(c);
}

static void audit(struct rest_call *c, const char *result)
{
	if (c->action)
		api_audit(c->api, c->req, c->who, c->action, c->object, result);
}

static void idem_forget(struct idem *i)
{
	i->answer = shared_bytes_unref(i->answer);
	i->forgotten = true;
	budget_give(&i->bytes);
}

/* Takes room for the answer of I, which will have LEN bytes. If there is none, ended runs of the same user are
 * forgotten, then older answers, the oldest first, and at last this one: false. */
static bool idem_take_room(struct api *a, struct idem *i, size_t len)
{
	struct err e = ERR_INIT;

	while (budget_take(a->config.budgets, i->owner, BUDGET_KEPT_BYTES, len, &i->bytes, &e) <
	       0) {
		struct idem *oldest = i;

		if (runs_forget_oldest(a, i->owner, NULL))
			continue;

		list_for_each(l, &a->rest->idems) { /* newest first */
			struct idem *other = list_entry(l, struct idem, node);

			if (other->answer && streq(other->owner, i->owner))
				oldest = other;
		}
		idem_forget(oldest);
		if (oldest == i)
			return false;
	}
	return true;
}

static void keep_answer(struct rest_call *c, int status, bool problem)
{
	if (!c->idem)
		return;
	if (c->answer && idem_take_room(c->api, c->idem, c->answer->len))
		c->idem->answer = shared_bytes_ref(c->answer);
	c->idem->status = status;
	c->idem->problem = problem;
	/* Not kept: a server that was full may have room at the next try. */
	c->idem->running = status >= 500 || status == 429;
}

static void reply(struct rest_call *c, int status)
{
	audit(c, "ok");
	keep_answer(c, status, false);
	if (c->req && c->answer)
		http_respond_bytes(c->req, status, "application/json", c->answer);
	else if (c->req)
		http_respond(c->req, status, NULL, NULL, 0);
	call_free(c);
}

static void on_settled(const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e && e->code == ERR_CANCELLED)
		c->action = NULL; /* the store is being closed */
	if (e)
		rest_fail(c, e);
	else
		reply(c, c->status);
}

static void send(struct rest_call *c, int status)
{
	struct store *s = c->api->config.store;
	struct err e = ERR_INIT;
	int r = 1;

	if (s && store_owes(s)) {
		c->status = status;
		r = store_settle(s, on_settled, c, &e);
	}
	if (r < 0)
		rest_fail(c, &e);
	else if (r > 0)
		reply(c, status);
}

void rest_reply_bytes(struct rest_call *c, int status, struct shared_bytes *text)
{
	c->answer = shared_bytes_ref(text);
	send(c, status);
}

void rest_reply_text(struct rest_call *c, int status, struct buf *text)
{
	const size_t len = text ? text->len : 0;
	char *data = len > 0 ? buf_take(text) : NULL;

	if (data)
		c->answer = shared_bytes_new(data, len);
	if (len > 0 && !c->answer)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else
		send(c, status);
}

void rest_fail(struct rest_call *c, const struct err *e)
{
	audit(c, err_code_name(e->code));
	if (c->req)
		api_problem(c->req, e, c->done);
	call_free(c);
}

void rest_refuse(struct rest_call *c, enum err_code code, const char *fmt, ...)
{
	struct err e = ERR_INIT;
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)err_set(&e, code, 0, "%s", text);
	rest_fail(c, &e);
}

struct http_request *rest_give(struct rest_call *c)
{
	struct http_request *req = c->req;

	if (req)
		http_request_on_gone(req, NULL, NULL);
	audit(c, "ok");
	call_free(c);
	return req;
}

/* ---- idempotency ---- */

static void hash_parts(const char *const *parts, size_t n, uint8_t ret[HASH_BYTES])
{
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, NULL, 0, HASH_BYTES);
	for (size_t i = 0; i < n; i++) {
		const char *part = parts[i] ? parts[i] : "";

		(void)crypto_generichash_update(&state, (const uint8_t *)part, strlen(part) + 1);
	}
	(void)crypto_generichash_final(&state, ret, HASH_BYTES);
}

static void idem_free(struct idem *i)
{
	budget_give(&i->place);
	budget_give(&i->bytes);
	list_remove(&i->node);
	(void)shared_bytes_unref(i->answer);
	free(i);
}

void rest_forget_owner(struct api *a, const char *owner)
{
	while (runs_forget_oldest(a, owner, NULL))
		;
	list_for_each(l, &a->rest->idems) {
		struct idem *i = list_entry(l, struct idem, node);

		if (!i->running && streq(i->owner, owner))
			idem_free(i);
	}
	if (a->config.cells)
		feed_forget(cells_feed(a->config.cells), owner);
	if (a->config.removed)
		a->config.removed(owner, a->config.user);
}

/* Drops requests that are too old, or that have no answer to repeat; those that are still running stay. */
static void idem_sweep(struct rest *r)
{
	uint64_t now = now_ns();

	list_for_each(l, &r->idems) {
		struct idem *i = list_entry(l, struct idem, node);

		if (!i->running && (i->since_ns + IDEM_NS <= now || i->since_ns == 0))
			idem_free(i);
	}
}

/* Takes a place for I. At the bound the oldest request of the same user makes room. */
static int idem_take_place(struct api *a, struct idem *i, struct err *e)
{
	int r;

	while ((r = budget_take(a->config.budgets, i->owner, BUDGET_IDEMPOTENCY_KEYS, 1, &i->place,
				e)) < 0) {
		struct idem *oldest = NULL;

		list_for_each(l, &a->rest->idems) { /* newest first */
			struct idem *other = list_entry(l, struct idem, node);

			if (!other->running && streq(other->owner, i->owner))
				oldest = other;
		}
		if (!oldest)
			return r;
		idem_free(oldest);
	}
	return 0;
}

static void replay(struct rest_call *c, const struct idem *i)
{
	(void)http_add_header(c->req, "Idempotent-Replayed", "true");
	const char *type = i->problem ? HTTP_PROBLEM_TYPE : "application/json";

	if (i->answer)
		http_respond_bytes(c->req, i->status, type, i->answer);
	else
		http_respond_text(c->req, i->status, type, "");
	call_free(c);
}

/* Returns true if C goes on, false if it has been answered. */
static bool idem_begin(struct rest_call *c)
{
	struct rest *r = c->api->rest;
	const char *given = http_request_header(c->req, "idempotency-key");
	uint8_t key[HASH_BYTES], body[HASH_BYTES];

	if (!given || !(c->route->flags & REST_IDEMPOTENT))
		return true;
	if (!*given || strlen(given) > IDEM_KEY_MAX) {
		rest_refuse(c, ERR_INVALID_ARGUMENT, "Idempotency-Key has 1 to 255 bytes");
		return false;
	}
	const char *parts[] = {c->who->owner, c->owner, c->route->id, http_request_path(c->req),
			       given};
	hash_parts(parts, ARRAY_SIZE(parts), key);
	parts[0] = http_request_body(c->req, NULL);
	hash_parts(parts, 1, body);
	idem_sweep(r);
	list_for_each(l, &r->idems) {
		const struct idem *i = list_entry(l, struct idem, node);

		if (memcmp(i->key, key, sizeof(key)) != 0)
			continue;
		if (memcmp(i->body, body, sizeof(body)) != 0)
			rest_refuse(c, ERR_ALREADY_EXISTS,
				    "this Idempotency-Key was used for another body");
		else if (i->running)
			rest_refuse(c, ERR_SESSION_BUSY,
				    "the first request with this key still runs");
		else if (i->forgotten)
			rest_refuse(c, ERR_ALREADY_EXISTS,
				    "this was done; its answer is not kept any more");
		else
			replay(c, i);
		return false;
	}
	struct idem *i = calloc(1, sizeof(*i));
	if (!i) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return false;
	}
	list_init(&i->node);
	memcpy(i->owner, c->who->owner, sizeof(i->owner));
	struct err e = ERR_INIT;
	if (idem_take_place(c->api, i, &e) < 0) {
		idem_free(i);
		rest_fail(c, &e);
		return false;
	}
	memcpy(i->key, key, sizeof(key));
	memcpy(i->body, body, sizeof(body));
	i->since_ns = now_ns();
	i->running = true;
	list_prepend(&r->idems, &i->node);
	c->idem = i;
	return true;
}

/* ---- dispatch ---- */

void rest_on_gone(void *user)
{
	struct rest_call *c = user;

	c->req = NULL;
}

/* Checks the rights of the caller. If they do not suffice, answers and returns false. */
static bool check_rights(struct rest_call *c)
{
	const unsigned flags = c->route->flags;

	if ((flags & REST_CHANGES) && c->who->read_only)
		rest_refuse(c, ERR_FORBIDDEN, "this key may only read");
	else if ((flags & REST_CHANGES) && !auth_may_change(c->who, c->route->id))
		rest_refuse(c, ERR_FORBIDDEN, "this key is for the tools of one profile");
	else if ((flags & REST_ADMIN) && !c->who->admin)
		rest_refuse(c, ERR_FORBIDDEN, "only administrators may do that");
	else if ((flags & REST_STORE) && !c->api->config.store)
		rest_refuse(c, ERR_STORE_FAILED, "this server has no database");
	else
		return true;
	return false;
}

static bool check_input(struct rest_call *c)
{
	const struct rest_route *route = c->route;
	const char *owner = http_request_query(c->req, "owner");
	struct err e = ERR_INIT;
	int r = route->query ? fields_check_query(route->query, c->req, &e) : 0;

	if (r == 0 && route->body) {
		c->body = api_body(c->req, &e);
		r = c->body ? fields_check(route->body, c->body, &e) : -EINVAL;
	}
	if (r < 0) {
		rest_fail(c, &e);
		return false;
	}
	(void)snprintf(c->owner, sizeof(c->owner), "%s", c->who ? c->who->owner : "");
	if (owner && c->who && c->who->admin)
		(void)snprintf(c->owner, sizeof(c->owner), "%s", owner);
	return true;
}

static void start(struct rest_call *c)
{
	const bool later = c->route->flags & REST_LATER;
	struct store *s = c->api->config.store;
	const rest_fn fn = c->route->fn;

	if (later)
		(void)store_later(s, true);
	fn(c);
	if (later)
		(void)store_later(s, false);
}

static void on_written(const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e)
		rest_fail(c, e);
	else if (c->req || (c->route->flags & REST_CHANGES))
		start(c);
	else
		call_free(c);
}

static void call(struct rest_call *c)
{
	struct err e = ERR_INIT;
	const char *id = http_request_param(c->req, "id");

	if ((c->route->flags & REST_LARGE) && http_request_reserve(c->req, LARGE_ROOM, &e) < 0) {
		rest_fail(c, &e);
		return;
	}
	if (!(c->route->flags & REST_HISTORY)) {
		start(c);
		return;
	}
	if (id && strlen(id) < sizeof(c->object) && text_is_utf8(id, strlen(id)))
		(void)snprintf(c->object, sizeof(c->object), "%s", id);
	if (store_when_written(c->api->config.store, c->owner, on_written, c) > 0)
		start(c);
}

static void dispatch(struct http_request *req, void *user)
{
	const struct bound *b = user;
	const struct caller *who = auth_identify(b->api->config.auth, req);
	struct rest_call *c;

	if (!who && !(b->route->flags & REST_PUBLIC)) {
		auth_refuse(b->api->config.auth, req);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	c->api = b->api;
	c->route = b->route;
	c->req = req;
	http_request_on_gone(req, rest_on_gone, c);
	if (!who) {
		if (check_input(c))
			b->route->fn(c);
		return;
	}
	c->who = caller_ref(who);
	if (check_rights(c) && check_input(c) && idem_begin(c))
		call(c);
}

/* ---- for handlers ---- */

static void on_sandbox(struct sandbox *s, const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e && e->code == ERR_SESSION_NOT_FOUND) {
		rest_no_sandbox(c, c->object);
		return;
	}
	if (e) {
		rest_fail(c, e);
		return;
	}
	c->sandbox = sandbox_ref(s);
	if (c->req)
		c->next(c);
	else
		call_free(c);
}

void rest_no_sandbox(struct rest_call *c, const char *id)
{
	struct err e = ERR_INIT;

	(void)manager_no_session(c->api->config.manager, c->owner, id, &e);
	rest_fail(c, &e);
}

void rest_sandbox(struct rest_call *c, rest_fn next)
{
	const char *id = http_request_param(c->req, "id");
	struct manager *m = c->api->config.manager;
	struct sandbox *s = manager_find(m, c->owner, id);

	c->next = next;
	(void)snprintf(c->object, sizeof(c->object), "%s", id);
	if (!text_is_utf8(c->object, strlen(c->object)))
		rest_refuse(c, ERR_SESSION_NOT_FOUND, "There is no such sandbox");
	else if (s)
		on_sandbox(s, NULL, c);
	else
		manager_activate(m, c->owner, id, on_sandbox, c);
}

bool rest_is_page(const struct rest_call *c)
{
	return c->req && http_request_header(c->req, "x-caisson-page");
}

/* ---- routes ---- */

#define STREAMED (unsigned)(REST_BYTES_IN | REST_FORM_IN)

static uint64_t body_max(const struct api *a, const struct rest_route *route)
{
	if (route->flags & STREAMED)
		return UINT64_MAX; /* these count their bytes themselves, to name the limit of uploads */
	if (!route->body)
		return 0;
	/* Code and standard input, with every byte escaped. */
	return API_BODY_MAX + a->config.max_code_bytes * 6 * 2;
}

static unsigned http_flags(const struct rest_route *route)
{
	/* Callers without a valid credential are refused before their bodies are read into memory.
	 */
	unsigned flags = route->flags & REST_PUBLIC ? 0 : (unsigned)HTTP_ROUTE_AUTH;

	if (route->flags & STREAMED)
		flags |= (unsigned)HTTP_ROUTE_STREAM_BODY;
	if (route->flags & REST_EVENTS)
		flags |= (unsigned)HTTP_ROUTE_QUERY_KEY;
	flags |= (unsigned)(HTTP_ROUTE_COOKIE | HTTP_ROUTE_CODED_SLASHES);
	return flags;
}

int rest_add_routes(struct api *a, struct http_server *http, unsigned scopes)
{
	struct rest *rest = calloc(1, sizeof(*rest));
	int r = 0;

	if (!rest)
		return -ENOMEM;
	list_init(&rest->idems);
	a->rest = rest;
	rest->bounds = calloc(rest_n_routes, sizeof(*rest->bounds));
	rest->rows = calloc(rest_n_routes, sizeof(*rest->rows));
	if (!rest->bounds || !rest->rows)
		return -ENOMEM;
	for (size_t i = 0; i < rest_n_routes && r == 0; i++) {
		const struct rest_route *route = &rest_routes[i];

		rest->bounds[i] = (struct bound){.api = a, .route = route};
		rest->rows[i] = (struct http_route){
		    .methods = route->method,
		    .pattern = route->path,
		    .handler = dispatch,
		    .flags = http_flags(route),
		    .body_max = body_max(a, route),
		};
		r = http_server_add_routes(http, &rest->rows[i], 1, scopes, &rest->bounds[i]);
	}
	return r;
}

void rest_done(struct api *a)
{
	struct rest *rest = a->rest;

	if (!rest)
		return;
	list_for_each(l, &rest->idems)
		idem_free(list_entry(l, struct idem, node));
	free(rest->bounds);
	free(rest->rows);
	free(rest);
	a->rest = NULL;
}
