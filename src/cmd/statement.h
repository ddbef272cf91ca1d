/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when the lines that a person typed at a Python prompt are complete and can run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether the LEN bytes of TEXT, which end with a newline, are a whole statement: no bracket,
 * triple-quoted string or backslash is open, and an empty line has ended a block (which a line begins
 * that ends with ':' or starts with '@'). Wrong Python counts as whole: the interpreter reports the
 * error. */
bool statement_is_whole(const char *text, size_t len);

/* Are there only blanks and comments? */
bool statement_is_empty(const char *text, size_t len);
