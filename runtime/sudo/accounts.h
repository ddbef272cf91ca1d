/* SPDX-License-Identifier: Apache-2.0 */
/* Users of /etc/passwd and /etc/group, read by hand: a static program has no name service. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define ACCOUNT_GROUPS 32
#define ACCOUNT_TEXT   256

struct account {
	uid_t uid;
	gid_t gid;
	char name[ACCOUNT_TEXT], home[ACCOUNT_TEXT];
	char shell[ACCOUNT_TEXT]; /* one that can be executed */
};

/* By NAME, or #UID; NULL: by UID. NULL = there is no such user; a number without a line has only that. The account is
 * allocated and stays. */
const struct account *account_of(const char *name, uid_t uid);
/* Its own group and those that name it. Returns their number. */
size_t account_groups(const struct account *a, gid_t ret[ACCOUNT_GROUPS]);
