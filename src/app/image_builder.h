/* SPDX-License-Identifier: Apache-2.0 */
/* Builds images for a server that gave up its privileges.
 *
 * The image builder is a small process that is forked before that. It keeps the rights, the
 * environment and the working folder of whoever started the server. It is told the place of a name
 * in a list that was complete before it was forked, or to stop; never a path or a package. So
 * a front that was taken over can only have images built that the operator has definitions of, and the
 * server's image downloaded where it is missing. For a build it starts `caisson image build NAME`, for a
 * download `caisson image pull`, one at a time. If the server ends in whatever way, it
 * stops the build, which removes what it made, and ends.
 *
 * A second such process downloads what builds begin with, so that nobody waits for a download who needs none. It is told references, and the
 * command that it starts judges them by SANDBOX_PULLS.
 *
 * It is told names for one thing: an image of what a sandbox has changed, which comes through a pipe (`caisson image commit`).
 * That replaces no image that was made in another way. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <systemd/sd-event.h>

struct image_builder_config {
	const char *const *names; /* of the definitions; borrowed until image_builder_free() */
	size_t n;
	const char *pulled; /* the image that may be downloaded; borrowed as well; NULL: none */
	/* Names and values of settings that a build gets by its environment, where no other account can read
	 * them; borrowed by the process. */
	const char *(*env)[2];
	size_t n_env;
	bool commits; /* images may be made of sandboxes */
	const char *
	    own; /* the one name that these may have, and then they are the operator's; NULL = any, and they are not */
	bool bases; /* what builds begin with may be downloaded */
};

struct image_builder;

/* Must be called with privileges and before there are threads. */
int image_builder_start(const struct image_builder_config *c, struct image_builder **ret,
			struct err *e) MUST_CHECK;
int image_builder_attach(struct image_builder *b, sd_event *loop) MUST_CHECK; /* NULL is fine */
/* Stops the build under way, and waits a moment for its end. NULL is fine; returns NULL. */
struct image_builder *image_builder_free(struct image_builder *b);

/* Begins to build the image. ERR_NOT_FOUND: there was no such definition at the start.
 * ERR_SESSION_BUSY: another build is under way. */
int image_builder_build(struct image_builder *b, const char *name, struct err *e) MUST_CHECK;
/* Begins to download the one image. The same errors. */
int image_builder_pull(struct image_builder *b, struct err *e) MUST_CHECK;
/* Begins to download what a build begins with. Also ERR_INVALID_ARGUMENT. */
int image_builder_pull_base(struct image_builder *b, const char *reference,
			    struct err *e) MUST_CHECK;
/* Begins to make the image NAME of BASE and the layer that comes from PIPE, which is borrowed. NOTE: a JSON object that its manifest
 * keeps, or NULL. Also ERR_INVALID_ARGUMENT. */
int image_builder_commit(struct image_builder *b, const char *name, const char *base, int pipe,
			 const char *note, struct err *e) MUST_CHECK;
/* Begins to give the image NAME, which was made of a sandbox, another note. NULL: begins to remove it. */
int image_builder_change(struct image_builder *b, const char *name, const char *note,
			 struct err *e) MUST_CHECK;
/* The image that is being built or downloaded; NULL: none. */
const char *image_builder_busy(const struct image_builder *b);
/* Called from the loop for each line of the output, and when it has ended: IS_THERE, or REASON says why not ("" =
 * it was cancelled). There is one watch. */
struct image_builder_watch {
	void (*line)(void *user, const char *image, const char *text);
	void (*ended)(void *user, const char *image, bool is_there, const char *reason);
	void *user;
};
void image_builder_set_watch(struct image_builder *b, const struct image_builder_watch *w);
/* Tells the build under way to stop. ERR_NOT_FOUND: there is none. */
int image_builder_cancel(struct image_builder *b, struct err *e) MUST_CHECK;
/* The last build (docs/rest.md, schema ImageBuild). New reference; null: there was none; NULL: no
 * memory. */
json_t *image_builder_json(const struct image_builder *b);

/* ---- the messages between both halves ---- */

#define IMAGE_ORDER_NAME      64
#define IMAGE_ORDER_REFERENCE 800
#define IMAGE_NOTE_MAX        (64u << 10) /* bytes */

enum image_order {
	IMAGE_ORDER_BUILD = 1,
	IMAGE_ORDER_CANCEL,
	IMAGE_ORDER_PULL,
	IMAGE_ORDER_COMMIT, /* the layer comes with it, as a descriptor, and then the note, if there is one */
	IMAGE_ORDER_NOTE, /* the note comes with it */
	IMAGE_ORDER_REMOVE,
	IMAGE_ORDER_PULL_BASE,
};

struct image_order_msg {
	uint32_t order;
	uint32_t which; /* BUILD: place in `names` */
	/* Names of images, with a NUL; BASE of a COMMIT alone */
	char name[IMAGE_ORDER_NAME];
	char base[IMAGE_ORDER_NAME];
	char reference[IMAGE_ORDER_REFERENCE]; /* PULL_BASE alone */
};

enum image_news {
	IMAGE_NEWS_BEGUN = 1, /* the reading end of the build's output comes with it */
	IMAGE_NEWS_ENDED,     /* `status` is an exit status, or 128 + signal */
};

struct image_news_msg {
	uint32_t news;
	int32_t status; /* BEGUN: 0, or why it could not be started (errno) */
};

/* image_builder_process.c: the process. CHANNEL: its end of the socket pair. */
NORETURN void image_builder_serve(int channel, const struct image_builder_config *c);
