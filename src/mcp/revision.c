/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/revision.h"

#include "base/text.h"

#include <ctype.h>

static const char *const names[MCP_REV_MAX_] = {
    [MCP_REV_NONE] = "",
    [MCP_REV_2024_11_05] = "2024-11-05",
    [MCP_REV_2025_03_26] = "2025-03-26",
    [MCP_REV_2025_06_18] = "2025-06-18",
    [MCP_REV_2025_11_25] = "2025-11-25",
    [MCP_REV_2026_07_28] = "2026-07-28",
};

const char *revision_name(enum mcp_revision rev)
{
	ASSERT(rev < MCP_REV_MAX_);
	return names[rev];
}

enum mcp_revision revision_by_name(const char *name)
{
	for (unsigned i = MCP_REV_NONE + 1; i < MCP_REV_MAX_; i++) {
		if (streq(names[i], name))
			return (enum mcp_revision)i;
	}
	return MCP_REV_NONE;
}

static bool is_date(const char *s, size_t len)
{
	static const char form[] = "dddd-dd-dd";

	if (len != sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (form[i] == 'd' ? !isdigit((unsigned char)s[i]) : s[i] != form[i])
			return false;
	}
	return true;
}

enum version_claim version_classify(const char *header, size_t len)
{
	const char *first_modern = names[MCP_REV_2026_07_28];

	if (!header)
		return VERSION_ABSENT;
	if (!is_date(header, len))
		return VERSION_UNKNOWN;
	/* Dates of this form can be compared as strings. */
	if (memcmp(header, first_modern, len) >= 0)
		return VERSION_MODERN;
	for (unsigned i = MCP_REV_NONE + 1; i <= MCP_REV_LEGACY_MAX; i++) {
		if (memcmp(names[i], header, len) == 0)
			return VERSION_LEGACY;
	}
	return VERSION_UNKNOWN;
}

json_t *revision_modern_names(void)
{
	json_t *all = json_array();

	for (unsigned i = MCP_REV_MAX_ - 1; i > MCP_REV_LEGACY_MAX; i--) {
		if (json_array_append_new(all, json_string(names[i])) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}
