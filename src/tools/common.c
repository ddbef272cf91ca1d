/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common.h"
#include "tools/resources.h"

#include "base/jsonio.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define LINK_MAX_BYTES (4u * ENGINE_PATH_MAX)

struct tools *tools_new(const struct tools_config *config, struct err *e)
{
	struct tools *t = calloc(1, sizeof(*t));

	if (!t) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the tools");
		return NULL;
	}
	list_init(&t->asked);
	list_init(&t->bound);
	t->config = *config;
	return t;
}

struct tools *tools_free(struct tools *t)
{
	if (!t)
		return NULL;
	t->resources = resources_free(t->resources);
	tools_free_names(t);
	asked_free(&t->asked);
	tools_free_bound(t);
	free(t);
	return NULL;
}

struct mcp_text_ref tools_text_arg(const struct mcp_call *call, const json_t *arguments,
				   const char *name)
{
	struct mcp_text_ref ref = {.fd = -1};
	const json_t *v = json_object_get(arguments, name);

	if (!json_is_string(v) || mcp_call_text(call, v, &ref) < 0)
		ref = (struct mcp_text_ref){.fd = -1};
	return ref;
}

char *tools_text_take(const struct mcp_text_ref *ref)
{
	_cleanup_free_ char *copy = malloc(ref->len + 1);
	size_t n = 0;

	if (!copy)
		return NULL;
	if (ref->text)
		memcpy(copy, ref->text, ref->len);
	while (!ref->text && n < ref->len) {
		ssize_t got = pread(ref->fd, copy + n, ref->len - n, (off_t)(ref->off + n));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return NULL;
		n += (size_t)got;
	}
	copy[ref->len] = '\0';
	return TAKE_PTR(copy);
}

struct activation {
	struct mcp_call *call;
	char id[SANDBOX_ID_MAX + 1];
	tools_fail_fn fail;
};

static void on_active(struct sandbox *s UNUSED, const struct err *e, void *user)
{
	struct activation *a = user;

	if (e)
		a->fail(a->call, a->id, e);
	else
		mcp_call_again(a->call);
	free(a);
}

bool tools_activate(struct tools *t, struct mcp_call *call, const char *id, tools_fail_fn fail)
{
	const char *owner = mcp_call_principal(call);
	struct err ignored = ERR_INIT;

	if (manager_get_stored(t->config.manager, owner, id, NULL, &ignored) <= 0)
		return false;
	struct activation *a = calloc(1, sizeof(*a));
	if (!a)
		return false;
	a->call = call;
	a->fail = fail;
	(void)snprintf(a->id, sizeof(a->id), "%s", id);
	manager_activate(t->config.manager, owner, id, on_active, a);
	return true;
}

json_t *tools_result_of(json_t *object)
{
	size_t len = 0;
	_cleanup_free_ char *text = jsonio_text(object, JSON_COMPACT, &len);
	json_t *content = text ? mcp_blocks(1, mcp_text(text, len)) : NULL;

	json_t *result = mcp_tool_result(content, json_pack("{s:o}", "result", object), false);
	/* Clients of the first family expect the member even if it is false. */
	if (result && json_object_set_new(result, "isError", json_false()) < 0) {
		json_decref(result);
		result = NULL;
	}
	return result;
}

void tools_finish(struct mcp_call *call, json_t *object)
{
	mcp_call_finish_made(call, object, tools_result_of);
}

void tools_finish_blob(struct mcp_call *call, json_t *object, const char *mark, char *blob,
		       size_t len)
{
	mcp_call_finish_blob(call, tools_result_of(object), mark, blob, len);
}

void tools_finish_error(struct mcp_call *call, struct tool_error *error)
{
	tools_finish(
	    call,
	    json_pack("{s:s, s:o, s:o, s:o}", "error", error->code, "message",
		      tools_json_bytes(buf_str(&error->message), error->message.len), "size_bytes",
		      error->size_bytes < 0 ? json_null() : json_integer(error->size_bytes),
		      "download_url", error->link ? TAKE_PTR(error->link) : json_null()));
	buf_done(&error->message);
}

void tools_finish_errorf(struct mcp_call *call, const char *code, const char *fmt, ...)
{
	struct tool_error error = TOOL_ERROR_INIT(code);
	va_list ap;

	va_start(ap, fmt);
	/* Without memory the answer has the code and an empty message. */
	if (buf_vprintf(&error.message, fmt, ap) < 0)
		buf_reset(&error.message);
	va_end(ap);
	tools_finish_error(call, &error);
}

json_t *tools_json_bytes(const void *data, size_t len)
{
	if (text_is_utf8(data, len))
		return json_stringn_nocheck(data, len);
	_cleanup_(buf_done) struct buf b = BUF_INIT(len * 3 + 1);
	if (text_add_utf8_lossy(&b, data, len) < 0)
		return NULL;
	return json_stringn_nocheck(buf_str(&b), b.len);
}

json_t *tools_json_output(const struct run_output *output, size_t max, const char *where,
			  const char *note, bool *ret_cut)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(MIN(output->len, max) * 3 + RUN_OUTPUT_MARK +
						    strlen(note) + (where ? strlen(where) : 0));
	int r = run_output_add(&b, output, max, where, ret_cut);

	r = r < 0 ? r : buf_add_str(&b, note);
	return r < 0 ? NULL : json_stringn_nocheck(buf_str(&b), b.len);
}

void tools_links_begin(struct tools *t, const struct mcp_call *call, const struct sandbox *s,
		       enum tools_link_kind kind, struct tools_links *ret)
{
	const struct tools_config *c = &t->config;
	const char *(*base)(void *user) =
	    kind == TOOLS_LINKS_CLASSIC ? c->classic_base : c->link_base;
	const char *text = base ? base(c->link_user) : NULL;

	if (text && mcp_call_base(call))
		text = mcp_call_base(call);

	*ret = (struct tools_links){.config = c, .base = text ? strdup(text) : NULL};
	(void)snprintf(ret->owner, sizeof(ret->owner), "%s", sandbox_owner(s));
	(void)snprintf(ret->id, sizeof(ret->id), "%s", sandbox_id(s));
	if (ret->base && c->link_expire)
		ret->is_signed = c->link_expire(c->link_user, ret->owner, ret->id, &ret->expires);
}

void tools_links_done(struct tools_links *l)
{
	free(l->base);
	l->base = NULL;
}

int tools_links_add(const struct tools_links *l, const char *head, const char *path, char mark,
		    struct buf *b)
{
	char query[TOOLS_LINK_QUERY_SIZE] = "";
	int r = buf_add_str(b, head);

	r = r < 0 ? r : text_add_percent(b, path, strlen(path), true);
	if (r < 0 || !l->is_signed)
		return r;
	l->config->link_query(l->config->link_user, l->expires, l->owner, l->id, path, query);
	r = buf_add_char(b, mark);
	return r < 0 ? r : buf_add_str(b, query + 1);
}

json_t *tools_link(const struct tools_links *l, const char *path)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(LINK_MAX_BYTES);

	if (!l->base)
		return json_null();
	int r = buf_printf(&b, "%s/files/%s/", l->base, l->id);
	r = r < 0 ? r : tools_links_add(l, "", path, '?', &b);
	return r < 0 ? json_null() : json_stringn(buf_str(&b), b.len);
}

json_t *tools_json_link(struct tools *t, const struct mcp_call *call, const struct sandbox *s,
			const char *path)
{
	struct tools_links links;

	tools_links_begin(t, call, s, TOOLS_LINKS_FILES, &links);
	json_t *link = tools_link(&links, path);
	tools_links_done(&links);
	return link;
}

json_t *tools_json_artifact(const struct tools_links *l, const char *path, uint64_t size)
{
	char shown[sizeof(TOOLS_WORKSPACE) + ENGINE_PATH_MAX];

	ASSERT(path); /* a compiler with sanitizers does not see it */
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	(void)snprintf(shown, sizeof(shown), TOOLS_WORKSPACE "%s", path);
	return json_pack("{s:o, s:o, s:I, s:s, s:o}", "path",
			 tools_json_bytes(shown, strlen(shown)), "filename",
			 tools_json_bytes(name, strlen(name)), "size_bytes", (json_int_t)size,
			 "mime_type", mime_type(name), "download_url", tools_link(l, path));
}

json_t *tools_json_artifacts(const struct tools_links *l, const struct run_result *result, size_t n)
{
	json_t *items = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(items, tools_json_artifact(l, result->artifacts[i].name,
								     result->artifacts[i].size)) <
		    0) {
			json_decref(items);
			return NULL;
		}
	return items;
}

void *tool_call_new(struct tools *t, struct mcp_call *call, struct sandbox *s, size_t size)
{
	struct tool_call *c = calloc(1, size);

	if (!c) {
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
		return NULL;
	}
	c->tools = t;
	c->call = mcp_call_ref(call);
	c->sandbox = s ? sandbox_ref(s) : NULL;
	return c;
}

void tool_call_free(struct tool_call *c)
{
	(void)sandbox_unref(c->sandbox);
	(void)mcp_call_unref(c->call);
	free(c);
}

bool tools_fits_line(const struct tools *t, const struct mcp_call *call, uint64_t len)
{
	const uint64_t max = t->config.max_line_bytes;

	return max == 0 || !mcp_call_is_on_stdio(call) || len <= max;
}

/* UINT64_MAX: no limit. */
static uint64_t answer_max(const struct tools *t, const struct mcp_call *call)
{
	const uint64_t line = mcp_call_is_on_stdio(call) ? t->config.max_line_bytes : 0;
	const uint64_t answer = t->config.answer_bytes;

	return MIN(line ? line : UINT64_MAX, answer ? answer : UINT64_MAX);
}

bool tools_fits_answer(const struct tools *t, const struct mcp_call *call, uint64_t len)
{
	return len <= answer_max(t, call);
}

uint64_t tools_answer_room(const struct tools *t, const struct mcp_call *call, uint64_t words)
{
	const uint64_t max = answer_max(t, call);

	return words >= max ? 0 : (max - words) / 4 * 3;
}

void tools_note(struct mcp_call *call, enum mcp_level level, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!mcp_call_logs(call, level))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mcp_call_log(call, level, NULL, json_string(text));
}

json_t *tools_cap_names(uint32_t caps)
{
	static const struct {
		uint32_t cap;
		const char *name;
	} names[] = {
	    {ENGINE_CAP_MEMORY, "memory"},   {ENGINE_CAP_CPU, "cpu"},
	    {ENGINE_CAP_PIDS, "pids"},       {ENGINE_CAP_DISK, "disk"},
	    {ENGINE_CAP_OWN_UID, "own_uid"},
	};
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if ((caps & names[i].cap) &&
		    json_array_append_new(list, json_string(names[i].name)) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}
