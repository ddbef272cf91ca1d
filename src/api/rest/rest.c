/* SPDX-License-Identifier: Apache-2.0 */
/* What REST does before and after each handler: checks of rights and bodies, the audit log. */
#include "api/rest/rest.h"

#include "api/rest/idempotency.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

#define LARGE_ROOM (1u << 20) /* of an answer with REST_LARGE */

struct bound {
	struct api *api;
	const struct rest_route *route;
};

struct rest {
	struct bound *bounds;
	struct http_route *rows;
	struct list idems; /* newest first */
};

/* ---- the end of a call ---- */

static void call_free(struct rest_call *c)
{
	idem_end(c->idem);
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

static void reply(struct rest_call *c, int status)
{
	audit(c, "ok");
	idem_keep_answer(c, &c->api->rest->idems, status);
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

void rest_forget_owner(struct api *a, const char *owner)
{
	while (runs_forget_oldest(a, owner, NULL))
		;
	idem_forget_owner(&a->rest->idems, owner);
	if (a->config.cells)
		feed_forget(cells_feed(a->config.cells), owner);
	if (a->config.removed)
		a->config.removed(owner, a->config.user);
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

static bool check_query(struct rest_call *c)
{
	const struct rest_route *route = c->route;
	const char *owner = http_request_query(c->req, "owner");
	struct err e = ERR_INIT;

	if (route->query && fields_check_query(route->query, c->req, &e) < 0) {
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

	char by[STORE_OWNER_SIZE];

	(void)snprintf(by, sizeof(by), "%s",
		       c->who ? c->who->owner : ""); /* C may be gone afterwards */
	store_owes_nothing(s);
	store_changes_by(s, by);
	if (later)
		(void)store_later(s, true);
	fn(c);
	if (later)
		(void)store_later(s, false);
	store_changes_by(s, NULL);
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

/* The body has been read. */
static void go_on(struct rest_call *c)
{
	if (!c->who)
		c->route->fn(c);
	else if (idem_begin(c, &c->api->rest->idems))
		call(c);
}

static void on_body(json_t *body, const struct err *e, void *user)
{
	struct rest_call *c = user;
	struct err own = e ? *e : ERR_INIT;

	c->body = body;
	if (!c->req)
		call_free(c);
	else if (!body || fields_check(c->route->body, body, &own) < 0)
		rest_fail(c, &own);
	else if (c->who && auth_has_ended(c->who))
		rest_refuse(c, ERR_UNAUTHORIZED, "the credential ended meanwhile");
	else
		go_on(c);
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
	c->who = who ? caller_ref(who) : NULL;
	if ((who && !check_rights(c)) || !check_query(c))
		return;
	if (c->route->body)
		api_read_body(req, b->api->config.budgets, c->who ? c->who->owner : "", on_body, c);
	else
		go_on(c);
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
	if (route->flags & REST_PUBLIC)
		return API_STRANGER_BODY_MAX;
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
	if (route->flags & (unsigned)(REST_EVENTS | REST_SOCKET))
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
		    .handler =
			a->config.worker && route->flags & REST_ROUTER ? api_of_router : dispatch,
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
	idem_done(&rest->idems);
	free(rest->bounds);
	free(rest->rows);
	free(rest);
	a->rest = NULL;
}
