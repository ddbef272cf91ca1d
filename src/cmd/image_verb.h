/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `caisson image` share. */
#pragma once

#include "cmd/progress_line.h"
#include "config/settings.h"
#include "image/image.h"

/* Returns a descriptor that becomes readable on Ctrl-C and similar signals, so that a build can clean up. */
int image_watch_signals(void) MUST_CHECK;
struct image_watch image_watch_for(struct progress_line *line, int cancel_fd);
void image_print_ready(const struct image_manifest *m, uint64_t started);

/* The options of `caisson image build NAME --dockerfile DIR`. */
struct image_dockerfile_args {
	struct image_dockerfile_options o;
	bool other; /* some option was given that needs --dockerfile */
	bool sized; /* --max-size was given */
	enum { BUILDER_AUTO, BUILDER_BUILDAH, BUILDER_SANDBOXES } builder;
	struct settings *settings; /* borrowed; a build in sandboxes takes what they have */
	/* Downloads an image, as `image pull` does. */
	int (*pull)(void *user, const char *name, const char *source, struct err *e);
	void *pull_user;
};
#define IMAGE_DOCKERFILE_USAGE                                                                     \
	"[--builder auto|buildah|sandboxes] [--file FILE] [--target STAGE] [--build-arg "          \
	"NAME=VALUE] [--timeout SECONDS] [--max-size SIZE] [--no-network] [--allow-inside] "       \
	"[--plain-http] [--check]"
/* How many of the arguments ARGV it takes: 0 = it is none of these options. */
int image_dockerfile_option(struct image_dockerfile_args *a, int argc, char **argv,
			    struct err *e) MUST_CHECK;
int image_dockerfile_build(const struct image_store *s, const char *name,
			   struct image_dockerfile_args *a, struct err *e) MUST_CHECK;
/* image_sandboxes.c: without buildah. Prints what was made. */
int image_dockerfile_in_sandboxes(const struct image_store *s, const char *name,
				  struct image_dockerfile_args *a,
				  struct image_dockerfile_facts *facts, struct err *e) MUST_CHECK;
void image_dockerfile_done(struct image_dockerfile_args *a);

/* image_pull.c: what a build begins with, as SANDBOX_PULLS permits it. */
int image_pull_for_build(const struct image_store *s, const struct settings *settings,
			 const char *reference, struct err *e) MUST_CHECK;
/* The keys of which one must have signed SOURCE, a reference; "" = none. */
const char *image_keys_for(const struct settings *s, const char *source);

/* image_commit.c. NOTE_PATH NULL: there is none. OWN: struct image_commit_options. */
int image_commit_verb(const struct image_store *s, const char *name, const char *base,
		      const char *note_path, bool own, struct err *e) MUST_CHECK;
int image_note_verb(const struct image_store *s, const char *name, const char *note_path,
		    struct err *e) MUST_CHECK;
