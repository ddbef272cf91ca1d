/* SPDX-License-Identifier: Apache-2.0 */
/* What an administrator enters so that a user gets sub-uids: the same advice wherever it is needed. */
#pragma once

#include "base/attr.h"

#include <stdint.h>

#define SUBUIDS_COMMAND_MAX 512

/* Writes the command into RET. Its range is the first that no entry of ETC/subuid and ETC/subgid touches. ETC is /etc, except in
 * tests. */
void subuids_command(const char *etc, const char *user, char ret[SUBUIDS_COMMAND_MAX]);
/* The first range of FILE (/etc/subuid) that USER, by name or by UID, has. -ENOENT: none. */
int subuids_find(const char *file, const char *user, uint32_t uid, uint32_t *ret_first,
		 uint32_t *ret_count) MUST_CHECK;
