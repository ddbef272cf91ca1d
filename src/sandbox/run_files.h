/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files that a run made or changed: those directly in the workspace by comparing two
 * inventories, those in folders by the time of their inodes, which no program in the sandbox can choose.
 *
 * What was uploaded is no file of the run, neither during the run nor just before it: the times of files go in
 * ticks, so a file in a folder may have the time at which the run began. No process outlives a run, so between
 * runs only our own uploads and removals change files; these invalidate the inventory after the last run, and
 * the next run then takes one before it starts. During a run they leave the inventory of its start alone. */
#pragma once

#include "sandbox/run_life.h"

/* The clock that the kernel takes the times of files from. It goes in ticks of some milliseconds, so a
 * file that a run makes at once may have the time of its start. */
int64_t file_clock_ns(void);

/* Fills R->artifacts and R->folders, then calls run_report(). If files cannot be listed, the run still
 * has its result, just without them. */
void run_find_files(struct run *r);

/* Makes FILES, which are the caller's, the inventory of R's sandbox, then calls NEXT: now, or when a thread
 * has looked at thousands of them. COMPARE: what differs from the inventory before goes to R->artifacts and
 * R->folders. If it cannot be taken, the inventory is not known. */
void run_take_inventory(struct run *r, const struct engine_file *files, size_t n, bool more,
			bool compare, void (*next)(struct run *r));

/* PATH was uploaded into S and has SIZE bytes, maybe during a run. */
void sandbox_note_upload(struct sandbox *s, const char *path, uint64_t size);
