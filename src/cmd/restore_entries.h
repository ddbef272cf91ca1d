/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/attr.h"
#include "base/err.h"

/* Unpacks the backup FD into the empty folder DIR, and checks that it is complete. Nothing of it is in use yet, so the
 * caller removes DIR if this fails. PLACE: where the server has its sandboxes. NAME is for messages. */
struct backup_place;
int restore_entries(int fd, int dir, const struct backup_place *place, const char *name,
		    struct err *e) MUST_CHECK;
