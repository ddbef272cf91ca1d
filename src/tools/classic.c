/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the second tool family share, and its tools that make, list and delete
 * sandboxes. The names, arguments and answers of this family are a published contract. */
#include "tools/classic.h"

#include "base/jsonio.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

#define LISTED_MAX     200 /* sandboxes in one answer */
#define LOOKED_INTO    16  /* how many of them are asked for their packages */
#define ERROR_TEXT_MAX 4096

/* ---- shared ---- */

void *classic_call_new(struct mcp_call *call, struct tools *tools, size_t size)
{
	struct classic_call *c = calloc(1, size);

	if (!c) {
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
		return NULL;
	}
	c->tools = tools;
	c->call = mcp_call_ref(call);
	return c;
}

void classic_call_free(struct classic_call *c)
{
	(void)sandbox_unref(c->sandbox);
	(void)mcp_call_unref(c->call);
	free(c);
}

const char *classic_arg(const struct mcp_call *call, const json_t *arguments, const char *name)
{
	struct mcp_text_ref ref = tools_text_arg(call, arguments, name);

	return ref.text && strlen(ref.text) == ref.len ? ref.text : NULL;
}

bool classic_is_denied(const struct err *e)
{
	return e->code == ERR_SESSION_NOT_FOUND || e->code == ERR_INVALID_SESSION_ID;
}

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct classic_call *c = user;

	if (s)
		c->sandbox = sandbox_ref(s);
	c->ready(c, e);
}

void classic_open(struct classic_call *c, const char *id)
{
	manager_activate(c->tools->config.manager, mcp_call_principal(c->call), id, on_open, c);
}

json_t *classic_result_of(json_t *object)
{
	size_t len = 0;
	_cleanup_free_ char *text = jsonio_text(object, JSON_INDENT(2), &len);
	bool nothing = json_is_array(object) && json_array_size(object) == 0;
	json_t *content = nothing ? json_array() : text ? mcp_blocks(1, mcp_text(text, len)) : NULL;

	json_decref(object);
	json_t *result = mcp_tool_result(content, NULL, false);
	/* Clients of this family expect the member even if it is false. */
	if (result && json_object_set_new(result, "isError", json_false()) < 0) {
		json_decref(result);
		result = NULL;
	}
	return result;
}

void classic_finish(struct mcp_call *call, json_t *object)
{
	mcp_call_finish_made(call, object, classic_result_of);
}

void classic_finish_denied(struct mcp_call *call)
{
	classic_finish(call, json_pack("{s:s}", "error", CLASSIC_DENIED));
}

void classic_finish_error(struct mcp_call *call, const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(ERROR_TEXT_MAX);
	va_list ap;

	va_start(ap, fmt);
	if (buf_vprintf(&b, fmt, ap) < 0)
		buf_reset(&b);
	va_end(ap);
	classic_finish(call, json_pack("{s:b, s:o}", "error", true, "message",
				       tools_json_bytes(buf_str(&b), b.len)));
}

void classic_finish_err(struct mcp_call *call, const struct err *e)
{
	if (classic_is_denied(e))
		classic_finish_denied(call);
	else
		classic_finish_error(call, "%s", e->text);
}

json_t *classic_link(const struct tools_links *l, const char *name)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4 * ENGINE_PATH_MAX);

	if (!l->base)
		return json_null();
	int r = buf_printf(&b, "%s/sandbox/file?sandbox_id=%s&file_path=", l->base, l->id);
	r = r < 0 ? r : tools_links_add(l, CLASSIC_FOLDER "/", name, '&', &b);
	return r < 0 ? json_null() : json_stringn(buf_str(&b), b.len);
}

/* The name that this family shows for the owner of a sandbox. */
static const char *user_of(const struct tools *t, const char *owner)
{
	return owner[0] ? owner : t->config.local_user;
}

/* ---- create_sandbox ---- */

json_t *classic_created(const struct tools *t, const struct sandbox *s)
{
	return json_pack("{s:s, s:s, s:o, s:s}", "sandbox_id", sandbox_id(s), "user_id",
			 user_of(t, sandbox_owner(s)), "name",
			 tools_json_bytes(sandbox_name(s), strlen(sandbox_name(s))), "status",
			 "active");
}

bool classic_get_name(struct mcp_call *call, const json_t *arguments, const char **ret)
{
	*ret = classic_arg(call, arguments, "name");
	if (*ret || !json_is_string(json_object_get(arguments, "name")))
		return true;
	classic_finish_error(call, "A name may have %d bytes at most", SANDBOX_NAME_MAX);
	return false;
}

static void on_created(struct sandbox *s, const struct err *e, void *user)
{
	struct classic_call *c = user;

	if (e)
		classic_finish_error(c->call, "%s", e->text);
	else
		classic_finish(c->call, classic_created(c->tools, s));
	classic_call_free(c);
}

void classic_create(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	const char *name;

	if (!classic_get_name(call, arguments, &name))
		return;
	struct classic_call *c = classic_call_new(call, t, sizeof(*c));
	if (c)
		manager_create(t->config.manager, mcp_call_principal(call), name, NULL, NULL,
			       on_created, c);
}

/* ---- list_sandboxes ---- */

struct listed {
	char id[SANDBOX_ID_MAX + 1];
	char name[SANDBOX_NAME_MAX + 1];
};

/* The sandboxes are asked for their packages one after the other. One that another server has
 * active, or that does not start, is listed without packages. */
struct list_call {
	struct classic_call base;
	struct listed *rows;
	size_t n;
	size_t at;
	json_t *items;
};

static void list_next(struct list_call *c);

static void on_record(const struct sandbox_record *r, void *user)
{
	struct list_call *c = user;

	if (c->n == LISTED_MAX)
		return;
	struct listed *row = &c->rows[c->n++];
	memcpy(row->id, r->id, sizeof(row->id));
	memcpy(row->name, r->name, sizeof(row->name));
}

static json_t *json_packages(const struct package_row *rows, size_t n)
{
	json_t *items = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(
			items,
			json_pack("{s:o, s:o}", "name",
				  tools_json_bytes(rows[i].name, strlen(rows[i].name)), "version",
				  tools_json_bytes(rows[i].version, strlen(rows[i].version)))) <
		    0) {
			json_decref(items);
			return NULL;
		}
	return items;
}

static void add_item(struct list_call *c, const struct package_row *rows, size_t n)
{
	const struct listed *row = &c->rows[c->at++];

	(void)!json_array_append_new(c->items,
				     json_pack("{s:s, s:o, s:o}", "sandbox_id", row->id, "name",
					       tools_json_bytes(row->name, strlen(row->name)),
					       "installed_packages", json_packages(rows, n)));
	c->base.sandbox = sandbox_unref(c->base.sandbox);
	list_next(c);
}

static void on_packages(const struct package_row *rows, size_t n, const struct err *e, void *user)
{
	add_item(user, rows, e ? 0 : n);
}

static void on_usage(const struct engine_usage *u, const struct err *e, void *user)
{
	struct list_call *c = user;
	struct packages *p = c->base.tools->config.packages;
	struct err error = ERR_INIT;

	if ((u && !u->has_packages) || (e && e->code == ERR_SANDBOX_LOST) ||
	    packages_list(p, c->base.sandbox, false, on_packages, c, &error) < 0)
		add_item(c, NULL, 0);
}

/* Most sandboxes have no packages of their own. To know that is one question to init; to list
 * packages takes a Python. */
static void on_list_open(struct classic_call *base, const struct err *e)
{
	struct list_call *c = (struct list_call *)base;
	struct err error = ERR_INIT;

	if (e || sandbox_get_usage(base->sandbox, on_usage, c, &error) < 0)
		add_item(c, NULL, 0);
}

static void list_end(struct list_call *c)
{
	classic_finish(c->base.call, TAKE_PTR(c->items));
	free(c->rows);
	classic_call_free(&c->base);
}

static void list_next(struct list_call *c)
{
	if (c->at == c->n)
		list_end(c);
	else if (!c->base.tools->config.packages || c->at >= LOOKED_INTO)
		add_item(c, NULL, 0);
	else
		classic_open(&c->base, c->rows[c->at].id);
}

void classic_list(struct mcp_call *call, json_t *arguments UNUSED, void *user)
{
	struct tools *t = user;
	struct err e = ERR_INIT;

	struct list_call *c = classic_call_new(call, t, sizeof(*c));
	if (!c)
		return;
	c->rows = calloc(LISTED_MAX, sizeof(*c->rows));
	c->items = json_array();
	c->base.ready = on_list_open;
	if (!c->rows || !c->items ||
	    manager_each_stored(t->config.manager, mcp_call_principal(call), on_record, c, &e) <
		0) {
		json_decref(c->items);
		free(c->rows);
		classic_finish_error(call, "%s", c->rows ? e.text : "no memory");
		classic_call_free(&c->base);
		return;
	}
	list_next(c);
}

/* ---- delete_sandbox ---- */

static void on_deleted(const struct err *e, void *user)
{
	struct classic_call *c = user;

	if (e)
		classic_finish_err(c->call, e);
	else
		classic_finish(c->call, json_pack("{s:b, s:s}", "success", true, "message",
						  "Sandbox deleted successfully"));
	classic_call_free(c);
}

void classic_delete(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	struct err e = ERR_INIT;

	const char *id = classic_arg(call, arguments, "sandbox_id");
	struct classic_call *c = classic_call_new(call, t, sizeof(*c));
	if (!c)
		return;
	if (manager_delete(t->config.manager, mcp_call_principal(call), id ? id : "", false,
			   on_deleted, c, &e) < 0)
		on_deleted(&e, c);
}
