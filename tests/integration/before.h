/* SPDX-License-Identifier: Apache-2.0 */
/* What must be on the host as it was before an engine's processes came and went. The program is a subreaper. */
#pragma once

#include <stddef.h>

struct before {
	size_t processes; /* of this program */
	unsigned mounts;
	unsigned loops; /* of the state folder: the victim has one, too */
};

struct before before_look(const char *dir); /* DIR: the state folder */
/* The group that our youngest child, the monitor of this round, has made: it keeps its folder open. "" = none. */
void before_group_of_newest(char ret[64]);
/* What the kernel takes down after the last process has ended is waited for. Looks are counted, not
 * time: a machine that stands still for a while is no leak. */
void before_expect_again(const struct before *b, const char *group, const char *dir);
