/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI 3.1 document, generated from the table of routes. */
#include "api/rest/rest.h"

#include "base/jsonio.h"
#include "base/text.h"
#include "http/multipart.h"

#include <string.h>

/* Schemas of answers. */
static const struct {
	const char *name;
	const char *json;
} schemas[] = {
#define S(name, json) {#name, json},
#include "api/rest/schemas.tbl.h"
#undef S
};

static const struct {
	enum http_method method;
	const char *name;
} methods[] = {
    {HTTP_GET, "get"},       {HTTP_POST, "post"},   {HTTP_PUT, "put"},
    {HTTP_DELETE, "delete"}, {HTTP_PATCH, "patch"},
};

static json_t *content(const char *type, json_t *schema)
{
	return json_pack("{s:{s:o}}", type, "schema", schema);
}

static json_t *ref(const char *name)
{
	return json_pack("{s:s+}", "$ref", "#/components/schemas/", name);
}

/* Bytes of any kind, in the notation that generators of clients understand. */
static json_t *bytes_schema(void)
{
	return json_pack("{s:s, s:s}", "type", "string", "format", "binary");
}

/* A form of files: any number of parts with any names. Generators use the name `file`. */
static json_t *form_schema(void)
{
	return json_pack("{s:s, s:{s:{s:s, s:{s:s, s:s}, s:i, s:i}}, s:[s]}", "type", "object",
			 "properties", "file", "type", "array", "items", "type", "string", "format",
			 "binary", "minItems", 1, "maxItems", MULTIPART_PARTS_MAX, "required",
			 "file");
}

/* Adds {name} and {name...} of PATH as parameters. RET_PATH is the path in OpenAPI's notation. */
static void path_parameters(const char *path, json_t *list, char *ret_path, size_t size)
{
	size_t n = 0;

	for (const char *p = path; *p && n + 1 < size; p++) {
		if (text_starts_with(p, "...}"))
			p += 3;
		ret_path[n++] = *p;
		if (*p != '{')
			continue;
		size_t len = strcspn(p + 1, ".}");
		(void)json_array_append_new(list, json_pack("{s:o, s:s, s:b, s:{s:s, s:i}}", "name",
							    json_stringn(p + 1, len), "in", "path",
							    "required", true, "schema", "type",
							    "string", "minLength", 1));
	}
	ret_path[n] = '\0';
}

static void add_answer(json_t *answers, const char *status, const char *what, json_t *with)
{
	json_t *answer = json_pack("{s:s}", "description", what);

	if (with)
		(void)json_object_set_new(answer, "content", with);
	(void)json_object_set_new(answers, status, answer);
}

static json_t *success_content(const struct rest_route *r)
{
	if (r->answer && (r->flags & REST_ARCHIVE))
		return json_pack("{s:{s:o}, s:{s:o}, s:{s:o}}", "application/json", "schema",
				 ref(r->answer), "application/x-tar", "schema", bytes_schema(),
				 "application/zip", "schema", bytes_schema());
	if (r->answer)
		return content("application/json", ref(r->answer));
	if (r->flags & REST_EVENTS)
		/* Some tools check the text, others each event as an object. */
		return content("text/event-stream", json_object());
	/* A file has the type of its name. Generators of clients use the first row. */
	return r->flags & REST_BYTES_OUT
		   ? json_pack("{s:{s:o}, s:{s:{}}}", "application/octet-stream", "schema",
			       bytes_schema(), "*/*", "schema")
		   : NULL;
}

static void add_problem(json_t *answers, const char *status)
{
	if (!json_object_get(answers, status))
		add_answer(answers, status, "a problem",
			   content("application/problem+json", ref("Problem")));
}

static json_t *answers_of(const struct rest_route *r)
{
	static const char *const always[] = {"400", "401", "403", "413", "500", "503", "504"};
	json_t *answers = json_object();
	char status[4];

	(void)snprintf(status, sizeof(status), "%d", r->ok);
	add_answer(answers, status, "done", success_content(r));
	for (const char *p = r->errors; *p; p += strspn(p, " ")) {
		(void)snprintf(status, sizeof(status), "%.3s", p);
		p += strcspn(p, " ");
		if (status[0] < '4' || streq(status, "416"))
			add_answer(answers, status, "as in RFC 9110", NULL);
		else
			add_problem(answers, status);
	}
	if (r->flags & REST_IDEMPOTENT)
		add_problem(answers, "409");
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		add_problem(answers, always[i]);
	add_problem(answers, "431"); /* the HTTP server sends it before a route is chosen */
	return answers;
}

static json_t *operation(const struct rest_route *r, json_t *path_params, const struct manager *m)
{
	json_t *params = fields_parameters(r->query, m);
	json_t *op;

	(void)json_array_extend(params, path_params);
	if (r->flags & REST_IDEMPOTENT)
		(void)json_array_append_new(
		    params, json_pack("{s:s, s:s, s:s, s:b, s:{s:s, s:i, s:i, s:s}}", "name",
				      "Idempotency-Key", "in", "header", "description",
				      "for a day, the same key and body give the same answer",
				      "required", false, "schema", "type", "string", "minLength", 1,
				      "maxLength", 255, "pattern", "^[!-~]+$"));
	op = json_pack("{s:s, s:s, s:o, s:o}", "operationId", r->id, "summary", r->summary,
		       "parameters", params, "responses", answers_of(r));
	if (r->body)
		(void)json_object_set_new(
		    op, "requestBody",
		    json_pack("{s:b, s:o}", "required", true, "content",
			      content("application/json", fields_schema(r->body, m))));
	if (r->flags & REST_BYTES_IN)
		(void)json_object_set_new(
		    op, "requestBody",
		    json_pack("{s:b, s:o}", "required", true, "content",
			      content("application/octet-stream", bytes_schema())));
	if (r->flags & REST_FORM_IN)
		(void)json_object_set_new(op, "requestBody",
					  json_pack("{s:b, s:o}", "required", true, "content",
						    content("multipart/form-data", form_schema())));
	if (r->flags & REST_PUBLIC)
		(void)json_object_set_new(op, "security", json_array());
	return op;
}

static json_t *paths(const struct manager *m)
{
	json_t *all = json_object();

	for (size_t i = 0; i < rest_n_routes; i++) {
		json_t *params = json_array(), *item;
		char path[128];

		path_parameters(rest_routes[i].path, params, path, sizeof(path));
		item = json_object_get(all, path);
		if (!item) {
			item = json_object();
			(void)json_object_set_new(all, path, item);
		}
		for (size_t k = 0; k < ARRAY_SIZE(methods); k++)
			if (methods[k].method == rest_routes[i].method)
				(void)json_object_set_new(item, methods[k].name,
							  operation(&rest_routes[i], params, m));
		json_decref(params);
	}
	return all;
}

static json_t *components(void)
{
	json_t *all = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(schemas); i++) {
		json_t *schema = NULL;

		if (jsonio_read(schemas[i].json, strlen(schemas[i].json), 0, &schema, NULL) == 0)
			(void)json_object_set_new(all, schemas[i].name, schema);
	}
	return json_pack("{s:o, s:{s:{s:s, s:s}, s:{s:s, s:s, s:s}}}", "schemas", all,
			 "securitySchemes", "bearer", "type", "http", "scheme", "bearer", "key",
			 "type", "apiKey", "in", "header", "name", "X-API-Key");
}

char *openapi_make(const char *version, const struct manager *m)
{
	json_t *doc = json_pack(
	    "{s:s, s:{s:s, s:s, s:s}, s:[{s:s}], s:[{s:[]}, {s:[]}, {}], s:o, s:o}", "openapi",
	    "3.1.0", "info", "title", "Caisson", "version", version, "description",
	    "Sandboxes for code that a model wrote. Errors are problem documents (RFC 9457).",
	    "servers", "url", "/", "security", "bearer", "key", "paths", paths(m), "components",
	    components());
	size_t len;
	char *text = jsonio_text(doc, JSON_COMPACT, &len);

	json_decref(doc);
	return text;
}

#define SERVERS "\"servers\":[{\"url\":\"/\"}]"

void openapi_send(struct http_request *req, const char *doc)
{
	static const char type[] = "application/json";
	char prefix[HTTP_PREFIX_MAX + 1];
	const char *servers = doc ? strstr(doc, SERVERS) : NULL;

	http_request_prefix(req, prefix);
	if (!servers) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	if (!prefix[0]) {
		http_respond_shared(req, 200, type, doc, strlen(doc));
		return;
	}
	_cleanup_(buf_done) struct buf b = BUF_INIT(strlen(doc) + HTTP_PREFIX_MAX);
	const int r = buf_printf(&b, "%.*s\"servers\":[{\"url\":\"%s\"}]%s", (int)(servers - doc),
				 doc, prefix, servers + strlen(SERVERS));
	const size_t len = b.len;

	if (r < 0)
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
	else
		http_respond_take(req, 200, type, buf_take(&b), len);
}
