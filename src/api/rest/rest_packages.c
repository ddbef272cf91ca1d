/* SPDX-License-Identifier: Apache-2.0 */
/* REST: packages of a sandbox. An installation belongs to the server, not to the request that
 * started it. A client asks for its progress, and cancels it, with the same text. */
#include "api/rest/rest.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

/* Returns the service; NULL after it has answered. */
static struct packages *need_packages(struct rest_call *c)
{
	struct packages *p = c->api->config.packages;

	if (!p)
		rest_refuse(c, ERR_ENGINE_UNAVAILABLE, "this server installs no packages");
	return p;
}

/* Checks TEXT and copies it to c->text. Returns false after it has answered. */
static bool need_spec(struct rest_call *c, const char *text)
{
	struct err e = ERR_INIT;

	if (!need_packages(c))
		return false;
	if (packages_check_spec(text, strlen(text), &e) < 0) {
		rest_fail(c, &e);
		return false;
	}
	c->text = strdup(text);
	if (!c->text)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	return c->text;
}

/* ---- one status ---- */

json_t *rest_time(uint64_t wall_ns)
{
	char text[API_TIME_SIZE];

	return wall_ns > 0 ? json_string(api_time(wall_ns / NS_PER_MS, text)) : json_null();
}

static json_t *lossy_json(const char *text)
{
	size_t len = strlen(text);
	_cleanup_(buf_done) struct buf b = BUF_INIT(len * 3 + 1);

	return text_add_utf8_lossy(&b, text, len) < 0 ? json_string("") : json_string(buf_str(&b));
}

static json_t *status_json(const char *spec, const struct package_status *s)
{
	json_t *installed = json_array();

	for (size_t i = 0; i < s->n_installed; i++)
		(void)json_array_append_new(installed, lossy_json(s->installed[i]));
	return json_pack("{s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:I}", "packages", spec,
			 "status", package_word_name(s->word), "message", lossy_json(s->message),
			 "stderr", lossy_json(s->errors), "complete", s->complete, "installed",
			 installed, "started_at", rest_time(s->start_wall_ns), "ended_at",
			 rest_time(s->end_wall_ns), "elapsed_ms",
			 (json_int_t)(s->elapsed_ns / NS_PER_MS));
}

static void on_status(const struct package_status *status, void *user)
{
	struct rest_call *c = user;
	rest_reply(c, 200, status_json(c->text, status));
}

/* ---- the routes ---- */

static void install(struct rest_call *c)
{
	const struct packages_request request = {.spec = c->text,
						 .wait_ns = rest_bool(c, "wait") ? UINT64_MAX : 0,
						 .cb = on_status,
						 .user = c};
	struct err e = ERR_INIT;

	if (packages_install(c->api->config.packages, c->sandbox, &request, &e) < 0)
		rest_fail(c, &e);
}

void rest_install_packages(struct rest_call *c)
{
	c->action = "packages.install";
	if (need_spec(c, rest_text(c, "packages", "")))
		rest_sandbox(c, install);
}

static void check(struct rest_call *c)
{
	const struct packages_request request = {.spec = c->text,
						 .wait_ns =
						     rest_query_bool(c, "wait") ? UINT64_MAX : 0,
						 .cb = on_status,
						 .user = c};
	struct err e = ERR_INIT;

	if (packages_check(c->api->config.packages, c->sandbox, &request, &e) < 0)
		rest_fail(c, &e);
}

void rest_check_packages(struct rest_call *c)
{
	if (need_spec(c, http_request_param(c->req, "packages")))
		rest_sandbox(c, check);
}

/* Cancels the installation of that text; if there is none, uninstalls the named packages. */
static void uninstall(struct rest_call *c)
{
	struct packages *p = c->api->config.packages;
	const struct packages_request request = {
	    .spec = c->text, .wait_ns = UINT64_MAX, .cb = on_status, .user = c};
	struct err e = ERR_INIT, none = ERR_INIT;
	int r = packages_cancel(p, c->sandbox, c->text, &none);

	r = r < 0 ? packages_uninstall(p, c->sandbox, &request, &e)
		  : packages_check(p, c->sandbox, &request, &e);
	if (r < 0)
		rest_fail(c, &e);
}

void rest_uninstall_packages(struct rest_call *c)
{
	c->action = "packages.uninstall";
	if (need_spec(c, http_request_param(c->req, "packages")))
		rest_sandbox(c, uninstall);
}

static void on_list(const struct package_row *rows, size_t n, const struct err *e, void *user)
{
	struct rest_call *c = user;
	json_t *list;

	if (e) {
		rest_fail(c, e);
		return;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "name", rows[i].name,
							    "version", rows[i].version,
							    "from_image", rows[i].from_image));
	rest_reply(c, 200, json_pack("{s:o}", "packages", list));
}

static void list(struct rest_call *c)
{
	struct err e = ERR_INIT;

	if (packages_list(c->api->config.packages, c->sandbox, rest_query_bool(c, "all"), on_list,
			  c, &e) < 0)
		rest_fail(c, &e);
}

void rest_list_packages(struct rest_call *c)
{
	if (need_packages(c))
		rest_sandbox(c, list);
}

/* ---- the index ---- */

/* What the index does not say is left out. */
static void add_text(json_t *to, const char *member, const char *text)
{
	if (*text)
		(void)json_object_set_new(to, member, lossy_json(text));
}

static void on_entry(const struct package_entry *entry, const struct err *e, void *user)
{
	struct rest_call *c = user;
	json_t *versions;
	json_t *answer;

	if (e) {
		rest_fail(c, e);
		return;
	}
	versions = json_array();
	for (size_t i = 0; i < entry->n_versions; i++)
		(void)json_array_append_new(versions, json_string(entry->versions[i]));
	answer = json_pack("{s:s, s:o, s:I}", "name", entry->name, "versions", versions, "total",
			   (json_int_t)entry->total);
	add_text(answer, "version", entry->version);
	add_text(answer, "summary", entry->summary);
	add_text(answer, "why", entry->why);
	if (entry->bytes > 0)
		(void)json_object_set_new(answer, "bytes", json_integer((json_int_t)entry->bytes));
	rest_reply(c, 200, answer);
}

static void look_up(struct rest_call *c)
{
	struct err e = ERR_INIT;

	if (packages_look_up(c->api->config.packages, c->sandbox, c->text, on_entry, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_look_up_package(struct rest_call *c)
{
	if (need_spec(c, http_request_param(c->req, "name")))
		rest_sandbox(c, look_up);
}
