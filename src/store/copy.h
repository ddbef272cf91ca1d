/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the database for backups, without a store that is open. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef int (*store_copied_fn)(const char *workspace, void *user, struct err *e);
/* Copies the database PATH, which servers may use meanwhile, to the new file TO: all of it as it is at one moment. Then calls
 * FN, unless it is NULL, with the name of the workspace of each stored sandbox in the copy; a negative result ends that. The copy is
 * flushed. */
int store_copy(const char *path, const char *to, store_copied_fn fn, void *user,
	       struct err *e) MUST_CHECK;
/* Checks that the file PATH, which nobody uses, is a sound database and no newer than this program. */
int store_check_copy(const char *path, struct err *e) MUST_CHECK;
struct store_moved {
	uint64_t users, keys, audit; /* rows that were copied; keys that have not expired */
};
/* Copies users, keys, invitations, sign-ins, secrets and the audit log of the database PATH, which nobody should use meanwhile, into the
 * PostgreSQL database at ADDRESS: all of them, or nothing. ALREADY_EXISTS if that is not empty. Sandboxes and history stay. */
int store_move(const char *path, const char *address, uint64_t audit_keep, struct store_moved *ret,
	       struct err *e) MUST_CHECK;
/* Whether a server has the database PATH open. */
bool store_is_served(const char *path);
