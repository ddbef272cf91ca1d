/* SPDX-License-Identifier: Apache-2.0 */
#include "api/history/history_results.h"

#include "api/history/cell.h"
#include "api/history/history_text.h"
#include "base/base64.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>

#define FILE_MAX    (4u << 20)
#define PART_MAX    (2u << 20)
#define DEPTH_MAX   64
#define ROWS_SHOWN  200u
#define NUMBER_SIZE 24

/* ---- the list ---- */

void history_results_begin(struct history_results *h, struct store *reading,
			   const struct store_cell *cell)
{
	const char *meta = cell->meta ? cell->meta : "";
	const struct json_piece list = json_find(meta, strlen(meta), "results");
	struct err e = ERR_INIT;

	*h = (struct history_results){.text = BUF_INIT(FILE_MAX)};
	h->any = list.len > 0 &&
		 store_cell_file(reading, cell->seq, CELL_RESULTS_FILE, &h->text, &e) > 0 &&
		 json_walk_begin(&h->walk, buf_str(&h->text), h->text.len);
}

void history_results_done(struct history_results *h)
{
	buf_done(&h->text);
}

static size_t number(const struct json_piece *object, const char *key, size_t max)
{
	const struct json_piece p = json_find(object->data, object->len, key);
	size_t n = 0;

	for (size_t i = 0; i < p.len && isdigit((unsigned char)p.data[i]) && n <= max; i++)
		n = n * 10 + (size_t)(p.data[i] - '0');
	return MIN(n, max);
}

static void read_file_name(const struct json_piece *object, char *ret)
{
	_cleanup_(buf_done) struct buf name = BUF_INIT(HISTORY_NAME_SIZE - 1);
	const struct json_piece p = json_find(object->data, object->len, "file");

	*ret = '\0';
	if (p.len > 0 && json_piece_text(&p, &name) == 0)
		memcpy(ret, buf_str(&name), name.len + 1);
}

bool history_results_next(struct history_results *h, size_t text_len, struct history_shown *ret)
{
	struct json_piece key, value;
	const size_t before = ret->end;

	if (!h->any || !json_walk_next(&h->walk, &key, &value))
		return false;
	const struct json_piece kind = json_find(value.data, value.len, "kind");
	ret->is_result = json_piece_is(&kind, "\"result\"");
	ret->clears = json_piece_is(&kind, "\"clear\"");
	ret->offset = MAX(number(&value, "offset", text_len), before);
	ret->end = MAX(number(&value, "end", text_len), ret->offset);
	ret->data = json_find(value.data, value.len, "data");
	read_file_name(&value, ret->file);
	return true;
}

bool history_results_have_file(const struct history_results *h, const char *name)
{
	struct json_piece key, value;
	struct json_walk w;
	char file[HISTORY_NAME_SIZE];

	if (!h->any || !json_walk_begin(&w, buf_str(&h->text), h->text.len))
		return false;
	while (json_walk_next(&w, &key, &value)) {
		read_file_name(&value, file);
		if (streq(file, name))
			return true;
	}
	return false;
}

/* ---- JSON that a sandbox wrote ---- */

static const char *skip_space(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')
		p++;
	return p;
}

/* The end of the value at P; NULL: it is no JSON. */
static const char *value_end(const char *p, int depth);

static const char *string_end(const char *p)
{
	for (p++; *p != '"'; p++) {
		if ((unsigned char)*p < ' ')
			return NULL;
		if (*p != '\\')
			continue;
		p++;
		if (*p == 'u' && strspn(p + 1, "0123456789abcdefABCDEF") >= 4)
			p += 4;
		else if (!*p || !strchr("\"\\/bfnrt", *p))
			return NULL;
	}
	return p + 1;
}

static const char *number_end(const char *p)
{
	p += *p == '-';
	if (!isdigit((unsigned char)*p))
		return NULL;
	p += *p == '0' ? 1 : strspn(p, "0123456789");
	if (*p == '.') {
		const size_t n = strspn(p + 1, "0123456789");
		if (n == 0)
			return NULL;
		p += 1 + n;
	}
	if (*p == 'e' || *p == 'E') {
		p += p[1] == '+' || p[1] == '-' ? 2 : 1;
		const size_t n = strspn(p, "0123456789");
		if (n == 0)
			return NULL;
		p += n;
	}
	return p;
}

static const char *members_end(const char *p, char close, int depth)
{
	p = skip_space(p + 1);
	if (*p == close)
		return p + 1;
	for (;;) {
		if (close == '}') {
			p = *p == '"' ? string_end(p) : NULL;
			p = p ? skip_space(p) : NULL;
			if (!p || *p != ':')
				return NULL;
			p = skip_space(p + 1);
		}
		p = value_end(p, depth + 1);
		if (!p)
			return NULL;
		p = skip_space(p);
		if (*p == close)
			return p + 1;
		if (*p != ',')
			return NULL;
		p = skip_space(p + 1);
	}
}

static const char *value_end(const char *p, int depth)
{
	static const char *const words[] = {"true", "false", "null"};

	if (depth > DEPTH_MAX)
		return NULL;
	if (*p == '"')
		return string_end(p);
	if (*p == '{' || *p == '[')
		return members_end(p, *p == '{' ? '}' : ']', depth);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (text_starts_with(p, words[i]))
			return p + strlen(words[i]);
	return number_end(p);
}

static bool is_json_type(const struct json_piece *type)
{
	return type->len >= 4 && memcmp(type->data + type->len - 4, "json", 4) == 0;
}

/* nbformat wants the value itself, and of application/json an object. */
static bool is_json(const char *text, bool object)
{
	const char *p = skip_space(text), *end = !object || *p == '{' ? value_end(p, 0) : NULL;

	return end && *skip_space(end) == '\0';
}

/* ---- forms ---- */

static int add_member(struct buf *b, const struct json_piece *type, const struct json_piece *value)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(PART_MAX);
	char key[SHOWN_TYPE_SIZE];

	(void)snprintf(key, sizeof(key), "%.*s", (int)MIN(type->len, sizeof(key) - 1), type->data);
	if (streq(key, "text/plain") || streq(key, SHOWN_TABLE))
		return 0; /* the table is also HTML */
	if (is_json_type(type)) {
		if (json_piece_text(value, &text) < 0 ||
		    !is_json(buf_str(&text), streq(key, "application/json")))
			return 0;
		int r = json_text_key(b, key);
		return r < 0 ? r : buf_add(b, buf_str(&text), text.len);
	}
	int r = json_text_key(b, key);
	return r < 0 ? r : buf_add(b, value->data, value->len);
}

int history_shown_bundle(struct buf *b, const struct history_shown *s, const char *plain)
{
	const struct json_piece own = json_find(s->data.data, s->data.len, "text/plain");
	struct json_piece key, value;
	struct json_walk w;
	int r = 0;

	if (plain) {
		r = json_text_member(b, "text/plain", plain);
	} else if (own.len > 0) {
		r = json_text_key(b, "text/plain");
		r = r < 0 ? r : buf_add(b, own.data, own.len);
	}
	if (!json_walk_begin(&w, s->data.data, s->data.len))
		return r;
	while (r == 0 && json_walk_next(&w, &key, &value))
		r = add_member(b, &key, &value);
	return r;
}

static int add_picture(struct buf *b, const char *type, const struct json_piece *p)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(PART_MAX);

	if (json_piece_text(p, &text) < 0)
		return 0;
	int r = buf_printf(b, "<figure><img alt=\"\" src=\"data:%s;base64,", type);
	if (r == 0 && streq(type, "image/svg+xml")) {
		r = buf_reserve(b, BASE64_ENCODED_LEN(text.len) + 1);
		if (r < 0)
			return r;
		base64_encode((const uint8_t *)buf_str(&text), text.len, b->data + b->len);
		b->len += BASE64_ENCODED_LEN(text.len);
		b->data[b->len] = '\0';
	} else if (r == 0) {
		r = buf_add(b, buf_str(&text), text.len);
	}
	r = r < 0 ? r : buf_add_str(b, "\"></figure>\n");
	return r < 0 ? r : 1;
}

/* A string as text, anything else as it is written. */
static int add_cell(struct buf *b, const char *tag, const struct json_piece *p)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(PART_MAX);
	char plain[NUMBER_SIZE];
	int r = buf_printf(b, "<%s>", tag);

	(void)snprintf(plain, sizeof(plain), "%.*s", (int)MIN(p->len, sizeof(plain) - 1), p->data);
	const bool is_text = json_piece_text(p, &text) == 0;
	r = r < 0 ? r : history_text_html(b, is_text ? buf_str(&text) : plain);
	return r < 0 ? r : buf_printf(b, "</%s>", tag);
}

static int add_rows(struct buf *b, const struct json_piece *rows, size_t *ret_n)
{
	struct json_piece key, row, value;
	struct json_walk w, in;
	int r = 0;

	*ret_n = 0;
	if (!json_walk_begin(&w, rows->data, rows->len))
		return 0;
	while (r == 0 && *ret_n < ROWS_SHOWN && json_walk_next(&w, &key, &row)) {
		++*ret_n;
		r = buf_add_str(b, "<tr>");
		if (json_walk_begin(&in, row.data, row.len))
			while (r == 0 && json_walk_next(&in, &key, &value))
				r = add_cell(b, "td", &value);
		r = r < 0 ? r : buf_add_str(b, "</tr>\n");
	}
	return r;
}

static int add_table(struct buf *b, const struct json_piece *p)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(PART_MAX);

	if (json_piece_text(p, &text) < 0 || !is_json(buf_str(&text), true))
		return 0;
	const struct json_piece table = {buf_str(&text), text.len};
	const struct json_piece columns = json_find(table.data, table.len, "columns");
	const struct json_piece rows = json_find(table.data, table.len, "rows");
	const size_t total = number(&table, "total", SIZE_MAX / 16);
	struct json_piece key, value;
	struct json_walk w;
	size_t n;
	int r = buf_add_str(b, "<div class=\"table\"><table><thead><tr>");

	if (json_walk_begin(&w, columns.data, columns.len))
		while (r == 0 && json_walk_next(&w, &key, &value)) {
			const struct json_piece name = json_find(value.data, value.len, "name");
			r = add_cell(b, "th", &name);
		}
	r = r < 0 ? r : buf_add_str(b, "</tr></thead><tbody>\n");
	r = r < 0 ? r : add_rows(b, &rows, &n);
	r = r < 0 ? r : buf_add_str(b, "</tbody></table></div>\n");
	if (r == 0 && total > n)
		r = buf_printf(b, "<p><small>%zu of %zu rows</small></p>\n", n, total);
	return r < 0 ? r : 1;
}

int history_shown_page(struct buf *b, const struct history_shown *s)
{
	static const char *const pictures[] = {"image/png", "image/jpeg", "image/gif", "image/webp",
					       "image/svg+xml"};

	for (size_t i = 0; i < ARRAY_SIZE(pictures); i++) {
		const struct json_piece p = json_find(s->data.data, s->data.len, pictures[i]);

		if (p.len > 0)
			return add_picture(b, pictures[i], &p);
	}
	const struct json_piece table = json_find(s->data.data, s->data.len, SHOWN_TABLE);
	return table.len > 0 ? add_table(b, &table) : 0;
}
