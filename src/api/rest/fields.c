/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and queries: one table decides which members are accepted, and describes them. */
#include "api/rest/rest.h"

#include "base/json_coerce.h"
#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

static bool is_good_text(const struct rest_field *f, const json_t *v)
{
	size_t len = json_string_length(v);

	/* A NUL would end the text for some readers and not for others. */
	return json_is_string(v) && strlen(json_string_value(v)) == len && (int64_t)len >= f->min &&
	       (int64_t)len <= f->max;
}

static int coerce_option(enum sandbox_option option, const json_t *v, json_t **ret)
{
	switch (sandbox_option_rows[option].type) {
	case SANDBOX_OPTION_TYPE_BOOL:
		return json_coerce_boolean(v, ret);
	case SANDBOX_OPTION_TYPE_INT:
		return json_coerce_integer(v, ret);
	case SANDBOX_OPTION_TYPE_NUMBER:
		return json_coerce_number(v, ret);
	case SANDBOX_OPTION_TYPE_PAIRS:
		return json_coerce_object(v, ret);
	case SANDBOX_OPTION_TYPE_TEXT:
		break;
	}
	return -EINVAL;
}

/* The value of F that V stands for. -EINVAL: V is of the right type already, or of a wrong one. -ENOMEM. */
static int coerce(const struct rest_field *f, const json_t *v, json_t **ret)
{
	switch (f->type) {
	case REST_INT:
		return json_coerce_integer(v, ret);
	case REST_BOOL:
		return json_coerce_boolean(v, ret);
	case REST_TEXTS:
	case REST_OBJECTS:
		return json_coerce_list(v, ret);
	case REST_OPTION:
		return coerce_option(f->option, v, ret);
	case REST_TEXT:
	case REST_WORD:
		break;
	}
	return -EINVAL;
}

/* A list as long as F permits. */
static bool is_good_list(const struct rest_field *f, const json_t *v)
{
	return json_is_array(v) && (int64_t)json_array_size(v) >= f->min &&
	       (int64_t)json_array_size(v) <= f->max;
}

static bool is_good(const struct rest_field *f, json_t *v)
{
	json_t *item;
	size_t i;

	switch (f->type) {
	case REST_TEXT:
		return is_good_text(f, v);
	case REST_INT:
		return json_is_integer(v) && json_integer_value(v) >= f->min &&
		       json_integer_value(v) <= f->max;
	case REST_BOOL:
		return json_is_boolean(v);
	case REST_WORD:
		return json_is_string(v) && text_is_word(f->words, json_string_value(v));
	case REST_TEXTS:
		if (!is_good_list(f, v))
			return false;
		json_array_foreach(v, i, item)
			if (!json_is_string(item) ||
			    strlen(json_string_value(item)) != json_string_length(item))
				return false;
		return true;
	case REST_OBJECTS: /* check_objects() looks into them */
		return is_good_list(f, v);
	case REST_OPTION: /* sandbox_options_read() checks the rest, with better words */
		return !json_is_null(v);
	}
	return false;
}

static int refuse(const struct rest_field *f, struct err *e)
{
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "'%s' is not valid (%s)", f->name, f->doc);
	return err_set_member(e, f->name);
}

static int refuse_missing(const struct rest_field *f, struct err *e)
{
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "'%s' is missing", f->name);
	return err_set_member(e, f->name);
}

static int refuse_memory(struct err *e)
{
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading the request");
}

static bool is_known(const struct rest_field *fields, const char *name)
{
	for (const struct rest_field *f = fields; f->name; f++)
		if (streq(f->name, name))
			return true;
	return false;
}

/* Names the first member of BODY that no field has. */
static int refuse_unknown(const struct rest_field *fields, const json_t *body, struct err *e)
{
	json_t *members = (json_t *)(uintptr_t)body; /* iterating takes no const */
	const char *name;
	json_t *v;

	json_object_foreach(members, name, v)
		if (!is_known(fields, name)) {
			(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
				      "the body has the member '%.60s', which is not known", name);
			(void)err_set_member(e, name);
			break;
		}
	return -EINVAL;
}

static int check_objects(const struct rest_field *f, const json_t *list, struct err *e)
{
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item) {
		struct err own = ERR_INIT;

		if (json_is_object(item) && fields_check(f->fields, item, &own) == 0)
			continue;
		return own.code == ERR_OUT_OF_MEMORY ? refuse_memory(e) : refuse(f, e);
	}
	return 0;
}

/* Checks the member *V of BODY, and replaces it by what it stands for. */
static int check_member(const struct rest_field *f, json_t *body, json_t *v, struct err *e)
{
	json_t *meant;
	const int r = coerce(f, v, &meant);

	if (r == -ENOMEM)
		return refuse_memory(e);
	if (r == 0) {
		/* BODY has the only reference then. */
		if (json_object_set_new(body, f->name, meant) < 0)
			return refuse_memory(e);
		v = meant;
	}
	if (!is_good(f, v))
		return refuse(f, e);
	return f->type == REST_OBJECTS ? check_objects(f, v, e) : 0;
}

int fields_check(const struct rest_field *fields, json_t *body, struct err *e)
{
	size_t known = 0;

	for (const struct rest_field *f = fields; f->name; f++) {
		json_t *v = json_object_get(body, f->name);
		int r = 0;

		if (v)
			r = check_member(f, body, v, e);
		else if (f->required)
			r = refuse_missing(f, e);
		if (r < 0)
			return r;
		known += v != NULL;
	}
	return known == json_object_size(body) ? 0 : refuse_unknown(fields, body, e);
}

/* A whole number in any form that JSON has for it; -EINVAL, -ENOMEM. */
static int query_int(const char *text, int64_t *ret)
{
	if (parse_i64(text, INT64_MIN, INT64_MAX, ret) == 0)
		return 0;
	if (!text_is_utf8(text, strlen(text)))
		return -EINVAL;
	json_auto_t *given = json_string(text);
	json_auto_t *number = NULL;
	const int r = given ? json_coerce_integer(given, &number) : -ENOMEM;

	if (r == 0)
		*ret = json_integer_value(number);
	return r;
}

/* F has another type than REST_INT. */
static bool is_good_query(const struct rest_field *f, const char *text)
{
	bool ignored;

	if (f->type == REST_BOOL)
		return parse_bool(text, &ignored) == 0;
	if (f->type == REST_WORD)
		return text_is_word(f->words, text);
	return text_is_utf8(text, strlen(text)) && (int64_t)strlen(text) >= f->min &&
	       (int64_t)strlen(text) <= f->max;
}

int fields_check_query(const struct rest_field *fields, struct http_request *req, struct err *e)
{
	for (const struct rest_field *f = fields; f->name; f++) {
		const char *text = http_request_query(req, f->name);

		if (!text && f->required)
			return refuse_missing(f, e);
		if (!text)
			continue;
		if (f->type == REST_INT) {
			int64_t n;
			const int r = query_int(text, &n);

			if (r == -ENOMEM)
				return refuse_memory(e);
			if (r < 0 || n < f->min || n > f->max)
				return refuse(f, e);
		} else if (!is_good_query(f, text)) {
			return refuse(f, e);
		}
	}
	return 0;
}

/* ---- description ---- */

static json_t *words_schema(const struct rest_field *f)
{
	json_t *list = json_array();
	const char *word;
	size_t at = 0, len;

	while ((len = text_next_word(f->words, &at, &word)) > 0)
		(void)json_array_append_new(list, json_stringn(word, len));
	return json_pack("{s:s, s:o}", "type", "string", "enum", list);
}

/* What sandbox_options_read() takes, as far as a schema can say it. */
static json_t *pairs_schema(const struct rest_field *f)
{
	const bool env = f->option == SANDBOX_OPTION_ENV;
	const int max = env ? SANDBOX_ENV_VALUE_MAX : SANDBOX_LABEL_VALUE_MAX;
	json_t *value =
	    f->change ? json_pack("{s:[s, s], s:i}", "type", "string", "null", "maxLength", max)
		      : json_pack("{s:s, s:i}", "type", "string", "maxLength", max);

	return json_pack("{s:s, s:I, s:{s:s}, s:o}", "type", "object", "maxProperties",
			 (json_int_t)sandbox_option_rows[f->option].max, "propertyNames", "pattern",
			 env ? "^[A-Za-z_][A-Za-z0-9_]{0,127}$"
			     : "^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$",
			 "additionalProperties", value);
}

static json_t *option_schema(const struct rest_field *f, const struct manager *m)
{
	const struct sandbox_option_row *row = &sandbox_option_rows[f->option];
	const int64_t max = manager_option_max(m, f->option);

	switch (row->type) {
	case SANDBOX_OPTION_TYPE_BOOL:
		return json_pack("{s:s}", "type", "boolean");
	case SANDBOX_OPTION_TYPE_INT:
		return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
				 (json_int_t)row->min, "maximum", (json_int_t)max);
	case SANDBOX_OPTION_TYPE_NUMBER:
		return json_pack("{s:s, s:f, s:f}", "type", "number", "minimum",
				 (double)row->min / 1000, "maximum", (double)max / 1000);
	case SANDBOX_OPTION_TYPE_TEXT:
		if (f->option == SANDBOX_OPTION_LEVEL)
			return json_pack("{s:s, s:o}", "type", "string", "enum",
					 manager_level_names(m));
		return json_pack("{s:s, s:I, s:I}", "type", "string", "minLength",
				 (json_int_t)row->min, "maxLength", (json_int_t)row->max);
	case SANDBOX_OPTION_TYPE_PAIRS:
		return pairs_schema(f);
	}
	return NULL;
}

static json_t *field_schema(const struct rest_field *f, const struct manager *m)
{
	switch (f->type) {
	case REST_TEXT:
		return json_pack("{s:s, s:I, s:I}", "type", "string", "minLength",
				 (json_int_t)f->min, "maxLength", (json_int_t)f->max);
	case REST_INT:
		return json_pack(
		    "{s:s, s:I, s:I}", "type", "integer", "minimum", (json_int_t)f->min, "maximum",
		    (json_int_t)(f->limited ? manager_option_max(m, f->option) : f->max));
	case REST_OBJECTS:
		return json_pack("{s:s, s:o, s:I, s:I}", "type", "array", "items",
				 fields_schema(f->fields, m), "minItems", (json_int_t)f->min,
				 "maxItems", (json_int_t)f->max);
	case REST_OPTION:
		return option_schema(f, m);
	case REST_BOOL:
		return json_pack("{s:s}", "type", "boolean");
	case REST_WORD:
		return words_schema(f);
	case REST_TEXTS:
		return json_pack("{s:s, s:{s:s}, s:I, s:I}", "type", "array", "items", "type",
				 "string", "minItems", (json_int_t)f->min, "maxItems",
				 (json_int_t)f->max);
	}
	return NULL;
}

json_t *fields_schema(const struct rest_field *fields, const struct manager *m)
{
	json_t *members = json_object(), *required = json_array();

	for (const struct rest_field *f = fields; f->name; f++) {
		json_t *schema = field_schema(f, m);

		(void)json_object_set_new(schema, "description", json_string(f->doc));
		(void)json_object_set_new(members, f->name, schema);
		if (f->required)
			(void)json_array_append_new(required, json_string(f->name));
	}
	return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", members,
			 "required", required, "additionalProperties", false);
}

json_t *fields_parameters(const struct rest_field *fields, const struct manager *m)
{
	json_t *list = json_array();

	for (const struct rest_field *f = fields; f && f->name; f++)
		(void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:o}", "name",
							    f->name, "in", "query", "description",
							    f->doc, "required", f->required,
							    "schema", field_schema(f, m)));
	return list;
}

/* ---- what handlers ask ---- */

const char *rest_text(const struct rest_call *c, const char *name, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(c->body, name));

	return text ? text : otherwise;
}

int64_t rest_int(const struct rest_call *c, const char *name, int64_t otherwise)
{
	const json_t *v = json_object_get(c->body, name);

	return v ? json_integer_value(v) : otherwise;
}

bool rest_bool(const struct rest_call *c, const char *name)
{
	return json_is_true(json_object_get(c->body, name));
}

bool rest_has(const struct rest_call *c, const char *name)
{
	return json_object_get(c->body, name) != NULL;
}

int64_t rest_query_int(const struct rest_call *c, const char *name, int64_t otherwise)
{
	const char *text = http_request_query(c->req, name);
	int64_t n;

	return text && query_int(text, &n) == 0 ? n : otherwise;
}

bool rest_query_bool(const struct rest_call *c, const char *name)
{
	const char *text = http_request_query(c->req, name);
	bool value = false;

	return text && parse_bool(text, &value) == 0 && value;
}
