/* SPDX-License-Identifier: Apache-2.0 */
#include "app/profile.h"

#include "base/attr.h"
#include "base/text.h"
#include "tools/tools.h"

/* The icon of the page (web/src/favicon.svg). Clients show it beside the server's name. */
static const char server_icons[] =
    "[{\"src\":\"data:image/svg+xml;base64,"
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9"
    "IjAgMCAzMiAzMiI+PHJlY3Qgd2lkdGg9IjMyIiBoZWlnaHQ9IjMyIiByeD0iNyIg"
    "ZmlsbD0iIzBmNjY3NCIvPjxwYXRoIGQ9Ik03IDExaDE4djE0SDd6IiBmaWxsPSJu"
    "b25lIiBzdHJva2U9IiNmZmYiIHN0cm9rZS13aWR0aD0iMi40IiBzdHJva2UtbGlu"
    "ZWpvaW49InJvdW5kIi8+PHBhdGggZD0iTTcgMTdoMThNMTYgNXY2IiBzdHJva2U9"
    "IiNmZmYiIHN0cm9rZS13aWR0aD0iMi40IiBzdHJva2UtbGluZWNhcD0icm91bmQi"
    "Lz48L3N2Zz4="
    "\",\"mimeType\":\"image/svg+xml\",\"sizes\":[\"any\"]}]";

static const char instructions[] =
    "Runs Python and shell commands in isolated sandboxes. A session is made by the first call; "
    "give "
    "its session_id back to go on with its files in /mnt/data (\"last\" means where you worked "
    "last). Each run of sandbox_run_python starts a fresh interpreter unless stateful is true. "
    "When "
    "a run fails, read the error, correct the code, and run again in the same session. Files of a "
    "run come with a link for the person.";

#define CLASSIC_INSTALLER "install_package_in_sandbox"
#define FULL_INSTALLER    "sandbox_install_packages"

static const struct profile profiles[] = {
    {"code", "code_sandbox_mcp", NULL, true, true, TOOLS_IN_CODE, false, NULL, NULL, NULL, false},
    {"classic", "Python Sandbox Executor", NULL, false, false, TOOLS_IN_CLASSIC, false,
     tools_classic_instructions, NULL, CLASSIC_INSTALLER, true},
    {"both", "caisson", "Caisson", false, true, TOOLS_IN_BOTH, false, NULL, NULL, CLASSIC_INSTALLER,
     true},
    {"full", "caisson", "Caisson", false, true, TOOLS_IN_FULL, true, instructions, server_icons,
     FULL_INSTALLER, false},
    {"all", "caisson", "Caisson", false, true, TOOLS_IN_ALL, true, instructions, server_icons,
     FULL_INSTALLER, false},
};

const struct profile *profile_of(const struct settings *s)
{
	const struct profile *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
		if (streq(profiles[i].profile, s->profile))
			found = &profiles[i];
	ASSERT(found); /* the table of settings has the same words */
	return found;
}
