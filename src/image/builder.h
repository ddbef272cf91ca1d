/* SPDX-License-Identifier: Apache-2.0 */
/* One build from a Dockerfile while it goes on: its scratch folder, and buildah in a space of its own, whose output, time and
 * disk space are watched. */
#pragma once

#include "image/dockerfile.h"
#include "image/image.h"
#include "image/space.h"

#include <limits.h>

#define BUILDER         "buildah"
#define BUILDER_FOLDER  "caisson-dockerfile-" /* in $TMPDIR or /var/tmp; locked while it is used */
#define BUILDER_LINE    512
#define BUILDER_RESERVE (UINT64_C(512) << 20) /* bytes that a build leaves free on the disk */

struct builder {
	const struct image_watch *watch;
	const struct image_dockerfile_options *options;
	const struct dockerfile *d;
	char path[PATH_MAX];  /* of the scratch folder; "" = none */
	int dir;              /* owned; carries the lock */
	int log;              /* borrowed; -1 = none */
	uint64_t deadline;    /* now_ns(); 0 = none */
	uint64_t used_before; /* bytes of the disk when the build began */
	size_t step;          /* that goes on; SIZE_MAX = none yet */
	bool building;        /* its output has lines of steps */
	char line[BUILDER_LINE];
	size_t line_len;
	char error[BUILDER_LINE];       /* the last line that begins with "Error: " */
	char tail[IMAGE_STEP_TAIL + 1]; /* the end of the step's output, whole lines */
};

/* Makes the scratch folder and removes those that killed builds left. */
int builder_open(struct builder *b, struct err *e) MUST_CHECK;
void builder_close(struct builder *b);
/* A folder in it, which the builder may change. Returns a descriptor. */
int builder_folder(struct builder *b, const char *name, struct err *e) MUST_CHECK;
/* A file in it, which the builder may read; nobody else, if SECRET. */
int builder_file(struct builder *b, const char *name, const char *text, size_t len, bool secret,
		 struct err *e) MUST_CHECK;
/* "<scratch>/NAME" */
void builder_path(const struct builder *b, const char *name, char ret[PATH_MAX]);
/* Runs the program to its end. ARGV has the arguments behind the global ones, NULL-terminated. */
int builder_run(struct builder *b, const char *const *argv, bool no_network,
		struct err *e) MUST_CHECK;
