/* SPDX-License-Identifier: Apache-2.0 */
/* Life of the face; how a request becomes a call, who may make it, and how its errors look. */
#include "faces/e2b/templates.h"

#include "api/json_body.h"
#include "base/base64.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "fleet/identity.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- errors ---- */

const char *e2b_connect_code(enum err_code code)
{
	switch (err_code_http(code)) {
	case 400:
		return "invalid_argument";
	case 401:
		return "unauthenticated";
	case 403:
		return "permission_denied";
	case 404:
		return "not_found";
	case 409:
		return code == ERR_ALREADY_EXISTS || code == ERR_FILE_EXISTS
			   ? "already_exists"
			   : "failed_precondition";
	case 413:
	case 429:
		return "resource_exhausted";
	case 499:
		return "canceled";
	case 501:
		return "unimplemented";
	case 502:
	case 503:
		return "unavailable";
	case 504:
		return "deadline_exceeded";
	case 507:
		return "resource_exhausted";
	default:
		return "internal";
	}
}

static void respond(struct http_request *req, int status, json_t *body)
{
	size_t len = 0;
	char *text = jsonio_text(body, JSON_COMPACT, &len);

	json_decref(body);
	if (text)
		http_respond_take(req, status, "application/json", text, len);
	else
		http_respond_text(req, 503, "application/json",
				  "{\"code\":503,\"message\":\"no memory\"}");
}

/* A place where nothing may be written is a wrong path: frameworks tell the model of that, and end at any other error. */
static enum err_code code_of(const struct err *e, enum e2b_service service)
{
	return e->code == ERR_FORBIDDEN && service != E2B_CONTROL ? ERR_INVALID_PATH : e->code;
}

/* The SDKs take 502 to 504 for an answer that is worth another try, or for a sandbox that has ended. */
static bool may_be_right_later(enum err_code code)
{
	static const enum err_code codes[] = {
	    ERR_SERVER_BUSY, ERR_OUT_OF_MEMORY,     ERR_NODE_UNREACHABLE,
	    ERR_FLEET_EMPTY, ERR_STORE_UNREACHABLE, ERR_STORE_BUSY,
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (code == codes[i])
			return true;
	return false;
}

void e2b_refuse_request(struct http_request *req, enum e2b_service service, const struct err *e)
{
	const enum err_code code = code_of(e, service);
	int status = err_code_http(code);
	const char *hint = err_code_hint(code);
	_cleanup_(buf_done) struct buf text = BUF_INIT(2 * ERR_TEXT_MAX);

	if (status >= 500 && status != 507)
		status = e->code == ERR_FLEET_FULL ? 429 : may_be_right_later(code) ? 503 : 500;
	if (status == 410)
		status = 404;
	if (buf_printf(&text, "%s%s%s", e->text, *hint ? ". " : "", hint) < 0)
		buf_reset(&text);
	if (status == 429 || status == 503)
		(void)http_add_header(req, "Retry-After", "1");
	if (http_request_is_by_member(req))
		(void)http_add_header(req, FLEET_ERROR_HEADER, err_code_name(code));
	if (service == E2B_STREAM)
		e2b_stream_refuse(req, e);
	else if (service == E2B_RPC)
		respond(req, status,
			json_pack("{s:s, s:s}", "code", e2b_connect_code(code), "message",
				  buf_str(&text)));
	else
		respond(req, status,
			json_pack("{s:i, s:s}", "code", status, "message", buf_str(&text)));
}

/* ---- calls ---- */

static bool refuse(struct http_request *req, enum e2b_service service, enum err_code code,
		   const char *text)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, code, 0, "%s", text);
	e2b_refuse_request(req, service, &e);
	return false;
}

static void call_free(struct e2b_call *c)
{
	if (c->req)
		http_request_on_gone(c->req, NULL, NULL);
	json_decref(c->body);
	caller_unref(c->who);
	(void)e2b_sandbox_unref(c->sandbox);
	free(c);
}

void e2b_reply(struct e2b_call *c, int status, json_t *body)
{
	struct http_request *req = c->req;

	call_free(c);
	if (req && body)
		respond(req, status, body);
	else if (req)
		http_respond(req, status, NULL, NULL, 0);
	else
		json_decref(body);
}

void e2b_reply_text(struct e2b_call *c, int status, struct buf *text)
{
	struct http_request *req = c->req;
	const size_t len = text->len;
	char *data = req ? buf_take(text) : NULL;

	call_free(c);
	if (data)
		http_respond_take(req, status, "application/json", data, len);
	else if (req)
		(void)refuse(req, E2B_RPC, ERR_OUT_OF_MEMORY, "no memory");
}

void e2b_fail(struct e2b_call *c, const struct err *e)
{
	struct http_request *req = c->req;
	const enum e2b_service service = c->route->service;

	call_free(c);
	if (req)
		e2b_refuse_request(req, service, e);
}

void e2b_refuse(struct e2b_call *c, enum err_code code, const char *fmt, ...)
{
	struct err e = ERR_INIT;
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)err_set(&e, code, 0, "%s", text);
	e2b_fail(c, &e);
}

struct http_request *e2b_give(struct e2b_call *c)
{
	struct http_request *req = c->req;

	call_free(c);
	return req;
}

static void on_gone(void *user)
{
	((struct e2b_call *)user)->req = NULL;
}

/* ---- who asks ---- */

bool e2b_may_use(const struct caller *who)
{
	return !who->read_only && auth_has_all_tools(who);
}

static bool admit_key(const struct e2b_bound *b, struct http_request *req)
{
	/* What a sandbox shows at a name of its own shares no origin with the control plane. */
	if (e2b_is_port_name(req))
		return refuse(req, E2B_CONTROL, ERR_NOT_FOUND,
			      "this name is of a sandbox; the API has another one");
	const struct caller *who = auth_identify(b->face->config.auth, req);
	struct err why = ERR_INIT;

	if (!who) {
		auth_why(b->face->config.auth, req, &why);
		return refuse(req, E2B_CONTROL, why.code,
			      why.code == ERR_UNAUTHORIZED ? "the API key is missing or not valid"
							   : why.text);
	}
	if (!b->route->reads && !e2b_may_use(who))
		return refuse(req, E2B_CONTROL, ERR_FORBIDDEN,
			      "this key may only read, or is for the tools of one profile");
	return true;
}

bool e2b_is_token(const char *given, const char *token)
{
	return given && strlen(given) == E2B_TOKEN_SIZE - 1 &&
	       sodium_memcmp(given, token, E2B_TOKEN_SIZE - 1) == 0;
}

static bool has_token(const struct e2b_sandbox *s, const struct http_request *req,
		      enum e2b_service service)
{
	return e2b_is_token(http_request_header(req, "x-access-token"), s->token) ||
	       (service == E2B_CODE &&
		e2b_is_token(http_request_header(req, "e2b-traffic-access-token"), s->traffic));
}

void e2b_refuse_dead(struct http_request *req, const char *id)
{
	respond(req, 502,
		json_pack("{s:o, s:s, s:i}", "sandboxId", e2b_text_json(id), "message",
			  "The sandbox was not found", "code", 502));
}

static bool refuse_dead(struct http_request *req)
{
	char id[E2B_ID_SIZE];

	e2b_refuse_dead(req, e2b_id_of(req, id) ? id : "");
	return false;
}

/* An address with a signature comes without token, and often without the name of its sandbox. */
bool e2b_is_signed(const struct e2b_bound *b, const struct http_request *req)
{
	return b->route->service == E2B_FILES && !http_request_header(req, "x-access-token") &&
	       http_request_query(req, "signature");
}

bool e2b_admit(struct http_request *req, void *user)
{
	const struct e2b_bound *b = user;
	const enum e2b_service service = b->route->service;
	const bool by_signature = e2b_is_signed(b, req);
	struct err e = ERR_INIT;

	if (service == E2B_CONTROL)
		return admit_key(b, req);
	struct e2b_sandbox *s =
	    by_signature ? e2b_signed_for(b->face, req, &e) : e2b_sandbox_of(b->face, req);
	if (!s && by_signature) {
		e2b_refuse_request(req, service, &e);
		return false;
	}
	if (!s || (s->paused && (!s->auto_resume || service == E2B_HEALTH)))
		return refuse_dead(req);
	if (service != E2B_HEALTH && !by_signature && !has_token(s, req, service) &&
	    wall_stands(WALL_TOKENS))
		return refuse(req, service, ERR_UNAUTHORIZED,
			      "the access token is missing or wrong");
	if (auth_has_ended(s->who))
		return refuse(req, service, ERR_UNAUTHORIZED,
			      "the key of this sandbox has ended: connect to it with another one");
	if (s->paused)
		e2b_sandbox_resume(s, s->life_s, true);
	http_request_set_principal(req, s->who->owner);
	http_request_set_caller(req, caller_ref(s->who), caller_unref);
	return true;
}

int e2b_check_user(struct e2b_call *c, struct err *e)
{
	static const char basic[] = "Basic ";
	const char *given = http_request_header(c->req, "authorization");
	struct base64_decoder d = {.lax = true};
	uint8_t name[BASE64_DECODED_MAX(64) + BASE64_END_MAX + 1];
	size_t len = 0, end = 0;

	if (!given || strncasecmp(given, basic, sizeof(basic) - 1) != 0) {
		c->root = c->sandbox->build && c->sandbox->build->setup.root;
		return 0;
	}
	given += sizeof(basic) - 1;
	if (strlen(given) > 64 || base64_decode(&d, given, strlen(given), name, &len) < 0 ||
	    base64_decode_end(&d, name + len, &end) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "Authorization names no user");
	name[len + end] = '\0';
	name[strcspn((const char *)name, ":")] = '\0';
	return e2b_check_name(c, (const char *)name, e);
}

int e2b_check_name(struct e2b_call *c, const char *name, struct err *e)
{
	c->root = streq(name, "root");
	if (!*name || streq(name, "user"))
		return 0;
	if (c->root && sandbox_options(c->sandbox->sandbox)->number[SANDBOX_OPTION_ROOT])
		return 0;
	if (c->root)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "this server offers no user root: leave out the user, or let the "
			       "operator set SANDBOX_ROOT=on");
	return err_set(e, ERR_UNAUTHORIZED, 0, "there is no user of that name");
}

json_t *e2b_text_json(const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(3 * strlen(text) + 1);

	return text_add_utf8_lossy(&b, text, strlen(text)) < 0 ? json_string("")
							       : json_stringn(buf_str(&b), b.len);
}

/* ---- dispatch ---- */

static void on_body(json_t *body, const struct err *e, void *user)
{
	struct e2b_call *c = user;
	const struct e2b *f = c->face;

	c->body = body;
	if (!c->req)
		call_free(c);
	else if (e)
		e2b_fail(c, e);
	else if (auth_has_ended(c->who))
		e2b_refuse(c, ERR_UNAUTHORIZED, "the credential ended meanwhile");
	else if (c->sandbox &&
		 (!c->sandbox->sandbox || c->sandbox->paused)) /* a thread reads long bodies */
		(void)refuse_dead(e2b_give(c));
	else if (c->route->templates && !f->config.templates && !e2b_is_for_list(c->req))
		e2b_not_offered(c);
	else
		c->route->fn(c);
}

void e2b_dispatch(struct http_request *req, void *user)
{
	const struct e2b_bound *b = user;
	const enum e2b_service service = b->route->service;
	struct e2b_call *c = calloc(1, sizeof(*c));
	struct err e = ERR_INIT;

	if (!c) {
		(void)refuse(req, service, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	c->face = b->face;
	c->route = b->route;
	c->req = req;
	c->who = caller_ref(auth_caller(req));
	http_request_on_gone(req, on_gone, c);
	if (service != E2B_CONTROL) {
		struct e2b_sandbox *s = e2b_is_signed(b, req) ? e2b_signed_for(b->face, req, &e)
							      : e2b_sandbox_of(b->face, req);

		/* It may have ended, or been paused, while the body came. */
		if (!s || s->paused) {
			(void)refuse_dead(e2b_give(c));
			return;
		}
		c->sandbox = e2b_sandbox_ref(s);
	}
	if (service == E2B_FILES) {
		b->route->fn(c);
	} else if (service == E2B_STREAM) {
		json_t *body = e2b_read_frame(req, &e);

		on_body(body, body ? NULL : &e, c);
	} else {
		api_read_body(req, b->face->config.budgets, c->who->owner, on_body, c);
	}
}

/* ---- life ---- */

int e2b_new(const struct e2b_config *config, struct e2b **ret, struct err *e)
{
	struct e2b *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the face of E2B");
	f->config = *config;
	list_init(&f->sandboxes);
	list_init(&f->snapshots);
	list_init(&f->makings);
	list_init(&f->turns);
	list_init(&f->templates);
	list_init(&f->points);
	list_init(&f->buildings);
	if (f->config.templates)
		e2b_templates_load(f);
	*ret = f;
	return 0;
}

struct e2b *e2b_free(struct e2b *f)
{
	if (!f)
		return NULL;
	e2b_turns_done(f);
	e2b_templates_done(f);
	if (f->config.builds)
		builds_end_tasks(f->config.builds);
	e2b_sandboxes_done(f);
	e2b_snapshots_done(f);
	free(f->rows);
	free(f->own_rows);
	free(f->bounds);
	free(f);
	return NULL;
}
