/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the lean family as a person would read them: lines of plain text with real line ends.
 * Programs get the same object as structured content (docs/decisions/0010-plain-results.md). */
#include "tools/extras.h"

#include "base/text.h"

#include <string.h>

#define PLAIN_MAX   (32u << 20) /* bytes of one text */
#define PLAIN_DEPTH 4           /* levels of objects in objects */

/* Goes through the members of OBJECT, which json_object_foreach() takes only without const. */
#define for_each_member(it, object)                                                                \
	for (void *it = json_object_iter((json_t *)(uintptr_t)(object)); it;                       \
	     it = json_object_iter_next((json_t *)(uintptr_t)(object), it))

static int add_inline(struct buf *b, const json_t *v, unsigned depth);

/* The members of an object, or the items of a list, on one line. */
static int add_inline_items(struct buf *b, const json_t *v, unsigned depth)
{
	const char *between = "";
	const json_t *item;
	size_t i;
	int r = 0;

	if (json_is_array(v)) {
		json_array_foreach(v, i, item) {
			r = buf_add_str(b, between);
			r = r < 0 ? r : add_inline(b, item, depth + 1);
			if (r < 0)
				return r;
			between = ", ";
		}
		return i == 0 ? buf_add_str(b, "none") : 0;
	}
	for_each_member(it, v) {
		const json_t *value = json_object_iter_value(it);

		if (json_is_null(value))
			continue;
		r = buf_printf(b, "%s%s ", between, json_object_iter_key(it));
		r = r < 0 ? r : add_inline(b, value, depth + 1);
		if (r < 0)
			return r;
		between = ", ";
	}
	return 0;
}

static int add_inline(struct buf *b, const json_t *v, unsigned depth)
{
	if (json_is_string(v))
		return text_add_name(b, json_string_value(v), json_string_length(v));
	if (json_is_integer(v))
		return buf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	if (json_is_real(v))
		return buf_printf(b, "%g", json_real_value(v));
	if (json_is_boolean(v))
		return buf_add_str(b, json_is_true(v) ? "yes" : "no");
	return depth < PLAIN_DEPTH ? add_inline_items(b, v, depth) : 0;
}

/* Code chooses the names of files. A name with a line end must not look like another member. */
static bool is_name(const char *key)
{
	return streq(key, "path") || streq(key, "name") || streq(key, "filename");
}

static bool has_lines(const char *key, const json_t *v)
{
	return json_is_string(v) && !is_name(key) &&
	       memchr(json_string_value(v), '\n', json_string_length(v));
}

/* Has OBJECT a member that needs more than one line? */
static bool is_tall(const json_t *object)
{
	for_each_member(it, object)
		if (has_lines(json_object_iter_key(it), json_object_iter_value(it)))
			return true;
	return false;
}

static int add_block(struct buf *b, const char *text, size_t len)
{
	int r = buf_add(b, text, len);

	return r < 0 || len == 0 || text[len - 1] == '\n' ? r : buf_add_char(b, '\n');
}

static int add_item(struct buf *b, const json_t *item)
{
	if (json_is_object(item) && is_tall(item)) {
		int r = buf_add_str(b, "--\n");

		return r < 0 ? r : extras_add_plain(b, item);
	}
	int r = buf_add_str(b, "- ");
	r = r < 0 ? r : add_inline(b, item, 1);
	return r < 0 ? r : buf_add_char(b, '\n');
}

static int add_member(struct buf *b, const char *name, const json_t *v)
{
	const json_t *item;
	size_t i;
	int r;

	if (has_lines(name, v)) {
		r = buf_printf(b, "%s:\n", name);
		return r < 0 ? r : add_block(b, json_string_value(v), json_string_length(v));
	}
	if (json_is_array(v) && json_is_object(json_array_get(v, 0))) {
		r = buf_printf(b, "%s:\n", name);
		json_array_foreach(v, i, item)
			r = r < 0 ? r : add_item(b, item);
		return r;
	}
	r = buf_printf(b, "%s: ", name);
	r = r < 0 ? r : add_inline(b, v, 0);
	return r < 0 ? r : buf_add_char(b, '\n');
}

static bool is_nothing(const json_t *v)
{
	return json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0);
}

int extras_add_plain(struct buf *b, const json_t *object)
{
	int r = 0;

	for_each_member(it, object) {
		const json_t *v = json_object_iter_value(it);

		if (r == 0 && !is_nothing(v))
			r = add_member(b, json_object_iter_key(it), v);
	}
	return r;
}

int extras_add_size(struct buf *b, uint64_t bytes)
{
	static const char *const units[] = {"KB", "MB", "GB", "TB"};
	double size = (double)bytes / 1000;
	size_t i = 0;

	if (bytes < 1000)
		return buf_printf(b, "%ju byte%s", (uintmax_t)bytes, text_s(bytes));
	for (; size >= 1000 && i < ARRAY_SIZE(units) - 1; i++)
		size /= 1000;
	return buf_printf(b, size < 10 ? "%.1f %s" : "%.0f %s", size, units[i]);
}

int extras_add_file_line(struct buf *b, const json_t *file)
{
	const char *path = json_string_value(json_object_get(file, "path"));
	const char *type = json_string_value(json_object_get(file, "mime_type"));
	const char *link = json_string_value(json_object_get(file, "download_url"));
	int r = buf_add_str(b, "- ");

	r = r < 0 ? r : text_add_name(b, path ? path : "?", path ? strlen(path) : 1);
	r = r < 0 ? r : buf_add_str(b, " (");
	r = r < 0 ? r
		  : extras_add_size(
			b, (uint64_t)json_integer_value(json_object_get(file, "size_bytes")));
	r = r < 0 ? r : buf_printf(b, ", %s)", type ? type : "?");
	r = r < 0 || !link ? r : buf_printf(b, " %s", link);
	return r < 0 ? r : buf_add_char(b, '\n');
}

/* ---- the end of a call ---- */

static bool has_images(const json_t *blocks)
{
	const json_t *block;
	size_t i;

	json_array_foreach(blocks, i, block)
		if (json_object_get(block, "data"))
			return true;
	return false;
}

json_t *extras_result_of(struct buf *text, json_t *object, json_t *pictures)
{
	bool pictured = has_images(pictures);
	json_t *content = text ? mcp_blocks(1, mcp_text(buf_str(text), text->len)) : NULL;

	if (content && pictures && json_array_extend(content, pictures) < 0) {
		json_decref(content);
		content = NULL;
	}
	json_decref(pictures);
	/* A widespread client shows its model nothing but structured content if that is there, so an
	 * answer with pictures has the object elsewhere. */
	json_t *result =
	    mcp_tool_result(content, pictured ? NULL : json_pack("{s:O}", "result", object), false);
	if (result && pictured &&
	    json_object_set_new(result, "_meta", json_pack("{s:O}", EXTRAS_META, object)) < 0) {
		json_decref(result);
		result = NULL;
	}
	json_decref(object);
	return result;
}

void extras_finish_text(struct mcp_call *call, struct buf *text, json_t *object, json_t *pictures)
{
	const char *id = json_string_value(json_object_get(object, "session_id"));

	if (id)
		mcp_call_keep_note(call, id);
	mcp_call_finish(call, extras_result_of(text, object, pictures));
}

void extras_finish(struct mcp_call *call, json_t *object)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(PLAIN_MAX);
	int r = object ? extras_add_plain(&text, object) : -ENOMEM;

	extras_finish_text(call, r < 0 ? NULL : &text, object, NULL);
}
