/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_coerce.h"

#include "base/attr.h"
#include "base/jsonio.h"
#include "base/parse.h"

#include <errno.h>
#include <math.h>

/* Above it a double cannot hold every integer, so the one that was meant is not known. */
#define EXACT_MAX 9007199254740992.0 /* 2^53 */

/* V, or the value whose JSON text it is. */
static int value_of(const json_t *v, json_t **ret)
{
	if (!json_is_string(v)) {
		*ret = json_incref((json_t *)(uintptr_t)v);
		return 0;
	}
	const char *text = json_string_value(v);
	const size_t len = json_string_length(v);
	const size_t n = len <= JSON_COERCE_TEXT_MAX
			     ? jsonio_count(text, len, JSON_COERCE_VALUES_MAX, JSONIO_DEPTH_MAX)
			     : 0;
	if (n == 0 || n > JSON_COERCE_VALUES_MAX)
		return -EINVAL;
	const int r = jsonio_read(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, ret, NULL);
	return r < 0 && r != -ENOMEM ? -EINVAL : r;
}

static int of_type(const json_t *v, bool (*is_type)(const json_t *v), json_t **ret)
{
	json_t *value;
	const int r = value_of(v, &value);

	if (r < 0)
		return r;
	if (!is_type(value)) {
		json_decref(value);
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

/* A value that was just made; NULL: there was no memory. */
static int made(json_t *value, json_t **ret)
{
	if (!value)
		return -ENOMEM;
	*ret = value;
	return 0;
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

int json_coerce_number(const json_t *v, json_t **ret)
{
	return of_type(v, is_number, ret);
}

int json_coerce_list(const json_t *v, json_t **ret)
{
	return of_type(v, is_list, ret);
}

int json_coerce_object(const json_t *v, json_t **ret)
{
	json_auto_t *list = NULL;
	int r = of_type(v, is_object, ret);

	if (r != -EINVAL)
		return r;
	r = of_type(v, is_list, &list);
	if (r < 0)
		return r;
	return json_array_size(list) == 0 ? made(json_object(), ret) : -EINVAL;
}

int json_coerce_integer(const json_t *v, json_t **ret)
{
	json_t *number;
	const int r = json_coerce_number(v, &number);

	if (r < 0)
		return r;
	if (json_is_integer(number)) {
		*ret = number;
		return 0;
	}
	const double d = json_number_value(number);
	json_decref(number);
	if (fabs(d) > EXACT_MAX || fpclassify(d - (double)(json_int_t)d) != FP_ZERO)
		return -EINVAL;
	return made(json_integer((json_int_t)d), ret);
}

int json_coerce_text(const json_t *v, json_t **ret)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (!json_is_number(v))
		return -EINVAL;
	text = jsonio_text(v, JSON_ENCODE_ANY, &len);
	return text ? made(json_stringn(text, len), ret) : -ENOMEM;
}

int json_coerce_document(const json_t *v, json_t **ret)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (!json_is_object(v) && !json_is_array(v))
		return -EINVAL;
	text = jsonio_text(v, JSON_INDENT(2), &len);
	return text ? made(json_stringn(text, len), ret) : -ENOMEM;
}

int json_coerce_boolean(const json_t *v, json_t **ret)
{
	bool value = json_is_true(v);

	if (!json_is_boolean(v) &&
	    (!json_is_string(v) || parse_bool(json_string_value(v), &value) < 0))
		return -EINVAL;
	return made(json_boolean(value), ret);
}
