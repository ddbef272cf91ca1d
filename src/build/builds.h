/* SPDX-License-Identifier: Apache-2.0 */
/* What all builds of images in sandboxes share: the orders to the process that makes images, which does one thing at a time, and
 * the commands that are under way (task.h). Loop only. */
#pragma once

#include "base/list.h"
#include "image/image.h"
#include "sandbox/sandbox.h"

#include <jansson.h>

/* Disk space of an image of a sandbox, as whoever has unpacked it tells. */
struct build_image_size {
	uint64_t bytes;   /* of files that the image below it does not have */
	uint64_t folders; /* which it shares with no image */
};

/* The images of the server. Each function returns a new reference; NULL with E: it was refused; NULL with E as it was: no
 * memory. */
struct build_images {
	/* Looks on a thread what has changed in the folder of images, then calls FN once, on the loop, maybe before this
	 * returns. list(), shared(), commit() and api_config.server know what the last look has found. */
	void (*look)(void (*fn)(void *fn_user), void *fn_user, void *user);
	json_t *(*list)(void *user); /* the members of schema Images; NULL: no memory */
	/* Images that are not one user's: an array of objects with `name`, `of_sandbox`, `origin`, which is "" if there is none, `pulled`, when what a build
	 * has downloaded was looked up last in seconds since 1970 (0 = it is none of these), and
	 * `identity`, which another image of that name does not have ("" = unknown). Borrowed, for this turn of the loop. */
	const json_t *(*shared)(void *user);
	/* Whether images may be made of sandboxes at all. */
	int (*may_commit)(void *user, struct err *e);
	/* Begins to build the image NAME, and stops the build under way: schema ImageBuild. */
	json_t *(*build)(const char *name, void *user, struct err *e);
	json_t *(*cancel)(void *user, struct err *e);
	/* Begins to make the image NAME of BASE, which a sandbox of AGE_NS has, and the layer that comes from PIPE, which
	 * is borrowed: schema ImageBuild. NOTE: a JSON object that stays with the image, or NULL. */
	json_t *(*commit)(const char *name, const char *base, uint64_t age_ns, int pipe,
			  const char *note, void *user, struct err *e);
	/* Begins to give an image of a sandbox another note. NULL: begins to remove it. */
	json_t *(*change)(const char *name, const char *note, void *user, struct err *e);
	/* Images that are one user's, with `name`, `note`, which may be null, and the members of struct build_image_size. Reads
	 * the disk, and there may be many: for the start of the server alone. */
	json_t *(*notes)(void *user);
	/* Reads on a thread how much the image NAME takes, then calls FN once, on the loop, maybe before this returns. SIZE NULL:
	 * it is not known. */
	void (*measure)(const char *name,
			void (*fn)(const struct build_image_size *size, void *fn_user),
			void *fn_user, void *user);
	/* Begins to download what builds begin with, a reference that SANDBOX_PULLS permits. SESSION_BUSY: another one is under way. NULL:
	 * there is nothing that could. */
	int (*download)(const char *reference, void *user, struct err *e);
	void (*stop_download)(void *user);
	/* LINE is called for each line of output, ENDED once for each download that was begun: REASON NULL if the image is there, "" if it
	 * was stopped. NULL: nobody is told any more. */
	void (*watch_downloads)(void (*line)(const char *text, void *fn_user),
				void (*ended)(const char *reason, void *fn_user), void *fn_user,
				void *user);
	/* The build under way, or the last one. */
	json_t *(*build_of)(void *user);
	void *user;
};

#define BUILD_REFERENCE_MAX 800 /* bytes of a reference, as image/pulls.h writes it */

struct build_look;
struct file_build;

struct builds_config {
	sd_event *loop; /* borrowed, both, until builds_free() */
	struct manager *manager;
	struct build_images images;
	const char *pulls; /* SANDBOX_PULLS, borrowed as well */
};

struct builds {
	struct builds_config config;
	struct list orders; /* struct build_order, in their order */
	sd_event_source *timer;
	struct build_look *look; /* borrowed; NULL = none is under way */
	struct list tasks;       /* struct build_task */
	struct list downloads;   /* struct build_download (download.h), in their order */
	sd_event_source *downloads_timer;
	char downloading[BUILD_REFERENCE_MAX]; /* the reference; "" = none */
	char downloaded_for[SANDBOX_OWNER_MAX + 1];
	bool download_stopped;
	unsigned
	    download_later_s; /* what the registry has refused is not asked for until then; 0 = ask */
	struct list refusals; /* struct refusal of download.c, oldest first */
	uint64_t download_told_ns;
	char download_told[64];
	struct file_build *file; /* the last one; NULL = none */
};

int builds_new(const struct builds_config *config, struct builds **ret, struct err *e) MUST_CHECK;
/* Ends all commands, whose END is told so (CANCELLED). Before what waits for them goes. NULL is fine. */
void builds_end_tasks(struct builds *b);
/* NULL is fine; returns NULL. */
struct builds *builds_free(struct builds *b);

/* ---- orders (orders.c) ---- */

struct build_order {
	struct list node;
	enum { BUILD_ORDER_COMMIT, BUILD_ORDER_NOTE, BUILD_ORDER_REMOVE } what;
	char image[ENGINE_NAME_MAX];
	char *note;              /* owned */
	struct sandbox *sandbox; /* COMMIT: reference */
	/* Called once; then the order is gone. NULL: nobody asks. */
	void (*fn)(const struct err *e, void *user);
	void *user;
	bool looked; /* COMMIT: what is known of images is up to date */
	bool begun;
	struct build_layer *layer; /* COMMIT: borrowed, while the sandbox writes */
};

/* Takes O, which was allocated. */
void build_order_do(struct builds *b, struct build_order *o);
/* Nobody waits for O any more, and it is not carried out, if there is still time. NULL is fine. */
void build_order_stop(struct builds *b, struct build_order *o);
/* The same, and the image, which is of this build alone, goes again if it was made. */
void build_order_drop(struct builds *b, struct build_order *o);

/* Whether a new order would wait until another image is made or downloaded. Removals and notes are short, and do not count. */
bool build_orders_wait(const struct builds *b);

/* A sandbox of a build ends, and the reference with it. NULL is fine. */
void build_close_sandbox(struct sandbox *s);

/* ---- builds from a Dockerfile (file_build.c) ---- */

#define BUILD_LINES_KEPT 300u               /* lines of output, the last ones */
#define BUILD_ARGS_MAX   100u               /* build arguments */
#define BUILD_MAKING     "making the image" /* the line of the log behind the last step */

struct file_build_spec {
	struct sandbox *
	    sandbox; /* borrowed for the call: its workspace has the Dockerfile and, around it, the build context */
	const char *path;   /* of the Dockerfile, in the workspace */
	const char *target; /* the stage to build; NULL = the last */
	json_t *args;       /* array of "NAME=VALUE", borrowed for the call; NULL = none */
	/* Instead of these four: what the operator's own files say. What it has is taken. */
	struct image_dockerfile_plan *plan;
	bool replaces;          /* IMAGE may be any that is there */
	uint64_t timeout_s;     /* 0 = FILE_BUILD_SECONDS */
	const char *image;      /* name of the result */
	const void *credential; /* of the caller (sandbox/process.h); borrowed until END */
	/* Each line of the log; NULL = nobody asks. */
	void (*line)(const char *text, void *user);
	/* Called once when it has ended in whatever way, maybe before the start has returned. E: why it is not there. */
	void (*end)(const struct err *e, void *user);
	void *user;
};

/* Builds the image from a Dockerfile, in sandboxes of the same owner with a root user, by the network policy of the server. There is one such
 * build at a time (SESSION_BUSY). What it says is in builds_json(). */
int file_build_start(struct builds *b, const struct file_build_spec *spec,
		     struct err *e) MUST_CHECK;
/* Which of ROWS, as images.shared() tells them, is what a Dockerfile calls BASE? */
bool build_find_image(const json_t *rows, const char *base, char ret[ENGINE_NAME_MAX]) MUST_CHECK;
/* The last build of whatever kind, schema ImageBuild; null: none. NULL: no memory. */
json_t *builds_json(const struct builds *b);
/* Stops the build under way, of whatever kind. NULL with E: there is none. */
json_t *builds_cancel(struct builds *b, struct err *e);
