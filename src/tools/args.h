/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the arguments of a tool and says what is wrong in the manner of pydantic, which clients of
 * the first tool family know:
 *
 *   1 validation error for call[sandbox_run_python]
 *   code
 *     Missing required argument [type=missing_argument, input_value={}, input_type=dict]
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arg_type {
	ARG_STRING,
	ARG_STRING_OR_NULL,
	ARG_BOOL, /* also the words and numbers that pydantic takes for one: "yes", 0, "off" ... */
	ARG_INT_OR_NULL,
	ARG_LIST,
	ARG_LIST_OR_NULL,
};

struct arg_spec {
	const char *name;
	enum arg_type type;
	bool required;
};

/* True when ARGUMENTS fit. Otherwise *RET_TEXT says what does not: owned, NULL without memory. */
bool args_check(const char *tool, const struct arg_spec *specs, size_t n, const json_t *arguments,
		char **ret_text);

/* Values of checked arguments. */
bool args_bool(const json_t *arguments, const char *name, bool absent);
/* False when absent or null. */
bool args_int(const json_t *arguments, const char *name, int64_t *ret);
