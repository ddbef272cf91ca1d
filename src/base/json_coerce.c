/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_coerce.h"

#include "base/jsonio.h"
#include "base/parse.h"

#include <math.h>

/* Above it a double cannot hold every integer, so the one that was meant is not known. */
#define EXACT_MAX 9007199254740992.0 /* 2^53 */

/* V, or the value whose JSON text it is. */
static json_t *value_of(const json_t *v)
{
	json_t *read = NULL;

	if (!json_is_string(v))
		return json_incref((json_t *)(uintptr_t)v);
	const char *text = json_string_value(v);
	const size_t len = json_string_length(v);
	const size_t n = len <= JSON_COERCE_TEXT_MAX
			     ? jsonio_count(text, len, JSON_COERCE_VALUES_MAX, JSONIO_DEPTH_MAX)
			     : 0;
	if (n == 0 || n > JSON_COERCE_VALUES_MAX)
		return NULL;
	return jsonio_read(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &read, NULL) < 0
		   ? NULL
		   : read;
}

static json_t *of_type(const json_t *v, bool (*is_type)(const json_t *v))
{
	json_t *value = value_of(v);

	if (value && is_type(value))
		return value;
	json_decref(value);
	return NULL;
}

static bool is_number(const json_t *v)
{
	return json_is_number(v);
}

static bool is_list(const json_t *v)
{
	return json_is_array(v);
}

static bool is_object(const json_t *v)
{
	return json_is_object(v);
}

json_t *json_coerce_number(const json_t *v)
{
	return of_type(v, is_number);
}

json_t *json_coerce_list(const json_t *v)
{
	return of_type(v, is_list);
}

json_t *json_coerce_object(const json_t *v)
{
	json_t *value = of_type(v, is_object);
	json_t *list = value ? NULL : of_type(v, is_list);

	if (list && json_array_size(list) == 0)
		value = json_object();
	json_decref(list);
	return value;
}

json_t *json_coerce_integer(const json_t *v)
{
	json_t *number = json_coerce_number(v);
	const double d = json_number_value(number);

	if (!number || json_is_integer(number))
		return number;
	json_decref(number);
	if (fabs(d) > EXACT_MAX || fpclassify(d - trunc(d)) != FP_ZERO)
		return NULL;
	return json_integer((json_int_t)d);
}

json_t *json_coerce_boolean(const json_t *v)
{
	bool value = json_is_true(v);

	if (json_is_boolean(v))
		return json_boolean(value);
	return json_is_string(v) && parse_bool(json_string_value(v), &value) == 0
		   ? json_boolean(value)
		   : NULL;
}
