/* SPDX-License-Identifier: Apache-2.0 */
/* Ballast: how a disk in a sparse file promises no more than the host has.
 *
 * The file system of a disk has its full size from the start, and accepts data for every block that it thinks is
 * free. The blocks that the host cannot give are therefore taken: they belong to a file of the disk, the ballast.
 * Then the most that the disk can ever take from the host is known exactly, whatever its sandbox does:
 *
 *	claim = size of the disk - ballast      what the host has to have for it, with
 *	          what it has already           the blocks of the sparse file
 *
 * Ballast is taken in and thrown out while the sandbox works; both are a fallocate(2) or a truncate(2) of a file
 * without data. Where the ballast lies, the sparse file becomes a hole. workspace_space.c decides how much ballast
 * each disk has; without want of space none has any.
 *
 * The ballast is lost+found/ballast (proto.h; init subtracts it from what is used). The root folder of a disk is attached nowhere where a run could see it.
 *
 * These functions are for makers and for the process of workspace_space.c: they wait for the disk. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/* *RET: how far the file system FS, which is in the file IMAGE, can ever fill it. That is not more than the file, and
 * less if somebody made the file longer: what it lacks can never be filled, and must be neither promised nor allocated. */
int ballast_disk_size(int fs, int image, uint64_t *ret) MUST_CHECK;
/* Gives the disk in the file IMAGE, whose root folder is FS, as much ballast as leaves it a claim of CLAIM bytes. It
 * never takes what is in use. *RET: how much ballast the disk has then, also after an error. -errno. */
int ballast_set(int fs, int image, uint64_t claim, uint64_t *ret) MUST_CHECK;

/* Allocates all blocks of the sparse file but those of the ballast, so that no other process of the host can take
 * them. -ENOSPC; -EOPNOTSUPP: the host's file system cannot do it. */
int ballast_back(int fs, int image) MUST_CHECK;

/* Tells the host which blocks of the file system of FD are free, for at most MOST_NS. Whether it told all. */
bool ballast_trim(int fd, uint64_t most_ns);
