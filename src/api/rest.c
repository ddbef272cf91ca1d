/* SPDX-License-Identifier: Apache-2.0 */
/* What REST does before and after each handler: checks of rights and bodies, idempotency, the audit
 * log. */
#include "api/rest.h"

#include "base/jsonio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <stdarg.h>
#include <string.h>

#define IDEM_NS      (24 * 3600 * NS_PER_S)
#define IDEM_KEY_MAX 255
#define HASH_BYTES   32

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
	char *answer; /* owned JSON text */
	size_t answer_len;
	bool forgotten; /* its answer was dropped to save memory */
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
	json_decref(c->answer);
	free(c->text);
	free(c);
}

static void audit(struct rest_call *c, const char *result)
{
	if (c->action)
		api_audit(c->api, c->req, c->who, c->action, c->object, result);
}

static void idem_forget(struct idem *i)
{
	free(TAKE_PTR(i->answer));
	i->answer_len = 0;
	i->forgotten = true;
	budget_give(&i->bytes);
}

/* Takes room for the answer of I. If there is none, ended runs of the same user are forgotten, then older
 * answers, the oldest first, and at last this one. */
static void idem_count(struct api *a, struct idem *i)
{
	struct err e = ERR_INIT;

	while (budget_take(a->config.budgets, i->owner, BUDGET_KEPT_BYTES, i->answer_len, &i->bytes,
			   &e) < 0) {
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
			return;
	}
}

static void keep_answer(struct rest_call *c, int status, bool problem, const json_t *body)
{
	if (!c->idem)
		return;
	c->idem->answer = jsonio_text(body, JSON_COMPACT, &c->idem->answer_len);
	idem_count(c->api, c->idem);
	c->idem->status = status;
	c->idem->problem = problem;
	/* Not kept: a server that was full may have room at the next try. */
	c->idem->running = status >= 500 || status == 429;
}

static void reply(struct rest_call *c, int status, json_t *body)
{
	audit(c, "ok");
	keep_answer(c, status, false, body);
	if (!c->req)
		json_decref(body);
	else if (body)
		api_json(c->req, status, body);
	else
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
		reply(c, c->status, TAKE_PTR(c->answer));
}

void rest_reply(struct rest_call *c, int status, json_t *body)
{
	struct store *s = c->api->config.store;
	struct err e = ERR_INIT;
	int r = 1;

	if (s && store_owes(s)) {
		c->status = status;
		c->answer = body;
		r = store_settle(s, on_settled, c, &e);
	}
	if (r < 0)
		rest_fail(c, &e);
	else if (r > 0)
		reply(c, status, c->answer ? TAKE_PTR(c->answer) : body);
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
	free(i->answer);
	free(i);
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
	http_respond_text(c->req, i->status, i->problem ? HTTP_PROBLEM_TYPE : "application/json",
			  i->answer ? i->answer : "");
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
		store_later(s, true);
	fn(c);
	if (later)
		store_later(s, false);
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
	const char *id = http_request_param(c->req, "id");

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

const char *rest_text(const struct rest_call *c, const char *name, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(c->body, name));

	return text ? text : otherwise;
}

int64_t rest_int(const struct rest_call *c, const char *name, int64_t otherwise)
{
	const json_t *v = json_object_get(c->body, name);

	return v ? json_integer_value(v) : otherwise;
}

bool rest_bool(const struct rest_call *c, const char *name)
{
	return json_is_true(json_object_get(c->body, name));
}

bool rest_has(const struct rest_call *c, const char *name)
{
	return json_object_get(c->body, name) != NULL;
}

int64_t rest_query_int(const struct rest_call *c, const char *name, int64_t otherwise)
{
	const char *text = http_request_query(c->req, name);
	int64_t n;

	return text && parse_i64(text, INT64_MIN, INT64_MAX, &n) == 0 ? n : otherwise;
}

bool rest_query_bool(const struct rest_call *c, const char *name)
{
	const char *text = http_request_query(c->req, name);

	return text && streq(text, "true");
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
	return API_BODY_MAX + a->config.max_code_bytes * 6;
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
	flags |= (unsigned)HTTP_ROUTE_COOKIE;
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
