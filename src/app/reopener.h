/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the log and the settings file again for a server that gave up its privileges.
 *
 * It is a small process that is forked before that, and keeps the rights and the working folder of
 * whoever started the server. It is told which of the two files to open, and no path. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

enum reopen {
	REOPEN_LOG,
	REOPEN_SETTINGS,
};

struct reopener_config {
	const char *log;      /* NULL: there is no log file */
	const char *settings; /* NULL: no file was read */
	bool settings_safe;   /* open it only if nobody else can write it (config_file_open()) */
};

struct reopener;

/* Must be called before there are threads. *RET is NULL if there is nothing to open. */
int reopener_start(const struct reopener_config *c, struct reopener **ret,
		   struct err *e) MUST_CHECK;
/* A new descriptor, or a negative errno; -ENOENT if there is no such file. */
int reopener_open(struct reopener *r, enum reopen what) MUST_CHECK;
struct reopener *reopener_free(struct reopener *r); /* NULL is fine */
