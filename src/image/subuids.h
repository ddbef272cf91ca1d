/* SPDX-License-Identifier: Apache-2.0 */
/* What an administrator enters so that a user gets sub-uids: the same advice wherever it is needed. */
#pragma once

#define SUBUIDS_COMMAND_MAX 512

/* Writes the command into RET. Its range is the first that no entry of ETC/subuid and ETC/subgid touches. ETC is /etc, except in
 * tests. */
void subuids_command(const char *etc, const char *user, char ret[SUBUIDS_COMMAND_MAX]);
