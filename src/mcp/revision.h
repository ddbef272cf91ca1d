/* SPDX-License-Identifier: Apache-2.0 */
/* The revisions of the protocol, and what a version string from outside means. */
#pragma once

#include "mcp/mcp.h"

#define MCP_REV_MAX_       (MCP_REV_2026_07_28 + 1)
#define MCP_REV_LEGACY_MAX MCP_REV_2025_11_25 /* what initialize answers to an unknown version */

const char *revision_name(enum mcp_revision rev);
/* MCP_REV_NONE when it is none that we speak. */
enum mcp_revision revision_by_name(const char *name);
static inline bool revision_is_modern(enum mcp_revision rev)
{
	return rev >= MCP_REV_2026_07_28;
}

/* What the MCP-Protocol-Version header says about the era. */
enum version_claim {
	VERSION_ABSENT,
	VERSION_LEGACY,  /* one of ours before 2026-07-28 */
	VERSION_MODERN,  /* a date from 2026-07-28 on, supported or not */
	VERSION_UNKNOWN, /* anything else */
};
enum version_claim version_classify(const char *header, size_t len);
/* Array of the modern revisions that we speak, newest first: new reference. */
json_t *revision_modern_names(void);
