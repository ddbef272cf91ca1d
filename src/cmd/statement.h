/* SPDX-License-Identifier: Apache-2.0 */
/* When is what a person has typed at a Python prompt worth running? */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether the LEN bytes of TEXT, which end with a newline, are a whole statement: no bracket,
 * string of three quotes or backslash is open, and a block (a line that ends with ':' or begins
 * with '@') has been ended by an empty line. Wrong Python counts as whole: the interpreter says
 * what is wrong. */
bool statement_is_whole(const char *text, size_t len);

/* Nothing but space and comments. */
bool statement_is_empty(const char *text, size_t len);
