/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles: which tools a client sees, and what the server says of itself. */
#pragma once

#include "config/settings.h"

#include <stdbool.h>

struct profile {
	const char *profile; /* the value of the setting */
	const char *server_name;
	const char *title;        /* NULL: none */
	bool log_file;            /* written by default */
	bool code;                /* the tools of the first family */
	bool classic;             /* those of the second */
	bool full;                /* and the extras */
	const char *instructions; /* NULL: none */
	const char *icons;        /* JSON array; NULL: none */
};

/* That of the settings; the last row where they name none. */
const struct profile *profile_of(const struct settings *s);
