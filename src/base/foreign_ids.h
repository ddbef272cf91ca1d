/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of files in images, on disk: ids that no account and no process of the host has (systemd, docs/UIDS-GIDS.md, "The Foreign
 * UID Range"). An image that has some is marked by a file beside its root; whoever mounts it for a root user maps them back. Images
 * without the mark have the ids themselves, as their packages made them. */
#pragma once

#include <stdint.h>

#define FOREIGN_FIRST UINT32_C(2147352576) /* and the id inside, unless that is 0 */
#define FOREIGN_MARK  "foreign"

static inline uint32_t foreign_id(uint32_t id)
{
	return id == 0 || id >= FOREIGN_FIRST ? id : FOREIGN_FIRST + id;
}
