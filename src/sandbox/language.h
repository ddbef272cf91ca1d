/* SPDX-License-Identifier: Apache-2.0 */
/* The language of code. Cells of JavaScript and TypeScript go to the session like those of Python; a first line that is no Python tells
 * the interpreter to give the rest to the Node process beside it (runtime/python/javascript.py). */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

enum run_language {
	LANGUAGE_PYTHON,
	LANGUAGE_JAVASCRIPT,
	LANGUAGE_TYPESCRIPT,
};

/* As clients know it. */
const char *language_name(enum run_language l);
/* A name or one of its short forms. False: it is none of these. */
bool language_read(const char *name, enum run_language *ret) MUST_CHECK;
/* The language of a file of that name, by its extension: Python, unless it is one of another language. */
enum run_language language_of_file(const char *file);
/* Appends CODE as the engine gets it. -ENOMEM. */
int language_code(struct buf *b, enum run_language l, const char *code, size_t len) MUST_CHECK;
