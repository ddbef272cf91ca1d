/* SPDX-License-Identifier: Apache-2.0 */
/* Checks tool arguments against the simple part of JSON Schema 2020-12: type, enum, const,
 * required, properties, additionalProperties, items, minItems, maxItems, minLength, maxLength,
 * minimum, maximum, exclusiveMinimum, exclusiveMaximum. Other keywords ($ref, allOf, if …) are left
 * to the handler. Nothing is ever fetched. */
#include "mcp/objects.h"

#define SCHEMA_DEPTH_MAX 32
#define PATH_MAX_BYTES   256

/* The place in the arguments, for the message. */
struct where {
	const struct where *up;
	const char *key; /* NULL: an array element */
	size_t index;
};

static void where_text(const struct where *w, struct buf *b)
{
	int r;

	if (!w)
		return;
	where_text(w->up, b);
	if (w->key)
		r = buf_printf(b, "%s%.64s", b->len ? "." : "", w->key);
	else
		r = buf_printf(b, "[%zu]", w->index);
	(void)r; /* a path that is too long is cut */
}

static int PRINTF(3, 4) fault(struct err *e, const struct where *w, const char *fmt, ...)
{
	struct buf path = BUF_INIT(PATH_MAX_BYTES);
	struct buf what = BUF_INIT(PATH_MAX_BYTES);
	va_list ap;
	int r;

	where_text(w, &path);
	va_start(ap, fmt);
	r = buf_vprintf(&what, fmt, ap);
	va_end(ap);
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "%s%s%s", buf_str(&path), path.len ? ": " : "",
		      r < 0 ? "invalid value" : buf_str(&what));
	buf_done(&path);
	buf_done(&what);
	return -EINVAL;
}

static bool is_whole(const json_t *v)
{
	double d = json_real_value(v);

	/* 1.0 is an integer in JSON Schema. */
	return d > -9e15 && d < 9e15 && !((double)(json_int_t)d < d) &&
	       !((double)(json_int_t)d > d);
}

static bool is_type(const json_t *v, const char *type)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return streq(type, "object");
	case JSON_ARRAY:
		return streq(type, "array");
	case JSON_STRING:
		return streq(type, "string");
	case JSON_INTEGER:
		return streq(type, "integer") || streq(type, "number");
	case JSON_REAL:
		return streq(type, "number") || (streq(type, "integer") && is_whole(v));
	case JSON_TRUE:
	case JSON_FALSE:
		return streq(type, "boolean");
	case JSON_NULL:
		return streq(type, "null");
	}
	return false;
}

static int check_type(const json_t *schema, const json_t *v, const struct where *w, struct err *e)
{
	const json_t *type = json_object_get(schema, "type");
	const json_t *t;
	size_t i;

	if (json_is_string(type) && !is_type(v, json_string_value(type)))
		return fault(e, w, "must be of type %s", json_string_value(type));
	if (!json_is_array(type))
		return 0;
	json_array_foreach(type, i, t) {
		if (json_is_string(t) && is_type(v, json_string_value(t)))
			return 0;
	}
	return fault(e, w, "has none of the allowed types");
}

static int check_enum(const json_t *schema, const json_t *v, const struct where *w, struct err *e)
{
	const json_t *all = json_object_get(schema, "enum");
	const json_t *only = json_object_get(schema, "const");
	_cleanup_free_ char *text = NULL;
	const json_t *one;
	size_t len;
	size_t i;

	if (only && !json_equal(only, v))
		return fault(e, w, "is not the one allowed value");
	if (!json_is_array(all))
		return 0;
	json_array_foreach(all, i, one) {
		if (json_equal(one, v))
			return 0;
	}
	text = wire_text(all, &len);
	return fault(e, w, "must be one of %.180s", text ? text : "the allowed values");
}

/* The value of the keyword KEY as a number. False: the schema does not have it. */
static bool bound(const json_t *schema, const char *key, double *ret)
{
	const json_t *v = json_object_get(schema, key);

	*ret = json_number_value(v);
	return json_is_number(v);
}

static int check_number(const json_t *schema, const json_t *v, const struct where *w, struct err *e)
{
	double d = json_number_value(v);
	double b;

	if (bound(schema, "minimum", &b) && d < b)
		return fault(e, w, "must be at least %g", b);
	if (bound(schema, "maximum", &b) && d > b)
		return fault(e, w, "must be at most %g", b);
	if (bound(schema, "exclusiveMinimum", &b) && d <= b)
		return fault(e, w, "must be greater than %g", b);
	if (bound(schema, "exclusiveMaximum", &b) && d >= b)
		return fault(e, w, "must be less than %g", b);
	return 0;
}

/* Lengths are counted in characters. A spilled string is longer than any sensible maximum, so its
 * bytes are counted instead. */
static int check_string(const struct mcp_call *c, const json_t *schema, const json_t *v,
			const struct where *w, struct err *e)
{
	struct mcp_text_ref ref;
	double n = 0;
	double b;

	if (mcp_call_text(c, v, &ref) < 0)
		return fault(e, w, "must be a string");
	if (!ref.text) {
		n = (double)ref.len;
	} else {
		for (size_t i = 0; i < ref.len; i++)
			n += ((unsigned char)ref.text[i] & 0xc0) != 0x80;
	}
	if (bound(schema, "minLength", &b) && n < b)
		return fault(e, w, "must have at least %g characters", b);
	if (bound(schema, "maxLength", &b) && n > b)
		return fault(e, w, "must have at most %g characters", b);
	return 0;
}

static int check(const struct mcp_call *c, const json_t *schema, const json_t *v,
		 const struct where *w, unsigned depth, struct err *e);

static int check_array(const struct mcp_call *c, const json_t *schema, const json_t *v,
		       const struct where *w, unsigned depth, struct err *e)
{
	const json_t *items = json_object_get(schema, "items");
	const json_t *one;
	double b;
	size_t i;

	if (bound(schema, "minItems", &b) && (double)json_array_size(v) < b)
		return fault(e, w, "must have at least %g items", b);
	if (bound(schema, "maxItems", &b) && (double)json_array_size(v) > b)
		return fault(e, w, "must have at most %g items", b);
	json_array_foreach(v, i, one) {
		struct where here = {.up = w, .index = i};
		int r = items ? check(c, items, one, &here, depth - 1, e) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int check_object(const struct mcp_call *c, const json_t *schema, const json_t *v,
			const struct where *w, unsigned depth, struct err *e)
{
	const json_t *properties = json_object_get(schema, "properties");
	const json_t *more = json_object_get(schema, "additionalProperties");
	const json_t *name;
	const char *key;
	json_t *member;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i, name) {
		const char *n = json_string_value(name);

		if (n && !json_object_get(v, n))
			return fault(e, w, "'%.64s' is required", n);
	}
	json_object_foreach((json_t *)(uintptr_t)v, key, member) {
		const json_t *sub = json_object_get(properties, key);
		struct where here = {.up = w, .key = key};
		int r;

		if (!sub)
			sub = more;
		if (json_is_false(sub))
			return fault(e, w, "'%.64s' is not an argument of this tool", key);
		r = sub ? check(c, sub, member, &here, depth - 1, e) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static int check(const struct mcp_call *c, const json_t *schema, const json_t *v,
		 const struct where *w, unsigned depth, struct err *e)
{
	int r;

	if (depth == 0)
		return fault(e, w, "is nested too deeply");
	if (!json_is_object(schema))
		return json_is_false(schema) ? fault(e, w, "is not allowed") : 0;
	r = check_type(schema, v, w, e);
	if (r == 0)
		r = check_enum(schema, v, w, e);
	if (r < 0)
		return r;
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return check_object(c, schema, v, w, depth, e);
	case JSON_ARRAY:
		return check_array(c, schema, v, w, depth, e);
	case JSON_STRING:
		return check_string(c, schema, v, w, e);
	case JSON_INTEGER:
	case JSON_REAL:
		return check_number(schema, v, w, e);
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		break;
	}
	return 0;
}

int schema_check(const struct mcp_call *c, const json_t *schema, const json_t *value, struct err *e)
{
	return check(c, schema, value, NULL, SCHEMA_DEPTH_MAX, e);
}
