/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles: which tools a client sees, and what the server says of itself. */
#pragma once

#include "config/settings.h"
#include "tools/tools.h"

#include <stdbool.h>

struct profile {
	const char *profile; /* the value of the setting */
	const char *server_name;
	const char *title; /* NULL: none */
	bool log_file;     /* written by default */
	bool code;         /* says what a server of the first family says of itself */
	enum tools_profile tools;
	bool full;                /* with resources, prompts, completion and tasks */
	const char *instructions; /* NULL: none */
	const char *icons;        /* JSON array; NULL: none */
};

/* That of the settings; the last row where they name none. */
const struct profile *profile_of(const struct settings *s);
