/* SPDX-License-Identifier: Apache-2.0 */
/* What a build from a Dockerfile reads of this machine, in whatever way its steps are done: the Dockerfile, .dockerignore, the build
 * context. */
#pragma once

#include "image/context.h"
#include "image/dockerfile.h"
#include "image/image.h"

struct dockerfile_input {
	const struct image_dockerfile_options *o; /* borrowed, both */
	const struct image_watch *watch;
	int context; /* owned: the folder */
	struct dockerfile d;
	struct ignore ignore;
	struct context taken; /* how much of the context there is, after dockerfile_input_take() */
};

/* Reads and judges all but the files of the context. On failure, too, IN is for dockerfile_input_done(). IN_SANDBOX: the steps are done
 * in sandboxes, whose network policy judges the addresses of ADD. */
int dockerfile_input_open(struct dockerfile_input *in, const char *name,
			  const struct image_dockerfile_options *o, const struct image_watch *w,
			  bool in_sandbox, struct err *e) MUST_CHECK;
void dockerfile_input_done(struct dockerfile_input *in);
/* Copies the context into the folder TO, or TAR; with -1 and NULL it is counted alone. */
int dockerfile_input_take(struct dockerfile_input *in, int to, struct archive *tar,
			  struct err *e) MUST_CHECK;
void dockerfile_input_facts(const struct dockerfile_input *in, struct image_dockerfile_facts *ret);
/* The file NAME in FOLDER, from which no link leads out. A negative errno; -EXDEV: such a link. */
int dockerfile_read_beneath(int folder, const char *name, struct buf *b) MUST_CHECK;
