/* SPDX-License-Identifier: Apache-2.0 */
#include "faces/e2b/results.h"

#include "api/json_reply.h"
#include "base/base64.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 20000u /* JSON of a part, or cells of a table: a few milliseconds */
#define DEPTH_MAX  64u

/* NULL: it is no JSON, or too much for the loop: the sandbox chose its size. */
static json_t *read_json(const struct shown_part *p, size_t flags)
{
	const size_t n = jsonio_count(p->data, p->len, VALUES_MAX, DEPTH_MAX);
	json_t *value = NULL;

	return n > 0 && n <= VALUES_MAX && jsonio_read(p->data, p->len, flags, &value, NULL) == 0
		   ? value
		   : NULL;
}

static json_t *lossy_json(const char *text, size_t len)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(3 * len + 1);

	return text_add_utf8_lossy(&b, text, len) < 0 ? NULL : json_stringn(buf_str(&b), b.len);
}

json_t *e2b_output_json(const char *stream, const char *text, size_t len)
{
	char when[API_TIME_SIZE];

	return json_pack("{s:s, s:o, s:s}", "type", stream, "text", lossy_json(text, len),
			 "timestamp", api_time(now_wall_ns() / NS_PER_MS, when));
}

static json_t *bytes_json(const struct shown_part *p)
{
	const size_t len = BASE64_ENCODED_LEN(p->len);
	_cleanup_free_ char *text = malloc(len + 1);

	if (!text)
		return NULL;
	base64_encode((const uint8_t *)p->data, p->len, text);
	return json_stringn(text, len);
}

/* {"columns": [{"name"}], "rows": [[...]]} of a preview becomes {name: [...]}. The index is no column for E2B. */
static json_t *data_json(const struct shown_part *p)
{
	json_t *table = read_json(p, 0), *data = json_object(), *column, *row;
	const json_t *rows = json_object_get(table, "rows");
	json_t *columns = json_object_get(table, "columns");
	size_t i, k;

	/* Rows that are empty cost nothing in the text, but a step for each column. */
	if (json_array_size(columns) * json_array_size(rows) > VALUES_MAX)
		columns = NULL;
	json_array_foreach(columns, i, column) {
		const char *name = json_string_value(json_object_get(column, "name"));
		const char *type = json_string_value(json_object_get(column, "type"));
		json_t *values = json_array();

		if (!name || (type && streq(type, "index"))) {
			json_decref(values);
			continue;
		}
		json_array_foreach(rows, k, row)
			(void)json_array_append(values, json_array_get(row, i));
		(void)json_object_set_new(data, name, values);
	}
	json_decref(table);
	return data;
}

static json_t *parsed_json(const struct shown_part *p)
{
	json_t *value = read_json(p, JSON_DECODE_ANY);

	return value ? value : json_stringn(p->data, p->len);
}

static void add_part(json_t *o, const struct shown_part *p)
{
	static const struct {
		const char *type, *name;
	} names[] = {
	    {"text/plain", "text"},        {"text/html", "html"},
	    {"text/markdown", "markdown"}, {"text/latex", "latex"},
	    {"image/svg+xml", "svg"},      {"image/png", "png"},
	    {"image/jpeg", "jpeg"},        {"application/pdf", "pdf"},
	    {"application/json", "json"},  {"application/javascript", "javascript"},
	    {SHOWN_TABLE, "data"},         {SHOWN_CHART, "chart"},
	};
	const char *name = NULL;

	if (!p->data)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(names[i].type, p->type))
			name = names[i].name;
	json_t *value = name && streq(name, "data")       ? data_json(p)
			: name && streq(name, "json")     ? parsed_json(p)
			: shown_is_binary(p->type)        ? bytes_json(p)
			: text_ends_with(p->type, "json") ? parsed_json(p)
							  : json_stringn(p->data, p->len);
	if (name) {
		(void)json_object_set_new(o, name, value);
		return;
	}
	json_t *extra = json_object_get(o, "extra");
	if (!extra) {
		extra = json_object();
		(void)json_object_set_new(o, "extra", extra);
	}
	(void)json_object_set_new(extra, p->type, value);
}

/* The text of a value that is a string stands without its quotes, as at E2B. */
static json_t *value_json(const struct buf *text)
{
	const char *p = text->data;
	const size_t n = text->len;
	const bool quoted = n >= 2 && (p[0] == '\'' || p[0] == '"') && p[n - 1] == p[0];

	return quoted ? lossy_json(p + 1, n - 2) : lossy_json(p, n);
}

json_t *e2b_result_json(const struct shown *item, const struct buf *text, bool main)
{
	json_t *o = json_pack("{s:s, s:b}", "type", "result", "is_main_result", main);

	for (size_t i = 0; item && i < item->n_parts; i++)
		add_part(o, &item->parts[i]);
	if (text && text->len > 0)
		(void)json_object_set_new(o, "text", value_json(text));
	return o;
}

json_t *e2b_error_json(const struct shown *item)
{
	static const char *const members[] = {"name", "value", "traceback"};
	const struct shown_part *p = NULL;

	for (size_t i = 0; i < item->n_parts; i++)
		if (streq(item->parts[i].type, SHOWN_ERROR))
			p = &item->parts[i];
	if (!p || !p->data)
		return NULL;
	/* The sandbox wrote it, so it may have other members, or members that the SDKs would stumble over. */
	json_t *said = read_json(p, 0);
	json_t *o = json_pack("{s:s}", "type", "error");
	bool good = true;
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *v = json_object_get(said, members[i]);

		good = good && json_is_string(v) && json_object_set(o, members[i], v) == 0;
	}
	json_decref(said);
	if (!good)
		json_decref(o);
	return good ? o : NULL;
}

int e2b_add_line(struct buf *b, json_t *line)
{
	char *text = line ? json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	int r = text ? buf_add_str(b, text) : -ENOMEM;

	free(text);
	json_decref(line);
	return r < 0 ? r : buf_add_char(b, '\n');
}
