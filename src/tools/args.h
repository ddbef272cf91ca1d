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

struct buf;
struct tool_arg;

/* What a call of the lean family takes, as a new object: values that stand for one of the right type (json_coerce.h), null
 * as left out, and no member that ARGS has not; IGNORED gets their names ("a, b"). NULL: no memory. */
#define ARGS_IGNORED_MAX 512 /* bytes of the names */
json_t *args_coerce(const struct tool_arg *args, const json_t *arguments, struct buf *ignored);

/* True when ARGUMENTS have the names and types of ARGS. Otherwise *RET_TEXT says what is wrong:
 * owned, NULL without memory. */
bool args_check(const char *tool, const struct tool_arg *args, const json_t *arguments,
		char **ret_text);
/* The first argument whose value or length is out of bounds, or whose items are not what its fields
 * say; NULL when there is none. TEXT (ARGS_FAULT_SIZE bytes) says what is wrong. ARGUMENTS have
 * passed args_check(). */
#define ARGS_FAULT_SIZE 256
const struct tool_arg *args_find_fault(const struct tool_arg *args, const json_t *arguments,
				       char *text);

/* Values of checked arguments. */
bool args_bool(const json_t *arguments, const char *name, bool absent);
/* Whether it was given, and is WORD. */
bool args_is(const json_t *arguments, const char *name, const char *word);
/* False when absent or null. */
bool args_int(const json_t *arguments, const char *name, int64_t *ret);
