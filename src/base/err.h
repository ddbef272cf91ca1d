/* SPDX-License-Identifier: Apache-2.0 */
/* Typed errors for failures that a person or a client will read.
 *
 * A function with such failures takes `struct err *e` (on the caller's stack, never NULL) as its
 * last parameter and returns a negative errno. Success leaves `e` untouched; failure leaves the other
 * outputs untouched. Inside a module plain negative errno values are enough.
 * No allocation, any thread, async-signal-safe apart from the formatting itself. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>

enum err_code {
	ERR_NONE = 0,
#define E(name, code, http, exit, hint) ERR_##name,
#include "base/err.tbl.h"
#undef E
	ERR_CODE_MAX_,
};

#define ERR_TEXT_MAX   512
#define ERR_MEMBER_MAX 64

struct err {
	enum err_code code;
	int errnum;              /* positive errno of the cause, 0 when there is none */
	char text[ERR_TEXT_MAX]; /* NUL-terminated UTF-8; cut when longer */
	/* The member of a body, query or call that is wrong; "" = none. */
	char member[ERR_MEMBER_MAX];
};

#define ERR_INIT ((struct err){0})

/* Sets CODE and the message; when ERRNUM (positive) is not 0 its text is appended after ": ".
 * Returns -ERRNUM, or -EIO when ERRNUM is 0, so that `return err_set(...)` reads well. */
int err_set(struct err *e, enum err_code code, int errnum, const char *fmt, ...) PRINTF(4, 5);

/* Puts "context: " before the message that is there. Returns -errnum like err_set(). */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF(2, 3);

/* Names the member of the caller's request that the error is about; cut when longer. Call it after
 * err_set(). Returns -errnum like err_set(). */
int err_set_member(struct err *e, const char *member);

const char *err_code_name(enum err_code code); /* "file_exists" */
const char *err_code_hint(enum err_code code); /* "" when there is none */
int err_code_http(enum err_code code);         /* HTTP status */
int err_code_exit(enum err_code code);         /* process exit status */
