/* SPDX-License-Identifier: Apache-2.0 */
/* The page that shows results of tools inside MCP clients (MCP Apps). It is no file of the site: clients read it as a
 * resource. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* False: it was left out of this build. */
bool web_has_results_view(void);
/* Its HTML, LEN bytes. It is unpacked when it is first asked for, and stays. NULL: no memory. For the event loop's thread. */
const char *web_results_view(size_t *len);
