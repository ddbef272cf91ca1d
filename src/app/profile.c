/* SPDX-License-Identifier: Apache-2.0 */
#include "app/profile.h"

#include "base/attr.h"
#include "base/text.h"
#include "tools/tools.h"

/* An SVG of a prompt in a box. Clients show it beside the server's name. */
static const char server_icons[] =
    "[{\"src\":\"data:image/svg+xml;base64,"
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCA0"
    "OCA0OCI+PHJlY3QgeD0iNSIgeT0iOSIgd2lkdGg9IjM4IiBoZWlnaHQ9IjMwIiByeD0iNiIg"
    "ZmlsbD0iIzFiN2Y1YyIvPjxwYXRoIGQ9Ik0xNCAxOWw2IDUtNiA1IiBmaWxsPSJub25lIiBz"
    "dHJva2U9IiNmZmYiIHN0cm9rZS13aWR0aD0iNCIvPjxwYXRoIGQ9Ik0yNCAzMGgxMCIgc3Ry"
    "b2tlPSIjZmZmIiBzdHJva2Utd2lkdGg9IjQiLz48L3N2Zz4="
    "\",\"mimeType\":\"image/svg+xml\",\"sizes\":[\"any\"]}]";

static const struct profile profiles[] = {
    {"code", "code_sandbox_mcp", NULL, true, true, TOOLS_IN_CODE, false, NULL, NULL},
    {"classic", "Python Sandbox Executor", NULL, false, false, TOOLS_IN_CLASSIC, false,
     tools_classic_instructions, NULL},
    {"both", "caisson", "Caisson", false, true, TOOLS_IN_BOTH, false, NULL, NULL},
    {"full", "caisson", "Caisson", false, true, TOOLS_IN_FULL, true,
     "Runs Python and shell commands in isolated sandboxes without network. A session is made "
     "by the first call; give its session_id back to go on with its files in /mnt/data. Each run "
     "of sandbox_run_python starts a fresh interpreter unless stateful is true. When a run "
     "fails, read stderr, correct the code, and run again in the same session. Files of a run "
     "come with a download_url for people.",
     server_icons},
};

const struct profile *profile_of(const struct settings *s)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(profiles) - 1 && !streq(profiles[i].profile, s->profile))
		i++;
	return &profiles[i];
}
