/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that a person typed at the prompt, in a file of that person: the newest LINE_HISTORY_LINES, one on
 * each line. Several prompts may write at once: each line is one write to the end of the file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LINE_HISTORY_LINES     1000
#define LINE_HISTORY_LINE_MAX  4096          /* bytes; a longer line is not kept */
#define LINE_HISTORY_BYTES_MAX (1024 * 1024) /* of the file; what is before is not read and goes */

/* The path of the file: $XDG_STATE_HOME/caisson/python_history, else below ~/.local/state. False: there is no
 * place for it. */
bool line_history_path(char *ret, size_t size);
/* Opens the file at PATH, made with mode 0600, calls ADD for each line that is kept, the oldest first, and
 * shortens a file that has become too long. Returns a descriptor to append to; -1: there is no history. A file
 * that belongs to somebody else, or is no regular file, is left alone. */
int line_history_open(const char *path, void (*add)(const char *line, void *user), void *user);
/* Whether LINE is worth keeping: not blank, not too long, without control characters but tabs. */
bool line_history_keeps(const char *line);
/* Appends LINE, if it is worth keeping. FD -1 is fine. */
void line_history_add(int fd, const char *line);
