/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one file of a workspace piece by piece.
 *
 * The file has no name until file_writer_commit() has succeeded. If the writer is dropped, or the
 * sandbox or the server ends first, the kernel frees the file and no trace of it stays.
 * Several writers may work in one sandbox, also for the same path: the one that commits last
 * replaces the file of the others, or fails with FILE_EXISTS when it must not replace anything.
 *
 * A writer that waits for more bytes does not make the sandbox busy, because the bytes may come
 * from a slow client. If a checkpoint is being made when the writer commits, the commit waits. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sandbox;
struct file_writer;

struct file_writer_ops {
	/* The file is open: file_writer_add() may be called from now on. */
	void (*on_ready)(void *user);
	/* The end: after a commit, or earlier with E when the file could not be made or the sandbox
	 * has ended. WRITTEN is the size of the file. Called once, unless the writer was dropped;
	 * the writer is gone. May be called from inside file_writer_commit(). */
	void (*on_end)(uint64_t written, const struct err *e, void *user);
};

/* PATH is in the engine's form. Failures: FILE_EXISTS (unless OVERWRITE), SESSION_BUSY during a
 * checkpoint, TOO_MANY_FILES and whatever sandbox_use() says; from here or by on_end. */
int file_writer_new(struct sandbox *s, const char *path, bool overwrite,
		    const struct file_writer_ops *ops, void *user, struct file_writer **ret,
		    struct err *e) MUST_CHECK;
/* Writes now. NO_SPACE: the workspace is full. After a failure the writer can be dropped, or committed
 * with what has been written. */
int file_writer_add(struct file_writer *w, const void *data, size_t len, struct err *e) MUST_CHECK;
uint64_t file_writer_written(const struct file_writer *w);
/* All bytes are written: gives back the descriptor. A commit or drop follows later. */
void file_writer_close(struct file_writer *w);
/* Gives the file its name. */
void file_writer_commit(struct file_writer *w);
/* Forgets the file. Not after file_writer_commit(). NULL is accepted; returns NULL. */
struct file_writer *file_writer_drop(struct file_writer *w);
