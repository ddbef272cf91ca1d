/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/args.h"

#include "base/buf.h"
#include "base/json_coerce.h"
#include "base/suggest.h"
#include "base/text.h"
#include "tools/table.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#define TEXT_MAX  16384 /* bytes of a whole message */
#define REPR_MAX  4096  /* bytes of one value before it is shortened */
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
	/* json_object_foreach() takes only a json_t that is not const. */
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

/* Writes V as Python's repr() does. -ENOBUFS if it does not fit: B has the part that fits. */
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

/* HIDE: without the value. */
static int add_error(struct buf *out, bool hide, const char *name, const char *message,
		     const char *type, const json_t *value)
{
	int r = text_add_utf8_lossy(out, name, MIN(strlen(name), (size_t)200));

	r = r < 0 ? r : buf_printf(out, "\n  %s [type=%s, input_value=", message, type);
	r = r < 0 ? r : hide ? buf_add_str(out, "...") : add_shown(out, value);
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

static bool has_type(enum arg_type type, const json_t *v)
{
	bool ignored;

	switch (type) {
	case ARG_STRING:
		return json_is_string(v);
	case ARG_BOOL:
		return is_bool(v, &ignored);
	case ARG_INT:
		return json_is_integer(v);
	case ARG_NUMBER:
		return json_is_number(v);
	case ARG_PAIRS:
		return json_is_object(v);
	case ARG_STRINGS:
	case ARG_OBJECTS:
	case ARG_ARTIFACTS:
		return json_is_array(v);
	}
	return false;
}

static bool is_list_of_strings(const json_t *v)
{
	const json_t *item;
	size_t i;

	json_array_foreach(v, i, item)
		if (!json_is_string(item))
			return false;
	return json_is_array(v);
}

static bool is_good(const struct tool_arg *arg, const json_t *v)
{
	if ((arg->flags & ARG_WORDS) && is_list_of_strings(v))
		return true;
	return ((arg->flags & ARG_NULL) && json_is_null(v)) || has_type(arg->type, v);
}

/* Writes what pydantic says about a value of the wrong type. */
static int add_wrong_type(struct buf *out, bool hide, const struct tool_arg *arg, const json_t *v)
{
	static const struct {
		const char *message;
		const char *type;
	} faults[] = {
	    [ARG_STRING] = {"Input should be a valid string", "string_type"},
	    [ARG_BOOL] = {"Input should be a valid boolean", "bool_type"},
	    [ARG_INT] = {"Input should be a valid integer", "int_type"},
	    [ARG_NUMBER] = {"Input should be a valid number", "float_type"},
	    [ARG_PAIRS] = {"Input should be a valid dictionary", "dict_type"},
	    [ARG_STRINGS] = {"Input should be a valid list", "list_type"},
	    [ARG_OBJECTS] = {"Input should be a valid list", "list_type"},
	};

	if (arg->type == ARG_INT && json_is_real(v))
		return add_error(out, hide, arg->name,
				 "Input should be a valid integer, got a number with a fractional "
				 "part or beyond 2^53",
				 "int_from_float", v);
	if ((arg->type == ARG_INT || arg->type == ARG_NUMBER) && json_is_string(v))
		return add_error(out, hide, arg->name,
				 arg->type == ARG_INT
				     ? "Input should be a valid integer, unable to parse string as "
				       "an integer"
				     : "Input should be a valid number, unable to parse string as "
				       "a number",
				 arg->type == ARG_INT ? "int_parsing" : "float_parsing", v);
	if (arg->type == ARG_BOOL && (json_is_string(v) || json_is_number(v)))
		return add_error(out, hide, arg->name,
				 "Input should be a valid boolean, unable to interpret input",
				 "bool_parsing", v);
	return add_error(out, hide, arg->name, faults[arg->type].message, faults[arg->type].type,
			 v);
}

static const struct tool_arg *find_arg(const struct tool_arg *args, const char *name)
{
	for (; args->name; args++)
		if (streq(args->name, name))
			return args;
	return NULL;
}

/* ---- what other programs send ---- */

/* Is it a member that a workflow program adds to every call, whatever the schema says? */
static bool is_foreign(const char *name)
{
	static const char *const names[] = {"toolCallId", "sessionId", "action",
					    "chatInput"}; /* n8n */

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(names[i], name))
			return true;
	return false;
}

/* Names beyond ARGS_IGNORED_MAX are left out. */
static void add_ignored(struct buf *ignored, const struct tool_arg *args, const char *prefix,
			const char *name)
{
	struct suggest near = suggest_for(name);
	const size_t before = ignored->len;

	for (; args->name && !is_foreign(name); args++)
		suggest_offer(&near, args->name);
	int r = buf_printf(ignored, "%s%s", before > 0 ? ", " : "", prefix);
	r = r < 0 ? r : text_add_utf8_lossy(ignored, name, MIN(strlen(name), (size_t)60));
	r = r < 0 || !near.name[0] ? r : buf_printf(ignored, " (did you mean %s?)", near.name);
	if (r < 0 && ignored->data) {
		ignored->len = before;
		ignored->data[before] = '\0';
	}
}

static json_t *coerce_members(const struct tool_arg *args, const json_t *given, const char *prefix,
			      struct buf *ignored);

static int coerce_objects(const struct tool_arg *arg, const json_t *v, struct buf *ignored,
			  json_t **ret)
{
	json_auto_t *given = NULL;
	const int r = json_coerce_list(v, &given);
	json_t *list;
	char prefix[64];
	json_t *item;
	size_t i;

	if (r < 0)
		return r;
	list = json_array();
	if (!list)
		return -ENOMEM;
	json_array_foreach(given, i, item) {
		(void)snprintf(prefix, sizeof(prefix), "%s[%zu].", arg->name, i);
		if (json_array_append_new(list,
					  json_is_object(item)
					      ? coerce_members(arg->fields, item, prefix, ignored)
					      : json_incref(item)) == 0)
			continue;
		json_decref(list);
		return -ENOMEM;
	}
	*ret = list;
	return 0;
}

/* The value of ARG that V stands for, as a new reference; V itself if it stands for none. NULL: no memory. */
static json_t *coerce_value(const struct tool_arg *arg, const json_t *v, struct buf *ignored)
{
	json_t *value = NULL;
	int r = -EINVAL;

	switch (arg->type) {
	case ARG_INT:
		r = json_coerce_integer(v, &value);
		break;
	case ARG_NUMBER:
		r = json_coerce_number(v, &value);
		break;
	case ARG_PAIRS:
		r = json_coerce_object(v, &value);
		break;
	case ARG_STRINGS:
		r = json_coerce_list(v, &value);
		break;
	case ARG_OBJECTS:
		r = coerce_objects(arg, v, ignored, &value);
		break;
	case ARG_STRING:
		r = arg->flags & ARG_WORDS ? json_coerce_list(v, &value) : -EINVAL;
		r = r == -EINVAL && arg->flags & ARG_JSON_TEXT ? json_coerce_document(v, &value)
							       : r;
		r = r == -EINVAL ? json_coerce_text(v, &value) : r;
		break;
	case ARG_BOOL: /* args_bool() reads words */
	case ARG_ARTIFACTS:
		break;
	}
	return r == 0 || r == -ENOMEM ? value : json_incref((json_t *)(uintptr_t)v);
}

static json_t *coerce_members(const struct tool_arg *args, const json_t *given, const char *prefix,
			      struct buf *ignored)
{
	json_t *mutable_given = (json_t *)(uintptr_t)given;
	json_t *ret = json_object();

	for (void *it = json_object_iter(mutable_given); it && ret;
	     it = json_object_iter_next(mutable_given, it)) {
		const char *name = json_object_iter_key(it);
		const json_t *v = json_object_iter_value(it);
		const struct tool_arg *arg = find_arg(args, name);

		if (!arg)
			add_ignored(ignored, args, prefix, name);
		else if ((!json_is_null(v) || (arg->flags & ARG_REQUIRED)) &&
			 json_object_set_new(ret, name, coerce_value(arg, v, ignored)) < 0) {
			json_decref(ret);
			return NULL;
		}
	}
	return ret;
}

json_t *args_coerce(const struct tool_arg *args, const json_t *arguments, struct buf *ignored)
{
	return coerce_members(args, arguments, "", ignored);
}

static bool has_secrets(const struct tool_arg *args)
{
	for (; args->name; args++)
		if (args->flags & ARG_SECRET)
			return true;
	return false;
}

/* Adds a paragraph per mistake to OUT; returns their number or -errno. */
static int find_mistakes(struct buf *out, const struct tool_arg *args, const json_t *arguments)
{
	const bool hide = has_secrets(args);
	int mistakes = 0;

	for (const struct tool_arg *a = args; a->name; a++) {
		const json_t *v = json_object_get(arguments, a->name);
		int r;

		if (v ? is_good(a, v) : !(a->flags & ARG_REQUIRED))
			continue;
		if (v)
			r = add_wrong_type(out, hide, a, v);
		else
			r = add_error(out, hide, a->name, "Missing required argument",
				      "missing_argument", arguments);
		if (r < 0)
			return r;
		mistakes++;
	}
	json_t *mutable_arguments = (json_t *)(uintptr_t)arguments;
	for (void *it = json_object_iter(mutable_arguments); it;
	     it = json_object_iter_next(mutable_arguments, it)) {
		if (find_arg(args, json_object_iter_key(it)) ||
		    is_foreign(json_object_iter_key(it)))
			continue;
		mistakes++;
		int r =
		    add_error(out, hide, json_object_iter_key(it), "Unexpected keyword argument",
			      "unexpected_keyword_argument", json_object_iter_value(it));
		if (r < 0)
			return r;
	}
	return mistakes;
}

bool args_check(const char *tool, const struct tool_arg *args, const json_t *arguments,
		char **ret_text)
{
	_cleanup_(buf_done) struct buf found = BUF_INIT(TEXT_MAX);
	_cleanup_(buf_done) struct buf out = BUF_INIT(TEXT_MAX + 256);
	int mistakes = find_mistakes(&found, args, arguments);

	*ret_text = NULL;
	if (mistakes == 0)
		return true;
	/* Negative: not all mistakes fit into the text. */
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

/* ---- bounds ---- */

/* Is N, a value or the length of a list, within the bounds of ARG? If not, TEXT gets the range. */
static bool in_bounds(const struct tool_arg *arg, int64_t n, char *text)
{
	const char *what = arg->type == ARG_INT ? "must be" : "must have";
	const char *items = arg->type == ARG_INT ? "" : " items";

	if ((arg->min == 0 && arg->max == 0) || (n >= arg->min && (arg->max == 0 || n <= arg->max)))
		return true;
	if (arg->max == 0)
		(void)snprintf(text, ARGS_FAULT_SIZE, "%s %s at least %jd%s", arg->name, what,
			       (intmax_t)arg->min, items);
	else
		(void)snprintf(text, ARGS_FAULT_SIZE, "%s %s from %jd to %jd%s", arg->name, what,
			       (intmax_t)arg->min, (intmax_t)arg->max, items);
	return false;
}

/* Is ITEM an object with the members of FIELDS, and no other? */
static bool is_object_of(const struct tool_arg *fields, const json_t *item)
{
	size_t known = 0;

	for (const struct tool_arg *f = fields; f->name; f++) {
		const json_t *v = json_object_get(item, f->name);

		if (v ? !is_good(f, v) : (f->flags & ARG_REQUIRED) != 0)
			return false;
		known += v != NULL;
	}
	return json_is_object(item) && known == json_object_size(item);
}

/* "branches[1] must be an object of name (optional) and code" */
static void say_fields(const struct tool_arg *arg, size_t i, char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(ARGS_FAULT_SIZE - 1);
	int r = buf_printf(&b, "%s[%zu] must be an object of", arg->name, i);

	for (const struct tool_arg *f = arg->fields; f->name && r == 0; f++)
		r = buf_printf(&b, "%s %s%s", f == arg->fields ? "" : " and", f->name,
			       f->flags & ARG_REQUIRED ? "" : " (optional)");
	(void)snprintf(text, ARGS_FAULT_SIZE, "%s", buf_str(&b));
}

static bool has_good_items(const struct tool_arg *arg, const json_t *list, char *text)
{
	const json_t *item;
	size_t i;

	if (!in_bounds(arg, (int64_t)json_array_size(list), text))
		return false;
	json_array_foreach(list, i, item) {
		if (arg->type != ARG_OBJECTS || is_object_of(arg->fields, item))
			continue;
		say_fields(arg, i, text);
		return false;
	}
	return true;
}

const struct tool_arg *args_find_fault(const struct tool_arg *args, const json_t *arguments,
				       char *text)
{
	for (; args->name; args++) {
		const json_t *v = json_object_get(arguments, args->name);

		if (json_is_integer(v) && args->type == ARG_INT
			? !in_bounds(args, json_integer_value(v), text)
			: json_is_array(v) && !has_good_items(args, v, text))
			return args;
	}
	return NULL;
}

/* ---- values ---- */

bool args_is(const json_t *arguments, const char *name, const char *word)
{
	const char *given = json_string_value(json_object_get(arguments, name));

	return given && streq(given, word);
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
