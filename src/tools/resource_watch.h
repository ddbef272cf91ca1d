/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of files that MCP clients have subscribed to, also between runs and by background processes: one watch of the whole
 * workspace for each sandbox of which somebody has subscribed to a file. */
#pragma once

#include "tools/common.h"

struct resource_watches;

struct resource_watches *resource_watches_new(struct tools *t, struct mcp_server *server);
struct resource_watches *resource_watches_free(struct resource_watches *r); /* NULL is fine */
/* OWNER has one subscription more, or one less, to files of sandbox ID. */
void resource_watches_count(struct resource_watches *r, const char *owner, const char *id,
			    bool more);
/* Does a watch tell the clients of all changes in S? If there should be one and is none, it is begun. */
bool resource_watches_tell(struct resource_watches *r, struct sandbox *s);
