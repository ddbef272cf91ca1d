/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one file of a workspace piece by piece.
 *
 * The file has no name until file_writer_commit() has succeeded. If the writer is dropped, or the
 * sandbox or the server ends first, the kernel frees the file and no trace of it stays.
 * Several writers may work in one sandbox, also for the same path: the one that commits last
 * replaces the file of the others, or fails with FILE_EXISTS when it must not replace anything.
 *
 * Its states, and what ends each:
 *
 * | state      | the owner drops it      | the sandbox ends        | the engine answers          |
 * |------------|-------------------------|-------------------------|-----------------------------|
 * | OPENING    | remembered              | nothing: engine answers | OPEN, or the end with E;    |
 * |            |                         |                         | if dropped, FORGETTING      |
 * | OPEN       | FORGETTING              | the end with E          | -                           |
 * | WAITING    | FORGETTING              | the end with E          | - (COMMITTING after the     |
 * |            |                         |                         | checkpoint)                 |
 * | COMMITTING | remembered; the file    | nothing: engine answers | the end                     |
 * |            | may still get its name  |                         |                             |
 * | FORGETTING | - (was dropped before)  | nothing: engine answers | freed                       |
 *
 * "Remembered": the owner is never called again and may be freed at once; the writer goes on alone, so
 * that a file that gets its name is counted, logged and shown like any other.
 *
 * A writer that waits for more bytes does not make the sandbox busy, because the bytes may come
 * from a slow client. If a checkpoint is being made when the writer commits, the commit waits. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
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
	 * the writer is gone. May be called from inside file_writer_commit(), and from inside whatever
	 * ends the sandbox. */
	void (*on_end)(uint64_t written, const struct err *e, void *user);
	/* Owed after file_writer_is_full() was true: there is room again. May be NULL. */
	void (*on_room)(void *user);
	/* A write has failed. No more bytes are taken; a commit gives its name to what was written. The writer must not
	 * be dropped from inside. NULL: the writer ends, with on_end. */
	void (*on_failed)(const struct err *e, void *user);
};

/* PATH is in the engine's form. HOW: bits ENGINE_FILE_*. Failures: FILE_EXISTS (unless ENGINE_FILE_OVERWRITE), SESSION_BUSY during a
 * checkpoint, TOO_MANY_FILES and whatever sandbox_use() says; from here or by on_end. */
int file_writer_new(struct sandbox *s, const char *path, unsigned how,
		    const struct file_writer_ops *ops, void *user, struct file_writer **ret,
		    struct err *e) MUST_CHECK;
/* Takes a copy of the bytes, which a thread writes: the file system may be slow. NO_SPACE: the workspace is full. A
 * failure of an earlier write comes by on_failed or on_end. After a failure here the writer can be dropped, or
 * committed with what has been written. */
int file_writer_add(struct file_writer *w, const void *data, size_t len, struct err *e) MUST_CHECK;
/* The same with the bytes of B, which is empty afterwards: megabytes are not copied on the loop. B is the caller's after a
 * failure. */
int file_writer_take(struct file_writer *w, struct buf *b, struct err *e) MUST_CHECK;
/* To be asked before bytes are read or made for the writer. True: on_room is owed, and no more bytes should be added
 * until then. More than FILE_WRITER_FULL bytes wait for the thread, or the owner's writers together have what the budget
 * UPLOAD_MEMORY gives. The bytes that wait count for it; file_writer_add() itself never refuses for it. */
#define FILE_WRITER_FULL (256u << 10)
bool file_writer_is_full(struct file_writer *w);
/* Bytes that were taken and wait for the thread. */
size_t file_writer_waiting(const struct file_writer *w);
/* The same of all writers of S. */
uint64_t file_writers_waiting(const struct sandbox *s);
/* Bytes that were taken. */
uint64_t file_writer_written(const struct file_writer *w);
/* All bytes are written: gives back the descriptor. A commit or drop follows later. In a stored sandbox the bytes are
 * on the disk before the file gets its name: HOST_DISK_FULL if that fails. */
void file_writer_close(struct file_writer *w);
/* Gives the file its name. Only after on_ready; otherwise on_end is called with an error. */
void file_writer_commit(struct file_writer *w);
/* The owner leaves: no callback is called from now on, also not from inside. In every state until on_end
 * was called. Without a commit the file is forgotten. NULL is accepted; returns NULL. */
struct file_writer *file_writer_drop(struct file_writer *w);
