/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/promise.h"

#include <stdarg.h>
#include <string.h>

struct err_row {
	const char *name;
	int http;
	int exit;
	const char *hint;
};

static const struct err_row rows[ERR_CODE_MAX_] = {
    [ERR_NONE] = {"ok", 200, 0, ""},
#define E(name, code, http, exit, hint) [ERR_##name] = {code, http, exit, hint},
#include "base/err.tbl.h"
#undef E
};

static const struct err_row *row_of(enum err_code code)
{
	return code < ERR_CODE_MAX_ ? &rows[code] : &rows[ERR_INTERNAL];
}

const char *err_code_name(enum err_code code)
{
	return row_of(code)->name;
}

const char *err_code_hint(enum err_code code)
{
	return row_of(code)->hint;
}

int err_code_http(enum err_code code)
{
	return row_of(code)->http;
}

int err_code_exit(enum err_code code)
{
	return row_of(code)->exit;
}

static int err_return(const struct err *e)
{
	return e->errnum > 0 ? -e->errnum : -EIO;
}

/* Returns the length of what fits. */
PRINTF(2, 0) static size_t format(char ret[ERR_TEXT_MAX], const char *fmt, va_list ap)
{
	if (vsnprintf(ret, ERR_TEXT_MAX, fmt, ap) < 0)
		ret[0] = '\0';
	return strlen(ret);
}

int err_set(struct err *e, enum err_code code, int errnum, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	size_t len = format(text, fmt, ap);
	va_end(ap);
	if (errnum > 0 && len < sizeof(text) - 1)
		(void)snprintf(text + len, sizeof(text) - len, ": %s", strerror(errnum));
	e->code = code;
	e->errnum = errnum > 0 ? errnum : 0;
	memcpy(e->text, text, sizeof(text));
	e->member[0] = '\0';
	return err_return(e);
}

int err_set_member(struct err *e, const char *member)
{
	(void)snprintf(e->member, sizeof(e->member), "%s", member);
	return err_return(e);
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	size_t len = format(text, fmt, ap);
	va_end(ap);
	if (len < sizeof(text) - 1)
		(void)snprintf(text + len, sizeof(text) - len, ": %.*s", (int)(sizeof(text) - len),
			       e->text);
	memcpy(e->text, text, sizeof(text));
	return err_return(e);
}

void assert_failed(const char *expr, const char *file, int line)
{
	(void)promise_broken(expr, file, line);
	abort();
}

bool promise_broken(const char *expr, const char *file, int line)
{
	(void)fprintf(stderr, "caisson: broken promise: %s (%s:%d)\n", expr, file, line);
	return false;
}
