/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker answers when a router asks for a template or a snapshot by its name: GET, with FLEET_LIST_HEADER, and the caller as in
 * every request of a router. 200 with
 *
 *   {"template":{"id":"i…", "at":1764590000000}, "snapshot":null, "have":3, "most":32, "open":1, "open_most":4}
 *
 * TEMPLATE, SNAPSHOT: what has the name; null if there is none. AT: when it was made or built last, ms since 1970. HAVE: templates of the
 * caller; OPEN: builds of the caller that wait or go on, without those that a new build of this name replaces. MOST, OPEN_MOST: what a
 * worker permits of these; 0: it permits no templates. */
#pragma once

enum fleet_kept { FLEET_KEPT_TEMPLATE, FLEET_KEPT_SNAPSHOT, FLEET_KEPT_MAX_ };
#define FLEET_KEPT_MEMBERS                                                                         \
	{                                                                                          \
		"template", "snapshot"                                                             \
	}
