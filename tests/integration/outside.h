/* SPDX-License-Identifier: Apache-2.0 */
/* What is seen of the engine from outside: processes and control groups, read from /proc and /sys.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* ROOT and every process below it, parents first; at most MAX. */
size_t outside_tree(pid_t root, pid_t *ret, size_t max);
/* The child of PARENT that is called NAME, 0 = none. */
pid_t outside_child(pid_t parent, const char *name);

/* Names of groups called caisson-XXXXXXXX: remembers what is there now … */
void outside_groups_before(void);
/* … and then finds the one that has come since ("" = none). */
void outside_groups_after(char ret[64]);
/* Folders in all trees below a group called NAME (itself not counted). */
size_t outside_groups_below(const char *name);
/* Whether a group called NAME is left. */
int outside_group_exists(const char *name);
