/* SPDX-License-Identifier: Apache-2.0 */
/* What the monitor's verb needs of the command line, without the other verbs. */
#include "cmd/cmd.h"

#include <stdarg.h>
#include <stdio.h>

int cmd_usage(const char *verb, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fprintf(stderr, "%s: ", verb);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	return err_code_exit(ERR_USAGE);
}
