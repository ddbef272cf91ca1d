/* SPDX-License-Identifier: Apache-2.0 */
/* The revisions of the protocol, and the meaning of version strings that clients send. */
#pragma once

#include "mcp/mcp.h"

#define MCP_REV_MAX_ (MCP_REV_2026_07_28 + 1)
#define MCP_REV_LEGACY_MAX                                                                         \
	MCP_REV_2025_11_25 /* our answer to `initialize` with an unknown version
					       */

const char *revision_name(enum mcp_revision rev);
/* MCP_REV_NONE: we do not speak it. */
enum mcp_revision revision_by_name(const char *name);
static inline bool revision_is_modern(enum mcp_revision rev)
{
	return rev >= MCP_REV_2026_07_28;
}

/* What the MCP-Protocol-Version header says about the era. */
enum version_claim {
	VERSION_ABSENT,
	VERSION_LEGACY,  /* a revision before 2026-07-28 that we speak */
	VERSION_MODERN,  /* a date from 2026-07-28 on, supported or not */
	VERSION_UNKNOWN, /* anything else */
};
enum version_claim version_classify(const char *header, size_t len);
/* The modern revisions that we speak, newest first: an array, new reference. */
json_t *revision_modern_names(void);
