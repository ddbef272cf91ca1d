/* SPDX-License-Identifier: Apache-2.0 */
/* GET /docs, /redoc and /openapi.json, where clients of the second family look for them: the same
 * description as /api/v1/openapi.json, with the user routes of that family. The pages load nothing, from
 * no host: they have neither scripts nor pictures. */
#include "api/rest/rest.h"

#include "base/buf.h"
#include "base/jsonio.h"
#include "base/text.h"

#include <string.h>

#define PAGE_MAX ((size_t)256 << 10)

/* The user routes of the second family, for the description. BODY and ANSWER are schemas. */
static const struct {
	const char *method;
	const char *path;
	const char *summary;
	bool is_public;
	const char *body; /* NULL: none */
	const char *answer;
} routes[] = {
    {"get", "/health", "Tells that the server is alive", false, NULL,
     "{\"type\":\"object\",\"required\":[\"status\"]}"},
    {"post", "/api/register", "Makes an account", true,
     "{\"application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"username\",\"email\","
     "\"password\"],\"properties\":{\"username\":{\"type\":\"string\"},\"email\":{\"type\":"
     "\"string\",\"format\":\"email\"},\"password\":{\"type\":\"string\"},\"invitation\":{"
     "\"type\":\"string\"}}}}}",
     "{\"type\":\"object\",\"required\":[\"id\",\"username\",\"email\",\"created_at\",\"is_"
     "active\"]"
     "}"},
    {"post", "/api/token", "Exchanges a name and a password for a token", true,
     "{\"application/x-www-form-urlencoded\":{\"schema\":{\"type\":\"object\",\"required\":["
     "\"username\",\"password\"],\"properties\":{\"username\":{\"type\":\"string\"},"
     "\"password\":{\"type\":\"string\"}}}}}",
     "{\"type\":\"object\",\"required\":[\"access_token\",\"token_type\"]}"},
    {"get", "/api/users/me", "Describes the user", false, NULL,
     "{\"type\":\"object\",\"required\":[\"id\",\"username\",\"email\",\"created_at\",\"is_"
     "active\"]"
     "}"},
    {"get", "/api/users/me/api-key", "Shows the key of the page, and makes it if there is none",
     false, NULL, "{\"type\":\"object\",\"required\":[\"api_key\"]}"},
    {"post", "/api/users/me/api-key/regenerate", "Makes a new key; the old one ends", false, NULL,
     "{\"type\":\"object\",\"required\":[\"api_key\"]}"},
    {"get", "/api/users/me/sandboxes", "Lists the stored sandboxes of the user", false, NULL,
     "{\"type\":\"object\",\"required\":[\"sandboxes\"]}"},
    {"delete", "/api/users/me/sandboxes/{id}", "Deletes a sandbox with its files", false, NULL,
     "{\"type\":\"object\",\"required\":[\"message\"]}"},
    {"get", "/sandbox/file", "Downloads a file: sandbox_id and file_path in the query", true, NULL,
     NULL},
};

/* ---- /openapi.json ---- */

static json_t *parsed(const char *text)
{
	json_t *root = NULL;

	return jsonio_read(text, strlen(text), 0, &root, NULL) == 0 ? root : json_object();
}

static json_t *operation(size_t i)
{
	json_t *answer = routes[i].answer ? json_pack("{s:{s:o}}", "application/json", "schema",
						      parsed(routes[i].answer))
					  : json_pack("{s:{s:{}}}", "*/*", "schema");
	json_t *op = json_pack("{s:s, s:{s:{s:s, s:o}, s:{s:s}}}", "summary", routes[i].summary,
			       "responses", "200", "description", "done", "content", answer,
			       "default", "description", "an error: {\"detail\": TEXT}");

	if (routes[i].body)
		(void)json_object_set_new(
		    op, "requestBody",
		    json_pack("{s:b, s:o}", "required", true, "content", parsed(routes[i].body)));
	if (routes[i].is_public)
		(void)json_object_set_new(op, "security", json_array());
	if (strchr(routes[i].path, '{'))
		(void)json_object_set_new(op, "parameters",
					  json_pack("[{s:s, s:s, s:b, s:{s:s}}]", "name", "id",
						    "in", "path", "required", true, "schema",
						    "type", "string"));
	return op;
}

static char *make_description(const struct api *a)
{
	_cleanup_free_ char *v1 = openapi_make(a->config.version, a->config.manager);
	json_t *doc = v1 ? parsed(v1) : NULL;
	json_t *paths = json_object_get(doc, "paths");
	size_t len;

	for (size_t i = 0; paths && i < ARRAY_SIZE(routes); i++) {
		json_t *item = json_object_get(paths, routes[i].path);

		if (!item) {
			item = json_object();
			(void)json_object_set_new(paths, routes[i].path, item);
		}
		(void)json_object_set_new(item, routes[i].method, operation(i));
	}
	char *text = paths ? jsonio_text(doc, JSON_COMPACT, &len) : NULL;
	json_decref(doc);
	return text;
}

static void get_description(struct http_request *req, void *user)
{
	struct api *a = user;

	if (!a->description)
		a->description = make_description(a);
	openapi_send(req, a->description);
}

/* ---- /docs and /redoc ---- */

static const char page_head[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Caisson: HTTP "
    "interface</title>"
    "<meta name=\"viewport\" content=\"width=device-width\"><style>body{font:16px/1.5 "
    "system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "td{padding:.2rem 1rem .2rem 0;vertical-align:top}code{white-space:nowrap}</style><h1>HTTP "
    "interface</h1><p>Every request and answer, for programs: <a href=\"openapi.json\">"
    "/openapi.json</a> (OpenAPI 3.1). A key goes into the header <code>X-API-Key</code> or "
    "<code>Authorization: Bearer</code>.<table>";

static const char *method_name(enum http_method method)
{
	return method == HTTP_GET      ? "GET"
	       : method == HTTP_POST   ? "POST"
	       : method == HTTP_PUT    ? "PUT"
	       : method == HTTP_DELETE ? "DELETE"
				       : "PATCH";
}

static int add_row(struct buf *page, const char *method, const char *path, const char *summary)
{
	char upper[16];
	size_t n = 0;

	for (; method[n] && n + 1 < sizeof(upper); n++)
		upper[n] =
		    (char)(method[n] >= 'a' && method[n] <= 'z' ? method[n] - 32 : method[n]);
	upper[n] = '\0';
	return buf_printf(page, "<tr><td><code>%s</code><td><code>%s</code><td>%s\n", upper, path,
			  summary);
}

/* All texts are ours: nothing has to be escaped. */
static char *make_page(void)
{
	struct buf page = BUF_INIT(PAGE_MAX);
	int r = buf_add_str(&page, page_head);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(routes); i++)
		r = add_row(&page, routes[i].method, routes[i].path, routes[i].summary);
	for (size_t i = 0; r == 0 && i < rest_n_routes; i++)
		r = add_row(&page, method_name(rest_routes[i].method), rest_routes[i].path,
			    rest_routes[i].summary);
	r = r < 0 ? r : buf_add_str(&page, "</table></html>\n");
	if (r == 0)
		return buf_take(&page);
	buf_done(&page);
	return NULL;
}

static void get_page(struct http_request *req, void *user)
{
	struct api *a = user;

	if (!a->docs_page)
		a->docs_page = make_page();
	if (!a->docs_page) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	(void)http_add_header(
	    req, "Content-Security-Policy",
	    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
	(void)http_add_header(req, "Referrer-Policy", "no-referrer");
	http_respond_shared(req, 200, "text/html; charset=utf-8", a->docs_page,
			    strlen(a->docs_page));
}

static const struct http_route page_routes[] = {
    {HTTP_GET, "/openapi.json", get_description, HTTP_ROUTE_PAGES, 0},
    {HTTP_GET, "/docs", get_page, 0, 0},
    {HTTP_GET, "/redoc", get_page, 0, 0},
};

int describe_pages_add_routes(struct api *a, struct http_server *http, unsigned scopes)
{
	return http_server_add_routes(http, page_routes, ARRAY_SIZE(page_routes), scopes, a);
}

void describe_pages_done(struct api *a)
{
	free(a->description);
	free(a->docs_page);
}
