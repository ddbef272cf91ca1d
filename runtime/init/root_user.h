/* SPDX-License-Identifier: Apache-2.0 */
/* The root user of a sandbox that was made with one (PROTO_CONFIG_ROOT): uid 0 of the sandbox's own user namespace, an id of
 * the host that no other process has. Its programs have the capabilities of walls/root_caps.tbl.h, which hold over the files
 * and processes of the sandbox alone, and a root folder that they can change: an overlay whose upper folder is on the
 * disk of the workspace, so that it counts there. Everything else is as in other sandboxes: the filter of system calls, the
 * namespaces, no_new_privs, so that no program gains rights by a set-user-id bit.
 *
 * init itself stays uid 1000, and keeps the same capabilities and two more: it ends processes of all users, and works on
 * files of all. Why: docs/decisions/0043-root-inside.md. */
#pragma once

#include "init.h"

#define ROOT_USER_ID 0 /* uid and gid inside */

static inline bool root_user_is_there(const struct init *in)
{
	return (in->config.fds & PROTO_CONFIG_ROOT) != 0;
}

/* root_layers.c. Fills the upper folder on the file system STORE, attaches the image of IN over LOWER, and gives the options of the
 * overlay. 0 or -errno. */
#define ROOT_USER_OVERLAY "lowerdir=lower,upperdir=ws/root/up,workdir=ws/root/work,userxattr"
int root_user_layers(struct init *in);
/* The upper folder: borrowed, for the life of init; -1 = there is no root user. */
int root_user_upper(void);

/* layer.c. Writes the upper folder to PIPE as the layer of a container image: a tar in the form of POSIX, with `.wh.NAME` for
 * what is removed and `.wh..wh..opq` for folders that hide those of the image. Owners are ids inside, and permissions
 * are kept but for set-id bits. Sockets and devices are skipped and counted. For the copier, because it blocks. 0 or -errno. */
int root_user_write_layer(int pipe, struct tree_count *count);

/* Takes from the bounding set, and from init, what it does not keep. 0 or -errno; -EPERM: something is left that must not
 * be. Ambient capabilities are gone. */
int root_user_drop(void);

/* Whether TEXT, of proc(5), CapBnd, is the bounding set of the processes that init has started. */
bool root_user_bounds(const struct init *in, const char *text);

/* In a run between fork and exec: becomes the root user, or lets go of the capabilities of init, so that the working folder
 * and the program are those that the user may have. 0 or -errno. */
int root_user_become(void);
int root_user_leave(void);

/* Files that init makes from BEGIN to END belong to the root user if PATH is in a folder of the image. END takes what BEGIN
 * returned. */
bool root_user_files_begin(const struct init *in, const char *path);
void root_user_files_end(bool begun);
