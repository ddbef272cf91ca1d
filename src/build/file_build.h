/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/build: one build from a Dockerfile. file_build.c has its course, file_read.c reads what it needs of the workspace. */
#pragma once

#include "build/download.h"
#include "build/task.h"
#include "image/dockerfile.h"
#include "sandbox/process.h"
#include "sandbox/sandbox_work.h"

#define FILE_BUILD_SECONDS 3600

enum file_build_state {
	FILE_BUILD_GOES_ON,
	FILE_BUILD_DONE,
	FILE_BUILD_FAILED,
	FILE_BUILD_CANCELLED,
};

struct file_archive { /* what a sandbox gets or leaves */
	int fd;       /* owned; -1 = not there yet */
	uint64_t len;
	struct sandbox
	    *sandbox; /* reference, of what is left: the file is on its disk, which ends with it */
	struct sandbox_hold hold;
	bool lost;
};

struct file_build {
	struct builds *builds;
	struct sandbox *source; /* reference, until the context is there */
	char owner[SANDBOX_OWNER_MAX + 1];
	char image[ENGINE_NAME_MAX];
	char path[ENGINE_PATH_MAX], folder[ENGINE_PATH_MAX];
	char *target; /* owned; NULL = the last stage */
	json_t *args; /* owned */
	const void *credential;
	void (*line)(const char *text, void *user);
	void (*end)(const struct err *e, void *user);
	void *user;
	bool replaces;
	uint64_t timeout_s;
	enum file_build_state state;
	uint64_t began_ms, ended_ms;
	json_t *other; /* owned: what the process that makes images had done last when this ended */
	char reason[ERR_TEXT_MAX];
	char last_error[BUILD_LINE_MAX + 1]; /* line of the script under way */
	json_t *lines;                       /* owned, array */
	uint64_t dropped;
	struct dockerfile_plan plan;
	char (*images)[ENGINE_NAME_MAX]; /* owned: of each run of the plan */
	struct file_archive context;
	struct file_archive *left; /* owned: of each run, what later ones copy */
	size_t at;                 /* the run under way */
	size_t sent;               /* archives that its sandbox has got */
	struct sandbox *sandbox;   /* reference; NULL = none yet */
	struct sandbox_hold hold;
	bool held, lost;
	struct build_task *task;
	struct build_order *order;       /* borrowed, while it is there */
	struct build_download *download; /* the same */
	size_t downloads;                /* that there were */
	size_t losses;                   /* of images that went before their sandbox began */
	bool planned;
	sd_event_source *deadline;
	bool waits;   /* one callback that cannot be cancelled is still to come */
	bool stopped; /* and then nothing goes on */
};

void file_build_fail(struct file_build *b, const struct err *e);
void file_build_close_archive(struct file_build *b, struct file_archive *a);
/* FD, owned from now on, is what the sandbox under way has left; that is held, and not lost. It stays until nothing needs the file. */
void file_build_keep_left(struct file_build *b, int fd, uint64_t len);
/* What no run copies that is still to come. */
void file_build_close_unneeded(struct file_build *b);
/* Whether B, whose callback this is, has ended meanwhile. */
bool file_build_came_late(struct file_build *b);
/* Reads the Dockerfile and its .dockerignore, and makes the plan. Then file_build_planned(). */
void file_build_read(struct file_build *b);
/* Looks which images there are, for the plan that it has. Then the same. */
void file_build_look(struct file_build *b);
void file_build_planned(struct file_build *b);
/* The image that the run under way begins with is gone. True: it is downloaded once more, then file_build_planned().
 * At most once more than there are runs. */
bool file_build_lost_image(struct file_build *b);
void file_build_say(struct file_build *b, const char *text, size_t len);
/* Which build of another kind was the last. New reference. */
json_t *file_build_last_other(const struct builds *b);
/* Ends and frees the build of B. */
void file_build_done(struct builds *b);
