/* SPDX-License-Identifier: Apache-2.0 */
/* Arrow keys and a history for the prompt of `caisson run -i`.
 *
 * The editor must change the modes of the terminal and write a file of the user. The front may do neither, once
 * it has given up its rights. So the editor is a process of its own, started before: it keeps the rights of the
 * user, and reads nothing but the terminal and single bytes from the front. It edits with libedit, which
 * is loaded in that process alone; without the library there is no editor. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum line_editor_order {
	LINE_EDITOR_FIRST = 'f',     /* show the prompt of a new statement and read a line */
	LINE_EDITOR_MORE = 'm',      /* the same, in the middle of a statement */
	LINE_EDITOR_INTERRUPT = 'i', /* forget what was typed, say so, and go on as with FIRST */
};

struct line_editor {
	int fd; /* lines come from it, each with a newline; its end is the end of the input; -1 = no editor */
	pid_t pid;
};

#define LINE_EDITOR_NONE ((struct line_editor){.fd = -1})

/* Starts the editor if standard input and standard error are a terminal that it can use. HISTORY: keeps the
 * lines in a file of the user (line_history.h). Call it before any other process or thread is started. */
struct line_editor line_editor_start(bool history);
void line_editor_order(const struct line_editor *l, enum line_editor_order order);
/* Ends it and waits until the terminal is as it was. */
void line_editor_end(struct line_editor *l);
