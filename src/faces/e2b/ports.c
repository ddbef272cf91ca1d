/* SPDX-License-Identifier: Apache-2.0 */
/* Names of ports, PORT-ID.DOMAIN: who may reach them, and what programs and people are told of a port where nobody
 * listens. The bytes pass in api/ports. */
#include "faces/e2b/face.h"

#include "base/jsonio.h"
#include "base/text.h"
#include "base/walls.h"

#include <stdio.h>
#include <string.h>

#define PAGE_MAX 1024

/* An id of this form is one of ours, or of nobody. */
static bool has_form(const char *id)
{
	return id[0] == 'i' && strlen(id) == E2B_ID_SIZE - 1 &&
	       id[strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz")] == '\0';
}

static enum api_port_door look(void *user, const struct http_request *req, const char *id,
			       const struct caller **ret_owner)
{
	const struct e2b_sandbox *s = e2b_find(user, id);
	const char *given = http_request_header(req, "e2b-sandbox-id");

	if (!s && !has_form(id))
		return API_PORT_UNKNOWN;
	/* Like its tokens, its ports count on the key that made it, or connected last. */
	if (!s || !s->sandbox || auth_has_ended(s->who) || (s->paused && !s->auto_resume) ||
	    (given && !streq(given, id) && wall_stands(WALL_AGREE)))
		return API_PORT_GONE;
	*ret_owner = s->who;
	return e2b_is_token(http_request_header(req, "e2b-traffic-access-token"), s->traffic)
		   ? API_PORT_OPEN
		   : API_PORT_CLOSED;
}

static void wake(void *user, const char *id)
{
	struct e2b_sandbox *s = e2b_find(user, id);

	if (s && s->paused)
		e2b_sandbox_resume(s, s->life_s, true);
}

static int name(void *user, const char *id, uint16_t port, struct buf *ret)
{
	const struct e2b_sandbox *s = e2b_find(user, id);
	const char *at = s ? s->host : "";
	int r = 0;

	while (r == 0 && *at) {
		const char *word = strstr(at, E2B_PORT_WORD);

		r = buf_add(ret, at, word ? (size_t)(word - at) : strlen(at));
		r = r < 0 || !word ? r : buf_printf(ret, "%u", port);
		at = word ? word + strlen(E2B_PORT_WORD) : "";
	}
	return r;
}

static bool speaks_tls(void *user, const char *id, uint16_t port)
{
	const struct e2b_sandbox *s = e2b_find(user, id);

	for (unsigned i = 0; s && i < s->n_https; i++)
		if (s->https[i] == port)
			return true;
	return false;
}

/* The page for people: programs do not call themselves Mozilla, and browsers all do. */
static bool is_browser(const struct http_request *req)
{
	const char *agent = http_request_header(req, "user-agent");

	return agent && strncmp(agent, "Mozilla/", strlen("Mozilla/")) == 0;
}

static void show(struct http_request *req, int status, const char *title, const char *text)
{
	char page[PAGE_MAX];
	const int n = snprintf(page, sizeof(page),
			       "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
			       "<meta name=\"viewport\" content=\"width=device-width\">\n"
			       "<title>%s</title>\n<h1>%s</h1>\n<p>%s</p>\n</html>\n",
			       title, title, text);

	http_respond(req, status, "text/html; charset=utf-8", page,
		     n < PAGE_MAX ? (size_t)n : sizeof(page) - 1);
}

/* ID has the form of an id, so nothing in it is markup. */
static void show_refusal(struct http_request *req, const char *id, uint16_t port,
			 enum err_code code)
{
	char text[PAGE_MAX / 2];

	if (code == ERR_PORT_CLOSED) {
		(void)snprintf(text, sizeof(text),
			       "Sandbox %s is running, but nothing listens on its port %u. Start a "
			       "server there, and load this page again.",
			       id, port);
		show(req, 502, "Closed Port Error", text);
	} else if (code == ERR_UNAUTHORIZED) {
		show(req, 403, "Closed to Visitors",
		     "The ports of this sandbox are not public. Its owner can give you a link that "
		     "lets you in.");
	} else {
		(void)snprintf(text, sizeof(text),
			       "There is no sandbox %s: it has ended, or it is paused.", id);
		show(req, 502, "Sandbox Not Found", text);
	}
}

static bool refuse(void *user UNUSED, struct http_request *req, const char *id, uint16_t port,
		   enum err_code code)
{
	const bool closed = code == ERR_PORT_CLOSED;
	const bool gone = code == ERR_SESSION_NOT_FOUND || code == ERR_SANDBOX_LOST;

	if (!closed && !gone && code != ERR_UNAUTHORIZED)
		return false;
	if (is_browser(req)) {
		show_refusal(req, id, port, code);
		return true;
	}
	if (gone) {
		e2b_refuse_dead(req, id);
		return true;
	}
	json_t *body =
	    json_pack("{s:s, s:s, s:i, s:i}", "sandboxId", id, "message",
		      closed ? "The sandbox is running but port is not open"
			     : "The ports of this sandbox are not public: send its token "
			       "in the header e2b-traffic-access-token",
		      "port", port, "code", closed ? 502 : 403);
	size_t len = 0;
	char *text = jsonio_text(body, JSON_COMPACT, &len);

	json_decref(body);
	if (!text)
		return false;
	http_respond_take(req, closed ? 502 : 403, "application/json", text, len);
	return true;
}

void e2b_serve_ports(struct e2b *f, struct api *api)
{
	const struct api_port_face face = {.look = look,
					   .wake = wake,
					   .name = name,
					   .speaks_tls = speaks_tls,
					   .refuse = refuse,
					   .user = f};

	api_set_port_face(api, &face);
}
