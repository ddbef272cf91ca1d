/* SPDX-License-Identifier: Apache-2.0 */
/* Shows progress to a person: on a terminal as one line that changes, otherwise as a plain line now
 * and then. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress_line {
	FILE *out; /* borrowed */
	bool tty;
	uint64_t began;
	uint64_t step_began;
	uint64_t last_shown;
	char step[64]; /* "" before the first step */
};

void progress_line_init(struct progress_line *p, FILE *out, bool tty);
/* Callbacks for struct image_watch; USER is the struct progress_line. */
void progress_line_step(void *user, const char *text);
void progress_line_tick(void *user, const char *text, uint64_t done, uint64_t total);
void progress_line_warn(void *user, const char *text);
/* A stranger's text must not steer the terminal: its controls become blanks, except tabs. It is UTF-8. */
void progress_line_clean(char *text);
/* A line that a program in the step has written, above the line that changes. It has no controls. */
void progress_line_output(struct progress_line *p, const char *text);
/* Ends the current step. */
void progress_line_end(struct progress_line *p, bool ok);
