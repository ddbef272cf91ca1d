/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller may do whose key is narrower than its user: only read, or only use the tools of one
 * profile. */
#include "api/auth/auth.h"

#include "base/text.h"

/* The tools of the exact profiles. A key for `full` or `all` may use every tool that the server shows:
 * both can do everything. */
static const struct {
	const char *profile;
	const char *tool;
} profile_tools[] = {
    {"code", "sandbox_upload_file"},
    {"code", "sandbox_run_python"},
    {"code", "sandbox_read_artifact"},
    {"code", "sandbox_list_artifacts"},
    {"code", "sandbox_close_session"},
    {"classic", "create_sandbox"},
    {"classic", "list_sandboxes"},
    {"classic", "execute_python_code"},
    {"classic", "install_package_in_sandbox"},
    {"classic", "check_package_installation_status"},
    {"classic", "execute_terminal_command"},
    {"classic", "upload_file_to_sandbox"},
};

bool auth_has_all_tools(const struct caller *who)
{
	return !who->profile[0] || streq(who->profile, "full") || streq(who->profile, "all");
}

bool auth_may_call(const void *caller, const char *tool, bool read_only)
{
	const struct caller *w = caller;

	if (w->ended != CALLER_LIVE || (w->read_only && !read_only))
		return false;
	if (auth_has_all_tools(w))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(profile_tools); i++)
		if (streq(profile_tools[i].tool, tool))
			return streq(w->profile, "both") ||
			       streq(w->profile, profile_tools[i].profile);
	return false;
}

unsigned auth_rights(const struct caller *who)
{
	static const char *const profiles[] = {"", "full", "code", "classic", "both"};
	unsigned n = 0;

	while (n < ARRAY_SIZE(profiles) && !streq(who->profile, profiles[n]))
		n++;
	return 2 * n + who->read_only;
}

/* Operations that change something over HTTP, and the tools that do the same: a key for one profile
 * may do an operation if its profile has such a tool. No profile has a tool that removes a stored
 * sandbox, or that makes or revokes a key. */
static const struct {
	const char *operation;
	const char *tool;
} same_as[] = {
    {"createSandbox", "create_sandbox"},     {"startRun", "sandbox_run_python"},
    {"startRun", "execute_python_code"},     {"cancelRun", "sandbox_run_python"},
    {"cancelRun", "execute_python_code"},    {"postFiles", "sandbox_upload_file"},
    {"postFiles", "upload_file_to_sandbox"}, {"putFile", "sandbox_upload_file"},
    {"putFile", "upload_file_to_sandbox"},   {"installPackages", "install_package_in_sandbox"},
};

bool auth_may_ask(const void *caller, const char *method)
{
	const struct caller *w = caller;

	/* Servers with an exact profile do not offer subscriptions to resources. */
	return w->ended == CALLER_LIVE &&
	       (auth_has_all_tools(w) || !streq(method, "resources/subscribe"));
}

bool auth_may_change(const struct caller *who, const char *operation)
{
	if (who->read_only)
		return false;
	if (auth_has_all_tools(who))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(same_as); i++)
		if (streq(same_as[i].operation, operation) &&
		    auth_may_call(who, same_as[i].tool, false))
			return true;
	return false;
}
