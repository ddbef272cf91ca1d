/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/args.h"

#include "base/buf.h"
#include "base/text.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define TEXT_MAX  16384 /* of a whole message */
#define REPR_MAX  4096  /* of one value before it is shortened */
#define SHOWN_MAX 50    /* characters of a value in a message, as pydantic does */
#define DEPTH_MAX 8

static const struct {
	const char *word;
	bool value;
} bool_words[] = {
    {"0", false}, {"off", false}, {"f", false}, {"false", false}, {"n", false}, {"no", false},
    {"1", true},  {"on", true},   {"t", true},  {"true", true},   {"y", true},  {"yes", true},
};

static const char *type_name(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "dict";
	case JSON_ARRAY:
		return "list";
	case JSON_STRING:
		return "str";
	case JSON_INTEGER:
		return "int";
	case JSON_REAL:
		return "float";
	case JSON_TRUE:
	case JSON_FALSE:
		return "bool";
	case JSON_NULL:
		break;
	}
	return "NoneType";
}

static int repr_string(struct buf *b, const char *s, size_t len)
{
	char quote = memchr(s, '\'', len) && !memchr(s, '"', len) ? '"' : '\'';
	int r = buf_add_char(b, quote);

	for (size_t i = 0; i < len && r == 0; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c == (unsigned char)quote || c == '\\')
			r = buf_printf(b, "\\%c", c);
		else if (c == '\n' || c == '\t' || c == '\r')
			r = buf_printf(b, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
		else if (c < 0x20 || c == 0x7F)
			r = buf_printf(b, "\\x%02x", c);
		else
			r = buf_add_char(b, (char)c);
	}
	return r < 0 ? r : buf_add_char(b, quote);
}

static int repr(struct buf *b, const json_t *v, unsigned depth);

static int repr_items(struct buf *b, const json_t *v, unsigned depth)
{
	const char *key;
	json_t *item;
	size_t i, n = 0;
	int r = 0;

	if (json_is_array(v)) {
		json_array_foreach(v, i, item) {
			r = i > 0 ? buf_add_str(b, ", ") : 0;
			r = r < 0 ? r : repr(b, item, depth + 1);
			if (r < 0)
				return r;
		}
		return 0;
	}
	/* json_object_foreach() wants a json_t that may change; this one does not. */
	for (void *it = json_object_iter((json_t *)(uintptr_t)v); it;
	     it = json_object_iter_next((json_t *)(uintptr_t)v, it)) {
		key = json_object_iter_key(it);
		r = n++ > 0 ? buf_add_str(b, ", ") : 0;
		r = r < 0 ? r : repr_string(b, key, strlen(key));
		r = r < 0 ? r : buf_add_str(b, ": ");
		r = r < 0 ? r : repr(b, json_object_iter_value(it), depth + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

/* As Python's repr() writes it. -ENOBUFS when it is long: what fits is in B. */
static int repr(struct buf *b, const json_t *v, unsigned depth)
{
	int r;

	switch (json_typeof(v)) {
	case JSON_STRING:
		return repr_string(b, json_string_value(v), json_string_length(v));
	case JSON_INTEGER:
		return buf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	case JSON_REAL:
		return buf_printf(b, "%g", json_real_value(v));
	case JSON_TRUE:
		return buf_add_str(b, "True");
	case JSON_FALSE:
		return buf_add_str(b, "False");
	case JSON_NULL:
		return buf_add_str(b, "None");
	case JSON_OBJECT:
	case JSON_ARRAY:
		break;
	}
	if (depth > DEPTH_MAX)
		return buf_add_str(b, "...");
	r = buf_add_char(b, json_is_array(v) ? '[' : '{');
	r = r < 0 ? r : repr_items(b, v, depth);
	return r < 0 ? r : buf_add_char(b, json_is_array(v) ? ']' : '}');
}

static int add_shown(struct buf *out, const json_t *v)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(REPR_MAX);
	int r = repr(&b, v, 0);
	const char *text = buf_str(&b);

	if (r < 0 && r != -ENOBUFS)
		return r;
	if (b.len <= SHOWN_MAX)
		return buf_add(out, text, b.len);
	size_t head = text_utf8_cut(text, b.len, SHOWN_MAX / 2);
	size_t tail = b.len - SHOWN_MAX / 2 + 1;
	while (tail < b.len && ((unsigned char)text[tail] & 0xC0) == 0x80)
		tail++;
	r = buf_add(out, text, head);
	r = r < 0 ? r : buf_add_str(out, "...");
	return r < 0 ? r : text_add_utf8_lossy(out, text + tail, b.len - tail);
}

static int add_error(struct buf *out, const char *name, const char *message, const char *type,
		     const json_t *value)
{
	int r = text_add_utf8_lossy(out, name, MIN(strlen(name), (size_t)200));

	r = r < 0 ? r : buf_printf(out, "\n  %s [type=%s, input_value=", message, type);
	r = r < 0 ? r : add_shown(out, value);
	return r < 0 ? r : buf_printf(out, ", input_type=%s]\n", type_name(value));
}

static bool is_bool(const json_t *v, bool *ret)
{
	double number = json_number_value(v);

	if (json_is_boolean(v)) {
		*ret = json_is_true(v);
		return true;
	}
	if (json_is_number(v) &&
	    (fpclassify(number) == FP_ZERO || fpclassify(number - 1) == FP_ZERO)) {
		*ret = fpclassify(number) != FP_ZERO;
		return true;
	}
	for (size_t i = 0; json_is_string(v) && i < ARRAY_SIZE(bool_words); i++)
		if (strcasecmp(json_string_value(v), bool_words[i].word) == 0 &&
		    json_string_length(v) == strlen(bool_words[i].word)) {
			*ret = bool_words[i].value;
			return true;
		}
	return false;
}

/* 1 = good, 0 = a line was added, or -errno. */
static int check_value(struct buf *out, const struct arg_spec *spec, const json_t *v)
{
	bool ignored;

	switch (spec->type) {
	case ARG_STRING_OR_NULL:
		if (json_is_null(v))
			return 1;
		__attribute__((fallthrough));
	case ARG_STRING:
		return json_is_string(v)
			   ? 1
			   : add_error(out, spec->name, "Input should be a valid string",
				       "string_type", v);
	case ARG_BOOL:
		if (is_bool(v, &ignored))
			return 1;
		if (json_is_string(v) || json_is_number(v))
			return add_error(
			    out, spec->name,
			    "Input should be a valid boolean, unable to interpret input",
			    "bool_parsing", v);
		return add_error(out, spec->name, "Input should be a valid boolean", "bool_type",
				 v);
	case ARG_INT_OR_NULL:
		return json_is_integer(v) || json_is_null(v)
			   ? 1
			   : add_error(out, spec->name, "Input should be a valid integer",
				       "int_type", v);
	case ARG_LIST_OR_NULL:
		if (json_is_null(v))
			return 1;
		__attribute__((fallthrough));
	case ARG_LIST:
		return json_is_array(v) ? 1
					: add_error(out, spec->name, "Input should be a valid list",
						    "list_type", v);
	}
	return 1;
}

static const struct arg_spec *find_spec(const struct arg_spec *specs, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (streq(specs[i].name, name))
			return &specs[i];
	return NULL;
}

/* Adds a paragraph per mistake to OUT; returns their number or -errno. */
static int find_mistakes(struct buf *out, const struct arg_spec *specs, size_t n,
			 const json_t *arguments)
{
	int mistakes = 0, r = 0;

	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_object_get(arguments, specs[i].name);
		if (v)
			r = check_value(out, &specs[i], v);
		else if (specs[i].required)
			r = add_error(out, specs[i].name, "Missing required argument",
				      "missing_argument", arguments);
		else
			continue;
		if (r < 0)
			return r;
		mistakes += r == 0 ? 1 : 0;
	}
	json_t *mutable_arguments = (json_t *)(uintptr_t)arguments;
	for (void *it = json_object_iter(mutable_arguments); it;
	     it = json_object_iter_next(mutable_arguments, it)) {
		if (find_spec(specs, n, json_object_iter_key(it)))
			continue;
		mistakes++;
		r = add_error(out, json_object_iter_key(it), "Unexpected keyword argument",
			      "unexpected_keyword_argument", json_object_iter_value(it));
		if (r < 0)
			return r;
	}
	return mistakes;
}

bool args_check(const char *tool, const struct arg_spec *specs, size_t n, const json_t *arguments,
		char **ret_text)
{
	_cleanup_(buf_done) struct buf found = BUF_INIT(TEXT_MAX);
	_cleanup_(buf_done) struct buf out = BUF_INIT(TEXT_MAX + 256);
	int mistakes = find_mistakes(&found, specs, n, arguments);

	*ret_text = NULL;
	if (mistakes == 0)
		return true;
	/* Too many to say them all: what fits is said. */
	bool more = mistakes < 0;
	int r = buf_printf(&out, "%d validation error%s for call[%s]\n", more ? 1 : mistakes,
			   mistakes == 1 || more ? "" : "s", tool);
	r = r < 0 ? r : buf_add(&out, buf_str(&found), found.len);
	if (r < 0)
		return false;
	if (out.data[out.len - 1] == '\n')
		out.data[--out.len] = '\0';
	*ret_text = buf_take(&out);
	return false;
}

bool args_bool(const json_t *arguments, const char *name, bool absent)
{
	const json_t *v = json_object_get(arguments, name);
	bool value = absent;

	return v && is_bool(v, &value) ? value : absent;
}

bool args_int(const json_t *arguments, const char *name, int64_t *ret)
{
	const json_t *v = json_object_get(arguments, name);

	if (!json_is_integer(v))
		return false;
	*ret = json_integer_value(v);
	return true;
}
