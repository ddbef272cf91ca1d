/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles: which tools a client sees, and how the server introduces itself. */
#pragma once

#include "config/settings.h"
#include "tools/tools.h"

#include <stdbool.h>

struct profile {
	const char *profile; /* value of the setting */
	const char *server_name;
	const char *title; /* NULL: none */
	bool log_file;     /* written by default */
	bool code;         /* introduces itself as a server of the first tool family */
	enum tools_profile tools;
	bool full;                /* with resources, prompts, completion and tasks */
	const char *instructions; /* NULL: none */
	const char *icons;        /* JSON array; NULL: none */
	const char *install_tool; /* the one that installs packages; NULL: none */
	bool posts_fail; /* HTTP+SSE: a refused request fails its POST, as the second family does */
};

/* The profile of the settings. */
const struct profile *profile_of(const struct settings *s);
